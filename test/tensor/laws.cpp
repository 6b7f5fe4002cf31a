// Laws that hold for every operator, on random operands.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/scalar.hpp>

#include "../support/cases.hpp"
#include "random_case.hpp"
#include "testing.hpp"

namespace tests_of_laws {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

constexpr int rounds = unity::test::all_or(40, 8);

// Calls check(name, case, random) on cases of every kind.
template <class Check>
void for_all_cases(std::uint64_t seed, const Check& check) {
  CAPTURE(seed);
  for (const auto& [name, make] : cases()) {
    unity::random_engine random{seed};
    for (int round = 0; round < rounds; ++round) {
      const auto c = draw(name, random);
      CAPTURE(name, round);
      check(name, c, random);
    }
  }
}

template <class Scalar>
std::vector<dense<Scalar>> values_for(const types& inputs, std::uint64_t seed,
                                      source_kind kind = source_kind::constant) {
  std::vector<dense<Scalar>> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(arbitrary_source<Scalar>(std::to_string(i), inputs[i], kind, seed));
  }
  return values;
}

bool can_evaluate(const std::string& name) { return name != "opaque"; }

}  // namespace

TEST_CASE("random cases exist for every standard operator") {
  for (std::size_t k = 0; k < standard().kind_count(); ++k) {
    const auto& name = standard().signature(unity::kind_id{k}).name;
    CAPTURE(name);
    CHECK(cases().contains(name));
  }
}

TEST_CASE("an operation is rebuilt from its kind and attributes with the same hash") {
  for_all_cases(1, [](const std::string&, const random_case& c, auto&) {
    const auto again = standard().make(standard().kind_of(c.op), standard().attributes_of(c.op));
    REQUIRE(again.has_value());
    CHECK(*again == c.op);
    CHECK(std::hash<operation>{}(*again) == std::hash<operation>{}(c.op));
  });
}

TEST_CASE("evaluated results have the inferred shapes") {
  for_all_cases(2, [](const std::string& name, const random_case& c, auto& random) {
    const auto inferred = standard().infer(c.op, c.inputs);
    REQUIRE(inferred.has_value());
    if (!can_evaluate(name)) {
      CHECK_THROWS_AS(evaluate<double>(standard(), c.op, values_for<double>(c.inputs, random()), c.inputs),
                      unity::error);
      return;
    }
    const auto results = evaluate<double>(standard(), c.op, values_for<double>(c.inputs, random()), c.inputs);
    REQUIRE(results.size() == inferred->size());
    for (std::size_t r = 0; r < results.size(); ++r) {
      CHECK(results[r].dims == (*inferred)[r].dims);
      CHECK(static_cast<std::int64_t>(results[r].data.size()) == element_count(results[r].dims));
    }
  });
}

TEST_CASE("inference marks results as constant exactly if all operands are") {
  for_all_cases(3, [](const std::string& name, const random_case& c, auto&) {
    auto inputs = c.inputs;
    for (auto& t : inputs) {
      t.constant = true;
    }
    const bool expected = name != "input" && !(inputs.empty() && name == "opaque");
    const auto all_are = [&](bool constant) {
      const auto results = *standard().infer(c.op, inputs);
      return std::all_of(results.begin(), results.end(), [&](const auto& t) { return t.constant == constant; });
    };
    CHECK(all_are(expected));
    for (auto& t : inputs) {
      t.constant = false;
      CHECK(all_are(false));
      t.constant = true;
    }
  });
}

TEST_CASE("layouts of operands and results change neither values nor shapes") {
  for_all_cases(4, [](const std::string& name, const random_case& c, auto& random) {
    auto inputs = c.inputs;
    for (auto& t : inputs) {
      t.order = layout::column_major;
    }
    const auto plain = *standard().infer(c.op, c.inputs);
    const auto other = standard().infer(c.op, inputs);
    REQUIRE(other.has_value());
    CHECK(plain == *other);
    for (const auto& v : standard().variants(c.op, inputs)) {
      CHECK(v.order == layout::column_major);
      CHECK(standard().variants(v, inputs) == std::vector{c.op});
      const auto swapped = standard().infer(v, inputs);
      REQUIRE(swapped.has_value());
      CHECK(swapped->at(0).order == layout::column_major);
      CHECK(swapped->at(0).dims == plain[0].dims);
      CHECK(swapped->at(0).rank() >= 2);
    }
    if (can_evaluate(name)) {
      const auto values = values_for<double>(inputs, random(), source_kind::constant);
      const auto expected = evaluate<double>(standard(), c.op, values, c.inputs);
      for (const auto& v : standard().variants(c.op, inputs)) {
        CHECK(evaluate<double>(standard(), v, values, inputs) == expected);
      }
    }
  });
}

