// Makes routines for operators: from a library if it supports the operator, otherwise from own functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/cuda/elementwise.hpp>
#include <unity/backend/cuda/library_plans.hpp>
#include <unity/backend/cuda/movement.hpp>
#include <unity/backend/cuda/reduction.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/cuda/rows.hpp>
#include <unity/backend/cuda/segment.hpp>
#include <unity/backend/cuda/selection.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/layouts.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend::cuda {

// Composites without their own kernel, and conversions: routines one after another in one workspace.

// Functions that prepare the parts of a graph. graph_routine passes on the unity::error that they throw.
template <class Queue>
struct graph_parts {
  std::function<routine_ptr<Queue>(const tensor::operation&, types inputs, types outputs)> node;
  std::function<routine_ptr<Queue>(const tensor::tensor_graph& region)> chain;
};

// Each chain of element-wise operators is one routine, if the parts support it; operators that only rename values need
// none; intermediate results share memory.
template <class Queue>
class graph_routine final : public routine<Queue> {
 public:
  // graph: its nodes `inputs`, in that order, have the operands as results. fuse: whether chains become one routine.
  graph_routine(const tensor::algebra& a, const tensor::tensor_graph& graph, std::span<const node_id> inputs,
                types outputs, bool fuse, const graph_parts<Queue>& parts)
      : places_{graph.value_count()} {
    const backend::detail::run_list list{a, graph, fuse};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      places_.add_input(graph.results(inputs[i])[0], i);
    }
    place_outputs(graph, list, outputs);
    for (const auto items : {list.constants(), list.running()}) {
      for (const auto& item : items) {
        if (places_[item.results[0]].where != place::region::input) {
          add(graph, list, item, parts);
        }
      }
    }
    places_.plan();
  }

  [[nodiscard]] std::size_t workspace() const override { return places_.workspace(); }

  void run(const call<Queue>& c) const override {
    for (const auto& s : steps_) {
      for (std::size_t i = 0; i < s.operands.size(); ++i) {
        s.in[i] = places_.read_address(c, s.operands[i]);
      }
      for (std::size_t i = 0; i < s.results.size(); ++i) {
        s.out[i] = places_.write_address(c, s.results[i]);
      }
      s.run->run({s.in, s.out, places_.write_address(c, s.work), c.queue});
    }
    for (const auto& copy : copies_) {
      copy.strided.run(c.queue, c.outputs[copy.output], places_.read_address(c, copy.from));
    }
  }

 private:
  using place = backend::detail::value_place;
  struct step {
    routine_ptr<Queue> run{};
    std::vector<place> operands{};
    std::vector<place> results{};
    place work{};
    mutable std::vector<const std::byte*> in{};
    mutable std::vector<std::byte*> out{};
  };
  struct copy_out {
    std::size_t output;
    place from;
    strided_copy strided;
  };

  void place_outputs(const tensor::tensor_graph& graph, const backend::detail::run_list& list, types outputs) {
    for (std::size_t o = 0; o < graph.outputs().size(); ++o) {
      if (const auto from = places_.add_output(list.root(graph.outputs()[o]), o)) {
        copies_.push_back({o, *from, relayout(graph.type(graph.outputs()[o]), outputs[o].order)});
      }
    }
  }

  void add(const tensor::tensor_graph& graph, const backend::detail::run_list& list, const backend::run_item& item,
           const graph_parts<Queue>& parts) {
    const auto now = steps_.size();
    step s;
    for (const auto v : item.operands) {
      s.operands.push_back(places_.read(list.root(v), now));
    }
    s.run = item.chain != nullptr ? parts.chain(item.chain->region)
                                  : parts.node(graph.operation(item.node), backend::types_of(graph, item.operands),
                                               backend::types_of(graph, item.results));
    for (const auto v : item.results) {
      s.results.push_back(places_.write(v, byte_count(graph.type(v)), now));
    }
    s.work = places_.reserve(s.run->workspace(), now);
    s.in.resize(s.operands.size());
    s.out.resize(s.results.size());
    steps_.push_back(std::move(s));
  }

  backend::detail::routine_places places_;
  std::vector<step> steps_;
  std::vector<copy_out> copies_;
};

