// Plan statements, the groups of devices into which they divide a machine, and the times of exchanges in these groups.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/collective_cost.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

// Plans of transformers as people state them: "megatron:t=8,p=8,d=8,micro=1,batch=512,interleave=2,sp".

// What is recomputed for the backward pass: nothing, the attention core (from the product of queries and keys to the
// product with the values), or all of each layer.
// Source: Korthikanti et al., Reducing activation recomputation in large transformer models, MLSys 2023, section 5.
enum class recomputed_part : std::uint8_t { none, selective, full };
inline constexpr std::array<std::string_view, 3> recomputed_part_names{"none", "selective", "full"};

// Regular. Devices are numbered node by node; tensor-parallel groups are neighbours, then come data-parallel groups,
// then stages. Source: Narayanan et al., Efficient large-scale language model training on GPU clusters using
// Megatron-LM, SC 2021, section 3.
struct plan_statement {
  std::int64_t tensor = 1;            // t: devices of a node that divide each layer
  std::int64_t pipeline = 1;          // p: stages; the embedding on the first, the head on the last
  std::int64_t data = 1;              // d: groups of stages with samples of their own
  std::int64_t micro = 1;             // samples of a micro-batch, on each of the d
  std::int64_t batch = 1;             // samples of an iteration, on all devices
  std::int64_t interleave = 1;        // chunks of layers on a device
  bool is_sequence_parallel = false;  // sp: what tensor parallelism does not divide is divided along positions
  // ZeRO's stage. What is divided among the d groups: optimizer state (1), also gradients (2), also weights (3). In
  // stages 2 and 3 gradients are reduced and scattered in each micro-batch, layer by layer, during the backward pass.
  // Source: Rajbhandari et al., ZeRO, SC 2020.
  std::int64_t zero = 0;
  recomputed_part recomputed = recomputed_part::none;
  // overlap, for zero 0 and 1: gradients are reduced bucket by bucket during the backward passes of the last
  // micro-batch, and with zero=1 new weights are gathered during the forward passes of the first one.
  // Source: Megatron-LM, --overlap-grad-reduce and --overlap-param-gather.
  bool is_overlapped = false;
  // first, last: layers of the first and of the last stage; 0: as many as the others, which share the rest equally.
  // Source: Megatron-LM, --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers.
  std::int64_t first_layers = 0;
  std::int64_t last_layers = 0;

  [[nodiscard]] std::int64_t microbatches() const noexcept { return batch / (data * micro); }
  [[nodiscard]] std::int64_t chunks() const noexcept { return pipeline * interleave; }
  // Of all micro-batches, on one device of each stage.
  [[nodiscard]] std::int64_t phases() const noexcept { return microbatches() * chunks(); }
  [[nodiscard]] bool divides_gradients() const noexcept { return zero >= 2 && data > 1; }
  [[nodiscard]] bool divides_weights() const noexcept { return zero >= 3 && data > 1; }
  [[nodiscard]] bool overlaps_sums() const noexcept { return is_overlapped && zero <= 1 && data > 1; }
  [[nodiscard]] bool overlaps_gathers() const noexcept { return overlaps_sums() && zero == 1; }

  friend bool operator==(const plan_statement&, const plan_statement&) = default;
};

// The most phases of a statement whose program is made. A phase has up to about 24 tasks.
inline constexpr std::int64_t most_phases = tasks::most_tasks / 24;

// "megatron:" and, between commas, t, p, d, micro, batch, interleave, first, last, zero (0 to 3) and recompute (none,
// selective, full) with values, and sp and overlap, in any order. What is left out is 1, 0 or none; batch is then
// d * micro.
// Throws: unity::error for another text.
[[nodiscard]] plan_statement parse_plan_statement(std::string_view text);

// The canonical text of a statement: t, p, d, micro and batch always, other keys unless they have their default, in a
// fixed order.
// Law: parse_plan_statement(to_string(s)) == s.
[[nodiscard]] std::string to_string(const plan_statement& s);

// Throws: unity::error where degrees do not multiply to the devices, samples do not divide, stages do not interleave,
// overlap is stated for a stage of ZeRO that overlaps anyway, or layers of the first or last stage for only one stage.
void check(const plan_statement& s, std::size_t devices);

