// Matches events of different ranks: the two ends of a message, or the parts of a collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>

namespace unity::trace {

// An event of a job.
struct event_place {
  std::uint32_t rank = 0;
  std::uint32_t event = 0;

  friend bool operator==(const event_place&, const event_place&) = default;
};

struct matched_message {
  event_place send{};
  event_place receive{};
};
// A collective's events on at least two ranks, ascending by rank.
struct matched_collective {
  std::vector<event_place> members{};
};

// Regular.
struct transactions {
  std::vector<matched_message> messages{};
  std::vector<matched_collective> collectives{};
  std::vector<event_place> alone{};  // collectives of which other ranks have no event, or none that can be identified
};

// Joins sends and receives of the same transaction, and collectives of the same group, way, size and sequence number,
// step by step, among the steps that all ranks have. Ignores messages to and from ranks without a trace, and, if ranks
// of the job are missing, collectives whose groups have no names, except sums of known size. Complexity: n log n in the
// events with messages.
// Throws: unity::error, naming the transaction, if one end of a message between two ranks of the job is missing.
[[nodiscard]] transactions match_transactions(const job_trace& job);

// "push of conv1 from worker0 to server0 in step 3"
[[nodiscard]] std::string describe(const job_trace& job, event_place e);

// The common time of an event is its time plus the offset of its rank. By rank.
using clock_offsets = std::vector<picoseconds>;

// The offsets that the ranks' own clocks state: the differences of their origins.
// Throws: unity::error if two are more than 100 days apart.
[[nodiscard]] clock_offsets stated_offsets(const job_trace& job);

// By rank and event: the event's duration after everything that it needs has arrived. A receive counts from the begin
// of its send; a collective from when its last rank arrived and the event before it in its queue had ended. The result
// is between 0 and the recorded duration. Exchanges whose end was not seen take no time, because nobody waited for
// them. Other events keep their durations. Complexity: linear in events.
// Source: Hu et al., dPRO, MLSys 2022, section 4.2, for receives.
[[nodiscard]] std::vector<std::vector<picoseconds>> busy_durations(const job_trace& job, const transactions& x,
                                                                   const clock_offsets& offsets);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_TRANSACTIONS)

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::trace {

namespace detail {

inline constexpr std::size_t shown_bytes = 240;  // of the message in an error

class transaction_matcher {
 public:
  explicit transaction_matcher(const job_trace& job) : job_{job} {
    for (std::uint32_t r = 0; r < job.ranks.size(); ++r) {
      traced_.emplace(job.names.find(job.ranks[r].name), r);
    }
    const auto steps = common_steps(job);
    steps_.assign(steps.begin(), steps.end());
    std::sort(steps_.begin(), steps_.end());
  }

  transactions run() {
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      add_rank(r);
    }
    join_messages();
    for (auto& [key, members] : collectives_) {
      if (members.size() > 1 && !is_ambiguous(key)) {
        all_.collectives.push_back({std::move(members)});
      } else {
        all_.alone.insert(all_.alone.end(), members.begin(), members.end());
      }
    }
    return std::move(all_);
  }

 private:
  using message_key = std::tuple<std::int64_t, name_id, name_id, name_id, exchange, std::uint32_t, std::uint32_t,
                                 std::uint32_t>;  // the last element: the occurrence
  using collective_key = std::tuple<std::int64_t, std::string, exchange, bytes, std::int64_t, std::uint32_t>;
  struct ends {
    std::vector<event_place> sends{};
    std::vector<event_place> receives{};
  };

  void add_rank(std::uint32_t r) {
    const auto& t = job_.ranks[r];
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < t.events.size(); ++i) {
      const auto& e = t.events[i];
      if (e.message != no_message && std::binary_search(steps_.begin(), steps_.end(), e.step)) {
        order.push_back(i);
      }
    }
    unity::stable_sort(order, [&](auto a, auto b) { return t.events[a].start < t.events[b].start; });
    std::map<message_key, std::uint32_t> sent;
    std::map<message_key, std::uint32_t> got;
    std::map<collective_key, std::uint32_t> counts;
    for (const auto i : order) {
      const auto& e = t.events[i];
      const auto& m = t.messages[e.message];
      if (e.kind == event_kind::collective) {
        // Sizes of a gather may differ from rank to rank; those of a sum do not.
        const auto size = m.way == exchange::all_reduce ? m.size : bytes{};
        collective_key key{e.step, job_.names.text(m.group), m.way, size, m.sequence, 0};
        std::get<5>(key) = counts[key]++;
        collectives_[key].push_back({r, i});
      } else {
        message_key key{e.step, m.sender, m.receiver, m.tensor, m.way, m.chunk, m.round, 0};
        auto& count = e.kind == event_kind::send ? sent : got;
        std::get<7>(key) = count[key]++;
        auto& both = messages_[key];
        (e.kind == event_kind::send ? both.sends : both.receives).push_back({r, i});
      }
    }
  }
  // If ranks are missing and groups have no names, collectives of several groups cannot be told apart, except sums of
  // one size.
  [[nodiscard]] bool is_ambiguous(const collective_key& key) const {
    const bool is_partial = std::any_of(job_.ranks.begin(), job_.ranks.end(), [&](const rank_trace& r) {
      return r.world_size > static_cast<std::int32_t>(job_.ranks.size());
    });
    return is_partial && std::get<1>(key).empty() && std::get<3>(key) == bytes{};
  }
  void join_messages() {
    for (const auto& [key, both] : messages_) {
      if (both.sends.size() == 1 && both.receives.size() == 1) {
        all_.messages.push_back({both.sends[0], both.receives[0]});
        continue;
      }
      const bool is_sent = !both.sends.empty();
      const auto place = is_sent ? both.sends[0] : both.receives[0];
      if (traced_.contains(is_sent ? std::get<2>(key) : std::get<1>(key))) {
        throw error{job_.ranks[place.rank].source,
                    fmt::format("{}, of which {} is missing", describe(job_, place), is_sent ? "the end" : "the start"),
                    "both ends of a message between ranks that are there"};
      }
    }
  }

  const job_trace& job_;
  std::unordered_map<name_id, std::uint32_t> traced_;
  std::vector<std::int64_t> steps_;
  std::map<message_key, ends> messages_;
  std::map<collective_key, std::vector<event_place>> collectives_;
  transactions all_;
};

}  // namespace detail

