// Places the operators of a graph in a picture, and routes its edges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

// In pixels, from the upper left corner.
struct picture_point {
  int x = 0;
  int y = 0;

  friend bool operator==(const picture_point&, const picture_point&) = default;
};

struct picture_frame {
  picture_point corner{};
  int width = 0;
  int height = 0;
  std::string name{};
};

// A layout of a graph in a picture. Regular except for its frames. Operators are boxes of one size; sources are not
// shown.
struct strategy_layout {
  static constexpr int box_width = 48;
  static constexpr int box_height = 32;

  std::vector<std::optional<picture_point>> corners{};              // by node
  std::vector<std::pair<picture_point, picture_point>> segments{};  // of edges
  std::vector<picture_frame> frames{};                              // around groups of operators
  int width = 0;
  int height = 0;
};

namespace detail {

inline constexpr int picture_margin = 16;
inline constexpr int column_width = 72;
inline constexpr int row_height = 52;
inline constexpr int bend_height = 14;  // reserved where an edge passes a column without an operator

// The operators that an operator reads, without duplicates.
[[nodiscard]] std::vector<std::size_t> read_operators(const tensor::tensor_graph& g, std::size_t n);

// Columns by depth. Within a column, operators and the bends of passing edges are ordered to reduce crossings: by the
// mean position of their neighbours in the previous and the next column, alternately. Long graphs continue in bands,
// one below another.
// Source: Sugiyama, Tagawa, Toda, Methods for visual understanding of hierarchical system structures, 1981.
class depth_layout {
 public:
  explicit depth_layout(const tensor::tensor_graph& g);

  [[nodiscard]] strategy_layout run() const;

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct item {  // an operator, or a bend
    std::size_t node = none;
    int column = 0;
    int y = 0;  // of its centre
    double place = 0;
    std::vector<std::size_t> before{};  // items
    std::vector<std::size_t> after{};

    [[nodiscard]] bool is_operator() const { return node != none; }
    [[nodiscard]] int half() const { return (is_operator() ? row_height : bend_height) / 2; }
  };

  void place_operators();
  // Adds one bend for all edges of an operator that pass a column. If there would be too many, long edges are straight.
  void add_bends();
  void number(const std::vector<std::size_t>& column);
  void order(bool forwards);
  // Places items at the mean height of their predecessors. Items that would overlap move down; then the whole column
  // moves up by the mean of these shifts.
  void set_heights();
  // Continues an edge in the next band: out at the right, in again at the left, at the same height.
  static void join(strategy_layout& l, const item& from, picture_point start, const item& to, picture_point end,
                   int per_band);

  const tensor::tensor_graph& graph_;
  std::vector<item> items_{};
  std::vector<std::size_t> item_of_{};
  std::vector<std::vector<std::size_t>> columns_{};
};

// Rows are layers, whose operators share their weights; columns are the steps of an unrolled network.
// Source: the style of Jia's dissertation (2020), figure 3.15.
class step_layout {
 public:
  step_layout(const tensor::algebra& a, const tensor::tensor_graph& g)
      : algebra_{a}, graph_{g}, weight_{a.kind("weight")}, layers_{parallel::layers_of(a, g)} {
    set_steps();
  }

  // Whether most operators that read weights share them with others of their kind.
  [[nodiscard]] bool is_unrolled() const { return 2 * shared_ > reading_; }

  [[nodiscard]] strategy_layout run() const;

 private:
  static constexpr int name_width = 120;

  [[nodiscard]] bool is_shown(std::size_t n) const { return !graph_.operands(node_id{n}).empty(); }
  // The step of an operator is the number of earlier readers of its weight. An operator without weights is in the last
  // step that it reads.
  void set_steps();
  std::size_t count_reader(std::size_t n, std::size_t weight, std::vector<std::size_t>& readers,
                           std::vector<std::size_t>& first);
  // The name of a layer: "encoder.lstm.0.bias" without its last component.
  [[nodiscard]] std::string name_of(std::size_t weight) const;
  // Edges go down within a step and to the next layers, else to the right.
  static void join(strategy_layout& l, picture_point from, picture_point to);

  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  kind_id weight_;
  parallel::graph_layers layers_;
  std::vector<std::size_t> step_{};   // column, by node
  std::vector<std::size_t> depth_{};  // position within its layer's step, by node
  std::vector<std::string> names_{};  // of layers
  std::size_t reading_ = 0;
  std::size_t shared_ = 0;
};

}  // namespace detail

