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

// What every backend refuses to prepare, with the same messages.

// "cpu kernel of add: operands float32[2,3]; expected another number of operands".
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

// memory   owns bytes of the device: m.data(), m.size()
// kernel   an operator on operands of given types. Knows no addresses: one kernel serves many nodes.
//
//   b.description()
//   b.allocate(bytes)                 memory, not initialized
//   b.prepare(op, inputs, outputs)    a kernel; outputs: what the algebra infers of the inputs
//   k.workspace()                     bytes that a run needs besides operands and results
//   b.run(k, inputs, outputs, work)   begins to run; kernels run in the order in which they began
//   b.write(to, from), b.read(to, from)   copies host bytes to the device and back, after all that began before
//   b.wait()                          until all that began has ended
//
// Elements lie as their type says: its dtype, and strides_of(dims, order). Results never overlap operands.
// Laws: run reads the operands, writes every element of every result, and changes nothing else but the workspace; equal
// bytes in give equal bytes out. run allocates no memory.
// Errors: unity::error from allocate where there is not as much memory, from prepare where the backend has no kernel
// (names operator and types), from wait where a run failed.
// Models: reference, cpu, cuda. Not a model: one that plans or reorders (the executor does).
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

// Operands that never change may be kept in a form of the backend's own (blocked weights).
//   k.packed_size(i)          bytes that operand i takes packed; 0: it is taken as it is
//   b.pack(k, i, from, to)    packs what lies at from; begins like a run
// A kernel is then run with the packed form of every operand that has one and whose type is constant.
template <class B>
concept packing_backend = device_backend<B> && requires(B& b, const typename B::kernel& k, std::size_t i,
                                                        const std::byte* from, std::byte* to) {
  { k.packed_size(i) } -> std::convertible_to<std::size_t>;
  b.pack(k, i, from, to);
};

// Element-wise operators one after another as one kernel, whose intermediates never reach memory.
//   b.prepare_chain(region)   region: a graph of element-wise operators that its inputs, in order, feed (nodes of no
//                             operands, "input"), and whose outputs are the kernel's
template <class B>
concept fusing_backend = device_backend<B> && requires(B& b, const tensor::tensor_graph& region) {
  { b.prepare_chain(region) } -> std::same_as<typename B::kernel>;
};

// Operators of a region as one kernel, on one part of its rows after another.
//   b.prepare_region(region)   region: a graph as kernel_region says; operands are its inputs in order, results its
//                              outputs. Sums over rows may differ in last bits from those of prepare(), but are the
//                              same in every run and for any number of threads
// Errors: unity::error from prepare_region that names an operator that depends on other rows, or has no kernel.
template <class B>
concept region_backend = device_backend<B> && requires(B& b, const fusion::kernel_region& region) {
  { b.prepare_region(region) } -> std::same_as<typename B::kernel>;
};

// A sequence of runs that is recorded once and replayed with one launch.
//   b.record(f)   calls f, which begins runs; they are recorded and do not run
//   b.replay(r)   begins all of them
template <class B>
concept recording_backend = device_backend<B> && requires(B& b, void (*f)(), const typename B::recording& r) {
  { b.record(f) } -> std::same_as<typename B::recording>;
  b.replay(r);
};

// A clock of the device; the host's clock would time the launch.
//   b.mark()                the moment when everything that began before has ended
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
    constexpr std::string_view prefix = "expected ";
    const auto refusal = a.why_not(op, inputs);
    const std::string_view reason{refusal};
    throw no_kernel(backend, a, op, inputs,
                    reason.starts_with(prefix) ? reason.substr(prefix.size()) : "operands that it takes");
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
