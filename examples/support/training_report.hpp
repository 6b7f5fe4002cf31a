// What a run of `train` says in the end.
#pragma once

#include <optional>
#include <vector>

#include <unity/tensor/algebra.hpp>
#include <unity/train/evaluation.hpp>
#include <unity/train/outside_arena.hpp>
#include <unity/train/timeline.hpp>

#include "training_flags.hpp"
#include "training_job.hpp"

namespace support {

struct training_outcome {
  std::vector<double> losses{};
  double seconds = 0;  // of an iteration, the median of those after the first
  unity::train::merged_timeline timeline{};
  std::optional<unity::train::test_result> test{};     // with a data set; of rank 0
  std::vector<unity::train::moved_bytes> predicted{};  // with a limit of memory; by rank, in an iteration
};

// Prints, and writes the files that the flags ask for: all or none. error_of_losses: of --check.
void report(const training_flags& a, const unity::tensor::algebra& operators, const training_job& j, int ranks,
            const char* comm, const training_outcome& r, std::optional<double> error_of_losses);

}  // namespace support
