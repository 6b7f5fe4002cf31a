// From equalities of terms to a small set of general rules: what follows from earlier rules is left out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/archive.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/specific_rule.hpp>
#include <unity/tensor/generation/widened_rule.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>
#include <unity/tensor/verification/rule_worlds.hpp>

namespace unity::tensor {

struct collection_options {
  // rewrites by which an equality may follow from others and be left out; chains of such derivations may be longer
  std::size_t most_steps = 3;
  std::size_t sizes_tried = 4;  // interpretations of sizes in attributes to try before an equality is refused
  entailment_limits derivation{.rounds = 4, .joint_rounds = 0, .nodes = 400, .matches = 4000, .extra_operators = 2};
  entailment_limits joint_derivation{
      .rounds = 4, .joint_rounds = 2, .nodes = 400, .matches = 4000, .extra_operators = 2};
  generalize_options general{};
  // for general rules that may follow from others
  world_options worlds{.instances = 12, .attempts = 5000, .varied = 1};
};

// A rule and its proof status.
struct collected_rule {
  syntax::rule rule{};
  rule_proof proof{};
};

// Takes equalities, the more general ones first. Keeps rules with several outputs apart: others imply them only by
// steps that join operators, which no search takes without a rule for them.
class rule_collection {
 public:
  // prove(rule): its proof status. Of the rules that may generalize an equality, the collection prefers a proved one to
  // a more general unproved one.
  using prover_function = std::function<rule_proof(const syntax::rule&)>;

  rule_collection(term_language& language, prover_function prove, collection_options options = {})
      : language_{language},
        prove_{std::move(prove)},
        options_{std::move(options)},
        ask_{language.operators(), single_, options.derivation},
        ask_joint_{language.operators(), joint_, options.joint_derivation} {}

  // Adds left == right, or => if only that direction is valid, unless it follows from the rules added before.
  void add(const written_side& left, const written_side& right);
  // Effects: drops rules that follow from more general ones. Rules with repeated variables are small, so they are found
  // early, but they are instances of later rules. Also drops redundant directions.
  void reduce();

  // Effects: writes the collection and the number of added equalities to a file. `of` identifies language and options.
  // Throws: unity::error if the file cannot be written; an earlier file stays.
  void save(const std::string& path, std::uint64_t of, std::size_t added) const;
  // Returns the number of added equalities. Precondition: none was added yet.
  // Throws: unity::error if the file is invalid or belongs to another language.
  [[nodiscard]] std::size_t resume(const std::string& path, std::uint64_t of);

  [[nodiscard]] std::size_t derived() const noexcept { return derived_; }
  // Equalities that hold at the sizes where they were found, but for which no rule passes the tests. The proof states
  // where the rule that fixes the most of those sizes fails.
  [[nodiscard]] const std::vector<collected_rule>& refused() const noexcept { return refused_; }
  [[nodiscard]] const std::vector<collected_rule>& rules() const noexcept { return rules_; }

 private:
  static constexpr auto magic = "unity rules 1\n";

  [[nodiscard]] bool follows(const written_side& left, const written_side& right);
  // The rule at several sizes; one question for every way in which it can broadcast.
  [[nodiscard]] std::vector<std::vector<tensor_graph>> questions(const syntax::rule& r) const;
  // Rules that have the equality as an instance: the most general proved ones, with the equality itself as last resort;
  // if none is proved, those that pass all tests.
  [[nodiscard]] std::vector<collected_rule> generalized(const written_side& left, const written_side& right);
  [[nodiscard]] static bool all_proved(const std::vector<collected_rule>& rules) {
    return !rules.empty() &&
           std::all_of(rules.begin(), rules.end(), [](const auto& r) { return r.proof.found == verdict::proved; });
  }
  // The proof status of the rules; empty if one of them is false.
  [[nodiscard]] std::vector<collected_rule> judged(const std::vector<syntax::rule>& rules) const;
  // Whether the right side can be a source: it has all variables, and no root is a lone variable.
  [[nodiscard]] static bool reads_back(const written_side& left, const written_side& right);
  void accept(collected_rule r);
  // Named after the operators of the source, outer ones first: concat_of_relu, relu_and_relu.
  [[nodiscard]] std::string named(const syntax::rule& r);

