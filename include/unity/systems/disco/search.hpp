// Searches for kernels to fuse and gradients to reduce together.
// Source: Yi et al., DisCo, TPDS 2022, section 4.5, Algorithm 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

// backtracking: the paper's algorithm. beam: of width 16. mcmc: a Markov chain over moves.
enum class disco_algorithm : std::uint8_t { backtracking, beam, mcmc };
inline constexpr std::array<std::string_view, 3> disco_algorithm_names{"backtracking", "beam", "mcmc"};

struct disco_options {
  disco_algorithm algorithm = disco_algorithm::backtracking;
  double alpha = 1.05;
  disco_moves moves{};
  std::uint64_t patience = 1000;  // expansions without improvement
  std::size_t threads = 1;        // does not affect the result, except with a time limit
  budget limits{};                // of all rounds together
  // Continues from the best with moves of fewer changes, down to one, as long as rounds find improvements. False: one
  // round, as in the paper.
  bool refine = true;
  std::string checkpoint{};  // file to write in the first round of backtracking; empty: none
  std::string resume{};      // checkpoint of such a round to resume from; empty: none
};

struct disco_result {
  fusion::fusion_strategy strategy{};
  fusion::fusion_times times{};
  std::vector<improvement> history{};  // costs in picoseconds, beginning with the start's
  counters counts{};
  double seconds = 0;
  stop_reason stopped = stop_reason::converged;  // of the last round
};

// The best strategy found from the start. Equal inputs and seeds give equal results unless a time limit ends the
// search. Precondition: the start is a strategy of the graph, within the target's limits.
// Throws: unity::error if the resumed file is not a checkpoint of this search.
[[nodiscard]] disco_result disco_search(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                        fusion::fusion_strategy start, const disco_options& o = {});

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DISCO_SEARCH)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/mcmc.hpp>

namespace unity::systems {

namespace detail {

UNITY_INLINE search_result<disco_space::state_type, disco_space::move_type> disco_round(
    disco_space& space, const disco_options& o, const budget& limits, std::uint64_t seed, bool is_first) {
  if (o.algorithm == disco_algorithm::beam) {
    beam_options b;
    b.limits = limits;
    b.threads = o.threads;
    return beam(space, b);
  }
  if (o.algorithm == disco_algorithm::mcmc) {
    mcmc_options m;
    m.limits = limits;
    m.seed = seed;
    return mcmc(space, m);
  }
  backtracking_options b;
  b.alpha = o.alpha;
  b.patience = o.patience;
  b.threads = o.threads;
  b.limits = limits;
  b.checkpoint = is_first ? o.checkpoint : "";
  return is_first && !o.resume.empty() ? backtracking.resume(space, o.resume, b) : backtracking(space, b);
}

}  // namespace detail

UNITY_INLINE disco_result disco_search(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                       fusion::fusion_strategy start, const disco_options& o) {
  stopwatch clock;
  disco_result r;
  r.strategy = std::move(start);
  constexpr std::size_t steps = 3;  // of a cycle: moves of up to `most` changes, a third of that, and one
  auto moves = o.moves;
  std::size_t idle = 0;
  for (std::size_t round = 0; idle < 2 * steps; ++round) {
    if (round % steps == 0) {
      moves.most = o.moves.most;
    }
    disco_space space{g, t, r.strategy, moves};
    budget limits = o.limits;
    limits.seconds = std::max(o.limits.seconds - clock.seconds(), 0.0);
    limits.expansions = o.limits.expansions - std::min(r.counts.expanded, o.limits.expansions);
    const auto before = clock.seconds();
    const auto s = detail::disco_round(space, o, limits, moves.seed, round == 0);
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
