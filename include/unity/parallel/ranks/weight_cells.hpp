// Weights in the parts that ranks hold, and their gradients.
// Over 500 lines because every way to synchronize a part fills in the same state of it.
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
#include <unity/parallel/ranks/station_group.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// Cells of a weight are as large as they can be while each rank reads a cell whole or not at all.
// Where one rank alone is written (alike_ranks.hpp), who holds a cell is known of all ranks, and messages between
// others are counted.
class weight_cells {
 public:
  weight_cells(const divided_training& d, rank_streams& streams);

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
  // Sends the sums of nodes that are due: one weight later than gradients went to where they are added up, so that
  // nobody waits for what has just left; and at the end of the backward pass.
  void send_node_sums();

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct weight_state {
    std::vector<box> cells{};
    std::vector<synchronizer> how{};                                    // by cell
    std::vector<std::vector<std::uint32_t>> holders{};                  // by cell: ranks that read it, ascending
    std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> at{};  // by rank and cell: in the rank's weights
    std::map<std::pair<std::uint32_t, std::size_t>, value_id> gradients{};
    std::map<std::pair<std::uint32_t, std::size_t>, awaited_value> fetched{};  // what servers sent for this iteration
  };

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
  // A cell of a weight.
  struct cell_id {
    std::size_t weight = 0;
    std::size_t cell = 0;
  };
  struct bucket_state {
    std::size_t missing = 0;  // cells whose gradients are not there
    std::vector<cell_id> cells{};
  };

  void place(std::size_t w);
  void add_part(std::size_t w, std::size_t c, std::uint32_t rank);
  [[nodiscard]] synchronizer how_to(std::size_t w, const box& cell) const;
  // The cell, from its server, where the rank keeps none.
  [[nodiscard]] value_id fetched(cell_id of, std::uint32_t rank);
  void send_fetched(cell_id of);

  [[nodiscard]] const written_ranks& written() const { return training_.written(); }
  // Holders whose gradient is there, or that of who is like them.
  [[nodiscard]] std::vector<std::uint32_t> givers(cell_id of) const;
  [[nodiscard]] node_id node_of(cell_id of) const {
    return training_.graph().producer(training_.training().weights()[of.weight].value);
  }
  [[nodiscard]] tensor::dtype element_of(cell_id of) const {
    return training_.graph().type(training_.training().weights()[of.weight].value).element;
  }
  [[nodiscard]] weight_part& part_of(cell_id of, std::uint32_t rank) {
    return streams_.program(rank).weights[states_[of.weight].at.at({rank, of.cell})];
  }
  // What a holder gives: its gradient, or zeros.
  [[nodiscard]] value_id given(cell_id of, std::uint32_t rank, node_id reader);
  // The gradient is there when the wait is over, if there is one: the rank updates.
  void change(cell_id of, std::uint32_t rank, value_id gradient, const rank_step& wait = {});
  void reduce(cell_id of, node_id reader);
  void reduce_alone(cell_id of, node_id reader);
  void reduce_bucket(const bucket_state& bucket, node_id reader);
  void reduce_together(std::span<const cell_id> cells, node_id reader);
  void scatter(cell_id of, node_id reader);
  // The gradients of a cell, by rank that adds them up and sends the sum to the server: of those that are written.
  struct node_sums {
    cell_id of{};
    node_id reader{};
    const station_group* givers = nullptr;
    std::map<std::uint32_t, std::vector<awaited_value>> terms{};
  };

  void serve(cell_id of, std::uint32_t server, node_id reader);
  void send(const node_sums& sums);
  [[nodiscard]] value_id summed(std::uint32_t rank, const node_sums& sums);
  // The sum of what came to the server.
  [[nodiscard]] value_id summed_on(std::uint32_t server, cell_id of, std::span<const awaited_value> all);
  // Ranks that exchange a cell with its server; made once for all cells of the same ranks.
  [[nodiscard]] const station_group& group_of(cell_id of, const std::vector<std::uint32_t>& ranks);
  // The new version goes from the server to all who keep the cell.
  void hand_out(cell_id of, std::uint32_t server);

  const divided_training& training_;
  rank_streams& streams_;
  gradient_sums sums_;
  row_exchange rows_;
  std::vector<std::size_t> number_;  // by value
  std::vector<weight_state> states_{};
  std::vector<bucket_state> buckets_;
  std::size_t next_bucket_ = 0;  // to be reduced
  std::vector<node_sums> due_{};
  std::map<std::vector<std::uint32_t>, station_group> groups_{};  // of ranks, each for itself
  std::map<std::vector<std::uint32_t>, station_group> by_node_{};
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_WEIGHT_CELLS)

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/parallel/ranks/value_flows.hpp>

