// Trains attention networks on measured kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <unity/backend/cpu.hpp>
#include <unity/backend/executor.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/learn/adam_step.hpp>
#include <unity/learn/attention_network.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/learn/kernel_samples.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::learn {

// Settings that determine the result; the number of threads is not among them. Regular.
struct training_settings {
  network_shape shape{};
  bool own_times = true;  // false: an ablation without the measured times of single operators
  std::uint64_t seed = 1;
  std::size_t epochs = 150;      // epochs of the learning-rate schedule, half a cosine down to 0
  double rate = 5e-3;            // initial learning rate of Adam
  double decay = 0.1;            // weight decay, per step and learning rate
  std::size_t patience = 50;     // stop after this many epochs without a better validation error
  std::size_t step_batches = 4;  // batches whose gradients a step adds up

  friend bool operator==(const training_settings&, const training_settings&) = default;
};

// The state of training after an epoch, as a checkpoint stores it. Regular.
struct training_state {
  std::size_t epoch = 0;  // completed epochs
  std::size_t best_epoch = 0;
  double best_error = 0;  // the mean square of log(estimate / measured) on validation samples
  adam_state now{};
  std::vector<float> best{};  // the weights of best_epoch

  friend bool operator==(const training_state&, const training_state&) = default;
};

namespace detail {

// A sample in the form that the network reads.
struct prepared_sample {
  const fusion::kernel_description* kernel = nullptr;
  kernel_features features{};
  float target = 0;
};

// Samples of one padded size, by number.
struct sample_batch {
  std::size_t size = 0;  // index in padded_sizes
  std::vector<std::size_t> samples{};
};

struct batch_result {
  double loss = 0;
  std::vector<float> gradient{};
};

// Runs batches on one thread.
class batch_runner {
 public:
  batch_runner(const tensor::algebra& a, const network_shape& s) : algebra_{&a}, shape_{s}, backend_{a, {1}} {}

  [[nodiscard]] batch_result run(std::span<const prepared_sample> all, const sample_batch& batch,
                                 std::span<const float> weights);

 private:
  using runnable = backend::executor<backend::cpu_backend>;

  [[nodiscard]] runnable& prepared(std::size_t size);

  const tensor::algebra* algebra_;
  network_shape shape_;
  backend::cpu_backend backend_;
  std::vector<std::unique_ptr<runnable>> sizes_{padded_sizes.size()};
};

}  // namespace detail

// A training run. Samples are split by a hash of their kernels, so equal kernels are all in training or all in
// validation. Kernels with more than most_parts operators are left out. Each batch has kernels of one padded size,
// about 256 operators; the batches of a step run on the available threads, and their gradients are added up in order,
// so weights do not depend on the number of threads. The algebra must outlive it.
class estimator_training {
 public:
  // Throws: unity::error if no training sample is left.
  estimator_training(const tensor::algebra& a, std::span<const kernel_sample> samples, const training_settings& s,
                     std::size_t threads);

  [[nodiscard]] const training_settings& settings() const noexcept { return settings_; }
  // Depends on settings and samples.
  [[nodiscard]] fingerprint version() const noexcept { return version_; }
  [[nodiscard]] const training_state& state() const noexcept { return state_; }
  // Continues from a state of a run of the same version, with the same results as an uninterrupted run.
  void resume(training_state s);

  // Whether all epochs are done, or the validation error has not improved for too long.
  [[nodiscard]] bool is_done() const noexcept {
    return state_.epoch >= settings_.epochs || state_.epoch - state_.best_epoch >= settings_.patience;
  }
  // Effects: trains on every sample once. Returns the mean square of log(estimate / measured) over the samples, each
  // with the weights at the time of its batch.
  double run_epoch() {
    return *run_epoch([] { return false; });
  }
  // The same, but gives up if is_over() holds before one of the steps: then returns nothing, and the state is as before
  // the epoch, so that a run that continues later has the results of an uninterrupted one.
  std::optional<double> run_epoch(const std::function<bool()>& is_over);

