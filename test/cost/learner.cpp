#include <unity/cost/learner.hpp>

#include <catch2/catch.hpp>

#include <string>

namespace tests_of_learner {

namespace archetype {

struct example {
  example() = delete;
};
struct predictor {
  unity::prediction predict(const example&) const;
  unity::fingerprint version() const;
};
struct learner {
  learner() = delete;
  learner(const learner&) = delete;
  void observe(const example&, double);
  predictor snapshot() const;
};

}  // namespace archetype

static_assert(unity::predictor<archetype::predictor, archetype::example>);
static_assert(unity::learner<archetype::learner, archetype::example>);

namespace near_miss {

using archetype::example;

struct number_alone : archetype::predictor {
  double predict(const example&) const;
};
struct of_another_example : archetype::predictor {
  unity::prediction predict(const std::string&) const;
};
struct predicts_while_it_learns {
  void observe(const example&, double);
  number_alone snapshot() const;
};
struct snapshot_that_forgets {
  void observe(const example&, double);
  archetype::predictor snapshot();
};

}  // namespace near_miss

static_assert(!unity::predictor<near_miss::number_alone, archetype::example>);
static_assert(!unity::predictor<near_miss::of_another_example, archetype::example>);
static_assert(!unity::learner<near_miss::predicts_while_it_learns, archetype::example>);
static_assert(!unity::learner<near_miss::snapshot_that_forgets, archetype::example>);

}  // namespace tests_of_learner