// A routine between conversions.
template <class Queue>
class converting_routine final : public routine<Queue> {
 public:
  // convert(from, to): returns a routine. inner: a routine for the plain types.
  template <class Convert>
  converting_routine(routine_ptr<Queue> inner, types inputs, types plain_inputs, types outputs, types plain_outputs,
                     const Convert& convert)
      : inner_{std::move(inner)}, in_(inputs.size()), out_(outputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ends_in_.push_back(make(inputs[i], plain_inputs[i], plain_inputs[i], convert));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      ends_out_.push_back(make(plain_outputs[i], outputs[i], plain_outputs[i], convert));
    }
  }

  [[nodiscard]] std::size_t workspace() const override { return size_ + inner_->workspace(); }

  void run(const call<Queue>& c) const override {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      in_[i] = c.inputs[i];
      if (ends_in_[i].change) {
        auto* to = c.work + ends_in_[i].offset;
        ends_in_[i].change->run({{&in_[i], 1}, {&to, 1}, nullptr, c.queue});
        in_[i] = to;
      }
    }
    for (std::size_t i = 0; i < out_.size(); ++i) {
      out_[i] = ends_out_[i].change ? c.work + ends_out_[i].offset : c.outputs[i];
    }
    inner_->run({in_, out_, c.work + size_, c.queue});
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (ends_out_[i].change) {
        const std::byte* from = out_[i];
        ends_out_[i].change->run({{&from, 1}, {&c.outputs[i], 1}, nullptr, c.queue});
      }
    }
  }

 private:
  struct end {
    routine_ptr<Queue> change{};  // needs no workspace; null: no conversion
    std::size_t offset = 0;       // within the workspace
  };

  template <class Convert>
  end make(const tensor::tensor_type& from, const tensor::tensor_type& to, const tensor::tensor_type& plain,
           const Convert& convert) {
    end e;
    if (from.element != to.element || from.order != to.order) {
      e.change = convert(from, to);
      e.offset = size_;
      size_ += backend::detail::aligned_size(byte_count(plain));
    }
    return e;
  }

  routine_ptr<Queue> inner_;
  std::vector<end> ends_in_;
  std::vector<end> ends_out_;
  std::size_t size_ = 0;
  mutable std::vector<const std::byte*> in_;
  mutable std::vector<std::byte*> out_;
};

// Aligns workspaces as libraries require.

// cuBLASLt rejects any other workspace as an invalid value, even one of zero bytes. Unit: bytes.
// Source: the manual of cuBLAS, cublasLtMatmul.
inline constexpr std::size_t library_alignment = 256;

// Wraps a library's routine to accept any workspace; passes null if the library needs none.
template <class Queue>
class aligned_routine final : public routine<Queue> {
 public:
  explicit aligned_routine(routine_ptr<Queue> inner) : inner_{std::move(inner)} {}

  // Workspaces are aligned to memory_alignment: this much extra space always contains one aligned to library_alignment.
  [[nodiscard]] std::size_t workspace() const override {
    const auto needed = inner_->workspace();
    return needed == 0 ? 0 : needed + library_alignment - memory_alignment;
  }

  void run(const call<Queue>& c) const override {
    const auto beyond = reinterpret_cast<std::uintptr_t>(c.work) % library_alignment;
    auto* const work = beyond == 0 ? c.work : c.work + (library_alignment - beyond);
    inner_->run({c.inputs, c.outputs, inner_->workspace() == 0 ? nullptr : work, c.queue});
  }

 private:
  routine_ptr<Queue> inner_;
};

