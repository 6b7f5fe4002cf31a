#include <unity/train/update.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../support/operators.hpp"

namespace tests_of_update {

using namespace unity;
using parallel::optimizer;
using tensor::dense;
using tensor::dtype;
using train::update_rule;
using unity::test::training::operators;

namespace {

// Reference: one element, as in the publications.
struct scalar_optimizer {
  update_rule rule;
  double w = 0;
  double velocity = 0;
  double m = 0;
  double s = 0;

  void step(double g, int t) {
    if (rule.updates == optimizer::sgd) {
      w = w - rule.learning_rate * g;
    } else if (rule.updates == optimizer::momentum) {
      velocity = rule.momentum * velocity + g;
      w = w - rule.learning_rate * velocity;
    } else {
      m = rule.beta1 * m + (1 - rule.beta1) * g;
      s = rule.beta2 * s + (1 - rule.beta2) * g * g;
      const auto m_hat = m / (1 - std::pow(rule.beta1, t));
      const auto s_hat = s / (1 - std::pow(rule.beta2, t));
      w = w - rule.learning_rate * m_hat / (std::sqrt(s_hat) + rule.epsilon);
    }
  }
};

// Weight and states after a step; `given` and the result are in the order of the graph's inputs.
std::vector<dense<double>> evaluate_step(const tensor::tensor_graph& g, const std::vector<dense<double>>& given) {
  std::size_t next = 0;
  return tensor::evaluate<double>(operators(), g, [&](const tensor::operation& op, const tensor::tensor_type&) {
    return op.kind == operators().kind("input") ? std::optional{given[next++]} : std::nullopt;
  });
}

// The same as one fused kernel of a backend.
std::vector<dense<double>> run_chain(const tensor::tensor_graph& g, const std::vector<dense<double>>& given) {
  backend::reference_backend reference{operators()};
  const auto kernel = reference.prepare_chain(g);
  std::vector<std::vector<std::byte>> stored;
  std::vector<const std::byte*> in;
  for (std::size_t i = 0; i < given.size(); ++i) {
    stored.push_back(backend::encode(given[i], g.type(g.results(node_id{i})[0])));
  }
  for (const auto& s : stored) {
    in.push_back(s.data());
  }
  std::vector<std::vector<std::byte>> made;
  std::vector<std::byte*> out;
  for (const auto v : g.outputs()) {
    made.emplace_back(backend::byte_count(g.type(v)));
  }
  for (auto& m : made) {
    out.push_back(m.data());
  }
  reference.run(kernel, in, out, nullptr);
  std::vector<dense<double>> results;
  for (std::size_t o = 0; o < made.size(); ++o) {
    results.push_back(backend::decode<double>(made[o].data(), g.type(g.outputs()[o])));
  }
  return results;
}

}  // namespace

TEST_CASE("five optimizer steps match scalar code with and without a fused chain") {
  const auto updates = GENERATE(optimizer::sgd, optimizer::momentum, optimizer::adam);
  const auto as_chain = GENERATE(false, true);
  constexpr std::size_t count = 7;
  const update_rule rule{updates, 0.125, 0.75, 0.8, 0.95, 1e-3};
  CAPTURE(static_cast<int>(updates), as_chain);
  random_engine random{1};
  std::vector<scalar_optimizer> expected(count, scalar_optimizer{rule});
  const auto shape = tensor::shape{static_cast<std::int64_t>(count)};
  std::vector<dense<double>> kept(1 + train::state_names(updates).size(), dense<double>{shape});
  for (std::size_t i = 0; i < count; ++i) {
    kept[0].data[i] = expected[i].w = 2 * random.unit() - 1;
  }
  const auto g = train::update_graph(operators(), updates, static_cast<std::int64_t>(count), dtype::float64);
  for (int t = 1; t <= 5; ++t) {
    dense<double> gradient{shape};
    for (std::size_t i = 0; i < count; ++i) {
      gradient.data[i] = 2 * random.unit() - 1;
      expected[i].step(gradient.data[i], t);
    }
    auto given = kept;
    given.insert(given.begin() + 1, gradient);
    for (const auto x : train::scalars_at(rule, static_cast<std::uint64_t>(t - 1))) {
      given.emplace_back(tensor::shape{}, std::vector{x});
    }
    kept = as_chain ? run_chain(g, given) : evaluate_step(g, given);
    REQUIRE(kept.size() == 1 + train::state_names(updates).size());
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(kept[0].data[i] == Approx(expected[i].w).epsilon(1e-14));
      if (updates == optimizer::momentum) {
        CHECK(kept[1].data[i] == Approx(expected[i].velocity).epsilon(1e-14));
      } else if (updates == optimizer::adam) {
        CHECK(kept[1].data[i] == Approx(expected[i].m).epsilon(1e-14));
        CHECK(kept[2].data[i] == Approx(expected[i].s).epsilon(1e-14));
      }
    }
  }
}

TEST_CASE("an optimizer step reads weight and gradient and states and scalars in this order") {
  for (const auto updates : {optimizer::sgd, optimizer::momentum, optimizer::adam}) {
    const auto g = train::update_graph(operators(), updates, 3);
    std::vector<std::string> names{"weight", "gradient"};
    for (const auto name : train::state_names(updates)) {
      names.emplace_back(name);
    }
    const auto arrays = names.size();
    for (const auto name : train::scalar_names(updates)) {
      names.emplace_back(name);
    }
    CHECK(train::scalars_at({.updates = updates}, 0).size() == train::scalar_names(updates).size());
    std::vector<std::string> found;
    for (const auto n : node_ids(g)) {
      if (g.operands(n).empty()) {
        CHECK(n.index() == found.size());
        CHECK(g.type(g.results(n)[0]).dims == (n.index() < arrays ? tensor::shape{3} : tensor::shape{}));
        found.push_back(operators().read(g.operation(n)).word("name"));
      }
    }
    CHECK(found == names);
  }
}

TEST_CASE("the counted state bytes match the optimizer's states") {
  for (const auto updates : {optimizer::sgd, optimizer::momentum, optimizer::adam}) {
    const auto states = static_cast<std::int64_t>(train::state_names(updates).size());
    CHECK(parallel::state_bytes(updates, dtype::float32) == 4 * states);
  }
}

TEST_CASE("an optimizer graph with 16-bit weights is refused") {
  CHECK_THROWS_WITH(train::update_graph(operators(), optimizer::sgd, 3, dtype::bfloat16),
                    "optimizer: weights of bfloat16; expected float32 or float64");
}

}  // namespace tests_of_update
