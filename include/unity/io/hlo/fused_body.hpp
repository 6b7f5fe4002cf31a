// Builds the computation of an HLO fusion from the fused instructions.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/hlo/contraction.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io::detail {

// The body for one group of a contraction. Nested fusions are inlined recursively.
class hlo_fused_body {
 public:
  hlo_fused_body(const hlo_module& m, const hlo_contraction& all, std::size_t group, hlo_names& names);

  // Returns the values, or a tuple of them; leaves out instructions that these do not need.
  [[nodiscard]] hlo_computation run(const std::vector<hlo_value>& results, const std::vector<hlo_value>& parameters);

 private:
  // A tuple is represented by its elements, and built only if it is needed as a whole.
  struct inner {
    hlo_instruction_id whole{};
    std::vector<hlo_instruction_id> elements{};
  };

  hlo_instruction_id add(hlo_instruction i);
  hlo_instruction_id whole(inner& v);
  hlo_instruction_id element(inner& v, std::size_t e);
  inner copy(hlo_instruction i, const std::vector<inner*>& operands);
  // Throws: unity::error if the body grows without bound: nested fusions can have any number of parts.
  inner inlined(const hlo_computation& f, const std::vector<inner*>& arguments);
  void drop_unneeded();

  const hlo_module& m_;
  const hlo_contraction& all_;
  const hlo_member_group& group_;
  hlo_names& names_;
  hlo_computation body_{};
  int depth_ = 0;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_FUSED_BODY)

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io::detail {

UNITY_INLINE hlo_fused_body::hlo_fused_body(const hlo_module& m, const hlo_contraction& all, std::size_t group,
                                            hlo_names& names)
    : m_{m}, all_{all}, group_{all[group]}, names_{names} {
  for (const auto i : group_.members) {
    names_.release(all.computation()[i].name);  // they are removed from the computation
  }
}

UNITY_INLINE hlo_instruction_id hlo_fused_body::add(hlo_instruction i) {
  i.line = 0;
  i.name = names_.fresh(i.name);
  body_.instructions.push_back(std::move(i));
  return hlo_instruction_id{body_.instructions.size() - 1};
}

UNITY_INLINE hlo_instruction_id hlo_fused_body::whole(inner& v) {
  if (!v.whole.valid()) {
    hlo_instruction t{"tuple", tuple_shape({}), "tuple", v.elements, {}, {}};
    for (const auto e : v.elements) {
      t.shape.parts.push_back(body_[e].shape);
    }
    v.whole = add(std::move(t));
  }
  return v.whole;
}

UNITY_INLINE hlo_instruction_id hlo_fused_body::element(inner& v, std::size_t e) {
  if (v.elements.empty()) {
    const auto parts = body_[v.whole].shape.parts;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      v.elements.push_back(add(get_tuple_element("get-tuple-element", parts[k], v.whole, k)));
    }
  }
  return v.elements[e];
}

// Sharding, control dependencies and compiler configuration of a single instruction do not apply inside of a fusion.
UNITY_INLINE hlo_fused_body::inner hlo_fused_body::copy(hlo_instruction i, const std::vector<inner*>& operands) {
  if (i.is("tuple")) {
    inner v;
    for (auto* const o : operands) {
      v.elements.push_back(whole(*o));
    }
    return v;
  }
  if (i.is("get-tuple-element")) {
    return {element(*operands[0], to_number<std::size_t>(i.text_of("index").value_or("")).value_or(0)), {}};
  }
  if (const auto f = i.callee("calls"); f && i.is("fusion")) {
    return inlined(m_[*f], operands);
  }
  for (std::size_t k = 0; k < operands.size(); ++k) {
    i.operands[k] = whole(*operands[k]);
  }
  i.attributes.erase(std::remove_if(i.attributes.begin(), i.attributes.end(),
                                    [](const auto& a) {
                                      return a.key == "sharding" || a.key == "control-predecessors" ||
                                             a.key == "backend_config";
                                    }),
                     i.attributes.end());
  return {add(std::move(i)), {}};
}

UNITY_INLINE hlo_fused_body::inner hlo_fused_body::inlined(const hlo_computation& f,
                                                           const std::vector<inner*>& arguments) {
  constexpr std::size_t most_parts = std::size_t{1} << 20U;
  constexpr int most_fusions = 64;
  if (depth_ == most_fusions || body_.instructions.size() > most_parts) {
    throw error{fmt::format("%{}", printable(f.name)), "too much in a fusion",
                fmt::format("{} fusions in each other and 2^20 instructions at most", most_fusions)};
  }
  ++depth_;
  std::vector<inner> values;
  values.reserve(f.instructions.size());  // keeps pointers to them valid
  for (const auto& i : f.instructions) {
    if (i.is("parameter")) {
      values.push_back(*arguments[static_cast<std::size_t>(parameter_number(i))]);
      continue;
    }
    std::vector<inner*> operands;
    for (const auto o : i.operands) {
      operands.push_back(&values[o.index()]);
    }
    values.push_back(copy(i, operands));
  }
  --depth_;
  return values[f.root.index()];
}

UNITY_INLINE hlo_computation hlo_fused_body::run(const std::vector<hlo_value>& results,
                                                 const std::vector<hlo_value>& parameters) {
  const auto& c = all_.computation();
  body_.name = names_.fresh("fused_computation");
  std::map<hlo_value, inner> values;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto& of = c[parameters[p].of].shape;
    const auto e = parameters[p].element;
    values[parameters[p]].whole = add({fmt::format("param_{}", p),
                                       e < 0 ? of : of.parts[static_cast<std::size_t>(e)],
                                       "parameter",
                                       {},
                                       fmt::format("{}", p),
                                       {}});
  }
  const auto at = [&](hlo_value v) -> inner& {
    auto& known = values[v];
    if (v.element >= 0 && !known.whole.valid()) {  // an element of a member's tuple
      known.whole = element(values[{v.of, -1}], static_cast<std::size_t>(v.element));
    }
    return known;
  };
  for (const auto i : group_.used) {
    std::vector<inner*> operands;
    for (const auto o : c[i].operands) {
      operands.push_back(&at(all_.resolve(o)));
    }
    auto made = copy(c[i], operands);
    values[{i, -1}] = std::move(made);
  }
  inner root;
  for (const auto v : results) {
    root.elements.push_back(whole(at(v)));
  }
  body_.root = results.size() == 1 ? root.elements.front() : whole(root);
  drop_unneeded();
  return std::move(body_);
}

UNITY_INLINE void hlo_fused_body::drop_unneeded() {
  std::vector<bool> is_needed(body_.instructions.size());
  is_needed[body_.root.index()] = true;
  std::vector<hlo_instruction> kept;
  std::vector<hlo_instruction_id> now(body_.instructions.size());
  for (auto i = body_.instructions.size(); i-- > 0;) {
    for (const auto o : body_.instructions[i].operands) {
      is_needed[o.index()] = is_needed[o.index()] || is_needed[i];
    }
  }
  for (std::size_t i = 0; i < body_.instructions.size(); ++i) {
    auto& x = body_.instructions[i];
    if (!is_needed[i] && !x.is("parameter")) {
      names_.release(x.name);
      continue;
    }
    for (auto& o : x.operands) {
      o = now[o.index()];
    }
    now[i] = hlo_instruction_id{kept.size()};
    kept.push_back(std::move(x));
  }
  body_.root = now[body_.root.index()];
  body_.instructions = std::move(kept);
}

}  // namespace unity::io::detail

#endif
