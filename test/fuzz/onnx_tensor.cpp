// Any bytes are a tensor or an error; a tensor survives writing and reading, with its data moved into the file.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <google/protobuf/stubs/logging.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/onnx_tensor.hpp>

#include "support/expect_one_line.hpp"
#include "support/external_data.hpp"

namespace {

// Silences the parser's log; its complaints are part of the error.
void no_log(google::protobuf::LogLevel, const char*, int, const std::string&) {}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto silenced = google::protobuf::SetLogHandler(no_log);
  (void)silenced;
  static const auto file = unity::test::folder_with_data() / "tensor.pb";
  static const auto copy = unity::test::folder_with_data() / "copy.pb";
  unity::atomic_write(file, std::string_view{reinterpret_cast<const char*>(data), size});
  std::optional<unity::io::named_tensor> first;
  try {
    first = unity::io::read_onnx_tensor(file);
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a tensor
  }
  unity::io::write_onnx_tensor(copy, *first);
  const auto second = unity::io::read_onnx_tensor(copy);
  if (second.name != first->name || !(second.data == first->data)) {
    __builtin_trap();
  }
  return 0;
}
