// Learns the time of operators from a few that are timed here, predicts the others, and searches by the predictions.
//
// run:
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/device_timer.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/cost/duration.hpp>
#include <unity/cost/eigen_least_squares.hpp>
#include <unity/cost/learner.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>

namespace tensor = unity::tensor;

using types = std::span<const tensor::tensor_type>;

// The terms of an operator's time: a launch, operations, and bytes moved.
std::vector<double> features_of(const tensor::algebra& a, const tensor::operation& op, types inputs, types outputs) {
  const auto w = a.work(op, inputs, outputs);
  return {1, static_cast<double>(w.operations.count()), static_cast<double>(w.moved.count())};
}

// A learner for each kind of operator.
class duration_learner {
 public:
  explicit duration_learner(const tensor::algebra& a) : algebra_{&a} {}

  void observe(const tensor::operation& op, types inputs, types outputs, double seconds) {
    kinds_.try_emplace(op.kind, 3, 1e-9).first->second.observe(features_of(*algebra_, op, inputs, outputs), seconds,
                                                              1 / seconds);  // relative errors count
  }

  // A snapshot of what was learned: it models unity::duration_model.
  class snapshot_type {
   public:
    [[nodiscard]] unity::duration duration_of(std::uint32_t, const tensor::operation& op, types inputs,
                                              types outputs) const {
      const auto learned = kinds_.find(op.kind);
      if (learned == kinds_.end()) {
        throw unity::error{algebra_->signature(op.kind).name, "no observation", "some, to learn from"};
      }
      const auto p = learned->second.predict(features_of(*algebra_, op, inputs, outputs));
      return {unity::from_seconds(p.expected), unity::from_seconds(p.low), unity::from_seconds(p.high)};
    }
    [[nodiscard]] unity::fingerprint version() const {
      unity::hasher h;
      for (const auto& [kind, learned] : kinds_) {
        h.add(kind.index()).add(learned.version().low).add(learned.version().high);
      }
      return h.result();
    }

   private:
    friend class duration_learner;
    const tensor::algebra* algebra_ = nullptr;
    std::map<unity::kind_id, unity::linear_predictor> kinds_{};
  };
  [[nodiscard]] snapshot_type snapshot() const {
    snapshot_type s;
    s.algebra_ = algebra_;
    for (const auto& [kind, learner] : kinds_) {
      s.kinds_.emplace(kind, learner.snapshot());
    }
    return s;
  }

 private:
  const tensor::algebra* algebra_;
  std::map<unity::kind_id, unity::least_squares> kinds_{};
};
static_assert(unity::learner<unity::least_squares, std::vector<double>>);
static_assert(unity::duration_model<duration_learner::snapshot_type, tensor::algebra>);

int main() {
  const auto operators = tensor::standard_algebra();
  unity::backend::reference_backend backend{operators};
  unity::backend::device_timer timer{backend, {.seconds = 0.02}};
  const auto product = operators.make_operation("matmul");
  const auto seconds_of = [&](const std::vector<tensor::tensor_type>& inputs) {
    return unity::to_seconds(timer.time(product, inputs, *operators.infer(product, inputs)).median);
  };
  const auto matrices = [](std::int64_t m, std::int64_t k, std::int64_t n) {
    return std::vector<tensor::tensor_type>{{tensor::dtype::float32, tensor::layout::row_major, false, {m, k}},
                                            {tensor::dtype::float32, tensor::layout::row_major, false, {k, n}}};
  };
  duration_learner learner{operators};
  for (const std::int64_t m : {8, 24, 40}) {
    for (const std::int64_t k : {8, 24, 40}) {
      for (const std::int64_t n : {8, 24, 40}) {
        const auto inputs = matrices(m, k, n);
        learner.observe(product, inputs, *operators.infer(product, inputs), seconds_of(inputs));
      }
    }
  }
  const auto learned = learner.snapshot();

  double error = 0;
  for (const std::int64_t k : {12, 20, 36}) {
    const auto inputs = matrices(28, k, 20);
    const auto predicted = learned.duration_of(0, product, inputs, *operators.infer(product, inputs));
    const auto measured = seconds_of(inputs);
    fmt::print("28 x {0} x 20: {1:.0f} us predicted, {2:.0f} us measured\n", k,
               unity::to_seconds(predicted.expected) * 1e6, measured * 1e6);
    error += std::abs(unity::to_seconds(predicted.expected) / measured - 1) / 3;
  }
  fmt::print("off by {:.0f}% on average, of shapes that it did not see\n", error * 100);

  tensor::builder b{operators};
  const auto x = b.input("x", {64, 64}), y = b.input("y", {64, 64}), v = b.input("v", {64, 1});
  const auto before = std::move(b).finish({b.matmul(b.matmul(x, y), v)});
  const auto rules = unity::compile_rules(
      operators, unity::parse_rules("rule association  matmul(matmul(?x, ?y), ?z) => matmul(?x, matmul(?y, ?z))"));
  unity::rewrite_space space{operators, tensor::time_cost{operators, learned}, rules, before};
  const auto found = unity::backtracking(space);
  fmt::print("(x y) v: {} us, x (y v): {} us by what was learned\n", space.cost(space.initial()) / 1'000'000,
             found.cost / 1'000'000);
  return error < 0.5 && found.path.size() == 1 && found.cost < space.cost(space.initial()) ? 0 : 1;
}
