// Any text is a graph or an error; a graph comes back from its own text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/io/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::standard_algebra();
  try {
    const auto graph = unity::io::parse_graph(algebra, {reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!(unity::io::parse_graph(algebra, unity::io::to_json(algebra, graph).dump(), "again") == graph)) {
      __builtin_trap();
    }
  } catch (const unity::error&) {
    // Not a graph, and it said so.
  }
  return 0;
}
