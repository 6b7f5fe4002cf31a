// Typing and checking of tensor terms: the larger members of term_language.
#pragma once

#include <unity/rewrite/generation/language.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/vocabulary.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

// Evaluates a typed term in one world. The values of a variable depend only on its sort, its number, the world and the
// point.
class deep_evaluation {
 public:
  deep_evaluation(const term_language& language, const written_term& t,
                  std::span<const term_language::typed_node> nodes, std::size_t world)
      : language_{language}, term_{t}, nodes_{nodes}, world_{world}, values_(t.size()) {}

  [[nodiscard]] std::span<const modular61> at(std::size_t point);

 private:
  // Samples a variable. Its third slice has values like the second, but with the signs of a variable of the other
  // parity, so that detecting a relu below a pooling does not depend on the number of the variable.
  void sample(std::size_t n, std::size_t point);
  void evaluate(std::size_t n);

  static constexpr std::size_t other_point = 64;  // a point that is used nowhere else

  const term_language& language_;
  const written_term& term_;
  std::span<const term_language::typed_node> nodes_;
  std::size_t world_;
  std::vector<std::vector<modular61>> values_;
};

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_DETAIL_LANGUAGE)

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/index_types.hpp>

namespace unity::tensor {

UNITY_INLINE std::uint16_t term_language::intern(symbolic_type t) {
  auto h = hash_combine(static_cast<std::uint64_t>(t.role), static_cast<std::uint64_t>(t.element));
  for (const auto& d : t.dims) {
    h = hash_combine(h, hash_value(d));
  }
  const auto [from, to] = type_index_.equal_range(h);
  for (auto i = from; i != to; ++i) {
    if (types_[i->second] == t) {
      return i->second;
    }
  }
  const auto id = static_cast<std::uint16_t>(types_.size());
  constexpr std::size_t most = 0xffff;
  if (types_.size() == most) {
    throw error{"vocabulary", fmt::format("terms of more than {} types", most), "fewer operators, or fewer in a term"};
  }
  probe_elements_.push_back(choose_probes(t));
  types_.push_back(std::move(t));
  type_index_.emplace(h, id);
  return id;
}

// Chooses ten elements per part of the tensor, at most forty, or all if there are fewer: at the ends and in the middle
// of every part.
UNITY_INLINE std::vector<std::size_t> term_language::choose_probes(const symbolic_type& t) {
  const auto& dims = t.dims[0];
  const auto count = static_cast<std::size_t>(element_count(dims));
  const auto strides = strides_of(dims);
  std::size_t parts = 1;
  std::vector<std::vector<std::int64_t>> ends(dims.size(), {0});
  for (std::size_t d = 0; d < dims.size(); ++d) {
    for (const auto& cut : t.cuts[d]) {
      ends[d].push_back(cut[0]);
    }
    // Cuts that differ at other sizes may coincide here, or be in another order.
    ends[d].push_back(dims[d]);
    std::sort(ends[d].begin(), ends[d].end());
    ends[d].erase(std::unique(ends[d].begin(), ends[d].end()), ends[d].end());
    parts *= ends[d].size() - 1;
  }
  std::vector<std::size_t> chosen;
  for (std::uint64_t k = 0; chosen.size() < std::min({10 * parts, std::size_t{40}, count}); ++k) {
    std::int64_t at = 0;
    auto rest = k;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto part = rest % (ends[d].size() - 1);
      rest /= ends[d].size() - 1;
      const auto size = static_cast<std::uint64_t>(ends[d][part + 1] - ends[d][part]);
      const std::array<std::uint64_t, 3> places{0, size / 2, size - 1};
      const auto bits = hash_combine(k, d);
      at += (ends[d][part] + static_cast<std::int64_t>(k < 64 ? places[bits % 3] : bits % size)) * strides[d];
    }
    if (std::find(chosen.begin(), chosen.end(), static_cast<std::size_t>(at)) == chosen.end()) {
      chosen.push_back(static_cast<std::size_t>(at));
    }
  }
  return chosen;
}

