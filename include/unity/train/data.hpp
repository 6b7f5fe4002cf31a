// Synthetic training data, used without a data set: pseudorandom numbers that are functions of their position.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::train {

// Uniform in [0, 1), in steps of 2^-24: exact in float32, so that wider types get the same numbers.
[[nodiscard]] constexpr double uniform_of(std::uint64_t bits) noexcept {
  return static_cast<double>(bits >> 40U) * 0x1.0p-24;
}

// Writes the elements of a box of a tensor, in row-major order of the box: value_of(index of the element in row-major
// order of the whole tensor), as a double. Complexity: linear in the box; allocates nothing.
template <class ValueOf>
void fill_box(const tensor::tensor_type& type, const parallel::box& b, std::span<std::byte> out,
              const ValueOf& value_of) {
  UNITY_EXPECTS(b.begin.size() == type.rank() && b.end.size() == type.rank(), "a box of the tensor's rank");
  UNITY_EXPECTS(out.size() == static_cast<std::size_t>(b.volume() * tensor::size_of(type.element)),
                "as many bytes as the box has");
  const auto fill = [&]<class Real>(Real) {
    std::size_t written = 0;
    parallel::for_each_run(type.dims, b, [&](std::int64_t first, std::int64_t, std::int64_t count) {
      while (count > 0) {
        std::array<Real, 512> values;
        const auto n = std::min(count, static_cast<std::int64_t>(values.size()));
        for (std::int64_t i = 0; i < n; ++i) {
          values[static_cast<std::size_t>(i)] = static_cast<Real>(value_of(static_cast<std::uint64_t>(first + i)));
        }
        const auto size = static_cast<std::size_t>(n * tensor::size_of(type.element));
        const tensor::tensor_type part{type.element, tensor::layout::row_major, false, {n}};
        backend::encode<Real>(std::span<const Real>{values.data(), static_cast<std::size_t>(n)}, part,
                              out.subspan(written, size));
        written += size;
        first += n;
        count -= n;
      }
    });
  };
  if (type.element == tensor::dtype::float32) {
    fill(float{});  // a copy; converting element by element takes longer than making them
  } else {
    fill(double{});
  }
}

// Inputs and constants of one graph at every step. An element is a hash of the seed, the name of its source, the step
// and its index in row-major order of the whole tensor, whichever part is requested: so it is the same on any number of
// ranks, under any plan. Copies are equal.
// - Floating-point inputs are uniform in [-1, 1), in steps of 2^-23; in [1/8, 9/8) if the graph takes a root or
//   logarithm.
// - Integers are row numbers of the table that they index, or classes of the labels that they are; else 0 to 3.
// - Masks (tensor/loss.hpp) drop elements with their rate. They depend on their own seed and on that of the
//   data.
// - Constants are, at every step, like inputs at step 0.
class synthetic_data {
 public:
  // Complexity: linear in the graph, which need not outlive this object.
  synthetic_data(const tensor::algebra& a, const tensor::tensor_graph& g, std::uint64_t seed);

  // The upper limit (exclusive) of an integer input.
  // Throws: unity::error if the graph has no input or constant of that name.
  [[nodiscard]] std::int64_t limit(std::string_view name) const { return static_cast<std::int64_t>(find(name).below); }

  // Effects: writes the elements of the box in row-major order, in the element type; type: of the whole tensor.
  // Complexity: linear in the box; allocates nothing.
  // Throws: unity::error if the graph has no input or constant of that name.
  void fill(std::string_view name, const tensor::tensor_type& type, const parallel::box& b, std::uint64_t step,
            std::span<std::byte> out) const;

 private:
  struct source {
    std::uint64_t below = 4;
    bool is_positive = false;
    bool is_constant = false;
    std::optional<tensor::dropout_rule> mask{};
  };

  [[nodiscard]] const source& find(std::string_view name) const;

  std::map<std::string, source, std::less<>> sources_{};
  std::uint64_t seed_ = 0;
};

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_DATA)

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/source_values.hpp>

namespace unity::train {

UNITY_INLINE synthetic_data::synthetic_data(const tensor::algebra& a, const tensor::tensor_graph& g, std::uint64_t seed)
    : seed_{seed} {
  tensor::source_roles roles{a};
  roles.read(g);
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (a.definition_of(op.kind).source == tensor::source_kind::none || op.kind == a.kind("weight")) {
      continue;
    }
    const auto name = a.read(op).word("name");
    const auto role = roles.of(name);
    sources_[name] = {static_cast<std::uint64_t>(role.below), role.positive, op.kind == a.kind("constant"),
                      tensor::rule_of_mask(name)};
  }
}

UNITY_INLINE void synthetic_data::fill(std::string_view name, const tensor::tensor_type& type, const parallel::box& b,
                                       std::uint64_t step, std::span<std::byte> out) const {
  const auto& s = find(name);
  auto stream = hash_combine(hash_combine(seed_, hash_bytes(name)), s.is_constant ? 0 : step);
  if (s.mask) {
    stream = hash_combine(stream, static_cast<std::uint64_t>(s.mask->seed));
    const auto kept = 1 / (1 - s.mask->rate);
    fill_box(type, b, out,
             [&](std::uint64_t i) { return uniform_of(hash_combine(stream, i)) < s.mask->rate ? 0 : kept; });
  } else if (tensor::is_floating(type.element)) {
    const auto least = s.is_positive ? 0.125 : -1.0;
    const auto width = s.is_positive ? 1.0 : 2.0;
    fill_box(type, b, out, [&](std::uint64_t i) { return least + width * uniform_of(hash_combine(stream, i)); });
  } else {
    const auto below = type.element == tensor::dtype::boolean ? 2 : s.below;
    fill_box(type, b, out, [&](std::uint64_t i) { return static_cast<double>(hash_combine(stream, i) % below); });
  }
}

UNITY_INLINE auto synthetic_data::find(std::string_view name) const -> const source& {
  const auto found = sources_.find(name);
  if (found == sources_.end()) {
    throw error{"data", fmt::format("no input \"{}\" in the graph", name), "the name of an input or constant"};
  }
  return found->second;
}

}  // namespace unity::train

#endif
