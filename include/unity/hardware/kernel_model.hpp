// The time of PyTorch kernels on a GPU: tiles in waves over its multiprocessors, memory, a launch. A few coefficients
// are shared by all devices; per device the model needs the sustained rate of products, the bandwidth and the minimal
// time of a call.
// Source: Williams et al., Roofline, CACM 52(4), 2009; for tiles and waves, Lee et al., NeuSight (ASPLOS 2025), to
// whose measurements the coefficients in machines/kernels.json were fitted; those of tensor cores, attention and layer
// norm gradients were fitted to an H100.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <unity/core/config.hpp>

namespace unity::hardware {

enum class kernel_kind : std::uint8_t {
  elementwise,
  softmax,
  layer_norm,
  layer_norm_gradient,  // with respect to all three operands
  batched_product,
  product,
  convolution,
  tensor_product,  // one or many, with two-byte elements
  attention,       // softmax(q k') v in one kernel
  attention_gradient,
};
inline constexpr std::array<std::string_view, 10> kernel_kind_names{
    "elementwise", "softmax",     "layer_norm",     "layer_norm_gradient", "batched_product",
    "product",     "convolution", "tensor_product", "attention",           "attention_gradient"};

// What a kernel computes.
struct kernel_shape {
  kernel_kind kind = kernel_kind::elementwise;
  double batch = 1;  // for products and convolutions; for attention: samples times heads
  double m = 0;      // rows; for convolutions: height and width of images; for attention: queries
  double n = 0;      // columns; for convolutions: output channels; for attention: keys
  // summed dimension of a product; for convolutions: input channels, with 3 x 3 kernels; for attention: head size
  double k = 0;
  double operands = 2;  // tensors read and written by kernels without matrix products
  double element_bytes = 4;
  bool causal = false;  // a query sees no later keys
  friend bool operator==(const kernel_shape&, const kernel_shape&) = default;
};

struct kernel_sample {
  std::string device{};  // name according to the driver
  std::string op{};      // name in the file
  kernel_shape shape{};
  double call_seconds = 0;    // between two events around one call
  double kernel_seconds = 0;  // its kernels alone; 0: not measured
  friend bool operator==(const kernel_sample&, const kernel_sample&) = default;
};

// Operations, with two per multiply-add; 0 for kernels without matrix products.
[[nodiscard]] double operations_of(const kernel_shape& s) noexcept;
[[nodiscard]] constexpr bool is_product(kernel_kind kind) noexcept {
  return kind == kernel_kind::batched_product || kind == kernel_kind::product || kind == kernel_kind::tensor_product;
}
// Whether rows of the operands and the result of a product are aligned to the 16 bytes that tensor cores read at once.
[[nodiscard]] bool is_aligned(const kernel_shape& s) noexcept;
// The least number of bytes to read and write.
[[nodiscard]] double bytes_of(const kernel_shape& s) noexcept;

// Rates of large products, in operations per second. Small boards are faster for milliseconds than they can sustain.
struct product_rates {
  double brief = 0;       // for products of 2 to 6 ms
  double sustained = 0;   // for 40 ms and more; measured by calls of more than 20 ms
  double deep_share = 1;  // factor for sums over 30,000; measured by sums over more than 16,000
};

inline constexpr int any_tile = -1;

struct kernel_device {
  double units = 0;  // multiprocessors
  double clock_hz = 0;
  double l2 = 0;                // bytes
  double bytes_per_second = 0;  // reached by large sums of two tensors
  double launch_seconds = 0;    // for a call that computes almost nothing
  product_rates rates{};
  double widest_warp_row = 1024;  // for softmax in the registers of a warp: 2048 in newer versions of PyTorch
  int batched_tile = any_tile;    // index into product_tiles, if the library has only one for batched products
};

struct product_tile {
  double n = 0;
  double m = 0;
  std::size_t efficiency = 0;  // index of the coefficient
};
inline constexpr std::array<product_tile, 6> product_tiles{
    {{128, 128, 1}, {128, 64, 1}, {64, 64, 2}, {128, 32, 3}, {32, 128, 3}, {32, 32, 4}}};

// The number of coefficients of a kind. The last is the share of launch_seconds that kernels never hide.
[[nodiscard]] std::size_t coefficient_count(kernel_kind kind) noexcept;

// Seconds of the kernel alone, without launch. Law: not negative.
// Preconditions: the kind's number of coefficients, a device with positive numbers.
[[nodiscard]] double kernel_seconds(const kernel_shape& s, const kernel_device& d,
                                    std::span<const double> coefficients);

// Seconds between two events around one call on an idle device.
[[nodiscard]] double call_seconds(const kernel_shape& s, const kernel_device& d, std::span<const double> coefficients);

// GPUs by their names in drivers.

// The id in machines/devices.json for a driver's name such as "Tesla-P4" or "P4". Nothing for unknown boards.
[[nodiscard]] std::optional<std::string_view> id_of_board(std::string_view name);

// Multiprocessors, clock and cache from machines/devices.json. Nothing for unknown boards.
[[nodiscard]] std::optional<kernel_device> known_kernel_device(std::string_view name);

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_KERNEL_MODEL)