// The number of layers of each stage; nothing if the layers cannot be divided so. Does not look at chunks.
[[nodiscard]] std::vector<std::int64_t> find_layers_of_stages(const plan_statement& s, std::int64_t layers);

// The same. Throws: unity::error if stages or their chunks would not consist of whole layers.
[[nodiscard]] std::vector<std::int64_t> layers_of_stages(const plan_statement& s, std::int64_t layers);

// The chunk of the embedding, of each layer and of the head. Chunk c is on stage c mod p.
// Throws: as layers_of_stages.
[[nodiscard]] std::vector<std::int64_t> chunks_of_pieces(const plan_statement& s, std::int64_t layers);

// The chunk whose result a phase of this chunk receives; a backward phase receives the cotangent of that result, which
// is as large. Nothing if no other device sends it.
[[nodiscard]] std::optional<std::int64_t> received_chunk(const plan_statement& s, std::int64_t chunk, bool is_backward);

// Which devices take part in an exchange: a tensor-parallel or data-parallel group; two consecutive stages, forward or
// backward; the first and the last stage; or all devices.
enum class group_kind : std::uint8_t { tensor, data, onward, backward, ends, all };
inline constexpr std::size_t group_kind_count = 6;

// A device, by its stage, its data-parallel group and its place in its tensor-parallel group.
struct group_place {
  std::int64_t stage = 0;
  std::int64_t data = 0;
  std::int64_t tensor = 0;

  friend auto operator<=>(const group_place&, const group_place&) = default;
};

// The times of exchanges. All groups of a kind exchange at the same time; the time is computed for their actual members
// by the closed form of the machine's collectives, or was measured. So it is equal for all devices of a stage. The
// first link of each device is busy for all of that time. Refers to the machine.
class statement_groups {
 public:
  // Throws: unity::error if the product of the degrees is not the number of devices, if devices or nodes differ, or if
  // tensor-parallel groups do not fit into nodes.
  statement_groups(const plan_statement& s, const hardware::machine& m);

  [[nodiscard]] hardware::device_id device(const group_place& p) const {
    return devices_[static_cast<std::size_t>((p.stage * statement_.data + p.data) * statement_.tensor + p.tensor)];
  }
  // The time of an exchange of so many bytes, as hardware::collective counts them; of a message, those of one device.
  [[nodiscard]] picoseconds time(group_kind group, hardware::exchange exchange, bytes size);
  // The link of the device that is busy during the exchange.
  [[nodiscard]] hardware::resource_id link(group_kind group, const group_place& p);

 private:
  using members = std::vector<hardware::device_id>;

  [[nodiscard]] std::vector<members> groups(group_kind kind) const;
  // The algorithms of an exchange in all groups of a kind; for messages, only the closed form of all messages at once.
  [[nodiscard]] const std::vector<hardware::common_way>& ways(group_kind group, hardware::exchange exchange);
  [[nodiscard]] members group_of(group_kind kind, const group_place& p) const;

  plan_statement statement_;
  const hardware::machine* machine_;
  hardware::route_table routes_{};
  members devices_{};  // node by node
  std::map<std::pair<group_kind, hardware::exchange>, std::vector<hardware::common_way>> ways_{};
  std::map<std::tuple<group_kind, hardware::exchange, bytes>, picoseconds> times_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_GROUPS)

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/hardware/collective_fit.hpp>
#include <unity/hardware/collective_flows.hpp>
#include <unity/hardware/device_mesh.hpp>

