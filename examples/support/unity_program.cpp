#include "unity_program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/series_parallel.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/pcg/plan_values.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/rules/substitution_trace.hpp>
#include <unity/parallel/strategies/expert_strategies.hpp>
#include <unity/parallel/strategies/figure_strategies.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>
#include <unity/parallel/strategies/repeated_parameters.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/systems/taso.hpp>
#include <unity/systems/unity.hpp>
#include <unity/systems/unity/joint_space.hpp>
#include <unity/systems/unity/memory_search.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "flexflow_program.hpp"
#include "number_range.hpp"
#include "progress.hpp"
#include "quantity.hpp"

namespace support {

namespace {

// The names are known ones.
unity::parallel::index_uses parse_uses(const std::vector<std::string>& names) {
  unity::parallel::index_uses uses = 0;
  for (const auto& name : names) {
    const auto& known = unity::parallel::index_use_names;
    const auto at = static_cast<unsigned>(std::find(known.begin(), known.end(), name) - known.begin());
    uses |= unity::parallel::index_uses{1} << at;
  }
  return uses;
}

// Of these rules, those that are proved, for gradients too.
unity::rule_set training_rules(const unity::tensor::algebra& a, std::string_view rules) {
  using namespace unity;
  return systems::select_rules(compile_rules(a, parse_rules(std::string{rules}, "shipped rules")),
                               syntax::standing::proved, tensor::mode::training);
}

// Divisions of samples: with values of weights alone computed by one device, and by all; and with samples followed to
// the dimensions to which operators move them.
std::vector<unity::parallel::strategy> data_strategies(strategy_comparison& c, std::size_t graph) {
  const auto& all = c.lowering(graph).dimensions();
  const auto& t = c.machine().network;
  std::vector<unity::parallel::strategy> several{unity::parallel::data_parallel(all, t)};
  for (auto s : {unity::parallel::with_repeated_parameters(c.graph(graph), all, t, several[0]),
                 unity::parallel::with_samples_followed(c.operators(), c.graph(graph), all, t, several[0])}) {
    if (std::find(several.begin(), several.end(), s) == several.end()) {
      several.push_back(std::move(s));
    }
  }
  return several;
}

// FlexFlow's search with this time limit. It also starts from the other data_strategies, since its moves do not repeat
// operators.
unity::systems::flexflow_result baseline(strategy_comparison& c, std::size_t graph, const unity_flags& f,
                                         double seconds) {
  flexflow_flags flags;
  flags.options.seed = f.options.seed;
  flags.options.threads = f.threads;
  flags.options.proposals = std::numeric_limits<std::uint64_t>::max();
  flags.options.limits.seconds = seconds;
  auto further = data_strategies(c, graph);
  further.erase(further.begin());
  return search_flexflow(c, graph, std::move(flags), further);
}

// The graph that is cheapest on one device, where operators run one after another.
unity::tensor::tensor_graph substituted(const strategy_comparison& c, const unity::rule_set& rules,
                                        const unity_flags& f, double seconds) {
  using namespace unity;
  const auto rates = hardware::roofline_of(hardware::model_of(c.machine(), hardware::device_id{std::size_t{0}}));
  UNITY_EXPECTS(rates.has_value(), "a machine that was simulated");
  systems::taso_options o;
  o.objective.mode = tensor::mode::training;
  o.seed = f.options.seed;
  o.threads = f.threads;
  o.limits.seconds = seconds;
  return systems::taso(c.operators(), tensor::analytic_cost{c.operators(), *rates, tensor::mode::training}, rules,
                       c.graph(), o)
      .graph;
}

bool compares(const unity_flags& f, const char* name) {
  return std::find(f.baselines.begin(), f.baselines.end(), name) != f.baselines.end();
}

// Throws: unity::error if the plan does not compute the same as its graph, which would be a defect of this program.
unity::parallel::value_comparison checked(const unity::tensor::algebra& a, const unity::parallel::plan& p) {
  using namespace unity;
  constexpr std::int64_t most_elements = 500'000;  // some seconds
  const parallel::pcg_algebra pcgs{a};
  auto r = parallel::compare_values(pcgs, p.graph, grids_of(a, p), most_elements);
  if (r.verdict == parallel::value_comparison::verdicts::different) {
    throw error{"the best plan", fmt::format("it does not compute what its graph does, on {}", r.sizes),
                "equal values"};
  }
  return r;
}

bool is_without_work(const unity::tensor::tensor_graph& g) {
  for (const auto n : unity::node_ids(g)) {
    if (!g.operands(n).empty()) {
      return false;
    }
  }
  return true;
}

// Effects: adds the strategies that need no search.
void add_fixed(strategy_comparison& c, const unity_flags& f, const std::vector<named_strategy>& given) {
  using namespace unity;
  const auto& a = c.operators();
  const auto& t = c.machine().network;
  if (compares(f, "data")) {
    c.add_best("data", 0, data_strategies(c, 0));
  }
  if (compares(f, "model")) {
    c.add("model", 0, parallel::model_parallel(a, c.graph(), c.lowering().dimensions(), t));
  }
  if (compares(f, "expert")) {
    const bool is_transformer = parallel::is_transformer(a, c.lowering().dimensions());
    const auto graph = is_transformer ? c.add_graph(tensor::with_delivered_outputs(a, c.graph())) : 0;
    c.add_best("expert", graph, parallel::expert_strategies(a, c.graph(graph), c.lowering(graph).dimensions(), t));
  }
  for (const auto& s : given) {
    c.add(s.name, 0, s.strategy);
  }
  if (!compares(f, "figures")) {
    return;
  }
  if (auto s = parallel::figure_2a_strategy(a, c.graph(), c.lowering().dimensions(), t)) {
    c.add("figure2a", 0, *std::move(s));
  }
  if (auto s = parallel::figure_2b_strategy(a, c.graph(), c.lowering().dimensions(), t)) {
    c.add("figure2b", 0, *std::move(s));
  }
}

// The largest share of the budget for each compared search.
constexpr double searched_share = 0.3;

// A strategy that a compared search found, of one of the comparison's graphs.
struct searched_strategy {
  std::string name;
  std::size_t graph;
  unity::parallel::strategy strategy;
  unity::parallel::strategy_report report;
  unity::parallel::pipeline pipeline{};
};

// The results of the compared searches; seconds: the time limit of each.
std::vector<searched_strategy> search_baselines(strategy_comparison& c, const unity::rule_set& rules,
                                                const unity_flags& f, double seconds, unity_outcome& r) {
  std::vector<searched_strategy> all;
  r.baselines.clear();
  if (compares(f, "flexflow")) {
    auto found = baseline(c, 0, f, seconds);
    r.baselines.push_back({"flexflow", found.seconds, found.proposals});
    all.push_back({"flexflow", 0, found.best, c.report_on(0, found.best)});
  }
  if (compares(f, "sequential")) {
    const unity::stopwatch own;  // both of its searches together
    const auto graph = c.add_graph(substituted(c, rules, f, seconds / 2));
    auto found = baseline(c, graph, f, std::max(0.0, seconds - own.seconds()));
    r.baselines.push_back({"sequential", own.seconds(), found.proposals});
    all.push_back({"sequential", graph, found.best, c.report_on(graph, found.best)});
  }
  if (compares(f, "taso")) {
    const unity::stopwatch own;
    const auto graph = c.add_graph(substituted(c, rules, f, seconds / 2));
    auto options = f.options;
    options.limits.seconds = std::max(0.0, seconds - own.seconds());
    auto found = unity::systems::unity(c.operators(), {}, c.graph(graph), c.machine(), c.durations(), options);
    r.baselines.push_back({"taso", own.seconds(), found.proposals});
    all.push_back({"taso", c.add_graph(std::move(found.graph)), std::move(found.strategy), std::move(found.report),
                   std::move(found.pipeline)});
  }
  return all;
}

void add(strategy_comparison& c, std::vector<searched_strategy> found) {
  for (auto& s : found) {
    c.add(std::move(s.name), s.graph, std::move(s.strategy), std::move(s.report), std::move(s.pipeline));
  }
}

// The starting points of Unity's search: the best compared strategy, if there is any, and the results of separately
// compared searches.
std::vector<unity::systems::known_plan> known_plans(const strategy_comparison& c,
                                                    const std::vector<searched_strategy>& apart) {
  std::vector<unity::systems::known_plan> all;
  const auto add = [&](std::size_t graph, const auto& s) {
    if (!s.report.is_of_representatives() && s.pipeline.is_trivial()) {
      all.push_back({c.graph(graph), s.strategy, s.report});
    }
  };
  if (!c.strategies().empty()) {
    add(c.best().graph, c.best());
  }
  for (const auto& s : apart) {
    add(s.graph, s);
  }
  return all;
}

// The gap of the found plan: (time - bound) / bound.
double gap(const unity_outcome& r) {
  const auto bound = static_cast<double>(r.found.mapping_bound.count());
  return bound > 0 ? static_cast<double>(r.found.report.iteration.count()) / bound - 1 : 0;
}

}  // namespace

void declare(CLI::App& app, search_flags& flags, unity_flags& f) {
  auto& o = f.options;
  const auto own = [&flags](CLI::Option* flag) { return flags.of("unity", flag); };
  own(app.add_option("--mesh-axes", o.mesh_axes, "axes of the device meshes that operators are laid onto, at most"))
      ->check(number_in(1, 4));
  const auto& names = unity::parallel::index_use_names;
  own(app.add_option_function<std::vector<std::string>>(
          "--dims", [&o](const std::vector<std::string>& given) { o.uses = parse_uses(given); },
          "what may be divided: of data,model,spatial,reduction,special,placement,pipeline; default: all"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(std::vector<std::string>{names.begin(), names.end()}));
  own(app.add_option("--candidates", o.candidates, "mappings that are simulated"))->check(number_in(1, 1024));
  own(app.add_option_function<std::vector<std::string>>(
          "--ablate",
          [&o](const std::vector<std::string>& given) {
            for (const auto& what : given) {
              (what == "split" ? o.joint.split : what == "cache" ? o.joint.cache : o.joint.dynamic) = false;
            }
          },
          "parts of the search to do without: split (of graphs into segments), cache (of mappings), dp (dynamic "
          "programming: all "
          "mappings are tried, as long as --budget lasts)"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"split", "cache", "dp"}));
  own(app.add_option_function<std::string>(
      "--baseline-budget",
      [&f](const std::string& given) { f.baseline_seconds = parse_quantity("--baseline-budget", given, durations); },
      "time that flexflow, sequential and taso have each, apart from --budget; default: a part of it"));
  own(app.add_flag(
      "--frontier", o.frontier,
      "also plans that hold less memory and take longer: results recomputed, weights divided among replicas "
      "(ZeRO 1 to 3), micro-batches, pipelines; those that no other beats in both are listed as frontier1, "
      "frontier2 and so on; by default such plans are only tried where none "
      "fits, or a faster one does not"));
  own(app.add_flag("--keep-graph", f.keeps_graph,
                   "no substitutions: operators are those of the model, as `export_plan` needs them"));
  own(app.add_option("--stages", o.stages, "most stages of a pipeline"))->check(number_in(2, 4096));
  own(app.add_option(
          "--baselines", f.baselines,
          "what is compared; flexflow and sequential search as long as this one before its polish, each; taso, with "
          "--baseline-budget: this search without substitutions on the graph that TASO's finds; none: nothing but "
          "--strategy; default: all but taso"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"data", "model", "expert", "figures", "flexflow", "sequential", "taso", "none"}));
}

