// A plan in terms of modules and parameters, for frameworks that run a model's own code: the layouts of parameters and
// of the inputs and outputs of modules, and the collectives that follow from these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/hardware/device_mesh.hpp>
#include <unity/io/module_cuts.hpp>
#include <unity/io/module_parameters.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/plan_placements.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io {

struct named_layout {
  std::string name{};
  parallel::tensor_placement layout{};
};

struct module_layouts {
  std::string name{};
  // layouts of the first activation that its operators with parameters read, and of the last that they make
  std::optional<parallel::tensor_placement> input{};
  parallel::tensor_placement output{};
  std::size_t input_rank = 0;  // numbers of dimensions of these
  std::size_t output_rank = 0;
};

// The number of collectives of each kind in an iteration, on all stages. Each axis of the mesh needs its own
// collective, except for gradients: one all-reduce for each bucket and set of axes.
struct collective_counts {
  std::size_t all_reduce = 0;
  std::size_t all_gather = 0;
  std::size_t reduce_scatter = 0;
  std::size_t all_to_all = 0;

  friend bool operator==(const collective_counts&, const collective_counts&) = default;
};

// Adds the collectives that a change of layout from `from` to `to` needs.
void count_change(const parallel::tensor_placement& from, const parallel::tensor_placement& to,
                  collective_counts& counts);

struct module_plan {
  hardware::device_mesh mesh{};        // mesh of a stage; all stages have equal meshes
  std::vector<std::string> devices{};  // names, stage by stage, each in the order of the mesh
  std::int64_t microbatches = 1;
  module_pipeline pipeline{};
  std::vector<std::string> recomputed{};  // modules whose results are computed again in the backward pass
  std::vector<named_layout> inputs{};
  std::vector<parameter_plan> parameters{};
  std::vector<module_layouts> modules{};
  collective_counts forward{};
  collective_counts backward{};
};

