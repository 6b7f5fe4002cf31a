// Models whose files leave sizes open (batch, sequence): read at unusual sizes, written for all sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <unity/io/onnx_model.hpp>
#include <unity/io/open_sizes.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/equivalence.hpp>

namespace unity::io {

// As parse_onnx, but dimensions that neither the file nor the options give a size stay open. The graph is stated at one
// size of each, `open.axes` of the model, and what is written of it, or of a graph that rules made of it, is for all
// sizes, as far as check_open says so.
// Throws: unity::error, also where the model cannot be read at these sizes.
// Complexity: three times that of parse_onnx, more where numbers of the model are as unusual as the sizes.
[[nodiscard]] onnx_model parse_open_onnx(const tensor::algebra& algebra, const std::string& bytes,
                                         std::string_view file, const std::filesystem::path& directory,
                                         const import_options& options = {});
[[nodiscard]] onnx_model import_open_onnx(const tensor::algebra& algebra, const std::filesystem::path& path,
                                          const import_options& options = {});

// Does what would be written of `model` compute what the file does at other sizes of the open axes, one each among
// them? Sizes that the file does not take are left out. Throws: unity::error with the first problem: an operator holds
// a size, or the two differ.
[[nodiscard]] tensor::equivalence_report check_open(const tensor::algebra& algebra, const std::string& bytes,
                                                    std::string_view file, const std::filesystem::path& directory,
                                                    const onnx_model& model, const import_options& options,
                                                    const tensor::equivalence_options& how = {});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPEN)

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/onnx/size_record.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::io {

namespace detail {

// What an axis counts, as its place suggests: the least size that the model may take, and what it is a multiple of.
struct axis_class {
  std::int64_t from = 11;
  std::int64_t multiple = 1;
};

[[nodiscard]] UNITY_INLINE axis_class class_of(const open_axis& a) {
  if (a.rank >= 4 && a.axis >= 2) {
    return {7, 32};  // height and width
  }
  return a.axis == 0 ? axis_class{11, 1} : axis_class{67, 1};
}

[[nodiscard]] UNITY_INLINE bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) {
      return false;
    }
  }
  return n > 1;
}

// Which axes have one size: those of one number.
using axis_groups = std::vector<std::size_t>;

// Sizes of all axes, three times, all different primes (times 32). `shift`: how many primes to leave out.
[[nodiscard]] UNITY_INLINE std::vector<std::vector<std::int64_t>> unusual_sizes(const std::vector<open_axis>& axes,
                                                                                const axis_groups& groups,
                                                                                std::size_t shift) {
  std::map<std::int64_t, std::int64_t> next;  // by the least
  const auto take = [&](const axis_class& c) {
    auto& n = next.emplace(c.from, c.from).first->second;
    while (!is_prime(n)) {
      ++n;
    }
    return n++ * c.multiple;
  };
  for (std::size_t i = 0; i < shift; ++i) {
    for (const auto& a : axes) {
      static_cast<void>(take(class_of(a)));
    }
  }
  std::vector<std::vector<std::int64_t>> sizes(3, std::vector<std::int64_t>(axes.size()));
  for (auto& at : sizes) {
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const auto first = std::find(groups.begin(), groups.end(), groups[a]) - groups.begin();
      const auto same = static_cast<std::size_t>(first);
      at[a] = same < a ? at[same] : take(class_of(axes[a]));
    }
  }
  return sizes;
}

[[nodiscard]] UNITY_INLINE std::vector<open_axis> sized(std::vector<open_axis> axes,
                                                        const std::vector<std::int64_t>& sizes) {
  for (std::size_t a = 0; a < axes.size(); ++a) {
    axes[a].size = sizes[a];
  }
  return axes;
}

// Constants of a graph.
[[nodiscard]] UNITY_INLINE std::vector<std::string> constant_names(const tensor::algebra& algebra,
                                                                   const tensor::tensor_graph& g) {
  std::vector<std::string> names;
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    if (algebra.definition_of(op.kind).source == tensor::source_kind::constant) {
      names.push_back(algebra.read(op).word("name"));
    }
  }
  return names;
}

}  // namespace detail

