// Models whose files leave sizes open (batch, sequence): read at unusual sizes, written for all sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/equivalence.hpp>

namespace unity::io {

// As parse_onnx, but dimensions to which neither the file nor the options give a size stay open. The graph is stated at
// one size of each (`open.axes` of the model); the file written from it, or from a graph rewritten from it, is valid
// for all sizes, as far as check_open confirms it.
// Throws: unity::error, also if the model cannot be read at these sizes. Complexity: one attempt reads the model three
// times (parse_onnx), or up to twelve times if quotients of sizes are needed. There is one attempt if it succeeds, and
// at most 24, each at other sizes, if numbers of the model coincide with the sizes or the model rejects them.
[[nodiscard]] onnx_model parse_open_onnx(const tensor::algebra& algebra, const std::string& bytes,
                                         std::string_view file, const std::filesystem::path& directory,
                                         const import_options& options = {});
[[nodiscard]] onnx_model import_open_onnx(const tensor::algebra& algebra, const std::filesystem::path& path,
                                          const import_options& options = {});

// Checks that the file written for `model` computes the same as the original file at other sizes of the open axes,
// including 1. Skips sizes that the original file rejects.
// Throws: unity::error with the first problem: an operator contains a size, or the two differ.
[[nodiscard]] tensor::equivalence_report check_open(const tensor::algebra& algebra, const std::string& bytes,
                                                    std::string_view file, const std::filesystem::path& directory,
                                                    const onnx_model& model, const import_options& options,
                                                    const tensor::equivalence_options& equivalence = {});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPEN)

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/printable.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/size_record.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

namespace detail {

// The sizes to try for an axis, guessed from its position: `multiple` times the numbers from `from` on, of which models
// are likely to accept the first.
struct axis_class {
  std::int64_t from = 11;
  std::int64_t multiple = 1;
  bool shifts = true;  // whether to try other primes
  bool primes = true;  // whether to use primes only; otherwise all numbers from `from` on
};

// The least sizes of sequences to try, in this order. Models that accept fewer than 67 positions are rare.
inline constexpr std::int64_t lengths[] = {67, 23, 11};

// `length`: the least size, from `lengths`, of axes that are neither the first dimension nor part of an image.
[[nodiscard]] UNITY_INLINE axis_class class_of(const open_axis& a, std::int64_t length) {
  if (a.rank >= 4 && a.axis >= 2) {
    return {7, 32, true};  // height and width
  }
  const bool is_short = length == 11;
  return a.axis == 0 ? axis_class{is_short ? 17 : 11, 1} : axis_class{length, 1, !is_short, !is_short};
}

[[nodiscard]] UNITY_INLINE bool is_prime(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) {
      return false;
    }
  }
  return n > 1;
}

// The names of the constants of a graph.
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

// How the unusual sizes are chosen.
struct size_choice {
  std::vector<std::size_t> groups{};  // by axis; axes of a group share a size
  std::int64_t length = 0;            // see class_of
  std::size_t shift = 0;              // primes to skip for each axis
};

// Three sizes per axis, all different primes, or 32 times primes for images; short lengths need not be prime.
[[nodiscard]] UNITY_INLINE std::vector<std::vector<std::int64_t>> unusual_sizes(const std::vector<open_axis>& axes,
                                                                                const size_choice& choice) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> next;
  const auto take = [&](const axis_class& c) {
    auto& n = next.emplace(std::pair{c.from, c.multiple}, c.from).first->second;
    while (c.primes && !is_prime(n)) {
      ++n;
    }
    return n++ * c.multiple;
  };
  for (const auto& a : axes) {
    for (std::size_t i = 0; class_of(a, choice.length).shifts && i < choice.shift; ++i) {
      static_cast<void>(take(class_of(a, choice.length)));
    }
  }
  std::vector<std::vector<std::int64_t>> sizes(3, std::vector<std::int64_t>(axes.size()));
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    auto& at = sizes[b];
    for (std::size_t i = 0; i < axes.size(); ++i) {
      // Alternates the order of axes, so that height and width do not always differ by the same number.
      const auto a = b % 2 == 0 ? i : axes.size() - 1 - i;
      if (at[a] == 0) {
        const auto size = take(class_of(axes[a], choice.length));
        for (std::size_t same = 0; same < axes.size(); ++same) {
          at[same] = choice.groups[same] == choice.groups[a] ? size : at[same];
        }
      }
    }
  }
  return sizes;
}

