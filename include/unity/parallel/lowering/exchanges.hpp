// Groups messages into exchanges with one task per link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

struct routed_message {
  hardware::device_id from{};
  hardware::device_id to{};
  bytes volume{};
};

// Indices in the fragment of the tasks for a message's first and last link.
struct message_ends {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  friend bool operator==(const message_ends&, const message_ends&) = default;
};

// Adds messages to fragments. Messages that are connected by common senders or receivers form an exchange: everything
// that an exchange moves over a link is one task, in cut-through after the tasks of preceding links. It starts when
// everything that it carries can start, like a collective. An exchange among k devices takes as many tasks as it uses
// links, instead of the hops of k (k - 1) messages. A message that shares neither end is a task per hop, as without
// exchanges. If the links of an exchange form a cycle (routes around a ring), its messages stay separate. A value type
// that reuses its memory.
class exchange_builder {
 public:
  // Effects: adds the transfers to the fragment. The caller adds dependencies of senders and receivers, using the
  // returned ends of each message, which are valid until the next call. Complexity: linear in the hops of all messages,
  // apart from logarithms.
  std::span<const message_ends> add(network& n, tasks::fragment& f, std::span<const routed_message> messages);
  // Likewise, but with separate messages.
  std::span<const message_ends> add_apart(network& n, tasks::fragment& f, std::span<const routed_message> messages);

 private:
  struct link_load {
    network::route_link link{};
    bytes volume{};
  };

  // Numbers exchanges in the order of their first messages, and sorts messages by exchange.
  void find_exchanges(std::span<const routed_message> messages);
  std::uint32_t root(std::uint32_t d);

  void add_alone(tasks::fragment& f, std::span<const routed_message> messages, std::uint32_t m);

  // Returns false and adds nothing if the links form a cycle.
  bool add_exchange(tasks::fragment& f, std::span<const routed_message> messages,
                    std::span<const std::uint32_t> members);
  // Computes the volume on each link and the pairs of consecutive links.
  void collect(std::span<const routed_message> messages, std::span<const std::uint32_t> members);
  // Kahn's algorithm, in the order in which links become ready.
  bool sort_links();
  void clear();

  static constexpr std::uint32_t none = 0xffffffffU;
  network* network_ = nullptr;  // of the current call
  std::vector<message_ends> ends_{};
  std::vector<std::uint32_t> exchange_{};  // by message
  std::vector<std::uint32_t> order_{};     // messages by exchange
  std::vector<std::uint32_t> parent_{};
  std::vector<std::uint32_t> number_{};

  // For one exchange, with its own link numbers.
  std::vector<std::uint32_t> link_of_{};  // by link
  std::vector<link_load> loads_{};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> follows_{};
  std::vector<message_ends> link_ends_{};  // by member
  std::vector<std::uint32_t> place_{};     // in the fragment
  std::vector<std::uint32_t> waiting_{};
  std::vector<std::uint32_t> sorted_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_EXCHANGES)

#include <algorithm>
#include <numeric>
#include <optional>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE std::span<const message_ends> exchange_builder::add(network& n, tasks::fragment& f,
                                                                 std::span<const routed_message> messages) {
  network_ = &n;
  ends_.assign(messages.size(), {});
  find_exchanges(messages);
  for (std::size_t first = 0; first < order_.size();) {
    auto last = first;
    while (last < order_.size() && exchange_[order_[last]] == exchange_[order_[first]]) {
      ++last;
    }
    const std::span<const std::uint32_t> members{order_.data() + first, last - first};
    if (members.size() == 1 || !add_exchange(f, messages, members)) {
      for (const auto m : members) {
        add_alone(f, messages, m);
      }
    }
    first = last;
  }
  return ends_;
}

UNITY_INLINE std::span<const message_ends> exchange_builder::add_apart(network& n, tasks::fragment& f,
                                                                       std::span<const routed_message> messages) {
  network_ = &n;
  ends_.assign(messages.size(), {});
  for (std::uint32_t m = 0; m < messages.size(); ++m) {
    add_alone(f, messages, m);
  }
  return ends_;
}

