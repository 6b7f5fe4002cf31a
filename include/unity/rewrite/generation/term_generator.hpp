// All typed terms of one size over stored terms, each once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/known_rules.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/naming.hpp>
#include <unity/rewrite/generation/term_store.hpp>

namespace unity {

struct candidate_term {
  std::uint64_t fingerprint = 0;
  orbit_id left = 0;
  orbit_id right = 0;
  variable_map map{};  // of the right operand
  std::uint32_t program = 0;
  std::uint16_t op = 0;
  std::uint16_t type = 0;
  std::uint8_t arity : 2 = 0;
  std::uint8_t symmetric : 1 = 0;  // several namings of its variables yield the fingerprint
  std::uint8_t size = 0;
  std::uint8_t tree_size = 0;
  std::uint8_t repeats = 0;

  candidate_term() = default;
  candidate_term(const stored_term& t, const term_facts& f, std::uint32_t computed_by)
      : left{t.operands[0].orbit},
        right{t.operands[1].orbit},
        map{t.operands[1].map},
        program{computed_by},
        op{t.op},
        type{f.type},
        arity{static_cast<std::uint8_t>(t.arity & 3U)},
        size{f.size},
        tree_size{f.tree_size},
        repeats{f.repeats} {}

  [[nodiscard]] stored_term get(const term_store& store) const noexcept;
  [[nodiscard]] term_facts facts(const term_store& store) const;
  [[nodiscard]] auto order() const noexcept { return std::tuple{tree_size, repeats, op, left, right, map.bits()}; }
};
static_assert(sizeof(candidate_term) == 32);

// Caches the results of operators on types, as inferred by the language.
template <term_language L>
class application_table {
 public:
  explicit application_table(L& language) : language_{language} {}

  const std::optional<application>& operator()(std::size_t op, std::uint16_t left, std::uint16_t right) {
    const auto key = static_cast<std::uint64_t>(op) << 32U | static_cast<std::uint64_t>(left) << 16U | right;
    const auto found = known_.find(key);
    if (found != known_.end()) {
      return found->second;
    }
    const std::array types{left, right};
    return known_.emplace(key, language_.infer(op, std::span{types}.first(language_.arity(op)))).first->second;
  }
  const std::optional<application>& operator()(const term_store& store, const stored_term& t) {
    const auto type = [&](std::size_t i) {
      return i < t.arity ? store[t.operands[i].orbit].facts.type : std::uint16_t{0};
    };
    return (*this)(t.op, type(0), type(1));
  }

 private:
  L& language_;
  std::unordered_map<std::uint64_t, std::optional<application>> known_;
};

// Calls sink(candidate_term) for every term of a size whose operands are stored. Size counts shared operators once. So
// an operand with all operators except the last one is the only operand, or is paired with a variable, or with a part
// of itself; other pairs that share operators are found through an operator that both contain. Terms over one operand
// of the first kind are contiguous.
// Complexity: linear in the terms of the size, except for pairs of operands at least two operators smaller than it that
// share a different number of operators than the size requires.
template <term_language L, class Sink>
class term_generator {
 public:
  term_generator(const L& language, application_table<L>& applications, const term_store& store, std::size_t size,
                 std::size_t most_variables, Sink sink)
      : language_{language},
        applications_{applications},
        store_{store},
        size_{size},
        most_variables_{most_variables},
        sink_{std::move(sink)},
        by_size_type_(size),
        occurrences_(store.size()) {
    for (orbit_id id = 0; id < store_.size(); ++id) {
      const auto& o = store_[id];
      by_size_type_[o.facts.size][o.facts.type].push_back(id);
      const auto nodes = store_.nodes(o);
      for (std::size_t n = 0; n < nodes.size() && !is_large(o); ++n) {
        occurrences_[nodes[n].orbit].emplace_back(id, static_cast<std::uint8_t>(n));
      }
    }
    for (std::size_t op = 0; op < language_.operator_count(); ++op) {
      of_arity_[language_.arity(op)].push_back(op);
    }
  }

  void run() {
    for (const auto op : of_arity_[0]) {
      if (size_ == 1) {
        offer({static_cast<std::uint16_t>(op), 0, {}}, applications_(op, 0, 0));
      }
    }
    for (const auto& [type, ids] : by_size_type_[size_ - 1]) {
      for (const auto id : ids) {
        around(id);
      }
    }
    disjoint();
    sharing();
  }

 private:
  using partner = std::pair<orbit_id, variable_map>;
  struct binary {
    std::size_t op = 0;
    std::optional<application> gives{};
  };

  // Whether it leaves room for only one more operator.
  [[nodiscard]] bool is_large(const term_orbit& o) const noexcept { return o.facts.size + std::size_t{1} == size_; }

