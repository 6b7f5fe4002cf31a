// Checks that a run allocates nothing of unity's own on the heap. oneDNN allocates a little for each primitive
// execution and each memory argument; that is counted separately.
//
// Replaces and counts every operator new of the program that this file is linked into.
#include <unity/backend/cpu.hpp>
#include <unity/backend/cpu/reduction.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>
#include <vector>

#include <dnnl.hpp>

#include <unity/backend/executor.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/shrink.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/tensor/zoo.hpp>

#include "../tensor/testing.hpp"

namespace {

std::atomic<std::size_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) noexcept {
  ++allocations;
  const auto whole = (size + alignment - 1) / alignment * alignment;
  return whole < size ? nullptr : std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
}
void* counted_or_throw(std::size_t size, std::size_t alignment) {
  if (auto* p = counted(size, alignment)) {
    return p;
  }
  throw std::bad_alloc{};
}
// Not inlined: compilers would warn that memory from operator new is passed to free.
[[gnu::noinline]] void release(void* p) noexcept { std::free(p); }
constexpr std::size_t plain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t n) { return counted_or_throw(n, plain); }
void* operator new[](std::size_t n) { return counted_or_throw(n, plain); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return counted(n, plain); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return counted(n, plain); }
void* operator new(std::size_t n, std::align_val_t a) { return counted_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return counted_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }

namespace {

using namespace unity::backend;
using unity::tensor::tensor_graph;
using unity::tensor::test::standard;

template <class F>
std::size_t allocations_of(const F& f) {
  const auto before = allocations.load();
  f();
  return allocations.load() - before;
}

// Allocations of any run after the first.
template <class Backend>
std::size_t allocations_of_run(executor<Backend>& e) {
  e.run();
  e.wait();
  return allocations_of([&] {
    e.run();
    e.wait();
  });
}

// Operators with kernels of unity's own loops.
tensor_graph own_kernels() {
  unity::tensor::builder b{standard()};
  const auto x = b.input("x", {9, 40, 70});
  const auto turned = b.transpose(x, {2, 0, 1});
  const auto parts = b.split(b.tanh(b.add(x, b.input("row", {70}))), 1, {15, 25});
  const auto joined = b.concat(1, std::array{parts[1], parts[0]});
  const auto rows = b.embedding(b.input("table", {30, 70}), b.input("ids", {11}, unity::tensor::dtype::int64));
  const auto bags =
      b.embedding_bag(b.input("bag_table", {30, 70}), b.input("bags", {11, 3}, unity::tensor::dtype::int64));
  const auto narrow =
      b.apply("cast", {b.apply("cast", {joined}, {{"element", "bfloat16"}})[0]}, {{"element", "float64"}})[0];
  const auto c = b.input("c", {40});
  const auto normal = b.apply("batch_norm", {x, c, c, c, b.apply("exp", {c})[0]})[0];
  const auto padded = b.apply("pad", {x}, {{"pads", {0, 1, 2, 3, 0, 4}}, {"value", 1.5}})[0];
  // Eight dimensions, none of which can be merged.
  const auto deep = b.input("deep", {2, 3, 2, 3, 2, 3, 2, 3});
  const auto spread = b.mul(deep, b.input("spread", {2, 1, 2, 1, 2, 1, 2, 1}));
  return std::move(b).finish({turned, joined, rows, bags, narrow, normal, padded, b.tanh(spread),
                              b.apply("reduce_sum", {x}, {{"axes", {1}}})[0],
                              b.apply("reduce_max", {b.input("many", {300000})}, {{"axes", {0}}})[0]});
}

}  // namespace

TEST_CASE("the counting operator new sees heap allocations", "[cpu]") {
  CHECK(allocations_of([] { std::vector<int>(100).at(3) = 1; }) == 1);
  CHECK(allocations_of([] { static_cast<void>(host_memory{100}); }) == 1);
}

TEST_CASE("cpu kernels without oneDNN make no heap allocations in a run", "[cpu]") {
  for (const int threads : {1, 3}) {
    cpu_backend b{standard(), {.threads = threads}};
    for (const bool fuse : {false, true}) {
      executor e{b, standard(), own_kernels(), {.fuse = fuse}};
      CHECK(allocations_of_run(e) == 0);
    }
  }
}

TEST_CASE("a cpu matmul makes as many heap allocations as a direct oneDNN call", "[cpu]") {
  const unity::tensor::tensor_type t{.dims = {48, 48}};
  const std::vector<unity::tensor::tensor_type> in{t, t};
  const std::vector<unity::tensor::tensor_type> out{t};
  cpu_backend b{standard(), {.threads = 1}};
  const auto kernel = b.prepare(standard().make_operation("matmul"), in, out);
  std::vector<host_memory> memories;
  for (int i = 0; i < 3; ++i) {
    memories.emplace_back(byte_count(t));
  }
  host_memory work{kernel.workspace()};
  const std::array<const std::byte*, 2> operands{memories[0].data(), memories[1].data()};
  const std::array<std::byte*, 1> results{memories[2].data()};
  const auto run = [&] { b.run(kernel, operands, results, work.data()); };

  const dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  const auto desc = cpu::plain_desc({48, 48});
  const dnnl::matmul::primitive_desc pd{{desc, desc, desc}, cpu::onednn_routine::user_scratch(), engine};
  const dnnl::matmul product{pd};
  host_memory scratch{pd.scratchpad_desc().get_size()};
  std::vector<dnnl::memory> held;
  std::vector<dnnl_exec_arg_t> arguments;
  const auto add = [&](int name, const dnnl::memory::desc& d, void* at) {
    held.emplace_back(d, engine, at);
    arguments.push_back({name, held.back().get()});
  };
  add(DNNL_ARG_SRC, desc, memories[0].data());
  add(DNNL_ARG_WEIGHTS, desc, memories[1].data());
  add(DNNL_ARG_DST, desc, memories[2].data());
  if (pd.scratchpad_desc().get_size() > 0) {
    add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), scratch.data());
  }
  const auto directly = [&] {
    dnnl_primitive_execute(product.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
    dnnl_stream_wait(stream.get());
  };
  run();
  directly();
  CHECK(allocations_of(run) == allocations_of(directly));
}

TEST_CASE("a model run on the cpu makes at most 12 heap allocations per launch", "[cpu]") {
  cpu_backend b{standard(), {.threads = 2}};
  for (const char* text : {"zoo:resnext50", "zoo:nasrnn?hidden=64&seq=3", "zoo:bert?layers=2&seq=8"}) {
    CAPTURE(text);
    const auto full = unity::tensor::zoo::build(standard(), text);
    const auto small = unity::tensor::shrink(standard(), full, full, {.least = 4}).first;
    executor e{b, standard(), small, {.data = unity::tensor::balanced_values(standard(), small)}};
    const auto count = allocations_of_run(e);
    CAPTURE(e.counts().launches);
    CHECK(count <= 12 * e.counts().launches);
  }
}
