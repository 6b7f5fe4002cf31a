#include <unity/core/mapped_file.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <catch2/catch.hpp>

#include <unity/core/file.hpp>

#include "../support/message_of.hpp"

namespace tests_of_mapped_file {

using namespace unity;

namespace {

const std::filesystem::path folder{UNITY_TEST_SCRATCH_DIR};

std::string_view text_of(const mapped_file& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string complaint_of(const std::filesystem::path& path) {
  return test::message_of([&] { const mapped_file file{path}; });
}

}  // namespace

TEST_CASE("a mapped_file keeps the file's bytes when it is moved or the file is replaced") {
  const auto path = folder / "mapped";
  atomic_write(path, "some bytes");
  mapped_file file{path};
  const auto* const first = file.bytes().data();
  CHECK(text_of(file) == "some bytes");
  const auto moved = std::move(file);
  CHECK(moved.bytes().data() == first);
  atomic_write(path, "others");  // replaces the file of this name
  CHECK(text_of(moved) == "some bytes");
  CHECK(text_of(mapped_file{path}) == "others");
  std::filesystem::remove(path);
}

TEST_CASE("a mapped_file of an empty file has no bytes") {
  const auto path = folder / "mapped_empty";
  atomic_write(path, "");
  CHECK(mapped_file{path}.bytes().empty());
  CHECK(mapped_file{}.bytes().empty());
  std::filesystem::remove(path);
}

TEST_CASE("mapping a directory or a missing file is an error that names it") {
  CHECK(complaint_of(folder) == folder.string() + ": not a regular file; expected a regular file");
  const auto missing = folder / "mapped_missing";
  CHECK(complaint_of(missing) ==
        missing.string() + ": cannot be read (No such file or directory); expected a readable file");
}

TEST_CASE("an atomic_file can be written at arbitrary offsets") {
  const auto path = folder / "written_at";
  atomic_file file{path};
  file.write("ab");
  file.write_at(4, "ef");
  file.write("c");
  file.write_at(0, "A");
  file.commit();
  CHECK(read_file(path) == std::string_view{"Abc\0ef", 6});
  std::filesystem::remove(path);
}

}  // namespace tests_of_mapped_file
