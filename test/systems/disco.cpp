// DisCo's search against compilers' heuristics, its bound, and itself; and on HLO.
#include <unity/systems/disco.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/strategy.hpp>

#include "../fusion/random_instructions.hpp"
#include "../support/cases.hpp"

namespace disco_test {

using namespace unity;
using namespace unity::systems;

// Gives each instruction the time of a kernel of its own under the machine's roofline.
fusion::instruction_graph by_roofline(const fusion::instruction_graph& g, const fusion::fusion_target& t) {
  fusion::instruction_graph all;
  for (fusion::instruction_id i = 0; i < g.size(); ++i) {
    auto x = g[i];
    double reads = 0;
    for (const auto& o : g.operands(i)) {
      reads += o.bytes;
    }
    x.duration = t.kernels.time_of({x.arithmetic, reads, x.size, 1});
    all.add(std::move(x), g.operands(i));
  }
  all.finish();
  return all;
}

picoseconds iteration(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                      const fusion::fusion_strategy& s) {
  fusion::fusion_session session{g, t};
  session.reset(s);
  return session.times().iteration;
}

// The bytes of each bucket, in the order of the buckets' first all-reduces.
std::vector<double> bucket_sizes(const fusion::instruction_graph& g, const fusion::fusion_strategy& s) {
  std::vector<double> all;
  for (const auto& members : fusion::members_of(s)) {
    double size = 0;
    for (const auto m : members) {
      size += g.reduces(m) ? g[m].size : 0;
    }
    if (size > 0) {
      all.push_back(size);
    }
  }
  return all;
}

TEST_CASE("DisCo strategies respect the lower bound and the search is no worse than its start") {
  for (std::uint64_t seed = 1; seed <= test::cases(10); ++seed) {
    INFO("seed " << seed);
    random_engine random{seed};
    auto t = test::random_target(random);
    t.limits = {};
    const auto measured = test::random_instructions(random, 120);  // some take less than a launch and their reads
    for (const auto& b : fusion_baselines(measured, t)) {
      CHECK(iteration(measured, t, b.strategy) >= full_overlap_bound(measured, t));
    }
    const auto g = by_roofline(measured, t);
    const auto bound = full_overlap_bound(g, t);
    disco_options o;
    o.patience = 50;
    o.moves.seed = seed;
    for (const auto& b : fusion_baselines(g, t)) {
      const auto time = iteration(g, t, b.strategy);
      INFO(b.name);
      CHECK(time >= bound);
      if (b.name == "tvm") {
        const auto found = disco_search(g, t, b.strategy, o);
        CHECK(found.times.iteration <= time);
        CHECK(found.times.iteration >= bound);
        CHECK(found.times.iteration.count() == found.history.back().cost);
      }
    }
    const auto found = disco_search(g, t, fusion::unfused(g), o);
    CHECK(found.times.iteration < iteration(g, t, fusion::unfused(g)));
    CHECK(found.times.iteration == iteration(g, t, found.strategy));
    const auto again = disco_search(g, t, fusion::unfused(g), o);
    CHECK(again.strategy == found.strategy);
  }
}

TEST_CASE("gradient bucket rules (combined/DDP/Horovod) respect their limits") {
  random_engine random{4};
  const auto t = test::random_target(random);
  const auto g = test::random_instructions(random, 400);
  const auto sizes = [&](const fusion::fusion_strategy& s) { return bucket_sizes(g, s); };
  const auto plain = sizes(fusion::unfused(g));
  const auto largest = *std::max_element(plain.begin(), plain.end());
  const auto combined = sizes(combined_reductions(g, t, fusion::unfused(g), 2500));
  CHECK(combined.size() < plain.size());
  CHECK(*std::max_element(combined.begin(), combined.end()) <= std::max(2500.0, largest));
  // A bucket is closed once it holds enough, so it exceeds the size by at most one gradient.
  const auto ddp = sizes(ddp_buckets(g, t, fusion::unfused(g), 2500, 500));
  CHECK(*std::max_element(ddp.begin(), ddp.end()) <= 2500 + largest);
  CHECK(sizes(horovod_buckets(g, t, fusion::unfused(g), 1e9, picoseconds{1})).size() == plain.size());
}

TEST_CASE("gradient bucket rules (combined/DDP/Horovod) give the buckets that their definitions ask for") {
  // Gradients that become ready at 1000, 2000, .. 8000 ps.
  fusion::instruction_graph g;
  std::vector<fusion::instruction_operand> before;
  for (const double size : {400, 300, 900, 100, 100, 100, 2000, 50}) {
    fusion::instruction gradient;
    gradient.role = fusion::instruction_role::alone;
    gradient.size = size;
    gradient.duration = picoseconds{1000};
    const auto made = g.add(gradient, before);
    before = {{made, size}};
    fusion::instruction sum;
    sum.role = fusion::instruction_role::all_reduce;
    sum.size = size;
    sum.leaves = true;
    g.add(sum, before);
  }
  g.finish();
  fusion::fusion_target t;
  t.kernels.bytes_per_picosecond = 0.5;
  t.kernels.launch = picoseconds{1000};
  t.all_reduce = fusion::reduction_line{1, 100};
  const auto plain = fusion::unfused(g);
  using sizes = std::vector<double>;
  CHECK(bucket_sizes(g, plain) == sizes{400, 300, 900, 100, 100, 100, 2000, 50});
  CHECK(bucket_sizes(g, combined_reductions(g, t, plain, 1000)) == sizes{700, 1000, 200, 2000, 50});
  CHECK(bucket_sizes(g, ddp_buckets(g, t, plain, 1000, 500)) == sizes{700, 1000, 2200, 50});
  // The third and the sixth gradient begin a cycle.
  CHECK(bucket_sizes(g, horovod_buckets(g, t, plain, 1000, picoseconds{3000})) ==
        sizes{700, 1000, 100, 100, 2000, 50});
  CHECK(bucket_sizes(g, horovod_buckets(g, t, plain, 1000, picoseconds{1'000'000})) ==
        sizes{700, 1000, 200, 2000, 50});
}

TEST_CASE("XLA fuses nothing behind products and reductions and TVM only values with one reader") {
  random_engine random{9};
  auto t = test::random_target(random);
  t.limits = {};
  const auto g = test::random_instructions(random, 300);
  const auto by_xla = xla_kernels(g, t);
  CHECK_FALSE(by_xla.copies.empty());
  CHECK(fusion::count_groups(g, by_xla).fused > 0);
  for (const auto& members : fusion::members_of(by_xla)) {
    for (const auto m : members) {
      for (const auto& o : g.operands(m)) {
        if (std::find(members.begin(), members.end(), o.from) != members.end()) {
          CHECK_FALSE(g[o.from].is_head());
          CHECK(g[o.from].kind != fusion::operator_class::reduction);
        }
      }
    }
  }
  const auto s = tvm_kernels(g, t);
  CHECK(s.copies.empty());
  std::size_t fused = 0;
  for (const auto& members : fusion::members_of(s)) {
    fused += members.size() > 1 && g.computes(members.front()) ? 1 : 0;
    for (const auto m : members) {
      const bool is_read_inside = std::any_of(g.readers(m).begin(), g.readers(m).end(), [&](auto r) {
        return std::find(members.begin(), members.end(), r) != members.end();
      });
      CHECK((!is_read_inside || g.readers(m).size() == 1));
    }
  }
  CHECK(fused > 0);
}

}  // namespace disco_test
