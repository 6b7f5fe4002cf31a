// Reads and writes ONNX models. Include it in one source file of a program: the packaged schema compiles slowly.
#pragma once

#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_import.hpp>
#include <unity/io/onnx_model.hpp>
