// Builds the fragments of a plan's weights and buckets.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/parallel/box.hpp>
#include <unity/parallel/lowering/synchronization.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/synchronization.hpp>

namespace unity::parallel {

class lowering;
struct lowered_fragment;

namespace detail {

// The readers of a weight and the gradients that they contribute; restricted to a box if `part` is given.
[[nodiscard]] weight_part_readers readers_of(lowering& l, const strategy& s, std::uint32_t weight,
                                             const box* part = nullptr);

// One entry for each part that the weight is divided into.
[[nodiscard]] std::vector<synchronized_part> parts_of_weight(lowering& l, const strategy& s, std::uint32_t weight,
                                                             const weight_sync& sync);

// Effects: appends the fragments of all weights, all buckets, and divided weights, without gathers. microbatches: the
// number after which weights are reduced.
void add_synchronization(lowering& l, const strategy& s, const synchronization& sync, std::int64_t microbatches,
                         std::vector<lowered_fragment>& all);

}  // namespace detail

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_WEIGHT_FRAGMENTS)

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/lowering/weight_shards.hpp>
#include <unity/parallel/row_fetching.hpp>
#include <unity/tasks/fragment.hpp>

namespace unity::parallel::detail {

// The rows of each task; none if the operator is not a lookup.
UNITY_INLINE std::vector<lookup_rows> rows_of(const lowering& l, const division& parts, const weight_use& use,
                                              value_id table) {
  std::vector<lookup_rows> all(parts.parts.size());
  const auto& g = l.graph();
  const std::string_view name = l.operators().signature(g.operation(use.node).kind).name;
  const bool is_bag = name == "embedding_bag";
  if (use.operand != 0 || (!is_bag && name != "embedding")) {
    return all;
  }
  const auto& ids = g.type(g.operands(use.node)[1]);
  const auto& type = g.type(table);
  const auto width = tensor::element_count(type.dims) / type.dims[0] * tensor::size_of(type.element);
  for (std::size_t t = 0; t < all.size(); ++t) {
    const auto& b = parts.parts[t].operands[1];
    const auto each = is_bag ? b.sizes().back() : 1;
    const auto count = b.volume() / each;
    all[t].ids.element = ids.element;
    all[t].ids.dims = is_bag ? tensor::shape{count, each} : tensor::shape{count};
    all[t].size = bytes{b.volume() * tensor::size_of(ids.element) + count * width};
  }
  return all;
}

UNITY_INLINE weight_part_readers readers_of(lowering& l, const strategy& s, std::uint32_t weight, const box* part) {
  const auto& w = l.training().weights()[weight];
  std::vector<reading> readings;
  std::deque<distinct_boxes> cut;                  // for a part
  std::deque<std::vector<hardware::device_id>> on;  // if not all tasks read it
  std::vector<weight_reader> readers;              // with the null fragment for those that contribute no gradient
  for (const auto& use : w.uses) {
    const auto& c = s[use.node.index()];
    const auto& parts = l.parts_of(s, use.node);
    const auto& who = parts.readers[use.operand];
    const auto& read = parts.operands[use.operand];
    const bool gives = w.is_trained && l.training().wanted(use.node)[use.operand];
    const auto& kept = l.kept(use.node).operands;
    const bool is_read_back = use.operand < kept.size() && kept[use.operand];
    const auto tasks = static_cast<std::uint32_t>(c.task_count());
    const auto rows = rows_of(l, parts, use, w.value);
    const bool is_whole = part == nullptr && who.size() == c.task_count();
    std::vector<hardware::device_id> devices;
    std::vector<box> boxes;
    for (std::size_t i = 0; i < who.size(); ++i) {
      if (part != nullptr) {
        auto common = intersection(read.boxes[read.of[i]], *part);
        if (common.empty()) {
          continue;
        }
        boxes.push_back(std::move(common));
      }
      if (!is_whole) {
        devices.push_back(c.devices[who[i]]);
      }
      const auto task = gives ? tasks::task_ref{l.fragment_of(use.node), tasks + who[i]} : tasks::task_ref{};
      readers.push_back({task, c.devices[who[i]], {l.fragment_of(use.node), who[i]}, rows[who[i]], is_read_back});
    }
    if (part != nullptr) {
      readings.push_back({&cut.emplace_back(distinct(boxes)), on.emplace_back(std::move(devices))});
    } else if (is_whole) {
      readings.push_back({&read, std::span<const hardware::device_id>{c.devices.data(), c.devices.size()}});
    } else {
      readings.push_back({&read, on.emplace_back(std::move(devices))});
    }
  }
  return {replicas_of(readings), std::move(readers), false, {}};
}

// Whether rows are fetched; not for tables that are divided among devices.
UNITY_INLINE bool fetches_rows(lowering& l, const strategy& s, std::uint32_t weight, const weight_sync& sync) {
  const auto& w = l.training().weights()[weight];
  const auto all = whole(l.graph().type(w.value).dims);
  return are_rows_fetched(l.operators(), l.graph(), s, w, sync) &&
         std::all_of(w.uses.begin(), w.uses.end(), [&](const weight_use& use) {
           const auto& read = l.parts_of(s, use.node).operands[use.operand].boxes;
           return std::all_of(read.begin(), read.end(), [&](const box& b) { return b == all; });
         });
}

UNITY_INLINE std::vector<synchronized_part> parts_of_weight(lowering& l, const strategy& s, std::uint32_t weight,
                                                            const weight_sync& sync) {
  std::vector<synchronized_part> all;
  if (sync.parts.size() == 1) {
    all.push_back({readers_of(l, s, weight), sync.parts.front()});
  } else {
    const auto boxes = boxes_of(sync, l.graph().type(l.training().weights()[weight].value).dims);
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      all.push_back({readers_of(l, s, weight, &boxes[k]), sync.parts[k]});
    }
  }
  for (auto& part : all) {
    part.of.fetches_rows = fetches_rows(l, s, weight, sync);
  }
  return all;
}

