#pragma once
#include <unity/graph/concepts.hpp>
