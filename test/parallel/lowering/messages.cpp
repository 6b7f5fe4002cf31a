#include <unity/parallel/lowering/messages.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <unity/core/random.hpp>

#include "../elements.hpp"
#include "../slow_messages.hpp"

namespace tests_of_messages {

using namespace unity;
using hardware::device_id;
using parallel::box;
using parallel::local_use;

namespace {

constexpr std::size_t devices = 4;

std::vector<device_id> on(std::initializer_list<std::size_t> numbers) {
  std::vector<device_id> all;
  for (const auto n : numbers) {
    all.push_back(device_id{n});
  }
  return all;
}

// Equal parts along each dimension, in row-major order.
std::vector<box> parts(const tensor::shape& dims, std::int64_t rows, std::int64_t columns) {
  std::vector<box> all;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto height = dims[0] / rows;
      const auto width = dims[1] / columns;
      all.push_back({{r * height, c * width}, {(r + 1) * height, (c + 1) * width}});
    }
  }
  return all;
}

// The messages and boxes of the slow reference; requires that the library finds the same.
parallel::test::slow_messages messages_of(const std::vector<box>& written, const std::vector<device_id>& from,
                                          const std::vector<box>& read, const std::vector<device_id>& to) {
  auto slow = parallel::test::slow_messages_of(written, from, read, to);
  parallel::message_finder find;
  for (int i = 0; i < 2; ++i) {
    const auto common = [&](std::uint32_t p, std::uint32_t c) { return intersection(written[p], read[c]); };
    const auto& fast = find.run(parallel::overlaps_of(written, read), from, to, common);
    REQUIRE(fast.local == slow.local);
    REQUIRE(fast.messages.size() == slow.messages.size());
    for (std::size_t m = 0; m < slow.messages.size(); ++m) {
      const auto& x = fast.messages[m];
      const auto consumers = fast.consumers_of(x);
      REQUIRE(x.producer == slow.messages[m].producer);
      REQUIRE(x.to == slow.messages[m].to);
      REQUIRE(x.elements == slow.messages[m].elements);
      REQUIRE(std::vector<std::uint32_t>(consumers.begin(), consumers.end()) == slow.messages[m].consumers);
    }
  }
  return slow;
}

}  // namespace

TEST_CASE("a task that reads what its device wrote needs no message") {
  const auto rows = parts({4, 6}, 2, 1);
  const auto m = messages_of(rows, on({0, 1}), rows, on({0, 1}));
  CHECK(m.messages.empty());
  CHECK(m.local == std::vector<local_use>{{0, 0}, {1, 1}});
}

TEST_CASE("redistributing rows to columns on two devices exchanges quarters of the tensor") {
  const auto m = messages_of(parts({4, 6}, 2, 1), on({0, 1}), parts({4, 6}, 1, 2), on({0, 1}));
  REQUIRE(m.messages.size() == 2);
  CHECK(m.messages[0] == parallel::test::slow_message{0, device_id{1U}, 6, {1}, {{{0, 3}, {2, 6}}}});
  CHECK(m.messages[1] == parallel::test::slow_message{1, device_id{0U}, 6, {0}, {{{2, 0}, {4, 3}}}});
}

TEST_CASE("tasks of one device that read the same box receive it in one message") {
  const box all{{0, 0}, {4, 6}};
  const auto m = messages_of({all}, on({0}), {all, all, all}, on({1, 1, 2}));
  REQUIRE(m.messages.size() == 2);
  CHECK(m.messages[0].consumers == std::vector<std::uint32_t>{0, 1});
  CHECK(m.messages[1].consumers == std::vector<std::uint32_t>{2});
}

