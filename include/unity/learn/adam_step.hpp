// One step of Adam on a vector of weights, with decoupled weight decay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <unity/backend/cpu.hpp>
#include <unity/backend/executor.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::learn {

// Weights and the optimizer's moments; all of one size. Regular.
struct adam_state {
  std::uint64_t steps = 0;
  std::vector<float> weights{};
  std::vector<float> first_moment{};
  std::vector<float> second_moment{};

  friend bool operator==(const adam_state&, const adam_state&) = default;
};

[[nodiscard]] adam_state adam_start(std::vector<float> weights);

// Runs on one thread. The algebra must outlive it.
// Source: Loshchilov and Hutter, Decoupled weight decay regularization, ICLR 2019.
class adam_step {
 public:
  adam_step(const tensor::algebra& a, std::size_t weights);

  // decay: per step and learning rate. Precondition: as many weights and gradients as at construction.
  void operator()(adam_state& s, std::span<const float> gradient, double rate, double decay);

 private:
  std::unique_ptr<backend::cpu_backend> backend_;  // the executor refers to it
  backend::executor<backend::cpu_backend> step_;
};

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_ADAM_STEP)

#include <utility>

#include <unity/core/config.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/train/update.hpp>

namespace unity::learn {

UNITY_INLINE adam_state adam_start(std::vector<float> weights) {
  const auto count = weights.size();
  return {0, std::move(weights), std::vector<float>(count), std::vector<float>(count)};
}

UNITY_INLINE adam_step::adam_step(const tensor::algebra& a, std::size_t weights)
    : backend_{std::make_unique<backend::cpu_backend>(a, backend::cpu_options{1})},
      step_{*backend_, a, train::update_graph(a, parallel::optimizer::adam, static_cast<std::int64_t>(weights))} {}

UNITY_INLINE void adam_step::operator()(adam_state& s, std::span<const float> gradient, double rate, double decay) {
  const train::update_rule rule{.updates = parallel::optimizer::adam, .learning_rate = rate};
  const auto kept = static_cast<float>(1 - rate * decay);
  for (auto& w : s.weights) {
    w *= kept;
  }
  step_.set("weight", std::as_bytes(std::span{s.weights}));
  step_.set("gradient", std::as_bytes(gradient));
  step_.set("first moment", std::as_bytes(std::span{s.first_moment}));
  step_.set("second moment", std::as_bytes(std::span{s.second_moment}));
  const auto names = train::scalar_names(rule.updates);
  const auto values = train::scalars_at(rule, s.steps++);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto x = static_cast<float>(values[i]);
    step_.set(names[i], std::as_bytes(std::span{&x, 1}));
  }
  step_.run();
  step_.wait();
  s.weights = step_.output(0).data;
  s.first_moment = step_.output(1).data;
  s.second_moment = step_.output(2).data;
}

}  // namespace unity::learn

#endif
