// The synchronization of weights as JSON, and back: a member of plans or a separate file.
//
// {"buckets": ["late", "early"],
//  "weights": [{"node": 3, "how": "all_reduce", "bucket": "late"},
//              {"node": 5, "how": "parameter_server", "device": "n0/gpu1", "proxy": false},
//              {"node": 6, "how": "parameter_server", "device": "n0/gpu1", "staleness": 2, "per_node": true},
//              {"node": 7, "axis": 0, "parts": [{"how": "sharded"}, {"how": "all_reduce"}]},
//              {"node": 8, "how": "all_reduce", "algorithm": "ring", "compressor": {"kind": "float16", "feedback":
//              true}},
//              {"node": 9, "how": "all_reduce", "compressor": {"kind": "power_sgd", "amount": 2}},
//              {"node": 10, "how": "all_reduce", "sparse": true},
//              {"node": 11, "how": "sharded", "stage": 3, "prefetch": 2, "reshard_after_forward": false}]}
// Weights that are not listed are all-reduced separately. A file also has
//   "format": "unity synchronization", "version": 1, "replicas": ["n0/gpu0", "n0/gpu1"]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/hardware/topology.hpp>
#include <unity/io/json_place.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io::detail {

[[nodiscard]] nlohmann::json synchronization_to_json(const tensor::algebra& a, const parallel::plan& p);

// Reads the synchronization of a graph on a machine.
// Throws: unity::error naming the member that is wrong.
[[nodiscard]] parallel::synchronization synchronization_from_json(const tensor::algebra& a, const json_place& in,
                                                                  const tensor::tensor_graph& g,
                                                                  const hardware::topology& t);

}  // namespace unity::io::detail

namespace unity::io {

// How weights are synchronized, and the computing devices, in order. Regular.
struct synchronization_on {
  parallel::synchronization sync{};
  std::vector<hardware::device_id> replicas{};

