// The parts of an operator graph as goals of a dynamic program, and which of them are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/graph/series_parallel_tree.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>

namespace unity::parallel {

// The spine of a graph: the operators that every path passes through, and the parts between them.

// A step of the spine: an operator that every path passes through, and the part between it and the operator of the step
// before. `last` is none if paths end separately.
struct spine_step {
  series_parallel_tree::part_index part = 0;  // between; of the operator itself if it directly follows the one before
  std::uint32_t before = operand_source::none;
  std::uint32_t last = operand_source::none;
  bool is_join = false;  // there is a part between

  friend bool operator==(const spine_step&, const spine_step&) = default;
};

// The spine of a part of the tree that begins after operator `before`: the whole graph or a branch.
// Complexity: linear in the part's children.
[[nodiscard]] std::vector<spine_step> spine_of(const series_parallel_tree& tree, series_parallel_tree::part_index part,
                                               std::uint32_t before = operand_source::none);

// All operators of a step, including its last.
[[nodiscard]] std::vector<std::uint32_t> operators_of(const series_parallel_tree& tree, const spine_step& s);

// whole: a whole graph. branch: the operators after u, one after another, up to the branch's last operator
// (mapping_branch); anything between that and the end of the branch belongs to the join. join: the parallel parts
// between u and v, and v itself; v none: paths end separately. u none: paths begin separately.
struct mapping_goal {
  static constexpr std::uint32_t none = operand_source::none;
  enum class kinds : std::uint8_t { whole, branch, join };

  kinds kind = kinds::whole;
  series_parallel_tree::part_index part = 0;
  std::uint32_t u = none;
  std::uint32_t v = none;

  friend auto operator<=>(const mapping_goal&, const mapping_goal&) = default;
};

// One of several parallel parts behind u. Its steps lead to operator `last`; more parallel parts may follow it, up to
// where all meet.
struct mapping_branch {
  series_parallel_tree::part_index part = 0;
  bool is_wire = false;
  bool is_open = false;
  std::vector<spine_step> steps{};
  std::uint32_t last = mapping_goal::none;      // u for a wire
  series_parallel_tree::part_index behind = 0;  // of an open branch
};

// Holds a reference to the graph. Not thread-safe.
class mapping_goals {
 public:
  explicit mapping_goals(const operator_graph& g) : graph_{&g} {}

  [[nodiscard]] mapping_goal root() const {
    return {mapping_goal::kinds::whole, tree().root(), mapping_goal::none, mapping_goal::none};
  }

  // The steps of a whole graph or of a branch.
  [[nodiscard]] std::vector<spine_step> steps(const mapping_goal& g) const {
    return g.kind == mapping_goal::kinds::whole ? spine_of(tree(), g.part, g.u) : branch(g.part, g.u).steps;
  }
  [[nodiscard]] std::vector<mapping_branch> branches(series_parallel_tree::part_index part, std::uint32_t u) const;
  // Whether the part, up to where all its branches meet, contains something that is not series-parallel.
  [[nodiscard]] bool is_core(series_parallel_tree::part_index part) const;

  [[nodiscard]] std::vector<mapping_goal> subgoals(const mapping_goal& g) const;

  // The operators of a goal, in an order that is the same for equal goals; v is the last of a join. Excludes attached
  // operators.
  // Complexity: linear in their number.
  [[nodiscard]] std::vector<std::uint32_t> operators(const mapping_goal& g) const;
  // A fingerprint that equal goals share, of this graph or others. Complexity: linear in the goal, the first time.
  [[nodiscard]] fingerprint fingerprint_of(const mapping_goal& g);

 private:
  using part_index = series_parallel_tree::part_index;

  [[nodiscard]] const series_parallel_tree& tree() const { return graph_->tree(); }
  [[nodiscard]] mapping_branch branch(part_index part, std::uint32_t u) const;
  void collect(part_index part, std::uint32_t u, std::vector<mapping_goal>& below) const;

