// Cells of weights that replicas update in shares; depending on the stage, they also keep only shares of gradients or
// of the cell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/weight_states.hpp>
#include <unity/parallel/synchronization.hpp>

namespace unity::parallel::detail {

// Rows are divided equally among the ranks; the last ones may have fewer rows or none. Data exchanged between ranks is
// padded with zeros.
class sharded_cells {
 public:
  sharded_cells(const divided_training& d, rank_streams& streams, weight_states& states)
      : training_{d}, streams_{streams}, states_{states} {}

  // Whether several ranks hold the cell, and it has rows.
  [[nodiscard]] bool is_shared(cell_id of) const;
  // Whether, in addition, ranks keep only a share of the gradient, or of the cell itself.
  [[nodiscard]] bool divides_gradient(cell_id of) const {
    return is_shared(of) && parallel::divides_gradient(sync_of(of));
  }
  [[nodiscard]] bool divides_weight(cell_id of) const { return is_shared(of) && parallel::divides_weight(sync_of(of)); }
  // The share of a rank that holds the cell.
  [[nodiscard]] box share_of(cell_id of, std::uint32_t rank) const;

  // Reduce-scatters the gradients of this micro-batch. After the last one, sums the shares of all micro-batches and
  // updates; if ranks keep whole cells, gathers the shares of the next version.
  void scatter(cell_id of, node_id reader, bool is_last);

  // Waits for reduce-scatters of operators other than this one, or of all; until then, whole gradients are held.
  void wait_for_shares(node_id reader = {});

  // Finds when each cell is gathered; call after all cells are placed.
  void find_gathers();
  // Begins a pass of a micro-batch, and proceeds to an operator. Gathers begin before their readers by the weight's
  // prefetch distance; those of the current operator have ended. The order is the same on all ranks.
  void begin_pass(bool is_backward);
  void come_to(node_id n);
  // Precondition: the cell was gathered in a pass of this micro-batch.
  [[nodiscard]] value_id gathered(cell_id of, std::uint32_t rank) const {
    return states_[of.weight].gathered.at({rank, of.cell});
  }

 private:
  // The sum of micro-batches so far for a rank's share of the gradient.
  struct scattered_share {
    value_id sum{};
    awaited_value last{};
  };
  struct pass_gathers {
    std::vector<node_id> points{};
    std::vector<std::vector<cell_id>> begin{};  // by point: before it
    std::vector<std::vector<cell_id>> end{};
  };

  [[nodiscard]] const synchronizer& sync_of(cell_id of) const { return states_[of.weight].syncs[of.cell]; }
  [[nodiscard]] std::int64_t rows_of_share(cell_id of) const;
  [[nodiscard]] pass_gathers gathers_at(const std::vector<gather_point>& points, bool again) const;
  void add_share(cell_id of, std::uint32_t rank, node_id reader, const awaited_value& share, bool is_last);
  // The rank's rows, padded with zeros to this many.
  [[nodiscard]] value_id padded(cell_id of, std::uint32_t rank, node_id origin, value_id v, std::int64_t rows);
  void begin_gather(cell_id of);
  void end_gather(cell_id of);

  const divided_training& training_;
  rank_streams& streams_;
  weight_states& states_;
  std::map<std::pair<std::uint32_t, std::pair<std::size_t, std::size_t>>, scattered_share> shares_{};
  std::vector<std::pair<std::uint32_t, rank_step>> due_{};  // waits of ranks for the last reduce-scatter
  node_id due_for_{};                                       // the operator whose backward pass caused it
  pass_gathers forward_{};
  pass_gathers backward_{};
  const pass_gathers* now_ = &forward_;
  std::size_t next_ = 0;                                                                   // the next point
  std::map<std::pair<std::size_t, std::size_t>, std::vector<awaited_value>> under_way_{};  // by cell
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_SHARDED_CELLS)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE bool sharded_cells::is_shared(cell_id of) const {
  const auto& state = states_[of.weight];
  return sync_of(of).kind == sync_kind::sharded && state.holders[of.cell].size() > 1 &&
         !state.cells[of.cell].begin.empty();
}

UNITY_INLINE std::int64_t sharded_cells::rows_of_share(cell_id of) const {
  const auto count = static_cast<std::int64_t>(states_[of.weight].holders[of.cell].size());
  return (states_[of.weight].cells[of.cell].sizes()[0] + count - 1) / count;
}

UNITY_INLINE box sharded_cells::share_of(cell_id of, std::uint32_t rank) const {
  const auto& holders = states_[of.weight].holders[of.cell];
  auto own = states_[of.weight].cells[of.cell];
  const auto k = std::lower_bound(holders.begin(), holders.end(), rank) - holders.begin();
  const auto share = rows_of_share(of);
  const auto rows = own.sizes()[0];
  const auto first = own.begin[0];
  own.begin[0] = first + std::min(k * share, rows);
  own.end[0] = first + std::min((k + 1) * share, rows);
  return own;
}

UNITY_INLINE value_id sharded_cells::padded(cell_id of, std::uint32_t rank, node_id origin, value_id v,
                                            std::int64_t rows) {
  auto rest = states_[of.weight].cells[of.cell].sizes();
  rest[0] = rows - (v.valid() ? streams_.program(rank).graph.type(v).dims[0] : 0);
  if (rest[0] == 0) {
    return v;
  }
  auto& writer = streams_.on(rank, origin);
  const auto zeros = writer.filled(rest, states_.element_of(of), 0);
  const std::vector<value_id> two{v, zeros};
  return v.valid() ? writer.run(training_.algebra().make_operation("concat", {{"axis", 0}}), two) : zeros;
}

UNITY_INLINE void sharded_cells::scatter(cell_id of, node_id reader, bool is_last) {
  const auto holders = states_[of.weight].holders[of.cell];
  const auto rows = rows_of_share(of) * static_cast<std::int64_t>(holders.size());
  const auto ranks = training_.written().of(holders);
  std::vector<value_id> values;
  for (const auto r : ranks) {
    values.push_back(padded(of, r, reader, states_.given(of, r, reader), rows));
    states_[of.weight].gradients.erase({r, of.cell});  // the next micro-batch has its own
  }
  wait_for_shares(reader);
  const auto shares = streams_.scattered(states_.node_of(of), holders, values);
  const bool keeps = !parallel::divides_weight(sync_of(of));
  std::vector<value_id> next;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (is_last && keeps) {
      auto& part = states_.part_of(of, ranks[i]);
      auto type = streams_.program(ranks[i]).graph.type(part.weight.value);
      type.dims[0] = rows;
      part.next = streams_.on(ranks[i], reader).outside(type);
      part.updated = share_of(of, ranks[i]);
      next.push_back(part.next);
    }
    add_share(of, ranks[i], reader, shares[i], is_last);
  }
  if (is_last && keeps) {
    streams_.gather_next(states_.node_of(of), holders, next);
  }
}

