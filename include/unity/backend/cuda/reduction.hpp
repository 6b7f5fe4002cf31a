// Routines for reductions, pooling, and all other primitives without their own kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/cuda/reduction_function.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cuda {

namespace detail {

// Writes the function of a primitive.
class reduction_writer {
 public:
  reduction_writer(const tensor::space& s, const tensor::scalar_kernel& kernel, types inputs,
                   const tensor::tensor_type& output)
      : space_{s} {
    for (const auto& i : s.indices()) {
      sizes_.push_back(i.size);
    }
    divide_loops(output);
    fits_ = inputs.size() <= reduction_function::max_operands &&
            s.windows().size() <= reduction_function::max_windows && kept_.size() <= max_loops &&
            reduced_.size() <= max_loops && write(kernel.inner, f_.inner) && write(kernel.outer, f_.outer);
    if (!fits_) {
      return;
    }
    order_reduced(inputs);
    for (const auto i : kept_) {
      f_.kept.add(sizes_[i]);
    }
    for (const auto i : reduced_) {
      f_.reduced.add(sizes_[i]);
    }
    f_.points = f_.reduced.points();
    f_.reduction = kernel.reduce;
    for (const auto& i : kernel.outer) {
      f_.counts = f_.counts || i.op == tensor::scalar_op::count;
    }
    f_.element = output.element;
    for (std::size_t o = 0; o < inputs.size(); ++o) {
      f_.operands[f_.operand_count++] = {nullptr, offset_of(s.operand(o), inputs[o]), inputs[o].element};
    }
    for (std::size_t w = 0; w < s.windows().size(); ++w) {
      if (place_of(w) == no_place) {
        const auto& window = s.windows()[w];
        f_.windows[f_.window_count++] = {position_of(window), window.extent, window.count_from, window.count_to};
      } else {
        add_quotient(w, inputs);
      }
    }
    f_.part_points = f_.points;
    f_.quads = has_quads();
  }

  // Nothing if the operator exceeds the limits of the function, or uses coordinates.
  [[nodiscard]] std::optional<reduction_function> take() const { return fits_ ? std::optional{f_} : std::nullopt; }

 private:
  static constexpr auto no_place = static_cast<std::size_t>(-1);

  // Splits the loops into those of the result, in memory order, and the reduced ones. If the result is indexed by a
  // window, that window gets its own loop over positions; the index that counts its windows follows from position and
  // tap.
  void divide_loops(const tensor::tensor_type& output) {
    const auto accesses = space_.result_accesses(0);
    places_.assign(space_.windows().size(), no_place);
    std::vector<std::size_t> derived;
    for (const auto d : memory_order(accesses.size(), output.order)) {
      if (accesses[d].is_window()) {
        const auto w = accesses[d].window_number();
        places_[w] = sizes_.size();
        derived.push_back(static_cast<std::size_t>(space_.windows()[w].outer));
        kept_.push_back(sizes_.size());
        sizes_.push_back(space_.windows()[w].extent);
      }
      for (std::size_t i = 0; i < accesses[d].size(); ++i) {
        kept_.push_back(accesses[d][i]);
      }
    }
    for (std::size_t i = 0; i < space_.indices().size(); ++i) {
      const auto is_in = [i](const auto& all) { return std::find(all.begin(), all.end(), i) != all.end(); };
      if (!is_in(kept_) && !is_in(derived) && sizes_[i] > 1) {
        reduced_.push_back(i);
      }
    }
    std::erase_if(kept_, [&](std::size_t i) { return sizes_[i] == 1; });
  }
  // The loop over the positions of a window that the result is indexed by.
  [[nodiscard]] std::size_t place_of(std::size_t window) const { return places_[window]; }

  void add_quotient(std::size_t number, types inputs) {
    const auto& w = space_.windows()[number];
    auto& q = f_.quotients[f_.quotient_count++];
    std::vector<std::int64_t> steps(sizes_.size(), 0);
    steps[place_of(number)] = 1;
    if (w.inner >= 0) {
      steps[static_cast<std::size_t>(w.inner)] = -w.dilation;
    }
    q.dividend = form_of(steps, w.before);
    q.stride = loop_size{w.stride};
    q.extent = space_.size_of(w.outer);
    for (std::size_t o = 0; o < inputs.size(); ++o) {
      std::vector<std::int64_t> of_operand(sizes_.size(), 0);
      add(of_operand, space_.operand(o), inputs[o]);
      q.steps[o] = of_operand[static_cast<std::size_t>(w.outer)];
    }
  }

  static bool write(const tensor::scalar_program& from, flat_program& to) {
    bool fits = from.size() <= static_cast<std::size_t>(flat_program::max_size);
    for (std::size_t i = 0; fits && i < from.size(); ++i) {
      fits = from[i].op != tensor::scalar_op::coordinate;
      to.code[to.size++] = from[i];
    }
    return fits;
  }
  // Whether it is a sum or maximum of contiguous elements of one operand, in aligned groups of four.
  [[nodiscard]] bool has_quads() const {
    if (f_.window_count + f_.quotient_count > 0 || f_.reduction == tensor::reduction::none || f_.inner.size != 1 ||
        f_.inner.code[0].op != tensor::scalar_op::operand || f_.points % 4 != 0) {
      return false;
    }
    const auto& operand = f_.operands[f_.inner.code[0].number];
    bool fits = cuda::has_quads(operand.element) && operand.offset.base % 4 == 0;
    for (int l = 0; l < f_.kept.count; ++l) {
      fits = fits && operand.offset.kept.steps[l] % 4 == 0;
    }
    std::int64_t next = 1;
    for (int l = f_.reduced.count - 1; l >= 0; --l) {
      fits = fits && operand.offset.reduced.steps[l] == next;
      next *= f_.reduced.sizes[l].size;
    }
    return fits;
  }
  // Orders reduced loops so that neighbouring threads read contiguous elements of the first operand.
  void order_reduced(types inputs) {
    if (inputs.empty()) {
      return;
    }
    std::vector<std::int64_t> steps(sizes_.size(), 0);
    add(steps, space_.operand(0), inputs[0]);
    std::sort(reduced_.begin(), reduced_.end(), [&](std::size_t i, std::size_t j) {
      return steps[i] != steps[j] ? steps[i] > steps[j] : i < j;
    });
  }

