// Members of size_relations: sizes of primitive operators, and sizes that are functions of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/tensor/detail/size_relations.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_RELATE_PRIMITIVE)

#include <map>
#include <variant>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/detail/resize.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::tensor::detail {

// Relates a dimension to the indices that run along it.
UNITY_INLINE void size_relations::link(const access& a, size_number dim, const size_numbers& indices) {
  size_numbers inside;
  for (std::size_t i = 0; i < a.size(); ++i) {
    inside.push_back(indices[a[i]]);
  }
  classes.add_product(dim, std::move(inside));
}

UNITY_INLINE void size_relations::relate_primitive(const node_view& n, const space& s, bool top) {
  size_numbers indices;
  for (const auto& i : s.indices()) {
    indices.push_back(classes.add(i.size));
  }
  std::vector<bool> follows(indices.size(), top && follows_sizes(algebra_, n.op));
  for (const auto& w : s.windows()) {
    follows[static_cast<std::size_t>(w.outer)] = true;
  }
  for (std::size_t o = 0; o < n.operands.size(); ++o) {
    for (std::size_t d = 0; d < n.operands[o].size(); ++d) {
      const auto& a = s.operand(o)[d];
      if (a.is_window()) {
        relate_window(n, s, o, d);
      } else {
        link(a, n.operands[o][d], indices);
      }
      if (a.size() == 1) {
        follows[a[0]] = true;
      }
    }
  }
  for (std::size_t r = 0; r < n.results.size(); ++r) {
    for (std::size_t d = 0; d < n.results[r].size(); ++d) {
      link(s.result_accesses(r)[d], n.results[r][d], indices);
    }
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    // A mean or a maximum of two elements reveals little about the operand, and a normalization of two nothing.
    if (n.operands.size() == 1 && s.indices()[i].kind != index_kind::parallel) {
      classes.require_at_least(indices[i], 4);
    }
    if (!follows[i]) {
      classes.fix(indices[i]);
    }
  }
  for (const auto& w : s.windows()) {
    if (w.inner >= 0) {
      classes.fix(indices[static_cast<std::size_t>(w.inner)]);
    }
  }
  // Indices whose positions are compared have equal sizes, as in an identity matrix.
  const auto kernel = std::get<primitive>(algebra_.definition_of(n.op.kind).body).kernel;
  const auto program = kernel ? kernel(algebra_.read(n.op), n.operand_types).outer : scalar_program{};
  for (std::size_t i = 0; i + 2 < program.size(); ++i) {
    if (program[i].op == scalar_op::coordinate && program[i + 1].op == scalar_op::coordinate &&
        program[i + 2].op == scalar_op::equal) {
      classes.unite(indices[static_cast<std::size_t>(program[i].number)],
                    indices[static_cast<std::size_t>(program[i + 1].number)]);
    }
  }
}

UNITY_INLINE void size_relations::relate_window(const node_view& n, const space& s, std::size_t operand,
                                                std::size_t d) {
  const auto& w = s.windows()[s.operand(operand)[d].window_number()];
  const auto reach = w.inner < 0 ? 1 : (s.size_of(w.inner) - 1) * w.dilation + 1;
  classes.require_at_least(n.operands[operand][d], reach);
  for (std::size_t e = 0; e < n.results[0].size(); ++e) {
    const auto& a = s.result_accesses(0)[e];
    if (a.size() == 1 && a[0] == static_cast<std::size_t>(w.outer)) {
      const auto places = [&a = algebra_, op = n.op, types = n.operand_types, operand, d, e](std::int64_t size) {
        auto probe = types;
        probe[operand].dims[d] = size;
        const auto results = a.infer(op, probe);
        return results ? (*results)[0].dims[e] : 0;
      };
      functions_.push_back({n.operands[operand][d], n.results[0][e], places});
    }
  }
}

// Unites sizes that follow from the same size and are equal. Returns whether anything changed.
UNITY_INLINE bool size_relations::unite_functions() {
  bool news = false;
  std::map<std::pair<size_number, std::int64_t>, size_number> known;
  for (const auto& f : functions_) {
    const auto [at, is_new] = known.emplace(std::pair{classes.find(f.from), classes.size(f.to)}, f.to);
    if (!is_new && classes.find(at->second) != classes.find(f.to)) {
      classes.unite(at->second, f.to);
      news = true;
    }
  }
  return news;
}

}  // namespace unity::tensor::detail

#endif
