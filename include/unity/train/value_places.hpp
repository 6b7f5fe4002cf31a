// The memory of a rank's program: which values share it, their lifetimes, its size, and the transfers of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/kernel_store.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/rank_region.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tasks/storage.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/timeline.hpp>

namespace unity::train {

// An interval of steps of an iteration in which a value stays in one place. Regular.
struct stay {
  std::size_t first = 0;
  std::size_t last = 0;
  std::vector<std::uint32_t> readers{};  // steps, in order

  friend bool operator==(const stay&, const stay&) = default;
};

// Values of the previous iteration that a late step reads, and values kept between iterations, stay for the whole
// iteration: the version for the next iteration replaces the previous one in place. Weights have no stays.
class value_places {
 public:
  // The algebra and the program must outlive this object. Complexity: linear in the program.
  value_places(const tensor::algebra& a, const parallel::rank_program& p);

  // The value in whose memory a value lies, and its offset there. Unit: bytes.
  [[nodiscard]] value_id root(value_id v) const { return roots_[v.index()]; }
  [[nodiscard]] std::size_t offset(value_id v) const { return offsets_[v.index()]; }
  // The stays of a root's memory: one, plus one for each fetch from the host.
  [[nodiscard]] const std::vector<stay>& operator[](value_id v) const { return stays_[v.index()]; }
  // False if the step's operator has nothing to do, because its results lie in its operands.
  [[nodiscard]] bool runs(std::size_t step) const { return runs_[step]; }

 private:
  void find_shared(const tensor::algebra& a, std::size_t s);
  void make(std::size_t s);
  void use(std::size_t s);
  // Next versions of weights have separate memory.
  [[nodiscard]] bool is_next(value_id v) const { return is_next_[v.index()]; }
  // Values that communication reads or writes stay until it has ended.
  void use_begun(const parallel::rank_step& begun, std::size_t s);
  void use(value_id v, std::size_t s);

  const parallel::rank_program& program_;
  std::vector<std::vector<stay>> stays_;  // per value; only roots have any
  std::vector<value_id> roots_{};
  std::vector<std::size_t> offsets_;
  std::vector<bool> runs_;     // per step
  std::vector<bool> is_next_;  // per value: a weight's next version
};

// Regular.
struct planned_memory {
  bytes arena{};      // values of an iteration and workspaces of kernels
  bytes weights{};    // two versions of each: current and next
  bytes states{};     // likewise, the optimizer state
  bytes aside{};      // messages for which stale servers wait in later iterations
  bytes constants{};  // values that are the same in all iterations

  [[nodiscard]] bytes sum() const { return arena + weights + states + aside + constants; }

  friend bool operator==(const planned_memory&, const planned_memory&) = default;
};

// The contents of the arena with their lifetimes: values in order, then workspaces. workspaces: of the kernel of each
// step, in bytes; 0 if there is none. Complexity: linear in the program.
[[nodiscard]] std::vector<tasks::stored_value> arena_values(const tensor::algebra& a, const parallel::rank_program& p,
                                                            std::span<const std::size_t> workspaces);

// What rank_executor allocates for the program, except a few scalars of the optimizer. Allocates nothing itself.
// Complexity: as the plan of an arena (tasks/storage.hpp).
[[nodiscard]] planned_memory memory_of_rank(const tensor::algebra& a, const parallel::rank_program& p,
                                            parallel::optimizer updates, std::span<const std::size_t> workspaces);

// The workspace sizes of the backend's kernels for the program's steps. Unit: bytes. Effects: creates the kernels.
// Throws: unity::error that names node and operator if there is no kernel.
template <backend::fusing_backend Backend>
[[nodiscard]] std::vector<std::size_t> workspaces_of(Backend& b, const tensor::algebra& a,
                                                     const parallel::rank_program& p) {
  backend::kernel_store<Backend> kernels{a};
  const value_places places{a, p};
  std::vector<std::size_t> all(p.steps.size());
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (p.steps[s].kind == parallel::step_kind::run && places.runs(s)) {
      const auto operands = p.graph.operands(p.steps[s].node);
      const auto results = p.graph.results(p.steps[s].node);
      const backend::run_item item{
          p.steps[s].node, nullptr, {operands.begin(), operands.end()}, {results.begin(), results.end()}};
      all[s] = kernels[kernels.prepare(b, p.graph, item, false)].workspace();
    } else if (p.steps[s].kind == parallel::step_kind::fused) {
      const auto region = fusion::region_of(a, p, p.kernels[p.steps[s].peer]);
      all[s] = kernels[kernels.prepare_region(b, region)].workspace();
    }
  }
  return all;
}

