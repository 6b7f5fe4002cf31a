// DisCo: for data-parallel training, chooses which operators run as one kernel and which gradients are reduced
// together.
// Source: Yi et al., Optimizing DNN compilation for distributed training with joint OP and tensor fusion, TPDS 2022.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/disco/baselines.hpp>

namespace unity::systems {

// Fusion strategies as a search space of states and moves.
// Source: Yi et al., DisCo, TPDS 2022, section 4.5.

// fuse       fuses a kernel with one that it reads (non-duplicate fusion)
// duplicate  a kernel recomputes the results of another one that it reads (duplicate fusion)
// join       joins a bucket with the one reduced after it
// separate   removes an instruction from its kernel or bucket; not in the paper
enum class disco_method : std::uint8_t { fuse, duplicate, join, separate };

// The moves of a space. Regular.
struct disco_moves {
  bool fuse = true;
  bool duplicate = true;
  bool join = true;
  bool separate = true;
  std::uint8_t most = 10;      // the paper's beta: maximum number of changes per move, at least 1
  std::uint32_t samples = 16;  // moves of each method per state; one in the paper
  std::uint64_t seed = 0;      // for random draws
  // Enumerates all single changes instead of sampling moves: for exhaustive searches on small graphs.
  bool is_exhaustive = false;

  friend bool operator==(const disco_moves&, const disco_moves&) = default;
};

// States are strategies, costs are picoseconds of an iteration. A move makes 1 to `most` changes of its method (a
// uniform number), at positions drawn one after another from the move's seed and the state. Models search_space. Refers
// to graph and target, which must outlive it. Complexity: pricing is at worst linear in the graph (fusion_session), and
// re-times only kernels that change.
class disco_space {
 public:
  struct move_type {
    disco_method method = disco_method::fuse;
    std::uint8_t most = 0;      // 0: one change, at the position in `seed`
    std::uint16_t operand = 0;  // of that position
    std::uint32_t seed = 0;

    friend bool operator==(const move_type&, const move_type&) = default;
  };
  struct state_type {
    fusion::fusion_strategy strategy{};
    cost_value cost = 0;
    unity::fingerprint fingerprint{};
  };
  struct scratch_type {
    std::optional<fusion::fusion_session> session{};
    unity::fingerprint at{};
  };

  // Precondition: the start is a strategy of the graph, within the target's limits.
  disco_space(const fusion::instruction_graph& g, const fusion::fusion_target& t, fusion::fusion_strategy start,
              const disco_moves& moves = {});

  [[nodiscard]] state_type initial() const;
  [[nodiscard]] cost_value cost(const state_type& s) const noexcept { return s.cost; }
  [[nodiscard]] unity::fingerprint fingerprint_of(const state_type& s) const noexcept { return s.fingerprint; }
  [[nodiscard]] std::span<const move_type> moves(const state_type&) const noexcept { return moves_; }
  void prepare(const state_type& s, scratch_type& scratch) const;
  // nullopt if no change could be made.
  [[nodiscard]] std::optional<candidate> price(const state_type& s, move_type m, scratch_type& scratch) const;
  // Precondition: the move has a price in this state.
  [[nodiscard]] state_type apply(const state_type& s, move_type m, scratch_type& from, scratch_type& to) const;
  [[nodiscard]] std::size_t memory() const noexcept { return moves_.size() * sizeof(move_type); }
  [[nodiscard]] std::size_t memory(const state_type& s) const noexcept {
    return s.strategy.group_of.size() * sizeof(std::uint32_t) +
           s.strategy.copies.size() * sizeof(fusion::instruction_copy);
  }

 private:
  // Effects: makes the move's changes. False: none could be made.
  bool make(move_type m, scratch_type& scratch) const;
  bool change(disco_method method, scratch_type& scratch, random_engine& random) const;
  bool change_at(move_type m, scratch_type& scratch) const;
  void list_samples(const disco_moves& which);
  void list_changes(const disco_moves& which);

  const fusion::instruction_graph* graph_;
  const fusion::fusion_target* target_;
  fusion::fusion_strategy start_;
  std::uint64_t seed_ = 0;
  std::vector<move_type> moves_{};
  std::vector<fusion::instruction_id> readers_{};     // fusible instructions that read fusible ones
  std::vector<fusion::instruction_id> reductions_{};  // all-reduces
};

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DISCO)

#include <algorithm>

#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/mcmc.hpp>

