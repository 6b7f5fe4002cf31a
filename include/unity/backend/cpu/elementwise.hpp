// Primitives without a reduction, single or in chains, as tile programs.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/derive_adjoint.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend::cpu {

[[nodiscard]] std::unique_ptr<routine> make_tiles(tile_program p, bool in_double, int threads);

// The routine of an operator that elementwise_program expresses (elementwise/tile_program.hpp); null for others.
[[nodiscard]] std::unique_ptr<routine> elementwise_routine(const tensor::algebra& a, const tensor::operation& op,
                                                           types inputs, types outputs, int threads);

namespace detail {

// Routines one after another on the same operands.
class sequence final : public routine {
 public:
  explicit sequence(std::vector<std::unique_ptr<routine>> parts) : parts_{std::move(parts)} {}
  [[nodiscard]] std::size_t workspace() const override;
  void run(const call& c) const override;

 private:
  std::vector<std::unique_ptr<routine>> parts_;
};

}  // namespace detail

// The outputs of a region of element-wise operators, grouped by shape and layout: each group is computed at once.
// Throws: unity::error that names an operator that is not element-wise.
[[nodiscard]] std::unique_ptr<routine> chain_routine(const tensor::algebra& a, const tensor::tensor_graph& region,
                                                     int threads);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_ELEMENTWISE)

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/tile_operations.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Runs a tile program: all instructions on one tile, then on the next, so that intermediate results stay in cache.

// Real: the type of computation. Every element is computed by the same instructions regardless of its position, so the
// result does not depend on the number of threads.
template <class Real>
class tile_routine final : public routine {
 public:
  tile_routine(tile_program p, int threads) : program_{std::move(p)}, threads_{threads} {
    program_.coalesce();
    count_ = tensor::element_count(program_.sizes);
    for (const auto& x : program_.leaves) {
      contiguous_.push_back(is_contiguous(x));
    }
    assign_slots();
    choose_direct_stores();
  }

  // Slots and tiles of every thread.
  [[nodiscard]] std::size_t workspace() const override {
    return static_cast<std::size_t>(threads_) * bytes_per_thread();
  }

  void run(const call& c) const override {
    const auto tiles = (count_ + tile_size - 1) / tile_size;
    constexpr std::int64_t least_tiles = 8;  // a smaller number is finished before another thread has started
    parallel_for(std::min(c.threads, threads_), tiles, least_tiles,
                 [&](int thread, std::int64_t begin, std::int64_t end) {
                   auto* work = c.work + static_cast<std::size_t>(thread) * bytes_per_thread();
                   run_part(c, desk_at(work), begin * tile_size, std::min(end * tile_size, count_));
                 });
  }

 private:
  static constexpr tensor::dtype native = std::is_same_v<Real, float> ? tensor::dtype::float32 : tensor::dtype::float64;
  static constexpr std::size_t no_store = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_contiguous(const tile_leaf& x) const {
    bool natural = x.from == tile_leaf::origin::operand;
    std::int64_t step = 1;
    for (std::size_t l = program_.sizes.size(); l-- > 0;) {
      natural = natural && x.steps[l] == step;
      step *= program_.sizes[l];
    }
    return natural;
  }

