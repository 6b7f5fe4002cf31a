// Sums and maxima over the incoming edges of each vertex, without materializing a row per edge.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

namespace detail {

// A vector of int32 or int64.
struct number_list {
  const std::byte* data = nullptr;
  bool is_wide = false;

  number_list() = default;
  number_list(tensor::dtype element, const std::byte* at) : data{at}, is_wide{element == tensor::dtype::int64} {}

  [[nodiscard]] std::int64_t operator[](std::int64_t i) const {
    return is_wide ? reinterpret_cast<const std::int64_t*>(data)[i] : reinterpret_cast<const std::int32_t*>(data)[i];
  }
};

// The incoming edges of each vertex. Offsets are clamped to the range of edges.
struct edge_ranges {
  number_list offsets{};
  std::int64_t vertices = 0;
  std::int64_t edges = 0;

  [[nodiscard]] std::int64_t begin(std::int64_t v) const { return std::clamp(offsets[v], std::int64_t{0}, edges); }
  [[nodiscard]] std::int64_t end(std::int64_t v) const { return begin(v + 1); }

  // Calls body(begin, end) for ranges of vertices with about the same number of edges each, on at most `threads`
  // threads; an edge costs about `width` elements of work.
  template <class Body>
  void parallel_for(int threads, std::int64_t width, const Body& body) const {
    constexpr std::int64_t least_elements = 16384;
    const auto parts = std::clamp<std::int64_t>((edges + vertices) / (least_elements / width + 1), 1, threads);
    cpu::parallel_for(threads, parts, 1, [&](int, std::int64_t from, std::int64_t to) {
      body(first_of(from, parts), to == parts ? vertices : first_of(to, parts));
    });
  }

 private:
  // The first vertex of a part: the maximum over this and earlier parts, so that every vertex is in exactly one part
  // even if offsets decrease.
  [[nodiscard]] std::int64_t first_of(std::int64_t part, std::int64_t parts) const;
};

// Size elements in one or a few registers.
template <class Real, std::size_t Size>
using lanes [[gnu::vector_size(Size * sizeof(Real))]] = Real;

// The stored form of elements: Real, or a narrow float.
template <class Real, tensor::dtype Element>
struct element_of {
  static constexpr bool is_narrow = tensor::size_of(Element) < static_cast<std::int64_t>(sizeof(float));
  using stored = std::conditional_t<is_narrow, std::uint16_t, Real>;

  template <std::size_t Size>
  [[gnu::always_inline]] static void load(lanes<Real, Size>& to, const stored* from) {
    if constexpr (is_narrow) {
      for (std::size_t i = 0; i < Size; ++i) {
        to[i] = Element == tensor::dtype::float16 ? tensor::from_float16(from[i]) : tensor::from_bfloat16(from[i]);
      }
    } else {
      std::memcpy(&to, from, sizeof to);
    }
  }
  template <std::size_t Size>
  [[gnu::always_inline]] static void store(stored* to, const lanes<Real, Size>& from) {
    if constexpr (is_narrow) {
      for (std::size_t i = 0; i < Size; ++i) {
        const auto x = static_cast<double>(from[i]);
        to[i] = Element == tensor::dtype::float16 ? tensor::to_float16(x) : tensor::to_bfloat16(x);
      }
    } else {
      std::memcpy(to, &from, sizeof from);
    }
  }
};

enum class row_reduction : std::uint8_t { sum, largest, weighted };

// Computes rows from the rows of a table at the sources of edges.
template <class Real, tensor::dtype Element>
struct row_job {
  using element = element_of<Real, Element>;
  using stored = typename element::stored;

  // Number of registers for a part of a row: half of those of AVX-512.
  static constexpr std::size_t most = 8;
  static constexpr auto wide = static_cast<std::int64_t>(64 / sizeof(Real));
  static constexpr auto narrow = static_cast<std::int64_t>(16 / sizeof(Real));
  // Prefetch distance of rows, in edges.
  template <std::size_t Count>
  static constexpr std::int64_t ahead = Count > 4 ? 8 : 16;

  edge_ranges edges{};
  number_list sources{};
  number_list out_edges{};  // maps an edge to the edge whose weights it uses; none: its own
  const stored* x = nullptr;
  const Real* weights = nullptr;
  stored* to = nullptr;
  std::int64_t rows = 0;
  std::int64_t heads = 1;
  std::int64_t width = 0;  // per head
  bool divides = false;    // by the number of edges

