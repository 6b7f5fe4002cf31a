// A model from an ONNX file: a tensor graph, and everything that a graph does not hold, such as the sizes that the file
// leaves open (batch, sequence), and the numbers of the graph that are computed from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

// A dimension of inputs whose size the file does not state; it may state a name. Regular.
struct open_axis {
  std::string name{};   // from the file, else INPUT.AXIS
  std::string input{};  // the first input that has it
  std::int64_t axis = 0;
  std::int64_t rank = 0;  // of that input
  bool is_named = false;  // by the file
  std::int64_t size = 0;  // size at which the graph is stated

  friend bool operator==(const open_axis&, const open_axis&) = default;
};

// floor((size of an open axis + number) / divisor), as halving, striding and pooling yield.
struct size_quotient {
  std::size_t axis = 0;
  std::int64_t added = 0;
  std::int64_t divisor = 1;

  friend bool operator==(const size_quotient&, const size_quotient&) = default;
};

// The value at these sizes of all axes.
[[nodiscard]] std::int64_t value_of(const size_quotient& q, const std::vector<std::int64_t>& sizes);

// A size as a polynomial in the sizes of open axes and quotients of them.
struct size_form {
  struct term {
    std::int64_t factor = 1;
    std::vector<std::size_t> axes{};         // axes whose sizes are multiplied; repeated for powers
    std::vector<size_quotient> quotients{};  // quotients that are multiplied with them

    friend bool operator==(const term&, const term&) = default;
  };
  std::vector<term> terms{};
  std::int64_t added = 0;

  friend bool operator==(const size_form&, const size_form&) = default;
};

// How a graph that was read at one size of each open axis is written for all sizes: these sizes are so unusual that a
// number in the graph identifies its origin. Regular; empty if nothing is open.
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
  // Whether the number changes with the sizes.
  [[nodiscard]] bool is_open(std::int64_t number) const { return unstated.contains(number) || form_of(number); }
  // Empty for a number that does not change, or has no form.
  [[nodiscard]] std::optional<size_form> form_of(std::int64_t number) const;

  friend bool operator==(const open_sizes&, const open_sizes&) = default;
};

// A form that matches the number at several sizes of the open axes: factor * (product of one to three sizes) + number,
// or the sum of two sizes and a number. `quotients` count as sizes. sizes[b][a]: the size of axis a in reading b;
// numbers[b]: the number in that reading.
// Throws: nothing; empty if no form matches.
[[nodiscard]] std::optional<size_form> fitted_form(const std::vector<std::vector<std::int64_t>>& sizes,
                                                   const std::vector<std::int64_t>& numbers,
                                                   const std::vector<size_quotient>& quotients = {});

// Forms factor * floor((size + a) / divisor) + added, for all a from `least` to `most`.
struct quotient_range {
  std::size_t axis = 0;
  std::int64_t divisor = 1;
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::int64_t factor = 1;
  std::int64_t added = 0;

  [[nodiscard]] bool contains(std::int64_t a) const noexcept { return least <= a && a <= most; }

  friend bool operator==(const quotient_range&, const quotient_range&) = default;
};

// All quotients by 2 to 512 that match the number at these sizes, by axis and divisor. Those with a factor are included
// only if none without a factor matches. More sizes leave fewer candidates.
[[nodiscard]] std::vector<quotient_range> fitted_quotients(const std::vector<std::vector<std::int64_t>>& sizes,
                                                           const std::vector<std::int64_t>& numbers);

// The name and documentation of a node in a file.
struct node_label {
  std::string name{};
  std::string doc{};

  friend bool operator==(const node_label&, const node_label&) = default;
};

struct onnx_file_size {
  std::uint64_t bytes = 0;  // including external tensor files
  std::size_t nodes = 0;    // of its graph, without operators Constant, which engines treat as initializers

  friend bool operator==(const onnx_file_size&, const onnx_file_size&) = default;
};

// An operator of the algebra and the ONNX node that stands for it, with the same operands, results and attributes.
// Attributes that are choices are written by name, real numbers as float32. These take precedence over the operators of
// io/onnx/.
struct onnx_operator {
  std::string kind{};    // "squared_distance"
  std::string type{};    // of the ONNX node: "SquaredDistance"
  std::string domain{};  // "com.example"; empty for operators of ONNX

  friend bool operator==(const onnx_operator&, const onnx_operator&) = default;
};

