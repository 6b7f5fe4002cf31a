// Exhaustive searches for the least loads, algorithm 3 as printed, and random graphs to compare them on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>

namespace unity::test {

inline constexpr std::int64_t impossible = std::numeric_limits<std::int64_t>::max();

// A graph as bit masks of at most 20 tensors.
struct masked_graph {
  explicit masked_graph(const placement::memory_graph& g) {
    for (std::size_t t = 0; t < g.tensor_count(); ++t) {
      size.push_back(g.tensor(placement::tensor_id{t}).size.count());
    }
    for (std::size_t o = 0; o < g.operator_count(); ++o) {
      const auto& what = g.operation(placement::operator_id{o});
      std::uint32_t in = 0;
      std::uint32_t out = 0;
      for (const auto t : what.reads) {
        in |= 1U << t.index();
      }
      for (const auto t : what.writes) {
        out |= 1U << t.index();
      }
      reads.push_back(in);
      writes.push_back(out);
      computed |= out;
    }
  }
  [[nodiscard]] std::int64_t bytes_of(std::uint32_t tensors) const {
    std::int64_t sum = 0;
    for (std::size_t t = 0; t < size.size(); ++t) {
      sum += (tensors >> t & 1U) != 0 ? size[t] : 0;
    }
    return sum;
  }
  // The tensors written by the operators in the mask.
  [[nodiscard]] std::uint32_t written(std::uint32_t done) const {
    std::uint32_t all = 0;
    for (std::size_t o = 0; o < reads.size(); ++o) {
      all |= (done >> o & 1U) != 0 ? writes[o] : 0U;
    }
    return all;
  }
  [[nodiscard]] bool is_ready(std::uint32_t done, std::size_t o) const {
    return (done >> o & 1U) == 0 && (reads[o] & computed & ~written(done)) == 0;
  }
  [[nodiscard]] std::uint32_t everything() const { return (1U << reads.size()) - 1; }

  std::vector<std::int64_t> size{};
  std::vector<std::uint32_t> reads{};
  std::vector<std::uint32_t> writes{};
  std::uint32_t computed = 0;
};

// Tries all orders, and in each all subsets of the resident tensors that may be kept.
class every_plan {
 public:
  every_plan(const placement::memory_graph& g, std::int64_t capacity) : graph_{g}, capacity_{capacity} { go(0, 0, 0); }
  [[nodiscard]] std::int64_t least() const { return least_; }

 private:
  void go(std::uint32_t done, std::uint32_t kept, std::int64_t loaded) {
    if (done == graph_.everything()) {
      least_ = std::min(least_, loaded);
      return;
    }
    for (std::size_t o = 0; o < graph_.reads.size(); ++o) {
      const auto held = kept | graph_.reads[o] | graph_.writes[o];
      if (!graph_.is_ready(done, o) || graph_.bytes_of(held) > capacity_) {
        continue;
      }
      const auto now = loaded + graph_.bytes_of(graph_.reads[o] & ~kept);
      for (auto some = held;; some = (some - 1) & held) {
        go(done | 1U << o, some, now);
        if (some == 0) {
          break;
        }
      }
    }
  }

  masked_graph graph_;
  std::int64_t capacity_;
  std::int64_t least_ = impossible;
};

// The same for more operators: goes forward through all pairs of (operators done, resident tensors), each visited once.
inline std::int64_t least_of_all_plans(const placement::memory_graph& g, std::int64_t capacity) {
  const masked_graph m{g};
  std::unordered_map<std::uint64_t, std::int64_t> level{{0, 0}};
  for (std::size_t i = 0; i < m.reads.size(); ++i) {
    std::unordered_map<std::uint64_t, std::int64_t> next;
    for (const auto& [key, loaded] : level) {
      const auto done = static_cast<std::uint32_t>(key >> 32U);
      const auto kept = static_cast<std::uint32_t>(key);
      for (std::size_t o = 0; o < m.reads.size(); ++o) {
        const auto held = kept | m.reads[o] | m.writes[o];
        if (!m.is_ready(done, o) || m.bytes_of(held) > capacity) {
          continue;
        }
        const auto now = loaded + m.bytes_of(m.reads[o] & ~kept);
        for (auto some = held;; some = (some - 1) & held) {
          auto& least = next.emplace(std::uint64_t{done | 1U << o} << 32U | some, impossible).first->second;
          least = std::min(least, now);
          if (some == 0) {
            break;
          }
        }
      }
    }
    level = std::move(next);
  }
  std::int64_t least = impossible;
  for (const auto& [key, loaded] : level) {
    least = std::min(least, loaded);
  }
  return least;
}

// COST(S, T) of algorithm 3, from all operators and an empty cache. chooses: T' is any set of live tensors that fits
// and contains T without OUT and IN; otherwise, as printed, T' = (T minus OUT) in A(S').
class algorithm_3 {
 public:
  algorithm_3(const placement::memory_graph& g, std::int64_t capacity, bool chooses)
      : graph_{g}, capacity_{capacity}, chooses_{chooses} {}

