// Edits HLO modules: fuses instructions and combines all-reduces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// Instructions to fuse into one kernel. Regular.
struct hlo_fusion_group {
  std::vector<hlo_instruction_id> members{};  // instructions outside of the group that read them read the fusion
  // recomputed inside the fusion; the originals stay if something outside needs them
  std::vector<hlo_instruction_id> copies{};
  std::string kind = "kLoop";

  friend bool operator==(const hlo_fusion_group&, const hlo_fusion_group&) = default;
};

// Turns each group into a fusion, whose result is a tuple if several of its values are read outside. Fusions in a group
// become part of the new one; constants of one element are copied into the groups that read them, and so are
// instructions that only relabel bytes between members; get-tuple-elements may be in groups and have no effect. Removes
// groups that nothing reads, and copied instructions that are needed nowhere else. Keeps the order where possible: a
// fusion takes the position of its last member. A fusion has the metadata of its last member that produces one of its
// results, and, if it has one result, the sharding of that member.
// Ids of computations change; names of those that are still called do not, except for fused ones. Complexity: linear in
// the module, and n log n in the computation.
// Throws: unity::error if groups depend on each other cyclically; for instructions that cannot be in a kernel:
// parameters, collectives, control flow, instructions with effects, unknown ones; if nested fusions make a body of more
// than 2^20 instructions.
[[nodiscard]] hlo_module fuse_instructions(hlo_module m, hlo_computation_id computation,
                                           const std::vector<hlo_fusion_group>& groups);

// Whether fuse_instructions accepts it. XLA's own code generators accept fewer: hlo_work_table::is_fusible.
[[nodiscard]] bool can_be_fused(const hlo_instruction& i);

// Regular.
struct hlo_fused {
  hlo_module module{};
  std::vector<std::size_t> left_out{};  // groups, ascending

  friend bool operator==(const hlo_fused&, const hlo_fused&) = default;
};

// The same, but leaves out groups that XLA would not compute, or would compute wrongly:
// - groups with instructions that are not fusible (hlo_work_table), or with results of different dimensions;
// - groups that read what they overwrite: the state of a loop, values updated in place, shared parameters.
// Leaves copies that would read such values later than before out of their groups. This makes the edit correct for
// modules after XLA's own passes, which insert copies where something is overwritten, but before XLA schedules them.
[[nodiscard]] hlo_fused fuse_what_xla_can(const hlo_module& m, hlo_computation_id computation,
                                          const std::vector<hlo_fusion_group>& groups);

// Replaces each group of all-reduces by one with several operands. Members must agree in element type, reduction,
// replica groups and all other attributes except metadata, the channel's number, control predecessors, backend_config
// and frontend_attributes. The result has the attributes of the first member.
// Throws: unity::error if they disagree, and if one depends on another.
[[nodiscard]] hlo_module combine_all_reduces(hlo_module m, hlo_computation_id computation,
                                             const std::vector<std::vector<hlo_instruction_id>>& groups);

// Whether they are equal except for the names of instructions, their metadata and lines.
[[nodiscard]] bool compute_the_same(const hlo_computation& a, const hlo_computation& b);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_EDITS)

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/hlo/contraction.hpp>
#include <unity/io/hlo/fused_body.hpp>
#include <unity/io/hlo/work.hpp>

namespace unity::io::detail {

// Finds values of an HLO computation that are overwritten in place, after XLA has inserted the copies that this
// requires.

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
  [[nodiscard]] hlo_value value_at(hlo_instruction_id i, std::string_view index) const;
  void add_result(hlo_value overwritten, hlo_value result);

  const hlo_module& m_;
  const hlo_computation& c_;
  std::vector<hlo_value> value_;  // by instruction: the value that it aliases
  std::map<hlo_value, std::set<hlo_instruction_id>> overwriters_;
};

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

UNITY_INLINE void hlo_overwritten::add_result(hlo_value overwritten, hlo_value result) {
  if (result != overwritten) {
    overwriters_[overwritten].insert(result.of);
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
      add_result({p, static_cast<std::int64_t>(e)}, part(c_.root, e));
    }
  }
}

