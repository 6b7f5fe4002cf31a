// Exchanges between ranks and parameter servers: gradients, and versions of weights.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/row_exchange.hpp>
#include <unity/parallel/ranks/station_group.hpp>
#include <unity/parallel/ranks/weight_states.hpp>

namespace unity::parallel::detail {

class server_exchange {
 public:
  server_exchange(const divided_training& d, rank_streams& streams, weight_states& states, row_exchange& rows)
      : training_{d}, streams_{streams}, states_{states}, rows_{rows} {}

  // Has the server send a cell, once, to the readers that keep no copy.
  void fetch(cell_id of);
  // The cell as received from the server.
  [[nodiscard]] value_id fetched(cell_id of, std::uint32_t rank);
  // Sends the gradients of a cell to its server, which updates it, and the new version to the ranks that keep copies.
  // If devices of a node add theirs up first, the rest follows in send_node_sums.
  void serve(cell_id of, node_id reader);
  // Sends the pending sums of nodes to servers. Called one weight after their gradients were sent to be added up, so
  // that nothing waits for messages just sent; and at the end of the backward pass.
  void send_node_sums();

 private:
  // The gradients of a cell, by the written rank that adds them up and sends the sum to the server.
  struct node_sums {
    cell_id of{};
    node_id reader{};
    const station_group* givers = nullptr;
    std::map<std::uint32_t, std::vector<awaited_value>> terms{};
  };

  [[nodiscard]] const written_ranks& written() const { return states_.written(); }
  [[nodiscard]] const synchronizer& how_of(cell_id of) const { return states_[of.weight].how[of.cell]; }
  [[nodiscard]] std::uint32_t server_of(cell_id of) const {
    return static_cast<std::uint32_t>(how_of(of).destination.index());
  }
  // The ranks that exchange a cell with its server; made once for all cells with the same ranks.
  [[nodiscard]] const station_group& group_of(cell_id of, const std::vector<std::uint32_t>& ranks);
  void send(const node_sums& sums);
  [[nodiscard]] value_id summed(std::uint32_t rank, const node_sums& sums);
  // The sum of what the server received.
  [[nodiscard]] value_id summed_on(std::uint32_t server, cell_id of, std::span<const awaited_value> all);
  // Sends the new version from the server to all ranks with copies of the cell.
  void hand_out(cell_id of);