#include <algorithm>
#include <cmath>
#include <limits>

#include <unity/hardware/device_table.hpp>

namespace unity::hardware::detail {

// Arithmetic and memory overlap, but less if both take similar time.
[[nodiscard]] inline double overlapped(double a, double b) noexcept {
  return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b));
}

// The rate falls from that of brief kernels to the sustained one between 4 and 40 ms, and for long sums, because rows
// of operands are then far apart in memory.
[[nodiscard]] inline double product_rate(const product_rates& r, double operations, double k) noexcept {
  const auto long_run = std::clamp(std::log10(operations / r.sustained / 4e-3), 0.0, 1.0);
  const auto deep = std::clamp(std::log(k / 6000) / std::log(5.0), 0.0, 1.2);
  return (r.brief * (1 - long_run) + r.sustained * long_run) * std::pow(r.deep_share, deep);
}

// Coefficients: efficiencies of the only tile of a device and of those to choose from; steps of k for the start and end
// of a tile; the share of the last wave that is waited for; minimal work in waves; its growth as tiles get smaller;
// microseconds to start.
struct product_options {
  int tile = any_tile;
  bool splits = true;    // the sum may be divided among blocks (split-k)
  double less_work = 1;  // operations relative to those of the product itself
  double element_bytes = 4;
};

[[nodiscard]] inline double product_seconds(double batch, double m, double n, double k, const kernel_device& d,
                                            std::span<const double> c, const product_options& o) {
  constexpr std::array<double, 5> splits{1, 2, 4, 8, 16};
  constexpr double least_depth = 64;  // of a part of a sum
  const auto rate = product_rate(d.rates, 2 * batch * m * n * k * o.less_work, k);
  const auto moved = o.element_bytes * batch * (m * k + k * n + m * n);
  const auto last_wave = std::min(c[6], 1.0);
  auto best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < product_tiles.size(); ++i) {
    if (o.tile != any_tile && static_cast<std::size_t>(o.tile) != i) {
      continue;
    }
    const auto& tile = product_tiles[i];
    const auto tiles = batch * std::ceil(m / tile.m) * std::ceil(n / tile.n);
    const auto least = c[7] * std::pow(128.0 * 128 / (tile.m * tile.n), c[8] - 1);
    for (const auto s : splits) {
      if (s > 1 && (!o.splits || k < least_depth * s)) {
        break;
      }
      const auto waves = tiles * s / d.units;
      const auto busy = std::max(least, (1 - last_wave) * waves + last_wave * std::ceil(waves));
      const auto arithmetic = 2 * tile.m * tile.n * (std::ceil(k / s) + c[5]) * busy * o.less_work * d.units /
                              (rate * c[o.tile == any_tile ? tile.efficiency : 0]);
      const auto memory = (moved + (s > 1 ? 8 * s * batch * m * n : 0)) / d.bytes_per_second;
      best = std::min(best, c[9] * 1e-6 * (s > 1 ? 2 : 1) + overlapped(arithmetic, memory));
    }
  }
  return best;
}

inline constexpr std::size_t product_coefficients = 10;

// Whether the row sizes of the operands and the result are multiples of this number of elements.
[[nodiscard]] inline bool divides_rows(const kernel_shape& s, double elements) noexcept {
  return std::fmod(s.k, elements) == 0 && std::fmod(s.n, elements) == 0;
}

// Tensor cores read 16 bytes of a row at once, but 4 or 2 if rows are not aligned, which takes longer. Coefficients:
// those of products, then shares of the rate for rows with an even and an odd number of elements.
[[nodiscard]] inline double tensor_product_seconds(const kernel_shape& s, const kernel_device& d,
                                                   std::span<const double> c) {
  const auto share = is_aligned(s) ? 1 : c[product_coefficients + (divides_rows(s, 2) ? 0 : 1)];
  return product_seconds(s.batch, s.m, s.n, s.k, d, c, {any_tile, true, 1 / share, s.element_bytes});
}

// Blocks of 128 queries (64 if elements have more than two bytes) run in waves, each over its keys. Coefficients for
// two-byte elements, then for larger ones: share of the rate; cycles per pair of query and key besides its products;
// fixed cost of a block, in hundreds of keys; minimal work in waves; share of the last wave that is waited for; blocks
// that a multiprocessor waits for if a causal mask makes them unequal; microseconds to start.
// Source: Dao, FlashAttention-2, ICLR 2024.
inline constexpr std::size_t attention_coefficients = 7;

