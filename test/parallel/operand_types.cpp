// Every division of operands into up to four tasks. The algebra accepts exactly those where the operator, run by each
// task on one shard of each operand, yields the shards of its result.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

#include "../support/cases.hpp"
#include "random_pcg.hpp"

namespace tests_of_operand_types {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using unity::parallel::test::type;
using unity::tensor::modular61;

namespace {

using dense = tensor::dense<modular61>;
using shards = sharded<modular61>;

std::vector<parallel_type> divisions(const tensor::tensor_type& t, std::int64_t most) {
  std::vector<parallel_type> all{undivided(t)};
  const auto multiply = [&](auto&& factor_of, std::int64_t most_of) {
    const auto before = all;
    for (std::int64_t k = 2; k <= most_of; ++k) {
      for (auto p : before) {
        factor_of(p) = k;
        if (is_valid(p) && total(p) <= most) {
          all.push_back(std::move(p));
        }
      }
    }
  };
  for (std::size_t d = 0; d < t.rank(); ++d) {
    multiply([d](parallel_type& p) -> std::int64_t& { return p.degrees[d]; }, most);
  }
  multiply([](parallel_type& p) -> std::int64_t& { return p.copies; }, most);
  multiply([](parallel_type& p) -> std::int64_t& { return p.partial; }, most);
  return all;
}

dense random_dense(random_engine& random, const tensor::tensor_type& t) {
  dense x{t.dims};
  for (auto& e : x.data) {
    e = is_floating(t.element) ? modular61::of_residue(random()) : modular61{random.between(0, 3)};
  }
  return x;
}

dense block_of(const dense& whole, const parallel_type& t, const tensor::shape& block) {
  dense part{shard_type(t).dims};
  for_each_position(part.dims, [&](const tensor::shape& at) {
    auto global = at;
    for (std::size_t d = 0; d < at.size(); ++d) {
      global[d] += block[d] * part.dims[d];
    }
    part.data[offset_of(part.dims, at)] = whole.data[offset_of(whole.dims, global)];
  });
  return part;
}

// Random partials that add up to the value.
shards divide(random_engine& random, const dense& whole, const parallel_type& t) {
  auto x = parallel::detail::empty_shards<modular61>(t);
  auto rest = whole;
  for (std::int64_t p = 0; p < t.partial; ++p) {
    auto term = p + 1 == t.partial ? rest : random_dense(random, t.global);
    for (std::size_t i = 0; i < rest.data.size(); ++i) {
      rest.data[i] += -term.data[i];
    }
    for (std::int64_t c = 0; c < t.copies; ++c) {
      for_each_position(block_counts(t), [&](const tensor::shape& b) {
        x.shards[parallel::detail::shard_at(t, p, c, b)] = block_of(term, t, b);
      });
    }
  }
  return x;
}

// Whether the tasks' results, in some order, are the shards of the value under that division.
bool are_shards(const std::vector<const dense*>& made, const dense& value, const parallel_type& t) {
  if (made[0]->dims != shard_type(t).dims) {
    return false;
  }
  std::vector<std::size_t> order(made.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    bool fits = true;
    for_each_position(block_counts(t), [&](const tensor::shape& b) {
      if (!fits) {
        return;
      }
      dense sum{made[0]->dims};
      for (std::int64_t p = 0; p < t.partial; ++p) {
        const auto& first = *made[order[parallel::detail::shard_at(t, p, 0, b)]];
        for (std::int64_t c = 1; fits && c < t.copies; ++c) {
          fits = *made[order[parallel::detail::shard_at(t, p, c, b)]] == first;
        }
        parallel::detail::add_to(sum, first);
      }
      fits = fits && sum == block_of(value, t, b);
    });
    if (fits) {
      return true;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

// Whether tasks with one shard of each operand, under any pairing, can yield the shards of the result.
class pairing {
 public:
  pairing(const tensor::operation& op, std::vector<shards> operands, const dense& value,
          const tensor::tensor_type& result)
      : op_{op},
        operands_{std::move(operands)},
        value_{value},
        tasks_{operands_[0].shards.size()},
        results_{divisions(result, static_cast<std::int64_t>(tasks_))} {
    std::erase_if(results_, [&](const parallel_type& t) { return total(t) != static_cast<std::int64_t>(tasks_); });
    for (const auto& x : operands_) {
      types_.push_back(shard_type(x.type));
    }
  }

  bool exists() {
    if (!operators().infer(op_, types_)) {
      return false;
    }
    std::vector<std::size_t> in_order(tasks_);
    std::iota(in_order.begin(), in_order.end(), std::size_t{0});
    std::vector orders(operands_.size(), in_order);
    return any_order(orders, 1);
  }

 private:
  bool any_order(std::vector<std::vector<std::size_t>>& orders, std::size_t x) {
    if (x == orders.size()) {
      return fits(orders);
    }
    do {
      if (any_order(orders, x + 1)) {
        return true;
      }
    } while (std::next_permutation(orders[x].begin(), orders[x].end()));
    return false;
  }
  bool fits(const std::vector<std::vector<std::size_t>>& orders) {
    std::vector<const dense*> made;
    for (std::size_t t = 0; t < tasks_; ++t) {
      std::vector<std::size_t> at;
      for (const auto& order : orders) {
        at.push_back(order[t]);
      }
      made.push_back(&result_of(at));
    }
    return std::any_of(results_.begin(), results_.end(),
                       [&](const parallel_type& t) { return are_shards(made, value_, t); });
  }
  const dense& result_of(const std::vector<std::size_t>& at) {
    const auto [found, is_new] = known_.try_emplace(at);
    if (is_new) {
      std::vector<dense> values;
      for (std::size_t x = 0; x < at.size(); ++x) {
        values.push_back(operands_[x].shards[at[x]]);
      }
      found->second = tensor::evaluate<modular61>(operators(), op_, values, types_)[0];
    }
    return found->second;
  }

  const tensor::operation& op_;
  std::vector<shards> operands_;
  const dense& value_;
  std::size_t tasks_;
  std::vector<parallel_type> results_;
  std::vector<tensor::tensor_type> types_{};
  std::map<std::vector<std::size_t>, dense> known_{};
};

struct counts {
  std::uint64_t combinations = 0;
  std::uint64_t accepted = 0;
  std::uint64_t unsound = 0;   // accepted, but the operator computes something else
  std::uint64_t rejected = 0;  // rejected, but tasks could yield the result's shards
};

struct question {
  std::string_view name;
  std::vector<tensor::named_attribute> attributes;
  std::vector<tensor::tensor_type> inputs;
  std::int64_t most = 4;        // most tasks
  bool reads_own_shard = true;  // no halo, statistics or positions
};

// Visits all combinations of divisions, one per operand.
template <class Visit>
void for_each_combination(const question& q, const Visit& visit) {
  std::vector<std::vector<parallel_type>> choices;
  for (const auto& t : q.inputs) {
    choices.push_back(divisions(t, q.most));
  }
  std::vector<std::size_t> at(choices.size(), 0);
  while (true) {
    std::vector<parallel_type> types;
    for (std::size_t x = 0; x < at.size(); ++x) {
      types.push_back(choices[x][at[x]]);
    }
    visit(types);
    auto x = at.size();
    while (x > 0 && ++at[x - 1] == choices[x - 1].size()) {
      at[--x] = 0;
    }
    if (x == 0) {
      return;
    }
  }
}

counts judge(const question& q, std::uint64_t seed) {
  random_engine random{seed};
  const auto op = operators().make_operation(q.name, q.attributes);
  std::vector<dense> values;
  for (const auto& t : q.inputs) {
    values.push_back(random_dense(random, t));
  }
  const auto whole = tensor::evaluate<modular61>(operators(), op, values, q.inputs);
  const auto& value = whole[0];
  const auto result = operators().infer(op, q.inputs)->front();
  counts n;
  for_each_combination(q, [&](const std::vector<parallel_type>& types) {
    ++n.combinations;
    const bool accepts = parallel_operators().infer(op, types).has_value();
    const bool alike =
        std::all_of(types.begin(), types.end(), [&](const parallel_type& t) { return total(t) == total(types[0]); });
    if (!alike) {
      n.unsound += accepts ? 1 : 0;
      return;
    }
    if (!accepts && n.combinations % unity::test::one_case_of != 0) {
      return;
    }
    std::vector<shards> operands;
    std::vector<const shards*> pointers;
    for (std::size_t x = 0; x < types.size(); ++x) {
      operands.push_back(divide(random, values[x], types[x]));
    }
    for (const auto& x : operands) {
      pointers.push_back(&x);
    }
    n.accepted += accepts ? 1 : 0;
    if (accepts) {
      const auto made = evaluate<modular61>(parallel_operators(), op, pointers);
      bool is_right = made.size() == whole.size();
      for (std::size_t r = 0; is_right && r < made.size(); ++r) {
        is_right = combined(made[r]) == whole[r];
      }
      n.unsound += is_right ? 0 : 1;
    }
    if (q.reads_own_shard) {
      const bool is_possible = pairing{op, operands, value, result}.exists();
      n.unsound += accepts && !is_possible ? 1 : 0;
      n.rejected += !accepts && is_possible ? 1 : 0;
    }
  });
  return n;
}

const std::vector<question>& questions() {
  const auto matrix = type({4, 4});
  const auto row = type({4});
  const auto image = type({2, 4, 4, 4});
  auto ids = type({4});
  ids.element = tensor::dtype::int64;
  static const std::vector<question> all{
      {"relu", {}, {matrix}},
      {"negate", {}, {matrix}},
      {"add", {}, {matrix, matrix}},
      {"add", {}, {matrix, row}},
      {"sub", {}, {row, matrix}},
      {"mul", {}, {matrix, matrix}},
      {"mul", {}, {matrix, type({4, 1})}},
      {"div", {}, {matrix, matrix}},
      {"maximum", {}, {matrix, matrix}},
      {"scalar_multiply", {}, {matrix, type({})}},
      {"matmul", {}, {matrix, matrix}},
      {"matmul", {{"activation", "relu"}}, {matrix, matrix}},
      {"matmul", {}, {type({2, 2, 4}), type({2, 4, 2})}},
      {"linear", {}, {matrix, matrix, row}},
      {"linear", {}, {type({2, 4}), type({4, 2}), type({2})}},
      {"reduce_sum", {{"axes", {1}}}, {matrix}},
      {"reduce_sum", {{"axes", {0}}, {"keep_dims", 0}}, {matrix}},
      {"reduce_max", {{"axes", {1}}}, {matrix}},
      {"transpose", {{"permutation", {1, 0}}}, {matrix}},
      {"concat", {{"axis", 1}}, {matrix, matrix}},
      {"concat", {{"axis", 0}}, {row, row}},
      {"softmax", {{"axis", 1}}, {matrix}, 4, false},
      {"reduce_mean", {{"axes", {1}}}, {matrix}, 4, false},
      {"global_average_pool", {}, {image}, 4, false},
      {"layer_norm", {{"axis", 1}}, {matrix, row, row}, 4, false},
      {"batch_norm", {}, {type({2, 4}), row, row, row, row}, 2, false},
      {"embedding", {}, {matrix, ids}, 4, false},
      {"conv2d", {{"padding", "same"}}, {image, type({2, 4, 3, 3})}, 4, false},
      {"conv2d", {{"groups", 2}}, {image, type({4, 2, 1, 2}), row}, 2, false},
      {"max_pool", {{"kernel", {3, 3}}, {"padding", "same"}}, {image}, 4, false},
      {"average_pool", {{"kernel", {2, 2}}, {"stride", {2, 2}}}, {image}, 4, false},
      {"reshape", {{"dims", {2, 2, 4}}}, {matrix}, 4, false},
      {"reshape", {{"dims", {16}}}, {matrix}, 4, false},
      {"split", {{"axis", 0}, {"sizes", {2, 2}}}, {matrix}, 4, false},
      {"slice", {{"axes", {1}}, {"starts", {1}}, {"ends", {3}}, {"steps", {1}}}, {matrix}, 4, false},
      {"pad", {{"pads", {0, 1, 0, 3}}}, {matrix}, 4, false},
      {"pad", {{"pads", {0, 1, 0, 3}}, {"value", 1.0}}, {matrix}, 4, false},
      {"expand", {{"dims", {4, 4}}}, {type({4, 1})}, 4, false},
  };
  return all;
}

}  // namespace

TEST_CASE("accepted operand divisions are sound; complete where tasks read only their own shard") {
  counts sum;
  for (const auto& q : questions()) {
    const auto n = judge(q, 7);
    CAPTURE(q.name, n.combinations, n.accepted);
    CHECK(n.accepted > 0);
    CHECK(n.unsound == 0);
    CHECK(n.rejected == 0);
    sum.combinations += n.combinations;
    sum.accepted += n.accepted;
  }
  CAPTURE(sum.combinations, sum.accepted);
  CHECK(sum.combinations > 14000);
  CHECK(sum.accepted > 600);
}

}  // namespace tests_of_operand_types
