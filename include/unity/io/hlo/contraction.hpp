// Contracts groups of instructions of an HLO computation to one instruction each.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io::detail {

// Generates unused names.
class hlo_names {
 public:
  explicit hlo_names(const hlo_module& m);

  void release(const std::string& name) { taken_.erase(name); }
  // The name itself, or with the first number appended that makes it unused.
  std::string fresh(const std::string& name);

 private:
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, std::size_t, std::less<>> next_;
};

// The result of an instruction, or one element of its tuple. Regular.
struct hlo_value {
  hlo_instruction_id of{};
  std::int64_t element = -1;  // -1: the whole result

  friend auto operator<=>(const hlo_value&, const hlo_value&) = default;
};

[[nodiscard]] hlo_instruction get_tuple_element(std::string name, hlo_shape shape, hlo_instruction_id tuple,
                                                std::size_t element);

// The replacement of a group.
struct hlo_contracted {
  hlo_instruction instruction{};      // without operands
  std::vector<hlo_value> operands{};  // values outside of the group
  // values of its members; if more than one, the instruction's result is a tuple of them
  std::vector<hlo_value> results{};
};

// Regular.
struct hlo_member_group {
  std::vector<hlo_instruction_id> members{};  // ascending; their readers outside read the group
  std::set<hlo_instruction_id> inside{};  // members and copies: their results are available inside without being read
  std::set<hlo_instruction_id> used{};    // those that are needed; the others are left out
  std::set<hlo_value> needed{};           // results of members that are needed outside of the group
};

// Reads a computation and builds another one with the groups contracted and readers redirected. Operands precede users;
// otherwise the order is kept. Elements of a member's tuple are separate values, so its get-tuple-elements are removed.
// Instructions that were copied into all of their readers are also removed.
class hlo_contraction {
 public:
  using maker = std::function<hlo_contracted(std::size_t group)>;

  // `keep_all`: members are needed even if nothing reads them.
  // Throws: unity::error if an instruction is a member of two groups.
  hlo_contraction(const hlo_computation& c, std::vector<hlo_member_group> groups, bool keep_all,
                  std::string_view where);

  [[nodiscard]] const hlo_member_group& operator[](std::size_t group) const { return groups_[group]; }
  [[nodiscard]] const hlo_computation& computation() const noexcept { return c_; }
  [[nodiscard]] hlo_value resolve(hlo_instruction_id i) const;
  // Values that the group reads from outside, in order of first use.
  [[nodiscard]] std::vector<hlo_value> read_outside(std::size_t group) const;
  // Throws: unity::error if groups depend on each other cyclically.
  [[nodiscard]] hlo_computation run(const maker& make, hlo_names& names);

 private:
  static constexpr std::size_t outside = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_dissolved(hlo_instruction_id i) const;
  void use_all(bool keep_all);
  void use(std::size_t context, hlo_instruction_id i);
  void need(std::size_t context, hlo_value v);
  [[nodiscard]] std::set<std::size_t> units_before(std::size_t unit) const;
  [[nodiscard]] std::size_t unit_of(hlo_instruction_id i) const;
  [[noreturn]] void fail_on_circle(const std::vector<bool>& is_left, std::size_t unit) const;
  [[nodiscard]] std::vector<std::size_t> order() const;
  void emit_group(std::size_t group, hlo_contracted made, hlo_names& names);
  hlo_instruction_id emit(hlo_instruction i);
  hlo_instruction_id emit_element(hlo_instruction_id tuple, std::size_t element, hlo_names& names);
  hlo_instruction_id emitted(hlo_value v) const { return emitted_.at(v); }
  void redirect(hlo_instruction& i, const std::vector<hlo_instruction_id>& before) const;
  [[nodiscard]] std::vector<hlo_instruction_id> predecessors(std::size_t unit) const;

  const hlo_computation& c_;
  std::vector<hlo_member_group> groups_;
  std::vector<std::size_t> home_;  // by instruction: its group, or `outside`
  std::vector<bool> is_inside_;    // by instruction: whether it is inside of a group
  std::vector<bool> is_used_;      // by instruction that is not a member
  std::set<hlo_value> elements_;   // needed elements of copied instructions
  std::vector<std::pair<std::size_t, hlo_instruction_id>> open_;
  std::string where_;

  hlo_computation result_{};
  std::map<hlo_value, hlo_instruction_id> emitted_;
  std::map<std::size_t, hlo_instruction_id> unit_instruction_;
};

// Removes computations that are never called.
[[nodiscard]] hlo_module without_uncalled(hlo_module m);

