// Rules that divide operators: correct ones hold; wrong ones are rejected by types, at the boundary, or by values.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>

#include "../random_pcg.hpp"

namespace tests_of_wrong_rules {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::parallel_operators;
using unity::tensor::modular61;

namespace {

// Writes one side of a rule; x and y are [4, 4], b is [4], image is [1, 2, 4, 4], taps is [2, 2, 3, 3].
class side {
 public:
  side() {
    for (const auto& [name, dims] : std::vector<std::pair<std::string, tensor::shape>>{
             {"x", {4, 4}}, {"y", {4, 4}}, {"b", {4}}, {"image", {1, 2, 4, 4}}, {"taps", {2, 2, 3, 3}}}) {
      const auto n = writer_.add(operators().make_operation("input", {{"name", name}, {"dims", dims}}), {});
      sources_.push_back(writer_.graph().results(n)[0]);
    }
  }
  value_id x() const { return sources_[0]; }
  value_id y() const { return sources_[1]; }
  value_id b() const { return sources_[2]; }
  value_id image() const { return sources_[3]; }
  value_id taps() const { return sources_[4]; }

  value_id op(std::string_view name, const std::vector<value_id>& operands,
              std::initializer_list<tensor::named_attribute> attributes = {}) {
    return writer_.graph().results(writer_.add(operators().make_operation(name, attributes), operands))[0];
  }
  value_id partition(value_id v, std::int64_t axis) { return one(parallel_kind::partition, v, axis); }
  value_id combine(value_id v, std::int64_t axis) { return one(parallel_kind::combine, v, axis); }
  value_id replicate(value_id v) { return one(parallel_kind::replicate, v); }
  value_id discard(value_id v) { return one(parallel_kind::discard, v); }
  value_id reduce(value_id v) { return one(parallel_kind::reduce, v); }
  value_id inject(value_id v) { return one(parallel_kind::inject, v); }
  value_id terms(const std::vector<value_id>& all) {
    return writer_.add(parallel_operator{parallel_kind::terms, 0, 0}, all);
  }
  value_id blocks(const std::vector<value_id>& all, std::int64_t axis) {
    return writer_.add(parallel_operator{parallel_kind::blocks, axis, 0}, all);
  }
  pcg finish(value_id v) && { return std::move(writer_).finish({&v, 1}); }

 private:
  value_id one(parallel_kind k, value_id v, std::int64_t axis = 0) {
    return writer_.add(parallel_operator{k, axis, 2}, {&v, 1});
  }

