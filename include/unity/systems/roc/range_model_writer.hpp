// Writes a graph neural network as a graph of operators on the rows of one device.
// Over 500 lines because layers of seven kinds share the code that reads edges and rows of other ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/systems/roc/range_model.hpp>
#include <unity/systems/roc/vertex_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::systems {

namespace detail {

class range_model_writer {
 public:
  range_model_writer(const tensor::algebra& a, const vertex_model& m, const gnn::range_graph& r,
                     const vertex_rows& rows, const vertex_scales& scales, std::uint64_t edges_before);

  [[nodiscard]] range_model write() &&;

 private:
  // Values of edge lists.
  struct edge_values {
    value_id offsets{};
    value_id sources{};
    value_id out_offsets{};
    value_id targets{};
    value_id out_edges{};
  };

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(range_.range.size()); }
  [[nodiscard]] std::int64_t width_behind(std::size_t layer) const;
  void declare_weights();
  void declare_layer(std::size_t layer, std::int64_t in, std::int64_t out);
  void weight(std::size_t layer, std::string_view what, const tensor::shape& dims);
  [[nodiscard]] value_id weight_of(std::string_view what) const;

  [[nodiscard]] value_id held(const std::string& name, const tensor::shape& dims, tensor::dtype element,
                              std::function<void(const drawing&, std::span<std::byte>)> fill);
  [[nodiscard]] value_id numbers(const std::string& name, const std::vector<std::int32_t>& list);
  // A column with a number per vertex of the range.
  [[nodiscard]] value_id column(const std::string& name, const std::function<double(gnn::vertex_id)>& number);
  [[nodiscard]] edge_values edges(const std::string& name, const gnn::edge_lists& lists, bool with_places);

  // Applies dropout to x; a layer has up to two masks. rows: of the whole tensor; first: the row of it with which x
  // begins; numbers: indices of rows for random values.
  [[nodiscard]] value_id dropped(value_id x, std::size_t of_layer, std::int64_t rows, std::int64_t first,
                                 std::span<const std::uint64_t> numbers);
  [[nodiscard]] value_id sampled(value_id x);
  // The sum over in-edges.
  [[nodiscard]] value_id neighbour_sum(value_id x);
  // The sum over in-edges, divided by their number.
  [[nodiscard]] value_id neighbour_mean(value_id x);
  // The rows of the range, followed by those of others.
  [[nodiscard]] value_id joined_rows(value_id x);
  [[nodiscard]] std::vector<value_id> exchanged(value_id x);
  [[nodiscard]] bool depends_on_weights(value_id x) const;
  [[nodiscard]] value_id concatenated(std::vector<value_id> parts);

  // sum(h) times the weight, with the product first if that makes fewer columns.
  template <class Sum>
  [[nodiscard]] value_id transformed(value_id h, std::string_view of, const Sum& sum) {
    const auto w = weight_of(of);
    return b_.dims(w)[1] <= b_.dims(w)[0] ? sum(b_.matmul(h, w)) : b_.matmul(sum(h), w);
  }
  [[nodiscard]] value_id layer(value_id h, bool is_last);
  [[nodiscard]] value_id gcn(value_id h);
  [[nodiscard]] value_id gin(value_id h);
  [[nodiscard]] value_id sage(value_id h);
  [[nodiscard]] value_id commnet(value_id h);
  [[nodiscard]] value_id gat(value_id h, bool is_last);
  [[nodiscard]] value_id attended(value_id z, std::int64_t heads, std::int64_t width);
  // The inner products of x of shape [n, heads, width] with a vector per head.
  [[nodiscard]] value_id scores(value_id x, std::string_view of);
  [[nodiscard]] value_id elu(value_id x);
  [[nodiscard]] value_id scaled(value_id x, double factor);
  [[nodiscard]] value_id loss(value_id logits);
  void note_width(value_id x);
  void end_layer() { model_.layers.resize(b_.graph().node_count(), layer_); }

