// Writes the fragment of an edge: transfers between the tasks of two operators, forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/exchanges.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

// Caches the fragments of equal edges.

// Everything that determines the fragment of an edge, except which fragments its ends have. Refers to lists and
// configurations, or owns them.
template <class Operands, class Configuration>
struct basic_edge_pattern_key {
  std::uint32_t from = 0;  // kinds of operators (graph_dimensions)
  std::uint32_t to = 0;
  std::uint32_t result = 0;
  bool is_wanted = false;
  bool consumer_keeps = false;
  Operands operands;
  Configuration producer;
  Configuration consumer;
};
using edge_pattern_key = basic_edge_pattern_key<std::span<const std::uint32_t>, const configuration&>;

// A cache of fragments of edges, with placeholders for the ids of the fragments of the ends. A value; it is emptied
// when it becomes too large.
class edge_patterns {
 public:
  static constexpr tasks::fragment_id producer{0xfffffff0U};
  static constexpr tasks::fragment_id consumer{0xfffffff1U};

  // Effects: sets `f` to the fragment between these ends. make(fragment): writes it with the placeholders above; called
  // if it is not cached. Complexity: linear in the fragment.
  template <class Make>
  void write(const edge_pattern_key& key, tasks::fragment_id from, tasks::fragment_id to, tasks::fragment& f,
             const Make& make) {
    f = find(key, make);
    const auto name = [&](tasks::fragment_id& id) { id = id == producer ? from : id == consumer ? to : id; };
    for (auto& d : f.dependencies) {
      name(d.before.fragment);
      name(d.after.fragment);
    }
    for (auto& r : f.reads) {
      name(r.of.fragment);
      name(r.reader.fragment);
    }
  }

 private:
  struct pattern {
    basic_edge_pattern_key<std::vector<std::uint32_t>, configuration> key;
    tasks::fragment fragment{};
  };

  [[nodiscard]] static bool is_of(const pattern& p, const edge_pattern_key& k);
  template <class Make>
  const tasks::fragment& find(const edge_pattern_key& key, const Make& make) {
    const auto hash = hash_of(key);
    for (const auto& p : known_[hash]) {
      if (is_of(p, key)) {
        return p.fragment;
      }
    }
    pattern made{{key.from,
                  key.to,
                  key.result,
                  key.is_wanted,
                  key.consumer_keeps,
                  {key.operands.begin(), key.operands.end()},
                  key.producer,
                  key.consumer},
                 {}};
    make(made.fragment);
    held_ += 64 + made.fragment.tasks.size() + made.fragment.dependencies.size() + made.fragment.buffers.size() +
             made.fragment.reads.size();
    if (held_ > most) {
      known_.clear();
      held_ = 0;
    }
    auto& all = known_[hash];
    all.push_back(std::move(made));
    return all.back().fragment;
  }
  [[nodiscard]] static std::uint64_t hash_of(const edge_pattern_key& k);

  static constexpr std::size_t most = std::size_t{1} << 22U;  // entries of fragments: about 150 MB
  std::unordered_map<std::uint64_t, std::vector<pattern>> known_{};
  std::size_t held_ = 0;
};

// In the fragment of an operator with n tasks, forward tasks are 0 to n-1, backward tasks n to 2n-1.
struct edge_ends {
  tasks::fragment_id from{};
  tasks::fragment_id to{};
  std::uint32_t producers = 0;  // tasks
  std::uint32_t consumers = 0;
  std::uint32_t buffers_per_task = 0;  // of the producer
  std::uint32_t result = 0;
  std::uint32_t consumer_buffers = 0;  // buffers before those of cotangents
  bool is_wanted = false;              // whether the cotangent is needed
  bool consumer_keeps = false;         // whether its backward tasks also read the value

  [[nodiscard]] tasks::task_ref written(std::uint32_t task) const noexcept { return {from, task}; }
  [[nodiscard]] tasks::task_ref written_back(std::uint32_t task) const noexcept { return {from, producers + task}; }
  [[nodiscard]] tasks::task_ref read(std::uint32_t task) const noexcept { return {to, task}; }
  [[nodiscard]] tasks::task_ref read_back(std::uint32_t task) const noexcept { return {to, consumers + task}; }
  [[nodiscard]] tasks::buffer_ref result_of(std::uint32_t task) const noexcept {
    return {from, task * buffers_per_task + result};
  }
  [[nodiscard]] tasks::buffer_ref cotangent_of(std::uint32_t task) const noexcept {
    return {to, consumer_buffers + task};
  }
};

