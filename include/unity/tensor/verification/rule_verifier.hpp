// Decides whether a rule of tensor graphs is true: refuted by shapes and values, proved from axioms, or unknown.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/thread_pool.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/common_subterms.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/derivation.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/rules/comparison.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/verification/rule_worlds.hpp>

namespace unity::tensor {

struct verification_options {
  // Before proving.
  rule_test_options quick{.instances = 8, .attempts = 20000, .varied = 1, .sampled = 200, .points = 1};
  // If there is no proof.
  rule_test_options thorough{.instances = 60, .attempts = 20000, .varied = 6, .sampled = 0, .points = 2};
  world_options worlds{};
  entailment_limits limits{.rounds = 10};
};

// The operands for which a rule was proved: its instances were sampled (world_options), and their variables had these
// ranks and sizes. A proof does not cover other operands.
struct proved_instances {
  std::size_t count = 0;
  std::size_t least_rank = std::numeric_limits<std::size_t>::max();
  std::size_t most_rank = 0;
  std::int64_t least_size = std::numeric_limits<std::int64_t>::max();  // of a dimension
  std::int64_t most_size = 0;

  void add(const rule_instance& i);
  void add(const proved_instances& o);
  // "40 instances of ranks 0 to 4, sizes 1 to 30".
  [[nodiscard]] std::string text() const;
};

// The proof status of a rule, and its justification.
struct rule_proof {
  verdict found = verdict::unknown;
  std::string prover{};               // if proved: name and version
  std::vector<std::string> axioms{};  // if proved: names of the axioms used, ascending
  bool real_only = false;             // some axiom used holds only for reals
  bool inference_only = false;        // some axiom used is safe only for inference
  std::string reason{};               // if refuted or unknown, in a few words
  std::string details{};              // refuted: shapes and values; unknown: an instance without proof
  std::string missing{};              // if unknown: a property from which the rule would follow
  std::size_t cases = 0;              // proved cases
  std::size_t steps = 0;              // the largest number of axiom instances in a case
  proved_instances instances{};       // if proved: the covered instances
};

// `rule` with the status from the proof, or unchanged if it was not proved. A rule is at most as safe as the axioms it
// rests on.
[[nodiscard]] syntax::rule with_proof(syntax::rule rule, const rule_proof& proof);

// Verifies rules one after another. The algebra and the theory must outlive it. Not thread-safe; verifiers of the same
// theory may run in parallel.
template <prover Prover>
class rule_verifier {
 public:
  rule_verifier(const algebra& a, const theory& axioms, Prover prover, verification_options options = {})
      : algebra_{a}, axioms_{axioms}, prover_{std::move(prover)}, options_{options}, ask_{a, axioms, options.limits} {}

  // Throws: unity::error if the rule does not fit the algebra.
  [[nodiscard]] rule_proof verify(const syntax::rule& named) {
    const auto rule = without_part_names(algebra_, named);
    const auto directions = compile_rule(algebra_, rule);
    rule_proof proof;
    if (refutes(directions, options_.quick, proof)) {
      return proof;
    }
    prove(directions.front(), proof);
    if (proof.found == verdict::unknown && !refutes(directions, options_.thorough, proof)) {
      proof.missing = one_line(missing_property(rule));
    }
    return proof;
  }

