#include <unity/io/onnx_open.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/fold_constants.hpp>
#include <unity/io/onnx.hpp>

#include "../support/onnx_text.hpp"
#include "onnx_subjects.hpp"

namespace tests_of_onnx_open {

namespace io = unity::io;
using unity::io::test::built;
using unity::io::test::standard;
using unity::test::onnx_bytes_of;

namespace {

// Reshapes into heads of attention, as exporters write them.
constexpr std::string_view heads =
    R"(g (float[batch,length,6] x) => (float[batch,heads,length,3] y) <int64 zero = {0}, int64 one = {1}> {
  s = Shape(x) b0 = Gather(s, zero) n0 = Gather(s, one)
  axis = Constant <value = int64[1] {0}> () b = Unsqueeze(b0, axis) n = Unsqueeze(n0, axis)
  count = Constant <value = int64[1] {2}> () size = Constant <value = int64[1] {3}> ()
  dims = Concat <axis = 0> (b, n, count, size)
  split = Reshape(x, dims) y = Transpose <perm = [0, 2, 1, 3]> (split) })";
// Two dimensions of the reshape are open, and both change places.
constexpr std::string_view rows =
    R"(g (float[batch,length,6] x) => (float[length,batch,6] y) <int64 zero = {0}, int64 one = {1}> {
  s = Shape(x) axis = Constant <value = int64[1] {0}> () b0 = Gather(s, zero) n0 = Gather(s, one)
  b = Unsqueeze(b0, axis) n = Unsqueeze(n0, axis) rest = Constant <value = int64[1] {6}> ()
  dims = Concat <axis = 0> (n, b, rest) y = Reshape(x, dims) })";
// Adds rows 0, 1, .. of a table, one for each position, and then the positions themselves.
constexpr std::string_view positions =
    R"(g (float[batch,length,2] x) => (float[batch,length,2] y) <
  float[9,2] table = {1,2,3,4,5,6,7,8,9,8,7,6,5,4,3,2,1,0}> {
  s = Shape(x) one = Constant <value = int64 {1}> () zero = Constant <value = int64 {0}> ()
  n = Gather(s, one) numbers = Range(zero, n, one) found = Gather(table, numbers) sum = Add(x, found)
  reals = Cast <to = 1> (numbers) axis = Constant <value = int64[1] {1}> () column = Unsqueeze(reals, axis)
  y = Add(sum, column) })";
// Adds as many rows of a table as there are positions; the table has only 14.
constexpr std::string_view few = R"(g (float[batch,length,1] x) => (float[batch,length,1] y) <
  float[1,14,1] table = {1,2,3,4,5,6,7,8,9,10,11,12,13,14}> {
  s = Shape(x) one = Constant <value = int64[1] {1}> () zero = Constant <value = int64[1] {0}> ()
  n = Gather(s, one) rows = Slice(table, zero, n, one) y = Add(x, rows) })";
// Divides by the number of positions, so that a size is used as an element.
constexpr std::string_view mean = R"(g (float[batch,length,2] x) => (float[batch,2] y) {
  s = Shape(x) one = Constant <value = int64 {1}> () n = Gather(s, one) real = Cast <to = 1> (n)
  axes = Constant <value = int64[1] {1}> () sum = ReduceSum <keepdims = 0> (x, axes) y = Div(sum, real) })";
// All positions except the last, and the last.
constexpr std::string_view ends = R"(g (float[batch,length] x) => (float[batch,shorter] y, float[batch] z) {
  from = Constant <value = int64[1] {0}> () to = Constant <value = int64[1] {-1}> ()
  axes = Constant <value = int64[1] {1}> () y = Slice(x, from, to, axes)
  last = Constant <value = int64 {-1}> () z = Gather <axis = 1> (x, last) })";
constexpr std::string_view last = R"(g (float[batch,length,2] x) => (float[batch,2] y) {
  last = Constant <value = int64 {-1}> () y = Gather <axis = 1> (x, last) })";
// A causal mask: ones up to the diagonal and zeros above it.
constexpr std::string_view mask = R"(g (float[batch,length] x) => (float[batch,length,length] y) {
  s = Shape(x) one = Constant <value = int64[1] {1}> () n = Gather(s, one) dims = Concat <axis = 0> (n, n)
  ones = ConstantOfShape <value = float[1] {1}> (dims) low = Trilu <upper = 0> (ones)
  row = Unsqueeze(x, one) y = Mul(row, low) })";
constexpr std::string_view unnamed =
    R"(g (float[ids,5] a, float[others,5] b) => (float[n,5] y) { r = Relu(a) y = Add(r, b) })";