TEST_CASE("operators other than cast agree in float and double up to rounding") {
  for_all_cases(5, [](const std::string& name, const random_case& c, auto& random) {
    if (!can_evaluate(name)) {
      return;
    }
    const auto seed = random();
    const auto exact = evaluate<double>(standard(), c.op, values_for<double>(c.inputs, seed), c.inputs);
    const auto rounded = evaluate<float>(standard(), c.op, values_for<float>(c.inputs, seed), c.inputs);
    REQUIRE(rounded.size() == exact.size());
    // Cast truncates; positions and zero points, of further results, are other numbers after a small change.
    const bool jumps = name == "top_elements" || name == "dynamic_quantize";
    for (std::size_t r = 0; r < (jumps ? std::size_t{1} : exact.size()) && name != "cast"; ++r) {
      CHECK(distance({rounded[r].dims, {rounded[r].data.begin(), rounded[r].data.end()}}, exact[r]) < 1e-3);
    }
  });
}

TEST_CASE("polynomial operators agree in double and modulo a prime on small integers") {
  for (const std::string name : {"matmul",
                                 "linear",
                                 "conv2d",
                                 "add",
                                 "sub",
                                 "mul",
                                 "scalar_multiply",
                                 "negate",
                                 "identity",
                                 "reduce_sum",
                                 "concat",
                                 "split",
                                 "slice",
                                 "pad",
                                 "enlarge",
                                 "transpose",
                                 "expand",
                                 "reshape",
                                 "squeeze",
                                 "unsqueeze",
                                 "embedding",
                                 "embedding_bag",
                                 "identity_kernel",
                                 "identity_matrix",
                                 "fill",
                                 "relu",
                                 "abs",
                                 "maximum",
                                 "minimum",
                                 "max_pool",
                                 "reduce_max",
                                 "global_max_pool",
                                 "dropout",
                                 "equal",
                                 "less",
                                 "less_or_equal",
                                 "greater",
                                 "greater_or_equal",
                                 "logical_and",
                                 "logical_or",
                                 "logical_xor",
                                 "logical_not",
                                 "where",
                                 "sign",
                                 "clip",
                                 "prelu",
                                 "leaky_relu",
                                 "thresholded_relu",
                                 "shrink",
                                 "reduce_min",
                                 "reduce_prod",
                                 "reduce_l1",
                                 "reduce_sum_square",
                                 "arg_max",
                                 "arg_min",
                                 "hardmax",
                                 "cumulative_sum",
                                 "is_position",
                                 "equal_positions",
                                 "gather",
                                 "gather_elements",
                                 "gather_nd",
                                 "scatter_elements",
                                 "scatter_nd",
                                 "scatter_sum",
                                 "one_hot_values",
                                 "tile",
                                 "strided_slice",
                                 "border_pad",
                                 "depth_to_space",
                                 "space_to_depth",
                                 "trilu",
                                 "eye_like",
                                 "conv_transpose",
                                 "einsum",
                                 "dequantize",
                                 "linear_index"}) {
    unity::random_engine random{6};
    for (int round = 0; round < rounds; ++round) {
      auto c = draw(name, random);
      CAPTURE(name, round);
      const auto& fields = standard().definition_of(c.op.kind).fields;
      for (std::size_t i = 0; i < fields.size(); ++i) {
        if (fields[i].signature.name == "activation") {
          c.op.attributes[i][0] = random.between(0, 1);  // none or relu
        }
        if (fields[i].signature.form == unity::attribute_form::real) {
          c.op.attributes[i] = real_attribute(name == "dropout" ? 0 : 3);
        }
      }
      std::vector<dense<double>> reals;
      std::vector<dense<modular61>> residues;
      for (const auto& t : c.inputs) {
        auto& real = reals.emplace_back(t.dims);
        auto& residue = residues.emplace_back(t.dims);
        for (std::size_t i = 0; i < real.data.size(); ++i) {
          const auto n = t.element == dtype::boolean                           ? random.between(0, 1)
                         : name.starts_with("embedding") && &t == &c.inputs[1] ? random.between(0, 4)
                                                                               : random.between(-9, 9);
          real.data[i] = static_cast<double>(n);
          residue.data[i] = modular61{n};
        }
      }
      const auto exact = evaluate<double>(standard(), c.op, reals, c.inputs);
      const auto modular = evaluate<modular61>(standard(), c.op, residues, c.inputs);
      for (std::size_t r = 0; r < exact.size(); ++r) {
        dense<double> lifted{exact[r].dims};
        for (std::size_t i = 0; i < lifted.data.size(); ++i) {
          lifted.data[i] = static_cast<double>(modular[r].data[i].as_signed());
        }
        CHECK(lifted.data == exact[r].data);
      }
    }
  }
}