namespace unity::systems {

UNITY_INLINE disco_space::disco_space(const fusion::instruction_graph& g, const fusion::fusion_target& t,
                                      fusion::fusion_strategy start, const disco_moves& moves)
    : graph_{&g}, target_{&t}, start_{std::move(start)}, seed_{moves.seed} {
  const auto is_fusible = [&](fusion::instruction_id i) { return g.role(i) == fusion::instruction_role::fusible; };
  for (fusion::instruction_id i = 0; i < g.size(); ++i) {
    const auto operands = g.operands(i);
    if (is_fusible(i) &&
        std::any_of(operands.begin(), operands.end(), [&](const auto& o) { return is_fusible(o.from); })) {
      readers_.push_back(i);
    } else if (g.reduces(i)) {
      reductions_.push_back(i);
    }
  }
  moves.is_exhaustive ? list_changes(moves) : list_samples(moves);
}

UNITY_INLINE void disco_space::list_samples(const disco_moves& which) {
  UNITY_EXPECTS(which.most > 0, "changes per move");
  const auto add = [&](bool may, disco_method method, std::size_t places) {
    for (std::uint32_t k = 0; may && places > 0 && k < which.samples; ++k) {
      moves_.push_back({method, which.most, 0, k});
    }
  };
  add(which.fuse, disco_method::fuse, readers_.size());
  add(which.duplicate, disco_method::duplicate, readers_.size());
  add(which.join, disco_method::join, reductions_.size() > 1 ? 1 : 0);
  add(which.separate, disco_method::separate, readers_.size() + reductions_.size());
}

UNITY_INLINE void disco_space::list_changes(const disco_moves& which) {
  for (const auto i : readers_) {
    for (std::uint16_t o = 0; o < graph_->operands(i).size(); ++o) {
      if (which.fuse) {
        moves_.push_back({disco_method::fuse, 0, o, i});
      }
      if (which.duplicate) {
        moves_.push_back({disco_method::duplicate, 0, o, i});
      }
    }
  }
  for (std::uint32_t x = 1; which.join && x < reductions_.size(); ++x) {
    moves_.push_back({disco_method::join, 0, 0, x});
  }
  for (const auto* places : {&readers_, &reductions_}) {
    for (const auto i : *places) {
      if (which.separate) {
        moves_.push_back({disco_method::separate, 0, 0, i});
      }
    }
  }
}

UNITY_INLINE disco_space::state_type disco_space::initial() const {
  fusion::fusion_session session{*graph_, *target_};
  session.reset(start_);
  return {start_, session.iteration().count(), session.groups().fingerprint()};
}

UNITY_INLINE void disco_space::prepare(const state_type& s, scratch_type& scratch) const {
  if (scratch.session && scratch.at == s.fingerprint) {
    return;
  }
  if (!scratch.session) {
    scratch.session.emplace(*graph_, *target_);
  }
  scratch.session->reset(s.strategy);
  scratch.at = s.fingerprint;
}

UNITY_INLINE bool disco_space::change(disco_method method, scratch_type& scratch, random_engine& random) const {
  auto& session = *scratch.session;
  const auto& groups = session.groups();
  const auto one_of = [&](const std::vector<fusion::instruction_id>& all) { return all[random.below(all.size())]; };
  if (method == disco_method::join) {
    const auto buckets = session.buckets();
    if (buckets.size() < 2) {
      return false;
    }
    const auto x = random.below(buckets.size() - 1);
    return session.join(groups.group_of(buckets[x]), groups.group_of(buckets[x + 1]));
  }
  if (method == disco_method::separate) {
    const auto x = random.below(readers_.size() + reductions_.size());
    return session.separate(x < readers_.size() ? readers_[x] : reductions_[x - readers_.size()]);
  }
  const auto i = one_of(readers_);
  const auto operands = graph_->operands(i);
  const auto from = operands[random.below(operands.size())].from;
  if (graph_->role(from) != fusion::instruction_role::fusible) {
    return false;
  }
  return method == disco_method::fuse ? session.fuse(groups.group_of(from), groups.group_of(i))
                                      : session.duplicate(groups.group_of(from), groups.group_of(i));
}

UNITY_INLINE bool disco_space::change_at(move_type m, scratch_type& scratch) const {
  auto& session = *scratch.session;
  const auto& groups = session.groups();
  if (m.method == disco_method::join) {
    return session.join(groups.group_of(reductions_[m.seed - 1]), groups.group_of(reductions_[m.seed]));
  }
  if (m.method == disco_method::separate) {
    return session.separate(m.seed);
  }
  const auto from = graph_->operands(m.seed)[m.operand].from;
  if (graph_->role(from) != fusion::instruction_role::fusible) {
    return false;
  }
  return m.method == disco_method::fuse ? session.fuse(groups.group_of(from), groups.group_of(m.seed))
                                        : session.duplicate(groups.group_of(from), groups.group_of(m.seed));
}

UNITY_INLINE bool disco_space::make(move_type m, scratch_type& scratch) const {
  if (m.most == 0) {
    return change_at(m, scratch);
  }
  random_engine random{
      mix64(mix64(seed_ ^ scratch.at.low) + 4 * std::uint64_t{m.seed} + static_cast<std::uint64_t>(m.method))};
  const auto wanted = 1 + random.below(m.most);
  std::uint64_t made = 0;
  constexpr std::uint64_t tries = 8;  // per change
  for (std::uint64_t t = 0; t < tries * wanted && made < wanted; ++t) {
    made += change(m.method, scratch, random) ? 1U : 0U;
  }
  // Changes can undo each other.
  return made > 0 && scratch.session->groups().fingerprint() != scratch.at;
}

UNITY_INLINE std::optional<candidate> disco_space::price(const state_type&, move_type m, scratch_type& scratch) const {
  std::optional<candidate> result;
  if (make(m, scratch)) {
    result = candidate{scratch.session->iteration().count(), scratch.session->groups().fingerprint()};
  }
  scratch.session->undo();
  return result;
}

UNITY_INLINE disco_space::state_type disco_space::apply(const state_type& s, move_type m, scratch_type& from,
                                                        scratch_type& to) const {
  prepare(s, from);
  const bool is_made = make(m, from);
  UNITY_EXPECTS(is_made, "a move that applies");
  state_type next{from.session->groups().strategy(), from.session->iteration().count(),
                  from.session->groups().fingerprint()};
  from.session->undo();
  prepare(next, to);
  return next;
}

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
