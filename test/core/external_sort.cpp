#include <unity/core/external_sort.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>

#include "../support/message_of.hpp"
#include "../support/small_files.hpp"

namespace tests_of_external_sort {

using namespace unity;

namespace {

using sorter = external_sorter<std::uint64_t, std::less<>>;

struct scratch_folder {
  std::filesystem::path path{std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "external_sort"};
  scratch_folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~scratch_folder() { std::filesystem::remove_all(path); }
};

std::vector<std::uint64_t> drained(sorter& s) {
  std::vector<std::uint64_t> all;
  s.drain([&](std::uint64_t v) { all.push_back(v); });
  return all;
}

}  // namespace

TEST_CASE("external sort returns elements in order for sizes below and above its memory") {
  const scratch_folder folder;
  // A sorter holds at least 1,024 elements in memory.
  const auto count = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{1023}, std::size_t{1024}, std::size_t{1025},
                              std::size_t{2048}, std::size_t{50000});
  const auto memory = GENERATE(std::size_t{0}, std::size_t{16384}, std::size_t{1} << 20U);
  const auto seed = std::uint64_t{count};
  CAPTURE(seed, memory);
  random_engine random{seed};
  sorter s{{}, memory, folder.path};
  std::vector<std::uint64_t> expected;
  for (std::size_t i = 0; i < count; ++i) {
    expected.push_back(random() << 17U | i);
    s.push(expected.back());
  }
  std::sort(expected.begin(), expected.end());
  CHECK(s.size() == count);
  CHECK((s.runs() > 0) == (count >= std::max<std::size_t>(1024, memory / 8)));
  CHECK(std::filesystem::is_empty(folder.path));  // runs are files without a name
  CHECK(drained(s) == expected);
  CHECK(s.size() == 0);
  CHECK(s.runs() == 0);
}

TEST_CASE("an external sorter keeps few files open for many runs") {
  const scratch_folder folder;
  sorter s{{}, 0, folder.path};
  std::vector<std::uint64_t> expected;
  random_engine random{7};
  for (std::size_t i = 0; i < 1100 * 1024; ++i) {
    expected.push_back(random());
    s.push(expected.back());
  }
  CHECK(s.size() == expected.size());
  CHECK(s.runs() == 4 + 1100 - 4 * 256);
  std::sort(expected.begin(), expected.end());
  CHECK(drained(s) == expected);
}

TEST_CASE("a drained external sorter can be filled again") {
  const scratch_folder folder;
  sorter s{{}, 0, folder.path};
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 3000; i-- > 0;) {
      s.push(i);
    }
    const auto all = drained(s);
    REQUIRE(all.size() == 3000);
    CHECK(std::is_sorted(all.begin(), all.end()));
  }
  CHECK(drained(s).empty());
}

TEST_CASE("an external sorter needs its folder only to spill and its error names the folder") {
  const scratch_folder folder;
  const auto missing = folder.path / "missing";
  sorter s{{}, 0, missing};
  for (std::uint64_t i = 0; i < 1023; ++i) {
    s.push(i);
  }
  CHECK_THROWS_WITH(s.push(1023), Catch::StartsWith(missing.string() + ": ") &&
                                      Catch::EndsWith("; expected a folder that files can be written to"));
}

TEST_CASE("external sort reports a full disk as an error and leaves no files") {
  const scratch_folder folder;
  sorter s{{}, 0, folder.path};
  const test::small_files full{1000};
  CHECK_THAT(test::message_of([&] {
               for (std::uint64_t i = 0; i < 10'000; ++i) {
                 s.push(i);
               }
             }),
             Catch::Contains(folder.path.string()));
  CHECK(std::filesystem::is_empty(folder.path));
}

}  // namespace tests_of_external_sort
