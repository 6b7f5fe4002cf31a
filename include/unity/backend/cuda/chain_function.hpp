// Runs chain code: each thread processes a few units of one or four adjacent elements.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <unity/backend/cuda/chain_code.hpp>
#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/core/config.hpp>

namespace unity::backend::cuda {

// Capacity of a kernel: smaller capacities make its launch parameters smaller and leave registers for more threads.
// Light: light instructions only. Blocks: number of blocks for which a multiprocessor must have registers.
template <int Leaves, int Instructions, int Stores, int Slots, bool Light, int Blocks>
struct chain_room {
  static constexpr int leaves = Leaves;
  static constexpr int instructions = Instructions;
  static constexpr int stores = Stores;
  static constexpr int slots = Slots;
  static constexpr bool light = Light;
  static constexpr int blocks = Blocks;
};
using small_chain_room = chain_room<8, 16, 1, 2, true, 3>;
using full_chain_room =
    chain_room<static_cast<int>(chain_code::max_leaves), static_cast<int>(chain_code::max_instructions),
               static_cast<int>(chain_code::max_stores), static_cast<int>(chain_code::max_slots), false, 2>;

// How a leaf is read, determined before the launch.
enum class chain_read : std::uint8_t {
  literal,
  scalar,  // the single element of an operand
  coordinate,
  float32_quads,  // four elements at once
  bfloat16_quads,
  float16_quads,
  repeated,  // one element for all four of a unit
  each,
};

// Real: type of computation. Width: elements of a unit, along the last loop; 4 if the size of that loop is a multiple
// of 4, or if it is the only loop. Units: per thread, block_threads apart, so that a warp reads contiguous memory, and
// all reads of a leaf are issued before the first is used. An instruction is decoded once for all units. Loops: at
// least as many as the code has; up to 4, offsets have 32 bits.
template <class Real, int Width, int Units, int Loops, class Room>
struct chain_function {
  using offset = std::conditional_t<(Loops > 4), std::int64_t, std::int32_t>;
  static constexpr std::size_t max_steps = Loops;
  static constexpr int blocks_at_once = Room::blocks;

  struct leaf {
    const std::byte* from = nullptr;  // of an operand
    offset steps[max_steps] = {};     // per loop; for the last loop per unit
    offset lane_step = 0;             // within a unit
    Real value = 0;                   // of a literal
    chain_read read = chain_read::literal;
    std::uint8_t operand = 0;
    tensor::dtype element = tensor::dtype::float32;
    bool plain = false;  // whether quads are in the order of the loops, like results
  };
  struct store {
    std::byte* to = nullptr;
    std::uint8_t output = 0;
    tensor::dtype element = tensor::dtype::float32;
  };

  loop_size sizes[max_steps];  // the first ones are unused if the code has fewer; the last one in units
  int first_loop = 0;
  int instruction_count = 0;
  int leaf_count = 0;
  int store_count = 0;
  offset points = 0;  // product of all loops
  std::uint64_t instructions[std::size_t{Room::instructions}] = {};
  leaf leaves[std::size_t{Room::leaves}];
  store stores[std::size_t{Room::stores}];

  [[nodiscard]] static bool takes(const chain_code& c) {
    const bool fits = c.leaf_count <= Room::leaves && c.instruction_count <= Room::instructions &&
                      c.store_count <= Room::stores && c.slot_count <= Room::slots && c.loops.count <= Loops &&
                      (!Room::light || c.is_light());
    const bool in_units = c.loops.count == 1 || c.loops.sizes[c.loops.count - 1].size % Width == 0;
    return fits && in_units && (sizeof(offset) == sizeof(std::int64_t) || c.is_narrow());
  }

