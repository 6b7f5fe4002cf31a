// A lower bound on the simulated time of all strategies that begin with given configurations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/strategies/strategy_tables.hpp>

namespace unity::parallel {

// Operators get a choice one after another, in topological order; the last choice can be undone.
//
// The bound is the maximum of
// - the longest path: forward tasks of decided operators, the delay between them and their backward tasks (minimized
//   over the configurations of undecided operators), backward tasks, reductions and updates of weights;
// - for each device and each time: that time plus all tasks that cannot begin before it;
// - for each link: all messages over it;
// - all work, the least for undecided operators, divided by the number of devices.
// Each holds for any order in which resources run tasks, and so for that of the simulators. Simulating the decided part
// would not give a bound: with an additional task on a resource, everything may end earlier (Graham, Bounds on
// multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969).
// Source: Carlier, The one-machine sequencing problem, European J. of Operational Research 11, 1982, for heads and
// loads.
class strategy_bound {
 public:
  // The tables must outlive it.
  explicit strategy_bound(const strategy_tables& tables);

  [[nodiscard]] std::size_t decided() const noexcept { return choices_.size(); }
  [[nodiscard]] const std::vector<std::uint32_t>& choices() const noexcept { return choices_; }

  // Makes that choice for the next operator; returns the bound. Complexity: linear in decided operators, their tasks
  // and edges.
  picoseconds push(std::uint32_t choice);
  // Precondition: a decided operator.
  void pop();

 private:
  struct timed {
    std::int64_t release = 0;
    std::int64_t time = 0;
  };

  [[nodiscard]] const edge_delays& delays_of(const strategy_tables::edge& e) const {
    return e.delays[choices_[e.from] * tables_->times(e.to).size() + choices_[e.to]];
  }
  [[nodiscard]] const weight_delays& delays_of(std::uint32_t w) const;
  void change_links(const std::vector<resource_load>& links, std::int64_t sign);
  void change_weight(std::uint32_t w, int sign);

  [[nodiscard]] picoseconds bound();

  // Lower bounds on the time from the end of each backward task to the end of the iteration.
  void find_tails();
  [[nodiscard]] std::size_t first_row(std::uint32_t w, std::size_t user) const;

  // The earliest possible start of each backward task; returns the longest path.
  std::int64_t find_releases();
  static void raise(std::int64_t* release, std::size_t tasks, std::int64_t from, const std::int64_t* delays);

  // Collects all known tasks of each device.
  void gather();
  void gather_updates(std::uint32_t w);

  const strategy_tables* tables_;
  std::size_t stride_;
  std::vector<std::uint32_t> choices_{};
  std::vector<std::int64_t> head_{};     // the end of each forward task, at least
  std::vector<std::int64_t> release_{};  // the start of each backward task, at least
  std::vector<std::int64_t> tail_{};     // from the end of each backward task to the end of the iteration, at least
  std::vector<std::size_t> decided_users_{};  // per weight
  std::vector<std::int64_t> link_load_{};
  std::vector<std::vector<timed>> device_tasks_;
  std::vector<std::int64_t> least_after_{};  // work of undecided operators
  std::int64_t work_ = 0;                    // of decided operators
  std::int64_t weight_work_ = 0;
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STRATEGY_BOUND)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/parallel/lowering/delays.hpp>

namespace unity::parallel {

UNITY_INLINE strategy_bound::strategy_bound(const strategy_tables& tables)
    : tables_{&tables}, stride_{tables.device_count()}, device_tasks_(stride_) {
  const auto n = tables.operator_count();
  choices_.reserve(n);
  head_.resize(n * stride_);
  release_.resize(n * stride_);
  tail_.resize(n * stride_);
  decided_users_.resize(tables.weights().size());
  std::int64_t least = 0;
  least_after_.assign(n + 1, 0);
  for (auto i = n; i-- > 0;) {
    const auto& all = tables.times(i);
    least +=
        std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.work < b.work; })->work;
    least_after_[i] = least;
  }
  for (const auto& w : tables.weights()) {
    weight_work_ += w.delays[0][0].work;
  }
}

