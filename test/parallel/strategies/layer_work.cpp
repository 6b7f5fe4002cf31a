// The work and memory of layers, with dropout and loss.
#include <unity/parallel/strategies/layer_work.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/hardware/collectives.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/statement_loss.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/terms.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/message_of.hpp"

namespace tests_of_layer_work {

using namespace unity;
using tensor::dtype;

namespace {

constexpr std::int64_t heads = 4;
constexpr std::int64_t seq = 32;
constexpr std::int64_t hidden = 64;

const tensor::algebra& operators() {
  static const auto all = tensor::training_algebra();
  return all;
}

parallel::transformer_work work(const std::string& plan, const std::string& machine, const std::string& form,
                                const std::optional<tensor::durations>& durations = {}) {
  const auto name =
      fmt::format("zoo:gpt?form={}&layers=4&hidden={}&heads={}&seq={}&vocab=128", form, hidden, heads, seq);
  const auto model =
      tensor::converted(operators(), tensor::zoo::build(operators(), name), dtype::float32, dtype::bfloat16);
  const auto m = hardware::preset(machine);
  return parallel::work_of(operators(), parallel::with_wide_loss(operators(), model),
                           parallel::parse_plan_statement(plan),
                           durations ? *durations : parallel::analytic_durations(operators(), m));
}

// Only attention as one operator takes time: 7 us, and 11 us backward; others take a picosecond, the minimum.
struct time_of_attention {
  [[nodiscard]] static duration duration_of(std::uint32_t, const tensor::operation& op,
                                            std::span<const tensor::tensor_type>,
                                            std::span<const tensor::tensor_type>) {
    if (op.kind == operators().kind("dot_product_attention")) {
      return duration::exactly(picoseconds{7'000'000});
    }
    return duration::exactly(
        picoseconds{op.kind == operators().kind("dot_product_attention_gradient") ? 11'000'000 : 0});
  }
  [[nodiscard]] static fingerprint version() { return {}; }
};

}  // namespace

// Source: Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023, table 2.
TEST_CASE("activations kept by a layer with dropout match the paper's table") {
  const auto kept = [](const std::string& plan, const std::string& machine) {
    return work(plan, machine, "training").pieces[2].kept.count();
  };
  const auto scores = 5 * heads * seq * seq;
  CHECK(kept("megatron:", "dgx_a100_80:1x1") == seq * hidden * 34 + scores);
  CHECK(kept("megatron:t=2", "dgx_a100_80:1x2") == seq * hidden * (10 + 24 / 2) + scores / 2);
  CHECK(kept("megatron:t=2,sp", "dgx_a100_80:1x2") == seq * hidden * 34 / 2 + scores / 2);
  CHECK(kept("megatron:t=2,sp,recompute=selective", "dgx_a100_80:1x2") == seq * hidden * 34 / 2);
  CHECK(kept("megatron:t=2,sp,recompute=full", "dgx_a100_80:1x2") == seq * hidden * 2 / 2);
}

// The table without the 5 a s / h of scores, softmax and dropout, plus a float32 per row and head.
TEST_CASE("a layer with flash attention keeps no attention scores") {
  const auto kept = [](const std::string& plan, const std::string& machine) {
    return work(plan, machine, "training&attention=flash").pieces[2].kept.count();
  };
  const auto rows = 4 * heads * seq;
  CHECK(kept("megatron:", "dgx_a100_80:1x1") == seq * hidden * 34 + rows);
  CHECK(kept("megatron:t=2", "dgx_a100_80:1x2") == seq * hidden * (10 + 24 / 2) + rows / 2);
  CHECK(kept("megatron:t=2,sp", "dgx_a100_80:1x2") == seq * hidden * 34 / 2 + rows / 2);
  CHECK(kept("megatron:t=2,sp,recompute=full", "dgx_a100_80:1x2") == seq * hidden * 2 / 2);
  CHECK(test::message_of([&] { static_cast<void>(kept("megatron:recompute=selective", "dgx_a100_80:1x1")); }) ==
        "plan: recompute=selective where attention is one operator; expected none or full");
}

// A layer has two exchanges per pass, none inside attention, because heads are divided.
TEST_CASE("attention divided by heads has no exchange inside even as flash attention") {
  for (const std::string form : {"training", "training&attention=flash"}) {
    CAPTURE(form);
    std::int64_t exchanges = 0;
    const auto layer = work("megatron:t=2", "dgx_a100_80:1x2", form).pieces[2];
    for (const auto* steps : {&layer.forward, &layer.backward}) {
      for (const auto& s : *steps) {
        exchanges += s.kind == tasks::task_kind::transfer ? 1 : 0;
      }
    }
    CHECK(exchanges == 4);
  }
  CHECK(test::message_of([] {
          static_cast<void>(work("megatron:t=8", "dgx_a100_80:1x8", "training&attention=flash"));
        }) == "plan: 4 heads for t=8; expected a multiple of t");
}

TEST_CASE("flash attention takes the time of one kernel in each pass") {
  const auto layer = [](const std::string& plan, const std::string& form) {
    const auto piece = work(plan, "dgx_a100_80:1x2", form, time_of_attention{}).pieces[2];
    std::vector<std::int64_t> sums{0, 0};  // us: forward, backward
    for (const auto& s : piece.forward) {
      sums[0] += s.time.count();
    }
    for (const auto& s : piece.backward) {
      sums[1] += s.time.count();
    }
    return std::vector<std::int64_t>{sums[0] / 1'000'000, sums[1] / 1'000'000};
  };
  CHECK(layer("megatron:t=2", "training&attention=flash") == std::vector<std::int64_t>{7, 11});
  CHECK(layer("megatron:t=2,recompute=full", "training&attention=flash") == std::vector<std::int64_t>{7, 18});
  CHECK(layer("megatron:t=2", "training") == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("dropout takes time in both passes of a layer") {
  const auto time = [](const std::vector<parallel::work_step>& steps) {
    picoseconds all{};
    for (const auto& s : steps) {
      all += s.time;
    }
    return all;
  };
  const auto with = work("megatron:", "dgx_a100_80:1x1", "training").pieces[2];
  const auto without = work("megatron:", "dgx_a100_80:1x1", "faithful").pieces[2];
  CHECK(time(with.forward) > time(without.forward));
  CHECK(time(with.backward) > time(without.backward));
}

// Each row's largest logit, its label's logit, and the sum of exponentials: one float32 per token each.
TEST_CASE("the loss of a divided vocabulary all-reduces one number per token three times") {
  for (const std::string plan : {"megatron:t=2", "megatron:t=2,sp"}) {
    CAPTURE(plan);
    std::int64_t reductions = 0;
    const auto all = work(plan, "dgx_a100_80:1x2", "training");
    for (const auto& s : all.pieces.back().forward) {
      const bool is_reduction = s.kind == tasks::task_kind::transfer && s.exchange == hardware::exchange::all_reduce;
      reductions += is_reduction && s.size == bytes{seq * 4} ? 1 : 0;
    }
    CHECK(reductions == 3);
  }
}

TEST_CASE("t divides the heads of attention as one operator, and with sp the positions") {
  const auto m = hardware::preset("dgx_a100:1x8");
  const auto told = [&](const std::string& model, const char* plan) {
    return test::message_of([&] {
      static_cast<void>(parallel::work_of(operators(), tensor::zoo::build(operators(), model),
                                          parallel::parse_plan_statement(plan),
                                          parallel::analytic_durations(operators(), m)));
    });
  };
  const std::string bert = "zoo:bert?form=ae&layers=2&hidden=64&heads=4&seq=32&batch=1";
  CHECK(told(bert, "megatron:t=8") == "plan: 4 heads for t=8; expected a multiple of t");
  CHECK(told(bert, "megatron:t=4").empty());
  const std::string gpt = "zoo:gpt?layers=2&hidden=64&heads=4&seq=30&vocab=128";
  CHECK(told(gpt, "megatron:t=4,sp") == "plan: 30 positions for t=4,sp; expected a multiple of t");
  CHECK(told(gpt, "megatron:t=4").empty());
  CHECK(told(gpt, "megatron:t=2,sp").empty());
  CHECK(told(gpt, "megatron:sp").empty());
}

}  // namespace tests_of_layer_work