// The transfers and memory of the steps of a rank's program.

// The kind of step s of the program, and what it moves or waits for; without times and iteration.
[[nodiscard]] activity_span activity_of(const parallel::rank_program& p, std::size_t s);

// The values of an arena, with the numbers of the recorded steps that need them. Unrecorded steps (the start of a
// receive, a load) count for the next recorded one. values: of the arena; readers: the steps that read the first of
// these values; is_recorded: by step. Complexity: linear in steps and values.
[[nodiscard]] rank_memory recorded_memory(std::span<const tasks::stored_value> values,
                                          std::span<const std::vector<std::uint32_t>> readers,
                                          const std::vector<bool>& is_recorded);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_VALUE_PLACES)

#include <algorithm>
#include <iterator>

#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

UNITY_INLINE value_places::value_places(const tensor::algebra& a, const parallel::rank_program& p)
    : program_{p},
      stays_(p.graph.value_count()),
      offsets_(p.graph.value_count()),
      runs_(p.steps.size(), true),
      is_next_(p.graph.value_count()) {
  for (const auto& w : p.weights) {
    if (w.next.valid()) {
      is_next_[w.next.index()] = true;
    }
  }
  for (const auto v : value_ids(p.graph)) {
    roots_.push_back(v);
  }
  for (const auto& k : p.kept) {
    roots_[k.before.index()] = k.after;
  }
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    find_shared(a, s);
  }
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    make(s);
  }
  for (const auto& c : p.cotangents) {
    stays_[c.value.index()] = {{0, p.steps.size(), {}}};
  }
  for (const auto& c : p.constants) {
    stays_[c.value.index()] = {{0, p.steps.size(), {}}};
  }
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    use(s);
  }
  for (const auto& o : p.outputs) {
    use(o.value, p.steps.size());
  }
}

UNITY_INLINE void value_places::find_shared(const tensor::algebra& a, std::size_t s) {
  const auto& step = program_.steps[s];
  const auto& g = program_.graph;
  if (step.kind != parallel::step_kind::run) {
    return;
  }
  const auto operands = g.operands(step.node);
  const auto results = g.results(step.node);
  const auto shared =
      backend::shared_results(a, g.operation(step.node), backend::types_of(g, operands), backend::types_of(g, results));
  for (std::size_t i = 0; shared && i < results.size(); ++i) {
    const auto from = operands[(*shared)[i].operand];
    roots_[results[i].index()] = root(from);
    offsets_[results[i].index()] = offset(from) + static_cast<std::size_t>((*shared)[i].offset.count());
  }
  runs_[s] = !shared;
}

UNITY_INLINE void value_places::make(std::size_t s) {
  const auto& step = program_.steps[s];
  using kinds = parallel::step_kind;
  const stay own{s, s, {}};
  if (step.kind == kinds::fetch) {
    stays_[step.value.index()].push_back(own);
    return;
  }
  if (step.kind == kinds::fused) {
    for (const auto v : program_.kernels[step.peer].outputs) {
      stays_[v.index()].assign(is_next(v) ? 0 : 1, own);
    }
    return;
  }
  if (step.lag > 0 && step.kind == kinds::wait) {  // provides what arrived
    const auto& begun = program_.steps[step.peer];
    stays_[program_.graph.results(begun.node)[0].index()] = {own};
    return;
  }
  const bool is_aside = step.lag > 0 && step.kind == kinds::receive;
  if (step.kind == kinds::run || step.kind == kinds::load || is_collective(step.kind) ||
      (step.kind == kinds::receive && !is_aside)) {
    for (const auto v : program_.graph.results(step.node)) {
      stays_[v.index()].assign(runs_[s] && !is_next(v) ? 1 : 0, own);
    }
  }
}

