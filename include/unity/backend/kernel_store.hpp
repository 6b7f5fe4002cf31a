// The kernels of a graph, one for all equal nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::backend {

// The prepared kernels of a backend by number, each prepared once: for equal nodes or chains, and for equal regions. A
// look-up is linear in the item's graph. References to kernels stay valid.
template <device_backend Backend>
class kernel_store {
 public:
  explicit kernel_store(const tensor::algebra& a) noexcept : algebra_{&a} {}

  // The number of the item's kernel. constants: whether operands may be packed.
  // Throws: unity::error that names node and operator if the backend has no kernel.
  std::size_t prepare(Backend& backend, const tensor::tensor_graph& g, const run_item& item, bool constants) {
    auto what = item.chain != nullptr ? item.chain->region : single(g, item, constants);
    const auto [found, is_new] = numbers_.try_emplace(std::move(what), kernels_.size());
    if (is_new) {
      try {
        kernels_.push_back(make(backend, found->first, item));
      } catch (const error& e) {
        throw error{fmt::format("node {} ({}): {}", item.node.index(), name(g, item), e.what())};
      }
    }
    return found->second;
  }

  // The kernel of a region. Throws: unity::error if the backend has no kernel for it or does not run regions.
  std::size_t prepare_region(Backend& backend, const fusion::kernel_region& region) {
    if constexpr (region_backend<Backend>) {
      auto& alike = regions_[region.graph];
      for (const auto& [known, number] : alike) {
        if (known == region) {
          return number;
        }
      }
      kernels_.push_back(backend.prepare_region(region));
      alike.emplace_back(region, kernels_.size() - 1);
      return kernels_.size() - 1;
    } else {
      throw error{fmt::format("backend {}", backend.description().backend), "fused kernels", "one that has them: cpu"};
    }
  }

  [[nodiscard]] const typename Backend::kernel& operator[](std::size_t i) const { return kernels_[i]; }
  [[nodiscard]] std::size_t size() const noexcept { return kernels_.size(); }

 private:
  struct graph_hash {
    std::size_t operator()(const tensor::tensor_graph& g) const {
      std::uint64_t h = g.value_count();
      for (const auto n : node_ids(g)) {
        h = hash_combine(h, std::hash<tensor::operation>{}(g.operation(n)));
      }
      for (const auto v : value_ids(g)) {
        h = hash_combine(h, std::hash<tensor::tensor_type>{}(g.type(v)));
      }
      return h;
    }
  };

  // The node alone, with its operands as sources of no kind.
  [[nodiscard]] static tensor::tensor_graph single(const tensor::tensor_graph& g, const run_item& item,
                                                   bool constants) {
    tensor::tensor_graph one;
    std::vector<value_id> operands;
    for (auto t : types_of(g, item.operands)) {
      t.constant = t.constant && constants;
      operands.push_back(one.results(one.add_node({}, {}, {&t, 1}))[0]);
    }
    auto results = types_of(g, item.results);
    for (auto& t : results) {
      t.constant = t.constant && constants;
    }
    const auto n = one.add_node(g.operation(item.node), operands, results);
    one.set_outputs(one.results(n));
    return one;
  }
  [[nodiscard]] static typename Backend::kernel make(Backend& backend, const tensor::tensor_graph& what,
                                                     const run_item& item) {
    if constexpr (fusing_backend<Backend>) {
      if (item.chain != nullptr) {
        return backend.prepare_chain(what);
      }
    }
    const node_id last{what.node_count() - 1};
    return backend.prepare(what.operation(last), types_of(what, what.operands(last)),
                           types_of(what, what.results(last)));
  }
  [[nodiscard]] std::string name(const tensor::tensor_graph& g, const run_item& item) const {
    std::string names;
    for (const auto n :
         item.chain != nullptr ? std::span<const node_id>{item.chain->nodes} : std::span{&item.node, 1}) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", algebra_->signature(g.operation(n).kind).name);
    }
    return names;
  }

  const tensor::algebra* algebra_;
  std::deque<typename Backend::kernel> kernels_;  // references to kernels stay valid
  std::unordered_map<tensor::tensor_graph, std::size_t, graph_hash> numbers_;
  std::unordered_map<tensor::tensor_graph, std::vector<std::pair<fusion::kernel_region, std::size_t>>, graph_hash>
      regions_;
};

}  // namespace unity::backend
