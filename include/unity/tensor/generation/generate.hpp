// The whole path from a vocabulary to proved rules, in steps from which an interrupted run can resume.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/rule_collection.hpp>

namespace unity::tensor {

struct generation_options {
  enumeration_options enumeration{};
  collection_options collection{};
  std::string checkpoint{};    // checkpoint file, from which the run resumes if it exists; empty: none
  std::uint64_t identity = 0;  // of vocabulary, axioms and prover; a checkpoint of another identity is refused
};

struct generation_result {
  enumeration_counts counts{};
  std::size_t unexplained = 0;  // equalities that no earlier rule explains, including those with several results
  std::size_t derived = 0;      // of these, equalities that follow from rules collected before
  std::vector<collected_rule> rules{};
  std::vector<collected_rule> refused{};
  double enumerate_s = 0;
  double prune_s = 0;  // includes generalizing and testing
  double verify_s = 0;
};

// Reports the current step and its progress.
using generation_watch = std::function<void(std::string_view step, std::size_t done, std::size_t of)>;

namespace detail {

class rule_generation {
 public:
  rule_generation(term_language& language, rule_collection::prover_function prove, const generation_options& options,
                  const generation_watch& watch)
      : options_{options},
        watch_{watch},
        terms_{language, options.enumeration},
        collection_{language, timed(std::move(prove)), options.collection} {}

  generation_result run();

 private:
  using clock = std::chrono::steady_clock;
  static double since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

  [[nodiscard]] rule_collection::prover_function timed(rule_collection::prover_function prove);
  [[nodiscard]] std::string terms_file() const { return fmt::format("{}.terms", options_.checkpoint); }
  [[nodiscard]] std::uint64_t terms_identity() const {
    return hash_combine(hash_combine(options_.identity, options_.enumeration.most_operators),
                        options_.enumeration.variables);
  }
  [[nodiscard]] std::uint64_t rules_identity() const {
    return hash_combine(terms_identity(), options_.collection.most_steps);
  }
  [[nodiscard]] bool kept(const std::string& file) const {
    return !options_.checkpoint.empty() && std::filesystem::exists(file);
  }

  void enumerate();
  void collect();
  void add(std::size_t i);

  const generation_options& options_;
  const generation_watch& watch_;
  generation_result result_;
  enumeration<term_language> terms_;
  rule_collection collection_;
};

}  // namespace detail

// Enumerates, prunes, generalizes and proves. Deterministic except for the times.
// Effects: keeps checkpoints in two files, options.checkpoint and the same name with ".terms".
// Throws: unity::error if a file cannot be written or belongs to another run; earlier checkpoints stay.
[[nodiscard]] inline generation_result generate_rules(
    term_language& language, rule_collection::prover_function prove, const generation_options& options,
    const generation_watch& watch = [](std::string_view, std::size_t, std::size_t) {}) {
  return detail::rule_generation{language, std::move(prove), options, watch}.run();
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_GENERATE)

#include <unity/core/archive.hpp>
#include <unity/rewrite/generation/term_store.hpp>

namespace unity::tensor::detail {

UNITY_INLINE generation_result rule_generation::run() {
  enumerate();
  collect();
  result_.counts = terms_.counts();
  result_.unexplained = terms_.rules().size() + terms_.joint_rules().size();
  result_.derived = collection_.derived();
  result_.rules = collection_.rules();
  result_.refused = collection_.refused();
  return std::move(result_);
}

UNITY_INLINE auto rule_generation::timed(rule_collection::prover_function prove) -> rule_collection::prover_function {
  return [this, prove = std::move(prove)](const syntax::rule& r) {
    const auto start = clock::now();
    auto proof = prove(r);
    result_.verify_s += since(start);
    return proof;
  };
}

UNITY_INLINE void rule_generation::enumerate() {
  const auto start = clock::now();
  if (kept(terms_file())) {
    terms_.resume(terms_file(), terms_identity());
  }
  while (terms_.size() < options_.enumeration.most_operators) {
    watch_("terms of one more operator", terms_.size(), options_.enumeration.most_operators);
    terms_.advance();
    if (!options_.checkpoint.empty()) {
      terms_.save(terms_file(), terms_identity());
    }
  }
  result_.enumerate_s = since(start);
}

UNITY_INLINE void rule_generation::collect() {
  const auto start = clock::now();
  const auto total = terms_.rules().size() + terms_.joint_rules().size();
  std::size_t done = kept(options_.checkpoint) ? collection_.resume(options_.checkpoint, rules_identity()) : 0;
  for (; done < total; ++done) {
    watch_("equalities", done, total);
    if (!options_.checkpoint.empty() && done % 16 == 0) {
      collection_.save(options_.checkpoint, rules_identity(), done);
    }
    add(done);
  }
  if (!options_.checkpoint.empty()) {
    collection_.save(options_.checkpoint, rules_identity(), done);
  }
  collection_.reduce();
  result_.prune_s = since(start) - result_.verify_s;
}

UNITY_INLINE void rule_generation::add(std::size_t i) {
  const auto single = terms_.rules();
  const auto& store = terms_.store();
  if (i < single.size()) {
    collection_.add(write_terms(store, {&single[i].left, 1}, single[i].facts),
                    write_terms(store, {&single[i].right, 1}, single[i].facts));
    return;
  }
  // Reversed: a search needs a rule for joining operators.
  const auto& joint = terms_.joint_rules()[i - single.size()];
  collection_.add(write_terms(store, joint.right, joint.facts), write_terms(store, joint.left, joint.facts));
}

}  // namespace unity::tensor::detail

#endif
