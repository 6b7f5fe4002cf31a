// How one operator is divided (degrees, and a device per task), and what each task reads and writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/printable.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

// Half-open range of positions of an index.
struct index_range {
  std::int64_t begin = 0;
  std::int64_t end = 1;
};

// The elements of a tensor that ranges of an operator's indices access. dims: the indices that number each dimension of
// the tensor. range(i): the range of index i; if several indices number a dimension, ranges must be whole blocks of the
// inner ones. Along windows, halos are included, but not padding. is_result: a dimension that a window numbers is
// returned whole, because the parts of overlapping windows add up there.
// Complexity: linear in the indices of its dimensions.
template <class Range>
[[nodiscard]] box box_of_indices(const tensor::index_structure& s, const tensor::tensor_indices& dims,
                                 const tensor::shape& sizes, const Range& range, bool is_result = false) {
  auto b = whole(sizes);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].window) {
      if (is_result) {
        continue;
      }
      const auto& w = s.windows[*dims[d].window];
      const auto outer = range(static_cast<std::size_t>(w.outer));
      const auto inner = w.inner < 0 ? index_range{} : range(static_cast<std::size_t>(w.inner));
      const auto first = outer.begin * w.stride + inner.begin * w.dilation - w.before;
      const auto last = (outer.end - 1) * w.stride + (inner.end - 1) * w.dilation - w.before;
      b.begin[d] = std::clamp(first, std::int64_t{0}, sizes[d]);
      b.end[d] = std::clamp(last + 1, b.begin[d], sizes[d]);
    } else if (!dims[d].indices.empty()) {
      std::int64_t first = 0;
      std::int64_t last = 0;
      for (const auto i : dims[d].indices) {
        first = first * s.indices[i].size + range(i).begin;
        last = last * s.indices[i].size + range(i).end - 1;
      }
      b.begin[d] = first;
      b.end[d] = last + 1;
    }
  }
  return b;
}

// Regular. A degree per divisible dimension of the operator, with equal parts along each. Tasks are numbered in
// row-major order of [partials...][copies][reductions...][degrees...]; task t runs on devices[t]. Several tasks may
// share a device. A result is a sum of product(partials) * product(reductions) partials.
// Source: Jia's dissertation (2020), section 3.3; Unger et al., Unity (OSDI 2022), section 3, for sums and copies.
struct configuration {
  degree_list degrees{};
  small_vector<hardware::device_id, 8> devices{};
  degree_list reductions{};  // per operator_dimensions::reductions: parts of that sum; empty: 1 each
  degree_list partials{};    // per operator_dimensions::groups: partials of its operands; empty: 1 each
  std::int64_t copies = 1;   // tasks that compute the same

  [[nodiscard]] std::size_t task_count() const noexcept { return devices.size(); }
  [[nodiscard]] task_grid grid() const { return {degrees, reductions, partials, copies}; }

  friend bool operator==(const configuration&, const configuration&) = default;
};

namespace detail {

// The degree of each index of the structure: an outer index is divided fully before an inner one. Nothing if a degree
// does not factor this way.
[[nodiscard]] std::optional<std::vector<std::int64_t>> index_degrees(const operator_dimensions& o,
                                                                     const degree_list& degrees);
[[nodiscard]] std::optional<std::vector<std::int64_t>> index_degrees(const operator_dimensions& o, const task_grid& g);

// The first dimension whose parts would not be boxes, as text; empty if there is none.
[[nodiscard]] std::string scattered(const operator_dimensions& o, std::span<const std::int64_t> degrees);

// Why the operator cannot have these partials, parts of sums and copies; empty if it can.
[[nodiscard]] std::string why_not_partials(const operator_dimensions& o, const configuration& c);

}  // namespace detail

// Why the operator cannot be divided this way on that many devices, in one line; empty if it can.
[[nodiscard]] std::string why_not(const operator_dimensions& o, const configuration& c, std::size_t devices);

// What a task reads of each operand (with halos, without padding) and writes of each result.
struct shard {
  std::vector<box> operands{};
  std::vector<box> results{};

  friend bool operator==(const shard&, const shard&) = default;
};

namespace detail {

// The part of each index that a task has. parts: the number of parts per index.
[[nodiscard]] std::vector<std::int64_t> part_numbers(const operator_dimensions& o, const task_grid& g,
                                                     std::span<const std::int64_t> parts, const task_place& place);

}  // namespace detail

