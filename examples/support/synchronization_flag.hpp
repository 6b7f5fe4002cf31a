// The flag of programs that says how weights are synchronized.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/algebra.hpp>

#include "quantity.hpp"

namespace support {

inline void declare_sync(CLI::App& app, std::string& flag) {
  app.add_option("--sync", flag,
                 "how replicas of weights stay equal: bucket=SIZE, all-reduces of so many bytes together (25MB), in "
                 "the order of the backward pass; zero=1, each updates its share; ps, each weight has a device that "
                 "updates it");
}

// The bytes of bucket=SIZE; 0 for others.
// Throws: unity::error where the flag is none.
inline std::int64_t check_sync(const std::string& flag) {
  const std::string bucket = "bucket=";
  if (flag.rfind(bucket, 0) == 0) {
    const auto size = parse_quantity("--sync bucket", flag.substr(bucket.size()), memory_sizes);
    if (size < 1) {
      throw unity::error{"--sync bucket", fmt::format("'{}'", flag.substr(bucket.size())), "a byte at least"};
    }
    return static_cast<std::int64_t>(size);
  }
  if (!flag.empty() && flag != "zero=1" && flag != "ps") {
    throw unity::error{"--sync", fmt::format("'{}'", flag), "bucket=SIZE, zero=1 or ps"};
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
  return flag == "ps" ? unity::parallel::served_sync(l, s) : unity::parallel::sharded_sync(l);
}

// Effects: the plan is synchronized so, where there is a flag.
// Throws: as check_sync; where updates are delayed.
inline void apply_sync(const std::string& flag, const unity::tensor::algebra& a, unity::parallel::plan& p) {
  if (flag.empty()) {
    return;
  }
  if (p.pipeline.is_delayed) {
    throw unity::error{"--sync", "updates that are delayed", "a plan that updates after each iteration"};
  }
  unity::parallel::lowering l{a, p.graph, p.machine};
  p.synchronization = sync_of(flag, l, p.configurations);
}

}  // namespace support