// Throws: unity::error that names the operator or the weight that cannot be expressed, and the reason: layouts that are
// not on one mesh (parallel::placements_of), operators without parameters whose operands have another layout than they
// need, parameters (parameters_of), pipelines and recomputation that do not consist of whole modules (fold_stages,
// boundaries_of, recomputed_modules).
[[nodiscard]] module_plan module_plan_of(const tensor::algebra& a, const parallel::plan& p,
                                         const std::optional<hardware::device_mesh>& mesh);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_MODULE_PLAN)

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::io {

namespace detail {

using parallel::axis_kind;
using parallel::axis_use;
using parallel::tensor_placement;

// Sets `to` to the layout of the sum of both: a partial sum along each axis along which one of them is.
UNITY_INLINE void add_sums(tensor_placement& to, const tensor_placement& from) {
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (to[axis].kind == axis_kind::whole) {
      to[axis] = from[axis];
    }
  }
}

// Adds a mesh axis of size one, for plans on a single device.
UNITY_INLINE void add_axis_of_one(parallel::plan_placements& on) {
  on.mesh.sizes.push_back(1);
  for (auto& n : on.nodes) {
    for (auto* all : {&n.operands, &n.results, &n.cotangents}) {
      for (auto& l : *all) {
        l.push_back({});
      }
    }
  }
}

// Converts the plan of operators to a plan of modules.
class module_planner {
 public:
  module_planner(const tensor::algebra& a, const parallel::plan& p, folded_stages stages,
                 parallel::plan_placements layouts)
      : a_{a},
        p_{p},
        g_{p.graph},
        folded_{std::move(stages)},
        on_{std::move(layouts)},
        training_{a, p.graph},
        is_constant_{values_without_inputs(a, p.graph)},
        repeated_(g_.node_count(), not_repeated) {}

  [[nodiscard]] module_plan make();

 private:
  // A use of a value as an activation.
  struct reading {
    node_id node{};
    std::size_t operand = 0;
    bool is_of_module = false;
  };

  static constexpr auto not_repeated = static_cast<std::size_t>(-1);

  [[nodiscard]] std::string shown(node_id n) const { return shown_operator(a_, g_, n); }
  [[nodiscard]] bool is_input(value_id v) const { return g_.operation(g_.producer(v)).kind == a_.kind("input"); }
  [[nodiscard]] std::string name_of(value_id v) const {
    return std::string{a_.read(g_.operation(g_.producer(v))).word("name")};
  }
  [[nodiscard]] const tensor_placement& read_as(const reading& r) const {
    return on_.nodes[r.node.index()].operands[r.operand];
  }
  void find_cuts();
  void add_input(named_layout in);
  void find_readings();
  // The layout in which the value is handed to its readers: that of readers without parameters, if there are any and it
  // may change; otherwise that in which it is made (for an input, in which its first reader reads it).
  // Throws: unity::error if readers without parameters need another one.
  [[nodiscard]] tensor_placement handed_on(value_id v) const;
  void count(value_id v, const tensor_placement& made, const tensor_placement& given);
  // Counts the collectives that bring the value to the readers on one stage. Returns whether the value has a cotangent.
  bool count_readings(value_id v, const tensor_placement& given, std::uint32_t stage);
  // Whether the operators before it (or after it) in its module run again in the backward pass.
  [[nodiscard]] bool runs_again_before(node_id n) const;
  [[nodiscard]] bool runs_again_after(node_id n) const;
  void count_synchronization();
  void finish_boundaries();

  const tensor::algebra& a_;
  const parallel::plan& p_;
  const tensor::tensor_graph& g_;
  folded_stages folded_;
  parallel::plan_placements on_;
  parallel::training_graph training_;
  std::vector<bool> is_constant_;  // by value: not an activation
  module_operators operators_{};
  std::vector<recomputed_module> again_{};
  std::vector<std::size_t> repeated_;  // by node: index of the module that is computed again and has it
  std::vector<std::vector<reading>> readings_{};
  module_plan made_{};
};

UNITY_INLINE void module_planner::find_cuts() {
  if (std::find(p_.offloaded.begin(), p_.offloaded.end(), true) != p_.offloaded.end()) {
    throw error{"plan.offloaded", "results that wait on the host", "none: module plans cannot state it"};
  }
  operators_.place.assign(g_.node_count(), module_operators::no_place);
  operators_.stage = folded_.stage;
  for (const auto n : node_ids(g_)) {
    if (!g_.operands(n).empty() && !g_.results(n).empty() && !is_constant_[g_.results(n)[0].index()]) {
      operators_.place[n.index()] = operators_.order.size();
      operators_.order.push_back(n);
    }
  }
  if (folded_.groups.size() > 1) {
    made_.pipeline = {p_.pipeline.schedule, folded_.groups.size(), boundaries_of(a_, g_, operators_, training_)};
    if (made_.pipeline.boundaries.size() + 1 != folded_.groups.size() * p_.pipeline.chunks) {
      throw error{"plan.pipeline", "a stage without operators that read inputs", "some on each stage"};
    }
  }
  again_ = recomputed_modules(a_, g_, operators_, training_, p_.recomputed);
  for (std::size_t m = 0; m < again_.size(); ++m) {
    made_.recomputed.push_back(again_[m].name);
    for (auto place = again_[m].first; place <= again_[m].last; ++place) {
      repeated_[operators_.order[place].index()] = m;
    }
  }
}

UNITY_INLINE void module_planner::add_input(named_layout in) {
  if (std::any_of(made_.inputs.begin(), made_.inputs.end(), [&](const auto& known) { return known.name == in.name; })) {
    throw error{fmt::format("input {}", in.name), "two inputs of this name", "one of each name"};
  }
  made_.inputs.push_back(std::move(in));
}

UNITY_INLINE void module_planner::find_readings() {
  readings_.resize(g_.value_count());
  for (const auto n : node_ids(g_)) {
    for (std::size_t i = 0; i < g_.operands(n).size(); ++i) {
      const auto v = g_.operands(n)[i];
      if (!is_constant_[v.index()]) {
        readings_[v.index()].push_back({n, i, operators_.modules.contains(n.index())});
      }
    }
  }
}

UNITY_INLINE tensor_placement module_planner::handed_on(value_id v) const {
  const auto from = g_.producer(v);
  const bool is_free = is_input(v) || operators_.modules.contains(from.index());  // readers may choose its layout
  const auto& results = g_.results(from);
  const auto which = static_cast<std::size_t>(std::find(results.begin(), results.end(), v) - results.begin());
  std::optional<tensor_placement> wanted;
  if (!is_input(v)) {
    wanted = on_.nodes[from.index()].results[which];
  }
  bool is_chosen = !is_free;
  for (const auto& r : readings_[v.index()]) {
    const auto& as = read_as(r);
    if (r.is_of_module) {
      if (!wanted) {
        wanted = as;
      }
      continue;
    }
    if (!is_chosen) {
      wanted = as;
      is_chosen = true;
      continue;
    }
    auto reduced = *wanted;  // partial sums are added up implicitly if an operator needs the sum
    for (std::size_t axis = 0; axis < as.size(); ++axis) {
      if (reduced[axis].kind == axis_kind::sum && as[axis].kind == axis_kind::whole) {
        reduced[axis] = as[axis];
      }
    }
    if (reduced != as) {
      throw error{shown(r.node),
                  fmt::format("reads the result of {} in another layout, and has no parameters",
                              is_input(v) ? "an input" : shown(from)),
                  "changes of layout where modules with parameters begin or end"};
    }
  }
  return wanted ? *wanted : tensor_placement(on_.mesh.axis_count(), axis_use{});
}

UNITY_INLINE bool module_planner::runs_again_before(node_id n) const {
  const auto m = repeated_[n.index()];
  return m != not_repeated && operators_.place[n.index()] <= again_[m].last_kept;
}

UNITY_INLINE bool module_planner::runs_again_after(node_id n) const {
  const auto m = repeated_[n.index()];
  return m != not_repeated && operators_.place[n.index()] < again_[m].last_kept;
}

UNITY_INLINE void module_planner::count(value_id v, const tensor_placement& made, const tensor_placement& given) {
  count_change(made, given, made_.forward);
  if (runs_again_after(g_.producer(v))) {
    count_change(made, given, made_.backward);
  }
  std::set<std::uint32_t> stages;
  for (const auto& r : readings_[v.index()]) {
    stages.insert(operators_.stage[r.node.index()]);
  }
  bool is_wanted = false;
  for (const auto stage : stages) {
    const bool here = count_readings(v, given, stage);
    is_wanted = is_wanted || here;
  }
  if (is_wanted && !is_input(v)) {
    count_change(given, made, made_.backward);
  }
}

UNITY_INLINE bool module_planner::count_readings(value_id v, const tensor_placement& given, std::uint32_t stage) {
  // distinct layouts in which modules read it, each with the layout of the cotangent
  std::vector<std::pair<tensor_placement, tensor_placement>> copies;
  std::optional<tensor_placement> others;
  std::optional<tensor_placement> summed;  // an implicit sum
  bool is_summed_again = false;
  for (const auto& r : readings_[v.index()]) {
    if (operators_.stage[r.node.index()] != stage) {
      continue;
    }
    const auto& as = read_as(r);
    const bool is_wanted = training_.wanted(r.node)[r.operand];
    const auto cotangent = on_.nodes[r.node.index()].cotangents[r.operand];
    if (!r.is_of_module) {
      summed = as;
      is_summed_again = is_summed_again || runs_again_before(r.node);
      if (is_wanted && others) {
        add_sums(*others, cotangent);
      } else if (is_wanted) {
        others = cotangent;
      }
      continue;
    }
    const auto at = std::find_if(copies.begin(), copies.end(), [&](const auto& c) { return c.first == as; });
    if (at == copies.end()) {
      copies.emplace_back(as, is_wanted ? cotangent : tensor_placement{});
      count_change(given, as, made_.forward);
      const auto from = g_.producer(v);  // values from outside of the module are also kept in this layout
      if (runs_again_before(r.node) && repeated_[from.index()] == repeated_[r.node.index()]) {
        count_change(given, as, made_.backward);
      }
    } else if (is_wanted) {
      add_sums(at->second, cotangent);
    }
  }
  if (summed) {
    count_change(given, *summed, made_.forward);
    if (is_summed_again) {
      count_change(given, *summed, made_.backward);
    }
  }
  for (const auto& c : copies) {
    if (!c.second.empty()) {
      count_change(c.second, given, made_.backward);
    }
  }
  if (others) {
    count_change(*others, given, made_.backward);
  }
  return others || !copies.empty();
}

UNITY_INLINE void module_planner::count_synchronization() {
  for (auto* c : {&made_.forward, &made_.backward}) {  // counts so far are those of one micro-batch
    for (auto* kind : {&c->all_reduce, &c->all_gather, &c->reduce_scatter, &c->all_to_all}) {
      *kind *= static_cast<std::size_t>(made_.microbatches);
    }
  }
  std::set<std::string_view> gathered_again;
  for (const auto& [n, module] : operators_.modules) {
    if (runs_again_before(node_id{n})) {
      gathered_again.insert(module);
    }
  }
  std::set<std::pair<std::size_t, std::vector<std::size_t>>> reduced;
  for (const auto& w : made_.parameters) {
    if (!w.is_trained || w.replicas.empty()) {
      continue;
    }
    if (w.is_sharded) {
      made_.forward.all_gather += w.reads * w.replicas.size();
      made_.backward.reduce_scatter += w.sums;
      const auto dot = w.name.rfind('.');
      const bool runs_again =
          dot != std::string::npos && gathered_again.contains(std::string_view{w.name}.substr(0, dot));
      if (w.is_gathered_again || runs_again) {
        made_.backward.all_gather += (runs_again ? w.reads : w.reads_back) * w.replicas.size();
      }
    } else {
      reduced.emplace(w.bucket, w.replicas);
    }
  }
  made_.backward.all_reduce += reduced.size();
}

UNITY_INLINE void module_planner::finish_boundaries() {
  for (auto& at : made_.pipeline.boundaries) {
    for (const auto v : at.values) {
      const auto given = handed_on(v);
      const bool has_sums =
          std::any_of(given.begin(), given.end(), [](const axis_use& u) { return u.kind == axis_kind::sum; });
      if (has_sums || (v != at.values[0] && given != at.layout)) {
        throw error{shown(g_.producer(v)),
                    has_sums ? "its result goes on to the next stage as partial sums"
                             : "its result goes on to the next stage divided in another way than another one",
                    "values that are added up, and divided alike, between stages"};
      }
      at.layout = given;
    }
  }
}

UNITY_INLINE module_plan module_planner::make() {
  made_.mesh = on_.mesh;
  made_.microbatches = p_.pipeline.microbatches;
  for (const auto& group : folded_.groups) {
    for (const auto d : on_.mesh.devices) {
      made_.devices.push_back(p_.machine.network[group[d.index()]].name);
    }
  }
  auto parameters = parameters_of(a_, p_, folded_, on_, training_);
  made_.parameters = std::move(parameters.all);
  operators_.modules = std::move(parameters.modules);
  find_cuts();
  find_readings();
  std::map<std::string, module_layouts> modules;
  std::vector<std::string> order;
  for (const auto n : node_ids(g_)) {
    for (std::size_t i = 0; i < g_.results(n).size(); ++i) {
      const auto v = g_.results(n)[i];
      if (is_constant_[v.index()]) {
        continue;
      }
      const auto given = handed_on(v);
      count(v, is_input(v) ? given : on_.nodes[n.index()].results[i], given);
      if (is_input(v)) {
        add_input({name_of(v), given});
      }
    }
    const auto at = operators_.modules.find(n.index());
    if (at == operators_.modules.end()) {
      continue;
    }
    auto& m = modules[at->second];
    for (std::size_t i = 0; m.name.empty() && i < g_.operands(n).size(); ++i) {
      if (!is_constant_[g_.operands(n)[i].index()]) {
        m.input = on_.nodes[n.index()].operands[i];
        m.input_rank = g_.type(g_.operands(n)[i]).dims.size();
        m.name = at->second;
        order.push_back(at->second);
      }
    }
    m.output = handed_on(g_.results(n)[0]);
    m.output_rank = g_.type(g_.results(n)[0]).dims.size();
  }
  for (const auto& name : order) {
    made_.modules.push_back(modules[name]);
  }
  finish_boundaries();
  count_synchronization();
  return made_;
}

}  // namespace detail

