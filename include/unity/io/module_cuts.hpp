// Where a plan cuts a model, in terms of its modules: between pipeline stages, and around modules whose results are
// recomputed in the backward pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/plan_placements.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

// The boundary between a stage and the next.
struct stage_boundary {
  std::string module{};
  bool is_after = false;                // the stage ends with the module; else the next stage begins with it
  std::vector<value_id> values{};       // values that each micro-batch sends to the next stage
  std::size_t gradients = 0;            // number of gradients that it sends back
  parallel::tensor_placement layout{};  // of all of them

  friend bool operator==(const stage_boundary&, const stage_boundary&) = default;
};

// A pipeline over groups of equally many devices. Stage i is on group i % groups.
struct module_pipeline {
  parallel::pipeline_schedule schedule = parallel::pipeline_schedule::one_forward_one_backward;
  std::size_t groups = 1;
  std::vector<stage_boundary> boundaries{};  // one less than stages
};

// A plan of one stage that does the same as each stage of the original: device j stands for the j-th device of every
// group.
struct folded_stages {
  parallel::plan plan{};
  std::vector<std::vector<hardware::device_id>> groups{};  // the devices of each, in the machine's order
  std::vector<std::uint32_t> stage{};                     // by node, counted over all chunks
};

// Throws: unity::error if groups differ in size, or PyTorch has no such schedule: delayed updates, zero_bubble, and
// one_forward_one_backward with fewer micro-batches than stages.
[[nodiscard]] folded_stages fold_stages(const parallel::plan& p);

// The operators of a graph that depend on an input, and their modules.
struct module_operators {
  std::vector<node_id> order{};                  // as in the graph
  std::vector<std::size_t> place{};              // by node: its index there; no_place for other nodes
  std::map<std::size_t, std::string> modules{};  // by node that reads a parameter: the module that has it
  std::vector<std::uint32_t> stage{};            // by node

  static constexpr auto no_place = static_cast<std::size_t>(-1);
  [[nodiscard]] std::string_view module_of(node_id n) const;  // empty: none
};

// Layouts are left to the caller.
// Throws: unity::error that names the operator at which stages do not begin or end with a module, operators that are
// not in the order of the stages, a module on two stages, an input that is not read on the first stage, a result that
// is not made on the last, and a value that skips a stage.
[[nodiscard]] std::vector<stage_boundary> boundaries_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                        const module_operators& m, const parallel::training_graph& t);

// A module whose results are recomputed, except for those of its last operator. Members are places in
// module_operators::order.
struct recomputed_module {
  std::string name{};
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t last_kept = 0;  // the last operator whose backward pass reads a value; later ones do not run again

  friend bool operator==(const recomputed_module&, const recomputed_module&) = default;
};

// Finds the modules that a plan recomputes. Consecutive recomputed operators and the operator after them must contain
// all operators that read parameters of one module, and none of another. If that module has no modules within it
// (nn.Linear), they must also begin and end with such operators; otherwise they may begin or end with operators that
// read no parameters.
// Complexity: operators x depth of modules.
// Throws: unity::error that names the first operator of those that are not a module's.
[[nodiscard]] std::vector<recomputed_module> recomputed_modules(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                                const module_operators& m,
                                                                const parallel::training_graph& t,
                                                                const parallel::recomputation& r);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_MODULE_CUTS)

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/parallel/pipeline.hpp>

namespace unity::io {

UNITY_INLINE std::string_view module_operators::module_of(node_id n) const {
  const auto at = modules.find(n.index());
  return at == modules.end() ? std::string_view{} : std::string_view{at->second};
}

UNITY_INLINE folded_stages fold_stages(const parallel::plan& p) {
  using parallel::pipeline_schedule;
  const auto stages = p.pipeline.stage_count();
  const auto complain = [](const std::string& what, const std::string& expected) {
    throw error{"plan.pipeline", what, expected};
  };
  if (p.pipeline.is_delayed || p.pipeline.schedule == pipeline_schedule::zero_bubble) {
    complain(p.pipeline.is_delayed ? "delayed updates" : "schedule zero_bubble",
             "one_forward_one_backward, gpipe or interleaved, flushed");
  }
  if (p.pipeline.schedule == pipeline_schedule::one_forward_one_backward && p.pipeline.microbatches < stages) {
    complain(fmt::format("{} stages, {} micro-batches", stages, p.pipeline.microbatches),
             "at least as many micro-batches as stages, as Schedule1F1B requires");
  }
  folded_stages f{p, std::vector<std::vector<hardware::device_id>>(stages), {}};
  const auto chunks = parallel::chunks_of(p.graph, p.configurations, p.pipeline);
  std::vector<hardware::device_id> folded;  // by device
  for (std::size_t d = 0; d < p.machine.network.device_count(); ++d) {
    auto& group = f.groups[p.pipeline.stages.empty() ? 0 : p.pipeline.stages[d]];
    folded.emplace_back(group.size());
    group.emplace_back(d);
  }
  for (std::size_t k = 1; k < stages; ++k) {
    if (f.groups[k].size() != f.groups[0].size()) {
      complain(fmt::format("{} devices of stage 0, {} of stage {}", f.groups[0].size(), f.groups[k].size(), k),
               "equally many of each");
    }
  }
  for (const auto n : node_ids(p.graph)) {
    auto& devices = f.plan.configurations[n.index()].devices;
    const auto own = devices.empty() || p.pipeline.stages.empty() ? 0 : p.pipeline.stages[devices[0].index()];
    f.stage.push_back(chunks[n.index()] * stages + own);
    for (auto& d : devices) {
      d = folded[d.index()];
    }
  }
  f.plan.pipeline = {};
  return f;
}

namespace detail {

UNITY_INLINE std::string shown_operator(const tensor::algebra& a, const tensor::tensor_graph& g, node_id n) {
  return fmt::format("operator {} ({})", n.index(), tensor::operator_name(a, g.operation(n)));
}

UNITY_INLINE bool is_within(std::string_view module, std::string_view outer) {
  return module.starts_with(outer) && (module.size() == outer.size() || module[outer.size()] == '.');
}

class boundary_finder {
 public:
  boundary_finder(const tensor::algebra& a, const tensor::tensor_graph& g, const module_operators& m,
                  const parallel::training_graph& t)
      : a_{a}, g_{g}, m_{m}, training_{t} {}

