#include <unity/rewrite/generation/enumerate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/rewrite/generation/term_store.hpp>

#include "../../support/boolean_terms.hpp"
#include "../../support/cases.hpp"
#include "../../support/equality_closure.hpp"
#include "../../support/message_of.hpp"
#include "../../support/polynomial_terms.hpp"

namespace tests_of_enumerate {

using namespace unity;
using namespace unity::test;

static_assert(term_language<boolean_terms>);
static_assert(term_language<polynomial_terms>);
// Near misses: a type that has only the grammar, and a const language, which cannot evaluate.
static_assert(!term_language<gate_form>);
static_assert(!term_language<const boolean_terms>);

namespace {

const std::vector<gate_form> all_gates{gate_form::zero, gate_form::negation, gate_form::conjunction,
                                       gate_form::disjunction, gate_form::difference};

// The smallest truth table over all renamings of the variables.
std::uint64_t canonical_table(std::uint64_t table, std::size_t variables) {
  std::vector<std::size_t> names(variables);
  std::iota(names.begin(), names.end(), std::size_t{0});
  auto least = ~std::uint64_t{0};
  do {
    std::uint64_t renamed = 0;
    for (std::size_t row = 0; row < 64; ++row) {
      auto from = row >> variables << variables;
      for (std::size_t v = 0; v < variables; ++v) {
        from |= (row >> v & 1U) << names[v];
      }
      renamed |= (table >> from & 1U) << row;
    }
    least = std::min(least, renamed);
  } while (std::next_permutation(names.begin(), names.end()));
  return least;
}

// The functions of circuits of up to `most` gates, each with the fewest gates that compute it; builds every circuit.
class circuit_search {
 public:
  circuit_search(std::span<const gate_form> gates, std::size_t most) : gates_{gates}, most_{most} {
    std::vector<std::uint64_t> values{truth_columns.begin(),
                                      truth_columns.begin() + static_cast<std::ptrdiff_t>(most + 1)};
    build(values, 0);
    fewest_.erase(canonical(truth_columns[0]));
  }
  // By canonical truth table, without single variables.
  [[nodiscard]] const std::map<std::uint64_t, std::size_t>& fewest() const { return fewest_; }
  [[nodiscard]] std::uint64_t canonical(std::uint64_t table) {
    const auto found = canonical_.find(table);
    return found != canonical_.end() ? found->second
                                     : canonical_.emplace(table, canonical_table(table, most_ + 1)).first->second;
  }

 private:
  void build(std::vector<std::uint64_t>& values, std::size_t used) {
    auto key = values;
    std::sort(key.begin(), key.end());
    if (used == most_ || !seen_.insert(key).second) {
      return;
    }
    for (const auto made : next(values)) {
      const auto known = fewest_.emplace(canonical(made), used + 1).first;
      known->second = std::min(known->second, used + 1);
      values.push_back(made);
      build(values, used + 1);
      values.pop_back();
    }
  }
  [[nodiscard]] std::set<std::uint64_t> next(const std::vector<std::uint64_t>& values) const {
    std::set<std::uint64_t> made;
    for (const auto g : gates_) {
      for (const auto a : values) {
        for (const auto b : values) {
          made.insert(combine(g, a, b));
        }
      }
    }
    for (const auto v : values) {
      made.erase(v);
    }
    return made;
  }

