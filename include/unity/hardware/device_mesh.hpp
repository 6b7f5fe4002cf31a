// Devices as a multidimensional array, on which grids of tasks are placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

using mesh_sizes = small_vector<std::int64_t, 4>;

// Regular. An array with these sizes and one device per position, row-major: the first axis is the outermost. Each axis
// has size 2 or more, except for the only axis of a single device.
// Source: Unger et al., Unity (OSDI 2022), section 3.2: a machine mapping is an n-dimensional array of devices.
struct device_mesh {
  std::string name{};  // of a registered mesh: for messages
  mesh_sizes sizes{};
  std::vector<device_id> devices{};

  [[nodiscard]] std::size_t axis_count() const noexcept { return sizes.size(); }
  // The distance in `devices` between neighbours along an axis.
  [[nodiscard]] std::size_t stride(std::size_t axis) const noexcept;
  [[nodiscard]] std::size_t coordinate(std::size_t place, std::size_t axis) const noexcept {
    return place / stride(axis) % static_cast<std::size_t>(sizes[axis]);
  }

  friend bool operator==(const device_mesh&, const device_mesh&) = default;
};

// Throws: unity::error if the mesh is not an array of distinct devices of the topology.
void check(const topology& t, const device_mesh& m);

namespace detail {

// All ordered factorizations of n into at most `most` factors of 2 or more; {} for 1.
void ordered_factors(std::int64_t n, std::size_t most, mesh_sizes& so_far, std::vector<mesh_sizes>& all);

[[nodiscard]] std::vector<mesh_sizes> ordered_factors(std::int64_t n, std::size_t most);

}  // namespace detail

// One row of devices per node, sorted by their first devices. Rows have different lengths if nodes differ.
[[nodiscard]] std::vector<std::vector<device_id>> devices_by_node(const topology& t);

// Meshes of devices, given as one row per node: the outer axes run over nodes, the inner ones over the devices of a
// node. Every factorization of both into at most `most_axes` axes in total is a mesh. If nodes have different numbers
// of devices, or only one axis is allowed, axes run over all devices in order. Fewest axes first.
// Complexity: linear in devices, for each mesh.
[[nodiscard]] std::vector<device_mesh> meshes_of(const std::vector<std::vector<device_id>>& rows,
                                                 std::size_t most_axes);
// Proper subsets of the devices, as rows: all nodes, the largest power of two of nodes, or one node; of each node all
// devices, the largest power of two of devices, or one device. Excludes several nodes with one device each. Subsets
// suit sizes that are no multiple of the number of devices, and work that is too small to divide among all.
[[nodiscard]] std::vector<std::vector<std::vector<device_id>>> parts_of(const topology& t);
// Meshes of all devices.
[[nodiscard]] inline std::vector<device_mesh> meshes_of(const topology& t, std::size_t most_axes) {
  return meshes_of(devices_by_node(t), most_axes);
}

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_DEVICE_MESH)

#include <algorithm>
#include <bit>
#include <map>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::hardware {

UNITY_INLINE std::size_t device_mesh::stride(std::size_t axis) const noexcept {
  std::size_t s = 1;
  for (auto a = sizes.size(); a-- > axis + 1;) {
    s *= static_cast<std::size_t>(sizes[a]);
  }
  return s;
}

