// The flag that sets the synchronization of weights.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "quantity.hpp"

namespace support {

inline void declare_sync(CLI::App& app, std::string& flag) {
  app.add_option("--sync", flag,
                 "how replicas of weights stay equal: bucket=SIZE, all-reduces of so many bytes together (25MB), in "
                 "the order of the backward pass; zero=1: each has a share of the optimizer's state, zero=2: "
                 "also of the gradients, zero=3: also of the weights; fsdp[,prefetch=N][,keep]: zero=3, weights "
                 "gathered N operators ahead, and kept until the backward pass is over; ps: each weight has a device "
                 "that updates it");
}

inline constexpr std::string_view sync_forms = "bucket=SIZE, zero=1, zero=2, zero=3, fsdp[,prefetch=N][,keep] or ps";

// The settings of zero=N and fsdp; nothing for other values.
// Throws: unity::error if the flag is invalid.
inline std::optional<unity::parallel::synchronizer> sharding_of(const std::string& flag) {
  for (std::uint32_t stage = 1; stage <= 3; ++stage) {
    if (flag == fmt::format("zero={}", stage)) {
      return unity::parallel::sharded_by_stage(stage);
    }
  }
  std::istringstream words{flag};
  std::string word;
  if (!std::getline(words, word, ',') || word != "fsdp" || flag.back() == ',') {
    return std::nullopt;
  }
  auto s = unity::parallel::sharded_by_stage(3);
  const std::string prefetch = "prefetch=";
  std::set<std::string> keys;
  while (std::getline(words, word, ',')) {
    if (!keys.insert(word.substr(0, word.find('='))).second) {
      throw unity::error{"--sync fsdp", fmt::format("'{}', a second time", word), "each once"};
    }
    if (word == "keep") {
      s.is_resharded = false;
    } else if (word.rfind(prefetch, 0) == 0) {
      const auto count = unity::to_number<std::uint32_t>(word.substr(prefetch.size()));
      if (!count || *count > 1'000'000) {
        throw unity::error{"--sync fsdp", fmt::format("'{}'", word), "prefetch=N, from 0 to 1000000"};
      }
      s.prefetch = *count;
    } else {
      throw unity::error{"--sync fsdp", fmt::format("'{}'", word), "prefetch=N or keep"};
    }
  }
  return s;
}

// The bytes of bucket=SIZE; 0 for other values.
// Throws: unity::error if the flag is invalid.
inline std::int64_t check_sync(const std::string& flag) {
  const std::string bucket = "bucket=";
  if (flag.rfind(bucket, 0) == 0) {
    return parse_memory("--sync bucket", flag.substr(bucket.size())).count();
  }
  if (!flag.empty() && flag != "ps" && !sharding_of(flag)) {
    throw unity::error{"--sync", fmt::format("'{}'", flag), sync_forms};
  }
  return 0;
}

// Precondition: the flag is there.
// Throws: as check_sync.
inline unity::parallel::synchronization sync_of(const std::string& flag, unity::parallel::lowering& l,
                                                const unity::parallel::strategy& s) {
  if (const auto size = check_sync(flag); size > 0) {
    return unity::parallel::bucketed_sync(l, s, unity::bytes{size});
  }
  const auto sharding = sharding_of(flag);
  return sharding ? unity::parallel::sharded_sync(l, *sharding) : unity::parallel::served_sync(l, s);
}

// For the synchronization of weights, which does not depend on times of operators.
struct no_durations {
  [[nodiscard]] static unity::duration duration_of(std::uint32_t, const unity::tensor::operation&,
                                                   std::span<const unity::tensor::tensor_type>,
                                                   std::span<const unity::tensor::tensor_type>) {
    return {};
  }
  [[nodiscard]] static unity::fingerprint version() { return {}; }
};

// Effects: applies the flag to the plan, if it is given.
// Throws: as check_sync; unity::error if updates are delayed.
inline void apply_sync(const std::string& flag, const unity::tensor::algebra& a, unity::parallel::plan& p) {
  if (flag.empty()) {
    return;
  }
  if (p.pipeline.is_delayed) {
    throw unity::error{"--sync", "updates that are delayed", "a plan that updates after each iteration"};
  }
  unity::parallel::lowering l{a, p.graph, p.machine, no_durations{}};
  p.synchronization = sync_of(flag, l, p.configurations);
}

}  // namespace support
