// Relational query plans: joins change their order, selections and projections move down, and the plan that is cheapest
// by estimated cardinalities is found by the search that optimizes neural networks. Then both plans run on data.
//
// run:
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <unity/search.hpp>

using namespace unity;
using set = std::uint64_t;  // a bit per column, then a bit per fact
constexpr set bits(auto... i) { return ((set{1} << i) | ...); }

// customers(customer, city)  orders(buyer, item)  products(product, category, maker)  suppliers(supplier)
enum : std::uint8_t { customer, city, buyer, item, product, category, maker, supplier, column_count };
constexpr set all_columns = bits(column_count) - 1;

// What is known of rows: the table that they come from, column == value, or column == column.
struct fact {
  double factor;  // by which it multiplies their number
  set columns;
  std::int64_t value = -1;
};
const std::array<fact, 9> facts{{{500, bits(customer, city)},
                                 {4000, bits(buyer, item)},
                                 {200, bits(product, category, maker)},
                                 {20, bits(supplier)},
                                 {0.05, bits(city), 3},
                                 {0.1, bits(category), 7},
                                 {0.002, bits(buyer, customer)},
                                 {0.005, bits(item, product)},
                                 {0.05, bits(maker, supplier)}}};

struct step {
  kind_id kind{};
  set what = 0;  // the number of a fact; of a projection, columns
  friend bool operator==(const step&, const step&) = default;
};
template <>
struct std::hash<step> {
  std::size_t operator()(const step& s) const { return hash_combine(s.kind.index(), s.what); }
};

enum : unsigned { scan, choose, project, join };
const std::vector<op_signature> signatures{{"scan", 0, 1, false, {{"table"}}},
                                           {"select", 1, 1, false, {{"where"}}},
                                           {"project", 1, 1, false, {{"columns"}}},
                                           {"join", 2, 1, true, {{"on"}}}};

// A relation is known by its columns and the facts that hold in it: plans that mean the same agree in both.
struct plans {
  using op_type = step;
  using value_type = set;

  std::optional<std::vector<set>> infer(const step& s, std::span<const set> in) const {
    set all = 0;
    bool fits = in.size() == static_cast<std::size_t>(signature(s.kind).operands);
    for (const auto r : in) {
      all |= r;  // a selection or a join needs one column of its fact in each operand
      fits =
          fits && (s.kind.index() == project ? (s.what & ~r) == 0 : std::popcount(r & facts.at(s.what).columns) == 1);
    }
    const auto result = s.kind.index() == project ? (all & ~all_columns) | s.what
                                                  : all | facts.at(s.what).columns | bits(column_count + s.what);
    return fits ? std::optional{std::vector{result}} : std::nullopt;
  }
  std::size_t kind_count() const { return signatures.size(); }
  const op_signature& signature(kind_id kind) const { return signatures[kind.index()]; }
  std::optional<kind_id> find_kind(std::string_view name) const {
    const auto at = std::ranges::find(signatures, name, &op_signature::name) - signatures.begin();
    return at < std::ssize(signatures) ? std::optional{kind_id{static_cast<std::size_t>(at)}} : std::nullopt;
  }
  kind_id kind_of(const step& s) const { return s.kind; }
  attribute_list attributes_of(const step& s) const { return {{static_cast<std::int64_t>(s.what)}}; }
  std::optional<step> make(kind_id kind, std::span<const attribute> a) const {
    return step{kind, static_cast<set>(a[0][0])};
  }
  // needed(?r, columns, fact): the columns of ?r that are asked for or that the fact is about.
  std::optional<int> find_measure(std::string_view name) const {
    return name == "needed" ? std::optional{0} : std::nullopt;
  }
  std::optional<attribute> measure(int, set r, std::span<const std::int64_t> a) const {
    return attribute{
        static_cast<std::int64_t>(r & (static_cast<set>(a[0]) | facts.at(static_cast<set>(a[1])).columns))};
  }
};

// Values read and written.
struct traffic {
  using cost_type = std::int64_t;
  static std::int64_t values(set r) {
    double rows = 1;
    for (std::size_t f = 0; f < facts.size(); ++f) {
      rows *= (r & bits(column_count + f)) != 0 ? facts[f].factor : 1;
    }
    return std::llround(rows * std::popcount(r & all_columns));
  }
  std::int64_t node_cost(const step&, std::span<const set> in, std::span<const set> out) const {
    return values(out[0]) + (in.empty() ? 0 : values(in.front())) + (in.size() < 2 ? 0 : values(in.back()));
  }
  cost_value objective(std::int64_t total) const { return total; }
};

