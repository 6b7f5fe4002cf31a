// Delays that a fragment imposes on the tasks after it: longest paths without contention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/tasks/fragment.hpp>

namespace unity::parallel {

// A matrix of delays in picoseconds; `none` if there is no dependency.
class delay_matrix {
 public:
  static constexpr std::int64_t none = -1;

  delay_matrix() = default;
  delay_matrix(std::size_t rows, std::size_t columns) : columns_{columns}, values_(rows * columns, none) {}

  [[nodiscard]] std::size_t rows() const noexcept { return columns_ == 0 ? 0 : values_.size() / columns_; }
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  [[nodiscard]] std::int64_t operator()(std::size_t row, std::size_t column) const noexcept {
    return values_[row * columns_ + column];
  }
  [[nodiscard]] std::int64_t& operator()(std::size_t row, std::size_t column) noexcept {
    return values_[row * columns_ + column];
  }
  [[nodiscard]] const std::int64_t* row(std::size_t r) const noexcept { return values_.data() + r * columns_; }

  // Element-wise minimum and maximum; none is less than any delay.
  void limit_to(const delay_matrix& o);
  void raise_to(const delay_matrix& o);

  friend bool operator==(const delay_matrix&, const delay_matrix&) = default;

 private:
  std::size_t columns_ = 0;
  std::vector<std::int64_t> values_{};
};

// The delay of two fragments in sequence: the longest path from a row of a via some k to a column of b, plus
// between[k]. Complexity: rows * columns * k.
[[nodiscard]] delay_matrix chained(const delay_matrix& a, std::span<const std::int64_t> between, const delay_matrix& b);

// Times at which dependents of another fragment's task become ready, relative to the end of that task, if each task of
// this fragment starts as soon as it is ready. Uses the timing rules of the simulators, but with unlimited resources.
class fragment_delays {
 public:
  // `source` is a task without latency. Complexity: dependencies times the length of their longest chain.
  fragment_delays(const tasks::fragment& f, const tasks::task_ref& source);

  // The delay until a task of another fragment is ready.
  [[nodiscard]] std::int64_t until(const tasks::task_ref& t) const;
  // The delay until a task of this fragment is ready.
  [[nodiscard]] std::int64_t until_ready(std::size_t task) const { return ready_[task]; }

 private:
  struct target {
    tasks::task_ref at{};
    std::int64_t time = 0;
  };

  [[nodiscard]] std::int64_t arrival(const tasks::dependency& d, const tasks::task_ref& source) const;
  bool raise(const tasks::dependency& d, std::int64_t at);

  const tasks::fragment& fragment_;
  std::vector<std::int64_t> ready_;
  std::vector<std::int64_t> end_;
  std::vector<target> arrivals_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_DELAYS)

#include <algorithm>

#include <unity/core/id.hpp>

namespace unity::parallel {

UNITY_INLINE void delay_matrix::limit_to(const delay_matrix& o) {
  for (auto&& [own, other] : ranges::views::zip(values_, o.values_)) {
    own = std::min(own, other);
  }
}

UNITY_INLINE void delay_matrix::raise_to(const delay_matrix& o) {
  for (auto&& [own, other] : ranges::views::zip(values_, o.values_)) {
    own = std::max(own, other);
  }
}

UNITY_INLINE delay_matrix chained(const delay_matrix& a, std::span<const std::int64_t> between, const delay_matrix& b) {
  delay_matrix c{a.rows(), b.columns()};
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t k = 0; k < a.columns(); ++k) {
      for (std::size_t j = 0; a(i, k) != delay_matrix::none && j < b.columns(); ++j) {
        if (b(k, j) != delay_matrix::none) {
          c(i, j) = std::max(c(i, j), a(i, k) + between[k] + b(k, j));
        }
      }
    }
  }
  return c;
}

UNITY_INLINE fragment_delays::fragment_delays(const tasks::fragment& f, const tasks::task_ref& source)
    : fragment_{f}, ready_(f.tasks.size(), delay_matrix::none), end_(f.tasks.size(), delay_matrix::none) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& d : f.dependencies) {
      const auto at = arrival(d, source);
      if (at != delay_matrix::none && !d.after.fragment.valid()) {
        changed = raise(d, at) || changed;
      }
    }
  }
  for (const auto& d : f.dependencies) {
    if (const auto at = arrival(d, source); at != delay_matrix::none && d.after.fragment.valid()) {
      arrivals_.push_back({d.after, at});
    }
  }
}

UNITY_INLINE std::int64_t fragment_delays::until(const tasks::task_ref& t) const {
  auto latest = delay_matrix::none;
  for (const auto& a : arrivals_) {
    latest = a.at == t ? std::max(latest, a.time) : latest;
  }
  return latest;
}

UNITY_INLINE std::int64_t fragment_delays::arrival(const tasks::dependency& d, const tasks::task_ref& source) const {
  if (d.before.fragment.valid()) {
    return d.before == source ? 0 : delay_matrix::none;
  }
  const auto from = d.cut_through ? ready_[d.before.index] : end_[d.before.index];
  return from == delay_matrix::none ? from : from + fragment_.tasks[d.before.index].latency.count();
}

UNITY_INLINE bool fragment_delays::raise(const tasks::dependency& d, std::int64_t at) {
  const auto i = d.after.index;
  const auto& own = fragment_.tasks[i];
  const auto ready = std::max(ready_[i], at);
  auto end = std::max(end_[i], ready + own.duration.count());
  if (d.cut_through) {
    end = std::max(end, end_[d.before.index] + fragment_.tasks[d.before.index].latency.count());
  }
  const bool changed = ready != ready_[i] || end != end_[i];
  ready_[i] = ready;
  end_[i] = end;
  return changed;
}

}  // namespace unity::parallel

#endif