  const divided_training& training_;
  rank_streams& streams_;
  weight_states& states_;
  row_exchange& rows_;
  std::vector<node_sums> due_{};
  std::map<std::vector<std::uint32_t>, station_group> groups_{};  // of ranks that each send for themselves
  std::map<std::vector<std::uint32_t>, station_group> by_node_{};
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_SERVER_EXCHANGE)

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE void server_exchange::fetch(cell_id of) {
  auto& state = states_[of.weight];
  const auto server = server_of(of);
  if (!state.fetched.try_emplace({server, of.cell}).second) {
    return;
  }
  const auto kept = written().has(server) ? states_.part_of(of, server).weight.value : value_id{};
  const auto type = training_.type_of(training_.training().weights()[of.weight].value, state.cells[of.cell]);
  const auto& group = group_of(of, state.holders[of.cell]);
  const auto first = streams_.tag();
  for (const auto i : group.with(server)) {  // a station comes before the ranks that it sends to
    const auto r = group.rank(i);
    if (r == server) {
      continue;
    }
    streams_.tag(first + group.others_before(i, server));
    const auto station = group.station(i, server);
    const auto there =
        station == r ? streams_.sent_first(states_.node_of(of), kept, type, server, r)
                     : streams_.passed_on(states_.node_of(of), state.fetched[{station, of.cell}], type, station, r);
    if (written().has(r)) {
      state.fetched[{r, of.cell}] = there;
    }
  }
  streams_.tag(first + group.others_before(group.size(), server));
}

UNITY_INLINE value_id server_exchange::fetched(cell_id of, std::uint32_t rank) {
  const auto& there = states_[of.weight].fetched.at({rank, of.cell});
  streams_.wait(rank, there.wait);
  return there.value;
}

UNITY_INLINE const station_group& server_exchange::group_of(cell_id of, const std::vector<std::uint32_t>& ranks) {
  const bool is_per_node = how_of(of).is_per_node;
  auto& known = is_per_node ? by_node_ : groups_;
  const auto found = known.find(ranks);
  return found != known.end()
             ? found->second
             : known.try_emplace(ranks, ranks, is_per_node, training_.topology(), written()).first->second;
}

UNITY_INLINE void server_exchange::serve(cell_id of, node_id reader) {
  const auto server = server_of(of);
  const auto& how = how_of(of);
  if (how.is_sparse) {
    streams_.lag(how.staleness);
    rows_.send(of.weight, states_.givers(of), server, reader);
    if (written().has(server)) {
      states_.change(of, server, rows_.part_on(of.weight, server, states_[of.weight].cells[of.cell]));
    }
    hand_out(of);
    streams_.lag(0);
    return;
  }
  const auto& group = group_of(of, states_.givers(of));
  node_sums sums{of, reader, &group, {}};
  const auto first = streams_.tag();
  for (const auto i : group.near()) {  // ascending, so sums have a fixed order
    const auto r = group.rank(i);
    const auto own = states_[of.weight].gradients.at({written().like(r), of.cell});
    const auto station = group.station(i, server);
    streams_.tag(first + group.relayed_before(i, server));
    const auto there = station != r ? streams_.sent(states_.node_of(of), own, r, station) : awaited_value{own, {}};
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

UNITY_INLINE void server_exchange::send_node_sums() {
  for (const auto& sums : std::exchange(due_, {})) {
    send(sums);
  }
}

UNITY_INLINE void server_exchange::send(const node_sums& sums) {
  const auto& how = how_of(sums.of);
  const auto server = server_of(sums.of);
  const auto& group = *sums.givers;
  const auto number_of = [&](std::size_t i) {  // of the message at a position
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
    const auto there = is_there ? awaited_value{sum, {}} : streams_.sent(states_.node_of(sums.of), sum, rank, server);
    if (written().has(server)) {
      all.push_back(there);
    }
    streams_.lag(0);
  }
  streams_.tag(first + number_of(group.size()));
  streams_.lag(how.staleness);
  if (written().has(server)) {
    states_.change(sums.of, server, summed_on(server, sums.of, all));
  }
  hand_out(sums.of);
  streams_.lag(0);
}

UNITY_INLINE value_id server_exchange::summed(std::uint32_t rank, const node_sums& sums) {
  if (!written().has(rank)) {
    return states_[sums.of.weight].gradients.at({written().like(rank), sums.of.cell});  // any value of the sum's type
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

UNITY_INLINE value_id server_exchange::summed_on(std::uint32_t server, cell_id of, std::span<const awaited_value> all) {
  value_id sum{};
  for (const auto& g : all) {
    if (g.wait.kind == step_kind::wait) {
      streams_.wait_last(server, g.wait);
    }
    sum = sum.valid() ? streams_.on_last(server, states_.node_of(of)).sum(sum, g.value) : g.value;
  }
  return sum;
}

UNITY_INLINE void server_exchange::hand_out(cell_id of) {
  const auto& how = how_of(of);
  if (!how.is_proxied) {
    return;
  }
  const auto server = server_of(of);
  const auto version = [&](std::uint32_t r) {
    if (!written().has(r)) {
      return value_id{};
    }
    auto& part = states_.part_of(of, r);
    part.next = streams_.on(r, states_.node_of(of)).outside(streams_.program(r).graph.type(part.weight.value));
    return part.next;
  };
  const auto made = version(server);
  std::map<std::uint32_t, value_id> there;
  const auto& group = group_of(of, states_[of.weight].holders[of.cell]);
  const auto first = streams_.tag();
  for (const auto i : group.with(server)) {  // a station comes before the ranks that it sends to
    const auto r = group.rank(i);
    if (r == server) {
      continue;
    }
    if (written().has(r)) {
      states_.part_of(of, r).updated.end = states_.part_of(of, r).updated.begin;
    }
    const auto station = how.staleness == 0 ? group.station(i, server) : r;
    const auto next = there[r] = version(r);
    streams_.tag(first + group.others_before(i, server));
    if (station == r) {
      streams_.send_next(states_.node_of(of), made, server, next, r);
    } else {
      streams_.send_next(states_.node_of(of), there.at(station), station, next, r, true);
    }
  }
  streams_.tag(first + group.others_before(group.size(), server));
}

}  // namespace unity::parallel::detail

#endif
