// The sizes of instances of a rule within bounds: the shapes of each variable, and which sizes matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_types.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/completions.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// The shapes of each variable of a substitution in instances within bounds.

// Indexed by variable, rank and dimension.
using dimension_flags = std::vector<std::vector<std::vector<bool>>>;

// Dimensions start narrow, with sizes 1 and 2, unless the substitution names their size. A widened dimension has all
// sizes up to the bound. If `...` stands for more than two terms, all sizes are 1 and 2.
class size_menus {
 public:
  // wide: all dimensions are.
  size_menus(const algebra& a, const substitution& s, const instance_bounds& b, bool wide = false);

  // The dimensions whose sizes conditions or attributes distinguish.
  [[nodiscard]] const dimension_flags& named() const { return named_; }
  [[nodiscard]] const std::vector<shape>& of(std::size_t variable, std::size_t repetitions) const {
    return repetitions > 2 ? small_[variable] : menus_[variable];
  }
  // Whether conditions require the variable to be constant.
  [[nodiscard]] bool constant(std::size_t variable) const { return constants_[variable]; }
  [[nodiscard]] bool wide(std::size_t variable, std::size_t rank, std::size_t dimension) const {
    return wide_[variable][rank][dimension];
  }
  void widen(std::size_t variable, std::size_t rank, std::size_t dimension) {
    wide_[variable][rank][dimension] = true;
    fill(variable);
  }

 private:
  // Marks as named the sizes that conditions read, except equations of sizes. Equations hold for 2 if they hold for 3;
  // other conditions may not.
  void name_compared(const compiled_expression& c);
  [[nodiscard]] bool is_list_of_sizes(const compiled_expression& e) const;
  // Marks as named all sizes that an expression reads.
  void name_measured(const compiled_expression& e);

  [[nodiscard]] std::vector<bool> required_constants() const;
  void fill(std::size_t v);
  // Whether the conditions on this variable alone hold.
  [[nodiscard]] bool allowed(std::size_t v, const shape& s) const;
  [[nodiscard]] static bool is_about(const compiled_expression& e, std::size_t v);

  const algebra& algebra_;
  const substitution& s_;
  instance_bounds bounds_;
  std::vector<bool> constants_;  // by variable
  dimension_flags named_;
  dimension_flags wide_{};
  std::vector<std::vector<shape>> menus_;  // by variable
  std::vector<std::vector<shape>> small_;  // with sizes 1 and 2
};

// Finds the sizes of an instance that matter. Sizes along an index in which all operators of both sides are parallel do
// not.

// The dimensions of all values of two graphs on the same sources, united if they have the same index.
class joint_indices {
 public:
  joint_indices(const algebra& a, const tensor_graph& source, const tensor_graph& target, std::size_t variables);

  // The class of a dimension of a variable.
  [[nodiscard]] std::size_t class_of(std::size_t variable, std::size_t dimension) const {
    return find(variables_[variable][dimension]);
  }
  // Whether every operator with this index computes its results at one position from its operands at that position, in
  // the same way at all positions.
  [[nodiscard]] bool parallel(std::size_t c) const { return !mixed_[find(c)]; }
  void mix(std::size_t n) { mixed_[find(n)] = true; }

 private:
  using numbers = std::vector<std::size_t>;

  std::vector<numbers> add(const tensor_graph& g, std::size_t variables, std::span<const numbers> known);

  void relate(const tensor_graph& g, node_id n, std::vector<numbers>& dims);
  void join_dimension(const index_structure& s, const dimension_index& d, std::size_t number, bool of_constant,
                      std::vector<std::size_t>& of_index);

  static constexpr auto none = static_cast<std::size_t>(-1);

  std::size_t make();
  [[nodiscard]] std::size_t find(std::size_t n) const;
  void unite(std::size_t a, std::size_t b);
  void unite(const numbers& a, const numbers& b);

  const algebra& algebra_;
  std::vector<std::size_t> parents_;
  std::vector<bool> mixed_;
  std::vector<numbers> variables_;
};

// Decides which sizes of 2 in instances of a substitution represent all larger sizes.
class parallel_sizes {
 public:
  // named: dimensions whose sizes matter whatever their index.
  parallel_sizes(const algebra& a, const substitution& s, dimension_flags named)
      : algebra_{a}, s_{s}, named_{std::move(named)} {}