  // A slot holds a tile. It is reused after the last use of its value, except for leaves that are filled less than once
  // per tile, which have their own slots.
  void assign_slots() {
    const auto& code = program_.code;
    std::vector<std::size_t> last(code.size(), 0);
    for (std::size_t i = 0; i < code.size(); ++i) {
      last[i] = i;
      if (code[i].op != tensor::scalar_op::operand) {
        last[code[i].a] = i;
        last[code[i].b] = i;
      }
    }
    for (const auto& s : program_.stores) {
      last[s.value] = code.size();
    }
    std::vector<std::size_t> free;
    slots_.resize(code.size());
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (keeps_slot(i)) {
        slots_[i] = slot_count_++;
      }
    }
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (keeps_slot(i)) {
        continue;
      }
      if (free.empty()) {
        free.push_back(slot_count_++);
      }
      slots_[i] = free.back();
      free.pop_back();
      const auto release = [&](std::size_t value) {
        if (last[value] == i && !keeps_slot(value)) {
          free.push_back(slots_[value]);
        }
      };
      if (code[i].op != tensor::scalar_op::operand) {
        release(code[i].a);
        if (code[i].b != code[i].a) {
          release(code[i].b);
        }
      }
    }
  }
  [[nodiscard]] bool stays(std::size_t value) const {
    const auto& i = program_.code[value];
    return i.op == tensor::scalar_op::operand && program_.leaves[i.leaf].uniform();
  }

  // Whether the leaf is one number along runs of several tiles.
  [[nodiscard]] bool repeats(const tile_leaf& x) const {
    return x.from == tile_leaf::origin::operand && x.steps.back() == 0 && program_.sizes.back() >= 2 * tile_size;
  }
  [[nodiscard]] bool keeps_slot(std::size_t value) const {
    const auto& i = program_.code[value];
    return stays(value) || (i.op == tensor::scalar_op::operand && repeats(program_.leaves[i.leaf]));
  }

  // Computed values are written directly to their destination if it has the same element type.
  void choose_direct_stores() {
    direct_.assign(program_.code.size(), no_store);
    for (std::size_t s = 0; s < program_.stores.size(); ++s) {
      const auto& store = program_.stores[s];
      if (store.element == native && program_.code[store.value].op != tensor::scalar_op::operand) {
        direct_[store.value] = s;
      }
    }
  }

  [[nodiscard]] std::size_t bytes_per_thread() const noexcept {
    using backend::detail::aligned_size;
    return slot_count_ * static_cast<std::size_t>(tile_size) * sizeof(Real) +
           aligned_size(program_.code.size() * sizeof(tile)) +
           aligned_size(program_.sizes.size() * sizeof(std::int64_t));
  }

  // The tile of a value, and the index of the result element up to which a repeated number stays the same.
  struct tile {
    const Real* elements = nullptr;
    std::int64_t until = 0;
  };

  // The workspace of one thread.
  struct desk {
    Real* slots;             // a tile each
    tile* values;            // by instruction
    std::int64_t* position;  // by loop: position that a leaf is read from
  };

  [[nodiscard]] desk desk_at(std::byte* work) const {
    auto* values = work + slot_count_ * static_cast<std::size_t>(tile_size) * sizeof(Real);
    auto* position = values + backend::detail::aligned_size(program_.code.size() * sizeof(tile));
    return {reinterpret_cast<Real*>(work), reinterpret_cast<tile*>(values), reinterpret_cast<std::int64_t*>(position)};
  }

  void run_part(const call& c, const desk& d, std::int64_t begin, std::int64_t end) const {
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      d.values[i] = {slot(d, i), 0};
      if (stays(i)) {
        std::fill_n(slot(d, i), tile_size, uniform_value(c, program_.leaves[program_.code[i].leaf]));
      }
    }
    for (auto at = begin; at < end; at += tile_size) {
      run_tile(c, d, at, std::min(tile_size, end - at));
    }
  }

  [[nodiscard]] Real* slot(const desk& d, std::size_t value) const {
    return d.slots + slots_[value] * static_cast<std::size_t>(tile_size);
  }

  [[nodiscard]] static Real uniform_value(const call& c, const tile_leaf& x) {
    auto value = static_cast<Real>(x.value);
    if (x.from == tile_leaf::origin::operand) {
      load_elements(x.element, &value, c.inputs[x.operand], 0, 1, 1);
    }
    return value;
  }

  void run_tile(const call& c, const desk& d, std::int64_t at, std::int64_t n) const {
    const auto padded = in_blocks(n);
    auto* values = d.values;
    for (std::size_t i = 0; i < program_.code.size(); ++i) {
      const auto& code = program_.code[i];
      if (code.op == tensor::scalar_op::operand) {
        if (!stays(i) && at + n > values[i].until) {
          values[i] = load(c, code.leaf, slot(d, i), d.position, at, n, padded);
        }
        continue;
      }
      auto* to = slot(d, i);
      if (direct_[i] != no_store && padded == n) {
        to = reinterpret_cast<Real*>(c.outputs[program_.stores[direct_[i]].output]) + at;
      }
      apply_to_tile(code.op, to, values[code.a].elements, values[code.b].elements, padded);
      values[i].elements = to;
    }
    for (std::size_t s = 0; s < program_.stores.size(); ++s) {
      const auto& store = program_.stores[s];
      if (direct_[store.value] != s || padded != n) {
        store_elements(store.element, c.outputs[store.output], at, values[store.value].elements, n);
      }
    }
  }

  // The tile of a leaf: its original location, or gathered at `to`. Elements beyond n are 0.
  tile load(const call& c, std::size_t leaf, Real* to, std::int64_t* position, std::int64_t at, std::int64_t n,
            std::int64_t padded) const {
    std::int64_t until = 0;
    const auto& x = program_.leaves[leaf];
    if (contiguous_[leaf]) {
      if (x.element == native && padded == n) {
        return {reinterpret_cast<const Real*>(c.inputs[x.operand]) + at, until};
      }
      load_elements(x.element, to, c.inputs[x.operand], at, n, 1);
    } else {
      const auto first_run = gather(c, x, to, position, at, n);
      until = repeats(x) && first_run >= n ? at + first_run : until;
    }
    std::fill(to + n, to + padded, Real{0});
    return {to, until};
  }

  // Gathers run by run of the innermost loop. Returns the length of the first run from `at` on.
  std::int64_t gather(const call& c, const tile_leaf& x, Real* to, std::int64_t* position, std::int64_t at,
                      std::int64_t n) const {
    const auto loops = program_.sizes.size();
    std::int64_t offset = 0;
    for (auto l = loops; l-- > 0;) {
      position[l] = at % program_.sizes[l];
      at /= program_.sizes[l];
      offset += position[l] * x.steps[l];
    }
    const auto inner = loops - 1;
    const auto first_run = program_.sizes[inner] - position[inner];
    while (n > 0) {
      const auto run = std::min(n, program_.sizes[inner] - position[inner]);
      fetch(c, x, to, offset, run, x.steps[inner]);
      to += run;
      n -= run;
      position[inner] += run;
      offset += run * x.steps[inner];
      for (auto l = inner; l > 0 && position[l] == program_.sizes[l]; --l) {
        offset += x.steps[l - 1] - program_.sizes[l] * x.steps[l];
        position[l] = 0;
        ++position[l - 1];
      }
    }
    return first_run;
  }

  static void fetch(const call& c, const tile_leaf& x, Real* to, std::int64_t first, std::int64_t n,
                    std::int64_t step) {
    if (x.from == tile_leaf::origin::coordinate) {
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = static_cast<Real>(first + i * step);
      }
    } else if (step == 0) {
      load_elements(x.element, to, c.inputs[x.operand], first, 1, 1);
      const auto whole = n / block_size * block_size;
      detail::fill_tile(to, *to, whole);
      std::fill(to + whole, to + n, *to);
    } else if (step == 1 && x.element == native) {
      std::memcpy(to, reinterpret_cast<const Real*>(c.inputs[x.operand]) + first,
                  static_cast<std::size_t>(n) * sizeof(Real));
    } else {
      load_elements(x.element, to, c.inputs[x.operand], first, n, step);
    }
  }

  tile_program program_;
  int threads_;
  std::int64_t count_ = 0;
  std::size_t slot_count_ = 0;
  std::vector<bool> contiguous_;     // per leaf
  std::vector<std::size_t> slots_;   // per value
  std::vector<std::size_t> direct_;  // by value: the store that writes it
};

