// The parts of weights that ranks hold, and their gradients.
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
#include <unity/parallel/ranks/sharded_cells.hpp>
#include <unity/parallel/ranks/weight_states.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// Cells of a weight are the largest boxes that each rank reads either whole or not at all. If only one rank is written
// (identical_ranks.hpp), the holders of cells are still known for all ranks, and messages between other ranks are only
// counted.
class weight_cells {
 public:
  weight_cells(const divided_training& d, rank_streams& streams);
  weight_cells(const weight_cells&) = delete;
  weight_cells& operator=(const weight_cells&) = delete;

  [[nodiscard]] bool is_weight(value_id v) const { return number_[v.index()] != none; }
  // Has servers send, once, the cells that a node reads to ranks without copies. Call before the node's tasks.
  void fetch(node_id reader);
  [[nodiscard]] std::vector<held_part> parts(value_id weight, std::uint32_t rank);
  // A part of a table whose rows its server looks up for others.
  struct served_part {
    held_part table{};
    std::uint32_t server = 0;
  };
  // Empty if readers have the table themselves.
  [[nodiscard]] std::vector<served_part> served_parts(value_id weight);

  // Adds the gradients from a reader's backward pass to earlier ones. cotangent_of(task, operand) -> value_id, null:
  // zero
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
        if (std::any_of(state.syncs.begin(), state.syncs.end(), [](const synchronizer& h) { return h.is_sparse; })) {
          rows_.take(w, rank, all, reader);
        }
        for (std::size_t c = 0; c < state.cells.size(); ++c) {
          auto& writer = streams_.on(rank, reader);
          if (state.syncs[c].is_sparse) {
            state.gradients.try_emplace({rank, c}, all.front().value);  // of the whole table; not read
          } else if (const auto sum = writer.added(state.cells[c], all, training_.graph().type(weight.value).element)) {
            auto& own = state.gradients[{rank, c}];
            own = own.valid() ? writer.sum(own, *sum) : *sum;
          }
        }
      }
    }
  }
  // Begins a pass of a micro-batch, and proceeds to the tasks of an operator.
  void begin_pass(bool is_backward) { sharded_.begin_pass(is_backward); }
  void come_to(node_id n) { sharded_.come_to(n); }
  // Begins to sum over ranks the gradients of weights whose last reader in the order of backward passes is this one:
  // for cells with divided gradients after each micro-batch, for others after the last. Each cell is synchronized like
  // its part of the weight; those of a bucket when it and all earlier buckets are complete. All holders of a cell
  // perform one sum, and those without a gradient contribute zeros; but if only one has a gradient, of an all-reduce
  // outside of buckets, it sends it to the others.
  void reduce_behind(node_id reader, bool is_last);
  // Ends a backward pass: waits for shares of gradients and, after the last micro-batch, sends pending sums to servers.
  void end_backward(bool is_last) {
    sharded_.wait_for_shares();
    if (is_last) {
      servers_.send_node_sums();
    }
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // Calls f(use, task, rank, box) for all tasks whose operand is not zero.
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
    std::size_t missing = 0;  // cells without complete gradients
    std::vector<cell_id> cells{};
  };

  void place(std::size_t w);
  void add_part(std::size_t w, std::size_t c, std::uint32_t rank, const box& part);
  [[nodiscard]] synchronizer sync_of(std::size_t w, const box& cell) const;

  [[nodiscard]] const written_ranks& written() const { return training_.written(); }
  void reduce(cell_id of, node_id reader);
  void reduce_alone(cell_id of, node_id reader);
  void reduce_bucket(const bucket_state& bucket, node_id reader);
  void reduce_together(std::span<const cell_id> cells, node_id reader);

  const divided_training& training_;
  rank_streams& streams_;
  weight_states states_;
  gradient_sums sums_;
  row_exchange rows_;
  server_exchange servers_;
  sharded_cells sharded_;
  std::vector<std::size_t> number_;  // by value
  std::vector<bucket_state> buckets_;
  std::size_t next_bucket_ = 0;  // the next to be reduced
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_WEIGHT_CELLS)

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::parallel::detail {

UNITY_INLINE weight_cells::weight_cells(const divided_training& d, rank_streams& streams)
    : training_{d},
      streams_{streams},
      states_{d, streams},
      sums_{d, streams},
      rows_{d, streams},
      servers_{d, streams, states_, rows_},
      sharded_{d, streams, states_},
      number_(d.graph().value_count(), none),
      buckets_(d.bucket_count()) {
  const auto& weights = d.training().weights();
  for (std::size_t w = 0; w < weights.size(); ++w) {
    number_[weights[w].value.index()] = w;
    place(w);
  }
  sharded_.find_gathers();
}

UNITY_INLINE void weight_cells::fetch(node_id reader) {
  for (const auto w : training_.training().weights_of(reader)) {
    for (std::size_t c = 0; c < states_[w].cells.size() && !training_.fetches_rows(w); ++c) {
      if (!states_[w].syncs[c].is_proxied) {
        servers_.fetch({w, c});
      }
    }
  }
}

UNITY_INLINE std::vector<held_part> weight_cells::parts(value_id weight, std::uint32_t rank) {
  std::vector<held_part> all;
  const auto& state = states_[number_[weight.index()]];
  for (std::size_t c = 0; c < state.cells.size(); ++c) {
    const bool is_held = std::binary_search(state.holders[c].begin(), state.holders[c].end(), rank);
    if (const cell_id of{number_[weight.index()], c}; sharded_.divides_weight(of)) {
      if (is_held) {
        all.push_back({state.cells[c], sharded_.gathered(of, rank)});
      }
    } else if (const auto found = state.at.find({rank, c}); found != state.at.end()) {
      all.push_back({state.cells[c], streams_.program(rank).weights[found->second].weight.value});
    } else if (is_held) {
      all.push_back({state.cells[c], servers_.fetched(of, rank)});
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
    const auto server = static_cast<std::uint32_t>(states_[w].syncs[c].destination.index());
    all.push_back({{states_[w].cells[c], states_.part_of({w, c}, server).weight.value}, server});
  }
  return all;
}

UNITY_INLINE void weight_cells::reduce_behind(node_id reader, bool is_last) {
  if (is_last) {
    servers_.send_node_sums();
  }
  for (const auto w : training_.training().weights_of(reader)) {
    const auto& uses = training_.training().weights()[w].uses;
    if (std::none_of(uses.begin(), uses.end(), [&](const weight_use& u) {
          return training_.is_before(u.node, reader) && training_.training().has_backward(u.node);
        })) {
      for (std::size_t c = 0; c < states_[w].cells.size(); ++c) {
        if (is_last) {
          reduce({w, c}, reader);
        } else if (sharded_.divides_gradient({w, c}) && !states_.givers({w, c}).empty()) {
          sharded_.scatter({w, c}, reader, false);
        }
      }
    }
  }
  for (; is_last && next_bucket_ < buckets_.size() && buckets_[next_bucket_].missing == 0; ++next_bucket_) {
    reduce_bucket(buckets_[next_bucket_], reader);
  }
}

UNITY_INLINE synchronizer weight_cells::sync_of(std::size_t w, const box& cell) const {
  const auto sync = training_.sync_of(w);
  const auto parts = boxes_of(sync, training_.graph().type(training_.training().weights()[w].value).dims);
  for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
    if (!intersection(parts[k], cell).empty()) {
      return sync.parts[k];
    }
  }
  return sync.parts.back();
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
    const auto sync = sync_of(w, state.cells[c]);
    state.syncs.push_back(sync);
    for (const auto r : written().of(state.holders.back())) {
      const cell_id of{w, c};
      const auto own = sharded_.divides_weight(of) ? sharded_.share_of(of, r) : state.cells[c];
      if ((sync.is_proxied || r == sync.destination.index()) && (own.begin.empty() || !own.empty())) {
        add_part(w, c, r, own);
      }
    }
    if (const auto server = static_cast<std::uint32_t>(sync.destination.index());
        sync.kind == sync_kind::parameter_server && written().has(server) && !holders.contains(server)) {
      add_part(w, c, server, state.cells[c]);
    }
    if (const auto count = state.holders.back().size(); sync.kind == sync_kind::none && count > 1) {
      throw error{fmt::format("weight of node {}", training_.graph().producer(value).index()),
                  fmt::format("held by {} ranks and not synchronized", count), "a way to keep them equal"};
    }
    if (const auto& uses = training_.training().weights()[w].uses;
        sync.bucket != synchronizer::no_bucket && std::any_of(uses.begin(), uses.end(), [&](const weight_use& u) {
          return training_.training().has_backward(u.node);
        })) {
      ++buckets_[sync.bucket].missing;  // until reduce_behind
    }
  }
}

