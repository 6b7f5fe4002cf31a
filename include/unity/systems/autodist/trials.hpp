// AutoDist's search: samples synchronizations, tries those that a ranker prefers, and trains the ranker on the results.
// Source: Zhang et al., AutoDist: a composable and automated synchronization system for distributed deep learning,
// section 2.4 (algorithm 1); the selection of trials: Chen et al., Learning to optimize tensor programs, NeurIPS 2018,
// section 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/learn/ranker.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/systems/autodist/features.hpp>
#include <unity/systems/autodist/sampler.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::systems {

struct trial_options {
  std::size_t trials = 200;     // at least 1
  std::size_t round = 10;       // trials between updates of the ranker, at least 1
  std::size_t proposals = 500;  // per round; its trials are chosen from them
  // False: trials are drawn at random, and nothing is learned (the paper's Random+G).
  bool is_ranked = true;
  double trusted = 0.8;      // fraction of correctly ordered pairs for the ranker to be trusted
  std::size_t explored = 1;  // of a round's trials, regardless of the ranker
  double diversity = 0.5;    // the weight of novelty in the choice, in standard deviations of scores
  std::size_t steps = 60;    // of training, after each round
  std::uint64_t seed = 1;
  double seconds = std::numeric_limits<double>::infinity();  // a trial or training that has begun still ends
  sampling_guide guide{};
};

struct sync_trial {
  parallel::synchronization sync{};
  picoseconds time{};  // of an iteration
  float score = 0;     // of the ranker before the trial
};

// The accuracy of a ranker trained on 7 of 10 trials up to the end of a phase: how many pairs of the other 3 of 10 (of
// all phases) it orders correctly, where both times are in the same bucket. The first bucket has the fastest times.
struct trial_accuracy {
  std::size_t phase = 0;
  std::size_t bucket = 0;
  learn::pair_accuracy pairs{};
};

struct trial_result {
  std::vector<sync_trial> trials{};  // in the order in which they were made
  std::size_t best = 0;              // an index into trials
  std::size_t hits = 0;              // trials faster than the baseline
  std::optional<std::size_t> first_hit{};
  // The accuracy of a ranker trained on 7 of 10 trials, on the other 3 of 10: pairs whose times differ by at least
  // 0.5%. No pairs if time ran out.
  learn::pair_accuracy held_out{};
  std::vector<trial_accuracy> phases{};  // five, with four buckets each; fewer if time ran out
  double score_seconds = 0;              // average time for features and score of a proposal in the last round

  [[nodiscard]] double hit_rate() const {
    return trials.empty() ? 0 : static_cast<double>(hits) / static_cast<double>(trials.size());
  }
};

// The time of an iteration with this synchronization: simulated or measured.
using sync_trial_function = std::function<picoseconds(const parallel::synchronization&)>;

// baseline: the time to beat. The result depends only on options and trials, unless time runs out; at least one trial
// is made. Complexity: that of the trials, plus proposals times parts.
// Throws: unity::error if there is no trained weight; as `trial`.
[[nodiscard]] trial_result find_by_trials(const tensor::algebra& a, const sync_problem& p, const sync_features& seen,
                                          picoseconds baseline, const sync_trial_function& trial,
                                          const trial_options& o = {});

namespace detail {

inline constexpr double least_apart = 0.005;  // minimum relative difference of distinct times

// A candidate synchronization with its features and score.
struct sync_proposal {
  parallel::synchronization sync{};
  learn::ranked_list features{};
  float score = 0;
  std::vector<std::uint64_t> choices{};  // by weight: a hash
};

// By weight: a hash of its parts and their synchronizers, without the group.
[[nodiscard]] std::vector<std::uint64_t> choices_of(const parallel::synchronization& s);

// Of a round of trials with the scores from before them: the trial with the highest score such that at least six trials
// have scores up to its own, and at least `share` of the pairs among these is ordered correctly.
[[nodiscard]] std::optional<std::size_t> trusted_below(std::span<const sync_trial> round, double share);

// Greedily chooses the proposals with the largest sum of score and novelty; returns their indices.
[[nodiscard]] std::vector<std::size_t> diverse(std::span<const sync_proposal> all, std::size_t count, double diversity);

// A hash that distinguishes synchronizations.
[[nodiscard]] std::uint64_t sync_hash(const parallel::synchronization& s);

}  // namespace detail

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_TRIALS)

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <unordered_set>
#include <utility>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>