UNITY_INLINE void exchange_builder::find_exchanges(std::span<const routed_message> messages) {
  const auto devices = network_->device_count();
  parent_.resize(2 * devices);  // as senders, then as receivers
  std::iota(parent_.begin(), parent_.end(), std::uint32_t{0});
  for (const auto& m : messages) {
    parent_[root(m.from.index())] = root(static_cast<std::uint32_t>(devices + m.to.index()));
  }
  number_.assign(2 * devices, none);
  exchange_.clear();
  std::uint32_t count = 0;
  for (const auto& m : messages) {
    auto& at = number_[root(m.from.index())];
    at = at == none ? count++ : at;
    exchange_.push_back(at);
  }
  order_.resize(messages.size());
  std::iota(order_.begin(), order_.end(), std::uint32_t{0});
  std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return exchange_[a] != exchange_[b] ? exchange_[a] < exchange_[b] : a < b;
  });
}

UNITY_INLINE std::uint32_t exchange_builder::root(std::uint32_t d) {
  while (parent_[d] != d) {
    d = parent_[d] = parent_[parent_[d]];
  }
  return d;
}

UNITY_INLINE void exchange_builder::add_alone(tasks::fragment& f, std::span<const routed_message> messages,
                                              std::uint32_t m) {
  const auto& one = messages[m];
  ends_[m].first = static_cast<std::uint32_t>(f.tasks.size());
  ends_[m].last =
      tasks::add_transfer(f, network_->hops(one.from, one.to, one.volume), one.volume, one.from.index(), {}).index;
}

UNITY_INLINE bool exchange_builder::add_exchange(tasks::fragment& f, std::span<const routed_message> messages,
                                                 std::span<const std::uint32_t> members) {
  collect(messages, members);
  if (!sort_links()) {
    clear();
    return false;
  }
  const auto shard = messages[members.front()].from.index();
  for (const auto l : sorted_) {
    const auto hop = network_->hop(loads_[l].link, loads_[l].volume);
    place_[l] = f.add({hop.link, hop.duration, hop.latency, loads_[l].volume, tasks::task_kind::transfer, shard});
  }
  for (const auto& [before, after] : follows_) {
    f.dependencies.push_back({{{}, place_[before]}, {{}, place_[after]}, true});
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    ends_[members[i]] = {place_[link_ends_[i].first], place_[link_ends_[i].last]};
  }
  clear();
  return true;
}

UNITY_INLINE void exchange_builder::collect(std::span<const routed_message> messages,
                                            std::span<const std::uint32_t> members) {
  link_of_.resize(network_->link_count(), none);
  for (const auto m : members) {
    const auto& one = messages[m];
    auto before = none;
    for (const auto& link : network_->route(one.from, one.to)) {
      auto& at = link_of_[link.id.index()];
      if (at == none) {
        at = static_cast<std::uint32_t>(loads_.size());
        loads_.push_back({link, {}});
      }
      loads_[at].volume += one.volume;
      if (before != none) {
        follows_.emplace_back(before, at);
      } else {
        link_ends_.push_back({at, 0});
      }
      before = at;
    }
    link_ends_.back().last = before;
  }
  std::sort(follows_.begin(), follows_.end());
  follows_.erase(std::unique(follows_.begin(), follows_.end()), follows_.end());
}

UNITY_INLINE bool exchange_builder::sort_links() {
  place_.assign(loads_.size(), 0);
  waiting_.assign(loads_.size(), 0);
  for (const auto& [before, after] : follows_) {
    ++waiting_[after];
  }
  sorted_.clear();
  for (std::uint32_t l = 0; l < loads_.size(); ++l) {
    if (waiting_[l] == 0) {
      sorted_.push_back(l);
    }
  }
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    auto next = std::lower_bound(follows_.begin(), follows_.end(), std::pair{sorted_[i], std::uint32_t{0}});
    for (; next != follows_.end() && next->first == sorted_[i]; ++next) {
      if (--waiting_[next->second] == 0) {
        sorted_.push_back(next->second);
      }
    }
  }
  return sorted_.size() == loads_.size();
}

UNITY_INLINE void exchange_builder::clear() {
  for (const auto& l : loads_) {
    link_of_[l.link.id.index()] = none;
  }
  loads_.clear();
  follows_.clear();
  link_ends_.clear();
}

}  // namespace unity::parallel

#endif
