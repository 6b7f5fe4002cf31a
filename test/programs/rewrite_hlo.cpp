// usage: test_rewrite_hlo IN --out OUT [--seed N]: HLO text read and written; with a seed, what XLA can fuse is fused
// at random, and all-reduces are combined. examples/hlo/make_hlo_dumps.py asks XLA what it makes of it.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/random.hpp>
#include <unity/io/hlo_text.hpp>

#include "../support/random_hlo_edits.hpp"

int main(int argc, char** argv) {
  using namespace unity;
  try {
    std::map<std::string, std::string> flags;
    for (int i = 2; i + 1 < argc; i += 2) {
      flags[argv[i]] = argv[i + 1];
    }
    if (argc < 2 || !flags.contains("--out")) {
      fmt::print(stderr, "usage: test_rewrite_hlo IN --out OUT [--seed N]\n");
      return 2;
    }
    auto m = io::read_hlo(argv[1]);
    if (flags.contains("--seed")) {
      random_engine random{to_number<std::uint64_t>(flags["--seed"]).value_or(0)};
      m = test::edited_at_random(std::move(m), random, true).module;
      io::check(m, "rewritten");
    }
    atomic_write(flags["--out"], io::to_text(m));
  } catch (const std::exception& e) {
    fmt::print(stderr, "test_rewrite_hlo: {}\n", e.what());
    return 1;
  }
  return 0;
}