UNITY_INLINE std::unique_ptr<routine> make_tiles(tile_program p, bool in_double, int threads) {
  if (in_double) {
    return std::make_unique<tile_routine<double>>(std::move(p), threads);
  }
  return std::make_unique<tile_routine<float>>(std::move(p), threads);
}

UNITY_INLINE std::unique_ptr<routine> elementwise_routine(const tensor::algebra& a, const tensor::operation& op,
                                                          types inputs, types outputs, int threads) {
  auto p = elementwise_program(a, op, inputs, outputs);
  const bool in_double = tensor::exceeds_float32(inputs) || tensor::exceeds_float32(outputs);
  return p ? make_tiles(*std::move(p), in_double, threads) : nullptr;
}

}  // namespace unity::backend::cpu

namespace unity::backend::cpu::detail {

UNITY_INLINE std::size_t sequence::workspace() const {
  std::size_t most = 0;
  for (const auto& p : parts_) {
    most = std::max(most, p->workspace());
  }
  return most;
}

UNITY_INLINE void sequence::run(const call& c) const {
  for (const auto& p : parts_) {
    p->run(c);
  }
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> chain_routine(const tensor::algebra& a, const tensor::tensor_graph& region,
                                                    int threads) {
  std::vector<std::unique_ptr<routine>> parts;
  const auto outputs = region.outputs();
  std::vector<bool> done(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& type = region.type(outputs[i]);
    if (done[i]) {
      continue;
    }
    chain_writer writer{a, region, type};
    for (std::size_t j = i; j < outputs.size(); ++j) {
      const auto& other = region.type(outputs[j]);
      if (other.dims == type.dims && other.order == type.order) {
        writer.store(outputs[j], j);
        done[j] = true;
      }
    }
    const bool in_double = writer.in_double();
    parts.push_back(make_tiles(std::move(writer).take(), in_double, threads));
  }
  return parts.size() == 1 ? std::move(parts[0]) : std::make_unique<detail::sequence>(std::move(parts));
}

}  // namespace unity::backend::cpu

#endif