constexpr std::string_view half = R"(g (float[batch,length] x) => (float[batch,some] y) {
  s = Shape(x) one = Constant <value = int64[1] {1}> () two = Constant <value = int64[1] {2}> ()
  zero = Constant <value = int64[1] {0}> () n = Gather(s, one) to = Div(n, two) y = Slice(x, zero, to, one) })";
// Two convolutions of stride 2 with odd kernels; then the positions of all samples form one dimension.
constexpr std::string_view strided = R"(g (float[batch,1,length] x) => (float[rows,2] y) <
  float[2,1,3] w = {1,2,3,4,5,6}, float[2,2,3] v = {1,2,3,4,5,6,6,5,4,3,2,1}> {
  a = Conv <strides = [2], pads = [1, 1]> (x, w) b = Conv <strides = [2], pads = [0, 0]> (a, v)
  c = Transpose <perm = [0, 2, 1]> (b) s = Shape(c) zero = Constant <value = int64[1] {0}> ()
  one = Constant <value = int64[1] {1}> () two = Constant <value = int64[1] {2}> ()
  n = Gather(s, zero) m = Gather(s, one) rows = Mul(n, m) dims = Concat <axis = 0> (rows, two) r = Reshape(c, dims)
  back = Concat <axis = 0> (n, m, two) t = Reshape(r, back) u = Transpose <perm = [1, 0, 2]> (t)
  again = Concat <axis = 0> (m, n, two) q = Reshape(u, again) p = Reshape(q, dims) y = Add(p, r) })";
// The means of blocks of 16 by 16 points, in one dimension and back in two.
constexpr std::string_view blocks = R"(g (float[batch,1,height,width] x) => (float[batch,h,w,1] y) {
  p = AveragePool <kernel_shape = [16, 16], strides = [16, 16]> (x) s = Shape(p)
  zero = Constant <value = int64[1] {0}> () two = Constant <value = int64[1] {2}> ()
  three = Constant <value = int64[1] {3}> () one = Constant <value = int64[1] {1}> ()
  b = Gather(s, zero) h = Gather(s, two) w = Gather(s, three) n = Mul(h, w)
  flat = Concat <axis = 0> (b, n, one) f = Reshape(p, flat) r = Relu(f)
  dims = Concat <axis = 0> (b, h, w, one) y = Reshape(r, dims) })";
// A dimension of half the square of the length.
constexpr std::string_view triangle = R"(g (float[1,length] x) => (float[some] y) {
  s = Shape(x) one = Constant <value = int64[1] {1}> () two = Constant <value = int64[1] {2}> ()
  n = Gather(s, one) square = Mul(n, n) dims = Div(square, two) axes = Constant <value = int64[2] {0, 1}> ()
  sum = ReduceSum <keepdims = 0> (x, axes) y = Expand(sum, dims) })";

std::string bytes_of(std::string_view graph) { return onnx_bytes_of(std::string{graph}); }
io::onnx_model read(const std::string& bytes) { return io::parse_open_onnx(standard(), bytes, "model", {}); }
io::onnx_model read_at(const std::string& bytes, const std::map<std::string, std::int64_t>& sizes) {
  return io::parse_onnx(standard(), bytes, "model", {}, {.dimensions = {sizes.begin(), sizes.end()}});
}
unity::tensor::equivalence_report check(const std::string& bytes, const io::onnx_model& model) {
  return io::check_open(standard(), bytes, "model", {}, model, {});
}
std::string problem_of(const std::string& bytes, const io::onnx_model& model) {
  try {
    static_cast<void>(check(bytes, model));
  } catch (const unity::error& e) {
    return e.what();
  }
  return {};
}
onnx::ModelProto proto_of(const std::string& bytes) {
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(bytes));
  return proto;
}
std::size_t count(const std::string& bytes, const std::string& type) {
  std::size_t found = 0;
  const auto proto = proto_of(bytes);
  for (const auto& node : proto.graph().node()) {
    found += node.op_type() == type ? 1 : 0;
  }
  return found;
}

}  // namespace

TEST_CASE("parse_open_onnx equals parse_onnx if no dimension is open") {
  const auto bytes = bytes_of("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }");
  CHECK(read(bytes) == io::parse_onnx(standard(), bytes, "model", {}));
  const auto open = bytes_of("g (float[n,3] x) => (float[n,3] y) { y = Relu(x) }");
  const io::import_options bound{.dimensions = {{"n", 4}}};
  CHECK(io::parse_open_onnx(standard(), open, "model", {}, bound) ==
        io::parse_onnx(standard(), open, "model", {}, bound));
}