  friend bool operator==(const synchronization_on&, const synchronization_on&) = default;
};

// The devices on which the operators of a plan run, in order of first use.
[[nodiscard]] std::vector<hardware::device_id> replicas_of(const parallel::plan& p);

[[nodiscard]] std::string to_synchronization_text(const tensor::algebra& a, const parallel::plan& p);
// file: for messages.
// Throws: unity::error naming the member that is wrong.
[[nodiscard]] synchronization_on parse_synchronization(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                       const hardware::topology& t, std::string_view text,
                                                       std::string_view file);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_SYNCHRONIZATION_JSON)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/json.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::io::detail {

UNITY_INLINE nlohmann::json synchronizer_to_json(const parallel::synchronizer& s, const parallel::plan& p) {
  nlohmann::json all{{"how", parallel::sync_kind_names[static_cast<std::size_t>(s.kind)]}};
  if (s.bucket != parallel::synchronizer::no_bucket) {
    all["bucket"] = p.synchronization.buckets[s.bucket];
  }
  if (s.kind == parallel::sync_kind::parameter_server) {
    all["device"] = p.machine.network[s.destination].name;
  }
  if (s.algorithm != parallel::reduction_algorithm::automatic) {
    all["algorithm"] = parallel::reduction_algorithm_names[static_cast<std::size_t>(s.algorithm)];
  }
  if (const auto& c = s.compressor; c.kind != parallel::compression::none) {
    all["compressor"] = {{"kind", parallel::compression_names[static_cast<std::size_t>(c.kind)]}};
    if (c.has_feedback) {
      all["compressor"]["feedback"] = true;
    }
    if (c.amount > 0) {
      all["compressor"]["amount"] = c.amount;
    }
  }
  if (!s.is_proxied) {
    all["proxy"] = false;
  }
  if (s.staleness > 0) {
    all["staleness"] = s.staleness;
  }
  if (s.is_per_node) {
    all["per_node"] = true;
  }
  if (s.is_sparse) {
    all["sparse"] = true;
  }
  if (s.stage != 1) {
    all["stage"] = s.stage;
  }
  if (s.prefetch != 1) {
    all["prefetch"] = s.prefetch;
  }
  if (!s.is_resharded) {
    all["reshard_after_forward"] = false;
  }
  return all;
}

UNITY_INLINE std::uint32_t small_number(const json_place& in) {
  constexpr std::int64_t most = 1'000'000;
  const auto n = in.integer();
  if (n < 0 || n > most) {
    throw error{in.where(), fmt::format("is {}", n), "a number from 0 to 1000000"};
  }
  return static_cast<std::uint32_t>(n);
}

UNITY_INLINE parallel::compressor compressor_from_json(const json_place& in) {
  const auto kind = parallel::find_compression(in.at("kind").word());
  if (!kind) {
    throw error{in.at("kind").where(), fmt::format("is {}", shown(in.at("kind").word())),
                "float16, bfloat16, top_k or power_sgd"};
  }
  return {*kind, in.has("feedback") && in.at("feedback").boolean(),
          in.has("amount") ? small_number(in.at("amount")) : 0};
}

UNITY_INLINE nlohmann::json synchronization_to_json(const tensor::algebra& a, const parallel::plan& p) {
  const parallel::training_graph training{a, p.graph};
  auto weights = nlohmann::json::array();
  for (std::size_t w = 0; w < p.synchronization.weights.size(); ++w) {
    const auto& own = p.synchronization.weights[w];
    if (own.is_default()) {
      continue;
    }
    nlohmann::json item;
    if (own.parts.size() == 1) {
      item = synchronizer_to_json(own.parts.front(), p);
    } else {
      item["axis"] = own.axis;
      item["parts"] = nlohmann::json::array();
      for (const auto& part : own.parts) {
        item["parts"].push_back(synchronizer_to_json(part, p));
      }
    }
    item["node"] = p.graph.producer(training.weights()[w].value).index();
    weights.push_back(std::move(item));
  }
  return {{"buckets", p.synchronization.buckets}, {"weights", std::move(weights)}};
}

// Members that are only valid with `sharded`; elsewhere they are rejected even with their default values.
UNITY_INLINE void read_sharding(const json_place& in, parallel::synchronizer& s) {
  const auto expect = [&](const char* member, bool has_it, const char* expected) {
    if (in.has(member) && !has_it) {
      throw error{in.at(member).where(), fmt::format("of {}", in.at("how").word()), expected};
    }
  };
  expect("stage", s.kind == parallel::sync_kind::sharded, "a stage of sharded alone");
  s.stage = in.has("stage") ? small_number(in.at("stage")) : 1;
  for (const auto* member : {"prefetch", "reshard_after_forward"}) {
    expect(member, divides_weight(s), "that of sharded, stage 3, alone");
  }
  s.prefetch = in.has("prefetch") ? small_number(in.at("prefetch")) : 1;
  s.is_resharded = !in.has("reshard_after_forward") || in.at("reshard_after_forward").boolean();
}

UNITY_INLINE parallel::synchronizer synchronizer_from_json(const json_place& in,
                                                           const std::map<std::string, std::uint32_t>& buckets,
                                                           const std::map<std::string, hardware::device_id>& devices) {
  parallel::synchronizer s;
  const auto kind = parallel::find_sync_kind(in.at("how").word());
  if (!kind) {
    throw error{in.at("how").where(), fmt::format("is {}", shown(in.at("how").word())),
                "all_reduce, sharded, parameter_server or none"};
  }
  s.kind = *kind;
  if (in.has("bucket")) {
    const auto found = buckets.find(in.at("bucket").word());
    if (found == buckets.end()) {
      throw error{in.at("bucket").where(), fmt::format("no bucket has the name {}", shown(in.at("bucket").word())),
                  "one of the plan's buckets"};
    }
    s.bucket = found->second;
  }
  if (s.kind == parallel::sync_kind::parameter_server) {
    const auto found = devices.find(in.at("device").word());
    if (found == devices.end()) {
      throw error{in.at("device").where(), fmt::format("no device has the name {}", shown(in.at("device").word())),
                  "one of the machine's"};
    }
    s.destination = found->second;
  }
  if (in.has("algorithm")) {
    const auto& names = parallel::reduction_algorithm_names;
    const auto found = std::find(names.begin(), names.end(), in.at("algorithm").word());
    if (found == names.end()) {
      throw error{in.at("algorithm").where(), fmt::format("is {}", shown(in.at("algorithm").word())),
                  "automatic, nccl or ring"};
    }
    s.algorithm = static_cast<parallel::reduction_algorithm>(found - names.begin());
  }
  if (in.has("compressor")) {
    s.compressor = compressor_from_json(in.at("compressor"));
  }
  s.is_proxied = !in.has("proxy") || in.at("proxy").boolean();
  s.staleness = in.has("staleness") ? small_number(in.at("staleness")) : 0;
  s.is_per_node = in.has("per_node") && in.at("per_node").boolean();
  s.is_sparse = in.has("sparse") && in.at("sparse").boolean();
  read_sharding(in, s);
  return s;
}

UNITY_INLINE std::map<std::string, hardware::device_id> devices_by_name(const hardware::topology& t) {
  std::map<std::string, hardware::device_id> devices;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    devices.emplace(t[hardware::device_id{d}].name, hardware::device_id{d});
  }
  return devices;
}

