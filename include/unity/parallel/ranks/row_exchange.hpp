// Exchanges gradients of lookups as indices and rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

// Gradients of lookup tables as row indices and rows.

// Row ids[i] of the table has the gradient rows[i]; repeated indices add up. For sums of rows, all rows ids[i, ...]
// have it. Regular.
struct row_gradient {
  value_id ids{};   // integers [count], or [count, bag]
  value_id rows{};  // [count, e...]
  std::int64_t count = 0;
  std::int64_t bag = 0;  // number of rows per sum; 0: no sums

  friend bool operator==(const row_gradient&, const row_gradient&) = default;
};

// The operands of a lookup's gradient, with ids of any number of dimensions.
struct lookup_gradient_operands {
  value_id ids{};
  value_id cotangent{};
  bool is_bag = false;
};

// Nothing if the value is not the gradient of a lookup.
[[nodiscard]] std::optional<lookup_gradient_operands> find_lookup(const tensor::algebra& a,
                                                                  const tensor::tensor_graph& g, value_id gradient);

// Writes row gradients into a rank's program.
class row_writer {
 public:
  row_writer(const tensor::algebra& a, region_writer& w) : a_{a}, writer_{w} {}

  [[nodiscard]] row_gradient of(const lookup_gradient_operands& x);
  // Concatenates them. Precondition: at least one.
  [[nodiscard]] row_gradient joined(std::span<const row_gradient> all);
  // Appends rows of zeros, up to this count.
  [[nodiscard]] row_gradient padded(const row_gradient& x, std::int64_t count);
  // This many rows of zeros. rows, ids: types of other gradients.
  [[nodiscard]] row_gradient zeros(std::int64_t count, const tensor::tensor_type& rows, const tensor::tensor_type& ids);
  // The gradient of a part of the table.
  [[nodiscard]] value_id part_of_table(const row_gradient& x, const box& part);

 private:
  const tensor::algebra& a_;
  region_writer& writer_;
};

// Weights are identified by their indices in the graph.
class row_exchange {
 public:
  row_exchange(const divided_training& d, rank_streams& streams) : training_{d}, streams_{streams} {}

  // Records the gradient of a table on a rank.
  // Throws: unity::error if it is not the gradient of a lookup in the whole table, or differs in form from earlier
  // ones.
  void take(std::size_t weight, std::uint32_t rank, std::span<const held_part> given, node_id reader);
  // Gathers the recorded rows of all ranks of a group, in their order, once per weight and group. Ranks with fewer rows
  // contribute rows of zeros. Precondition: some rank has recorded rows.
  void gather(std::size_t weight, const std::vector<std::uint32_t>& group, node_id reader);
  // Sends the recorded rows of the givers to a server instead.
  void send(std::size_t weight, std::span<const std::uint32_t> givers, std::uint32_t server, node_id reader);
  // The gradient of a part of the table, on a rank that has all rows.
  [[nodiscard]] value_id part_on(std::size_t weight, std::uint32_t rank, const box& part);

 private:
  using place = std::pair<std::size_t, std::uint32_t>;  // weight, rank

  [[nodiscard]] node_id node_of(std::size_t weight) const {
    return training_.graph().producer(training_.training().weights()[weight].value);
  }
  [[nodiscard]] row_gradient own(std::size_t weight, std::uint32_t rank, node_id reader) {
    return row_writer{training_.algebra(), streams_.on(rank, reader)}.joined(given_.at({weight, rank}));
  }

  const divided_training& training_;
  rank_streams& streams_;
  std::map<place, std::vector<row_gradient>> given_{};
  // Some parts of a weight may be gathered and others served.
  std::map<place, row_gradient> gathered_{};
  std::map<std::pair<place, std::uint32_t>, row_gradient> served_{};  // and by the servers' lag in iterations
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_ROW_EXCHANGE)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<lookup_gradient_operands> find_lookup(const tensor::algebra& a,
                                                                 const tensor::tensor_graph& g, value_id gradient) {
  const auto n = g.producer(gradient);
  const auto operands = g.operands(n);
  if (operands.empty()) {
    return std::nullopt;
  }
  const std::string_view name = a.signature(g.operation(n).kind).name;
  const bool is_bag = name == "embedding_bag_gradient";
  return is_bag || name == "embedding_gradient"
             ? std::optional{lookup_gradient_operands{operands[0], operands[1], is_bag}}
             : std::nullopt;
}

