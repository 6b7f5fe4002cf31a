// Times single operators in the engine of --target, for searches that minimize these times.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <unity/cost/duration.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

#include "engine_target.hpp"
#include "scratch_folder.hpp"

namespace support {

// Models unity::kernel_timer. An operator with an activation is a model of both, which the engine fuses if it can.
// Small operators run several times in one model, on separate operands; the time of an empty model is subtracted.
// Operators that unity does not know have time zero, as no rule rewrites them.
class engine_kernels {
 public:
  // The engine and the algebra must outlive it. Throws: unity::error if the engine runs no model at all.
  engine_kernels(engine_timer& engine, const unity::tensor::algebra& operators);

  // Throws: unity::error if the engine does not run it.
  [[nodiscard]] unity::measurement time(const unity::tensor::operation& op,
                                        std::span<const unity::tensor::tensor_type> inputs,
                                        std::span<const unity::tensor::tensor_type> outputs);
  [[nodiscard]] std::string description() const;

 private:
  // Seconds of runs.
  [[nodiscard]] std::vector<double> run(const unity::io::onnx_model& model);

  engine_timer& engine_;
  const unity::tensor::algebra& operators_;
  scratch_folder folder_{"kernels"};
  double overhead_ = 0;  // seconds of a run
};

}  // namespace support
