// Relational query plans: joins change their order, selections and projections move down, and the search that optimizes
// neural networks finds the plan of the lowest cost by estimated cardinalities. Both plans run on data at the end.
//
// run:
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/cartesian_product.hpp>
#include <range/v3/view/enumerate.hpp>

#include <unity/search.hpp>

using namespace unity;
using set = std::uint64_t;  // a bit per column, then a bit per fact
constexpr set bits(auto... i) { return ((set{1} << i) | ...); }

// customers(customer, city)  orders(buyer, item)  products(product, category, maker)  suppliers(supplier)
enum : unsigned { customer, city, buyer, item, product, category, maker, supplier, column_count };
constexpr set all_columns = bits(column_count) - 1;

// A fact about all rows of a relation: they come from a table, a column is 0, or two columns are equal.
struct fact {
  double factor;  // by which it multiplies their number
  set columns;
};
const std::vector<fact> facts{
    {50, bits(customer, city)},    {4000, bits(buyer, item)},   {100, bits(product, category, maker)},
    {20, bits(supplier)},          {0.05, bits(city)},          {0.05, bits(category)},
    {0.05, bits(buyer, customer)}, {0.05, bits(item, product)}, {0.05, bits(maker, supplier)}};

// A step of a plan: its kind and, from the second byte on, the number of a fact or, for a projection, columns.
using step = std::uint64_t;
enum : step { scan, choose, project, join };
const std::vector<op_signature> signatures{{"scan", 0, 1, false, {{"table"}}},
                                           {"select", 1, 1, false, {{"where"}}},
                                           {"project", 1, 1, false, {{"columns"}}},
                                           {"join", 2, 1, true, {{"on"}}}};

// The type of a relation is its columns and the facts that hold in it: equivalent plans agree in both.
struct plans {
  using op_type = step;
  using value_type = set;

  std::optional<std::vector<set>> infer(step s, std::span<const set> in) const {
    const auto what = s >> 8;
    const bool projects = (s & 255) == project;
    set all = projects ? 0 : facts.at(what).columns | bits(column_count + what);
    bool fits = signature(kind_of(s)).operands.accepts(in.size());
    for (const auto r : in) {  // each operand has one of the columns that are compared, or more than those to keep
      const set kept = r & (projects ? what : facts[what].columns);
      fits = fits && (projects ? kept == what && (r & all_columns) != what : std::popcount(kept) == 1);
      all |= projects ? (r & ~all_columns) | what : r;
    }
    return fits ? std::optional{std::vector{all}} : std::nullopt;
  }
  std::size_t kind_count() const { return signatures.size(); }
  const op_signature& signature(kind_id kind) const { return signatures[kind.index()]; }
  std::optional<kind_id> find_kind(std::string_view name) const {
    const auto at = std::size_t(std::ranges::find(signatures, name, &op_signature::name) - signatures.begin());
    return at < kind_count() ? std::optional{kind_id{at}} : std::nullopt;
  }
  kind_id kind_of(step s) const { return kind_id{s & 255}; }
  attribute_list attributes_of(step s) const { return {{std::int64_t(s >> 8)}}; }
  std::optional<step> make(kind_id k, std::span<const attribute> a) const { return k.index() | step(a[0][0]) << 8; }
  // needed(?r, columns, fact): the columns of ?r among the given ones or in the fact.
  std::optional<int> find_measure(std::string_view n) const { return n == "needed" ? std::optional{0} : std::nullopt; }
  std::optional<attribute> measure(int, set r, std::span<const std::int64_t> a) const {
    return attribute{std::int64_t(r & (set(a[0]) | facts[set(a[1])].columns))};
  }
};

