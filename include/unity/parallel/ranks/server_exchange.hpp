// Exchanges between ranks and parameter servers: gradients, and versions of weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/row_exchange.hpp>
#include <unity/parallel/ranks/weight_states.hpp>

namespace unity::parallel::detail {

// Ranks that exchange a part of a weight with a server through one rank per node.

// Independent of the server, except for the server's node. For a written rank, time and memory of an exchange do not
// grow with unrelated ranks, which are only counted. Ranks are identified by their positions in the group.
class station_group {
 public:
  // ranks: ascending. is_per_node: if false, each rank counts as a separate node. Complexity: ranks times the logarithm
  // of nodes.
  station_group(std::vector<std::uint32_t> ranks, bool is_per_node, const hardware::topology& t,
                const written_ranks& written);

  [[nodiscard]] std::size_t size() const noexcept { return ranks_.size(); }
  [[nodiscard]] std::uint32_t rank(std::size_t position) const { return ranks_[position]; }
  // Positions of ranks on nodes with a written rank, ascending.
  [[nodiscard]] std::span<const std::uint32_t> near() const noexcept { return near_; }
  // Positions of ranks that may exchange data with the server, or with a rank of their node, if one of the two is
  // written.
  [[nodiscard]] std::span<const std::uint32_t> with(std::uint32_t server) const {
    return written_->has(server) ? std::span{all_} : near();
  }
  // The rank that communicates with the server on behalf of the rank at a position: as stations_of, but ranks on the
  // server's node stand for themselves.
  [[nodiscard]] std::uint32_t station(std::size_t position, std::uint32_t server) const;
  // The number of ranks before a position that another rank stands for. Complexity: logarithmic.
  [[nodiscard]] std::size_t relayed_before(std::size_t position, std::uint32_t server) const;
  // The number of ranks before a position other than the server. Complexity: logarithmic.
  [[nodiscard]] std::size_t others_before(std::size_t position, std::uint32_t server) const;

 private:
  [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const;

  const hardware::topology* topology_;
  const written_ranks* written_;
  bool is_per_node_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint32_t> all_{};        // positions
  std::vector<std::uint32_t> near_{};       // positions
  std::vector<std::uint32_t> first_{};      // by position: first rank of its node
  std::vector<std::uint32_t> not_first_{};  // by position: ranks before it that are not the first of their node
  std::map<std::uint32_t, std::vector<std::uint32_t>> of_node_{};  // positions
};

class server_exchange {
 public:
  server_exchange(const divided_training& d, rank_streams& streams, weight_states& states, row_exchange& rows)
      : training_{d}, streams_{streams}, states_{states}, rows_{rows} {}

  // Has the server send a cell, once, to the readers that keep no copy.
  void fetch(cell_id of);
  // The cell as received from the server.
  [[nodiscard]] value_id fetched(cell_id of, std::uint32_t rank);
  // Sends the gradients of a cell to its server, which updates it, and the new version to the ranks that keep copies.
  // If ranks of a node first add up their gradients, send_node_sums does the rest.
  void serve(cell_id of, node_id reader);
  // Sends the pending sums of nodes to servers. Called before the next weights are reduced, not at once, so that no
  // rank waits for messages that were just sent; and at the end of the backward pass.
  void send_node_sums();

 private:
  // The gradients of a cell, by the written rank that adds them up and sends the sum to the server.
  struct node_sums {
    cell_id of{};
    node_id reader{};
    const station_group* givers = nullptr;
    std::map<std::uint32_t, std::vector<awaited_value>> partials{};
  };

