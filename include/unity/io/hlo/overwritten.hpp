// Finds values of an HLO computation that are overwritten in place, after XLA has inserted the copies that this
// requires.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/hlo/contraction.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io::detail {

// Loops overwrite their initial state, their bodies the state that they receive, branches and callees possibly their
// operands, dynamic-update-slice and scatter their first operands, and a module the parameters that it aliases with
// results. Such a value must not be read after that: XLA does not check again.
class hlo_overwritten {
 public:
  hlo_overwritten(const hlo_module& m, hlo_computation_id computation);

  // Whether the instruction reads a value that another one overwrites, so that it must not be computed later.
  [[nodiscard]] bool must_not_move(hlo_instruction_id i) const;
  // Whether a member of the group reads a value that another member overwrites.
  [[nodiscard]] bool is_within(const std::vector<hlo_instruction_id>& group) const;

 private:
  [[nodiscard]] hlo_value part(hlo_instruction_id tuple, std::size_t element) const;
  void find_values();
  void add_operation(hlo_instruction_id i);
  void add_state(const hlo_module& m, hlo_computation_id computation);
  void add_shared_parameters(std::string_view alias);
  void add_result(hlo_value overwritten, std::size_t element);

  const hlo_module& m_;
  const hlo_computation& c_;
  std::vector<hlo_value> value_;  // by instruction: the value that it aliases
  std::map<hlo_value, std::set<hlo_instruction_id>> overwriters_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_OVERWRITTEN)

#include <algorithm>
#include <cstdint>
#include <optional>

#include <unity/core/to_number.hpp>

namespace unity::io::detail {

UNITY_INLINE hlo_overwritten::hlo_overwritten(const hlo_module& m, hlo_computation_id computation)
    : m_{m}, c_{m[computation]} {
  find_values();
  for (std::size_t i = 0; i < c_.instructions.size(); ++i) {
    add_operation(hlo_instruction_id{i});
  }
  add_state(m, computation);
  for (const auto& a : m.attributes) {
    if (a.key == "input_output_alias" && computation == m.entry) {
      add_shared_parameters(a.text);
    }
  }
}

UNITY_INLINE hlo_value hlo_overwritten::part(hlo_instruction_id tuple, std::size_t element) const {
  const auto& x = c_[tuple];
  return x.is("tuple") ? value_[x.operands[element].index()] : hlo_value{tuple, static_cast<std::int64_t>(element)};
}

UNITY_INLINE void hlo_overwritten::find_values() {
  for (std::size_t i = 0; i < c_.instructions.size(); ++i) {
    const auto& x = c_.instructions[i];
    auto v = hlo_value{hlo_instruction_id{i}, -1};
    if ((x.is("bitcast") || x.is("reshape")) && x.operands.size() == 1) {
      v = value_[x.operands[0].index()];
    } else if (x.is("get-tuple-element")) {
      v = part(x.operands[0], to_number<std::size_t>(x.text_of("index").value_or("")).value_or(0));
    }
    value_.push_back(v);
  }
}

UNITY_INLINE void hlo_overwritten::add_operation(hlo_instruction_id i) {
  const auto& x = c_[i];
  if ((x.is("dynamic-update-slice") || x.is("scatter")) && !x.operands.empty()) {
    for (std::size_t k = 0; k < (x.is("scatter") ? x.operands.size() / 2 : 1); ++k) {
      overwriters_[value_[x.operands[k].index()]].insert(i);
    }
  } else if (x.is("while") || x.is("conditional") || x.is("call")) {
    for (const auto o : x.operands) {
      overwriters_[value_[o.index()]].insert(i);
      for (std::size_t e = 0; e < c_[o].shape.parts.size(); ++e) {
        overwriters_[part(o, e)].insert(i);
      }
    }
  } else if (const auto f = x.callee("calls"); f && x.is("fusion")) {
    for (const auto& inner : m_[*f].instructions) {
      const bool updates = (inner.is("dynamic-update-slice") || inner.is("scatter")) && !inner.operands.empty();
      const auto p = updates ? parameter_number(m_[*f][inner.operands[0]]) : -1;
      if (p >= 0) {
        overwriters_[value_[x.operands[static_cast<std::size_t>(p)].index()]].insert(i);
      }
    }
  }
}

UNITY_INLINE void hlo_overwritten::add_result(hlo_value overwritten, std::size_t element) {
  const auto& root = c_[c_.root];
  const auto v = root.shape.is_tuple() ? part(c_.root, element) : value_[c_.root.index()];
  if (v != overwritten) {
    overwriters_[overwritten].insert(v.of);
  }
}

// Marks the state as overwritten if the computation is the body of a loop.
UNITY_INLINE void hlo_overwritten::add_state(const hlo_module& m, hlo_computation_id computation) {
  const auto runs_it = [&](const auto& i) { return i.is("while") && i.callee("body") == computation; };
  const bool is_body = std::any_of(m.computations.begin(), m.computations.end(), [&](const auto& c) {
    return std::any_of(c.instructions.begin(), c.instructions.end(), runs_it);
  });
  for (const auto p : is_body ? c_.parameters() : std::vector<hlo_instruction_id>{}) {
    for (std::size_t e = 0; e < c_[p].shape.parts.size(); ++e) {
      add_result({p, static_cast<std::int64_t>(e)}, e);
    }
  }
}

// "{ {0}: (2, {}, may-alias), ... }": result 0 shares the buffer of parameter 2.
UNITY_INLINE void hlo_overwritten::add_shared_parameters(std::string_view alias) {
  const auto parameters = c_.parameters();
  for (auto at = alias.find("}: ("); at != std::string_view::npos; at = alias.find("}: (", at + 1)) {
    const auto open = alias.rfind('{', at);
    const auto element = to_number<std::size_t>(alias.substr(open + 1, at - open - 1)).value_or(0);
    const auto number = alias.substr(at + 4, alias.find(',', at) - at - 4);
    const auto p = to_number<std::size_t>(number).value_or(parameters.size());
    if (p < parameters.size() && element < std::max<std::size_t>(1, c_[c_.root].shape.parts.size())) {
      add_result({parameters[p], -1}, element);
    }
  }
}

UNITY_INLINE bool hlo_overwritten::must_not_move(hlo_instruction_id i) const {
  return std::any_of(c_[i].operands.begin(), c_[i].operands.end(),
                     [&](auto o) { return overwriters_.contains(value_[o.index()]); });
}

UNITY_INLINE bool hlo_overwritten::is_within(const std::vector<hlo_instruction_id>& group) const {
  const std::set<hlo_instruction_id> inside{group.begin(), group.end()};
  for (const auto i : group) {
    if (value_[i.index()].of != i) {
      continue;  // an alias
    }
    for (const auto o : c_[i].operands) {
      const auto at = overwriters_.find(value_[o.index()]);
      const auto is_other = [&](auto w) { return w != i && inside.contains(w); };
      if (at != overwriters_.end() && std::any_of(at->second.begin(), at->second.end(), is_other)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace unity::io::detail

#endif