// A message with a value; if its cotangent is needed, another message returns that.
struct sent_value {
  std::uint32_t producer = 0;
  std::span<const std::uint32_t> consumers{};
  bytes volume{};
  tasks::device_index from = 0;
  tasks::device_index to = 0;
};

// Appends to a fragment.
class edge_writer {
 public:
  edge_writer(tasks::fragment& f, const edge_ends& ends) : fragment_{f}, ends_{ends} {}

  // Adds the dependencies for two tasks on the same device.
  void use(std::uint32_t producer, std::uint32_t consumer);

  void send(const sent_value& s, std::span<const tasks::hop> hops);

  // Adds all messages of the edge, and of their cotangents if needed, as exchanges.
  void send_together(std::span<const sent_value> all, network& n, exchange_builder& exchanges);

  // Sends the cotangent. hops: from the receiver of the value to its sender.
  void send_back(const sent_value& s, std::span<const tasks::hop> hops);

 private:
  // A task that passes a buffer to the first link of a message, or gets one from the last link.
  struct link_use {
    tasks::task_ref task{};
    tasks::buffer_ref buffer{};
    std::uint32_t link = 0;

    [[nodiscard]] auto rank() const noexcept {
      return std::tuple{link, task.fragment.index(), task.index, buffer.fragment.index(), buffer.index};
    }
    friend bool operator==(const link_use&, const link_use&) = default;
  };

  void begin_exchange();
  // All messages that a link brings to a device share one buffer.
  tasks::buffer_ref buffer_at(std::uint32_t link, tasks::device_index device, bytes volume);
  // keep: the receivers' backward tasks also read what was received.
  void end_exchange(bool keep);

  tasks::fragment& fragment_;
  const edge_ends& ends_;
  std::vector<tasks::task_ref> senders_{};

  static constexpr std::uint32_t none = 0xffffffffU;
  std::vector<routed_message> routed_{};
  std::vector<link_use> sent_{};
  std::vector<link_use> received_{};
  std::vector<std::uint32_t> buffer_of_{};  // by task: the buffer that it brings
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_EDGE_WRITER)

#include <algorithm>

#include <unity/core/hash.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::parallel {

UNITY_INLINE bool edge_patterns::is_of(const pattern& p, const edge_pattern_key& k) {
  return p.key.from == k.from && p.key.to == k.to && p.key.result == k.result && p.key.is_wanted == k.is_wanted &&
         p.key.consumer_keeps == k.consumer_keeps && std::ranges::equal(p.key.operands, k.operands) &&
         p.key.producer == k.producer && p.key.consumer == k.consumer;
}

UNITY_INLINE std::uint64_t edge_patterns::hash_of(const edge_pattern_key& k) {
  auto h = hash_combine(hash_combine(k.from, k.to), k.result);
  for (const auto* c : {&k.producer, &k.consumer}) {
    for (const auto d : c->degrees) {
      h = hash_combine(h, static_cast<std::uint64_t>(d));
    }
    for (const auto d : c->devices) {
      h = hash_combine(h, d.index());
    }
    for (const auto* list : {&c->reductions, &c->partials}) {
      for (const auto d : *list) {
        h = hash_combine(h, static_cast<std::uint64_t>(d));
      }
    }
    h = c->copies == 1 ? h : hash_combine(h, static_cast<std::uint64_t>(c->copies));
  }
  return h;
}

UNITY_INLINE void edge_writer::use(std::uint32_t producer, std::uint32_t consumer) {
  const auto result = ends_.result_of(producer);
  fragment_.dependencies.push_back({ends_.written(producer), ends_.read(consumer), false});
  fragment_.reads.push_back({result, ends_.read(consumer)});
  if (ends_.consumer_keeps) {
    fragment_.reads.push_back({result, ends_.read_back(consumer)});
  }
  if (ends_.is_wanted) {
    fragment_.dependencies.push_back({ends_.read_back(consumer), ends_.written_back(producer), false});
    fragment_.reads.push_back({ends_.cotangent_of(consumer), ends_.written_back(producer)});
  }
}

