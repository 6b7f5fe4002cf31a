// Which of a rank's values lie in the memory of others, and from which step to which memory must stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::train {

// Of an iteration's steps: from when to when a value lies in one place. Regular.
struct stay {
  std::size_t first = 0;
  std::size_t last = 0;
  std::vector<std::uint32_t> readers{};  // steps, in their order

  friend bool operator==(const stay&, const stay&) = default;
};

// A value that a late step reads, of what the iteration before made, stays through the whole of
// each iteration, and so does what iterations keep: what is left to the next one takes the place of what came from the
// one before. Weights have no stays.
class value_places {
 public:
  // The algebra and the program must outlive it. Complexity: linear in the program.
  value_places(const tensor::algebra& a, const parallel::rank_program& p);

  // The value in whose memory one lies, and how far behind its beginning. Unit: bytes.
  [[nodiscard]] value_id root(value_id v) const { return roots_[v.index()]; }
  [[nodiscard]] std::size_t offset(value_id v) const { return offsets_[v.index()]; }
  // Of the memory of a root: one, and one more for each time that it is fetched from the host.
  [[nodiscard]] const std::vector<stay>& operator[](value_id v) const { return stays_[v.index()]; }
  // False: the step's operator has nothing to do, as its results lie in its operands.
  [[nodiscard]] bool runs(std::size_t step) const { return runs_[step]; }

 private:
  void find_shared(const tensor::algebra& a, std::size_t s);
  void make(std::size_t s);
  void use(std::size_t s);
  // Versions of weights have places of their own.
  [[nodiscard]] bool is_next(value_id v) const { return is_next_[v.index()]; }
  // What communication reads and writes stays until it has ended.
  void use_begun(const parallel::rank_step& begun, std::size_t s);
  void use(value_id v, std::size_t s);

  const parallel::rank_program& program_;
  std::vector<std::vector<stay>> stays_;  // per value; of roots
  std::vector<value_id> roots_{};
  std::vector<std::size_t> offsets_;
  std::vector<bool> runs_;     // per step
  std::vector<bool> is_next_;  // per value: a weight's next version
};

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_VALUE_PLACES)

#include <algorithm>
#include <iterator>

#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/elementwise_chains.hpp>

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
  const auto shared = backend::detail::shared_results(a, g.operation(step.node), backend::detail::types_of(g, operands),
                                                      backend::detail::types_of(g, results));
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
  if (step.lag > 0 && step.kind == kinds::wait) {  // brings what came
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

}  // namespace unity::train

#endif
