// The program of a rank for a training iteration on its range of vertices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/systems/roc/range_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// Regular.
struct range_program_options {
  // Weight decay: this multiple of the first layer's weights is added to their gradient.
  double decay = 0;
  // Loads even constant values in each iteration, so that they need not stay in memory.
  bool loads_all = false;
  bool is_forward = false;  // computes logits and changes no weights

  friend bool operator==(const range_program_options&, const range_program_options&) = default;
};

// The program of rank `part`, which has that part of the vertices; the programs of other ranks are empty. Inputs are
// values of the model's graph, identified by their index in range_model::values. Steps belong to layers: origin is a
// layer's index. Operators that other ranks wait for come first, then everything that needs no rows in transit: sums
// over own rows overlap with the transfer of rows, gradients of weights with that of cotangents. Outputs: the range's
// share of the loss, and the logits. Complexity: n log n in the model's operators.
// Throws: as tensor::differentiate.
[[nodiscard]] parallel::rank_programs range_program(const tensor::algebra& a, const range_model& m,
                                                    const gnn::range_graph& r, std::size_t part, std::size_t parts,
                                                    const range_program_options& o = {});

namespace detail {

class range_scheduler {
 public:
  range_scheduler(const tensor::algebra& a, const range_model& m, const gnn::range_graph& r, std::size_t part,
                  std::size_t parts, const range_program_options& o);

  [[nodiscard]] parallel::rank_programs schedule() &&;

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct message {
    value_id value{};  // in the differentiated graph
    std::size_t part = 0;
  };
  // An exchange of rows, or of cotangents of rows, between parts.
  struct exchange {
    std::size_t layer = 0;
    bool is_backward = false;
    std::vector<message> sent{};
    std::vector<message> received{};
    std::size_t left = 0;  // values that remain to be computed and sent
    bool is_begun = false;
    std::vector<std::uint32_t> sends{};     // steps
    std::vector<std::uint32_t> receives{};  // steps, in the order of `received`
  };

  [[nodiscard]] const tensor::tensor_graph& from() const noexcept { return all_.graph; }
  void find_exchanges();
  // Finds the first exchange that waits for each node.
  void find_urgency();
  void place_sources();
  void place_value(std::size_t number);
  void begin_receiving(std::size_t number);
  void run_ready();
  void run(node_id n);
  void made(value_id v);
  void send(exchange& e, const message& m);
  // Returns whether there was an exchange to wait for.
  [[nodiscard]] bool wait_for_next();
  void end_sends(exchange& e);
  void reduce_ready();
  void update_weights();
  [[nodiscard]] std::size_t layer_of(node_id n) const;
  [[nodiscard]] std::uint32_t tag(const exchange& e, std::size_t sender, std::size_t receiver) const;
  [[nodiscard]] value_id outside(value_id v);
  std::uint32_t add(parallel::rank_step s, std::size_t layer, bool is_backward);

  const tensor::algebra& algebra_;
  const range_model& model_;
  const gnn::range_graph& range_;
  std::size_t part_;
  std::size_t parts_;
  range_program_options options_;
  tensor::differentiated_graph all_;
  parallel::rank_programs out_{};
  parallel::rank_program& program_;
  std::vector<value_id> now_;                  // by value: the program's value, once it exists
  std::vector<std::size_t> missing_;           // by node: operands that do not exist yet
  std::vector<std::vector<node_id>> readers_;  // by value
  std::vector<std::size_t> urgency_;           // by node: the first exchange that waits for it; `none`
  std::vector<std::size_t> layer_;             // by node
  std::vector<value_id> cotangents_{};         // by output of the model's graph
  std::vector<exchange> exchanges_{};
  std::vector<std::vector<std::size_t>> sent_in_;  // by value: exchanges
  std::size_t waited_ = 0;                         // exchanges whose rows have arrived
  std::set<std::pair<std::size_t, node_id>> ready_{};
  std::vector<std::size_t> loads_;  // by value: its index in values if it must be loaded; `none`
  std::size_t reduced_ = 0;         // number of weights, from the last one
  std::vector<std::uint32_t> reductions_{};
};

}  // namespace detail

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_RANGE_PROGRAM)

#include <algorithm>
#include <numeric>
#include <utility>

#include <unity/backend/layouts.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>

namespace unity::systems {

UNITY_INLINE parallel::rank_programs range_program(const tensor::algebra& a, const range_model& m,
                                                   const gnn::range_graph& r, std::size_t part, std::size_t parts,
                                                   const range_program_options& o) {
  return detail::range_scheduler{a, m, r, part, parts, o}.schedule();
}

}  // namespace unity::systems

