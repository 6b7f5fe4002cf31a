#pragma once
#include <unity/io/onnx.hpp>
