// From which step to which a rank's values must stay.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/rank_program.hpp>

namespace unity::train {

// Of an iteration's steps. Regular.
struct lifetime {
  std::size_t first = 0;
  std::size_t last = 0;
  bool is_live = false;

  friend bool operator==(const lifetime&, const lifetime&) = default;
};

// A value that a late step reads, of what the iteration before made, stays through the whole of each iteration. Weights have no lifetimes.
class value_lifetimes {
 public:
  // Complexity: linear in the program.
  explicit value_lifetimes(const parallel::rank_program& p) : program_{p}, lives_(p.graph.value_count()) {
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      make(s);
    }
    for (const auto& c : p.cotangents) {
      lives_[c.value.index()] = {0, p.steps.size(), true};
    }
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      use(s);
    }
    for (const auto& o : p.outputs) {
      use(o.value, p.steps.size());
    }
  }

  [[nodiscard]] const lifetime& operator[](value_id v) const { return lives_[v.index()]; }

 private:
  void make(std::size_t s) {
    const auto& step = program_.steps[s];
    using kinds = parallel::step_kind;
    if (step.kind == kinds::run || step.kind == kinds::load || step.kind == kinds::receive || step.kind == kinds::reduce) {
      for (const auto v : program_.graph.results(step.node)) {
        lives_[v.index()] = {s, s, true};
      }
    }
  }
  void use(std::size_t s) {
    const auto& step = program_.steps[s];
    using kinds = parallel::step_kind;
    switch (step.kind) {
      case kinds::run:
        for (const auto v : program_.graph.operands(step.node)) {
          use(v, s);
        }
        break;
      case kinds::send: use(step.value, s); break;
      case kinds::reduce: use(step.value, s); break;
      case kinds::wait: use_begun(program_.steps[step.peer], s); break;
      case kinds::update: use(program_.weights[step.peer].gradient, s); break;
      default: break;
    }
  }
  // What communication reads and writes stays until it has ended.
  void use_begun(const parallel::rank_step& begun, std::size_t s) {
    if (begun.kind != parallel::step_kind::receive) {
      use(begun.value, s);
    }
    if (begun.kind != parallel::step_kind::send) {
      use(program_.graph.results(begun.node)[0], s);
    }
  }
  void use(value_id v, std::size_t s) {
    auto& l = lives_[v.index()];
    if (!l.is_live) {
      return;  // a weight
    }
    if (s < l.first) {
      l.first = 0;
      l.last = program_.steps.size();
    }
    l.last = std::max(l.last, s);
  }

  const parallel::rank_program& program_;
  std::vector<lifetime> lives_;
};

}  // namespace unity::train
