// Composites without their own kernel: the routines of their bodies, one after another, in one workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <unity/backend/cpu/movement.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Each chain of element-wise operators is one routine; operators that only rename values need none; intermediate
// results share memory. A constant operand that only one routine reads is packed in the form of that routine.
class composite_routine final : public routine {
 public:
  // Makes the routine of a node. The constructor passes on the unity::error that it throws.
  using prepare_node = std::function<std::unique_ptr<routine>(const tensor::operation&, types inputs, types outputs)>;

  // body: as returned by tensor::algebra::body for inputs that are not constant.
  composite_routine(const tensor::algebra& a, const tensor::tensor_graph& body, types inputs, types outputs,
                    int threads, const prepare_node& prepare);

  [[nodiscard]] std::size_t workspace() const override { return places_.workspace(); }

  void run(const call& c) const override;

  [[nodiscard]] std::size_t packed_size(std::size_t i) const override {
    return packings_[i].step == none ? 0 : steps_[packings_[i].step].run->packed_size(packings_[i].operand);
  }
  void pack(std::size_t i, const std::byte* from, std::byte* to) const override {
    steps_[packings_[i].step].run->pack(packings_[i].operand, from, to);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  using place = backend::detail::value_place;
  struct step {
    std::unique_ptr<routine> run;
    std::vector<place> operands;
    std::vector<place> results;
    place work{};
    mutable std::vector<const std::byte*> in{};
    mutable std::vector<std::byte*> out{};
  };
  struct copy_out {
    std::size_t output;
    place from;
    strided_copy strided;
    std::int64_t element;  // bytes
  };
  struct packing {
    std::size_t step = none;
    std::size_t operand = 0;
  };

  void place_outputs(const tensor::tensor_graph& body, const backend::detail::run_list& list, types outputs);

  void add(const tensor::algebra& a, const tensor::tensor_graph& body, const backend::detail::run_list& list,
           const backend::run_item& item, int threads, const prepare_node& prepare);

  // Constant operands that only one step reads, under any name.
  [[nodiscard]] std::vector<bool> packable(const tensor::tensor_graph& body, const backend::detail::run_list& list,
                                           types inputs) const;

  backend::detail::routine_places places_;
  std::vector<step> steps_;
  std::vector<copy_out> copies_;
  std::vector<packing> packings_;  // per operand
  std::vector<bool> packs_;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_COMPOSITE)

#include <algorithm>

#include <unity/backend/cpu/elementwise.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/core/id.hpp>

namespace unity::backend::cpu {

UNITY_INLINE composite_routine::composite_routine(const tensor::algebra& a, const tensor::tensor_graph& body,
                                                  types inputs, types outputs, int threads, const prepare_node& prepare)
    : places_{body.value_count()} {
  const backend::detail::run_list list{a, body, true};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    places_.add_input(body.results(node_id{i})[0], i);
  }
  place_outputs(body, list, outputs);
  packings_.resize(inputs.size());
  packs_ = packable(body, list, inputs);
  for (const auto items : {list.constants(), list.running()}) {
    for (const auto& item : items) {
      add(a, body, list, item, threads, prepare);
    }
  }
  places_.plan();
}

UNITY_INLINE void composite_routine::run(const call& c) const {
  for (const auto& s : steps_) {
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      s.in[i] = places_.read_address(c, s.operands[i]);
    }
    for (std::size_t i = 0; i < s.results.size(); ++i) {
      s.out[i] = places_.write_address(c, s.results[i]);
    }
    s.run->run({s.in, s.out, places_.write_address(c, s.work), c.threads});
  }
  for (const auto& copy : copies_) {
    copy.strided.run(c.outputs[copy.output], places_.read_address(c, copy.from), copy.element, c.threads);
  }
}

UNITY_INLINE void composite_routine::place_outputs(const tensor::tensor_graph& body,
                                                   const backend::detail::run_list& list, types outputs) {
  for (std::size_t o = 0; o < body.outputs().size(); ++o) {
    if (const auto from = places_.add_output(list.root(body.outputs()[o]), o)) {
      const auto& t = body.type(body.outputs()[o]);
      copies_.push_back({o, *from, strided_copy{backend::detail::relayout_box(t.dims, outputs[o].order, t.order)},
                         tensor::size_of(t.element)});
    }
  }
}

UNITY_INLINE void composite_routine::add(const tensor::algebra& a, const tensor::tensor_graph& body,
                                         const backend::detail::run_list& list, const backend::run_item& item,
                                         int threads, const prepare_node& prepare) {
  const auto now = steps_.size();
  step s;
  auto inputs = backend::types_of(body, item.operands);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto p = places_.read(list.root(item.operands[i]), now);
    inputs[i].constant = p.where == place::region::input && packs_[p.number];
    if (inputs[i].constant) {
      packings_[p.number] = {now, i};
    }
    s.operands.push_back(p);
  }
  s.run = item.chain != nullptr ? chain_routine(a, item.chain->region, threads)
                                : prepare(body.operation(item.node), inputs, backend::types_of(body, item.results));
  for (const auto v : item.results) {
    s.results.push_back(places_.write(v, byte_count(body.type(v)), now));
  }
  s.work = places_.reserve(s.run->workspace(), now);
  s.in.resize(s.operands.size());
  s.out.resize(s.results.size());
  steps_.push_back(std::move(s));
}

UNITY_INLINE std::vector<bool> composite_routine::packable(const tensor::tensor_graph& body,
                                                           const backend::detail::run_list& list, types inputs) const {
  std::vector<int> readers(inputs.size(), 0);
  const auto read = [&](value_id v) {
    if (const auto p = places_[list.root(v)]; p.where == place::region::input) {
      ++readers[p.number];
    }
  };
  std::for_each(body.outputs().begin(), body.outputs().end(), read);
  for (const auto& item : list.running()) {
    std::for_each(item.operands.begin(), item.operands.end(), read);
  }
  std::vector<bool> packs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    packs.push_back(inputs[i].constant && readers[i] == 1);
  }
  return packs;
}

}  // namespace unity::backend::cpu

#endif
