// Verifies the rules of a file: each is proved from axioms, refuted by shapes and values, or neither.
//
// run: {source}/test/support/verify_me.rules --out {out}/verified.rules --json {out}/result.json
// run: {source}/test/support/verify_me.rules --threads 2

#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <range/v3/view/enumerate.hpp>
#include <range/v3/view/zip.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/flexflow_rules.hpp>
#include <unity/io/foreign_rule.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/rule_text.hpp>
#include <unity/io/taso_rules.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/z3_prover.hpp>
#include <unity/tensor/verification/axiom_checks.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

#include "support/axioms.hpp"
#include "support/choice.hpp"
#include "support/largest_bars.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string file{};
  std::string axioms{};
  std::string out{};
  std::string json{};
  std::string report{};
  bool check_axioms = false;
  io::group_reading groups = io::group_reading::implied;
  std::size_t threads = 1;
};

const std::map<std::string, io::group_reading> group_readings{{"implied", io::group_reading::implied},
                                                              {"one", io::group_reading::one}};

void declare(CLI::App& app, arguments& a) {
  app.add_option("FILE", a.file, "a .rules file, TASO's .pb or FlexFlow's .json")->required();
  app.add_option("--axioms", a.axioms, "rule file of axioms, instead of the shipped properties of operators");
  app.add_flag("--check-axioms", a.check_axioms,
               "also look for axioms that contradict each other (then nothing is proved) or follow from the others");
  support::add_choice(app, "--groups", a.groups, group_readings,
                      "groups of a convolution in a .pb file: implied by its channels, as TASO reads it, or one");
  app.add_option("--threads", a.threads, "threads; they do not change the result")->check(support::number_in(1, 1024));
  app.add_option("--out", a.out, "file for the same rules with their verdicts");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: verdicts, and the properties that proofs use");
  app.parse_complete_callback([&app, &a] {
    if (app.count("--groups") > 0 && std::filesystem::path{a.file}.extension() != ".pb") {
      throw CLI::ValidationError{"--groups", "has an effect with a .pb file alone"};
    }
  });
}

// A rule of the file, and the result for it.
struct entry {
  std::string name{};
  std::string identity{};  // the same for rules that differ in names alone
  std::optional<syntax::rule> rule{};
  std::string outside_because{};  // why a valid entry of the file is not a rule here
  std::optional<std::size_t> duplicate_of{};
  tensor::rule_proof proof{};
  std::string axiom{};  // the property that equals it up to names and direction; its proof is from itself then

  [[nodiscard]] bool outside() const { return !outside_because.empty(); }
  [[nodiscard]] bool is(verdict v) const { return !outside() && proof.found == v; }
  [[nodiscard]] bool is_axiom() const { return is(verdict::proved) && !axiom.empty(); }
};

entry to_entry(const io::foreign_rule& foreign, const io::converted_rule& converted, io::rule_names& names) {
  entry e;
  e.name = foreign.name;
  e.identity = io::identity_text(foreign);
  if (const auto unbound = io::unbound_input(foreign)) {
    e.proof.found = verdict::refuted;
    e.proof.reason = "unbound input";
    e.proof.details = fmt::format("the target reads {}, and nothing in the source says what it is", *unbound);
  } else if (converted) {
    e.rule = parse_rules(converted.text, converted.name).at(0);
    e.rule->name = names.next(e.rule->name);
  } else {
    e.outside_because = converted.outside_because;
  }
  return e;
}

