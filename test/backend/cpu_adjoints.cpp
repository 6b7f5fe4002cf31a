// Operators that training needs in addition to those of inference, on the cpu backend.
#include <unity/backend/cpu.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"
#include "../tensor/testing.hpp"
#include "adjoint_suite.hpp"

namespace tests_of_cpu_adjoints {

namespace {

using namespace unity::backend;
namespace tensor = unity::tensor;
namespace zoo = unity::tensor::zoo;
using unity::node_id;

using unity::backend::test::check_adjoint_operators;
using unity::backend::test::check_large_adjoint;
using unity::backend::test::large_adjoint_cases;
using unity::backend::test::training;
using unity::tensor::dtype;

cpu_backend one_thread(const tensor::algebra& a) { return cpu_backend{a, {.threads = 1}}; }
cpu_backend three_threads(const tensor::algebra& a) { return cpu_backend{a, {.threads = 3}}; }

std::vector<tensor::tensor_type> types_of(const tensor::tensor_graph& g, std::span<const unity::value_id> values) {
  std::vector<tensor::tensor_type> all;
  for (const auto v : values) {
    all.push_back(g.type(v));
  }
  return all;
}

constexpr auto few = static_cast<int>(unity::test::cases(10));

// Skips operators with types already seen.
class distinct_operators {
 public:
  bool add(const tensor::operation& op, std::span<const tensor::tensor_type> inputs) {
    std::string key = training().signature(op.kind).name;
    for (const auto& attribute : op.attributes) {
      key += ';';
      for (const auto number : attribute) {
        key += std::to_string(number) + ",";
      }
    }
    for (const auto& t : inputs) {
      key += " " + tensor::to_string(t) + (t.constant ? "c" : "");
    }
    return keys_.insert(std::move(key)).second;
  }

 private:
  std::set<std::string> keys_;
};

// Bytes of a kernel's workspace, and of its operands and results.
struct sizes {
  std::size_t workspace = 0;
  std::size_t values = 0;
};

// Prepares each operator of a graph that has operands.
class preparer {
 public:
  void prepare(const tensor::tensor_graph& g) {
    for (const auto n : node_ids(g)) {
      const auto& op = g.operation(n);
      if (!op.kind.valid() || g.operands(n).empty()) {
        continue;
      }
      const auto inputs = types_of(g, g.operands(n));
      if (seen_.add(op, inputs)) {
        prepare(op, inputs, types_of(g, g.results(n)));
      }
    }
  }
  [[nodiscard]] const std::set<std::string>& missing() const { return missing_; }
  [[nodiscard]] const std::set<std::string>& large() const { return large_; }
  [[nodiscard]] const std::set<std::string>& kinds() const { return kinds_; }

 private:
  void prepare(const tensor::operation& op, const std::vector<tensor::tensor_type>& inputs,
               const std::vector<tensor::tensor_type>& outputs) {
    const auto& name = training().signature(op.kind).name;
    kinds_.insert(name);
    try {
      const auto kernel = backend_.prepare(op, inputs, outputs);
      sizes s{kernel.workspace(), 0};
      for (const auto* types : {&inputs, &outputs}) {
        for (const auto& t : *types) {
          s.values += byte_count(t);
        }
      }
      constexpr std::size_t small = std::size_t{1} << 24U;
      constexpr std::size_t most = 8;  // attention's scores are larger than its operands
      if (s.workspace > small && s.workspace > most * s.values) {
        large_.insert(name + " takes " + std::to_string(s.workspace) + " bytes for " + std::to_string(s.values));
      }
    } catch (const unity::error& e) {
      missing_.insert(e.what());
    }
  }

  cpu_backend backend_{training(), {.threads = 2}};
  distinct_operators seen_;
  std::set<std::string> missing_;
  std::set<std::string> large_;
  std::set<std::string> kinds_;
};

// Prepares the adjoint of every operator of a model that has one.
void prepare_adjoints(const tensor::tensor_graph& g, distinct_operators& seen, preparer& p) {
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    const auto inputs = types_of(g, g.operands(n));
    const bool known = !std::holds_alternative<tensor::opaque>(training().definition_of(op.kind).body);
    if (known && !inputs.empty() && seen.add(op, inputs)) {
      p.prepare(tensor::adjoint_of(training(), op, inputs).graph);
    }
  }
}

}  // namespace

TEST_CASE("cpu kernels of adjoint operators match the reference on 1 and 3 threads", "[cpu]") {
  check_adjoint_operators(one_thread, {.cases = static_cast<int>(unity::test::cases(60))});
  check_adjoint_operators(three_threads, {.cases = few, .seed = 2});
}

TEST_CASE("cpu kernels of adjoint operators match the reference in 16-bit floats and float64", "[cpu]") {
  check_adjoint_operators(one_thread, {.tolerance = 1e-2, .cases = 2 * few, .element = dtype::bfloat16});
  check_adjoint_operators(one_thread, {.tolerance = 3e-3, .cases = few, .element = dtype::float16});
  check_adjoint_operators(one_thread, {.cases = few, .element = dtype::float64});
}

TEST_CASE("large cpu adjoints are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  auto one = one_thread(training());
  auto three = three_threads(training());
  cpu_backend five{training(), {.threads = 5}};
  for (const auto& c : large_adjoint_cases()) {
    check_large_adjoint(one, c, {&three, &five});
  }
}

TEST_CASE("the cpu kernel of the LSTM cell's adjoint needs less workspace than one weight", "[cpu]") {
  auto b = one_thread(training());
  using tensor::test::type;
  const std::vector<tensor::tensor_type> inputs{type({8, 96}),      type({8, 128}),      type({8, 128}),
                                                type({4, 128, 96}), type({4, 128, 128}), type({4, 128})};
  const auto op = training().make_operation("lstm_cell", std::span<const tensor::named_attribute>{});
  const auto g = tensor::adjoint_of(training(), op, inputs).graph;
  std::size_t kernels = 0;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      const auto kernel = b.prepare(g.operation(n), types_of(g, g.operands(n)), types_of(g, g.results(n)));
      CHECK(kernel.workspace() < byte_count(inputs[3]));
      ++kernels;
    }
  }
  CHECK(kernels == 1);
}

TEST_CASE("adjoints of all zoo model operators have cpu kernels with bounded workspace", "[cpu][exhaustive]") {
  // Covers every form of every model, whether or not it is usually trained, and each with a classifier's loss.
  preparer p;
  distinct_operators seen;
  for (const auto& m : zoo::models) {
    for (const auto& f : m.forms) {
      const auto text = std::string{zoo::prefix} + std::string{m.name} + "?form=" + std::string{f.name};
      CAPTURE(text);
      const auto g = zoo::build(training(), text);
      prepare_adjoints(g, seen, p);
      const auto loss = tensor::with_loss(training(), g, tensor::loss::cross_entropy);
      p.prepare(tensor::differentiate(training(), loss, {.loss = loss.outputs()[0]}).graph);
    }
  }
  for (const auto& why : p.missing()) {
    FAIL_CHECK(why);
  }
  for (const auto& why : p.large()) {
    FAIL_CHECK(why);
  }
  for (const char* kind :
       {"conv2d_input_gradient", "conv2d_weight_gradient", "max_pool_gradient", "average_pool_gradient",
        "embedding_gradient", "embedding_bag_gradient", "softmax_gradient", "layer_norm_gradient",
        "batch_norm_gradient", "lstm_cell_gradient", "attention_gradient", "relu_gradient"}) {
    CAPTURE(kind);
    CHECK(p.kinds().count(kind) == 1);
  }
}

}  // namespace tests_of_cpu_adjoints