// Inserts `added` before computation `at`, which is replaced; in `added` and `replacement`, ids from `at` on refer to
// the added computations, in order.
[[nodiscard]] hlo_module with_computations(hlo_module m, hlo_computation_id at, std::vector<hlo_computation> added,
                                           hlo_computation replacement);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_CONTRACTION)

#include <algorithm>
#include <iterator>
#include <queue>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io::detail {

UNITY_INLINE hlo_names::hlo_names(const hlo_module& m) {
  for (const auto& c : m.computations) {
    taken_.insert(c.name);
    for (const auto& i : c.instructions) {
      taken_.insert(i.name);
    }
  }
}

UNITY_INLINE std::string hlo_names::fresh(const std::string& name) {
  auto all = name;
  for (auto& n = next_[name]; !taken_.insert(all).second;) {
    all = fmt::format("{}.{}", name, ++n);
  }
  return all;
}

UNITY_INLINE hlo_instruction get_tuple_element(std::string name, hlo_shape shape, hlo_instruction_id tuple,
                                               std::size_t element) {
  return {std::move(name),
          std::move(shape),
          "get-tuple-element",
          {tuple},
          {},
          {{"index", fmt::format("{}", element), {}, {}}}};
}

UNITY_INLINE hlo_contraction::hlo_contraction(const hlo_computation& c, std::vector<hlo_member_group> groups,
                                              bool keep_all, std::string_view where)
    : c_{c},
      groups_{std::move(groups)},
      home_(c.instructions.size(), outside),
      is_inside_(c.instructions.size()),
      is_used_(c.instructions.size()),
      where_{where} {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const auto m : groups_[g].members) {
      if (home_[m.index()] != outside) {
        throw error{where_, fmt::format("%{} in two groups, or twice in one", printable(c_[m].name)),
                    "each instruction once, and its copies elsewhere"};
      }
      home_[m.index()] = g;
    }
    for (const auto i : groups_[g].inside) {
      is_inside_[i.index()] = true;
    }
  }
  use_all(keep_all);
}

// Whether it is a get-tuple-element of a member.
UNITY_INLINE bool hlo_contraction::is_dissolved(hlo_instruction_id i) const { return resolve(i).of != i; }

UNITY_INLINE hlo_value hlo_contraction::resolve(hlo_instruction_id i) const {
  const auto& x = c_[i];
  return x.is("get-tuple-element") && is_inside_[x.operands[0].index()]
             ? hlo_value{x.operands[0], to_number<std::int64_t>(x.text_of("index").value_or("")).value_or(0)}
             : hlo_value{i, -1};
}

UNITY_INLINE void hlo_contraction::use_all(bool keep_all) {
  need(outside, resolve(c_.root));
  for (std::size_t i = 0; i < c_.instructions.size(); ++i) {
    if (home_[i] == outside && !is_inside_[i] && !is_dissolved(hlo_instruction_id{i})) {
      use(outside, hlo_instruction_id{i});
    }
  }
  for (std::size_t g = 0; g < groups_.size() && keep_all; ++g) {
    for (const auto m : groups_[g].members) {
      use(g, m);
    }
  }
  while (!open_.empty()) {
    const auto [context, i] = open_.back();
    open_.pop_back();
    for (const auto o : c_[i].operands) {
      need(context, resolve(o));
    }
  }
}

UNITY_INLINE void hlo_contraction::use(std::size_t context, hlo_instruction_id i) {
  const bool is_new = context == outside ? !is_used_[i.index()] : groups_[context].used.insert(i).second;
  if (context == outside) {
    is_used_[i.index()] = true;
  }
  if (is_new) {
    open_.emplace_back(context, i);
  }
}

UNITY_INLINE void hlo_contraction::need(std::size_t context, hlo_value v) {
  if (context != outside && groups_[context].inside.contains(v.of)) {
    use(context, v.of);
    return;
  }
  const auto home = home_[v.of.index()];
  use(home, v.of);
  if (home == outside) {
    if (v.element >= 0) {
      elements_.insert(v);
    }
    return;
  }
  if (const auto& s = c_[v.of].shape; v.element < 0 && s.is_tuple()) {
    for (std::size_t e = 0; e < s.parts.size(); ++e) {
      groups_[home].needed.insert({v.of, static_cast<std::int64_t>(e)});
    }
  }
  groups_[home].needed.insert(v);
}

UNITY_INLINE std::vector<hlo_value> hlo_contraction::read_outside(std::size_t group) const {
  std::vector<hlo_value> all;
  std::set<hlo_value> known;
  for (const auto i : groups_[group].used) {
    for (const auto o : c_[i].operands) {
      const auto v = resolve(o);
      if (!groups_[group].inside.contains(v.of) && known.insert(v).second) {
        all.push_back(v);
      }
    }
  }
  return all;
}