// Null if r is null.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> with_aligned_workspace(routine_ptr<Queue> r) {
  return r == nullptr ? nullptr : std::make_unique<aligned_routine<Queue>>(std::move(r));
}

// Library: the kernels of the device's vendor. Functions return null if the vendor has none.
//   l.product(plan, result)               a routine for the operands of matmul or linear
//   l.convolves(element)                  whether there are convolutions
//   l.convolution(plan, inputs, result)   a routine for the operands of conv2d, for a symmetric plan
//   l.convolution_gradient(plan, of, inputs, result)   a routine for the operands of an adjoint of conv2d, likewise
//   l.pooling(plan, image, result, own)   a routine for the operand of a plain pooling
//   l.normalization(epsilon, image, own)  a routine for the operands of batch_norm, in float32
// Workspaces are aligned to library_alignment, operands and results to memory_alignment. Images are row-major. own: an
// equivalent routine, used if the library turns out not to support the case.
template <class Queue, class Library>
class kernel_factory {
 public:
  // Both must outlive the factory.
  kernel_factory(const tensor::algebra& a, const Library& library) : algebra_{&a}, library_{&library} {}

  // Throws: unity::error for an operator that is unknown, does not accept the inputs, or has no kernel.
  [[nodiscard]] routine_ptr<Queue> make(const tensor::operation& op, types inputs, types outputs) const {
    backend::detail::check_operator("cuda", *algebra_, op, inputs, outputs);
    if (const auto map = algebra_->index_map(op, inputs)) {
      return std::make_unique<view_routine<Queue>>(*map, inputs, outputs);
    }
    auto r = selection<Queue>(algebra_->signature(op.kind).name, inputs, outputs);  // vectors have no layout
    if (r == nullptr) {
      r = std::holds_alternative<tensor::primitive>(algebra_->definition_of(op.kind).body)
              ? make_primitive(op, inputs, outputs)
              : make_composite(op, inputs, outputs);
    }
    if (r == nullptr) {
      throw backend::detail::no_kernel("cuda", *algebra_, op, inputs, "an operator that this backend has a kernel for");
    }
    return r;
  }

  // Throws: unity::error that names an operator of the region that is not element-wise.
  [[nodiscard]] routine_ptr<Queue> make_chain(const tensor::tensor_graph& region) const {
    if (auto one = region_routine<Queue>(*algebra_, region)) {
      return one;
    }
    std::vector<node_id> inputs;
    for (const auto n : node_ids(region)) {
      if (region.operands(n).empty()) {
        inputs.push_back(n);
      }
    }
    const auto outputs = backend::types_of(region, region.outputs());
    return std::make_unique<graph_routine<Queue>>(*algebra_, region, inputs, outputs, false, parts());
  }

 private:
  using types_list = std::vector<tensor::tensor_type>;

  [[nodiscard]] static bool has_library_type(types ts) {
    return std::all_of(ts.begin(), ts.end(), [&](const auto& t) {
      return t.element == ts[0].element &&
             (t.element == tensor::dtype::float32 || t.element == tensor::dtype::float16 ||
              t.element == tensor::dtype::bfloat16);
    });
  }

  [[nodiscard]] graph_parts<Queue> parts() const {
    return {[this](const tensor::operation& op, types in, types out) { return make(op, in, out); },
            [this](const tensor::tensor_graph& region) { return make_chain(region); }};
  }