namespace unity::systems {

namespace detail {

class trial_search {
 public:
  trial_search(const tensor::algebra& a, const sync_problem& p, const sync_features& seen, picoseconds baseline,
               const sync_trial_function& trial, const trial_options& o)
      : algebra_{a}, problem_{p}, seen_{seen}, baseline_{baseline}, trial_{trial}, options_{o}, random_{o.seed} {}

  [[nodiscard]] trial_result run() &&;

 private:
  [[nodiscard]] std::vector<sync_proposal> proposed();
  void try_out(sync_proposal p);
  // Trains on all trials; those from `first` on are new and determine the score below which the ranker is trusted.
  void learn_from(std::size_t first);
  [[nodiscard]] learn::ranker fresh(std::uint64_t seed) const;
  // Measures the accuracy of rankers trained on 7 of 10 trials.
  void judge();
  static constexpr std::size_t judged_steps = 5;  // times the steps after a round

  [[nodiscard]] bool is_past_deadline() const { return clock_.seconds() >= options_.seconds; }

  const tensor::algebra& algebra_;
  const sync_problem& problem_;
  const sync_features& seen_;
  picoseconds baseline_;
  const sync_trial_function& trial_;
  const trial_options& options_;
  random_engine random_;
  std::optional<learn::ranked_scaling> scaling_{};
  std::optional<learn::ranker> ranker_{};
  float trusted_score_ = -std::numeric_limits<float>::infinity();  // scores below it are trusted to be slower
  std::vector<learn::ranked_list> lists_{};                        // of trials
  std::vector<double> times_{};                                    // seconds
  std::vector<std::uint64_t> made_{};                              // hashes of trials
  trial_result found_{};
  stopwatch clock_{};
};

UNITY_INLINE std::vector<std::uint64_t> choices_of(const parallel::synchronization& s) {
  std::vector<std::uint64_t> all;
  for (std::size_t w = 0; w < s.weights.size(); ++w) {
    const auto& own = s.weights[w];
    const auto& first = own.parts.front();
    auto h = hash_combine(w, own.parts.size());
    h = hash_combine(h, own.axis);
    h = hash_combine(h, static_cast<std::uint64_t>(first.kind));
    h = hash_combine(h, (first.is_proxied ? 1U : 0U) + (first.is_sparse ? 2U : 0U) +
                            (first.bucket == parallel::synchronizer::no_bucket ? 4U : 0U) +
                            (first.is_per_node ? 8U : 0U));
    all.push_back(h);
  }
  return all;
}

UNITY_INLINE std::uint64_t sync_hash(const parallel::synchronization& s) {
  auto h = hash_combine(s.buckets.size(), s.weights.size());
  for (const auto c : choices_of(s)) {
    h = hash_combine(h, c);
  }
  for (const auto& w : s.weights) {
    for (const auto& part : w.parts) {
      h = hash_combine(h, part.bucket);
      h = hash_combine(h, part.destination.valid() ? part.destination.index() + 1 : 0);
    }
  }
  return h;
}

UNITY_INLINE std::optional<std::size_t> trusted_below(std::span<const sync_trial> round, double share) {
  constexpr std::size_t least = 6;
  std::vector<std::size_t> order(round.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    return std::pair{round[x].score, x} < std::pair{round[y].score, y};
  });
  std::optional<std::size_t> trusted;
  std::vector<float> scores;
  std::vector<double> times;
  for (const auto i : order) {
    scores.push_back(round[i].score);
    times.push_back(to_seconds(round[i].time));
    if (scores.size() >= least && learn::accuracy_of(scores, times, least_apart).share() >= share) {
      trusted = i;
    }
  }
  return trusted;
}

UNITY_INLINE std::vector<std::size_t> diverse(std::span<const sync_proposal> all, std::size_t count, double diversity) {
  double sum = 0;
  double squares = 0;
  for (const auto& p : all) {
    sum += double{p.score};
    squares += double{p.score} * double{p.score};
  }
  const auto mean = sum / static_cast<double>(all.size());
  const auto deviation = std::sqrt(std::max(squares / static_cast<double>(all.size()) - mean * mean, 0.0));
  std::unordered_set<std::uint64_t> covered;
  std::vector<std::size_t> chosen;
  std::vector<bool> is_chosen(all.size());
  while (chosen.size() < std::min(count, all.size())) {
    std::size_t best = all.size();
    double most = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (is_chosen[i]) {
        continue;
      }
      const auto& c = all[i].choices;
      const auto news = std::count_if(c.begin(), c.end(), [&](std::uint64_t x) { return !covered.contains(x); });
      const auto worth = double{all[i].score} + diversity * deviation * static_cast<double>(news) /
                                                    static_cast<double>(std::max<std::size_t>(c.size(), 1));
      if (best == all.size() || worth > most) {
        best = i;
        most = worth;
      }
    }
    is_chosen[best] = true;
    covered.insert(all[best].choices.begin(), all[best].choices.end());
    chosen.push_back(best);
  }
  return chosen;
}

