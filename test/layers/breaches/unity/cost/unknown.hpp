#pragma once
#include <unity/pantry/jam.hpp>