namespace unity::parallel::detail {

inline constexpr std::string_view megatron_prefix = "megatron:";
inline constexpr std::int64_t most_of_statement = 1 << 24;  // so that products of three do not overflow

struct statement_key {
  std::string_view name;
  std::int64_t plan_statement::*member;
  std::int64_t least;
  std::int64_t most;
};
inline constexpr std::array<statement_key, 9> statement_keys{{
    {"t", &plan_statement::tensor, 1, 1 << 16},
    {"p", &plan_statement::pipeline, 1, 1 << 16},
    {"d", &plan_statement::data, 1, 1 << 16},
    {"micro", &plan_statement::micro, 1, 1 << 16},
    {"batch", &plan_statement::batch, 1, most_of_statement},
    {"interleave", &plan_statement::interleave, 1, 1 << 16},
    {"first", &plan_statement::first_layers, 1, 1 << 16},
    {"last", &plan_statement::last_layers, 1, 1 << 16},
    {"zero", &plan_statement::zero, 0, 3},
}};

// text: what follows the key's equals sign, if it has one.
UNITY_INLINE void read_statement_part(std::string_view key, std::optional<std::string_view> text, plan_statement& s) {
  const auto where = fmt::format("plan, '{}'", printable(key));
  const auto value = text.value_or(std::string_view{});
  if (key == "sp" || key == "overlap") {
    if (text) {
      throw error{where, "a value", fmt::format("{} alone", key)};
    }
    (key == "sp" ? s.is_sequence_parallel : s.is_overlapped) = true;
    return;
  }
  if (key == "recompute") {
    const auto* const name = std::find(recomputed_part_names.begin(), recomputed_part_names.end(), value);
    if (name == recomputed_part_names.end()) {
      throw error{where, fmt::format("'{}'", printable(value)), "none, selective or full"};
    }
    s.recomputed = static_cast<recomputed_part>(std::distance(recomputed_part_names.begin(), name));
    return;
  }
  const auto* const known =
      std::find_if(statement_keys.begin(), statement_keys.end(), [&](const auto& k) { return k.name == key; });
  if (known == statement_keys.end()) {
    throw error{where, "no such key", "t, p, d, micro, batch, interleave, first, last, sp, zero, overlap, recompute"};
  }
  const auto number = to_number<std::int64_t>(value).value_or(-1);
  if (number < known->least || number > known->most) {
    throw error{where, fmt::format("'{}'", printable(value)),
                fmt::format("a number from {} to {}", known->least, known->most)};
  }
  s.*known->member = number;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE plan_statement parse_plan_statement(std::string_view text) {
  if (!text.starts_with(detail::megatron_prefix)) {
    throw error{fmt::format("plan '{}'", printable(text)), "no kind of plan", "megatron:t=..,p=..,d=..,..."};
  }
  plan_statement s;
  std::set<std::string_view> given;
  auto rest = text.substr(detail::megatron_prefix.size());
  for (bool has_more = !rest.empty(); has_more;) {
    const auto part = rest.substr(0, rest.find(','));
    has_more = part.size() < rest.size();
    rest.remove_prefix(part.size() + (has_more ? 1 : 0));
    const auto key = part.substr(0, part.find('='));
    if (!given.insert(key).second) {
      throw error{fmt::format("plan, '{}'", printable(key)), "a second time", "each key once"};
    }
    detail::read_statement_part(
        key, key.size() < part.size() ? std::optional{part.substr(key.size() + 1)} : std::nullopt, s);
  }
  if (given.count("batch") == 0) {
    s.batch = s.data * s.micro;
    if (s.batch > detail::most_of_statement) {
      throw error{"plan", fmt::format("d={} times micro={} samples", s.data, s.micro),
                  fmt::format("a batch of {} at most", detail::most_of_statement)};
    }
  }
  return s;
}

UNITY_INLINE std::string to_string(const plan_statement& s) {
  auto text = fmt::format("{}t={},p={},d={},micro={},batch={}", detail::megatron_prefix, s.tensor, s.pipeline, s.data,
                          s.micro, s.batch);
  const auto add = [&](bool is_given, const std::string& part) { text += is_given ? "," + part : std::string{}; };
  add(s.interleave > 1, fmt::format("interleave={}", s.interleave));
  add(s.first_layers > 0, fmt::format("first={}", s.first_layers));
  add(s.last_layers > 0, fmt::format("last={}", s.last_layers));
  add(s.is_sequence_parallel, "sp");
  add(s.zero > 0, fmt::format("zero={}", s.zero));
  add(s.is_overlapped, "overlap");
  add(s.recomputed != recomputed_part::none,
      fmt::format("recompute={}", recomputed_part_names[static_cast<std::size_t>(s.recomputed)]));
  return text;
}

UNITY_INLINE void check(const plan_statement& s, std::size_t devices) {
  const auto degrees = s.tensor * s.pipeline * s.data;
  if (degrees != static_cast<std::int64_t>(devices)) {
    throw error{"plan", fmt::format("t={} times p={} times d={} are {} devices", s.tensor, s.pipeline, s.data, degrees),
                fmt::format("the {} of the machine", devices)};
  }
  if (s.batch % (s.data * s.micro) != 0) {
    throw error{"plan", fmt::format("batch={}", s.batch),
                fmt::format("a multiple of d={} times micro={}", s.data, s.micro)};
  }
  if (s.interleave > 1 && (s.pipeline == 1 || s.microbatches() % s.pipeline != 0)) {
    throw error{"plan",
                fmt::format("interleave={} with p={} and {} micro-batches", s.interleave, s.pipeline, s.microbatches()),
                "several stages, and a multiple of them of micro-batches"};
  }
  if (s.is_overlapped && s.zero > 1) {
    throw error{"plan", fmt::format("overlap with zero={}", s.zero),
                "zero=0 or zero=1: from 2 on, exchanges overlap anyway"};
  }
  if (s.first_layers + s.last_layers > 0 && s.pipeline == 1) {
    throw error{"plan", fmt::format("{}= with p=1", s.first_layers > 0 ? "first" : "last"), "several stages"};
  }
}

UNITY_INLINE std::vector<std::int64_t> find_layers_of_stages(const plan_statement& s, std::int64_t layers) {
  const auto others = s.pipeline - (s.first_layers > 0 ? 1 : 0) - (s.last_layers > 0 ? 1 : 0);
  const auto rest = layers - s.first_layers - s.last_layers;
  if (others > 0 ? rest < others || rest % others != 0 : rest != 0) {
    return {};
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(s.pipeline), others > 0 ? rest / others : 0);
  all.front() = s.first_layers > 0 ? s.first_layers : all.front();
  all.back() = s.last_layers > 0 ? s.last_layers : all.back();
  return all;
}

UNITY_INLINE std::vector<std::int64_t> layers_of_stages(const plan_statement& s, std::int64_t layers) {
  const bool is_equal = s.first_layers + s.last_layers == 0;
  if (is_equal && layers % s.chunks() != 0) {
    throw error{"plan", fmt::format("{} layers for p={} times interleave={}", layers, s.pipeline, s.interleave),
                "a multiple of them"};
  }
  auto all = find_layers_of_stages(s, layers);
  const auto stated = [&] {
    return (s.first_layers > 0 ? fmt::format("first={} ", s.first_layers) : std::string{}) +
           (s.last_layers > 0 ? fmt::format("last={} ", s.last_layers) : std::string{}) +
           fmt::format("of {} layers on p={} stages", layers, s.pipeline);
  };
  if (all.empty()) {
    throw error{"plan", stated(), "layers left that the other stages share equally"};
  }
  for (const auto count : all) {
    if (count % s.interleave != 0) {
      throw error{"plan", fmt::format("{}, a stage of {} with interleave={}", stated(), count, s.interleave),
                  "multiples of interleave"};
    }
  }
  return all;
}

UNITY_INLINE std::vector<std::int64_t> chunks_of_pieces(const plan_statement& s, std::int64_t layers) {
  const auto of_stages = layers_of_stages(s, layers);
  std::vector<std::int64_t> all{0};
  for (std::int64_t c = 0; c < s.chunks(); ++c) {
    all.insert(all.end(), static_cast<std::size_t>(of_stages[static_cast<std::size_t>(c % s.pipeline)] / s.interleave),
               c);
  }
  all.push_back(s.chunks() - 1);
  return all;
}

UNITY_INLINE std::optional<std::int64_t> received_chunk(const plan_statement& s, std::int64_t chunk, bool is_backward) {
  const auto from = is_backward ? chunk : chunk - 1;
  return from < 0 || from + 1 == s.chunks() || s.pipeline == 1 ? std::nullopt : std::optional{from};
}

UNITY_INLINE statement_groups::statement_groups(const plan_statement& s, const hardware::machine& m)
    : statement_{s}, machine_{&m} {
  check(s, m.network.device_count());
  const auto nodes = hardware::devices_by_node(m.network);
  for (const auto& node : nodes) {
    if (node.size() != nodes[0].size()) {
      throw error{"plan", fmt::format("nodes of {} and {} devices", nodes[0].size(), node.size()),
                  "nodes that are alike"};
    }
    for (const auto d : node) {
      if (m.network[d].model != m.network[nodes[0][0]].model) {
        throw error{"plan", "devices of several kinds", "devices that are alike"};
      }
    }
    devices_.insert(devices_.end(), node.begin(), node.end());
  }
  if (nodes[0].size() % static_cast<std::size_t>(s.tensor) != 0) {
    throw error{"plan", fmt::format("t={} on nodes of {} devices", s.tensor, nodes[0].size()), "a divisor of them"};
  }
  routes_ = hardware::route_table{m.network, fmt::format("machine {}", m.name)};
}

UNITY_INLINE statement_groups::members statement_groups::group_of(group_kind kind, const group_place& p) const {
  members all;
  const auto stages = statement_.pipeline;
  switch (kind) {
    case group_kind::tensor:
      for (std::int64_t i = 0; i < statement_.tensor; ++i) {
        all.push_back(device({p.stage, p.data, i}));
      }
      break;
    case group_kind::data:
      for (std::int64_t i = 0; i < statement_.data; ++i) {
        all.push_back(device({p.stage, i, p.tensor}));
      }
      break;
    case group_kind::onward: all = {device(p), device({(p.stage + 1) % stages, p.data, p.tensor})}; break;
    case group_kind::backward: all = {device(p), device({(p.stage + stages - 1) % stages, p.data, p.tensor})}; break;
    case group_kind::ends: all = {device({0, p.data, p.tensor}), device({stages - 1, p.data, p.tensor})}; break;
    case group_kind::all: all = devices_; break;
  }
  return all;
}

UNITY_INLINE std::vector<statement_groups::members> statement_groups::groups(group_kind kind) const {
  if (kind == group_kind::all) {
    return {devices_};
  }
  std::vector<members> all;
  const bool wraps = statement_.interleave > 1;
  for (std::int64_t k = 0; k < statement_.pipeline; ++k) {
    const bool is_end =
        (kind == group_kind::onward && k + 1 == statement_.pipeline) || (kind == group_kind::backward && k == 0);
    for (std::int64_t i = 0; i < statement_.data && (kind != group_kind::ends || k == 0) && (wraps || !is_end); ++i) {
      for (std::int64_t j = 0; j < statement_.tensor; ++j) {
        if ((kind != group_kind::tensor || j == 0) && (kind != group_kind::data || i == 0)) {
          all.push_back(group_of(kind, {k, i, j}));
        }
      }
    }
  }
  return all;
}

UNITY_INLINE const std::vector<hardware::common_way>& statement_groups::ways(group_kind group,
                                                                             hardware::exchange exchange) {
  auto& found = ways_[{group, exchange}];
  if (!found.empty()) {
    return found;
  }
  const auto all = groups(group);
  if (exchange != hardware::exchange::message) {
    found = hardware::common_ways(*machine_, routes_, exchange, all);
    return found;
  }
  hardware::collective_flows flows{1, {{1, {}}}};
  for (const auto& g : all) {
    flows.phases[0].flows.push_back({hardware::topology::vertex_of(g[0]), hardware::topology::vertex_of(g[1]), 1});
  }
  const auto start = hardware::start_of(*machine_, devices_[0]);
  const auto line = hardware::line_of(machine_->network, routes_, {&flows, 1}, start);
  found.push_back({hardware::collective_algorithm::ring, line, {}});
  return found;
}

UNITY_INLINE picoseconds statement_groups::time(group_kind group, hardware::exchange exchange, bytes size) {
  const auto [known, is_new] = times_.try_emplace({group, exchange, size});
  if (is_new) {
    const auto line = [](const hardware::common_way& w) { return w.line; };
    const auto measured = hardware::measured_time(machine_->links, exchange, group_of(group, {}).size(), size);
    known->second = measured ? *measured : hardware::chosen_way(ways(group, exchange), size, line).line(size);
  }
  return known->second;
}

UNITY_INLINE hardware::resource_id statement_groups::link(group_kind group, const group_place& p) {
  const auto own = device(p);
  const auto& t = machine_->network;
  const auto all = group_of(group, p);
  const auto first = std::find(all.begin(), all.end(), own);
  auto to = all[static_cast<std::size_t>(first - all.begin() + 1) % all.size()];
  for (const auto d : all) {
    to = t[d].node != t[own].node && t[to].node == t[own].node ? d : to;
  }
  return t.resource(*routes_.between(t, own, to).begin());
}

}  // namespace unity::parallel

#endif
