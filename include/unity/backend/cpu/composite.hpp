// Composites without a kernel of their own: the routines of their bodies, one after another, in one workspace.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/cpu/elementwise.hpp>
#include <unity/backend/cpu/movement.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/program/storage.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Chains of element-wise operators are one routine each; what only renames is no routine; intermediate results share
// memory. A constant operand that one routine reads is packed as that routine has it.
class composite_routine final : public routine {
 public:
  // prepare: the routine of a node. Throws: unity::error where it does.
  using prepare_node =
      std::function<std::unique_ptr<routine>(const tensor::operation&, types inputs, types outputs)>;

  // body: as tensor::algebra::body gives it for inputs of which none is constant.
  composite_routine(const tensor::algebra& a, const tensor::tensor_graph& body, types inputs, types outputs,
                    int threads, const prepare_node& prepare) {
    const backend::detail::run_list list{a, body, true};
    places_.assign(body.value_count(), {});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      places_[body.results(node_id{i})[0].index()] = {region::input, i};
    }
    place_outputs(body, list, outputs);
    packings_.resize(inputs.size());
    packs_ = packable(body, list, inputs);
    for (const auto items : {list.constants(), list.running()}) {
      for (const auto& item : items) {
        add(a, body, list, item, threads, prepare);
      }
    }
    const auto plan = program::plan_storage(stored_, bytes{static_cast<std::int64_t>(memory_alignment)});
    for (const auto o : plan.offsets) {
      offsets_.push_back(static_cast<std::size_t>(o.count()));
    }
    size_ = static_cast<std::size_t>(plan.peak.count());
  }

  [[nodiscard]] std::size_t workspace() const override { return size_; }

  void run(const call& c) const override {
    for (const auto& s : steps_) {
      for (std::size_t i = 0; i < s.operands.size(); ++i) {
        s.in[i] = read_address(c, s.operands[i]);
      }
      for (std::size_t i = 0; i < s.results.size(); ++i) {
        s.out[i] = write_address(c, s.results[i]);
      }
      s.run->run({s.in, s.out, c.work + offsets_[s.work], c.threads});
    }
    for (const auto& copy : copies_) {
      copy.how.run(c.outputs[copy.output], read_address(c, copy.from), copy.element, c.threads);
    }
  }

  [[nodiscard]] std::size_t packed_size(std::size_t i) const override {
    return packings_[i].step == none ? 0 : steps_[packings_[i].step].run->packed_size(packings_[i].operand);
  }
  void pack(std::size_t i, const std::byte* from, std::byte* to) const override {
    steps_[packings_[i].step].run->pack(packings_[i].operand, from, to);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  enum class region : std::uint8_t { nowhere, input, output, work };
  struct place {
    region where = region::nowhere;
    std::size_t number = 0;
  };
  struct step {
    std::unique_ptr<routine> run;
    std::vector<place> operands;
    std::vector<place> results;
    std::size_t work = 0;
    mutable std::vector<const std::byte*> in{};
    mutable std::vector<std::byte*> out{};
  };
  struct copy_out {
    std::size_t output;
    place from;
    strided_copy how;
    std::int64_t element;  // bytes
  };
  struct packing {
    std::size_t step = none;
    std::size_t operand = 0;
  };

  // What is computed is written to its output; a second output, or one that is an operand, is a copy: an operand
  // may lie in another layout than results do.
  void place_outputs(const tensor::tensor_graph& body, const backend::detail::run_list& list, types outputs) {
    for (std::size_t o = 0; o < body.outputs().size(); ++o) {
      const auto root = list.root(body.outputs()[o]);
      auto& p = places_[root.index()];
      if (p.where == region::nowhere) {
        p = {region::output, o};
      } else {
        const auto& t = body.type(body.outputs()[o]);
        copies_.push_back({o, p, strided_copy{backend::detail::relayout_box(t.dims, outputs[o].order, t.order)},
                           tensor::size_of(t.element)});
      }
    }
  }

  void add(const tensor::algebra& a, const tensor::tensor_graph& body, const backend::detail::run_list& list,
           const backend::detail::run_item& item, int threads, const prepare_node& prepare) {
    const auto now = steps_.size();
    step s;
    auto inputs = backend::detail::types_of(body, item.operands);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto p = places_[list.root(item.operands[i]).index()];
      inputs[i].constant = p.where == region::input && packs_[p.number];
      if (inputs[i].constant) {
        packings_[p.number] = {now, i};
      }
      if (p.where == region::work) {
        stored_[p.number].last = now;
      }
      s.operands.push_back(p);
    }
    s.run = item.chain != nullptr
                ? chain_routine(a, item.chain->region, threads)
                : prepare(body.operation(item.node), inputs, backend::detail::types_of(body, item.results));
    for (const auto v : item.results) {
      auto& p = places_[v.index()];
      if (p.where == region::nowhere) {
        p = {region::work, store(byte_count(body.type(v)), now)};
      }
      s.results.push_back(p);
    }
    s.work = store(s.run->workspace(), now);
    s.in.resize(s.operands.size());
    s.out.resize(s.results.size());
    steps_.push_back(std::move(s));
  }
  std::size_t store(std::size_t size, std::size_t now) {
    stored_.push_back({bytes{static_cast<std::int64_t>(size)}, now, now});
    return stored_.size() - 1;
  }

  // Constant operands that one step reads, under whatever name.
  [[nodiscard]] std::vector<bool> packable(const tensor::tensor_graph& body, const backend::detail::run_list& list,
                                           types inputs) const {
    std::vector<int> readers(inputs.size(), 0);
    const auto read = [&](value_id v) {
      if (const auto p = places_[list.root(v).index()]; p.where == region::input) {
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

  [[nodiscard]] const std::byte* read_address(const call& c, place p) const {
    return p.where == region::input ? c.inputs[p.number] : write_address(c, p);
  }
  [[nodiscard]] std::byte* write_address(const call& c, place p) const {
    return p.where == region::output ? c.outputs[p.number] : c.work + offsets_[p.number];
  }

  std::vector<place> places_;  // per value of the body
  std::vector<step> steps_;
  std::vector<copy_out> copies_;
  std::vector<packing> packings_;  // per operand
  std::vector<bool> packs_;
  std::vector<program::stored_value> stored_;
  std::vector<std::size_t> offsets_;
  std::size_t size_ = 0;
};

}  // namespace unity::backend::cpu