UNITY_INLINE row_gradient row_writer::of(const lookup_gradient_operands& x) {
  const auto& g = writer_.graph();
  const auto ids = g.type(x.ids).dims;
  const auto dims = g.type(x.cotangent).dims;
  const auto bag = x.is_bag ? ids.back() : 0;
  const auto count = tensor::element_count(ids) / std::max<std::int64_t>(bag, 1);
  const auto shaped = [&](value_id v, std::vector<std::int64_t> to) {
    const std::vector<value_id> operand{v};
    return writer_.run(a_.make_operation("reshape", {{"dims", std::move(to)}}), operand);
  };
  std::vector<std::int64_t> rows{count};
  for (auto d = ids.size() - (x.is_bag ? 1 : 0); d < dims.size(); ++d) {
    rows.push_back(dims[d]);
  }
  const auto numbers = x.is_bag ? std::vector<std::int64_t>{count, bag} : std::vector<std::int64_t>{count};
  return {shaped(x.ids, numbers), shaped(x.cotangent, rows), count, bag};
}

UNITY_INLINE row_gradient row_writer::joined(std::span<const row_gradient> all) {
  auto sum = all.front();
  for (const auto& x : all.subspan(1)) {
    const auto concat = a_.make_operation("concat", {{"axis", 0}});
    const std::vector<value_id> ids{sum.ids, x.ids};
    const std::vector<value_id> rows{sum.rows, x.rows};
    sum = {writer_.run(concat, ids), writer_.run(concat, rows), sum.count + x.count, sum.bag};
  }
  return sum;
}

UNITY_INLINE row_gradient row_writer::padded(const row_gradient& x, std::int64_t count) {
  if (x.count == count) {
    return x;
  }
  const auto& g = writer_.graph();
  const std::vector<row_gradient> both{x, zeros(count - x.count, g.type(x.rows), g.type(x.ids))};
  return joined(both);
}

UNITY_INLINE row_gradient row_writer::zeros(std::int64_t count, const tensor::tensor_type& rows,
                                            const tensor::tensor_type& ids) {
  auto row_dims = rows.dims;
  auto id_dims = ids.dims;
  row_dims[0] = count;
  id_dims[0] = count;
  return {writer_.filled(id_dims, ids.element, 0), writer_.filled(row_dims, rows.element, 0), count,
          id_dims.size() > 1 ? id_dims[1] : 0};
}

// Indices outside of the part are ignored.
UNITY_INLINE value_id row_writer::part_of_table(const row_gradient& x, const box& part) {
  const auto& g = writer_.graph();
  auto ids = x.ids;
  if (part.begin[0] != 0) {
    const std::vector<value_id> operands{ids,
                                         writer_.filled({}, g.type(ids).element, static_cast<double>(part.begin[0]))};
    ids = writer_.run(a_.make_operation("sub"), operands);
  }
  const auto dims = g.type(x.rows).dims;
  auto columns = part;
  columns.begin[0] = 0;
  columns.end[0] = x.count;
  const std::vector<value_id> operands{ids, writer_.cut({whole(dims), x.rows}, columns)};
  return writer_.run(a_.make_operation(x.bag == 0 ? "embedding_gradient" : "embedding_bag_gradient",
                                       {{"rows", part.end[0] - part.begin[0]}}),
                     operands);
}

