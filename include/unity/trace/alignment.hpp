// Constraints on the clocks of ranks, and the likelihood of clock offsets, from messages and collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/transactions.hpp>

namespace unity::trace {

// offset[before] - offset[after] <= bound: `first` begins before `last` ends.
struct difference_constraint {
  std::uint32_t before = 0;  // ranks
  std::uint32_t after = 0;
  picoseconds bound{};
  event_place first{};
  event_place last{};
};

// A quadratic function of the offsets, x'Hx / 2 + g'x; in microseconds.
struct quadratic_function {
  std::size_t size = 0;             // ranks
  std::vector<double> quadratic{};  // H by rows
  std::vector<double> linear{};

  explicit quadratic_function(std::size_t ranks) : size{ranks}, quadratic(ranks * ranks), linear(ranks) {}
  // Adds weight * (constant + sum of coefficients * offsets)^2.
  void add_square(double weight, double constant, const std::vector<std::pair<std::uint32_t, double>>& terms);
};

// For each rank, the first rank of its connected component, where `pairs` are the edges. Complexity: at most ranks
// times pairs.
[[nodiscard]] std::vector<std::size_t> first_joined(std::size_t ranks,
                                                    const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs);

// What the transactions of a job tell about its ranks' clocks. Offsets are corrections to the clocks that the ranks
// state (stated_offsets).
class alignment_problem {
 public:
  // Complexity: n log n in messages; for each collective, quadratic in its ranks.
  alignment_problem(const job_trace& job, const transactions& x);

  // The tightest constraint for each ordered pair of ranks: a receive does not end before its send begins, and a
  // collective ends on no rank before it has begun on all. Tolerance: the precision of traces, 2 us.
  [[nodiscard]] const std::vector<difference_constraint>& constraints() const noexcept { return constraints_; }

  // Offsets that satisfy all constraints, by Bellman and Ford, from `offsets`, which are lowered where they violate a
  // constraint. The first rank of each connected component keeps its offset. Complexity: ranks times constraints.
  // Throws: unity::error that names the transactions which no clocks can satisfy.
  [[nodiscard]] clock_offsets feasible(clock_offsets offsets) const;

  // The quadratic function that the most likely offsets minimize. Its weights depend on the residuals at `offsets`
  // (microseconds; nothing: before the first solution). It adds up:
  // - Receives of the same part of a tensor (way, chunk, round) between the same ranks take equal time in all steps,
  //   counted from the later of the starts of both ends: the variance of these times. `offsets` decide which start is
  //   later; without them, this term is left out.
  // - Collectives in which all ranks need the data of all others end at the same time on all ranks: squares of the
  //   differences of their ends; without `offsets`, of the mode of these differences for each pair of ranks.
  // - The fastest messages of both directions between two ranks are equally fast. This has little weight: it decides
  //   only where the other terms do not.
  // - Ranks of one machine have one clock. This has 10,000 times the weight, so that only constraints separate them.
  // Residuals far beyond those of the best quarter get little weight: they are delays by other processes.
  // Source: Hu et al., dPRO, MLSys 2022, section 4.2, for receives and machines; the other terms are our own.
  [[nodiscard]] quadratic_function objective(const std::optional<std::vector<double>>& offsets) const;

 private:
  // (end + offset of receiver) - max(start of receiver, start of sender + offset of sender)
  struct receive_time {
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;
    double since_send = 0;  // us, by the stated clocks
    double own = 0;         // us, from the receive's own start
  };
  // How much later collectives end on `second` than on `first`, by the stated clocks, in microseconds.
  struct end_differences {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    std::vector<double> all{};
  };

  void add_constraints(const job_trace& job, const transactions& x);
  void add_families(const job_trace& job, const transactions& x);
  void add_end_differences(const job_trace& job, const transactions& x);
  void add_receives(quadratic_function& f, const std::vector<double>* offsets) const;
  void add_ends(quadratic_function& f, const std::vector<double>* offsets) const;
  [[nodiscard]] std::string pair_text(const difference_constraint& c) const;

