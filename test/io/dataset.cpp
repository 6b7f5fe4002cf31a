#include <unity/io/dataset.hpp>

#include <sys/wait.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <unity/core/random.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/shape.hpp>

#include "dataset_files.hpp"
#include "sealed_files.hpp"

namespace tests_of_dataset {

namespace fs = std::filesystem;
namespace io = unity::io;
namespace parallel = unity::parallel;
using dataset_files::dataset_of;
using io::dataset_field;
using io::dataset_part;
using io::dataset_reading;
using sealed_files::fresh_folder;
using sealed_files::overwrite;
using unity::tensor::dtype;
using unity::tensor::tensor_type;
using unity::test::message_of;

namespace {

io::stored_tensor array(const std::string& name, const unity::tensor::shape& dims) {
  return {name, "", dtype::uint8, dims};
}

// Images of 3 x 4, 11 for training and 2 for tests. Pixel p of image i has the value 20 i + p; the class is i % 3.
fs::path small_images(const fs::path& folder) {
  std::string samples;
  std::string labels;
  for (int i = 0; i < 11; ++i) {
    labels += static_cast<char>(i % 3);
    for (int p = 0; p < 12; ++p) {
      samples += static_cast<char>(20 * i + p);
    }
  }
  overwrite(folder / "images", dataset_of("images", 3,
                                          {{array("train samples", {11, 3, 4}), samples},
                                           {array("train labels", {11}), labels},
                                           {array("test samples", {2, 3, 4}), samples.substr(0, 24)},
                                           {array("test labels", {2}), labels.substr(0, 2)}}));
  return folder / "images";
}

// Character i of the text is i % 7.
fs::path small_text(const fs::path& folder) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += static_cast<char>(i % 7);
  }
  overwrite(folder / "text",
            dataset_of("text", 7,
                       {{array("train samples", {100}), text}, {array("test samples", {24}), text.substr(0, 24)}}));
  return folder / "text";
}

std::vector<float> filled(const io::dataset& d, dataset_field field, const tensor_type& type, const parallel::box& part,
                          std::int64_t step, const dataset_reading& reading) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.volume() * unity::tensor::size_of(type.element)));
  d.fill(field, type, part, step, reading, bytes);
  std::string text;
  for (const auto b : bytes) {
    text += static_cast<char>(b);
  }
  return io::elements_of<float>({type.element, part.sizes(), text});
}

std::vector<float> batch(const io::dataset& d, dataset_field field, const tensor_type& type, std::int64_t step,
                         const dataset_reading& reading) {
  return filled(d, field, type, parallel::whole(type.dims), step, reading);
}

const tensor_type some_images{.dims = {5, 1, 3, 4}};
const tensor_type some_labels{.element = dtype::int32, .dims = {5}};

}  // namespace

TEST_CASE("each epoch yields every training image once with its label in a new order") {
  const io::dataset d{small_images(fresh_folder("dataset_epoch"))};
  CHECK(d.content() == io::dataset_content::images);
  CHECK(d.classes() == 3);
  CHECK(d.samples(dataset_part::train) == 11);
  CHECK(d.samples(dataset_part::test) == 2);
  CHECK(d.sizes() == unity::tensor::shape{3, 4});
  std::set<std::vector<int>> orders;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    std::vector<int> order;
    for (std::int64_t step = 0; step < 11; ++step) {  // five epochs
      const auto images = batch(d, dataset_field::samples, some_images, step, {dataset_part::train, seed, 0});
      const auto labels = batch(d, dataset_field::labels, some_labels, step, {dataset_part::train, seed, 0});
      for (std::size_t r = 0; r < 5; ++r) {
        const auto sample = static_cast<int>(images[r * 12] * 255 + 0.5F) / 20;
        order.push_back(sample);
        CHECK(labels[r] == static_cast<float>(sample % 3));
        for (std::size_t p = 0; p < 12; ++p) {
          CHECK(images[r * 12 + p] == Approx((20 * sample + static_cast<int>(p)) / 255.0));
        }
      }
    }
    for (auto epoch = order.begin(); epoch != order.end(); epoch += 11) {
      orders.insert(std::vector<int>(epoch, epoch + 11));
      CHECK(std::set<int>(epoch, epoch + 11).size() == 11);
    }
  }
  CHECK(orders.size() == 15);
}

