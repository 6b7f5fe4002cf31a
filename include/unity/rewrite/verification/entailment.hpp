// Does an equation follow from a theory? Equality saturation over sampled worlds, with proofs.
//
// A question is a few graphs of the same structure, one per world: node by node the same kinds, and operands and values
// numbered alike; only types and attribute values differ. It asks whether pairs of values are equal. A positive answer
// is the list of axiom instances that were used, as a problem without variables that any prover can check again. A
// negative answer only means that nothing was found within the limits. Deterministic.
// Source: Tate et al., "Equality saturation" (POPL 2009).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/index_table.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/verification/derivation.hpp>
#include <unity/rewrite/verification/equality_graph.hpp>
#include <unity/rewrite/verification/instantiation.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/rewrite/verification/worlds.hpp>

namespace unity {

// Shortens derivations: removes steps that the search found but that are not needed.

// The derivation without redundant steps, trying the last found first. No step of the result can be removed, though
// another derivation may be shorter.
// Complexity: a congruence closure per step.
[[nodiscard]] derivation without_needless_steps(derivation d);

struct entailment_limits {
  std::size_t rounds = 8;           // rounds of instantiating all matches
  std::size_t joint_rounds = 2;     // further rounds, which include axioms of several roots
  std::size_t nodes = 2000;         // in the equality graph
  std::size_t matches = 20000;      // per round
  std::size_t extra_operators = 6;  // in a term, beyond the largest one of the question
  std::size_t remembered = 200000;  // rows of types and operators kept between questions
};

enum class entailment_end : std::uint8_t { proved, saturated, out_of_rounds, out_of_nodes, out_of_matches };

// Answers questions about one theory. The algebra and the theory must outlive it; axioms may be added between
// questions.
template <pattern_algebra Algebra>
class entailment {
 public:
  using goal_list = std::vector<std::pair<value_id, value_id>>;

  entailment(const Algebra& algebra, const theory& t, entailment_limits limits = {})
      : algebra_{&algebra}, theory_{&t}, limits_{limits} {}
  entailment(const entailment&) = delete;
  entailment& operator=(const entailment&) = delete;

  // Whether the values of each pair are equal. Nothing if no proof was found.
  // Precondition: at least one world; the worlds have the same structure.
  // Complexity: bounded by the limits.
  template <dataflow_graph Graph>
  [[nodiscard]] std::optional<derivation> prove(std::span<const Graph> worlds, const goal_list& goals) {
    begin(worlds.size());
    load(worlds, std::vector<bool>(graph_traits<Graph>::value_count(worlds[0]), true));
    return answer(goals);
  }
  // Proves that the first half of the outputs equals the second.
  template <dataflow_graph Graph>
  [[nodiscard]] std::optional<derivation> prove_outputs(std::span<const Graph> worlds) {
    return prove(worlds, output_goals(worlds[0]));
  }
  // Whether rewriting the first half of the outputs yields the second (`back`: the second yields the first). Terms that
  // occur only in the result are not rewritten. Shows what a search can do if the theory is read as rewrites.
  template <dataflow_graph Graph>
  [[nodiscard]] std::optional<derivation> rewrite_outputs(std::span<const Graph> worlds, bool back = false) {
    auto goals = output_goals(worlds[0]);
    for (auto& [from, to] : goals) {
      if (back) {
        std::swap(from, to);
      }
    }
    begin(worlds.size());
    load(worlds, needed_by_first(worlds[0], goals));
    return answer(goals);
  }

  // Ignores this axiom in the following questions; nothing: uses all.
  void leave_out(std::optional<std::uint32_t> axiom) noexcept { left_out_ = axiom; }

  // The outcome of the last question, and the number of nodes built for it.
  [[nodiscard]] entailment_end end() const noexcept { return end_; }
  [[nodiscard]] std::size_t nodes() const noexcept { return graph_ ? graph_->node_count() : 0; }

 private:
  using tables_type = world_tables<Algebra>;
  using graph_type = equality_graph<Algebra>;

  // A node of the question that rewriting has to produce.
  struct sought_node {
    operator_row op{};
    std::vector<value_id> operands{};
    std::vector<value_id> results{};
  };

