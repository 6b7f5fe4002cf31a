// Whatever a checkpoint with a valid checksum contains, a search resumes from it or reports why it cannot.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <unity/core/error.hpp>
#include <unity/search/backtracking.hpp>

#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

namespace {

// Counts down from 100 to 0, by one or by halving.
struct countdown {
  using state_type = std::int64_t;
  using move_type = std::uint32_t;
  struct scratch_type {};

  state_type initial() const { return 100; }
  unity::cost_value cost(state_type s) const { return s; }
  unity::fingerprint fingerprint_of(state_type s) const { return {unity::mix64(static_cast<std::uint64_t>(s)), 1}; }
  std::span<const move_type> moves(state_type) const { return all; }
  void prepare(state_type, scratch_type&) const {}
  std::optional<unity::candidate> price(state_type s, move_type m, scratch_type&) const {
    const auto next = m == 0 ? s - 1 : s / 2;
    return s > 0 ? std::optional{unity::candidate{next, fingerprint_of(next)}} : std::nullopt;
  }
  state_type apply(state_type s, move_type m, scratch_type&, scratch_type&) const { return m == 0 ? s - 1 : s / 2; }

  std::array<move_type, 2> all{0, 1};
};
static_assert(unity::search_space<countdown>);

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static unity::test::memory_file file;
  file.assign(unity::test::archive_of("unity search 1\n", {reinterpret_cast<const char*>(data), size}));
  try {
    countdown space;
    unity::backtracking_options options;
    options.limits.expansions = 200;
    static_cast<void>(unity::backtracking.resume(space, file.path(), options));
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);  // refused: not a checkpoint of this search
  }
  return 0;
}
