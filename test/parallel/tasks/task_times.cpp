#include <unity/parallel/tasks/task_times.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/tensor/algebra.hpp>

#include "../operators.hpp"

namespace tests_of_task_times {

using namespace unity;
using parallel::degree_list;
using parallel::test::dimensions;
using parallel::test::operators;
using parallel::test::type;

TEST_CASE("parts of a divided convolution do equal shares of its work") {
  const auto o = dimensions("conv2d", {{"pads", {1, 1, 1, 1}}}, {type({2, 3, 8, 8}), type({4, 3, 3, 3}, true)});
  for (const auto& part : parallel::shards_of(o, {1, 2, 4, 2})) {
    const auto s = parallel::operation_on(operators(), o, part);
    CHECK(operators().work(s.op, s.inputs, s.outputs).operations.count() * 16 ==
          operators().work(o.op, o.inputs, o.outputs).operations.count());
    CHECK(s.outputs[0].dims == tensor::shape{2, 2, 2, 4});
  }
}

TEST_CASE("operation_on builds parts of grouped convolutions and reshapes and attention") {
  const auto x = type({4, 6, 12});
  const auto w = type({12, 12}, true);
  const std::vector<parallel::operator_dimensions> all{
      dimensions("conv2d", {{"groups", 2}}, {type({8, 6, 4, 4}), type({12, 3, 1, 1}, true)}),
      dimensions("conv2d", {{"padding", "same"}, {"stride", {2, 2}}}, {type({8, 6, 8, 8}), type({12, 6, 3, 3}, true)}),
      dimensions("reshape", {{"dims", {8, 24}}}, {type({8, 4, 6})}),
      dimensions("split", {{"axis", 1}, {"sizes", {2, 4}}}, {type({8, 6})}),
      dimensions("slice", {{"axes", {0}}, {"starts", {0}}, {"ends", {8}}, {"steps", {1}}}, {type({8, 6})}),
      dimensions("slice", {{"axes", {0, 1}}, {"starts", {0, 2}}, {"ends", {8, 5}}, {"steps", {1, 1}}}, {type({8, 6})}),
      dimensions("pad", {{"pads", {0, 1, 0, 2}}}, {type({8, 6})}),
      dimensions("attention", {{"heads", 3}}, {x, x, x, w, w, w, w})};
  for (const auto& o : all) {
    for (std::size_t k = 0; k < o.divisible.size(); ++k) {
      degree_list degrees(o.divisible.size(), 1);
      degrees[k] = 2;
      const auto parts = parallel::shards_of(o, degrees);
      INFO(operators().signature(o.op.kind).name << " dimension " << k);
      CHECK(parallel::operation_on(operators(), o, parts[1]).outputs[0].dims == parts[1].results[0].sizes());
    }
  }
}

TEST_CASE("a part of the heads of attention does its share of the work") {
  const auto x = type({4, 6, 12});
  const auto w = type({12, 12}, true);
  const auto o = dimensions("attention", {{"heads", 4}}, {x, x, x, w, w, w, w});
  int divided = 0;
  for (std::size_t k = 0; k < o.reductions.size(); ++k) {
    degree_list sums(o.reductions.size(), 1);
    sums[k] = 2;
    const parallel::task_grid grid{degree_list(o.divisible.size(), 1), sums, {}, 1};
    const auto part = parallel::shards_of(o, grid)[0];
    if (part.operands[3].sizes() == w.dims) {
      continue;
    }
    const auto s = parallel::operation_on(operators(), o, part);
    CHECK(operators().read(s.op).integer("heads") == 2);
    CHECK(operators().work(s.op, s.inputs, s.outputs).operations.count() * 2 ==
          operators().work(o.op, o.inputs, o.outputs).operations.count());
    ++divided;
  }
  CHECK(divided > 0);
}

TEST_CASE("an undivided task takes the operator's time and the backward time of wanted gradients") {
  const auto m = hardware::preset("p100:1x1");
  const auto durations = parallel::analytic_durations(operators(), m);
  parallel::task_times times{operators(), durations};
  const auto o = dimensions("matmul", {}, {type({256, 512}), type({512, 1024}, true)});
  const auto part = parallel::shards_of(o, {1, 1})[0];
  const auto both = times.of(0, o, {1, 1}, part, {true, true}, 0);
  const auto weight_only = times.of(0, o, {1, 1}, part, {false, true}, 0);
  CHECK(both.forward == durations.duration_of(0, o.op, o.inputs, o.outputs).expected);
  CHECK(weight_only.backward > picoseconds{0});
  CHECK(both.backward > weight_only.backward);
  CHECK(times.of(0, o, {1, 1}, part, {false, false}, 0).backward == picoseconds{0});
  const auto flat = dimensions("reshape", {{"dims", {16}}}, {type({4, 4})});
  CHECK(times.of(1, flat, {1}, parallel::shards_of(flat, {1})[0], {false}, 0).forward == picoseconds{1});
}

struct counted_durations {
  int* asked;
  [[nodiscard]] duration duration_of(std::uint32_t, const tensor::operation&, std::span<const tensor::tensor_type>,
                                     std::span<const tensor::tensor_type>) const {
    ++*asked;
    return duration::exactly(picoseconds{1000});
  }
  [[nodiscard]] static fingerprint version() { return {}; }
};

TEST_CASE("task_times asks for a duration once per distinct part") {
  int asked = 0;
  parallel::task_times times{operators(), counted_durations{&asked}};
  const auto o = dimensions("relu", {}, {type({8, 4})});
  const auto parts = parallel::shards_of(o, {4, 1});
  for (const auto& part : parts) {
    CHECK(times.of(0, o, {4, 1}, part, {false}, 0).forward == picoseconds{1000});
  }
  CHECK(asked == 1);
  CHECK(times.of(0, o, {4, 1}, parts[0], {false}, 1).forward == picoseconds{1000});
  CHECK(asked == 2);
}

TEST_CASE("a task longer than a simulation can hold is an error that names the operator") {
  auto m = hardware::preset("p100:1x1");
  for (auto& p : m.devices[0].peaks) {
    p.flops_per_second = 1e5;
  }
  parallel::task_times times{operators(), parallel::analytic_durations(operators(), m)};
  const auto o = dimensions("matmul", {}, {type({2560, 5120}), type({5120, 10240}, true)});
  const auto part = parallel::shards_of(o, {1, 1})[0];
  std::string what;
  try {
    static_cast<void>(times.of(0, o, {1, 1}, part, {false, false}, 0));
  } catch (const error& e) {
    what = e.what();
  }
  CHECK(what.find("operator matmul: it would take ") == 0);
  CHECK(what.find("at most 100 s") != std::string::npos);
  const auto slow = hardware::preset("t4:2x1");
  parallel::network n{slow};
  CHECK_THROWS_AS(n.hops(hardware::device_id{0U}, hardware::device_id{1U}, bytes{10'000'000'000'000'000}), error);
}

}  // namespace tests_of_task_times