// Effects: if devices fetch weights, adds to the last weight's fragment a task for each device that updates, which ends
// with the last of its updates: which one that is depends on times (next_iteration.hpp).
UNITY_INLINE void add_ends_of_updates(const synchronization& sync, std::span<lowered_fragment> weights) {
  bool is_fetched = false;
  for_each_part(sync, [&](const synchronizer& part) { is_fetched = is_fetched || !part.is_proxied; });
  std::map<std::uint32_t, tasks::task_ref> ends;  // by device
  for (std::size_t w = 0; is_fetched && w < weights.size(); ++w) {
    for (std::uint32_t i = 0; i < weights[w].body.tasks.size(); ++i) {
      const auto task = weights[w].body.tasks[i];
      if (task.kind != tasks::task_kind::update || !task.resource.valid()) {
        continue;
      }
      auto& last = weights.back().body;
      const auto [end, is_new] = ends.try_emplace(task.shard);
      if (is_new) {
        end->second = {{}, last.add({{}, {}, {}, {}, tasks::task_kind::other, task.shard})};
      }
      last.dependencies.push_back({{weights[w].id, i}, end->second, false});
    }
  }
}

UNITY_INLINE void add_synchronization(lowering& l, const strategy& s, const synchronization& sync,
                                      std::int64_t microbatches, std::vector<lowered_fragment>& all) {
  const auto& weights = l.training().weights();
  if (sync.is_trivial()) {
    for (std::uint32_t w = 0; w < weights.size(); ++w) {
      all.push_back({l.weight_fragment(w), l.lowered_weight(s, w)});
    }
    return;
  }
  std::vector<std::vector<synchronized_part>> parts;
  std::vector<bucketed_weight> bucketed;
  for (std::uint32_t w = 0; w < weights.size(); ++w) {
    parts.push_back(parts_of_weight(l, s, w, sync.weights[w]));
  }
  for (std::uint32_t w = 0; w < weights.size(); ++w) {
    bucketed.push_back({parts[w], lowering::size_of(1, l.graph().type(weights[w].value))});
  }
  std::vector<lowered_fragment> shares;
  for (const auto w : divided_weights(sync)) {
    auto& own = shares.emplace_back(
        lowered_fragment{l.weight_fragment(weights.size() + sync.buckets.size() + shares.size()), {}});
    for (auto& part : parts[w]) {
      add_scatters(l, l.graph().type(weights[w].value), own.id, part, own.body);
    }
  }
  bucket_ends begins;
  bucket_ends ends;
  std::vector<lowered_fragment> buckets;
  for (std::uint32_t b = 0; b < sync.buckets.size(); ++b) {
    const auto self = l.weight_fragment(weights.size() + b);
    buckets.push_back({self, reduced_bucket(l.links(), b, self, groups_of_bucket(b, bucketed), begins, ends)});
  }
  for (std::uint32_t w = 0; w < weights.size(); ++w) {
    all.push_back({l.weight_fragment(w),
                   synchronized(l.links(), l.times(), l.graph().type(weights[w].value), parts[w], ends, microbatches)});
  }
  add_ends_of_updates(sync, std::span{all}.last(weights.size()));
  all.insert(all.end(), buckets.begin(), buckets.end());
  all.insert(all.end(), shares.begin(), shares.end());
}

}  // namespace unity::parallel::detail

#endif