class open_importer {
 public:
  open_importer(const tensor::algebra& algebra, const std::string& bytes, std::string_view file,
                const std::filesystem::path& directory, const import_options& options)
      : algebra_{algebra},
        bytes_{bytes},
        file_{file},
        directory_{directory},
        options_{options},
        axes_{reader().open_axes(bytes)} {}

  [[nodiscard]] onnx_model read() const;

 private:
  [[nodiscard]] model_reader reader() const { return {algebra_, file_, directory_, options_}; }
  onnx_model read_at(const std::vector<std::int64_t>& sizes, size_record& record) const;
  // Reads at sizes that equal no other number of the model, if such sizes exist.
  [[nodiscard]] onnx_model read_apart(size_choice choice) const;
  // Empty if numbers are ambiguous, unless `must`.
  [[nodiscard]] std::optional<onnx_model> attempt(const size_choice& choice, bool must) const;
  // Whether the model can be written: all numbers that the file needs have forms.
  [[nodiscard]] bool is_writable(const onnx_model& model) const;

  const tensor::algebra& algebra_;
  const std::string& bytes_;
  std::string file_;
  const std::filesystem::path& directory_;
  const import_options& options_;
  std::vector<open_axis> axes_;
};

UNITY_INLINE onnx_model open_importer::read() const {
  if (axes_.empty()) {
    return reader().read(bytes_);
  }
  std::vector<std::size_t> apart;
  std::vector<std::size_t> by_place;  // by position: some exporters name the batch of each input differently
  std::string flags;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    apart.push_back(a);
    by_place.push_back(static_cast<std::size_t>(axes_[a].axis));
    flags += fmt::format("{}--dim {}=SIZE", flags.empty() ? "" : " ", printable(axes_[a].name, 60));
  }
  std::string problem;
  std::optional<onnx_model> best;
  for (const auto length : lengths) {
    for (const auto& groups : {apart, by_place}) {
      try {
        auto model = read_apart({groups, length, 0});
        if (!best || model.rest.size() < best->rest.size()) {  // nodes whose sizes do not fit together stay in the rest
          best = std::move(model);
        }
      } catch (const error& e) {
        problem = problem.empty() ? e.what() : problem;
      }
      if (best && best->rest.empty()) {
        return *std::move(best);
      }
    }
  }
  if (best) {
    return *std::move(best);
  }
  throw error{file_, fmt::format("cannot be read with open sizes ({})", problem), flags};
}

UNITY_INLINE onnx_model open_importer::read_at(const std::vector<std::int64_t>& sizes, size_record& record) const {
  auto axes = axes_;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    axes[a].size = sizes[a];
  }
  return reader().read_open(bytes_, std::move(axes), record);
}

UNITY_INLINE onnx_model open_importer::read_apart(size_choice choice) const {
  for (constexpr std::size_t last = 3; choice.shift < last; ++choice.shift) {
    if (auto model = attempt(choice, false)) {
      return *std::move(model);
    }
  }
  return *attempt(choice, true);
}

UNITY_INLINE std::optional<onnx_model> open_importer::attempt(const size_choice& choice, bool must) const {
  auto sizes = unusual_sizes(axes_, choice);
  size_record other{nullptr};
  size_record record{&other};
  size_record third{nullptr};
  static_cast<void>(read_at(sizes[1], other));
  auto model = read_at(sizes[0], record);
  static_cast<void>(read_at(sizes[2], third));
  std::vector<const size_record*> all{&record, &other, &third};
  if (!record.find_forms(all, sizes, false, model.open) && !must) {
    return std::nullopt;
  }
  for (const auto& name : constant_names(algebra_, model.graph)) {
    if (const auto* known = record.find(name); known != nullptr && record.varies(name, *known)) {
      model.open.computed.insert(name);
    }
  }
  record.write_computing(all, sizes, model.open);
  if (model.open.unstated.empty() || is_writable(model)) {
    return model;
  }
  std::deque<size_record> more;  // records at further sizes, to tell quotients apart
  constexpr std::size_t most_readings = 12;
  while (all.size() < most_readings) {
    const auto next = record.next_sizes(all, sizes);
    try {
      if (next.empty()) {
        break;
      }
      static_cast<void>(read_at(next, more.emplace_back(nullptr)));
    } catch (const error&) {
      break;  // the model does not accept these sizes
    }
    all.push_back(&more.back());
    sizes.push_back(next);
  }
  model.open.forms.clear();
  model.open.unstated.clear();
  model.open.constants.clear();
  if (!record.find_forms(all, sizes, true, model.open) && !must) {
    return std::nullopt;
  }
  record.write_computing(all, sizes, model.open);
  return model;
}