  const job_trace* job_;
  clock_offsets stated_;
  std::vector<difference_constraint> constraints_;
  std::vector<std::vector<receive_time>> families_;
  std::vector<end_differences> ends_;
};

// The number of transactions that offsets violate by more than the rounding of traces.
[[nodiscard]] std::size_t violations(const job_trace& job, const transactions& x, const clock_offsets& offsets);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_ALIGNMENT)

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::trace {

namespace detail {

inline constexpr picoseconds trace_rounding{2'000'000};

// Calls visit(first, last) for each pair of events on different ranks, `first` of which must begin before `last` ends.
template <class Visit>
void for_each_order(const transactions& x, const Visit& visit) {
  for (const auto& m : x.messages) {
    if (m.send.rank != m.receive.rank) {
      visit(m.send, m.receive);
    }
  }
  for (const auto& c : x.collectives) {
    for (const auto& a : c.members) {
      for (const auto& b : c.members) {
        if (a.rank != b.rank) {
          visit(a, b);
        }
      }
    }
  }
}

// All ranks receive the result of a collective of this kind when the last one has contributed, so they end together.
inline bool ends_together(exchange way) {
  return way == exchange::all_reduce || way == exchange::all_gather || way == exchange::reduce_scatter ||
         way == exchange::all_to_all || way == exchange::barrier;
}

// Twice the lower quartile, plus the resolution of clocks.
inline double likely_distance(std::vector<double> all) {
  const auto quarter = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 4);
  std::nth_element(all.begin(), quarter, all.end());
  return 2 * *quarter + 1;
}
inline double weight_of(double distance, double scale) {
  const auto ratio = scale / std::max(distance, scale);
  return ratio * ratio;
}

// The mode: repeatedly takes the shortest interval that contains half of the values. Precondition: at least one value.
// Source: Robertson and Cryer, An iterative procedure for estimating the mode, JASA 69, 1974.
inline double mode_of(std::span<const double> sorted) {
  while (sorted.size() > 2) {
    const auto half = (sorted.size() + 1) / 2;
    std::size_t best = 0;
    for (std::size_t k = 0; k + half <= sorted.size(); ++k) {
      if (sorted[k + half - 1] - sorted[k] < sorted[best + half - 1] - sorted[best]) {
        best = k;
      }
    }
    sorted = sorted.subspan(best, half);
  }
  return (sorted.front() + sorted.back()) / 2;
}

}  // namespace detail

UNITY_INLINE void quadratic_function::add_square(double weight, double constant,
                                                 const std::vector<std::pair<std::uint32_t, double>>& terms) {
  for (const auto& [i, a] : terms) {
    linear[i] += 2 * weight * constant * a;
    for (const auto& [j, b] : terms) {
      quadratic[i * size + j] += 2 * weight * a * b;
    }
  }
}

UNITY_INLINE std::vector<std::size_t> first_joined(std::size_t ranks,
                                                   const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) {
  std::vector<std::size_t> first(ranks);
  std::iota(first.begin(), first.end(), std::size_t{0});
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (const auto& [a, b] : pairs) {
      is_changed = is_changed || first[a] != first[b];
      first[a] = first[b] = std::min(first[a], first[b]);
    }
  }
  return first;
}

UNITY_INLINE alignment_problem::alignment_problem(const job_trace& job, const transactions& x)
    : job_{&job}, stated_{stated_offsets(job)} {
  add_constraints(job, x);
  add_families(job, x);
  add_end_differences(job, x);
}

UNITY_INLINE void alignment_problem::add_constraints(const job_trace& job, const transactions& x) {
  std::unordered_map<std::uint64_t, difference_constraint> least;  // by both ranks
  detail::for_each_order(x, [&](event_place first, event_place last) {
    const auto start = job.ranks[first.rank].events[first.event].start + stated_[first.rank];
    const auto end = job.ranks[last.rank].events[last.event].end() + stated_[last.rank];
    const difference_constraint c{first.rank, last.rank, end - start + detail::trace_rounding, first, last};
    const auto [at, is_new] = least.try_emplace(std::uint64_t{first.rank} << 32U | last.rank, c);
    if (!is_new && c.bound < at->second.bound) {
      at->second = c;
    }
  });
  for (const auto& [pair, c] : least) {
    constraints_.push_back(c);
  }
  std::sort(constraints_.begin(), constraints_.end(), [](const auto& c, const auto& d) {
    return std::pair{c.before, c.after} < std::pair{d.before, d.after};
  });
}

