// Infers the shapes of the results of HLO instructions.
#pragma once

// Over 500 lines because each opcode has its own rule, and they are best read side by side.

#include <optional>
#include <string>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// Infers from operands, attributes and called computations. Takes from the written shape what these do not determine,
// such as the dimensions of a reshape. The result has no layouts. Empty for unknown opcodes, and for dynamic dimensions
// unless the opcode only passes them on, as tuples and calls do. `where`: for messages.
// Throws: unity::error if operands and attributes do not fit.
[[nodiscard]] std::optional<hlo_shape> infer_shape(const hlo_module& m, const hlo_computation& c,
                                                   const hlo_instruction& i, std::string_view where);

// Whether the opcode has one operand and computes element by element, such as "tanh".
[[nodiscard]] bool is_unary_elementwise(std::string_view opcode);
[[nodiscard]] bool is_binary_elementwise(std::string_view opcode);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_INFER)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/hlo/attribute_values.hpp>

namespace unity::io::detail {

class hlo_inference {
 public:
  hlo_inference(const hlo_module& m, const hlo_computation& c, const hlo_instruction& i, std::string_view where)
      : m_{m}, c_{c}, i_{i}, where_{where} {}

  std::optional<hlo_shape> run() const;

 private:
  using rule = hlo_shape (hlo_inference::*)() const;
  static const std::map<std::string_view, rule>& rules();

  // Access to the instruction.
  [[nodiscard]] std::size_t count() const { return i_.operands.size(); }
  [[nodiscard]] const hlo_shape& operand(std::size_t k) const { return c_[i_.operands[k]].shape; }
  [[nodiscard]] std::int64_t rank(std::size_t k) const {
    return static_cast<std::int64_t>(operand(k).dimensions.size());
  }
  [[nodiscard]] hlo_shape operands_as_result(std::size_t from, std::size_t to) const;
  [[nodiscard]] std::vector<std::size_t> places(std::string_view key, std::int64_t rank) const;
  [[nodiscard]] std::size_t place(std::string_view key, std::int64_t rank) const;
  [[nodiscard]] std::vector<hlo_window_dimension> window(std::size_t rank) const;
  [[nodiscard]] std::int64_t windows(const hlo_window_dimension& w, std::int64_t size) const;

  // Requirements.
  [[noreturn]] void fail(std::string_view expected) const;
  void require(bool holds, std::string_view expected) const {
    if (!holds) {
      fail(expected);
    }
  }
  void require_count(std::size_t n) const { require(count() == n, fmt::format("{} operands", n)); }
  void require_arrays() const;
  void require_scalars(std::size_t from, std::size_t to) const;
  const hlo_computation& callee(std::string_view key) const;
  void require_parameters(const hlo_computation& f, const std::vector<hlo_shape>& expected) const;
  void require_region(std::string_view key, std::size_t parameters) const;

  hlo_shape unary() const;
  hlo_shape binary() const;
  hlo_shape compare() const;
  hlo_shape select() const;
  hlo_shape clamp() const;
  hlo_shape predicate() const;
  hlo_shape part_of_complex() const;
  hlo_shape complex() const;
  hlo_shape convert() const;
  hlo_shape bitcast_convert() const;
  hlo_shape same() const;
  hlo_shape written() const { return i_.shape; }

  hlo_shape broadcast() const;
  hlo_shape reshape() const;
  hlo_shape transpose() const;
  hlo_shape reverse() const;
  hlo_shape concatenate() const;
  hlo_shape slice() const;
  hlo_shape dynamic_slice() const;
  hlo_shape dynamic_update_slice() const;
  hlo_shape pad() const;
  hlo_shape iota() const;
  hlo_shape gather() const;
  hlo_shape scatter() const;

  hlo_shape dot() const;
  hlo_shape convolution() const;
  hlo_shape reduce() const;
  hlo_shape reduce_window() const;
  hlo_shape select_and_scatter() const;
  hlo_shape sort() const;
  hlo_shape fft() const;
  hlo_shape triangular_solve() const;
  hlo_shape random_bits() const;

  hlo_shape tuple() const;
  hlo_shape get_tuple_element() const;
  hlo_shape call() const { return called("to_apply"); }
  hlo_shape fusion() const { return called("calls"); }
  hlo_shape called(std::string_view key) const;
  hlo_shape map() const;
  hlo_shape while_loop() const;
  hlo_shape conditional() const;