// Regular. To export a rewritten graph, replace `graph`, in which nodes find their data by name, and `labels` (see
// stayed_labels).
struct onnx_model {
  tensor::tensor_graph graph{};
  std::string name = "model";
  std::vector<std::string> outputs{};      // names of graph.outputs(), in order; inputs are named by their nodes
  data_table data{};                       // of weight and constant nodes, by name
  std::map<node_id, node_label> labels{};  // of nodes of graph

  // Inputs and outputs as in the file, with the sizes that were bound: a serialized GraphProto of nothing else. Without
  // weights that have no data. Empty if there was no file.
  std::string signature{};
  // Inputs that have default data in the file. Callers may pass other data, so they must not be folded.
  std::set<std::string, std::less<>> defaults{};

  // The part of the file that tensors of known sizes cannot express, unchanged: a serialized GraphProto of nodes and
  // initializers. It reads the last outputs of the graph, which no signature lists.
  std::string rest{};
  std::string rest_reason{};  // the first of it, and why no node of the graph can express it

  // The number of nodes kept unchanged, by operator ("LSTM", "com.example.Fancy"): those unknown to this library, and
  // those of `rest`.
  std::map<std::string, std::size_t> opaque_operators{};
  // Their serialized NodeProtos from the file, by the signature of the opaque node.
  std::map<std::string, std::string, std::less<>> opaque_nodes{};
  std::int64_t opset = 17;  // of the default domain
  // The file's remaining parts: a serialized ModelProto without graph (other domains, functions, metadata).
  std::string envelope{};
  open_sizes open{};  // for models read by import_open_onnx
  // The ONNX nodes of operators for which this library has no form of its own, or another one.
  std::vector<onnx_operator> operators{};

  // The size of the file from which the model came; zeros if there was none.
  onnx_file_size file{};

  friend bool operator==(const onnx_model&, const onnx_model&) = default;
};

struct import_options {
  // Sizes of named dimensions (--dim NAME=SIZE). A dimension without a name is called INPUT.AXIS.
  std::map<std::string, std::int64_t, std::less<>> dimensions{};
  // Keep values that are not numeric tensors of known sizes (strings, sequences, results of unknown type) and
  // everything that depends on them as `rest`. For callers that write the model again; without it, they are errors.
  bool keep_rest = false;
  // Operators in the file for which this library has no counterpart of its own; the model keeps the list.
  std::vector<onnx_operator> operators{};
};

struct export_options {
  // Inference mode: compute what depends only on weights and constants once, and store the result.
  bool fold_constants = false;
  // Tensors of folded subgraphs beyond this many elements stay as they are.
  std::int64_t most_folded_elements = std::int64_t{1} << 28;
  // If the tensors together exceed this, they go to a file NAME.data beside the model. Units: bytes. Protocol buffers
  // are limited to 2 GiB.
  std::int64_t external_data_above = std::int64_t{1900} << 20;
};

// Equal parts of a tensor on devices, as ONNX states them; without devices, nothing is stated. Regular.
struct device_sharding {
  // A dimension that is divided.
  struct dimension {
    std::int64_t axis = 0;
    std::int64_t size = 0;
    std::int64_t shards = 1;

    friend bool operator==(const dimension&, const dimension&) = default;
  };
  std::vector<std::vector<std::int64_t>> devices{};  // devices of each part, row-major
  std::vector<dimension> dimensions{};               // ascending

  friend bool operator==(const device_sharding&, const device_sharding&) = default;
};

// The annotation of one operator. Regular.
struct operator_devices {
  std::vector<device_sharding> operands{};  // all of them, or none
  std::vector<device_sharding> results{};
  std::optional<std::int64_t> stage{};  // of a pipeline

  friend bool operator==(const operator_devices&, const operator_devices&) = default;
};

// A model on several devices, as ONNX states it since version 11 of its format. A runtime may ignore it: results are
// the same. Regular.
struct graph_devices {
  std::string name{};                     // of all devices together
  std::vector<std::string> devices{};     // names, by number
  std::vector<operator_devices> nodes{};  // by node of the graph

  friend bool operator==(const graph_devices&, const graph_devices&) = default;
};

// The labels of a graph derived from another one. origins: for each of its nodes, the node of the other graph, or null.
[[nodiscard]] std::map<node_id, node_label> stayed_labels(const std::map<node_id, node_label>& labels,
                                                          std::span<const node_id> origins);

// Wraps a graph that came from no file, such as one of the zoo's.
[[nodiscard]] onnx_model make_model(tensor::tensor_graph graph, std::string name, data_table data = {});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_MODEL)

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>

