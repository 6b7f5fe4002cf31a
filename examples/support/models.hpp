// Models by their names on a program's command line, and input values for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/zoo.hpp>

namespace support {

inline constexpr const char* model_help = "an .onnx file, or zoo:NAME[?key=value&...]";
inline constexpr const char* dimension_help = "NAME=SIZE binds a dynamic dimension of an ONNX input";
inline constexpr const char* open_dimension_help =
    "NAME=SIZE fixes a dynamic dimension of an ONNX input; those without a size stay dynamic";

using dimension_sizes = decltype(unity::io::import_options::dimensions);

// The values of --dim NAME=SIZE. Throws: unity::error if one is invalid or given twice.
dimension_sizes parse_dimensions(const std::vector<std::string>& dimensions);

// --dim is an option of files. Throws: unity::error if it is given for a model of the zoo.
void expect_file_for(const std::string& model, const std::vector<std::string>& dimensions);

// dimensions: "NAME=SIZE", each. keep_rest: see io::import_options. Throws: unity::error that names file or flag.
unity::io::onnx_model load_model(const unity::tensor::algebra& operators, const std::string& model,
                                 const std::vector<std::string>& dimensions, bool keep_rest = false);

// The same for a model that is written again: dimensions without a size stay open, and keep_rest is set.
unity::io::onnx_model load_open_model(const unity::tensor::algebra& operators, const std::string& model,
                                      const std::vector<std::string>& dimensions);

// The graph of a file, for training. Throws: as load_model, and unity::error if a gradient has to flow through an
// operator without a derivative, with the name of its node in the file.
unity::tensor::tensor_graph load_training_graph(const unity::tensor::algebra& operators, const std::string& model,
                                                const std::vector<std::string>& dimensions);

// The values that the model's file stores; for other sources (weights of the zoo, inputs), values that do not overflow
// in deep networks. The model must outlive the result.
unity::tensor::source_data model_values(const unity::tensor::algebra& operators, const unity::io::onnx_model& model,
                                        std::uint64_t seed);

}  // namespace support