  tensor::builder b_;
  const vertex_model& spec_;
  const gnn::range_graph& range_;
  const vertex_rows& rows_;
  const vertex_scales& scales_;
  std::uint64_t edges_before_;
  range_model model_{};
  std::vector<std::string> names_{};  // of the weights
  std::vector<std::size_t> weight_layers_{};
  std::size_t layer_ = 0;
  std::optional<edge_values> own_{};
  std::optional<edge_values> remote_{};
  value_id sent_rows_{};
  value_id inverse_root_{};
  value_id inverse_degree_{};
  value_id edge_targets_{};
};

}  // namespace detail

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_RANGE_MODEL_WRITER)

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/host_values.hpp>
#include <unity/core/hash.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/train/data.hpp>

namespace unity::systems::detail {

UNITY_INLINE range_model_writer::range_model_writer(const tensor::algebra& a, const vertex_model& m,
                                                    const gnn::range_graph& r, const vertex_rows& rows,
                                                    const vertex_scales& scales, std::uint64_t edges_before)
    : b_{a}, spec_{m}, range_{r}, rows_{rows}, scales_{scales}, edges_before_{edges_before} {}

UNITY_INLINE range_model range_model_writer::write() && {
  declare_weights();
  auto h = held("features", {size(), static_cast<std::int64_t>(rows_.features.columns)}, spec_.element,
                [this_rows = &rows_.features, range = range_.range, element = spec_.element](const drawing&,
                                                                                             std::span<std::byte> to) {
                  const auto columns = this_rows->columns;
                  const std::span<const float> from{this_rows->values.data() + range.begin * columns,
                                                    range.size() * columns};
                  if (element == tensor::dtype::float32) {
                    std::memcpy(to.data(), from.data(), from.size_bytes());
                  } else {
                    const std::vector<double> wide(from.begin(), from.end());
                    std::memcpy(to.data(), wide.data(), to.size());
                  }
                });
  for (layer_ = 0; layer_ < static_cast<std::size_t>(spec_.layers); ++layer_) {
    h = layer(dropped(h, 0, static_cast<std::int64_t>(rows_.labels.size()), range_.range.begin, rows_.vertex_numbers),
              layer_ + 1 == static_cast<std::size_t>(spec_.layers));
    end_layer();
  }
  --layer_;
  model_.logits = h;
  model_.loss = loss(h);
  end_layer();
  for (std::size_t w = 0; w < weight_layers_.size(); ++w) {
    model_.layers[b_.graph().producer(model_.weights[w]).index()] = weight_layers_[w];
  }
  std::vector<value_id> outputs{model_.loss};
  for (const auto& e : model_.exchanges) {
    outputs.insert(outputs.end(), e.sent.begin(), e.is_trained ? e.sent.end() : e.sent.begin());
  }
  model_.graph = std::move(b_).finish(outputs);
  return std::move(model_);
}

UNITY_INLINE std::int64_t range_model_writer::width_behind(std::size_t layer) const {
  if (layer + 1 == static_cast<std::size_t>(spec_.layers)) {
    return rows_.classes;
  }
  return spec_.hidden * (spec_.layer == vertex_layer::gat ? spec_.heads : 1);
}

UNITY_INLINE void range_model_writer::declare_weights() {
  auto in = static_cast<std::int64_t>(rows_.features.columns);
  for (std::size_t l = 0; l < static_cast<std::size_t>(spec_.layers); ++l) {
    const auto out = width_behind(l);
    declare_layer(l, in, out);
    in = out;
  }
}

UNITY_INLINE void range_model_writer::declare_layer(std::size_t layer, std::int64_t in, std::int64_t out) {
  const bool is_last = layer + 1 == static_cast<std::size_t>(spec_.layers);
  switch (spec_.layer) {
    case vertex_layer::gcn:
    case vertex_layer::fastgcn: weight(layer, "sum", {in, out}); break;
    case vertex_layer::gin:
      weight(layer, "sum", {in, is_last ? spec_.hidden : out});
      weight(layer, "sum bias", {is_last ? spec_.hidden : out});
      weight(layer, "second", {is_last ? spec_.hidden : out, out});
      break;
    case vertex_layer::sage_max:
      weight(layer, "pool", {in, spec_.hidden});
      weight(layer, "pool bias", {spec_.hidden});
      weight(layer, "own", {in, out});
      weight(layer, "sum", {spec_.hidden, out});
      break;
    case vertex_layer::sage_mean:
    case vertex_layer::commnet:
      weight(layer, "own", {in, out});
      weight(layer, "sum", {in, out});
      break;
    case vertex_layer::gat:
      weight(layer, "sum", {in, out});
      weight(layer, "source", {is_last ? 1 : spec_.heads, is_last ? out : spec_.hidden});
      weight(layer, "target", {is_last ? 1 : spec_.heads, is_last ? out : spec_.hidden});
      break;
  }
  if (spec_.layer != vertex_layer::commnet) {
    weight(layer, "bias", {out});
  }
}

UNITY_INLINE void range_model_writer::weight(std::size_t layer, std::string_view what, const tensor::shape& dims) {
  names_.push_back(fmt::format("layer {} {}", layer, what));
  weight_layers_.push_back(layer);
  model_.weights.push_back(b_.weight(names_.back(), dims, spec_.element));
}

UNITY_INLINE value_id range_model_writer::weight_of(std::string_view what) const {
  const auto at = std::find(names_.begin(), names_.end(), fmt::format("layer {} {}", layer_, what));
  UNITY_EXPECTS(at != names_.end(), "a weight of the layer");
  return model_.weights[static_cast<std::size_t>(at - names_.begin())];
}

UNITY_INLINE value_id range_model_writer::held(const std::string& name, const tensor::shape& dims,
                                               tensor::dtype element,
                                               std::function<void(const drawing&, std::span<std::byte>)> fill) {
  const auto v = b_.input(name, dims, element);
  model_.values.push_back({v, false, std::move(fill)});
  return v;
}

UNITY_INLINE value_id range_model_writer::numbers(const std::string& name, const std::vector<std::int32_t>& list) {
  return held(name, {static_cast<std::int64_t>(list.size())}, tensor::dtype::int32,
              [from = std::span{list}](const drawing&, std::span<std::byte> to) {
                std::memcpy(to.data(), from.data(), from.size_bytes());
              });
}

UNITY_INLINE value_id range_model_writer::column(const std::string& name,
                                                 const std::function<double(gnn::vertex_id)>& number) {
  const tensor::tensor_type type{spec_.element, tensor::layout::row_major, false, {size(), 1}};
  return held(name, type.dims, spec_.element,
              [number, type, range = range_.range](const drawing&, std::span<std::byte> to) {
                std::vector<double> all;
                for (auto v = range.begin; v < range.end; ++v) {
                  all.push_back(number(v));
                }
                backend::encode<double>(all, type, to);
              });
}

UNITY_INLINE auto range_model_writer::edges(const std::string& name, const gnn::edge_lists& lists, bool with_places)
    -> edge_values {
  edge_values e;
  e.offsets = numbers(name + " offsets", lists.offsets);
  e.sources = numbers(name + " sources", lists.sources);
  const bool is_symmetric = lists.is_symmetric();
  e.out_offsets = is_symmetric ? e.offsets : numbers(name + " out offsets", lists.out_offsets);
  e.targets = is_symmetric ? e.sources : numbers(name + " targets", lists.targets);
  e.out_edges = with_places ? numbers(name + " out edges", lists.out_edges) : value_id{};
  return e;
}

// Mask elements are functions of the seed, the step, the mask's index and their position in the whole tensor, whose
// rows are ordered by their numbers.
UNITY_INLINE value_id range_model_writer::dropped(value_id x, std::size_t of_layer, std::int64_t rows,
                                                  std::int64_t first, std::span<const std::uint64_t> numbers) {
  if (spec_.dropout == 0) {
    return x;
  }
  tensor::tensor_type whole{spec_.element, tensor::layout::row_major, false, b_.dims(x)};
  parallel::box part = parallel::whole(whole.dims);
  whole.dims[0] = rows;
  part.begin[0] += first;
  part.end[0] += first;
  // Not a running number, because a range without edges has fewer masks.
  const auto number = 2 * layer_ + of_layer;
  const auto columns = static_cast<std::uint64_t>(tensor::element_count(whole.dims) / std::max<std::int64_t>(rows, 1));
  const auto mask = b_.input(fmt::format("mask {}", number), b_.dims(x), spec_.element);
  model_.values.push_back(
      {mask, true,
       [whole, part, number, columns, numbers, rate = spec_.dropout](const drawing& d, std::span<std::byte> to) {
         const auto stream = hash_combine(hash_combine(d.seed, number), d.step);
         train::fill_box(whole, part, to, [&](std::uint64_t i) {
           const auto place = numbers.empty() ? i : numbers[i / columns] * columns + i % columns;
           const bool is_dropped = d.is_training && train::uniform_of(hash_combine(stream, place)) < rate;
           return !d.is_training ? 1 : is_dropped ? 0 : 1 / (1 - rate);
         });
       }});
  return b_.mul(x, mask);
}

UNITY_INLINE value_id range_model_writer::sampled(value_id x) {
  if (spec_.layer != vertex_layer::fastgcn) {
    return x;
  }
  const tensor::tensor_type type{spec_.element, tensor::layout::row_major, false, {size(), 1}};
  const auto v = b_.input(fmt::format("layer {} vertices", layer_), type.dims, spec_.element);
  model_.values.push_back({v, true,
                           [type, layer = layer_, range = range_.range, taken = std::span{scales_.taken},
                            numbers = rows_.vertex_numbers](const drawing& d, std::span<std::byte> to) {
                             // A stream different from those of masks.
                             const auto stream = hash_combine(hash_combine(d.seed, ~std::uint64_t{layer}), d.step);
                             std::vector<double> all;
                             for (auto u = range.begin; u < range.end; ++u) {
                               const auto p = taken[u];
                               const auto number = numbers.empty() ? u : numbers[u];
                               const bool is_taken = train::uniform_of(hash_combine(stream, number)) < p;
                               all.push_back(!d.is_training ? 1 : is_taken ? 1 / p : 0);
                             }
                             backend::encode<double>(all, type, to);
                           }});
  return b_.mul(x, v);
}

UNITY_INLINE void range_model_writer::note_width(value_id x) {
  model_.widths.resize(std::max(model_.widths.size(), layer_ + 1));
  model_.widths[layer_] += static_cast<std::uint32_t>(b_.dims(x)[1]);
}

UNITY_INLINE value_id range_model_writer::neighbour_sum(value_id x) {
  note_width(x);
  const auto dims = b_.dims(x);
  const auto from_others = exchanged(x);  // first, so that they are in transit
  if (range_.own.edges() > 0 && !own_) {
    own_ = edges("edges", range_.own, false);
  }
  value_id sum = range_.own.edges() == 0
                     ? b_.fill(0, dims, spec_.element)
                     : b_.apply("segment_sum", {x, own_->offsets, own_->sources, own_->out_offsets, own_->targets})[0];
  if (from_others.empty()) {
    return sum;
  }
  if (!remote_) {
    remote_ = edges("edges from others", range_.remote, false);
  }
  return b_.add(sum, b_.apply("segment_sum", {concatenated(from_others), remote_->offsets, remote_->sources,
                                              remote_->out_offsets, remote_->targets})[0]);
}

UNITY_INLINE value_id range_model_writer::neighbour_mean(value_id x) {
  const auto sum = neighbour_sum(x);
  if (!inverse_degree_.valid()) {
    inverse_degree_ =
        column("inverse of in-edges", [&s = scales_](gnn::vertex_id v) { return 1 / std::max(s.degree[v], 1.0); });
  }
  return b_.mul(sum, inverse_degree_);
}

UNITY_INLINE std::vector<value_id> range_model_writer::exchanged(value_id x) {
  if (range_.sent.empty() && range_.received.empty()) {
    return {};
  }
  row_exchange e{.layer = layer_, .sent = {}, .received = {}, .is_trained = depends_on_weights(x)};
  const auto width = b_.dims(x)[1];
  if (!range_.sent.empty()) {
    if (!sent_rows_.valid()) {
      sent_rows_ = numbers("rows for others", range_.rows);
    }
    const auto rows = b_.embedding(x, sent_rows_);
    tensor::shape sizes;
    for (const auto& s : range_.sent) {
      sizes.push_back(static_cast<std::int64_t>(s.end - s.begin));
    }
    e.sent = sizes.size() == 1 ? std::vector{rows} : b_.split(rows, 0, sizes);
  }
  for (const auto& r : range_.received) {
    e.received.push_back(b_.input(fmt::format("rows {} of part {}", model_.exchanges.size(), r.part),
                                  {static_cast<std::int64_t>(r.end - r.begin), width}, spec_.element));
  }
  model_.exchanges.push_back(e);
  return e.received;
}

UNITY_INLINE bool range_model_writer::depends_on_weights(value_id x) const {
  const auto& g = b_.graph();
  std::vector<bool> depends(g.value_count());
  for (const auto w : model_.weights) {
    depends[w.index()] = true;
  }
  for (const auto n : node_ids(g)) {
    const auto operands = g.operands(n);
    if (std::any_of(operands.begin(), operands.end(), [&](value_id v) { return depends[v.index()]; })) {
      for (const auto v : g.results(n)) {
        depends[v.index()] = true;
      }
    }
  }
  return depends[x.index()];
}

UNITY_INLINE value_id range_model_writer::concatenated(std::vector<value_id> parts) {
  return parts.size() == 1 ? parts[0] : b_.concat(0, parts);
}

UNITY_INLINE value_id range_model_writer::joined_rows(value_id x) {
  auto parts = exchanged(x);
  parts.insert(parts.begin(), x);
  return concatenated(std::move(parts));
}

UNITY_INLINE value_id range_model_writer::layer(value_id h, bool is_last) {
  switch (spec_.layer) {
    case vertex_layer::gcn:
    case vertex_layer::fastgcn: h = gcn(h); break;
    case vertex_layer::gin: h = gin(h); break;
    case vertex_layer::sage_mean:
    case vertex_layer::sage_max: h = sage(h); break;
    case vertex_layer::commnet: h = commnet(h); break;
    case vertex_layer::gat: h = gat(h, is_last); break;
  }
  if (spec_.layer != vertex_layer::commnet) {
    h = b_.add(h, weight_of("bias"));
  }
  if (is_last) {
    return h;
  }
  return spec_.layer == vertex_layer::gat ? elu(h) : spec_.layer == vertex_layer::commnet ? b_.tanh(h) : b_.relu(h);
}

UNITY_INLINE value_id range_model_writer::gcn(value_id h) {
  if (!inverse_root_.valid()) {
    inverse_root_ = column("inverse root of in-edges",
                           [&s = scales_](gnn::vertex_id v) { return 1 / std::sqrt(std::max(s.degree[v], 1.0)); });
  }
  return transformed(
      h, "sum", [&](value_id x) { return b_.mul(neighbour_sum(sampled(b_.mul(x, inverse_root_))), inverse_root_); });
}

UNITY_INLINE value_id range_model_writer::gin(value_id h) {
  const auto sum = transformed(h, "sum", [&](value_id x) { return b_.add(x, neighbour_sum(x)); });
  return b_.matmul(b_.relu(b_.add(sum, weight_of("sum bias"))), weight_of("second"));
}

UNITY_INLINE value_id range_model_writer::sage(value_id h) {
  const auto own = b_.matmul(h, weight_of("own"));
  if (spec_.layer == vertex_layer::sage_mean) {
    return b_.add(own, transformed(h, "sum", [&](value_id x) { return neighbour_mean(x); }));
  }
  const auto x = b_.relu(b_.add(b_.matmul(h, weight_of("pool")), weight_of("pool bias")));
  note_width(x);
  const auto all = joined_rows(x);
  if (range_.own.edges() == 0) {
    return own;
  }
  if (!own_) {
    own_ = edges("edges", range_.own, false);
  }
  const auto most = b_.apply("segment_max", {all, own_->offsets, own_->sources})[0];
  return b_.add(own, b_.matmul(most, weight_of("sum")));
}

UNITY_INLINE value_id range_model_writer::commnet(value_id h) {
  const auto own = b_.matmul(h, weight_of("own"));
  return b_.add(own, transformed(h, "sum", [&](value_id x) { return neighbour_mean(x); }));
}

UNITY_INLINE value_id range_model_writer::gat(value_id h, bool is_last) {
  const auto z = b_.matmul(h, weight_of("sum"));
  note_width(z);
  const auto heads = is_last ? 1 : spec_.heads;
  return attended(z, heads, b_.dims(z)[1] / heads);
}

UNITY_INLINE value_id range_model_writer::attended(value_id z, std::int64_t heads, std::int64_t width) {
  const auto joined = joined_rows(z);
  if (range_.own.edges() == 0) {
    return b_.fill(0, b_.dims(z), spec_.element);
  }
  if (!own_) {
    own_ = edges("edges", range_.own, true);
    edge_targets_ =
        held("target of each edge", {static_cast<std::int64_t>(range_.own.edges())}, tensor::dtype::int32,
             [&lists = range_.own](const drawing&, std::span<std::byte> to) {
               std::vector<std::int32_t> targets;
               for (std::size_t t = 0; t + 1 < lists.offsets.size(); ++t) {
                 targets.resize(static_cast<std::size_t>(lists.offsets[t + 1]), static_cast<std::int32_t>(t));
               }
               std::memcpy(to.data(), targets.data(), to.size());
             });
  }
  const auto by_head = [&](value_id x) { return b_.reshape(x, {b_.dims(x)[0], heads, width}); };
  const auto all = by_head(joined);
  const auto of_source = b_.embedding(scores(all, "source"), own_->sources);
  const auto of_target = b_.embedding(scores(by_head(z), "target"), edge_targets_);
  const auto sum = b_.add(of_source, of_target);
  const auto leaky = b_.apply("maximum", {sum, scaled(sum, 0.2)})[0];
  const auto share = b_.apply("segment_softmax", {leaky, own_->offsets})[0];
  const auto first = static_cast<std::int64_t>(edges_before_);
  const auto edges = static_cast<std::int64_t>(range_.own.edges());
  // Elements of a mask do not depend on the number of rows after it.
  const auto kept = dropped(share, 1, first + edges, first, rows_.edge_numbers);
  const auto out = b_.apply("segment_weighted_sum", {all, kept, own_->offsets, own_->sources, own_->out_offsets,
                                                     own_->targets, own_->out_edges})[0];
  return b_.reshape(out, {size(), heads * width});
}

UNITY_INLINE value_id range_model_writer::scores(value_id x, std::string_view of) {
  return b_.apply("reduce_sum", {b_.mul(x, weight_of(of))}, {{"axes", tensor::shape{2}}, {"keep_dims", 0}})[0];
}

// At 0, each half passes on half of the cotangent.
UNITY_INLINE value_id range_model_writer::elu(value_id x) {
  const auto zero = b_.fill(0, {}, spec_.element);
  const auto below = b_.apply("exp", {b_.apply("minimum", {x, zero})[0]})[0];
  return b_.add(b_.apply("maximum", {x, zero})[0], b_.sub(below, b_.fill(1, {}, spec_.element)));
}

UNITY_INLINE value_id range_model_writer::scaled(value_id x, double factor) {
  return b_.scalar_multiply(x, b_.fill(factor, {}, spec_.element));
}

// Vertices that are not for training have no label here.
UNITY_INLINE value_id range_model_writer::loss(value_id logits) {
  const auto trained = std::count(rows_.roles.begin(), rows_.roles.end(), gnn::vertex_role::train);
  const auto labels =
      held("labels", {size()}, tensor::dtype::int32,
           [range = range_.range, all = rows_.labels, roles = rows_.roles](const drawing&, std::span<std::byte> to) {
             std::vector<std::int32_t> own;
             for (auto v = range.begin; v < range.end; ++v) {
               own.push_back(roles[v] == gnn::vertex_role::train ? all[v] : gnn::no_label);
             }
             std::memcpy(to.data(), own.data(), to.size());
           });
  const auto each = b_.apply("cross_entropy", {logits, labels})[0];
  const auto sum = b_.apply("reduce_sum", {each}, {{"axes", tensor::shape{0}}, {"keep_dims", 0}})[0];
  return scaled(sum, trained == 0 ? 0.0 : 1 / static_cast<double>(trained));
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE range_model range_model_of(const tensor::algebra& a, const vertex_model& m, const gnn::range_graph& r,
                                        const vertex_rows& rows, const vertex_scales& scales,
                                        std::uint64_t edges_before) {
  check(m);
  return detail::range_model_writer{a, m, r, rows, scales, edges_before}.write();
}

}  // namespace unity::systems

#endif
