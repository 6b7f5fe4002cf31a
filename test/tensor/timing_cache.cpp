#include <unity/tensor/timing_cache.hpp>

#include <catch2/catch.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <unity/core/random.hpp>

#include "random_case.hpp"
#include "testing.hpp"

namespace tests_of_timing_cache {

using namespace unity;
using namespace unity::tensor;

namespace {

// Says how often it was asked: no two answers are equal.
struct counting_timer {
  std::string device = "toy: a counter; counting 1.0";
  std::int64_t asked = 0;
  measurement time(const operation& op, std::span<const tensor_type>, std::span<const tensor_type>) {
    if (op.order == layout::column_major) {
      throw error{"operator", "no kernel", "row-major results"};
    }
    ++asked;
    return {picoseconds{1000 * asked}, picoseconds{1000 * asked - 1}, picoseconds{1000 * asked + 2}, 5 + asked};
  }
  [[nodiscard]] std::string description() const { return device; }
};
static_assert(kernel_timer<counting_timer, tensor::algebra>);
static_assert(kernel_timer<timing_cache<counting_timer>, tensor::algebra>);

const tensor::algebra& operators() { return tensor::test::standard(); }

struct question {
  operation op;
  std::vector<tensor_type> inputs;
};
measurement ask(timing_cache<counting_timer>& cache, const question& q) {
  const auto outputs = operators().infer(q.op, q.inputs);
  REQUIRE(outputs);
  return cache.time(q.op, q.inputs, *outputs);
}
tensor_type type_of(shape dims) { return {dtype::float32, layout::row_major, false, std::move(dims)}; }
question relu_of(std::int64_t size) { return {operators().make_operation("relu"), {type_of({size, 3})}}; }

// A file of this name in a folder that is made for one test.
std::filesystem::path fresh_file(const char* name) {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "timing_cache" / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder / "timings.txt";
}
std::vector<std::string> warnings;
void note(const std::string& line) { warnings.push_back(line); }

TEST_CASE("timing_cache measures each question once and repeats the answer") {
  counting_timer timer;
  timing_cache cache{operators(), timer};
  const auto first = ask(cache, relu_of(4));
  CHECK(first == measurement{picoseconds{1000}, picoseconds{999}, picoseconds{1002}, 6});
  CHECK(ask(cache, relu_of(5)).median == picoseconds{2000});
  CHECK(ask(cache, relu_of(4)) == first);
  CHECK(cache.measured() == 2);
  CHECK(timer.asked == 2);
  CHECK(cache.description() == timer.description());
}

TEST_CASE("timing_cache measures a chain given by text once and stores it in the file") {
  const auto file = fresh_file("chain");
  int asked = 0;
  const auto measure = [&] {
    const picoseconds takes{++asked};
    return measurement{takes, takes, takes, 5};
  };
  counting_timer timer;
  {
    timing_cache cache{operators(), timer, file, note};
    CHECK(cache.time("chain a b", measure).median == picoseconds{1});
    CHECK(cache.time("chain a b", measure).median == picoseconds{1});
    CHECK(cache.time("chain a c", measure).median == picoseconds{2});
    CHECK(cache.measured() == 2);
    CHECK(cache.seconds() > 0);
  }
  timing_cache cache{operators(), timer, file, note};
  CHECK(cache.time("chain a b", measure).median == picoseconds{1});
  CHECK(cache.seconds() == 0);
  CHECK(asked == 2);
}

TEST_CASE("timing_cache measures nothing in a second run with the same file") {
  const auto file = fresh_file("second_run");
  measurement first;
  {
    counting_timer timer;
    timing_cache cache{operators(), timer, file, note};
    first = ask(cache, relu_of(4));
    ask(cache, relu_of(5));
  }
  counting_timer timer;
  timing_cache cache{operators(), timer, file, note};
  CHECK(cache.known() == 2);
  CHECK(ask(cache, relu_of(4)) == first);
  ask(cache, relu_of(5));
  CHECK(cache.measured() == 0);
  CHECK(timer.asked == 0);
  CHECK(warnings.empty());
}

TEST_CASE("timing_cache creates the folder and leaves only its file there") {
  const auto file = fresh_file("folder").parent_path() / "a" / "b" / "timings.txt";
  counting_timer timer;
  timing_cache cache{operators(), timer, file, note};
  ask(cache, relu_of(4));
  cache.save();
  REQUIRE(std::filesystem::exists(file));
  CHECK(std::distance(std::filesystem::directory_iterator{file.parent_path()}, {}) == 1);
}

TEST_CASE("timing_cache replaces timings of another device description after one warning") {
  const auto file = fresh_file("other_device");
  warnings.clear();
  {
    counting_timer timer;
    timing_cache cache{operators(), timer, file, note};
    ask(cache, relu_of(4));
  }
  counting_timer newer{"toy: a counter; counting 1.1", 0};
  {
    timing_cache cache{operators(), newer, file, note};
    ask(cache, relu_of(4));
    CHECK(cache.measured() == 1);
  }
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0],
             Catch::Contains("counting 1.0") && Catch::Contains("counting 1.1") && Catch::Contains(file.string()));
  CHECK(warnings[0].find('\n') == std::string::npos);
  CHECK(parse_timings(read_file(file), "f").description == newer.device);
  timing_cache again{operators(), newer, file, note};
  ask(again, relu_of(4));
  CHECK(again.measured() == 0);
  CHECK(warnings.size() == 1);
}