void check(const unity_flags& f) {
  if (f.baselines.size() > 1 && std::find(f.baselines.begin(), f.baselines.end(), "none") != f.baselines.end()) {
    throw unity::error{"--baselines", "none, and others", "none alone, or what is to be compared"};
  }
  if (compares(f, "taso") && !f.baseline_seconds) {
    throw unity::error{"--baselines", "taso, and no --baseline-budget", "the time that it has"};
  }
  if (f.baseline_seconds && !compares(f, "flexflow") && !compares(f, "sequential") && !compares(f, "taso")) {
    throw unity::error{"--baseline-budget", "given, and no --baselines that search", "flexflow, sequential or taso"};
  }
  const unity::systems::unity_options usual;
  const auto pipelines = parse_uses({"pipeline"});
  if (f.options.stages != usual.stages && (f.options.uses & pipelines) == 0) {
    throw unity::error{"--stages", "given with --dims without pipelines", "pipeline among --dims"};
  }
}

unity_outcome compare_unity(strategy_comparison& c, const unity_flags& f, const std::vector<named_strategy>& given) {
  using namespace unity;
  if (is_without_work(c.graph())) {
    throw error{"model", "no operators", "work to divide"};
  }
  rule_set rules;
  auto options = f.options;
  rule_set joint;
  if (!f.keeps_graph) {
    rules = training_rules(c.operators(), tensor::standard_rules);
    joint = rules;
    for (auto& rule : training_rules(c.operators(), systems::joint_rules)) {
      joint.push_back(std::move(rule));
    }
  }
  unity_outcome r;
  options.watch = progress_line({"ms", 1e9, "proposals", "accepted"});
  add_fixed(c, f, given);
  // All searches share the budget: each other search gets as much time as this one before its polish, which gets the
  // rest. Searches that are compared with a separate budget are also part of this one, if it starts from their results:
  // each gets up to a third of the time that the steps of this search have left.
  auto own = f;
  if (f.baseline_seconds) {
    std::erase_if(own.baselines,
                  [&](const std::string& name) { return name == "taso" || options.uses != parallel::all_index_uses; });
  }
  const auto searches = (compares(own, "flexflow") ? 1 : 0) + (compares(own, "sequential") ? 1 : 0);
  options.known_share = (f.baseline_seconds ? searched_share / 3 : searched_share) * searches;
  const stopwatch watch;
  const auto seconds_of_each = [&] {
    const auto seconds = f.baseline_seconds ? (f.options.limits.seconds - watch.seconds()) / 3 : watch.seconds();
    return std::max(0.0, std::min(seconds, searched_share * f.options.limits.seconds));
  };
  options.known = [&] {
    end_progress(options.watch);
    const auto seconds = seconds_of_each();
    if (f.baseline_seconds && seconds < 2 * c.reported()) {  // a search begins and ends with a report
      return known_plans(c, {});
    }
    auto found = search_baselines(c, rules, own, seconds, r);
    if (!f.baseline_seconds) {
      add(c, std::move(found));
      found.clear();
    }
    return known_plans(c, found);
  };
  r.found = systems::unity(c.operators(), joint, c.graph(), c.machine(), c.durations(), options);
  end_progress(options.watch);
  if (f.baseline_seconds) {
    add(c, search_baselines(c, rules, f, *f.baseline_seconds, r));
  }
  const auto own_at = c.strategies().size();
  c.add("unity", c.add_graph(r.found.graph), r.found.strategy, r.found.report, r.found.pipeline,
        r.found.synchronization, r.found.recomputed);
  for (const auto& p : r.found.frontier) {
    const bool is_result = p.report == r.found.report && p.strategy == r.found.strategy;
    r.frontier.push_back(is_result ? "unity" : fmt::format("frontier{}", r.frontier.size() + 1));
    if (!is_result) {
      c.add(r.frontier.back(), c.add_graph(p.graph), p.strategy, p.report, p.pipeline, p.synchronization, p.recomputed);
    }
  }
  r.parallel_rules = counted(c.operators(), r.found.graph, trace_of(c.operators(), c.plan_of(c.strategies()[own_at])));
  return r;
}