UNITY_INLINE void alignment_problem::add_families(const job_trace& job, const transactions& x) {
  constexpr double us = 1e-6;  // microseconds per picosecond
  using family = std::tuple<std::uint32_t, std::uint32_t, name_id, exchange, std::uint32_t, std::uint32_t>;
  std::map<family, std::vector<receive_time>> families;
  for (const auto& m : x.messages) {
    if (m.send.rank == m.receive.rank) {
      continue;
    }
    const auto& s = job.ranks[m.send.rank].events[m.send.event];
    const auto& r = job.ranks[m.receive.rank].events[m.receive.event];
    const auto& about = job.ranks[m.receive.rank].messages[r.message];
    const auto end = r.end() + stated_[m.receive.rank];
    families[{m.send.rank, m.receive.rank, about.tensor, about.way, about.chunk, about.round}].push_back(
        {m.send.rank, m.receive.rank, static_cast<double>((end - s.start - stated_[m.send.rank]).count()) * us,
         static_cast<double>(r.duration.count()) * us});
  }
  for (auto& [key, list] : families) {
    families_.push_back(std::move(list));
  }
}

// Of large groups, takes only pairs of neighbours and pairs with the first rank: they determine all clocks.
UNITY_INLINE void alignment_problem::add_end_differences(const job_trace& job, const transactions& x) {
  constexpr double us = 1e-6;  // microseconds per picosecond
  constexpr std::size_t large = 16;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> all;
  for (const auto& c : x.collectives) {
    const auto& first = c.members.front();
    if (!detail::ends_together(job.ranks[first.rank].messages[job.ranks[first.rank].events[first.event].message].way)) {
      continue;
    }
    const auto end = [&](event_place p) { return job.ranks[p.rank].events[p.event].end() + stated_[p.rank]; };
    for (std::size_t i = 0; i < c.members.size(); ++i) {
      for (auto k = i + 1; k < c.members.size(); ++k) {
        if (c.members.size() <= large || i == 0 || k == i + 1) {
          all[{c.members[i].rank, c.members[k].rank}].push_back(
              static_cast<double>((end(c.members[k]) - end(c.members[i])).count()) * us);
        }
      }
    }
  }
  for (auto& [pair, list] : all) {
    std::sort(list.begin(), list.end());
    ends_.push_back({pair.first, pair.second, std::move(list)});
  }
}

UNITY_INLINE std::string alignment_problem::pair_text(const difference_constraint& c) const {
  return fmt::format("{} ({} to {})", describe(*job_, c.first), printable(job_->ranks[c.before].name),
                     printable(job_->ranks[c.after].name));
}

UNITY_INLINE clock_offsets alignment_problem::feasible(clock_offsets offsets) const {
  const auto ranks = job_->ranks.size();
  const auto asked = offsets;
  std::vector<const difference_constraint*> by(ranks, nullptr);
  const difference_constraint* changed = nullptr;
  for (std::size_t round = 0; round <= ranks; ++round) {
    changed = nullptr;
    for (const auto& c : constraints_) {
      if (offsets[c.before] - offsets[c.after] > c.bound) {
        offsets[c.before] = offsets[c.after] + c.bound;
        by[c.before] = &c;
        changed = &c;
      }
    }
    if (changed == nullptr) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
      for (const auto& c : constraints_) {
        pairs.emplace_back(c.before, c.after);
      }
      const auto first = first_joined(ranks, pairs);
      auto raised = offsets;
      for (std::size_t r = 0; r < ranks; ++r) {
        raised[r] += asked[first[r]] - offsets[first[r]];
      }
      return raised;
    }
  }
  auto on_cycle = changed->before;
  for (std::size_t i = 0; i < ranks; ++i) {
    on_cycle = by[on_cycle]->after;
  }
  std::string named;
  auto r = on_cycle;
  do {
    named += fmt::format("{}{}", named.empty() ? "" : ", ", pair_text(*by[r]));
    r = by[r]->after;
  } while (r != on_cycle);
  throw error{"clocks of the ranks", fmt::format("no offsets put these in order: {}", named),
              "transactions that end after they began"};
}

