#include "job_optimizer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string_view>

#include <fmt/core.h>
#include <fmt/format.h>

#include <unity/core/error.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/systems/dpro/space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/trace/replay.hpp>

#include "quantity.hpp"

namespace support {

namespace {

namespace systems = unity::systems;
namespace trace = unity::trace;

constexpr std::array<std::string_view, 3> technique_names{"operator_fusion", "tensor_fusion", "tensor_partition"};
constexpr const char* default_passes =
    "operator_fusion,tensor_fusion,tensor_partition,recomputation,accumulation=2,"
    "accumulation=4,accumulation=8,accumulation=16";

std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

struct chosen_passes {
  systems::dpro_techniques techniques{false, false, false};
  std::vector<systems::graph_pass> graph{};
};

chosen_passes passes_of(const std::vector<std::string>& names, unity::picoseconds start) {
  chosen_passes all;
  for (const auto& name : names) {
    if (name == technique_names[0]) {
      all.techniques.operator_fusion = true;
    } else if (name == technique_names[1]) {
      all.techniques.tensor_fusion = true;
    } else if (name == technique_names[2]) {
      all.techniques.tensor_partition = true;
    } else {
      all.graph.push_back(systems::pass_named(name, start));
    }
  }
  return all;
}

// A search by one of the generic algorithms, on the same space, for the same time.
systems::dpro_result searched(const std::string& by, const trace::flow_graph& job, const trace::name_table& names,
                              const trace::fusion_time& fused, const systems::dpro_options& options) {
  systems::dpro_result r;
  const systems::dpro_view view{job, names, fused};
  const systems::dpro_view whole{job, names, fused, {true, false}};
  systems::dpro_space space{view, coarsened(view, view.separate(), options.techniques), options.techniques,
                            options.most_parts};
  const auto take = [&](const auto& found) {
    r.best = found.best.strategy;
    r.history = found.history;
    r.replays = found.counts.candidates;
    r.stopped = found.stopped;
    r.seconds = found.seconds;
  };
  if (by == "beam") {
    unity::beam_options o;
    o.limits = options.limits;
    take(unity::beam(space, o));
  } else {
    unity::backtracking_options o;
    o.limits = options.limits;
    take(unity::backtracking(space, o));
  }
  r.alike = view.is_alike();
  r.recorded = systems::iteration_of(whole, whole.recorded());
  r.iteration = systems::iteration_of(whole, r.best);
  if (r.iteration >= r.recorded) {
    r.best = whole.recorded();
    r.iteration = r.recorded;
  }
  return r;
}

std::vector<found_bucket> buckets_of(const systems::dpro_view& v, const systems::dpro_strategy& s) {
  std::vector<found_bucket> all;
  for (const auto& run : systems::runs_of(s.joined)) {
    found_bucket b;
    for (auto t = run.first; t <= run.last; ++t) {
      const auto& tensor = v.tensors()[t];
      b.tensors.push_back(t);
      b.names.push_back(tensor.name.valid() ? v.names().text(tensor.name) : fmt::format("gradient {}", t));
      b.size += tensor.size;
    }
    b.parts = s.parts[run.last];
    all.push_back(std::move(b));
  }
  return all;
}

std::vector<std::vector<std::string>> fused_of(const systems::dpro_view& v, const systems::dpro_strategy& s) {
  std::vector<std::vector<std::string>> all;
  for (const auto& run : systems::runs_of(s.fused)) {
    if (run.first == run.last || v.operators()[run.first].rank != v.operators().front().rank) {
      continue;
    }
    auto& names = all.emplace_back();
    for (auto o = run.first; o <= run.last; ++o) {
      names.push_back(v.names().text(v.job().tasks[v.operators()[o].tasks.front()].name));
    }
  }
  return all;
}

// An iteration of duration `whole`, scaled by the optimizer's speedup.
unity::picoseconds predicted(const systems::dpro_result& r, unity::picoseconds whole) {
  const auto share =
      static_cast<double>(r.iteration.count()) / static_cast<double>(std::max<std::int64_t>(1, r.recorded.count()));
  return unity::picoseconds{std::llround(static_cast<double>(whole.count()) * share)};
}

// The result of each permitted technique alone, if there are several.
std::vector<std::pair<std::string, unity::picoseconds>> alone_of(const trace::flow_graph& job,
                                                                 const trace::name_table& names,
                                                                 const trace::fusion_time& fused,
                                                                 systems::dpro_options options, double left,
                                                                 unity::picoseconds whole) {
  const auto may = options.techniques;
  const std::array<bool, 3> allowed{may.operator_fusion, may.tensor_fusion, may.tensor_partition};
  std::vector<std::pair<std::string, unity::picoseconds>> all;
  const auto count = static_cast<double>(std::count(allowed.begin(), allowed.end(), true));
  for (std::size_t k = 0; k < allowed.size(); ++k) {
    if (allowed[k]) {
      options.techniques = {k == 0, k == 1, k == 2};
      options.limits.seconds = left / std::max(1.0, count);
      all.emplace_back(technique_names[k], predicted(systems::dpro(job, names, fused, options), whole));
    }
  }
  return all;
}

}  // namespace

void declare_optimizer(CLI::App& app, optimizer_flags& f) {
  app.add_flag("--optimize", f.optimize, "search for changes that make the iteration faster, by dPRO's algorithm");
  app.add_option("--budget", f.budget, "time limit of --optimize, such as 10s or 2m")->capture_default_str();
  app.add_option("--passes", f.passes,
                 "changes that --optimize may make: operator_fusion, tensor_fusion, tensor_partition, recomputation, "
                 "accumulation=N, mixed_precision (products 4 times as fast) or mixed_precision=SPEED, which changes "
                 "results; default: all but mixed_precision, and those that save memory only where it does not fit");
  app.add_option("--memory", f.memory, "memory of a rank (16GB); default: enough");
  app.add_option("--operator-start", f.start,
                 "launch overhead of an operator (5us), which fusion saves; default: the first percentile of operator "
                 "times");
  app.add_option("--search", f.search, "dpro: Algorithm 1 of the paper; beam, backtracking: searches on the same space")
      ->check(CLI::IsMember({"dpro", "beam", "backtracking"}))
      ->capture_default_str();
  app.add_option("--buckets", f.buckets, "file for the found buckets, for PyTorch's DistributedDataParallel");
  app.add_option("--plan-out", f.plan_out, "file for the plan of --plan with the found buckets, for traces of `train`");
}

void check_optimizer(const optimizer_flags& f, const std::string& plan) {
  static_cast<void>(parse_quantity("--budget", f.budget, durations));
  if (!f.start.empty()) {
    static_cast<void>(parse_quantity("--operator-start", f.start, durations));
  }
  if (!f.memory.empty()) {
    static_cast<void>(parse_memory("--memory", f.memory));
  }
  if (!f.passes.empty()) {
    static_cast<void>(passes_of(listed(f.passes), {}));
  }
  if (plan.empty() && !f.plan_out.empty()) {
    throw unity::error{"--plan-out", "given without the plan that gets buckets", "--plan besides"};
  }
  const bool has_more = !f.passes.empty() || !f.memory.empty() || !f.start.empty() || !f.buckets.empty() ||
                        !f.plan_out.empty() || f.search != "dpro" || f.budget != optimizer_flags{}.budget;
  if (!f.optimize && has_more) {
    throw unity::error{"command line", "flags of the optimizer", "--optimize with them"};
  }
  if (!f.plan_out.empty()) {
    static_cast<void>(unity::io::read_plan(unity::tensor::standard_algebra(), plan));  // now, not after the search
  }
}

optimized_job optimize_job(const optimizer_flags& f, const trace::flow_graph& job, const trace::name_table& names) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const auto budget = parse_quantity("--budget", f.budget, durations);
  const auto start = f.start.empty() ? systems::start_of_operators(job)
                                     : unity::from_seconds(parse_quantity("--operator-start", f.start, durations));
  optimized_job all;
  all.passes = listed(f.passes.empty() ? default_passes : f.passes);
  all.limit = f.memory.empty() ? unity::bytes{} : parse_memory("--memory", f.memory);
  const auto chosen = passes_of(all.passes, start);
  all.fitted = systems::fit_job(job, names, all.limit, chosen.graph);
  const auto fused = trace::saved_starts(start);
  systems::dpro_options options;
  options.techniques = chosen.techniques;
  options.limits.seconds = std::max(0.0, 0.7 * budget - elapsed());
  all.found = f.search == "dpro" ? systems::dpro(all.fitted.graph, names, fused, options)
                                 : searched(f.search, all.fitted.graph, names, fused, options);
  all.iteration = predicted(all.found, all.fitted.effect.iteration);
  const systems::dpro_view whole{all.fitted.graph, names, fused, {all.found.alike, false}};
  if (whole.operators().empty() && whole.tensors().empty()) {
    throw unity::error{"traces", "neither operators nor sums of gradients", "a training job"};
  }
  all.buckets = buckets_of(whole, all.found.best);
  all.fused = fused_of(whole, all.found.best);
  all.graph = whole.apply(all.found.best).graph;
  all.replayed = trace::replay(all.graph, names);
  for (const auto& m : trace::memory_use(all.graph, all.replayed)) {
    all.peak = std::max(all.peak, m.is_known ? m.peak : unity::bytes{});
  }
  if (f.search == "dpro") {
    all.alone = alone_of(all.fitted.graph, names, fused, options, std::max(0.0, budget - elapsed()),
                         all.fitted.effect.iteration);
  }
  all.seconds = elapsed();
  return all;
}

