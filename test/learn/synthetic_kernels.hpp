// Random kernels, and a law for their times that no sum over parts can express: arithmetic overlaps memory traffic,
// intermediate results cost memory traffic if they exceed a cache, and each class has its own rates.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/learn/kernel_samples.hpp>

namespace unity::test {

class synthetic_kernels {
 public:
  explicit synthetic_kernels(std::uint64_t seed) : random_{seed} {}

  [[nodiscard]] learn::kernel_sample next() {
    const auto network = random_.below(8);
    learn::kernel_sample s{"net" + std::to_string(network), draw(network), {}};
    s.time = measured(time(s.kernel));
    for (auto& p : s.kernel.parts) {
      auto alone = p;
      alone.reads_outside = p.reads;
      alone.writes_outside = p.writes;
      p.duration = measured(time({{alone}, {}}));
    }
    return s;
  }
  [[nodiscard]] std::vector<learn::kernel_sample> next(std::size_t count) {
    std::vector<learn::kernel_sample> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(next());
    }
    return all;
  }

  // Microseconds of a kernel.
  [[nodiscard]] static double time(const fusion::kernel_description& k) {
    constexpr std::array rates{8e3, 6e3, 1e9, 4e3, 3e4, 2e4, 3e3};     // flops per us
    constexpr std::array slowness{1.0, 1.1, 2.5, 1.5, 1.0, 1.2, 1.8};  // factor on memory time
    double computing = 0;
    double memory = 0;
    std::vector<bool> is_inside(k.parts.size());
    for (const auto& e : k.edges) {
      is_inside[e.first] = true;
    }
    for (std::size_t i = 0; i < k.parts.size(); ++i) {
      const auto& p = k.parts[i];
      const auto c = static_cast<std::size_t>(p.kind);
      computing += p.flops / rates[c];
      memory += slowness[c] * (bandwidth_time(p.reads_outside) + bandwidth_time(p.writes_outside));
      if (is_inside[i] && p.writes > cache) {
        memory += 2 * slowness[c] * (p.writes - cache) / 1e4;
      }
      computing += p.is_folding ? 1.5 : 0;
    }
    return 4 + 0.4 * static_cast<double>(k.parts.size()) + std::max(computing, memory) +
           0.3 * std::min(computing, memory);
  }

 private:
  static constexpr double cache = 1 << 20;

  [[nodiscard]] static double bandwidth_time(double bytes) { return bytes / (bytes > cache ? 1e4 : 3e4); }

  [[nodiscard]] double normal() {
    return std::sqrt(-2 * std::log(1 - random_.unit())) * std::cos(6.283185307179586 * random_.unit());
  }
  [[nodiscard]] picoseconds measured(double us) {
    return picoseconds{static_cast<std::int64_t>(us * 1e6 * std::exp(0.02 * normal()))};
  }
  [[nodiscard]] fusion::kernel_description draw(std::uint64_t network) {
    const auto parts = static_cast<std::size_t>(1 + std::floor(30 * std::pow(random_.unit(), 1.7)));
    const auto base = std::exp(std::log(1e3) + random_.unit() * (std::log(3e6) - std::log(1e3)));
    fusion::kernel_description k;
    std::vector<double> bytes;
    for (std::size_t i = 0; i < parts; ++i) {
      fusion::kernel_part p;
      p.kind = draw_class(network);
      std::vector<std::size_t> operands;
      const auto wanted = i == 0 ? 0 : 1 + random_.below(2);
      for (std::size_t o = 0; o < wanted; ++o) {
        const auto near = std::min<std::size_t>(i, 4);
        const auto from = i - 1 - static_cast<std::size_t>(random_.below(near));
        if (std::find(operands.begin(), operands.end(), from) == operands.end()) {
          operands.push_back(from);
        }
      }
      fill(p, base, operands, bytes);
      for (const auto o : operands) {
        k.edges.emplace_back(static_cast<std::uint16_t>(o), static_cast<std::uint16_t>(i));
      }
      bytes.push_back(p.writes);
      k.parts.push_back(p);
    }
    std::sort(k.edges.begin(), k.edges.end());
    for (std::size_t i = 0; i < parts; ++i) {
      const bool is_read = std::any_of(k.edges.begin(), k.edges.end(), [&](const auto& e) { return e.first == i; });
      k.parts[i].writes_outside = !is_read || random_.unit() < 0.1 ? k.parts[i].writes : 0;
    }
    return k;
  }
  void fill(fusion::kernel_part& p, double base, const std::vector<std::size_t>& operands,
            const std::vector<double>& bytes) {
    auto elements = operands.empty() ? base : bytes[operands[0]] / 4;
    for (const auto o : operands) {
      p.reads += bytes[o];
    }
    p.reads_outside = operands.empty() || random_.unit() < 0.3 ? 4 * elements : 0;
    p.reads += p.reads_outside;
    p.flops = elements * static_cast<double>(1 + random_.below(8));
    using enum fusion::operator_class;
    if (p.kind == movement) {
      p.flops = 0;
    } else if (p.kind == product || p.kind == convolution) {
      p.flops = elements * static_cast<double>(16U << random_.below(6));
    } else if (p.kind == reduction) {
      p.is_folding = random_.unit() < 0.5;
      elements = std::max(1.0, elements / static_cast<double>(2U << random_.below(7)));
    } else if (p.kind == broadcast && elements < 1e6) {
      elements *= static_cast<double>(1U << random_.below(4));
    }
    p.writes = 4 * elements;
  }
  // Each network has its own mix of classes.
  [[nodiscard]] fusion::operator_class draw_class(std::uint64_t network) {
    std::array<double, 7> weights{4, 2, 1, 1.5, 0.4, 0.2, 0.4};
    weights[network % 7] *= 3;
    double sum = 0;
    for (const auto w : weights) {
      sum += w;
    }
    auto at = random_.unit() * sum;
    std::size_t c = 0;
    while (c + 1 < weights.size() && at >= weights[c]) {
      at -= weights[c++];
    }
    return static_cast<fusion::operator_class>(c);
  }

  random_engine random_;
};

}  // namespace unity::test
