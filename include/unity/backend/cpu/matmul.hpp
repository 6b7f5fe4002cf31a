// matmul and linear on oneDNN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

namespace detail {

// c[batch.., m, n] = a[batch.., m, k] b[batch.., k, n]: sizes and strides; a broadcast dimension has size 1 and stride
// 0.
class product {
 public:
  struct dimension {
    std::int64_t size;
    std::array<std::int64_t, 3> strides;  // of a, b, c
  };

  product(const tensor::tensor_type& a, const tensor::tensor_type& b, const tensor::tensor_type& c, bool linear);

  // Whether the transpose is computed, so that the first factor is the second operand.
  [[nodiscard]] bool transposed() const noexcept { return transposed_; }
  [[nodiscard]] dnnl_desc left() const { return desc(0, rows_, inner_); }
  [[nodiscard]] dnnl_desc right() const { return desc(1, inner_, columns_); }
  [[nodiscard]] dnnl_desc result() const { return desc(2, rows_, columns_); }
  // One number per column of the operator's result.
  [[nodiscard]] dnnl_desc bias() const;

 private:
  // Makes fewer and larger products: merges adjacent batch dimensions that are contiguous in every tensor, and rows
  // that share b.
  void join_batches();

  [[nodiscard]] dnnl_desc desc(std::size_t t, dimension outer, dimension inner) const;

  std::vector<dimension> batch_;
  dimension rows_{};
  dimension columns_{};
  dimension inner_{};
  bool transposed_ = false;
};

}  // namespace detail

// Inputs: float32, any layout.
// Throws: dnnl::error if the library has no such product.
[[nodiscard]] std::unique_ptr<routine> matmul_routine(const onednn& library, types inputs, types outputs,
                                                      tensor::operators::activation f, bool linear);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_MATMUL)

namespace unity::backend::cpu::detail {

UNITY_INLINE product::product(const tensor::tensor_type& a, const tensor::tensor_type& b, const tensor::tensor_type& c,
                              bool linear) {
  const std::array strides{tensor::strides_of(a.dims, a.order), tensor::strides_of(b.dims, b.order),
                           tensor::strides_of(c.dims, c.order)};
  const std::array dims{&a.dims, &b.dims, &c.dims};
  const auto rank = c.rank();
  const auto stride = [&](std::size_t t, std::size_t d, std::size_t skipped) {
    return d < skipped || (*dims[t])[d - skipped] == 1 ? 0 : strides[t][d - skipped];
  };
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    if (c.dims[d] > 1) {
      batch_.push_back(
          {c.dims[d], {stride(0, d, rank - a.rank()), linear ? 0 : stride(1, d, rank - b.rank()), strides[2][d]}});
    }
  }
  const auto m = rank == 1 ? 1 : c.dims[rank - 2];
  const auto n = c.dims[rank - 1];
  const auto k = a.dims[a.rank() - 1];
  rows_ = {m, {rank == 1 ? 0 : strides[0][a.rank() - 2], 0, rank == 1 ? 0 : strides[2][rank - 2]}};
  columns_ = {n, {0, strides[1][b.rank() - 1], strides[2][rank - 1]}};
  inner_ = {k, {strides[0][a.rank() - 1], strides[1][b.rank() - 2], 0}};
  // The library writes rows: for a column-major result it computes the transpose.
  if (columns_.strides[2] != 1 && columns_.size > 1) {
    transposed_ = true;
    std::swap(rows_, columns_);
    for (auto* d : {&rows_, &columns_, &inner_}) {
      std::swap(d->strides[0], d->strides[1]);
    }
    for (auto& d : batch_) {
      std::swap(d.strides[0], d.strides[1]);
    }
  }
  join_batches();
}

UNITY_INLINE dnnl_desc product::bias() const {
  dnnl_dims dims(batch_.size() + 2, 1);
  (transposed_ ? dims[dims.size() - 2] : dims.back()) = (transposed_ ? rows_ : columns_).size;
  return plain_desc(std::span<const std::int64_t>{dims});
}

UNITY_INLINE void product::join_batches() {
  const auto one = [](const dimension& outer, const dimension& inner) {
    bool same = true;
    for (std::size_t t = 0; t < 3; ++t) {
      same = same && outer.strides[t] == inner.strides[t] * inner.size;
    }
    return same;
  };
  for (std::size_t d = batch_.size(); d-- > 1;) {
    if (one(batch_[d - 1], batch_[d])) {
      batch_[d - 1] = {batch_[d - 1].size * batch_[d].size, batch_[d].strides};
      batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(d));
    }
  }
  while (!batch_.empty() && (rows_.size == 1 ? batch_.back().strides[1] == 0 : one(batch_.back(), rows_))) {
    const auto strides = rows_.size == 1 ? batch_.back().strides : rows_.strides;
    rows_ = {rows_.size * batch_.back().size, strides};
    batch_.pop_back();
  }
}

UNITY_INLINE dnnl_desc product::desc(std::size_t t, dimension outer, dimension inner) const {
  dnnl_dims dims;
  dnnl_dims strides;
  // For a dimension of size 1 use the stride of a dense matrix.
  const auto along = inner.size == 1 ? 1 : inner.strides[t];
  const auto across = outer.size == 1 ? along * inner.size : outer.strides[t];
  for (const auto& d : batch_) {
    const bool spread = d.strides[t] != 0;
    dims.push_back(spread ? d.size : 1);
    strides.push_back(spread ? d.strides[t] : std::max(across * outer.size, along * inner.size));
  }
  dims.insert(dims.end(), {outer.size, inner.size});
  strides.insert(strides.end(), {across, along});
  return strided_desc(dims, strides);
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> matmul_routine(const onednn& library, types inputs, types outputs,
                                                     tensor::operators::activation f, bool linear) {
  const detail::product p{inputs[0], inputs[1], outputs[0], linear};
  const std::size_t left = p.transposed() ? 1 : 0;
  const std::size_t right = 1 - left;
  const auto packs = inputs[right].constant;
  const auto given = p.right();
  const auto wanted = packs ? any_desc(given.dims()) : given;
  const auto attributes = ending_with(f);
  const bool biased = inputs.size() == 3;
  const auto d = biased ? dnnl::matmul::desc{p.left(), wanted, p.bias(), p.result()}
                        : dnnl::matmul::desc{p.left(), wanted, p.result()};
  const dnnl::matmul::primitive_desc pd{d, attributes, library.engine};
  auto r = std::make_unique<onednn_routine>(library);
  std::vector<argument> arguments{
      {DNNL_ARG_SRC, p.left(), place::input(left)},
      {DNNL_ARG_WEIGHTS, pd.weights_desc(), r->take(right, given, pd.weights_desc(), packs)},
      {DNNL_ARG_DST, p.result(), place::output(0)}};
  if (biased) {
    arguments.push_back({DNNL_ARG_BIAS, p.bias(), place::input(2)});
  }
  r->add(dnnl::matmul{pd}, pd.scratchpad_desc(), std::move(arguments));
  return r;
}

}  // namespace unity::backend::cpu

#endif