void check_best(const strategy_comparison& c, unity_outcome& r) {
  const auto best = c.plan_of(c.best());
  r.trace_to_best = trace_of(c.operators(), best);
  r.checked = checked(c.operators(), best);
  const auto is_left_out = [&](const std::string& name) {
    return std::ranges::find(c.left_out(), name, &strategy_left_out::name) != c.left_out().end();
  };
  std::erase_if(r.frontier, is_left_out);
}

nlohmann::json to_json(const unity_outcome& r) {
  auto algebraic = nlohmann::json::array();
  for (const auto& rule : r.found.rules) {
    algebraic.push_back({{"name", rule.name}, {"segments", rule.segments}});
  }
  auto parallel = nlohmann::json::array();
  for (const auto& rule : r.parallel_rules) {
    const auto kind = rule.kind.empty() ? nlohmann::json{} : nlohmann::json(rule.kind);
    parallel.push_back({{"name", rule.rule}, {"kind", kind}, {"is_rule", rule.is_rule}, {"count", rule.count}});
  }
  auto baselines = nlohmann::json::object();
  for (const auto& b : r.baselines) {
    baselines[b.name] = {{"seconds", b.seconds}, {"proposals", b.proposals}};
  }
  auto phases = nlohmann::json::object();
  for (const auto& p : r.found.phases) {
    phases[std::string{p.name}] = p.seconds;
  }
  return {{"joint", {{"algebraic_rules_used", algebraic}, {"parallel_rules_used", parallel}}},
          {"frontier", r.frontier},
          {"bound_s", unity::to_seconds(r.found.mapping_bound)},
          {"checked", r.checked.verdict == unity::parallel::value_comparison::verdicts::equal},
          {"graphs_bound_s", unity::to_seconds(r.found.graphs_bound)},
          {"gap", gap(r)},
          {"baselines", baselines},
          {"search",
           {{"seconds", r.found.seconds},
            {"phases", phases},
            {"proposals", r.found.proposals},
            {"stop_reason", to_string(r.found.stopped)},
            {"expanded", r.found.expanded},
            {"goals", r.found.goals}}}};
}