// Throws: unity::error if the file cannot be read, or a rule of it does not fit the operators.
std::vector<entry> load(const tensor::algebra& operators, const arguments& a) {
  std::vector<entry> all;
  io::rule_names names;
  const auto kind = std::filesystem::path{a.file}.extension().string();
  if (kind == ".pb") {
    for (const auto& r : io::read_taso_rules(a.file)) {
      all.push_back(to_entry(r, io::to_rule_text(r, a.groups), names));
    }
  } else if (kind == ".json") {
    for (const auto& r : io::read_flexflow_rules(a.file)) {
      all.push_back(to_entry(r, io::flexflow_rule_text(r), names));
    }
  } else {
    for (auto& r : parse_rules(read_file(a.file), a.file)) {
      all.push_back({r.name, statement_text(canonical_rule(operators, r)), r, {}, {}, {}});
    }
  }
  for (const auto& e : all) {
    if (e.rule) {
      static_cast<void>(compile_rule(operators, *e.rule));
    }
  }
  return all;
}

// Rules that differ in names alone are verified once.
void find_duplicates(std::vector<entry>& all) {
  std::map<std::string, std::size_t> first;
  for (auto&& [i, e] : ranges::views::enumerate(all)) {
    const auto place = first.emplace(e.identity, i).first;
    e.duplicate_of = place->second == i ? std::nullopt : std::optional{place->second};
  }
}

// A property that is used as a rule is not proved from itself.
void find_axioms(const tensor::algebra& operators, const theory& axioms, std::vector<entry>& all) {
  const support::stated_properties stated{operators, axioms.rules()};
  for (auto& e : all) {
    e.axiom = e.rule ? stated.find(*e.rule) : std::string{};
  }
}

void verify(const tensor::algebra& operators, const theory& axioms, const arguments& a, std::vector<entry>& all) {
  std::vector<entry*> which;
  std::vector<syntax::rule> rules;
  for (auto& e : all) {
    if (e.rule && !e.duplicate_of) {
      which.push_back(&e);
      rules.push_back(*e.rule);
    }
  }
  const bool watched = isatty(STDERR_FILENO) != 0;
  const auto show = [&](std::size_t done) {
    if (watched) {
      fmt::print(stderr, "\r{} of {} rules ", done, rules.size());
    }
  };
  const auto proofs = tensor::verify_rules(operators, axioms, z3_prover{}, rules, a.threads, {}, show);
  if (watched) {
    fmt::print(stderr, "\r{:40}\r", "");
  }
  for (const auto& [e, proof] : ranges::views::zip(which, proofs)) {
    e->proof = proof;
  }
  for (auto& e : all) {
    if (e.duplicate_of && e.rule) {
      e.proof = all[*e.duplicate_of].proof;
    }
  }
}

struct result {
  std::vector<entry> rules{};
  std::size_t axioms = 0;
  double seconds = 0;

  [[nodiscard]] std::size_t count(verdict v) const {
    return static_cast<std::size_t>(std::count_if(rules.begin(), rules.end(), [&](const auto& e) { return e.is(v); }));
  }
  [[nodiscard]] std::size_t axiom_count() const {
    return static_cast<std::size_t>(
        std::count_if(rules.begin(), rules.end(), [](const auto& e) { return e.is_axiom(); }));
  }
  // The instances for which the rule was proved.
  [[nodiscard]] tensor::proved_instances instances() const {
    tensor::proved_instances all;
    for (const auto& e : rules) {
      if (e.is(verdict::proved) && !e.is_axiom() && !e.duplicate_of) {
        all.add(e.proof.instances);
      }
    }
    return all;
  }
};

