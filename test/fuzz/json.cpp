// Any text is a graph or an error; a graph survives printing and parsing.
#include <cstddef>
#include <cstdint>

#include <unity/core/error.hpp>
#include <unity/io/json.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::standard_algebra();
  unity::tensor::tensor_graph graph;
  try {
    graph = unity::io::parse_graph(algebra, {reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a graph
  }
  if (!(unity::io::parse_graph(algebra, unity::io::to_json(algebra, graph).dump(), "again") == graph)) {
    __builtin_trap();
  }
  return 0;
}