UNITY_INLINE bool term_language::takes(std::size_t op, std::span<const std::uint16_t> types) const {
  const auto& e = word(op);
  bool fits = types.size() == e.operands.size();
  for (std::size_t i = 0; fits && i < types.size(); ++i) {
    const auto& t = types_[types[i]];
    const auto& first = types_[types[0]];
    fits = (e.operands[i] == role::any || e.operands[i] == t.role) && (!e.same_shape || t.dims == first.dims) &&
           (!e.same_role || t.role == first.role) && (!e.same_rank || t.cuts.size() == first.cuts.size()) &&
           (e.ranks.empty() ||
            std::find(e.ranks.begin(), e.ranks.end(), static_cast<std::int64_t>(t.cuts.size())) != e.ranks.end());
  }
  return fits;
}

UNITY_INLINE std::optional<operation> term_language::operation_in(std::size_t op, std::span<const std::uint16_t> types,
                                                                  std::size_t world) const {
  const auto& e = word(op);
  const auto& signature = algebra_.signature(e.kind);
  attribute_list values;
  for (const auto& a : signature.attributes) {
    values.push_back(a.default_value);
  }
  for (const auto& [number, value] : e.attributes) {
    values[number].clear();
    for (const auto& v : value) {
      values[number].push_back(size_in(v, world));
    }
  }
  if (operators_[op].splits) {
    const auto axis = static_cast<std::size_t>(values[0][0]);
    const auto& t = types_[types[0]];
    if (axis >= t.cuts.size() || t.cuts[axis].size() != 1) {
      return std::nullopt;
    }
    const auto cut = t.cuts[axis][0][world];
    values[1] = {cut, t.dims[world][axis] - cut};
  }
  return algebra_.make(e.kind, values);
}

UNITY_INLINE role term_language::role_of(std::size_t op, std::span<const std::uint16_t> types) const {
  const auto& e = word(op);
  if (e.result != role::any || types.empty()) {
    return e.result;
  }
  const auto is_input = [&](std::uint16_t t) { return types_[t].role == role::input; };
  return is_input(types[0]) || (!e.like_first && std::any_of(types.begin(), types.end(), is_input)) ? role::input
                                                                                                    : role::weight;
}

UNITY_INLINE auto term_language::apply(std::size_t op, std::span<const std::uint16_t> types)
    -> std::optional<term_language::applied> {
  if (!takes(op, types)) {
    return std::nullopt;
  }
  applied a;
  a.result = operators_[op].result;
  symbolic_type t;
  for (std::size_t w = 0; w < world_count; ++w) {
    const auto o = operation_in(op, types, w);
    std::vector<tensor_type> inputs;
    for (const auto i : types) {
      inputs.push_back(type_in(i, w));
    }
    const auto results = o ? algebra_.infer(*o, inputs) : std::nullopt;
    if (!results || (w > 0 && (*results)[a.result].rank() != t.dims[0].size())) {
      return std::nullopt;
    }
    a.operations[w] = *o;
    t.element = (*results)[a.result].element;
    t.dims[w] = (*results)[a.result].dims;
  }
  t.role = role_of(op, types);
  t.cuts = cuts_of(op, a.operations[0], t.dims[0].size(), types);
  a.type = intern(std::move(t));
  return a;
}

// An axis keeps the cuts of the operand axes that have the same index.
UNITY_INLINE std::vector<cut_list> term_language::cuts_of(std::size_t op, const operation& in_world_0, std::size_t rank,
                                                          std::span<const std::uint16_t> types) const {
  std::vector<cut_list> cuts(rank);
  std::vector<tensor_type> inputs;
  for (const auto i : types) {
    inputs.push_back(type_in(i, 0));
  }
  const auto structure = dimension_indices(algebra_, in_world_0, inputs);
  const auto add = [](cut_list& to, const by_world<std::int64_t>& cut) {
    if (std::find(to.begin(), to.end(), cut) == to.end()) {
      to.push_back(cut);
    }
  };
  for (std::size_t r = 0; structure && r < rank; ++r) {
    const auto& mine = structure->results[operators_[op].result][r];
    for (std::size_t i = 0; i < types.size() && !mine.indices.empty() && !mine.window; ++i) {
      for (std::size_t d = 0; d < structure->operands[i].size(); ++d) {
        for (const auto& cut : structure->operands[i][d] == mine ? types_[types[i]].cuts[d] : cut_list{}) {
          add(cuts[r], cut);
        }
      }
    }
  }
  if (operators_[op].joins) {
    const auto axis = static_cast<std::size_t>(in_world_0.attributes[0][0]);
    by_world<std::int64_t> from{};
    cuts[axis].clear();
    for (const auto i : types) {
      if (i != types[0] || from[0] > 0) {
        add(cuts[axis], from);
      }
      const auto& t = types_[i];
      for (auto cut : t.cuts[axis]) {
        for (std::size_t w = 0; w < world_count; ++w) {
          cut[w] += from[w];
        }
        add(cuts[axis], cut);
      }
      for (std::size_t w = 0; w < world_count; ++w) {
        from[w] += t.dims[w][axis];
      }
    }
  }
  for (auto& list : cuts) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.back() < b.back(); });
  }
  return cuts;
}

