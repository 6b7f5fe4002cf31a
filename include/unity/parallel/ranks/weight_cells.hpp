// Weights in the parts that ranks hold, and their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/gradient_sums.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/parallel/ranks/row_exchange.hpp>
#include <unity/parallel/ranks/server_exchange.hpp>
#include <unity/parallel/ranks/weight_states.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// Cells of a weight are as large as they can be while each rank reads a cell whole or not at all.
// Where one rank alone is written (alike_ranks.hpp), who holds a cell is known of all ranks, and messages between
// others are counted.
class weight_cells {
 public:
  weight_cells(const divided_training& d, rank_streams& streams);
  weight_cells(const weight_cells&) = delete;
  weight_cells& operator=(const weight_cells&) = delete;

  [[nodiscard]] bool is_weight(value_id v) const { return number_[v.index()] != none; }
  // Has servers send what a node reads of weights to who keeps none, once. To be called before its tasks.
  void fetch(node_id reader);
  [[nodiscard]] std::vector<held_part> parts(value_id weight, std::uint32_t rank);
  // A part of a table of which a rank looks up rows for others.
  struct served_part {
    held_part table{};
    std::uint32_t server = 0;
  };
  // Empty: who looks rows up has the table.
  [[nodiscard]] std::vector<served_part> served_parts(value_id weight);

  // Adds what a reader's backward pass gives to what came before.
  // cotangent_of(task, operand) -> value_id, null: zero
  template <class F>
  void give(node_id reader, const F& cotangent_of) {
    for (const auto w : training_.training().weights_of(reader)) {
      const auto& weight = training_.training().weights()[w];
      if (!weight.is_trained) {
        continue;
      }
      auto& state = states_[w];
      std::map<std::uint32_t, std::vector<held_part>> given;  // by rank
      for_each_reader(w, [&](const weight_use& use, std::uint32_t t, std::uint32_t rank, const box& b) {
        const auto c = use.node == reader ? cotangent_of(t, use.operand) : value_id{};
        if (c.valid()) {
          given[rank].push_back({b, c});
        }
      });
      for (const auto& [rank, all] : given) {
        if (std::any_of(state.how.begin(), state.how.end(), [](const synchronizer& h) { return h.is_sparse; })) {
          rows_.take(w, rank, all, reader);
        }
        for (std::size_t c = 0; c < state.cells.size(); ++c) {
          auto& writer = streams_.on(rank, reader);
          if (state.how[c].is_sparse) {
            state.gradients.try_emplace({rank, c}, all.front().value);  // of the whole table: read by nobody
          } else if (const auto sum = writer.added(state.cells[c], all, training_.graph().type(weight.value).element)) {
            auto& own = state.gradients[{rank, c}];
            own = own.valid() ? writer.sum(own, *sum) : *sum;
          }
        }
      }
    }
  }
  // Begins to add up over ranks the gradients of the weights that this reader, in the order of backward passes, was the
  // last to read: each cell as its part of the weight is synchronized, those of a bucket when all of it and of the
  // buckets before are there. One sum for all who hold a cell. Those who gave nothing add zeros; where one alone gave
  // to an all-reduce outside of buckets, it hands out.
  void reduce_behind(node_id reader);
  // Sends what servers are to be sent still: at the end of the backward pass.
  void send_node_sums() { servers_.send_node_sums(); }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // f(use, task, rank, box) for all tasks for which the operand is not zero.
  template <class F>
  void for_each_reader(std::size_t weight, const F& f) const {
    for (const auto& use : training_.training().weights()[weight].uses) {
      const auto& d = training_.parts_of(use.node);
      for (const auto t : d.readers[use.operand]) {
        f(use, t, training_.rank_of(use.node, t), d.parts[t].operands[use.operand]);
      }
    }
  }
  struct bucket_state {
    std::size_t missing = 0;  // cells whose gradients are not there
    std::vector<cell_id> cells{};
  };

  void place(std::size_t w);
  void add_part(std::size_t w, std::size_t c, std::uint32_t rank);
  [[nodiscard]] synchronizer how_to(std::size_t w, const box& cell) const;

  [[nodiscard]] const written_ranks& written() const { return training_.written(); }
  void reduce(cell_id of, node_id reader);
  void reduce_alone(cell_id of, node_id reader);
  void reduce_bucket(const bucket_state& bucket, node_id reader);
  void reduce_together(std::span<const cell_id> cells, node_id reader);
  void scatter(cell_id of, node_id reader);