UNITY_INLINE parallel::synchronization synchronization_from_json(const tensor::algebra& a, const json_place& in,
                                                                 const tensor::tensor_graph& g,
                                                                 const hardware::topology& t) {
  parallel::synchronization all;
  std::map<std::string, std::uint32_t> buckets;
  for (const auto& item : in.at("buckets").items()) {
    buckets.emplace(item.line(), static_cast<std::uint32_t>(all.buckets.size()));
    all.buckets.push_back(item.line());
  }
  const auto devices = devices_by_name(t);
  const parallel::training_graph training{a, g};
  std::map<std::int64_t, std::size_t> numbers;  // by node
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    numbers.emplace(static_cast<std::int64_t>(g.producer(training.weights()[w].value).index()), w);
  }
  all.weights.resize(numbers.size());
  std::set<std::size_t> seen;
  for (const auto& item : in.at("weights").items()) {
    const auto node = item.at("node");
    const auto found = numbers.find(node.integer());
    if (found == numbers.end() || !seen.insert(found->second).second) {
      throw error{node.where(), fmt::format("is {}", node.integer()), "the node of a weight, each once"};
    }
    auto& own = all.weights[found->second];
    own.parts.clear();
    if (!item.has("parts")) {
      own.parts.push_back(synchronizer_from_json(item, buckets, devices));
      continue;
    }
    const auto axis = item.at("axis").integer();
    if (axis < 0 || axis > 64) {
      throw error{item.at("axis").where(), fmt::format("is {}", axis), "an axis of the weight"};
    }
    for (const auto& part : item.at("parts").items()) {
      own.parts.push_back(synchronizer_from_json(part, buckets, devices));
    }
    own.axis = own.parts.size() > 1 ? static_cast<std::uint32_t>(axis) : 0;
  }
  try {
    parallel::check(a, g, all, t.device_count());
  } catch (const error& e) {
    throw error{fmt::format("{}: {}", in.where(), e.what())};
  }
  return all.is_trivial() ? parallel::synchronization{} : all;  // as it was written
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::vector<hardware::device_id> replicas_of(const parallel::plan& p) {
  std::vector<hardware::device_id> all;
  std::set<std::size_t> seen;
  for (const auto& c : p.configurations) {
    for (const auto d : c.devices) {
      if (seen.insert(d.index()).second) {
        all.push_back(d);
      }
    }
  }
  return all;
}

UNITY_INLINE std::string to_synchronization_text(const tensor::algebra& a, const parallel::plan& p) {
  auto all = detail::synchronization_to_json(a, p);
  all["format"] = "unity synchronization";
  all["version"] = 1;
  all["replicas"] = nlohmann::json::array();
  for (const auto d : replicas_of(p)) {
    all["replicas"].push_back(utf8_word("name of a device", p.machine.network[d].name));
  }
  return all.dump(1) + "\n";
}

UNITY_INLINE synchronization_on parse_synchronization(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                      const hardware::topology& t, std::string_view text,
                                                      std::string_view file) {
  const auto document = detail::parse_json(text, file);
  const json_place in{document, std::string{file}};
  if (in.at("format").word() != "unity synchronization" || in.at("version").integer() != 1) {
    throw error{in.where(), "another format or version", "\"unity synchronization\", version 1"};
  }
  synchronization_on all{detail::synchronization_from_json(a, in, g, t), {}};
  const auto devices = detail::devices_by_name(t);
  std::set<std::string> seen;
  for (const auto& item : in.at("replicas").items()) {
    const auto found = devices.find(item.line());
    if (found == devices.end() || !seen.insert(found->first).second) {
      throw error{item.where(), fmt::format("is {}", detail::shown(item.line())), "a device of the machine, each once"};
    }
    all.replicas.push_back(found->second);
  }
  if (all.replicas.empty()) {
    throw error{in.at("replicas").where(), "is empty", "a device"};
  }
  return all;
}

}  // namespace unity::io

#endif
