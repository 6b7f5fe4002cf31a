// Runs the programs of ranks in one thread, in double: when a step's inputs have not arrived, the next rank continues.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::test {

using numbers = tensor::dense<double>;

template <class Visit>
void for_each_offset(const tensor::shape& dims, const box& b, const Visit& visit) {
  for_each_position(b.begin, b.end, [&](const tensor::shape& at) { visit(offset_of(dims, at)); });
}
inline numbers part_of(const numbers& x, const box& b) {
  numbers y{b.sizes()};
  std::size_t i = 0;
  for_each_offset(x.dims, b, [&](std::size_t offset) { y.data[i++] = x.data[offset]; });
  return y;
}
inline void put_part(numbers& x, const box& b, const numbers& part) {
  std::size_t i = 0;
  for_each_offset(x.dims, b, [&](std::size_t offset) { x.data[offset] = part.data[i++]; });
}

// The position of every rank, and messages in flight.
class rank_run {
 public:
  rank_run(const tensor::algebra& a, const rank_programs& p)
      : a_{a}, programs_{p}, at_(p.ranks.size()), values_(p.ranks.size()) {
    for (std::size_t r = 0; r < p.ranks.size(); ++r) {
      values_[r].resize(p.ranks[r].graph.value_count());
    }
  }
  void set(std::size_t rank, value_id v, numbers x) { values_[rank][v.index()] = std::move(x); }
  [[nodiscard]] const numbers& get(std::size_t rank, value_id v) const {
    REQUIRE(values_[rank][v.index()].has_value());
    return *values_[rank][v.index()];
  }
  // Returns whether all ranks reached the end.
  [[nodiscard]] bool run() {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t r = 0; r < at_.size(); ++r) {
        while (at_[r] < programs_.ranks[r].steps.size() && take(r, programs_.ranks[r].steps[at_[r]])) {
          ++at_[r];
          goes_on = true;
        }
      }
    }
    for (std::size_t r = 0; r < at_.size(); ++r) {
      if (at_[r] != programs_.ranks[r].steps.size()) {
        return false;
      }
    }
    return messages_.empty();
  }

 private:
  bool take(std::size_t rank, const rank_step& s) {
    const auto& g = programs_.ranks[rank].graph;
    switch (s.kind) {
      case step_kind::load: return values_[rank][g.results(s.node)[0].index()].has_value();
      case step_kind::update: return update(rank, programs_.ranks[rank].weights[s.peer]);
      case step_kind::run: run(rank, s.node); return true;
      case step_kind::fused:
        for (const auto n : programs_.ranks[rank].kernels[s.peer].nodes) {
          run(rank, n);
        }
        return true;
      case step_kind::send: messages_[s.tag] = get(rank, s.value); return true;
      case step_kind::receive: return true;
      case step_kind::gather:
        if (g.results(s.node)[0] != s.value) {
          return gather(rank, s);
        }
        if (!values_[rank][s.value.index()]) {  // zero if the rank has no share: the value is the sum of shares
          set(rank, s.value, numbers{g.type(s.value).dims});
        }
        [[fallthrough]];
      case step_kind::scatter:
      case step_kind::reduce: {
        auto& sum = sums_[s.tag];
        const auto& x = get(rank, s.value);
        sum.value = sum.value.dims.empty() && sum.value.data.empty() ? numbers{x.dims} : sum.value;
        for (std::size_t i = 0; i < x.data.size(); ++i) {
          sum.value.data[i] += x.data[i];
        }
        ++sum.count;
        return true;
      }
      case step_kind::wait: return wait(rank, programs_.ranks[rank].steps[s.peer]);
      case step_kind::store:
      case step_kind::fetch: return true;  // values are never moved here
    }
    return false;
  }
  // Copies the rank's rows to their place, in the order of the group.
  bool gather(std::size_t rank, const rank_step& s) {
    const auto& g = programs_.ranks[rank].graph;
    auto& all = sums_[s.tag];
    all.value = all.count == 0 ? numbers{g.type(g.results(s.node)[0]).dims} : all.value;
    const auto& x = get(rank, s.value);
    const auto& group = programs_.groups[s.peer];
    const auto place = std::find(group.begin(), group.end(), rank) - group.begin();
    std::copy(x.data.begin(), x.data.end(),
              all.value.data.begin() + place * static_cast<std::ptrdiff_t>(x.data.size()));
    ++all.count;
    return true;
  }
  void run(std::size_t rank, node_id n) {
    const auto& g = programs_.ranks[rank].graph;
    std::vector<numbers> operands;
    std::vector<tensor::tensor_type> types;
    for (const auto v : g.operands(n)) {
      operands.push_back(get(rank, v));
      types.push_back(g.type(v));
    }
    const auto results = tensor::evaluate<double>(a_, g.operation(n), operands, types);
    for (std::size_t i = 0; i < results.size(); ++i) {
      set(rank, g.results(n)[i], results[i]);
    }
  }
  // Writes the gradient into the weight's next version, if other ranks need it.
  bool update(std::size_t rank, const weight_part& w) {
    const auto& gradient = values_[rank][w.gradient.index()];
    if (gradient && w.next.valid()) {
      numbers next{programs_.ranks[rank].graph.type(w.next).dims};
      const auto rows = w.updated.sizes().empty() ? 1 : w.updated.sizes()[0];
      const auto first =
          rows == 1 && w.updated.sizes().empty()
              ? 0
              : (w.updated.begin[0] - w.weight.part.begin[0]) * (w.updated.volume() / std::max<std::int64_t>(1, rows));
      std::copy_n(gradient->data.begin(), w.updated.volume(), next.data.begin() + first);
      set(rank, w.next, std::move(next));
    }
    return gradient.has_value();
  }
  bool wait(std::size_t rank, const rank_step& begun) {
    const auto& g = programs_.ranks[rank].graph;
    if (begun.kind == step_kind::receive) {
      const auto found = messages_.find(begun.tag);
      if (found == messages_.end()) {
        return false;
      }
      REQUIRE(found->second.dims == g.type(g.results(begun.node)[0]).dims);
      set(rank, g.results(begun.node)[0], std::move(found->second));
      messages_.erase(found);
    } else if (is_collective(begun.kind)) {
      const auto& sum = sums_[begun.tag];
      const auto& group = programs_.groups[begun.peer];
      if (sum.count < group.size()) {
        return false;
      }
      auto part = whole(sum.value.dims);
      if (begun.kind == step_kind::scatter) {
        const auto share = part.end[0] / static_cast<std::int64_t>(group.size());
        part.begin[0] = (std::find(group.begin(), group.end(), rank) - group.begin()) * share;
        part.end[0] = part.begin[0] + share;
      }
      set(rank, g.results(begun.node)[0], part_of(sum.value, part));
    }
    return begun.kind != step_kind::send || !messages_.contains(begun.tag);
  }

  struct partial_sum {
    numbers value{};
    std::size_t count = 0;
  };

  const tensor::algebra& a_;
  const rank_programs& programs_;
  std::vector<std::size_t> at_;
  std::vector<std::vector<std::optional<numbers>>> values_;
  std::map<std::uint32_t, numbers> messages_{};
  std::map<std::uint32_t, partial_sum> sums_{};
};