UNITY_INLINE transactions match_transactions(const job_trace& job) { return detail::transaction_matcher{job}.run(); }

UNITY_INLINE std::string describe(const job_trace& job, event_place p) {
  const auto& t = job.ranks[p.rank];
  const auto& e = t.events[p.event];
  if (e.message == no_message) {
    return printable(fmt::format("{} of {} in step {}", job.names.text(e.name), t.name, e.step), detail::shown_bytes);
  }
  const auto& m = t.messages[e.message];
  const auto way = exchange_names[static_cast<std::size_t>(m.way)];
  const auto& tensor = m.tensor.valid() ? job.names.text(m.tensor) : job.names.text(e.name);
  if (e.kind == event_kind::collective) {
    return printable(fmt::format("{} {} of {} in step {}", way, m.sequence, tensor, e.step), detail::shown_bytes);
  }
  const auto part = m.way == exchange::chunk ? fmt::format(" {} (round {})", m.chunk, m.round)
                    : m.chunk > 0            ? fmt::format(" {}", m.chunk)
                                             : "";
  const auto text = fmt::format("{}{} of {} from {} to {} in step {}", way, part, tensor, job.names.text(m.sender),
                                job.names.text(m.receiver), e.step);
  return printable(text, detail::shown_bytes);
}

UNITY_INLINE clock_offsets stated_offsets(const job_trace& job) {
  clock_offsets all;
  constexpr auto most = std::uint64_t{100} * 86'400 * 1'000'000'000;  // nanoseconds
  for (const auto& r : job.ranks) {
    const auto first = job.ranks.front().origin;
    const auto [earlier, later] = std::minmax({r.origin.count(), first.count()});
    if (static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier) > most) {
      throw error{r.source,
                  fmt::format("a clock more than 100 days from that of {}", printable(job.ranks.front().name)),
                  "clocks of one job"};
    }
    all.push_back(to_picoseconds(r.origin - first));
  }
  return all;
}

namespace detail {

// By rank and event: the time from which it could run: its start, or in a queue the end of the event before if that is
// later.
inline std::vector<std::vector<picoseconds>> turns(const job_trace& job) {
  std::vector<std::vector<picoseconds>> all(job.ranks.size());
  for (std::uint32_t r = 0; r < job.ranks.size(); ++r) {
    const auto& t = job.ranks[r];
    std::vector<picoseconds> last(t.lanes.size(), picoseconds{std::numeric_limits<std::int64_t>::min()});
    for (const auto& e : t.events) {
      const bool is_seen = e.message == no_message || t.messages[e.message].is_end_seen;
      all[r].push_back(t.lanes[e.lane].is_queue ? std::max(e.start, last[e.lane]) : e.start);
      last[e.lane] = std::max(last[e.lane], is_seen ? e.end() : e.start);
    }
  }
  return all;
}

}  // namespace detail

UNITY_INLINE std::vector<std::vector<picoseconds>> busy_durations(const job_trace& job, const transactions& x,
                                                                  const clock_offsets& offsets) {
  std::vector<std::vector<picoseconds>> all;
  for (const auto& r : job.ranks) {
    auto& of_rank = all.emplace_back();
    of_rank.reserve(r.events.size());
    for (const auto& e : r.events) {
      of_rank.push_back(e.duration);
    }
  }
  const auto start = [&](event_place p) { return job.ranks[p.rank].events[p.event].start + offsets[p.rank]; };
  const auto clip = [&](event_place p, picoseconds from) {
    const auto& e = job.ranks[p.rank].events[p.event];
    const bool is_seen = job.ranks[p.rank].messages[e.message].is_end_seen;
    all[p.rank][p.event] =
        is_seen ? std::clamp(e.end() + offsets[p.rank] - from, picoseconds{}, e.duration) : picoseconds{};
  };
  const auto turn = detail::turns(job);
  for (const auto& m : x.messages) {
    clip(m.receive, start(m.send));
  }
  for (const auto& c : x.collectives) {
    auto last = start(c.members.front());
    for (const auto& p : c.members) {
      last = std::max(last, start(p));
    }
    for (const auto& p : c.members) {
      clip(p, std::max(last, turn[p.rank][p.event] + offsets[p.rank]));
    }
  }
  return all;
}

}  // namespace unity::trace

#endif