  template <class Graph>
  [[nodiscard]] static goal_list output_goals(const Graph& g) {
    const auto& outputs = graph_traits<Graph>::outputs(g);
    const std::vector<value_id> all(outputs.begin(), outputs.end());
    goal_list goals;
    for (std::size_t i = 0; i < all.size() / 2; ++i) {
      goals.emplace_back(all[i], all[all.size() / 2 + i]);
    }
    return goals;
  }
  // By value: whether the first value of some goal needs it.
  template <class Graph>
  [[nodiscard]] static std::vector<bool> needed_by_first(const Graph& g, const goal_list& goals) {
    using traits = graph_traits<Graph>;
    std::vector<bool> needed(traits::value_count(g), false);
    for (const auto& [first, second] : goals) {
      needed[first.index()] = true;
    }
    const auto order = topological_order(g);
    UNITY_EXPECTS(order.has_value(), "graphs without cycles");
    for (auto n = order->rbegin(); n != order->rend(); ++n) {
      const auto& results = traits::results(g, *n);
      if (std::ranges::any_of(results, [&](auto v) { return needed[v.index()]; })) {
        for (const auto v : traits::operands(g, *n)) {
          needed[v.index()] = true;
        }
      }
    }
    return needed;
  }

  [[nodiscard]] std::optional<derivation> answer(const goal_list& goals) {
    goals_ = goals;
    saturate();
    return end_ == entailment_end::proved ? std::optional{explanation()} : std::nullopt;
  }

  void begin(std::size_t worlds) {
    UNITY_EXPECTS(worlds > 0, "at least one world");
    if (!tables_ || tables_->worlds() != worlds || tables_->size() > limits_.remembered) {
      graph_.reset();
      tables_.emplace(*algebra_, worlds);
      prepared_.clear();
    }
    while (prepared_.size() < theory_->forms().size()) {
      prepared_.emplace_back(theory_->forms()[prepared_.size()], *tables_);
    }
    if (!graph_) {
      graph_.emplace(*tables_);
    }
    graph_->clear();
    terms_.clear();
    sought_.clear();
    instances_.clear();
    seen_ = {};
    end_ = entailment_end::saturated;
    rounds_ = 0;
  }

  // given: by value, whether it exists from the beginning. The others are sought.
  template <class Graph>
  void load(std::span<const Graph> worlds, const std::vector<bool>& given) {
    using traits = graph_traits<Graph>;
    const auto& first = worlds[0];
    terms_.assign(traits::value_count(first), term_id{});
    most_operators_ = 0;
    const auto order = topological_order(first);
    UNITY_EXPECTS(order.has_value(), "graphs without cycles");
    for (const auto n : *order) {
      std::vector<typename Algebra::op_type> ops;
      for (const auto& g : worlds) {
        UNITY_EXPECTS(std::ranges::equal(traits::operands(g, n), traits::operands(first, n)),
                      "worlds of one structure");
        ops.push_back(traits::operation(g, n));
      }
      const auto op = tables_->intern_operators(ops);
      UNITY_EXPECTS(op.has_value(), "worlds of one structure");
      const auto& operands = traits::operands(first, n);
      const auto& results = traits::results(first, n);
      if (std::ranges::any_of(results, [&](auto v) { return given[v.index()]; })) {
        load_node(worlds, n, *op);
      } else {
        sought_.push_back({*op, {operands.begin(), operands.end()}, {results.begin(), results.end()}});
      }
    }
    most_operators_ += limits_.extra_operators;
  }
  template <class Graph>
  void load_node(std::span<const Graph> worlds, node_id n, operator_row op) {
    using traits = graph_traits<Graph>;
    std::vector<term_id> operands;
    for (const auto v : traits::operands(worlds[0], n)) {
      operands.push_back(terms_[v.index()]);
    }
    auto node = graph_->lookup(op, operands);
    if (!node.valid()) {
      std::vector<type_row> types;
      for (const auto v : traits::results(worlds[0], n)) {
        std::vector<typename Algebra::value_type> across;
        for (const auto& g : worlds) {
          across.push_back(traits::type(g, v));
        }
        types.push_back(tables_->intern_types(across));
      }
      node = graph_->add(op, operands, types);
    }
    std::size_t r = 0;
    for (const auto v : traits::results(worlds[0], n)) {
      terms_[v.index()] = graph_->result(node, r++);
      most_operators_ = std::max<std::size_t>(most_operators_, graph_->size(terms_[v.index()]));
    }
  }

