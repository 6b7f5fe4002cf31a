// Determines which values of a rank share memory, and the lifetimes of this memory in steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::train {

// An interval of steps of an iteration in which a value stays in one place. Regular.
struct stay {
  std::size_t first = 0;
  std::size_t last = 0;
  std::vector<std::uint32_t> readers{};  // steps, in order

  friend bool operator==(const stay&, const stay&) = default;
};

// Values of the previous iteration that a late step reads, and values kept between iterations, stay for the whole
// iteration: what is left for the next one replaces what came from the previous one. Weights have no stays.
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

}  // namespace unity::train

#endif
