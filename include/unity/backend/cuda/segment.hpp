// Operators over the incoming edges of each vertex: each element of a result is computed in the order of the edges and
// without atomic operations.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/movement.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/rows.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

// Edges in compressed rows. Offsets are clamped to the range of edges.
struct edge_lists {
  std::int64_t vertices = 0;
  std::int64_t edges = 0;
  std::int64_t rows = 0;  // of the table of sources
  const std::byte* offsets = nullptr;
  const std::byte* sources = nullptr;
  tensor::dtype offset = tensor::dtype::int64;
  tensor::dtype number = tensor::dtype::int64;

  [[nodiscard]] UNITY_HOST_DEVICE std::int64_t begin(std::int64_t v) const {
    const auto k = load_integer(offset, offsets, v);
    return k < 0 ? 0 : k > edges ? edges : k;
  }
  // The source of edge k; -1 if it is not a row of the table.
  [[nodiscard]] UNITY_HOST_DEVICE std::int64_t source(std::int64_t k) const {
    const auto row = load_integer(number, sources, k);
    return row >= 0 && row < rows ? row : -1;
  }
};

// How the rows of sources are combined into a vertex's row.
enum class edge_reduction : std::uint8_t { sum, mean, largest, weighted };

struct reduce_edges_function {
  edge_reduction reduction = edge_reduction::sum;
  edge_lists lists{};
  loop_size row{};  // of the table, in elements
  loop_size head{};
  std::int64_t heads = 1;
  const std::byte* table = nullptr;
  const std::byte* weights = nullptr;
  const std::byte* out_edges = nullptr;  // maps an edge to the edge whose weights it uses; null: its own
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;
  tensor::dtype out_edge = tensor::dtype::int64;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    auto v = i;
    const auto place = row.split(v);
    auto of_head = place;
    static_cast<void>(head.split(of_head));
    const auto begin = lists.begin(v);
    const auto end = lists.begin(v + 1);
    double made = reduction == edge_reduction::largest && begin < end ? -infinity : 0;
    for (auto k = begin; k < end; ++k) {
      const auto from = lists.source(k);
      const auto x = from < 0 ? 0.0 : load_element<double>(element, table, from * row.size + place);
      if (reduction == edge_reduction::largest) {
        made = made < x ? x : made;
      } else {
        made += reduction == edge_reduction::weighted ? weight_of(k, of_head) * x : x;
      }
    }
    made /= reduction == edge_reduction::mean && begin < end ? static_cast<double>(end - begin) : 1;
    store_element<double>(element, to, i, made);
  }

 private:
  [[nodiscard]] UNITY_HOST_DEVICE double weight_of(std::int64_t k, std::int64_t of_head) const {
    const auto edge = out_edges == nullptr ? k : load_integer(out_edge, out_edges, k);
    return edge < 0 || edge >= lists.edges ? 0.0 : load_element<double>(element, weights, edge * heads + of_head);
  }
};

// The product of the rows of an edge's vertex and its source, for one head; one group of threads per vertex.
struct edge_product_function {
  edge_lists lists{};
  std::int64_t heads = 1;
  std::int64_t width = 1;
  const std::byte* a = nullptr;
  const std::byte* x = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t v) const {
    const auto begin = lists.begin(v) * heads;
    const auto end = lists.begin(v + 1) * heads;
    for (auto i = begin + group.rank(); i < end; i += group.size()) {
      const auto from = lists.source(i / heads);
      const auto head = i % heads;
      double sum = 0;
      for (std::int64_t c = 0; from >= 0 && c < width; ++c) {
        sum += load_element<double>(element, a, (v * heads + head) * width + c) *
               load_element<double>(element, x, (from * heads + head) * width + c);
      }
      store_element<double>(element, to, i, sum);
    }
  }
};