  template <row_reduction How>
  [[gnu::always_inline]] void make_rows(std::int64_t begin, std::int64_t end) const {
    for (auto v = begin; v < end; ++v) {
      for (std::int64_t head = 0; head < heads; ++head) {
        if (width >= wide) {
          make_row<How, static_cast<std::size_t>(wide), most>(v, head);
        } else if (narrow > 1 && width >= narrow) {
          make_row<How, static_cast<std::size_t>(narrow), 2>(v, head);
        } else {
          make_row<How, 1, 2>(v, head);
        }
      }
    }
  }

 private:
  static constexpr std::array<stored, most* static_cast<std::size_t>(wide)> zeros{};

  // In parts of as many registers as remain, at most Most; the last part may overlap the previous one.
  template <row_reduction How, std::size_t Lanes, std::size_t Most>
  [[gnu::always_inline]] void make_row(std::int64_t v, std::int64_t head) const {
    for (std::int64_t first = 0; first < width;) {
      first = make_part_of<How, Lanes, Most>(v, head, first);
    }
  }
  // Computes one part in Count registers, or fewer if half of them suffice for the rest or the row is too narrow.
  // Returns the beginning of the next part.
  template <row_reduction How, std::size_t Lanes, std::size_t Count>
  [[gnu::always_inline]] std::int64_t make_part_of(std::int64_t v, std::int64_t head, std::int64_t first) const {
    constexpr auto size = static_cast<std::int64_t>(Lanes * Count);
    if constexpr (Count > 1) {
      if (width - first <= size / 2 || width < size) {
        return make_part_of<How, Lanes, Count / 2>(v, head, first);
      }
    }
    make_part<How, Lanes>(std::make_index_sequence<Count>{}, v, head, std::min(first, width - size));
    return first + size;
  }

  template <row_reduction How, std::size_t Lanes, std::size_t... I>
  [[gnu::always_inline]] void make_part(std::index_sequence<I...>, std::int64_t v, std::int64_t head,
                                        std::int64_t first) const {
    const auto begin = edges.begin(v);
    const auto end = edges.end(v);
    const auto pitch = heads * width;
    const auto at = head * width + first;
    const auto row_of = [&](std::int64_t k) {
      const auto row = sources[k];
      return row >= 0 && row < rows ? x + row * pitch + at : zeros.data();
    };
    lanes<Real, Lanes> made[sizeof...(I)] = {};
    if constexpr (How == row_reduction::largest) {
      constexpr auto least = -std::numeric_limits<Real>::infinity();
      ((made[I] = begin < end ? lanes<Real, Lanes>{} + least : lanes<Real, Lanes>{}), ...);
    }
    for (auto k = begin; k < end; ++k) {
      const auto* const next = row_of(std::min(k + ahead<sizeof...(I)>, edges.edges - 1));
      (__builtin_prefetch(next + I * Lanes), ...);
      const auto* const from = row_of(k);
      if constexpr (How == row_reduction::weighted) {
        const auto w = weight_of(k, head);
        (add<How>(made[I], from + I * Lanes, w), ...);
      } else {
        (add<How>(made[I], from + I * Lanes, Real{1}), ...);
      }
    }
    if (divides && end > begin) {
      ((made[I] /= static_cast<Real>(end - begin)), ...);
    }
    (element::template store<Lanes>(to + v * pitch + at + I * Lanes, made[I]), ...);
  }

  template <row_reduction How, class Lanes>
  [[gnu::always_inline]] static void add(Lanes& made, const stored* from, Real weight) {
    Lanes x{};
    element::template load<sizeof(Lanes) / sizeof(Real)>(x, from);
    if constexpr (How == row_reduction::largest) {
      made = x > made ? x : made;
    } else if constexpr (How == row_reduction::weighted) {
      made += weight * x;
    } else {
      made += x;
    }
  }

  [[nodiscard]] [[gnu::always_inline]] Real weight_of(std::int64_t k, std::int64_t head) const {
    const auto edge = out_edges.data == nullptr ? k : out_edges[k];
    return edge >= 0 && edge < edges.edges ? weights[edge * heads + head] : Real{0};
  }
};

}  // namespace detail

// Each row is computed by one thread in the order of its edges, so the result does not depend on the number of threads.
// Processes a part of a row at a time, which stays in registers over all edges.
class segment_routine final : public routine {
 public:
  enum class task : std::uint8_t { sum, mean, largest, weighted };

