// Reads the events of a trace in Chrome's format quickly; shared by the readers of traces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/trace/events.hpp>

namespace unity::io {

// A JSON document, parsed completely.
class json_text {
 public:
  // `name`: of the file, for messages. Takes ownership of the text. Complexity: linear; memory proportional to the
  // text.
  // Throws: unity::error if it is not JSON or truncated.
  json_text(std::string text, std::string name);

  [[nodiscard]] simdjson::dom::element root() const noexcept { return root_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

// An event as in the file; absent members are empty. Texts live as long as the document; those of `pid` and `tid` only
// during the call of for_each_event.
struct json_event {
  std::string_view phase{};  // "ph"
  std::string_view name{};
  std::string_view category{};  // "cat"
  std::string_view pid{};       // numbers as text
  std::string_view tid{};
  std::optional<simdjson::dom::object> args{};
  picoseconds time{};      // "ts", from the base passed to for_each_event
  picoseconds duration{};  // "dur"
  std::int64_t id = 0;     // of an arrow
  bool has_time = false;
  bool has_duration = false;
};

// The list of events: the document, or its member traceEvents. Empty if there is none.
[[nodiscard]] std::optional<simdjson::dom::array> event_list(const json_text& document);

// The earliest time of the complete events ("ph": "X"), rounded down to microseconds; empty if there is none. Ignores
// times that are not numbers or do not fit in nanoseconds: for_each_event reports them.
[[nodiscard]] std::optional<nanoseconds> first_time(const json_text& document);

// Calls visit(event, number) for each event that is an object, in order; returns the number of those that are not.
// Times are relative to `base`.
// Throws: unity::error that names the event if a time is not a number or out of range, or a duration is negative.
std::size_t for_each_event(const json_text& document, nanoseconds base,
                           const std::function<void(const json_event&, std::size_t)>& visit);

// A member of an event's arguments; empty if it is absent or of another type. Numbers may be written as strings.
[[nodiscard]] std::optional<std::int64_t> integer_of(const json_event& e, std::string_view member);
[[nodiscard]] std::string_view text_of(const json_event& e, std::string_view member);

// Completes a rank after all its events were read (trace::complete).
// Throws: unity::error if there is no event, or a step has no duration.
void finish_rank(trace::rank_trace& t);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_JSON_EVENTS)

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io {

UNITY_INLINE json_text::json_text(std::string text, std::string name) : name_{std::move(name)} {
  text.erase(0, text.size() - without_byte_order_mark(text).size());
  const auto last = text.find_last_not_of(" \t\r\n");
  const bool is_cut = last == std::string::npos || (text[last] != '}' && text[last] != ']');
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  const auto failure = parser_.parse(text.data(), text.size(), false).get(root_);
  if (failure != simdjson::SUCCESS) {
    throw error{name_,
                is_cut ? fmt::format("ends at byte {} within its JSON", text.size())
                       : fmt::format("is not JSON ({})", simdjson::error_message(failure)),
                "a whole trace"};
  }
}

UNITY_INLINE std::optional<simdjson::dom::array> event_list(const json_text& document) {
  simdjson::dom::array list;
  if (document.root().get_array().get(list) == simdjson::SUCCESS ||
      document.root()["traceEvents"].get_array().get(list) == simdjson::SUCCESS) {
    return list;
  }
  return std::nullopt;
}

namespace detail {

inline constexpr picoseconds farthest_time{9'000'000'000'000'000'000};  // largest distance from the base

// Converts microseconds. Integers are exact; other numbers have the precision of a double: a quarter of a microsecond
// for times since 1970.
inline std::optional<nanoseconds> trace_nanoseconds(simdjson::dom::element e) {
  constexpr std::int64_t most = 9'000'000'000'000'000;  // microseconds: fits in nanoseconds
  std::int64_t whole = 0;
  double fraction = 0;
  std::int64_t integer = 0;
  double real = 0;
  if (e.is_int64() && e.get_int64().get(integer) == simdjson::SUCCESS) {
    whole = integer;
  } else if (e.is_double() && e.get_double().get(real) == simdjson::SUCCESS && std::abs(real) < 9e15) {
    whole = static_cast<std::int64_t>(std::floor(real));
    fraction = real - std::floor(real);
  } else {
    return std::nullopt;
  }
  if (whole > most || whole < -most) {
    return std::nullopt;
  }
  return nanoseconds{whole * 1000 + std::llround(fraction * 1000)};
}

// Converts microseconds, as above, to a time relative to the base.
inline std::optional<picoseconds> trace_picoseconds(simdjson::dom::element e, nanoseconds base) {
  constexpr auto far = farthest_time.count() / 1000;  // nanoseconds
  const auto t = trace_nanoseconds(e);
  std::int64_t distance = 0;
  if (!t || __builtin_sub_overflow(t->count(), base.count(), &distance) || distance > far || distance < -far) {
    return std::nullopt;
  }
  return picoseconds{distance * 1000};
}

// Interns ids of processes and threads that are integers as texts, so that all ids are texts.
class id_texts {
 public:
  std::string_view of(simdjson::dom::element e) {
    std::string_view text;
    std::int64_t number = 0;
    if (e.get_string().get(text) == simdjson::SUCCESS) {
      return text;
    }
    if (e.get_int64().get(number) != simdjson::SUCCESS) {
      return {};
    }
    const auto known = all_.find(number);
    return known != all_.end() ? known->second : all_.emplace(number, fmt::format("{}", number)).first->second;
  }

 private:
  std::unordered_map<std::int64_t, std::string> all_;
};

class event_reader {
 public:
  event_reader(const json_text& document, nanoseconds base) : document_{document}, base_{base} {}

  json_event read(simdjson::dom::object o, std::size_t number) {
    json_event e;
    for (const auto [key, value] : o) {
      if (key == "ph") {
        static_cast<void>(value.get_string().get(e.phase) == simdjson::SUCCESS);
      } else if (key == "name") {
        static_cast<void>(value.get_string().get(e.name) == simdjson::SUCCESS);
      } else if (key == "cat") {
        static_cast<void>(value.get_string().get(e.category) == simdjson::SUCCESS);
      } else if (key == "pid") {
        e.pid = ids_.of(value);
      } else if (key == "tid") {
        e.tid = ids_.of(value);
      } else if (key == "ts") {
        e.time = time(value, base_, "ts", number);
        e.has_time = true;
      } else if (key == "dur") {
        e.duration = time(value, {}, "dur", number);
        e.has_duration = true;
      } else if (key == "id") {
        static_cast<void>(value.get_int64().get(e.id) == simdjson::SUCCESS);
      } else if (key == "args") {
        simdjson::dom::object args;
        if (value.get_object().get(args) == simdjson::SUCCESS) {
          e.args = args;
        }
      }
    }
    expect_end(e, number);
    return e;
  }

 private:
  // The end, too, is a time of the trace, so that the sum does not exceed 63 bits.
  void expect_end(const json_event& e, std::size_t number) const {
    if (e.duration < picoseconds{}) {
      throw error{fmt::format("{}, event {}", document_.name(), number),
                  fmt::format("a duration of {} us", static_cast<double>(e.duration.count()) / 1e6), "0 at least"};
    }
    if (e.time > farthest_time - e.duration) {
      throw error{fmt::format("{}, event {}", document_.name(), number), "an end that is no time of this trace",
                  "a number of microseconds within 100 days"};
    }
  }
  [[nodiscard]] picoseconds time(simdjson::dom::element value, nanoseconds base, std::string_view member,
                                 std::size_t number) const {
    const auto t = trace_picoseconds(value, base);
    if (!t) {
      throw error{fmt::format("{}, event {}", document_.name(), number),
                  fmt::format("a member {} that is no time of this trace", member),
                  "a number of microseconds within 100 days"};
    }
    return *t;
  }

  const json_text& document_;
  nanoseconds base_;
  id_texts ids_;
};

}  // namespace detail

UNITY_INLINE std::optional<nanoseconds> first_time(const json_text& document) {
  const auto list = event_list(document);
  std::optional<nanoseconds> first;
  if (!list) {
    return first;
  }
  for (const auto element : *list) {
    std::string_view phase;
    simdjson::dom::element time;
    if (element["ph"].get_string().get(phase) != simdjson::SUCCESS || phase != "X" ||
        element["ts"].get(time) != simdjson::SUCCESS) {
      continue;
    }
    double microseconds = 0;
    if (time.get_double().get(microseconds) == simdjson::SUCCESS && std::abs(microseconds) < 9e15) {
      const nanoseconds whole{static_cast<std::int64_t>(std::floor(microseconds)) * 1000};
      first = first ? std::min(*first, whole) : whole;
    }
  }
  return first;
}

UNITY_INLINE std::size_t for_each_event(const json_text& document, nanoseconds base,
                                        const std::function<void(const json_event&, std::size_t)>& visit) {
  const auto list = event_list(document);
  std::size_t others = 0;
  if (!list) {
    return others;
  }
  detail::event_reader reader{document, base};
  std::size_t number = 0;
  for (const auto element : *list) {
    simdjson::dom::object o;
    if (element.get_object().get(o) == simdjson::SUCCESS) {
      visit(reader.read(o, number), number);
    } else {
      ++others;
    }
    ++number;
  }
  return others;
}

UNITY_INLINE std::optional<std::int64_t> integer_of(const json_event& e, std::string_view member) {
  simdjson::dom::element value;
  if (!e.args || e.args->at_key(member).get(value) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  std::int64_t number = 0;
  double real = 0;
  std::string_view text;
  if (value.get_int64().get(number) == simdjson::SUCCESS) {
    return number;
  }
  if (value.get_double().get(real) == simdjson::SUCCESS && std::abs(real) < 9e15) {
    return std::llround(real);
  }
  if (value.get_string().get(text) == simdjson::SUCCESS) {
    const auto end = text.data() + text.size();
    if (const auto r = std::from_chars(text.data(), end, number); r.ec == std::errc{} && r.ptr == end) {
      return number;
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::string_view text_of(const json_event& e, std::string_view member) {
  std::string_view text;
  if (e.args) {
    static_cast<void>(e.args->at_key(member).get_string().get(text) == simdjson::SUCCESS);
  }
  return text;
}

UNITY_INLINE void finish_rank(trace::rank_trace& t) {
  if (t.events.empty()) {
    throw error{t.source, "no event that is understood", "operators, kernels or messages with times"};
  }
  trace::complete(t);
  for (const auto& s : t.steps) {
    if (s.duration() <= picoseconds{}) {
      throw error{t.source, fmt::format("step {} takes no time", s.number), "steps with events of some duration"};
    }
  }
}

}  // namespace unity::io

#endif