// One element of a row: the share of the cotangent for each edge of a vertex that has the largest element.
struct edge_shares_function {
  edge_lists lists{};
  loop_size row{};
  const std::byte* x = nullptr;
  const std::byte* largest = nullptr;
  const std::byte* cotangent = nullptr;
  double* shares = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  [[nodiscard]] UNITY_HOST_DEVICE double value(std::int64_t from, std::int64_t place) const {
    return from < 0 ? 0.0 : load_element<double>(element, x, from * row.size + place);
  }
  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    auto v = i;
    const auto place = row.split(v);
    const auto most = load_element<double>(element, largest, i);
    std::int64_t ties = 0;
    for (auto k = lists.begin(v); k < lists.begin(v + 1); ++k) {
      ties += value(lists.source(k), place) == most ? 1 : 0;
    }
    shares[i] = load_element<double>(element, cotangent, i) / static_cast<double>(ties > 0 ? ties : 1);
  }
};

// One column of the sources' cotangents: one thread per column, which goes through all edges.
struct add_shares_function {
  edge_shares_function of{};
  double* sums = nullptr;

  UNITY_HOST_DEVICE void operator()(std::int64_t place) const {
    const auto width = of.row.size;
    for (std::int64_t v = 0; v < of.lists.vertices; ++v) {
      const auto most = load_element<double>(of.element, of.largest, v * width + place);
      for (auto k = of.lists.begin(v); k < of.lists.begin(v + 1); ++k) {
        const auto from = of.lists.source(k);
        if (from >= 0 && of.value(from, place) == most) {
          sums[from * width + place] += of.shares[v * width + place];
        }
      }
    }
  }
};

struct store_sums_function {
  const double* sums = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const { store_element<double>(element, to, i, sums[i]); }
};

// Softmax over the edges of a vertex, for one column, by a group of threads; or its adjoint, if there is a cotangent.
struct edge_softmax_function {
  edge_lists lists{};
  loop_size row{};
  const std::byte* x = nullptr;
  const std::byte* cotangent = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t i) const {
    auto v = i;
    const auto column = row.split(v);
    const auto begin = lists.begin(v);
    const auto end = lists.begin(v + 1);
    const auto at = [&](const std::byte* from, std::int64_t k) {
      return load_element<double>(element, from, k * row.size + column);
    };
    double top = -infinity;
    for (auto k = begin + group.rank(); cotangent == nullptr && k < end; k += group.size()) {
      top = top < at(x, k) ? at(x, k) : top;
    }
    top = group.largest(top);
    double sum = 0;
    for (auto k = begin + group.rank(); k < end; k += group.size()) {
      sum += cotangent == nullptr ? std::exp(at(x, k) - top) : at(x, k) * at(cotangent, k);
    }
    sum = group.sum(sum);
    for (auto k = begin + group.rank(); k < end; k += group.size()) {
      const auto y = cotangent == nullptr ? std::exp(at(x, k) - top) / sum : at(x, k) * (at(cotangent, k) - sum);
      store_element<double>(element, to, k * row.size + column, y);
    }
  }
};

// Row-major. Integers are int32 or int64.
template <class Queue>
class edge_routine final : public routine<Queue> {
 public:
  edge_routine(std::string_view name, types inputs, types outputs);

  // Space for the shares of the vertices and for sums, in the adjoint of the maximum.
  [[nodiscard]] std::size_t workspace() const override {
    return what_ == task::shares ? static_cast<std::size_t>(shares_ + elements_) * sizeof(double) : 0;
  }

  void run(const call<Queue>& c) const override;

 private:
  enum class task : std::uint8_t { reduce, product, shares, softmax };

  [[nodiscard]] edge_lists lists_of(const call<Queue>& c) const {
    auto l = lists_;
    l.offsets = c.inputs[offsets_];
    l.sources = sources_ == 0 ? nullptr : c.inputs[sources_];
    return l;
  }
  void reduce(const call<Queue>& c) const;
  void share(const call<Queue>& c) const;

  task what_ = task::reduce;
  edge_reduction reduction_ = edge_reduction::sum;
  bool is_gradient_ = false;
  std::size_t offsets_ = 1;
  std::size_t sources_ = 0;    // 0: none
  std::size_t out_edges_ = 0;  // 0: none
  std::int64_t elements_;      // of the result
  std::int64_t shares_ = 0;
  std::int64_t heads_ = 1;
  std::int64_t width_ = 1;  // of a row
  edge_lists lists_{};
  tensor::dtype element_;
  tensor::dtype out_edge_ = tensor::dtype::int64;
};

