#include <unity/core/file.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>

#include "../support/message_of.hpp"
#include "../support/small_files.hpp"

namespace tests_of_file {

namespace {

using unity::test::message_of;
using unity::test::small_files;

namespace fs = std::filesystem;

fs::path fresh_folder(const std::string& name) {
  const auto folder = fs::path{UNITY_TEST_SCRATCH_DIR} / ("io_file_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}
std::size_t file_count(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}));
}

}  // namespace

TEST_CASE("atomic_write and read_file round-trip a file whole and in part") {
  const auto folder = fresh_folder("whole");
  const std::string bytes("\0binary\nbytes", 13);
  unity::atomic_write(folder / "a", "old");
  unity::atomic_write(folder / "a", bytes);
  CHECK(unity::read_file(folder / "a") == bytes);
  CHECK(unity::read_file(folder / "a", 1, 6) == "binary");
  CHECK(unity::read_file(folder / "a", 8) == "bytes");
  CHECK(unity::read_file(folder / "a", 13).empty());
  CHECK(file_count(folder) == 1);
}

TEST_CASE("read_file of a range beyond the end of the file is an error that states the end") {
  const auto folder = fresh_folder("range");
  unity::atomic_write(folder / "a", "12345");
  const auto message = message_of([&] { (void)unity::read_file(folder / "a", 2, 4); });
  CHECK_THAT(message, Catch::Contains((folder / "a").string()) && Catch::Contains("ends at byte 5"));
  CHECK_FALSE(message_of([&] { (void)unity::read_file(folder / "a", 6); }).empty());
}

TEST_CASE("read_file names an unreadable file and the reason") {
  const auto folder = fresh_folder("missing");
  CHECK_THAT(message_of([&] { (void)unity::read_file(folder / "none"); }),
             Catch::Contains((folder / "none").string()) && Catch::Contains("No such file"));
  CHECK_THAT(message_of([&] { (void)unity::read_file(folder); }), Catch::Contains("is a directory"));
}

TEST_CASE("atomic_write into a missing folder is an error and creates nothing") {
  const auto folder = fresh_folder("nowhere");
  CHECK_THAT(message_of([&] { unity::atomic_write(folder / "no" / "a", "x"); }),
             Catch::Contains("cannot be created") && Catch::Contains((folder / "no" / "a").string()));
  CHECK(file_count(folder) == 0);
}

TEST_CASE("atomic_write to a full disk is an error and keeps the old file") {
  const auto folder = fresh_folder("full");
  unity::atomic_write(folder / "a", "old");
  std::string message;
  {
    const small_files limit{4096};
    message = message_of([&] { unity::atomic_write(folder / "a", std::string(100000, 'x')); });
  }
  CHECK_THAT(message, Catch::Contains("cannot be written"));
  CHECK(unity::read_file(folder / "a") == "old");
  CHECK(file_count(folder) == 1);
}