// Values read and written.
struct traffic {
  using cost_type = std::int64_t;
  static std::int64_t values(set r) {
    double rows = 1;
    for (const auto& [f, fact] : ranges::views::enumerate(facts)) {
      rows *= (r & bits(column_count + f)) != 0 ? fact.factor : 1;
    }
    return std::llround(rows * std::popcount(r & all_columns));
  }
  std::int64_t node_cost(step, std::span<const set> in, std::span<const set> out) const {
    return values(out[0]) + (in.empty() ? 0 : values(in.front())) + (in.size() < 2 ? 0 : values(in.back()));
  }
  cost_value objective(std::int64_t total) const { return total; }
};

constexpr auto laws = R"(
  rule reorder_joins    join{on=?i}(join{on=?j}(?r, ?s), ?t) => join{on=?j}(?r, join{on=?i}(?s, ?t))
  rule push_selection   select{where=?p}(join{on=?j}(?r, ?s)) => join{on=?j}(select{where=?p}(?r), ?s)
  rule push_projection  project{columns=?c}(join{on=?j}(?r, ?s))
                     => project{columns=?c}(join{on=?j}(project{columns=needed(?r, ?c, ?j)}(?r), ?s))
)";

using plan = compact_graph<step, set>;
using row = std::array<set, column_count>;  // 0 in a column that it lacks

// The rows of a relation, in order. Tables have synthetic rows: every column takes 20 values.
std::vector<row> run(const plan& p, value_id v) {
  const auto kind = p.operation(p.producer(v)) & 255, what = p.operation(p.producer(v)) >> 8;
  const auto operands = p.operands(p.producer(v));
  const auto left = operands.empty() ? std::vector<row>(std::size_t(facts[what].factor)) : run(p, operands.front());
  const auto right = operands.size() < 2 ? std::vector<row>(1) : run(p, operands.back());
  const set compared = kind == choose || kind == join ? facts[what].columns : 0;
  const auto low = std::size_t(std::countr_zero(compared)), high = std::size_t(std::bit_width(compared)) - 1;
  std::vector<row> rows;
  for (const auto& [i, pair] : ranges::views::enumerate(ranges::views::cartesian_product(right, left))) {
    const auto& [other, own] = pair;
    auto r = own;
    for (std::size_t c = 0; c < column_count; ++c) {
      r[c] = operands.empty() ? mix64(8 * i + c) % 20 : r[c] + other[c];
      r[c] *= p.type(v) >> c & 1;
    }
    if (compared == 0 || r[low] == (low == high ? 0 : r[high])) {
      rows.push_back(r);
    }
  }
  std::ranges::sort(rows);
  return rows;
}

int main() {
  // select customer, supplier from ... where all facts: joins in the order of the text, filters last.
  const plans algebra;
  plan before;
  const auto add = [&](step kind, set what, std::vector<value_id> operands) {
    std::vector<set> types(operands.size());
    std::ranges::transform(operands, types.begin(), [&](auto v) { return before.type(v); });
    const auto results = algebra.infer(kind | what << 8, types).value();
    return before.results(before.add_node(kind | what << 8, operands, results))[0];
  };
  const auto two = add(join, 6, {add(scan, 0, {}), add(scan, 1, {})});
  const auto four = add(join, 8, {add(join, 7, {two, add(scan, 2, {})}), add(scan, 3, {})});
  before.set_outputs(std::array{add(project, bits(customer, supplier), {add(choose, 4, {add(choose, 5, {four})})})});
  rewrite_space space{algebra, traffic{}, compile_rules(algebra, parse_rules(laws)), before};
  const auto found = exact(space);
  const auto after = space.graph(found.best);
  fmt::print("values moved by the plan as written: {}\n", space.cost(space.initial()));
  for (const auto& [move, cost] : found.path) {
    fmt::print("  after {}: {}\n", space.rule_of(move).name, cost);
  }
  const auto rows = run(before, before.outputs()[0]);
  const bool equal = !rows.empty() && rows == run(after, after.outputs()[0]);
  fmt::print("{}{}\n", equal ? "both plans give the same rows: " : "the plans differ, expected rows: ", rows.size());
  return equal && 5 * found.cost < space.cost(space.initial()) ? 0 : 1;
}