  [[nodiscard]] std::vector<stage_boundary> find();

 private:
  [[nodiscard]] std::uint32_t stage_of(node_id n) const { return m_.stage[n.index()]; }
  // Adds the boundary between two consecutive operators.
  void cut(node_id last, node_id first);
  void add_reads(node_id reader);
  void expect_whole_modules() const;

  const tensor::algebra& a_;
  const tensor::tensor_graph& g_;
  const module_operators& m_;
  const parallel::training_graph& training_;
  std::vector<stage_boundary> found_{};
  std::set<std::size_t> returned_{};  // values whose gradients are sent back
};

UNITY_INLINE void boundary_finder::expect_whole_modules() const {
  std::map<std::string_view, std::uint32_t> stages;
  for (const auto& [n, module] : m_.modules) {
    const auto own = stage_of(node_id{n});
    if (const auto [at, is_new] = stages.emplace(module, own); !is_new && at->second != own) {
      throw error{shown_operator(a_, g_, node_id{n}),
                  fmt::format("is on stage {}, and reads a parameter of module \"{}\", which stage {} has", own, module,
                              at->second),
                  "each module on one stage"};
    }
  }
}

UNITY_INLINE void boundary_finder::cut(node_id last, node_id first) {
  if (stage_of(first) != stage_of(last) + 1) {
    throw error{shown_operator(a_, g_, first),
                fmt::format("is on stage {}, and the operator before it on stage {}", stage_of(first), stage_of(last)),
                "operators in the order of their stages"};
  }
  const bool is_after = m_.module_of(first).empty();
  const auto module = m_.module_of(is_after ? last : first);
  if (module.empty()) {
    throw error{shown_operator(a_, g_, first), fmt::format("begins stage {}", stage_of(first)),
                "stages that begin or end with a module that has parameters"};
  }
  if (!found_.empty() && found_.back().module == module) {
    throw error{shown_operator(a_, g_, first), fmt::format("begins stage {}", stage_of(first)),
                fmt::format("one boundary at module \"{}\", at which stage {} begins", module, stage_of(last))};
  }
  found_.push_back({std::string{module}, is_after, {}, 0, {}});
}

UNITY_INLINE void boundary_finder::add_reads(node_id reader) {
  for (std::size_t i = 0; i < g_.operands(reader).size(); ++i) {
    const auto v = g_.operands(reader)[i];
    const auto from = g_.producer(v);
    const bool is_input = g_.operation(from).kind == a_.kind("input");
    const bool is_constant = !is_input && m_.place[from.index()] == module_operators::no_place;
    const auto made_on = is_input ? 0 : stage_of(from);
    if (is_constant || made_on == stage_of(reader)) {
      continue;
    }
    if (is_input || made_on + 1 != stage_of(reader)) {
      throw error{shown_operator(a_, g_, reader),
                  fmt::format("is on stage {}, and reads {}", stage_of(reader),
                              is_input ? std::string{"an input"} : fmt::format("a value of stage {}", made_on)),
                  "inputs on the first stage, and values of the stage before"};
    }
    auto& at = found_[made_on];
    const bool is_new = std::find(at.values.begin(), at.values.end(), v) == at.values.end();
    if (is_new) {
      at.values.push_back(v);
    }
    at.gradients += training_.wanted(reader)[i] && returned_.insert(v.index()).second ? 1 : 0;
  }
}

UNITY_INLINE std::vector<stage_boundary> boundary_finder::find() {
  expect_whole_modules();
  if (!m_.order.empty() && stage_of(m_.order[0]) != 0) {
    throw error{shown_operator(a_, g_, m_.order[0]), fmt::format("is on stage {}", stage_of(m_.order[0])),
                "the first operator on the first stage"};
  }
  for (std::size_t i = 1; i < m_.order.size(); ++i) {
    if (stage_of(m_.order[i]) != stage_of(m_.order[i - 1])) {
      cut(m_.order[i - 1], m_.order[i]);
    }
  }
  for (const auto n : m_.order) {
    add_reads(n);
  }
  for (const auto v : g_.outputs()) {
    if (const auto n = g_.producer(v); stage_of(n) != found_.size()) {
      throw error{shown_operator(a_, g_, n), fmt::format("makes a result on stage {}", stage_of(n)),
                  fmt::format("results on the last stage, {}", found_.size())};
    }
  }
  return std::move(found_);
}

class recomputation_finder {
 public:
  recomputation_finder(const tensor::algebra& a, const tensor::tensor_graph& g, const module_operators& m,
                       const parallel::training_graph& t, const parallel::recomputation& r)
      : a_{a}, g_{g}, m_{m}, training_{t}, again_{r} {}

