#include <unity/backend/device_timer.hpp>

#include <catch2/catch.hpp>

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/builder.hpp>

#include "toy_host.hpp"

namespace tests_of_predicted_time {

namespace {

using namespace unity;
using namespace unity::backend;
using tensor::tensor_type;
using backend::test::operators;

// A device with a simulated clock: every kernel takes 1 us, products 10.
template <bool Fuses>
class toy_backend : public backend::test::toy_clock {
 public:
  [[nodiscard]] device_description description() const { return {"toy", "a clock", {}}; }
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor_type>,
                               std::span<const tensor_type>) {
    return {operators().signature(op.kind).name == "matmul" ? 10e-6 : 1e-6};
  }
  [[nodiscard]] kernel prepare_chain(const tensor::tensor_graph&)
    requires Fuses
  {
    return {1e-6};
  }
};
static_assert(fusing_backend<toy_backend<true>> && clocked_backend<toy_backend<true>>);
static_assert(device_backend<toy_backend<false>> && !fusing_backend<toy_backend<false>>);

// Two products, each followed by two element-wise operators; a relabel; and operators on weights alone.
tensor::tensor_graph layers() {
  tensor::builder b{operators()};
  auto x = b.input("x", {4, 4});
  const auto y = b.input("y", {4, 4});
  for (const auto* name : {"u", "v"}) {
    const auto product = b.matmul(x, b.transpose(b.weight(name, {4, 4}), {1, 0}));
    x = b.tanh(b.add(product, y));
  }
  return std::move(b).finish({b.reshape(x, {16})});
}

template <bool Fuses>
struct measured {
  toy_backend<Fuses> backend{};
  device_timer<toy_backend<Fuses>> timer{backend};
  tensor::timing_cache<device_timer<toy_backend<Fuses>>> cache{operators(), timer};
  double microseconds(const tensor::tensor_graph& g, bool fuse = true) {
    return to_seconds(predicted_time(operators(), g, timer, cache, fuse)) * 1e6;
  }
};

TEST_CASE("a graph's predicted time counts neither relabels nor work on weights") {
  measured<false> m;
  CHECK(m.microseconds(layers()) == Approx(2 * (10 + 1 + 1)));
  CHECK(m.cache.measured() == 3);
}

TEST_CASE("a fused chain is timed as one kernel and equal kernels are timed once") {
  measured<true> m;
  CHECK(m.microseconds(layers()) == Approx(2 * (10 + 1)));
  CHECK(m.cache.measured() == 2);
  CHECK(m.microseconds(layers()) == Approx(2 * (10 + 1)));
  CHECK(m.cache.measured() == 2);
  CHECK(m.microseconds(layers(), false) == Approx(2 * (10 + 1 + 1)));
  CHECK(m.cache.measured() == 4);
}

TEST_CASE("a chain's signature states operators and types in one line") {
  const auto region = [](bool swapped, std::int64_t size, const char* last) {
    tensor::builder b{operators()};
    const auto x = b.input("0", {size, 4});
    const auto y = b.input("1", {size, 4});
    const auto difference = swapped ? b.sub(y, x) : b.sub(x, y);
    return std::move(b).finish({std::string{last} == "tanh" ? b.tanh(difference) : b.relu(difference)});
  };
  CHECK(chain_signature(operators(), region(false, 2, "tanh")) ==
        "chain %0 = float32[2,4]; %1 = float32[2,4]; %2 = sub(float32[2,4], float32[2,4]) -> float32[2,4] %0 %1; "
        "%3 = tanh(float32[2,4]) -> float32[2,4] %2");
  std::set<std::string> all;
  for (const bool swapped : {false, true}) {
    for (const auto size : {2, 3}) {
      for (const auto* last : {"tanh", "relu"}) {
        all.insert(chain_signature(operators(), region(swapped, size, last)));
      }
    }
  }
  CHECK(all.size() == 8);
}

}  // namespace

}  // namespace tests_of_predicted_time