nlohmann::json to_json(const result& r) {
  auto refuted = nlohmann::json::array();
  auto unknown = nlohmann::json::array();
  auto outside = nlohmann::json::array();
  auto duplicates = nlohmann::json::array();
  auto proofs = nlohmann::json::array();
  for (const auto& e : r.rules) {
    if (e.is(verdict::refuted)) {
      refuted.push_back({{"name", e.name}, {"reason", e.proof.reason}, {"counterexample", e.proof.details}});
    } else if (e.is(verdict::proved)) {
      const auto& i = e.proof.instances;
      proofs.push_back(
          {{"name", e.name}, {"axioms", e.proof.axioms}, {"steps", e.proof.steps}, {"instances", i.count}});
      if (i.least_rank <= i.most_rank) {
        proofs.back()["ranks"] = {i.least_rank, i.most_rank};
      }
      if (i.least_size <= i.most_size) {
        proofs.back()["sizes"] = {i.least_size, i.most_size};
      }
      if (e.is_axiom()) {
        proofs.back()["is_axiom"] = e.axiom;
      }
    } else if (e.outside()) {
      outside.push_back({{"name", e.name}, {"reason", e.outside_because}});
    } else {
      unknown.push_back(
          {{"name", e.name}, {"reason", e.proof.reason}, {"instance", e.proof.details}, {"missing", e.proof.missing}});
    }
    if (e.duplicate_of) {
      duplicates.push_back({{"name", e.name}, {"of", r.rules[*e.duplicate_of].name}});
    }
  }
  return {{"rules", r.rules.size()},
          {"proved", r.count(verdict::proved) - r.axiom_count()},
          {"are_axioms", r.axiom_count()},
          {"refuted", refuted},
          {"unknown", unknown},
          {"outside", outside},
          {"duplicates", duplicates},
          {"proofs", proofs},
          {"prover", z3_prover{}.name()},
          {"axioms", r.axioms},
          {"seconds", r.seconds}};
}

// For names and findings, which quote the file and so may contain line breaks.
std::string one_line(std::string_view text) { return printable(text, 2000); }
std::string short_name(const entry& e) { return printable(e.name, 200); }

// Refuted rules are kept as comments. A comment says that a rule is a property, which no proof but its own supports.
std::string to_rule_file(const result& r) {
  std::string text;
  for (const auto& e : r.rules) {
    if (!e.rule) {
      text += fmt::format("# {}: {}\n", short_name(e), one_line(e.outside() ? e.outside_because : e.proof.details));
      continue;
    }
    auto rule = tensor::with_proof(*e.rule, e.proof);
    if (e.proof.found == verdict::unknown && rule.known == syntax::standing::proved) {
      rule.known = syntax::standing::assumed;  // the file says proved, but it is not
    }
    auto lines = to_text(rule);
    if (e.proof.found == verdict::refuted) {
      lines = fmt::format("refuted: {}: {}\n{}", e.proof.reason, one_line(e.proof.details), lines);
      for (auto at = lines.size() - 1; (at = lines.rfind('\n', at - 1)) != std::string::npos && at > 0;) {
        lines.insert(at + 1, "# ");
      }
      lines = fmt::format("# {}", lines);
    }
    text += e.is_axiom() ? fmt::format("# the property {}\n", e.axiom) : "";
    text += lines;
  }
  return text;
}

void print(const result& r) {
  std::size_t duplicates = 0;
  for (const auto& e : r.rules) {
    if (e.duplicate_of) {
      ++duplicates;
      fmt::print("duplicate  {}: of {}\n", short_name(e), short_name(r.rules[*e.duplicate_of]));
    } else if (e.is(verdict::refuted)) {
      fmt::print("refuted  {}: {}: {}\n", short_name(e), e.proof.reason, one_line(e.proof.details));
    } else if (e.is(verdict::unknown)) {
      fmt::print("unknown  {}: {} {}; missing: {}\n", short_name(e), e.proof.reason, one_line(e.proof.details),
                 one_line(e.proof.missing));
    } else if (e.is_axiom()) {
      fmt::print("axiom  {}: is the property {}, which tests check and nothing proves\n", short_name(e), e.axiom);
    }
  }
  std::map<std::string, std::size_t> outside;
  std::size_t outside_count = 0;
  for (const auto& e : r.rules) {
    if (e.outside()) {
      ++outside[e.outside_because];
      ++outside_count;
    }
  }
  for (const auto& [why, count] : outside) {
    fmt::print("outside  {}: {}\n", count, one_line(why));
  }
  const auto axioms = r.axiom_count();
  fmt::print(
      "{} rules: {} proved by {} from {} axioms for {}; {} are axioms, {} refuted, {} unknown, {} outside ({} "
      "duplicates among them); {:.1f} s\n",
      r.rules.size(), r.count(verdict::proved) - axioms, z3_prover{}.name(), r.axioms, r.instances().text(), axioms,
      r.count(verdict::refuted), r.count(verdict::unknown), outside_count, duplicates, r.seconds);
}