UNITY_INLINE void check(const topology& t, const device_mesh& m) {
  const auto where = fmt::format("device mesh {}", m.name);
  std::size_t places = 1;
  for (const auto s : m.sizes) {
    if (s < 1 || (s == 1 && m.sizes.size() > 1)) {
      throw error{where, fmt::format("an axis of size {}", s), "axes of size 2 and more"};
    }
    // Saturates above the number of devices: the product of sizes from a file may overflow.
    const auto size = static_cast<std::size_t>(s);
    places = size > m.devices.size() / places ? m.devices.size() + 1 : places * size;
  }
  if (places != m.devices.size() || m.sizes.empty()) {
    throw error{where, fmt::format("{} devices", m.devices.size()), "one for each of its places"};
  }
  std::vector<bool> seen(t.device_count());
  for (const auto d : m.devices) {
    if (d.index() >= t.device_count() || seen[d.index()]) {
      throw error{where, fmt::format("device {}", d.index()), "devices of the machine, each once"};
    }
    seen[d.index()] = true;
  }
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

UNITY_INLINE void ordered_factors(std::int64_t n, std::size_t most, mesh_sizes& so_far, std::vector<mesh_sizes>& all) {
  if (n == 1) {
    all.push_back(so_far);
    return;
  }
  if (most == 0) {
    return;
  }
  for (std::int64_t f = 2; f <= n; ++f) {
    if (n % f == 0 && (most > 1 || f == n)) {
      so_far.push_back(f);
      ordered_factors(n / f, most - 1, so_far, all);
      so_far.resize(so_far.size() - 1);
    }
  }
}

UNITY_INLINE std::vector<mesh_sizes> ordered_factors(std::int64_t n, std::size_t most) {
  std::vector<mesh_sizes> all;
  mesh_sizes so_far;
  ordered_factors(n, most, so_far, all);
  return all;
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::vector<std::vector<device_id>> devices_by_node(const topology& t) {
  std::map<std::uint32_t, std::size_t> row_of;
  std::vector<std::vector<device_id>> rows;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    const auto [at, is_new] = row_of.try_emplace(t[device_id{d}].node, rows.size());
    if (is_new) {
      rows.emplace_back();
    }
    rows[at->second].push_back(device_id{d});
  }
  return rows;
}

UNITY_INLINE std::vector<device_mesh> meshes_of(const std::vector<std::vector<device_id>>& rows,
                                                std::size_t most_axes) {
  UNITY_EXPECTS(most_axes > 0 && !rows.empty(), "devices, and an axis at least");
  const bool alike = most_axes > 1 && std::all_of(rows.begin(), rows.end(),
                                                  [&](const auto& r) { return r.size() == rows.front().size(); });
  std::vector<device_id> all;
  for (const auto& r : rows) {
    all.insert(all.end(), r.begin(), r.end());
  }
  std::vector<device_mesh> meshes;
  const auto add = [&](const mesh_sizes& outer, const mesh_sizes& inner) {
    device_mesh m;
    m.sizes = outer;
    m.sizes.append(inner.begin(), inner.end());
    if (m.sizes.empty()) {
      m.sizes.push_back(1);
    }
    if (m.sizes.size() <= most_axes) {
      m.devices = all;
      meshes.push_back(std::move(m));
    }
  };
  const auto nodes = static_cast<std::int64_t>(alike ? rows.size() : all.size());
  const auto inside = static_cast<std::int64_t>(alike ? rows.front().size() : 1);
  for (const auto& outer : detail::ordered_factors(nodes, most_axes)) {
    for (const auto& inner : detail::ordered_factors(inside, most_axes)) {
      add(outer, inner);
    }
  }
  std::sort(meshes.begin(), meshes.end(), [](const auto& a, const auto& b) {
    return a.sizes.size() != b.sizes.size() ? a.sizes.size() < b.sizes.size() : a.sizes < b.sizes;
  });
  return meshes;
}

UNITY_INLINE std::vector<std::vector<std::vector<device_id>>> parts_of(const topology& t) {
  const auto rows = devices_by_node(t);
  const auto fewest = std::min_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
                        return a.size() < b.size();
                      })->size();
  const auto counts = [](std::size_t n) {
    std::vector<std::size_t> all{n, 1};
    if (const auto power = std::bit_floor(n); power != n && power != 1) {
      all.insert(all.begin() + 1, power);
    }
    return all;
  };
  std::vector<std::vector<std::vector<device_id>>> parts;
  for (const auto nodes : counts(rows.size())) {
    for (const auto width : counts(fewest)) {
      if (width == 1 && nodes > 1) {
        continue;  // one device per node: all communication would be between nodes
      }
      std::vector<std::vector<device_id>> part(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(nodes));
      std::size_t devices = 0;
      for (auto& row : part) {
        row.resize(width);
        devices += width;
      }
      if (devices < t.device_count() && std::find(parts.begin(), parts.end(), part) == parts.end()) {
        parts.push_back(std::move(part));
      }
    }
  }
  return parts;
}

}  // namespace unity::hardware

#endif
