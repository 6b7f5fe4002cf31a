// The executor, the timer of operators and the prediction of graphs on the cpu backend.
#include <unity/backend/cpu.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <unity/backend/device_timer.hpp>
#include <unity/backend/executor.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/tensor/timing_cache.hpp>
#include <unity/tensor/zoo.hpp>

#include "executor_suite.hpp"

namespace tests_of_executor_cpu {

namespace {

using namespace unity::backend;
using namespace unity::backend::test;
using unity::picoseconds;
using unity::tensor::tensor_graph;

// Fills new memory with NaN, so that reading before writing is noticed.
class poisoned_cpu : public cpu_backend {
 public:
  using cpu_backend::cpu_backend;
  [[nodiscard]] memory allocate(std::size_t bytes) {
    auto m = cpu_backend::allocate(bytes);
    std::fill_n(m.data(), m.size(), std::byte{0xFF});
    return m;
  }
};
static_assert(packing_backend<poisoned_cpu> && fusing_backend<poisoned_cpu>);

// Few runs per measurement, on small buffers.
timing_options quick() {
  timing_options o;
  o.least = o.most = 5;
  o.constant_bytes = o.activation_bytes = std::size_t{1} << 20U;
  return o;
}

unity::measurement time_product(device_timer<cpu_backend>& timer, std::int64_t size) {
  unity::tensor::tensor_type t;
  t.dims = {size, size};
  std::vector<unity::tensor::tensor_type> in{t, t};
  in[1].constant = true;
  const auto op = standard().make_operation("matmul");
  return timer.time(op, in, *standard().infer(op, in));
}

}  // namespace

TEST_CASE("zoo models and their optimized graphs match the double reference on the cpu", "[executor][cpu]") {
  for (const int threads : {1, 3}) {
    poisoned_cpu b{standard(), {.threads = threads}};
    check_models(b);
  }
}

TEST_CASE("graphs with searched layouts give the same outputs on the cpu", "[executor][cpu]") {
  poisoned_cpu b{standard(), {.threads = 2}};
  check_searched_layouts(b);
}

TEST_CASE("optimized full-size models give the outputs of their originals on the cpu", "[executor][cpu]") {
  poisoned_cpu b{standard()};
  for (const char* text : {"zoo:resnext50?batch=1", "zoo:nasrnn?hidden=256&seq=4",
                           "zoo:bert?layers=2&hidden=256&heads=4&seq=48&vocab=1000"}) {
    CAPTURE(text);
    const auto full = unity::tensor::zoo::build(standard(), text);
    const auto best = optimized(full, unity::variants::kept, 40);
    const executor_options options{.data = unity::tensor::balanced_values(standard(), full, 5)};
    CHECK(max_relative_error(b, standard(), full, best, options) < 1e-5);
    const executor e{b, standard(), best, options};
    CHECK(e.counts().packed > 0);
    CHECK(2 * e.counts().arena.count() < e.counts().unshared.count());
  }
}

TEST_CASE("the device timer times matrix products on the cpu", "[executor][cpu]") {
  cpu_backend b{standard(), {.threads = 1}};
  device_timer timer{b, quick()};
  const auto small = time_product(timer, 32);
  const auto large = time_product(timer, 384);
  CHECK(small.median > picoseconds{});
  CHECK(small.repetitions == 5);
  CHECK(large.median.count() > 10 * small.median.count());  // 1728 times the work
  CHECK(timer.description().starts_with("cpu: "));
  CHECK(timer.description().find("oneDNN 2.") != std::string::npos);
}

TEST_CASE("a graph's predicted time on the cpu measures each launch once", "[executor][cpu]") {
  unity::tensor::builder builder{standard()};
  const auto product = builder.matmul(builder.input("x", {64, 96}), builder.weight("w", {96, 80}));
  const auto y = builder.tanh(builder.add(product, builder.input("y", {80})));
  const auto g = std::move(builder).finish({builder.reshape(y, {80, 64})});
  cpu_backend b{standard(), {.threads = 1}};
  device_timer timer{b, quick()};
  unity::tensor::timing_cache cache{standard(), timer};
  const auto predicted = predicted_time(standard(), g, timer, cache);
  CHECK(cache.measured() == 2);
  const executor e{b, standard(), g};
  CHECK(e.counts().launches == 2);
  CHECK(e.counts().chains == 1);
  const detail::run_list list{standard(), g, true};
  const auto node = list.running()[0].node;
  const auto of_product = cache.time(g.operation(node), types_of(g, g.operands(node)), types_of(g, g.results(node)));
  CHECK(of_product.median > picoseconds{});
  CHECK(predicted > of_product.median);
  CHECK(predicted_time(standard(), g, timer, cache) == predicted);
  CHECK(cache.measured() == 2);
}

}  // namespace tests_of_executor_cpu