  // For each dimension of the variables, concatenated, including repetitions: whether the index along it is parallel on
  // both sides, and both sides remain valid with their attributes when it grows. True if the target does not fit.
  // Cached by attributes and by the positions of sizes of 1.
  [[nodiscard]] const std::vector<bool>& of(const rule_instance& instance);

 private:
  [[nodiscard]] fingerprint key_of(const rule_instance& instance) const;

  [[nodiscard]] std::vector<bool> analyse(const rule_instance& instance) const;
  void mark_named(const rule_instance& instance, joint_indices& joint) const;
  // Whether both sides stay valid with all dimensions of a class one larger.
  [[nodiscard]] bool grows(const rule_instance& instance, const joint_indices& joint, std::size_t c) const;

  const algebra& algebra_;
  const substitution& s_;
  dimension_flags named_;
  std::map<fingerprint, std::vector<bool>> known_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_PARALLEL_SIZES)

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/rules/rule_hints.hpp>

namespace unity::tensor::detail {

UNITY_INLINE size_menus::size_menus(const algebra& a, const substitution& s, const instance_bounds& b, bool wide)
    : algebra_{a}, s_{s}, bounds_{b}, constants_{required_constants()}, named_(s.variables) {
  for (auto& by_rank : named_) {
    for (std::size_t rank = 0; rank <= b.rank; ++rank) {
      by_rank.emplace_back(rank, wide);
    }
  }
  for (const auto& c : s.conditions) {
    name_compared(c);
  }
  for (const auto* side : {&s.source, &s.target}) {
    for (const auto& n : side->nodes) {
      for (const auto& attribute : n.attributes) {
        name_measured(attribute.value);
      }
    }
  }
  wide_ = named_;
  menus_.resize(s.variables);
  small_.resize(s.variables);
  for (std::size_t v = 0; v < s.variables; ++v) {
    fill(v);
  }
}

UNITY_INLINE std::vector<bool> size_menus::required_constants() const {
  const auto constant = algebra_.find_measure("constant");
  std::vector<bool> required(s_.variables);
  for (const auto& c : s_.conditions) {
    const bool compares = c.kind == compiled_expression::form::call && c.callee == rule_function::equal;
    const auto& measured = compares ? c.arguments[0] : c;
    if (compares && measured.kind == compiled_expression::form::measure &&
        std::optional{measured.measure} == constant) {
      required[measured.slot] = size_reader::number_of(c.arguments[1]) == attribute{1};
    }
  }
  return required;
}

UNITY_INLINE void size_menus::name_compared(const compiled_expression& c) {
  const bool joins = c.kind == compiled_expression::form::call &&
                     (c.callee == rule_function::logical_and || c.callee == rule_function::logical_or);
  if (joins) {
    name_compared(c.arguments[0]);
    name_compared(c.arguments[1]);
  } else if (c.kind != compiled_expression::form::call || c.callee != rule_function::equal ||
             !is_list_of_sizes(c.arguments[0]) || !is_list_of_sizes(c.arguments[1])) {
    name_measured(c);
  }
}

UNITY_INLINE bool size_menus::is_list_of_sizes(const compiled_expression& e) const {
  constexpr std::array moves{rule_function::prefix, rule_function::suffix, rule_function::replace,
                             rule_function::remove, rule_function::insert, rule_function::concat,
                             rule_function::at,     rule_function::repeat};
  const bool moved =
      e.kind != compiled_expression::form::call || std::find(moves.begin(), moves.end(), e.callee) != moves.end();
  const bool small = std::all_of(e.literal.begin(), e.literal.end(), [](auto n) { return n <= 2; });
  // Arguments of a measure and positions that cut a list are numbers of dimensions and may be computed.
  return e.kind == compiled_expression::form::measure ||
         (moved && small && (e.kind != compiled_expression::form::call || is_list_of_sizes(e.arguments[0])) &&
          (e.kind == compiled_expression::form::call ||
           std::all_of(e.arguments.begin(), e.arguments.end(), [&](const auto& a) { return is_list_of_sizes(a); })));
}

UNITY_INLINE void size_menus::name_measured(const compiled_expression& e) {
  const auto is = [&](const char* name) { return std::optional{e.measure} == algebra_.find_measure(name); };
  if (e.kind == compiled_expression::form::measure && (is("size") || is("shape"))) {
    const bool one = is("size") && e.arguments.size() == 1 && e.arguments[0].literal.size() == 1;
    for (std::size_t rank = 0; rank <= bounds_.rank; ++rank) {
      for (std::size_t d = 0; d < rank; ++d) {
        const auto number = static_cast<std::int64_t>(d);
        const auto asked = one ? e.arguments[0].literal[0] : number;
        named_[e.slot][rank][d] =
            named_[e.slot][rank][d] || asked == number || asked == number - static_cast<std::int64_t>(rank);
      }
    }
  }
  for (const auto& a : e.arguments) {
    name_measured(a);
  }
}

UNITY_INLINE void size_menus::fill(std::size_t v) {
  menus_[v].clear();
  small_[v].clear();
  for (const auto& s : all_shapes(bounds_)) {
    bool listed = true;
    for (std::size_t d = 0; listed && d < s.size(); ++d) {
      listed = s[d] <= 2 || wide_[v][s.size()][d];
    }
    if (listed && allowed(v, s)) {
      menus_[v].push_back(s);
      if (std::all_of(s.begin(), s.end(), [](auto d) { return d <= 2; })) {
        small_[v].push_back(s);
      }
    }
  }
}

UNITY_INLINE bool size_menus::allowed(std::size_t v, const shape& s) const {
  rule_instance alone;
  alone.values.resize(s_.variables);
  alone.values[v] = {tensor_type{dtype::float32, layout::row_major, constants_[v], s}};
  const instance_environment env{algebra_, alone};
  return std::all_of(s_.conditions.begin(), s_.conditions.end(), [&](const compiled_expression& c) {
    const auto value = is_about(c, v) ? evaluate(c, env, 0) : attribute{1};
    return value && unity::truth_of(*value);
  });
}

UNITY_INLINE bool size_menus::is_about(const compiled_expression& e, std::size_t v) {
  const bool other = e.kind == compiled_expression::form::attribute_variable ||
                     e.kind == compiled_expression::form::pack ||
                     (e.kind == compiled_expression::form::measure && e.slot != v);
  return !other && std::all_of(e.arguments.begin(), e.arguments.end(), [&](const auto& a) { return is_about(a, v); });
}

UNITY_INLINE joint_indices::joint_indices(const algebra& a, const tensor_graph& source, const tensor_graph& target,
                                          std::size_t variables)
    : algebra_{a} {
  const auto first = add(source, variables, {});
  const auto second = add(target, variables, std::span{first}.first(variables));
  for (const auto& [left, right] : ranges::views::zip(source.outputs(), target.outputs())) {
    unite(first[left.index()], second[right.index()]);
  }
  variables_ = {first.begin(), first.begin() + static_cast<std::ptrdiff_t>(variables)};
}

UNITY_INLINE auto joint_indices::add(const tensor_graph& g, std::size_t variables, std::span<const numbers> known)
    -> std::vector<numbers> {
  std::vector<numbers> dims(g.value_count());
  for (const auto n : node_ids(g)) {
    for (const auto v : g.results(n)) {
      if (n.index() < variables && !known.empty()) {
        dims[v.index()] = known[n.index()];
        continue;
      }
      for (std::size_t d = 0; d < g.type(v).rank(); ++d) {
        dims[v.index()].push_back(make());
      }
    }
    if (n.index() >= variables) {
      relate(g, n, dims);
    }
  }
  return dims;
}

UNITY_INLINE void joint_indices::relate(const tensor_graph& g, node_id n, std::vector<numbers>& dims) {
  std::vector<tensor_type> types;
  for (const auto v : g.operands(n)) {
    types.push_back(g.type(v));
  }
  const auto s = dimension_indices(algebra_, g.operation(n), types);
  std::vector<std::size_t> of_index(s->indices.size(), none);
  const auto join = [&](std::span<const value_id> values, const std::vector<tensor_indices>& all) {
    for (std::size_t t = 0; t < values.size(); ++t) {
      for (std::size_t d = 0; d < all[t].size(); ++d) {
        join_dimension(*s, all[t][d], dims[values[t].index()][d], g.operands(n).empty(), of_index);
      }
    }
  };
  join(g.operands(n), s->operands);
  join(g.results(n), s->results);
}

UNITY_INLINE void joint_indices::join_dimension(const index_structure& s, const dimension_index& d, std::size_t number,
                                                bool of_constant, std::vector<std::size_t>& of_index) {
  std::size_t count = 0;
  for (const auto i : d.indices) {
    if (s.indices[i].size == 1) {
      continue;
    }
    ++count;
    if (s.indices[i].kind != index_kind::parallel) {
      mix(number);
    }
    if (of_index[i] == none) {
      of_index[i] = number;
    }
    unite(of_index[i], number);
  }
  if (count > 1 || d.window || of_constant) {
    mix(number);
  }
  for (const auto& w : s.windows) {
    for (const auto i : d.indices) {
      if (w.outer == static_cast<int>(i) || w.inner == static_cast<int>(i)) {
        mix(number);
      }
    }
  }
}

UNITY_INLINE std::size_t joint_indices::make() {
  parents_.push_back(parents_.size());
  mixed_.push_back(false);
  return parents_.size() - 1;
}

UNITY_INLINE std::size_t joint_indices::find(std::size_t n) const {
  while (parents_[n] != n) {
    n = parents_[n];
  }
  return n;
}

UNITY_INLINE void joint_indices::unite(std::size_t a, std::size_t b) {
  a = find(a);
  b = find(b);
  if (a != b) {
    mixed_[std::min(a, b)] = mixed_[a] || mixed_[b];
    parents_[std::max(a, b)] = std::min(a, b);
  }
}

UNITY_INLINE void joint_indices::unite(const numbers& a, const numbers& b) {
  for (const auto& [left, right] : ranges::views::zip(a, b)) {
    unite(left, right);
  }
}

UNITY_INLINE const std::vector<bool>& parallel_sizes::of(const rule_instance& instance) {
  const auto [place, added] = known_.try_emplace(key_of(instance));
  if (added) {
    place->second = analyse(instance);
  }
  return place->second;
}

UNITY_INLINE fingerprint parallel_sizes::key_of(const rule_instance& instance) const {
  hasher h{instance.repetitions};
  for (const auto& types : instance.values) {
    for (const auto& t : types) {
      h.add(t.rank());
      for (const auto d : t.dims) {
        h.add(d == 1 ? 1 : 2);
      }
    }
  }
  const auto add = [&](const operation& op) {
    for (const auto& a : op.attributes) {
      h.add(hash_value(a));
    }
  };
  for (const auto& ops : instance.source) {
    std::for_each(ops.begin(), ops.end(), add);
  }
  const side_builder target{algebra_, s_, instance};
  for (const auto& n : s_.target.nodes) {
    for (std::size_t i = 0; i < (n.indexed ? instance.repetitions : 1); ++i) {
      if (const auto op = target.made_operation(n, i)) {
        add(*op);
      }
    }
  }
  return h.result();
}

UNITY_INLINE std::vector<bool> parallel_sizes::analyse(const rule_instance& instance) const {
  std::size_t variables = 0;
  std::size_t dimensions = 0;
  for (const auto& types : instance.values) {
    for (const auto& t : types) {
      ++variables;
      dimensions += t.rank();
    }
  }
  const auto source = source_graph(algebra_, s_, instance);
  const auto target = target_graph(algebra_, s_, instance);
  if (!source || !target || output_types(*source) != output_types(*target)) {
    return std::vector<bool>(dimensions, true);
  }
  joint_indices joint{algebra_, *source, *target, variables};
  mark_named(instance, joint);
  std::vector<bool> all;
  std::size_t v = 0;
  for (const auto& ts : instance.values) {
    for (const auto& t : ts) {
      for (std::size_t d = 0; d < t.rank(); ++d) {
        const auto c = joint.class_of(v, d);
        all.push_back(joint.parallel(c) && (t.dims[d] == 1 || grows(instance, joint, c)));
      }
      ++v;
    }
  }
  return all;
}

UNITY_INLINE void parallel_sizes::mark_named(const rule_instance& instance, joint_indices& joint) const {
  std::size_t number = 0;
  for (std::size_t v = 0; v < instance.values.size(); ++v) {
    for (const auto& t : instance.values[v]) {
      for (std::size_t d = 0; d < t.rank(); ++d) {
        if (named_[v][t.rank()][d]) {
          joint.mix(joint.class_of(number, d));
        }
      }
      ++number;
    }
  }
}

UNITY_INLINE bool parallel_sizes::grows(const rule_instance& instance, const joint_indices& joint,
                                        std::size_t c) const {
  auto larger = instance;
  std::size_t v = 0;
  for (auto& ts : larger.values) {
    for (auto& t : ts) {
      for (std::size_t d = 0; d < t.rank(); ++d) {
        t.dims[d] += joint.class_of(v, d) == c ? 1 : 0;
      }
      ++v;
    }
  }
  return conditions_hold(algebra_, s_, larger) && source_graph(algebra_, s_, larger) &&
         target_graph(algebra_, s_, larger);
}

}  // namespace unity::tensor::detail

#endif