template <class Queue>
edge_routine<Queue>::edge_routine(std::string_view name, types inputs, types outputs)
    : elements_{tensor::element_count(outputs[0].dims)}, element_{outputs[0].element} {
  is_gradient_ = name.ends_with("_gradient");
  lists_.rows = inputs[0].dims[0];
  width_ = tensor::element_count(inputs[0].dims) / inputs[0].dims[0];
  if (name.starts_with("segment_softmax")) {
    what_ = task::softmax;
    offsets_ = is_gradient_ ? 2 : 1;
    lists_.edges = inputs[0].dims[0];
  } else if (name == "segment_dot") {
    what_ = task::product;
    offsets_ = 2;
    lists_.rows = inputs[1].dims[0];
    heads_ = inputs[0].dims[1];
  } else if (name == "segment_max_gradient") {
    what_ = task::shares;
    offsets_ = 3;
    shares_ = tensor::element_count(inputs[1].dims);
  } else if (name.starts_with("segment_weighted_sum")) {
    reduction_ = edge_reduction::weighted;
    offsets_ = 2;
    out_edges_ = is_gradient_ ? 4 : 0;
    heads_ = inputs[1].dims[1];
  } else {
    reduction_ = name == "segment_max"    ? edge_reduction::largest
                 : name == "segment_mean" ? edge_reduction::mean
                                          : edge_reduction::sum;
  }
  lists_.vertices = inputs[offsets_].dims[0] - 1;
  lists_.offset = inputs[offsets_].element;
  if (what_ != task::softmax) {
    sources_ = offsets_ + 1;
    lists_.edges = inputs[sources_].dims[0];
    lists_.number = inputs[sources_].element;
  }
  out_edge_ = inputs[out_edges_].element;
}

template <class Queue>
void edge_routine<Queue>::run(const call<Queue>& c) const {
  if (what_ == task::reduce) {
    reduce(c);
  } else if (what_ == task::shares) {
    share(c);
  } else {
    c.queue.each(elements_, fill_function{c.outputs[0], element_, 0});  // edges that belong to no vertex
    if (what_ == task::product) {
      c.queue.rows(lists_.vertices, warp_threads,
                   edge_product_function{lists_of(c), heads_, width_ / heads_, c.inputs[0], c.inputs[1], c.outputs[0],
                                         element_});
    } else {
      c.queue.rows(lists_.vertices * width_, warp_threads,
                   edge_softmax_function{lists_of(c), loop_size{width_}, c.inputs[0],
                                         is_gradient_ ? c.inputs[1] : nullptr, c.outputs[0], element_});
    }
  }
}

template <class Queue>
void edge_routine<Queue>::reduce(const call<Queue>& c) const {
  reduce_edges_function f;
  f.reduction = reduction_;
  f.lists = lists_of(c);
  f.row = loop_size{width_};
  f.head = loop_size{width_ / heads_};
  f.heads = heads_;
  f.table = c.inputs[0];
  f.weights = reduction_ == edge_reduction::weighted ? c.inputs[1] : nullptr;
  f.out_edges = out_edges_ == 0 ? nullptr : c.inputs[out_edges_];
  f.to = c.outputs[0];
  f.element = element_;
  f.out_edge = out_edge_;
  c.queue.each(elements_, f);
}

template <class Queue>
void edge_routine<Queue>::share(const call<Queue>& c) const {
  edge_shares_function f;
  f.lists = lists_of(c);
  f.row = loop_size{width_};
  f.x = c.inputs[0];
  f.largest = c.inputs[1];
  f.cotangent = c.inputs[2];
  f.shares = reinterpret_cast<double*>(c.work);
  f.element = element_;
  auto* const sums = f.shares + shares_;
  c.queue.each(shares_, f);
  c.queue.each(elements_, fill_function{reinterpret_cast<std::byte*>(sums), tensor::dtype::float64, 0});
  c.queue.each(width_, add_shares_function{f, sums});
  c.queue.each(elements_, store_sums_function{sums, c.outputs[0], element_});
}

}  // namespace unity::backend::cuda
