// The messages and the sums of partials that one use of a value needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/lowering/edge_reads.hpp>
#include <unity/parallel/lowering/messages.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/lowering/sum_writer.hpp>

namespace unity::parallel {

// Consumers are tasks, even if several operands of a task are the value.
struct edge_needs {
  const edge_messages& messages;
  std::span<const summed_value> sums;
};

// Reuses its memory: one per thread.
class needs_finder {
 public:
  // result: of the first operator, which is read as operands of the second. Valid until the next call. Complexity: as
  // message_finder::run; with partials or copies, as reads_of.
  [[nodiscard]] edge_needs run(const network& n, division_table& divisions, const divided_edge& e,
                               std::uint32_t result);

 private:
  template <class Common>
  [[nodiscard]] summed_value summed(const term_sum& sum, const divided_edge& e, const Common& common) const {
    summed_value all{sum.producers, {}, {}, {}, {}};
    for (const auto p : sum.producers) {
      all.from.push_back(e.producers[p]);
    }
    std::vector<box> boxes;
    for (const auto r : sum.readers) {
      all.consumers.push_back(r % static_cast<std::uint32_t>(e.consumers.size()));
      all.to.push_back(readers_[r]);
      boxes.push_back(common(sum.block, r));
    }
    all.needed = replicas_of(boxes, all.to);
    return all;
  }
  // Converts reader numbers, which count operand by operand, to tasks.
  static void merge_operands(edge_messages& uses, std::uint32_t tasks);

  message_finder finder_{};
  std::vector<hardware::device_id> readers_{};
  std::vector<summed_value> sums_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_EDGE_NEEDS)

#include <algorithm>

namespace unity::parallel {

UNITY_INLINE edge_needs needs_finder::run(const network& n, division_table& divisions, const divided_edge& e,
                                          std::uint32_t result) {
  readers_.clear();
  for (std::size_t i = 0; i < e.operands.size(); ++i) {
    readers_.insert(readers_.end(), e.consumers.begin(), e.consumers.end());
  }
  const auto tasks = static_cast<std::uint32_t>(e.consumers.size());
  const auto common = [&](std::uint32_t p, std::uint32_t r) {
    return intersection(e.from.parts[p].results[result], e.to.parts[r % tasks].operands[e.operands[r / tasks]]);
  };
  auto overlaps = divisions.overlaps(e.from, result, e.to, e.operands);
  sums_.clear();
  edge_reads reads;
  if (!is_single(e.from, e.to, e.operands)) {
    reads = reads_of(n, e, overlaps);
    overlaps = reads.single;
    for (const auto& sum : reads.sums) {
      sums_.push_back(summed(sum, e, common));
    }
  }
  auto& messages = finder_.run(overlaps, e.producers, readers_, common);
  if (e.operands.size() > 1) {
    merge_operands(messages, tasks);
  }
  return {messages, sums_};
}

UNITY_INLINE void needs_finder::merge_operands(edge_messages& uses, std::uint32_t tasks) {
  for (auto& u : uses.local) {
    u.consumer %= tasks;
  }
  for (auto& m : uses.messages) {
    const auto first = uses.consumers.begin() + m.first_consumer;
    const auto last = first + m.consumer_count;
    std::for_each(first, last, [&](std::uint32_t& c) { c %= tasks; });
    std::sort(first, last);
    m.consumer_count = static_cast<std::uint32_t>(std::unique(first, last) - first);
  }
}

}  // namespace unity::parallel

#endif
