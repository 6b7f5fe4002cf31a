#include <unity/io/lux.hpp>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/file.hpp>
#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/generators.hpp>

#include "../gnn/random_graphs.hpp"
#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "../support/small_files.hpp"

namespace tests_of_lux {

using namespace unity;
using namespace std::string_view_literals;

namespace {

const std::filesystem::path path = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "graph.lux";

// Three vertices; 0 has in-edges from 2 and 1, 2 from 0.
constexpr auto small =
    "\3\0\0\0"
    "\3\0\0\0\0\0\0\0"
    "\2\0\0\0\0\0\0\0"
    "\2\0\0\0\0\0\0\0"
    "\3\0\0\0\0\0\0\0"
    "\2\0\0\0\1\0\0\0\0\0\0\0"sv;

std::string complaint_of(std::string_view bytes) {
  auto message = test::message_of([&] { static_cast<void>(io::parse_lux(bytes, "a.lux")); });
  atomic_write(path, bytes);
  const auto mapped = test::message_of([&] { const io::mapped_lux file{path}; });
  CHECK(mapped == (message.empty() ? message : path.string() + message.substr(5)));
  std::filesystem::remove(path);
  return message;
}

std::string with_byte(std::size_t place, char byte) {
  std::string all{small};
  all[place] = byte;
  return all;
}

}  // namespace

TEST_CASE("a small graph is read from and written to the exact bytes of its .lux file") {
  const gnn::csr_graph g{{0, 2, 2, 3}, {2, 1, 0}};
  CHECK(io::parse_lux(small, "a.lux") == g);
  io::write_lux(path, g);
  CHECK(read_file(path) == small);
  CHECK(io::read_lux(path) == g);
  std::filesystem::remove(path);
}

TEST_CASE("a memory-mapped .lux graph equals the read one even after a move") {
  random_engine random{1};
  for (std::uint64_t seed = 0; seed < test::cases(40); ++seed) {
    CAPTURE(seed);
    const auto g = test::random_graph(random, 40, 200);
    io::write_lux(path, g);
    REQUIRE(io::read_lux(path) == g);
    io::mapped_lux mapped{path};
    const auto moved = std::move(mapped);
    REQUIRE(gnn::equal(moved.view(), g));
    const auto bytes = read_file(path);
    io::write_lux(path, moved.view());  // replaces the file of this name
    REQUIRE(read_file(path) == bytes);
  }
  io::write_lux(path, gnn::csr_graph{});
  CHECK(io::mapped_lux{path}.view().vertices() == 0);
  std::filesystem::remove(path);
}

TEST_CASE("a .lux file generated with minimal memory equals the one generated in memory") {
  const gnn::rmat g{13, 60000, 4};
  const gnn::edge_rules rules{true, true, true};
  io::write_lux(path, gnn::generate(g, rules));
  const auto expected = read_file(path);
  CHECK(expected.size() > (std::size_t{1} << 20U) / 4);  // more than one buffer of the writer
  const std::filesystem::path folder{UNITY_TEST_SCRATCH_DIR};
  for (const auto threads : {1UL, 3UL}) {
    io::write_lux(path, g, rules, {.memory = 0, .folder = folder, .threads = threads});
    CHECK(read_file(path) == expected);
  }
  std::filesystem::remove(path);
}

TEST_CASE("an invalid .lux file is refused in one line whether read or mapped") {
  CHECK(complaint_of(small).empty());
  CHECK(complaint_of("\3\0\0\0\3"sv) == "a.lux: 5 bytes; expected numbers of vertices and of edges in the first 12");
  CHECK(complaint_of(small.substr(0, 47)) ==
        "a.lux: 47 bytes; expected 12 and 8 for each of 3 vertices and 4 for each of 3 edges");
  CHECK(complaint_of(with_byte(11, '\x7f')) ==
        "a.lux: 48 bytes; expected 12 and 8 for each of 3 vertices and 4 for each of 9151314442816847875 edges");
  CHECK(complaint_of(with_byte(3, '\x7f')) ==
        "a.lux: 48 bytes; expected 12 and 8 for each of 2130706435 vertices and 4 for each of 3 edges");
  CHECK(complaint_of(with_byte(20, '\1')) ==
        "a.lux: vertex 1 ends at edge 1; expected edge 2, at which it begins, or one behind it");
  CHECK(complaint_of(with_byte(28, '\2')) == "a.lux: the last vertex ends at edge 2; expected the number of edges, 3");
  CHECK(complaint_of(with_byte(40, '\3')) == "a.lux: edge 1 comes from vertex 3; expected a vertex below 3");
}

TEST_CASE("a full disk while writing a .lux file is an error and leaves only the old file") {
  const auto folder = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "full_lux";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto to = folder / "graph.lux";
  atomic_write(to, small);
  {
    const test::small_files full{100'000};
    const auto complaint =
        test::message_of([&] { io::write_lux(to, gnn::erdos_renyi{1000, 50'000, 1}, {}, {.memory = 1 << 30}); });
    CHECK_THAT(complaint, Catch::StartsWith(to.string() + ": "));
    CHECK(complaint.find('\n') == std::string::npos);
  }
  {
    const test::small_files full{4000};  // sorted runs on disk do not fit either
    const gnn::generation_limits limits{.memory = 1, .folder = folder};
    CHECK_THAT(test::message_of([&] { io::write_lux(to, gnn::erdos_renyi{1000, 50'000, 1}, {}, limits); }),
               Catch::StartsWith(folder.string() + ": "));
  }
  CHECK(read_file(to) == small);
  CHECK(std::distance(std::filesystem::directory_iterator{folder}, {}) == 1);
  std::filesystem::remove_all(folder);
}

}  // namespace tests_of_lux
