// Generates rules: enumerates terms over a list of operators, finds equal ones, drops equalities that follow from
// others, and proves the rest.
//
// run: --ops matrix --max-ops 2 --out {out}/matrix.rules --json {out}/result.json
// run: --parallel --max-ops 2 --out {out}/parallel.rules --json {out}/parallel.json
// run: --shipped standard --out {out}/standard.rules
// run: --derive conv2d:iw,relu:i --max-ops 2 --out {out}/derived.rules
// run: --ops {source}/test/support/small.ops --max-ops 3 --threads 2 --checkpoint {out}/run --out {out}/small.rules

#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/hash.hpp>
#include <unity/io/html_report.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/z3_prover.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/derived_rules.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/generation/generate.hpp>
#include <unity/tensor/generation/rule_derivation.hpp>
#include <unity/tensor/generation/vocabularies.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

#include "support/axioms.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/parallel_generation.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string ops = "tensor";
  std::string shipped{};
  std::string axioms{};
  std::string out{};
  std::string json{};
  std::string report{};
  std::size_t memory_mb = 1024;
  bool parallel = false;
  std::string derive{};
  std::optional<std::size_t> most_operators{};
  tensor::generation_options generation{};
};

const std::map<std::string, std::string_view> vocabularies{{"tensor", tensor::tensor_vocabulary},
                                                           {"taso", tensor::taso_vocabulary},
                                                           {"matrix", tensor::matrix_vocabulary},
                                                           {"image", tensor::image_vocabulary}};

const std::map<std::string, std::string_view> shipped_texts{{"standard", tensor::standard_rules},
                                                            {"generated", tensor::generated_rules},
                                                            {"derived", tensor::derived_rules},
                                                            {"axioms", tensor::standard_axioms},
                                                            {"parallel", parallel::parallel_rules}};

void declare(CLI::App& app, arguments& a) {
  auto& e = a.generation.enumeration;
  app.add_option("--ops", a.ops,
                 "vocabulary: tensor, taso, matrix, image, or a file with operators, parameters and inputs");
  app.add_flag(
         "--parallel", a.parallel,
         "enumerate terms of parallel computation graphs instead and count them; goes with --max-ops, --json, and "
         "--out, which gets the rules for all degrees")
      ->excludes("--ops");
  app.add_option(
         "--shipped", a.shipped,
         "print shipped rules, or write them to --out, and generate nothing: standard, generated, derived, axioms "
         "or parallel")
      ->check(CLI::IsMember({"standard", "generated", "derived", "axioms", "parallel"}))
      ->excludes("--ops")
      ->excludes("--parallel");
  app.add_option("--derive", a.derive,
                 "derive rules of compositions of operators from properties of operators instead: all that ship, or "
                 "operators as KIND:OPERANDS with i for inputs and w for weights, separated by commas; goes with "
                 "--axioms, --out and, for operators, --max-ops")
      ->check(CLI::Validator{[](const std::string& text) { return text.empty() ? std::string{"no operators"} : ""; },
                             "OPERATORS"})
      ->excludes("--ops")
      ->excludes("--parallel")
      ->excludes("--shipped");
  app.add_option("--max-ops", a.most_operators, fmt::format("most operators per side; default: {}", e.most_operators))
      ->check(support::number_in(1, 7));
  app.add_option("--variables", e.variables, "most variables of each sort")->check(support::number_in(1, 8));
  app.add_option("--threads", e.threads, "threads; they do not change the result")->check(support::number_in(1, 1024));
  app.add_option("--memory", a.memory_mb, "megabytes of terms in memory; more go to disk")
      ->check(support::number_in(1, 1 << 20));
  app.add_option("--spill", e.folder, "folder for terms on disk");
  app.add_option("--rewrites", a.generation.collection.most_steps,
                 "drop rules that follow from others in at most this many rewrites")
      ->check(support::number_in(1, 100));
  app.add_option("--axioms", a.axioms, "rule file of axioms, instead of the shipped properties of operators");
  app.add_option("--checkpoint", a.generation.checkpoint, "file to save progress to and to continue from");
  app.add_option("--out", a.out, "rule file to write; unproved rules become comments");
  app.add_option("--json", a.json, "file for the counts as JSON")->excludes("--shipped")->excludes("--derive");
  app.add_option("--report", a.report,
                 "file for an HTML report: what each step leaves, and the rules with their proofs")
      ->excludes("--shipped");
  for (const auto* const name : {"--variables", "--memory", "--spill", "--rewrites", "--checkpoint", "--threads"}) {
    app.get_option(name)->excludes("--shipped")->excludes("--derive")->excludes("--parallel");
  }
  app.get_option("--axioms")->excludes("--shipped")->excludes("--parallel");
  app.get_option("--max-ops")->excludes("--shipped");
}