[[nodiscard]] inline double attention_seconds(const kernel_shape& s, const kernel_device& d,
                                              std::span<const double> all) {
  const bool is_narrow = s.element_bytes <= 2;
  const auto c = all.subspan(is_narrow ? 0 : attention_coefficients, attention_coefficients);
  const double block = is_narrow ? 128 : 64;
  const auto per_pair =
      (s.kind == kernel_kind::attention ? 4 : 10) * s.k * d.units / (d.rates.brief * c[0]) + c[1] / d.clock_hz;
  const auto waves = s.batch * std::ceil(s.m / block) / d.units;
  const auto last_wave = std::min(c[4], 1.0);
  const auto busy = std::max(c[3], (1 - last_wave) * waves + last_wave * std::ceil(waves));
  const auto keys = s.causal ? std::min(busy * s.n, busy * (s.n + block) / 2 + c[5] * s.n) : busy * s.n;
  return c[6] * 1e-6 + overlapped(block * (keys + busy * 100 * c[2]) * per_pair, bytes_of(s) / d.bytes_per_second);
}

// 3 x 3 with stride 1: the fastest of one product, Winograd's F(2 x 2, 3 x 3) in one kernel, and F(4 x 4, 3 x 3) in
// several kernels.
// Source: Lavin and Gray, Fast algorithms for convolutional neural networks, CVPR 2016.
[[nodiscard]] inline double convolution_seconds(const kernel_shape& s, const kernel_device& d,
                                                std::span<const double> c) {
  const auto e = c.subspan(product_coefficients);
  const auto direct = product_seconds(1, s.batch * s.m * s.m, s.n, 9 * s.k, d, c, {any_tile, true, 1 / e[0]});
  const auto patches = [&](double side) { return s.batch * std::ceil(s.m / side) * std::ceil(s.m / side); };
  const auto fused = product_seconds(16, patches(2), s.n, s.k, d, c, {1, false, 1 / e[1]}) +
                     e[4] * 4 * 16 * s.k * s.n / d.bytes_per_second;
  const auto apart = product_seconds(36, patches(4), s.n, s.k, d, c, {any_tile, false, 1 / e[2]}) +
                     e[3] * 4 * 36 * (patches(4) * (s.k + s.n) + s.k * s.n) / d.bytes_per_second;
  return std::min({direct, fused, apart});
}

// A part of the bytes that fit into the cache is still there from before.
[[nodiscard]] inline double traffic_seconds(double bytes, const kernel_device& d, double cached,
                                            double share) noexcept {
  const auto hits = cached * std::min(d.l2, bytes);
  return std::max(bytes - hits, bytes / 10) / (d.bytes_per_second * share);
}

// Coefficients: share of the bandwidth, microseconds to start, share of the cache that hits, cycles per element.
[[nodiscard]] inline double elementwise_seconds(const kernel_shape& s, const kernel_device& d,
                                                std::span<const double> c) {
  return c[1] * 1e-6 +
         overlapped(c[3] * s.m * s.n / (d.units * d.clock_hz), traffic_seconds(bytes_of(s), d, c[2], c[0]));
}

