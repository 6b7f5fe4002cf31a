// Machines as JSON, and back. Over 500 lines because each member is read, checked and written in one place.
//
// {"format": "unity machine", "version": 2, "name": "host",
//  "devices": [{"name": "AMD EPYC, 2 threads", "kind": "cpu",
//               "peaks": [{"element": "float32", "operator": "matmul", "flops_per_second": 1.2e11}, ...],
//               "bytes_per_second": 2.1e10, "memory_bytes": 8000000000, "launch_s": 2.1e-07,
//               "versions": {"oneDNN": "2.6.3"}, "units": 2, "sources": {"launch_s": "measured"}}],
//  "links": [{"name": "local", "ranks": 2,
//             "costs": {"all_reduce": [{"up_to": 16384, "alpha_s": 3.1e-06, "beta_s_per_byte": 2.0e-10},
//                                      {"alpha_s": 9.0e-06, "beta_s_per_byte": 1.1e-10}], ...}}],
//  "topology": {"devices": [{"name": "n0/gpu0", "model": "NVIDIA T4", "node": 0}, ...],
//               "switches": ["n0/pcie", "ethernet"],
//               "links": [{"from": "n0/gpu0", "to": "n0/pcie", "bytes_per_second": 1.575e10, "latency_s": 4e-07,
//                          "duplex": "full"}, ...]}}
// The last range of a cost has no "up_to". Machines that were only measured, and files of version 1, have no
// "topology". Other members are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/file.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/json_place.hpp>

namespace unity::io {

namespace detail {

[[nodiscard]] double number_from_json(const json_place& in, bool may_be_zero);
[[nodiscard]] std::int64_t count_from_json(const json_place& in, std::int64_t least, std::int64_t most);
[[nodiscard]] std::size_t name_from_json(const json_place& in, std::span<const std::string_view> names);
// The members of an object, ordered by name.
[[nodiscard]] std::vector<std::pair<std::string, json_place>> members_from_json(const json_place& in);

// A rate in the unit that its member's name states. Rejects values below `least`, which were probably meant in
// thousands or millions of that unit.
[[nodiscard]] double rate_from_json(const json_place& in, double least, std::string_view unit);

// Seconds.
[[nodiscard]] double time_from_json(const json_place& in, double most);

[[nodiscard]] hardware::device device_from_json(const json_place& in, std::int64_t schema);

[[nodiscard]] std::vector<hardware::cost_range> ranges_from_json(const json_place& in);
[[nodiscard]] hardware::cost_interval interval_from_json(const json_place& in);

[[nodiscard]] hardware::link link_from_json(const json_place& in);

}  // namespace detail

// The text itself. Names of devices and drivers come from other software, and JSON must be UTF-8.
// Throws: unity::error about `what` if the text is not UTF-8.
[[nodiscard]] std::string utf8_word(std::string_view what, const std::string& text);

namespace detail {

[[nodiscard]] nlohmann::json device_to_json(const hardware::device& d);

[[nodiscard]] nlohmann::json link_to_json(const hardware::link& l);

[[nodiscard]] nlohmann::json topology_to_json(const hardware::machine& m);

// Checks that devices in a topology have memory.
void check_memory(const json_place& devices);

// Reads a topology and resolves its names.
class topology_reader {
 public:
  topology_reader(const json_place& in, const hardware::machine& m);

  [[nodiscard]] hardware::topology read();

 private:
  void add_vertex(const json_place& name);
  [[nodiscard]] hardware::placed_device device(const json_place& in) const;
  [[nodiscard]] hardware::vertex_id vertex(const json_place& in) const;
  [[nodiscard]] hardware::cable link(const json_place& in) const;

  json_place in_;
  std::map<std::string, std::uint32_t> models_{};
  std::map<std::string, hardware::vertex_id> vertices_{};
};

// A machine that is a whole document or a part of one.
// Throws: unity::error naming the member that is wrong.
[[nodiscard]] hardware::machine machine_from_json(const json_place& in);

}  // namespace detail

// Throws: unity::error if a name is not UTF-8.
[[nodiscard]] nlohmann::json to_json(const hardware::machine& m);

// `file`: for messages.
// Throws: unity::error naming the byte or the member that is wrong.
[[nodiscard]] inline hardware::machine parse_machine(std::string_view text, std::string_view file) {
  const auto document = detail::parse_json(text, file);
  return detail::machine_from_json({document, fmt::format("{}: machine", file)});
}

// Throws: unity::error.
[[nodiscard]] inline hardware::machine read_machine(const std::filesystem::path& path) {
  return parse_machine(read_file(path), path.string());
}
// Refuses machines that could not be read again: rates that were never measured, ranges that do not ascend.
void write_machine(const hardware::machine& m, const std::filesystem::path& path);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_MACHINE_JSON)