std::size_t count(const tensor::generation_result& r, verdict v) {
  return static_cast<std::size_t>(
      std::count_if(r.rules.begin(), r.rules.end(), [&](const auto& c) { return c.proof.found == v; }));
}

nlohmann::json listed(const std::vector<tensor::collected_rule>& rules, verdict v) {
  auto all = nlohmann::json::array();
  for (const auto& c : rules) {
    if (c.proof.found == v) {
      all.push_back({{"name", c.rule.name},
                     {"rule", to_text(c.rule)},
                     {"reason", c.proof.reason},
                     {"instance", c.proof.details},
                     {"missing", c.proof.missing}});
    }
  }
  return all;
}

// Proved rules that state a property: nothing else proves them.
std::size_t count_axioms(const tensor::generation_result& r, const support::stated_properties& properties) {
  return static_cast<std::size_t>(std::count_if(r.rules.begin(), r.rules.end(), [&](const auto& c) {
    return c.proof.found == verdict::proved && !properties.find(c.rule).empty();
  }));
}

nlohmann::json to_json(const arguments& a, const tensor::generation_result& r, std::size_t axioms) {
  const auto& c = r.counts;
  return {{"max_ops", a.generation.enumeration.most_operators},
          {"terms", c.terms},
          {"classes", c.classes},
          {"false_matches", c.false_matches},
          {"candidates", c.named},
          {"after_renaming", c.equalities},
          {"after_common_subgraph", r.unexplained},
          {"derived", r.derived},
          {"rules", r.rules.size()},
          {"proved", count(r, verdict::proved)},
          {"are_axioms", axioms},
          {"refuted", r.refused.size()},
          {"unknown", count(r, verdict::unknown)},
          {"refuted_equalities", listed(r.refused, verdict::refuted)},
          {"unproved_equalities", listed(r.refused, verdict::unknown)},
          {"unknown_rules", listed(r.rules, verdict::unknown)},
          {"seconds", {{"enumerate", r.enumerate_s}, {"prune", r.prune_s}, {"verify", r.verify_s}}},
          {"sample_bytes", c.value_bytes},
          {"spilled_runs", c.spilled_runs},
          {"peak_rss_bytes", support::peak_rss_bytes()}};
}

void add_rules(io::html_report& to, const std::vector<tensor::collected_rule>& rules) {
  constexpr auto word = [](verdict v) {
    return v == verdict::proved ? "proved" : v == verdict::refuted ? "refuted" : "unknown";
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& c : rules) {
    const auto& p = c.proof;
    rows.push_back({c.rule.name, to_text(c.rule.source), to_text(c.rule.target), word(p.found),
                    p.found == verdict::proved ? fmt::format("{}", fmt::join(p.axioms, ", "))
                                               : fmt::format("{} {}", p.reason, p.details)});
  }
  to.heading("Rules");
  to.table(
      std::vector<std::string>{"rule", "source", "target", "verdict", "properties that the proof uses, or why not"},
      rows);
}