  void list(const mapping_goal& g, std::vector<std::uint32_t>& all) const;
  void list_branches(part_index part, std::uint32_t u, std::vector<std::uint32_t>& all) const;
  void add_operator(hasher& h, std::uint32_t op) const {
    const auto key = op == mapping_goal::none ? fingerprint{} : graph_->placed(op).key;
    h.add(key.low).add(key.high);
  }
  // Hashes an operator and the connections of its operands to other operators, whose positions are given.
  template <class Place>
  void add_reader(hasher& h, std::uint32_t op, const Place& place) const {
    add_operator(h, op);
    for (const auto& s : graph_->sources(op)) {
      if (s.from != operand_source::none && graph_->is_attached(s.from)) {
        add_reader(h, s.from, place);
        h.add(7).add(s.result);
      } else {
        h.add(s.from == operand_source::none ? 0 : 1 + place(s.from)).add(s.result);
      }
    }
  }
  void add_step(hasher& h, const spine_step& s);
  void add_join(hasher& h, const mapping_goal& g);
  void add_branches(hasher& h, part_index part, std::uint32_t u, std::vector<std::uint32_t>& ends);

  const operator_graph* graph_;
  std::map<mapping_goal, fingerprint> known_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MAPPING_GOALS)

#include <algorithm>
#include <span>
#include <tuple>

namespace unity::parallel {

UNITY_INLINE std::vector<spine_step> spine_of(const series_parallel_tree& tree, series_parallel_tree::part_index part,
                                              std::uint32_t before) {
  std::vector<series_parallel_tree::part_index> parts{part};
  if (tree[part].kind == part_kind::series) {
    parts.assign(tree.children(part).begin(), tree.children(part).end());
  }
  const auto node_of = [&](std::size_t i) {
    return i < parts.size() ? static_cast<std::uint32_t>(tree[parts[i]].node.index()) : operand_source::none;
  };
  std::vector<spine_step> steps;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_join = tree[parts[i]].kind != part_kind::node;
    const auto last = node_of(is_join ? i + 1 : i);
    steps.push_back({parts[i], before, last, is_join});
    before = last;
    i += is_join ? 1 : 0;
  }
  return steps;
}

UNITY_INLINE std::vector<std::uint32_t> operators_of(const series_parallel_tree& tree, const spine_step& s) {
  auto all = operators_in(tree, s.part);
  if (s.is_join && s.last != operand_source::none) {
    all.push_back(s.last);
    std::sort(all.begin(), all.end());
  }
  return all;
}

UNITY_INLINE std::vector<mapping_branch> mapping_goals::branches(series_parallel_tree::part_index part,
                                                                 std::uint32_t u) const {
  std::vector<mapping_branch> all;
  for (const auto c : tree().children(part)) {
    all.push_back(branch(c, u));
  }
  return all;
}

UNITY_INLINE bool mapping_goals::is_core(series_parallel_tree::part_index part) const {
  if (tree()[part].kind == part_kind::core) {
    return true;
  }
  const auto all = tree().children(part);
  return std::any_of(all.begin(), all.end(), [&](series_parallel_tree::part_index c) {
    if (tree()[c].kind == part_kind::core) {
      return true;
    }
    const auto b = branch(c, mapping_goal::none);
    return b.is_open && is_core(b.behind);
  });
}

UNITY_INLINE std::vector<mapping_goal> mapping_goals::subgoals(const mapping_goal& g) const {
  std::vector<mapping_goal> below;
  if (g.kind == mapping_goal::kinds::join) {
    if (!is_core(g.part)) {
      collect(g.part, g.u, below);
    }
    return below;
  }
  for (const auto& s : steps(g)) {
    if (s.is_join) {
      below.push_back({mapping_goal::kinds::join, s.part, s.before, s.last});
    }
  }
  return below;
}

UNITY_INLINE std::vector<std::uint32_t> mapping_goals::operators(const mapping_goal& g) const {
  std::vector<std::uint32_t> all;
  list(g, all);
  return all;
}

UNITY_INLINE fingerprint mapping_goals::fingerprint_of(const mapping_goal& g) {
  if (const auto known = known_.find(g); known != known_.end()) {
    return known->second;
  }
  hasher h{static_cast<std::uint64_t>(g.kind)};
  add_operator(h, g.u);
  if (g.kind == mapping_goal::kinds::join) {
    add_join(h, g);
  } else {
    for (const auto& s : steps(g)) {
      add_step(h, s);
    }
  }
  return known_[g] = h.result();
}

UNITY_INLINE mapping_branch mapping_goals::branch(part_index part, std::uint32_t u) const {
  mapping_branch b;
  b.part = part;
  b.is_wire = tree()[part].kind == part_kind::wire;
  b.last = u;
  if (b.is_wire || tree()[part].kind == part_kind::core) {
    return b;
  }
  b.steps = spine_of(tree(), part, u);
  if (b.steps.back().is_join && b.steps.back().last == mapping_goal::none) {
    b.is_open = true;
    b.behind = b.steps.back().part;
    b.steps.pop_back();
  }
  b.last = b.steps.empty() ? u : b.steps.back().last;
  return b;
}

UNITY_INLINE void mapping_goals::collect(part_index part, std::uint32_t u, std::vector<mapping_goal>& below) const {
  for (const auto& b : branches(part, u)) {
    if (b.is_wire) {
      continue;
    }
    below.push_back({mapping_goal::kinds::branch, b.part, u, mapping_goal::none});
    if (b.is_open) {
      collect(b.behind, b.last, below);
    }
  }
}

UNITY_INLINE void mapping_goals::list(const mapping_goal& g, std::vector<std::uint32_t>& all) const {
  if (g.kind != mapping_goal::kinds::join) {
    for (const auto& s : steps(g)) {
      if (s.is_join) {
        list({mapping_goal::kinds::join, s.part, s.before, s.last}, all);
      } else {
        all.push_back(s.last);
      }
    }
    return;
  }
  if (is_core(g.part)) {
    const auto inside = operators_in(tree(), g.part);
    all.insert(all.end(), inside.begin(), inside.end());
  } else {
    list_branches(g.part, g.u, all);
  }
  if (g.v != mapping_goal::none) {
    all.push_back(g.v);
  }
}

UNITY_INLINE void mapping_goals::list_branches(part_index part, std::uint32_t u,
                                               std::vector<std::uint32_t>& all) const {
  for (const auto& b : branches(part, u)) {
    if (b.is_wire) {
      continue;
    }
    list({mapping_goal::kinds::branch, b.part, u, mapping_goal::none}, all);
    if (b.is_open) {
      list_branches(b.behind, b.last, all);
    }
  }
}

UNITY_INLINE void mapping_goals::add_step(hasher& h, const spine_step& s) {
  if (s.is_join) {
    const auto f = fingerprint_of({mapping_goal::kinds::join, s.part, s.before, s.last});
    h.add(2).add(f.low).add(f.high);
  } else {
    h.add(3);
    add_reader(h, s.last, [](std::uint32_t) { return std::uint64_t{0}; });
  }
}

UNITY_INLINE void mapping_goals::add_join(hasher& h, const mapping_goal& g) {
  if (is_core(g.part)) {
    auto inside = operators_in(tree(), g.part);
    if (g.v != mapping_goal::none) {
      inside.push_back(g.v);
    }
    for (const auto op : inside) {
      add_reader(h, op, [&](std::uint32_t from) {
        const auto at = std::lower_bound(inside.begin(), inside.end(), from);
        return at != inside.end() && *at == from ? static_cast<std::uint64_t>(at - inside.begin()) : inside.size();
      });
    }
    h.add(4);
    return;
  }
  std::vector<std::uint32_t> ends;
  add_branches(h, g.part, g.u, ends);
  if (g.v != mapping_goal::none) {
    add_reader(h, g.v, [&](std::uint32_t from) {
      return static_cast<std::uint64_t>(std::find(ends.begin(), ends.end(), from) - ends.begin());
    });
  }
}

UNITY_INLINE void mapping_goals::add_branches(hasher& h, part_index part, std::uint32_t u,
                                              std::vector<std::uint32_t>& ends) {
  for (const auto& b : branches(part, u)) {
    const auto f =
        b.is_wire ? fingerprint{} : fingerprint_of({mapping_goal::kinds::branch, b.part, u, mapping_goal::none});
    h.add(f.low).add(f.high);
    if (b.is_open) {
      h.add(5);
      add_branches(h, b.behind, b.last, ends);
      h.add(6);
    } else {
      ends.push_back(b.last);
    }
  }
}

}  // namespace unity::parallel

#endif