TEST_CASE("timing_cache replaces a file of format version 1 after one warning") {
  const auto file = fresh_file("first_version");
  warnings.clear();
  counting_timer timer;
  atomic_write(file, "unity timings 1\ndevice " + timer.device + "\n12 3 4 relu() -> float32[4,3]\n");
  {
    timing_cache cache{operators(), timer, file, note};
    CHECK(cache.known() == 0);
    ask(cache, relu_of(4));
  }
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains("an older version"));
  const auto stored = parse_timings(read_file(file), "f");
  CHECK(stored.description == timer.device);
  CHECK(stored.entries.size() == 1);
}

TEST_CASE("timing_cache warns of a malformed file with its line and leaves it unchanged") {
  const auto head = std::string{"unity timings 2\ndevice toy: a counter; counting 1.0\n"};
  const auto [content, place] = GENERATE_COPY(table<std::string, std::string>({
      {"", "line 1"},
      {"ONNX\x08", "line 1"},
      {"unity timings 3\n", "line 1"},
      {"unity timings 2\nrelu\n", "line 2"},
      {head + "12 3 13 4 relu() -> float32[4,3]", "line 3"},
      {head + "12 3 13 relu() -> float32[4,3]\n", "line 3"},
      {head + "12 3 13 4 relu\n0 3 13 4 tanh\n", "line 4"},
      {head + "12 0 13 4 relu\n", "line 3"},
      {head + "12 13 14 4 relu\n", "line 3"},
      {head + "12 3 11 4 relu\n", "line 3"},
      {head + "12 3 13 0 relu\n", "line 3"},
      {head + "99999999999999999999 3 4 4 relu\n", "line 3"},
      {head + "12 3 1000000000000001 4 relu\n", "line 3"},
      {head + "12 3 13 4 \n", "line 3"},
      {head + "12 3 13 4 relu\n13 3 13 4 relu\n", "line 4"},
  }));
  CAPTURE(content);
  const auto file = fresh_file("corrupt");
  atomic_write(file, content);
  warnings.clear();
  {
    counting_timer timer;
    timing_cache cache{operators(), timer, file, note};
    ask(cache, relu_of(4));
    CHECK(cache.measured() == 1);
  }
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains(file.string() + ", " + place));
  CHECK(warnings[0].find('\n') == std::string::npos);
  CHECK(read_file(file) == content);
}

TEST_CASE("timing_cache keeps measurements in memory if its file cannot be written") {
  warnings.clear();
  counting_timer timer;
  const auto below_a_file = fresh_file("unwritable").parent_path() / "file";
  atomic_write(below_a_file, "");
  {
    timing_cache cache{operators(), timer, below_a_file / "timings.txt", note};
    const auto first = ask(cache, relu_of(4));
    cache.save();
    ask(cache, relu_of(5));
    cache.save();
    CHECK(ask(cache, relu_of(4)) == first);
    CHECK(cache.measured() == 2);
  }
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains(below_a_file.string()));
}

TEST_CASE("timing_cache uses a read-only file and leaves it unchanged") {
  const auto file = fresh_file("read_only");
  warnings.clear();
  counting_timer timer;
  {
    timing_cache cache{operators(), timer, file, note};
    ask(cache, relu_of(4));
  }
  const auto content = read_file(file);
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  {
    timing_cache cache{operators(), timer, file, note};
    ask(cache, relu_of(4));
    CHECK(cache.measured() == 0);
    cache.save();
    CHECK(warnings.empty());
    ask(cache, relu_of(5));
    cache.save();
    ask(cache, relu_of(6));
    CHECK(cache.measured() == 2);
  }
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains("read-only"));
  CHECK(read_file(file) == content);
}

TEST_CASE("two timing_caches on one file keep the measurements of both") {
  const auto file = fresh_file("two");
  counting_timer timer;
  {
    timing_cache a{operators(), timer, file, note};
    timing_cache b{operators(), timer, file, note};
    ask(a, relu_of(4));
    ask(b, relu_of(5));
  }
  timing_cache both{operators(), timer, file, note};
  CHECK(both.known() == 2);
}

