// Values of graphs modulo a prime. Each application of an operator to values is evaluated once, in whatever graph it
// occurs, so checking a rewritten graph takes about the time of a traversal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::test {

class evaluated_graphs {
 public:
  using number = std::uint32_t;  // identifies a value: equal for equal elements, sizes and element types
  using scalar = tensor::modular61;

  evaluated_graphs(const tensor::algebra& a, std::uint64_t seed) : algebra_{a}, seed_{seed} {}

  // The values of the outputs, in order. Throws: unity::error if an operator does not accept its operands.
  [[nodiscard]] std::vector<number> outputs(const tensor::tensor_graph& g) {
    of_value_.assign(g.value_count(), 0);
    for (const auto n : node_ids(g)) {
      application_.op = g.operation(n);
      application_.operands.clear();
      for (const auto v : g.operands(n)) {
        application_.operands.push_back(of_value_[v.index()]);
      }
      auto known = results_.find(application_);
      if (known == results_.end()) {
        known = results_.emplace(application_, evaluate(g, n)).first;
      }
      for (std::size_t r = 0; r < g.results(n).size(); ++r) {
        of_value_[g.results(n)[r].index()] = known->second[r];
      }
    }
    std::vector<number> all;
    for (const auto v : g.outputs()) {
      all.push_back(of_value_[v.index()]);
    }
    return all;
  }
  [[nodiscard]] std::size_t evaluations() const noexcept { return results_.size(); }

 private:
  struct application {
    tensor::operation op{};
    std::vector<number> operands{};
    friend bool operator==(const application&, const application&) = default;
  };
  struct hash_of_application {
    std::size_t operator()(const application& a) const noexcept {
      auto h = std::hash<tensor::operation>{}(a.op);
      for (const auto v : a.operands) {
        h = hash_combine(h, v);
      }
      return h;
    }
  };
  struct value {
    tensor::dtype element{};
    tensor::dense<scalar> elements{};
    friend bool operator==(const value&, const value&) = default;
  };

  [[nodiscard]] std::vector<number> evaluate(const tensor::tensor_graph& g, node_id n) {
    std::vector<const scalar*> operands;
    std::vector<tensor::tensor_type> types;
    for (const auto v : g.operands(n)) {
      operands.push_back(values_[of_value_[v.index()]].elements.data.data());
      types.push_back(g.type(v));
    }
    auto results = tensor::evaluate_at<scalar>(algebra_, g.operation(n), operands, types, seed_);
    std::vector<number> numbers;
    for (std::size_t r = 0; r < results.size(); ++r) {
      numbers.push_back(number_of({g.type(g.results(n)[r]).element, std::move(results[r])}));
    }
    return numbers;
  }
  [[nodiscard]] number number_of(value v) {
    auto h = hash_combine(static_cast<std::uint64_t>(v.element), v.elements.dims.size());
    for (const auto d : v.elements.dims) {
      h = hash_combine(h, static_cast<std::uint64_t>(d));
    }
    for (const auto x : v.elements.data) {
      h = hash_combine(h, x.residue());
    }
    for (auto [at, end] = numbers_.equal_range(h); at != end; ++at) {
      if (values_[at->second] == v) {
        return at->second;
      }
    }
    const auto fresh = static_cast<number>(values_.size());
    values_.push_back(std::move(v));
    numbers_.emplace(h, fresh);
    return fresh;
  }

  const tensor::algebra& algebra_;
  std::uint64_t seed_;
  std::deque<value> values_{};
  std::unordered_multimap<std::uint64_t, number> numbers_{};
  std::unordered_map<application, std::vector<number>, hash_of_application> results_{};
  std::vector<number> of_value_{};
  application application_{};
};

}  // namespace unity::test