std::string to_text(const optimized_job& o) {
  const auto ms = [](unity::picoseconds t) { return unity::to_seconds(t) * 1e3; };
  const auto faster = [&](unity::picoseconds t) {
    return static_cast<double>(o.fitted.before.iteration.count()) /
           static_cast<double>(std::max<std::int64_t>(1, t.count()));
  };
  auto text = fmt::format("\noptimized, as replayed: {:.3f} ms, {:.3f} times as fast ({:.2f} s, {} replays)\n",
                          ms(o.iteration), faster(o.iteration), o.seconds, o.found.replays);
  for (const auto& [name, time] : o.alone) {
    text += fmt::format("  {:<18} alone {:12.3f} ms, {:.3f} times as fast\n", name, ms(time), faster(time));
  }
  for (const auto& e : o.fitted.tried) {
    text += fmt::format("  {:<18}       {:12.3f} ms, {:.3f} GB\n", fmt::format("{}", fmt::join(e.passes, ", ")),
                        ms(e.iteration), static_cast<double>(e.peak.count()) * 1e-9);
  }
  if (o.limit > unity::bytes{}) {
    text +=
        fmt::format("memory: {:.3f} GB of {:.3f} GB{}; before {:.3f} GB\n", static_cast<double>(o.peak.count()) * 1e-9,
                    static_cast<double>(o.limit.count()) * 1e-9, o.fitted.fits ? "" : ", which does not fit",
                    static_cast<double>(o.fitted.before.peak.count()) * 1e-9);
  }
  std::size_t operators = 0;
  for (const auto& run : o.fused) {
    operators += run.size();
  }
  text += fmt::format("{} operators of a rank run as {}\n", operators, o.fused.size());
  constexpr std::size_t shown = 16;
  for (std::size_t b = 0; b < std::min(shown, o.buckets.size()); ++b) {
    const auto& k = o.buckets[b];
    text += fmt::format("bucket {:>3}: {:10.3f} MB in {} part{}, {} tensor{}, {:.60} to {:.60}\n", b,
                        static_cast<double>(k.size.count()) * 1e-6, k.parts, k.parts == 1 ? "" : "s", k.names.size(),
                        k.names.size() == 1 ? "" : "s", k.names.front(), k.names.back());
  }
  if (o.buckets.size() > shown) {
    text += fmt::format("... and {} more\n", o.buckets.size() - shown);
  }
  return text;
}