UNITY_INLINE std::vector<sync_proposal> trial_search::proposed() {
  std::vector<sync_proposal> all;
  std::unordered_set<std::uint64_t> known(made_.begin(), made_.end());
  const auto wanted = options_.is_ranked ? std::max(options_.proposals, options_.round) : options_.round;
  // Small models have few synchronizations: gives up after many repetitions.
  for (std::size_t i = 0; i < 4 * wanted && all.size() < wanted && (all.empty() || !is_past_deadline()); ++i) {
    auto s = random_synchronization(problem_, options_.guide, random_);
    if (known.insert(sync_hash(s)).second) {
      all.push_back({std::move(s), {}, 0, {}});
    }
  }
  if (!options_.is_ranked) {
    return all;
  }
  const auto begin = clock_.seconds();
  for (auto& p : all) {
    p.features = seen_.of(p.sync);
  }
  if (!scaling_ && !all.empty()) {
    std::vector<learn::ranked_list> lists;
    for (const auto& p : all) {
      lists.push_back(p.features);
    }
    scaling_.emplace(seen_.shape(), lists);
    ranker_.emplace(fresh(options_.seed));
  }
  for (auto& p : all) {
    scaling_->apply(p.features);
    p.score = ranker_->score(p.features);
    p.choices = choices_of(p.sync);
  }
  if (!all.empty()) {
    found_.score_seconds = (clock_.seconds() - begin) / static_cast<double>(all.size());
  }
  return all;
}

UNITY_INLINE learn::ranker trial_search::fresh(std::uint64_t seed) const {
  return {algebra_, seen_.shape(), seen_.items(), fixed_sync_factors(), seed};
}

UNITY_INLINE void trial_search::try_out(sync_proposal p) {
  const auto time = trial_(p.sync);
  made_.push_back(sync_hash(p.sync));
  times_.push_back(to_seconds(time));
  lists_.push_back(std::move(p.features));
  found_.trials.push_back({std::move(p.sync), time, p.score});
  const auto last = found_.trials.size() - 1;
  if (time < found_.trials[found_.best].time) {
    found_.best = last;
  }
  if (time < baseline_) {
    ++found_.hits;
    found_.first_hit = found_.first_hit.value_or(last);
  }
}