UNITY_INLINE void sharded_cells::add_share(cell_id of, std::uint32_t rank, node_id reader, const awaited_value& share,
                                           bool is_last) {
  auto& own = shares_[{rank, {of.weight, of.cell}}];
  const bool is_empty = share_of(of, rank).empty();
  if (own.last.value.valid()) {
    streams_.wait(rank, own.last.wait);
    if (!is_empty) {
      own.sum = own.sum.valid() ? streams_.on(rank, reader).sum(own.sum, own.last.value) : own.last.value;
    }
  }
  own.last = share;
  if (parallel::divides_gradient(sync_of(of))) {
    due_.emplace_back(rank, share.wait);
    due_for_ = reader;
  }
  if (!is_last) {
    return;
  }
  streams_.wait_last(rank, share.wait);
  if (!is_empty) {
    const auto all =
        own.sum.valid() ? streams_.on_last(rank, states_.node_of(of)).sum(own.sum, share.value) : share.value;
    states_.change(of, rank, all);
  }
}

UNITY_INLINE void sharded_cells::wait_for_shares(node_id reader) {
  if (due_for_ != reader) {
    for (const auto& [rank, wait] : due_) {
      streams_.wait(rank, wait);
    }
    due_.clear();
  }
}

UNITY_INLINE auto sharded_cells::gathers_at(const std::vector<gather_point>& points, bool again) const -> pass_gathers {
  pass_gathers all;
  all.begin.resize(points.size() + 1);
  all.end.resize(points.size());
  for (std::size_t k = 0; k < points.size(); ++k) {
    all.points.push_back(points[k].before);
    for (const auto w : points[k].weights) {
      for (std::size_t c = 0; c < states_[w].cells.size(); ++c) {
        const cell_id of{w, c};
        if (divides_weight(of) && (!again || sync_of(of).is_resharded)) {
          all.begin[k - std::min<std::size_t>(k, sync_of(of).prefetch)].push_back(of);
          all.end[k].push_back(of);
        }
      }
    }
  }
  return all;
}

UNITY_INLINE void sharded_cells::find_gathers() {
  const auto points = training_.gathers();
  forward_ = gathers_at(points.forward, false);
  backward_ = gathers_at(points.backward, true);
}

UNITY_INLINE void sharded_cells::begin_pass(bool is_backward) {
  now_ = is_backward ? &backward_ : &forward_;
  next_ = 0;
  if (!now_->points.empty()) {
    std::for_each(now_->begin[0].begin(), now_->begin[0].end(), [&](cell_id of) { begin_gather(of); });
  }
}

UNITY_INLINE void sharded_cells::come_to(node_id n) {
  if (next_ == now_->points.size() || now_->points[next_] != n) {
    return;
  }
  if (next_ > 0) {
    std::for_each(now_->begin[next_].begin(), now_->begin[next_].end(), [&](cell_id of) { begin_gather(of); });
  }
  std::for_each(now_->end[next_].begin(), now_->end[next_].end(), [&](cell_id of) { end_gather(of); });
  ++next_;
}

UNITY_INLINE void sharded_cells::begin_gather(cell_id of) {
  const auto holders = states_[of.weight].holders[of.cell];
  const auto origin = states_.node_of(of);
  std::vector<value_id> values;
  for (const auto r : training_.written().of(holders)) {
    const auto own = share_of(of, r).empty() ? value_id{} : states_.part_of(of, r).weight.value;
    values.push_back(padded(of, r, origin, own, rows_of_share(of)));
  }
  under_way_[{of.weight, of.cell}] = streams_.gathered(origin, holders, values);
}

UNITY_INLINE void sharded_cells::end_gather(cell_id of) {
  auto& state = states_[of.weight];
  const auto& cell = state.cells[of.cell];
  const auto all = under_way_.extract({of.weight, of.cell}).mapped();
  const auto ranks = training_.written().of(state.holders[of.cell]);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    streams_.wait(ranks[i], all[i].wait);
    auto rows = cell;
    rows.end[0] = rows.begin[0] + streams_.program(ranks[i]).graph.type(all[i].value).dims[0];
    state.gathered[{ranks[i], of.cell}] = streams_.on(ranks[i], states_.node_of(of)).cut({rows, all[i].value}, cell);
  }
}

}  // namespace unity::parallel::detail

#endif
