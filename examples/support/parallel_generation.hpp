// Enumerates and prunes rules between parallel computation graphs, and makes the sources of the shipped rules.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/io/html_report.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/dividing_rules.hpp>
#include <unity/parallel/rules/operator_forms.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/parallel/rules/rule_terms.hpp>
#include <unity/parallel/rules/term_enumeration.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/shape.hpp>

namespace support {

// The result of pruning the equal terms of one vocabulary.
struct vocabulary_counts {
  std::string name{};
  std::size_t terms = 0;  // that have types
  std::size_t classes = 0;
  std::size_t candidates = 0;
  std::size_t parallel = 0;      // of these, with parallelization operators
  std::size_t kept = 0;          // of these, that do not follow from those kept before
  std::size_t not_followed = 0;  // of these, that do not follow from the shipped rules and properties of operators
};

struct parallel_generation {
  std::vector<vocabulary_counts> vocabularies{};
  std::vector<unity::syntax::rule> least{};  // of all kept rules: those that do not follow from simpler ones
};

namespace detail {

using unity::parallel::pcg;

// A candidate with both sides on the same sources.
struct parallel_candidate {
  unity::syntax::rule rule{};
  pcg sides{};
};

inline bool is_parallel(const unity::syntax::term& t) {
  const auto& names = unity::parallel::parallel_names;
  return std::find(names.begin(), names.end(), t.name) != names.end() ||
         std::any_of(t.operands.begin(), t.operands.end(), is_parallel);
}

class candidate_writer {
 public:
  candidate_writer(const unity::parallel::pcg_algebra& a, const unity::parallel::pcg_vocabulary& l,
                   const unity::parallel::term_enumeration& e)
      : algebra_{a}, vocabulary_{l}, terms_{e} {}

  [[nodiscard]] std::vector<parallel_candidate> run() const {
    std::vector<parallel_candidate> all;
    for (const auto& [kept, term] : terms_.pairs()) {
      unity::syntax::rule r;
      r.name = fmt::format("{}{}", vocabulary_.name, all.size());
      r.source = {terms_.written(term)};
      r.target = {terms_.written(terms_.kept()[kept])};
      if (r.source[0].kind == unity::syntax::term::form::application) {
        all.push_back({std::move(r), sides(term, terms_.kept()[kept])});
      }
    }
    return all;
  }

 private:
  void note(const unity::parallel::enumerated_term& t, std::vector<bool>& used) const {
    if (t.op >= vocabulary_.operators.size()) {
      used[t.op - vocabulary_.operators.size()] = true;
    }
    for (const auto o : t.operands) {
      note(terms_.kept()[o], used);
    }
  }
  [[nodiscard]] pcg sides(const unity::parallel::enumerated_term& left,
                          const unity::parallel::enumerated_term& right) const {
    using namespace unity;
    std::vector<bool> used(vocabulary_.variables.size());
    note(left, used);
    note(right, used);
    parallel::pcg_writer w{algebra_};
    std::vector<value_id> variables(used.size());
    for (std::size_t i = 0; i < used.size(); ++i) {
      const auto& t = vocabulary_.variables[i].global;
      if (used[i]) {
        const auto n = w.add(
            algebra_.operators().make_operation(
                "input", {{"name", fmt::format("x{}", i)}, {"element", tensor::name_of(t.element)}, {"dims", t.dims}}),
            {});
        variables[i] = w.graph().results(n)[0];
      }
    }
    const std::array<value_id, 2> outputs{terms_.write(w, variables, left), terms_.write(w, variables, right)};
    return std::move(w).finish(outputs);
  }

