// Reference for messages between devices: looks at all pairs of tasks and at every box sent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/printable.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/lowering/messages.hpp>

namespace unity::parallel::test {

// A message from the task that wrote elements to a device whose tasks read them.
struct slow_message {
  std::uint32_t producer = 0;  // task number
  hardware::device_id to{};
  std::int64_t elements = 0;
  std::vector<std::uint32_t> consumers{};  // its tasks that read some of the elements, ascending
  std::vector<box> parts{};                // disjoint

  friend bool operator==(const slow_message&, const slow_message&) = default;
};

struct slow_messages {
  std::vector<local_use> local{};
  std::vector<slow_message> messages{};

  friend bool operator==(const slow_messages&, const slow_messages&) = default;
};

[[nodiscard]] inline slow_messages slow_messages_of(std::span<const box> written,
                                                    std::span<const hardware::device_id> from,
                                                    std::span<const box> read,
                                                    std::span<const hardware::device_id> to) {
  UNITY_EXPECTS(written.size() == from.size() && read.size() == to.size(), "a device per task");
  slow_messages all;
  std::vector<std::size_t> sent;  // indices of this producer's messages
  std::vector<box> rest;
  std::vector<box> left;
  for (std::uint32_t p = 0; p < written.size(); ++p) {
    sent.clear();
    for (std::uint32_t c = 0; c < read.size(); ++c) {
      const auto common = intersection(written[p], read[c]);
      if (common.empty()) {
        continue;
      }
      if (from[p] == to[c]) {
        all.local.push_back({p, c});
        continue;
      }
      rest.assign(1, common);
      for (const auto m : sent) {
        auto& before = all.messages[m];
        if (before.to != to[c]) {
          continue;
        }
        bool reads = false;
        for (const auto& part : before.parts) {
          reads = reads || !intersection(part, common).empty();
          left.clear();
          for (const auto& b : rest) {
            subtract(b, part, left);
          }
          rest.swap(left);
        }
        if (reads) {
          before.consumers.push_back(c);
        }
      }
      if (!rest.empty()) {
        slow_message m{p, to[c], 0, {c}, rest};
        for (const auto& b : rest) {
          m.elements += b.volume();
        }
        sent.push_back(all.messages.size());
        all.messages.push_back(std::move(m));
      }
    }
  }
  return all;
}

}  // namespace unity::parallel::test
