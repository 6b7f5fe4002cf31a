#include <unity/core/file.hpp>
#include <unity/io/onnx_tensor.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>
#include <catch2/catch.hpp>

#include <unity/core/error.hpp>

namespace tests_of_onnx_tensor {

using namespace unity;
using namespace unity::io;

namespace {

std::filesystem::path fresh_file(const std::string& name) {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "onnx_tensor";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / name);
  return folder / name;
}

TEST_CASE("ONNX tensors of every element type survive a round trip through a file", "[onnx_tensor]") {
  const std::vector<double> elements{0, 1, 2, 1, 0, 3};
  for (std::size_t i = 0; i < tensor::dtype_names.size(); ++i) {
    const auto element = static_cast<tensor::dtype>(i);
    CAPTURE(tensor::name_of(element));
    const named_tensor written{"a name", make_data(element, {2, 3}, elements)};
    const auto file = fresh_file("tensor.pb");
    write_onnx_tensor(file, written);
    const auto found = read_onnx_tensor(file);
    CHECK(found.name == written.name);
    CHECK(found.data == written.data);
  }
}

TEST_CASE("scalar and empty ONNX tensors keep their shapes in a round trip", "[onnx_tensor]") {
  for (const auto& dims : {tensor::shape{}, tensor::shape{0, 4}}) {
    const auto file = fresh_file("small.pb");
    const named_tensor written{"", make_data(tensor::dtype::float32, dims, std::vector<float>(dims.empty() ? 1 : 0))};
    write_onnx_tensor(file, written);
    CHECK(read_onnx_tensor(file).data == written.data);
  }
}

TEST_CASE("a file that is no ONNX tensor is refused with the reason", "[onnx_tensor]") {
  const auto file = fresh_file("text.pb");
  CHECK_THROWS_WITH(read_onnx_tensor(file), Catch::Contains("text.pb"));
  for (const char* text : {"", "not a tensor", "\x08"}) {
    atomic_write(file, text);
    CHECK_THROWS_WITH(read_onnx_tensor(file),
                      Catch::Contains("text.pb") && Catch::Contains("no tensor; expected a serialized TensorProto"));
  }
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::FLOAT);
  proto.add_dims(3);
  proto.set_raw_data("1234");
  atomic_write(file, proto.SerializeAsString());
  CHECK_THROWS_WITH(read_onnx_tensor(file), Catch::Contains("holds 4 bytes; expected 12"));
}

}  // namespace

}  // namespace tests_of_onnx_tensor
