// Runs a tensor graph on one device.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/detail/constant_loader.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/kernel_store.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/source_values.hpp>

namespace unity::backend {

struct executor_options {
  tensor::source_data data{};  // values of inputs, weights and constants, by name
  std::uint64_t seed = 0;  // of arbitrary values for all others (tensor/evaluate.hpp): equal names get equal values
  bool fuse = true;        // run chains of element-wise operators as one kernel, if the backend can
  bool record = true;      // run() replays a recording, if the backend can
};

struct executor_counts {
  std::size_t launches = 0;     // kernels that one run starts
  std::size_t kernels = 0;      // distinct kernels among them
  std::size_t chains = 0;       // kernels of several element-wise operators
  std::size_t aliases = 0;      // nodes that do not run because their result aliases their operand
  std::size_t precomputed = 0;  // nodes that depend only on constants
  std::size_t packed = 0;       // operands that the backend keeps packed
  bytes arena{};                // inputs, results and workspaces
  bytes unshared{};             // their size without sharing
  bytes constants{};
};

// A graph that is ready to run.
//
//   executor run{backend, operators, graph};
//   run.set("x", pixels);
//   run.run();
//   const auto probabilities = run.output(0);
//
// The constructor computes values that depend only on constants, packs constant operands if the backend keeps packed
// forms of them, and plans one arena for everything else. Results that alias an operand (reshape, dropout) are not
// computed. Inputs keep their values from run to run.
// A run allocates nothing. The backend must outlive the executor; so must the algebra if the backend's kernels need it.
// Complexity: the constructor prepares each distinct kernel once, computes and packs constants, and plans the arena in
// time at most quadratic in the number of values; a run only launches kernels.
template <device_backend Backend>
class executor {
 public:
  // Throws: unity::error, one line, if the backend has no kernel for a node (names node and operator), if there is not
  // enough memory (says how many bytes were wanted), or if data do not match the sizes of their source.
  executor(Backend& backend, const tensor::algebra& a, const tensor::tensor_graph& g,
           const executor_options& options = {})
      : backend_{&backend}, kernels_{a} {
    const detail::run_list list{a, g, fusing_backend<Backend> && options.fuse, true};
    place_values(g, list);
    constants_.allocate(backend, "memory for constants");
    detail::constant_loader<Backend>{backend, a, g, list, constants_, kept_}.run(options.data, options.seed, kernels_,
                                                                                 packed_);
    arena_.allocate(backend, "memory for inputs and results");
    bind_launches();
    bind_ends(a, g, list);
    for (const auto n : list.inputs()) {
      backend.write(arena_.at(places_[g.results(n)[0].index()]),
                    detail::source_bytes(a, g, n, options.data, options.seed));
    }
    count(list);
    if constexpr (recording_backend<Backend>) {
      if (options.record) {
        begin();  // what a library initializes on first use must not be recorded
        backend.wait();
        recording_.emplace(backend.record([this] { begin(); }));
      }
    }
  }

  // Sets the value of an input for all following runs.
  // Throws: unity::error if the graph has no input of this name, or one of another size.
  void set(std::string_view input, const tensor::dense<float>& value) {
    for (const auto* i : find_inputs(input)) {
      if (value.dims != i->type.dims ||
          value.data.size() != static_cast<std::size_t>(tensor::element_count(value.dims))) {
        throw error{fmt::format("input {}", i->name), "a value of another size", tensor::to_string(i->type)};
      }
      store(*i, encode(value, i->type));
    }
  }
  // Sets the input's bytes, in the element type and layout of its type.
  void set(std::string_view input, std::span<const std::byte> value) {
    for (const auto* i : find_inputs(input)) {
      if (value.size() != byte_count(i->type)) {
        throw error{fmt::format("input {}", i->name), fmt::format("{} bytes", value.size()),
                    tensor::to_string(i->type)};
      }
      store(*i, value);
    }
  }

  // Starts a run.
  void run() {
    if constexpr (recording_backend<Backend>) {
      if (recording_) {
        backend_->replay(*recording_);
        return;
      }
    }
    begin();
  }
  // Waits until everything that was started has ended.
  // Throws: unity::error if a run failed.
  void wait() { backend_->wait(); }

  [[nodiscard]] std::size_t output_count() const noexcept { return outputs_.size(); }
  [[nodiscard]] std::vector<tensor::tensor_type> output_types() const {
    std::vector<tensor::tensor_type> types;
    for (const auto& o : outputs_) {
      types.push_back(o.type);
    }
    return types;
  }
  [[nodiscard]] const tensor::tensor_type& output_type(std::size_t i) const { return outputs_[checked(i)].type; }
  // The result of the last run, after wait(), which also reports failures. An output that aliases an input changes when
  // the input is set.
  template <std::floating_point Real = float>
  [[nodiscard]] tensor::dense<Real> output(std::size_t i) const {
    return decode<Real>(output_bytes(i).data(), output_type(i));
  }
  [[nodiscard]] std::vector<std::byte> output_bytes(std::size_t i) const {
    std::vector<std::byte> stored(byte_count(output_type(i)));
    backend_->read(stored, outputs_[i].from);
    return stored;
  }