  [[nodiscard]] const written_ranks& written() const { return states_.written(); }
  [[nodiscard]] const synchronizer& sync_of(cell_id of) const { return states_[of.weight].syncs[of.cell]; }
  [[nodiscard]] std::uint32_t server_of(cell_id of) const {
    return static_cast<std::uint32_t>(sync_of(of).destination.index());
  }
  // The ranks that exchange a cell with its server; made once for all cells with the same ranks.
  [[nodiscard]] const station_group& group_of(cell_id of, const std::vector<std::uint32_t>& ranks);
  void send(const node_sums& sums);
  [[nodiscard]] value_id summed(std::uint32_t rank, const node_sums& sums);
  // The sum of the values that the server received.
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

#include <algorithm>
#include <numeric>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE station_group::station_group(std::vector<std::uint32_t> ranks, bool is_per_node,
                                          const hardware::topology& t, const written_ranks& written)
    : topology_{&t}, written_{&written}, is_per_node_{is_per_node}, ranks_(std::move(ranks)), all_(ranks_.size()) {
  std::iota(all_.begin(), all_.end(), std::uint32_t{0});
  std::uint32_t others = 0;
  for (const auto i : all_) {
    auto& members = of_node_[node_of(ranks_[i])];
    members.push_back(i);
    first_.push_back(ranks_[members.front()]);
    not_first_.push_back(others);
    others += first_.back() != ranks_[i] ? 1U : 0U;
  }
  not_first_.push_back(others);
  for (const auto& [node, members] : of_node_) {
    if (std::any_of(members.begin(), members.end(), [&](std::uint32_t i) { return written.has(ranks_[i]); })) {
      near_.insert(near_.end(), members.begin(), members.end());
    }
  }
  std::sort(near_.begin(), near_.end());
}

UNITY_INLINE std::uint32_t station_group::node_of(std::uint32_t rank) const {
  return is_per_node_ ? (*topology_)[hardware::device_id{std::size_t{rank}}].node : rank;
}

UNITY_INLINE std::uint32_t station_group::station(std::size_t position, std::uint32_t server) const {
  return node_of(ranks_[position]) == node_of(server) ? ranks_[position] : first_[position];
}

UNITY_INLINE std::size_t station_group::relayed_before(std::size_t position, std::uint32_t server) const {
  const auto found = of_node_.find(node_of(server));
  if (found == of_node_.end()) {
    return not_first_[position];
  }
  const auto& members = found->second;
  const auto before = std::lower_bound(members.begin(), members.end(), position) - members.begin();
  return not_first_[position] - static_cast<std::size_t>(before > 0 ? before - 1 : 0);
}

UNITY_INLINE std::size_t station_group::others_before(std::size_t position, std::uint32_t server) const {
  const auto end = ranks_.begin() + static_cast<std::ptrdiff_t>(position);
  return position - (std::binary_search(ranks_.begin(), end, server) ? 1 : 0);
}

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
  const bool is_per_node = sync_of(of).is_per_node;
  auto& known = is_per_node ? by_node_ : groups_;
  const auto found = known.find(ranks);
  return found != known.end()
             ? found->second
             : known.try_emplace(ranks, ranks, is_per_node, training_.topology(), written()).first->second;
}

UNITY_INLINE void server_exchange::serve(cell_id of, node_id reader) {
  const auto server = server_of(of);
  const auto& sync = sync_of(of);
  if (sync.is_sparse) {
    streams_.lag(sync.staleness);
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
      sums.partials[station].push_back(there);
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
  const auto& sync = sync_of(sums.of);
  const auto server = server_of(sums.of);
  const auto& group = *sums.givers;
  const auto number_of = [&](std::size_t i) {  // of the message at a position
    return (sync.staleness == 0 ? group.others_before(i, server) : i) - group.relayed_before(i, server);
  };
  const auto first = streams_.tag();
  std::vector<awaited_value> all;
  for (const auto i : group.with(server)) {
    const auto rank = group.rank(i);
    if (group.station(i, server) != rank) {
      continue;
    }
    const auto sum = summed(rank, sums);
    streams_.lag(sync.staleness);
    streams_.tag(first + number_of(i));
    const bool is_there = rank == server && sync.staleness == 0;
    const auto there = is_there ? awaited_value{sum, {}} : streams_.sent(states_.node_of(sums.of), sum, rank, server);
    if (written().has(server)) {
      all.push_back(there);
    }
    streams_.lag(0);
  }
  streams_.tag(first + number_of(group.size()));
  streams_.lag(sync.staleness);
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
  for (const auto& partial : sums.partials.at(rank)) {
    if (partial.wait.kind == step_kind::wait) {
      streams_.wait(rank, partial.wait);
    }
    sum = sum.valid() ? streams_.on(rank, sums.reader).sum(sum, partial.value) : partial.value;
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
  const auto& sync = sync_of(of);
  if (!sync.is_proxied) {
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
    const auto station = sync.staleness == 0 ? group.station(i, server) : r;
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
