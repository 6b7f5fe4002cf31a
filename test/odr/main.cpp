#include <cstdint>
#include <cstdio>

std::uint64_t (*first_mix())(std::uint64_t);
std::uint64_t (*second_mix())(std::uint64_t);

int main() {
  if (first_mix() != second_mix()) {
    std::fputs("an inline function has two addresses\n", stderr);
    return 1;
  }
  return 0;
}
