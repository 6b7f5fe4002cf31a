// Values for the sources of a network as large as it is, under which signals neither overflow nor vanish.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/detail/source_roles.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Models source_data: values by name, the same for the same name, type, roles and seed; nothing for names that the graph
// does not have. Inputs are uniform in [-1, 1). Weights of products and convolutions are too, times sqrt(6 / fan-in), so
// that a layer followed by a relu keeps the size of its signal. What must be positive is in [1/8, 9/8), factors behind a
// normalization in [1/2, 3/2), what is added in [-1/4, 1/4), integers number rows that are there.
// Source: He et al., Delving deep into rectifiers, ICCV 2015, section 2.2, with a uniform distribution.
class steady_sources {
 public:
  steady_sources(const algebra& a, const tensor_graph& g, std::uint64_t seed = 0) : seed_{seed} {
    detail::source_roles roles{a};
    roles.read(g);
    for (std::size_t i = 0; i < g.node_count(); ++i) {
      const auto& op = g.operation(node_id{i});
      if (const auto kind = a.definition_of(op.kind).source; kind != source_kind::none) {
        const auto name = a.read(op).word("name");
        sources_.emplace(name, source{g.type(g.results(node_id{i})[0]), roles.of(name), kind == source_kind::constant});
      }
    }
  }

  [[nodiscard]] std::optional<dense<double>> operator()(std::string_view name) const {
    const auto found = sources_.find(name);
    if (found == sources_.end()) {
      return std::nullopt;
    }
    const auto& s = found->second;
    dense<double> values{s.type.dims};
    const auto stream = hash_combine(seed_, hash_bytes(name));
    const auto [low, width] = range(s);
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      const auto bits = hash_combine(stream, i);
      values.data[i] = is_floating(s.type.element) ? low + width * static_cast<double>(bits >> 11U) * 0x1.0p-53
                                                   : static_cast<double>(bits % rows(s));
    }
    return values;
  }

 private:
  struct source {
    tensor_type type{};
    detail::value_role role{};
    bool weight = false;
  };

  [[nodiscard]] static std::uint64_t rows(const source& s) noexcept {
    return static_cast<std::uint64_t>(s.type.element == dtype::boolean ? 2 : s.role.below);
  }
  // The least value, and how much the largest is above it.
  [[nodiscard]] static std::pair<double, double> range(const source& s) {
    if (s.role.exponent) {
      return {2, 0};
    }
    if (s.role.positive) {
      return {0.125, 1};
    }
    if (s.role.gain) {
      return {0.5, 1};
    }
    const auto reach = s.role.offset ? 0.25 : s.weight && s.type.rank() >= 2 ? std::sqrt(6 / fan_in(s.type.dims)) : 1.0;
    return {-reach, 2 * reach};
  }
  // Convolutions have their output channels first, products last.
  [[nodiscard]] static double fan_in(const shape& dims) {
    const auto rank = dims.size();
    return static_cast<double>(rank == 4 ? dims[1] * dims[2] * dims[3] : dims[rank - 2]);
  }

  std::map<std::string, source, std::less<>> sources_;
  std::uint64_t seed_;
};

}  // namespace unity::tensor