// Units are numbered: instructions by index, then groups.
UNITY_INLINE std::size_t hlo_contraction::unit_of(hlo_instruction_id i) const {
  const auto v = resolve(i);
  const auto home = home_[v.of.index()];
  return home == outside ? v.of.index() : c_.instructions.size() + home;
}

UNITY_INLINE std::vector<hlo_instruction_id> hlo_contraction::predecessors(std::size_t unit) const {
  std::vector<hlo_instruction_id> all;
  const auto add = [&](hlo_instruction_id i) {
    for (const auto& a : c_[i].attributes) {
      all.insert(all.end(), a.instructions.begin(), a.instructions.end());
    }
  };
  if (unit < c_.instructions.size()) {
    add(hlo_instruction_id{unit});
    return all;
  }
  for (const auto m : groups_[unit - c_.instructions.size()].members) {
    add(m);
  }
  return all;
}

UNITY_INLINE std::set<std::size_t> hlo_contraction::units_before(std::size_t unit) const {
  std::set<std::size_t> before;
  for (const auto p : predecessors(unit)) {
    before.insert(unit_of(p));
  }
  if (unit < c_.instructions.size()) {
    for (const auto o : c_.instructions[unit].operands) {
      before.insert(unit_of(o));
    }
  } else {
    before.erase(unit);  // members may precede each other
    for (const auto v : read_outside(unit - c_.instructions.size())) {
      before.insert(unit_of(v.of));
    }
  }
  return before;
}

// Each remaining unit depends on another, so walking back ends in a cycle, and each cycle contains a group.
UNITY_INLINE void hlo_contraction::fail_on_circle(const std::vector<bool>& is_left, std::size_t unit) const {
  const auto n = c_.instructions.size();
  for (std::size_t steps = 0; steps < is_left.size() || unit < n; ++steps) {
    const auto before = units_before(unit);
    unit = *std::find_if(before.begin(), before.end(), [&](auto b) { return is_left[b]; });
  }
  throw error{
      where_,
      fmt::format("the group of %{} depends on itself", printable(c_[groups_[unit - n].members.front()].name)),
      "groups and instructions without cycles"};
}

// Kahn's algorithm: among the ready units, the first in the old order; a group has the position of its last member.
UNITY_INLINE std::vector<std::size_t> hlo_contraction::order() const {
  const auto n = c_.instructions.size();
  std::vector<std::size_t> place(n + groups_.size());
  std::vector<bool> is_there(n + groups_.size());
  for (std::size_t i = 0; i < n; ++i) {
    place[i] = i;
    is_there[i] = is_used_[i];
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    is_there[n + g] = !groups_[g].used.empty();
    place[n + g] = groups_[g].members.empty() ? 0 : groups_[g].members.back().index();
  }
  std::vector<std::size_t> missing(place.size());
  std::vector<std::vector<std::size_t>> after(place.size());
  std::priority_queue<std::pair<std::size_t, std::size_t>, std::vector<std::pair<std::size_t, std::size_t>>,
                      std::greater<>>
      ready;
  for (std::size_t u = 0; u < place.size(); ++u) {
    if (is_there[u]) {
      for (const auto b : units_before(u)) {
        missing[u] += is_there[b] ? 1 : 0;
        after[b].push_back(u);
      }
      if (missing[u] == 0) {
        ready.emplace(place[u], u);
      }
    }
  }
  std::vector<std::size_t> all;
  while (!ready.empty()) {
    const auto u = ready.top().second;
    ready.pop();
    all.push_back(u);
    is_there[u] = false;
    for (const auto a : after[u]) {
      if (--missing[a] == 0) {
        ready.emplace(place[a], a);
      }
    }
  }
  if (const auto left = std::find(is_there.begin(), is_there.end(), true); left != is_there.end()) {
    fail_on_circle(is_there, static_cast<std::size_t>(left - is_there.begin()));
  }
  return all;
}

UNITY_INLINE hlo_instruction_id hlo_contraction::emit(hlo_instruction i) {
  result_.instructions.push_back(std::move(i));
  return hlo_instruction_id{result_.instructions.size() - 1};
}

// Redirects control predecessors to what replaced them, and drops those that were removed.
UNITY_INLINE void hlo_contraction::redirect(hlo_instruction& i, const std::vector<hlo_instruction_id>& before) const {
  std::vector<hlo_instruction_id> all;
  for (const auto p : before) {
    const auto at = unit_instruction_.find(unit_of(p));
    if (at != unit_instruction_.end() && std::find(all.begin(), all.end(), at->second) == all.end()) {
      all.push_back(at->second);
    }
  }
  i.attributes.erase(
      std::remove_if(i.attributes.begin(), i.attributes.end(), [](const auto& a) { return !a.instructions.empty(); }),
      i.attributes.end());
  if (!all.empty()) {
    i.attributes.push_back({"control-predecessors", {}, {}, std::move(all)});
  }
}