  [[nodiscard]] std::int64_t cost() { return cost(graph_.everything(), 0); }

 private:
  [[nodiscard]] std::uint32_t live(std::uint32_t done) const {
    std::uint32_t seen = 0;
    std::uint32_t wanted = 0;
    for (std::size_t o = 0; o < graph_.reads.size(); ++o) {
      const bool has_run = (done >> o & 1U) != 0;
      seen |= has_run ? graph_.reads[o] | graph_.writes[o] : 0U;
      wanted |= has_run ? 0U : graph_.reads[o];
    }
    return seen & wanted;
  }
  std::int64_t cost(std::uint32_t done, std::uint32_t cached) {
    if (done == 0) {
      return graph_.bytes_of(cached);
    }
    const auto known = costs_.find({done, cached});
    if (known != costs_.end()) {
      return known->second;
    }
    auto best = impossible;
    for (std::size_t o = 0; o < graph_.reads.size(); ++o) {
      const auto before = done & ~(1U << o);
      if ((done >> o & 1U) == 0 || !graph_.is_ready(before, o)) {
        continue;
      }
      const auto in = graph_.reads[o];
      const auto out = graph_.writes[o];
      const auto alive = live(before);
      const auto try_set = [&](std::uint32_t earlier, std::uint32_t held) {
        if (graph_.bytes_of(held) <= capacity_) {
          const auto below = cost(before, earlier);
          best = below == impossible ? best : std::min(best, below + graph_.bytes_of(in & ~earlier));
        }
      };
      if (!chooses_) {
        try_set(cached & ~out & alive, cached | in | out);
        continue;
      }
      for (auto earlier = alive;; earlier = (earlier - 1) & alive) {
        if ((cached & ~out & ~in & ~earlier) == 0) {
          try_set(earlier, cached | earlier | in | out);
        }
        if (earlier == 0) {
          break;
        }
      }
    }
    costs_[{done, cached}] = best;
    return best;
  }

  masked_graph graph_;
  std::int64_t capacity_;
  bool chooses_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> costs_{};
};

// Each operator reads up to three tensors, mostly recent ones, and writes one or two; the graph has a few inputs.
inline placement::memory_graph random_memory_graph(random_engine& random, std::size_t operators, std::size_t inputs,
                                                   bool is_chain = false) {
  placement::memory_graph g;
  std::vector<placement::tensor_id> all;
  const auto add = [&](std::int64_t largest) {
    all.push_back(
        g.add_tensor(fmt::format("t{}", all.size()), bytes{random.between(0, largest)}, random.below(8) == 0));
    return all.back();
  };
  for (std::size_t i = 0; i < inputs; ++i) {
    add(12);
  }
  std::optional<placement::tensor_id> last;
  for (std::size_t o = 0; o < operators; ++o) {
    std::vector<placement::tensor_id> reads;
    for (auto i = random.below(3) + (o > 0 ? 1U : 0U); i-- > 0 && !all.empty();) {
      const auto recent = std::min<std::size_t>(all.size(), random.below(3) == 0 ? all.size() : 5);
      reads.push_back(all[all.size() - 1 - random.below(recent)]);
    }
    if (is_chain && last) {
      reads.push_back(*last);
    }
    last = add(9);
    std::vector<placement::tensor_id> writes{*last};
    if (random.below(5) == 0 && all.size() < 12) {
      writes.push_back(add(5));
    }
    g.add_operator(fmt::format("o{}", o), std::move(reads), std::move(writes));
  }
  return g;
}

}  // namespace unity::test