 private:
  // A property that would prove the rule: the rule without common parts of both sides, as far as tests do not refute
  // that.
  [[nodiscard]] syntax::rule missing_property(const syntax::rule& rule) const {
    return unity::without_common_subterms(algebra_, rule, [&](const syntax::rule& r) {
      const auto found = tested(compile_rule(algebra_, r), options_.quick).found;
      return found != rule_report::verdict::refuted && found != rule_report::verdict::never_fits;
    });
  }
  static std::string one_line(const syntax::rule& rule) {
    auto text = fmt::format("{}{}{}", to_text(rule.source), rule.both_ways ? " == " : " => ", to_text(rule.target));
    for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
      text += fmt::format("{}{}", i == 0 ? " if " : ", ", to_text(rule.conditions[i]));
    }
    return text;
  }
  // A report on a direction that is refuted; otherwise on one whose target never fits, if any.
  [[nodiscard]] rule_report tested(const rule_set& directions, const rule_test_options& options) const {
    rule_report worst{.found = rule_report::verdict::passes};
    for (const auto& s : directions) {
      auto report = test_rule(algebra_, s, options);
      if (report.found == rule_report::verdict::refuted) {
        return report;
      }
      if (report.found == rule_report::verdict::never_fits) {
        worst = std::move(report);
      }
    }
    return worst;
  }
  bool refutes(const rule_set& directions, const rule_test_options& options, rule_proof& proof) const {
    const auto report = tested(directions, options);
    if (report.found == rule_report::verdict::refuted) {
      proof.found = verdict::refuted;
      proof.reason = "the sides differ";
      proof.details = report.because;
    } else if (report.found == rule_report::verdict::never_fits && proof.reason.empty()) {  // others may exist
      proof.reason = "the target fits in no sampled instance";
      proof.details = report.because;
    }
    return proof.found == verdict::refuted;
  }

  void prove(const substitution& s, rule_proof& proof) {
    const auto cases = rule_cases(algebra_, s, options_.worlds);
    grounds_.clear();
    for (const auto& c : cases) {
      const auto most = std::max<std::size_t>(1, options_.worlds.worlds);
      for (std::size_t first = 0; first < c.size(); first += most) {
        if (!prove_worlds(s, c, first, std::min(first + most, c.size()), proof)) {
          return;
        }
      }
      ++proof.cases;
      for (const auto& world : c) {
        proof.instances.add(world.instance);
      }
    }
    if (cases.empty()) {
      proof.reason = proof.reason.empty() ? "no instance with dimensions was found" : proof.reason;
      return;
    }
    proof.reason.clear();
    proof.details.clear();
    confirm(proof);
  }
  // Asks about instances first .. last-1 of a case in one question, or in two if that has no proof: a proof may depend
  // on properties beyond those that define a case.
  bool prove_worlds(const substitution& s, const rule_case& c, std::size_t first, std::size_t last, rule_proof& proof) {
    std::vector<tensor_graph> worlds;
    for (std::size_t k = 0; k < std::max<std::size_t>(1, options_.worlds.worlds); ++k) {
      worlds.push_back(c[first + k % (last - first)].graph);
    }
    const auto found = ask_.prove_outputs(std::span<const tensor_graph>{worlds});
    if (found) {
      proof.steps = std::max(proof.steps, found->steps.size());
      if (std::find(grounds_.begin(), grounds_.end(), found->ground) == grounds_.end()) {
        grounds_.push_back(found->ground);
      }
      return true;
    }
    if (last - first == 1) {
      conclude_at(s, c[first].instance, proof);
      return false;
    }
    const auto middle = first + (last - first) / 2;
    return prove_worlds(s, c, first, middle, proof) && prove_worlds(s, c, middle, last, proof);
  }
  // Tests an instance without proof: tests seldom reach such instances, and the sides may differ there.
  void conclude_at(const substitution& s, const rule_instance& instance, rule_proof& proof) const {
    const auto at = to_string(algebra_, s, instance);
    const auto source = source_graph(algebra_, s, instance);
    const auto target = target_graph(algebra_, s, instance);
    std::optional<std::string> difference;
    if (detail::are_small(*source, *target)) {
      detail::side_comparison sides{algebra_, options_.quick, *source, *target};
      difference = sides.run(s.rule.real_only, options_.quick.seed);
    }
    proof.found = difference ? verdict::refuted : verdict::unknown;
    proof.reason = difference ? "the sides differ" : "no proof was found";
    proof.details = difference ? fmt::format("{}; {}", at, *difference) : fmt::format("for {}", at);
  }
  // The prover confirms the proof; records the axioms that it needed.
  void confirm(rule_proof& proof) const {
    std::set<std::uint32_t> used;
    const auto answers = decide_all(prover_, std::span<const ground_problem>{grounds_});
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].found != verdict::proved) {
        proof.reason = fmt::format("{} does not confirm the proof", prover_.name());
        return;
      }
      for (const auto e : answers[i].used) {
        used.insert(grounds_[i].equalities[e].axiom);
      }
    }
    proof.found = verdict::proved;
    proof.prover = prover_.name();
    for (const auto a : used) {
      const auto& axiom = axioms_.rules()[a];
      proof.axioms.push_back(axiom.name);
      proof.real_only = proof.real_only || axiom.real_only;
      proof.inference_only = proof.inference_only || axiom.safe_for == algebra::inference_use;
    }
    std::sort(proof.axioms.begin(), proof.axioms.end());
    proof.axioms.erase(std::unique(proof.axioms.begin(), proof.axioms.end()), proof.axioms.end());
  }

  const algebra& algebra_;
  const theory& axioms_;
  Prover prover_;
  verification_options options_;
  entailment<algebra> ask_;
  std::vector<ground_problem> grounds_{};  // of the current rule, without duplicates
};