  std::int64_t add(std::vector<std::int64_t>& steps, std::span<const tensor::access> accesses,
                   const tensor::tensor_type& type) const {
    const auto strides = tensor::strides_of(type.dims, type.order);
    std::int64_t base = 0;
    for (std::size_t d = 0; d < accesses.size(); ++d) {
      auto stride = strides[d];
      if (accesses[d].is_window()) {
        const auto number = accesses[d].window_number();
        if (place_of(number) != no_place) {
          steps[place_of(number)] += stride;
          continue;
        }
        const auto& w = space_.windows()[number];
        base -= w.before * stride;
        steps[static_cast<std::size_t>(w.outer)] += w.stride * stride;
        if (w.inner >= 0) {
          steps[static_cast<std::size_t>(w.inner)] += w.dilation * stride;
        }
      }
      for (std::size_t i = accesses[d].size(); i-- > 0;) {
        steps[accesses[d][i]] += stride;
        stride *= sizes_[accesses[d][i]];
      }
    }
    return base;
  }
  [[nodiscard]] form offset_of(std::span<const tensor::access> accesses, const tensor::tensor_type& type) const {
    std::vector<std::int64_t> steps(sizes_.size(), 0);
    const auto base = add(steps, accesses, type);
    return form_of(steps, base);
  }
  [[nodiscard]] form position_of(const tensor::window& w) const {
    std::vector<std::int64_t> steps(sizes_.size(), 0);
    steps[static_cast<std::size_t>(w.outer)] = w.stride;
    if (w.inner >= 0) {
      steps[static_cast<std::size_t>(w.inner)] = w.dilation;
    }
    return form_of(steps, -w.before);
  }
  [[nodiscard]] form form_of(std::span<const std::int64_t> steps, std::int64_t base) const {
    form f;
    f.base = base;
    for (std::size_t l = 0; l < kept_.size(); ++l) {
      f.kept.steps[l] = steps[kept_[l]];
    }
    for (std::size_t l = 0; l < reduced_.size(); ++l) {
      f.reduced.steps[l] = steps[reduced_[l]];
    }
    return f;
  }

  const tensor::space& space_;
  std::vector<std::int64_t> sizes_;  // of the indices, and of loops over positions
  std::vector<std::size_t> places_;  // by window
  std::vector<std::size_t> kept_;
  std::vector<std::size_t> reduced_;
  reduction_function f_;
  bool fits_ = false;
};

}  // namespace detail

template <class Queue>
class reduction_routine final : public routine<Queue> {
 public:
  explicit reduction_routine(const reduction_function& f) : function_{f}, results_{f.kept.points()} {
    constexpr std::int64_t many = 1024;
    constexpr std::int64_t some = 32;
    // Adjacent results that are contiguous in the operand are computed together, one thread each.
    const auto last = f.kept.count - 1;
    const bool together = last >= 0 && f.operands[0].offset.kept.steps[last] == 1 && results_ >= many * some;
    width_ = together || f.points < some ? 1 : f.points < many ? warp_threads : block_threads;
    divide();
  }

  [[nodiscard]] std::size_t workspace() const override {
    return function_.parts == 1 ? 0 : static_cast<std::size_t>(results_ * function_.parts) * sizeof(reduction_part);
  }

  void run(const call<Queue>& c) const override {
    auto f = function_;
    for (int o = 0; o < f.operand_count; ++o) {
      f.operands[o].from = c.inputs[static_cast<std::size_t>(o)];
    }
    f.to = c.outputs[0];
    if (f.parts > 1) {
      f.partial = reinterpret_cast<reduction_part*>(c.work);
    }
    c.queue.rows(results_ * f.parts, width_, f);
    if (f.parts > 1) {
      c.queue.rows(results_, warp_threads, reduction_end_function{f});
    }
  }

 private:
  // With few results of many points, one block per result would leave most of the device idle. The number of parts
  // depends only on sizes, so that sums do not depend on the device.
  void divide() {
    constexpr std::int64_t blocks = 1024;        // enough to keep any device busy
    constexpr std::int64_t least_points = 8192;  // per part; a smaller part would not be worth its launch
    const auto parts = std::min(function_.points / least_points, blocks / results_);
    if (width_ == block_threads && parts > 1) {
      const auto each = (function_.points + parts - 1) / parts;
      function_.part_points = (each + 3) / 4 * 4;
      function_.parts = (function_.points + function_.part_points - 1) / function_.part_points;
    }
  }

  reduction_function function_;
  std::int64_t results_;
  int width_ = 1;
};

// Nothing if the operator is not a primitive, or has more operands, windows or instructions than the function supports.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> primitive_routine(const tensor::algebra& a, const tensor::operation& op, types inputs,
                                                   types outputs) {
  const auto s = a.iteration(op, inputs);
  if (!s || s->result_count() != 1) {
    return nullptr;
  }
  const auto kernel = std::get<tensor::primitive>(a.definition_of(op.kind).body).kernel(a.read(op), inputs);
  const auto f = detail::reduction_writer{*s, kernel, inputs, outputs[0]}.take();
  return f ? std::make_unique<reduction_routine<Queue>>(*f) : nullptr;
}

}  // namespace unity::backend::cuda
