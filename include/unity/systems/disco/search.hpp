// Which kernels to fuse and which gradients to reduce together, searched.
// Source: Yi et al., DisCo, TPDS 2022, section 4.5, Algorithm 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/fusion/target.hpp>
#include <unity/search/result.hpp>
#include <unity/systems/disco/space.hpp>

namespace unity::systems {

struct disco_options {
  double alpha = 1.05;
  disco_moves moves{};
  std::uint64_t patience = 1000;  // expansions without a better strategy
  std::size_t threads = 1;        // the result does not depend on it, but for a limit of time
  budget limits{};                // of all rounds together
  // Goes on from the best with moves of fewer changes, down to one, for as long as a round finds something. Without:
  // one round, as the paper has it.
  bool refine = true;
  std::string checkpoint{};  // file to write in the first round; empty: none
};

struct disco_result {
  fusion::fusion_strategy strategy{};
  fusion::fusion_times times{};
  std::vector<improvement> history{};  // costs in picoseconds; the first is that of the start
  counters counts{};
  double seconds = 0;
  stop_reason stopped = stop_reason::converged;  // of the last round
};

// The best that was found from the start. Equal inputs and seeds give equal results where no limit of time ends it.
// Precondition: the start is a strategy of the graph, within the target's limits.
[[nodiscard]] disco_result disco_search(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                        fusion::fusion_strategy start, const disco_options& o = {});

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DISCO_SEARCH)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/search/backtracking.hpp>

namespace unity::systems {

UNITY_INLINE disco_result disco_search(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                       fusion::fusion_strategy start, const disco_options& o) {
  stopwatch clock;
  disco_result r;
  r.strategy = std::move(start);
  constexpr std::size_t steps = 3;  // of a cycle: moves of up to `most` changes, of a third of that, and of one
  auto moves = o.moves;
  std::size_t idle = 0;
  for (std::size_t round = 0; idle < 2 * steps; ++round) {
    if (round % steps == 0) {
      moves.most = o.moves.most;
    }
    disco_space space{g, t, r.strategy, moves};
    backtracking_options b;
    b.alpha = o.alpha;
    b.patience = o.patience;
    b.threads = o.threads;
    b.limits = o.limits;
    b.limits.seconds = std::max(o.limits.seconds - clock.seconds(), 0.0);
    b.limits.expansions = o.limits.expansions - std::min(r.counts.expanded, o.limits.expansions);
    b.checkpoint = round == 0 ? o.checkpoint : "";
    const auto before = clock.seconds();
    const auto s = backtracking(space, b);
    for (auto h : s.history) {
      if (r.history.empty() || h.cost < r.history.back().cost) {
        h.seconds += before;
        h.expanded += r.counts.expanded;
        r.history.push_back(h);
      }
    }
    idle = s.cost < s.history.front().cost ? 0 : idle + 1;
    r.counts.expanded += s.counts.expanded;
    r.counts.candidates += s.counts.candidates;
    r.counts.rejected += s.counts.rejected;
    r.counts.duplicates += s.counts.duplicates;
    r.strategy = s.best.strategy;
    r.stopped = s.stopped;
    const bool is_over = s.stopped != stop_reason::converged && s.stopped != stop_reason::exhausted;
    if (!o.refine || is_over) {
      break;
    }
    moves.most = static_cast<std::uint8_t>(std::max(moves.most / 3, 1));
    moves.seed = mix64(moves.seed + 1);
  }
  fusion::fusion_session session{g, t};
  session.reset(r.strategy);
  r.times = session.times();
  r.seconds = clock.seconds();
  return r;
}

}  // namespace unity::systems

#endif
