// Which terms are equal under given equalities: congruence closure with pattern instances found one by one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/language.hpp>

namespace unity::test {

// A slow reference for tests: terms have one sort, and binary operators are commutative.
class equality_closure {
 public:
  using class_id = std::size_t;

  class_id add(std::uint16_t op, std::uint16_t number, std::vector<class_id> operands) {
    for (auto& o : operands) {
      o = find(o);
    }
    std::sort(operands.begin(), operands.end());
    const node key{op, number, std::move(operands)};
    const auto [at, made] = nodes_.emplace(key, parents_.size());
    if (made) {
      parents_.push_back(parents_.size());
    }
    return find(at->second);
  }
  [[nodiscard]] class_id find(class_id c) const {
    while (parents_[c] != c) {
      c = parents_[c];
    }
    return c;
  }

  // Effects: applies the rules in both directions until nothing changes.
  void saturate(std::span<const std::pair<written_term, written_term>> rules) {
    for (bool changed = true; changed;) {
      changed = false;
      index();
      std::vector<std::pair<class_id, class_id>> equal;
      for (const auto& [left, right] : rules) {
        for (const auto& [root, members] : members_) {
          const auto found = [&, at = root, &to = right](const binding& b) {
            equal.emplace_back(at, instantiate(to, b));
          };
          match_one(left, static_cast<std::uint32_t>(left.size() - 1), members, {}, binding{}, found);
        }
      }
      for (const auto& [a, b] : equal) {
        changed = merge(a, b) || changed;
      }
      while (congruent()) {
      }
    }
  }

 private:
  static constexpr class_id none = ~class_id{0};
  using node = std::tuple<std::uint16_t, std::uint16_t, std::vector<class_id>>;
  using binding = std::array<class_id, 9>;  // by number of the variable, plus one; 0: unbound
  using goals = std::vector<std::pair<std::uint32_t, class_id>>;

  bool merge(class_id a, class_id b) {
    a = find(a);
    b = find(b);
    parents_[std::max(a, b)] = std::min(a, b);
    return a != b;
  }
  // Merges the classes of equal operators on equal classes; returns whether any changed.
  bool congruent() {
    bool changed = false;
    std::map<node, class_id> now;
    for (const auto& [key, at] : nodes_) {
      auto [op, number, operands] = key;
      for (auto& o : operands) {
        o = find(o);
      }
      std::sort(operands.begin(), operands.end());
      const auto [known, made] = now.emplace(node{op, number, std::move(operands)}, find(at));
      changed = (!made && merge(known->second, at)) || changed;
    }
    nodes_ = std::move(now);
    return changed;
  }
  // Below the root, a pattern matches only the smallest members of a class, because rules are about representatives.
  void index() {
    constexpr std::size_t huge = 1000;
    std::vector<std::size_t> sizes(parents_.size(), huge);
    const auto size = [&](const node& n) {
      std::size_t sum = std::get<0>(n) == term_node::variable ? 0 : 1;
      for (const auto o : std::get<2>(n)) {
        sum += sizes[find(o)];
      }
      return std::min(huge, sum);
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [key, at] : nodes_) {
        auto& known = sizes[find(at)];
        changed = size(key) < known || changed;
        known = std::min(known, size(key));
      }
    }
    members_.clear();
    smallest_.clear();
    for (const auto& [key, at] : nodes_) {
      members_[find(at)].push_back(&key);
      if (size(key) == sizes[find(at)]) {
        smallest_[find(at)].push_back(&key);
      }
    }
  }
  template <class Found>
  void match(const written_term& pattern, goals open, binding b, const Found& found) {
    if (open.empty()) {
      found(b);
      return;
    }
    const auto [at, target] = open.back();
    open.pop_back();
    const auto& p = pattern[at];
    if (p.op == term_node::variable) {
      auto& bound = b.at(p.number);
      if (bound == 0 || bound == target + 1) {
        bound = target + 1;
        match(pattern, std::move(open), b, found);
      }
      return;
    }
    match_one(pattern, at, smallest_[target], open, b, found);
  }
  template <class Found>
  void match_one(const written_term& pattern, std::uint32_t at, const std::vector<const node*>& members,
                 const goals& open, const binding& b, const Found& found) {
    const auto& p = pattern[at];
    for (const auto* member : members) {
      const auto& [op, number, operands] = *member;
      if (op == p.op) {
        for (std::size_t first = 0; first < (operands.size() == 2 && operands[0] != operands[1] ? 2 : 1); ++first) {
          auto more = open;
          for (std::size_t i = 0; i < operands.size(); ++i) {
            more.emplace_back(p.operands[i], find(operands[(i + first) % operands.size()]));
          }
          match(pattern, std::move(more), b, found);
        }
      }
    }
  }
  class_id instantiate(const written_term& t, const binding& b) {
    std::vector<class_id> made;
    for (const auto& n : t) {
      std::vector<class_id> operands;
      for (const auto o : n.operands) {
        operands.push_back(made[o]);
      }
      made.push_back(n.op == term_node::variable ? b.at(n.number) - 1 : add(n.op, 0, std::move(operands)));
    }
    return made.back();
  }

  std::vector<class_id> parents_;
  std::map<node, class_id> nodes_;
  std::map<class_id, std::vector<const node*>> members_;
  std::map<class_id, std::vector<const node*>> smallest_;
};

}  // namespace unity::test