  // The estimator with the best weights so far.
  [[nodiscard]] attention_estimator best() const { return with(state_.best); }

 private:
  // One of ten samples is for validation.
  void divide(std::span<const kernel_sample> samples);
  // Features and targets of all samples, scaled.
  void prepare();
  [[nodiscard]] std::vector<detail::sample_batch> batches_of_epoch() const;
  [[nodiscard]] double learning_rate() const noexcept;
  double step(std::span<const detail::sample_batch> batches);
  [[nodiscard]] double validation_error();
  [[nodiscard]] attention_estimator with(std::vector<float> weights) const {
    return {settings_.shape, settings_.own_times, scaling_, offset_, std::move(weights)};
  }

  training_settings settings_;
  fingerprint version_{};
  feature_scaling scaling_{};
  float offset_ = 0;
  std::vector<kernel_sample> samples_;  // training samples, then validation samples
  std::vector<detail::prepared_sample> learned_{};
  std::vector<detail::prepared_sample> validating_{};
  training_state state_{};
  thread_pool pool_;
  std::vector<std::unique_ptr<detail::batch_runner>> runners_{};
  adam_step adam_;
};

// The hash of a kernel that determines its part in splits of samples.
[[nodiscard]] std::uint64_t kernel_hash(const fusion::kernel_description& k) noexcept;

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_ESTIMATOR_TRAINING)

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/random.hpp>

namespace unity::learn::detail {

inline constexpr std::size_t batch_rows = 256;

// The inputs of attention_graph for a batch.
struct batch_inputs {
  batch_inputs(const network_shape& s, std::span<const prepared_sample> all, const sample_batch& batch);

  std::vector<float> features;
  std::vector<float> sight;
  std::vector<float> pooling;
  std::vector<float> target;
  std::vector<float> weight;
};

UNITY_INLINE batch_inputs::batch_inputs(const network_shape& s, std::span<const prepared_sample> all,
                                        const sample_batch& batch)
    : features(batch_rows * part_features),
      sight(batch_rows * s.heads * padded_sizes[batch.size], unseen),
      pooling(batch_rows * 2),
      target(batch_rows / padded_sizes[batch.size]),
      weight(target.size()) {
  const auto nodes = padded_sizes[batch.size];
  for (std::size_t row = 0; row < batch_rows * s.heads; ++row) {
    sight[row * nodes + row % nodes] = 0;
  }
  for (std::size_t k = batch.samples.size(); k < target.size(); ++k) {
    pooling[(2 * k + 1) * nodes] = 1;  // the logarithm of zero would be infinite
  }
  for (std::size_t k = 0; k < batch.samples.size(); ++k) {
    const auto& sample = all[batch.samples[k]];
    const auto& f = sample.features;
    std::copy(f.rows.begin(), f.rows.end(), features.data() + k * nodes * part_features);
    std::fill_n(pooling.data() + 2 * k * nodes, f.parts(), pool_scale);
    std::copy(f.shares.begin(), f.shares.end(), pooling.data() + (2 * k + 1) * nodes);
    target[k] = sample.target;
    weight[k] = 1;
    for (std::size_t head = 0; head < s.heads; ++head) {
      auto* const seen = sight.data() + (k * s.heads + head) * nodes * nodes;
      for_each_seen(*sample.kernel, head < s.heads / 2 ? sight::operands : sight::readers,
                    [&](std::size_t i, std::size_t j) { seen[i * nodes + j] = 0; });
    }
  }
}

UNITY_INLINE auto batch_runner::prepared(std::size_t size) -> runnable& {
  auto& found = sizes_[size];
  if (!found) {
    const auto nodes = static_cast<std::int64_t>(padded_sizes[size]);
    found = std::make_unique<runnable>(
        backend_, *algebra_,
        trained_attention_graph(*algebra_, shape_, static_cast<std::int64_t>(batch_rows) / nodes, nodes));
  }
  return *found;
}

UNITY_INLINE batch_result batch_runner::run(std::span<const prepared_sample> all, const sample_batch& batch,
                                            std::span<const float> weights) {
  auto& network = prepared(batch.size);
  const batch_inputs in{shape_, all, batch};
  network.set("weights", std::as_bytes(weights));
  network.set("features", std::as_bytes(std::span{in.features}));
  network.set("sight", std::as_bytes(std::span{in.sight}));
  network.set("pooling", std::as_bytes(std::span{in.pooling}));
  network.set("target", std::as_bytes(std::span{in.target}));
  network.set("weight", std::as_bytes(std::span{in.weight}));
  network.run();
  network.wait();
  return {network.output(0).data[0], network.output(2).data};
}

}  // namespace unity::learn::detail