// Verifies all rules in parallel. The result does not depend on the number of threads. `watch(done)` is called
// after each rule, by one thread at a time.
// Throws: unity::error if a rule does not fit the algebra.
template <prover Prover>
[[nodiscard]] std::vector<rule_proof> verify_rules(const algebra& a, const theory& axioms, const Prover& prover,
                                                   std::span<const syntax::rule> rules, std::size_t threads = 1,
                                                   const verification_options& options = {},
                                                   const std::function<void(std::size_t)>& watch = {}) {
  thread_pool pool{threads};
  std::vector<std::unique_ptr<rule_verifier<Prover>>> verifiers(pool.size());
  std::vector<rule_proof> proofs(rules.size());
  std::mutex mutex;
  std::size_t done = 0;
  pool.parallel_for(rules.size(), 1, [&](std::size_t worker, std::size_t begin, std::size_t end) {
    if (!verifiers[worker]) {
      verifiers[worker] = std::make_unique<rule_verifier<Prover>>(a, axioms, prover, options);
    }
    for (auto i = begin; i < end; ++i) {
      proofs[i] = verifiers[worker]->verify(rules[i]);
      const std::lock_guard lock{mutex};
      ++done;
      if (watch) {
        watch(done);
      }
    }
  });
  return proofs;
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_RULE_VERIFIER)

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/graph/concepts.hpp>

namespace unity::tensor {

UNITY_INLINE void proved_instances::add(const rule_instance& i) {
  ++count;
  for (const auto& types : i.values) {
    for (const auto& t : types) {
      least_rank = std::min(least_rank, t.rank());
      most_rank = std::max(most_rank, t.rank());
      for (const auto size : t.dims) {
        least_size = std::min(least_size, size);
        most_size = std::max(most_size, size);
      }
    }
  }
}

UNITY_INLINE void proved_instances::add(const proved_instances& o) {
  count += o.count;
  least_rank = std::min(least_rank, o.least_rank);
  most_rank = std::max(most_rank, o.most_rank);
  least_size = std::min(least_size, o.least_size);
  most_size = std::max(most_size, o.most_size);
}

UNITY_INLINE std::string proved_instances::text() const {
  auto t = fmt::format("{} instances", count);
  t += least_rank <= most_rank ? fmt::format(" of ranks {} to {}", least_rank, most_rank) : "";
  return fmt::format("{}{}", t, least_size <= most_size ? fmt::format(", sizes {} to {}", least_size, most_size) : "");
}

UNITY_INLINE syntax::rule with_proof(syntax::rule rule, const rule_proof& proof) {
  if (proof.found == verdict::proved) {
    rule.known = syntax::standing::proved;
    rule.tested_bits = 0;
    rule.prover = proof.prover;
    rule.axioms = proof.axioms;
    rule.real_only = rule.real_only || proof.real_only;
    rule.safe_for = proof.inference_only ? std::string{algebra::inference_use} : rule.safe_for;
  }
  return rule;
}

}  // namespace unity::tensor

#endif