// In a word, and why.
std::pair<std::string, std::string> verdict_of(const entry& e) {
  if (e.outside()) {
    return {"outside", e.outside_because};
  }
  if (e.is_axiom()) {
    return {"axiom", e.axiom};
  }
  if (e.is(verdict::proved)) {
    return {"proved", fmt::format("{}; {}", fmt::join(e.proof.axioms, ", "), e.proof.instances.text())};
  }
  return e.is(verdict::refuted) ? std::pair{"refuted", fmt::format("{}: {}", e.proof.reason, e.proof.details)}
                                : std::pair{"unknown", fmt::format("{} {}; missing: {}", e.proof.reason,
                                                                   e.proof.details, e.proof.missing)};
}

std::string to_report(const arguments& a, const result& r) {
  io::html_report page{fmt::format("The rules of {}", a.file)};
  page.paragraph(fmt::format("{} rules, by {} from {} properties of operators, in {:.1f} s.", r.rules.size(),
                             z3_prover{}.name(), r.axioms, r.seconds));
  std::map<std::string, double> verdicts;
  std::map<std::string, double> used;
  std::vector<std::vector<std::string>> rows;
  for (const auto& e : r.rules) {
    const auto [verdict, why] = verdict_of(e);
    ++verdicts[verdict];
    for (const auto& name : verdict == "proved" ? e.proof.axioms : std::vector<std::string>{}) {
      ++used[name];
    }
    rows.push_back({e.name, verdict, e.duplicate_of ? r.rules[*e.duplicate_of].name : "", why});
  }
  page.chart(support::largest_bars(verdicts), "rules");
  page.heading("Properties that proofs use");
  page.chart(support::largest_bars(used), "rules");
  page.heading("Rules");
  page.table(std::vector<std::string>{"rule", "verdict", "duplicate of", "why"}, rows);
  return page.text();
}

// Throws: unity::error if properties contradict each other.
void check_axioms(const tensor::algebra& operators, const arguments& a, const theory& axioms) {
  if (const auto found = tensor::contradiction(operators, axioms.rules())) {
    throw error{
        a.axioms.empty() ? "shipped properties" : a.axioms,
        fmt::format("a contradiction, from {} and those that it is used with ({})", found->name, found->instance),
        "properties that can hold together"};
  }
  for (const auto& f : tensor::redundant_axioms(operators, axioms.rules())) {
    std::string from;
    for (const auto& name : f.from) {
      from += (from.empty() ? "" : ", ") + name;
    }
    fmt::print("property {}: follows from {}\n", f.name, from);
  }
}

void run(const arguments& a) {
  const auto start = std::chrono::steady_clock::now();
  support::expect_writable(a.out);
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  const auto operators = tensor::standard_algebra();
  auto rules = load(operators, a);
  const theory axioms{operators, support::load_axioms(operators, a.axioms).rules};
  if (a.check_axioms) {
    check_axioms(operators, a, axioms);
  }
  result r{std::move(rules), axioms.rules().size(), 0};
  find_duplicates(r.rules);
  find_axioms(operators, axioms, r.rules);
  verify(operators, axioms, a, r.rules);
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<support::output> files;
  if (!a.out.empty()) {
    files.push_back({a.out, to_rule_file(r)});
  }
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", to_json(r).dump(2))});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, r)});
  }
  support::write_all(files);
  print(r);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("verify_rules", "Proves or refutes each rule of a file", argc, argv, declare,
                                         run);
}