TEST_CASE("training images are shifted by at most the given pixels in all directions") {
  const io::dataset d{small_images(fresh_folder("dataset_shift"))};
  std::set<std::pair<int, int>> moves;
  for (std::int64_t step = 0; step < 60; ++step) {
    const auto still = batch(d, dataset_field::samples, some_images, step, {dataset_part::train, 4, 0});
    const auto moved = batch(d, dataset_field::samples, some_images, step, {dataset_part::train, 4, 1});
    for (std::size_t r = 0; r < 5; ++r) {
      int fitting = 0;
      for (int down = -1; down <= 1; ++down) {
        for (int right = -1; right <= 1; ++right) {
          bool equal = true;
          for (int p = 0; p < 12; ++p) {
            const int y = p / 4 - down;
            const int x = p % 4 - right;
            const bool inside = y >= 0 && y < 3 && x >= 0 && x < 4;
            const auto expected = inside ? still[r * 12 + static_cast<std::size_t>(y * 4 + x)] : 0.0F;
            equal = equal && moved[r * 12 + static_cast<std::size_t>(p)] == expected;
          }
          if (equal) {
            moves.emplace(down, right);
            ++fitting;
          }
        }
      }
      CHECK(fitting == 1);
    }
  }
  CHECK(moves.size() == 9);
}

TEST_CASE("test images come in order and are not shifted") {
  const io::dataset d{small_images(fresh_folder("dataset_test"))};
  for (const std::uint64_t seed : {0U, 9U}) {
    const auto images = batch(d, dataset_field::samples, some_images, 1, {dataset_part::test, seed, 1});
    for (std::size_t r = 0; r < 5; ++r) {
      CHECK(images[r * 12] == Approx(static_cast<double>((5 + r) % 2) * 20 / 255));
    }
  }
}

TEST_CASE("text batches are windows of characters with the next characters as labels") {
  const io::dataset d{small_text(fresh_folder("dataset_text"))};
  CHECK(d.content() == io::dataset_content::text);
  CHECK(d.classes() == 7);
  CHECK(d.samples(dataset_part::train) == 100);
  CHECK(d.sizes().empty());
  const tensor_type tokens{.element = dtype::int64, .dims = {4, 8}};
  std::set<float> starts;
  for (const auto part : {dataset_part::train, dataset_part::test}) {
    for (std::int64_t step = 0; step < 40; ++step) {
      const auto read = batch(d, dataset_field::samples, tokens, step, {part, 6, 0});
      const auto next = batch(d, dataset_field::labels, tokens, step, {part, 6, 0});
      for (std::size_t r = 0; r < 4; ++r) {
        if (part == dataset_part::train) {
          starts.insert(read[r * 8]);
        } else {  // 24 characters hold two windows of 8 that have a next character
          CHECK(read[r * 8] == static_cast<float>((static_cast<std::size_t>(step) * 4 + r) % 2 * 8 % 7));
        }
        for (std::size_t i = 0; i < 8; ++i) {
          CHECK(static_cast<int>(next[r * 8 + i]) == (static_cast<int>(read[r * 8 + i]) + 1) % 7);
          CHECK((i == 0 || read[r * 8 + i] == next[r * 8 + i - 1]));
        }
      }
    }
  }
  CHECK(starts.size() == 7);
  const tensor_type longest{.element = dtype::int32, .dims = {1, 23}};
  CHECK(batch(d, dataset_field::labels, longest, 0, {dataset_part::test, 0, 0}).back() == 23 % 7);
}

TEST_CASE("any part of a batch has the same elements as the whole batch") {
  const auto seed = GENERATE(range(0U, 20U));
  CAPTURE(seed);
  unity::random_engine random{seed};
  const auto folder = fresh_folder("dataset_division");
  const io::dataset images{small_images(folder)};
  const io::dataset text{small_text(folder)};
  const dataset_reading reading{random.below(2) == 0 ? dataset_part::train : dataset_part::test, random(), 1};
  const auto step = random.between(0, 1000);
  const auto rows = random.between(1, 30);
  const auto element = random.below(2) == 0 ? dtype::float32 : dtype::float16;
  const std::vector<std::pair<dataset_field, tensor_type>> cases{
      {dataset_field::samples, {.element = element, .dims = {rows, 1, 3, 4}}},
      {dataset_field::samples, {.element = element, .dims = {rows, 12}}},
      {dataset_field::labels, {.element = dtype::int8, .dims = {rows}}},
      {dataset_field::samples, {.element = dtype::int32, .dims = {rows, 10}}},
      {dataset_field::labels, {.element = dtype::int64, .dims = {rows, 2, 5}}}};
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const auto& [field, type] = cases[c];
    const auto& d = c < 3 ? images : text;
    const auto whole = batch(d, field, type, step, reading);
    for (int i = 0; i < 10; ++i) {
      parallel::box part = parallel::whole(type.dims);
      for (std::size_t k = 0; k < type.rank(); ++k) {
        part.begin[k] = random.between(0, type.dims[k] - 1);
        part.end[k] = random.between(part.begin[k], type.dims[k]);
      }
      const auto found = filled(d, field, type, part, step, reading);
      std::vector<float> expected;
      unity::parallel::for_each_run(type.dims, part, [&](std::int64_t at, std::int64_t, std::int64_t count) {
        expected.insert(expected.end(), whole.begin() + at, whole.begin() + at + count);
      });
      REQUIRE(found == expected);
    }
  }
}

