// The whole way from a vocabulary to proved rules, in steps that a stopped run can go on from.
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
  std::string checkpoint{};    // file to keep what was done in, and to go on from where it is there; empty: none
  std::uint64_t identity = 0;  // of vocabulary, axioms and prover: a checkpoint of others is refused
};

struct generation_result {
  enumeration_counts counts{};
  std::size_t unexplained = 0;  // equalities that no rule found before explains, those of several results among them
  std::size_t derived = 0;      // of them, equalities that follow from rules that were collected before
  std::vector<collected_rule> rules{};
  std::vector<collected_rule> refused{};
  double enumerate_s = 0;
  double prune_s = 0;  // generalizing and testing included
  double verify_s = 0;
};

// What is being done, and how far it is.
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

// Enumerates, prunes, generalizes and proves. Deterministic but for the times.
// Effects: keeps checkpoints in two files, options.checkpoint and the same with ".terms".
// Throws: unity::error where a file cannot be written or is none of this run; what was kept before stays.
[[nodiscard]] inline generation_result generate_rules(
    term_language& language, rule_collection::prover_function prove, const generation_options& options,
    const generation_watch& watch = [](std::string_view, std::size_t, std::size_t) {}) {
  return detail::rule_generation{language, std::move(prove), options, watch}.run();
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_GENERATE)

#include <unity/core/archive.hpp>
#include <unity/rewrite/generation/written.hpp>

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
  // The other way round: it is joining that a search needs a rule for.
  const auto& joint = terms_.joint_rules()[i - single.size()];
  collection_.add(write_terms(store, joint.right, joint.facts), write_terms(store, joint.left, joint.facts));
}

}  // namespace unity::tensor::detail

#endif