UNITY_INLINE void alignment_problem::add_receives(quadratic_function& f, const std::vector<double>* offsets) const {
  for (const auto& family : families_) {
    // Each time as a constant plus a factor (0 or 1) times the difference of the offsets. The mean is over all.
    std::vector<std::pair<double, double>> values;
    double constants = 0;
    double factors = 0;
    for (const auto& r : family) {
      const auto shift = offsets == nullptr ? 0.0 : (*offsets)[r.receiver] - (*offsets)[r.sender];
      const bool is_send_later = r.since_send + shift < r.own;
      values.emplace_back(is_send_later ? r.since_send : r.own, is_send_later ? 1.0 : 0.0);
      constants += values.back().first;
      factors += values.back().second;
    }
    const auto n = static_cast<double>(family.size());
    std::vector<double> distances;
    const auto shift = offsets == nullptr ? 0.0 : (*offsets)[family[0].receiver] - (*offsets)[family[0].sender];
    for (const auto& [c, a] : values) {
      distances.push_back(std::abs(c - constants / n + (a - factors / n) * shift));
    }
    const auto scale = detail::likely_distance(distances);
    for (std::size_t k = 0; k < values.size(); ++k) {
      const auto c = values[k].first - constants / n;
      const auto a = values[k].second - factors / n;
      if (a != 0) {
        f.add_square(detail::weight_of(distances[k], scale), c, {{family[0].receiver, a}, {family[0].sender, -a}});
      }
    }
  }
}

UNITY_INLINE void alignment_problem::add_ends(quadratic_function& f, const std::vector<double>* offsets) const {
  for (const auto& d : ends_) {
    const std::vector<std::pair<std::uint32_t, double>> terms{{d.second, 1}, {d.first, -1}};
    if (offsets == nullptr) {
      f.add_square(static_cast<double>(d.all.size()), detail::mode_of(d.all), terms);
      continue;
    }
    const auto shift = (*offsets)[d.second] - (*offsets)[d.first];
    std::vector<double> distances;
    for (const auto one : d.all) {
      distances.push_back(std::abs(one + shift));
    }
    const auto scale = detail::likely_distance(distances);
    for (std::size_t k = 0; k < d.all.size(); ++k) {
      f.add_square(detail::weight_of(distances[k], scale), d.all[k], terms);
    }
  }
}

UNITY_INLINE quadratic_function alignment_problem::objective(const std::optional<std::vector<double>>& offsets) const {
  quadratic_function f{job_->ranks.size()};
  const auto* const at = offsets ? &*offsets : nullptr;
  add_ends(f, at);
  if (offsets) {  // without offsets, the later start is unknown
    add_receives(f, at);
  }
  constexpr double weak = 1e-3;
  constexpr double strong = 1e4;  // stronger than all measurements, so that only constraints separate these ranks
  for (const auto& c : constraints_) {
    f.add_square(weak, static_cast<double>(c.bound.count()) * 1e-6, {{c.before, -1}, {c.after, 1}});
  }
  for (std::uint32_t a = 0; a < job_->ranks.size(); ++a) {
    for (auto b = a + 1; b < job_->ranks.size(); ++b) {
      if (job_->ranks[a].machine == job_->ranks[b].machine) {
        f.add_square(strong, 0, {{a, 1}, {b, -1}});
      }
    }
  }
  return f;
}

UNITY_INLINE std::size_t violations(const job_trace& job, const transactions& x, const clock_offsets& offsets) {
  std::size_t count = 0;
  detail::for_each_order(x, [&](event_place first, event_place last) {
    const auto start = job.ranks[first.rank].events[first.event].start + offsets[first.rank];
    const auto end = job.ranks[last.rank].events[last.event].end() + offsets[last.rank];
    count += start > end + detail::trace_rounding ? 1U : 0U;
  });
  return count;
}

}  // namespace unity::trace

#endif