#include <cmath>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE double number_from_json(const json_place& in, bool may_be_zero) {
  if (!in.value().is_number()) {
    throw error{in.where(), fmt::format("is {}", in.value().type_name()), "a number"};
  }
  const auto number = in.value().get<double>();
  if (!std::isfinite(number) || number < 0 || (number == 0 && !may_be_zero)) {
    throw error{in.where(), fmt::format("is {}", in.value().dump()),
                may_be_zero ? "a number of at least 0" : "a number above 0"};
  }
  return number;
}

UNITY_INLINE std::int64_t count_from_json(const json_place& in, std::int64_t least, std::int64_t most) {
  const auto number = in.integer();
  if (number < least || number > most) {
    throw error{in.where(), fmt::format("is {}", number), fmt::format("a number from {} to {}", least, most)};
  }
  return number;
}

UNITY_INLINE std::size_t name_from_json(const json_place& in, std::span<const std::string_view> names) {
  const auto word = in.word();
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == word) {
      return i;
    }
    all += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  throw error{in.where(), fmt::format("is {}", shown(word)), all};
}

UNITY_INLINE std::vector<std::pair<std::string, json_place>> members_from_json(const json_place& in) {
  if (!in.value().is_object()) {
    throw error{in.where(), fmt::format("is {}", in.value().type_name()), "an object"};
  }
  std::vector<std::pair<std::string, json_place>> all;
  for (const auto& member : in.value().items()) {
    all.emplace_back(member.key(), in.at(member.key()));
  }
  return all;
}

UNITY_INLINE double rate_from_json(const json_place& in, double least, std::string_view unit) {
  const auto rate = number_from_json(in, false);
  if (rate < least) {
    throw error{in.where(), fmt::format("is {}", in.value().dump()),
                fmt::format("{}, {} or more", unit, nlohmann::json(least).dump())};
  }
  return rate;
}

UNITY_INLINE double time_from_json(const json_place& in, double most) {
  const auto time = number_from_json(in, true);
  if (time > most) {
    throw error{in.where(), fmt::format("is {}", in.value().dump()), fmt::format("seconds, {} at most", most)};
  }
  return time;
}

UNITY_INLINE hardware::device device_from_json(const json_place& in, std::int64_t schema) {
  const auto rate = [&](const json_place& p, std::string_view unit) {
    return rate_from_json(p, schema > 1 ? hardware::least_device_rate : 0, unit);
  };
  hardware::device d;
  d.name = in.at("name").line();
  d.kind = static_cast<hardware::device_kind>(name_from_json(in.at("kind"), hardware::device_kind_names));
  for (const auto& p : in.at("peaks").items()) {
    d.peaks.push_back({static_cast<tensor::dtype>(name_from_json(p.at("element"), tensor::dtype_names)),
                       p.at("operator").line(), rate(p.at("flops_per_second"), "operations per second")});
  }
  d.bytes_per_second = rate(in.at("bytes_per_second"), "bytes per second");
  d.memory = bytes{count_from_json(in.at("memory_bytes"), 0, INT64_MAX)};
  d.launch_seconds = number_from_json(in.at("launch_s"), true);
  if (in.has("host_bytes_per_second")) {
    d.host_bytes_per_second = rate(in.at("host_bytes_per_second"), "bytes per second");
  }
  if (in.has("collective_start_s")) {
    d.collective_start_seconds = time_from_json(in.at("collective_start_s"), hardware::longest_collective_start);
  }
  if (in.has("collective_round_s")) {
    d.collective_round_seconds = time_from_json(in.at("collective_round_s"), hardware::longest_collective_start);
  }
  if (in.has("units")) {
    d.units = static_cast<int>(count_from_json(in.at("units"), 1, INT32_MAX));
  }
  if (in.has("clock_hz")) {
    d.clock_hz = rate(in.at("clock_hz"), "hertz");
  }
  if (in.has("caches")) {
    for (const auto& c : in.at("caches").items()) {
      d.caches.emplace_back(c.at("name").line(), bytes{count_from_json(c.at("bytes"), 1, INT64_MAX)});
    }
  }
  for (const auto& [library, version] : members_from_json(in.at("versions"))) {
    d.versions.emplace_back(library, version.word());
  }
  if (in.has("sources")) {
    for (const auto& [member, source] : members_from_json(in.at("sources"))) {
      d.sources.emplace_back(member, source.word());
    }
  }
  return d;
}