nlohmann::json to_json(const optimized_job& o) {
  auto passes = nlohmann::json::array();
  for (const auto& name : o.passes) {
    const auto alone = std::find_if(o.alone.begin(), o.alone.end(), [&](const auto& a) { return a.first == name; });
    const bool is_technique = std::find(technique_names.begin(), technique_names.end(), name) != technique_names.end();
    const auto& on = o.fitted.effect.passes;
    nlohmann::json one{{"name", name}, {"applied", is_technique || std::find(on.begin(), on.end(), name) != on.end()}};
    if (alone != o.alone.end()) {
      one["alone_s"] = unity::to_seconds(alone->second);
    }
    passes.push_back(std::move(one));
  }
  auto tried = nlohmann::json::array();
  for (const auto& e : o.fitted.tried) {
    tried.push_back(
        {{"passes", e.passes}, {"iteration_s", unity::to_seconds(e.iteration)}, {"peak_bytes", e.peak.count()}});
  }
  auto buckets = nlohmann::json::array();
  for (const auto& b : o.buckets) {
    buckets.push_back({{"tensors", b.names}, {"bytes", b.size.count()}, {"parts", b.parts}});
  }
  const auto speedup = o.iteration > unity::picoseconds{} ? static_cast<double>(o.fitted.before.iteration.count()) /
                                                                static_cast<double>(o.iteration.count())
                                                          : 1.0;
  return {{"iteration_s", unity::to_seconds(o.iteration)},
          {"before_s", unity::to_seconds(o.fitted.before.iteration)},
          {"speedup", speedup},
          {"passes", std::move(passes)},
          {"tried", std::move(tried)},
          {"buckets", std::move(buckets)},
          {"fused", o.fused},
          {"memory",
           {{"limit_bytes", o.limit.count()},
            {"before_bytes", o.fitted.before.peak.count()},
            {"peak_bytes", o.peak.count()},
            {"fits", o.fitted.fits}}},
          {"replays", o.found.replays},
          {"decisions", {{"theorems", o.found.theorem_decisions}, {"replays", o.found.replayed_decisions}}},
          {"workers_alike", o.found.alike},
          {"stopped", std::string{unity::to_string(o.found.stopped)}},
          {"seconds", o.seconds}};
}