UNITY_INLINE void count_change(const parallel::tensor_placement& from, const parallel::tensor_placement& to,
                               collective_counts& counts) {
  using parallel::axis_kind;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const auto a = from[axis];
    const auto b = to[axis];
    if (a == b || a.kind == axis_kind::whole) {
      continue;
    }
    if (a.kind == axis_kind::sum) {
      ++(b.kind == axis_kind::split ? counts.reduce_scatter : counts.all_reduce);
    } else {
      ++(b.kind == axis_kind::split ? counts.all_to_all : counts.all_gather);
    }
  }
}

UNITY_INLINE module_plan module_plan_of(const tensor::algebra& a, const parallel::plan& p,
                                        const std::optional<hardware::device_mesh>& mesh) {
  auto folded = fold_stages(p);
  hardware::device_mesh all{{}, {static_cast<std::int64_t>(folded.groups[0].size())}, {}};
  for (std::size_t d = 0; d < folded.groups[0].size(); ++d) {
    all.devices.emplace_back(d);
  }
  const bool is_on_all = folded.groups.size() == 1 && mesh && mesh->devices.size() == all.devices.size();
  auto layouts = parallel::placements_on(a, folded.plan, is_on_all ? *mesh : all);
  if (layouts.mesh.sizes.empty()) {
    detail::add_axis_of_one(layouts);
  }
  return detail::module_planner{a, p, std::move(folded), std::move(layouts)}.make();
}

}  // namespace unity::io

#endif