UNITY_INLINE std::vector<hardware::cost_range> ranges_from_json(const json_place& in) {
  const auto items = in.items();
  if (items.empty()) {
    throw error{in.where(), "is empty", "a range"};
  }
  std::vector<hardware::cost_range> ranges;
  std::int64_t begin = -1;
  for (std::size_t i = 0; i < items.size(); ++i) {
    hardware::cost_range r;
    if (i + 1 < items.size()) {
      begin = count_from_json(items[i].at("up_to"), begin + 1, hardware::cost_range::no_end.count() - 1);
      r.up_to = bytes{begin};
    } else if (items[i].has("up_to")) {
      throw error{fmt::format("{}.up_to", items[i].where()), "the last range has an end",
                  "none, for all sizes that are larger"};
    }
    r.alpha = number_from_json(items[i].at("alpha_s"), true);
    r.beta = number_from_json(items[i].at("beta_s_per_byte"), true);
    ranges.push_back(r);
  }
  return ranges;
}

UNITY_INLINE hardware::cost_interval interval_from_json(const json_place& in) {
  constexpr auto most = hardware::widest_interval;
  const auto ends = in.items();
  const hardware::cost_interval i{ends.empty() ? 0 : number_from_json(ends[0], true),
                                  ends.size() < 2 ? 0 : number_from_json(ends[1], true)};
  if (ends.size() != 2 || !(1 / most <= i.low && i.low <= 1 && 1 <= i.high && i.high <= most)) {
    throw error{in.where(), "no two factors around 1", "[low, high], 0.001 <= low <= 1 <= high <= 1000"};
  }
  return i;
}

UNITY_INLINE hardware::link link_from_json(const json_place& in) {
  hardware::link l;
  l.name = in.at("name").line();
  l.ranks = static_cast<int>(count_from_json(in.at("ranks"), 1, INT32_MAX));
  for (const auto& [name, ranges] : members_from_json(in.at("costs"))) {
    const nlohmann::json word = name;
    const auto kind = static_cast<hardware::exchange>(
        name_from_json({word, fmt::format("{}.costs, a member", in.where())}, hardware::exchange_names));
    l.costs.emplace(kind, ranges_from_json(ranges));
  }
  if (in.has("intervals")) {
    for (const auto& [name, factors] : members_from_json(in.at("intervals"))) {
      const auto kind = static_cast<hardware::exchange>(name_from_json(
          {nlohmann::json(name), fmt::format("{}.intervals, a member", in.where())}, hardware::exchange_names));
      if (!l.costs.contains(kind)) {
        throw error{factors.where(), "an interval without costs", "an exchange of 'costs'"};
      }
      l.intervals.emplace(kind, interval_from_json(factors));
    }
  }
  return l;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string utf8_word(std::string_view what, const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
  } catch (const nlohmann::json::type_error&) {
    throw error{what, fmt::format("{} is not UTF-8", detail::shown(text)), "text in UTF-8"};
  }
  return text;
}

}  // namespace unity::io