  explicit chain_function(const chain_code& c)
      : first_loop{Loops - c.loops.count},
        instruction_count{c.instruction_count},
        leaf_count{c.leaf_count},
        store_count{c.store_count},
        points{static_cast<offset>(c.loops.points())} {
    UNITY_EXPECTS(takes(c), "code that the function has room for");
    for (int l = 0; l < c.loops.count; ++l) {
      const auto size = c.loops.sizes[l].size;
      sizes[first_loop + l] = loop_size{l + 1 == c.loops.count ? (size + Width - 1) / Width : size};
    }
    for (int i = 0; i < instruction_count; ++i) {
      instructions[i] = std::bit_cast<std::uint64_t>(c.instructions[i]);
    }
    for (int l = 0; l < leaf_count; ++l) {
      leaves[l] = leaf_of(c, c.leaves[l]);
    }
    for (int s = 0; s < store_count; ++s) {
      stores[s] = {nullptr, c.stores[s].output, c.stores[s].element};
    }
  }

  [[nodiscard]] std::int64_t threads() const {
    const auto units = (static_cast<std::int64_t>(points) + Width - 1) / Width;
    return (units + block_units - 1) / block_units * block_threads;
  }

  UNITY_HOST_DEVICE void operator()(std::int64_t thread) const {
    const auto first = static_cast<offset>(thread / block_threads * block_units + thread % block_threads);
    if (first * Width >= points) {
      return;
    }
    const bool whole = (first + (Units - 1) * block_threads + 1) * Width <= points;
    places at;
    locate(first, at);
    values a = {};
    values b = {};
    values slots[std::size_t{Room::slots}] = {};
    for (int n = 0; n < instruction_count; ++n) {
      const auto i = instruction(n);
      const place p{unknown(first), whole};
      if (i.source == chain_source::leaf) {
        read(leaves[i.number], at, p, b);
      } else if (i.source == chain_source::slot) {
        with_slot(i.number, slots, [&](const Real* slot) { copy(b, slot); });
      }
      execute(i, a, b);
      if (i.keep >= 0) {
        with_slot(i.keep, slots, [&](Real* slot) { copy(slot, a); });
      }
      if (i.store >= 0) {
        write(stores[i.store], p, a);
      }
    }
  }

 private:
  static constexpr int lanes = Units * Width;
  using places = offset[std::size_t{Units}][max_steps];
  using values = Real[std::size_t{lanes}];
  static constexpr int block_units = Units * block_threads;