#include <fmt/core.h>

namespace unity::io {

UNITY_INLINE std::int64_t value_of(const size_quotient& q, const std::vector<std::int64_t>& sizes) {
  const auto sum = sizes[q.axis] + q.added;
  return sum / q.divisor - (sum % q.divisor < 0 ? 1 : 0);
}

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
                                                  const std::vector<std::int64_t>& numbers,
                                                  const std::vector<size_quotient>& quotients) {
  const auto axis_count = sizes.front().size();
  const auto count = axis_count + quotients.size();
  // The size of an axis or, for parts after the axes, the value of a quotient.
  const auto size_of = [&](std::size_t reading, std::size_t part) {
    return part < axis_count ? sizes[reading][part] : value_of(quotients[part - axis_count], sizes[reading]);
  };
  const auto term_of = [&](std::int64_t factor, const std::vector<std::size_t>& parts) {
    size_form::term t{factor, {}};
    for (const auto part : parts) {
      if (part < axis_count) {
        t.axes.push_back(part);
      } else {
        t.quotients.push_back(quotients[part - axis_count]);
      }
    }
    return t;
  };
  const auto fits = [&](const std::vector<std::size_t>& parts) -> std::optional<size_form> {
    std::vector<std::int64_t> products;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t product = 1;
      for (const auto part : parts) {
        product *= size_of(i, part);
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
    return size_form{{term_of(factor, parts)}, added};
  };
  std::vector<std::vector<std::size_t>> products{{}};
  for (std::size_t at = 0; at < products.size(); ++at) {
    const auto parts = products[at];
    if (!parts.empty()) {
      if (auto form = fits(parts)) {
        return form;
      }
    }
    for (std::size_t a = parts.empty() ? 0 : parts.back(); a < count && parts.size() < 3; ++a) {
      products.push_back(parts);
      products.back().push_back(a);
    }
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      const auto added = numbers[0] - size_of(0, a) - size_of(0, b);
      bool fit = true;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        fit = fit && numbers[i] == size_of(i, a) + size_of(i, b) + added;
      }
      if (fit) {
        return size_form{{term_of(1, {a}), term_of(1, {b})}, added};
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::vector<quotient_range> fitted_quotients(const std::vector<std::vector<std::int64_t>>& sizes,
                                                          const std::vector<std::int64_t>& numbers) {
  constexpr std::int64_t most_divisor = 512;
  constexpr std::int64_t most = std::int64_t{1} << 40;  // above, products might not fit
  std::vector<quotient_range> found;
  if (std::any_of(numbers.begin(), numbers.end(), [](auto n) { return n < -most || n > most; })) {
    return found;
  }
  std::int64_t common = 0;
  for (const auto n : numbers) {
    common = std::gcd(common, n - numbers[0]);
  }
  const auto add = [&](std::int64_t factor) {
    const auto added = ((numbers[0] % factor) + factor) % factor;
    for (std::size_t axis = 0; axis < sizes.front().size(); ++axis) {
      for (std::int64_t d = 2; d <= most_divisor; ++d) {
        quotient_range r{
            axis, d, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), factor, added};
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const auto at = d * ((numbers[i] - added) / factor) - sizes[i][axis];
          r.least = std::max(r.least, at);
          r.most = std::min(r.most, at + d - 1);
        }
        if (r.least <= r.most) {
          found.push_back(r);
        }
      }
    }
  };
  if (common > 0) {
    add(1);
  }
  if (common > 1 && found.empty()) {
    add(common);
  }
  return found;
}

UNITY_INLINE std::map<node_id, node_label> stayed_labels(const std::map<node_id, node_label>& labels,
                                                         std::span<const node_id> origins) {
  std::map<node_id, node_label> all;
  for (std::size_t n = 0; n < origins.size(); ++n) {
    const auto found = origins[n].valid() ? labels.find(origins[n]) : labels.end();
    if (found != labels.end()) {
      all.emplace(node_id{n}, found->second);
    }
  }
  return all;
}

UNITY_INLINE onnx_model make_model(tensor::tensor_graph graph, std::string name, data_table data) {
  onnx_model model;
  model.graph = std::move(graph);
  model.name = std::move(name);
  model.data = std::move(data);
  for (std::size_t i = 0; i < model.graph.outputs().size(); ++i) {
    model.outputs.push_back(i == 0 ? "output" : fmt::format("output_{}", i));
  }
  return model;
}

}  // namespace unity::io

#endif
