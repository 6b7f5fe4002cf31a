#include <cstddef>

#include <unity/core/mapped_file.hpp>

int main() {
  const unity::mapped_file program{"/proc/self/exe"};
  return program.bytes().size() > 4 && program.bytes()[1] == std::byte{'E'} ? 0 : 1;  // "\x7fELF"
}
