// Samples are distinguished from other tensors with as many rows.

#include <catch2/catch.hpp>
#include <cstddef>
#include <set>
#include <string>

#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/sample_values.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>

#include "operators.hpp"

namespace tests_of_sample_values {

using namespace unity;
using namespace unity::parallel;
using parallel::test::operators;

namespace {

// Names of a model's inputs that have samples, with a loss attached.
std::set<std::string> inputs_with_samples(const std::string& model, tensor::loss what) {
  const auto g = tensor::with_loss(operators(), tensor::zoo::build(operators(), model), what, 1);
  const auto name = [&](std::size_t n) { return std::string{operators().read(g.operation(node_id{n})).word("name")}; };
  const auto is_input = [&](std::size_t n) { return g.operation(node_id{n}).kind == operators().kind("input"); };
  value_id labels{};
  for (const auto n : node_ids(g)) {
    if (is_input(n.index()) &&
        (name(n.index()) == tensor::labels_name(0) || name(n.index()) == tensor::target_name(0))) {
      labels = g.results(n)[0];
    }
  }
  const auto found = sample_values(g, graph_dimensions{operators(), g}, {{labels}});
  std::set<std::string> names;
  for (const auto n : node_ids(g)) {
    if (is_input(n.index()) && found[g.results(n)[0].index()]) {
      names.insert(name(n.index()));
    }
  }
  return names;
}

}  // namespace

TEST_CASE("a mask with as many rows as the batch has no samples") {
  const auto all =
      inputs_with_samples("zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=16&batch=4", tensor::loss::mean_square);
  CHECK(all.size() == 2);  // the words and the targets, not the mask of 4 x 4
  CHECK(all.contains(tensor::target_name(0)));
}

TEST_CASE("more than five inputs of dlrm have samples") {
  const auto all = inputs_with_samples("zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40", tensor::loss::mean_square);
  CHECK(all.size() > 5);
}

TEST_CASE("images and labels of lenet have samples") {
  CHECK(inputs_with_samples("zoo:lenet?batch=10", tensor::loss::cross_entropy).size() == 2);
}

}  // namespace tests_of_sample_values