nlohmann::json ddp_buckets(const optimized_job& o) {
  auto places = nlohmann::json::array();
  auto sizes = nlohmann::json::array();
  unity::bytes largest;
  for (const auto& b : o.buckets) {
    if (b.size == unity::bytes{}) {
      throw unity::error{"--buckets", "gradients whose sizes are not known", "traces with shapes (record_shapes=True)"};
    }
    places.push_back(b.tensors);
    sizes.push_back(b.size.count());
    largest = std::max(largest, b.size);
  }
  if (o.buckets.empty()) {
    throw unity::error{"--buckets", "no sum of gradients", "a data-parallel job"};
  }
  return {{"gradients", std::move(places)},
          {"bytes", std::move(sizes)},
          {"bucket_cap_mb", static_cast<double>(largest.count()) / (1024.0 * 1024.0)}};
}

std::string bucketed_plan(const std::string& file, const optimized_job& o) {
  const auto algebra = unity::tensor::standard_algebra();
  auto plan = unity::io::read_plan(algebra, file);
  const unity::parallel::training_graph training{algebra, plan.graph};
  std::map<std::uint32_t, std::size_t> weight_of;  // by node
  for (std::size_t w = 0; w < training.weights().size(); ++w) {
    weight_of.emplace(plan.graph.producer(training.weights()[w].value).index(), w);
  }
  const auto weight_named = [&](const std::string& name) {  // "weight 6", of node 6
    std::uint32_t node = 0;
    const auto space = name.rfind(' ') + 1;
    const auto [end, code] = std::from_chars(name.data() + space, name.data() + name.size(), node);
    const auto weight = weight_of.find(node);
    if (code != std::errc{} || end != name.data() + name.size() || weight == weight_of.end()) {
      throw unity::error{file, fmt::format("no weight '{:.80}'", name), "the plan that was traced, weights apart"};
    }
    return weight->second;
  };
  unity::parallel::synchronization sync;
  sync.weights.resize(training.weights().size());
  for (const auto& b : o.buckets) {
    if (b.names.size() == 1 && b.parts == 1) {
      static_cast<void>(weight_named(b.names[0]));
      continue;  // alone
    }
    const auto first = static_cast<std::uint32_t>(sync.buckets.size());
    for (std::uint32_t k = 0; k < b.parts; ++k) {
      sync.buckets.push_back(fmt::format("bucket {}", sync.buckets.size()));
    }
    for (const auto& name : b.names) {
      const auto weight = weight_named(name);
      auto& own = sync.weights[weight];
      const auto& dims = plan.graph.type(training.weights()[weight].value).dims;
      const auto longest = static_cast<std::uint32_t>(std::max_element(dims.begin(), dims.end()) - dims.begin());
      const auto parts = dims.empty() ? 1 : std::min<std::int64_t>(b.parts, dims[longest]);
      own.axis = parts > 1 ? longest : 0;
      own.parts.assign(static_cast<std::size_t>(parts), {});
      for (std::uint32_t k = 0; k < parts; ++k) {
        own.parts[k].bucket = first + k;
      }
    }
  }
  plan.synchronization = std::move(sync);
  unity::parallel::check(algebra, plan.graph, plan.synchronization, plan.machine.network.device_count());
  return unity::io::to_plan_text(algebra, plan);
}

}  // namespace support