namespace unity::learn {

UNITY_INLINE std::uint64_t kernel_hash(const fusion::kernel_description& k) noexcept {
  std::uint64_t h = k.parts.size();
  for (const auto& p : k.parts) {
    h = hash_combine(h, static_cast<std::uint64_t>(p.kind) * 2 + (p.is_folding ? 1 : 0));
    for (const auto x : {p.flops, p.reads, p.writes, p.reads_outside, p.writes_outside}) {
      h = hash_combine(h, std::bit_cast<std::uint64_t>(x));
    }
  }
  for (const auto& [from, to] : k.edges) {
    h = hash_combine(h, std::uint64_t{from} << 16U | to);
  }
  return h;
}

UNITY_INLINE estimator_training::estimator_training(const tensor::algebra& a, std::span<const kernel_sample> samples,
                                                    const training_settings& s, std::size_t threads)
    : settings_{s}, pool_{threads}, adam_{a, weight_count(s.shape)} {
  divide(samples);
  prepare();
  for (std::size_t i = 0; i < threads; ++i) {
    runners_.push_back(std::make_unique<detail::batch_runner>(a, s.shape));
  }
  state_.now = adam_start(initial_weights(s.shape, s.seed));
  state_.best = state_.now.weights;
  state_.best_error = validation_error();
}

UNITY_INLINE void estimator_training::divide(std::span<const kernel_sample> samples) {
  hasher version{settings_.seed};
  std::vector<kernel_sample> validating;
  for (const auto& s : samples) {
    const auto hash = kernel_hash(s.kernel);
    version.add(hash).add(static_cast<std::uint64_t>(s.time.count()));
    for (const auto& p : s.kernel.parts) {
      version.add(static_cast<std::uint64_t>(p.duration.count()));
    }
    if (padded_size(s.kernel.parts.size())) {
      const bool validates = hash_combine(settings_.seed, hash) % 10 == 0;
      (validates ? validating : samples_).push_back(s);
    }
  }
  if (samples_.empty()) {
    throw error{"samples", fmt::format("{} of them", samples.size()),
                fmt::format("some of at most {} parts to learn from", most_parts)};
  }
  for (const auto x : {settings_.shape.hidden, settings_.shape.heads, settings_.shape.layers, settings_.epochs,
                       settings_.patience, settings_.step_batches, std::size_t{settings_.own_times}}) {
    version.add(x);
  }
  version.add(std::bit_cast<std::uint64_t>(settings_.rate)).add(std::bit_cast<std::uint64_t>(settings_.decay));
  version_ = version.result();
  learned_.resize(samples_.size());
  validating_.resize(validating.size());
  samples_.insert(samples_.end(), validating.begin(), validating.end());
}

UNITY_INLINE void estimator_training::prepare() {
  std::vector<kernel_features> features;
  std::vector<double> targets;
  for (const auto& s : samples_) {
    features.push_back(features_of(s.kernel, settings_.own_times));
    targets.push_back(std::log(static_cast<double>(s.time.count()) / features.back().baseline));
  }
  const auto count = static_cast<std::ptrdiff_t>(learned_.size());
  scaling_ = scaling_of(std::span{features}.first(learned_.size()));
  offset_ =
      static_cast<float>(std::accumulate(targets.begin(), targets.begin() + count, 0.0) / static_cast<double>(count));
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    scaling_.apply(features[i].rows);
    auto& to = i < learned_.size() ? learned_[i] : validating_[i - learned_.size()];
    to = {&samples_[i].kernel, std::move(features[i]), static_cast<float>(targets[i] - double{offset_})};
  }
}