constexpr auto laws = R"(
  rule reorder_joins    join{on=?i}(join{on=?j}(?r, ?s), ?t) => join{on=?j}(?r, join{on=?i}(?s, ?t))
  rule swap_selections  select{where=?p}(select{where=?q}(?r)) => select{where=?q}(select{where=?p}(?r))
  rule push_selection   select{where=?p}(join{on=?j}(?r, ?s)) => join{on=?j}(select{where=?p}(?r), ?s)
  rule push_projection  project{columns=?c}(join{on=?j}(?r, ?s))
                     => project{columns=?c}(join{on=?j}(project{columns=needed(?r, ?c, ?j)}(?r), ?s))
)";

using plan = compact_graph<step, set>;
using row = std::array<set, column_count>;  // 0 in a column that it lacks

// The i-th row of a table: keys count, the other columns take made-up values.
row made_up(set columns, std::size_t i) {
  constexpr row ranges{500, 20, 500, 200, 200, 10, 20, 20};
  row r{};
  for (std::size_t c = 0; c < column_count; ++c) {
    const bool is_key = c == customer || c == product || c == supplier;
    r[c] = (columns & bits(c)) == 0 ? 0 : (is_key ? i : mix64(i * column_count + c)) % ranges[c];
  }
  return r;
}

// The rows of `v`, sorted. What only some steps have is neutral in the others: one empty row to join with, a fact that
// holds, all columns kept.
std::vector<row> run(const plan& p, value_id v) {
  const auto [kind, what] = p.operation(p.producer(v));
  const auto operands = p.operands(p.producer(v));
  std::vector<row> left, right{row{}}, out;
  for (std::size_t i = 0; kind.index() == scan && i < static_cast<std::size_t>(facts[what].factor); ++i) {
    left.push_back(made_up(facts[what].columns, i));
  }
  left = operands.empty() ? left : run(p, operands.front());
  right = operands.size() < 2 ? right : run(p, operands.back());
  for (const auto& l : left) {
    for (auto r : right) {
      std::ranges::transform(l, r, r.begin(), std::plus{});
      if (kind.index() == project) {
        for (std::size_t c = 0; c < column_count; ++c) {
          r[c] = (what & bits(c)) != 0 ? r[c] : 0;
        }
      } else if (kind.index() != scan) {
        const auto& f = facts[what];
        const auto low = r[static_cast<std::size_t>(std::countr_zero(f.columns))];
        const auto high = r[static_cast<std::size_t>(std::bit_width(f.columns) - 1)];
        if (low != (f.value < 0 ? high : static_cast<set>(f.value))) {
          continue;
        }
      }
      out.push_back(r);
    }
  }
  std::ranges::sort(out);
  return out;
}

int main() {
  // select customer, supplier from ... where all facts: as written, from left to right and filtered last.
  plan before;
  const plans algebra;
  const auto add = [&](unsigned kind, set what, std::vector<value_id> operands) {
    std::vector<set> types;
    for (const auto v : operands) {
      types.push_back(before.type(v));
    }
    const step s{kind_id{kind}, what};
    return before.results(before.add_node(s, operands, algebra.infer(s, types).value()))[0];
  };
  auto v = add(scan, 0, {});
  for (set table = 1; table < 4; ++table) {
    v = add(join, table + 5, {v, add(scan, table, {})});
  }
  v = add(project, bits(customer, supplier), {add(choose, 4, {add(choose, 5, {v})})});
  before.set_outputs(std::array{v});

  rewrite_space space{algebra, traffic{}, compile_rules(algebra, parse_rules(laws)), before};
  const auto found = exact(space);
  const auto after = space.graph(found.best);
  std::cout << "values moved: " << space.cost(space.initial()) << " as written, " << found.cost << " at best, of "
            << found.counts.expanded << " plans\n";
  for (const auto& [move, cost] : found.path) {
    std::cout << "  after " << space.rule_of(move).name << ": " << cost << '\n';
  }
  const auto expected = run(before, before.outputs()[0]);
  const bool equal = !expected.empty() && expected == run(after, after.outputs()[0]);
  std::cout << (equal ? "both give the same " : "the plans differ, expected ") << expected.size() << " rows\n";
  return equal && 10 * found.cost < space.cost(space.initial()) ? 0 : 1;
}