UNITY_INLINE void value_places::use(std::size_t s) {
  const auto& step = program_.steps[s];
  using kinds = parallel::step_kind;
  switch (step.kind) {
    case kinds::run:
      for (const auto v : program_.graph.operands(step.node)) {
        use(v, s);
      }
      break;
    case kinds::fused:
      for (const auto v : program_.kernels[step.peer].inputs) {
        use(v, s);
      }
      break;
    case kinds::send:
    case kinds::store:
    case kinds::reduce:
    case kinds::scatter:
    case kinds::gather: use(step.value, s); break;
    case kinds::wait:
      if (step.lag == 0) {
        use_begun(program_.steps[step.peer], s);
      }
      break;
    case kinds::update: use(program_.weights[step.peer].gradient, s); break;
    default: break;
  }
}

UNITY_INLINE void value_places::use_begun(const parallel::rank_step& begun, std::size_t s) {
  if (begun.kind != parallel::step_kind::receive) {
    use(begun.value, s);
  }
  if (begun.kind != parallel::step_kind::send) {
    use(program_.graph.results(begun.node)[0], s);
  }
}

UNITY_INLINE void value_places::use(value_id v, std::size_t s) {
  auto& all = stays_[root(v).index()];
  if (all.empty()) {
    return;  // a weight
  }
  if (s < all.front().first) {
    all.front().first = 0;
    all.front().last = program_.steps.size();
  }
  const auto next = std::find_if(all.begin(), all.end(), [&](const stay& x) { return x.first > s; });
  auto& own = *std::prev(next);
  own.last = std::max(own.last, s);
  if (own.readers.empty() || own.readers.back() != s) {
    own.readers.push_back(static_cast<std::uint32_t>(s));
  }
}

UNITY_INLINE std::vector<tasks::stored_value> arena_values(const tensor::algebra& a, const parallel::rank_program& p,
                                                           std::span<const std::size_t> workspaces) {
  const value_places places{a, p};
  std::vector<tasks::stored_value> values;
  for (const auto v : value_ids(p.graph)) {
    const bytes size{static_cast<std::int64_t>(backend::byte_count(p.graph.type(v)))};
    for (const auto& s : places[v]) {
      values.push_back({size, s.first, s.last});
    }
  }
  for (std::size_t s = 0; s < workspaces.size(); ++s) {
    values.push_back({bytes{static_cast<std::int64_t>(workspaces[s])}, s, s});
  }
  return values;
}

UNITY_INLINE planned_memory memory_of_rank(const tensor::algebra& a, const parallel::rank_program& p,
                                           parallel::optimizer updates, std::span<const std::size_t> workspaces) {
  const auto size_of = [&](value_id v) { return static_cast<std::int64_t>(backend::byte_count(p.graph.type(v))); };
  planned_memory all;
  for (const auto& s : p.steps) {
    if (s.lag > 0 && s.kind != parallel::step_kind::wait) {
      const auto v = s.kind == parallel::step_kind::send ? s.value : p.graph.results(s.node)[0];
      all.aside += bytes{size_of(v) * (s.lag + 1)};
    }
  }
  constexpr bytes alignment{static_cast<std::int64_t>(backend::memory_alignment)};
  all.arena = tasks::plan_storage(arena_values(a, p, workspaces), alignment).peak;
  for (const auto& c : p.constants) {
    all.constants += bytes{size_of(c.value)};
  }
  for (const auto& w : p.weights) {
    const bool is_made = w.gradient.valid() || w.next.valid();
    all.weights += bytes{size_of(w.next.valid() ? w.next : w.weight.value) * (is_made ? 2 : 1)};
    if (w.gradient.valid()) {
      const auto element = static_cast<std::int64_t>(tensor::size_of(p.graph.type(w.weight.value).element));
      all.states += bytes{2 * w.updated.volume() * element * static_cast<std::int64_t>(state_names(updates).size())};
    }
  }
  return all;
}