namespace unity::io::detail {

UNITY_INLINE nlohmann::json device_to_json(const hardware::device& d) {
  auto peaks = nlohmann::json::array();
  for (const auto& p : d.peaks) {
    peaks.push_back({{"element", tensor::name_of(p.element)},
                     {"operator", utf8_word("operator of a peak", p.operation)},
                     {"flops_per_second", p.flops_per_second}});
  }
  auto versions = nlohmann::json::object();
  for (const auto& [library, version] : d.versions) {
    versions[utf8_word("name of a library", library)] = utf8_word("version of a library", version);
  }
  nlohmann::json all{{"name", utf8_word("name of a device", d.name)},
                     {"kind", hardware::device_kind_names[static_cast<std::size_t>(d.kind)]},
                     {"peaks", std::move(peaks)},
                     {"bytes_per_second", d.bytes_per_second},
                     {"memory_bytes", d.memory.count()},
                     {"launch_s", d.launch_seconds},
                     {"versions", std::move(versions)}};
  if (d.host_bytes_per_second > 0) {
    all["host_bytes_per_second"] = d.host_bytes_per_second;
  }
  if (d.collective_start_seconds > 0) {
    all["collective_start_s"] = d.collective_start_seconds;
  }
  if (d.collective_round_seconds > 0) {
    all["collective_round_s"] = d.collective_round_seconds;
  }
  if (d.units > 0) {
    all["units"] = d.units;
  }
  if (d.clock_hz > 0) {
    all["clock_hz"] = d.clock_hz;
  }
  for (const auto& [name, size] : d.caches) {
    all["caches"].push_back({{"name", utf8_word("name of a cache", name)}, {"bytes", size.count()}});
  }
  for (const auto& [member, source] : d.sources) {
    all["sources"][utf8_word("a member with a source", member)] = utf8_word("source of a number", source);
  }
  return all;
}

UNITY_INLINE nlohmann::json link_to_json(const hardware::link& l) {
  auto costs = nlohmann::json::object();
  for (const auto& [kind, ranges] : l.costs) {
    auto& all = costs[std::string{hardware::exchange_names[static_cast<std::size_t>(kind)]}] = nlohmann::json::array();
    for (const auto& r : ranges) {
      nlohmann::json range{{"alpha_s", r.alpha}, {"beta_s_per_byte", r.beta}};
      if (r.up_to != hardware::cost_range::no_end) {
        range["up_to"] = r.up_to.count();
      }
      all.push_back(std::move(range));
    }
  }
  nlohmann::json all{{"name", utf8_word("name of a link", l.name)}, {"ranks", l.ranks}, {"costs", std::move(costs)}};
  for (const auto& [kind, interval] : l.intervals) {
    const auto name = hardware::exchange_names[static_cast<std::size_t>(kind)];
    all["intervals"][std::string{name}] = {interval.low, interval.high};
  }
  return all;
}

UNITY_INLINE nlohmann::json topology_to_json(const hardware::machine& m) {
  const auto& t = m.network;
  auto devices = nlohmann::json::array();
  for (const auto& d : t.devices()) {
    UNITY_EXPECTS(d.model < m.devices.size(), "a model for every device of the topology");
    devices.push_back(
        {{"name", utf8_word("name of a device", d.name)}, {"model", m.devices[d.model].name}, {"node", d.node}});
  }
  auto switches = nlohmann::json::array();
  for (const auto& s : t.switches()) {
    switches.push_back(utf8_word("name of a switch", s));
  }
  auto links = nlohmann::json::array();
  for (const auto& c : t.cables()) {
    links.push_back({{"from", t.name(c.from)},
                     {"to", t.name(c.to)},
                     {"bytes_per_second", c.bytes_per_second},
                     {"latency_s", to_seconds(c.latency)},
                     {"duplex", hardware::duplex_names[static_cast<std::size_t>(c.mode)]}});
  }
  auto reducing = nlohmann::json::array();
  for (auto v = t.device_count(); v < t.vertex_count(); ++v) {
    if (t.reduces(hardware::vertex_id{v})) {
      reducing.push_back(t.name(hardware::vertex_id{v}));
    }
  }
  nlohmann::json all{{"devices", std::move(devices)}, {"switches", std::move(switches)}, {"links", std::move(links)}};
  if (!reducing.empty()) {
    all["reducing"] = std::move(reducing);
  }
  return all;
}

UNITY_INLINE void check_memory(const json_place& devices) {
  constexpr auto least = hardware::least_device_memory.count();
  for (const auto& d : devices.items()) {
    if (const auto memory = d.at("memory_bytes"); memory.integer() < least) {
      throw error{memory.where(), fmt::format("is {}", memory.value().dump()), fmt::format("bytes, {} or more", least)};
    }
  }
}

UNITY_INLINE topology_reader::topology_reader(const json_place& in, const hardware::machine& m) : in_{in} {
  for (std::size_t i = 0; i < m.devices.size(); ++i) {
    if (!models_.emplace(m.devices[i].name, static_cast<std::uint32_t>(i)).second) {
      throw error{in.where(), fmt::format("two kinds of device named {}", shown(m.devices[i].name)),
                  "names of their own"};
    }
  }
}

UNITY_INLINE hardware::topology topology_reader::read() {
  std::vector<hardware::placed_device> devices;
  for (const auto& d : in_.at("devices").items()) {
    devices.push_back(device(d));
    add_vertex(d.at("name"));
  }
  if (devices.empty()) {
    throw error{in_.at("devices").where(), "is empty", "a device"};
  }
  std::vector<std::string> switches;
  for (const auto& s : in_.at("switches").items()) {
    switches.push_back(s.line());
    add_vertex(s);
  }
  std::vector<hardware::cable> cables;
  for (const auto& l : in_.at("links").items()) {
    cables.push_back(link(l));
  }
  hardware::topology t{std::move(devices), std::move(switches), std::move(cables), in_.where()};
  static_cast<void>(hardware::route_table{t, in_.where()});
  if (in_.has("reducing")) {
    for (const auto& s : in_.at("reducing").items()) {
      const auto v = vertex(s);
      if (t.is_device(v)) {
        throw error{s.where(), fmt::format("{} is a device", shown(s.word())), "a switch"};
      }
      t.set_reduces(v);
    }
  }
  return t;
}

UNITY_INLINE void topology_reader::add_vertex(const json_place& name) {
  if (!vertices_.emplace(name.word(), hardware::vertex_id{vertices_.size()}).second) {
    throw error{name.where(), fmt::format("is {} as before", shown(name.word())), "a name of its own"};
  }
}

UNITY_INLINE hardware::placed_device topology_reader::device(const json_place& in) const {
  const auto model = models_.find(in.at("model").word());
  if (model == models_.end()) {
    throw error{fmt::format("{}.model", in.where()),
                fmt::format("no kind of device has the name {}", shown(in.at("model").word())),
                "a name out of machine.devices"};
  }
  return {in.at("name").line(), model->second,
          static_cast<std::uint32_t>(count_from_json(in.at("node"), 0, INT32_MAX))};
}

UNITY_INLINE hardware::vertex_id topology_reader::vertex(const json_place& in) const {
  const auto found = vertices_.find(in.word());
  if (found == vertices_.end()) {
    throw error{in.where(), fmt::format("no device or switch has the name {}", shown(in.word())),
                "a name out of topology"};
  }
  return found->second;
}

UNITY_INLINE hardware::cable topology_reader::link(const json_place& in) const {
  hardware::cable c{vertex(in.at("from")), vertex(in.at("to")), 0, {}, hardware::duplex::full};
  const auto rate = rate_from_json(in.at("bytes_per_second"), hardware::least_cable_rate, "bytes per second");
  if (rate > hardware::most_cable_rate) {
    throw error{in.at("bytes_per_second").where(), fmt::format("is {}", in.at("bytes_per_second").value().dump()),
                "bytes per second, 1e15 at most"};
  }
  c.bytes_per_second = std::llround(rate);
  c.latency = from_seconds(time_from_json(in.at("latency_s"), hardware::longest_cable_latency));
  c.mode = static_cast<hardware::duplex>(name_from_json(in.at("duplex"), hardware::duplex_names));
  return c;
}

UNITY_INLINE hardware::machine machine_from_json(const json_place& in) {
  const auto version = in.at("format").word() == "unity machine" ? in.at("version").integer() : 0;
  if (version < 1 || version > 2) {
    throw error{in.where(), "another format", "\"format\": \"unity machine\", \"version\": 1 or 2"};
  }
  hardware::machine m;
  m.name = in.at("name").line();
  for (const auto& d : in.at("devices").items()) {
    m.devices.push_back(device_from_json(d, version));
  }
  for (const auto& l : in.at("links").items()) {
    m.links.push_back(link_from_json(l));
  }
  if (version > 1 && in.has("topology")) {
    check_memory(in.at("devices"));
    m.network = topology_reader{in.at("topology"), m}.read();
  }
  return m;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE nlohmann::json to_json(const hardware::machine& m) {
  auto devices = nlohmann::json::array();
  for (const auto& d : m.devices) {
    devices.push_back(detail::device_to_json(d));
  }
  auto links = nlohmann::json::array();
  for (const auto& l : m.links) {
    links.push_back(detail::link_to_json(l));
  }
  nlohmann::json all{{"format", "unity machine"},
                     {"version", 2},
                     {"name", utf8_word("name of a machine", m.name)},
                     {"devices", std::move(devices)},
                     {"links", std::move(links)}};
  if (!m.network.empty()) {
    all["topology"] = detail::topology_to_json(m);
  }
  return all;
}

UNITY_INLINE void write_machine(const hardware::machine& m, const std::filesystem::path& path) {
  const auto text = fmt::format("{}\n", to_json(m).dump(2));
  static_cast<void>(parse_machine(text, path.string()));
  atomic_write(path, text);
}

}  // namespace unity::io

#endif
