// Sizes that a file leaves open (batch, sequence), and the numbers of a graph that are computed from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <unity/core/config.hpp>

namespace unity::io {

// A dimension of inputs to which the file gives no size, and maybe a name. Regular.
struct open_axis {
  std::string name{};   // from the file, else INPUT.AXIS
  std::string input{};  // the first input that has it
  std::int64_t axis = 0;
  std::int64_t rank = 0;  // of that input
  bool is_named = false;  // by the file
  std::int64_t size = 0;  // at which the graph is stated

  friend bool operator==(const open_axis&, const open_axis&) = default;
};

// A size as a polynomial in the sizes of open axes.
struct size_form {
  struct term {
    std::int64_t factor = 1;
    std::vector<std::size_t> axes{};  // whose sizes are multiplied; repeated for powers

    friend bool operator==(const term&, const term&) = default;
  };
  std::vector<term> terms{};
  std::int64_t added = 0;

  friend bool operator==(const size_form&, const size_form&) = default;
};

// How a graph of numbers, stated at one size of each open axis, is written for all sizes: the sizes are so unusual that
// a number identifies its origin. Regular; empty if nothing is open.
struct open_sizes {
  std::vector<open_axis> axes{};
  std::map<std::int64_t, size_form> forms{};
  std::set<std::int64_t> unstated{};   // numbers that change with the sizes and have no known form
  std::set<std::int64_t> constants{};  // numbers that do not change

  // Constants whose elements depend on open sizes (positions, masks), and a serialized GraphProto that computes them:
  // nodes as in the file; `Sizes` of the domain unity is a placeholder for an integer or a list of integers, given by
  // `values`.
  std::set<std::string> computed{};
  std::string computing{};

  [[nodiscard]] bool empty() const noexcept { return axes.empty(); }
  // Whether it changes with the sizes.
  [[nodiscard]] bool is_open(std::int64_t number) const { return unstated.contains(number) || form_of(number); }
  // Empty for a number that does not change, or has no form.
  [[nodiscard]] std::optional<size_form> form_of(std::int64_t number) const;

  friend bool operator==(const open_sizes&, const open_sizes&) = default;
};

// A form that matches the number at several sizes of the open axes: factor * sizes + number, or the sum of two sizes
// and a number. sizes[b][a]: the size of axis a; numbers[b]: the number at these sizes.
// Throws: nothing; empty if no form matches.
[[nodiscard]] std::optional<size_form> fitted_form(const std::vector<std::vector<std::int64_t>>& sizes,
                                                   const std::vector<std::int64_t>& numbers);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_OPEN_SIZES)

#include <algorithm>

namespace unity::io {

UNITY_INLINE std::optional<size_form> open_sizes::form_of(std::int64_t number) const {
  const auto found = forms.find(number);
  if (found != forms.end()) {
    return found->second;
  }
  if (number <= 0 || constants.contains(number) || unstated.contains(number)) {
    return std::nullopt;
  }
  // A position near the end, such as the last one: it was not recorded, because the file counts it from the end.
  constexpr std::int64_t least_length = 23;
  constexpr std::int64_t farthest = 4;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].size >= least_length && number < axes[a].size && number + farthest >= axes[a].size) {
      return size_form{{{1, {a}}}, number - axes[a].size};
    }
  }
  size_form::term product{number, {}};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    // Axes of equal size count as one.
    while (product.factor % axes[a].size == 0) {
      product.factor /= axes[a].size;
      product.axes.push_back(a);
    }
  }
  return product.axes.empty() ? std::nullopt : std::optional{size_form{{product}, 0}};
}

UNITY_INLINE std::optional<size_form> fitted_form(const std::vector<std::vector<std::int64_t>>& sizes,
                                                  const std::vector<std::int64_t>& numbers) {
  const auto count = sizes.front().size();
  const auto fits = [&](const std::vector<std::size_t>& axes) -> std::optional<size_form> {
    std::vector<std::int64_t> products;
    for (const auto& at : sizes) {
      std::int64_t product = 1;
      for (const auto a : axes) {
        product *= at[a];
      }
      products.push_back(product);
    }
    const auto step = products[1] - products[0];
    if (step == 0 || (numbers[1] - numbers[0]) % step != 0) {
      return std::nullopt;
    }
    const auto factor = (numbers[1] - numbers[0]) / step;
    const auto added = numbers[0] - factor * products[0];
    for (std::size_t b = 0; b < numbers.size(); ++b) {
      if (factor == 0 || numbers[b] != factor * products[b] + added) {
        return std::nullopt;
      }
    }
    return size_form{{{factor, axes}}, added};
  };
  std::vector<std::vector<std::size_t>> products{{}};
  for (std::size_t at = 0; at < products.size(); ++at) {
    const auto axes = products[at];
    if (!axes.empty()) {
      if (auto form = fits(axes)) {
        return form;
      }
    }
    for (std::size_t a = axes.empty() ? 0 : axes.back(); a < count && axes.size() < 3; ++a) {
      products.push_back(axes);
      products.back().push_back(a);
    }
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      const auto added = numbers[0] - sizes[0][a] - sizes[0][b];
      bool fit = true;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        fit = fit && numbers[i] == sizes[i][a] + sizes[i][b] + added;
      }
      if (fit) {
        return size_form{{{1, {a}}, {1, {b}}}, added};
      }
    }
  }
  return std::nullopt;
}

}  // namespace unity::io

#endif