// "{ {0}: (2, {1}, may-alias), ... }": result 0 shares the buffer of part 1 of parameter 2.
UNITY_INLINE void hlo_overwritten::add_shared_parameters(std::string_view alias) {
  const auto parameters = c_.parameters();
  for (auto at = alias.find("}: ("); at != std::string_view::npos; at = alias.find("}: (", at + 1)) {
    const auto open = alias.rfind('{', at);
    const auto own = alias.find('{', at);
    const auto number = to_number<std::size_t>(alias.substr(at + 4, alias.find(',', at) - at - 4));
    if (!number || *number >= parameters.size() || open == std::string_view::npos || own == std::string_view::npos) {
      continue;
    }
    const auto result = value_at(c_.root, alias.substr(open + 1, at - open - 1));
    add_result(value_at(parameters[*number], alias.substr(own + 1, alias.find('}', own) - own - 1)), result);
  }
}

// The value at an index such as "1" or "1,0", without blanks; that of the whole instruction for "". Parts of parts
// count as the part of the instruction: values have one index.
UNITY_INLINE hlo_value hlo_overwritten::value_at(hlo_instruction_id i, std::string_view index) const {
  const auto& x = c_[i];
  const auto element = to_number<std::size_t>(index.substr(0, index.find(',')));
  return element && *element < x.shape.parts.size() ? part(i, *element) : value_[i.index()];
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

inline std::string where_of(const hlo_computation& c) { return fmt::format("%{}", printable(c.name)); }

inline void require_instruction(const hlo_computation& c, hlo_instruction_id i) {
  UNITY_EXPECTS(i.index() < c.instructions.size(), "an instruction of the computation");
}

inline bool is_small_constant(const hlo_instruction& i) { return i.is("constant") && element_count(i.shape) == 1; }

// Effects: adds what only relabels bytes on the way from one instruction of the group to another. Outside, it would
// depend on the group, and the group on it.
inline void add_relabellings(const hlo_computation& c, hlo_member_group& g) {
  std::set<hlo_instruction_id> before;  // relabellings from which the group's instructions get their operands
  std::vector<hlo_instruction_id> open{g.inside.begin(), g.inside.end()};
  while (!open.empty()) {
    const auto i = open.back();
    open.pop_back();
    for (const auto o : c[i].operands) {
      if (role_of(c[o]) == hlo_role::relabelling && !g.inside.contains(o) && before.insert(o).second) {
        open.push_back(o);
      }
    }
  }
  auto depends = g.inside;
  for (const auto i : before) {  // operands precede users
    const auto& operands = c[i].operands;
    if (std::any_of(operands.begin(), operands.end(), [&](auto o) { return depends.contains(o); })) {
      depends.insert(i);
      if (!c[i].is("get-tuple-element")) {
        g.inside.insert(i);
      }
    }
  }
}

inline hlo_member_group member_group(const hlo_computation& c, const hlo_fusion_group& g) {
  hlo_member_group all;
  const auto add = [&](hlo_instruction_id i, bool is_member) {
    require_instruction(c, i);
    const auto& x = c[i];
    if (!can_be_fused(x)) {
      throw error{where_of(c), fmt::format("%{} is {}, in a fusion", printable(x.name), printable(x.opcode)),
                  "instructions that kernels compute"};
    }
    if (x.is("get-tuple-element")) {
      return;
    }
    if (is_member && !x.is("constant")) {
      all.members.push_back(i);
    }
    all.inside.insert(i);
    for (const auto o : x.operands) {
      if (is_small_constant(c[o])) {
        all.inside.insert(o);
      }
    }
  };
  for (const auto i : g.members) {
    add(i, true);
  }
  for (const auto i : g.copies) {
    add(i, false);
  }
  std::sort(all.members.begin(), all.members.end());
  add_relabellings(c, all);
  return all;
}

// The attributes of a fusion. Metadata are those of the member with the last result; so is the sharding, if there is
// only one result.
inline std::vector<hlo_attribute> fusion_attributes(const hlo_computation& c, const hlo_fusion_group& g,
                                                    const std::vector<hlo_value>& results, std::size_t callee) {
  std::vector<hlo_attribute> all{{"kind", g.kind, {}, {}}, {"calls", {}, {hlo_computation_id{callee}}, {}}};
  for (const std::string_view key : {"sharding", "metadata"}) {
    const auto* const a = c[results.back().of].find(key);
    if (a != nullptr && (key == "metadata" || results.size() == 1)) {
      all.push_back(*a);
    }
  }
  return all;
}

inline std::vector<hlo_instruction_id> all_of(const hlo_fusion_group& g) {
  auto all = g.members;
  all.insert(all.end(), g.copies.begin(), g.copies.end());
  return all;
}

inline bool xla_can_generate(const hlo_work_table& work, const hlo_computation& body) {
  const auto& result = body[body.root].shape;
  return std::all_of(result.parts.begin(), result.parts.end(),
                     [&](const auto& part) { return part.dimensions == result.parts.front().dimensions; }) &&
         std::all_of(body.instructions.begin(), body.instructions.end(),
                     [&](const auto& i) { return i.is("parameter") || work.is_fusible(i); });
}

// `fits`: for each group, whether XLA can generate the resulting fusion.
inline hlo_module fuse(hlo_module m, hlo_computation_id computation, const std::vector<hlo_fusion_group>& groups,
                       std::vector<bool>& fits) {
  UNITY_EXPECTS(computation.index() < m.computations.size(), "a computation of the module");
  const auto& c = m[computation];
  std::vector<hlo_member_group> members;
  for (const auto& g : groups) {
    members.push_back(member_group(c, g));
  }
  hlo_contraction all{c, std::move(members), false, where_of(c)};
  hlo_names names{m};
  const hlo_work_table work{m};
  std::vector<hlo_computation> bodies;
  fits.assign(groups.size(), true);
  const auto make = [&](std::size_t g) {
    hlo_contracted made;
    for (const auto v : all[g].needed) {
      if (v.element >= 0 || !c[v.of].shape.is_tuple()) {
        made.results.push_back(v);
      }
    }
    made.operands = all.read_outside(g);
    auto body = hlo_fused_body{m, all, g, names}.run(made.results, made.operands);
    made.instruction = {names.fresh("fusion"),
                        body[body.root].shape,
                        "fusion",
                        {},
                        {},
                        fusion_attributes(c, groups[g], made.results, computation.index() + bodies.size())};
    fits[g] = xla_can_generate(work, body);
    bodies.push_back(std::move(body));
    return made;
  };
  auto replacement = all.run(make, names);
  return with_computations(std::move(m), computation, std::move(bodies), std::move(replacement));
}

// Whether the attributes of two all-reduces allow combining them.
inline bool can_be_combined(const hlo_module& m, const hlo_computation& c, const hlo_instruction& a,
                            const hlo_instruction& b) {
  constexpr std::array<std::string_view, 6> own{"channel_id", "metadata",       "control-predecessors",
                                                "to_apply",   "backend_config", "frontend_attributes"};
  const auto common = [&](const hlo_instruction& i) {
    auto all = i.attributes;
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& x) { return is_one_of(x.key, own); }), all.end());
    std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.key < y.key; });
    return all;
  };
  const auto f = a.callee("to_apply");
  const auto g = b.callee("to_apply");
  const auto has_type = [&](auto o) { return c[o].shape.element == c[a.operands.front()].shape.element; };
  return common(a) == common(b) && f && g && compute_the_same(m[*f], m[*g]) &&
         std::all_of(b.operands.begin(), b.operands.end(), has_type) &&
         (a.find("channel_id") == nullptr) == (b.find("channel_id") == nullptr);
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE bool can_be_fused(const hlo_instruction& i) {
  constexpr std::array<std::string_view, 9> others{"broadcast",          "iota",    "dot",  "reduce", "reduce-window",
                                                   "select-and-scatter", "scatter", "sort", "fusion"};
  return i.is("constant") || i.is("convolution") || role_of(i) == hlo_role::relabelling ||
         is_elementwise_opcode(i.opcode) || is_movement_opcode(i.opcode) || detail::is_one_of(i.opcode, others);
}