TEST_CASE("atomic_write to a full device is an error and does not replace the device") {
  if (!fs::exists("/dev/full")) {
    WARN("skipped: no /dev/full here");
    return;
  }
  CHECK_THAT(message_of([] { unity::atomic_write("/dev/full", "x"); }), Catch::Contains("No space left"));
  CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("atomic_write to a descriptor of the process writes after what is there") {
  const auto folder = fresh_folder("descriptor");
  const unity::file_descriptor out{::open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  REQUIRE(::write(out.get(), "first ", 6) == 6);
  fs::create_symlink("/dev/fd/" + std::to_string(out.get()), folder / "link");
  unity::atomic_write("/dev/fd/" + std::to_string(out.get()), "second ");
  unity::atomic_write(folder / "link", "third ");
  REQUIRE(::write(out.get(), "fourth", 6) == 6);
  CHECK(unity::read_file(folder / "out") == "first second third fourth");
  CHECK_THROWS_WITH(unity::atomic_write("/dev/fd/999", ""), Catch::Contains("/dev/fd/999"));
}

TEST_CASE("an atomic_file without commit leaves no file") {
  const auto folder = fresh_folder("given_up");
  {
    unity::atomic_file file{folder / "a"};
    file.write("half");
  }
  CHECK(file_count(folder) == 0);
}

TEST_CASE("atomic_write through a symbolic link replaces the link's target") {
  const auto folder = fresh_folder("link");
  unity::atomic_write(folder / "real", "old");
  fs::create_symlink("real", folder / "link");
  unity::atomic_write(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(unity::read_file(folder / "real") == "new");
}

TEST_CASE("atomic_write through a symbolic link to nothing makes the link's target") {
  const auto folder = fresh_folder("dangling");
  fs::create_directories(folder / "far");
  fs::create_symlink("far/real", folder / "link");
  fs::create_symlink(fs::absolute(folder / "link"), folder / "link to link");
  unity::atomic_write(folder / "link to link", "new");
  CHECK(fs::is_symlink(folder / "link to link"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(unity::read_file(folder / "far" / "real") == "new");
  CHECK(file_count(folder / "far") == 1);
}

TEST_CASE("atomic_write overwrites and removes the partial file of a killed process") {
  const auto folder = fresh_folder("killed");
  unity::atomic_write(folder / "a.partial0", "half of something longer");
  unity::atomic_write(folder / "a", "new");
  CHECK(unity::read_file(folder / "a") == "new");
  CHECK(file_count(folder) == 1);
}

TEST_CASE("atomic_write and name_beside accept file names of up to 255 bytes") {
  const auto folder = fresh_folder("long");
  for (const std::size_t length : {246U, 247U, 255U}) {
    const auto path = folder / std::string(length, 'n');
    unity::atomic_write(path, "content");
    CHECK(unity::read_file(path) == "content");
    CHECK(unity::name_beside(path, ".unity-before") != path);
    CHECK(unity::name_beside(path, ".unity-before").parent_path() == folder);
    CHECK(unity::name_beside(path, ".unity-before").filename().string().size() <= 255);
  }
  CHECK(file_count(folder) == 3);
  CHECK(unity::name_beside("a", ".partial0") == "a.partial0");
}

TEST_CASE("atomic_write to a directory is an error") {
  const auto folder = fresh_folder("folder");
  CHECK_THROWS_WITH(unity::atomic_write(folder, "text"), Catch::Contains("is a directory"));
}

TEST_CASE("interleaved atomic_files of one path do not disturb each other") {
  const auto folder = fresh_folder("two");
  unity::atomic_file first{folder / "a"};
  unity::atomic_file second{folder / "a"};
  first.write("first");
  second.write("second");
  first.commit();
  CHECK(unity::read_file(folder / "a") == "first");
  unity::atomic_file third{folder / "a"};
  third.write("third");
  second.commit();
  CHECK(unity::read_file(folder / "a") == "second");
  third.commit();
  CHECK(unity::read_file(folder / "a") == "third");
  CHECK(file_count(folder) == 1);
}

TEST_CASE("atomic_write keeps the mode of an existing file; a new file follows the umask") {
  const auto folder = fresh_folder("mode");
  const auto mode_of = [](const fs::path& path) { return static_cast<unsigned>(fs::status(path).permissions()); };
  const auto before = ::umask(027);
  unity::atomic_write(folder / "a", "new");
  CHECK(mode_of(folder / "a") == 0640);
  for (const unsigned mode : {0600U, 0755U, 0666U}) {
    fs::permissions(folder / "a", static_cast<fs::perms>(mode));
    unity::atomic_write(folder / "a", "again");
    CHECK(mode_of(folder / "a") == mode);
  }
  ::umask(before);
}

TEST_CASE("atomic_write over the partial file of a killed process follows the umask") {
  const auto folder = fresh_folder("leftover");
  for (const mode_t left : {0644U, 0400U, 0000U}) {
    CAPTURE(left);
    unity::atomic_write(folder / "a.partial0", "half");
    REQUIRE(::chmod((folder / "a.partial0").c_str(), left) == 0);
    const auto previous = ::umask(0077);
    unity::atomic_write(folder / "a", "private");
    ::umask(previous);
    struct stat status {};
    REQUIRE(::stat((folder / "a").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777U) == 0600U);
    CHECK(unity::read_file(folder / "a") == "private");
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
}

TEST_CASE("read_file reads files of /proc whose size is given as 0") {
  CHECK(unity::read_file("/proc/self/status").size() > 10);
}

TEST_CASE("read_file refuses devices and content above the size limit") {
  const auto folder = fresh_folder("large");
  CHECK(message_of([] { (void)unity::read_file("/dev/zero"); }) == "/dev/zero: is a device; expected a readable file");
  CHECK(unity::read_file("/dev/null").empty());
  unity::atomic_write(folder / "a", "four");
  CHECK(unity::read_file(folder / "a", 0, unity::to_end, 4) == "four");
  CHECK(unity::read_file(folder / "a", 1, unity::to_end, 3) == "our");
  CHECK(message_of([&] { (void)unity::read_file(folder / "a", 0, unity::to_end, 3); }) ==
        (folder / "a").string() + ": has more than 3 bytes; expected a smaller file");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  std::jthread writer{[&] { unity::atomic_write(folder / "pipe", "much too much"); }};
  CHECK(message_of([&] { (void)unity::read_file(folder / "pipe", 0, unity::to_end, 3); }) ==
        (folder / "pipe").string() + ": has more than 3 bytes; expected a smaller file");
}

}  // namespace tests_of_file
