// Converts between plans and AutoDist's strategies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <unity/hardware/topology.hpp>
#include <unity/io/autodist_strategy.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

// States how a plan synchronizes trained weights as a strategy of AutoDist. The replicas are the devices that compute,
// in their order. Groups are buckets: bucket "group N" gets the number N; a weight in no bucket gets a group of its
// own. AutoDist treats gradients of lookups as sparse; its files do not say so.
// Throws: unity::error for what AutoDist cannot express: sharded weights, other compressors, dense gradients of
// lookups.
[[nodiscard]] autodist_strategy to_autodist(const tensor::algebra& a, const parallel::plan& p, std::string id);

// The inverse, for a graph on a machine. The devices of a node exchange data with servers as one, as AutoDist implies.
// The group that contains the last weight, or its last part, is reduced first, because the backward pass begins there.
// The order of nodes in the file has no effect. file: for messages.
// Throws: unity::error for weights that the graph lacks or that are missing, devices that the machine lacks, parts that
// do not cover an axis, servers that do not wait for all (`sync` is false), and as parallel::check.
[[nodiscard]] synchronization_on from_autodist(const tensor::algebra& a, const tensor::tensor_graph& g,
                                               const hardware::topology& t, const autodist_strategy& s,
                                               std::string_view file);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_AUTODIST_PLAN)

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::io {

namespace detail {

// "group N", without leading zeros, has the number N; other names have none.
UNITY_INLINE std::optional<std::int32_t> group_number(std::string_view bucket) {
  constexpr std::string_view before = "group ";
  constexpr std::size_t most_digits = 9;
  if (!bucket.starts_with(before) || bucket.size() == before.size() || bucket.size() > before.size() + most_digits) {
    return std::nullopt;
  }
  if (bucket.size() > before.size() + 1 && bucket[before.size()] == '0') {
    return std::nullopt;
  }
  std::int32_t number = 0;
  for (const char c : bucket.substr(before.size())) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    number = number * 10 + (c - '0');
  }
  return number;
}

UNITY_INLINE std::string weight_name(const tensor::algebra& a, const tensor::tensor_graph& g, value_id weight) {
  return std::string{a.read(g.operation(g.producer(weight))).word("name")};
}

// Converts a plan to a strategy.
class autodist_writer {
 public:
  autodist_writer(const tensor::algebra& a, const parallel::plan& p) : algebra_{a}, plan_{p}, training_{a, p.graph} {
    for (const auto& b : p.synchronization.buckets) {
      groups_.push_back(group_number(b));
      next_group_ = std::max(next_group_, groups_.back().value_or(-1) + 1);
    }
    for (auto& g : groups_) {
      g = g ? g : next_group_++;
    }
  }

  [[nodiscard]] autodist_strategy write(std::string id);

 private:
  [[nodiscard]] std::string name_of(hardware::device_id d) const { return plan_.machine.network[d].name; }
  void synchronize(const std::string& where, const parallel::synchronizer& sync, bool is_sparse, autodist_node& n);

  const tensor::algebra& algebra_;
  const parallel::plan& plan_;
  parallel::training_graph training_;
  std::vector<std::optional<std::int32_t>> groups_{};  // by bucket
  std::int32_t next_group_ = 0;
};

UNITY_INLINE void autodist_writer::synchronize(const std::string& where, const parallel::synchronizer& sync,
                                               bool is_sparse, autodist_node& n) {
  if (is_sparse != sync.is_sparse) {
    throw error{where, is_sparse ? "a dense gradient of lookups" : "a sparse gradient",
                "what AutoDist does: gradients of lookups, and only those, are sparse"};
  }
  if (sync.kind == parallel::sync_kind::parameter_server) {
    n.server = {name_of(sync.destination), sync.is_proxied, true, static_cast<std::int32_t>(sync.staleness)};
    return;
  }
  const auto& c = sync.compressor;
  if (sync.kind != parallel::sync_kind::all_reduce ||
      (c.kind != parallel::compression::none && c.kind != parallel::compression::float16)) {
    throw error{where,
                sync.kind != parallel::sync_kind::all_reduce
                    ? parallel::sync_kind_names[static_cast<std::size_t>(sync.kind)]
                    : parallel::compression_names[static_cast<std::size_t>(c.kind)],
                "parameter_server, or all_reduce with float16 or uncompressed: AutoDist has no other"};
  }
  const auto group = sync.bucket == parallel::synchronizer::no_bucket ? next_group_++ : *groups_[sync.bucket];
  const auto compressor = c.kind == parallel::compression::none ? 0 : c.has_feedback ? 2 : 1;
  n.reduction = {static_cast<std::int32_t>(sync.algorithm), compressor, group};
}

UNITY_INLINE autodist_strategy autodist_writer::write(std::string id) {
  autodist_strategy s;
  s.id = std::move(id);
  for (const auto d : replicas_of(plan_)) {
    s.replicas.push_back(name_of(d));
  }
  const auto& all = plan_.synchronization.weights;
  for (std::size_t w = 0; w < training_.weights().size(); ++w) {
    const auto& weight = training_.weights()[w];
    if (!weight.is_trained) {
      continue;
    }
    const auto own = all.empty() ? parallel::weight_sync{} : all[w];
    const bool is_sparse = parallel::is_looked_up(algebra_, plan_.graph, weight);
    auto& n = s.nodes.emplace_back();
    n.name = weight_name(algebra_, plan_.graph, weight.value);
    if (own.parts.size() == 1) {
      synchronize(n.name, own.parts.front(), is_sparse, n);
      continue;
    }
    for (std::size_t d = 0; d < plan_.graph.type(weight.value).dims.size(); ++d) {
      n.partitioner += fmt::format("{}{}", d == 0 ? "" : ",", d == own.axis ? own.parts.size() : 1);
    }
    for (std::size_t k = 0; k < own.parts.size(); ++k) {
      auto& part = n.parts.emplace_back();
      part.name = fmt::format("{}/part_{}", n.name, k);
      synchronize(part.name, own.parts[k], is_sparse, part);
    }
  }
  return s;
}

// Converts a strategy for a graph on a machine.
class autodist_finder {
 public:
  autodist_finder(const tensor::algebra& a, const tensor::tensor_graph& g, const hardware::topology& t,
                  std::string_view file)
      : algebra_{a}, graph_{g}, file_{file} {
    for (std::size_t d = 0; d < t.device_count(); ++d) {
      devices_.emplace(t[hardware::device_id{d}].name, hardware::device_id{d});
    }
  }

  [[nodiscard]] synchronization_on find(const autodist_strategy& s);

 private:
  // The number of a group, the element type and the compressor: a bucket has one of each.
  using group_key = std::tuple<std::int32_t, tensor::dtype, std::int32_t>;
  struct part_place {
    std::size_t weight = 0;
    std::size_t part = 0;

    friend auto operator<=>(const part_place&, const part_place&) = default;
  };

  [[nodiscard]] hardware::device_id device(const std::string& where, const std::string& name) const;
  [[nodiscard]] static std::uint32_t axis_of(const std::string& where, const autodist_node& n,
                                             const tensor::shape& dims);
  [[nodiscard]] parallel::synchronizer synchronizer(const std::string& where, const autodist_node& n, bool is_sparse,
                                                    tensor::dtype element, part_place place);
  void add_groups(parallel::synchronization& all);

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  std::string_view file_;
  std::map<std::string, hardware::device_id> devices_{};
  std::map<group_key, std::vector<part_place>> groups_{};
};

UNITY_INLINE hardware::device_id autodist_finder::device(const std::string& where, const std::string& name) const {
  const auto found = devices_.find(name);
  if (found == devices_.end()) {
    throw error{where, fmt::format("no device '{}'", printable(name)), "one of the machine's"};
  }
  return found->second;
}

// The partitioner has one number per axis: the number of parts for one axis, 1 for the others.
UNITY_INLINE std::uint32_t autodist_finder::axis_of(const std::string& where, const autodist_node& n,
                                                    const tensor::shape& dims) {
  const auto wrong = [&] {
    return error{where, fmt::format("the partitioner '{}' and {} parts", printable(n.partitioner), n.parts.size()),
                 fmt::format("{} numbers, one of them the parts, 2 at least, and the others 1", dims.size())};
  };
  std::vector<std::size_t> counts(1);
  bool has_digit = false;
  for (const char c : n.partitioner) {
    constexpr std::size_t most = 10'000'000;
    if (c == ',' && has_digit) {
      counts.push_back(0);
      has_digit = false;
    } else if (c >= '0' && c <= '9' && counts.back() < most) {
      counts.back() = counts.back() * 10 + static_cast<std::size_t>(c - '0');
      has_digit = true;
    } else if (c != ' ') {
      throw wrong();
    }
  }
  const auto cut = std::find_if(counts.begin(), counts.end(), [](std::size_t k) { return k != 1; });
  if (!has_digit || counts.size() != dims.size() || cut == counts.end() || *cut != n.parts.size() ||
      std::count(counts.begin(), counts.end(), std::size_t{1}) + 1 != static_cast<std::ptrdiff_t>(counts.size()) ||
      static_cast<std::int64_t>(*cut) > dims[static_cast<std::size_t>(cut - counts.begin())]) {
    throw wrong();
  }
  return static_cast<std::uint32_t>(cut - counts.begin());
}

UNITY_INLINE parallel::synchronizer autodist_finder::synchronizer(const std::string& where, const autodist_node& n,
                                                                  bool is_sparse, tensor::dtype element,
                                                                  part_place place) {
  parallel::synchronizer s;
  s.is_sparse = is_sparse;
  if (n.server) {
    if (!n.server->sync) {
      throw error{where, "a server that updates for each worker by itself (sync is false)",
                  "one that waits for all: results would depend on who is faster"};
    }
    if (n.server->staleness < 0) {
      throw error{where, fmt::format("staleness {}", n.server->staleness), "0 at least"};
    }
    s.kind = parallel::sync_kind::parameter_server;
    s.destination = device(where, n.server->destination);
    s.staleness = static_cast<std::uint32_t>(n.server->staleness);
    s.is_proxied = n.server->local_replication || s.staleness > 0;
    s.is_per_node = true;
    return s;
  }
  if (!n.reduction) {
    throw error{where, "no synchronizer", "PSSynchronizer or AllReduceSynchronizer"};
  }
  const auto& r = *n.reduction;
  if (r.spec < 0 || r.spec > 2 || r.compressor < 0 || r.compressor > 2 || r.group < 0) {
    throw error{where, fmt::format("spec {}, compressor {}, group {}", r.spec, r.compressor, r.group),
                "a spec and a compressor from 0 to 2 and a group of at least 0"};
  }
  s.algorithm = static_cast<parallel::reduction_algorithm>(r.spec);
  if (r.compressor > 0) {
    s.compressor = {parallel::compression::float16, r.compressor == 2, 0};
  }
  if (!is_sparse) {
    groups_[{r.group, element, r.compressor}].push_back(place);
  }
  return s;
}

UNITY_INLINE void autodist_finder::add_groups(parallel::synchronization& all) {
  std::vector<std::pair<std::string, std::vector<part_place>>> named;
  std::int32_t before = -1;
  for (const auto& [key, parts] : groups_) {
    const auto [number, element, compressor] = key;
    named.emplace_back(number == before ? fmt::format("group {} {} {}", number, tensor::name_of(element), compressor)
                                        : fmt::format("group {}", number),
                       parts);
    before = number;
  }
  const auto last = [](const auto& group) { return *std::max_element(group.second.begin(), group.second.end()); };
  std::sort(named.begin(), named.end(), [&](const auto& x, const auto& y) { return last(x) > last(y); });
  for (const auto& [name, parts] : named) {
    for (const auto& p : parts) {
      all.weights[p.weight].parts[p.part].bucket = static_cast<std::uint32_t>(all.buckets.size());
    }
    all.buckets.push_back(name);
  }
}

UNITY_INLINE synchronization_on autodist_finder::find(const autodist_strategy& s) {
  synchronization_on all;
  const std::string file{file_};
  for (const auto& name : s.replicas) {
    all.replicas.push_back(device(file + ", replicas", name));
  }
  if (std::set<std::string>(s.replicas.begin(), s.replicas.end()).size() != s.replicas.size() || s.replicas.empty()) {
    throw error{file + ", replicas", s.replicas.empty() ? "none" : "a device twice", "one at least, each once"};
  }
  const parallel::training_graph training{algebra_, graph_};
  std::map<std::string, std::size_t> numbers;
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    if (training.weights()[w].is_trained) {
      numbers.emplace(weight_name(algebra_, graph_, training.weights()[w].value), w);
    }
  }
  all.sync.weights.resize(training.weights().size());
  for (const auto& n : s.nodes) {
    // TensorFlow's name of the first result
    const auto colon = n.name.ends_with(":0") ? n.name.size() - 2 : n.name.size();
    const auto where = fmt::format("{}, weight '{}'", file, printable(n.name));
    const auto found = numbers.find(n.name.substr(0, colon));
    if (found == numbers.end()) {
      throw error{where, "none of the model, or a second time", "a weight that training changes, each once"};
    }
    const auto w = found->second;
    numbers.erase(found);
    const auto& type = graph_.type(training.weights()[w].value);
    const bool is_sparse = parallel::is_looked_up(algebra_, graph_, training.weights()[w]);
    auto& own = all.sync.weights[w];
    if (n.parts.empty() && n.partitioner.empty()) {
      own.parts.front() = synchronizer(where, n, is_sparse, type.element, {w, 0});
      continue;
    }
    own.axis = axis_of(where, n, type.dims);
    own.parts.clear();
    for (std::size_t k = 0; k < n.parts.size(); ++k) {
      own.parts.push_back(
          synchronizer(fmt::format("{}, part {}", where, k), n.parts[k], is_sparse, type.element, {w, k}));
    }
  }
  if (!numbers.empty()) {
    throw error{file, fmt::format("nothing of the weight '{}'", printable(numbers.begin()->first)),
                "a node for each weight that training changes"};
  }
  add_groups(all.sync);
  return all;
}

}  // namespace detail

UNITY_INLINE autodist_strategy to_autodist(const tensor::algebra& a, const parallel::plan& p, std::string id) {
  return detail::autodist_writer{a, p}.write(std::move(id));
}

UNITY_INLINE synchronization_on from_autodist(const tensor::algebra& a, const tensor::tensor_graph& g,
                                              const hardware::topology& t, const autodist_strategy& s,
                                              std::string_view file) {
  auto all = detail::autodist_finder{a, g, t, file}.find(s);
  try {
    parallel::check(a, g, all.sync, t.device_count());
  } catch (const error& e) {
    throw error{fmt::format("{}: {}", file, e.what())};
  }
  return all;
}

}  // namespace unity::io

#endif
