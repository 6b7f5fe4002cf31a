// Stated plans in the words of Megatron-LM and DeepSpeed.
#pragma once

#include <string>

#include <unity/parallel/strategies/stated_plan.hpp>

namespace unity::io {

// Arguments of Megatron-LM's training scripts, one line each.
// Throws: unity::error if the statement contradicts itself, or has a stage of ZeRO that its optimizer lacks.
// Source: Megatron-LM, megatron/training/arguments.py (core 0.12).
[[nodiscard]] std::string to_megatron_text(const parallel::stated_plan& p);

// DeepSpeed's configuration, as JSON. The optimizer's numbers are the user's to add.
// Throws: unity::error where it has more than data parallelism, because models themselves say the rest.
// Source: DeepSpeed, docs/_pages/config-json.md.
[[nodiscard]] std::string to_deepspeed_text(const parallel::stated_plan& p);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_TRAINING_FLAGS)

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::io {

namespace detail {

UNITY_INLINE void expect_consistent(const parallel::plan_statement& s) {
  check(s, static_cast<std::size_t>(s.tensor * s.pipeline * s.data));
}

UNITY_INLINE std::string recompute_flags(parallel::recomputed_part part) {
  switch (part) {
    case parallel::recomputed_part::none: return "";
    case parallel::recomputed_part::selective: return "--recompute-granularity selective\n";
    case parallel::recomputed_part::full:
      return "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n";
  }
  return "";
}

// The script's own default is Adam, and momentum 0.9 for SGD.
UNITY_INLINE std::string optimizer_flags(parallel::optimizer o) {
  switch (o) {
    case parallel::optimizer::sgd: return "--optimizer sgd\n--sgd-momentum 0\n";
    case parallel::optimizer::momentum: return "--optimizer sgd\n";
    case parallel::optimizer::adam: return "--optimizer adam\n";
  }
  return "";
}

}  // namespace detail

UNITY_INLINE std::string to_megatron_text(const parallel::stated_plan& p) {
  const auto& s = p.statement;
  detail::expect_consistent(s);
  if (s.zero > 1) {
    throw error{"plan", fmt::format("stage {} of ZeRO", s.zero),
                "0 or 1, which is Megatron-LM's distributed optimizer"};
  }
  std::string text;
  const auto add = [&text](std::string_view flag, std::int64_t value) {
    text += fmt::format("--{} {}\n", flag, value);
  };
  add("tensor-model-parallel-size", s.tensor);
  add("pipeline-model-parallel-size", s.pipeline);
  if (p.layers > 0) {
    add("num-layers", p.layers);
  }
  if (s.interleave > 1 && p.layers > 0) {
    add("num-layers-per-virtual-pipeline-stage", p.layers / s.chunks());
  } else if (s.interleave > 1) {
    add("num-virtual-stages-per-pipeline-rank", s.interleave);
  }
  text += p.are_stages_inside_data ? "--use-tp-pp-dp-mapping\n" : "";
  add("micro-batch-size", s.micro);
  add("global-batch-size", s.batch);
  text += s.is_sequence_parallel && s.tensor > 1 ? "--sequence-parallel\n" : "";
  text += s.zero == 1 && s.data > 1 ? "--use-distributed-optimizer\n" : "";
  text += detail::recompute_flags(s.recomputed);
  text += p.updates ? detail::optimizer_flags(*p.updates) : "";
  text += p.element == tensor::dtype::bfloat16 ? "--bf16\n" : p.element == tensor::dtype::float16 ? "--fp16\n" : "";
  return text;
}

UNITY_INLINE std::string to_deepspeed_text(const parallel::stated_plan& p) {
  const auto& s = p.statement;
  detail::expect_consistent(s);
  if (s.tensor > 1 || s.pipeline > 1) {
    throw error{"plan", fmt::format("t={}, p={}", s.tensor, s.pipeline),
                "t=1 and p=1: DeepSpeed takes other divisions from the model's code"};
  }
  if (s.recomputed != parallel::recomputed_part::none) {
    throw error{"plan",
                fmt::format("recompute={}", parallel::recomputed_part_names[static_cast<std::size_t>(s.recomputed)]),
                "none: DeepSpeed takes what is computed again from the model's code"};
  }
  nlohmann::ordered_json r{{"train_batch_size", s.batch},
                           {"train_micro_batch_size_per_gpu", s.micro},
                           {"gradient_accumulation_steps", s.microbatches()}};
  nlohmann::ordered_json zero{{"stage", s.zero}};
  if (s.zero > 0) {
    zero["overlap_comm"] = true;  // a gradient goes out while the backward pass goes on
  }
  r["zero_optimization"] = zero;
  if (p.element == tensor::dtype::bfloat16 || p.element == tensor::dtype::float16) {
    r[p.element == tensor::dtype::bfloat16 ? "bf16" : "fp16"] = {{"enabled", true}};
  }
  return r.dump(2) + "\n";
}

}  // namespace unity::io

#endif
