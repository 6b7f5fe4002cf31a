// Sequences of oneDNN primitives as one kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

using dnnl_desc = dnnl::memory::desc;
using dnnl_dims = dnnl::memory::dims;

// State that all primitives of a backend share.
struct onednn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// The location of an argument of a primitive: operand or result number `at`, or byte `at` of the workspace.
struct place {
  enum class region : std::uint8_t { input, output, work, scratch };

  region where = region::input;
  std::size_t at = 0;

  [[nodiscard]] static place input(std::size_t i) { return {region::input, i}; }
  [[nodiscard]] static place output(std::size_t i) { return {region::output, i}; }
};

struct argument {
  int name = 0;  // DNNL_ARG_...
  dnnl_desc desc{};
  place at{};
};

// Primitives use scratch memory of the caller (user_scratch below), so that a run allocates none.
class onednn_routine final : public routine {
 public:
  explicit onednn_routine(const onednn& library) : library_{library} {}

  void add(dnnl::primitive p, const dnnl_desc& scratch, std::vector<argument> arguments);

  // Reserves bytes of workspace that keep their contents between primitives.
  [[nodiscard]] place reserve(std::size_t bytes);

  void add_reorder(const dnnl_desc& from, place source, const dnnl_desc& to, place target) {
    const auto pd = reorder(from, to);
    add(dnnl::reorder{pd}, pd.scratchpad_desc(), {{DNNL_ARG_FROM, from, source}, {DNNL_ARG_TO, to, target}});
  }

  // Makes operand i available in the format `to`: packed beforehand if it is constant, reordered in every run
  // otherwise. Returns its location in that format.
  [[nodiscard]] place take(std::size_t i, const dnnl_desc& from, const dnnl_desc& to, bool constant);

  [[nodiscard]] std::size_t workspace() const override { return reserved_ + backend::detail::aligned_size(scratch_); }

  void run(const call& c) const override;

  [[nodiscard]] std::size_t packed_size(std::size_t i) const override {
    const auto p = packings_.find(i);
    return p == packings_.end() ? 0 : p->second.to.get_size();
  }
  void pack(std::size_t i, const std::byte* from, std::byte* to) const override;

  [[nodiscard]] static dnnl::primitive_attr user_scratch();

 private:
  struct binding {
    dnnl::memory memory;
    place at;
  };
  struct step {
    dnnl::primitive primitive;
    std::vector<binding> bindings;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  struct packing {
    dnnl_desc from;
    dnnl_desc to;
    dnnl::reorder reorder;
  };

  [[nodiscard]] dnnl::reorder::primitive_desc reorder(const dnnl_desc& from, const dnnl_desc& to) const {
    return {library_.engine, from, library_.engine, to, user_scratch()};
  }

  [[nodiscard]] void* address(const call& c, place p) const;

  // Setting an address clears the padding of blocked formats, so it is skipped if the address is already set.
  static void bind(const binding& b, void* address);