void print(const unity_outcome& r) {
  for (const auto& rule : r.found.rules) {
    fmt::print("substitution: {}, in {} segments\n", rule.name, rule.segments);
  }
  for (const auto& rule : r.parallel_rules) {
    fmt::print("parallel substitution: {}{}{}, {} times\n", rule.rule,
               rule.kind.empty() ? "" : fmt::format(" ({})", rule.kind), rule.is_rule ? "" : ", which is no rule",
               rule.count);
  }
  if (r.checked.verdict == unity::parallel::value_comparison::verdicts::equal) {
    fmt::print(
        "checked: the best plan computes what its graph does, and {} gradients: {} operators, evaluated on {} "
        "elements\n",
        r.checked.gradients, r.checked.nodes, r.checked.elements);
  } else {
    fmt::print("not checked: values of the best plan, {} elements on the least sizes that it can have\n",
               r.checked.elements);
  }
  fmt::print(
      "lower bound: {:.3f} ms for mappings of this graph onto the meshes that were searched; unity takes {:.1f}% "
      "more\n",
      unity::to_seconds(r.found.mapping_bound) * 1e3, 100 * gap(r));
  fmt::print("lower bound: {:.3f} ms for all plans of all graphs that substitutions led to\n",
             unity::to_seconds(r.found.graphs_bound) * 1e3);
  fmt::print("search: {} graphs expanded, {} goals, {} proposals, {:.3f} s{}\n", r.found.expanded, r.found.goals,
             r.found.proposals, r.found.seconds,
             r.found.stopped == unity::stop_reason::time ? ", ended early: the time is used up" : "");
}

unity::io::plan_notes notes_of(const unity_outcome& r, const named_strategy& best) {
  unity::io::plan_notes notes;
  notes.predicted = unity::io::noted_prediction{unity::to_seconds(best.report.iteration), best.report.memory_peaks};
  notes.parallel_substitutions = notes_of(r.trace_to_best);
  if (best.name == "unity") {
    if (!r.found.mesh.devices.empty()) {
      notes.mesh = r.found.mesh;
    }
    for (const auto& rule : r.found.rules) {
      notes.substitutions.push_back({rule.name, static_cast<std::int64_t>(rule.segments)});
    }
  }
  return notes;
}

}  // namespace support
