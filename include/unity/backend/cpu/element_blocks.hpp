// Loops over elements in blocks of a fixed size, which compilers vectorize at every optimization level.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace unity::backend::cpu {

namespace detail {

template <std::int64_t Size, class Real, class F>
[[gnu::always_inline]] inline void write_block(Real* to, std::int64_t step, std::int64_t first, const F& f) {
  std::array<Real, static_cast<std::size_t>(Size)> block;
  auto* const b = block.data();
  for (std::int64_t j = 0; j < Size; ++j) {
    b[j] = f(first + j);
  }
  for (std::int64_t j = 0; j < Size; ++j) {
    to[(first + j) * step] = b[j];
  }
}

}  // namespace detail

// to[i * step] = f(i) for i in [begin, end). f may read the destination, because each block is computed completely
// before it is written; so the compiler needs no check for dependencies between elements.
template <class Real, class F>
[[gnu::always_inline]] inline void write_each(Real* to, std::int64_t step, std::int64_t begin, std::int64_t end,
                                              const F& f) {
  auto i = begin;
  for (; i + 16 <= end; i += 16) {
    detail::write_block<16>(to, step, i, f);
  }
  if (i + 8 <= end) {
    detail::write_block<8>(to, step, i, f);
    i += 8;
  }
  for (; i < end; ++i) {
    to[i * step] = f(i);
  }
}
template <class Real, class F>
[[gnu::always_inline]] inline void write_each(Real* to, std::int64_t n, const F& f) {
  write_each(to, 1, 0, n, f);
}

}  // namespace unity::backend::cpu
