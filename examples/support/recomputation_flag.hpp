// The flags that trade time for memory: recomputation, offloading of results, and the number of micro-batches.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

#include "number_range.hpp"

namespace support {

struct memory_flags {
  std::string recompute{};
  std::string offload{};  // of programs that take plans
  std::int64_t microbatches = 1;
};

inline void declare(CLI::App& app, memory_flags& a) {
  app.add_option(
      "--recompute", a.recompute,
      "results that are recomputed in the backward pass: none; full, all but about sqrt(n) checkpoints where all "
      "paths meet; products, all but results of matrix products and convolutions; every=K, all but each K-th "
      "operator; default: what the plan says");
  app.add_option("--microbatches", a.microbatches,
                 "gradient accumulation: micro-batches per batch, one after another; their gradients are added up "
                 "before the weights change")
      ->check(number_in(1, 1'000'000));
}

inline void declare_offloading(CLI::App& app, memory_flags& a) {
  app.add_option("--offload-results", a.offload,
                 "results that are kept on the host until the backward pass: none; products, those of matrix products "
                 "and convolutions, or what is computed from them if the backward pass reads only that; all; default: "
                 "as in the plan")
      ->check(CLI::IsMember({"none", "products", "all"}));
}

// The number of every=K; 0 for other values.
// Throws: unity::error if the flag is invalid.
inline std::size_t check_recompute(const std::string& flag) {
  const std::string every = "every=";
  if (flag.rfind(every, 0) == 0) {
    const auto text = flag.substr(every.size());
    std::size_t number = 0;
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos ||
        (number = std::stoul(text)) == 0) {
      throw unity::error{"--recompute every", fmt::format("'{}'", text), "a positive number of operators"};
    }
    return number;
  }
  if (!flag.empty() && flag != "none" && flag != "full" && flag != "products") {
    throw unity::error{"--recompute", fmt::format("'{}'", flag), "none, full, products or every=K"};
  }
  return 0;
}

// Precondition: the flag is there.
// Throws: as check_recompute.
inline unity::parallel::recomputation recomputation_of(const std::string& flag, const unity::tensor::algebra& a,
                                                       const unity::tensor::tensor_graph& g) {
  if (const auto k = check_recompute(flag); k > 0) {
    return unity::parallel::recomputation_but_every(g, k);
  }
  return flag == "none"   ? unity::parallel::recomputation{}
         : flag == "full" ? unity::parallel::full_recomputation(g)
                          : unity::parallel::recomputation_between_products(a, g);
}

// The graph of one of this number of micro-batches.
// Throws: unity::error if there is none.
inline unity::tensor::tensor_graph graph_of_microbatch(const unity::tensor::algebra& a,
                                                       const unity::tensor::tensor_graph& g, std::int64_t count) {
  auto part = unity::parallel::microbatch(a, g, unity::parallel::graph_dimensions{a, g}, count);
  if (!part) {
    throw unity::error{"--microbatches", fmt::format("{}, of {} samples", count, unity::parallel::sample_count(a, g)),
                       "a number that divides them, and a graph without sums over samples"};
  }
  return std::move(*part);
}

// Effects: sets the plan's micro-batches, recomputation and offloading from the flags that are given. Recomputed
// results are not offloaded.
// Throws: as check_recompute and strategy_of_microbatch; unity::error if the plan has micro-batches already, or a
// micro-batch cannot be divided.
inline void apply(const memory_flags& flags, const unity::tensor::algebra& a, unity::parallel::plan& p) {
  if (flags.microbatches > 1) {
    if (p.pipeline.microbatches > 1) {
      throw unity::error{"--microbatches", fmt::format("a plan of {} of them", p.pipeline.microbatches),
                         "one of whole batches"};
    }
    unity::parallel::check(a, p);
    auto part = graph_of_microbatch(a, p.graph, flags.microbatches);
    p.configurations = unity::parallel::strategy_of_microbatch({a, p.graph}, {a, part}, std::move(p.configurations));
    p.graph = std::move(part);
    p.pipeline.microbatches = flags.microbatches;
    if (p.pipeline.stages.empty()) {
      p.pipeline.stages.assign(p.machine.network.device_count(), 0);
    }
  }
  static_cast<void>(check_recompute(flags.recompute));
  if (!flags.recompute.empty()) {
    p.recomputed = recomputation_of(flags.recompute, a, p.graph);
  }
  if (!flags.offload.empty()) {
    p.offloaded = flags.offload == "none" ? unity::parallel::offloading{}
                                          : unity::parallel::offloaded_results(a, p.graph, p.recomputed,
                                                                               flags.offload == "products");
  }
  unity::parallel::check(a, p);
}

}  // namespace support