UNITY_INLINE void weight_cells::add_part(std::size_t w, std::size_t c, std::uint32_t rank, const box& part) {
  auto& state = states_[w];
  const auto value = training_.training().weights()[w].value;
  auto& all = streams_.program(rank).weights;
  state.at[{rank, c}] = all.size();
  const auto own = streams_.on(rank, training_.graph().producer(value)).outside(training_.type_of(value, part));
  all.push_back({{value, part, own, 0}, part, {}, {}});
}

UNITY_INLINE void weight_cells::reduce(cell_id of, node_id reader) {
  const auto& state = states_[of.weight];
  const auto& sync = state.syncs[of.cell];
  if (sync.bucket != synchronizer::no_bucket) {
    --buckets_[sync.bucket].missing;
    buckets_[sync.bucket].cells.push_back(of);
  } else if (states_.givers(of).empty()) {
    return;
  } else if (sync.kind == sync_kind::parameter_server) {
    servers_.serve(of, reader);
  } else if (sync.is_sparse) {
    const auto& holders = state.holders[of.cell];
    rows_.gather(of.weight, holders, reader);
    for (const auto r : written().of(holders)) {
      states_.change(of, r, rows_.part_on(of.weight, r, state.cells[of.cell]));
    }
  } else if (sharded_.is_shared(of)) {
    sharded_.scatter(of, reader, true);
  } else {
    reduce_alone(of, reader);
  }
}