TEST_CASE("messages bring each element that a device reads and lacks exactly once") {
  const std::uint64_t seed = 5;
  INFO("seed " << seed);
  random_engine random{seed};
  const tensor::shape dims{4, 6};
  const auto any_device = [&] { return device_id{static_cast<std::size_t>(random.below(devices))}; };
  for (int i = 0; i < 300; ++i) {
    const std::int64_t divisors[] = {1, 2};
    const auto written = parts(dims, divisors[random.below(2)], divisors[random.below(2)]);
    std::vector<device_id> from;
    for (std::size_t k = 0; k < written.size(); ++k) {
      from.push_back(any_device());
    }
    std::vector<box> read;
    std::vector<device_id> to;
    for (auto n = random.below(5) + 1; n-- > 0;) {
      read.push_back(parallel::test::random_box(random, dims));
      to.push_back(any_device());
    }
    const auto m = messages_of(written, from, read, to);
    for (std::size_t d = 0; d < devices; ++d) {
      std::vector<box> here;
      std::vector<box> needed;
      std::vector<box> arriving;
      for (std::size_t k = 0; k < written.size(); ++k) {
        if (from[k].index() == d) {
          here.push_back(written[k]);
        }
      }
      for (std::size_t k = 0; k < read.size(); ++k) {
        if (to[k].index() == d) {
          needed.push_back(read[k]);
        }
      }
      for (const auto& x : m.messages) {
        REQUIRE(from[x.producer] != x.to);
        std::int64_t volume = 0;
        for (const auto& b : x.parts) {
          REQUIRE(intersection(b, written[x.producer]) == b);
          volume += b.volume();
        }
        REQUIRE(volume == x.elements);
        REQUIRE(volume > 0);
        if (x.to.index() == d) {
          arriving.insert(arriving.end(), x.parts.begin(), x.parts.end());
        }
      }
      const auto held = parallel::test::counts(here, dims);
      const auto wanted = parallel::test::counts(needed, dims);
      const auto arrives = parallel::test::counts(arriving, dims);
      for (std::size_t e = 0; e < held.size(); ++e) {
        REQUIRE(arrives[e] == (wanted[e] > 0 && held[e] == 0 ? 1 : 0));
      }
    }
    // Every reader must wait for all messages that carry elements it reads.
    for (std::uint32_t c = 0; c < read.size(); ++c) {
      for (const auto& x : m.messages) {
        const bool reads = x.to == to[c] && std::any_of(x.parts.begin(), x.parts.end(), [&](const box& b) {
                             return !intersection(b, read[c]).empty();
                           });
        REQUIRE(reads == (std::find(x.consumers.begin(), x.consumers.end(), c) != x.consumers.end()));
      }
      for (std::uint32_t p = 0; p < written.size(); ++p) {
        const bool reads = from[p] == to[c] && !intersection(written[p], read[c]).empty();
        REQUIRE(reads == (std::find(m.local.begin(), m.local.end(), local_use{p, c}) != m.local.end()));
      }
    }
  }
}

TEST_CASE("overlaps_of finds all overlapping pairs of boxes even if the grid has holes") {
  const std::uint64_t seed = 11;
  INFO("seed " << seed);
  random_engine random{seed};
  const tensor::shape dims{4, 6};
  for (int i = 0; i < 300; ++i) {
    auto written = parts(dims, random.below(2) == 0 ? 2 : 4, random.below(2) == 0 ? 1 : 3);
    for (std::size_t k = 0; k + 1 < written.size(); ++k) {
      std::swap(written[k], written[k + random.below(written.size() - k)]);
    }
    if (random.below(2) == 0) {
      written.pop_back();  // leaves a hole
    }
    std::vector<box> read;
    for (auto n = random.below(5); n-- > 0;) {
      read.push_back(parallel::test::random_box(random, dims));
    }
    std::vector<parallel::overlap> expected;
    for (std::uint32_t p = 0; p < written.size(); ++p) {
      for (std::uint32_t c = 0; c < read.size(); ++c) {
        const auto common = intersection(written[p], read[c]);
        if (!common.empty()) {
          expected.push_back({p, c, common.volume()});
        }
      }
    }
    REQUIRE(parallel::overlaps_of(written, read) == expected);
  }
}

}  // namespace tests_of_messages