UNITY_INLINE auto term_language::typed(const written_term& t) -> std::vector<term_language::typed_node> {
  std::vector<typed_node> nodes(t.size());
  for (std::size_t n = 0; n < t.size(); ++n) {
    if (t[n].op == term_node::variable) {
      nodes[n].type = sorts_[t[n].sort];
      continue;
    }
    small_vector<std::uint16_t, 2> types;
    for (const auto o : t[n].operands) {
      types.push_back(nodes[o].type);
    }
    const auto type = [&](std::size_t i) { return i < types.size() ? types[i] : std::uint16_t{0xffff}; };
    const std::tuple key{std::size_t{t[n].op}, type(0), type(1)};
    auto found = deep_.find(key);
    if (found == deep_.end()) {
      const auto a = apply(t[n].op, types);
      UNITY_EXPECTS(a.has_value(), "a typed term");
      found = deep_.emplace(key, *a).first;
    }
    nodes[n] = {found->second.type, &found->second};
  }
  return nodes;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE std::span<const modular61> deep_evaluation::at(std::size_t point) {
  for (std::size_t n = 0; n < term_.size(); ++n) {
    if (nodes_[n].by == nullptr) {
      sample(n, point);
    } else {
      evaluate(n);
    }
  }
  return values_.back();
}

UNITY_INLINE void deep_evaluation::sample(std::size_t n, std::size_t point) {
  const auto& type = language_.type(nodes_[n].type);
  const auto& dims = type.dims[world_];
  values_[n].resize(static_cast<std::size_t>(element_count(dims)));
  const auto slice = dims.empty() ? values_[n].size() : values_[n].size() / static_cast<std::size_t>(dims[0]);
  for (std::size_t i = 0; i < values_[n].size(); ++i) {
    const bool turned = type.role == role::input && i / slice == 2;
    const auto& [op, sort, number, operands] = term_[n];
    const auto value = turned ? language_.sample_value(sort, number ^ 1U, world_, point + other_point, i - slice)
                              : language_.sample_value(sort, number, world_, point, i);
    values_[n][i] = value.small ? modular61{value.integer} : modular61::of_residue(value.bits);
  }
}

UNITY_INLINE void deep_evaluation::evaluate(std::size_t n) {
  small_vector<const modular61*, 2> operands;
  std::vector<tensor_type> types;
  for (const auto o : term_[n].operands) {
    operands.push_back(values_[o].data());
    types.push_back(language_.type_in(nodes_[o].type, world_));
  }
  const auto& by = *nodes_[n].by;
  auto results = evaluate_at<modular61>(language_.operators(), by.operations[world_], operands, types, 0);
  values_[n] = std::move(results[by.result].data);
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::uint64_t term_language::deep_fingerprint(const written_term& t, bool thorough) {
  const auto nodes = typed(t);
  // Single elements are compared at many points: at a few points all may have the same sign.
  const bool scalars = std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return elements(n.type) == 1; });
  const std::size_t points = scalars ? (thorough ? 16 : 2) : 1;
  std::uint64_t hash = 0;
  for (std::size_t w = thorough ? 2 : 1; w < (thorough ? world_count - 1 : 2); ++w) {
    detail::deep_evaluation evaluation{*this, t, nodes, w};
    for (std::size_t point = 0; point < points; ++point) {
      for (const auto& e : evaluation.at(point)) {
        hash = hash * 0x9e3779b97f4a7c15U + mix64(e.residue());
      }
    }
  }
  return hash;
}

}  // namespace unity::tensor

#endif
