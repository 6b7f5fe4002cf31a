// Ranks that exchange a part of a weight with a server through one rank per node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/machine/topology.hpp>
#include <unity/parallel/ranks/alike_ranks.hpp>

namespace unity::parallel::detail {

// Independent of the server, except for the server's node. For a written rank, time and memory of an exchange do not
// grow with unrelated ranks, which are only counted. Ranks are identified by their positions in the group.
class station_group {
 public:
  // ranks: ascending. is_per_node: false: each rank is a node of its own. Complexity: ranks times the logarithm of
  // nodes.
  station_group(std::vector<std::uint32_t> ranks, bool is_per_node, const machine::topology& t,
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

  const machine::topology* topology_;
  const written_ranks* written_;
  bool is_per_node_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint32_t> all_{};        // positions
  std::vector<std::uint32_t> near_{};       // positions
  std::vector<std::uint32_t> first_{};      // by position: first rank of its node
  std::vector<std::uint32_t> not_first_{};  // by position: ranks before it that are not the first of their node
  std::map<std::uint32_t, std::vector<std::uint32_t>> of_node_{};  // positions
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_STATION_GROUP)

#include <algorithm>
#include <numeric>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>

namespace unity::parallel::detail {

UNITY_INLINE station_group::station_group(std::vector<std::uint32_t> ranks, bool is_per_node,
                                          const machine::topology& t, const written_ranks& written)
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
  return is_per_node_ ? (*topology_)[machine::device_id{std::size_t{rank}}].node : rank;
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

}  // namespace unity::parallel::detail

#endif
