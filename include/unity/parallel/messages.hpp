// What devices send each other so that every task has what it reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>

namespace unity::parallel {

// From the task that wrote elements to a device where tasks read them.
struct message {
  std::uint32_t producer = 0;  // a task
  machine::device_id to{};
  std::int64_t elements = 0;
  std::vector<std::uint32_t> consumers{};  // tasks there that read some of them, ascending
  std::vector<box> parts{};                // disjoint

  friend bool operator==(const message&, const message&) = default;
};

// Tasks on one device, of which the second reads what the first wrote.
struct local_use {
  std::uint32_t producer = 0;
  std::uint32_t consumer = 0;

  friend bool operator==(const local_use&, const local_use&) = default;
};

struct edge_messages {
  std::vector<local_use> local{};
  std::vector<message> messages{};

  friend bool operator==(const edge_messages&, const edge_messages&) = default;
};

// What one use of a value needs. `written` and `read`: the box of each task, in order of tasks; those written are
// disjoint. An element goes to a device once, however many tasks read it there; all from one task to one device is one
// message, but what a later task reads beyond that is another.
// Complexity: O(producers * consumers), besides what tasks of one device share.
// Source: Jia's dissertation (2020), section 3.4.1, step 2.
[[nodiscard]] inline edge_messages messages_of(std::span<const box> written, std::span<const machine::device_id> from,
                                               std::span<const box> read, std::span<const machine::device_id> to) {
  UNITY_EXPECTS(written.size() == from.size() && read.size() == to.size(), "a device per task");
  edge_messages all;
  std::vector<std::size_t> sent;  // messages of this producer
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
        message m{p, to[c], 0, {c}, rest};
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

}  // namespace unity::parallel