  onednn library_;
  std::vector<step> steps_;
  std::map<std::size_t, packing> packings_;
  std::size_t reserved_ = 0;
  std::size_t scratch_ = 0;
};

[[nodiscard]] inline dnnl_dims dnnl_dims_of(std::span<const std::int64_t> dims) { return {dims.begin(), dims.end()}; }

[[nodiscard]] inline dnnl_desc strided_desc(const dnnl_dims& dims, const dnnl_dims& strides) {
  return {dims, dnnl::memory::data_type::f32, strides};
}
[[nodiscard]] inline dnnl_desc plain_desc(std::span<const std::int64_t> dims) {
  const auto strides = tensor::strides_of(dims);
  return strided_desc(dnnl_dims_of(dims), dnnl_dims_of(strides));
}
[[nodiscard]] inline dnnl_desc plain_desc(std::initializer_list<std::int64_t> dims) {
  return plain_desc(std::span{dims.begin(), dims.size()});
}
// The format that a primitive prefers.
[[nodiscard]] inline dnnl_desc any_desc(const dnnl_dims& dims) {
  return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

// Precondition: f is not none.
[[nodiscard]] dnnl::algorithm eltwise_of(tensor::operators::activation f);

// Attributes with a function that is applied to the results.
[[nodiscard]] dnnl::primitive_attr ending_with(tensor::operators::activation f);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_ONEDNN)

#include <algorithm>
#include <string>
#include <string_view>

namespace unity::backend::cpu {

UNITY_INLINE void onednn_routine::add(dnnl::primitive p, const dnnl_desc& scratch, std::vector<argument> arguments) {
  if (scratch.get_size() > 0) {
    arguments.push_back({DNNL_ARG_SCRATCHPAD, scratch, {place::region::scratch, 0}});
    scratch_ = std::max(scratch_, scratch.get_size());
  }
  step s{std::move(p), {}, {}};
  for (const auto& a : arguments) {
    s.bindings.push_back({dnnl::memory{a.desc, library_.engine, nullptr}, a.at});
    s.arguments.push_back({a.name, s.bindings.back().memory.get()});
  }
  steps_.push_back(std::move(s));
}

UNITY_INLINE place onednn_routine::reserve(std::size_t bytes) {
  const place p{place::region::work, reserved_};
  reserved_ += backend::detail::aligned_size(bytes);
  return p;
}

UNITY_INLINE place onednn_routine::take(std::size_t i, const dnnl_desc& from, const dnnl_desc& to, bool constant) {
  if (from == to) {
    return place::input(i);
  }
  if (constant) {
    packings_.emplace(i, packing{from, to, dnnl::reorder{reorder(from, to)}});
    return place::input(i);
  }
  const auto at = reserve(to.get_size());
  add_reorder(from, place::input(i), to, at);
  return at;
}

UNITY_INLINE void onednn_routine::run(const call& c) const {
  for (const auto& s : steps_) {
    for (const auto& b : s.bindings) {
      bind(b, address(c, b.at));
    }
    dnnl::error::wrap_c_api(dnnl_primitive_execute(s.primitive.get(), library_.stream.get(),
                                                   static_cast<int>(s.arguments.size()), s.arguments.data()),
                            "could not execute a primitive");
  }
  dnnl::error::wrap_c_api(dnnl_stream_wait(library_.stream.get()), "could not wait for a stream");
}

UNITY_INLINE void onednn_routine::pack(std::size_t i, const std::byte* from, std::byte* to) const {
  const auto& p = packings_.at(i);
  dnnl::memory source{p.from, library_.engine, const_cast<std::byte*>(from)};
  dnnl::memory target{p.to, library_.engine, to};
  auto stream = library_.stream;
  p.reorder.execute(stream, source, target);
  stream.wait();
}

UNITY_INLINE dnnl::primitive_attr onednn_routine::user_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

UNITY_INLINE void* onednn_routine::address(const call& c, place p) const {
  switch (p.where) {
    case place::region::input: return const_cast<std::byte*>(c.inputs[p.at]);
    case place::region::output: return c.outputs[p.at];
    case place::region::work: return c.work + p.at;
    case place::region::scratch: break;
  }
  return c.work + reserved_;
}

UNITY_INLINE void onednn_routine::bind(const binding& b, void* address) {
  if (b.memory.get_data_handle() != address) {
    b.memory.set_data_handle(address);
  }
}

UNITY_INLINE dnnl::algorithm eltwise_of(tensor::operators::activation f) {
  using tensor::operators::activation;
  switch (f) {
    case activation::sigmoid: return dnnl::algorithm::eltwise_logistic;
    case activation::tanh: return dnnl::algorithm::eltwise_tanh;
    case activation::gelu: return dnnl::algorithm::eltwise_gelu_erf;
    case activation::relu:
    case activation::none: break;
  }
  return dnnl::algorithm::eltwise_relu;
}

UNITY_INLINE dnnl::primitive_attr ending_with(tensor::operators::activation f) {
  auto attributes = onednn_routine::user_scratch();
  if (f != tensor::operators::activation::none) {
    dnnl::post_ops ops;
    ops.append_eltwise(1, eltwise_of(f), 0, 0);
    attributes.set_post_ops(ops);
  }
  return attributes;
}

}  // namespace unity::backend::cpu

#endif
