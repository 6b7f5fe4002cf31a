#pragma once
#include <unity/tensor/shape.hpp>