UNITY_INLINE void trial_search::learn_from(std::size_t first) {
  const auto trusted = trusted_below(std::span{found_.trials}.subspan(first), options_.trusted);
  ranker_->learn(lists_, times_, options_.steps);
  trusted_score_ = trusted ? ranker_->score(lists_[first + *trusted]) : -std::numeric_limits<float>::infinity();
}

UNITY_INLINE void trial_search::judge() {
  constexpr std::size_t phases = 5;
  constexpr std::size_t buckets = 4;
  std::vector<std::size_t> learned;
  std::vector<std::size_t> held;
  random_engine random{hash_combine(options_.seed, 7)};
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    (random.below(10) < 3 ? held : learned).push_back(i);
  }
  std::sort(held.begin(), held.end(), [&](std::size_t x, std::size_t y) { return times_[x] < times_[y]; });
  for (std::size_t phase = 0; phase < phases && !is_past_deadline(); ++phase) {
    std::vector<learn::ranked_list> lists;
    std::vector<double> times;
    for (const auto i : learned) {
      if (i * phases < (phase + 1) * lists_.size()) {
        lists.push_back(lists_[i]);
        times.push_back(times_[i]);
      }
    }
    auto ranker = fresh(options_.seed + 1);
    ranker.learn(lists, times, lists.size() < 2 ? 0 : judged_steps * options_.steps);
    std::vector<float> scores;
    std::vector<double> judged;
    for (const auto i : held) {
      scores.push_back(ranker.score(lists_[i]));
      judged.push_back(times_[i]);
    }
    if (phase + 1 == phases) {
      found_.held_out = learn::accuracy_of(scores, judged, least_apart);
    }
    for (std::size_t b = 0; b < buckets; ++b) {
      const auto begin = held.size() * b / buckets;
      const auto size = held.size() * (b + 1) / buckets - begin;
      found_.phases.push_back({phase, b,
                               learn::accuracy_of(std::span{scores}.subspan(begin, size),
                                                  std::span{judged}.subspan(begin, size), least_apart)});
    }
  }
}

UNITY_INLINE trial_result trial_search::run() && {
  UNITY_EXPECTS(options_.trials > 0 && options_.round > 0, "trials");
  if (seen_.items() == 0) {
    throw error{"model", "no weight that training changes", "one at least"};
  }
  do {
    auto all = proposed();
    if (all.empty()) {
      break;
    }
    const auto count = std::min({options_.round, options_.trials - found_.trials.size(), all.size()});
    std::vector<std::size_t> chosen(count);
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    if (options_.is_ranked) {
      // Proposals are in random order, so the first few are arbitrary.
      const auto any = std::min(options_.explored, count - 1);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(any);
      std::sort(first, all.end(), [](const auto& x, const auto& y) { return x.score > y.score; });
      const auto elite =
          std::partition_point(first, all.end(), [&](const auto& p) { return p.score >= trusted_score_; });
      all.erase(std::max(elite, all.begin() + static_cast<std::ptrdiff_t>(count)), all.end());
      chosen = diverse(std::span{all}.subspan(any), count - any, options_.diversity);
      for (auto& c : chosen) {
        c += any;
      }
      for (std::size_t i = 0; i < any; ++i) {
        chosen.push_back(i);
      }
    }
    const auto before = found_.trials.size();
    for (const auto i : chosen) {
      if (!found_.trials.empty() && is_past_deadline()) {
        break;
      }
      try_out(std::move(all[i]));
    }
    if (options_.is_ranked && !is_past_deadline()) {
      learn_from(before);
    }
  } while (found_.trials.size() < options_.trials && !is_past_deadline());
  if (options_.is_ranked) {
    judge();
  }
  return std::move(found_);
}

}  // namespace detail

UNITY_INLINE trial_result find_by_trials(const tensor::algebra& a, const sync_problem& p, const sync_features& seen,
                                         picoseconds baseline, const sync_trial_function& trial,
                                         const trial_options& o) {
  return detail::trial_search{a, p, seen, baseline, trial, o}.run();
}

}  // namespace unity::systems

#endif