UNITY_INLINE picoseconds strategy_bound::push(std::uint32_t choice) {
  const auto i = choices_.size();
  choices_.push_back(choice);
  const auto& o = tables_->times(i)[choice];
  work_ += o.work;
  for (std::size_t t = 0; t < o.forward.size(); ++t) {
    head_[i * stride_ + t] = o.forward[t];
  }
  for (const auto e : tables_->edges_to(i)) {
    const auto& edge = tables_->edges()[e];
    const auto& d = delays_of(edge);
    change_links(d.links, 1);
    for (std::size_t p = 0; p < d.forward.rows(); ++p) {
      const auto end = head_[edge.from * stride_ + p];
      for (std::size_t t = 0; t < o.forward.size(); ++t) {
        if (d.forward(p, t) != delay_matrix::none) {
          head_[i * stride_ + t] = std::max(head_[i * stride_ + t], end + d.forward(p, t) + o.forward[t]);
        }
      }
    }
  }
  for (const auto w : tables_->weights_of(i)) {
    change_weight(w, 1);
  }
  return bound();
}

UNITY_INLINE void strategy_bound::pop() {
  UNITY_EXPECTS(!choices_.empty(), "a decided operator");
  const auto i = choices_.size() - 1;
  for (const auto w : tables_->weights_of(i)) {
    change_weight(w, -1);
  }
  for (const auto e : tables_->edges_to(i)) {
    change_links(delays_of(tables_->edges()[e]).links, -1);
  }
  work_ -= tables_->times(i)[choices_.back()].work;
  choices_.pop_back();
}

UNITY_INLINE const weight_delays& strategy_bound::delays_of(std::uint32_t w) const {
  const auto& of = tables_->weights()[w];
  std::size_t k = 0;
  for (std::size_t u = 0; u < decided_users_[w]; ++u) {
    k = k * tables_->times(of.users[u]).size() + choices_[of.users[u]];
  }
  return of.delays[decided_users_[w]][k];
}

UNITY_INLINE void strategy_bound::change_links(const std::vector<resource_load>& links, std::int64_t sign) {
  for (const auto& l : links) {
    if (link_load_.size() <= l.resource) {
      link_load_.resize(l.resource + std::size_t{1}, 0);
    }
    link_load_[l.resource] += sign * l.time.count();
  }
}

UNITY_INLINE void strategy_bound::change_weight(std::uint32_t w, int sign) {
  const auto& before = delays_of(w);
  weight_work_ -= before.work;
  change_links(before.links, -1);
  decided_users_[w] += static_cast<std::size_t>(sign);
  const auto& now = delays_of(w);
  weight_work_ += now.work;
  change_links(now.links, 1);
}

UNITY_INLINE picoseconds strategy_bound::bound() {
  find_tails();
  auto least = find_releases();
  gather();
  for (auto& tasks : device_tasks_) {
    std::sort(tasks.begin(), tasks.end(), [](const timed& a, const timed& b) { return a.release > b.release; });
    std::int64_t sum = 0;
    for (const auto& t : tasks) {
      sum += t.time;
      least = std::max(least, t.release + sum);
    }
  }
  for (const auto l : link_load_) {
    least = std::max(least, l);
  }
  const auto devices = static_cast<std::int64_t>(stride_);
  const auto all = work_ + weight_work_ + least_after_[choices_.size()];
  return picoseconds{std::max(least, (all + devices - 1) / devices)};
}

UNITY_INLINE void strategy_bound::find_tails() {
  std::fill_n(tail_.begin(), choices_.size() * stride_, 0);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    for (const auto e : tables_->edges_to(i)) {
      const auto& edge = tables_->edges()[e];
      const auto& back = delays_of(edge).backward;
      const auto& producer = tables_->times(edge.from)[choices_[edge.from]];
      for (std::size_t t = 0; t < back.rows(); ++t) {
        auto& tail = tail_[i * stride_ + t];
        for (std::size_t p = 0; p < back.columns(); ++p) {
          if (back(t, p) != delay_matrix::none) {
            tail = std::max(tail, back(t, p) + producer.backward[p] + tail_[edge.from * stride_ + p]);
          }
        }
      }
    }
    for (const auto w : tables_->weights_of(i)) {
      const auto& d = delays_of(w);
      auto row = first_row(w, i);
      for (std::size_t t = 0; t < tables_->times(i)[choices_[i]].forward.size(); ++t, ++row) {
        for (std::size_t k = 0; k < stride_; ++k) {
          if (d.until_update(row, k) != delay_matrix::none) {
            tail_[i * stride_ + t] = std::max(tail_[i * stride_ + t], d.until_update(row, k) + d.update[k]);
          }
        }
      }
    }
  }
}

