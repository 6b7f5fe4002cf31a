// All typed terms of one size over stored terms, each once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/candidate_term.hpp>
#include <unity/rewrite/generation/known_rules.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/naming.hpp>
#include <unity/rewrite/generation/term_store.hpp>
#include <unity/rewrite/generation/variable_map.hpp>

namespace unity {

// What operators give on types, asked of the language once.
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
  const std::optional<application>& operator()(const term_store& store, const term& t) {
    const auto type = [&](std::size_t i) {
      return i < t.arity ? store[t.operands[i].orbit].facts.type : std::uint16_t{0};
    };
    return (*this)(t.op, type(0), type(1));
  }

 private:
  L& language_;
  std::unordered_map<std::uint64_t, std::optional<application>> known_;
};

// Calls sink(candidate_term) for every term of a size whose operands are stored. Size counts shared operators once: operands
// are disjoint, or one is looked up through an operator that both contain.
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
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        occurrences_[nodes[n].orbit].emplace_back(id, static_cast<std::uint8_t>(n));
      }
    }
  }

  void run() {
    for (std::size_t op = 0; op < language_.operator_count(); ++op) {
      switch (language_.arity(op)) {
        case 0: constant(op); break;
        case 1: unary(op); break;
        default:
          disjoint(op);
          sharing(op);
          break;
      }
    }
  }

 private:
  void constant(std::size_t op) {
    if (size_ == 1) {
      offer({static_cast<std::uint16_t>(op), 0, {}}, applications_(op, 0, 0));
    }
  }
  void unary(std::size_t op) {
    for (const auto& [type, ids] : by_size_type_[size_ - 1]) {
      const auto a = applications_(op, type, 0);
      for (const auto id : a ? std::span<const orbit_id>{ids} : std::span<const orbit_id>{}) {
        const auto own = variable_map::identity().cut(store_[id].facts.variables);
        offer({static_cast<std::uint16_t>(op), 1, {instance{id, own}}}, a);
      }
    }
  }
  void disjoint(std::size_t op) {
    for (std::size_t p = 0; p < size_; ++p) {
      for (const auto& [left_type, lefts] : by_size_type_[p]) {
        for (const auto& [right_type, rights] : by_size_type_[size_ - 1 - p]) {
          if (const auto a = applications_(op, left_type, right_type)) {
            combine(op, lefts, rights, a);
          }
        }
      }
    }
  }
  void combine(std::size_t op, std::span<const orbit_id> lefts, std::span<const orbit_id> rights,
               const std::optional<application>& a) {
    for (const auto left : lefts) {
      for (const auto right : rights) {
        if (!language_.commutative(op) || left <= right) {
          for_each_naming(store_[left].facts, store_[right].facts, {}, most_variables_,
                          [&](variable_map map, std::size_t) { offer_pair(op, left, right, map, 0, a); });
        }
      }
    }
  }
  void sharing(std::size_t op) {
    std::vector<std::pair<orbit_id, variable_map>> partners;
    for (orbit_id left = 0; left < store_.size(); ++left) {
      partners.clear();
      for (const auto& node : store_.nodes(store_[left])) {
        collect_partners(op, left, node, partners);
      }
      std::sort(partners.begin(), partners.end());
      partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
      for (const auto& [right, map] : partners) {
        const auto shared = store_[left].facts.size + std::size_t{store_[right].facts.size} - (size_ - 1);
        const auto a = applications_(op, store_[left].facts.type, store_[right].facts.type);
        offer_pair(op, left, right, map, shared, a);
      }
    }
  }
  // Terms that contain `node` of `left`, with their variables named so that it is the same there.
  void collect_partners(std::size_t op, orbit_id left, instance node, std::vector<std::pair<orbit_id, variable_map>>& out) {
    const auto& l = store_[left];
    const auto& shared = store_[node.orbit];
    for (const auto& [right, at] : occurrences_[node.orbit]) {
      const auto& r = store_[right];
      const bool sizes_fit = l.facts.size + std::size_t{r.facts.size} >= size_;
      if (!sizes_fit || (language_.commutative(op) && right < left) || !applications_(op, l.facts.type, r.facts.type)) {
        continue;
      }
      const auto inside = store_.nodes(r)[at].map;
      for (const auto same : store_.automorphisms(shared)) {
        std::array<std::int8_t, variable_map::most> forced{};
        forced.fill(-1);
        const auto outside = same.then(node.map, shared.facts.variables);
        for (std::size_t v = 0; v < shared.facts.variables; ++v) {
          forced[inside[v]] = static_cast<std::int8_t>(outside[v]);
        }
        for_each_naming(l.facts, r.facts, forced, most_variables_,
                        [&](variable_map map, std::size_t) { out.emplace_back(right, map); });
      }
    }
  }
  // Takes op(left, right under map) if just so many operators are shared and this is how it is written.
  void offer_pair(std::size_t op, orbit_id left, orbit_id right, variable_map map, std::size_t shared,
                  const std::optional<application>& a) {
    const auto& l = store_[left];
    const instance first{left, variable_map::identity().cut(l.facts.variables)};
    if (store_.shared(first, {right, map}) != shared) {
      return;
    }
    const bool one_form = l.automorphism_count == 1 && store_[right].automorphism_count == 1 &&
                          !(language_.commutative(op) && left == right);
    const term t{static_cast<std::uint16_t>(op), 2, {first, instance{right, map}}};
    if (one_form || canonical(store_, t.op, language_.commutative(op), t.operands).term == t) {
      offer(t, a);
    }
  }
  void offer(const term& t, const std::optional<application>& a) {
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
  std::vector<std::vector<std::pair<orbit_id, std::uint8_t>>> occurrences_;
};

}  // namespace unity
