// Any text is a strategy of a small model on a small machine or an error; a strategy survives printing and parsing.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/core/error.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/strategy_json.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/builder.hpp>

#include "support/expect_one_line.hpp"

namespace {

// A model whose reductions, their terms, and samples can be divided.
unity::parallel::plan make_plan(const unity::tensor::algebra& algebra) {
  unity::tensor::builder b{algebra};
  const auto x = b.input("x", {4, 6});
  const auto w = b.weight("w", {6, 4});  // a statement of its own: node numbers follow the order of calls
  const auto v = b.weight("v", {4, 2});
  const auto y = b.matmul(x, w);
  const auto doubled = b.add(y, b.relu(y));
  const auto z = b.matmul(doubled, v);
  unity::parallel::plan p;
  p.graph = std::move(b).finish({z});
  p.machine = unity::hardware::preset("p100:1x4");
  return p;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::training_algebra();
  static const unity::parallel::plan empty = make_plan(algebra);
  auto plan = empty;
  try {
    plan.configurations = unity::io::parse_strategy(algebra, plan.graph, plan.machine,
                                                    {reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a strategy
  }
  const auto text = unity::io::to_strategy_text(algebra, plan, "small");
  if (unity::io::parse_strategy(algebra, plan.graph, plan.machine, text, "again") != plan.configurations) {
    __builtin_trap();
  }
  return 0;
}
