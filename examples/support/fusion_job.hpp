// Data-parallel training of a model as instructions to fuse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/rank_instructions.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

namespace support {

// A model that is trained on all devices of a machine, each on a part of the batch.
struct fusion_job {
  unity::parallel::plan plan{};  // without a loss
  bool is_spelled_out = true;
  unity::parallel::rank_program program{};  // of one rank, with the loss cross_entropy
  unity::fusion::rank_instructions instructions{};
  std::vector<std::uint32_t> weights{};  // per weight of the program: its number in the plan's graph
};

// The batch of a zoo model is per device, that of a file is of all devices together.
// Throws: unity::error if the model cannot be read or trained in this way, or the machine has only one device.
fusion_job load_fusion_job(const unity::tensor::algebra& operators, const std::string& model,
                           const std::vector<std::string>& dimensions, const unity::hardware::machine& machine,
                           unity::parallel::optimizer updates, bool is_spelled_out);

// Effects: finds the instructions and the separate time of each.
void add_instructions(const unity::tensor::algebra& operators, const unity::tensor::durations& times, fusion_job& job);

// The job's plan with gradients in the buckets of the fusion plan.
unity::parallel::plan with_buckets(const unity::tensor::algebra& operators, const fusion_job& job,
                                   const unity::fusion::fusion_plan& plan);

// For PyTorch: parameters of each bucket by name, in the order in which they are reduced.
std::string to_ddp_text(const unity::tensor::algebra& operators, const fusion_job& job,
                        const unity::fusion::fusion_plan& plan);

}  // namespace support