// What each task of a valid configuration reads and writes. The blocks of a result are disjoint and cover it; each is
// written by one task per partial and copy.
// Complexity: linear in tasks, and in operands, results and their ranks.
[[nodiscard]] std::vector<shard> shards_of(const operator_dimensions& o, const task_grid& g);
// For one task. Complexity: linear in operands, results and their ranks.
[[nodiscard]] shard shard_of(const operator_dimensions& o, const task_grid& g, std::size_t task);

}  // namespace unity::parallel

// "[2,1] on [0,1]", with non-defaults as in "[1,1] reductions [2] partials [2] copies 2 on [0,1]".
template <>
struct fmt::formatter<unity::parallel::configuration> : unity::plain_formatter {
  template <class Context>
  auto format(const unity::parallel::configuration& c, Context& context) const -> decltype(context.out()) {
    auto text = fmt::format("{}", c.degrees);
    if (!c.reductions.empty()) {
      text += fmt::format(" reductions {}", c.reductions);
    }
    if (!c.partials.empty()) {
      text += fmt::format(" partials {}", c.partials);
    }
    if (c.copies != 1) {
      text += fmt::format(" copies {}", c.copies);
    }
    return put(context, fmt::format("{} on {}", text, c.devices));
  }
};

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_CONFIGURATION)

#include <unity/core/config.hpp>
#include <unity/core/row_major.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<std::vector<std::int64_t>> index_degrees(const operator_dimensions& o,
                                                                    const degree_list& degrees) {
  std::vector<std::int64_t> all(o.structure.indices.size(), 1);
  for (std::size_t k = 0; k < o.divisible.size(); ++k) {
    auto left = degrees[k];
    for (const auto i : o.divisible[k].indices) {
      const auto size = o.structure.indices[i].size;
      const auto part = left % size == 0 ? size : left;
      if (size % part != 0) {
        return std::nullopt;
      }
      all[i] = part;
      left /= part;
    }
    if (left != 1) {
      return std::nullopt;
    }
  }
  return all;
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> index_degrees(const operator_dimensions& o, const task_grid& g) {
  auto all = index_degrees(o, g.degrees);
  for (std::size_t r = 0; all && r < g.reductions.size(); ++r) {
    (*all)[o.reductions[r].indices[0]] = g.reductions[r];
  }
  return all;
}

UNITY_INLINE std::string scattered(const operator_dimensions& o, std::span<const std::int64_t> degrees) {
  const auto check = [&](const std::vector<tensor::tensor_indices>& tensors, const char* what) -> std::string {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::size_t d = 0; d < tensors[t].size(); ++d) {
        bool whole_before = true;
        for (const auto i : tensors[t][d].indices) {
          if (degrees[i] > 1 && !whole_before) {
            return fmt::format("parts of {} {} that lie scattered along dimension {}", what, t, d);
          }
          whole_before = whole_before && degrees[i] == o.structure.indices[i].size;
        }
      }
    }
    return {};
  };
  const auto operands = check(o.structure.operands, "operand");
  return operands.empty() ? check(o.structure.results, "result") : operands;
}