  // The terms with an operand of the previous size.
  void around(orbit_id id) {
    const auto type = store_[id].facts.type;
    for (const auto op : of_arity_[1]) {
      offer({static_cast<std::uint16_t>(op), 1, {term_instance{id, own_names(id)}}}, applications_(op, type, 0));
    }
    for (const auto& [other, variables] : by_size_type_[0]) {
      combine(std::span{&id, 1}, variables, binaries(type, other));
      if (size_ > 1) {
        combine(variables, std::span{&id, 1}, binaries(other, type));
      }
    }
    const auto nodes = store_.nodes(store_[id]);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const auto part = nodes[n].orbit;
      const auto root = store_.nodes(store_[part]).size() - 1;
      partners_.clear();
      name_partner(id, nodes[n], part, root);
      offer_partners(id);
      if (part != id) {
        partners_.clear();
        name_partner(part, store_.nodes(store_[part])[root], id, n);
        offer_partners(part);
      }
    }
  }
  void disjoint() {
    for (std::size_t p = 1; p + 1 < size_; ++p) {
      for (const auto& [left_type, lefts] : by_size_type_[p]) {
        for (const auto& [right_type, rights] : by_size_type_[size_ - 1 - p]) {
          combine(lefts, rights, binaries(left_type, right_type));
        }
      }
    }
  }
  void combine(std::span<const orbit_id> lefts, std::span<const orbit_id> rights, std::span<const binary> operators) {
    for (const auto left : operators.empty() ? std::span<const orbit_id>{} : lefts) {
      for (const auto right : rights) {
        for_each_naming(store_[left].facts, store_[right].facts, {}, most_variables_,
                        [&](variable_map map, std::size_t) { offer_pair(operators, left, right, map, 0); });
      }
    }
  }
  void sharing() {
    for (orbit_id left = 0; left < store_.size(); ++left) {
      partners_.clear();
      for (const auto& node : is_large(store_[left]) ? std::span<const term_instance>{} : store_.nodes(store_[left])) {
        for (const auto& [right, at] : occurrences_[node.orbit]) {
          const bool sizes_fit = store_[left].facts.size + std::size_t{store_[right].facts.size} >= size_;
          if (sizes_fit && !binaries(store_[left].facts.type, store_[right].facts.type).empty()) {
            name_partner(left, node, right, at);
          }
        }
      }
      offer_partners(left);
    }
  }
  // Names the variables of `right` so that its node number `at` becomes `node` of `left`: adds one partner for every
  // way.
  void name_partner(orbit_id left, term_instance node, orbit_id right, std::size_t at) {
    const auto& r = store_[right];
    const auto& shared = store_[node.orbit];
    const auto inside = store_.nodes(r)[at].map;
    for (const auto same : store_.automorphisms(shared)) {
      std::array<std::int8_t, variable_map::most> forced{};
      forced.fill(-1);
      const auto outside = same.then(node.map, shared.facts.variables);
      for (std::size_t v = 0; v < shared.facts.variables; ++v) {
        forced[inside[v]] = static_cast<std::int8_t>(outside[v]);
      }
      for_each_naming(store_[left].facts, r.facts, forced, most_variables_,
                      [&](variable_map map, std::size_t) { partners_.emplace_back(right, map); });
    }
  }
  // Offers the partners that share exactly as many operators as the size requires.
  void offer_partners(orbit_id left) {
    std::sort(partners_.begin(), partners_.end());
    partners_.erase(std::unique(partners_.begin(), partners_.end()), partners_.end());
    for (const auto& [right, map] : partners_) {
      const auto shared = store_[left].facts.size + std::size_t{store_[right].facts.size} - (size_ - 1);
      offer_pair(binaries(store_[left].facts.type, store_[right].facts.type), left, right, map, shared);
    }
  }

  // The operators that accept two operands of these types.
  [[nodiscard]] std::span<const binary> binaries(std::uint16_t left, std::uint16_t right) {
    const auto [found, is_new] = binaries_.try_emplace(static_cast<std::uint32_t>(left) << 16U | right);
    for (const auto op : is_new ? std::span<const std::size_t>{of_arity_[2]} : std::span<const std::size_t>{}) {
      if (const auto a = applications_(op, left, right)) {
        found->second.push_back({op, a});
      }
    }
    return found->second;
  }
  [[nodiscard]] variable_map own_names(orbit_id id) const {
    return variable_map::identity().cut(store_[id].facts.variables);
  }
  // Accepts op(left, right under map) if exactly `shared` operators are shared and this is its stored form.
  void offer_pair(std::span<const binary> operators, orbit_id left, orbit_id right, variable_map map,
                  std::size_t shared) {
    const term_instance first{left, own_names(left)};
    if (operators.empty() || store_.shared(first, {right, map}) != shared) {
      return;
    }
    const bool symmetric = store_[left].automorphism_count > 1 || store_[right].automorphism_count > 1;
    for (const auto& [op, gives] : operators) {
      const bool commutative = language_.commutative(op);
      if (commutative && right < left) {
        continue;
      }
      const stored_term t{static_cast<std::uint16_t>(op), 2, {first, term_instance{right, map}}};
      const bool one_form = !symmetric && !(commutative && left == right);
      if (one_form || canonical(store_, t.op, commutative, t.operands).term == t) {
        offer(t, gives);
      }
    }
  }
  void offer(const stored_term& t, const std::optional<application>& a) {
    if (a) {
      auto facts = facts_of(store_, t, size_);
      facts.type = a->type;
      sink_(candidate_term{t, facts, a->program});
    }
  }

  const L& language_;
  application_table<L>& applications_;
  const term_store& store_;
  std::size_t size_;
  std::size_t most_variables_;
  Sink sink_;
  std::vector<std::map<std::uint16_t, std::vector<orbit_id>>> by_size_type_;
  std::vector<std::vector<std::pair<orbit_id, std::uint8_t>>> occurrences_;  // in terms that are not large
  std::array<std::vector<std::size_t>, 3> of_arity_;
  std::unordered_map<std::uint32_t, std::vector<binary>> binaries_;  // by types of operands
  std::vector<partner> partners_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_GENERATION_TERM_GENERATOR)

namespace unity {

UNITY_INLINE stored_term candidate_term::get(const term_store& store) const noexcept {
  stored_term t;
  t.op = op;
  t.arity = arity;
  if (arity > 0) {
    t.operands[0] = {left, variable_map::identity().cut(store[left].facts.variables)};
    t.operands[1] = {right, map};
  }
  return t;
}

UNITY_INLINE term_facts candidate_term::facts(const term_store& store) const {
  auto f = facts_of(store, get(store), size);
  f.type = type;
  return f;
}

}  // namespace unity

#endif
