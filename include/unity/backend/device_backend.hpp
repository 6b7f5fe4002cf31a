// Concepts of devices that run operators, as executors and timers need them.
//
// A backend is thin: it turns an operator on operands of given types into a kernel, and runs kernels on its own memory.
// What runs, in which order, and where results are stored is decided elsewhere (backend/executor.hpp).
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

// Errors that all backends report with the same messages.

// Such as "cpu kernel of add: operands float32[2,3]; expected 2 operand(s)".
[[nodiscard]] error no_kernel(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                              std::span<const tensor::tensor_type> inputs, std::string_view expected);

// Throws: unity::error if the operator does not accept the inputs, has results of other types, or has no known meaning.
void check_operator(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                    std::span<const tensor::tensor_type> inputs, std::span<const tensor::tensor_type> outputs);

}  // namespace unity::backend::detail

namespace unity::backend {

// Identifies the device and its libraries. A measurement is valid for one description only.
struct device_description {
  std::string backend{};  // "cpu"
  std::string device{};   // its model and how much of it is used: "AMD EPYC 9B14, 2 threads"
  std::vector<std::pair<std::string, std::string>>
      versions{};  // versions of the libraries that provide kernels, and of the driver

  friend bool operator==(const device_description&, const device_description&) = default;
};

// Alignment of every tensor. Unit: bytes.
inline constexpr std::size_t memory_alignment = 64;

// A device that runs operators.
//   memory   owns bytes of the device: m.data(), m.size()
//   kernel   an operator on operands of given types. Holds no addresses, so one kernel serves many nodes.
//
//   b.description()
//   b.allocate(bytes)                 uninitialized memory
//   b.prepare(op, inputs, outputs)    a kernel; outputs: the types that the algebra infers from the inputs
//   k.workspace()                     bytes that a run needs besides operands and results
//   b.run(k, inputs, outputs, work)   starts the kernel; kernels run in the order in which they are started
//   b.write(to, from), b.read(to, from)   copy host bytes to the device and back, after everything started before
//   b.wait()                          returns when everything that was started has ended
//
// Elements are stored as their type says: its dtype, and strides_of(dims, order). Results never overlap operands.
// Laws: run reads the operands, writes every element of every result, and changes nothing else except the workspace;
// equal input bytes give equal output bytes. run allocates no memory.
// Errors: unity::error from allocate if there is not enough memory, from prepare if the backend has no kernel (names
// operator and types), from wait if a run failed.
// Models: reference, cpu, cuda. Not a model: a device that plans or reorders (the executor does).
template <class B>
concept device_backend =
    std::movable<typename B::memory> && std::movable<typename B::kernel> &&
    requires(B& b, const B& c, typename B::memory& m, const typename B::kernel& k, std::size_t bytes,
             const tensor::operation& op, std::span<const tensor::tensor_type> types,
             std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* to,
             const std::byte* from, std::span<std::byte> host, std::span<const std::byte> host_const) {
      { c.description() } -> std::same_as<device_description>;
      { b.allocate(bytes) } -> std::same_as<typename B::memory>;
      { m.data() } -> std::same_as<std::byte*>;
      { m.size() } -> std::convertible_to<std::size_t>;
      { b.prepare(op, types, types) } -> std::same_as<typename B::kernel>;
      { k.workspace() } -> std::convertible_to<std::size_t>;
      b.run(k, in, out, to);
      b.write(to, host_const);
      b.read(host, from);
      b.wait();
    };

// A backend that may keep operands that never change in a format of its own (blocked weights).
//   k.packed_size(i)          bytes of operand i in packed form; 0: it is not packed
//   b.pack(k, i, from, to)    packs the operand at `from`; started like a run
// A kernel then runs with the packed form of every operand that has one and whose type is constant.
template <class B>
concept packing_backend = device_backend<B> && requires(B& b, const typename B::kernel& k, std::size_t i,
                                                        const std::byte* from, std::byte* to) {
  { k.packed_size(i) } -> std::convertible_to<std::size_t>;
  b.pack(k, i, from, to);
};

// A backend that runs a chain of element-wise operators as one kernel; intermediate results never reach memory.
//   b.prepare_chain(region)   region: a graph of element-wise operators. The kernel's operands are its inputs, in order
//                             ("input" nodes without operands); the kernel's results are its outputs
template <class B>
concept fusing_backend = device_backend<B> && requires(B& b, const tensor::tensor_graph& region) {
  { b.prepare_chain(region) } -> std::same_as<typename B::kernel>;
};

// A backend that runs the operators of a region as one kernel, one slice of rows after another.
//   b.prepare_region(region)   operands: the inputs of the region's graph, in order; results: its outputs. Sums over
//                              rows may differ in the last bits from those of prepare(), but are the same in every run
//                              and for any number of threads
// Errors: unity::error from prepare_region that names an operator that mixes rows, or that has no kernel.
template <class B>
concept region_backend = device_backend<B> && requires(B& b, const fusion::kernel_region& region) {
  { b.prepare_region(region) } -> std::same_as<typename B::kernel>;
};

// A backend that records a sequence of runs once and replays it with one launch.
//   b.record(f)   calls f, which starts runs; they are recorded, not run
//   b.replay(r)   starts all of them
template <class B>
concept recording_backend = device_backend<B> && requires(B& b, void (*f)(), const typename B::recording& r) {
  { b.record(f) } -> std::same_as<typename B::recording>;
  b.replay(r);
};

// A backend with a clock of the device; the host's clock would time launches.
//   b.mark()                the time at which everything started before has ended
//   b.seconds(from, to)     between two marks; waits for the later one
template <class B>
concept clocked_backend = device_backend<B> && requires(B& b, const typename B::moment& t) {
  { b.mark() } -> std::same_as<typename B::moment>;
  { b.seconds(t, t) } -> std::convertible_to<double>;
};

}  // namespace unity::backend