  std::span<const gate_form> gates_;
  std::size_t most_;
  std::map<std::uint64_t, std::size_t> fewest_;
  std::map<std::uint64_t, std::uint64_t> canonical_;
  std::set<std::vector<std::uint64_t>> seen_;
};

// The stored classes as written terms. An enumeration does not store its last size: run it to one size more.
template <class L>
std::vector<written_term> classes(const enumeration<L>& e) {
  std::vector<written_term> all;
  for (orbit_id id = 1; id < e.store().size(); ++id) {
    const auto& o = e.store()[id];
    all.push_back(write_term(e.store(), o.term, o.facts.sorts, variable_map::identity().cut(o.facts.variables)));
  }
  return all;
}
template <class L>
std::vector<std::pair<written_term, written_term>> written_rules(const enumeration<L>& e) {
  std::vector<std::pair<written_term, written_term>> all;
  for (const auto& r : e.rules()) {
    all.emplace_back(write_terms(e.store(), {&r.left, 1}, r.facts)[0],
                     write_terms(e.store(), {&r.right, 1}, r.facts)[0]);
  }
  return all;
}
template <class L>
void advance_to(enumeration<L>& e, std::size_t size) {
  while (e.size() < size) {
    e.advance();
  }
}

// A term over given variables, in the list of all terms of up to `most` different operators. Operands are positions in
// the list, before the term itself; commutative operands come in one order.
struct ground_term {
  std::uint16_t op = 0;
  std::uint16_t number = 0;
  std::vector<std::size_t> operands{};
  std::set<std::size_t> operators{};
};
std::vector<ground_term> ground_terms(std::span<const std::size_t> arities, std::size_t variables, std::size_t most) {
  std::vector<ground_term> all;
  for (std::size_t v = 0; v < variables; ++v) {
    all.push_back({term_node::variable, static_cast<std::uint16_t>(v), {}, {}});
  }
  for (std::size_t size = 1; size <= most; ++size) {
    const auto smaller = all.size();
    const auto offer = [&](std::size_t op, std::vector<std::size_t> operands) {
      std::set<std::size_t> operators;
      for (const auto o : operands) {
        operators.insert(all[o].operators.begin(), all[o].operators.end());
      }
      if (operators.size() + 1 == size) {
        operators.insert(all.size());
        all.push_back({static_cast<std::uint16_t>(op), 0, std::move(operands), std::move(operators)});
      }
    };
    for (std::size_t op = 0; op < arities.size(); ++op) {
      if (arities[op] == 0) {
        offer(op, {});
      }
      for (std::size_t a = 0; a < smaller && arities[op] > 0; ++a) {
        for (std::size_t b = arities[op] == 1 ? a : 0; b <= a; ++b) {
          offer(op, arities[op] == 1 ? std::vector{a} : std::vector{b, a});
        }
      }
    }
  }
  return all;
}

// Adds all terms to a congruence closure and applies the rules. Returns how often terms of one meaning are not equal by
// the rules, and how often terms that are equal by the rules differ in meaning.
template <class Meaning, class Apply>
std::pair<std::size_t, std::size_t> disagreements(const std::vector<ground_term>& terms,
                                                  std::span<const std::pair<written_term, written_term>> rules,
                                                  const Apply& apply) {
  equality_closure closure;
  std::vector<std::size_t> at;
  std::vector<Meaning> meanings;
  for (const auto& t : terms) {
    std::vector<std::size_t> operands;
    for (const auto o : t.operands) {
      operands.push_back(at[o]);
    }
    at.push_back(closure.add(t.op, t.number, std::move(operands)));
    meanings.push_back(apply(t, meanings));
  }
  closure.saturate(rules);
  std::map<Meaning, std::set<std::size_t>> by_meaning;
  std::map<std::size_t, std::set<Meaning>> by_class;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    by_meaning[meanings[i]].insert(closure.find(at[i]));
    by_class[closure.find(at[i])].insert(meanings[i]);
  }
  std::pair<std::size_t, std::size_t> count{0, 0};
  for (const auto& [meaning, parts] : by_meaning) {
    count.first += parts.size() - 1;
  }
  for (const auto& [part, meant] : by_class) {
    count.second += meant.size() - 1;
  }
  return count;
}

struct scratch_folder {
  std::filesystem::path path;
  explicit scratch_folder(const std::string& name) : path{std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / name} {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~scratch_folder() { std::filesystem::remove_all(path); }
};

// The results that must not depend on how the enumeration was run.
template <class L>
auto found_by(const enumeration<L>& e) {
  auto counts = e.counts();
  counts.spilled_runs = 0;
  counts.value_bytes = 0;
  std::vector<std::pair<std::uint32_t, variable_map>> known;
  return std::tuple{counts, written_rules(e), classes(e)};
}

}  // namespace

TEST_CASE("enumeration finds the functions of a brute-force search of circuits to three gates") {
  const auto chosen = GENERATE(take(unity::test::all_or(6, 2), values({0x1fU, 0x14U, 0x1eU, 0x11U, 0x12U, 0x06U})));
  CAPTURE(chosen);
  std::vector<gate_form> gates;
  for (std::size_t g = 0; g < all_gates.size(); ++g) {
    if ((chosen >> g & 1U) != 0) {
      gates.push_back(all_gates[g]);
    }
  }
  circuit_search oracle{gates, 3};
  // Circuits of three gates read at most four variables; a fifth variable must change nothing.
  const auto variables = GENERATE(take(unity::test::all_or(2, 1), values<std::size_t>({5, 4})));
  boolean_terms language{gates, variables};
  enumeration<boolean_terms> e{language, {.most_operators = 4, .variables = variables}};
  advance_to(e, 3);
  CHECK(e.counts().classes == oracle.fewest().size());
  CHECK(e.counts().terms == e.counts().classes + e.counts().equalities);
  CHECK(e.counts().false_matches == 0);
  std::map<std::uint64_t, std::size_t> found;
  for (const auto& t : classes(e)) {
    const auto operators = static_cast<std::size_t>(
        std::count_if(t.begin(), t.end(), [](const term_node& n) { return n.op != term_node::variable; }));
    CHECK(found.emplace(oracle.canonical(truth_table(gates, t)), operators).second);
  }
  CHECK(found == oracle.fewest());
}

TEST_CASE("enumeration of four-gate functions finds two classes one gate late", "[exhaustive]") {
  const std::vector gates{gate_form::negation, gate_form::conjunction, gate_form::difference};
  circuit_search oracle{gates, 4};
  boolean_terms language{gates, 6};
  enumeration<boolean_terms> e{language, {.most_operators = 6, .variables = 6}};
  advance_to(e, 5);
  std::map<std::uint64_t, std::size_t> found;
  for (const auto& t : classes(e)) {
    const auto operators = static_cast<std::size_t>(
        std::count_if(t.begin(), t.end(), [](const term_node& n) { return n.op != term_node::variable; }));
    if (operators <= 4 || oracle.fewest().contains(oracle.canonical(truth_table(gates, t)))) {
      found.emplace(oracle.canonical(truth_table(gates, t)), operators);
    }
  }
  std::size_t late = 0;
  for (const auto& [function, fewest] : oracle.fewest()) {
    REQUIRE(found.contains(function));
    CHECK(found.at(function) >= fewest);
    CHECK(found.at(function) <= fewest + 1);
    late += found.at(function) > fewest ? 1U : 0U;
  }
  CHECK(found.size() == oracle.fewest().size());
  CHECK(late == 2);
}

TEST_CASE("enumerated polynomial classes have distinct normal forms") {
  polynomial_terms language;
  enumeration<polynomial_terms> e{language, {.most_operators = 5, .variables = 5}};
  advance_to(e, 4);
  std::set<exact_polynomial> found;
  const auto smallest = [](const exact_polynomial& p) {
    std::array<std::size_t, 5> names{0, 1, 2, 3, 4};
    auto least = p;
    do {
      least = std::min(least, p.renamed(names));
    } while (std::next_permutation(names.begin(), names.end()));
    return least;
  };
  for (const auto& t : classes(e)) {
    CHECK(found.insert(smallest(polynomial_of(t))).second);
  }
  CHECK(found.size() == e.counts().classes);
  for (const auto& [left, right] : written_rules(e)) {
    CHECK(polynomial_of(left) == polynomial_of(right));
  }
}

TEST_CASE("enumerated boolean rules are true even with few samples") {
  const auto probes = GENERATE(std::size_t{32}, std::size_t{6}, std::size_t{2});
  boolean_terms language{all_gates, 5, probes};
  enumeration<boolean_terms> e{language, {.most_operators = 4, .variables = 5}};
  e.run();
  CHECK((e.counts().false_matches > 0) == (probes < 32));
  REQUIRE(!e.rules().empty());
  for (const auto& [left, right] : written_rules(e)) {
    CHECK((left != right || probes < 32));
    CHECK(truth_table(all_gates, left) == truth_table(all_gates, right));
  }
}

TEST_CASE("enumerated rules derive exactly the equalities of boolean terms to three gates") {
  boolean_terms language{all_gates, 4};
  enumeration<boolean_terms> e{language, {.most_operators = 3, .variables = 4}};
  e.run();
  const std::array<std::size_t, 5> arities{0, 1, 2, 2, 2};
  const auto terms = ground_terms(arities, 3, 3);
  const auto rules = written_rules(e);
  const auto wrong =
      disagreements<std::uint64_t>(terms, rules, [](const ground_term& t, std::span<const std::uint64_t> of) {
        const auto operand = [&](std::size_t i) { return i < t.operands.size() ? of[t.operands[i]] : 0; };
        return t.op == term_node::variable ? truth_columns.at(t.number)
                                           : combine(all_gates[t.op], operand(0), operand(1));
      });
  CHECK(wrong.first == 0);
  CHECK(wrong.second == 0);
}

TEST_CASE("enumerated rules derive exactly the equalities of polynomials to three operators") {
  polynomial_terms language;
  enumeration<polynomial_terms> e{language, {.most_operators = 3, .variables = 4}};
  e.run();
  const std::array<std::size_t, 3> arities{0, 2, 2};
  const auto terms = ground_terms(arities, 3, 3);
  const auto rules = written_rules(e);
  const auto wrong = disagreements<exact_polynomial>(terms, rules, [](const ground_term& t, const auto& of) {
    return t.op == term_node::variable ? exact_polynomial::variable(t.number)
           : t.op == 0                 ? exact_polynomial::one()
           : t.op == 1                 ? of[t.operands[0]] + of[t.operands[1]]
                                       : of[t.operands[0]] * of[t.operands[1]];
  });
  CHECK(wrong.first == 0);
  CHECK(wrong.second == 0);
}

// Terms of the last size are not stored, and samples of smaller sizes are not kept.
TEST_CASE("the last size of an enumeration equals that size in a longer enumeration") {
  const auto probes = GENERATE(std::size_t{32}, std::size_t{6});
  boolean_terms language{all_gates, 5, probes};
  for (std::size_t size = 1; size <= 3; ++size) {
    CAPTURE(probes, size);
    enumeration<boolean_terms> last{language, {.most_operators = size, .variables = 5}};
    last.run();
    enumeration<boolean_terms> more{language, {.most_operators = size + 2, .variables = 5}};
    advance_to(more, size);
    auto counts = more.counts();
    CHECK(counts.value_bytes >= last.counts().value_bytes);
    counts.value_bytes = last.counts().value_bytes;
    CHECK(last.counts() == counts);
    CHECK(written_rules(last) == written_rules(more));
  }
}

TEST_CASE("enumeration results are independent of threads and memory and interruptions") {
  const std::vector gates{gate_form::negation, gate_form::conjunction, gate_form::disjunction, gate_form::difference};
  const enumeration_options options{.most_operators = 4, .variables = 5};
  boolean_terms language{gates, 5};
  static const auto expected = [&] {  // once for all sections
    enumeration<boolean_terms> whole{language, options};
    whole.run();
    CHECK(whole.counts().spilled_runs == 0);
    return found_by(whole);
  }();
  const scratch_folder folder{"enumerate"};

  SECTION("enumeration with several threads") {
    auto threaded = options;
    threaded.threads = GENERATE(take(unity::test::all_or(2, 1), values<std::size_t>({4, 2})));
    enumeration<boolean_terms> e{language, threaded};
    e.run();
    CHECK(found_by(e) == expected);
  }
  SECTION("enumeration that spills to disk") {
    auto small = options;
    small.memory = 1;
    small.folder = folder.path;
    small.threads = GENERATE(take(unity::test::all_or(2, 1), values<std::size_t>({2, 1})));
    enumeration<boolean_terms> e{language, small};
    e.run();
    CHECK(e.counts().spilled_runs > 2);
    CHECK(found_by(e) == expected);
    CHECK(std::filesystem::is_empty(folder.path));
  }
  SECTION("enumeration resumed after one interruption") {
    const auto stop = GENERATE(take(unity::test::cases(5), values<std::size_t>({3, 0, 1, 2, 4})));
    const auto file = (folder.path / "level").string();
    enumeration<boolean_terms> first{language, options};
    advance_to(first, stop);
    first.save(file, 7);
    boolean_terms again{gates, 5};
    enumeration<boolean_terms> second{again, options};
    second.resume(file, 7);
    CHECK(second.size() == stop);
    CHECK(found_by(second) == found_by(first));
    second.run();
    CHECK(found_by(second) == expected);
  }
  SECTION("enumeration resumed after each size") {
    const auto file = (folder.path / "level").string();
    for (std::size_t size = 1; size <= options.most_operators; ++size) {
      enumeration<boolean_terms> e{language, options};
      if (size > 1) {
        e.resume(file, 7);
      }
      e.advance();
      e.save(file, 7);
    }
    enumeration<boolean_terms> last{language, options};
    last.resume(file, 7);
    CHECK(found_by(last) == expected);
  }
}

TEST_CASE("a damaged or foreign enumeration checkpoint is refused in one line") {
  const scratch_folder folder{"enumerate_refused"};
  const auto file = (folder.path / "level").string();
  boolean_terms language{all_gates, 4};
  const auto refusal = [&](std::uint64_t of, std::size_t most) {
    enumeration<boolean_terms> e{language, {.most_operators = most, .variables = 4}};
    return unity::test::message_of([&] { e.resume(file, of); });
  };
  const auto refuses = [&](const std::string& message, const std::string& reason) {
    CHECK_THAT(message, Catch::StartsWith(file) && Catch::Contains(reason) && !Catch::Contains("\n"));
  };
  refuses(refusal(1, 3), "cannot be read");
  enumeration<boolean_terms> e{language, {.most_operators = 3, .variables = 4}};
  advance_to(e, 2);
  e.save(file, 1);
  REQUIRE(refusal(1, 3).empty());
  refuses(refusal(2, 3), "an enumeration of other operators or options");
  refuses(refusal(1, 1), "an enumeration of more operators");
  e.run();
  e.save(file, 1);
  CHECK(refusal(1, 3).empty());
  refuses(refusal(1, 4), "an enumeration that ends with 3 operators");

  std::ifstream in{file, std::ios::binary};
  const std::string whole{std::istreambuf_iterator<char>{in}, {}};
  const auto write = [&](const std::string& bytes) {
    std::ofstream{file, std::ios::binary | std::ios::trunc} << bytes;
  };
  for (const auto length : {std::size_t{0}, std::size_t{10}, std::size_t{24}, whole.size() / 2, whole.size() - 1}) {
    write(whole.substr(0, length));
    refuses(refusal(1, 3), "; expected");
  }
  for (std::size_t at = 0; at < whole.size(); at += whole.size() / 9) {
    auto altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 4);
    write(altered);
    refuses(refusal(1, 3), "; expected");
  }
  write("another file");
  refuses(refusal(1, 3), "another kind of file");
}

TEST_CASE("an enumeration that cannot write its folder gives an error that names it") {
  const scratch_folder folder{"enumerate_nowhere"};
  const auto nowhere = folder.path / "missing";
  boolean_terms language{all_gates, 5};
  enumeration<boolean_terms> e{language, {.most_operators = 4, .variables = 5, .memory = 1, .folder = nowhere}};
  CHECK_THROWS_WITH(e.run(), Catch::StartsWith(nowhere.string()) &&
                                 Catch::Contains("expected a folder that files can be written to"));
}

}  // namespace tests_of_enumerate