TEST_CASE("models with open sizes equal the original ONNX file at several sizes") {
  for (const auto graph : {heads, rows, positions, few, mean, ends, last, mask, half, strided}) {
    const auto bytes = bytes_of(graph);
    INFO(graph);
    const auto model = read(bytes);
    CHECK(model.open.axes.size() == 2);
    const auto report = check(bytes, model);
    CHECK(report.passed);
    CHECK(report.points > 0);
    CHECK(io::keeps_signature(standard(), model));
    const auto written = io::serialize_onnx(standard(), model);
    for (const std::int64_t length : {7, 8, 10}) {
      const std::map<std::string, std::int64_t> sizes{{"batch", length - 1}, {"length", length}};
      CHECK(read_at(written, sizes).graph == read_at(bytes, sizes).graph);
      CHECK(read_at(written, sizes).data == read_at(bytes, sizes).data);
    }
    // Folding keeps nodes that depend on sizes.
    const auto folded = io::serialize_onnx(standard(), io::fold_constants(standard(), model));
    CHECK(read_at(folded, {{"batch", 3}, {"length", 5}}).outputs ==
          read_at(bytes, {{"batch", 3}, {"length", 5}}).outputs);
  }
}

TEST_CASE("folding computes constants of closed sizes and keeps those that depend on open sizes") {
  const auto bytes = bytes_of(R"(g (float[batch,length,2] x) => (float[batch,length,2] y) <
    float[2] w = {2, 3}, float[2] u = {4, 5}> {
    s = Shape(x) one = Constant <value = int64 {1}> () n = Gather(s, one) real = Cast <to = 1> (n)
    c = Mul(w, u) d = Div(c, real) y = Mul(x, d) })");
  const auto model = read(bytes);
  CHECK(model.open.computed.size() == 1);
  CHECK(count(io::serialize_onnx(standard(), model), "Mul") == 2);
  const auto folded = io::fold_constants(standard(), model);
  const auto written = io::serialize_onnx(standard(), folded);
  CHECK(count(written, "Mul") == 1);
  CHECK(count(written, "Div") == 1);
  CHECK(check(bytes, folded).passed);
}

TEST_CASE("check_open accepts folded constants that differ only by rounding") {
  const auto bytes = bytes_of(R"(g (float[batch,2] x) => (float[batch,2] y) <float c = {3}> { y = Div(x, c) })");
  auto model = read(bytes);
  model.graph = built([](auto& b) {
    const auto x = b.input("x", {11, 2});
    return b.apply("scalar_multiply", {x, b.apply("reciprocal", {b.fill(3)})[0]})[0];
  });
  CHECK(check(bytes, io::fold_constants(standard(), model)).passed);
}

TEST_CASE("check_open skips sizes at which a quotient is zero") {
  const auto bytes = bytes_of(half);
  const auto report = check(bytes, read(bytes));
  CHECK(report.passed);
  CHECK_THAT(report.sizes, Catch::StartsWith("batch=1, length=2;"));
}

TEST_CASE("PyTorch exports with halves/strides/pooling/patches keep their open sizes") {
  std::size_t files = 0;
  const std::filesystem::path folder{std::string{UNITY_TEST_SOURCE_DIR} + "/test/io/open_data"};
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    if (entry.path().extension() != ".onnx") {
      continue;
    }
    CAPTURE(entry.path().string());
    const auto bytes = unity::read_file(entry.path());
    const auto model = read(bytes);
    const auto written = io::serialize_onnx(standard(), model);
    for (const std::int64_t round : {1, 2, 3}) {
      std::map<std::string, std::int64_t> sizes;
      for (const auto& axis : model.open.axes) {
        const bool is_image = axis.rank == 4 && axis.axis > 1;
        sizes[axis.name] = is_image ? 16 * (round + axis.axis) : 3 * round + axis.axis;
      }
      CHECK(read_at(written, sizes).graph == read_at(bytes, sizes).graph);
      CHECK(read_at(written, sizes).data == read_at(bytes, sizes).data);
    }
    ++files;
  }
  CHECK(files == 7);
}

TEST_CASE("a constant slice position is not mistaken for a multiple of the batch") {
  const auto bytes = bytes_of(R"(g (float[batch,56] x) => (float[batch,28] y) {
    from = Constant <value = int64[1] {0}> () to = Constant <value = int64[1] {9223372036854775807}> ()
    axis = Constant <value = int64[1] {1}> () step = Constant <value = int64[1] {2}> ()
    y = Slice(x, from, to, axis, step) })");
  CHECK(check(bytes, read(bytes)).passed);  // at a batch of 11, up to position 5 * 11
}