UNITY_INLINE hlo_module fuse_instructions(hlo_module m, hlo_computation_id computation,
                                          const std::vector<hlo_fusion_group>& groups) {
  std::vector<bool> fits;
  return detail::fuse(std::move(m), computation, groups, fits);
}

UNITY_INLINE hlo_fused fuse_what_xla_can(const hlo_module& m, hlo_computation_id computation,
                                         const std::vector<hlo_fusion_group>& groups) {
  hlo_fused fused;
  const detail::hlo_overwritten overwritten{m, computation};
  std::vector<std::size_t> kept;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    (overwritten.is_within(detail::all_of(groups[g])) ? fused.left_out : kept).push_back(g);
  }
  for (;;) {
    std::vector<hlo_fusion_group> trial;
    for (const auto g : kept) {
      trial.push_back(groups[g]);
      auto& copies = trial.back().copies;
      copies.erase(std::remove_if(copies.begin(), copies.end(), [&](auto i) { return overwritten.must_not_move(i); }),
                   copies.end());
    }
    std::vector<bool> fits;
    fused.module = detail::fuse(m, computation, trial, fits);
    std::vector<std::size_t> fitting;
    for (std::size_t t = 0; t < kept.size(); ++t) {
      (fits[t] ? fitting : fused.left_out).push_back(kept[t]);
    }
    if (fitting.size() == kept.size()) {
      std::sort(fused.left_out.begin(), fused.left_out.end());
      return fused;
    }
    kept = std::move(fitting);
  }
}