  const unity::parallel::pcg_algebra& algebra_;
  const unity::parallel::pcg_vocabulary& vocabulary_;
  const unity::parallel::term_enumeration& terms_;
};

// The shipped rules at degree 2, for two dimensions.
inline std::vector<unity::syntax::rule> shipped_instances() {
  constexpr std::array<std::int64_t, 1> halves{2};
  std::vector<unity::syntax::rule> all;
  for (const auto& r : unity::parse_rules(std::string{unity::parallel::parallel_rules}, "shipped parallel rules")) {
    for (auto& i : unity::parallel::with_all_values(r, halves, 2)) {
      all.push_back(std::move(i));
    }
  }
  return all;
}

inline unity::pruned_rules pruned(const unity::parallel::pcg_algebra& a, const std::vector<parallel_candidate>& all) {
  std::vector<unity::syntax::rule> rules;
  for (const auto& c : all) {
    rules.push_back(c.rule);
  }
  return unity::prune_derivable(a, std::span<const unity::syntax::rule>{rules},
                                [&](std::size_t i) { return std::vector<std::vector<pcg>>{{all[i].sides}}; });
}

}  // namespace detail

// For terms of up to this number of operators, in each standard vocabulary. Source: Unity (OSDI 2022), section 4.
inline parallel_generation generate_parallel(const unity::parallel::pcg_algebra& a, std::size_t most_operators) {
  using namespace unity;
  const auto instances = detail::shipped_instances();
  theory rewrites{{.reading = theory_reading::rewrites}};
  theory equations{{.reading = theory_reading::equations}};
  for (const auto& r : instances) {
    rewrites.add(a, r);
    equations.add(a, r);
  }
  for (const auto& r : parse_rules(std::string{tensor::standard_axioms}, "shipped axioms")) {
    equations.add(a, r);
  }
  entailment<parallel::pcg_algebra> derive{a, rewrites};
  entailment<parallel::pcg_algebra> prove{a, equations, {.rounds = 4, .joint_rounds = 0}};
  parallel_generation g;
  std::vector<detail::parallel_candidate> kept;
  for (const auto& l : parallel::standard_vocabularies(a)) {
    const parallel::term_enumeration e{a, l, most_operators};
    const auto all = detail::candidate_writer{a, l, e}.run();
    const auto is_parallel = [](const auto& c) {
      return detail::is_parallel(c.rule.source[0]) || detail::is_parallel(c.rule.target[0]);
    };
    vocabulary_counts n{l.name,
                        e.terms(),
                        e.kept().size(),
                        e.pairs().size(),
                        static_cast<std::size_t>(std::count_if(all.begin(), all.end(), is_parallel)),
                        0,
                        0};
    for (const auto i : detail::pruned(a, all).kept) {
      if (is_parallel(all[i])) {
        ++n.kept;
        const std::vector<parallel::pcg> question{all[i].sides};
        n.not_followed +=
            !derive.rewrite_outputs(std::span{question}) && !prove.prove_outputs(std::span{question}) ? 1 : 0;
        kept.push_back(all[i]);
      }
    }
    g.vocabularies.push_back(std::move(n));
  }
  std::sort(kept.begin(), kept.end(), [](const auto& x, const auto& y) {
    const auto simpler = size_of(x.rule) <=> size_of(y.rule);
    return simpler != 0 ? simpler < 0 : x.rule.name < y.rule.name;
  });
  for (const auto i : detail::pruned(a, kept).kept) {
    g.least.push_back(kept[i].rule);
  }
  return g;
}

// The text of sections 1 and 2 of the parallel rules.
inline std::string written_parallel_rules(const unity::parallel::pcg_algebra& a) {
  using namespace unity;
  std::string text = "# 1. Chains: what undoes each other, what is one, and what can change places.\n";
  for (const auto& r : parallel::chain_rules()) {
    text += to_text(r);
  }
  text += "\n# 2. Operators, divided along each axis of their grids.\n";
  for (const auto& form : parallel::standard_forms(a.operators())) {
    for (const auto& r : parallel::dividing_rules(a, form)) {
      text += to_text(r);
    }
  }
  return text;
}

inline nlohmann::json to_json(const parallel_generation& g) {
  auto vocabularies = nlohmann::json::array();
  for (const auto& n : g.vocabularies) {
    vocabularies.push_back({{"name", n.name},
                            {"terms", n.terms},
                            {"classes", n.classes},
                            {"candidates", n.candidates},
                            {"parallel_candidates", n.parallel},
                            {"kept", n.kept},
                            {"not_followed", n.not_followed}});
  }
  auto least = nlohmann::json::array();
  for (const auto& r : g.least) {
    least.push_back(fmt::format("{} = {}", unity::to_text(r.source), unity::to_text(r.target)));
  }
  return {{"vocabularies", vocabularies}, {"least", least}};
}

inline std::string to_report(const parallel_generation& g) {
  unity::io::html_report page{"Rules between parallel computation graphs"};
  std::vector<unity::io::chart_bar> terms;
  std::vector<std::vector<std::string>> rows;
  for (const auto& n : g.vocabularies) {
    terms.push_back({n.name, static_cast<double>(n.terms)});
    std::vector<std::string> row{n.name};
    for (const auto x : {n.terms, n.classes, n.candidates, n.parallel, n.kept, n.not_followed}) {
      row.push_back(std::to_string(x));
    }
    rows.push_back(std::move(row));
  }
  page.heading("Terms by vocabulary");
  page.chart(terms, "terms");
  page.table(std::vector<std::string>{"vocabulary", "terms", "classes", "candidates", "parallel", "kept",
                                      "not of the shipped rules"},
             rows);
  page.heading("Rules that do not follow from simpler ones");
  rows.clear();
  for (const auto& r : g.least) {
    rows.push_back({unity::to_text(r.source), unity::to_text(r.target)});
  }
  page.table(std::vector<std::string>{"source", "target"}, rows);
  return page.text();
}

inline void print(const parallel_generation& g) {
  fmt::print("{:<12} {:>8} {:>8} {:>10} {:>9} {:>6} {:>28}\n", "vocabulary", "terms", "classes", "candidates",
             "parallel", "kept", "not of the shipped rules");
  vocabulary_counts sum{"all", 0, 0, 0, 0, 0, 0};
  const auto line = [](const vocabulary_counts& n) {
    fmt::print("{:<12} {:8} {:8} {:10} {:9} {:6} {:28}\n", n.name, n.terms, n.classes, n.candidates, n.parallel, n.kept,
               n.not_followed);
  };
  for (const auto& n : g.vocabularies) {
    line(n);
    sum = {"all",
           sum.terms + n.terms,
           sum.classes + n.classes,
           sum.candidates + n.candidates,
           sum.parallel + n.parallel,
           sum.kept + n.kept,
           sum.not_followed + n.not_followed};
  }
  line(sum);
  fmt::print("of those kept, {} do not follow from simpler ones\n", g.least.size());
}

}  // namespace support
