#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/archive.hpp>
#include <unity/core/random.hpp>

#include "../support/message_of.hpp"

namespace tests_of_archive {

using namespace unity;

namespace {

struct point {
  std::int32_t x = 0;
  std::int32_t y = 0;
  friend bool operator==(const point&, const point&) = default;
};

// A path in the scratch folder; its file is removed at construction and at destruction.
struct scratch_file {
  std::string path;
  explicit scratch_file(const std::string& name) : path{std::string{UNITY_TEST_SCRATCH_DIR} + "/" + name} {
    std::filesystem::remove_all(path);
  }
  ~scratch_file() { std::filesystem::remove_all(path); }

  std::string content() const {
    std::ifstream in{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  void write(std::string_view text) const {
    std::ofstream out{path, std::ios::binary | std::ios::trunc};
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
};

std::string refusal(const std::string& path, std::string_view magic) {
  return unity::test::message_of([&] { archive_reader in{path, magic}; });
}

}  // namespace

TEST_CASE("values round-trip through an archive in order; reading past its end is an error") {
  const scratch_file file{"values.archive"};
  archive_writer out;
  out.put(std::uint8_t{7});
  out.put(point{1, -2});
  out.put(std::vector<point>{{3, 4}, {5, 6}});
  out.put(std::vector<std::uint64_t>{});
  out.put(std::vector<std::vector<std::int32_t>>{{1}, {}, {2, 3}});
  out.save(file.path, "kind 1\n");

  archive_reader in{file.path, "kind 1\n"};
  std::uint8_t byte = 0;
  point p;
  std::vector<point> points{{9, 9}};
  std::vector<std::uint64_t> none{1, 2, 3};
  std::vector<std::vector<std::int32_t>> nested;
  in.get(byte);
  in.get(p);
  in.get(points);
  in.get(none);
  in.get(nested);
  CHECK(byte == 7);
  CHECK(p == point{1, -2});
  CHECK(points == std::vector<point>{{3, 4}, {5, 6}});
  CHECK(none.empty());
  CHECK(nested == std::vector<std::vector<std::int32_t>>{{1}, {}, {2, 3}});
  CHECK_THROWS_WITH(in.get(byte),
                    Catch::StartsWith(file.path + " at byte ") && Catch::Contains(": the end of the file; expected"));
}

TEST_CASE("an archive without values can be opened") {
  const scratch_file file{"empty.archive"};
  archive_writer{}.save(file.path, "kind 1\n");
  CHECK_NOTHROW(archive_reader(file.path, "kind 1\n"));
}

TEST_CASE("an archived length beyond the size of the file is an error") {
  const scratch_file file{"length.archive"};
  archive_writer out;
  out.put(std::uint64_t{1} << 60U);
  out.save(file.path, "kind 1\n");
  archive_reader in{file.path, "kind 1\n"};
  std::vector<point> points;
  CHECK_THROWS_WITH(in.get(points), Catch::Contains("a length of 1152921504606846976"));
}

TEST_CASE("a truncated or altered archive is refused", "[law]") {
  const scratch_file file{"damaged.archive"};
  archive_writer out;
  for (std::uint64_t i = 0; i < 10; ++i) {
    out.put(i * i);
  }
  out.save(file.path, "kind 1\n");
  const auto good = file.content();
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    file.write(std::string_view{good}.substr(0, length));
    const auto said = refusal(file.path, "kind 1\n");
    REQUIRE(said.rfind(file.path + ": ", 0) == 0);
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    CAPTURE(i);
    auto bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    file.write(bad);
    REQUIRE_FALSE(refusal(file.path, "kind 1\n").empty());
  }
  file.write(good + "x");
  CHECK(refusal(file.path, "kind 1\n") ==
        file.path + ": a checksum that does not match; expected a file that was neither cut short nor altered");
}

TEST_CASE("an archive that is missing or a directory or of another kind is refused") {
  const scratch_file file{"kind.archive"};
  CHECK_THAT(refusal(file.path, "kind 1\n"), Catch::Contains(file.path) && Catch::Contains("expected a readable file"));
  archive_writer{}.save(file.path, "kind 1\n");
  CHECK(refusal(file.path, "kind 2\n") == file.path + ": another kind of file; expected a checkpoint of this version");
  const scratch_file folder{"folder.archive"};
  std::filesystem::create_directory(folder.path);
  CHECK_THAT(refusal(folder.path, "kind 1\n"), Catch::Contains("is a directory"));
}

}  // namespace tests_of_archive