UNITY_INLINE onnx_model parse_open_onnx(const tensor::algebra& algebra, const std::string& bytes, std::string_view file,
                                        const std::filesystem::path& directory, const import_options& options) {
  using namespace detail;
  const auto reader = [&] { return model_reader{algebra, std::string{file}, directory, options}; };
  const auto axes = reader().open_axes(bytes);
  if (axes.empty()) {
    return reader().read(bytes);
  }
  const auto attempt = [&](const axis_groups& groups, std::size_t shift, bool must) -> std::optional<onnx_model> {
    const auto sizes = unusual_sizes(axes, groups, shift);
    size_record other{nullptr};
    size_record record{&other};
    size_record third{nullptr};
    static_cast<void>(reader().read_open(bytes, sized(axes, sizes[1]), other));
    auto model = reader().read_open(bytes, sized(axes, sizes[0]), record);
    static_cast<void>(reader().read_open(bytes, sized(axes, sizes[2]), third));
    const std::vector<const size_record*> all{&record, &other, &third};
    if (!record.find_forms(all, sizes, model.open) && !must) {
      return std::nullopt;
    }
    for (const auto& name : constant_names(algebra, model.graph)) {
      if (const auto* known = record.find(name); known != nullptr && record.varies(name, *known)) {
        model.open.computed.insert(name);
      }
    }
    record.write_computing(all, sizes, model.open);
    return model;
  };
  const auto best = [&](const axis_groups& groups) {
    constexpr std::size_t attempts = 4;
    for (std::size_t shift = 0;; ++shift) {
      if (auto model = attempt(groups, shift, shift + 1 == attempts)) {
        return *std::move(model);
      }
    }
  };
  axis_groups apart;
  axis_groups by_place;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    apart.push_back(a);
    by_place.push_back(static_cast<std::size_t>(axes[a].axis));
  }
  try {
    return best(apart);
  } catch (const error& e) {
    // Some exporters give each input's batch a name of its own.
    try {
      return best(by_place);
    } catch (const error&) {
      std::string flags;
      for (const auto& a : axes) {
        flags += fmt::format("{}--dim {}=SIZE", flags.empty() ? "" : " ", printable(a.name, 60));
      }
      throw error{std::string{file}, fmt::format("cannot be read with open sizes ({})", e.what()), flags};
    }
  }
}

UNITY_INLINE onnx_model import_open_onnx(const tensor::algebra& algebra, const std::filesystem::path& path,
                                         const import_options& options) {
  return parse_open_onnx(algebra, read_file(path), path.string(), path.parent_path(), options);
}

UNITY_INLINE tensor::equivalence_report check_open(const tensor::algebra& algebra, const std::string& bytes,
                                                   std::string_view file, const std::filesystem::path& directory,
                                                   const onnx_model& model, const import_options& options,
                                                   const tensor::equivalence_options& how) {
  const auto written = serialize_onnx(algebra, model);
  tensor::equivalence_report all;
  all.passed = true;
  std::size_t checked = 0;
  for (const std::int64_t round : {0, 1, 2, 3}) {
    auto at = options;
    std::map<std::int64_t, std::int64_t> taken;  // axes of one size have one
    std::string sizes;
    for (const auto& a : model.open.axes) {
      const auto c = detail::class_of(a);
      const auto next = static_cast<std::int64_t>(taken.size());
      const auto size = round == 0       ? c.multiple
                        : c.multiple > 1 ? c.multiple * (round + 1) + (round == 3 ? 1 + next : 0)
                        : c.from > 11    ? 3 * round + 2 + next
                                         : 2 * round + next;
      at.dimensions[a.name] = taken.emplace(a.size, size).first->second;
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ", ", printable(a.name, 60), at.dimensions[a.name]);
    }
    std::optional<onnx_model> original;
    try {
      original = parse_onnx(algebra, bytes, file, directory, at);
    } catch (const error&) {
      continue;
    }
    const auto rewritten = parse_onnx(algebra, written, "the optimized model", {}, at);
    const auto expected = fmt::format("the same as {} at {}", file, sizes);
    for (const auto& name : detail::constant_names(algebra, rewritten.graph)) {
      const auto one = original->data.find(name);
      const auto other = rewritten.data.find(name);
      if (one != original->data.end() && other != rewritten.data.end() && !(one->second == other->second)) {
        throw error{fmt::format("constant '{}'", printable(name, 120)), "other elements", expected};
      }
    }
    const auto report = tensor::check_equivalence(algebra, original->graph, rewritten.graph, how);
    if (!report.passed) {
      throw error{"the optimized model", report.problem, expected};
    }
    ++checked;
    all.max_rel_error = std::max(all.max_rel_error, report.max_rel_error);
    all.points += report.points;
    all.undefined += report.undefined;
    all.sizes += fmt::format("{}{}", all.sizes.empty() ? "" : "; ", sizes);
  }
  if (checked < 2) {
    throw error{"the optimized model", "is not comparable at other sizes", "a file that takes several"};
  }
  return all;
}

}  // namespace unity::io

#endif
