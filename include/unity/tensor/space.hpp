// Index maps of views, and iteration spaces: which named index runs along which dimension of which operand and result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
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

// How an index may be treated when its operator is split.
// Source: Jia's dissertation (2020) table 3.1.
enum class index_kind : std::uint8_t {
  parallel,   // in the results: each part computes its own elements
  reduction,  // not in the results: the parts' results are summed
  whole,      // never split
  statistic,  // in the results, but every element needs the whole index (softmax, norms)
};

struct index {
  const char* name = "";  // a string literal
  index_kind kind = index_kind::parallel;
  std::int64_t size = 0;  // 0: not yet known
};

// Two indices run over one operand dimension of size `extent`: they read position outer * stride + inner * dilation -
// before. Positions outside of [0, extent) are padding; those inside [count_from, count_to) count as reduced points.
struct window {
  int outer = 0;
  int inner = -1;  // -1: no kernel index
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;
  std::int64_t extent = 0;
  std::int64_t count_from = 0;
  std::int64_t count_to = 0;
};

// What runs along one dimension: nothing (size 1, or broadcast), indices from outer to inner, or a window.
class access {
 public:
  static constexpr std::size_t max_indices = 4;

  constexpr access() noexcept = default;
  constexpr access(int index) noexcept
      : size_{1}, indices_{static_cast<std::int8_t>(index)} {}  // NOLINT: a dimension is its index
  constexpr access(std::initializer_list<int> outer_to_inner) noexcept {
    for (const auto i : outer_to_inner) {
      indices_[size_++] = static_cast<std::int8_t>(i);
    }
  }
  [[nodiscard]] static constexpr access of_window(std::size_t number) noexcept {
    access a;
    a.window_ = static_cast<std::int8_t>(number);
    return a;
  }

  [[nodiscard]] constexpr bool is_window() const noexcept { return window_ >= 0; }
  [[nodiscard]] constexpr std::size_t window_number() const noexcept { return static_cast<std::size_t>(window_); }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr std::size_t operator[](std::size_t i) const noexcept {
    return static_cast<std::size_t>(indices_[i]);
  }

 private:
  std::uint8_t size_ = 0;
  std::int8_t window_ = -1;
  std::array<std::int8_t, max_indices> indices_{};
};

// The iteration space of a primitive operator on given inputs, as its definition writes it: declare the indices,
// read every operand in order, write every result. Reading binds the sizes of indices and checks them.
class space : public judgement {
 public:
  static constexpr std::size_t max_indices = 64;

  using judgement::judgement;

  // Declares an index and returns its number. Size 0: bound by the first read.
  int parallel(const char* name, std::int64_t size = 0) { return declare(name, index_kind::parallel, size); }
  int reduced(const char* name, std::int64_t size = 0) { return declare(name, index_kind::reduction, size); }
  int whole(const char* name, std::int64_t size = 0) { return declare(name, index_kind::whole, size); }
  int statistic(const char* name, std::int64_t size = 0) { return declare(name, index_kind::statistic, size); }

  // The dimension that `w` slides over. The sizes of both its indices must be known.
  [[nodiscard]] access sliding(window w) {
    windows_.push_back(w);
    return access::of_window(windows_.size() - 1);
  }

  // Reads the next operand: one access per dimension.
  void read(std::span<const access> accesses);
  void read(std::initializer_list<access> accesses) { read({accesses.begin(), accesses.size()}); }

  // Adds a result, whose sizes follow from its indices and windows. Along a window, overlapping terms are summed and
  // terms in the padding are dropped: the adjoint of reading it. Element type: the first operand's.
  void write(std::span<const access> accesses) {
    write(accesses, inputs().empty() ? dtype::float32 : inputs()[0].element);
  }
  void write(std::initializer_list<access> accesses) { write({accesses.begin(), accesses.size()}); }
  void write(std::span<const access> accesses, dtype element);