namespace detail {

// The span of a step that moves data.
UNITY_INLINE activity_span moved_by(const parallel::rank_program& p, const parallel::rank_step& s) {
  using kinds = parallel::step_kind;
  const bool is_receive = s.kind == kinds::receive;
  if (s.kind == kinds::store || s.kind == kinds::fetch) {
    activity_span span;
    span.size = bytes{static_cast<std::int64_t>(backend::byte_count(p.graph.type(s.value)))};
    span.way = s.kind == kinds::store ? direction::store : direction::fetch;
    return span;
  }
  if (!is_receive && s.kind != kinds::send && !is_collective(s.kind)) {
    return {};
  }
  activity_span span;
  const bool is_result = is_receive || s.kind == kinds::gather;  // the whole gathered result
  const auto v = is_result ? p.graph.results(s.node)[0] : s.value;
  span.size = bytes{static_cast<std::int64_t>(backend::byte_count(p.graph.type(v)))};
  span.way = is_receive                 ? direction::receive
             : s.kind == kinds::send    ? direction::send
             : s.kind == kinds::reduce  ? direction::all_reduce
             : s.kind == kinds::scatter ? direction::reduce_scatter
                                        : direction::all_gather;
  span.tag = is_collective(s.kind) ? s.peer : s.tag;
  span.peer = is_collective(s.kind) ? no_peer : static_cast<std::int32_t>(s.peer);
  return span;
}

}  // namespace detail

UNITY_INLINE activity_span activity_of(const parallel::rank_program& p, std::size_t s) {
  using kinds = parallel::step_kind;
  const auto& step = p.steps[s];
  const bool computes = step.kind == kinds::run || step.kind == kinds::fused;
  auto span = detail::moved_by(p, p.steps[step.kind == kinds::wait ? step.peer : s]);
  span.kind = computes                     ? activity::compute
              : step.kind == kinds::update ? activity::update
              : step.kind == kinds::wait   ? activity::waiting
                                           : activity::communication;
  span.is_backward = step.is_backward;
  span.label = static_cast<std::uint32_t>(step.origin.index());
  span.number = static_cast<std::uint32_t>(s);
  return span;
}

UNITY_INLINE rank_memory recorded_memory(std::span<const tasks::stored_value> values,
                                         std::span<const std::vector<std::uint32_t>> readers,
                                         const std::vector<bool>& is_recorded) {
  constexpr auto none = static_cast<std::size_t>(-1);
  const auto steps = is_recorded.size();
  std::vector<std::size_t> next(steps + 1, none);  // the next recorded step from there on
  std::vector<std::size_t> last(steps + 1, none);  // the last recorded step up to there
  for (auto s = steps; s-- > 0;) {
    next[s] = is_recorded[s] ? s : next[s + 1];
  }
  for (std::size_t s = 0; s <= steps; ++s) {
    last[s] = s < steps && is_recorded[s] ? s : s > 0 ? last[s - 1] : none;
  }
  rank_memory all;
  for (std::size_t place = 0; place < values.size(); ++place) {
    const auto& v = values[place];
    const auto first = next[std::min(v.first, steps)];
    if (v.size.count() > 0 && first != none) {
      const auto until = last[std::min(v.last, steps)];
      for (const auto s : place < readers.size() ? readers[place] : std::vector<std::uint32_t>{}) {
        if (s < steps && is_recorded[s]) {
          all.readers.push_back({static_cast<std::uint32_t>(all.values.size()), s});
        }
      }
      all.values.push_back({v.size, static_cast<std::uint32_t>(first),
                            static_cast<std::uint32_t>(until == none ? first : std::max(first, until))});
    }
  }
  return all;
}

}  // namespace unity::train

#endif
