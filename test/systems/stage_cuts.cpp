// Cuts into stages against all cuts there are.

#include <unity/systems/unity/stage_cuts.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>

namespace tests_of_stage_cuts {

using namespace unity;
using systems::stage_piece;

namespace {

// {excess, slowest} of cuts before the pieces `first`.
std::pair<std::int64_t, std::int64_t> worth(const std::vector<stage_piece>& pieces,
                                            const std::vector<std::size_t>& first, std::int64_t microbatches,
                                            std::int64_t limit) {
  std::int64_t excess = 0;
  std::int64_t slowest = 0;
  for (std::size_t k = 0; k < first.size(); ++k) {
    const auto end = k + 1 < first.size() ? first[k + 1] : pieces.size();
    std::int64_t takes = k == 0 ? 0 : pieces[first[k] - 1].sends;
    std::int64_t weights = 0;
    std::int64_t activations = 0;
    for (auto i = first[k]; i < end; ++i) {
      takes += pieces[i].takes;
      weights += pieces[i].weights;
      activations += pieces[i].activations;
    }
    const auto held = std::min(microbatches, static_cast<std::int64_t>(first.size() - k));
    slowest = std::max(slowest, takes);
    excess += limit == 0 ? 0 : std::max<std::int64_t>(0, weights + held * activations - limit);
  }
  return {excess, slowest};
}

void try_all(const std::vector<stage_piece>& pieces, std::size_t stages, std::vector<std::size_t>& first,
             std::int64_t microbatches, std::int64_t limit, std::pair<std::int64_t, std::int64_t>& best) {
  if (first.size() == stages) {
    best = std::min(best, worth(pieces, first, microbatches, limit));
    return;
  }
  for (auto i = first.back() + 1; i < pieces.size(); ++i) {
    first.push_back(i);
    try_all(pieces, stages, first, microbatches, limit, best);
    first.pop_back();
  }
}

}  // namespace

TEST_CASE("cuts are the best of all there are") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    std::vector<stage_piece> pieces(1 + random.below(9));
    for (auto& p : pieces) {
      p = {static_cast<std::int64_t>(random.below(20)), static_cast<std::int64_t>(random.below(6)),
           static_cast<std::int64_t>(random.below(10)), static_cast<std::int64_t>(random.below(10))};
    }
    const auto stages = 1 + random.below(pieces.size());
    const auto microbatches = static_cast<std::int64_t>(1 + random.below(6));
    const auto limit = static_cast<std::int64_t>(random.below(3) == 0 ? 0 : 10 + random.below(40));
    const auto found = systems::cut_into_stages(pieces, stages, microbatches, limit);
    REQUIRE(found.first.size() == stages);
    CHECK(found.first[0] == 0);
    CHECK(std::adjacent_find(found.first.begin(), found.first.end(), [](auto a, auto b) { return a >= b; }) ==
          found.first.end());
    std::pair best{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()};
    std::vector<std::size_t> first{0};
    try_all(pieces, stages, first, microbatches, limit, best);
    CHECK(worth(pieces, found.first, microbatches, limit) == std::pair{found.excess, found.slowest});
    CHECK(found.excess == best.first);
    // Slowest is the least only among cuts whose parts have least excess each: without a limit, among all.
    if (limit == 0) {
      CHECK(found.slowest == best.second);
    }
  }
}

}  // namespace tests_of_stage_cuts