  [[nodiscard]] routine_ptr<Queue> make_primitive(const tensor::operation& op, types inputs, types outputs) const {
    if (auto r = elementwise_routine<Queue>(*algebra_, op, inputs, outputs)) {
      return r;
    }
    const std::string_view name = algebra_->signature(op.kind).name;
    const auto a = algebra_->read(op);
    if (name == "embedding") {
      const auto inner = [](types in, types) { return std::make_unique<embedding_routine<Queue>>(in); };
      return between_conversions(inputs, outputs, conversion::layouts, inner);
    }
    if (name == "embedding_bag") {
      const auto inner = [](types in, types) { return std::make_unique<embedding_bag_routine<Queue>>(in); };
      return between_conversions(inputs, outputs, conversion::layouts, inner);
    }
    if (name == "embedding_gradient" || name == "embedding_bag_gradient" || name == "scatter_sum") {
      const auto inner = [&](types in, types out) {
        return std::make_unique<embedding_gradient_routine<Queue>>(in, out, name == "embedding_bag_gradient");
      };
      return between_conversions(inputs, outputs, conversion::layouts, inner);
    }
    routine_ptr<Queue> r;
    if ((name == "matmul" || name == "linear") && has_library_type(inputs)) {
      const auto then = a.template choice<tensor::operators::activation>("activation");
      r = with_aligned_workspace(
          library_->product(plan_product(inputs, outputs[0], name == "linear", then), outputs[0]));
    } else if (name == "conv2d" && has_library_type(inputs) && library_->convolves(inputs[0].element)) {
      r = make_convolution(op, a, inputs, outputs);
    } else if (name == "conv2d_input_gradient" && has_library_type(inputs) && library_->convolves(inputs[0].element)) {
      r = make_convolution_gradient(op, convolution_operand::image, inputs, outputs);
    } else if (name == "conv2d_weight_gradient" && has_library_type(inputs) && library_->convolves(inputs[0].element)) {
      r = make_convolution_gradient(op, convolution_operand::weight, inputs, outputs);
    } else if ((name == "max_pool" || name == "average_pool") && has_library_type(inputs) && is_row_major(inputs[0])) {
      r = make_pooling(op, plan_pooling(a, inputs, name == "average_pool"), inputs, outputs);
    }
    return r ? std::move(r) : primitive_routine<Queue>(*algebra_, op, inputs, outputs);
  }

  [[nodiscard]] routine_ptr<Queue> make_pooling(const tensor::operation& op, const pooling_plan& plan, types inputs,
                                                types outputs) const {
    auto own = primitive_routine<Queue>(*algebra_, op, inputs, outputs);
    return plan.is_plain() && is_row_major(outputs[0]) ? library_->pooling(plan, inputs[0], outputs[0], std::move(own))
                                                       : std::move(own);
  }

  [[nodiscard]] routine_ptr<Queue> make_convolution(const tensor::operation& op, const tensor::attribute_reader& a,
                                                    types inputs, types outputs) const {
    const auto plan = plan_convolution(a, inputs);
    if (!plan.symmetric()) {
      return of_graph(padded_convolution{*algebra_, op, plan, inputs}, outputs);
    }
    return between_conversions(inputs, outputs, conversion::layouts, [&](types in, types out) {
      return with_aligned_workspace(library_->convolution(plan, in, out[0]));
    });
  }
  [[nodiscard]] routine_ptr<Queue> make_convolution_gradient(const tensor::operation& op, convolution_operand of,
                                                             types inputs, types outputs) const {
    const auto plan = plan_convolution_gradient(algebra_->read(op), of, inputs, outputs[0].dims);
    if (!plan.symmetric()) {
      return of_graph(padded_convolution{*algebra_, op, plan, inputs, of, outputs[0].dims}, outputs);
    }
    return between_conversions(inputs, outputs, conversion::layouts, [&](types in, types out) {
      return with_aligned_workspace(library_->convolution_gradient(plan, of, in, out[0]));
    });
  }
  [[nodiscard]] routine_ptr<Queue> of_graph(const padded_convolution& p, types outputs) const {
    return std::make_unique<graph_routine<Queue>>(*algebra_, p.graph(), p.operands(), outputs, false, parts());
  }