  // Returns x, hidden from the optimizer: values derived from it are computed where they are needed, not before the
  // loop over instructions, where they would occupy all registers.
  [[nodiscard]] UNITY_HOST_DEVICE static offset unknown(offset x) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(offset) == sizeof(std::int32_t)) {
      asm volatile("mov.b32 %0, %0;" : "+r"(x));
    } else {
      asm volatile("mov.b64 %0, %0;" : "+l"(x));
    }
#endif
    return x;
  }

  struct place {
    offset first;  // unit
    bool whole;    // whether every lane has an element

    [[nodiscard]] UNITY_HOST_DEVICE offset unit(int u) const { return first + u * block_threads; }
  };

  [[nodiscard]] leaf leaf_of(const chain_code& c, const chain_leaf& from) const {
    using origin = tile_leaf::origin;
    leaf l;
    const auto last = c.loops.count - 1;
    for (int n = 0; n <= last; ++n) {
      l.steps[first_loop + n] = static_cast<offset>(from.moves.steps[n] * (n == last ? Width : 1));
    }
    l.lane_step = static_cast<offset>(from.moves.steps[last]);
    l.value = static_cast<Real>(from.value);
    l.operand = from.operand;
    l.element = from.element;
    if (from.origin == origin::literal) {
      l.read = chain_read::literal;
    } else if (from.origin == origin::coordinate) {
      l.read = chain_read::coordinate;
    } else if (from.uniform) {
      l.read = chain_read::scalar;
    } else if (Width > 1 && l.lane_step == 0) {
      l.read = chain_read::repeated;
    } else {
      l.read = Width == 4 && from.aligned ? quads_of(from.element) : chain_read::each;
      l.plain = lies_in_order(c, from);
    }
    return l;
  }
  [[nodiscard]] static bool lies_in_order(const chain_code& c, const chain_leaf& l) {
    std::int64_t inside = 1;
    bool in_order = true;
    for (int n = c.loops.count - 1; n >= 0; --n) {
      in_order = in_order && l.moves.steps[n] == inside;
      inside *= c.loops.sizes[n].size;
    }
    return in_order;
  }
  [[nodiscard]] static chain_read quads_of(tensor::dtype t) {
    switch (t) {
      case tensor::dtype::float32: return chain_read::float32_quads;
      case tensor::dtype::bfloat16: return chain_read::bfloat16_quads;
      case tensor::dtype::float16: return chain_read::float16_quads;
      default: return chain_read::each;
    }
  }

  [[nodiscard]] UNITY_HOST_DEVICE chain_instruction instruction(int n) const {
    chain_instruction i;
    std::memcpy(static_cast<void*>(&i), &instructions[n], sizeof i);
    return i;
  }

  UNITY_HOST_DEVICE void locate(offset first, places& at) const {
    UNITY_UNROLL
    for (int u = 0; u < Units; ++u) {
      auto flat = static_cast<offset>(first + u * block_threads);
      UNITY_UNROLL
      for (int l = Loops - 1; l >= 0; --l) {
        at[u][l] = l > first_loop ? sizes[l].split(flat) : l == first_loop ? flat : 0;
      }
    }
  }
  [[nodiscard]] UNITY_HOST_DEVICE static std::int64_t offset_in(const leaf& l, const offset (&at)[max_steps]) {
    offset o = 0;
    UNITY_UNROLL
    for (int n = 0; n < Loops; ++n) {
      o += at[n] * l.steps[n];
    }
    return o;
  }

  UNITY_HOST_DEVICE static void copy(Real* to, const Real* from) {
    UNITY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      to[j] = from[j];
    }
  }
  // Selects a slot by comparison with constants, because registers cannot be indexed. In a loop, even an unrolled one,
  // compilers would replace the constant by the variable that equals it, and put the slots in memory.
  template <int S = 0, class F>
  UNITY_HOST_DEVICE static void with_slot(int number, values* slots, const F& f) {
    if constexpr (S < Room::slots) {
      if (S == number) {
        f(slots[S]);
      } else {
        with_slot<S + 1>(number, slots, f);
      }
    }
  }
  UNITY_HOST_DEVICE static void fill(Real* to, Real x) {
    UNITY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      to[j] = x;
    }
  }

  // a = Op(a, b), or Op(b, a) if reversed.
  template <tensor::scalar_op Op>
  UNITY_HOST_DEVICE static void all(bool reversed, Real* a, const Real* b) {
    if constexpr (!Room::light || is_light(Op)) {
      if (has_order(Op) && reversed) {
        UNITY_UNROLL
        for (int j = 0; j < lanes; ++j) {
          a[j] = cuda::apply<Real>(Op, b[j], a[j]);
        }
      } else {
        UNITY_UNROLL
        for (int j = 0; j < lanes; ++j) {
          a[j] = cuda::apply<Real>(Op, a[j], b[j]);
        }
      }
    }
  }
  // Dispatches once for all lanes.
  UNITY_HOST_DEVICE static void execute(const chain_instruction& i, Real* a, const Real* b) {
    using tensor::scalar_op;
    switch (i.op) {
      case scalar_op::operand: return copy(a, b);
      case scalar_op::negate: return all<scalar_op::negate>(i.reversed, a, b);
      case scalar_op::reciprocal: return all<scalar_op::reciprocal>(i.reversed, a, b);
      case scalar_op::abs: return all<scalar_op::abs>(i.reversed, a, b);
      case scalar_op::relu: return all<scalar_op::relu>(i.reversed, a, b);
      case scalar_op::sigmoid: return all<scalar_op::sigmoid>(i.reversed, a, b);
      case scalar_op::tanh: return all<scalar_op::tanh>(i.reversed, a, b);
      case scalar_op::gelu: return all<scalar_op::gelu>(i.reversed, a, b);
      case scalar_op::exp: return all<scalar_op::exp>(i.reversed, a, b);
      case scalar_op::log: return all<scalar_op::log>(i.reversed, a, b);
      case scalar_op::erf: return all<scalar_op::erf>(i.reversed, a, b);
      case scalar_op::sqrt: return all<scalar_op::sqrt>(i.reversed, a, b);
      case scalar_op::truncate: return all<scalar_op::truncate>(i.reversed, a, b);
      case scalar_op::nonzero: return all<scalar_op::nonzero>(i.reversed, a, b);
      case scalar_op::floor: return all<scalar_op::floor>(i.reversed, a, b);
      case scalar_op::round: return all<scalar_op::round>(i.reversed, a, b);
      case scalar_op::sin: return all<scalar_op::sin>(i.reversed, a, b);
      case scalar_op::cos: return all<scalar_op::cos>(i.reversed, a, b);
      case scalar_op::add: return all<scalar_op::add>(i.reversed, a, b);
      case scalar_op::sub: return all<scalar_op::sub>(i.reversed, a, b);
      case scalar_op::mul: return all<scalar_op::mul>(i.reversed, a, b);
      case scalar_op::div: return all<scalar_op::div>(i.reversed, a, b);
      case scalar_op::pow: return all<scalar_op::pow>(i.reversed, a, b);
      case scalar_op::maximum: return all<scalar_op::maximum>(i.reversed, a, b);
      case scalar_op::minimum: return all<scalar_op::minimum>(i.reversed, a, b);
      case scalar_op::equal: return all<scalar_op::equal>(i.reversed, a, b);
      case scalar_op::less: return all<scalar_op::less>(i.reversed, a, b);
      case scalar_op::masked: return all<scalar_op::masked>(i.reversed, a, b);
      case scalar_op::remainder: return all<scalar_op::remainder>(i.reversed, a, b);
      case scalar_op::accumulated:
      case scalar_op::literal:
      case scalar_op::coordinate:
      case scalar_op::count: return;  // not operations on elements
    }
  }

  UNITY_HOST_DEVICE void read(const leaf& l, const places& at, const place& p, Real* to) const {
    switch (l.read) {
      case chain_read::literal: return fill(to, l.value);
      case chain_read::scalar: return fill(to, load_element<Real>(l.element, l.from, 0));
      case chain_read::coordinate: {
        UNITY_UNROLL
        for (int j = 0; j < lanes; ++j) {
          to[j] = static_cast<Real>(offset_in(l, at[j / Width]) + j % Width * static_cast<std::int64_t>(l.lane_step));
        }
        return;
      }
      case chain_read::repeated: {
        with_load(l.element, [&](const auto& load) {
          UNITY_UNROLL
          for (int u = 0; u < Units; ++u) {
            const auto x = p.unit(u) * Width < points ? load(l.from, offset_in(l, at[u])) : Real{0};
            UNITY_UNROLL
            for (int j = 0; j < Width; ++j) {
              to[u * Width + j] = x;
            }
          }
        });
        return;
      }
      case chain_read::float32_quads:
        return p.whole ? read_quads<float>(l, at, p, to, [](float x) { return x; }) : read_each(l, at, p, to);
      case chain_read::bfloat16_quads:
        return p.whole ? read_quads<std::uint16_t>(l, at, p, to, [](std::uint16_t x) { return widen_bfloat16(x); })
                       : read_each(l, at, p, to);
      case chain_read::float16_quads:
        return p.whole ? read_quads<std::uint16_t>(l, at, p, to, [](std::uint16_t x) { return widen_float16(x); })
                       : read_each(l, at, p, to);
      case chain_read::each: return read_each(l, at, p, to);
    }
  }
  template <class T, class Widen>
  UNITY_HOST_DEVICE static void read_quads(const leaf& l, const places& at, const place& p, Real* to,
                                           const Widen& widen) {
    if constexpr (Width == 4) {
      const auto* from = reinterpret_cast<const quad<T>*>(l.from);
      quad<T> all[std::size_t{Units}];
      if (l.plain) {
        UNITY_UNROLL
        for (int u = 0; u < Units; ++u) {
          all[u] = from[p.unit(u)];
        }
      } else {
        UNITY_UNROLL
        for (int u = 0; u < Units; ++u) {
          all[u] = from[offset_in(l, at[u]) / 4];
        }
      }
      UNITY_UNROLL
      for (int j = 0; j < lanes; ++j) {
        to[j] = static_cast<Real>(widen(all[j / 4].x[j % 4]));
      }
    }
  }
  UNITY_HOST_DEVICE void read_each(const leaf& l, const places& at, const place& p, Real* to) const {
    with_load(l.element, [&](const auto& load) {
      UNITY_UNROLL
      for (int j = 0; j < lanes; ++j) {
        if (p.unit(j / Width) * Width + j % Width < points) {
          to[j] = load(l.from, offset_in(l, at[j / Width]) + j % Width * static_cast<std::int64_t>(l.lane_step));
        }
      }
    });
  }
  // Calls f(load), where load(from, i) reads element i. Dispatches once for all lanes for the most frequent type.
  template <class F>
  UNITY_HOST_DEVICE static void with_load(tensor::dtype t, const F& f) {
    if (t == tensor::dtype::float32) {
      f([](const std::byte* from, std::int64_t i) {
        return static_cast<Real>(reinterpret_cast<const float*>(from)[i]);
      });
    } else {
      f([t](const std::byte* from, std::int64_t i) { return load_element<Real>(t, from, i); });
    }
  }

  // Results are in the order of the loops.
  UNITY_HOST_DEVICE void write(const store& s, const place& p, const Real* from) const {
    if (Width == 4 && p.whole && s.element == tensor::dtype::float32) {
      write_quads<float>(s, p, from, [](float x) { return x; });
    } else if (Width == 4 && p.whole && s.element == tensor::dtype::bfloat16) {
      write_quads<std::uint16_t>(s, p, from, [](float x) { return narrow_bfloat16(x); });
    } else if (Width == 4 && p.whole && s.element == tensor::dtype::float16) {
      write_quads<std::uint16_t>(s, p, from, [](float x) { return narrow_float16(x); });
    } else if (s.element == tensor::dtype::float32) {
      write_each(p, from, [&](std::int64_t n, Real x) { reinterpret_cast<float*>(s.to)[n] = static_cast<float>(x); });
    } else {
      write_each(p, from, [&](std::int64_t n, Real x) { store_element<Real>(s.element, s.to, n, x); });
    }
  }
  template <class Store>
  UNITY_HOST_DEVICE void write_each(const place& p, const Real* from, const Store& store_one) const {
    UNITY_UNROLL
    for (int j = 0; j < lanes; ++j) {
      if (const auto n = p.unit(j / Width) * Width + j % Width; n < points) {
        store_one(n, from[j]);
      }
    }
  }
  template <class T, class Narrow>
  UNITY_HOST_DEVICE static void write_quads(const store& s, const place& p, const Real* from, const Narrow& narrow) {
    UNITY_UNROLL
    for (int u = 0; u < Units; ++u) {
      quad<T> q;
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        q.x[j] = narrow(static_cast<float>(from[u * Width + j]));
      }
      reinterpret_cast<quad<T>*>(s.to)[p.unit(u)] = q;
    }
  }
};

}  // namespace unity::backend::cuda