TEST_CASE("input types that a data set cannot fill are refused") {
  const auto folder = fresh_folder("dataset_fits");
  const io::dataset images{small_images(folder)};
  const io::dataset text{small_text(folder)};
  const auto refused = [&](const io::dataset& d, dataset_field field, const tensor_type& type) {
    return message_of([&] { d.expect_fits(field, type); });
  };
  CHECK(refused(images, dataset_field::samples, {.dims = {5, 3, 4}}).empty());
  CHECK(refused(images, dataset_field::samples, {.dims = {5, 3, 3, 4}}) ==
        images.name() + ": does not fill float32[5,3,3,4]; expected floating-point numbers, 12 a row");
  CHECK_FALSE(refused(images, dataset_field::samples, {.element = dtype::int32, .dims = {5, 12}}).empty());
  CHECK_FALSE(refused(images, dataset_field::samples, {}).empty());
  CHECK(refused(images, dataset_field::labels, {.element = dtype::int32, .dims = {5, 2}}).find("integers, one a row") !=
        std::string::npos);
  CHECK(refused(text, dataset_field::samples, {.element = dtype::int32, .dims = {5, 23}}).empty());
  CHECK(refused(text, dataset_field::labels, {.element = dtype::int32, .dims = {5, 24}}).find("less than 24") !=
        std::string::npos);
  CHECK_FALSE(refused(text, dataset_field::samples, {.dims = {5, 8}}).empty());
}

TEST_CASE("corrupt or inconsistent data set files are refused with the reason") {
  const auto path = fresh_folder("dataset_refused") / "d";
  const auto refused = [&](const std::string& content) {
    overwrite(path, content);
    return message_of([&] { io::dataset{path}; });
  };
  const auto tensors = [](std::int64_t samples, std::int64_t labels, std::int64_t height) {
    std::vector<std::pair<io::stored_tensor, std::string>> all;
    for (const std::string part : {"train", "test"}) {
      const auto tall = part == "test" ? height : 2;
      all.push_back({array(part + " samples", {samples, tall, 2}),
                     std::string(static_cast<std::size_t>(samples * tall * 2), '\2')});
      all.push_back({array(part + " labels", {labels}), std::string(static_cast<std::size_t>(labels), '\2')});
    }
    return all;
  };
  const auto good = dataset_of("images", 3, tensors(4, 4, 2));
  CHECK(refused(good).empty());
  CHECK(refused(good.substr(0, good.size() - 1)).find("is cut short at byte") != std::string::npos);
  auto altered = good;
  altered[altered.size() - 20] ^= 1;
  CHECK(refused(altered).find("its checksum is not that of its content") != std::string::npos);
  CHECK(refused("unity weights 1\n" + good.substr(16)) ==
        path.string() + ": another kind of file; expected one that begins with \"unity dataset 1\"");
  CHECK(refused(dataset_of("images", 2, tensors(4, 4, 2))) ==
        path.string() + ": class 2 among train samples; expected less than 2");
  CHECK(refused(dataset_of("images", 3, tensors(4, 3, 2))).find("3 train labels; expected 4") != std::string::npos);
  CHECK(refused(dataset_of("images", 3, tensors(4, 4, 3))).find("of different sizes") != std::string::npos);
  CHECK(refused(dataset_of("sound", 3, tensors(4, 4, 2))).find("header.content: \"sound\"; expected images or text") !=
        std::string::npos);
  CHECK(refused(dataset_of("text", 3, tensors(4, 4, 2))).find("expected train samples of type uint8 and rank 1") !=
        std::string::npos);
  CHECK(refused(dataset_of("images", 3, {})).find("has no train samples") != std::string::npos);
}

