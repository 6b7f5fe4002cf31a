#include <unity/core/file.hpp>
#include <unity/io/dot.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

namespace tests_of_svg {

namespace io = unity::io;

namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / ("io_svg_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}
bool only_file(const std::filesystem::path& path) {
  return std::distance(std::filesystem::directory_iterator{path.parent_path()},
                       std::filesystem::directory_iterator{}) == 1 &&
         std::filesystem::exists(path);
}

// Replaces the PATH of this process while it lives.
class search_path {
 public:
  explicit search_path(const std::string& path) : before_{std::getenv("PATH")} { setenv("PATH", path.c_str(), 1); }
  ~search_path() { setenv("PATH", before_.c_str(), 1); }
  search_path(const search_path&) = delete;
  search_path& operator=(const search_path&) = delete;

 private:
  std::string before_;
};

void write_program(const std::filesystem::path& path, const std::string& body) {
  unity::atomic_write(path, "#!/bin/sh\n" + body + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("Graphviz draws an SVG file even under a name with shell characters") {
  if (!io::detail::find_program("dot")) {
    WARN("skipped: no program dot");
    return;
  }
  const auto path = fresh_folder("drawn") / "a $(touch pwned) -o b.svg";
  CHECK(io::write_svg(path, "digraph { a -> b }") == std::nullopt);
  CHECK_THAT(unity::read_file(path), Catch::Contains("<svg") && Catch::Contains("a&#45;&gt;b"));
  CHECK(only_file(path));
}

TEST_CASE("without Graphviz write_svg gives a reason and no file") {
  const auto folder = fresh_folder("absent");
  const search_path nowhere{folder.string()};
  const auto reason = io::write_svg(folder / "a.svg", "digraph {}");
  REQUIRE(reason);
  CHECK_THAT(*reason, Catch::Contains("not installed"));
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("a Graphviz that fails or hangs gives a reason and no file") {
  const auto tools = fresh_folder("tools");
  const auto folder = fresh_folder("failing");
  const search_path only{tools.string() + ":/usr/bin:/bin"};
  write_program(tools / "dot", "exit 3");
  CHECK_THAT(io::write_svg(folder / "a.svg", "digraph {}").value_or(""), Catch::Contains("status 3"));
  write_program(tools / "dot", "exec sleep 60");
  CHECK_THAT(io::write_svg(folder / "a.svg", "digraph {}", std::chrono::milliseconds{100}).value_or(""),
             Catch::Contains("longer than 100 ms"));
  CHECK(std::filesystem::is_empty(folder));
}

}  // namespace tests_of_svg
