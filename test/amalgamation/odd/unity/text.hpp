#pragma once
#include <string_view>

#define ODD_LENGTH 1'00'0
inline constexpr std::string_view text = R"x(it's "text)"
#include <unity/no_such_header.hpp>


#pragma once
#if)x";
inline constexpr int length_of_text = ODD_LENGTH;
#undef ODD_LENGTH

inline bool same_text() {
  return text == "it's \"text)\"\n#include <unity/no_such_header.hpp>\n\n\n#pragma once\n#if" && length_of_text == 1000;
}