namespace unity::systems::detail {

// The model's weights, then received values that depend on weights, exchange by exchange.
[[nodiscard]] UNITY_INLINE std::vector<value_id> differentiated_values(const range_model& m) {
  auto all = m.weights;
  for (const auto& e : m.exchanges) {
    all.insert(all.end(), e.received.begin(), e.is_trained ? e.received.end() : e.received.begin());
  }
  return all;
}

UNITY_INLINE range_scheduler::range_scheduler(const tensor::algebra& a, const range_model& m, const gnn::range_graph& r,
                                              std::size_t part, std::size_t parts, const range_program_options& o)
    : algebra_{a},
      model_{m},
      range_{r},
      part_{part},
      parts_{parts},
      options_{o},
      all_{tensor::differentiate(a, m.graph, {{}, differentiated_values(m)})},
      program_{[&]() -> parallel::rank_program& {
        out_.ranks.resize(parts);
        return out_.ranks[part];
      }()},
      now_(all_.graph.value_count()),
      missing_(all_.graph.node_count()),
      readers_(all_.graph.value_count()),
      urgency_(all_.graph.node_count(), none),
      layer_(m.layers),
      sent_in_(all_.graph.value_count()),
      loads_(all_.graph.value_count(), none) {}

UNITY_INLINE parallel::rank_programs range_scheduler::schedule() && {
  if (parts_ > 1) {
    out_.groups.emplace_back(parts_);
    std::iota(out_.groups[0].begin(), out_.groups[0].end(), 0U);
  }
  all_.graph = backend::with_turned_operands(algebra_, all_.graph);  // node and value indices stay the same
  find_exchanges();
  find_urgency();
  for (const auto n : node_ids(from())) {
    // A value that a node reads twice counts as two operands.
    missing_[n.index()] = from().operands(n).size();
    for (const auto v : from().operands(n)) {
      readers_[v.index()].push_back(n);
    }
  }
  place_sources();
  run_ready();
  while (wait_for_next()) {
    run_ready();
  }
  for (auto& e : exchanges_) {
    end_sends(e);
  }
  update_weights();
  const auto output = [&](std::uint32_t number, value_id v, parallel::box part) {
    program_.outputs.push_back({number, std::move(part), now_[v.index()], 0});
  };
  output(0, model_.loss, parallel::whole({}));
  auto rows = parallel::whole(from().type(model_.logits).dims);
  rows.begin[0] += range_.range.begin;
  rows.end[0] += range_.range.begin;
  output(1, model_.logits, std::move(rows));
  if (options_.is_forward) {
    out_ = parallel::forward_programs(std::move(out_));
    program_ = parallel::without_unread(program_);
  }
  return std::move(out_);
}

UNITY_INLINE void range_scheduler::find_exchanges() {
  for (auto n = all_.forward_nodes; n < from().node_count(); ++n) {
    if (from().operation(node_id{n}).kind == algebra_.kind("input")) {
      cotangents_.push_back(from().results(node_id{n})[0]);
    }
  }
  UNITY_EXPECTS(cotangents_.size() == model_.graph.outputs().size(), "a cotangent for each output");
  std::size_t output = 1;
  auto source = model_.weights.size();
  std::vector<exchange> back;
  for (const auto& e : model_.exchanges) {
    exchange forward{.layer = e.layer, .is_backward = false, .sent = {}, .received = {}, .sends = {}, .receives = {}};
    exchange backward = forward;
    backward.is_backward = true;
    for (std::size_t i = 0; i < e.sent.size(); ++i) {
      forward.sent.push_back({e.sent[i], range_.sent[i].part});
      if (e.is_trained) {
        backward.received.push_back({cotangents_[output++], range_.sent[i].part});
      }
    }
    for (std::size_t i = 0; i < e.received.size(); ++i) {
      forward.received.push_back({e.received[i], range_.received[i].part});
      if (e.is_trained) {
        backward.sent.push_back({all_.gradients[source++], range_.received[i].part});
      }
    }
    exchanges_.push_back(std::move(forward));
    if (e.is_trained) {
      back.push_back(std::move(backward));
    }
  }
  exchanges_.insert(exchanges_.end(), back.rbegin(), back.rend());
  for (std::size_t i = 0; i < exchanges_.size(); ++i) {
    exchanges_[i].left = exchanges_[i].sent.size();
    for (const auto& m : exchanges_[i].sent) {
      sent_in_[m.value.index()].push_back(i);
    }
  }
}

UNITY_INLINE void range_scheduler::find_urgency() {
  for (std::size_t i = 0; i < exchanges_.size(); ++i) {
    for (const auto& m : exchanges_[i].sent) {
      const auto n = from().producer(m.value).index();
      urgency_[n] = std::min(urgency_[n], i);
    }
  }
  for (auto n = from().node_count(); n-- > 0;) {
    for (const auto v : from().operands(node_id{n})) {
      auto& of = urgency_[from().producer(v).index()];
      of = std::min(of, urgency_[n]);
    }
  }
  for (const auto n : all_.origins) {
    layer_.push_back(n.valid() ? layer_[n.index()] : model_.widths.size() - 1);
  }
}

UNITY_INLINE std::size_t range_scheduler::layer_of(node_id n) const { return layer_[n.index()]; }

UNITY_INLINE std::uint32_t range_scheduler::add(parallel::rank_step s, std::size_t layer, bool is_backward) {
  s.origin = node_id{layer};
  s.is_backward = is_backward;
  program_.steps.push_back(s);
  return static_cast<std::uint32_t>(program_.steps.size() - 1);
}

UNITY_INLINE value_id range_scheduler::outside(value_id v) {
  parallel::region_writer w{algebra_, program_.graph, program_.steps};
  now_[v.index()] = w.outside(from().type(v));
  return now_[v.index()];
}

UNITY_INLINE void range_scheduler::place_sources() {
  for (const auto w : model_.weights) {
    const auto whole = parallel::whole(from().type(w).dims);
    program_.weights.push_back({{w, whole, outside(w), 0}, whole, {}, {}});
  }
  program_.cotangents.push_back({0, parallel::whole({}), outside(cotangents_[0]), 0});
  for (std::size_t i = 0; i < model_.values.size(); ++i) {
    const auto& x = model_.values[i];
    const parallel::given_part part{x.value, parallel::whole(from().type(x.value).dims), {}, 0};
    if (x.is_drawn || options_.loads_all) {
      program_.inputs.push_back(part);
      loads_[x.value.index()] = program_.inputs.size() - 1;
    } else {
      program_.constants.push_back(part);
      program_.constants.back().value = outside(x.value);
    }
  }
  for (const auto n : node_ids(from())) {
    const auto kind = from().operation(n).kind;
    if (from().operands(n).empty() && kind != algebra_.kind("input") && kind != algebra_.kind("weight")) {
      ready_.insert({urgency_[n.index()], n});
    }
  }
  for (const auto v : value_ids(from())) {
    if (now_[v.index()].valid() || loads_[v.index()] != none) {
      made(v);
    }
  }
}

UNITY_INLINE void range_scheduler::made(value_id v) {
  for (const auto n : readers_[v.index()]) {
    if (--missing_[n.index()] == 0) {
      ready_.insert({urgency_[n.index()], n});
    }
  }
  for (const auto i : sent_in_[v.index()]) {
    auto& e = exchanges_[i];
    for (const auto& m : e.sent) {
      if (m.value == v) {
        send(e, m);
      }
    }
    if (e.left == 0) {
      begin_receiving(i);
    }
  }
}

UNITY_INLINE std::uint32_t range_scheduler::tag(const exchange& e, std::size_t sender, std::size_t receiver) const {
  const auto number = static_cast<std::size_t>(&e - exchanges_.data());
  return static_cast<std::uint32_t>((number * parts_ + sender) * parts_ + receiver);
}

UNITY_INLINE void range_scheduler::send(exchange& e, const message& m) {
  parallel::rank_step s{.kind = parallel::step_kind::send};
  s.value = now_[m.value.index()];
  s.peer = static_cast<std::uint32_t>(m.part);
  s.tag = tag(e, part_, m.part);
  e.sends.push_back(add(s, e.layer, e.is_backward));
  --e.left;
}

UNITY_INLINE void range_scheduler::begin_receiving(std::size_t number) {
  auto& e = exchanges_[number];
  if (std::exchange(e.is_begun, true)) {
    return;
  }
  for (const auto& m : e.received) {
    const auto v = outside(m.value);
    parallel::rank_step s{.kind = parallel::step_kind::receive};
    s.node = program_.graph.producer(v);
    s.peer = static_cast<std::uint32_t>(m.part);
    s.tag = tag(e, m.part, part_);
    e.receives.push_back(add(s, e.layer, e.is_backward));
  }
}

UNITY_INLINE void range_scheduler::run_ready() {
  while (!ready_.empty()) {
    const auto n = ready_.begin()->second;
    ready_.erase(ready_.begin());
    run(n);
    reduce_ready();
  }
}

UNITY_INLINE void range_scheduler::run(node_id n) {
  const bool is_backward = n.index() >= all_.forward_nodes;
  for (const auto v : from().operands(n)) {
    if (const auto i = loads_[v.index()]; i != none && !now_[v.index()].valid()) {
      program_.inputs[i].value = outside(v);
      parallel::rank_step s{.kind = parallel::step_kind::load};
      s.node = program_.graph.producer(now_[v.index()]);
      s.peer = static_cast<std::uint32_t>(i);
      add(s, layer_of(n), is_backward);
    }
  }
  std::vector<value_id> operands;
  for (const auto v : from().operands(n)) {
    operands.push_back(now_[v.index()]);
  }
  std::vector<tensor::tensor_type> types;
  for (const auto v : from().results(n)) {
    types.push_back(from().type(v));
    types.back().constant = false;
  }
  parallel::rank_step s;
  s.node = program_.graph.add_node(from().operation(n), operands, types);
  add(s, layer_of(n), is_backward);
  for (std::size_t i = 0; i < types.size(); ++i) {
    now_[from().results(n)[i].index()] = program_.graph.results(s.node)[i];
  }
  for (const auto v : from().results(n)) {
    made(v);
  }
}

UNITY_INLINE bool range_scheduler::wait_for_next() {
  if (waited_ == exchanges_.size()) {
    return false;
  }
  auto& e = exchanges_[waited_++];
  UNITY_EXPECTS(e.left == 0, "sent values that depend only on rows that have arrived");
  begin_receiving(static_cast<std::size_t>(&e - exchanges_.data()));  // for exchanges that send nothing
  for (std::size_t i = 0; i < e.receives.size(); ++i) {
    parallel::rank_step s{.kind = parallel::step_kind::wait};
    s.peer = e.receives[i];
    add(s, e.layer, e.is_backward);
    made(e.received[i].value);
  }
  // The receivers began to receive before they waited for anything later.
  end_sends(e);
  return true;
}

UNITY_INLINE void range_scheduler::end_sends(exchange& e) {
  for (const auto begun : std::exchange(e.sends, {})) {
    parallel::rank_step s{.kind = parallel::step_kind::wait};
    s.peer = begun;
    add(s, e.layer, e.is_backward);
  }
}

// Reduces gradients in the same order on all ranks, from the last layer on.
UNITY_INLINE void range_scheduler::reduce_ready() {
  const auto count = model_.weights.size();
  while (parts_ > 1 && reduced_ < count) {
    const auto w = count - 1 - reduced_;
    const auto gradient = now_[all_.gradients[w].index()];
    if (!gradient.valid()) {
      return;
    }
    parallel::region_writer writer{algebra_, program_.graph, program_.steps};
    parallel::rank_step s{.kind = parallel::step_kind::reduce};
    s.value = gradient;
    s.node = program_.graph.producer(writer.outside(program_.graph.type(gradient)));
    reductions_.push_back(add(s, layer_of(from().producer(all_.gradients[w])), true));
    ++reduced_;
  }
}

UNITY_INLINE void range_scheduler::update_weights() {
  const auto count = model_.weights.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto w = count - 1 - i;
    const auto layer = layer_of(from().producer(model_.weights[w]));
    auto gradient = now_[all_.gradients[w].index()];
    if (parts_ > 1) {
      parallel::rank_step s{.kind = parallel::step_kind::wait};
      s.peer = reductions_[i];
      add(s, layer, true);
      gradient = program_.graph.results(program_.steps[reductions_[i]].node)[0];
    }
    if (options_.decay != 0 && layer == 0) {
      parallel::region_writer writer{algebra_, program_.graph, program_.steps};
      writer.begin(program_.steps, node_id{layer}, true, 0);
      gradient = writer.sum(gradient, writer.scaled(program_.weights[w].weight.value, options_.decay));
    }
    program_.weights[w].gradient = gradient;
    parallel::rank_step s{.kind = parallel::step_kind::update};
    s.peer = static_cast<std::uint32_t>(w);
    add(s, layer, true);
  }
}

}  // namespace unity::systems::detail

#endif