UNITY_INLINE void estimator_training::resume(training_state s) {
  const auto count = state_.now.weights.size();
  UNITY_EXPECTS(s.now.weights.size() == count && s.now.first_moment.size() == count &&
                    s.now.second_moment.size() == count && s.best.size() == count,
                "a state of a run with these settings");
  state_ = std::move(s);
}

UNITY_INLINE std::optional<double> estimator_training::run_epoch(const std::function<bool()>& is_over) {
  const auto batches = batches_of_epoch();
  const auto before = state_.now;
  double loss = 0;
  for (std::size_t i = 0; i < batches.size(); i += settings_.step_batches) {
    if (is_over()) {
      state_.now = before;
      return std::nullopt;
    }
    loss += step(std::span{batches}.subspan(i, std::min(settings_.step_batches, batches.size() - i)));
  }
  ++state_.epoch;
  const auto error = validation_error();
  if (error < state_.best_error) {
    state_.best_error = error;
    state_.best_epoch = state_.epoch;
    state_.best = state_.now.weights;
  }
  return loss / static_cast<double>(learned_.size());
}

UNITY_INLINE std::vector<detail::sample_batch> estimator_training::batches_of_epoch() const {
  random_engine random{hash_combine(settings_.seed, state_.epoch)};
  const auto shuffle = [&](auto& all) {
    for (std::size_t i = all.size(); i > 1; --i) {
      std::swap(all[i - 1], all[random.below(i)]);
    }
  };
  std::vector<std::size_t> order(learned_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order);
  std::vector<detail::sample_batch> batches;
  std::array<detail::sample_batch, padded_sizes.size()> open{};
  for (const auto i : order) {
    const auto size = *padded_size(learned_[i].features.parts());
    open[size].samples.push_back(i);
    if (open[size].samples.size() == detail::batch_rows / padded_sizes[size]) {
      batches.push_back({size, std::exchange(open[size].samples, {})});
    }
  }
  for (std::size_t size = 0; size < open.size(); ++size) {
    if (!open[size].samples.empty()) {
      batches.push_back({size, std::move(open[size].samples)});
    }
  }
  shuffle(batches);
  return batches;
}

UNITY_INLINE double estimator_training::learning_rate() const noexcept {
  const auto done = static_cast<double>(state_.epoch) / static_cast<double>(settings_.epochs);
  return settings_.rate * (1 + std::cos(std::numbers::pi * done)) / 2;
}

UNITY_INLINE double estimator_training::step(std::span<const detail::sample_batch> batches) {
  std::vector<detail::batch_result> results(batches.size());
  pool_.parallel_for(batches.size(), 1, [&](std::size_t worker, std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      results[i] = runners_[worker]->run(learned_, batches[i], state_.now.weights);
    }
  });
  std::vector<float> gradient(state_.now.weights.size());
  double loss = 0;
  std::size_t count = 0;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    loss += results[b].loss;
    count += batches[b].samples.size();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] += results[b].gradient[i];
    }
  }
  for (auto& g : gradient) {
    g /= static_cast<float>(count);
  }
  adam_(state_.now, gradient, learning_rate(), settings_.decay);
  return loss;
}

UNITY_INLINE double estimator_training::validation_error() {
  const auto& judged = validating_.empty() ? learned_ : validating_;
  std::vector<double> squares(judged.size());
  pool_.parallel_for(judged.size(), 16, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto& s = judged[i];
      const auto apart = attention_forward(settings_.shape, state_.now.weights, *s.kernel, s.features) - s.target;
      squares[i] = double{apart} * apart;
    }
  });
  double sum = 0;
  for (const auto s : squares) {
    sum += s;
  }
  return sum / static_cast<double>(squares.size());
}

}  // namespace unity::learn

#endif
