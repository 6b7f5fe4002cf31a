// Index maps: the operand element that each result element equals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Where along an operand's dimension a piece reads: start + step * (position in the piece along result dimension
// `along`), or always at start.
struct strided {
  int along = -1;
  std::int64_t start = 0;
  std::int64_t step = 1;
};

// A box of a result, and where its elements come from.
struct piece {
  std::size_t operand = 0;
  std::size_t result = 0;
  shape origin{};  // of the box, one per dimension of the result
  shape sizes{};
  small_vector<strided, 6> source{};  // one per dimension of the operand
};

// A view of given inputs, as its definition writes it: add every result, then the pieces that fill them.
// Elements in no piece have the value fill.
class view_map : public judgement {
 public:
  using judgement::judgement;

  // All of result `result` is all of `operand`: result dimension `along[d]` is operand dimension d.
  void whole(std::size_t operand, std::size_t result, std::span<const int> along);

  // The first operand's elements in unchanged order: a new shape for the same memory.
  void relabel() noexcept { relabels_ = true; }

  // A piece that covers the whole result and reads source dimension d along d, for the caller to refine.
  [[nodiscard]] piece box(std::size_t operand, std::size_t result) const;
  void add(piece p) { pieces_.push_back(std::move(p)); }
  void fill_with(double value) noexcept { fill_ = value; }

  [[nodiscard]] bool relabels() const noexcept { return relabels_; }
  [[nodiscard]] std::span<const piece> pieces() const noexcept { return pieces_; }
  [[nodiscard]] double fill() const noexcept { return fill_; }

 private:
  std::vector<piece> pieces_;
  double fill_ = 0;
  bool relabels_ = false;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_VIEW_MAP)

namespace unity::tensor {

UNITY_INLINE void view_map::whole(std::size_t operand, std::size_t result, std::span<const int> along) {
  if (failed()) {
    return;
  }
  auto p = box(operand, result);
  for (std::size_t d = 0; d < along.size(); ++d) {
    p.source[d].along = along[d];
  }
  pieces_.push_back(std::move(p));
}

UNITY_INLINE piece view_map::box(std::size_t operand, std::size_t result) const {
  piece p{operand, result, shape(results()[result].dims.size(), 0), results()[result].dims, {}};
  for (std::size_t d = 0; d < rank(operand); ++d) {
    p.source.push_back({static_cast<int>(d), 0, 1});
  }
  return p;
}

}  // namespace unity::tensor

#endif
