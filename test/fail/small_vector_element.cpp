// expect: small_vector moves its elements by memcpy
// small_vector copies bytes, so elements must not have destructors.
#include <string>

#include <unity/core/small_vector.hpp>

unity::small_vector<std::string, 2> words;
