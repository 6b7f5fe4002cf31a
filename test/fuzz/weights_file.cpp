// Whatever a training checkpoint with a valid checksum contains, it is read or refused; an accepted one, including its
// run settings, survives writing and reading.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/box.hpp>
#include <unity/train/run_settings.hpp>

#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

namespace {

// By tensor, its row-major values.
std::vector<std::string> values_of(const unity::io::weights_reader& file) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < file.header().tensors.size(); ++i) {
    const auto& t = file.header().tensors[i];
    auto& values = all.emplace_back(t.byte_count(), '\0');
    file.get(i, unity::parallel::whole(t.dims), std::as_writable_bytes(std::span{values}));
  }
  return all;
}

std::string written(const unity::io::weights_header& h, const std::vector<std::string>& tensors) {
  std::string values;
  for (const auto& t : tensors) {
    values.resize(unity::io::sealed_aligned(values.size()));
    values += t;
  }
  return unity::test::sealed_of(unity::io::weights_line, unity::io::detail::weights_header_text(h, "again"), values);
}

std::optional<unity::train::run_settings> settings_of(const unity::io::weights_header& h) {
  try {
    return unity::train::settings_in(h, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return std::nullopt;  // refused: not settings of an optimizer
  }
}

// Compares with the settings of another run.
void compare(const unity::train::run_settings& s) {
  try {
    unity::train::expect_same(s, {}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static unity::test::memory_file file;
  const auto input = unity::test::split_input(data, size);
  file.assign(unity::test::sealed_of(unity::io::weights_line, input.header, input.values));
  std::optional<unity::io::weights_reader> first;
  try {
    first.emplace(file.path());
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a checkpoint
  }
  const auto values = values_of(*first);
  static unity::test::memory_file again;
  again.assign(written(first->header(), values));
  const unity::io::weights_reader second{again.path()};
  if (!(second.header() == first->header()) || values_of(second) != values) {
    __builtin_trap();
  }
  if (const auto s = settings_of(first->header())) {
    compare(*s);
    if (settings_of(unity::train::header_of(*s, first->header().step)) != s) {
      __builtin_trap();
    }
  }
  return 0;
}