// The difference of two elements; infinite if only the wanted one is finite, and 0 if it is not.
inline double element_error(double own, double wanted) {
  const auto d = std::abs(own - wanted) / (1 + std::abs(wanted));
  return !std::isfinite(wanted) ? 0 : std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

// Runs the plan on ranks and on one device. Returns the largest difference of an element of an output or gradient. Each
// element of a weight with a gradient must be on a rank.
// change: edits the ranks' programs before they run.
template <class Change>
double error_on_ranks(const tensor::algebra& a, const plan& p, std::uint64_t seed, const Change& change) {
  const auto source = [&](value_id v) {
    return tensor::evaluate<double>(a, p.graph.operation(p.graph.producer(v)), {}, {}, seed)[0];
  };
  const auto one = tensor::differentiate(a, p.graph);
  const auto expected = tensor::evaluate<double>(
      a, one.graph, [](const tensor::operation&, const tensor::tensor_type&) { return std::optional<numbers>{}; },
      seed);
  const rank_programs programs = change(programs_of_ranks(a, p));
  rank_run run{a, programs};
  for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
    const auto& rank = programs.ranks[r];
    for (const auto& x : rank.inputs) {
      run.set(r, x.value, part_of(source(x.of), x.part));
    }
    for (const auto& w : rank.weights) {
      run.set(r, w.weight.value, part_of(source(w.weight.of), w.weight.part));
    }
    for (const auto& c : rank.cotangents) {
      const auto& t = p.graph.type(p.graph.outputs()[c.output]);
      const auto op = a.make_operation("input", {{"name", "cotangent" + std::to_string(c.output)},
                                                 {"element", name_of(t.element)},
                                                 {"dims", {t.dims.begin(), t.dims.end()}}});
      run.set(r, c.value, part_of(tensor::evaluate<double>(a, op, {}, {}, seed)[0], c.part));
    }
  }
  REQUIRE(run.run());
  double error = 0;
  const auto meet = [&](const numbers& whole, const box& part, const numbers& own) {
    const auto wanted = part_of(whole, part);
    REQUIRE(wanted.dims == own.dims);
    for (std::size_t i = 0; i < own.data.size(); ++i) {
      error = std::max(error, element_error(own.data[i], wanted.data[i]));
    }
  };
  std::vector<std::int64_t> made(p.graph.outputs().size(), 0);
  std::vector<std::vector<bool>> is_held(one.sources.size());  // by source and element
  for (std::size_t s = 0; s < one.sources.size(); ++s) {
    is_held[s].resize(expected[p.graph.outputs().size() + s].data.size());
  }
  for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
    for (const auto& o : programs.ranks[r].outputs) {
      made[o.output] += o.part.volume();
      meet(expected[o.output], o.part, run.get(r, o.value));
    }
    for (const auto& w : programs.ranks[r].weights) {
      for (std::size_t s = 0; s < one.sources.size(); ++s) {
        if (one.sources[s] != w.weight.of) {
          continue;
        }
        const auto& whole = expected[p.graph.outputs().size() + s];
        for_each_offset(whole.dims, w.weight.part, [&](std::size_t offset) { is_held[s][offset] = true; });
        if (w.next.valid()) {
          auto own = run.get(r, w.next);
          own.dims = w.weight.part.sizes();
          own.data.resize(static_cast<std::size_t>(w.weight.part.volume()));
          meet(whole, w.weight.part, own);
        } else {
          auto own = w.gradient.valid() ? run.get(r, w.gradient) : numbers{w.weight.part.sizes()};
          REQUIRE(own.data.size() >= static_cast<std::size_t>(w.weight.part.volume()));
          own.dims = w.weight.part.sizes();  // the beginning of its share, if others have more rows
          own.data.resize(static_cast<std::size_t>(w.weight.part.volume()));
          meet(whole, w.weight.part, own);
        }
      }
    }
  }
  for (std::size_t o = 0; o < made.size(); ++o) {
    const auto v = p.graph.outputs()[o];
    CHECK((p.graph.operands(p.graph.producer(v)).empty() || made[o] == tensor::element_count(p.graph.type(v).dims)));
  }
  for (std::size_t s = 0; s < one.sources.size(); ++s) {
    const auto& gradient = expected[p.graph.outputs().size() + s].data;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      if (std::abs(gradient[i]) > 0 && !is_held[s][i]) {
        FAIL("no rank has element " << i << " of weight " << one.sources[s].index());
      }
    }
  }
  return error;
}

inline double error_on_ranks(const tensor::algebra& a, const plan& p, std::uint64_t seed) {
  return error_on_ranks(a, p, seed, [](rank_programs all) { return all; });
}

}  // namespace unity::parallel::test