TEST_CASE("open height and width are not confused in a reshape") {
  const auto bytes = bytes_of(R"(g (float[1,2,height,width] x) => (float[height,width,2] y) {
    t = Transpose <perm = [2, 3, 0, 1]> (x) s = Shape(x) two = Constant <value = int64[1] {2}> ()
    three = Constant <value = int64[1] {3}> () h = Gather(s, two) w = Gather(s, three)
    dims = Concat <axis = 0> (h, w, two) y = Reshape(t, dims) })");
  const auto model = read(bytes);
  REQUIRE(model.open.axes.size() == 2);
  CHECK(model.open.form_of(model.open.axes[1].size) == io::size_form{{{1, {1}}}, 0});
  CHECK(check(bytes, model).passed);
}

TEST_CASE("size quotients of strided convolutions hold at lengths with different remainders") {
  const auto bytes = bytes_of(strided);
  const auto written = io::serialize_onnx(standard(), read(bytes));
  CHECK(count(written, "Div") > 0);
  for (std::int64_t length = 6; length < 16; ++length) {
    const std::map<std::string, std::int64_t> sizes{{"batch", 2}, {"length", length}};
    INFO(length);
    CHECK(read_at(written, sizes).graph == read_at(bytes, sizes).graph);
  }
}

TEST_CASE("products of two size quotients hold at heights with different remainders") {
  const auto bytes = bytes_of(blocks);
  const auto model = read(bytes);
  CHECK(check(bytes, model).passed);
  const auto written = io::serialize_onnx(standard(), model);
  for (const std::int64_t height : {16, 31, 33, 80}) {
    const std::map<std::string, std::int64_t> sizes{{"batch", 2}, {"height", height}, {"width", 50}};
    CHECK(read_at(written, sizes).graph == read_at(bytes, sizes).graph);
  }
}

TEST_CASE("parse_open_onnx can fix one dimension and keep another open") {
  const auto bytes = bytes_of(rows);
  const io::import_options options{.dimensions = {{"batch", 5}}};
  const auto model = io::parse_open_onnx(standard(), bytes, "model", {}, options);
  REQUIRE(model.open.axes.size() == 1);
  CHECK(io::check_open(standard(), bytes, "model", {}, model, options).passed);
  const auto written = io::serialize_onnx(standard(), model);
  CHECK(read_at(written, {{"length", 4}}).graph == read_at(bytes, {{"batch", 5}, {"length", 4}}).graph);
}

TEST_CASE("open dimensions of inputs and outputs survive an ONNX round trip") {
  const auto bytes = bytes_of(heads);
  const auto before = proto_of(bytes);
  const auto after = proto_of(io::serialize_onnx(standard(), read(bytes)));
  CHECK(after.graph().input(0).SerializeAsString() == before.graph().input(0).SerializeAsString());
  CHECK(after.graph().output(0).SerializeAsString() == before.graph().output(0).SerializeAsString());
}

TEST_CASE("a Reshape of open sizes needs a Shape node only if they change places") {
  CHECK(count(io::serialize_onnx(standard(), read(bytes_of(heads))), "Shape") == 0);
  const auto computed = io::serialize_onnx(standard(), read(bytes_of(rows)));
  CHECK(count(computed, "Shape") == 1);
  CHECK(count(computed, "Concat") == 1);
}

TEST_CASE("open dimensions that must be equal get one size") {
  const auto bytes = bytes_of(unnamed);
  const auto model = read(bytes);
  REQUIRE(model.open.axes.size() == 2);
  CHECK(model.open.axes[0].size == model.open.axes[1].size);
  CHECK(check(bytes, model).passed);
}

TEST_CASE("an unknown dimension given to parse_open_onnx is an error that lists the known ones") {
  try {
    static_cast<void>(io::parse_open_onnx(standard(), bytes_of(heads), "model", {}, {.dimensions = {{"height", 3}}}));
    FAIL("no error");
  } catch (const unity::error& e) {
    CHECK_THAT(e.what(), Catch::Contains("no dimension named 'height'; expected one of: batch, length"));
  }
}

TEST_CASE("an open size without a known form is refused with the flag that fixes it") {
  const auto bytes = bytes_of(triangle);
  CHECK_THAT(problem_of(bytes, read(bytes)),
             Catch::Contains("changes with the open sizes") && Catch::Contains("--dim length=SIZE"));
}

TEST_CASE("check_open detects open sizes that are treated as constants") {
  const auto bytes = bytes_of(rows);
  auto model = read(bytes);
  model.open.forms.clear();
  model.open.constants = {model.open.axes[0].size, model.open.axes[1].size};
  CHECK_FALSE(problem_of(bytes, model).empty());
}

TEST_CASE("check_open detects a size-dependent value that is stored as a constant") {
  const auto bytes = bytes_of(mean);
  auto model = read(bytes);
  REQUIRE(model.open.computed.size() == 1);
  model.open.computed.clear();
  CHECK_THAT(problem_of(bytes, model), Catch::Contains("differs"));
}

}  // namespace tests_of_onnx_open