UNITY_INLINE void edge_writer::send(const sent_value& s, std::span<const tasks::hop> hops) {
  const auto sender = ends_.written(s.producer);
  const auto first = static_cast<std::uint32_t>(fragment_.tasks.size());
  const auto last = tasks::add_transfer(fragment_, hops, s.volume, s.producer, {&sender, 1});
  fragment_.reads.push_back({ends_.result_of(s.producer), {{}, first}});
  const tasks::buffer_ref received{{}, static_cast<std::uint32_t>(fragment_.buffers.size())};
  fragment_.buffers.push_back({s.volume, s.to, last, false});
  for (const auto c : s.consumers) {
    fragment_.dependencies.push_back({last, ends_.read(c), false});
    fragment_.reads.push_back({received, ends_.read(c)});
    if (ends_.consumer_keeps) {
      fragment_.reads.push_back({received, ends_.read_back(c)});
    }
  }
}

UNITY_INLINE void edge_writer::send_together(std::span<const sent_value> all, network& n, exchange_builder& exchanges) {
  routed_.clear();
  for (const auto& s : all) {
    routed_.push_back({hardware::device_id{s.from}, hardware::device_id{s.to}, s.volume});
  }
  const auto there = exchanges.add(n, fragment_, routed_);
  begin_exchange();
  for (std::size_t i = 0; i < all.size(); ++i) {
    sent_.push_back({ends_.written(all[i].producer), ends_.result_of(all[i].producer), there[i].first});
    const auto received = buffer_at(there[i].last, all[i].to, all[i].volume);
    for (const auto c : all[i].consumers) {
      received_.push_back({ends_.read(c), received, there[i].last});
    }
  }
  end_exchange(ends_.consumer_keeps);
  if (!ends_.is_wanted) {
    return;
  }
  for (auto& m : routed_) {
    std::swap(m.from, m.to);
  }
  const auto back = exchanges.add(n, fragment_, routed_);
  begin_exchange();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto c : all[i].consumers) {
      sent_.push_back({ends_.read_back(c), ends_.cotangent_of(c), back[i].first});
    }
    received_.push_back(
        {ends_.written_back(all[i].producer), buffer_at(back[i].last, all[i].from, all[i].volume), back[i].last});
  }
  end_exchange(false);
}

UNITY_INLINE void edge_writer::send_back(const sent_value& s, std::span<const tasks::hop> hops) {
  senders_.clear();
  for (const auto c : s.consumers) {
    senders_.push_back(ends_.read_back(c));
  }
  const auto receiver = ends_.written_back(s.producer);
  const auto first = static_cast<std::uint32_t>(fragment_.tasks.size());
  const auto last = tasks::add_transfer(fragment_, hops, s.volume, s.producer, senders_);
  fragment_.dependencies.push_back({last, receiver, false});
  for (const auto c : s.consumers) {
    fragment_.reads.push_back({ends_.cotangent_of(c), {{}, first}});
  }
  fragment_.reads.push_back({{{}, static_cast<std::uint32_t>(fragment_.buffers.size())}, receiver});
  fragment_.buffers.push_back({s.volume, s.from, last, false});
}

UNITY_INLINE void edge_writer::begin_exchange() {
  sent_.clear();
  received_.clear();
  buffer_of_.assign(fragment_.tasks.size(), none);
}

UNITY_INLINE tasks::buffer_ref edge_writer::buffer_at(std::uint32_t link, tasks::device_index device, bytes volume) {
  auto& at = buffer_of_[link];
  if (at == none) {
    at = static_cast<std::uint32_t>(fragment_.buffers.size());
    fragment_.buffers.push_back({bytes{}, device, {{}, link}, false});
  }
  fragment_.buffers[at].size += volume;
  return {{}, at};
}

UNITY_INLINE void edge_writer::end_exchange(bool keep) {
  for (auto* uses : {&sent_, &received_}) {
    std::sort(uses->begin(), uses->end(), [](const link_use& a, const link_use& b) { return a.rank() < b.rank(); });
    uses->erase(std::unique(uses->begin(), uses->end()), uses->end());
  }
  for (const auto& u : sent_) {
    fragment_.dependencies.push_back({u.task, {{}, u.link}, false});
    fragment_.reads.push_back({u.buffer, {{}, u.link}});
  }
  for (const auto& u : received_) {
    fragment_.dependencies.push_back({{{}, u.link}, u.task, false});
    fragment_.reads.push_back({u.buffer, u.task});
    if (keep) {
      fragment_.reads.push_back({u.buffer, ends_.read_back(u.task.index)});
    }
  }
}

}  // namespace unity::parallel

#endif
