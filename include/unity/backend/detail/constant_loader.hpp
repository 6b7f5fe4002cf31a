// Computes, once, the values that depend only on constants.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/kernel_store.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/source_values.hpp>

namespace unity::backend::detail {

// The bytes of a node without operands: the data given for its name, or those of tensor::evaluate.
// Throws: unity::error if the given data have another size.
[[nodiscard]] std::vector<std::byte> source_bytes(const tensor::algebra& a, const tensor::tensor_graph& g, node_id n,
                                                  const tensor::source_data& data, std::uint64_t seed);

// An operand of a kernel in the backend's own form.
struct packed_operand {
  std::size_t kernel = 0;
  std::size_t operand = 0;
  value_id root{};
  std::size_t place = 0;  // among the constants
};

inline constexpr auto no_place = static_cast<std::size_t>(-1);

// Runs the constant part of a list. Values without later readers are kept only as long as the constant part needs them.
template <device_backend Backend>
class constant_loader {
 public:
  // kept: per value its place among the constants, or no_place.
  constant_loader(Backend& backend, const tensor::algebra& a, const tensor::tensor_graph& g, const run_list& list,
                  memory_pool<Backend>& constants, std::span<const std::size_t> kept)
      : backend_{backend},
        algebra_{a},
        graph_{g},
        list_{list},
        constants_{constants},
        kept_{kept},
        passing_(g.value_count(), no_place),
        kernels_{a} {}

  // readers: the kernels of the packed operands.
  // Throws: unity::error if the backend has no kernel or not enough memory, or if data have the wrong size.
  void run(const tensor::source_data& data, std::uint64_t seed, const kernel_store<Backend>& readers,
           std::span<const packed_operand> packed) {
    plan();
    scratch_.allocate(backend_, "memory to compute constants in");
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const auto& item = list_.constants()[i];
      if (item.operands.empty()) {
        backend_.write(at(item.results[0]), source_bytes(algebra_, graph_, item.node, data, seed));
      } else {
        launch(item, steps_[i]);
      }
      for (const auto& p : packed) {
        if (std::find(item.results.begin(), item.results.end(), p.root) != item.results.end()) {
          pack(readers[p.kernel], p);
        }
      }
    }
    backend_.wait();
  }

 private:
  struct step {
    std::size_t kernel = no_place;
    std::size_t workspace = no_place;
  };

  void plan() {
    for (std::size_t i = 0; i < list_.constants().size(); ++i) {
      const auto& item = list_.constants()[i];
      step s;
      for (const auto v : item.operands) {
        if (const auto place = passing_[list_.root(v).index()]; place != no_place) {
          scratch_.extend(place, i);
        }
      }
      for (const auto v : item.results) {
        if (kept_[v.index()] == no_place) {
          passing_[v.index()] = scratch_.add(byte_count(graph_.type(v)), i);
        }
      }
      if (!item.operands.empty()) {
        s.kernel = kernels_.prepare(backend_, graph_, item, false);
        s.workspace = scratch_.add(kernels_[s.kernel].workspace(), i);
      }
      steps_.push_back(s);
    }
  }
  void launch(const run_item& item, const step& s) {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (const auto v : item.operands) {
      in.push_back(at(list_.root(v)));
    }
    for (const auto v : item.results) {
      out.push_back(at(v));
    }
    backend_.run(kernels_[s.kernel], in, out, scratch_.at(s.workspace));
  }
  void pack([[maybe_unused]] const typename Backend::kernel& reader, [[maybe_unused]] const packed_operand& p) {
    if constexpr (packing_backend<Backend>) {
      backend_.pack(reader, p.operand, at(p.root), constants_.at(p.place));
    }
  }
  [[nodiscard]] std::byte* at(value_id root) {
    const auto place = kept_[root.index()];
    return place != no_place ? constants_.at(place) : scratch_.at(passing_[root.index()]);
  }

  Backend& backend_;
  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  const run_list& list_;
  memory_pool<Backend>& constants_;
  std::span<const std::size_t> kept_;
  std::vector<std::size_t> passing_;  // per value: its place in the scratch memory
  std::vector<step> steps_;
  kernel_store<Backend> kernels_;
  memory_pool<Backend> scratch_;
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DETAIL_CONSTANT_LOADER)

#include <optional>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/tensor/evaluate.hpp>

namespace unity::backend::detail {

UNITY_INLINE std::vector<std::byte> source_bytes(const tensor::algebra& a, const tensor::tensor_graph& g, node_id n,
                                                 const tensor::source_data& data, std::uint64_t seed) {
  const auto& op = g.operation(n);
  const auto& type = g.type(g.results(n)[0]);
  if (data && a.definition_of(op.kind).source != tensor::source_kind::none) {
    const auto name = a.read(op).word("name");
    if (const auto given = data(name)) {
      if (given->dims != type.dims ||
          given->data.size() != static_cast<std::size_t>(tensor::element_count(type.dims))) {
        throw error{fmt::format("source {}", name), "a value of another size", tensor::to_string(type)};
      }
      return encode(*given, type);
    }
  }
  return encode(tensor::evaluate<double>(a, op, {}, {}, seed)[0], type);
}

}  // namespace unity::backend::detail

#endif