UNITY_INLINE std::size_t strategy_bound::first_row(std::uint32_t w, std::size_t user) const {
  std::size_t row = 0;
  for (const auto u : tables_->weights()[w].users) {
    if (u == user) {
      break;
    }
    row += tables_->times(u)[choices_[u]].forward.size();
  }
  return row;
}

UNITY_INLINE std::int64_t strategy_bound::find_releases() {
  std::int64_t longest = 0;
  for (auto i = choices_.size(); i-- > 0;) {
    const auto& o = tables_->times(i)[choices_[i]];
    const auto tasks = o.forward.size();
    auto* const release = &release_[i * stride_];
    std::copy_n(&head_[i * stride_], tasks, release);
    for (const auto e : tables_->edges_from(i)) {
      const auto& edge = tables_->edges()[e];
      if (edge.to < choices_.size()) {
        const auto& back = delays_of(edge).backward;
        const auto& consumer = tables_->times(edge.to)[choices_[edge.to]];
        for (std::size_t c = 0; c < back.rows(); ++c) {
          raise(release, tasks, release_[edge.to * stride_ + c] + consumer.backward[c], back.row(c));
        }
      } else {
        const auto& around = edge.turnarounds[choices_[i]];
        for (std::size_t t = 0; t < tasks; ++t) {
          raise(release, tasks, head_[i * stride_ + t], around.row(t));
        }
      }
    }
    for (std::size_t t = 0; t < tasks; ++t) {
      longest = std::max(longest, release[t] + o.backward[t] + tail_[i * stride_ + t]);
    }
  }
  return longest;
}

UNITY_INLINE void strategy_bound::raise(std::int64_t* release, std::size_t tasks, std::int64_t from,
                                        const std::int64_t* delays) {
  for (std::size_t t = 0; t < tasks; ++t) {
    if (delays[t] != delay_matrix::none) {
      release[t] = std::max(release[t], from + delays[t]);
    }
  }
}

UNITY_INLINE void strategy_bound::gather() {
  for (auto& tasks : device_tasks_) {
    tasks.clear();
  }
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const auto& o = tables_->times(i)[choices_[i]];
    for (std::size_t t = 0; t < o.forward.size(); ++t) {
      auto& tasks = device_tasks_[o.devices[t]];
      tasks.push_back({head_[i * stride_ + t] - o.forward[t], o.forward[t]});
      if (o.backward[t] > 0) {
        tasks.push_back({release_[i * stride_ + t], o.backward[t]});
      }
    }
  }
  for (std::uint32_t w = 0; w < decided_users_.size(); ++w) {
    if (decided_users_[w] > 0) {
      gather_updates(w);
    }
  }
}

UNITY_INLINE void strategy_bound::gather_updates(std::uint32_t w) {
  const auto& d = delays_of(w);
  for (std::size_t k = 0; k < stride_; ++k) {
    if (d.update[k] == 0) {
      continue;
    }
    std::int64_t release = 0;
    std::size_t row = 0;
    for (std::size_t u = 0; u < decided_users_[w]; ++u) {
      const auto i = tables_->weights()[w].users[u];
      const auto& o = tables_->times(i)[choices_[i]];
      for (std::size_t t = 0; t < o.forward.size(); ++t, ++row) {
        if (d.until_update(row, k) != delay_matrix::none) {
          release = std::max(release, release_[i * stride_ + t] + o.backward[t] + d.until_update(row, k));
        }
      }
    }
    device_tasks_[k].push_back({release, d.update[k]});
  }
}

}  // namespace unity::parallel

#endif