std::string to_report(const arguments& a, const tensor::generation_result& r) {
  const auto number = [](std::size_t n) { return static_cast<double>(n); };
  io::html_report page{
      fmt::format("Rules of {}, at most {} operators", a.ops, a.generation.enumeration.most_operators)};
  page.heading("What each step leaves");
  page.chart(std::vector<io::chart_bar>{{"terms", number(r.counts.terms)},
                                        {"classes of equal terms", number(r.counts.classes)},
                                        {"equal pairs", number(r.counts.named)},
                                        {"up to renaming", number(r.counts.equalities)},
                                        {"not explained", number(r.unexplained)},
                                        {"rules", number(r.rules.size())},
                                        {"proved", number(count(r, verdict::proved))}},
             "");
  page.heading("Time");
  page.chart(std::vector<io::chart_bar>{{"enumerate", r.enumerate_s}, {"prune", r.prune_s}, {"prove", r.verify_s}},
             "s");
  auto all = r.rules;
  all.insert(all.end(), r.refused.begin(), r.refused.end());
  add_rules(page, all);
  return page.text();
}

std::string commented(const std::string& text) {
  auto all = fmt::format("# {}", text);
  while (!all.empty() && all.back() == '\n') {
    all.pop_back();
  }
  for (auto at = all.find('\n'); at != std::string::npos; at = all.find('\n', at + 1)) {
    all.insert(at + 1, "# ");
  }
  return fmt::format("{}\n", all);
}

std::string to_rule_file(const arguments& a, const tensor::generation_result& r) {
  auto text = fmt::format("# Generated: operators of '{}', at most {} a side, {} variables of a sort.\n", a.ops,
                          a.generation.enumeration.most_operators, a.generation.enumeration.variables);
  for (const auto& c : r.rules) {
    const auto lines = to_text(tensor::with_proof(c.rule, c.proof));
    const bool is_proved = c.proof.found == verdict::proved;
    text += is_proved ? lines : commented(fmt::format("unknown: {}\n{}", c.proof.details, lines));
  }
  return text;
}

void print(const arguments& a, const tensor::generation_result& r, std::size_t axioms) {
  const auto& c = r.counts;
  fmt::print("at most {} operators: {} terms, {} classes, {:.1f} s\n", a.generation.enumeration.most_operators, c.terms,
             c.classes, r.enumerate_s);
  fmt::print("equal pairs: {}, up to renaming {}, not explained by an earlier one {}\n", c.named, c.equalities,
             r.unexplained);
  fmt::print(
      "rules: {}, of them proved by {}: {} ({} are properties themselves), unknown: {}; equalities refuted: {}; {:.1f} "
      "s "
      "and {:.1f} s of proofs\n",
      r.rules.size(), z3_prover{}.name(), count(r, verdict::proved), axioms, count(r, verdict::unknown),
      r.refused.size(), r.prune_s, r.verify_s);
}

void run_parallel(const arguments& a) {
  const parallel::pcg_algebra operators{tensor::training_algebra()};
  const auto found = support::generate_parallel(operators, a.generation.enumeration.most_operators);
  std::vector<support::output> files;
  if (!a.out.empty()) {
    files.push_back({a.out, support::written_parallel_rules(operators)});
  }
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", support::to_json(found).dump(2))});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, support::to_report(found)});
  }
  support::write_all(files);
  support::print(found);
}

// What follows by steps that save something each is not derived again: from enumerated rules, and from those derived
// from the lists before.
void run_derivation(const arguments& a) {
  const auto operators = tensor::standard_algebra();
  const auto properties = support::load_axioms(operators, a.axioms);
  const theory axioms{operators, properties.rules};
  tensor::rule_verifier<z3_prover> verifier{operators, axioms, z3_prover{}};
  auto given = a.derive;
  std::ranges::replace(given, ',', ' ');
  const tensor::composition_list own{"", given, a.generation.enumeration.most_operators};
  const auto lists = a.derive == "all" ? std::vector(tensor::composition_lists.begin(), tensor::composition_lists.end())
                                       : std::vector{own};
  auto known = parse_rules(tensor::generated_rules);
  std::string text;
  std::vector<tensor::collected_rule> derived;
  for (const auto& list : lists) {
    const auto composed = tensor::parse_composed_operators(operators, list.operators);
    tensor::derivation_options options;
    options.most_operators = list.most_operators;
    for (const auto& c : tensor::derive_rules(
             operators, properties.rules, known, composed, [&](const syntax::rule& r) { return verifier.verify(r); },
             options)) {
      text += to_text(tensor::with_proof(c.rule, c.proof));
      known.push_back(c.rule);
      derived.push_back(c);
    }
  }
  std::vector<support::output> files;
  if (!a.out.empty()) {
    files.push_back({a.out, text});
  }
  if (!a.report.empty()) {
    io::html_report page{fmt::format("Rules derived of {}", a.derive)};
    page.paragraph(fmt::format("{} rules, all proved by {}.", derived.size(), z3_prover{}.name()));
    add_rules(page, derived);
    files.push_back({a.report, page.text()});
  }
  support::write_all(files);
  fmt::print("rules: {}, all proved by {}\n", derived.size(), z3_prover{}.name());
}