namespace unity::backend::detail {

// The next multiple of memory_alignment. Unit: bytes.
[[nodiscard]] constexpr std::size_t aligned_size(std::size_t bytes) noexcept {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_DEVICE_BACKEND)

#include <variant>

#include <unity/tensor/definition.hpp>

namespace unity::backend::detail {

UNITY_INLINE error no_kernel(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                             std::span<const tensor::tensor_type> inputs, std::string_view expected) {
  std::string where{backend};
  where += " kernel of ";
  where += op.kind.index() < a.kind_count() ? std::string_view{a.signature(op.kind).name} : "an operator of no kind";
  std::string found = inputs.empty() ? "no operands" : "operands";
  for (const auto& t : inputs) {
    found += ' ';
    found += tensor::to_string(t);
  }
  return {where, found, expected};
}

UNITY_INLINE void check_operator(std::string_view backend, const tensor::algebra& a, const tensor::operation& op,
                                 std::span<const tensor::tensor_type> inputs,
                                 std::span<const tensor::tensor_type> outputs) {
  const auto inferred = a.infer(op, inputs);
  if (!inferred) {
    throw no_kernel(backend, a, op, inputs, a.why_not(op, inputs));
  }
  bool agree = inferred->size() == outputs.size();
  for (std::size_t i = 0; agree && i < outputs.size(); ++i) {
    const auto& t = (*inferred)[i];
    agree = t.dims == outputs[i].dims && t.element == outputs[i].element && t.order == outputs[i].order;
  }
  if (!agree) {
    throw no_kernel(backend, a, op, inputs, "results of the types that its operands give");
  }
  const auto& d = a.definition_of(op.kind);
  if (d.source != tensor::source_kind::none || std::holds_alternative<tensor::opaque>(d.body)) {
    throw no_kernel(backend, a, op, inputs, "an operator with a known meaning");
  }
}

}  // namespace unity::backend::detail

#endif