TEST_CASE("timing_cache throws each time for an operator that cannot run and stores nothing") {
  counting_timer timer;
  timing_cache cache{operators(), timer};
  auto q = relu_of(4);
  const auto outputs = *operators().infer(q.op, q.inputs);
  q.op.order = layout::column_major;
  CHECK_THROWS_AS(cache.time(q.op, q.inputs, outputs), error);
  CHECK_THROWS_AS(cache.time(q.op, q.inputs, outputs), error);
  CHECK(cache.measured() == 0);
  CHECK(cache.known() == 0);
}

TEST_CASE("timing_cache gives several threads equal answers from one measurement each") {
  counting_timer timer;
  timing_cache cache{operators(), timer};
  std::vector<std::vector<measurement>> answers(4);
  std::vector<std::thread> threads;
  for (auto& mine : answers) {
    threads.emplace_back([&] {
      for (std::int64_t size = 1; size <= 50; ++size) {
        const auto q = relu_of(size);
        mine.push_back(cache.time(q.op, q.inputs, q.inputs));
      }
    });
  }
  for (auto& t : threads) {
    t.join();
  }
  CHECK(cache.measured() == 50);
  CHECK(std::all_of(answers.begin(), answers.end(), [&](const auto& a) { return a == answers[0]; }));
}

TEST_CASE("timing_cache takes equivalent conv2d paddings as one question") {
  counting_timer timer;
  timing_cache cache{operators(), timer};
  const std::vector<tensor_type> conv_inputs{type_of({1, 8, 13, 12}), type_of({4, 8, 3, 3})};
  const auto conv = [&](const char* padding, std::vector<std::int64_t> pads, std::int64_t stride) {
    const auto op = operators().make_operation(
        "conv2d", {{"stride", {stride, stride}}, {"padding", padding}, {"pads", {pads[0], pads[1], pads[2], pads[3]}}});
    const auto outputs = operators().infer(op, conv_inputs);
    REQUIRE(outputs);
    CHECK(operators().infer(timed_operation(operators(), op, conv_inputs), conv_inputs) == outputs);
    static_cast<void>(cache.time(op, conv_inputs, *outputs));
  };
  conv("same", {0, 0, 0, 0}, 1);
  conv("explicit", {1, 1, 1, 1}, 1);
  conv("same_lower", {0, 0, 0, 0}, 1);
  CHECK(cache.measured() == 1);
  conv("valid", {0, 0, 0, 0}, 1);
  conv("explicit", {0, 0, 0, 0}, 1);
  CHECK(cache.measured() == 2);
  conv("same", {0, 0, 0, 0}, 2);  // of 12 columns in twos, one is padded, behind
  conv("explicit", {1, 0, 1, 1}, 2);
  CHECK(cache.measured() == 3);
  conv("same_lower", {0, 0, 0, 0}, 2);
  CHECK(cache.measured() == 4);
}

TEST_CASE("signature_text shows attributes and types with layout and constness") {
  const auto matmul = operators().make_operation("matmul", {{"activation", "relu"}});
  auto weight = type_of({3, 5});
  weight.constant = true;
  weight.order = layout::column_major;
  const std::vector<tensor_type> inputs{type_of({2, 3}), weight};
  CHECK(signature_text(operators(), matmul, inputs, *operators().infer(matmul, inputs)) ==
        "matmul{activation=relu}(float32[2,3], float32[3,5] column_major constant) -> float32[2,5]");
}

TEST_CASE("signature_text is unique per question and survives a round trip through the file") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  std::map<std::string, tensor::detail::timing_question> met;
  timing_table table{"toy", {}};
  tensor::test::case_maker make{random};
  std::size_t questions = 0;
  for (int round = 0; round < 20; ++round) {
    for (const auto& [name, maker] : tensor::test::cases()) {
      auto c = maker(make);
      for (auto& t : c.inputs) {
        t.constant = random.below(2) == 0;
      }
      const auto outputs = operators().infer(c.op, c.inputs);
      if (!outputs) {
        continue;
      }
      ++questions;
      const auto text = signature_text(operators(), c.op, c.inputs, *outputs);
      REQUIRE(text.find('\n') == std::string::npos);
      const tensor::detail::timing_question q{c.op, c.inputs, *outputs};
      const auto [known, is_new] = met.emplace(text, q);
      REQUIRE(known->second == q);
      const auto low = random.between(1, 1'000'000'000'000);
      const auto median = low + random.between(0, 1'000'000);
      const auto high = median + random.between(0, 1'000'000);
      table.entries.emplace(text, measurement{picoseconds{median}, picoseconds{low}, picoseconds{high},
                                              random.between(1, 200)});
    }
  }
  CHECK(questions > 100);
  CHECK(parse_timings(timings_text(table), "f") == table);
}

}  // namespace

}  // namespace tests_of_timing_cache