void print_shipped(const arguments& a) {
  const auto text = shipped_texts.at(a.shipped);
  if (a.out.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    support::write_all({{a.out, std::string{text}}});
  }
}

// Throws: unity::error if another file is that of the terms, which is kept beside the checkpoint.
void expect_own_terms_file(const arguments& a) {
  const auto terms = fmt::format("{}.terms", a.generation.checkpoint);
  for (const auto& [flag, file] : {std::pair{"--out", a.out},
                                   {"--json", a.json},
                                   {"--report", a.report},
                                   {"--ops", a.ops},
                                   {"--axioms", a.axioms}}) {
    if (!a.generation.checkpoint.empty() && support::is_same_file(file, terms)) {
      throw error{flag, fmt::format("{}, which --checkpoint writes, too", file), "a file of its own"};
    }
  }
}

void run(arguments a) {
  expect_own_terms_file(a);
  if (a.derive == "all" && a.most_operators) {
    throw error{"--max-ops", "with --derive all, whose lists have numbers of their own", "operators for --derive"};
  }
  auto& most = a.generation.enumeration.most_operators;
  most = a.most_operators.value_or(most);
  support::expect_writable(a.out);
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  if (!a.shipped.empty()) {
    print_shipped(a);
    return;
  }
  if (a.parallel) {
    run_parallel(a);
    return;
  }
  if (!a.derive.empty()) {
    run_derivation(a);
    return;
  }
  if (const std::filesystem::path spill = a.generation.enumeration.folder; !spill.empty()) {
    if (!std::filesystem::is_directory(spill)) {  // an error now, not when memory is full
      throw error{spill.string(), "is not a folder", "one for terms, which is there"};
    }
    support::expect_writable(spill / "written-here");
  }
  const auto operators = tensor::standard_algebra();
  const auto known = vocabularies.find(a.ops);
  const auto words = known != vocabularies.end() ? std::string{known->second} : read_file(a.ops);
  tensor::term_language language{operators, tensor::parse_vocabulary(operators, words, a.ops)};
  const auto properties = support::load_axioms(operators, a.axioms);
  const theory axioms{operators, properties.rules};
  tensor::rule_verifier<z3_prover> verifier{operators, axioms, z3_prover{}};
  a.generation.enumeration.memory = a.memory_mb << 20U;
  a.generation.identity =
      hash_combine(hash_bytes(words), hash_combine(hash_bytes(properties.text), hash_bytes(z3_prover{}.name())));
  const bool watched = isatty(STDERR_FILENO) != 0;
  const auto show = [&](std::string_view step, std::size_t done, std::size_t of) {
    if (watched) {
      fmt::print(stderr, "\r{}: {} of {}      ", step, done, of);
    }
  };
  const auto result = tensor::generate_rules(
      language, [&](const syntax::rule& r) { return verifier.verify(r); }, a.generation, show);
  if (watched) {
    fmt::print(stderr, "\r{:60}\r", "");
  }
  const auto axiom_count = count_axioms(result, {operators, properties.rules});
  std::vector<support::output> files;
  if (!a.out.empty()) {
    files.push_back({a.out, to_rule_file(a, result)});
  }
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", to_json(a, result, axiom_count).dump(2))});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, result)});
  }
  support::write_all(files);
  print(a, result, axiom_count);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>(
      "generate_rules", "Generates, prunes and proves rules over a list of operators", argc, argv, declare, run);
}
