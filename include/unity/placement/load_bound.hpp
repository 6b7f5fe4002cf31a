// A lower bound on the bytes that any plan of a given capacity has to load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>

namespace unity::placement {

// Bounds every order of the operators through one chain: operators that each depend on the one before, so every order
// keeps their order. A tensor that is used before some operators of the chain and read after them either stays on the
// device while these run, or is loaded again. The operators leave a known amount of memory free. The bound treats
// tensors as divisible: what does not fit is evicted byte by byte, the bytes needed last in the chain first. That loads
// the least, as in paging with pages of one byte. In addition every input is loaded once.
// Source: Belady (1966) for pages of one size; here each considers a chain's needs only, so all orders are bounded.
// Exact if all operators are in the chain and tensors can be cut.
class load_bound {
 public:
  // chain: each operator must be reachable from the one before. Complexity: operators times the chain, and linear in
  // operands and results.
  load_bound(const memory_graph& g, bytes capacity, std::span<const operator_id> chain);

  // A lower bound on the loads from this state of execution on, with these tensors on the device. Complexity: n log n
  // in tensors, operands and results.
  [[nodiscard]] bytes loads_after(const operator_set& done, const tensor_set& cached) const;

 private:
  // The tensor stays on the device between two uses while operators [begin, end) of the chain run, or is loaded again.
  struct interval {
    tensor_id tensor{};
    operator_id from{};
    operator_id to{};
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  // When an operator runs relative to the chain: not before the chain's operator `low`, and not after its operator
  // `high`. Both are its own position if it is in the chain; -1 and the chain's length if it is independent of it.
  struct range {
    std::int64_t low = -1;
    std::int64_t high = 0;
  };

  [[nodiscard]] std::vector<range> ranges_of(std::span<const operator_id> chain) const;
  void add_intervals(tensor_id t, const std::vector<range>& ranges);
  // Loads of inputs and of evicted tensors, which no plan avoids.
  [[nodiscard]] std::int64_t certain_loads(const operator_set& done, const tensor_set& cached) const;