  const divided_training& training_;
  rank_streams& streams_;
  weight_states states_;
  gradient_sums sums_;
  row_exchange rows_;
  server_exchange servers_;
  std::vector<std::size_t> number_;  // by value
  std::vector<bucket_state> buckets_;
  std::size_t next_bucket_ = 0;  // to be reduced
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_WEIGHT_CELLS)

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/parallel/ranks/value_flows.hpp>

namespace unity::parallel::detail {

UNITY_INLINE weight_cells::weight_cells(const divided_training& d, rank_streams& streams)
    : training_{d},
      streams_{streams},
      states_{d, streams},
      sums_{d, streams},
      rows_{d, streams},
      servers_{d, streams, states_, rows_},
      number_(d.graph().value_count(), none),
      buckets_(d.bucket_count()) {
  const auto& weights = d.training().weights();
  for (std::size_t w = 0; w < weights.size(); ++w) {
    number_[weights[w].value.index()] = w;
    place(w);
  }
}

UNITY_INLINE void weight_cells::fetch(node_id reader) {
  for (const auto w : training_.training().weights_of(reader)) {
    for (std::size_t c = 0; c < states_[w].cells.size() && !training_.fetches_rows(w); ++c) {
      if (!states_[w].how[c].is_proxied) {
        servers_.fetch({w, c});
      }
    }
  }
}

UNITY_INLINE std::vector<held_part> weight_cells::parts(value_id weight, std::uint32_t rank) {
  std::vector<held_part> all;
  const auto& state = states_[number_[weight.index()]];
  for (std::size_t c = 0; c < state.cells.size(); ++c) {
    if (const auto found = state.at.find({rank, c}); found != state.at.end()) {
      all.push_back({state.cells[c], streams_.program(rank).weights[found->second].weight.value});
    } else if (std::binary_search(state.holders[c].begin(), state.holders[c].end(), rank)) {
      all.push_back({state.cells[c], servers_.fetched({number_[weight.index()], c}, rank)});
    }
  }
  return all;
}

UNITY_INLINE std::vector<weight_cells::served_part> weight_cells::served_parts(value_id weight) {
  const auto w = number_[weight.index()];
  if (!training_.fetches_rows(w)) {
    return {};
  }
  std::vector<served_part> all;
  for (std::size_t c = 0; c < states_[w].cells.size(); ++c) {
    const auto server = static_cast<std::uint32_t>(states_[w].how[c].destination.index());
    all.push_back({{states_[w].cells[c], states_.part_of({w, c}, server).weight.value}, server});
  }
  return all;
}

UNITY_INLINE void weight_cells::reduce_behind(node_id reader) {
  servers_.send_node_sums();
  for (const auto w : training_.training().weights_of(reader)) {
    const auto& uses = training_.training().weights()[w].uses;
    if (std::none_of(uses.begin(), uses.end(), [&](const weight_use& u) {
          return training_.is_before(u.node, reader) && training_.training().has_backward(u.node);
        })) {
      for (std::size_t c = 0; c < states_[w].cells.size(); ++c) {
        reduce({w, c}, reader);
      }
    }
  }
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].missing == 0; ++next_bucket_) {
    reduce_bucket(buckets_[next_bucket_], reader);
  }
}

UNITY_INLINE synchronizer weight_cells::how_to(std::size_t w, const box& cell) const {
  const auto how = training_.sync_of(w);
  const auto parts = boxes_of(how, training_.graph().type(training_.training().weights()[w].value).dims);
  for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
    if (!intersection(parts[k], cell).empty()) {
      return how.parts[k];
    }
  }
  return how.parts.back();
}

