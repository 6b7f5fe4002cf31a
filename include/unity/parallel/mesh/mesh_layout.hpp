// The layout of a tensor on a device mesh, and the cost of converting one layout to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Regular. Per axis of a mesh: the dimension that is divided along it, or whether devices along it hold copies or
// partials, or only one of them holds anything (placed).
// If several axes divide one dimension, an earlier axis has the outer digit of the block.
class mesh_layout {
 public:
  static constexpr std::size_t most_axes = 8;
  static constexpr unsigned placed = 13;
  static constexpr unsigned copies = 14;
  static constexpr unsigned partial = 15;
  static constexpr std::size_t most_dimensions = 13;

  constexpr mesh_layout() noexcept = default;  // dimension 0 along every axis

  [[nodiscard]] constexpr unsigned operator[](std::size_t axis) const noexcept { return code_ >> (4 * axis) & 15U; }
  constexpr void set(std::size_t axis, unsigned role) noexcept {
    code_ = (code_ & ~(15U << (4 * axis))) | role << (4 * axis);
  }
  [[nodiscard]] constexpr std::uint32_t code() const noexcept { return code_; }

  friend constexpr auto operator<=>(const mesh_layout&, const mesh_layout&) = default;

 private:
  std::uint32_t code_ = 0;
};

[[nodiscard]] mesh_layout copied(const hardware::device_mesh& m) noexcept;

// The type of the shards, for the devices that hold any.
[[nodiscard]] parallel_type type_of(const tensor::tensor_type& t, const hardware::device_mesh& m, mesh_layout l);

// The bytes that one device holds.
[[nodiscard]] bytes shard_bytes(const tensor::tensor_type& t, const hardware::device_mesh& m, mesh_layout l);

// A conversion between layouts by one exchange along one axis.
struct layout_arc {
  std::uint32_t from = 0;  // numbers of layouts
  std::uint32_t to = 0;
  std::int64_t takes = 0;  // picoseconds

  friend bool operator==(const layout_arc&, const layout_arc&) = default;
};

// All layouts of a tensor on a mesh, numbered, and the steps between them. A step changes the role of one axis:
// - partials become copies (all-reduce) or blocks (reduce-scatter);
// - blocks become copies (all-gather) or blocks of another dimension (all-to-all);
// - copies become blocks, for free;
// - a value on one device becomes copies or blocks, and vice versa: as many values as an axis has devices, each on one
//   of them, are assumed to do so together, and each counts for its part.
// Only the innermost digit of a dimension is added or removed, so that blocks stay contiguous. If there is a cotangent,
// the cost of a step includes its adjoint.
// Source: Unger et al., Unity (OSDI 2022), section 3.3: parallelization operators and their adjoints, on an axis each.
class layout_space {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;

  layout_space() = default;
  // has_placement: values may be placed. Complexity: linear in the layouts, of which there are up to (rank + 3) to the
  // power of the axes, times axes and rank.
  layout_space(const tensor::tensor_type& t, const hardware::device_mesh& m, const mesh_costs& costs,
               bool has_cotangent, bool has_placement);

  [[nodiscard]] std::size_t size() const noexcept { return layouts_.size(); }
  [[nodiscard]] mesh_layout operator[](std::uint32_t number) const { return layouts_[number]; }
  [[nodiscard]] std::span<const layout_arc> arcs() const noexcept { return arcs_; }  // by the layout that they begin in
  [[nodiscard]] std::span<const layout_arc> arcs_from(std::uint32_t layout) const {
    return {arcs_.data() + first_arc_[layout], first_arc_[layout + std::size_t{1}] - first_arc_[layout]};
  }
  // none: not a layout of this tensor.
  [[nodiscard]] std::uint32_t number(mesh_layout l) const {
    const auto k = key(l);
    return k < numbers_.size() ? numbers_[k] : none;
  }

 private:
  [[nodiscard]] std::size_t key(mesh_layout l) const;
  void add(const tensor::tensor_type& t, const hardware::device_mesh& m, mesh_layout& l, std::size_t axis);
  // No later axis divides the dimension.
  [[nodiscard]] bool is_innermost(mesh_layout l, std::size_t axis, unsigned dimension) const;
  void find_arcs(const tensor::tensor_type& t, const hardware::device_mesh& m, const mesh_costs& costs,
                 bool has_cotangent);
  // The number of positions along other axes at which values are placed. Each exchanges its own value at the same time,
  // so one value accounts for one part in that number of the time of all groups.
  [[nodiscard]] std::int64_t other_places(const hardware::device_mesh& m, mesh_layout l, std::size_t axis) const;
  // The adjoint of an all-reduce is an all-reduce, that of a reduce-scatter an all-gather, that of an all-gather
  // messages back along the same links, that of an all-to-all an all-to-all.
  [[nodiscard]] static std::int64_t price(const mesh_costs& costs, std::size_t axis, unsigned old, unsigned role,
                                          bytes held, std::int64_t degree, bool has_cotangent);