UNITY_INLINE void row_exchange::take(std::size_t weight, std::uint32_t rank, std::span<const held_part> given,
                                     node_id reader) {
  const auto refuse = [&](std::string_view found, std::string_view expected) {
    throw error{fmt::format("weight of node {}", node_of(weight).index()), found, expected};
  };
  const auto& type = training_.graph().type(training_.training().weights()[weight].value);
  auto& rows = given_[{weight, rank}];
  for (const auto& g : given) {
    const auto found = find_lookup(training_.algebra(), streams_.program(rank).graph, g.value);
    if (!found || g.part != whole(type.dims)) {
      refuse("a gradient of indices and rows of a table that is divided", "a whole table on each rank");
    }
    rows.push_back(row_writer{training_.algebra(), streams_.on(rank, reader)}.of(*found));
    if (rows.back().bag != rows.front().bag) {
      refuse("indices and rows of lookups that sum different numbers of rows", "lookups that are alike");
    }
  }
}

UNITY_INLINE void row_exchange::gather(std::size_t weight, const std::vector<std::uint32_t>& group, node_id reader) {
  const auto ranks = training_.written().of(group);
  if (gathered_.contains({weight, ranks.front()})) {
    return;
  }
  std::map<std::uint32_t, row_gradient> own_of;
  for (const auto r : ranks) {
    if (given_.contains({weight, r})) {
      own_of[r] = own(weight, r, reader);
    }
  }
  const auto& most = *std::max_element(own_of.begin(), own_of.end(),
                                       [](const auto& x, const auto& y) { return x.second.count < y.second.count; });
  const auto& like = streams_.program(most.first).graph;
  const auto count = most.second.count;
  std::vector<value_id> ids;
  std::vector<value_id> rows;
  for (const auto r : ranks) {
    row_writer w{training_.algebra(), streams_.on(r, reader)};
    const auto all = own_of.contains(r) ? w.padded(own_of[r], count)
                                        : w.zeros(count, like.type(most.second.rows), like.type(most.second.ids));
    ids.push_back(all.ids);
    rows.push_back(all.rows);
  }
  if (group.size() == 1) {
    gathered_[{weight, group.front()}] = {ids.front(), rows.front(), count, most.second.bag};
    return;
  }
  const auto all_ids = streams_.gathered(node_of(weight), group, ids);
  const auto all_rows = streams_.gathered(node_of(weight), group, rows);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    streams_.wait_last(ranks[i], all_ids[i].wait);
    streams_.wait_last(ranks[i], all_rows[i].wait);
    gathered_[{weight, ranks[i]}] = {all_ids[i].value, all_rows[i].value,
                                     count * static_cast<std::int64_t>(group.size()), most.second.bag};
  }
}

UNITY_INLINE void row_exchange::send(std::size_t weight, std::span<const std::uint32_t> givers, std::uint32_t server,
                                     node_id reader) {
  const auto [served, is_new] = served_.try_emplace({{weight, server}, streams_.lag()});
  if (!is_new) {
    return;
  }
  const auto& written = training_.written();
  std::map<std::uint32_t, row_gradient> own_of;  // before anything is sent
  for (const auto r : givers) {
    if (written.has(r)) {
      own_of[r] = own(weight, r, reader);
    }
  }
  std::vector<row_gradient> all;
  for (const auto r : givers) {
    auto x = own_of.at(written.like(r));
    if (r != server || streams_.lag() > 0) {
      const auto ids = streams_.sent(node_of(weight), x.ids, r, server);
      const auto rows = streams_.sent(node_of(weight), x.rows, r, server);
      if (written.has(server)) {
        streams_.wait_last(server, ids.wait);
        streams_.wait_last(server, rows.wait);
        x = {ids.value, rows.value, x.count, x.bag};
      }
    }
    all.push_back(x);
  }
  if (written.has(server)) {
    served->second = row_writer{training_.algebra(), streams_.on_last(server, node_of(weight))}.joined(all);
  }
}

UNITY_INLINE value_id row_exchange::part_on(std::size_t weight, std::uint32_t rank, const box& part) {
  const auto found = served_.find({{weight, rank}, streams_.lag()});
  return row_writer{training_.algebra(), streams_.on_last(rank, node_of(weight))}.part_of_table(
      found != served_.end() ? found->second : gathered_.at({weight, rank}), part);
}

}  // namespace unity::parallel::detail

#endif
