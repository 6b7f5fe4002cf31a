// Composites without their own kernel, and conversions: routines one after another in one workspace.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/cuda/movement.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/detail/aligned_size.hpp>
#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/detail/routine_places.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend::cuda {

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
      copy.how.run(c.queue, c.outputs[copy.output], places_.read_address(c, copy.from));
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
    strided_copy how;
  };

  void place_outputs(const tensor::tensor_graph& graph, const backend::detail::run_list& list, types outputs) {
    for (std::size_t o = 0; o < graph.outputs().size(); ++o) {
      if (const auto from = places_.add_output(list.root(graph.outputs()[o]), o)) {
        copies_.push_back({o, *from, relayout(graph.type(graph.outputs()[o]), outputs[o].order)});
      }
    }
  }

  void add(const tensor::tensor_graph& graph, const backend::detail::run_list& list,
           const backend::detail::run_item& item, const graph_parts<Queue>& parts) {
    const auto now = steps_.size();
    step s;
    for (const auto v : item.operands) {
      s.operands.push_back(places_.read(list.root(v), now));
    }
    s.run = item.chain != nullptr
                ? parts.chain(item.chain->region)
                : parts.node(graph.operation(item.node), backend::detail::types_of(graph, item.operands),
                             backend::detail::types_of(graph, item.results));
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

}  // namespace unity::backend::cuda