  // The positions of the operands; x is operand 0.
  struct places {
    std::size_t offsets = 1;
    std::size_t sources = 2;
    std::size_t weights = 0;    // 0: none
    std::size_t out_edges = 0;  // maps an edge to the edge whose weights it uses; 0: its own
  };

  // Inputs: row-major; narrow floats only for sums, which are computed in float32.
  segment_routine(task kind, const places& at, types inputs);

  void run(const call& c) const override;

 private:
  template <class Real, tensor::dtype Element>
  void run_as(const call& c) const {
    using job = detail::row_job<Real, Element>;
    using stored = typename job::stored;
    job j;
    j.edges = {{offsets_, c.inputs[at_.offsets]}, vertices_, edges_};
    j.sources = {sources_, c.inputs[at_.sources]};
    j.x = reinterpret_cast<const stored*>(c.inputs[0]);
    j.to = reinterpret_cast<stored*>(c.outputs[0]);
    j.rows = rows_;
    j.heads = heads_;
    j.width = width_;
    j.divides = kind_ == task::mean;
    if (at_.weights != 0) {
      j.weights = reinterpret_cast<const Real*>(c.inputs[at_.weights]);
    }
    if (at_.out_edges != 0) {
      j.out_edges = {out_edges_, c.inputs[at_.out_edges]};
    }
    j.edges.parallel_for(c.threads, heads_ * width_, [&](std::int64_t begin, std::int64_t end) {
      with_widest_vectors([&] { make_rows(j, begin, end); });
    });
  }

  template <class Real, tensor::dtype Element>
  [[gnu::always_inline]] void make_rows(const detail::row_job<Real, Element>& j, std::int64_t begin,
                                        std::int64_t end) const {
    if (kind_ == task::sum || kind_ == task::mean) {
      j.template make_rows<detail::row_reduction::sum>(begin, end);
    } else if constexpr (!detail::element_of<Real, Element>::is_narrow) {
      kind_ == task::largest ? j.template make_rows<detail::row_reduction::largest>(begin, end)
                             : j.template make_rows<detail::row_reduction::weighted>(begin, end);
    }
  }

  task kind_;
  places at_;
  std::int64_t rows_;
  std::int64_t vertices_;
  std::int64_t edges_;
  std::int64_t heads_ = 1;
  std::int64_t width_;  // per head
  tensor::dtype element_;
  tensor::dtype offsets_;
  tensor::dtype sources_;
  tensor::dtype out_edges_;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_SEGMENT)

namespace unity::backend::cpu {

namespace detail {

UNITY_INLINE std::int64_t edge_ranges::first_of(std::int64_t part, std::int64_t parts) const {
  std::int64_t first = 0;
  for (std::int64_t p = 1; p <= part; ++p) {
    const auto before = (edges + vertices) / parts * p;  // a vertex costs about as much as an edge
    std::int64_t low = 0;
    std::int64_t high = vertices;
    while (low < high) {
      const auto middle = (low + high) / 2;
      if (begin(middle) + middle < before) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    first = std::max(first, low);
  }
  return first;
}

}  // namespace detail

UNITY_INLINE segment_routine::segment_routine(task kind, const places& at, types inputs)
    : kind_{kind},
      at_{at},
      rows_{inputs[0].dims[0]},
      vertices_{inputs[at.offsets].dims[0] - 1},
      edges_{inputs[at.sources].dims[0]},
      width_{tensor::element_count(inputs[0].dims) / rows_},
      element_{inputs[0].element},
      offsets_{inputs[at.offsets].element},
      sources_{inputs[at.sources].element},
      out_edges_{inputs[at.out_edges].element} {
  if (kind == task::weighted) {
    heads_ = inputs[at.weights].dims[1];
    width_ /= heads_;
  }
}

UNITY_INLINE void segment_routine::run(const call& c) const {
  switch (element_) {
    case tensor::dtype::float64: return run_as<double, tensor::dtype::float64>(c);
    case tensor::dtype::float16: return run_as<float, tensor::dtype::float16>(c);
    case tensor::dtype::bfloat16: return run_as<float, tensor::dtype::bfloat16>(c);
    default: return run_as<float, tensor::dtype::float32>(c);
  }
}

}  // namespace unity::backend::cpu

#endif