// Unrolled networks by layers and steps, others by depth. Complexity: linear in operators and in the columns that edges
// pass, plus sorting.
[[nodiscard]] inline strategy_layout layout_of(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const detail::step_layout steps{a, g};
  return steps.is_unrolled() ? steps.run() : detail::depth_layout{g}.run();
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_STRATEGY_LAYOUT)

#include <algorithm>
#include <cmath>
#include <limits>

#include <unity/rewrite/algebra.hpp>

namespace unity::io::detail {

UNITY_INLINE std::vector<std::size_t> read_operators(const tensor::tensor_graph& g, std::size_t n) {
  std::vector<std::size_t> all;
  for (const auto v : g.operands(node_id{n})) {
    const auto from = g.producer(v).index();
    if (!g.operands(node_id{from}).empty()) {
      all.push_back(from);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

UNITY_INLINE depth_layout::depth_layout(const tensor::tensor_graph& g) : graph_{g} {
  place_operators();
  add_bends();
  for (int round = 0; round < 4; ++round) {
    order(true);
    order(false);
  }
  order(true);
  set_heights();
}

UNITY_INLINE strategy_layout depth_layout::run() const {
  strategy_layout l;
  l.corners.resize(graph_.node_count());
  int high = std::numeric_limits<int>::max();
  int low = std::numeric_limits<int>::min();
  for (const auto& i : items_) {
    high = std::min(high, i.y - i.half());
    low = std::max(low, i.y + i.half());
  }
  if (items_.empty()) {
    return l;
  }
  const auto band_height = low - high + row_height / 2;
  const auto columns = static_cast<int>(columns_.size());
  const auto bands = std::max(1, static_cast<int>(std::sqrt(columns * column_width / (2.0 * band_height))));
  const auto per_band = (columns + bands - 1) / bands;
  const auto place = [&](const item& i) {
    const auto band = i.column / per_band;
    return picture_point{picture_margin + (i.column - band * per_band) * column_width,
                         picture_margin + band * band_height + i.y - high};
  };
  for (const auto& i : items_) {
    const auto at = place(i);
    if (i.is_operator()) {
      l.corners[i.node] = picture_point{at.x, at.y - strategy_layout::box_height / 2};
    }
    l.width = std::max(l.width, at.x + column_width);
    l.height = std::max(l.height, at.y + i.half());
    for (const auto from : i.before) {
      join(l, items_[from], place(items_[from]), i, at, per_band);
    }
  }
  return l;
}

UNITY_INLINE void depth_layout::place_operators() {
  item_of_.assign(graph_.node_count(), none);
  for (const auto n : node_ids(graph_)) {
    if (graph_.operands(n).empty()) {
      continue;
    }
    int column = 0;
    for (const auto from : read_operators(graph_, n.index())) {
      column = std::max(column, items_[item_of_[from]].column + 1);
    }
    item_of_[n.index()] = items_.size();
    items_.push_back({n.index(), column, 0, 0, {}, {}});
  }
}

UNITY_INLINE void depth_layout::add_bends() {
  const auto operators = items_.size();
  std::vector<int> last(operators, 0);
  std::size_t bends = 0;
  for (std::size_t i = 0; i < operators; ++i) {
    for (const auto from : read_operators(graph_, items_[i].node)) {
      last[item_of_[from]] = std::max(last[item_of_[from]], items_[i].column);
    }
  }
  for (std::size_t i = 0; i < operators; ++i) {
    bends += static_cast<std::size_t>(std::max(0, last[i] - items_[i].column - 1));
  }
  const auto longest = bends > 16 * operators + 1000 ? 8 : std::numeric_limits<int>::max();
  std::vector<std::vector<std::size_t>> chain(operators);  // bends of each operator
  for (std::size_t i = 0; i < operators; ++i) {
    for (const auto from : read_operators(graph_, items_[i].node)) {
      const auto source = item_of_[from];
      auto before = source;
      const auto passed = items_[i].column - items_[source].column - 1;
      for (int k = 0; passed <= longest && k < passed; ++k) {
        if (chain[source].size() <= static_cast<std::size_t>(k)) {
          chain[source].push_back(items_.size());
          items_.push_back({none, items_[source].column + k + 1, 0, 0, {before}, {}});
          items_[before].after.push_back(items_.size() - 1);
        }
        before = chain[source][static_cast<std::size_t>(k)];
      }
      items_[i].before.push_back(before);
      items_[before].after.push_back(i);
    }
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const auto column = static_cast<std::size_t>(items_[i].column);
    columns_.resize(std::max(columns_.size(), column + 1));
    columns_[column].push_back(i);
  }
  for (auto& c : columns_) {
    number(c);
  }
}

UNITY_INLINE void depth_layout::number(const std::vector<std::size_t>& column) {
  for (std::size_t k = 0; k < column.size(); ++k) {  // relative to the middle, since columns have different lengths
    items_[column[k]].place = static_cast<double>(k) - static_cast<double>(column.size() - 1) / 2;
  }
}

UNITY_INLINE void depth_layout::order(bool forwards) {
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    auto& column = columns_[forwards ? k : columns_.size() - 1 - k];
    std::vector<std::pair<double, std::size_t>> keys;
    for (std::size_t at = 0; at < column.size(); ++at) {
      const auto& joined = forwards ? items_[column[at]].before : items_[column[at]].after;
      double sum = 0;
      for (const auto j : joined) {
        sum += items_[j].place;
      }
      keys.emplace_back(joined.empty() ? items_[column[at]].place : sum / static_cast<double>(joined.size()), at);
    }
    std::sort(keys.begin(), keys.end());  // ties keep their previous order
    std::vector<std::size_t> sorted;
    for (const auto& key : keys) {
      sorted.push_back(column[key.second]);
    }
    column = std::move(sorted);
    number(column);
  }
}

UNITY_INLINE void depth_layout::set_heights() {
  for (const auto& column : columns_) {
    std::vector<int> wanted;
    long off = 0;
    for (std::size_t k = 0; k < column.size(); ++k) {
      auto& i = items_[column[k]];
      long sum = 0;
      for (const auto from : i.before) {
        sum += items_[from].y;
      }
      wanted.push_back(i.before.empty() ? 0 : static_cast<int>(sum / static_cast<long>(i.before.size())));
      i.y = k == 0 ? wanted[k] : std::max(wanted[k], items_[column[k - 1]].y + items_[column[k - 1]].half() + i.half());
      off += i.y - wanted[k];
    }
    for (const auto i : column) {
      items_[i].y -= static_cast<int>(off / static_cast<long>(column.size()));
    }
  }
}

UNITY_INLINE void depth_layout::join(strategy_layout& l, const item& from, picture_point start, const item& to,
                                     picture_point end, int per_band) {
  start.x += from.is_operator() ? strategy_layout::box_width : column_width / 2;
  end.x += to.is_operator() ? 0 : column_width / 2;
  const auto first = from.column / per_band;
  const auto second = to.column / per_band;
  if (first == second) {
    l.segments.push_back({start, end});
    return;
  }
  l.segments.push_back({start, {picture_margin + per_band * column_width - column_width / 6, start.y}});
  l.segments.push_back({{picture_margin / 2, end.y - to.y + from.y}, end});
}

UNITY_INLINE strategy_layout step_layout::run() const {
  strategy_layout l;
  l.corners.resize(graph_.node_count());
  std::vector<std::size_t> rows(layers_.count, 1);
  for (std::size_t n = 0; n < graph_.node_count(); ++n) {
    if (is_shown(n)) {
      rows[layers_.layer_of[n]] = std::max(rows[layers_.layer_of[n]], depth_[n] + 1);
    }
  }
  std::size_t steps = 0;
  for (const auto s : step_) {
    steps = std::max(steps, s + 1);
  }
  std::vector<int> top;
  int y = picture_margin;
  l.width = picture_margin + name_width + static_cast<int>(steps) * column_width;
  for (const auto& [count, name] : ranges::views::zip(rows, names_)) {
    const auto height = static_cast<int>(count) * row_height + 8;
    l.frames.push_back({{picture_margin, y}, l.width - picture_margin, height, name});
    top.push_back(y + 8);
    y += height + 10;
  }
  l.height = y;
  for (std::size_t n = 0; n < graph_.node_count(); ++n) {
    if (is_shown(n)) {
      l.corners[n] = picture_point{picture_margin + name_width + static_cast<int>(step_[n]) * column_width,
                                   top[layers_.layer_of[n]] + static_cast<int>(depth_[n]) * row_height};
      for (const auto from : read_operators(graph_, n)) {
        join(l, *l.corners[from], *l.corners[n]);
      }
    }
  }
  return l;
}

UNITY_INLINE void step_layout::set_steps() {
  const auto count = graph_.node_count();
  step_.assign(count, 0);
  depth_.assign(count, 0);
  names_.resize(layers_.count);
  std::vector<std::size_t> readers(count, 0);                 // by weight, so far
  std::vector<std::size_t> first(count, count);               // first reader, by weight
  std::vector<std::vector<std::size_t>> used(layers_.count);  // used positions, by layer and step
  for (std::size_t n = 0; n < count; ++n) {
    if (!is_shown(n)) {
      continue;
    }
    const auto layer = layers_.layer_of[n];
    auto step = none;
    std::size_t last = 0;
    for (const auto v : graph_.operands(node_id{n})) {
      const auto from = graph_.producer(v).index();
      if (graph_.operation(node_id{from}).kind == weight_ && step == none) {
        step = count_reader(n, from, readers, first);
        names_[layer] = names_[layer].empty() ? name_of(from) : names_[layer];
      }
      last = is_shown(from) && layers_.layer_of[from] == layer ? std::max(last, step_[from]) : last;
    }
    step_[n] = step == none ? last : step;
    auto& places = used[layer];
    places.resize(std::max(places.size(), step_[n] + 1));
    depth_[n] = places[step_[n]]++;
    if (names_[layer].empty()) {
      names_[layer] = algebra_.signature(graph_.operation(node_id{n}).kind).name;
    }
  }
}

UNITY_INLINE std::size_t step_layout::count_reader(std::size_t n, std::size_t weight, std::vector<std::size_t>& readers,
                                                   std::vector<std::size_t>& first) {
  ++reading_;
  if (first[weight] == graph_.node_count()) {
    first[weight] = n;
  } else if (graph_.operation(node_id{n}).kind == graph_.operation(node_id{first[weight]}).kind) {
    shared_ += readers[weight] == 1 ? 2 : 1;
  }
  return readers[weight]++;
}

UNITY_INLINE std::string step_layout::name_of(std::size_t weight) const {
  const auto& op = graph_.operation(node_id{weight});
  const auto& attributes = algebra_.signature(op.kind).attributes;
  for (const auto& [field, value] : ranges::views::zip(attributes, op.attributes)) {
    if (field.name == "name") {
      const auto whole = tensor::to_word(value);
      return whole.substr(0, whole.rfind('.'));
    }
  }
  return {};
}

UNITY_INLINE void step_layout::join(strategy_layout& l, picture_point from, picture_point to) {
  if (to.x > from.x) {
    l.segments.push_back({{from.x + strategy_layout::box_width, from.y + strategy_layout::box_height / 2},
                          {to.x, to.y + strategy_layout::box_height / 2}});
  } else {
    l.segments.push_back({{from.x + strategy_layout::box_width / 2, from.y + strategy_layout::box_height},
                          {to.x + strategy_layout::box_width / 2, to.y}});
  }
}

}  // namespace unity::io::detail

#endif
