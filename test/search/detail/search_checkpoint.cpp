// Checkpoints whose checksum fits although their content does not: what remains are the checks of each field.

#include <unity/search/detail/search_checkpoint.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/search/backtracking.hpp>

#include "../../support/cases.hpp"
#include "../../support/message_of.hpp"
#include "../circuit_space.hpp"

namespace tests_of_search_checkpoint {

using namespace unity;
using unity::test::random_circuit_space;

namespace {

constexpr std::string_view magic = "unity search 1\n";
constexpr std::size_t header = magic.size() + sizeof(std::uint64_t);

std::string path_of(const std::string& name) { return std::string{UNITY_TEST_SCRATCH_DIR} + "/" + name; }

backtracking_options options_of(std::uint64_t expansions) {
  backtracking_options o;
  o.alpha = 1.3;
  o.limits.expansions = expansions;
  return o;
}

// The fields of the checkpoint of a short search, without its header.
std::string saved_fields(const std::string& path) {
  auto space = random_circuit_space(6, 14);
  auto o = options_of(20);
  o.checkpoint = path;
  static_cast<void>(backtracking(space, o));
  std::ifstream in{path, std::ios::binary};
  const std::string all{std::istreambuf_iterator<char>{in}, {}};
  REQUIRE(all.size() > header + 1000);
  return all.substr(header);
}

void write_sealed(const std::string& path, std::string_view fields) {
  const auto sum = hash_bytes(fields);
  std::ofstream out{path, std::ios::binary | std::ios::trunc};
  out << magic << std::string_view{reinterpret_cast<const char*>(&sum), sizeof sum} << fields;
}

// The message with which a resumed search refuses the file; "" if it does not.
std::string refusal(const std::string& path) {
  auto space = random_circuit_space(6, 14);
  const auto said =
      unity::test::message_of([&] { static_cast<void>(backtracking.resume(space, path, options_of(40))); });
  CHECK((said.empty() || said.rfind(path + " at byte ", 0) == 0));
  CHECK(said.find('\n') == std::string::npos);
  return said;
}

}  // namespace

TEST_CASE("a sealed search checkpoint with the fields of a search is accepted") {
  const auto path = path_of("sealed.checkpoint");
  write_sealed(path, saved_fields(path));
  CHECK(refusal(path).empty());
  std::filesystem::remove(path);
}

TEST_CASE("a sealed search checkpoint that ends early is refused wherever it ends", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  const auto path = path_of("short.checkpoint");
  const auto fields = saved_fields(path);
  for (std::uint64_t round = 0; round < unity::test::cases(60); ++round) {
    const auto length = round == 0 ? fields.size() - 1 : random.below(fields.size());
    CAPTURE(round, length, fields.size());
    write_sealed(path, std::string_view{fields}.substr(0, length));
    CHECK(refusal(path).find("the end of the file") != std::string::npos);
  }
  std::filesystem::remove(path);
}

TEST_CASE("a sealed search checkpoint whose start is another one is refused") {
  const auto path = path_of("other_start.checkpoint");
  const auto fields = saved_fields(path);
  constexpr auto start = sizeof(fingerprint) + sizeof(cost_value) + sizeof(std::uint64_t);  // state, cost, moves
  for (std::size_t i = 0; i < start; ++i) {
    CAPTURE(i);
    auto other = fields;
    other[i] ^= 1;
    write_sealed(path, other);
    CHECK_THAT(refusal(path), Catch::Contains("a search of another graph, other rules or another cost"));
  }
  std::filesystem::remove(path);
}

TEST_CASE("a sealed search checkpoint with altered fields is refused in one line, or still is a search", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  const auto path = path_of("altered.checkpoint");
  const auto fields = saved_fields(path);
  std::size_t refused = 0;
  for (std::uint64_t round = 0; round < unity::test::cases(150); ++round) {
    CAPTURE(round, random.state());
    auto other = fields;
    for (auto flips = 1 + random.below(3); flips > 0; --flips) {
      other[random.below(other.size())] ^= static_cast<char>(1U << random.below(8));
    }
    write_sealed(path, other);
    refused += refusal(path).empty() ? 0 : 1;
  }
  CHECK(refused > unity::test::cases(150) / 5);
  std::filesystem::remove(path);
}

}  // namespace tests_of_search_checkpoint