namespace {

// The exit status of a script of examples/data, or -1 if it did not exit; its output goes to `log`.
int run_script(const std::string& arguments, const fs::path& log) {
  const auto command = "/usr/bin/env python3 " + std::string{UNITY_TEST_SOURCE_DIR} + "/examples/data/" + arguments +
                       " > " + log.string() + " 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("data set scripts without source files exit with a one-line error and write nothing") {
  const auto folder = fresh_folder("dataset_scripts");
  const auto log = folder / "log";
  if (run_script("make_text.py --help", log) != 0) {
    WARN("left out: there is no python3");
    return;
  }
  for (const std::string script : {"make_glyphs.py", "make_text.py"}) {
    const std::string flag = script == "make_text.py" ? " --from " : " --fonts ";
    CHECK(run_script(script + " " + (folder / "out").string() + flag + folder.string(), log) == 1);
    const auto said = sealed_files::content_of(log);
    CHECK(said.find(folder.string()) != std::string::npos);
    CHECK(said.find("; expected ") != std::string::npos);
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
    CHECK_FALSE(fs::exists(folder / "out"));
  }
}

TEST_CASE("make_glyphs.py makes a reproducible digit data set of the system's console fonts") {
  const auto folder = fresh_folder("dataset_glyphs");
  const char* given = std::getenv("UNITY_CONSOLE_FONTS");
  const fs::path fonts = given != nullptr ? given : "/usr/share/consolefonts";
  if (!fs::is_directory(fonts)) {
    WARN("left out: no " << fonts.string() << "; the package console-setup-linux has it");
    return;
  }
  const auto make = [&](const std::string& name) {
    return run_script("make_glyphs.py " + (folder / name).string() + " --fonts " + fonts.string(), folder / "log");
  };
  REQUIRE(make("a") == 0);
  REQUIRE(make("b") == 0);
  CHECK(sealed_files::content_of(folder / "a") == sealed_files::content_of(folder / "b"));
  const io::dataset d{folder / "a"};
  CHECK(d.classes() == 10);
  CHECK(d.sizes() == unity::tensor::shape{16, 16});
  CHECK(d.samples(dataset_part::train) >= 100);
  CHECK(d.samples(dataset_part::test) >= 30);
  // No image is in both parts, and for nearly all test images the nearest training image has the same class.
  const auto all_of = [&](dataset_part part) {
    const tensor_type type{.dims = {d.samples(part), 256}};
    const tensor_type labels{.element = dtype::int32, .dims = {d.samples(part)}};
    return std::pair{batch(d, dataset_field::samples, type, 0, {part, 0, 0}),
                     batch(d, dataset_field::labels, labels, 0, {part, 0, 0})};
  };
  const auto [train, train_labels] = all_of(dataset_part::train);
  const auto [test, test_labels] = all_of(dataset_part::test);
  std::size_t right = 0;
  for (std::size_t i = 0; i < test_labels.size(); ++i) {
    float nearest = 1e30F;
    float label = -1;
    for (std::size_t j = 0; j < train_labels.size(); ++j) {
      float distance = 0;
      for (std::size_t p = 0; p < 256; ++p) {
        const auto difference = test[i * 256 + p] - train[j * 256 + p];
        distance += difference * difference;
      }
      CHECK(distance > 0);
      if (distance < nearest) {
        nearest = distance;
        label = train_labels[j];
      }
    }
    right += label == test_labels[i] ? 1 : 0;
  }
  CHECK(right * 10 >= test_labels.size() * 9);
}

TEST_CASE("make_text.py makes a text data set of the system's licenses") {
  const auto folder = fresh_folder("dataset_licenses");
  if (!fs::is_directory("/usr/share/common-licenses")) {
    WARN("left out: no /usr/share/common-licenses");
    return;
  }
  REQUIRE(run_script("make_text.py " + (folder / "t").string(), folder / "log") == 0);
  const io::dataset d{folder / "t"};
  CHECK(d.content() == io::dataset_content::text);
  CHECK(d.classes() > 50);
  CHECK(d.classes() < 100);
  CHECK(d.samples(dataset_part::train) > 8 * d.samples(dataset_part::test));
  const tensor_type tokens{.element = dtype::int32, .dims = {4, 64}};
  CHECK(batch(d, dataset_field::samples, tokens, 3, {}) != batch(d, dataset_field::samples, tokens, 4, {}));
}

}  // namespace tests_of_dataset