UNITY_INLINE void weight_cells::place(std::size_t w) {
  auto& state = states_[w];
  const auto value = training_.training().weights()[w].value;
  std::vector<box> boxes;
  const auto parts = boxes_of(training_.sync_of(w), training_.graph().type(value).dims);
  for_each_reader(w, [&](const weight_use&, std::uint32_t, std::uint32_t, const box& b) {
    for (const auto& part : parts) {
      const auto common = parts.size() == 1 ? b : intersection(b, part);
      if (!common.empty() && std::find(boxes.begin(), boxes.end(), common) == boxes.end()) {
        boxes.push_back(common);
      }
    }
  });
  state.cells = cells_of(boxes);
  for (std::size_t c = 0; c < state.cells.size(); ++c) {
    std::set<std::uint32_t> holders;
    for_each_reader(w, [&](const weight_use&, std::uint32_t, std::uint32_t rank, const box& b) {
      if (!intersection(b, state.cells[c]).empty()) {
        holders.insert(rank);
      }
    });
    state.holders.push_back(written().all_like(holders));
    const auto how = how_to(w, state.cells[c]);
    state.how.push_back(how);
    for (const auto r : written().of(state.holders.back())) {
      if (how.is_proxied || r == how.destination.index()) {
        add_part(w, c, r);
      }
    }
    if (const auto server = static_cast<std::uint32_t>(how.destination.index());
        how.kind == sync_kind::parameter_server && written().has(server) && !holders.contains(server)) {
      add_part(w, c, how.destination.index());
    }
    if (const auto count = state.holders.back().size(); how.kind == sync_kind::none && count > 1) {
      throw error{fmt::format("weight of node {}", training_.graph().producer(value).index()),
                  fmt::format("held by {} ranks and not synchronized", count), "a way to keep them equal"};
    }
    if (const auto& uses = training_.training().weights()[w].uses;
        how.bucket != synchronizer::no_bucket && std::any_of(uses.begin(), uses.end(), [&](const weight_use& u) {
          return training_.training().has_backward(u.node);
        })) {
      ++buckets_[how.bucket].missing;  // until reduce_behind
    }
  }
}

UNITY_INLINE void weight_cells::add_part(std::size_t w, std::size_t c, std::uint32_t rank) {
  auto& state = states_[w];
  const auto value = training_.training().weights()[w].value;
  auto& all = streams_.program(rank).weights;
  state.at[{rank, c}] = all.size();
  const auto own =
      streams_.on(rank, training_.graph().producer(value)).outside(training_.type_of(value, state.cells[c]));
  all.push_back({{value, state.cells[c], own, 0}, state.cells[c], {}, {}});
}

UNITY_INLINE void weight_cells::reduce(cell_id of, node_id reader) {
  const auto& state = states_[of.weight];
  const auto& how = state.how[of.cell];
  const bool is_shared = state.holders[of.cell].size() > 1;
  if (how.bucket != synchronizer::no_bucket) {
    --buckets_[how.bucket].missing;
    buckets_[how.bucket].cells.push_back(of);
  } else if (states_.givers(of).empty()) {
    return;
  } else if (how.kind == sync_kind::parameter_server) {
    servers_.serve(of, reader);
  } else if (how.is_sparse) {
    const auto& holders = state.holders[of.cell];
    rows_.gather(of.weight, holders, reader);
    for (const auto r : written().of(holders)) {
      states_.change(of, r, rows_.part_on(of.weight, r, state.cells[of.cell]));
    }
  } else if (how.kind == sync_kind::sharded && is_shared && !state.cells[of.cell].begin.empty()) {
    scatter(of, reader);
  } else {
    reduce_alone(of, reader);
  }
}

UNITY_INLINE void weight_cells::reduce_alone(cell_id of, node_id reader) {
  const auto& holders = states_[of.weight].holders[of.cell];
  const auto& how = states_[of.weight].how[of.cell];
  const auto give = states_.givers(of);
  // One that is compressed is a sum: all have what its messages say.
  if (give.size() == 1 && (holders.size() == 1 || how.compressor.kind == compression::none)) {
    const auto own = states_[of.weight].gradients.at({give[0], of.cell});
    for (const auto r : holders) {
      if (r == give[0]) {
        states_.change(of, r, own);
      } else {
        const auto there = streams_.sent(states_.node_of(of), own, give[0], r);
        states_.change(of, r, there.value, there.wait);
      }
    }
    return;
  }
  const auto ranks = written().of(holders);
  std::vector<value_id> values;
  for (const auto r : ranks) {
    values.push_back(states_.given(of, r, reader));
  }
  const auto sums = sums_.of({states_.node_of(of), reader, holders, values}, how.compressor);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    states_.change(of, ranks[i], sums[i].value, sums[i].wait);
  }
}

// Cells that the same ranks hold are one sum.
UNITY_INLINE void weight_cells::reduce_bucket(const bucket_state& bucket, node_id reader) {
  std::map<std::vector<std::uint32_t>, std::vector<cell_id>> by_holders;
  for (const auto& of : bucket.cells) {
    const auto& holders = states_[of.weight].holders[of.cell];
    if (states_.givers(of).empty()) {
      continue;
    }
    if (holders.size() > 1) {
      by_holders[holders].push_back(of);
    } else {
      reduce_alone(of, reader);
    }
  }
  for (const auto& [holders, cells] : by_holders) {
    reduce_together(cells, reader);
  }
}