  [[nodiscard]] const executor_counts& counts() const noexcept { return counts_; }

 private:
  struct place {
    bool constant = false;
    std::size_t number = 0;
    std::size_t offset = 0;  // bytes: a value may be part of another
  };
  struct launch {
    std::size_t kernel = 0;
    std::vector<place> operands{};
    std::vector<std::size_t> results{};
    std::size_t workspace = 0;
    std::vector<const std::byte*> in{};
    std::vector<std::byte*> out{};
    std::byte* work = nullptr;
  };
  struct input_end {
    std::string name;
    tensor::tensor_type type;
    std::byte* to = nullptr;  // null: no output needs it
  };
  struct output_end {
    tensor::tensor_type type;
    const std::byte* from = nullptr;
  };
  // An empty std::optional<recording> if the backend can record.
  static auto no_recording() {
    if constexpr (recording_backend<Backend>) {
      return std::optional<typename Backend::recording>{};
    } else {
      return std::monostate{};
    }
  }

  // Prepares every kernel, and determines the lifetimes of values.
  void place_values(const tensor::tensor_graph& g, const detail::run_list& list) {
    places_.assign(g.value_count(), detail::no_place);
    kept_.assign(g.value_count(), detail::no_place);
    for (const auto n : list.inputs()) {
      const auto v = g.results(n)[0];
      places_[v.index()] = arena_.add(byte_count(g.type(v)), 0);
      arena_.extend(places_[v.index()], list.running().size());
    }
    for (const auto& item : list.running()) {
      const auto step = launches_.size();
      launch l;
      l.kernel = kernels_.prepare(*backend_, g, item, true);
      for (std::size_t i = 0; i < item.operands.size(); ++i) {
        l.operands.push_back(place_operand(g, list, l.kernel, i, item.operands[i], step));
      }
      for (const auto v : item.results) {
        places_[v.index()] = arena_.add(byte_count(g.type(v)), step);
        l.results.push_back(places_[v.index()]);
      }
      l.workspace = arena_.add(kernels_[l.kernel].workspace(), step);
      launches_.push_back(std::move(l));
    }
    for (const auto v : g.outputs()) {
      static_cast<void>(place_value(g, list, v, list.running().size()));
    }
  }
  [[nodiscard]] place place_operand(const tensor::tensor_graph& g, const detail::run_list& list, std::size_t kernel,
                                    std::size_t operand, value_id v, std::size_t step) {
    if constexpr (packing_backend<Backend>) {
      const auto root = list.root(v);
      const auto size = g.type(v).constant ? static_cast<std::size_t>(kernels_[kernel].packed_size(operand)) : 0;
      if (size > 0) {
        const auto [found, is_new] = packed_places_.try_emplace(std::tuple{kernel, operand, root}, detail::no_place);
        if (is_new) {
          found->second = constants_.add(size, 0);
          packed_.push_back({kernel, operand, root, found->second});
        }
        return {true, found->second};
      }
    }
    return place_value(g, list, v, step);
  }
  // The place of a value that a step reads.
  place place_value(const tensor::tensor_graph& g, const detail::run_list& list, value_id v, std::size_t step) {
    const auto root = list.root(v);
    if (!g.type(root).constant) {
      arena_.extend(places_[root.index()], step);
      return {false, places_[root.index()], list.offset(v)};
    }
    if (kept_[root.index()] == detail::no_place) {
      kept_[root.index()] = constants_.add(byte_count(g.type(root)), 0);
    }
    return {true, kept_[root.index()], list.offset(v)};
  }

  void bind_launches() {
    for (auto& l : launches_) {
      for (const auto& o : l.operands) {
        l.in.push_back((o.constant ? constants_.at(o.number) : arena_.at(o.number)) + o.offset);
      }
      for (const auto r : l.results) {
        l.out.push_back(arena_.at(r));
      }
      l.work = arena_.at(l.workspace);
    }
  }
  void bind_ends(const tensor::algebra& a, const tensor::tensor_graph& g, const detail::run_list& list) {
    for (const auto n : node_ids(g)) {
      const auto& op = g.operation(n);
      if (a.definition_of(op.kind).source == tensor::source_kind::input) {
        const auto v = g.results(n)[0];
        const auto at = places_[v.index()];
        inputs_.push_back({a.read(op).word("name"), g.type(v), at == detail::no_place ? nullptr : arena_.at(at)});
      }
    }
    for (const auto v : g.outputs()) {
      const auto root = list.root(v).index();
      auto* from = kept_[root] != detail::no_place ? constants_.at(kept_[root]) : arena_.at(places_[root]);
      outputs_.push_back({g.type(v), from + list.offset(v)});
    }
  }
  void count(const detail::run_list& list) {
    const auto in_bytes = [](std::size_t n) { return bytes{static_cast<std::int64_t>(n)}; };
    counts_ = {launches_.size(),
               kernels_.size(),
               list.chain_count(),
               list.alias_count(),
               static_cast<std::size_t>(std::count_if(list.constants().begin(), list.constants().end(),
                                                      [](const auto& item) { return !item.operands.empty(); })),
               packed_.size(),
               in_bytes(arena_.size()),
               in_bytes(arena_.sum()),
               in_bytes(constants_.size())};
  }