UNITY_INLINE bool open_importer::is_writable(const onnx_model& model) const {
  try {
    static_cast<void>(serialize_onnx(algebra_, model));
    return true;
  } catch (const error&) {
    return false;
  }
}

// The least size of an axis at which no quotient is zero.
[[nodiscard]] UNITY_INLINE std::int64_t least_size(const open_sizes& open, std::size_t axis) {
  std::int64_t least = 1;
  for (const auto& [number, form] : open.forms) {
    for (const auto& t : form.terms) {
      for (const auto& q : t.quotients) {
        least = q.axis == axis ? std::max(least, q.divisor - q.added) : least;
      }
    }
  }
  return least;
}

// Sizes to compare at, by name: 1 or the least one in round 0, small ones afterwards.
[[nodiscard]] UNITY_INLINE std::map<std::string, std::int64_t> sizes_of_round(const open_sizes& open,
                                                                              std::int64_t round) {
  std::map<std::string, std::int64_t> sizes;
  std::map<std::int64_t, std::int64_t> taken;  // axes of equal size stay equal
  for (std::size_t i = 0; i < open.axes.size(); ++i) {
    const auto& a = open.axes[i];
    const auto c = class_of(a, lengths[0]);
    const auto least = least_size(open, i);
    const auto next = static_cast<std::int64_t>(taken.size());
    auto size = c.from == lengths[0] ? 3 * round + 2 + next : 2 * round + next;
    if (round == 0) {
      size = c.multiple;
    } else if (c.multiple > 1) {  // the last size is not a multiple
      size = c.multiple * (round + 1) + (round == 3 ? 1 + next : 0);
    }
    size = c.multiple == 1 ? size + least - 1 : std::max(size, least);
    sizes[a.name] = taken.emplace(a.size, size).first->second;
  }
  return sizes;
}

// The values of constants that only one of the models stores, because the other computes them. Constants that both
// store may have any values. Refers to both tables.
[[nodiscard]] UNITY_INLINE tensor::source_data values_of_one(const data_table& a, const data_table& b) {
  return [&](std::string_view name) -> std::optional<tensor::dense<double>> {
    const auto one = a.find(name);
    const auto other = b.find(name);
    if ((one == a.end()) == (other == b.end())) {
      return std::nullopt;
    }
    const auto& data = one == a.end() ? other->second : one->second;
    return tensor::dense<double>{data.dims, elements_of<double>(data)};
  };
}

// A node's content, except names.
[[nodiscard]] UNITY_INLINE std::string content_of(const std::string& serialized_node) {
  onnx::NodeProto node;
  static_cast<void>(node.ParseFromString(serialized_node));
  node.clear_name();
  node.clear_doc_string();
  for (auto* names : {node.mutable_input(), node.mutable_output()}) {
    for (auto& name : *names) {
      name = name.empty() ? "" : "x";
    }
  }
  return fmt::format("{:x}", hash_bytes(node.SerializeAsString()));
}

