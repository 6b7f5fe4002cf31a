// The fragment of an edge: what goes from the tasks of one operator to those of another, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/program/fragment.hpp>

namespace unity::parallel {

// Forward tasks of an operator of n tasks are 0 to n-1 of its fragment, backward tasks n to 2n-1.
struct edge_ends {
  program::fragment_id from{};
  program::fragment_id to{};
  std::uint32_t producers = 0;  // tasks
  std::uint32_t consumers = 0;
  std::uint32_t buffers_per_task = 0;  // of the producer
  std::uint32_t result = 0;
  std::uint32_t consumer_buffers = 0;  // before those of cotangents
  bool is_wanted = false;              // the cotangent
  bool consumer_has_backward = false;
};

// A message of the value and, where its cotangent is wanted, one of that back.
struct sent_value {
  std::uint32_t producer = 0;
  std::span<const std::uint32_t> consumers{};
  bytes volume{};
  program::device_index from = 0;
  program::device_index to = 0;
};

// Appends to a fragment.
class edge_code {
 public:
  edge_code(program::fragment& f, const edge_ends& ends) : code_{f}, ends_{ends} {}

  // Both tasks are on one device.
  void use(std::uint32_t producer, std::uint32_t consumer) {
    const auto result = result_of(producer);
    code_.dependencies.push_back({written(producer), read(consumer), false});
    code_.reads.push_back({result, read(consumer)});
    if (ends_.consumer_has_backward) {
      code_.reads.push_back({result, read_back(consumer)});
    }
    if (ends_.is_wanted) {
      code_.dependencies.push_back({read_back(consumer), written_back(producer), false});
      code_.reads.push_back({cotangent_of(consumer), written_back(producer)});
    }
  }

  void send(const sent_value& s, std::span<const program::hop> hops) {
    const auto sender = written(s.producer);
    const auto first = static_cast<std::uint32_t>(code_.tasks.size());
    const auto last = program::add_transfer(code_, hops, s.volume, s.producer, {&sender, 1});
    code_.reads.push_back({result_of(s.producer), {{}, first}});
    const program::buffer_ref received{{}, static_cast<std::uint32_t>(code_.buffers.size())};
    code_.buffers.push_back({s.volume, s.to, last, false});
    for (const auto c : s.consumers) {
      code_.dependencies.push_back({last, read(c), false});
      code_.reads.push_back({received, read(c)});
      if (ends_.consumer_has_backward) {
        code_.reads.push_back({received, read_back(c)});
      }
    }
  }

  // The cotangent. hops: from the receiver of the value to its sender.
  void send_back(const sent_value& s, std::span<const program::hop> hops) {
    senders_.clear();
    for (const auto c : s.consumers) {
      senders_.push_back(read_back(c));
    }
    const auto receiver = written_back(s.producer);
    const auto first = static_cast<std::uint32_t>(code_.tasks.size());
    const auto last = program::add_transfer(code_, hops, s.volume, s.producer, senders_);
    code_.dependencies.push_back({last, receiver, false});
    for (const auto c : s.consumers) {
      code_.reads.push_back({cotangent_of(c), {{}, first}});
    }
    code_.reads.push_back({{{}, static_cast<std::uint32_t>(code_.buffers.size())}, receiver});
    code_.buffers.push_back({s.volume, s.from, last, false});
  }

 private:
  [[nodiscard]] program::task_ref written(std::uint32_t task) const { return {ends_.from, task}; }
  [[nodiscard]] program::task_ref written_back(std::uint32_t task) const { return {ends_.from, ends_.producers + task}; }
  [[nodiscard]] program::task_ref read(std::uint32_t task) const { return {ends_.to, task}; }
  [[nodiscard]] program::task_ref read_back(std::uint32_t task) const { return {ends_.to, ends_.consumers + task}; }
  [[nodiscard]] program::buffer_ref result_of(std::uint32_t task) const {
    return {ends_.from, task * ends_.buffers_per_task + ends_.result};
  }
  [[nodiscard]] program::buffer_ref cotangent_of(std::uint32_t task) const { return {ends_.to, ends_.consumer_buffers + task}; }

  program::fragment& code_;
  const edge_ends& ends_;
  std::vector<program::task_ref> senders_{};
};

}  // namespace unity::parallel
