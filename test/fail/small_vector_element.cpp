// expect: small_vector moves its elements by memcpy
// Elements with destructors would be copied without their knowledge.
#include <string>

#include <unity/core/small_vector.hpp>

unity::small_vector<std::string, 2> words;