  const memory_graph* graph_;
  std::vector<operator_id> chain_;
  std::vector<std::int64_t> room_{};   // free bytes beside what the operator uses, by position in the chain
  std::vector<interval> intervals_{};  // by begin
};

// The longest chain through an operator; the first of all longest chains for the null id. Complexity: linear in the
// graph's dependencies.
[[nodiscard]] std::vector<operator_id> longest_chain(const memory_graph& g, operator_id through = {});

// The largest bound over the longest chains through each operator, of at most `most_chains` chains. Complexity: as
// load_bound for each chain.
// Throws: unity::error as require_capacity.
[[nodiscard]] bytes least_loads(const memory_graph& g, bytes capacity, std::size_t most_chains = 64);

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_LOAD_BOUND)

#include <algorithm>
#include <queue>

#include <unity/core/stable_sort.hpp>

namespace unity::placement {

UNITY_INLINE load_bound::load_bound(const memory_graph& g, bytes capacity, std::span<const operator_id> chain)
    : graph_{&g}, chain_{chain.begin(), chain.end()} {
  for (const auto o : chain_) {
    room_.push_back(std::max<std::int64_t>((capacity - g.size_of(g.touched(o))).count(), 0));
  }
  const auto ranges = ranges_of(chain);
  for (std::size_t t = 0; t < g.tensor_count(); ++t) {
    add_intervals(tensor_id{t}, ranges);
  }
  unity::stable_sort(intervals_, [](const interval& a, const interval& b) { return a.begin < b.begin; });
}

UNITY_INLINE std::vector<load_bound::range> load_bound::ranges_of(std::span<const operator_id> chain) const {
  const auto count = graph_->operator_count();
  const auto length = static_cast<std::int64_t>(chain.size());
  std::vector<range> ranges(count, {-1, length});
  for (std::int64_t k = 0; k < length; ++k) {
    ranges[chain[static_cast<std::size_t>(k)].index()] = {k, k};
  }
  const auto is_of_chain = [&](std::size_t o) { return ranges[o].low == ranges[o].high; };
  for (std::size_t o = 0; o < count; ++o) {
    for (const auto p : graph_->predecessors(operator_id{o})) {
      if (!is_of_chain(o)) {
        ranges[o].low = std::max(ranges[o].low, ranges[p.index()].low);
      }
    }
  }
  for (auto o = count; o-- > 0;) {
    for (const auto p : graph_->predecessors(operator_id{o})) {
      if (!is_of_chain(p.index())) {
        ranges[p.index()].high = std::min(ranges[p.index()].high, ranges[o].high);
      }
    }
  }
  return ranges;
}

UNITY_INLINE void load_bound::add_intervals(tensor_id t, const std::vector<range>& ranges) {
  std::vector<operator_id> touches{graph_->readers(t).begin(), graph_->readers(t).end()};
  if (graph_->writer(t).valid()) {
    touches.insert(touches.begin(), graph_->writer(t));
  }
  unity::stable_sort(touches,
                     [&](operator_id a, operator_id b) { return ranges[a.index()].high < ranges[b.index()].high; });
  for (std::size_t from = 0, to = 1; to < touches.size(); ++to) {
    const auto& a = ranges[touches[from].index()];
    const auto& b = ranges[touches[to].index()];
    if (b.low < a.high) {
      continue;  // either may run first
    }
    const auto begin = a.high + (a.low == a.high ? 1 : 0);
    const auto end = b.low + (b.low == b.high ? 0 : 1);
    if (begin < end) {
      intervals_.push_back(
          {t, touches[from], touches[to], static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    }
    from = to;
  }
}

UNITY_INLINE std::int64_t load_bound::certain_loads(const operator_set& done, const tensor_set& cached) const {
  const auto& g = *graph_;
  std::int64_t sum = 0;
  for (std::size_t t = 0; t < g.tensor_count(); ++t) {
    const auto readers = g.readers(tensor_id{t});
    const auto writer = g.writer(tensor_id{t});
    const bool is_there = !writer.valid() || done[writer.index()];  // on the host or the device
    const bool is_read = std::any_of(readers.begin(), readers.end(), [&](operator_id o) { return !done[o.index()]; });
    sum += is_there && is_read && !cached[t] ? g.tensor(tensor_id{t}).size.count() : 0;
  }
  return sum;
}

UNITY_INLINE bytes load_bound::loads_after(const operator_set& done, const tensor_set& cached) const {
  auto sum = certain_loads(done, cached);
  std::size_t k = 0;
  while (k < chain_.size() && done[chain_[k].index()]) {
    ++k;
  }
  std::vector<std::int64_t> held(chain_.size() + 1);  // bytes on the device, by their next use in the chain
  std::int64_t total = 0;
  // The positions where bytes were held, the last of them first. A search for the last one from the chain's end would
  // pass all positions for each operator that leaves less room than the one before.
  std::priority_queue<std::size_t> ends;
  auto next = intervals_.begin();
  for (; k < chain_.size(); ++k) {
    for (; next != intervals_.end() && next->begin <= k; ++next) {
      const bool is_over = next->end <= k || done[next->to.index()];
      if (!is_over && (!done[next->from.index()] || cached[next->tensor.index()])) {
        const auto size = graph_->tensor(next->tensor).size.count();
        if (held[next->end] == 0) {
          ends.push(next->end);
        }
        held[next->end] += size;
        total += size;
      }
    }
    while (total > room_[k]) {
      auto& last = held[ends.top()];
      const auto leaves = std::min(last, total - room_[k]);
      last -= leaves;
      total -= leaves;
      sum += leaves;
      if (last == 0) {
        ends.pop();
      }
    }
    total -= held[k + 1];
  }
  return bytes{sum};
}

UNITY_INLINE std::vector<operator_id> longest_chain(const memory_graph& g, operator_id through) {
  const auto count = g.operator_count();
  std::vector<std::size_t> before(count);  // length of the longest chain that ends before it
  std::vector<operator_id> previous(count);
  std::vector<std::size_t> after(count);
  std::vector<operator_id> next(count);
  for (std::size_t o = 0; o < count; ++o) {
    for (const auto p : g.predecessors(operator_id{o})) {
      if (before[p.index()] + 1 > before[o]) {
        before[o] = before[p.index()] + 1;
        previous[o] = p;
      }
    }
  }
  for (auto o = count; o-- > 0;) {
    for (const auto p : g.predecessors(operator_id{o})) {
      if (after[o] + 1 > after[p.index()]) {
        after[p.index()] = after[o] + 1;
        next[p.index()] = operator_id{o};
      }
    }
  }
  std::vector<operator_id> chain;
  if (!through.valid() && count > 0) {
    through = operator_id{static_cast<std::size_t>(std::max_element(after.begin(), after.end()) - after.begin())};
  }
  for (auto o = through; o.valid(); o = previous[o.index()]) {
    chain.push_back(o);
  }
  std::reverse(chain.begin(), chain.end());
  for (auto o = through.valid() ? next[through.index()] : through; o.valid(); o = next[o.index()]) {
    chain.push_back(o);
  }
  return chain;
}

UNITY_INLINE bytes least_loads(const memory_graph& g, bytes capacity, std::size_t most_chains) {
  require_capacity(g, capacity);
  const operator_set none(g.operator_count());
  const tensor_set empty(g.tensor_count());
  auto best = input_bytes(g);
  operator_set covered(g.operator_count());
  auto through = operator_id{};
  for (std::size_t n = 0; n < most_chains; ++n) {
    const auto chain = longest_chain(g, through);
    best = std::max(best, load_bound{g, capacity, chain}.loads_after(none, empty));
    for (const auto o : chain) {
      covered.set(o.index());
    }
    const auto open = (~covered).find_first();
    if (open == operator_set::npos) {
      break;
    }
    through = operator_id{open};
  }
  return best;
}

}  // namespace unity::placement

#endif