UNITY_INLINE void weight_cells::reduce_alone(cell_id of, node_id reader) {
  const auto& holders = states_[of.weight].holders[of.cell];
  const auto& sync = states_[of.weight].syncs[of.cell];
  const auto give = states_.givers(of);
  // A compressed gradient is always summed, so that all ranks have the decompressed result.
  if (give.size() == 1 && (holders.size() == 1 || sync.compressor.kind == compression::none)) {
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
  const auto sums = sums_.of({states_.node_of(of), reader, holders, values}, sync.compressor);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    states_.change(of, ranks[i], sums[i].value, sums[i].wait);
  }
}

// Cells with the same holders are summed together.
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
  std::vector<value_id> values;  // per rank: all gradients, concatenated
  for (const auto r : ranks) {
    std::vector<value_id> rows;
    for (const auto& of : cells) {
      const std::vector<value_id> one{states_.given(of, r, reader)};
      const auto count = states_[of.weight].cells[of.cell].volume();
      rows.push_back(streams_.on(r, reader).run(a.make_operation("reshape", {{"dims", {count}}}), one));
    }
    while (rows.size() > 1) {  // pairwise, so that each element is copied once per round
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
  const auto& sync = states_[cells.front().weight].syncs[cells.front().cell];  // equal within a bucket
  const auto sums = sums_.of({states_.node_of(cells.front()), reader, holders, values}, sync.compressor);
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

}  // namespace unity::parallel::detail

#endif
