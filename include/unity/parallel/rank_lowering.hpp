// From a plan to what ranks do: one for each device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/machine/machine.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/divisions.hpp>
#include <unity/parallel/network.hpp>
#include <unity/parallel/pipelined_program.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/rank_program.hpp>
#include <unity/parallel/region_writer.hpp>
#include <unity/parallel/task_operation.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/parallel/value_flows.hpp>
#include <unity/tensor/adjoint.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

namespace detail {

class rank_lowering {
 public:
  rank_lowering(const tensor::algebra& a, const plan& p)
      : a_{a}, plan_{p}, graph_{p.graph}, network_{p.machine}, dimensions_{a, p.graph}, training_{a, p.graph},
        ranks_(p.machine.network.device_count()), weights_(training_.weights().size()) {
    check(a, p.graph, dimensions_, p.configurations, ranks_.size());
    all_.ranks.resize(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].writer.emplace(a_, all_.ranks[r].graph, all_.ranks[r].steps);
    }
    for (const auto& e : training_.edges()) {
      flows_.push_back(flows(e));
    }
  }

  [[nodiscard]] rank_programs run() && {
    place_weights();
    const auto count = plan_.pipeline.microbatches;
    for (auto& r : ranks_) {
      r.forward.resize(static_cast<std::size_t>(count));
      r.backward.resize(static_cast<std::size_t>(count));
    }
    for (microbatch_ = 0; microbatch_ < count; ++microbatch_) {
      pass_.assign(graph_.node_count(), {});
      forward();
      backward();
    }
    is_backward_ = true;
    microbatch_ = count - 1;
    reduce_gradients();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      order(r);
    }
    return std::move(all_);
  }

 private:
  struct rank_state {
    std::optional<region_writer> writer{};
    std::vector<std::vector<rank_step>> forward{};   // by micro-batch
    std::vector<std::vector<rank_step>> backward{};
    std::vector<rank_step> last{};                   // reductions of gradients
    std::map<std::pair<std::size_t, std::vector<std::int64_t>>, value_id> sources{};  // by node, micro-batch and box
  };
  // A task of one micro-batch.
  struct task_state {
    task_operation code{};
    std::vector<value_id> operands{};  // as the operator reads them
    std::vector<value_id> raw{};       // results before they are scaled
    std::vector<value_id> results{};
    std::vector<value_id> cotangents{};  // of operands; null: none
  };
  struct pass_state {
    std::vector<task_state> tasks{};
    std::vector<std::vector<std::vector<held_part>>> operands{};  // by operand and task: what has come
    std::vector<std::vector<std::vector<held_part>>> cotangents{};  // by result and task: what has come back
    std::vector<std::vector<rank_step>> waits{};                    // by task: before it runs
    std::vector<std::vector<rank_step>> waits_back{};
  };
  // The parts of a weight that ranks hold.
  struct weight_state {
    std::vector<box> cells{};
    std::vector<std::vector<std::uint32_t>> holders{};                  // by cell: ranks, ascending
    std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> at{};  // by rank and cell: in the rank's weights
    std::map<std::pair<std::uint32_t, std::size_t>, value_id> gradients{};
  };

  [[nodiscard]] const configuration& division_of(node_id n) const { return plan_.configurations[n.index()]; }
  [[nodiscard]] const division& parts_of(node_id n) { return table_.of(dimensions_.kind(n), dimensions_[n], division_of(n)); }
  [[nodiscard]] std::uint32_t rank_of(node_id n, std::uint32_t task) const { return static_cast<std::uint32_t>(division_of(n).devices[task].index()); }
  [[nodiscard]] bool is_operator(node_id n) const { return !graph_.operands(n).empty(); }
  [[nodiscard]] static std::uint32_t number_of(const tensor::tensor_graph& g, value_id v) {
    const auto results = g.results(g.producer(v));
    return static_cast<std::uint32_t>(std::find(results.begin(), results.end(), v) - results.begin());
  }
  [[nodiscard]] tensor::tensor_type type_of(value_id v, const box& b) const {
    auto t = graph_.type(v);
    t.dims = b.sizes();
    return t;
  }
  // The writer of a rank, set to what is being written.
  [[nodiscard]] region_writer& on(std::uint32_t rank, node_id origin) {
    auto& r = ranks_[rank];
    const auto m = static_cast<std::size_t>(microbatch_);
    r.writer->begin(is_last_ ? r.last : is_backward_ ? r.backward[m] : r.forward[m], origin, is_backward_, microbatch_);
    return *r.writer;
  }
  [[nodiscard]] std::vector<rank_step>& steps_of(std::uint32_t rank) {
    auto& r = ranks_[rank];
    const auto m = static_cast<std::size_t>(microbatch_);
    return is_last_ ? r.last : is_backward_ ? r.backward[m] : r.forward[m];
  }
  [[nodiscard]] rank_step step(step_kind kind, node_id origin) const { return {kind, {}, {}, 0, 0, origin, is_backward_, microbatch_}; }

  [[nodiscard]] value_flows flows(const graph_edge& e) {
    const divided_edge d{parts_of(e.from), division_of(e.from).devices, parts_of(e.to), division_of(e.to).devices, e.operands};
    return flows_of(network_, table_, d, number_of(graph_, e.value));
  }

  // Sends a value to another rank. Returns what arrives there, and the step that waits for it.
  [[nodiscard]] std::pair<value_id, rank_step> sent(node_id origin, value_id v, std::uint32_t from, std::uint32_t to) {
    auto s = step(step_kind::send, origin);
    s.value = v;
    s.peer = to;
    s.tag = next_++;
    steps_of(from).push_back(s);
    const auto arrived = ranks_[to].writer->outside(all_.ranks[from].graph.type(v));
    auto r = step(step_kind::receive, origin);
    r.node = all_.ranks[to].graph.producer(arrived);
    r.peer = from;
    r.tag = s.tag;
    steps_of(to).push_back(r);
    r.kind = step_kind::wait;
    return {arrived, r};
  }
  // Adds up a value of each rank of a group. Returns the sum on each, and the steps that wait for it.
  [[nodiscard]] std::vector<std::pair<value_id, rank_step>> reduced(node_id origin, const std::vector<std::uint32_t>& group, std::span<const value_id> values) {
    auto known = std::find(all_.groups.begin(), all_.groups.end(), group);
    if (known == all_.groups.end()) {
      known = all_.groups.insert(all_.groups.end(), group);
    }
    const auto tag = next_++;
    std::vector<std::pair<value_id, rank_step>> sums;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const auto sum = ranks_[group[i]].writer->outside(all_.ranks[group[i]].graph.type(values[i]));
      auto r = step(step_kind::reduce, origin);
      r.node = all_.ranks[group[i]].graph.producer(sum);
      r.value = values[i];
      r.peer = static_cast<std::uint32_t>(known - all_.groups.begin());
      r.tag = tag;
      steps_of(group[i]).push_back(r);
      r.kind = step_kind::wait;
      sums.emplace_back(sum, r);
    }
    return sums;
  }

  // Weights.
  void place_weights() {
    for (std::size_t w = 0; w < weights_.size(); ++w) {
      const auto& uses = training_.weights()[w];
      auto& state = weights_[w];
      std::vector<box> boxes;
      for_each_reader(w, [&](const weight_use&, std::uint32_t, std::uint32_t, const box& b) {
        if (std::find(boxes.begin(), boxes.end(), b) == boxes.end()) {
          boxes.push_back(b);
        }
      });
      state.cells = cells_of(boxes);
      state.holders.resize(state.cells.size());
      for (std::size_t c = 0; c < state.cells.size(); ++c) {
        std::set<std::uint32_t> holders;
        for_each_reader(w, [&](const weight_use&, std::uint32_t, std::uint32_t rank, const box& b) {
          if (!intersection(b, state.cells[c]).empty()) {
            holders.insert(rank);
          }
        });
        state.holders[c].assign(holders.begin(), holders.end());
        for (const auto r : state.holders[c]) {
          auto& all = all_.ranks[r].weights;
          state.at[{r, c}] = all.size();
          all.push_back({{uses.value, state.cells[c], ranks_[r].writer->outside(type_of(uses.value, state.cells[c])), 0}, {}});
        }
      }
    }
  }
  // f(use, task, rank, box) for all tasks for which the operand is not zero.
  template <class F>
  void for_each_reader(std::size_t weight, const F& f) {
    for (const auto& use : training_.weights()[weight].uses) {
      const auto& d = parts_of(use.node);
      for (const auto t : d.readers[use.operand]) {
        f(use, t, rank_of(use.node, t), d.parts[t].operands[use.operand]);
      }
    }
  }
  [[nodiscard]] std::vector<held_part> weight_parts(std::size_t w, std::uint32_t rank) const {
    std::vector<held_part> parts;
    const auto& state = weights_[w];
    for (std::size_t c = 0; c < state.cells.size(); ++c) {
      if (const auto found = state.at.find({rank, c}); found != state.at.end()) {
        parts.push_back({state.cells[c], all_.ranks[rank].weights[found->second].weight.value});
      }
    }
    return parts;
  }
  [[nodiscard]] std::optional<std::size_t> weight_of(value_id v) const {
    for (std::size_t w = 0; w < weights_.size(); ++w) {
      if (training_.weights()[w].value == v) {
        return w;
      }
    }
    return std::nullopt;
  }

  // A part of what no operator makes.
  [[nodiscard]] value_id source(node_id reader, value_id v, const box& b, std::uint32_t rank) {
    const auto n = graph_.producer(v);
    auto& known = ranks_[rank].sources;
    std::vector<std::int64_t> key{microbatch_};
    key.insert(key.end(), b.begin.begin(), b.begin.end());
    key.insert(key.end(), b.end.begin(), b.end.end());
    const auto [at, is_new] = known.try_emplace({n.index(), std::move(key)});
    if (!is_new) {
      return at->second;
    }
    auto& w = on(rank, reader);
    const std::string_view name = a_.signature(graph_.operation(n).kind).name;
    if (name == "input" || name == "constant") {
      at->second = w.outside(type_of(v, b));
      all_.ranks[rank].inputs.push_back({v, b, at->second, microbatch_});
    } else {
      auto t = graph_.type(v);
      t.constant = false;
      at->second = w.cut({whole(t.dims), w.run(graph_.operation(n), {}, {&t, 1})[0]}, b);
    }
    return at->second;
  }

  void prepare(node_id n) {
    auto& p = pass_[n.index()];
    const auto tasks = division_of(n).task_count();
    p.tasks.resize(tasks);
    p.operands.assign(graph_.operands(n).size(), std::vector<std::vector<held_part>>(tasks));
    p.cotangents.assign(graph_.results(n).size(), std::vector<std::vector<held_part>>(tasks));
    p.waits.resize(tasks);
    p.waits_back.resize(tasks);
  }
  void forward() {
    is_backward_ = false;
    for (std::size_t n = 0; n < graph_.node_count(); ++n) {
      if (is_operator(node_id{n})) {
        prepare(node_id{n});
      }
    }
    for (std::size_t i = 0; i < graph_.node_count(); ++i) {
      const node_id n{i};
      if (!is_operator(n)) {
        continue;
      }
      for (std::uint32_t t = 0; t < division_of(n).task_count(); ++t) {
        run_task(n, t);
      }
      for (const auto e : training_.edges_of(n)) {
        if (training_.edges()[e].from == n) {
          send_value(e);
        }
      }
    }
    for (std::uint32_t o = 0; o < graph_.outputs().size(); ++o) {
      deliver(o);
    }
  }
  void run_task(node_id n, std::uint32_t t) {
    auto& p = pass_[n.index()];
    auto& task = p.tasks[t];
    const auto rank = rank_of(n, t);
    const auto& d = parts_of(n);
    const auto& part = d.parts[t];
    auto& w = on(rank, n);
    auto& steps = steps_of(rank);
    steps.insert(steps.end(), p.waits[t].begin(), p.waits[t].end());
    task.code = operation_of_task(a_, dimensions_[n], division_of(n).grid(), part);
    for (std::uint32_t x = 0; x < graph_.operands(n).size(); ++x) {
      task.operands.push_back(operand(n, t, x));
    }
    if (task.code.first_row != 0) {
      const auto& type = w.graph().type(task.operands[1]);
      const std::vector<value_id> shifted{task.operands[1], w.filled(type.dims, type.element, static_cast<double>(task.code.first_row))};
      task.operands[1] = w.run(a_.make_operation("sub"), shifted);
    }
    task.raw = w.run(task.code.part.op, task.operands, task.code.part.outputs);
    task.results = task.raw;
    for (auto& r : task.results) {
      r = task.code.share != 1 ? w.scaled(r, task.code.share) : r;
    }
  }
  [[nodiscard]] value_id operand(node_id n, std::uint32_t t, std::uint32_t x) {
    const auto v = graph_.operands(n)[x];
    const auto& d = parts_of(n);
    const auto& b = d.parts[t].operands[x];
    const auto rank = rank_of(n, t);
    auto& w = on(rank, n);
    const auto element = graph_.type(v).element;
    if (is_operator(graph_.producer(v))) {
      return w.joined(b, pass_[n.index()].operands[x][t], element);
    }
    if (d.terms[x].of_task(t) != 0) {
      return w.filled(b.sizes(), element, 0);
    }
    if (const auto weight = weight_of(v)) {
      return w.joined(b, weight_parts(*weight, rank), element);
    }
    return source(n, v, b, rank);
  }
  [[nodiscard]] held_part result_of(node_id n, std::uint32_t t, std::uint32_t r) {
    return {parts_of(n).parts[t].results[r], pass_[n.index()].tasks[t].results[r]};
  }

  // What an operator made, to those that read it.
  void send_value(std::uint32_t e) {
    const auto& edge = training_.edges()[e];
    const auto& f = flows_[e];
    const auto result = number_of(graph_, edge.value);
    auto& to = pass_[edge.to.index()];
    for (const auto& l : f.local) {
      to.operands[l.reader.operand][l.reader.task].push_back(cut_of(edge.from, result_of(edge.from, l.producer, result), l.reader.part, rank_of(edge.from, l.producer)));
    }
    for (const auto& s : f.sent) {
      const auto own = cut_of(edge.from, result_of(edge.from, s.producer, result), s.part, s.from);
      const auto [arrived, wait] = sent(edge.from, own.value, s.from, s.to);
      hand_out(to, s.readers, {s.part, arrived}, wait);
    }
    for (const auto& s : f.sums) {
      send_sum(edge, s, result, to);
    }
  }
  [[nodiscard]] held_part cut_of(node_id origin, const held_part& x, const box& b, std::uint32_t rank) { return {b, on(rank, origin).cut(x, b)}; }
  static void hand_out(pass_state& to, std::span<const flow_reader> readers, const held_part& x, const std::optional<rank_step>& wait) {
    for (const auto& r : readers) {
      auto& parts = to.operands[r.operand][r.task];
      if (std::none_of(parts.begin(), parts.end(), [&](const held_part& p) { return p.value == x.value; })) {
        parts.push_back(x);
      }
      if (wait) {
        to.waits[r.task].push_back(*wait);
      }
    }
  }
  // The terms of a sum that a rank has, added up.
  [[nodiscard]] std::optional<value_id> own_terms(const graph_edge& edge, const summed_flow& s, std::uint32_t result, std::uint32_t rank) {
    std::optional<value_id> own;
    for (const auto p : s.producers) {
      if (rank_of(edge.from, p) == rank) {
        const auto term = cut_of(edge.from, result_of(edge.from, p, result), s.part, rank).value;
        own = own ? on(rank, edge.from).sum(*own, term) : term;
      }
    }
    return own;
  }
  [[nodiscard]] std::vector<std::uint32_t> ranks_with_terms(const graph_edge& edge, const summed_flow& s) const {
    std::set<std::uint32_t> all;
    for (const auto p : s.producers) {
      all.insert(rank_of(edge.from, p));
    }
    return {all.begin(), all.end()};
  }
  [[nodiscard]] std::vector<flow_reader> readers_on(const graph_edge& edge, const summed_flow& s, std::uint32_t rank) const {
    std::vector<flow_reader> all;
    std::copy_if(s.readers.begin(), s.readers.end(), std::back_inserter(all), [&](const flow_reader& r) { return rank_of(edge.to, r.task) == rank; });
    return all;
  }
  void send_sum(const graph_edge& edge, const summed_flow& s, std::uint32_t result, pass_state& to) {
    const auto with_terms = ranks_with_terms(edge, s);
    if (s.is_reduced) {
      std::vector<value_id> own;
      for (const auto r : with_terms) {
        own.push_back(*own_terms(edge, s, result, r));
      }
      const auto sums = reduced(edge.from, with_terms, own);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        hand_out(to, readers_on(edge, s, with_terms[i]), {s.part, sums[i].first}, sums[i].second);
      }
      return;
    }
    std::optional<value_id> sum = own_terms(edge, s, result, s.owner);
    for (const auto r : with_terms) {
      if (r != s.owner) {
        const auto [arrived, wait] = sent(edge.from, *own_terms(edge, s, result, r), r, s.owner);
        steps_of(s.owner).push_back(wait);
        sum = sum ? on(s.owner, edge.from).sum(*sum, arrived) : arrived;
      }
    }
    for (const auto h : s.holders) {
      if (h == s.owner) {
        hand_out(to, readers_on(edge, s, h), {s.part, *sum}, std::nullopt);
      } else {
        const auto [arrived, wait] = sent(edge.from, *sum, s.owner, h);
        hand_out(to, readers_on(edge, s, h), {s.part, arrived}, wait);
      }
    }
  }
  // The first copy of an output, and where its cotangent comes in.
  void deliver(std::uint32_t output) {
    const auto v = graph_.outputs()[output];
    const auto n = graph_.producer(v);
    if (!is_operator(n)) {
      return;
    }
    const auto& d = parts_of(n);
    const auto result = number_of(graph_, v);
    for (std::uint32_t b = 0; b < d.blocks; ++b) {
      const auto t = d.task(0, 0, b);
      const auto rank = rank_of(n, t);
      const auto made = result_of(n, t, result);
      all_.ranks[rank].outputs.push_back({output, made.part, made.value, microbatch_});
      if (training_.has_backward(n) && tensor::is_floating(graph_.type(v).element)) {
        const auto c = on(rank, n).outside(type_of(v, made.part));
        all_.ranks[rank].cotangents.push_back({output, made.part, c, microbatch_});
        pass_[n.index()].cotangents[result][t].push_back({made.part, c});
      }
    }
  }

  void backward() {
    is_backward_ = true;
    for (auto i = graph_.node_count(); i-- > 0;) {
      const node_id n{i};
      if (!is_operator(n) || !training_.has_backward(n)) {
        continue;
      }
      for (std::uint32_t t = 0; t < division_of(n).task_count(); ++t) {
        run_back(n, t);
      }
      for (const auto e : training_.edges_of(n)) {
        const auto& edge = training_.edges()[e];
        if (edge.to == n && training_.wanted(n)[edge.operands.front()]) {
          send_back(e);
        }
      }
      keep_gradients(n);
    }
  }
  void run_back(node_id n, std::uint32_t t) {
    auto& p = pass_[n.index()];
    auto& task = p.tasks[t];
    const auto rank = rank_of(n, t);
    const auto& d = parts_of(n);
    task.cotangents.assign(graph_.operands(n).size(), {});
    auto& w = on(rank, n);
    auto& steps = steps_of(rank);
    steps.insert(steps.end(), p.waits_back[t].begin(), p.waits_back[t].end());
    std::vector<std::optional<value_id>> given;
    for (std::uint32_t r = 0; r < task.results.size(); ++r) {
      given.push_back(w.added(d.parts[t].results[r], p.cotangents[r][t], graph_.type(graph_.results(n)[r]).element));
    }
    if (std::none_of(given.begin(), given.end(), [](const auto& c) { return c.has_value(); })) {
      return;  // nobody reads it: its cotangents are zero
    }
    const auto& part = task.code.part;
    const auto adjoint = tensor::adjoint_of(a_, part.op, part.inputs, training_.wanted(n));
    const auto& g = adjoint.graph;
    std::vector<value_id> now(g.value_count());
    std::size_t next = 0;
    const auto stand_for = [&](value_id v) { now[g.results(node_id{next++})[0].index()] = v; };
    for (const auto v : task.operands) {
      stand_for(v);
    }
    for (const auto v : task.raw) {
      stand_for(v);
    }
    for (std::size_t r = 0; r < given.size(); ++r) {
      auto c = given[r];
      if (!c && tensor::is_floating(part.outputs[r].element)) {
        c = w.filled(part.outputs[r].dims, part.outputs[r].element, 0);
      }
      stand_for(c && task.code.share != 1 ? w.scaled(*c, task.code.share) : c.value_or(value_id{}));
    }
    for (; next < g.node_count(); ++next) {
      const node_id own{next};
      std::vector<value_id> operands;
      for (const auto v : g.operands(own)) {
        operands.push_back(now[v.index()]);
      }
      std::vector<tensor::tensor_type> types;
      for (const auto v : g.results(own)) {
        types.push_back(g.type(v));
        types.back().constant = false;
      }
      const auto results = w.run(g.operation(own), operands, types);
      for (std::size_t r = 0; r < results.size(); ++r) {
        now[g.results(own)[r].index()] = results[r];
      }
    }
    for (std::size_t i = 0; i < adjoint.operands.size(); ++i) {
      task.cotangents[adjoint.operands[i]] = now[g.outputs()[i].index()];
    }
  }
  // The cotangents that readers on a rank have of a box.
  [[nodiscard]] std::optional<value_id> own_cotangent(node_id to, std::span<const flow_reader> readers, const box& b, std::uint32_t rank, tensor::dtype element) {
    std::vector<held_part> parts;
    for (const auto& r : readers) {
      const auto c = pass_[to.index()].tasks[r.task].cotangents[r.operand];
      if (c.valid()) {
        const held_part all{parts_of(to).parts[r.task].operands[r.operand], c};
        const auto common = intersection(all.part, b);
        parts.push_back({common, on(rank, to).cut(all, common)});
      }
    }
    return on(rank, to).added(b, parts, element);
  }
  void send_back(std::uint32_t e) {
    const auto& edge = training_.edges()[e];
    const auto& f = flows_[e];
    const auto result = number_of(graph_, edge.value);
    const auto element = graph_.type(edge.value).element;
    auto& from = pass_[edge.from.index()];
    for (const auto& l : f.local) {
      if (const auto c = own_cotangent(edge.to, {&l.reader, 1}, l.reader.part, rank_of(edge.from, l.producer), element)) {
        from.cotangents[result][l.producer].push_back({l.reader.part, *c});
      }
    }
    for (const auto& s : f.sent) {
      if (const auto c = own_cotangent(edge.to, s.readers, s.part, s.to, element)) {
        const auto [arrived, wait] = sent(edge.to, *c, s.to, s.from);
        from.cotangents[result][s.producer].push_back({s.part, arrived});
        from.waits_back[s.producer].push_back(wait);
      }
    }
    for (const auto& s : f.sums) {
      send_sum_back(edge, s, result, element, from);
    }
  }
  void send_sum_back(const graph_edge& edge, const summed_flow& s, std::uint32_t result, tensor::dtype element, pass_state& from) {
    const auto with_terms = ranks_with_terms(edge, s);
    const auto give = [&](std::uint32_t rank, value_id c, const std::optional<rank_step>& wait) {
      for (const auto p : s.producers) {
        if (rank_of(edge.from, p) == rank) {
          from.cotangents[result][p].push_back({s.part, c});
          if (wait) {
            from.waits_back[p].push_back(*wait);
          }
        }
      }
    };
    std::vector<std::pair<std::uint32_t, value_id>> own;
    for (const auto h : s.holders) {
      if (const auto c = own_cotangent(edge.to, readers_on(edge, s, h), s.part, h, element)) {
        own.emplace_back(h, *c);
      }
    }
    if (own.empty()) {
      return;
    }
    if (s.is_reduced) {
      std::vector<value_id> values;
      for (const auto h : s.holders) {
        const auto found = std::find_if(own.begin(), own.end(), [&](const auto& x) { return x.first == h; });
        values.push_back(found != own.end() ? found->second : on(h, edge.to).filled(s.part.sizes(), element, 0));
      }
      const auto sums = reduced(edge.to, s.holders, values);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        give(s.holders[i], sums[i].first, sums[i].second);
      }
      return;
    }
    std::optional<value_id> sum;
    for (const auto& [rank, c] : own) {
      auto here = c;
      if (rank != s.owner) {
        const auto [arrived, wait] = sent(edge.to, c, rank, s.owner);
        steps_of(s.owner).push_back(wait);
        here = arrived;
      }
      sum = sum ? on(s.owner, edge.to).sum(*sum, here) : here;
    }
    for (const auto r : with_terms) {
      if (r == s.owner) {
        give(r, *sum, std::nullopt);
      } else {
        const auto [arrived, wait] = sent(edge.to, *sum, s.owner, r);
        give(r, arrived, wait);
      }
    }
  }

  // Adds what the tasks of a node give weights to what earlier ones gave.
  void keep_gradients(node_id n) {
    for (const auto w : training_.weights_of(n)) {
      const auto& uses = training_.weights()[w];
      auto& state = weights_[w];
      if (!uses.is_trained) {
        continue;
      }
      std::map<std::uint32_t, std::vector<held_part>> given;  // by rank
      for_each_reader(w, [&](const weight_use& use, std::uint32_t t, std::uint32_t rank, const box& b) {
        if (use.node == n && pass_[n.index()].tasks[t].cotangents[use.operand].valid()) {
          given[rank].push_back({b, pass_[n.index()].tasks[t].cotangents[use.operand]});
        }
      });
      for (const auto& [rank, parts] : given) {
        for (std::size_t c = 0; c < state.cells.size(); ++c) {
          auto& writer = on(rank, n);
          if (const auto sum = writer.added(state.cells[c], parts, graph_.type(uses.value).element)) {
            auto& all = state.gradients[{rank, c}];
            all = all.valid() ? writer.sum(all, *sum) : *sum;
          }
        }
      }
    }
  }
  // One sum for all who hold a part. Those who gave nothing add zeros; where one alone gave, it hands out.
  void reduce_gradients() {
    is_last_ = true;
    for (auto w = weights_.size(); w-- > 0;) {
      const auto& value = training_.weights()[w].value;
      const auto origin = graph_.producer(value);
      auto& state = weights_[w];
      for (std::size_t c = 0; c < state.cells.size(); ++c) {
        const auto& holders = state.holders[c];
        std::vector<std::uint32_t> givers;
        std::copy_if(holders.begin(), holders.end(), std::back_inserter(givers), [&](std::uint32_t r) { return state.gradients.contains({r, c}); });
        if (givers.empty()) {
          continue;
        }
        const auto gradient_of = [&](std::uint32_t r) -> value_id& { return all_.ranks[r].weights[state.at.at({r, c})].gradient; };
        if (givers.size() == 1) {
          const auto own = state.gradients.at({givers[0], c});
          for (const auto r : holders) {
            if (r == givers[0]) {
              gradient_of(r) = own;
            } else {
              const auto [arrived, wait] = sent(origin, own, givers[0], r);
              gradient_of(r) = arrived;
              ends_.emplace_back(r, wait);
            }
          }
          continue;
        }
        std::vector<value_id> values;
        for (const auto r : holders) {
          const auto found = state.gradients.find({r, c});
          values.push_back(found != state.gradients.end() ? found->second : on(r, origin).filled(state.cells[c].sizes(), graph_.type(value).element, 0));
        }
        const auto sums = reduced(origin, holders, values);
        for (std::size_t i = 0; i < sums.size(); ++i) {
          gradient_of(holders[i]) = sums[i].first;
          ends_.emplace_back(holders[i], sums[i].second);
        }
      }
    }
    for (const auto& [rank, wait] : ends_) {
      steps_of(rank).push_back(wait);
    }
  }

  // Phases one after another, waits once each, and at the end until all that was sent has gone.
  void order(std::size_t rank) {
    auto& r = ranks_[rank];
    auto& steps = all_.ranks[rank].steps;
    const auto& p = plan_.pipeline;
    for (const auto& phase : phases_of(p.stages.empty() ? 0 : p.stages[rank], p.stage_count(), p.microbatches)) {
      const auto& of = (phase.is_backward ? r.backward : r.forward)[static_cast<std::size_t>(phase.microbatch)];
      steps.insert(steps.end(), of.begin(), of.end());
    }
    steps.insert(steps.end(), r.last.begin(), r.last.end());
    std::map<std::uint32_t, std::uint32_t> begun;  // by tag
    std::vector<rank_step> once;
    std::set<std::uint32_t> waited;
    for (auto s : steps) {
      if (s.kind == step_kind::wait) {
        if (!waited.insert(s.tag).second) {
          continue;
        }
        s.peer = begun.at(s.tag);
        s.value = {};
      } else if (s.kind != step_kind::run) {
        begun[s.tag] = static_cast<std::uint32_t>(once.size());
      }
      once.push_back(s);
    }
    for (const auto& [tag, at] : begun) {
      if (once[at].kind == step_kind::send) {
        auto wait = once[at];
        wait.kind = step_kind::wait;
        wait.peer = at;
        once.push_back(wait);
      }
    }
    steps = std::move(once);
  }

  const tensor::algebra& a_;
  const plan& plan_;
  const tensor::tensor_graph& graph_;
  network network_;
  graph_dimensions dimensions_;
  training_graph training_;
  division_table table_{};
  std::vector<value_flows> flows_{};  // per edge
  std::vector<rank_state> ranks_;
  std::vector<weight_state> weights_;
  std::vector<pass_state> pass_{};  // per node, of the micro-batch that is being written
  std::vector<std::pair<std::uint32_t, rank_step>> ends_{};
  std::int64_t microbatch_ = 0;
  bool is_backward_ = false;
  bool is_last_ = false;
  std::uint32_t next_ = 0;  // tag
  rank_programs all_{};
};

}  // namespace detail

// An iteration on a rank for each device of the plan's machine. Who sends what to whom is what lowering.hpp simulates: operands come from the tasks that it has
// them come from, cotangents go back the same ways. Backward passes are the adjoints of what tasks ran. Gradients are added up over micro-batches on each rank, then
// over the ranks that hold a part of a weight; ranks that gave nothing take no part but to receive it.
// Every rank's steps are in one order that all agree on (topological, phase by phase), and what is sent is waited for at the end: no two wait for each other.
// Complexity: linear in tasks, micro-batches and flows.
// Throws: unity::error where the plan is not valid, or an operator does not run on its parts.
[[nodiscard]] inline rank_programs programs_of_ranks(const tensor::algebra& a, const plan& p) { return detail::rank_lowering{a, p}.run(); }

}  // namespace unity::parallel