  [[nodiscard]] bool proved() {
    for (const auto& s : sought_) {
      find(s);
    }
    return std::all_of(goals_.begin(), goals_.end(), [&](const auto& g) {
      const auto a = terms_[g.first.index()];
      const auto b = terms_[g.second.index()];
      return a.valid() && b.valid() && graph_->equal(a, b);
    });
  }
  void find(const sought_node& s) {
    if (terms_[s.results[0].index()].valid()) {
      return;
    }
    std::vector<term_id> operands;
    for (const auto v : s.operands) {
      if (!terms_[v.index()].valid()) {
        return;
      }
      operands.push_back(terms_[v.index()]);
    }
    const auto node = graph_->lookup(s.op, operands);
    for (std::size_t r = 0; node.valid() && r < s.results.size(); ++r) {
      terms_[s.results[r].index()] = graph_->result(node, r);
    }
  }

  // First without axioms of several roots, which match pairs of nodes everywhere; with them if that was not enough.
  void saturate() {
    for (const bool joint : {false, true}) {
      graph_->forget_settled();
      const auto most = joint ? limits_.joint_rounds : limits_.rounds;
      for (std::size_t round = 0; round < most && !proved() && run_round(joint); ++round) {
        ++rounds_;
      }
      if (proved()) {
        end_ = entailment_end::proved;
        return;
      }
      if (end_ == entailment_end::out_of_nodes || end_ == entailment_end::out_of_matches) {
        return;
      }
    }
  }
  // Returns whether anything changed.
  bool run_round(bool joint) {
    matches_.clear();
    collect(joint);
    if (matches_.size() >= limits_.matches) {
      end_ = entailment_end::out_of_matches;
      return false;
    }
    bool changed = false;
    for (const auto& m : matches_) {
      changed = apply(m) || changed;
      if (graph_->node_count() > limits_.nodes) {
        end_ = entailment_end::out_of_nodes;
        return false;
      }
      if (proved()) {
        return true;
      }
    }
    end_ = changed ? entailment_end::out_of_rounds : entailment_end::saturated;
    return changed;
  }

  void collect(bool joint) {
    form_matcher<Algebra> find{*graph_, *tables_};
    const auto keep = [&](const form_match& m) {
      keep_match(m);
      return matches_.size() < limits_.matches;
    };
    graph_->take_changed(theory_->depth(), [&](node_id n) {
      for (const auto f : theory_->forms_at(graph_->kind(n))) {
        if (!theory_->forms()[f].joint && usable(f)) {
          find.match(f, theory_->forms()[f], prepared_[f], n, keep);
        }
      }
    });
    for (std::size_t i = 0; joint && i < graph_->node_count(); ++i) {
      for (const auto f : theory_->forms_at(graph_->kind(node_id{i}))) {
        if (theory_->forms()[f].joint && usable(f)) {
          find.match(f, theory_->forms()[f], prepared_[f], node_id{i}, keep);
        }
      }
    }
  }
  // Whether the axiom is in use and the graph has nodes of all kinds that the form looks for.
  [[nodiscard]] bool usable(std::uint32_t f) const {
    const auto& form = theory_->forms()[f];
    return left_out_ != form.axiom && std::all_of(form.steps.begin(), form.steps.end(), [&](const auto& s) {
             return graph_->has(form.equation.source.nodes[s.node].kind);
           });
  }
  void keep_match(const form_match& m) {
    const auto free = theory_->forms()[m.form].free_variable;
    if (free == axiom_form::none) {
      if (fresh(m)) {
        matches_.push_back(m);
      }
      return;
    }
    auto any = m;
    for (std::size_t t = 0; t < graph_->term_count() && matches_.size() < limits_.matches; ++t) {
      any.variables[free] = term_id{t};
      if (graph_->find(term_id{t}) == term_id{t} && fresh(any)) {
        matches_.push_back(any);
      }
    }
  }
  bool fresh(const form_match& m) {
    auto h = mix64(m.form);
    for (const auto v : m.variables) {
      h = hash_combine(h, graph_->find(v).index());
    }
    for (const auto a : m.attributes) {
      h = hash_combine(h, a.index());
    }
    for (const auto n : m.nodes) {
      h = hash_combine(h, n.valid() ? graph_->op(n).index() : 0);
    }
    return seen_.find(h, [](auto) { return true; }) == index_table::none && (seen_.insert(h, 0), true);
  }