  [[nodiscard]] routine_ptr<Queue> make_composite(const tensor::operation& op, types inputs, types outputs) const {
    const std::string_view name = algebra_->signature(op.kind).name;
    const auto a = algebra_->read(op);
    const bool wide = tensor::exceeds_float32(inputs);
    if (name.starts_with("segment_")) {
      const auto inner = [&](types in, types out) { return std::make_unique<edge_routine<Queue>>(name, in, out); };
      return between_conversions(inputs, outputs, conversion::layouts, inner);
    }
    if (name == "softmax" && !wide) {
      return std::make_unique<softmax_routine<Queue>>(a, inputs, outputs);
    }
    if (name == "batch_norm") {
      auto own = batch_norm_routine<Queue>(a, inputs, outputs);
      const bool plain = inputs[0].element == tensor::dtype::float32 && has_library_type(inputs) &&
                         is_row_major(inputs[0]) && is_row_major(outputs[0]);
      return plain ? library_->normalization(a.real("epsilon"), inputs[0], std::move(own)) : std::move(own);
    }
    if (name == "layer_norm" && !wide) {
      const auto inner = [&](types in, types) { return std::make_unique<layer_norm_routine<Queue>>(a, in); };
      return between_conversions(inputs, outputs, conversion::layouts, inner);
    }
    // Intermediate results are not rounded to 16 bits, except if all work is in products, which are fast on 16 bits.
    const bool narrow = name != "attention" && std::any_of(inputs.begin(), inputs.end(), [](const auto& t) {
                          return tensor::is_floating(t.element) && tensor::size_of(t.element) == 2;
                        });
    if (!narrow) {
      return make_body(op, inputs, outputs);
    }
    return between_conversions(inputs, outputs, conversion::elements,
                               [&](types in, types out) { return make_body(op, in, out); });
  }

  [[nodiscard]] routine_ptr<Queue> make_body(const tensor::operation& op, types inputs, types outputs) const {
    types_list variable{inputs.begin(), inputs.end()};
    std::vector<node_id> sources;
    for (auto& t : variable) {
      t.constant = false;
      sources.push_back(node_id{sources.size()});
    }
    const auto body = algebra_->body(op, variable);
    if (!body) {
      return nullptr;
    }
    const auto joined = with_joined_transposes(*algebra_, *body);
    return std::make_unique<graph_routine<Queue>>(*algebra_, joined, sources, outputs, true, parts());
  }

  // of elements: floats of 16 bits to float32; of layouts: to row-major order.
  enum class conversion : std::uint8_t { elements, layouts };

  // Wraps the routine of inner(inputs, outputs), which gets the types after the conversion.
  template <class Inner>
  [[nodiscard]] routine_ptr<Queue> between_conversions(types inputs, types outputs, conversion to_plain,
                                                       const Inner& inner) const {
    bool same = true;
    const auto plain = [&](types given) {
      types_list all{given.begin(), given.end()};
      for (auto& t : all) {
        const bool narrow =
            to_plain == conversion::elements && tensor::is_floating(t.element) && tensor::size_of(t.element) == 2;
        const bool turned = to_plain == conversion::layouts && !is_row_major(t);
        t.element = narrow ? tensor::dtype::float32 : t.element;
        t.order = to_plain == conversion::layouts ? tensor::layout::row_major : t.order;
        same = same && !narrow && !turned;
      }
      return all;
    };
    const auto in = plain(inputs);
    const auto out = plain(outputs);
    routine_ptr<Queue> r = inner(types{in}, types{out});
    if (same || r == nullptr) {
      return r;
    }
    return std::make_unique<converting_routine<Queue>>(std::move(r), inputs, in, outputs, out, convert);
  }

  // Either the layout or the element type differs, not both.
  static routine_ptr<Queue> convert(const tensor::tensor_type& from, const tensor::tensor_type& to) {
    if (from.element == to.element) {
      return std::make_unique<relayout_routine<Queue>>(from, to.order);
    }
    return std::make_unique<chain_routine<Queue>>(*compile_chain(conversion_program(from, to)), false);
  }

  const tensor::algebra* algebra_;
  const Library* library_;
};

}  // namespace unity::backend::cuda