UNITY_INLINE void weight_cells::reduce_together(std::span<const cell_id> cells, node_id reader) {
  const auto& a = training_.algebra();
  const auto holders = states_[cells.front().weight].holders[cells.front().cell];
  const auto ranks = written().of(holders);
  std::vector<value_id> values;  // all gradients of a rank in a row
  for (const auto r : ranks) {
    std::vector<value_id> rows;
    for (const auto& of : cells) {
      const std::vector<value_id> one{states_.given(of, r, reader)};
      const auto count = states_[of.weight].cells[of.cell].volume();
      rows.push_back(streams_.on(r, reader).run(a.make_operation("reshape", {{"dims", {count}}}), one));
    }
    while (rows.size() > 1) {  // neighbours, so that each element is copied as often as there are rounds
      std::vector<value_id> joined;
      for (std::size_t i = 0; i + 1 < rows.size(); i += 2) {
        const std::vector<value_id> two{rows[i], rows[i + 1]};
        joined.push_back(streams_.on(r, reader).run(a.make_operation("concat", {{"axis", 0}}), two));
      }
      if (rows.size() % 2 == 1) {
        joined.push_back(rows.back());
      }
      rows = std::move(joined);
    }
    values.push_back(rows.front());
  }
  const auto& how = states_[cells.front().weight].how[cells.front().cell];  // alike in a bucket
  const auto sums = sums_.of({states_.node_of(cells.front()), reader, holders, values}, how.compressor);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].wait.kind == step_kind::wait) {
      streams_.wait_last(ranks[i], sums[i].wait);
    }
    auto& writer = streams_.on_last(ranks[i], states_.node_of(cells.front()));
    const held_part all{whole(writer.graph().type(sums[i].value).dims), sums[i].value};
    std::int64_t first = 0;
    for (const auto& of : cells) {
      const auto sizes = states_[of.weight].cells[of.cell].sizes();
      const auto end = first + tensor::element_count(sizes);
      auto own = all.part;
      own.begin[0] = first;
      own.end[0] = end;
      const std::vector<value_id> row{writer.cut(all, own)};
      const auto gradient = writer.run(a.make_operation("reshape", {{"dims", {sizes.begin(), sizes.end()}}}), row);
      states_.change(of, ranks[i], gradient);
      first = end;
    }
  }
}

// Rows are shared, as many by each of the ranks; the last of them may have fewer, or none.
UNITY_INLINE void weight_cells::scatter(cell_id of, node_id reader) {
  const auto& cell = states_[of.weight].cells[of.cell];
  const auto holders = states_[of.weight].holders[of.cell];
  const auto count = static_cast<std::int64_t>(holders.size());
  const auto rows = cell.sizes()[0];
  const auto share = (rows + count - 1) / count;
  auto padded = cell.sizes();
  padded[0] = share * count;
  const auto ranks = written().of(holders);
  std::vector<value_id> values;
  for (const auto r : ranks) {
    values.push_back(states_.given(of, r, reader));
    if (share * count > rows) {
      auto rest = cell.sizes();
      rest[0] = share * count - rows;
      auto& writer = streams_.on(r, reader);
      const std::vector<value_id> two{values.back(), writer.filled(rest, states_.element_of(of), 0)};
      values.back() = writer.run(training_.algebra().make_operation("concat", {{"axis", 0}}), two);
    }
  }
  const auto shares = streams_.scattered(states_.node_of(of), holders, values);
  std::vector<value_id> next;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto k = std::lower_bound(holders.begin(), holders.end(), ranks[i]) - holders.begin();
    auto& part = states_.part_of(of, ranks[i]);
    auto type = streams_.program(ranks[i]).graph.type(part.weight.value);
    type.dims = padded;
    part.next = streams_.on(ranks[i], reader).outside(type);
    next.push_back(part.next);
    part.updated.begin[0] = cell.begin[0] + std::min(k * share, rows);
    part.updated.end[0] = cell.begin[0] + std::min((k + 1) * share, rows);
    if (part.updated.empty()) {
      streams_.wait_last(ranks[i], shares[i].wait);
    } else {
      states_.change(of, ranks[i], shares[i].value, shares[i].wait);
    }
  }
  streams_.gather_next(states_.node_of(of), holders, next);
}

}  // namespace unity::parallel::detail

#endif