UNITY_INLINE std::string why_not_partials(const operator_dimensions& o, const configuration& c) {
  if (!c.reductions.empty() && c.reductions.size() != o.reductions.size()) {
    return fmt::format("{} degrees for {} sums that can be divided", c.reductions.size(), o.reductions.size());
  }
  for (std::size_t r = 0; r < c.reductions.size(); ++r) {
    const auto index = o.reductions[r].indices[0];
    const auto& name = o.structure.indices[index].name;
    if (c.reductions[r] < 1 || o.reductions[r].size % c.reductions[r] != 0) {
      return fmt::format("degree {} does not divide the size {} of the sum over {}", c.reductions[r],
                         o.reductions[r].size, name);
    }
    const auto& windows = o.structure.windows;
    const auto slides = [&](const auto& w) { return w.inner == static_cast<int>(index); };
    if (c.reductions[r] > 1 && std::any_of(windows.begin(), windows.end(), slides)) {
      return fmt::format("parts of the sum over {}, whose windows would not fit the operand", name);
    }
  }
  if (!c.partials.empty() && c.partials.size() != o.groups.size()) {
    return fmt::format("{} numbers of partials for {} linear groups", c.partials.size(), o.groups.size());
  }
  for (std::size_t g = 0; g < c.partials.size(); ++g) {
    if (c.partials[g] < 1) {
      return fmt::format("{} partials of linear group {}", c.partials[g], g);
    }
  }
  return c.copies < 1 ? fmt::format("{} copies", c.copies) : std::string{};
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::string why_not(const operator_dimensions& o, const configuration& c, std::size_t devices) {
  if (auto reason = detail::why_not_partials(o, c); !reason.empty()) {
    return reason;
  }
  if (c.degrees.size() != o.divisible.size()) {
    return fmt::format("{} degrees for {} divisible dimensions", c.degrees.size(), o.divisible.size());
  }
  const auto most = static_cast<std::int64_t>(devices);
  const auto more = [&] { return fmt::format("more tasks than the {} devices", devices); };
  auto tasks = c.copies;
  if (tasks > most) {
    return more();
  }
  for (const auto* list : {&c.partials, &c.reductions}) {
    for (const auto d : *list) {
      if (d > most / tasks) {
        return more();
      }
      tasks *= d;
    }
  }
  for (std::size_t k = 0; k < c.degrees.size(); ++k) {
    const auto& p = o.divisible[k];
    const auto name = fmt::format("{} dimension {}", parallelism_names[static_cast<std::size_t>(p.kind)], p.dimension);
    if (c.degrees[k] < 1 || p.size % c.degrees[k] != 0) {
      return fmt::format("degree {} does not divide the size {} of {}", c.degrees[k], p.size, name);
    }
    if (c.degrees[k] > most / tasks) {
      return more();
    }
    tasks *= c.degrees[k];
  }
  if (static_cast<std::size_t>(tasks) != c.devices.size()) {
    return fmt::format("{} devices for {} tasks", c.devices.size(), tasks);
  }
  for (const auto d : c.devices) {
    if (d.index() >= devices) {
      return d.valid() ? fmt::format("no device {} of {}", d.index(), devices) : "a task without a device";
    }
  }
  auto degrees = detail::index_degrees(o, c.degrees);
  if (!degrees) {
    return "a degree that does not fall into the factors of its dimension";
  }
  for (std::size_t r = 0; r < c.reductions.size(); ++r) {
    (*degrees)[o.reductions[r].indices[0]] = c.reductions[r];
  }
  return detail::scattered(o, *degrees);
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::vector<std::int64_t> part_numbers(const operator_dimensions& o, const task_grid& g,
                                                    std::span<const std::int64_t> parts, const task_place& place) {
  std::vector<std::int64_t> numbers(parts.size(), 0);
  const auto sums = position_of(place.reduction, g.reductions);
  for (std::size_t r = 0; r < sums.size(); ++r) {
    numbers[o.reductions[r].indices[0]] = sums[r];
  }
  const auto digits = position_of(place.block, g.degrees);
  for (std::size_t k = 0; k < digits.size(); ++k) {
    auto part = digits[k];
    const auto& indices = o.divisible[k].indices;
    for (auto i = indices.size(); i-- > 0;) {
      numbers[indices[i]] = part % parts[indices[i]];
      part /= parts[indices[i]];
    }
  }
  return numbers;
}

// parts: the number of parts per index. ranges: a buffer for the task's ranges.
UNITY_INLINE shard shard_of(const operator_dimensions& o, const task_grid& g, std::span<const std::int64_t> parts,
                            std::size_t task, std::vector<index_range>& ranges) {
  const auto numbers = part_numbers(o, g, parts, place_of(g, task));
  ranges.resize(parts.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto size = o.structure.indices[i].size / parts[i];
    ranges[i] = {numbers[i] * size, (numbers[i] + 1) * size};
  }
  const auto range = [&](std::size_t i) { return ranges[i]; };
  shard one;
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    one.operands.push_back(box_of_indices(o.structure, o.structure.operands[i], o.inputs[i].dims, range));
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    one.results.push_back(box_of_indices(o.structure, o.structure.results[r], o.outputs[r].dims, range, true));
  }
  return one;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<shard> shards_of(const operator_dimensions& o, const task_grid& g) {
  const auto parts = detail::index_degrees(o, g);
  UNITY_EXPECTS(parts.has_value(), "a valid configuration");
  const auto distinct = static_cast<std::size_t>(g.blocks() * product(g.reductions));
  std::vector<shard> all(static_cast<std::size_t>(g.tasks()));
  std::vector<index_range> ranges;
  for (std::size_t t = 0; t < all.size(); ++t) {
    all[t] = t < distinct ? detail::shard_of(o, g, *parts, t, ranges) : all[t - distinct];
  }
  return all;
}

UNITY_INLINE shard shard_of(const operator_dimensions& o, const task_grid& g, std::size_t task) {
  const auto parts = detail::index_degrees(o, g);
  UNITY_EXPECTS(parts.has_value(), "a valid configuration");
  std::vector<index_range> ranges;
  return detail::shard_of(o, g, *parts, task, ranges);
}

}  // namespace unity::parallel

#endif