TEST_CASE("shape functions of composites agree with their bodies") {
  for_all_cases(7, [](const std::string&, const random_case& c, auto&) {
    const auto body = c.inputs.empty() ? std::nullopt : standard().body(c.op, c.inputs);
    if (!body) {
      return;
    }
    const auto types = *standard().infer(c.op, c.inputs);
    REQUIRE(body->outputs().size() == types.size());
    for (std::size_t r = 0; r < types.size(); ++r) {
      auto type = body->type(body->outputs()[r]);
      CHECK((type.constant || !types[r].constant));
      type.constant = types[r].constant;  // a body that reads only sizes is constant even if its operands are not
      CHECK(type == types[r]);
    }
  });
}

TEST_CASE("operators refuse one operand more than they take at most, or fewer than they take at least") {
  for_all_cases(8, [](const std::string&, const random_case& c, auto&) {
    const auto& takes = standard().signature(c.op.kind).operands;
    const auto refuses = [&](int count) {
      auto others = c.inputs;
      others.resize(static_cast<std::size_t>(count), type({2, 2}));
      CHECK_FALSE(standard().infer(c.op, others).has_value());
      CHECK(standard().why_not(c.op, others) == fmt::format("{} operand(s)", to_string(takes)));
    };
    if (takes.most != unity::operand_count::unlimited) {
      refuses(takes.most + 1);
    }
    if (takes.least > 0) {
      refuses(takes.least - 1);
    }
  });
}

TEST_CASE("inference does not fail on random invalid attributes and operands") {
  for_all_cases(9, [](const std::string&, const random_case& c, auto& random) {
    auto op = c.op;
    auto inputs = c.inputs;
    const auto wild = [&] {
      const std::int64_t values[] = {-1, 0, 1, 2, 7, 1 << 20, std::int64_t{1} << 40, INT64_MAX, INT64_MIN};
      return values[random.below(std::size(values))];
    };
    for (int change = 0; change < 3; ++change) {
      if (!op.attributes.empty() && random.below(2) == 0) {
        auto& a = op.attributes[random.below(op.attributes.size())];
        if (!a.empty() && random.below(3) > 0) {
          a[random.below(a.size())] = wild();
        } else {
          a.push_back(wild());
        }
      } else if (!inputs.empty()) {
        auto& t = inputs[random.below(inputs.size())];
        if (!t.dims.empty() && random.below(3) > 0) {
          t.dims[random.below(t.dims.size())] = wild();
        } else {
          t.dims.push_back(wild());
        }
      }
    }
    const auto results = standard().infer(op, inputs);
    const auto reason = standard().why_not(op, inputs);
    CHECK(results.has_value() == reason.empty());
    for (const auto& t : results ? *results : types{}) {
      CHECK(checked_element_count(t.dims).has_value());
    }
    if (results) {
      const auto w = standard().work(op, inputs, *results);
      CHECK(w.operations.count() >= 0);
      CHECK(w.moved.count() >= 0);
    }
  });
}

TEST_CASE("the size of each dimension is the product of its index sizes") {
  for_all_cases(10, [](const std::string&, const random_case& c, auto&) {
    const auto s = dimension_indices(standard(), c.op, c.inputs);
    REQUIRE(s.has_value());
    const auto results = *standard().infer(c.op, c.inputs);
    const auto check = [&](const tensor_indices& dims, const shape& sizes) {
      REQUIRE(dims.size() == sizes.size());
      for (std::size_t d = 0; d < dims.size(); ++d) {
        std::int64_t product = 1;
        for (const auto i : dims[d].indices) {
          product *= s->indices[i].size;
        }
        if (dims[d].window) {
          CHECK(s->windows[*dims[d].window].extent == sizes[d]);
        } else {
          CHECK(product == sizes[d]);
        }
      }
    };
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      check(s->operands[i], c.inputs[i].dims);
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
      check(s->results[r], results[r].dims);
    }
  });
}

TEST_CASE("evaluation is additive in each linear group and not in both factors of a matmul") {
  for_all_cases(11, [](const std::string& name, const random_case& c, auto& random) {
    if (!can_evaluate(name) || c.inputs.empty() || c.inputs.size() > 7) {
      return;
    }
    const auto groups = linear_groups(standard(), c.op, c.inputs);
    const auto a = values_for<modular61>(c.inputs, random());
    const auto b = values_for<modular61>(c.inputs, random());
    const auto additive = [&](std::uint64_t set) {
      auto left = a;
      auto right = a;
      auto both = a;
      for (std::size_t i = 0; i < a.size(); ++i) {
        for (std::size_t e = 0; (set >> i & 1U) != 0 && e < a[i].data.size(); ++e) {
          right[i].data[e] = b[i].data[e];
          both[i].data[e] = a[i].data[e] + b[i].data[e];
        }
      }
      const auto x = evaluate<modular61>(standard(), c.op, left, c.inputs);
      const auto y = evaluate<modular61>(standard(), c.op, right, c.inputs);
      const auto z = evaluate<modular61>(standard(), c.op, both, c.inputs);
      bool same = true;
      for (std::size_t r = 0; r < x.size(); ++r) {
        for (std::size_t e = 0; e < x[r].data.size(); ++e) {
          same = same && z[r].data[e] == x[r].data[e] + y[r].data[e];
        }
      }
      return same;
    };
    for (const auto& g : groups) {
      std::uint64_t set = 0;
      for (const auto i : g) {
        set |= std::uint64_t{1} << i;
      }
      CHECK(additive(set));
    }
    if (c.inputs.size() == 2 && name == "matmul") {
      CHECK_FALSE(additive(3));
    }
  });
}