  [[nodiscard]] std::span<const index> indices() const noexcept { return indices_; }
  [[nodiscard]] std::span<const window> windows() const noexcept { return windows_; }
  [[nodiscard]] std::int64_t size_of(int index) const { return indices_[static_cast<std::size_t>(index)].size; }
  [[nodiscard]] std::span<const access> operand(std::size_t i) const { return part(reads_, i, 0); }
  [[nodiscard]] std::span<const access> result_accesses(std::size_t i) const {
    return part(writes_, i, reads_.empty() ? 0 : reads_.back());
  }
  [[nodiscard]] std::size_t operand_count() const noexcept { return reads_.size(); }
  [[nodiscard]] std::size_t result_count() const noexcept { return writes_.size(); }

 private:
  using ends = small_vector<std::size_t, 6>;

  int declare(const char* name, index_kind kind, std::int64_t size);

  // Derives the size of the unknown index from that of the dimension, or checks that the sizes agree. At most one index
  // may be unknown.
  void bind(const access& a, std::int64_t size, int operand);

  [[nodiscard]] std::int64_t extent_of(const access& a) const;

  [[nodiscard]] std::span<const access> part(const ends& limits, std::size_t i, std::size_t base) const {
    const auto from = i == 0 ? base : limits[i - 1];
    return {accesses_.data() + from, limits[i] - from};
  }

  small_vector<index, 8> indices_;
  small_vector<access, 16> accesses_;
  small_vector<window, 2> windows_;
  ends reads_;
  ends writes_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SPACE)

#include <unity/core/config.hpp>

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

UNITY_INLINE void space::read(std::span<const access> accesses) {
  const auto operand = reads_.size();
  if (failed() || !require(operand < inputs().size(), "as many operands as the definition reads") ||
      !require_rank(operand, accesses.size())) {
    return;
  }
  for (std::size_t d = 0; d < accesses.size(); ++d) {
    bind(accesses[d], dims(operand)[d], static_cast<int>(operand));
    accesses_.push_back(accesses[d]);
  }
  reads_.push_back(accesses_.size());
}

UNITY_INLINE void space::write(std::span<const access> accesses, dtype element) {
  if (failed() || !require(reads_.size() == inputs().size(), "as many operands as the definition reads")) {
    return;
  }
  shape dims;
  for (const auto& a : accesses) {
    dims.push_back(extent_of(a));
    accesses_.push_back(a);
  }
  writes_.push_back(accesses_.size());
  result(std::move(dims), element);
}

UNITY_INLINE int space::declare(const char* name, index_kind kind, std::int64_t size) {
  require(indices_.size() < max_indices, "fewer indices");
  indices_.push_back({name, kind, size});
  return static_cast<int>(indices_.size()) - 1;
}

UNITY_INLINE void space::bind(const access& a, std::int64_t size, int operand) {
  if (a.is_window()) {
    return;
  }
  std::int64_t known = 1;
  index* unknown = nullptr;
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto& index = indices_[a[i]];
    if (index.size == 0) {
      UNITY_EXPECTS(unknown == nullptr, "a dimension with at most one index of unknown size");
      unknown = &index;
    } else {
      known *= index.size;
    }
  }
  const auto* name = a.size() == 0 ? "1" : indices_[a[a.size() - 1]].name;
  if (unknown != nullptr && size % known == 0 && size > 0) {
    unknown->size = size / known;
  } else if (unknown != nullptr || known != size) {
    refuse({"agreement with the size of ", name, operand});
  }
}

UNITY_INLINE std::int64_t space::extent_of(const access& a) const {
  if (a.is_window()) {
    return windows_[a.window_number()].extent;
  }
  std::int64_t extent = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto size = indices_[a[i]].size;
    extent = size > 0 && extent <= max_elements / size ? extent * size : 0;
  }
  return extent;
}

}  // namespace unity::tensor

#endif