  [[nodiscard]] std::vector<recomputed_module> find() const;

 private:
  // The module that has the operators from the first recomputed one (`first`) to the next that is not (`kept`).
  [[nodiscard]] std::optional<std::string> module_of(std::size_t first, std::size_t kept) const;
  [[nodiscard]] bool is_all_of(std::string_view module, std::size_t first, std::size_t kept) const;
  [[nodiscard]] bool is_read_within(std::size_t first, std::size_t kept) const;
  [[nodiscard]] std::size_t last_kept(std::size_t first, std::size_t kept) const;

  const tensor::algebra& a_;
  const tensor::tensor_graph& g_;
  const module_operators& m_;
  const parallel::training_graph& training_;
  const parallel::recomputation& again_;
};

UNITY_INLINE bool recomputation_finder::is_all_of(std::string_view module, std::size_t first, std::size_t kept) const {
  std::size_t begin = m_.order.size();
  std::size_t end = 0;
  bool is_leaf = true;
  for (std::size_t i = 0; i < m_.order.size(); ++i) {
    const auto own = m_.module_of(m_.order[i]);
    const bool is_here = first <= i && i <= kept;
    if (own.empty()) {
      continue;
    }
    if (is_within(own, module) != is_here) {
      return false;
    }
    if (is_here) {
      begin = std::min(begin, i);
      end = i;
      is_leaf = is_leaf && own == module;
    }
  }
  return !is_leaf || (begin == first && end == kept);
}

UNITY_INLINE std::optional<std::string> recomputation_finder::module_of(std::size_t first, std::size_t kept) const {
  std::string_view name;
  for (auto i = first; name.empty() && i <= kept; ++i) {
    name = m_.module_of(m_.order[i]);
  }
  while (!name.empty()) {
    if (is_all_of(name, first, kept)) {
      return std::string{name};
    }
    const auto dot = name.rfind('.');
    name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  return std::nullopt;
}

UNITY_INLINE bool recomputation_finder::is_read_within(std::size_t first, std::size_t kept) const {
  for (std::size_t i = kept + 1; i < m_.order.size(); ++i) {
    for (const auto v : g_.operands(m_.order[i])) {
      const auto place = m_.place[g_.producer(v).index()];
      if (place != module_operators::no_place && first <= place && place < kept) {
        return false;
      }
    }
  }
  return true;
}

UNITY_INLINE std::size_t recomputation_finder::last_kept(std::size_t first, std::size_t kept) const {
  for (auto i = kept; i > first; --i) {
    const auto reads = parallel::reads_of_adjoint(a_, g_, training_, m_.order[i]);
    const auto is_any = [](const std::vector<bool>& all) {
      return std::find(all.begin(), all.end(), true) != all.end();
    };
    if (is_any(reads.operands) || is_any(reads.results)) {
      return i;
    }
  }
  return first;
}

UNITY_INLINE std::vector<recomputed_module> recomputation_finder::find() const {
  std::vector<recomputed_module> found;
  for (std::size_t i = 0; i < m_.order.size(); ++i) {
    if (!parallel::is_recomputed(again_, m_.order[i])) {
      continue;
    }
    auto kept = i;
    while (kept + 1 < m_.order.size() && parallel::is_recomputed(again_, m_.order[kept])) {
      ++kept;
    }
    const auto name = module_of(i, kept);
    if (!name || !is_read_within(i, kept) || m_.stage[m_.order[i].index()] != m_.stage[m_.order[kept].index()]) {
      throw error{
          shown_operator(a_, g_, m_.order[i]),
          fmt::format("its result is computed again, as all are up to {}", shown_operator(a_, g_, m_.order[kept])),
          "the operators of one module with parameters, except for the last"};
    }
    found.push_back({*name, i, kept, last_kept(i, kept)});
    i = kept;
  }
  return found;
}

}  // namespace detail

UNITY_INLINE std::vector<stage_boundary> boundaries_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                       const module_operators& m, const parallel::training_graph& t) {
  return detail::boundary_finder{a, g, m, t}.find();
}

UNITY_INLINE std::vector<recomputed_module> recomputed_modules(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                               const module_operators& m,
                                                               const parallel::training_graph& t,
                                                               const parallel::recomputation& r) {
  return detail::recomputation_finder{a, g, m, t, r}.find();
}

}  // namespace unity::io

#endif
