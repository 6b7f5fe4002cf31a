// FlexFlow's published rules with parallelization operators: which of them hold on parallel computation graphs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/flexflow_rules.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/scalar.hpp>

#include "../support/shared_file.hpp"

namespace tests_of_flexflow_parallel_rules {

using namespace unity;
using namespace unity::parallel;
using unity::tensor::modular61;

namespace {

const pcg_algebra& algebra() {
  static const pcg_algebra a{tensor::training_algebra()};
  return a;
}

// The divisions of a variable: none, then a few that make 2 or 4 parts in all.
std::vector<parallel_type> choices() {
  std::vector<parallel_type> all;
  for (const std::array<std::int64_t, 4>& by : std::vector<std::array<std::int64_t, 4>>{{1, 1, 1, 1},
                                                                                        {2, 1, 1, 1},
                                                                                        {1, 2, 1, 1},
                                                                                        {1, 1, 2, 1},
                                                                                        {1, 1, 1, 2},
                                                                                        {2, 2, 1, 1},
                                                                                        {2, 1, 2, 1},
                                                                                        {2, 1, 1, 2},
                                                                                        {1, 2, 2, 1},
                                                                                        {1, 2, 1, 2},
                                                                                        {1, 1, 2, 2},
                                                                                        {4, 1, 1, 1},
                                                                                        {1, 4, 1, 1},
                                                                                        {1, 1, 4, 1},
                                                                                        {1, 1, 1, 4}}) {
    for (const auto& dims : {tensor::shape{4, 4}, tensor::shape{4, 8}, tensor::shape{8, 4}, tensor::shape{8, 8}}) {
      tensor::tensor_type t;
      t.dims = dims;
      all.push_back({t, {by[0], by[1]}, {1, 1}, by[2], by[3]});
    }
  }
  return all;
}

enum class fate : std::uint8_t { derived, proved, equal, wrong_values, wrong_types, no_target, no_source, outside };
[[maybe_unused]] constexpr std::array names{
    "derived by rewriting", "proved from axioms", "equal where tested", "other values",
    "other types",          "target never fits",  "source never fits",  "outside"};

struct judgement {
  fate found = fate::outside;
  std::string because{};
};

class judge {
 public:
  judge() {
    constexpr std::array<std::int64_t, 2> degrees{2, 4};
    for (const auto& r : parse_rules(std::string{parallel_rules}, "parallel_rules")) {
      for (const auto& i : with_all_values(r, degrees, 2)) {
        ours_.add(algebra(), i);
        all_.add(algebra(), i);
      }
    }
    for (const auto& r : parse_rules(std::string{tensor::standard_axioms}, "standard_axioms")) {
      all_.add(algebra(), r);
    }
  }

  judgement operator()(const io::foreign_rule& rule) {
    const io::flexflow_parallel_rule r{rule};
    if (!r.outside_because().empty()) {
      return {fate::outside, r.outside_because()};
    }
    best_ = {fate::no_source, ""};
    instances_ = 0;
    tries_ = 0;
    std::vector<parallel_type> types(r.variables() + 1);
    choose(r, 1, types);
    return best_;
  }

 private:
  static constexpr std::size_t most_tries = 40000;
  static constexpr std::size_t most_instances = 6;

  void choose(const io::flexflow_parallel_rule& r, std::size_t v, std::vector<parallel_type>& types) {
    static const auto all = choices();
    if (v > r.variables()) {
      ++tries_;
      try_types(r, types);
      return;
    }
    if (!r.reads(v)) {
      choose(r, v + 1, types);
      return;
    }
    for (const auto& t : all) {
      if (tries_ < most_tries && instances_ < most_instances && best_.found != fate::wrong_values) {
        types[v] = t;
        choose(r, v + 1, types);
      }
    }
  }

  void try_types(const io::flexflow_parallel_rule& r, const std::vector<parallel_type>& types) {
    pcg_writer writer{algebra()};
    std::vector<value_id> variables(types.size());
    std::string at;
    for (std::size_t v = 1; v < types.size(); ++v) {
      if (r.reads(v)) {
        const auto n = writer.add(algebra().operators().make_operation(
                                      "input", {{"name", "x" + std::to_string(v)}, {"dims", types[v].global.dims}}),
                                  {});
        variables[v] = writer.on(writer.graph().results(n)[0], types[v]);
        at += " x" + std::to_string(v) + " " + to_string(types[v]);
      }
    }
    const auto source = r.write(writer, algebra(), false, variables);
    if (!source) {
      return;
    }
    if (best_.found == fate::no_source) {
      best_ = {fate::no_target, at};
    }
    const auto target = r.write(writer, algebra(), true, variables);
    if (!target) {
      return;
    }
    std::vector<value_id> outputs;
    bool same = true;
    for (std::size_t i = 0; i < source->size(); ++i) {
      same = same && writer.type((*source)[i]) == writer.type((*target)[i]);
    }
    if (!same) {
      if (best_.found == fate::no_target) {
        best_ = {fate::wrong_types, at};
      }
      return;
    }
    ++instances_;
    outputs = *source;
    outputs.insert(outputs.end(), target->begin(), target->end());
    const auto g = std::move(writer).finish(outputs);
    const auto values = evaluate<modular61>(algebra(), g);
    const auto half = values.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      if (values[i] != values[half + i]) {
        best_ = {fate::wrong_values, at};
        return;
      }
    }
    if (best_.found == fate::derived || best_.found == fate::proved || best_.found == fate::equal) {
      return;
    }
    const std::vector worlds{g};
    entailment<pcg_algebra> rewrite{algebra(), ours_, {.rounds = 5}};
    entailment<pcg_algebra> prove{algebra(), all_, {.rounds = 4, .joint_rounds = 1}};
    best_ = {rewrite.prove_outputs(std::span{worlds}) ? fate::derived
             : prove.prove_outputs(std::span{worlds}) ? fate::proved
                                                      : fate::equal,
             at};
  }

  theory ours_{};
  theory all_{};
  judgement best_{};
  std::size_t instances_ = 0;
  std::size_t tries_ = 0;
};

}  // namespace

TEST_CASE("FlexFlow's parallel rules are classified as docs/rules.md states", "[shared]") {
  const auto path = unity::test::shared_file("rules/flexflow_graph_subst_3_v2.json");
  if (!path) {
    return;
  }
  const auto rules = io::read_flexflow_rules(*path);
  judge of;
  std::map<fate, std::size_t> counts;
  std::string all;
  for (const auto& rule : rules) {
    if (!io::flexflow_rule_text(rule).outside_because.starts_with("parallelization")) {
      continue;
    }
    const auto j = of(rule);
    ++counts[j.found];
    all += rule.name + ": " + names[static_cast<std::size_t>(j.found)] + ";" + j.because + "\n";
  }
  INFO(all);
  // docs/rules.md states these numbers.
  std::map<std::string, std::size_t> found;
  for (const auto& [f, n] : counts) {
    found[names[static_cast<std::size_t>(f)]] = n;
  }
  CHECK(found == std::map<std::string, std::size_t>{{"derived by rewriting", 201},
                                                      {"proved from axioms", 25},
                                                      {"equal where tested", 67},
                                                      {"other types", 34},
                                                      {"target never fits", 100},
                                                      {"source never fits", 34},
                                                      {"outside", 43}});
}

}  // namespace tests_of_flexflow_parallel_rules
