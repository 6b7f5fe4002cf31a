#pragma once
#include <unity/search.hpp>
