// The result of an optimization, as text and as JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

#include <fmt/core.h>

#include <unity/backend/run_comparison.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/operation.hpp>

#include "engine_target.hpp"
#include "program.hpp"

namespace support {

// The request, in the words of the report.
struct optimization_title {
  std::string model{};
  std::string cost{};
  std::string timed_on{};  // the device whose times are minimized
  std::string run_on{};    // the backend of end_to_end
  unity::tensor::mode mode{};
};

// The measurements of a search.
struct measuring {
  std::string device;        // and library versions
  std::size_t measured = 0;  // not known from an earlier run
  std::size_t known = 0;
  double seconds = 0;
};

// Both graphs end to end on a backend, and the sums of the measured times of their operators.
struct end_to_end {
  unity::backend::run_comparison times;
  std::optional<unity::picoseconds> predicted_before;
  std::optional<unity::picoseconds> predicted_after;
};

struct optimization {
  unity::io::onnx_model before{};
  unity::systems::taso_result found{};
  unity::tensor::equivalence_report check{};
  std::optional<measuring> measured{};
  std::optional<end_to_end> run{};
  std::optional<bool> signature_kept{};             // of a model from a file
  std::optional<unity::io::onnx_file_size> file{};  // the written file of such a model
  bool kept_original = false;                       // the file that is written is the model's own
  std::optional<engine_choice> engine{};
  std::string held_size{};  // why the original is kept: the result does not hold for all sizes of its open dimensions
};

// Operators that run every time: in inference mode those that depend on weights alone do not.
inline std::size_t running_operators(const unity::tensor::tensor_graph& g, unity::tensor::mode m) {
  using namespace unity;
  std::size_t count = 0;
  for (const auto n : node_ids(g)) {
    const auto results = g.results(n);
    const bool precomputed =
        m == tensor::mode::inference &&
        std::all_of(results.begin(), results.end(), [&](value_id v) { return g.type(v).constant; });
    count += !g.operands(n).empty() && !precomputed ? 1 : 0;
  }
  return count;
}

inline void print(const optimization_title& a, const optimization& r) {
  fmt::print("{:<28} {:>14} {:>14}\n", a.model, "before", "after");
  fmt::print("{:<28} {:14} {:14}\n", "operators", running_operators(r.before.graph, a.mode),
             running_operators(r.found.graph, a.mode));
  fmt::print("{:<28} {:14.3f} {:14.3f}   {:.4f} of before\n", fmt::format("time, us ({})", a.timed_on),
             r.found.cost_before_s * 1e6, r.found.cost_after_s * 1e6,
             r.found.cost_before_s > 0 ? r.found.cost_after_s / r.found.cost_before_s : 1.0);
  if (r.file) {
    fmt::print("{:<28} {:14} {:14}\n", "nodes in the file", r.before.file.nodes, r.file->nodes);
    fmt::print("{:<28} {:14} {:14}\n", "bytes of the file", r.before.file.bytes, r.file->bytes);
  }
  for (const auto& use : r.found.rules_used) {
    fmt::print("  {:4} x {:<40} {:12.3f} us\n", use.count, use.name, -use.gain_s * 1e6);
  }
  fmt::print("search: {} expanded, {} candidates, {:.3f} s (best after {:.4f} s), stopped: {}\n",
             r.found.counts.expanded, r.found.counts.candidates, r.found.seconds, r.found.seconds_to_best,
             r.found.stopped);
  if (r.found.queued > 0) {
    fmt::print("not expanded: {} graphs that were met; see --patience, --budget and --alpha\n", r.found.queued);
  }
  for (const auto& [name, count] : r.before.opaque_operators) {
    fmt::print("opaque: {} was kept as it is, {} time{}\n", name, count, count == 1 ? "" : "s");
  }
  if (!r.before.rest_reason.empty()) {
    fmt::print("kept with all that depends on it: {}\n", r.before.rest_reason);
  }
  for (const auto& axis : r.before.open.axes) {
    fmt::print("dynamic: {} stays so, searched at {}; --dim {}=SIZE fixes it\n", axis.name, axis.size, axis.name);
  }
  if (!r.held_size.empty()) {
    fmt::print("kept the original, as the result is not for all sizes: {}\n", r.held_size);
  }
  fmt::print("equal: yes, largest relative error {:.2g} on {}{}\n", r.check.max_rel_error, r.check.sizes,
             r.check.undefined > 0 ? ", but for what is NaN in both" : "");
  if (r.measured) {
    fmt::print("measured: {} operators in {:.1f} s, {} known, on {}\n", r.measured->measured, r.measured->seconds,
               r.measured->known, r.measured->device);
  }
  if (r.engine) {
    print(*r.engine);
  } else if (r.kept_original) {
    fmt::print("the original file stays: what was found is larger and not predicted to be faster by more than 1%\n");
  }
  if (r.run) {
    const auto before = unity::to_seconds(r.run->times.first.median);
    const auto after = unity::to_seconds(r.run->times.second.median);
    fmt::print("{:<28} {:14.3f} {:14.3f}   {:.4f} of before, largest relative error {:.2g}\n",
               fmt::format("run, us ({})", a.run_on), before * 1e6, after * 1e6, after / before,
               r.run->times.max_relative_error);
    if (r.run->predicted_before) {
      const auto first = unity::to_seconds(*r.run->predicted_before);
      const auto second = unity::to_seconds(*r.run->predicted_after);
      fmt::print("{:<28} {:14.3f} {:14.3f}   {:.4f} and {:.4f} of what was measured\n", "predicted, us", first * 1e6,
                 second * 1e6, first / before, second / after);
    }
  }
}

inline nlohmann::json to_json(const optimization_title& a, const end_to_end& run) {
  const auto before = unity::to_seconds(run.times.first.median);
  const auto after = unity::to_seconds(run.times.second.median);
  nlohmann::json all{{"backend", a.run_on},
                     {"original_s", before},
                     {"optimized_s", after},
                     {"ratio", before / after},
                     {"max_rel_error", run.times.max_relative_error},
                     {"runs", run.times.first.repetitions}};
  if (run.predicted_before) {
    all["predicted_original_s"] = unity::to_seconds(*run.predicted_before);
    all["predicted_optimized_s"] = unity::to_seconds(*run.predicted_after);
  }
  return all;
}

inline nlohmann::json to_json(const optimization_title& a, const optimization& r) {
  const auto& f = r.found;
  nlohmann::json rules = nlohmann::json::array();
  for (const auto& use : f.rules_used) {
    rules.push_back({{"name", use.name}, {"count", use.count}, {"gain_s", use.gain_s}});
  }
  nlohmann::json opaque = nlohmann::json::array();
  for (const auto& [name, count] : r.before.opaque_operators) {
    opaque.push_back({{"op", name}, {"count", count}});
  }
  nlohmann::json all{
      {"model", a.model},
      {"cost", a.cost},
      {"nodes_before", running_operators(r.before.graph, a.mode)},
      {"nodes_after", running_operators(f.graph, a.mode)},
      {"cost_before_s", f.cost_before_s},
      {"cost_after_s", f.cost_after_s},
      {"speedup", f.cost_after_s > 0 ? f.cost_before_s / f.cost_after_s : 1.0},
      {"rules_used", rules},
      {"search",
       {{"expanded", f.counts.expanded},
        {"candidates", f.counts.candidates},
        {"candidates_per_s", f.seconds > 0 ? static_cast<double>(f.counts.candidates) / f.seconds : 0.0},
        {"seconds", f.seconds},
        {"cpu_s", f.cpu_s},
        {"seconds_to_best", f.seconds_to_best},
        {"queued", f.queued},
        {"peak_rss_bytes", peak_rss_bytes()},
        {"stop_reason", unity::to_string(f.stopped)}}},
      {"check", {{"passed", r.check.passed}, {"max_rel_error", r.check.max_rel_error}, {"sizes", r.check.sizes}}},
      {"opaque", opaque}};
  if (!r.before.open.empty()) {
    auto axes = nlohmann::json::array();
    for (const auto& axis : r.before.open.axes) {
      axes.push_back({{"name", axis.name}, {"searched_at", axis.size}});
    }
    all["dynamic_axes"] = axes;
  }
  if (!r.held_size.empty()) {
    all["held_size"] = r.held_size;
  }
  if (r.file) {
    all["file_bytes"] = {{"original", r.before.file.bytes}, {"optimized", r.file->bytes}};
    all["nodes"] = {{"original", r.before.file.nodes}, {"optimized", r.file->nodes}};
  }
  if (r.signature_kept) {
    all["signature_kept"] = *r.signature_kept;
  }
  if (r.measured) {
    all["measuring"] = {{"device", r.measured->device},
                        {"measured", r.measured->measured},
                        {"known", r.measured->known},
                        {"seconds", r.measured->seconds}};
  }
  if (r.run) {
    all["run"] = to_json(a, *r.run);
  }
  if (r.engine) {
    all["measured"] = to_json(*r.engine);
  }
  return all;
}

}  // namespace support
