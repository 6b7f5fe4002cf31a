// Runs chain code: each thread on one or four neighbouring elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/backend/cuda/chain_code.hpp>
#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/host_device.hpp>
#include <unity/backend/cuda/scalar.hpp>

namespace unity::backend::cuda {

// What a thread moves at once.
template <class T>
struct alignas(4 * sizeof(T)) quad {
  T x[4];
};

// Real: what is computed in. Width: elements per thread, along the last loop; 4 where that has a multiple of them, or
// where it is the only one. Loops: as many as the code has, or more.
template <class Real, int Width, int Loops>
struct chain_function {
  chain_code code;
  std::int64_t points = 0;  // of all loops

  [[nodiscard]] std::int64_t threads() const { return (points + Width - 1) / Width; }

  UNITY_HOST_DEVICE void operator()(std::int64_t thread) const {
    const auto first = thread * Width;
    const int lanes = points - first < Width ? static_cast<int>(points - first) : Width;
    std::int64_t at[Loops];
    auto flat = first;
    for (int l = Loops - 1; l >= 0; --l) {
      at[l] = Loops > 1 && l < code.loops.count ? code.loops.sizes[l].split(flat) : l == 0 ? flat : 0;
    }
    Real a[Width] = {};
    Real b[Width] = {};
    Real slots[chain_code::max_slots][Width];
    for (int n = 0; n < code.instruction_count; ++n) {
      const auto i = code.instructions[n];
      if (i.source == chain_source::leaf) {
        read(code.leaves[i.number], at, lanes, b);
      } else if (i.source == chain_source::slot) {
        copy(b, slots[i.number]);
      }
      execute(i, a, b);
      if (i.keep >= 0) {
        copy(slots[i.keep], a);
      }
      if (i.store >= 0) {
        write(code.stores[i.store], first, lanes, a);
      }
    }
  }

 private:
  UNITY_HOST_DEVICE static void copy(Real* to, const Real* from) {
    for (int j = 0; j < Width; ++j) {
      to[j] = from[j];
    }
  }

  UNITY_HOST_DEVICE static void execute(const chain_instruction& i, Real* a, const Real* b) {
    using tensor::scalar_op;
    // The most frequent ones apart, so that the choice is made once for all elements.
    switch (i.op) {
      case scalar_op::operand: return copy(a, b);
      case scalar_op::add: return each(a, b, [](Real x, Real y) { return x + y; });
      case scalar_op::mul: return each(a, b, [](Real x, Real y) { return x * y; });
      case scalar_op::relu: return each(a, b, [](Real x, Real) { return x < Real{0} ? Real{0} : x; });
      default: break;
    }
    for (int j = 0; j < Width; ++j) {
      a[j] = i.reversed ? cuda::apply<Real>(i.op, b[j], a[j]) : cuda::apply<Real>(i.op, a[j], b[j]);
    }
  }
  template <class F>
  UNITY_HOST_DEVICE static void each(Real* a, const Real* b, const F& f) {
    for (int j = 0; j < Width; ++j) {
      a[j] = f(a[j], b[j]);
    }
  }

  UNITY_HOST_DEVICE void read(const chain_leaf& l, const std::int64_t* at, int lanes, Real* to) const {
    using origin = cpu::tile_leaf::origin;
    std::int64_t offset = 0;
    for (int n = 0; n < Loops; ++n) {
      offset += at[n] * l.moves.steps[n];
    }
    const auto step = l.moves.steps[code.loops.count - 1];
    if (l.origin == origin::literal) {
      for (int j = 0; j < Width; ++j) {
        to[j] = static_cast<Real>(l.value);
      }
    } else if (l.origin == origin::coordinate) {
      for (int j = 0; j < Width; ++j) {
        to[j] = static_cast<Real>(offset + j * step);
      }
    } else if (Width == 4 && l.aligned && lanes == Width && tensor::dtype::float32 == l.element) {
      unpack(*reinterpret_cast<const quad<float>*>(l.from + offset * 4), to, [](float x) { return x; });
    } else if (Width == 4 && l.aligned && lanes == Width && tensor::dtype::bfloat16 == l.element) {
      unpack(*reinterpret_cast<const quad<std::uint16_t>*>(l.from + offset * 2), to, widen_bfloat16);
    } else if (Width == 4 && l.aligned && lanes == Width && tensor::dtype::float16 == l.element) {
      unpack(*reinterpret_cast<const quad<std::uint16_t>*>(l.from + offset * 2), to, widen_float16);
    } else if (step == 0) {
      const auto x = load_element<Real>(l.element, l.from, offset);
      for (int j = 0; j < Width; ++j) {
        to[j] = x;
      }
    } else {
      for (int j = 0; j < lanes; ++j) {
        to[j] = load_element<Real>(l.element, l.from, offset + j * step);
      }
    }
  }
  template <class T, class Widen>
  UNITY_HOST_DEVICE static void unpack(const quad<T>& from, Real* to, const Widen& widen) {
    for (int j = 0; j < Width; ++j) {
      to[j] = static_cast<Real>(widen(from.x[j]));
    }
  }

  // Results lie in the order of the loops.
  UNITY_HOST_DEVICE static void write(const chain_store& s, std::int64_t first, int lanes, const Real* from) {
    if (Width == 4 && lanes == Width && s.element == tensor::dtype::float32) {
      *reinterpret_cast<quad<float>*>(s.to + first * 4) = pack<float>(from, [](float x) { return x; });
    } else if (Width == 4 && lanes == Width && s.element == tensor::dtype::bfloat16) {
      *reinterpret_cast<quad<std::uint16_t>*>(s.to + first * 2) = pack<std::uint16_t>(from, narrow_bfloat16);
    } else if (Width == 4 && lanes == Width && s.element == tensor::dtype::float16) {
      *reinterpret_cast<quad<std::uint16_t>*>(s.to + first * 2) = pack<std::uint16_t>(from, narrow_float16);
    } else {
      for (int j = 0; j < lanes; ++j) {
        store_element<Real>(s.element, s.to, first + j, from[j]);
      }
    }
  }
  template <class T, class Narrow>
  UNITY_HOST_DEVICE static quad<T> pack(const Real* from, const Narrow& narrow) {
    quad<T> q{};
    for (int j = 0; j < Width; ++j) {
      q.x[j] = narrow(static_cast<float>(from[j]));
    }
    return q;
  }
};

}  // namespace unity::backend::cuda
