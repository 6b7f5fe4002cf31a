// HLO modules as instructions, and strategies in modules.
#include <unity/io/hlo_instructions.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/io/hlo_text.hpp>

#include "../fusion/random_instructions.hpp"
#include "../support/cases.hpp"
#include "hlo_dumps.hpp"

namespace hlo_instructions_test {

using namespace unity;

const fusion::kernel_model kernels{0.5, picoseconds{5'000'000}, {}};

std::size_t all_reduces(const io::hlo_module& m) {
  const auto& all = m[m.entry].instructions;
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const auto& i) { return i.is("all-reduce"); }));
}

TEST_CASE("instructions_of gives each HLO instruction its bytes and role") {
  const auto m =
      io::read_hlo(std::filesystem::path{UNITY_TEST_SOURCE_DIR} / "test/io/hlo_data" / "data_parallel.unfused.hlo");
  const auto all = io::instructions_of(m, kernels, 1e12);
  const auto& g = all.graph;
  std::size_t reduces = 0;
  std::size_t leaving = 0;
  for (fusion::instruction_id i = 0; i < g.size(); ++i) {
    const auto& x = m[m.entry][all.of[i]];
    INFO(x.name);
    CHECK(g[i].size == io::byte_count(x.shape));
    CHECK(g.reduces(i) == x.is("all-reduce"));
    CHECK((g.role(i) == fusion::instruction_role::source) == (x.is("parameter") || x.is("constant")));
    reduces += g.reduces(i) ? 1 : 0;
    leaving += g[i].leaves ? 1 : 0;
    for (const auto& o : g.operands(i)) {
      CHECK(o.bytes <= io::byte_count(m[m.entry][all.of[o.from]].shape));
    }
  }
  CHECK(reduces == all_reduces(m));
  CHECK(reduces > 1);
  CHECK(leaving > 0);
}

TEST_CASE("random strategies on dumped modules give valid HLO with an all-reduce per bucket") {
  for (const auto& file : test::hlo_dumps()) {
    const auto name = file.filename().string();
    const auto m = io::read_hlo(file);
    const auto all = io::instructions_of(m, kernels, 1e12);
    fusion::fusion_target target;
    target.limits = io::hlo_limits();
    target.kernels = kernels;
    target.all_reduce = fusion::reduction_line{1, 1e6};
    for (std::uint64_t seed = 1; seed <= test::cases(4); ++seed) {
      INFO(name << ", seed " << seed);
      random_engine random{seed};
      const auto made = io::with_fusions(m, all, test::random_strategy(all.graph, target, random, 400));
      REQUIRE_NOTHROW(io::check(made.module, name));
      CHECK(io::parse_hlo(io::to_text(made.module), name) == made.module);
      CHECK(made.module[made.module.entry].instructions.size() > 0);
      // Groups that were left out run as single operators, which can be priced.
      fusion::fusion_session again{all.graph, target};
      again.reset(made.strategy);
      CHECK(again.times().iteration > picoseconds{});
      std::size_t buckets = 0;
      for (const auto& members : fusion::members_of(made.strategy)) {
        buckets += !members.empty() && all.graph.reduces(members.front()) ? 1 : 0;
      }
      CHECK(all_reduces(made.module) == buckets);
    }
  }
}

}  // namespace hlo_instructions_test
