#include <unity/tensor/operators/recurrent.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>

#include "../testing.hpp"

namespace tests_of_recurrent_layer {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr std::int64_t steps = 4;
constexpr std::int64_t samples = 2;
constexpr std::int64_t features = 3;
constexpr std::int64_t cells = 2;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct layer {
  std::string name;
  std::int64_t gates;
  bool reset_after = false;
};

struct outcome {
  std::vector<dense<double>> values;  // y, h, c
};

// The formulas of ONNX, cell by cell. x: x, w, r, bias, h, c.
outcome by_hand(const layer& l, const std::vector<bool>& backward, const std::vector<dense<double>>& x) {
  const auto d = static_cast<std::int64_t>(backward.size());
  outcome o{{dense<double>{{steps, d, samples, cells}}, dense<double>{{d, samples, cells}},
             dense<double>{{d, samples, cells}}}};
  for (std::int64_t k = 0; k < d; ++k) {
    for (std::int64_t b = 0; b < samples; ++b) {
      std::vector<double> h;
      std::vector<double> c;
      for (std::int64_t n = 0; n < cells; ++n) {
        h.push_back(at(x[4], {k, b, n}));
        c.push_back(x.size() > 5 ? at(x[5], {k, b, n}) : 0);
      }
      for (std::int64_t i = 0; i < steps; ++i) {
        const auto t = backward[static_cast<std::size_t>(k)] ? steps - 1 - i : i;
        const auto row = [](std::int64_t gate, std::int64_t n) { return gate * cells + n; };
        const auto of_input = [&](std::int64_t gate, std::int64_t n) {
          double sum = at(x[3], {k, row(gate, n)});
          for (std::int64_t m = 0; m < features; ++m) {
            sum += at(x[0], {t, b, m}) * at(x[1], {k, row(gate, n), m});
          }
          return sum;
        };
        const auto of_state = [&](std::int64_t gate, std::int64_t n, const std::vector<double>& state) {
          double sum = at(x[3], {k, l.gates * cells + row(gate, n)});
          for (std::int64_t m = 0; m < cells; ++m) {
            sum += state[static_cast<std::size_t>(m)] * at(x[2], {k, row(gate, n), m});
          }
          return sum;
        };
        auto next = h;
        auto reset = h;
        for (std::int64_t n = 0; n < cells && l.name == "gru"; ++n) {
          reset[static_cast<std::size_t>(n)] *= sigmoid(of_input(1, n) + of_state(1, n, h));
        }
        for (std::int64_t n = 0; n < cells; ++n) {
          const auto e = static_cast<std::size_t>(n);
          const auto gate = [&](std::int64_t g) { return of_input(g, n) + of_state(g, n, h); };
          if (l.name == "rnn") {
            next[e] = std::tanh(gate(0));
          } else if (l.name == "gru") {
            const auto z = sigmoid(gate(0));
            const auto state = l.reset_after ? sigmoid(gate(1)) * of_state(2, n, h) : of_state(2, n, reset);
            next[e] = (1 - z) * std::tanh(of_input(2, n) + state) + z * h[e];
          } else {
            c[e] = sigmoid(gate(2)) * c[e] + sigmoid(gate(0)) * std::tanh(gate(3));
            next[e] = sigmoid(gate(1)) * std::tanh(c[e]);
          }
        }
        h = next;
        for (std::int64_t n = 0; n < cells; ++n) {
          o.values[0].data[static_cast<std::size_t>(((t * d + k) * samples + b) * cells + n)] =
              h[static_cast<std::size_t>(n)];
        }
      }
      for (std::int64_t n = 0; n < cells; ++n) {
        const auto to = static_cast<std::size_t>((k * samples + b) * cells + n);
        o.values[1].data[to] = h[static_cast<std::size_t>(n)];
        o.values[2].data[to] = c[static_cast<std::size_t>(n)];
      }
    }
  }
  return o;
}

}  // namespace

TEST_CASE("rnn / gru / lstm match ONNX's formulas in all directions and optional operands") {
  unity::random_engine random{1};
  const layer layers[] = {{"rnn", 1}, {"gru", 3}, {"gru", 3, true}, {"lstm", 4}};
  const std::vector<bool> directions[] = {{false}, {true}, {false, true}};
  for (const auto& l : layers) {
    for (std::int64_t direction = 0; direction < 3; ++direction) {
      for (std::int64_t given = 0; given < 8; ++given) {
        const auto& backward = directions[direction];
        const auto d = static_cast<std::int64_t>(backward.size());
        const bool is_lstm = l.name == "lstm";
        std::vector<dense<double>> all{random_tensor({steps, samples, features}, random),
                                       random_tensor({d, l.gates * cells, features}, random),
                                       random_tensor({d, l.gates * cells, cells}, random)};
        auto operands = all;
        const shape dims[] = {{d, 2 * l.gates * cells}, {d, samples, cells}, {d, samples, cells}};
        for (std::size_t i = 0; i < (is_lstm ? 3U : 2U); ++i) {
          const bool is_given = (given >> i & 1) != 0;
          all.push_back(is_given ? random_tensor(dims[i], random) : dense<double>{dims[i]});
          if (is_given) {
            operands.push_back(all.back());
          }
        }
        std::vector<named_attribute> a{{"direction", direction}, {"bias", given & 1}, {"initial_h", given >> 1 & 1}};
        if (is_lstm) {
          a.push_back({"initial_c", given >> 2 & 1});
        } else if (l.name == "gru") {
          a.push_back({"reset_after", l.reset_after ? 1 : 0});
        }
        CAPTURE(l.name, direction, given);
        const auto found =
            evaluate<double>(standard(), standard().make_operation(l.name, a), operands, types_of(operands));
        const auto expected = by_hand(l, backward, all);
        REQUIRE(found.size() == (is_lstm ? 3 : 2));
        for (std::size_t r = 0; r < found.size(); ++r) {
          CHECK(distance(found[r], expected.values[r]) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("work of lstm is about two operations per weight / sample / step") {
  const auto op = standard().make_operation("lstm", {});
  const types in{type({100, 8, 32}), type({1, 256, 32}), type({1, 256, 64})};
  const auto w = standard().work(op, in, *standard().infer(op, in));
  const auto products = 2.0 * 100 * 8 * 256 * (32 + 64);
  CHECK(static_cast<double>(w.operations.count()) >= products);
  CHECK(static_cast<double>(w.operations.count()) < 1.2 * products);
}

TEST_CASE("lstm refuses invalid weights / bias / state") {
  const auto x = type({4, 2, 3});
  const auto r = type({1, 8, 2});
  CHECK(refusal_of("lstm", {}, {x, type({1, 8, 4}), r}) ==
        "weights [directions, gates, features] in operand 1");
  CHECK(refusal_of("lstm", {{"bias", 1}}, {x, type({1, 8, 3}), r}) ==
        "an operand for each bias and state that the attributes name");
  CHECK(refusal_of("lstm", {{"bias", 1}}, {x, type({1, 8, 3}), r, type({1, 8})}) ==
        "a bias [directions, twice the gates] in operand 3");
  CHECK(refusal_of("lstm", {{"initial_h", 1}}, {x, type({1, 8, 3}), r, type({1, 3, 2})}) ==
        "a state [directions, samples, cells] in operand 3");
}

}  // namespace tests_of_recurrent_layer