  // Returns whether the instance added anything new.
  bool apply(const form_match& m) {
    const auto& form = theory_->forms()[m.form];
    detail::instantiator<Algebra> make{*tables_, *graph_};
    if (!make.judge(form, prepared_[m.form], m, most_operators_)) {
      return false;
    }
    const auto before = graph_->node_count();
    auto instance = make.build();
    const auto number = static_cast<std::uint32_t>(instances_.size());
    bool merged = false;
    for (std::size_t r = 0; r < form.equation.source.roots.size(); ++r) {
      const auto [a, b] = make.root(r);
      merged = (graph_->type(a) == graph_->type(b) && graph_->merge(a, b, number)) || merged;
    }
    if (merged) {
      instances_.push_back(std::move(instance));
    }
    return merged || graph_->node_count() != before;
  }

  [[nodiscard]] derivation explanation() const {
    std::vector<std::pair<term_id, term_id>> equal;
    for (const auto& [a, b] : goals_) {
      equal.emplace_back(terms_[a.index()], terms_[b.index()]);
    }
    // A node that was found is the sought one because their operands are equal; the proof includes these equalities.
    for (const auto& s : sought_) {
      std::vector<term_id> operands;
      for (const auto v : s.operands) {
        operands.push_back(terms_[v.index()]);
      }
      const auto premises = graph_->premises(graph_->producer(terms_[s.results[0].index()]), operands);
      equal.insert(equal.end(), premises.begin(), premises.end());
    }
    auto d = detail::proof_writer<Algebra>{*tables_, *graph_, *theory_, instances_}.write(equal);
    d.rounds = rounds_;
    return d;
  }

  const Algebra* algebra_;
  const theory* theory_;
  entailment_limits limits_;
  std::optional<std::uint32_t> left_out_{};
  std::optional<tables_type> tables_;
  std::optional<graph_type> graph_;
  std::vector<prepared_form> prepared_;
  std::vector<term_id> terms_;       // by value of the question
  std::vector<sought_node> sought_;  // operands before users
  goal_list goals_;
  std::vector<form_match> matches_;
  std::vector<axiom_instance> instances_;
  index_table seen_;
  std::size_t most_operators_ = 0;
  std::size_t rounds_ = 0;
  entailment_end end_ = entailment_end::saturated;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_VERIFICATION_ENTAILMENT)

#include <unity/rewrite/verification/prover.hpp>

namespace unity {

UNITY_INLINE derivation without_needless_steps(derivation d) {
  std::vector<bool> kept(d.steps.size(), true);
  const auto still_holds = [&] {
    std::vector<bool> enabled;
    for (const auto& e : d.ground.equalities) {
      enabled.push_back(kept[e.instance]);
    }
    return detail::naive_closure{d.ground, enabled}.goals_hold();
  };
  for (auto i = kept.size(); i-- > 0;) {
    kept[i] = false;
    kept[i] = !still_holds();
  }
  std::vector<derivation::step> steps;
  std::vector<std::uint32_t> number;
  for (const auto& [is_kept, step] : ranges::views::zip(kept, d.steps)) {
    number.push_back(static_cast<std::uint32_t>(steps.size()));
    if (is_kept) {
      steps.push_back(step);
    }
  }
  std::erase_if(d.ground.equalities, [&](const auto& e) { return !kept[e.instance]; });
  for (auto& e : d.ground.equalities) {
    e.instance = number[e.instance];
  }
  d.steps = std::move(steps);
  return d;
}

}  // namespace unity

#endif