  pcg_writer writer_{parallel_operators()};
  std::vector<value_id> sources_{};
};

using term = std::function<value_id(side&)>;

pcg written(const term& t) {
  side s;
  const auto v = t(s);
  return std::move(s).finish(v);
}

// Where a rule fails; "" if it holds.
std::string fault(const term& from, const term& to) {
  const auto source = written(from);
  pcg target;
  try {
    target = written(to);
  } catch (const error&) {
    return "types";
  }
  if (source.type(source.outputs()[0]) != target.type(target.outputs()[0])) {
    return "boundary";
  }
  const auto expected = evaluate<modular61>(parallel_operators(), source);
  const bool agree = evaluate<modular61>(parallel_operators(), target) == expected;
  // The erased graph gives the same verdict.
  CHECK(agree == (tensor::evaluate<modular61>(operators(), erase(parallel_operators(), target)) == expected));
  return agree ? "" : "values";
}

const term product = [](side& s) { return s.op("matmul", {s.x(), s.y()}); };
const term affine = [](side& s) { return s.op("linear", {s.x(), s.y(), s.b()}); };
const term positive = [](side& s) { return s.op("relu", {s.x()}); };
const term sum = [](side& s) { return s.op("add", {s.x(), s.y()}); };
const term joined = [](side& s) { return s.op("concat", {s.x(), s.y()}, {{"axis", 0}}); };

struct rule {
  const char* name;
  term from;
  term to;
  const char* fault = "";
};

const std::vector<rule>& right_rules() {
  static const std::vector<rule> all{
      {"columns", product,
       [](side& s) {
         return s.combine(s.op("matmul", {s.replicate(s.x()), s.partition(s.y(), 1)}), 1);
       }},
      {"rows", product,
       [](side& s) {
         return s.combine(s.op("matmul", {s.partition(s.x(), 0), s.replicate(s.y())}), 0);
       }},
      {"sum", product,
       [](side& s) {
         return s.reduce(s.op("matmul", {s.partition(s.x(), 1), s.partition(s.y(), 0)}));
       }},
      {"terms of an operand", product,
       [](side& s) {
         return s.reduce(s.op("matmul", {s.inject(s.x()), s.replicate(s.y())}));
       }},
      {"repeated", positive, [](side& s) { return s.discard(s.op("relu", {s.replicate(s.x())})); }},
      {"element by element", positive, [](side& s) { return s.combine(s.op("relu", {s.partition(s.x(), 1)}), 1); }},
      {"bias beside a sum", affine,
       [](side& s) {
         return s.reduce(s.op("linear", {s.partition(s.x(), 1), s.partition(s.y(), 0), s.inject(s.b())}));
       }},
      {"bias of columns", affine,
       [](side& s) {
         return s.combine(s.op("linear", {s.replicate(s.x()), s.partition(s.y(), 1), s.partition(s.b(), 0)}), 1);
       }},
      {"halo",
       [](side& s) {
         return s.op("conv2d", {s.image(), s.taps()}, {{"padding", "same"}});
       },
       [](side& s) {
         return s.combine(s.op("conv2d", {s.partition(s.image(), 2), s.replicate(s.taps())}, {{"padding", "same"}}), 2);
       }},
      {"statistics",
       [](side& s) {
         return s.op("softmax", {s.x()}, {{"axis", 1}});
       },
       [](side& s) {
         return s.combine(s.op("softmax", {s.partition(s.x(), 1)}, {{"axis", 1}}), 1);
       }},
      {"a sum is terms", sum,
       [](side& s) {
         return s.reduce(s.terms({s.x(), s.y()}));
       }},
      {"a concat is blocks", joined,
       [](side& s) {
         return s.combine(s.blocks({s.x(), s.y()}, 0), 0);
       }},
  };
  return all;
}

const std::vector<rule>& wrong_rules() {
  static const std::vector<rule> all{
      {"replicate instead of partition", product,
       [](side& s) {
         return s.combine(s.op("matmul", {s.replicate(s.x()), s.replicate(s.y())}), 1);
       },
       "types"},
      {"the sum of what is not a sum", product,
       [](side& s) {
         return s.reduce(s.op("matmul", {s.replicate(s.x()), s.replicate(s.y())}));
       },
       "types"},
      {"copies that nobody drops", product,
       [](side& s) {
         return s.op("matmul", {s.replicate(s.x()), s.replicate(s.y())});
       },
       "boundary"},
      {"terms that nobody adds", product,
       [](side& s) {
         return s.op("matmul", {s.partition(s.x(), 1), s.partition(s.y(), 0)});
       },
       "boundary"},
      {"rows meet columns in the same task", product,
       [](side& s) {
         return s.combine(s.op("matmul", {s.partition(s.x(), 0), s.partition(s.y(), 1)}), 0);
       },
       "types"},
      {"combined along another axis", product,
       [](side& s) {
         return s.combine(s.op("matmul", {s.partition(s.x(), 0), s.replicate(s.y())}), 1);
       },
       "types"},
      {"terms through relu",
       [](side& s) {
         return s.op("relu", {s.op("matmul", {s.x(), s.y()})});
       },
       [](side& s) {
         return s.reduce(s.op("relu", {s.op("matmul", {s.partition(s.x(), 1), s.partition(s.y(), 0)})}));
       },
       "types"},
      {"terms through a fused relu",
       [](side& s) {
         return s.op("matmul", {s.x(), s.y()}, {{"activation", "relu"}});
       },
       [](side& s) {
         return s.reduce(s.op("matmul", {s.partition(s.x(), 1), s.partition(s.y(), 0)}, {{"activation", "relu"}}));
       },
       "types"},
      {"bias without inject", affine,
       [](side& s) {
         return s.reduce(s.op("linear", {s.partition(s.x(), 1), s.partition(s.y(), 0), s.replicate(s.b())}));
       },
       "types"},
      {"a product of terms",
       [](side& s) {
         return s.op("mul", {s.x(), s.y()});
       },
       [](side& s) {
         return s.reduce(s.op("mul", {s.inject(s.x()), s.inject(s.y())}));
       },
       "types"},
      {"a term that is added to each", sum,
       [](side& s) {
         return s.reduce(s.op("add", {s.inject(s.x()), s.replicate(s.y())}));
       },
       "types"},
      {"the sum of copies", positive, [](side& s) { return s.reduce(s.op("relu", {s.replicate(s.x())})); }, "types"},
      {"one of several terms", positive, [](side& s) { return s.discard(s.op("relu", {s.inject(s.x())})); }, "types"},
      {"the largest of sums",
       [](side& s) {
         return s.op("reduce_max", {s.x()}, {{"axes", {1}}});
       },
       [](side& s) {
         return s.reduce(s.op("reduce_max", {s.partition(s.x(), 1)}, {{"axes", {1}}}));
       },
       "types"},
      {"blocks joined within each task", joined,
       [](side& s) {
         return s.combine(s.op("concat", {s.partition(s.x(), 0), s.partition(s.y(), 0)}, {{"axis", 0}}), 0);
       },
       "types"},
      {"a transpose that keeps its axis",
       [](side& s) {
         return s.op("transpose", {s.x()}, {{"permutation", {1, 0}}});
       },
       [](side& s) {
         return s.combine(s.op("transpose", {s.partition(s.x(), 0)}, {{"permutation", {1, 0}}}), 0);
       },
       "types"},
      {"blocks along another axis", joined,
       [](side& s) {
         return s.combine(s.blocks({s.x(), s.y()}, 1), 1);
       },
       "boundary"},
      {"blocks in another order", joined,
       [](side& s) {
         return s.combine(s.blocks({s.y(), s.x()}, 0), 0);
       },
       "values"},
      {"a term twice", sum,
       [](side& s) {
         return s.reduce(s.terms({s.x(), s.x()}));
       },
       "values"},
      {"a factor of two", positive,
       [](side& s) {
         return s.op("relu", {s.reduce(s.terms({s.x(), s.x()}))});
       },
       "values"},
  };
  return all;
}

}  // namespace

TEST_CASE("correct rules that divide an operator preserve types and values") {
  for (const auto& r : right_rules()) {
    CAPTURE(r.name);
    CHECK(fault(r.from, r.to).empty());
    CHECK(erase(parallel_operators(), written(r.from)) == erase(parallel_operators(), written(r.to)));
  }
}

TEST_CASE("wrong rules that divide an operator are caught by types or boundary or values") {
  REQUIRE(wrong_rules().size() >= 16);
  for (const auto& r : wrong_rules()) {
    CAPTURE(r.name);
    CHECK(fault(r.from, r.to) == r.fault);
  }
}

}  // namespace tests_of_wrong_rules