UNITY_INLINE hlo_module combine_all_reduces(hlo_module m, hlo_computation_id computation,
                                            const std::vector<std::vector<hlo_instruction_id>>& groups) {
  UNITY_EXPECTS(computation.index() < m.computations.size(), "a computation of the module");
  const auto& c = m[computation];
  std::vector<detail::hlo_member_group> members;
  for (const auto& g : groups) {
    detail::hlo_member_group all;
    for (const auto i : g) {
      detail::require_instruction(c, i);
      if (!c[i].is("all-reduce") || !detail::can_be_combined(m, c, c[g.front()], c[i])) {
        throw error{detail::where_of(c),
                    fmt::format("%{} with %{}", printable(c[i].name), printable(c[g.front()].name)),
                    "all-reduces of one reduction, element type and division into groups"};
      }
    }
    all.members = g;
    std::sort(all.members.begin(), all.members.end());
    all.inside.insert(g.begin(), g.end());
    members.push_back(std::move(all));
  }
  detail::hlo_contraction all{c, std::move(members), true, detail::where_of(c)};
  detail::hlo_names names{m};
  const auto make = [&](std::size_t g) {
    const auto& first = c[all[g].members.front()];
    detail::hlo_contracted made{
        {names.fresh("all-reduce"), tuple_shape({}), "all-reduce", {}, {}, first.attributes}, {}, {}};
    for (const auto i : all[g].members) {
      for (std::size_t k = 0; k < c[i].operands.size(); ++k) {
        const auto v = all.resolve(c[i].operands[k]);
        if (all[g].inside.contains(v.of)) {
          throw error{detail::where_of(c), fmt::format("%{} needs %{}", printable(c[i].name), printable(c[v.of].name)),
                      "all-reduces that do not need each other"};
        }
        made.operands.push_back(v);
        const bool is_tuple = c[i].shape.is_tuple();
        made.results.push_back({i, is_tuple ? static_cast<std::int64_t>(k) : -1});
        made.instruction.shape.parts.push_back(is_tuple ? c[i].shape.parts[k] : c[i].shape);
      }
    }
    if (made.results.size() == 1) {
      made.instruction.shape = first.shape;
    }
    return made;
  };
  auto replacement = all.run(make, names);
  return detail::with_computations(std::move(m), computation, {}, std::move(replacement));
}

UNITY_INLINE bool compute_the_same(const hlo_computation& a, const hlo_computation& b) {
  const auto plain = [](hlo_instruction i) {
    i.name.clear();
    i.attributes.erase(
        std::remove_if(i.attributes.begin(), i.attributes.end(), [](const auto& x) { return x.key == "metadata"; }),
        i.attributes.end());
    return i;
  };
  return a.root == b.root &&
         std::equal(a.instructions.begin(), a.instructions.end(), b.instructions.begin(), b.instructions.end(),
                    [&](const auto& x, const auto& y) { return plain(x) == plain(y); });
}

}  // namespace unity::io

#endif