  std::uint32_t radix_ = 2;
  std::size_t axes_ = 0;
  bool has_placement_ = false;
  std::vector<mesh_layout> layouts_{};
  std::vector<std::uint32_t> numbers_{};
  std::vector<layout_arc> arcs_{};
  std::vector<std::size_t> first_arc_{};  // per layout, and an end
};

inline constexpr std::int64_t unreachable = std::numeric_limits<std::int64_t>::max() / 4;

// Effects: lowers costs[l] to the least cost of having the tensor in layout l, given the costs of the layouts in which
// it is made. Tries steps from layouts that have become cheaper until none has. from[l], if requested, is the layout in
// which the best chain begins.
// Complexity: linear in the steps from reachable layouts, for each time that a layout becomes cheaper: once or twice.
void relax(const layout_space& space, std::span<std::int64_t> costs, std::vector<std::uint32_t>* from = nullptr);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_LAYOUT)

#include <algorithm>
#include <bit>

#include <unity/core/config.hpp>
#include <unity/core/small_vector.hpp>

namespace unity::parallel {

UNITY_INLINE mesh_layout copied(const hardware::device_mesh& m) noexcept {
  mesh_layout l;
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    l.set(a, mesh_layout::copies);
  }
  return l;
}

UNITY_INLINE parallel_type type_of(const tensor::tensor_type& t, const hardware::device_mesh& m, mesh_layout l) {
  auto p = undivided(t);
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    const auto role = l[a];
    if (role == mesh_layout::placed) {
      continue;
    }
    (role == mesh_layout::copies ? p.copies : role == mesh_layout::partial ? p.partial : p.degrees[role]) *= m.sizes[a];
  }
  return p;
}

UNITY_INLINE bytes shard_bytes(const tensor::tensor_type& t, const hardware::device_mesh& m, mesh_layout l) {
  auto size = tensor::element_count(t.dims) * static_cast<std::int64_t>(tensor::size_of(t.element));
  for (std::size_t a = 0; a < m.axis_count(); ++a) {
    size /= l[a] < mesh_layout::placed ? m.sizes[a] : 1;
  }
  return bytes{size};
}

UNITY_INLINE layout_space::layout_space(const tensor::tensor_type& t, const hardware::device_mesh& m,
                                        const mesh_costs& costs, bool has_cotangent, bool has_placement)
    : radix_{static_cast<std::uint32_t>(t.dims.size() + 3)}, axes_{m.axis_count()}, has_placement_{has_placement} {
  UNITY_EXPECTS(axes_ <= mesh_layout::most_axes && t.dims.size() <= mesh_layout::most_dimensions,
                "few axes and dimensions");
  mesh_layout l;
  add(t, m, l, 0);
  find_arcs(t, m, costs, has_cotangent);
}

UNITY_INLINE std::size_t layout_space::key(mesh_layout l) const {
  std::size_t k = 0;
  for (std::size_t a = 0; a < axes_; ++a) {
    const auto role = l[a];
    k = k * radix_ + (role >= mesh_layout::placed ? radix_ - 3 + (role - mesh_layout::placed) : role);
  }
  return k;
}

UNITY_INLINE void layout_space::add(const tensor::tensor_type& t, const hardware::device_mesh& m, mesh_layout& l,
                                    std::size_t axis) {
  if (axis == axes_) {
    const auto k = key(l);
    if (numbers_.size() <= k) {
      numbers_.resize(k + 1, none);
    }
    numbers_[k] = static_cast<std::uint32_t>(layouts_.size());
    layouts_.push_back(l);
    return;
  }
  for (unsigned d = 0; d < t.dims.size(); ++d) {
    auto degree = m.sizes[axis];
    for (std::size_t a = 0; a < axis; ++a) {
      degree *= l[a] == d ? m.sizes[a] : 1;
    }
    if (t.dims[d] % degree == 0) {
      l.set(axis, d);
      add(t, m, l, axis + 1);
    }
  }
  for (const auto role : {mesh_layout::copies, mesh_layout::partial, mesh_layout::placed}) {
    if (role != mesh_layout::placed || has_placement_) {
      l.set(axis, role);
      add(t, m, l, axis + 1);
    }
  }
}