  void begin() {
    for (const auto& l : launches_) {
      backend_->run(kernels_[l.kernel], std::span{l.in}, std::span{l.out}, l.work);
    }
  }
  void store(const input_end& input, std::span<const std::byte> value) {
    if (input.to != nullptr) {
      backend_->write(input.to, value);
    }
  }
  [[nodiscard]] std::vector<const input_end*> find_inputs(std::string_view name) const {
    std::vector<const input_end*> found;
    std::string names;
    for (const auto& i : inputs_) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", i.name);
      if (i.name == name) {
        found.push_back(&i);
      }
    }
    if (found.empty()) {
      throw error{fmt::format("input {}", name), "no such input",
                  inputs_.empty() ? "none" : fmt::format("one of {}", names)};
    }
    return found;
  }
  [[nodiscard]] std::size_t checked(std::size_t i) const {
    UNITY_EXPECTS(i < outputs_.size(), "the number of an output");
    return i;
  }

  Backend* backend_;
  kernel_store<Backend> kernels_;
  memory_pool<Backend> constants_;
  memory_pool<Backend> arena_;
  std::vector<std::size_t> places_;  // per value: its place in the arena
  std::vector<std::size_t> kept_;    // per value: its place among the constants
  std::vector<detail::packed_operand> packed_;
  std::map<std::tuple<std::size_t, std::size_t, value_id>, std::size_t> packed_places_;
  std::vector<launch> launches_;
  std::vector<input_end> inputs_;
  std::vector<output_end> outputs_;
  executor_counts counts_;
  decltype(no_recording()) recording_ = no_recording();
};

// Throws: unity::error if two graphs cannot be compared output by output.
void expect_same_outputs(std::span<const tensor::tensor_type> first, std::span<const tensor::tensor_type> second);

// Runs both graphs one after the other on equal values for sources of one name. Returns the largest difference of an
// output element, relative to the largest magnitude of the first graph's output; infinite if one of two is NaN.
// Throws: as executor; unity::error if the outputs have other sizes.
template <device_backend Backend>
[[nodiscard]] double max_relative_error(Backend& backend, const tensor::algebra& a, const tensor::tensor_graph& first,
                                        const tensor::tensor_graph& second, const executor_options& options = {}) {
  expect_same_outputs(types_of(first, first.outputs()), types_of(second, second.outputs()));
  const auto outputs = [&](const tensor::tensor_graph& g) {
    executor<Backend> e{backend, a, g, options};
    e.run();
    e.wait();
    std::vector<tensor::dense<double>> all;
    for (std::size_t i = 0; i < e.output_count(); ++i) {
      all.push_back(e.template output<double>(i));
    }
    return all;
  };
  const auto expected = outputs(first);
  const auto found = outputs(second);
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, relative_error(found[i], expected[i]));
  }
  return error;
}

// Prepares every kernel that an executor of the graph would launch, and keeps none: finds out early whether all can
// run.
// Throws: unity::error as the executor if the backend has no kernel for a node.
template <device_backend Backend>
void expect_kernels(Backend& backend, const tensor::algebra& a, const tensor::tensor_graph& g) {
  const detail::run_list list{a, g, fusing_backend<Backend>, true};
  kernel_store<Backend> kernels{a};
  for (const auto& item : list.running()) {
    static_cast<void>(kernels.prepare(backend, g, item, true));
  }
}

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_EXECUTOR)

namespace unity::backend {

UNITY_INLINE void expect_same_outputs(std::span<const tensor::tensor_type> first,
                                      std::span<const tensor::tensor_type> second) {
  if (first.size() != second.size()) {
    throw error{"second graph", fmt::format("{} outputs", second.size()),
                fmt::format("{} as in the first", first.size())};
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i].dims != second[i].dims) {
      throw error{fmt::format("output {} of the second graph", i), tensor::to_string(second[i]),
                  fmt::format("{} as in the first", tensor::to_string(first[i]))};
    }
  }
}

}  // namespace unity::backend

#endif
