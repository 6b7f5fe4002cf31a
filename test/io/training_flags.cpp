#include <unity/io/framework_plan.hpp>

#include <catch2/catch.hpp>

#include <string>

#include "../support/message_of.hpp"

namespace tests_of_training_flags {

namespace {

using namespace unity;

parallel::stated_plan stated(const std::string& text) {
  return {parallel::parse_plan_statement(text), 0, {}, {}, false};
}

std::string megatron_complaint(const parallel::stated_plan& p) {
  return unity::test::message_of([&] { static_cast<void>(io::to_megatron_text(p)); });
}

std::string deepspeed_complaint(const std::string& text) {
  return unity::test::message_of([&] { static_cast<void>(io::to_deepspeed_text(stated(text))); });
}

}  // namespace

TEST_CASE("a plan statement is written as Megatron-LM flags or refused with the reason") {
  auto p = stated("megatron:t=8,p=8,d=8,micro=1,batch=512,interleave=2,sp,zero=1,recompute=full");
  CHECK(io::to_megatron_text(p) ==
        "--tensor-model-parallel-size 8\n--pipeline-model-parallel-size 8\n--num-virtual-stages-per-pipeline-rank 2\n"
        "--micro-batch-size 1\n--global-batch-size 512\n--sequence-parallel\n--use-distributed-optimizer\n"
        "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n");
  p.layers = 96;
  p.updates = parallel::optimizer::sgd;
  p.element = tensor::dtype::bfloat16;
  p.are_stages_inside_data = true;
  p.statement.recomputed = parallel::recomputed_part::selective;
  CHECK(io::to_megatron_text(p) ==
        "--tensor-model-parallel-size 8\n--pipeline-model-parallel-size 8\n--num-layers 96\n"
        "--num-layers-per-virtual-pipeline-stage 6\n--use-tp-pp-dp-mapping\n--micro-batch-size 1\n"
        "--global-batch-size 512\n--sequence-parallel\n--use-distributed-optimizer\n"
        "--recompute-granularity selective\n--optimizer sgd\n--sgd-momentum 0\n--bf16\n");
  CHECK(
      io::to_megatron_text(stated("megatron:d=8,zero=1,overlap")) ==
      "--tensor-model-parallel-size 1\n--pipeline-model-parallel-size 1\n--micro-batch-size 1\n--global-batch-size 8\n"
      "--use-distributed-optimizer\n--overlap-grad-reduce\n--overlap-param-gather\n");
  CHECK(
      io::to_megatron_text(stated("megatron:d=8,overlap")) ==
      "--tensor-model-parallel-size 1\n--pipeline-model-parallel-size 1\n--micro-batch-size 1\n--global-batch-size 8\n"
      "--overlap-grad-reduce\n");
  CHECK(io::to_megatron_text(stated("megatron:p=4,first=10,last=11")) ==
        "--tensor-model-parallel-size 1\n--pipeline-model-parallel-size 4\n--decoder-first-pipeline-num-layers 10\n"
        "--decoder-last-pipeline-num-layers 11\n--micro-batch-size 1\n--global-batch-size 1\n");
  auto unequal = stated("megatron:p=4,batch=8,interleave=2,last=18");
  unequal.layers = 96;
  CHECK(io::to_megatron_text(unequal) ==
        "--tensor-model-parallel-size 1\n--pipeline-model-parallel-size 4\n--num-layers 96\n"
        "--decoder-last-pipeline-num-layers 18\n--num-virtual-stages-per-pipeline-rank 2\n--micro-batch-size 1\n"
        "--global-batch-size 8\n");
  unequal.layers = 95;
  CHECK(megatron_complaint(unequal) ==
        "plan: last=18 of 95 layers on p=4 stages; expected layers left that the other stages share equally");
  p.statement.zero = 2;
  CHECK(megatron_complaint(p) ==
        "plan: stage 2 of ZeRO; expected 0 or 1, which is Megatron-LM's distributed optimizer");
  CHECK(megatron_complaint(stated("megatron:t=1,p=1,d=3,micro=1,batch=4")) ==
        "plan: batch=4; expected a multiple of d=3 times micro=1");
}

TEST_CASE("a data-parallel plan statement is written as DeepSpeed JSON and others are refused") {
  auto p = stated("megatron:d=8,micro=2,batch=64,zero=1,overlap");
  p.element = tensor::dtype::float16;
  CHECK(io::to_deepspeed_text(p) ==
        "{\n  \"train_batch_size\": 64,\n  \"train_micro_batch_size_per_gpu\": 2,\n"
        "  \"gradient_accumulation_steps\": 4,\n  \"zero_optimization\": {\n    \"stage\": 1,\n"
        "    \"overlap_comm\": true\n  },\n  \"fp16\": {\n    \"enabled\": true\n  }\n}\n");
  using Catch::Contains;
  CHECK_THAT(io::to_deepspeed_text(stated("megatron:d=8,batch=64,zero=1")), Contains("\"overlap_comm\": false"));
  CHECK_THAT(io::to_deepspeed_text(stated("megatron:d=8,batch=64,zero=2")), Contains("\"overlap_comm\": true"));
  CHECK_THAT(io::to_deepspeed_text(stated("megatron:d=8,batch=64")), !Contains("overlap_comm"));
  CHECK(deepspeed_complaint("megatron:t=2,p=1,d=4") ==
        "plan: t=2, p=1; expected t=1 and p=1: DeepSpeed takes other divisions from the model's code");
  CHECK(deepspeed_complaint("megatron:d=4,overlap") ==
        "plan: overlap with zero=0; expected zero=1: DeepSpeed without ZeRO reduces after the backward pass");
  CHECK(deepspeed_complaint("megatron:d=4,recompute=full") ==
        "plan: recompute=full; expected none: DeepSpeed takes what is computed again from the model's code");
}

}  // namespace tests_of_training_flags