UNITY_INLINE bool layout_space::is_innermost(mesh_layout l, std::size_t axis, unsigned dimension) const {
  for (auto a = axis + 1; a < axes_; ++a) {
    if (l[a] == dimension) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE void layout_space::find_arcs(const tensor::tensor_type& t, const hardware::device_mesh& m,
                                          const mesh_costs& costs, bool has_cotangent) {
  for (std::uint32_t from = 0; from < layouts_.size(); ++from) {
    first_arc_.push_back(arcs_.size());
    const auto before = layouts_[from];
    const auto held = shard_bytes(t, m, before);
    for (std::size_t a = 0; a < axes_; ++a) {
      const auto old = before[a];
      if (old < mesh_layout::placed && !is_innermost(before, a, old)) {
        continue;
      }
      const auto share = bytes{held.count() / other_places(m, before, a)};
      for (unsigned next = 0; next <= t.dims.size() + 1; ++next) {
        const auto role = next < t.dims.size()    ? next
                          : next == t.dims.size() ? mesh_layout::copies
                                                  : mesh_layout::placed;
        const bool is_sum_placed = old == mesh_layout::partial && role == mesh_layout::placed;
        if (role == old || is_sum_placed || (role < mesh_layout::placed && !is_innermost(before, a, role))) {
          continue;
        }
        auto after = before;
        after.set(a, role);
        if (const auto to = number(after); to != none) {
          arcs_.push_back({from, to, price(costs, a, old, role, share, m.sizes[a], has_cotangent)});
        }
      }
    }
  }
  first_arc_.push_back(arcs_.size());
}

UNITY_INLINE std::int64_t layout_space::other_places(const hardware::device_mesh& m, mesh_layout l,
                                                     std::size_t axis) const {
  std::int64_t places = 1;
  for (std::size_t a = 0; a < axes_; ++a) {
    places *= a != axis && l[a] == mesh_layout::placed ? m.sizes[a] : 1;
  }
  return places;
}

UNITY_INLINE std::int64_t layout_space::price(const mesh_costs& costs, std::size_t axis, unsigned old, unsigned role,
                                              bytes held, std::int64_t degree, bool has_cotangent) {
  const axis_set s = axis_set{1} << axis;
  if (old == mesh_layout::copies) {
    return 0;
  }
  if (old == mesh_layout::partial) {
    const auto forward = role == mesh_layout::copies ? costs.all_reduce(s, held) : costs.reduce_scatter(s, held);
    const auto back = role == mesh_layout::copies ? costs.all_reduce(s, held) : costs.gather_back(s, held);
    return (has_cotangent ? forward + back : forward).count();
  }
  const auto sent = old == mesh_layout::placed ? bytes{held.count() / degree} : held;
  const auto forward = role == mesh_layout::copies ? costs.all_gather(s, sent) : costs.all_to_all(s, sent);
  return (has_cotangent ? forward + forward : forward).count();
}

UNITY_INLINE void relax(const layout_space& space, std::span<std::int64_t> costs, std::vector<std::uint32_t>* from) {
  UNITY_EXPECTS(costs.size() == space.size(), "a cost for each layout");
  constexpr std::size_t usual = 64;  // words: spaces of up to four axes and five dimensions
  small_vector<std::uint64_t, usual> waiting((costs.size() + 63) / 64,
                                             0);  // one bit per layout whose steps are to be tried
  if (from != nullptr) {
    from->resize(costs.size());
  }
  for (std::uint32_t l = 0; l < costs.size(); ++l) {
    waiting[l / 64] |= std::uint64_t{costs[l] < unreachable ? 1U : 0U} << l % 64;
    if (from != nullptr) {
      (*from)[l] = l;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t word = 0; word < waiting.size(); ++word) {
      while (waiting[word] != 0) {
        const auto l =
            static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(waiting[word])));
        waiting[word] &= waiting[word] - 1;
        for (const auto& arc : space.arcs_from(l)) {
          const auto reached = costs[l] + arc.takes;
          if (reached < costs[arc.to]) {
            costs[arc.to] = reached;
            waiting[arc.to / 64] |= std::uint64_t{1} << arc.to % 64;
            changed = changed || arc.to / 64 < word;
            if (from != nullptr) {
              (*from)[arc.to] = (*from)[l];
            }
          }
        }
      }
    }
  }
}

}  // namespace unity::parallel

#endif