namespace {

// The dimension of a tensor that has this index and no other.
std::optional<std::size_t> dimension_along(const tensor_indices& dims, std::size_t index) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].indices == std::vector{index}) {
      return d;
    }
  }
  return std::nullopt;
}

// Positions [from, to) along a dimension.
template <class Scalar>
dense<Scalar> block(const dense<Scalar>& t, std::size_t d, std::int64_t from, std::int64_t to) {
  const auto op = standard().make_operation(
      "slice", {{"axes", {static_cast<std::int64_t>(d)}}, {"starts", {from}}, {"ends", {to}}, {"steps", {1}}});
  return evaluate<Scalar>(standard(), op, std::vector{t}, types{type(t.dims)})[0];
}

// Whether the index is alone in every dimension that has it.
bool is_alone(const index_structure& s, std::size_t index) {
  bool alone = true;
  for (const auto* tensors : {&s.operands, &s.results}) {
    for (const auto& dims : *tensors) {
      for (const auto& d : dims) {
        const bool has = std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end();
        alone = alone && (!has || d.indices.size() == 1);
      }
    }
  }
  for (const auto& w : s.windows) {
    alone = alone && w.outer != static_cast<int>(index) && w.inner != static_cast<int>(index);
  }
  return alone;
}

}  // namespace

TEST_CASE("a block of a parallel index is computed from the matching blocks of the operands") {
  int blocks = 0;
  // Operators without sizes in their attributes.
  for (const std::string name : {"matmul",
                                 "linear",
                                 "conv2d",
                                 "max_pool",
                                 "average_pool",
                                 "global_max_pool",
                                 "relu",
                                 "add",
                                 "scalar_multiply",
                                 "reduce_sum",
                                 "reduce_mean",
                                 "reduce_max",
                                 "concat",
                                 "transpose",
                                 "embedding",
                                 "embedding_bag",
                                 "softmax",
                                 "layer_norm",
                                 "batch_norm",
                                 "attention",
                                 "lstm_cell",
                                 "reduce_min",
                                 "reduce_prod",
                                 "reduce_l1",
                                 "reduce_l2",
                                 "reduce_sum_square",
                                 "reduce_log_sum",
                                 "reduce_log_sum_exp",
                                 "arg_max",
                                 "arg_min",
                                 "hardmax",
                                 "cumulative_sum",
                                 "log_softmax",
                                 "instance_norm",
                                 "rms_norm",
                                 "local_response_norm",
                                 "lp_norm",
                                 "mean_variance_norm",
                                 "where",
                                 "prelu",
                                 "less"}) {
    unity::random_engine random{12};
    for (int round = 0; round < rounds; ++round) {
      const auto c = draw(name, random);
      CAPTURE(name, round);
      const auto s = *dimension_indices(standard(), c.op, c.inputs);
      const auto values = values_for<modular61>(c.inputs, random());
      const auto all = evaluate<modular61>(standard(), c.op, values, c.inputs);
      for (std::size_t i = 0; i < s.indices.size(); ++i) {
        if (s.indices[i].kind != index_kind::parallel || s.indices[i].size < 2 || !is_alone(s, i)) {
          continue;
        }
        const auto from = random.between(0, s.indices[i].size - 2);
        const auto to = random.between(from + 1, s.indices[i].size);
        auto part = values;
        auto part_types = c.inputs;
        for (std::size_t o = 0; o < part.size(); ++o) {
          if (const auto d = dimension_along(s.operands[o], i)) {
            part[o] = block(part[o], *d, from, to);
            part_types[o].dims = part[o].dims;
          }
        }
        const auto found = evaluate<modular61>(standard(), c.op, part, part_types);
        for (std::size_t r = 0; r < all.size(); ++r) {
          const auto d = dimension_along(s.results[r], i);
          REQUIRE(d.has_value());
          CHECK(found[r] == block(all[r], *d, from, to));
          ++blocks;
        }
      }
    }
  }
  CHECK(blocks > 500 * rounds / 40);
}

}  // namespace tests_of_laws