// Coefficients: shares of the bandwidth for rows that fit into the registers of a warp and for longer ones; cycles per
// row and per element for the former, then for the latter; microseconds to start; share of the cache that hits.
[[nodiscard]] inline double row_seconds(const kernel_shape& s, const kernel_device& d, std::span<const double> c) {
  const auto wide = s.kind == kernel_kind::softmax && s.n > d.widest_warp_row ? std::size_t{1} : std::size_t{0};
  const auto cycles = s.m * (c[2 + 2 * wide] + c[3 + 2 * wide] * s.n);
  return c[6] * 1e-6 + overlapped(cycles / (d.units * d.clock_hz), traffic_seconds(bytes_of(s), d, c[7], c[wide]));
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE double operations_of(const kernel_shape& s) noexcept {
  switch (s.kind) {
    case kernel_kind::batched_product:
    case kernel_kind::product:
    case kernel_kind::tensor_product: return 2 * s.batch * s.m * s.n * s.k;
    case kernel_kind::convolution: return 18 * s.batch * s.m * s.m * s.n * s.k;
    case kernel_kind::attention: return (s.causal ? 2 : 4) * s.batch * s.m * s.n * s.k;
    case kernel_kind::attention_gradient: return (s.causal ? 5 : 10) * s.batch * s.m * s.n * s.k;
    default: return 0;
  }
}

UNITY_INLINE bool is_aligned(const kernel_shape& s) noexcept { return detail::divides_rows(s, 16 / s.element_bytes); }

UNITY_INLINE double bytes_of(const kernel_shape& s) noexcept {
  switch (s.kind) {
    case kernel_kind::batched_product:
    case kernel_kind::product:
    case kernel_kind::tensor_product: return s.element_bytes * s.batch * (s.m * s.k + s.k * s.n + s.m * s.n);
    case kernel_kind::convolution: return s.element_bytes * (s.batch * s.m * s.m * (s.n + s.k) + 9 * s.n * s.k);
    case kernel_kind::attention: return 2 * s.element_bytes * s.batch * (s.m + s.n) * s.k;
    case kernel_kind::attention_gradient: return 4 * s.element_bytes * s.batch * (s.m + s.n) * s.k;
    default: return s.element_bytes * s.operands * s.m * s.n;
  }
}

UNITY_INLINE std::size_t coefficient_count(kernel_kind kind) noexcept {
  constexpr std::array<std::size_t, kernel_kind_names.size()> counts{5,
                                                                     9,
                                                                     9,
                                                                     9,
                                                                     detail::product_coefficients + 1,
                                                                     detail::product_coefficients + 1,
                                                                     detail::product_coefficients + 6,
                                                                     detail::product_coefficients + 3,
                                                                     2 * detail::attention_coefficients + 1,
                                                                     2 * detail::attention_coefficients + 1};
  return counts[static_cast<std::size_t>(kind)];
}

UNITY_INLINE double kernel_seconds(const kernel_shape& s, const kernel_device& d, std::span<const double> c) {
  UNITY_EXPECTS(c.size() == coefficient_count(s.kind), "as many coefficients as the kind of kernel has");
  UNITY_EXPECTS(d.units > 0 && d.clock_hz > 0 && d.bytes_per_second > 0, "units, a clock and a bandwidth");
  switch (s.kind) {
    case kernel_kind::elementwise: return detail::elementwise_seconds(s, d, c);
    case kernel_kind::batched_product:
      return detail::product_seconds(s.batch, s.m, s.n, s.k, d, c, {d.batched_tile, false, 1, s.element_bytes});
    case kernel_kind::product:
      return detail::product_seconds(s.batch, s.m, s.n, s.k, d, c, {any_tile, true, 1, s.element_bytes});
    case kernel_kind::convolution: return detail::convolution_seconds(s, d, c);
    case kernel_kind::tensor_product: return detail::tensor_product_seconds(s, d, c);
    case kernel_kind::attention:
    case kernel_kind::attention_gradient: return detail::attention_seconds(s, d, c);
    default: return detail::row_seconds(s, d, c);
  }
}

UNITY_INLINE double call_seconds(const kernel_shape& s, const kernel_device& d, std::span<const double> c) {
  return std::max(d.launch_seconds, c.back() * d.launch_seconds + kernel_seconds(s, d, c));
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

struct known_board {
  std::string_view part{};  // of the driver's name, not followed by a digit
  std::string_view id{};
  double widest_warp_row = 1024;  // of the measured version of PyTorch, according to kernel names
  int batched_tile = any_tile;    // the only tile, according to kernel names and grids (CUDA 12.1)
};

[[nodiscard]] inline const known_board* find_board(std::string_view name) {
  static constexpr std::array<known_board, 7> boards{{{"P100", "p100", 1024, 1},
                                                      {"V100", "v100"},
                                                      {"A100", "a100_pcie", 1024, 0},
                                                      {"H100", "h100", 2048},
                                                      {"H200", "h200", 2048},
                                                      {"P4", "p4", 1024, 1},
                                                      {"T4", "t4"}}};
  const auto* const b = std::find_if(boards.begin(), boards.end(), [&](const known_board& x) {
    const auto at = name.find(x.part);
    const auto end = at + x.part.size();
    return at != std::string_view::npos && (end == name.size() || name[end] < '0' || name[end] > '9');
  });
  return b == boards.end() ? nullptr : b;
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::optional<std::string_view> id_of_board(std::string_view name) {
  const auto* const b = detail::find_board(name);
  return b == nullptr ? std::nullopt : std::optional{b->id};
}

UNITY_INLINE std::optional<kernel_device> known_kernel_device(std::string_view name) {
  const auto* const b = detail::find_board(name);
  if (b == nullptr) {
    return std::nullopt;
  }
  const auto d = std::find_if(known_devices.begin(), known_devices.end(), [&](const auto& x) { return x.id == b->id; });
  kernel_device found;
  found.units = d->units;
  found.clock_hz = d->clock_hz;
  found.l2 = static_cast<double>(d->l2.count());
  found.widest_warp_row = b->widest_warp_row;
  found.batched_tile = b->batched_tile;
  return found;
}

}  // namespace unity::hardware

#endif
