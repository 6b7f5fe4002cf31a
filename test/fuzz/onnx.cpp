// Any bytes are a model or an error; a model can be written, or the error says why not. A file of external data exists.
#include <cstddef>
#include <cstdint>
#include <string>

#include <google/protobuf/stubs/logging.h>

#include <unity/core/error.hpp>
#include <unity/io/onnx.hpp>
#include <unity/tensor/evaluate.hpp>

#include "support/expect_one_line.hpp"
#include "support/external_data.hpp"

namespace {

// Silences the parser's log; its complaints are part of the error.
void no_log(google::protobuf::LogLevel, const char*, int, const std::string&) {}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::standard_algebra();
  static const auto silenced = google::protobuf::SetLogHandler(no_log);
  (void)silenced;
  const auto& folder = unity::test::folder_with_data();
  for (const bool keep_rest : {false, true}) {
    unity::io::import_options options;
    options.keep_rest = keep_rest;
    try {
      const auto model =
          unity::io::parse_onnx(algebra, {reinterpret_cast<const char*>(data), size}, "fuzz", folder, options);
      const auto bytes = unity::io::serialize_onnx(algebra, model);
      (void)unity::io::parse_onnx(algebra, bytes, "again", folder, options);
    } catch (const unity::error& e) {
      unity::test::expect_one_line(e);  // refused: not a model, or one that cannot be written
    }
  }
  return 0;
}