// Unknown operators are identified by their nodes' content, not by their positions in the file.
[[nodiscard]] UNITY_INLINE tensor::tensor_graph comparable(const tensor::algebra& algebra, const onnx_model& model) {
  const auto opaque = algebra.kind("opaque");
  const auto& fields = algebra.signature(opaque).attributes;
  const auto is_signature = [](const attribute_signature& f) { return f.name == "signature"; };
  const auto place = static_cast<std::size_t>(std::ranges::find_if(fields, is_signature) - fields.begin());
  tensor::tensor_graph to;
  const auto& g = model.graph;
  std::vector<value_id> moved(g.value_count());
  for (const auto n : node_ids(g)) {
    auto op = g.operation(n);
    if (op.kind == opaque) {
      const auto& node = model.opaque_nodes.at(algebra.read(op).word("signature"));
      op.attributes[place] = tensor::word_attribute(content_of(node));
    }
    std::vector<value_id> operands;
    for (const auto v : g.operands(n)) {
      operands.push_back(moved[v.index()]);
    }
    std::vector<tensor::tensor_type> types;
    for (const auto v : g.results(n)) {
      types.push_back(g.type(v));
    }
    const auto made = to.results(to.add_node(op, operands, types));
    for (std::size_t i = 0; i < types.size(); ++i) {
      moved[g.results(n)[i].index()] = made[i];
    }
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(moved[v.index()]);
  }
  to.set_outputs(outputs);
  return to;
}

}  // namespace detail

UNITY_INLINE onnx_model parse_open_onnx(const tensor::algebra& algebra, const std::string& bytes, std::string_view file,
                                        const std::filesystem::path& directory, const import_options& options) {
  return detail::open_importer{algebra, bytes, file, directory, options}.read();
}

UNITY_INLINE onnx_model import_open_onnx(const tensor::algebra& algebra, const std::filesystem::path& path,
                                         const import_options& options) {
  detail::model_reader reader{algebra, path.string(), path.parent_path(), options};
  const bool is_closed = detail::with_stream(
      path, [&](auto& stream, std::uint64_t size) { return reader.open_axes(stream, size).empty(); });
  return is_closed ? import_onnx(algebra, path, options)
                   : parse_open_onnx(algebra, read_file(path), path.string(), path.parent_path(), options);
}

UNITY_INLINE tensor::equivalence_report check_open(const tensor::algebra& algebra, const std::string& bytes,
                                                   std::string_view file, const std::filesystem::path& directory,
                                                   const onnx_model& model, const import_options& options,
                                                   const tensor::equivalence_options& equivalence) {
  const auto written = serialize_onnx(algebra, model);
  tensor::equivalence_report all;
  all.passed = true;
  std::size_t checked = 0;
  for (const std::int64_t round : {0, 1, 2, 3}) {
    auto at = options;
    auto at_written = options;  // the written file has fixed the sizes that options state
    at_written.dimensions.clear();
    std::string sizes;
    for (const auto& [name, size] : detail::sizes_of_round(model.open, round)) {
      at.dimensions.insert_or_assign(name, size);
      at_written.dimensions.emplace(name, size);
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ", ", printable(name, 60), size);
    }
    std::optional<onnx_model> original;
    try {
      original = parse_onnx(algebra, bytes, file, directory, at);
    } catch (const error&) {
      continue;
    }
    if (model.rest.empty() && !original->rest.empty()) {
      continue;  // nodes whose sizes do not fit together would stay in the rest
    }
    const auto rewritten = parse_onnx(algebra, written, "the optimized model", {}, at_written);
    const auto expected = fmt::format("the same as {} at {}", file, sizes);
    for (const auto& name : detail::constant_names(algebra, rewritten.graph)) {
      const auto one = original->data.find(name);
      const auto other = rewritten.data.find(name);
      if (one != original->data.end() && other != rewritten.data.end() && !(one->second == other->second)) {
        throw error{fmt::format("constant '{}'", printable(name, 120)), "other elements", expected};
      }
    }
    if (original->outputs != rewritten.outputs || original->rest != rewritten.rest) {
      throw error{"the optimized model", "other values are carried through", expected};
    }
    auto with_values = equivalence;
    with_values.data = detail::values_of_one(original->data, rewritten.data);
    const auto one = detail::comparable(algebra, *original);
    const auto other = detail::comparable(algebra, rewritten);
    auto report = tensor::check_equivalence(algebra, one, other, with_values);
    if (!report.passed && with_values.modular) {  // constants that the search computed are rounded in the file
      with_values.modular = false;
      with_values.tolerance = std::max(equivalence.tolerance, 1e-6);
      report = tensor::check_equivalence(algebra, one, other, with_values);
    }
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
