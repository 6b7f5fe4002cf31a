// What the headers behind this one use without a word.
#pragma once

#include <string>
#include <unity/a_forward.hpp>

#define BREACH_MACRO 1

namespace unity::breaches {

struct widget {
  int weight = 0;
};
struct announced {
  int size = 0;
};
template <class T>
concept weighed = requires(T t) { t.weight; };
[[nodiscard]] inline int weight_of(const std::string&) { return 1; }
template <class T>
[[nodiscard]] int twice(T t) {
  return 2 * t;
}
[[nodiscard]] inline bool operator<(widget a, widget b) { return a.weight < b.weight; }

}  // namespace unity::breaches