namespace unity::parallel::detail {

UNITY_INLINE weight_cells::weight_cells(const divided_training& d, rank_streams& streams)
    : training_{d},
      streams_{streams},
      sums_{d, streams},
      rows_{d, streams},
      number_(d.graph().value_count(), none),
      buckets_(d.bucket_count()) {
  const auto& weights = d.training().weights();
  states_.resize(weights.size());
  for (std::size_t w = 0; w < weights.size(); ++w) {
    number_[weights[w].value.index()] = w;
    place(w);
  }
}

UNITY_INLINE void weight_cells::fetch(node_id reader) {
  for (const auto w : training_.training().weights_of(reader)) {
    for (std::size_t c = 0; c < states_[w].cells.size() && !training_.fetches_rows(w); ++c) {
      if (!states_[w].how[c].is_proxied) {
        send_fetched({w, c});
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
      all.push_back({state.cells[c], fetched({number_[weight.index()], c}, rank)});
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
    all.push_back({{states_[w].cells[c], part_of({w, c}, server).weight.value}, server});
  }
  return all;
}

UNITY_INLINE void weight_cells::reduce_behind(node_id reader) {
  send_node_sums();
  for (const auto w : training_.training().weights_of(reader)) {
    const auto& uses = training_.training().weights()[w].uses;
    if (std::none_of(uses.begin(), uses.end(), [&](const weight_use& u) {
          return u.node < reader && training_.training().has_backward(u.node);
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

UNITY_INLINE value_id weight_cells::fetched(cell_id of, std::uint32_t rank) {
  const auto& there = states_[of.weight].fetched.at({rank, of.cell});
  streams_.wait(rank, there.wait);
  return there.value;
}

UNITY_INLINE void weight_cells::send_fetched(cell_id of) {
  auto& state = states_[of.weight];
  const auto server = static_cast<std::uint32_t>(state.how[of.cell].destination.index());
  if (!state.fetched.try_emplace({server, of.cell}).second) {
    return;
  }
  const auto kept = written().has(server) ? part_of(of, server).weight.value : value_id{};
  const auto type = training_.type_of(training_.training().weights()[of.weight].value, state.cells[of.cell]);
  const auto& group = group_of(of, state.holders[of.cell]);
  const auto first = streams_.tag();
  for (const auto i : group.with(server)) {  // a station comes before those that it sends to
    const auto r = group.rank(i);
    if (r == server) {
      continue;
    }
    streams_.tag(first + group.others_before(i, server));
    const auto station = group.station(i, server);
    const auto there = station == r
                           ? streams_.sent_first(node_of(of), kept, type, server, r)
                           : streams_.passed_on(node_of(of), state.fetched[{station, of.cell}], type, station, r);
    if (written().has(r)) {
      state.fetched[{r, of.cell}] = there;
    }
  }
  streams_.tag(first + group.others_before(group.size(), server));
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

UNITY_INLINE std::vector<std::uint32_t> weight_cells::givers(cell_id of) const {
  const auto& state = states_[of.weight];
  const auto& holders = state.holders[of.cell];
  if (written().is_one()) {  // holders are alike
    return state.gradients.contains({written().like(holders.front()), of.cell}) ? holders
                                                                                : std::vector<std::uint32_t>{};
  }
  std::vector<std::uint32_t> all;
  std::copy_if(holders.begin(), holders.end(), std::back_inserter(all),
               [&](std::uint32_t r) { return state.gradients.contains({r, of.cell}); });
  return all;
}

UNITY_INLINE value_id weight_cells::given(cell_id of, std::uint32_t rank, node_id reader) {
  const auto& state = states_[of.weight];
  const auto found = state.gradients.find({rank, of.cell});
  return found != state.gradients.end()
             ? found->second
             : streams_.on(rank, reader).filled(state.cells[of.cell].sizes(), element_of(of), 0);
}

UNITY_INLINE void weight_cells::change(cell_id of, std::uint32_t rank, value_id gradient, const rank_step& wait) {
  part_of(of, rank).gradient = gradient;
  if (wait.kind == step_kind::wait) {
    streams_.wait_last(rank, wait);
  }
  streams_.update(rank, node_of(of), states_[of.weight].at.at({rank, of.cell}));
}

UNITY_INLINE void weight_cells::reduce(cell_id of, node_id reader) {
  const auto& state = states_[of.weight];
  const auto& how = state.how[of.cell];
  const bool is_shared = state.holders[of.cell].size() > 1;
  if (how.bucket != synchronizer::no_bucket) {
    --buckets_[how.bucket].missing;
    buckets_[how.bucket].cells.push_back(of);
  } else if (givers(of).empty()) {
    return;
  } else if (how.kind == sync_kind::parameter_server) {
    serve(of, how.destination.index(), reader);
  } else if (how.is_sparse) {
    const auto& holders = state.holders[of.cell];
    rows_.gather(of.weight, holders, reader);
    for (const auto r : written().of(holders)) {
      change(of, r, rows_.part_on(of.weight, r, state.cells[of.cell]));
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
  const auto give = givers(of);
  // One that is compressed is a sum: all have what its messages say.
  if (give.size() == 1 && (holders.size() == 1 || how.compressor.kind == compression::none)) {
    const auto own = states_[of.weight].gradients.at({give[0], of.cell});
    for (const auto r : holders) {
      if (r == give[0]) {
        change(of, r, own);
      } else {
        const auto there = streams_.sent(node_of(of), own, give[0], r);
        change(of, r, there.value, there.wait);
      }
    }
    return;
  }
  const auto ranks = written().of(holders);
  std::vector<value_id> values;
  for (const auto r : ranks) {
    values.push_back(given(of, r, reader));
  }
  const auto sums = sums_.of({node_of(of), reader, holders, values}, how.compressor);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    change(of, ranks[i], sums[i].value, sums[i].wait);
  }
}

// Cells that the same ranks hold are one sum.
UNITY_INLINE void weight_cells::reduce_bucket(const bucket_state& bucket, node_id reader) {
  std::map<std::vector<std::uint32_t>, std::vector<cell_id>> by_holders;
  for (const auto& of : bucket.cells) {
    const auto& holders = states_[of.weight].holders[of.cell];
    if (givers(of).empty()) {
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
      const std::vector<value_id> one{given(of, r, reader)};
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
  const auto sums = sums_.of({node_of(cells.front()), reader, holders, values}, how.compressor);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].wait.kind == step_kind::wait) {
      streams_.wait_last(ranks[i], sums[i].wait);
    }
    auto& writer = streams_.on_last(ranks[i], node_of(cells.front()));
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
      change(of, ranks[i], gradient);
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
    values.push_back(given(of, r, reader));
    if (share * count > rows) {
      auto rest = cell.sizes();
      rest[0] = share * count - rows;
      auto& writer = streams_.on(r, reader);
      const std::vector<value_id> two{values.back(), writer.filled(rest, element_of(of), 0)};
      values.back() = writer.run(training_.algebra().make_operation("concat", {{"axis", 0}}), two);
    }
  }
  const auto shares = streams_.scattered(node_of(of), holders, values);
  std::vector<value_id> next;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto k = std::lower_bound(holders.begin(), holders.end(), ranks[i]) - holders.begin();
    auto& part = part_of(of, ranks[i]);
    auto type = streams_.program(ranks[i]).graph.type(part.weight.value);
    type.dims = padded;
    part.next = streams_.on(ranks[i], reader).outside(type);
    next.push_back(part.next);
    part.updated.begin[0] = cell.begin[0] + std::min(k * share, rows);
    part.updated.end[0] = cell.begin[0] + std::min((k + 1) * share, rows);
    if (part.updated.empty()) {
      streams_.wait_last(ranks[i], shares[i].wait);
    } else {
      change(of, ranks[i], shares[i].value, shares[i].wait);
    }
  }
  streams_.gather_next(node_of(of), holders, next);
}

UNITY_INLINE const station_group& weight_cells::group_of(cell_id of, const std::vector<std::uint32_t>& ranks) {
  const bool is_per_node = states_[of.weight].how[of.cell].is_per_node;
  auto& known = is_per_node ? by_node_ : groups_;
  const auto found = known.find(ranks);
  return found != known.end()
             ? found->second
             : known.try_emplace(ranks, ranks, is_per_node, training_.topology(), written()).first->second;
}

UNITY_INLINE void weight_cells::serve(cell_id of, std::uint32_t server, node_id reader) {
  const auto& how = states_[of.weight].how[of.cell];
  if (how.is_sparse) {
    streams_.lag(how.staleness);
    rows_.send(of.weight, givers(of), server, reader);
    if (written().has(server)) {
      change(of, server, rows_.part_on(of.weight, server, states_[of.weight].cells[of.cell]));
    }
    hand_out(of, server);
    streams_.lag(0);
    return;
  }
  const auto& group = group_of(of, givers(of));
  node_sums sums{of, reader, &group, {}};
  const auto first = streams_.tag();
  for (const auto i : group.near()) {  // ascending: sums do not depend on who comes first
    const auto r = group.rank(i);
    const auto own = states_[of.weight].gradients.at({written().like(r), of.cell});
    const auto station = group.station(i, server);
    streams_.tag(first + group.relayed_before(i, server));
    const auto there = station != r ? streams_.sent(node_of(of), own, r, station) : awaited_value{own, {}};
    if (written().has(station)) {
      sums.terms[station].push_back(there);
    }
  }
  streams_.tag(first + group.relayed_before(group.size(), server));
  if (streams_.tag() != first) {
    due_.push_back(std::move(sums));
  } else {
    send(sums);
  }
}

UNITY_INLINE void weight_cells::send_node_sums() {
  for (const auto& sums : std::exchange(due_, {})) {
    send(sums);
  }
}

UNITY_INLINE void weight_cells::send(const node_sums& sums) {
  const auto& how = states_[sums.of.weight].how[sums.of.cell];
  const auto server = static_cast<std::uint32_t>(how.destination.index());
  const auto& group = *sums.givers;
  const auto number_of = [&](std::size_t i) {  // of the message of a position
    return (how.staleness == 0 ? group.others_before(i, server) : i) - group.relayed_before(i, server);
  };
  const auto first = streams_.tag();
  std::vector<awaited_value> all;
  for (const auto i : group.with(server)) {
    const auto rank = group.rank(i);
    if (group.station(i, server) != rank) {
      continue;
    }
    const auto sum = summed(rank, sums);
    streams_.lag(how.staleness);
    streams_.tag(first + number_of(i));
    const bool is_there = rank == server && how.staleness == 0;
    const auto there = is_there ? awaited_value{sum, {}} : streams_.sent(node_of(sums.of), sum, rank, server);
    if (written().has(server)) {
      all.push_back(there);
    }
    streams_.lag(0);
  }
  streams_.tag(first + number_of(group.size()));
  streams_.lag(how.staleness);
  if (written().has(server)) {
    change(sums.of, server, summed_on(server, sums.of, all));
  }
  hand_out(sums.of, server);
  streams_.lag(0);
}

UNITY_INLINE value_id weight_cells::summed(std::uint32_t rank, const node_sums& sums) {
  if (!written().has(rank)) {
    return states_[sums.of.weight].gradients.at({written().like(rank), sums.of.cell});  // of the sum's type
  }
  value_id sum{};
  for (const auto& term : sums.terms.at(rank)) {
    if (term.wait.kind == step_kind::wait) {
      streams_.wait(rank, term.wait);
    }
    sum = sum.valid() ? streams_.on(rank, sums.reader).sum(sum, term.value) : term.value;
  }
  return sum;
}

UNITY_INLINE value_id weight_cells::summed_on(std::uint32_t server, cell_id of, std::span<const awaited_value> all) {
  value_id sum{};
  for (const auto& g : all) {
    if (g.wait.kind == step_kind::wait) {
      streams_.wait_last(server, g.wait);
    }
    sum = sum.valid() ? streams_.on_last(server, node_of(of)).sum(sum, g.value) : g.value;
  }
  return sum;
}

UNITY_INLINE void weight_cells::hand_out(cell_id of, std::uint32_t server) {
  const auto& how = states_[of.weight].how[of.cell];
  if (!how.is_proxied) {
    return;
  }
  const auto version = [&](std::uint32_t r) {
    if (!written().has(r)) {
      return value_id{};
    }
    auto& part = part_of(of, r);
    part.next = streams_.on(r, node_of(of)).outside(streams_.program(r).graph.type(part.weight.value));
    return part.next;
  };
  const auto made = version(server);
  std::map<std::uint32_t, value_id> there;
  const auto& group = group_of(of, states_[of.weight].holders[of.cell]);
  const auto first = streams_.tag();
  for (const auto i : group.with(server)) {  // a station comes before those that it sends to
    const auto r = group.rank(i);
    if (r == server) {
      continue;
    }
    if (written().has(r)) {
      part_of(of, r).updated.end = part_of(of, r).updated.begin;
    }
    const auto station = how.staleness == 0 ? group.station(i, server) : r;
    const auto next = there[r] = version(r);
    streams_.tag(first + group.others_before(i, server));
    if (station == r) {
      streams_.send_next(node_of(of), made, server, next, r);
    } else {
      streams_.send_next(node_of(of), there.at(station), station, next, r, true);
    }
  }
  streams_.tag(first + group.others_before(group.size(), server));
}

}  // namespace unity::parallel::detail

#endif
