#include <unity/learn/estimator_file.hpp>

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/file.hpp>
#include <unity/io/sealed_file.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/learn/kernel_features.hpp>

#include "../support/message_of.hpp"
#include "synthetic_kernels.hpp"

namespace tests_of_estimator_file {

using namespace unity;
using learn::attention_estimator;

namespace {

// A path at which neither a file nor its predecessor exists.
std::filesystem::path scratch(const std::string& name) {
  const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / ("learn_estimator_" + name);
  std::filesystem::remove(file);
  std::filesystem::remove(io::previous_of(file));
  return file;
}

attention_estimator some_estimator() {
  attention_estimator e{.shape = {8, 2, 2}, .own_times = false, .offset = 0.1F};
  random_engine random{3};
  for (std::size_t i = 0; i < learn::weight_count(e.shape); ++i) {
    e.weights.push_back(static_cast<float>(random.unit() - 0.5));
  }
  for (std::size_t c = 0; c < learn::part_features; ++c) {
    e.scaling.means[c] = static_cast<float>(random.unit());
    e.scaling.scales[c] = static_cast<float>(random.unit());
  }
  return e;
}

// The reader's error message. Deletes the file, so every file that remains is valid.
std::string read_message(const std::filesystem::path& file) {
  const auto m = test::message_of([&] { static_cast<void>(learn::read_estimator(file)); });
  std::filesystem::remove(file);
  CHECK(m.find('\n') == std::string::npos);
  return m.substr(m.find(": ") + 2);
}

}  // namespace

TEST_CASE("an estimator survives a file round trip") {
  const auto file = scratch("whole");
  const auto e = some_estimator();
  learn::write_estimator(file, e);
  const auto back = learn::read_estimator(file);
  CHECK(back == e);
  for (const auto& s : test::synthetic_kernels{4}.next(20)) {
    CHECK(back(s.kernel) == e(s.kernel));
  }
  CHECK_FALSE(std::filesystem::exists(file.string() + ".partial"));
}

TEST_CASE("an estimator file of another version or cut short is refused in one line") {
  const auto file = scratch("damaged");
  learn::write_estimator(file, some_estimator());
  const auto text = read_file(file);
  auto later = text;
  later[14] = '2';
  atomic_write(file, later);
  CHECK(read_message(file) == "another version; expected \"unity learned 1\"");
  atomic_write(file, text.substr(0, text.size() - 1));
  CHECK(read_message(file).starts_with("is cut short at byte "));
}

TEST_CASE("an estimator file with invalid weights or shape or offset is refused") {
  const auto file = scratch("odd");
  auto e = some_estimator();
  e.weights.pop_back();
  learn::write_estimator(file, e);
  CHECK(read_message(file).starts_with(std::to_string(e.weights.size()) + " weights; expected "));
  e = some_estimator();
  e.weights[3] = std::numeric_limits<float>::quiet_NaN();
  learn::write_estimator(file, e);
  CHECK(read_message(file).find("finite numbers") != std::string::npos);
  e = some_estimator();
  e.shape.heads = 3;
  learn::write_estimator(file, e);
  CHECK(read_message(file).starts_with("3 heads, 8 hidden numbers, 2 layers; expected "));
  e = some_estimator();
  e.offset = std::numeric_limits<float>::infinity();
  learn::write_estimator(file, e);
  CHECK(read_message(file).ends_with("offset: is null; expected a number"));
}

TEST_CASE("an estimator file with other features is refused") {
  const auto file = scratch("features");
  io::sealed_tensors_writer{}.write(file, learn::estimator_line, {{"features", {"elementwise", "colour"}}});
  CHECK(read_message(file).starts_with("has learned from other features; expected those of this version"));
}

}  // namespace tests_of_estimator_file