  term_language& language_;
  prover_function prove_;
  collection_options options_;
  theory single_{{.reading = theory_reading::rewrites}};
  theory joint_{{.reading = theory_reading::rewrites}};
  entailment<algebra> ask_;
  entailment<algebra> ask_joint_;
  std::vector<collected_rule> rules_;
  std::set<std::string> texts_;
  std::map<std::string, std::size_t> names_;
  std::vector<collected_rule> refused_;
  std::size_t derived_ = 0;
};

namespace detail {

// How special a rule is: the number of repeated variables, then its size.
[[nodiscard]] std::pair<std::size_t, rule_size> specialty(const syntax::rule& r);

}  // namespace detail

namespace detail {

inline void put_text(archive_writer& out, const std::string& text) {
  out.put(std::vector<char>{text.begin(), text.end()});
}
[[nodiscard]] std::string get_text(archive_reader& in);
void put_rules(archive_writer& out, const std::vector<collected_rule>& rules);
[[nodiscard]] std::vector<collected_rule> get_rules(archive_reader& in, const std::string& path);

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_RULE_COLLECTION)

#include <iterator>
#include <numeric>
#include <optional>
#include <span>

#include <fmt/core.h>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/generation/generalize.hpp>
#include <unity/tensor/generation/rule_question.hpp>

namespace unity::tensor {

UNITY_INLINE void rule_collection::add(const written_side& left, const written_side& right) {
  if (follows(left, right)) {
    ++derived_;
    return;
  }
  for (auto& r : generalized(left, right)) {
    accept(std::move(r));
  }
}

UNITY_INLINE bool rule_collection::follows(const written_side& left, const written_side& right) {
  const auto worlds = rule_question(language_, left, right);
  const auto rewritten = [&](bool back) {
    const auto found =
        (left.size() > 1 ? ask_joint_ : ask_).rewrite_outputs(std::span<const tensor_graph>{worlds}, back);
    return found && (found->steps.size() <= options_.most_steps ||
                     without_needless_steps(*found).steps.size() <= options_.most_steps);
  };
  return rewritten(false) && (!reads_back(left, right) || rewritten(true));
}

UNITY_INLINE std::vector<collected_rule> rule_collection::generalized(const written_side& left,
                                                                      const written_side& right) {
  std::vector<collected_rule> best;
  std::optional<syntax::rule> failed;
  for (std::size_t attempt = 0; attempt < options_.sizes_tried && best.empty(); ++attempt) {
    auto specific = specific_rule(language_, left, right, attempt);
    if (!specific) {
      break;
    }
    specific->both_ways = reads_back(left, right);
    for (const auto wanted : {generality::most, generality::related, generality::ranked}) {
      auto general = options_.general;
      general.wanted = wanted;
      auto found = judged(generalize(language_.operators(), *specific, general));
      if (!found.empty() && (best.empty() || all_proved(found))) {
        best = std::move(found);
      }
      if (all_proved(best)) {
        return best;
      }
    }
    specific->both_ways = false;
    const auto as_found = canonical_rule(language_.operators(), *specific, usual_attribute_names());
    if (auto found = judged({as_found}); all_proved(found)) {
      return found;
    }
    failed = *std::move(specific);
  }
  if (best.empty() && failed) {
    refused_.push_back({*failed, prove_(*failed)});
  }
  return best;
}

UNITY_INLINE std::vector<collected_rule> rule_collection::judged(const std::vector<syntax::rule>& rules) const {
  std::vector<collected_rule> all;
  for (const auto& r : rules) {
    all.push_back({r, prove_(r)});
    if (all.back().proof.found == verdict::refuted) {
      return {};
    }
  }
  return all;
}

UNITY_INLINE bool rule_collection::reads_back(const written_side& left, const written_side& right) {
  const auto variables = [](const written_side& side) {
    std::set<std::pair<std::uint16_t, std::uint16_t>> all;
    for (const auto& t : side) {
      for (const auto& n : t) {
        if (n.op == term_node::variable) {
          all.emplace(n.sort, n.number);
        }
      }
    }
    return all;
  };
  return variables(left) == variables(right) &&
         std::none_of(right.begin(), right.end(), [](const auto& t) { return t.back().op == term_node::variable; });
}

UNITY_INLINE void rule_collection::accept(collected_rule r) {
  r.rule = with_proof(std::move(r.rule), r.proof);  // as in a checkpoint, so that resumed runs compare the same texts
  if (!texts_.insert(statement_text(r.rule)).second) {
    return;
  }
  r.rule.name = named(r.rule);
  (r.rule.source.size() > 1 ? joint_ : single_).add(language_.operators(), r.rule);
  rules_.push_back(std::move(r));
}

UNITY_INLINE std::string rule_collection::named(const syntax::rule& r) {
  std::string name;
  for (const auto& t : r.source) {
    name += fmt::format("{}{}", name.empty() ? "" : "_and_", t.name);
  }
  std::string inner;
  for (const auto& o : r.source[0].operands) {
    const bool new_one = o.kind == syntax::term::form::application && inner.find(o.name) == std::string::npos;
    inner += new_one ? fmt::format("{}{}", inner.empty() ? "_of_" : "_", o.name) : "";
  }
  name += r.source.size() == 1 ? inner : "";
  const auto number = ++names_[name];
  return number == 1 ? name : fmt::format("{}_{}", name, number);
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE std::pair<std::size_t, rule_size> specialty(const syntax::rule& r) {
  std::map<std::string, std::size_t> seen;
  std::size_t repeats = 0;
  const auto count = [&](const auto& self, const syntax::term& t) -> void {
    if (t.kind != syntax::term::form::application) {
      repeats += seen[t.name]++ > 0 ? 1U : 0U;
    }
    for (const auto& o : t.operands) {
      self(self, o);
    }
  };
  for (const auto* side : {&r.source, &r.target}) {
    seen.clear();
    for (const auto& t : *side) {
      count(count, t);
    }
  }
  return {repeats, unity::size_of(r)};
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE void rule_collection::reduce() {
  const auto count = rules_.size();
  std::vector<collected_rule> kept;
  for (const bool joint : {false, true}) {
    std::vector<collected_rule> some;
    std::copy_if(rules_.begin(), rules_.end(), std::back_inserter(some),
                 [&](const collected_rule& r) { return (r.rule.source.size() > 1) == joint; });
    std::vector<std::size_t> order(some.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto x = detail::specialty(some[a].rule);
      const auto y = detail::specialty(some[b].rule);
      return x != y ? x < y : a < b;
    });
    std::vector<syntax::rule> ordered;
    for (const auto i : order) {
      ordered.push_back(some[i].rule);
    }
    const auto pruned = prune_derivable(language_.operators(), std::span<const syntax::rule>{ordered},
                                        [&](std::size_t i) { return questions(ordered[i]); },
                                        {options_.most_steps, joint ? options_.joint_derivation : options_.derivation});
    std::vector<std::size_t> places;
    for (const auto i : pruned.kept) {
      places.push_back(order[i]);
    }
    std::sort(places.begin(), places.end());
    for (const auto i : places) {
      if (auto useful = without_repeating(some[i].rule)) {
        kept.push_back({*std::move(useful), std::move(some[i].proof)});
      }
    }
  }
  derived_ += count - kept.size();
  rules_ = std::move(kept);
}

UNITY_INLINE std::vector<std::vector<tensor_graph>> rule_collection::questions(const syntax::rule& r) const {
  std::vector<std::vector<tensor_graph>> all;
  for (const auto& c :
       rule_cases(language_.operators(), compile_rule(language_.operators(), r).front(), options_.worlds)) {
    auto& worlds = all.emplace_back();
    for (std::size_t k = 0; k < std::min(c.size(), options_.worlds.worlds); ++k) {
      worlds.push_back(c[k].graph);
    }
  }
  return all;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE std::string get_text(archive_reader& in) {
  std::vector<char> text;
  in.get(text);
  return {text.begin(), text.end()};
}

UNITY_INLINE void put_rules(archive_writer& out, const std::vector<collected_rule>& rules) {
  out.put(static_cast<std::uint64_t>(rules.size()));
  for (const auto& r : rules) {
    put_text(out, to_text(with_proof(r.rule, r.proof)));
    out.put(r.proof.found);
    put_text(out, r.proof.reason);
    put_text(out, r.proof.details);
    put_text(out, r.proof.missing);
  }
}

UNITY_INLINE std::vector<collected_rule> get_rules(archive_reader& in, const std::string& path) {
  std::vector<collected_rule> rules;
  std::uint64_t count = 0;
  for (in.get(count); count > 0; --count) {
    auto& r = rules.emplace_back();
    auto parsed = parse_rules(get_text(in), path);
    std::uint8_t found = 0;
    in.get(found);
    if (parsed.size() != 1 || found > static_cast<std::uint8_t>(verdict::unknown)) {
      in.fail("a record other than a rule and its verdict");
    }
    r.rule = std::move(parsed[0]);
    r.proof.found = static_cast<verdict>(found);
    r.proof.reason = get_text(in);
    r.proof.details = get_text(in);
    r.proof.missing = get_text(in);
    r.proof.prover = r.rule.prover;
    r.proof.axioms = r.rule.axioms;
    r.proof.real_only = r.rule.real_only;
    r.proof.inference_only = r.rule.safe_for == algebra::inference_use;
  }
  return rules;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE void rule_collection::save(const std::string& path, std::uint64_t of, std::size_t added) const {
  archive_writer out;
  out.put(of);
  out.put(static_cast<std::uint64_t>(added));
  out.put(static_cast<std::uint64_t>(derived_));
  detail::put_rules(out, rules_);
  detail::put_rules(out, refused_);
  out.save(path, magic);
}

UNITY_INLINE std::size_t rule_collection::resume(const std::string& path, std::uint64_t of) {
  archive_reader in{path, magic};
  std::uint64_t found = 0;
  in.get(found);
  if (found != of) {
    in.fail("rules of other operators or options");
  }
  std::uint64_t added = 0;
  std::uint64_t derived = 0;
  in.get(added);
  in.get(derived);
  for (auto& r : detail::get_rules(in, path)) {
    try {
      static_cast<void>(compile_rule(language_.operators(), r.rule));
    } catch (const error& e) {
      in.fail(fmt::format("a rule that does not hold in both directions ({})", e.what()));
    }
    accept(std::move(r));
  }
  refused_ = detail::get_rules(in, path);
  derived_ = derived;
  return added;
}

}  // namespace unity::tensor

#endif