  hlo_shape all_reduce() const;
  hlo_shape all_gather() const { return gathered(false); }
  hlo_shape reduce_scatter() const;
  hlo_shape gathered(bool is_scattered) const;
  hlo_shape all_to_all() const;
  hlo_shape number() const { return require_count(0), array_shape("u32", {}); }
  hlo_shape token() const { return array_shape("token", {}); }

  const hlo_module& m_;
  const hlo_computation& c_;
  const hlo_instruction& i_;
  std::string_view where_;
};

inline bool is_dynamic(const hlo_shape& s) {
  return !s.is_dynamic.empty() || std::any_of(s.parts.begin(), s.parts.end(), is_dynamic);
}

UNITY_INLINE const std::map<std::string_view, hlo_inference::rule>& hlo_inference::rules() {
  using self = hlo_inference;
  static const std::map<std::string_view, rule> all{{"compare", &self::compare},
                                                    {"select", &self::select},
                                                    {"clamp", &self::clamp},
                                                    {"is-finite", &self::predicate},
                                                    {"real", &self::part_of_complex},
                                                    {"imag", &self::part_of_complex},
                                                    {"abs", &self::part_of_complex},
                                                    {"complex", &self::complex},
                                                    {"convert", &self::convert},
                                                    {"bitcast-convert", &self::bitcast_convert},
                                                    {"optimization-barrier", &self::same},
                                                    {"constant", &self::written},
                                                    {"parameter", &self::written},
                                                    {"broadcast", &self::broadcast},
                                                    {"reshape", &self::reshape},
                                                    {"transpose", &self::transpose},
                                                    {"reverse", &self::reverse},
                                                    {"concatenate", &self::concatenate},
                                                    {"slice", &self::slice},
                                                    {"dynamic-slice", &self::dynamic_slice},
                                                    {"dynamic-update-slice", &self::dynamic_update_slice},
                                                    {"pad", &self::pad},
                                                    {"iota", &self::iota},
                                                    {"gather", &self::gather},
                                                    {"scatter", &self::scatter},
                                                    {"dot", &self::dot},
                                                    {"convolution", &self::convolution},
                                                    {"reduce", &self::reduce},
                                                    {"reduce-window", &self::reduce_window},
                                                    {"select-and-scatter", &self::select_and_scatter},
                                                    {"sort", &self::sort},
                                                    {"fft", &self::fft},
                                                    {"cholesky", &self::same},
                                                    {"triangular-solve", &self::triangular_solve},
                                                    {"rng-bit-generator", &self::random_bits},
                                                    {"tuple", &self::tuple},
                                                    {"get-tuple-element", &self::get_tuple_element},
                                                    {"call", &self::call},
                                                    {"fusion", &self::fusion},
                                                    {"map", &self::map},
                                                    {"while", &self::while_loop},
                                                    {"conditional", &self::conditional},
                                                    {"all-reduce", &self::all_reduce},
                                                    {"all-reduce-start", &self::all_reduce},
                                                    {"all-reduce-done", &self::same},
                                                    {"all-gather", &self::all_gather},
                                                    {"reduce-scatter", &self::reduce_scatter},
                                                    {"all-to-all", &self::all_to_all},
                                                    {"collective-permute", &self::same},
                                                    {"collective-broadcast", &self::same},
                                                    {"partition-id", &self::number},
                                                    {"replica-id", &self::number},
                                                    {"after-all", &self::token}};
  return all;
}

UNITY_INLINE std::optional<hlo_shape> hlo_inference::run() const {
  const auto at = rules().find(i_.opcode);
  const auto is_open = [&](auto o) { return is_dynamic(c_[o].shape); };
  constexpr std::array<std::string_view, 6> passes_on{"tuple", "get-tuple-element", "call", "fusion",
                                                      "while", "conditional"};
  if (!is_one_of(i_.opcode, passes_on) &&
      (is_dynamic(i_.shape) || std::any_of(i_.operands.begin(), i_.operands.end(), is_open))) {
    return std::nullopt;
  }
  return at != rules().end()                ? std::optional{(this->*at->second)()}
         : is_unary_elementwise(i_.opcode)  ? std::optional{unary()}
         : is_binary_elementwise(i_.opcode) ? std::optional{binary()}
                                            : std::nullopt;
}

UNITY_INLINE void hlo_inference::fail(std::string_view expected) const {
  std::string shapes;
  for (const auto o : i_.operands) {
    shapes += (shapes.empty() ? "" : ", ") + to_text(c_[o].shape, false);
  }
  throw error{where_,
              fmt::format("{} of ({}) gives {}", printable(i_.opcode), printable(shapes, 200),
                          printable(to_text(i_.shape, false), 200)),
              expected};
}

UNITY_INLINE hlo_shape hlo_inference::operands_as_result(std::size_t from, std::size_t to) const {
  std::vector<hlo_shape> all;
  for (auto k = from; k < to; ++k) {
    all.push_back(operand(k));
  }
  return all.size() == 1 ? all.front() : tuple_shape(std::move(all));
}

// The dimensions in an attribute, which must be distinct.
UNITY_INLINE std::vector<std::size_t> hlo_inference::places(std::string_view key, std::int64_t rank) const {
  const auto numbers = integers_of(i_, key);
  require(numbers.has_value(), fmt::format("a list of integers as {}", key));
  std::vector<std::size_t> all;
  for (const auto n : *numbers) {
    const auto d = static_cast<std::size_t>(n);
    require(n >= 0 && n < rank && std::find(all.begin(), all.end(), d) == all.end(),
            fmt::format("dimensions below {} as {}, each once", rank, key));
    all.push_back(d);
  }
  return all;
}

UNITY_INLINE std::size_t hlo_inference::place(std::string_view key, std::int64_t rank) const {
  const auto all = places(key, rank);
  require(all.size() == 1, fmt::format("one dimension as {}", key));
  return all.front();
}

UNITY_INLINE std::vector<hlo_window_dimension> hlo_inference::window(std::size_t rank) const {
  auto all = window_of(i_.text_of("window").value_or("{}"));
  require(all && (all->size() == rank || (all->empty() && !i_.text_of("window"))),
          fmt::format("a window of {} dimensions", rank));
  all->resize(rank);
  return *std::move(all);
}

UNITY_INLINE std::int64_t hlo_inference::windows(const hlo_window_dimension& w, std::int64_t size) const {
  const auto n = window_places(w, size);
  require(n >= 0, "at most 2^50 windows");
  return n;
}

UNITY_INLINE void hlo_inference::require_arrays() const {
  for (std::size_t k = 0; k < count(); ++k) {
    require(!operand(k).is_tuple(), "arrays as operands");
  }
}

UNITY_INLINE void hlo_inference::require_scalars(std::size_t from, std::size_t to) const {
  for (auto k = from; k < to; ++k) {
    require(!operand(k).is_tuple() && operand(k).dimensions.empty(), fmt::format("a scalar as operand {}", k));
  }
}

UNITY_INLINE const hlo_computation& hlo_inference::callee(std::string_view key) const {
  const auto f = i_.callee(key);
  require(f.has_value(), fmt::format("a computation as {}", key));
  return m_[*f];
}

UNITY_INLINE void hlo_inference::require_parameters(const hlo_computation& f,
                                                    const std::vector<hlo_shape>& expected) const {
  const auto parameters = f.parameters();
  require(std::equal(parameters.begin(), parameters.end(), expected.begin(), expected.end(),
                     [&](auto p, const auto& s) { return are_compatible(f[p].shape, s); }),
          fmt::format("of '{}' parameters of the shapes {}", printable(f.name),
                      printable(to_text(tuple_shape(expected), false), 200)));
}

UNITY_INLINE void hlo_inference::require_region(std::string_view key, std::size_t parameters) const {
  const auto& f = callee(key);
  const auto all = f.parameters();
  require(all.size() == parameters &&
              std::all_of(all.begin(), all.end(), [&](auto p) { return f[p].shape.dimensions.empty(); }),
          fmt::format("{} scalars as parameters of '{}'", parameters, printable(f.name)));
}

UNITY_INLINE hlo_shape hlo_inference::unary() const {
  require_count(1);
  return operand(0);
}

UNITY_INLINE hlo_shape hlo_inference::same() const { return unary(); }

UNITY_INLINE hlo_shape hlo_inference::binary() const {
  require_count(2);
  require(are_compatible(operand(0), operand(1)) && !operand(0).is_tuple(), "operands of one shape");
  return operand(0);
}

UNITY_INLINE hlo_shape hlo_inference::compare() const { return array_shape("pred", binary().dimensions); }

UNITY_INLINE hlo_shape hlo_inference::select() const {
  require_count(3);
  require(operand(0).element == "pred", "a pred as the first operand");
  require(are_compatible(operand(1), operand(2)) && operand(0).dimensions == operand(1).dimensions,
          "a condition and two values of the same dimensions");
  return operand(1);
}

UNITY_INLINE hlo_shape hlo_inference::clamp() const {
  require_count(3);
  for (const std::size_t bound : {0U, 2U}) {
    require(operand(bound).element == operand(1).element &&
                (operand(bound).dimensions.empty() || operand(bound).dimensions == operand(1).dimensions),
            "bounds that are scalars or have the value's shape");
  }
  return operand(1);
}

UNITY_INLINE hlo_shape hlo_inference::predicate() const { return array_shape("pred", unary().dimensions); }

UNITY_INLINE hlo_shape hlo_inference::part_of_complex() const {
  auto s = unary();
  s.element = s.element == "c64" ? "f32" : s.element == "c128" ? "f64" : s.element;
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::complex() const {
  auto s = binary();
  require(s.element == "f32" || s.element == "f64", "operands of f32 or f64");
  s.element = s.element == "f32" ? "c64" : "c128";
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::convert() const { return array_shape(i_.shape.element, unary().dimensions); }

// Narrower elements add a last dimension: 2 if they have half as many bits.
UNITY_INLINE hlo_shape hlo_inference::bitcast_convert() const {
  auto dimensions = unary().dimensions;
  const auto from = element_bits(operand(0).element);
  const auto to = element_bits(i_.shape.element);
  require(from > 0 && to > 0, "element types of known sizes");
  if (from > to) {
    dimensions.push_back(from / to);
  } else if (from < to) {
    require(!dimensions.empty() && dimensions.back() == to / from, fmt::format("a last dimension of {}", to / from));
    dimensions.pop_back();
  }
  return array_shape(i_.shape.element, std::move(dimensions));
}

UNITY_INLINE hlo_shape hlo_inference::broadcast() const {
  require_count(1);
  const auto at = places("dimensions", static_cast<std::int64_t>(i_.shape.dimensions.size()));
  require(at.size() == operand(0).dimensions.size(), "a dimension of the result for each of the operand's");
  auto s = array_shape(operand(0).element, i_.shape.dimensions);
  for (std::size_t d = 0; d < at.size(); ++d) {
    s.dimensions[at[d]] = operand(0).dimensions[d];
  }
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::reshape() const {
  require_count(1);
  require(!operand(0).is_tuple() && element_count(operand(0)) == element_count(i_.shape), "as many elements");
  return array_shape(operand(0).element, i_.shape.dimensions);
}

UNITY_INLINE hlo_shape hlo_inference::transpose() const {
  require_count(1);
  const auto order = places("dimensions", rank(0));
  require(order.size() == operand(0).dimensions.size(), "a permutation of the operand's dimensions");
  auto s = operand(0);
  for (std::size_t d = 0; d < order.size(); ++d) {
    s.dimensions[d] = operand(0).dimensions[order[d]];
  }
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::reverse() const {
  require_count(1);
  static_cast<void>(places("dimensions", rank(0)));
  return operand(0);
}

UNITY_INLINE hlo_shape hlo_inference::concatenate() const {
  require(count() > 0, "an operand");
  const auto along = place("dimensions", rank(0));
  auto s = operand(0);
  for (std::size_t k = 1; k < count(); ++k) {
    auto other = operand(k);
    require(other.element == s.element && other.dimensions.size() == s.dimensions.size(), "operands of one rank");
    const auto size = std::exchange(other.dimensions[along], s.dimensions[along]);
    require(other.dimensions == s.dimensions, fmt::format("operands that differ in dimension {} alone", along));
    s.dimensions[along] += size;
  }
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::slice() const {
  require_count(1);
  const auto slices = slices_of(i_.text_of("slice").value_or("{}"));
  require(slices && slices->size() == operand(0).dimensions.size(), "a slice of each dimension");
  auto s = operand(0);
  for (std::size_t d = 0; d < slices->size(); ++d) {
    const auto [start, limit, step] = (*slices)[d];
    require(start >= 0 && start <= limit && limit <= s.dimensions[d] && step > 0,
            fmt::format("a slice within dimension {}", d));
    s.dimensions[d] = (limit - start + step - 1) / step;
  }
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::dynamic_slice() const {
  const auto sizes = integers_of(i_, "dynamic_slice_sizes");
  require(count() > 0 && sizes && sizes->size() == operand(0).dimensions.size() && count() == sizes->size() + 1,
          "a start and a size for each dimension");
  require_scalars(1, count());
  for (std::size_t d = 0; d < sizes->size(); ++d) {
    require((*sizes)[d] >= 0 && (*sizes)[d] <= operand(0).dimensions[d], "sizes within the operand");
  }
  return array_shape(operand(0).element, *sizes);
}

UNITY_INLINE hlo_shape hlo_inference::dynamic_update_slice() const {
  require(count() >= 2 && count() == operand(0).dimensions.size() + 2 && operand(0).element == operand(1).element &&
              rank(0) == rank(1),
          "an update of the operand's rank, and a start for each dimension");
  require_scalars(2, count());
  for (std::size_t d = 0; d < operand(0).dimensions.size(); ++d) {
    require(operand(1).dimensions[d] <= operand(0).dimensions[d], "an update within the operand");
  }
  return operand(0);
}

UNITY_INLINE hlo_shape hlo_inference::pad() const {
  require_count(2);
  require_scalars(1, 2);
  const auto padding = padding_of(i_.text_of("padding").value_or(""));
  require(padding && padding->size() == operand(0).dimensions.size() && operand(0).element == operand(1).element,
          "padding of each dimension, and a value of the operand's type");
  auto s = operand(0);
  for (std::size_t d = 0; d < padding->size(); ++d) {
    const auto [low, high, interior] = (*padding)[d];
    require(interior >= 0, "holes of at least 0");
    s.dimensions[d] = windows({1, 1, low, high, interior + 1, 1}, s.dimensions[d]);
  }
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::iota() const {
  require_count(0);
  require(!i_.shape.is_tuple(), "an array");
  static_cast<void>(place("iota_dimension", static_cast<std::int64_t>(i_.shape.dimensions.size())));
  return i_.shape;
}

UNITY_INLINE hlo_shape hlo_inference::gather() const {
  require_count(2);
  require_arrays();
  const auto result_rank = static_cast<std::int64_t>(i_.shape.dimensions.size());
  const auto offsets = places("offset_dims", result_rank);
  auto left_out = places("collapsed_slice_dims", rank(0));
  const auto batching = places("operand_batching_dims", rank(0));
  left_out.insert(left_out.end(), batching.begin(), batching.end());
  const auto vector = place("index_vector_dim", rank(1) + 1);
  const auto sizes = integers_of(i_, "slice_sizes");
  require(sizes && sizes->size() == operand(0).dimensions.size(), "a slice size for each dimension");
  std::vector<std::int64_t> slice;
  for (std::size_t d = 0; d < sizes->size(); ++d) {
    require((*sizes)[d] >= 0 && (*sizes)[d] <= operand(0).dimensions[d], "slices within the operand");
    if (std::find(left_out.begin(), left_out.end(), d) == left_out.end()) {
      slice.push_back((*sizes)[d]);
    }
  }
  auto batch = operand(1).dimensions;
  if (vector < batch.size()) {
    batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(vector));
  }
  require(slice.size() == offsets.size() && std::is_sorted(offsets.begin(), offsets.end()) &&
              i_.shape.dimensions.size() == offsets.size() + batch.size(),
          fmt::format("a result of {} dimensions, {} of them offsets", batch.size() + slice.size(), slice.size()));
  std::vector<std::int64_t> dimensions;
  for (std::size_t d = 0, b = 0, o = 0; d < i_.shape.dimensions.size(); ++d) {
    const bool is_offset = o < offsets.size() && offsets[o] == d;
    dimensions.push_back(is_offset ? slice[o++] : batch[b++]);
  }
  return array_shape(operand(0).element, std::move(dimensions));
}

UNITY_INLINE hlo_shape hlo_inference::scatter() const {
  require(count() >= 3 && count() % 2 == 1, "operands, indices, and as many updates as operands");
  require_arrays();
  const auto n = count() / 2;
  require_region("to_apply", 2 * n);
  const auto vector = place("index_vector_dim", rank(n) + 1);
  const auto batch = operand(n).dimensions.size() - (vector < operand(n).dimensions.size() ? 1 : 0);
  for (std::size_t k = 0; k < n; ++k) {
    const auto window = places("update_window_dims", rank(n + 1 + k));
    require(
        operand(n + 1 + k).dimensions.size() == batch + window.size() && operand(k).dimensions == operand(0).dimensions,
        "updates of the indices' dimensions and those of the windows");
  }
  return operands_as_result(0, n);
}

UNITY_INLINE hlo_shape hlo_inference::dot() const {
  require(count() >= 2, "2 operands");
  const auto left_batch = places("lhs_batch_dims", rank(0));
  const auto right_batch = places("rhs_batch_dims", rank(1));
  const auto left = places("lhs_contracting_dims", rank(0));
  const auto right = places("rhs_contracting_dims", rank(1));
  require(left.size() == right.size() && left_batch.size() == right_batch.size(), "as many dimensions on both sides");
  auto s = array_shape(i_.shape.element, {});
  for (std::size_t d = 0; d < left_batch.size(); ++d) {
    const auto size = operand(0).dimensions[left_batch[d]];
    require(size == operand(1).dimensions[right_batch[d]], "batch dimensions of the same sizes");
    s.dimensions.push_back(size);
  }
  for (std::size_t d = 0; d < left.size() && count() == 2; ++d) {
    require(operand(0).dimensions[left[d]] == operand(1).dimensions[right[d]],
            "contracted dimensions of the same sizes");
  }
  const auto add_others = [&](std::size_t k, const auto& batch, const auto& contracted) {
    for (std::size_t d = 0; d < operand(k).dimensions.size(); ++d) {
      if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
          std::find(contracted.begin(), contracted.end(), d) == contracted.end()) {
        s.dimensions.push_back(operand(k).dimensions[d]);
      }
    }
  };
  add_others(0, left_batch, left);
  add_others(1, right_batch, right);
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::convolution() const {
  require_count(2);
  const auto d = convolution_dimensions_of(i_.text_of("dim_labels").value_or(""));
  require(d && d->input.spatial.size() + 2 == operand(0).dimensions.size() && rank(0) == rank(1),
          "dim_labels of the operands' ranks");
  const auto groups = integers_of(i_.text_of("feature_group_count").value_or("1"));
  const auto batches = integers_of(i_.text_of("batch_group_count").value_or("1"));
  require(
      groups && batches && groups->size() == 1 && batches->size() == 1 && groups->front() > 0 && batches->front() > 0,
      "positive counts of groups");
  const auto& x = operand(0).dimensions;
  const auto& k = operand(1).dimensions;
  require(x[d->input.feature] % groups->front() == 0 && x[d->input.feature] / groups->front() == k[d->kernel.feature],
          "input features for each group as the kernel has them");
  require(k[d->kernel.batch] % groups->front() == 0 && k[d->kernel.batch] % batches->front() == 0 &&
              x[d->input.batch] % batches->front() == 0,
          "output features and samples that groups divide");
  const auto w = window(d->input.spatial.size());
  auto s = array_shape(i_.shape.element, std::vector<std::int64_t>(x.size()));
  s.dimensions[d->output.batch] = x[d->input.batch] / batches->front();
  s.dimensions[d->output.feature] = k[d->kernel.batch];
  for (std::size_t i = 0; i < w.size(); ++i) {
    require(k[d->kernel.spatial[i]] == w[i].size, "a window of the kernel's size");
    s.dimensions[d->output.spatial[i]] = windows(w[i], x[d->input.spatial[i]]);
  }
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::reduce() const {
  require(count() >= 2 && count() % 2 == 0, "an initial value for each operand");
  require_arrays();
  const auto n = count() / 2;
  require_region("to_apply", 2 * n);
  require_scalars(n, count());
  const auto along = places("dimensions", rank(0));
  std::vector<hlo_shape> parts;
  for (std::size_t k = 0; k < n; ++k) {
    require(operand(k).dimensions == operand(0).dimensions, "operands of the same dimensions");
    auto s = array_shape(operand(n + k).element, {});
    for (std::size_t d = 0; d < operand(k).dimensions.size(); ++d) {
      if (std::find(along.begin(), along.end(), d) == along.end()) {
        s.dimensions.push_back(operand(k).dimensions[d]);
      }
    }
    parts.push_back(std::move(s));
  }
  return n == 1 ? parts.front() : tuple_shape(std::move(parts));
}

UNITY_INLINE hlo_shape hlo_inference::reduce_window() const {
  require(count() >= 2 && count() % 2 == 0, "an initial value for each operand");
  require_arrays();
  const auto n = count() / 2;
  require_region("to_apply", 2 * n);
  require_scalars(n, count());
  const auto w = window(operand(0).dimensions.size());
  std::vector<hlo_shape> parts;
  for (std::size_t k = 0; k < n; ++k) {
    require(operand(k).dimensions == operand(0).dimensions, "operands of the same dimensions");
    auto s = array_shape(operand(n + k).element, operand(k).dimensions);
    for (std::size_t d = 0; d < w.size(); ++d) {
      s.dimensions[d] = windows(w[d], s.dimensions[d]);
    }
    parts.push_back(std::move(s));
  }
  return n == 1 ? parts.front() : tuple_shape(std::move(parts));
}

UNITY_INLINE hlo_shape hlo_inference::select_and_scatter() const {
  require_count(3);
  require_arrays();
  require_region("select", 2);
  require_region("scatter", 2);
  require_scalars(2, 3);
  const auto w = window(operand(0).dimensions.size());
  auto source = operand(0);
  for (std::size_t d = 0; d < w.size(); ++d) {
    source.dimensions[d] = windows(w[d], source.dimensions[d]);
  }
  require(are_compatible(source, operand(1)), fmt::format("a source of {}", to_text(source, false)));
  return operand(0);
}

UNITY_INLINE hlo_shape hlo_inference::sort() const {
  require(count() > 0, "an operand");
  require_arrays();
  static_cast<void>(place("dimensions", rank(0)));
  require_region("to_apply", 2 * count());
  for (std::size_t k = 1; k < count(); ++k) {
    require(operand(k).dimensions == operand(0).dimensions, "operands of the same dimensions");
  }
  return operands_as_result(0, count());
}

UNITY_INLINE hlo_shape hlo_inference::fft() const {
  auto s = unary();
  const auto length = integers_of(i_, "fft_length");
  const auto type = i_.text_of("fft_type").value_or("");
  require(length && !length->empty() && length->size() <= s.dimensions.size(), "an fft_length");
  if (type == "RFFT") {
    s.element = s.element == "f64" ? "c128" : "c64";
    s.dimensions.back() = length->back() == 0 ? 0 : length->back() / 2 + 1;
  } else if (type == "IRFFT") {
    s.element = s.element == "c128" ? "f64" : "f32";
    s.dimensions.back() = length->back();
  }
  return s;
}

UNITY_INLINE hlo_shape hlo_inference::triangular_solve() const {
  require_count(2);
  require(rank(0) == rank(1) && rank(0) >= 2, "two matrices");
  return operand(1);
}

// The shape of the state, and bits of any shape.
UNITY_INLINE hlo_shape hlo_inference::random_bits() const {
  require_count(1);
  if (!i_.shape.is_tuple()) {
    return i_.shape;
  }
  require(i_.shape.parts.size() == 2, "a state and bits");
  return tuple_shape({operand(0), i_.shape.parts[1]});
}

UNITY_INLINE hlo_shape hlo_inference::tuple() const {
  std::vector<hlo_shape> parts;
  for (std::size_t k = 0; k < count(); ++k) {
    parts.push_back(operand(k));
  }
  return tuple_shape(std::move(parts));
}

UNITY_INLINE hlo_shape hlo_inference::get_tuple_element() const {
  require_count(1);
  const auto index = integers_of(i_.text_of("index").value_or(""));
  require(operand(0).is_tuple() && index && index->size() == 1 && index->front() >= 0 &&
              index->front() < static_cast<std::int64_t>(operand(0).parts.size()),
          "an index into the operand, a tuple");
  return operand(0).parts[static_cast<std::size_t>(index->front())];
}

UNITY_INLINE hlo_shape hlo_inference::called(std::string_view key) const {
  const auto& f = callee(key);
  require_parameters(f, tuple().parts);
  return f[f.root].shape;
}

UNITY_INLINE hlo_shape hlo_inference::map() const {
  require(count() > 0, "an operand");
  require_region("to_apply", count());
  for (std::size_t k = 1; k < count(); ++k) {
    require(operand(k).dimensions == operand(0).dimensions, "operands of the same dimensions");
  }
  const auto& f = callee("to_apply");
  return array_shape(f[f.root].shape.element, operand(0).dimensions);
}

UNITY_INLINE hlo_shape hlo_inference::while_loop() const {
  require_count(1);
  const auto& condition = callee("condition");
  const auto& body = callee("body");
  require_parameters(condition, {operand(0)});
  require_parameters(body, {operand(0)});
  require(are_compatible(condition[condition.root].shape, array_shape("pred", {})), "a condition that gives pred[]");
  require(are_compatible(body[body.root].shape, operand(0)), "a body that gives what it takes");
  return operand(0);
}

UNITY_INLINE hlo_shape hlo_inference::conditional() const {
  std::vector<hlo_computation_id> branches;
  if (const auto* const all = i_.find("branch_computations"); all != nullptr) {
    branches = all->computations;
  } else if (const auto yes = i_.callee("true_computation"), no = i_.callee("false_computation"); yes && no) {
    branches = {*yes, *no};
  }
  require(!branches.empty() && count() == branches.size() + 1,
          "an operand for each branch, after the one that chooses");
  require_scalars(0, 1);
  const auto& first = m_[branches.front()];
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const auto& f = m_[branches[b]];
    require_parameters(f, {operand(b + 1)});
    require(are_compatible(f[f.root].shape, first[first.root].shape), "branches that give the same shape");
  }
  return first[first.root].shape;
}

UNITY_INLINE hlo_shape hlo_inference::all_reduce() const {
  require(count() > 0, "an operand");
  require_arrays();
  require_region("to_apply", 2);
  return operands_as_result(0, count());
}

UNITY_INLINE hlo_shape hlo_inference::reduce_scatter() const {
  require_region("to_apply", 2);
  return gathered(true);
}

// If the groups are not stated, accepts each result's written size along the dimension if it is possible.
UNITY_INLINE hlo_shape hlo_inference::gathered(bool is_scattered) const {
  require(count() > 0, "an operand");
  require_arrays();
  const auto ranks = group_size_of(i_.text_of("replica_groups").value_or(""));
  std::vector<hlo_shape> parts;
  for (std::size_t k = 0; k < count(); ++k) {
    const auto along = place("dimensions", rank(k));
    const auto& result = count() == 1 ? i_.shape : i_.shape.parts.size() == count() ? i_.shape.parts[k] : hlo_shape{};
    require(result.dimensions.size() == operand(k).dimensions.size(), "a result of the operand's rank");
    auto s = operand(k);
    auto& size = s.dimensions[along];
    const auto own = result.dimensions[along];
    const auto larger = is_scattered ? size : own;
    const auto smaller = is_scattered ? own : size;
    require(smaller > 0 ? larger % smaller == 0 : larger == 0, "a multiple in the dimension");
    require(!ranks || smaller * *ranks == larger, fmt::format("groups of {}", ranks.value_or(0)));
    size = own;
    parts.push_back(std::move(s));
  }
  return parts.size() == 1 ? parts.front() : tuple_shape(std::move(parts));
}

UNITY_INLINE hlo_shape hlo_inference::all_to_all() const {
  require(count() > 0, "an operand");
  require_arrays();
  if (i_.find("dimensions") != nullptr) {
    static_cast<void>(place("dimensions", rank(0)));
    return unary();
  }
  return tuple();
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::optional<hlo_shape> infer_shape(const hlo_module& m, const hlo_computation& c,
                                                  const hlo_instruction& i, std::string_view where) {
  return detail::hlo_inference{m, c, i, where}.run();
}

UNITY_INLINE bool is_unary_elementwise(std::string_view opcode) {
  constexpr std::array<std::string_view, 36> all{"tan",
                                                 "copy",
                                                 "sinh",
                                                 "abs",
                                                 "acos",
                                                 "acosh",
                                                 "asin",
                                                 "asinh",
                                                 "atanh",
                                                 "cbrt",
                                                 "ceil",
                                                 "convert",
                                                 "cosh",
                                                 "cosine",
                                                 "count-leading-zeros",
                                                 "erf",
                                                 "exponential",
                                                 "exponential-minus-one",
                                                 "floor",
                                                 "imag",
                                                 "is-finite",
                                                 "log",
                                                 "log-plus-one",
                                                 "logistic",
                                                 "negate",
                                                 "not",
                                                 "popcnt",
                                                 "real",
                                                 "reduce-precision",
                                                 "round-nearest-afz",
                                                 "round-nearest-even",
                                                 "rsqrt",
                                                 "sign",
                                                 "sine",
                                                 "sqrt",
                                                 "tanh"};
  return detail::is_one_of(opcode, all);
}

UNITY_INLINE bool is_binary_elementwise(std::string_view opcode) {
  constexpr std::array<std::string_view, 17> all{"xor",
                                                 "add",
                                                 "and",
                                                 "atan2",
                                                 "compare",
                                                 "complex",
                                                 "divide",
                                                 "maximum",
                                                 "minimum",
                                                 "multiply",
                                                 "or",
                                                 "power",
                                                 "remainder",
                                                 "shift-left",
                                                 "shift-right-arithmetic",
                                                 "shift-right-logical",
                                                 "subtract"};
  return detail::is_one_of(opcode, all);
}

}  // namespace unity::io

#endif