UNITY_INLINE hlo_instruction_id hlo_contraction::emit_element(hlo_instruction_id tuple, std::size_t element,
                                                              hlo_names& names) {
  return emit(get_tuple_element(names.fresh("get-tuple-element"), result_[tuple].shape.parts[element], tuple, element));
}

UNITY_INLINE void hlo_contraction::emit_group(std::size_t group, hlo_contracted made, hlo_names& names) {
  const auto n = c_.instructions.size();
  for (const auto v : made.operands) {
    made.instruction.operands.push_back(emitted(v));
  }
  redirect(made.instruction, predecessors(n + group));
  const auto whole = emit(std::move(made.instruction));
  unit_instruction_[n + group] = whole;
  for (std::size_t e = 0; e < made.results.size(); ++e) {
    auto& id = emitted_[made.results[e]];
    id = whole;
    if (made.results.size() > 1) {
      id = emit_element(whole, e, names);
    }
  }
  for (const auto v : groups_[group].needed) {
    if (v.element < 0 && c_[v.of].shape.is_tuple()) {
      hlo_instruction t{names.fresh("tuple"), c_[v.of].shape, "tuple", {}, {}, {}};
      for (std::size_t e = 0; e < t.shape.parts.size(); ++e) {
        t.operands.push_back(emitted({v.of, static_cast<std::int64_t>(e)}));
      }
      emitted_[v] = emit(std::move(t));
    }
  }
}

UNITY_INLINE hlo_computation hlo_contraction::run(const maker& make, hlo_names& names) {
  result_.name = c_.name;
  result_.attributes = c_.attributes;
  for (const auto u : order()) {
    if (u >= c_.instructions.size()) {
      const auto g = u - c_.instructions.size();
      emit_group(g, make(g), names);
      continue;
    }
    auto i = c_.instructions[u];
    for (auto& o : i.operands) {
      o = emitted(resolve(o));
    }
    redirect(i, predecessors(u));
    const auto id = emit(std::move(i));
    unit_instruction_[u] = emitted_[{hlo_instruction_id{u}, -1}] = id;
    for (auto v = elements_.lower_bound({hlo_instruction_id{u}, 0}); v != elements_.end() && v->of.index() == u; ++v) {
      emitted_[*v] = emit_element(id, static_cast<std::size_t>(v->element), names);
    }
  }
  result_.root = emitted(resolve(c_.root));
  return std::move(result_);
}

UNITY_INLINE hlo_module without_uncalled(hlo_module m) {
  std::vector<bool> is_called(m.computations.size());
  is_called[m.entry.index()] = true;
  for (auto k = m.computations.size(); k-- > 0;) {
    for (const auto& i : m.computations[k].instructions) {
      for (const auto& a : i.attributes) {
        for (const auto f : a.computations) {
          is_called[f.index()] = is_called[f.index()] || is_called[k];
        }
      }
    }
  }
  std::vector<hlo_computation_id> now(m.computations.size());
  std::vector<hlo_computation> kept;
  for (std::size_t k = 0; k < m.computations.size(); ++k) {
    if (is_called[k]) {
      now[k] = hlo_computation_id{kept.size()};
      kept.push_back(std::move(m.computations[k]));
    }
  }
  for (auto& c : kept) {
    for (auto& i : c.instructions) {
      for (auto& a : i.attributes) {
        for (auto& f : a.computations) {
          f = now[f.index()];
        }
      }
    }
  }
  m.computations = std::move(kept);
  m.entry = now[m.entry.index()];
  return m;
}

UNITY_INLINE hlo_module with_computations(hlo_module m, hlo_computation_id at, std::vector<hlo_computation> added,
                                          hlo_computation replacement) {
  const auto n = static_cast<std::uint32_t>(added.size());
  for (auto k = at.index() + 1; k < m.computations.size(); ++k) {
    for (auto& i : m.computations[k].instructions) {
      for (auto& a : i.attributes) {
        for (auto& f : a.computations) {
          f = hlo_computation_id{f.index() + (f.index() >= at.index() ? n : 0)};
        }
      }
    }
  }
  m.computations[at.index()] = std::move(replacement);
  m.computations.insert(m.computations.begin() + at.index(), std::make_move_iterator(added.begin()),
                        std::make_move_iterator(added.end()));
  m.entry = hlo_computation_id{m.entry.index() + (m.entry.index() >= at.index() ? n : 0)};
  return without_uncalled(std::move(m));
}

}  // namespace unity::io::detail

#endif
