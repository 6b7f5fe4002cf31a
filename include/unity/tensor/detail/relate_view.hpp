// Members of size_relations: sizes of views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/rewrite/attribute.hpp>
#include <unity/tensor/detail/size_classes.hpp>
#include <unity/tensor/detail/size_relations.hpp>
#include <unity/tensor/view_map.hpp>

namespace unity::tensor::detail {

// The common refinement of two shapes of the same memory. Sizes without one are fixed.
class shape_refinement {
 public:
  shape_refinement(size_classes& classes, const size_numbers& from, const size_numbers& to)
      : classes_{classes}, sides_{walk{from}, walk{to}} {}

  // Returns the common factors of the shapes.
  size_numbers run();

 private:
  struct walk {
    const size_numbers& dims;
    std::vector<size_numbers> factors{};  // of the dimensions visited so far
    std::int64_t rest = 1;                // what remains of the last of them
  };

  bool next(walk& side) const;
  // Advances to where both sides have passed equally many elements.
  void skip();
  std::int64_t take_rest(walk& side);

  size_classes& classes_;
  walk sides_[2];
  size_numbers found_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_RELATE_VIEW)

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include <unity/tensor/detail/resize.hpp>

namespace unity::tensor::detail {

UNITY_INLINE size_numbers shape_refinement::run() {
  while (next(sides_[0]) && next(sides_[1])) {
    const auto common = std::gcd(sides_[0].rest, sides_[1].rest);
    if (common == 1) {
      skip();
      continue;
    }
    found_.push_back(classes_.add(common));
    for (auto& side : sides_) {
      side.factors.back().push_back(found_.back());
      side.rest /= common;
    }
  }
  for (auto& side : sides_) {
    for (std::size_t d = 0; d < side.factors.size(); ++d) {
      classes_.add_product(side.dims[d], side.factors[d]);
    }
  }
  return std::move(found_);
}

UNITY_INLINE bool shape_refinement::next(walk& side) const {
  while (side.rest == 1 && side.factors.size() < side.dims.size()) {
    side.rest = classes_.size(side.dims[side.factors.size()]);
    side.factors.emplace_back();
  }
  return side.rest > 1;
}

UNITY_INLINE void shape_refinement::skip() {
  std::int64_t passed[2] = {take_rest(sides_[0]), take_rest(sides_[1])};
  while (passed[0] != passed[1]) {
    const std::size_t behind = passed[0] < passed[1] ? 0 : 1;
    next(sides_[behind]);
    passed[behind] *= take_rest(sides_[behind]);
  }
}

UNITY_INLINE std::int64_t shape_refinement::take_rest(walk& side) {
  side.factors.back().push_back(classes_.add(side.rest));
  classes_.fix(side.factors.back().back());
  return std::exchange(side.rest, 1);
}

UNITY_INLINE void size_relations::relate_relabelling(const node_view& n, const attribute_list* outer) {
  for (const auto factor : shape_refinement{classes, n.operands[0], n.results[0]}.run()) {
    // Values of attributes of a composite (such as a number of heads) do not follow sizes.
    for (const auto& a : outer != nullptr ? *outer : attribute_list{}) {
      if (std::find(a.begin(), a.end(), classes.size(factor)) != a.end()) {
        classes.fix(factor);
      }
    }
  }
}

UNITY_INLINE void size_relations::relate_view(const node_view& n, const view_map& map, size_numbers& own) {
  for (const auto& p : map.pieces()) {
    for (std::size_t d = 0; d < p.source.size(); ++d) {
      if (p.source[d].along >= 0) {
        relate_piece(n, p, d, map.pieces().size() == 1, own);
      } else {
        classes.fix(n.operands[p.operand][d]);
      }
    }
  }
}

// Cuts `segment` out of `dim`. Returns the parts before and after it, or size_none for an empty part.
UNITY_INLINE std::pair<size_number, size_number> size_relations::cut_out(size_number dim, std::int64_t start,
                                                                         size_number segment) {
  const auto rest = classes.size(dim) - start - classes.size(segment);
  const auto before = start > 0 ? classes.add(start) : size_none;
  const auto after = rest > 0 ? classes.add(rest) : size_none;
  size_numbers parts{before, segment, after};
  std::erase(parts, size_none);
  classes.add_sum(dim, parts);
  return {before, after};
}

// Relates sizes along dimension d of the operand of the piece. is_only: the rest of the result is padding.
UNITY_INLINE void size_relations::relate_piece(const node_view& n, const piece& p, std::size_t d, bool is_only,
                                               size_numbers& own) {
  constexpr std::int64_t most_padding = 16;  // larger padding may change
  const auto& s = p.source[d];
  const auto e = static_cast<std::size_t>(s.along);
  const auto from = n.operands[p.operand][d];
  const auto to = n.results[p.result][e];
  if (s.step != 1) {
    relate_strided(n, p, d);
    return;
  }
  const auto size = p.sizes[e];
  const bool all = size == classes.size(from);
  const auto segment = all ? from : size == classes.size(to) ? to : classes.add(size);
  const auto around_source = all ? std::pair{size_none, size_none} : cut_out(from, s.start, segment);
  const auto around_target =
      size == classes.size(to) ? std::pair{size_none, size_none} : cut_out(to, p.origin[e], segment);
  if (all && size == classes.size(to)) {
    classes.unite(from, to);
  }
  own.resize(2 * std::max(n.operands[p.operand].size(), n.results[p.result].size()), size_none);
  const auto [before, after] = all ? around_target : around_source;
  own[e] = before;
  own[own.size() / 2 + e] = after;
  if (is_only) {
    for (const auto padding : {around_target.first, around_target.second}) {
      if (padding != size_none && (classes.size(padding) <= most_padding || !follows_sizes(algebra_, n.op))) {
        classes.fix(padding);
      }
    }
  }
}

// Every step-th element of a slice: what lies before the start and after the end keeps its size.
UNITY_INLINE void size_relations::relate_strided(const node_view& n, const piece& p, std::size_t d) {
  const auto e = static_cast<std::size_t>(p.source[d].along);
  const auto from = n.operands[p.operand][d];
  const auto to = n.results[p.result][e];
  if (algebra_.signature(n.op.kind).name != "slice") {
    fix_all({{from, to}});
    return;
  }
  const auto r = algebra_.read(n.op);
  const auto axes = r.integers("axes");
  const auto i =
      static_cast<std::size_t>(std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) - axes.begin());
  const auto outside = r.integers("starts")[i] + classes.size(from) - r.integers("ends")[i];
  functions_.push_back({from, to, [outside, step = p.source[d].step](std::int64_t size) {
                          return size > outside ? (size - outside - 1) / step + 1 : 0;
                        }});
}

}  // namespace unity::tensor::detail

#endif
