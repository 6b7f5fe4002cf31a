// Which sizes of an instance matter: not those of indices in which all operators of both sides are parallel.
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
#include <unity/tensor/detail/index_types.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/verification/size_menus.hpp>

namespace unity::tensor::detail {

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VERIFICATION_PARALLEL_SIZES)

#include <algorithm>
#include <functional>
#include <optional>

#include <unity/tensor/index_structure.hpp>

namespace unity::tensor::detail {

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
