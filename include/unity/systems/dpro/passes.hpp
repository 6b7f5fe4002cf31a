// Passes over a whole job that save memory or use fewer bits, and users' own passes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>

namespace unity::systems {

// A change of a job's graph. `change` returns whether it changed anything. Regular except for `change`.
struct graph_pass {
  std::string name{};
  bool saves_memory = false;
  bool changes_numbers = false;  // of training
  std::function<bool(trace::flow_graph&, const trace::name_table&)> change{};
};

// Whether an operator of this name is a product, a convolution or a recurrent cell: their results are kept by
// recomputation, and fewer bits speed them up.
[[nodiscard]] bool is_product(std::string_view name);

// Recomputation: frees results of forward operators that backward operators need, except those of products and
// convolutions, in the forward pass, and recomputes them before the first backward operator that needs them. If the
// trace records which operator reads which value (traces of our own ranks do), frees a result after its last forward
// reader, and recomputes it after the values that it depends on, which are recomputed first if they were freed; kept
// values stay until then. Otherwise (PyTorch's traces), frees a result after the next operator, and recomputes
// everything between two kept results together, which underestimates memory if results skip operators. Changes nothing
// if the trace has no memory information.
// Source: Chen et al., Training deep nets with sublinear memory cost, 2016; the kept results: Hu et al., dPRO, MLSys
// 2022.
[[nodiscard]] graph_pass recomputation();

// Gradient accumulation: an iteration processes its samples in `batches` parts, one after another; gradients are
// synchronized only after the last. Each part of an operator takes `start` plus its share of the remaining
// time. Precondition: 2 or more.
[[nodiscard]] graph_pass accumulation(std::uint32_t batches, picoseconds start);

// Halves the number of bits: products run `speed` times as fast, other operators except updates twice as fast;
// messages, gradients and values that are not held for the whole iteration have half the bytes.
[[nodiscard]] graph_pass mixed_precision(double speed);

// Passes by name: recomputation, accumulation=N, mixed_precision[=SPEED]. `start`: for accumulation.
// Throws: unity::error if there is no pass of that name.
[[nodiscard]] graph_pass pass_named(std::string_view text, picoseconds start);

// An upper bound on the fixed overhead of an operator: the first percentile of a job's operator times.
[[nodiscard]] picoseconds start_of_operators(const trace::flow_graph& g);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_DPRO_PASSES)

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/systems/dpro/synchronization.hpp>

namespace unity::systems {

UNITY_INLINE bool is_product(std::string_view name) {
  constexpr std::array<std::string_view, 9> words{"conv", "mm",  "linear", "dot",    "attention",
                                                  "lstm", "gru", "einsum", "product"};
  std::string lower{name};
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return lower.find("matmul") != std::string::npos ||
         std::any_of(words.begin(), words.end(), [&](auto w) { return lower.find(w) != std::string::npos; });
}

UNITY_INLINE picoseconds start_of_operators(const trace::flow_graph& g) {
  std::vector<picoseconds> all;
  for (const auto& t : g.tasks) {
    if (trace::is_computation(t.type) && t.duration > picoseconds{}) {
      all.push_back(t.duration);
    }
  }
  if (all.empty()) {
    return {};
  }
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 100);
  std::nth_element(all.begin(), at, all.end());
  return *at;
}

namespace detail {

// By task: the next task on its resource, as recorded; no_index for the last.
inline std::vector<std::uint32_t> next_on_resource(const trace::flow_graph& g) {
  std::vector<std::vector<std::uint32_t>> lanes(g.resources.size());
  for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
    if (g.tasks[t].resource != trace::no_index && trace::is_computation(g.tasks[t].type)) {
      lanes[g.tasks[t].resource].push_back(t);
    }
  }
  std::vector<std::uint32_t> next(g.tasks.size(), trace::no_index);
  for (auto& lane : lanes) {
    unity::stable_sort(lane, [&](auto a, auto b) { return g.tasks[a].recorded_start < g.tasks[b].recorded_start; });
    for (std::size_t k = 1; k < lane.size(); ++k) {
      next[lane[k - 1]] = lane[k];
    }
  }
  return next;
}

// Operators between two kept results of a rank, and their allocations.
struct recomputed_segment {
  std::vector<std::uint32_t> operators{};
  std::vector<std::uint32_t> allocations{};
};

class recomputer {
 public:
  recomputer(trace::flow_graph& g, const trace::name_table& names) : graph_{g}, names_{names} {}

  bool run() { return graph_.reads.empty() ? by_segments() : by_reads(); }

 private:
  [[nodiscard]] bool is_kept(std::uint32_t t) const {
    return is_product(names_.text(graph_.tasks[t].name)) ||
           (graph_.tasks[t].operation.valid() && is_product(names_.text(graph_.tasks[t].operation)));
  }
  [[nodiscard]] bool is_backward(std::uint32_t t) const {
    return trace::is_computation(graph_.tasks[t].type) && graph_.tasks[t].part == trace::phase::backward;
  }

  bool by_segments() {
    const auto next = next_on_resource(graph_);
    std::vector<std::vector<std::uint32_t>> forward(graph_.ranks.size());
    std::vector<std::vector<std::uint32_t>> made(graph_.tasks.size());
    for (std::uint32_t t = 0; t < graph_.tasks.size(); ++t) {
      const auto& task = graph_.tasks[t];
      if (trace::is_computation(task.type) && task.part == trace::phase::forward) {
        forward[task.rank].push_back(t);
      }
    }
    for (std::uint32_t a = 0; a < graph_.allocations.size(); ++a) {
      const auto& m = graph_.allocations[a];
      const bool is_needed_back = m.from != trace::no_index && m.last != trace::no_index &&
                                  graph_.tasks[m.last].part == trace::phase::backward &&
                                  trace::is_computation(graph_.tasks[m.last].type);
      if (is_needed_back && graph_.tasks[m.from].part == trace::phase::forward) {
        made[m.from].push_back(a);
      }
    }
    bool changes = false;
    for (auto& list : forward) {
      unity::stable_sort(
          list, [&](auto a, auto b) { return graph_.tasks[a].recorded_start < graph_.tasks[b].recorded_start; });
      recomputed_segment open;
      for (const auto t : list) {
        if (is_kept(t)) {
          changes = close(open, next) || changes;
          open = {};
        } else {
          open.operators.push_back(t);
          open.allocations.insert(open.allocations.end(), made[t].begin(), made[t].end());
        }
      }
      changes = close(open, next) || changes;
    }
    graph_.edges.insert(graph_.edges.end(), added_.begin(), added_.end());
    return changes;
  }

  // Recomputes each value that backward operators read, one by one.
  bool by_reads() {
    const auto count = graph_.allocations.size();
    read_by_.resize(graph_.tasks.size());
    made_by_.resize(graph_.tasks.size());
    again_.assign(count, trace::no_index);
    last_.assign(count, trace::no_index);
    is_dropped_.assign(count, false);
    std::vector<std::vector<std::uint32_t>> readers(count);
    for (const auto& r : graph_.reads) {
      read_by_[r.task].push_back(r.allocation);
      readers[r.allocation].push_back(r.task);
    }
    bool changes = false;
    for (std::uint32_t a = 0; a < count; ++a) {
      changes = drop(a, readers[a]) || changes;
    }
    std::vector<std::uint32_t> order;
    for (std::uint32_t t = 0; t < read_by_.size(); ++t) {
      if (is_backward(t)) {
        order.push_back(t);
      }
    }
    unity::stable_sort(order, [&](auto a, auto b) { return is_later(b, a); });
    const trace::adjacency neighbours{graph_};
    for (const auto t : order) {
      auto before = trace::no_index;
      for (const auto a : read_by_[t]) {
        if (is_dropped_[a]) {
          make_again(graph_.allocations[a].from, t, before, neighbours);
        }
      }
      if (before != trace::no_index) {
        added_.push_back({before, t});
      }
    }
    graph_.edges.insert(graph_.edges.end(), added_.begin(), added_.end());
    return changes;
  }
  [[nodiscard]] bool is_later(std::uint32_t a, std::uint32_t b) const {
    return graph_.tasks[a].recorded_start > graph_.tasks[b].recorded_start;
  }
  // Frees a result of the forward pass that the backward pass reads after its last forward reader. A value that its own
  // maker reads existed before and is an input.
  bool drop(std::uint32_t a, const std::vector<std::uint32_t>& readers) {
    auto& m = graph_.allocations[a];
    const bool is_result = m.from != trace::no_index && m.last != trace::no_index &&
                           trace::is_computation(graph_.tasks[m.from].type) &&
                           graph_.tasks[m.from].part == trace::phase::forward &&
                           std::find(readers.begin(), readers.end(), m.from) == readers.end();
    if (!is_result || is_kept(m.from) ||
        !std::any_of(readers.begin(), readers.end(), [&](auto t) { return is_backward(t); })) {
      return false;
    }
    is_dropped_[a] = true;
    made_by_[m.from].push_back(a);
    last_[a] = m.last;
    m.last = m.from;
    for (const auto t : readers) {
      m.last = !is_backward(t) && is_later(t, m.last) ? t : m.last;
    }
    return true;
  }
  // Recomputes operator f before task t, after its inputs and after `before`, which becomes the recomputing task. Freed
  // inputs of f are recomputed first; an explicit stack, because chains can be long.
  void make_again(std::uint32_t f, std::uint32_t t, std::uint32_t& before, const trace::adjacency& neighbours) {
    std::vector<std::uint32_t> open{f};
    while (!open.empty()) {
      const auto u = open.back();
      const auto size = open.size();
      for (const auto a : is_made(u) ? std::vector<std::uint32_t>{} : read_by_[u]) {
        if (is_dropped_[a] && !is_made(graph_.allocations[a].from)) {
          open.push_back(graph_.allocations[a].from);
        }
      }
      if (open.size() > size) {
        continue;
      }
      open.pop_back();
      if (!is_made(u)) {
        add_again(u, t, before, neighbours);
      }
    }
  }
  void add_again(std::uint32_t u, std::uint32_t t, std::uint32_t& before, const trace::adjacency& neighbours) {
    auto again = graph_.tasks[u];
    again.key = 0;
    again.part = trace::phase::backward;
    again.resource = graph_.tasks[t].resource;
    again.recorded_start = graph_.tasks[t].recorded_start;
    const auto place = graph_.add(again);
    if (before == trace::no_index) {
      for (const auto b : neighbours.before(t)) {
        added_.push_back({b, place});
      }
    } else {
      added_.push_back({before, place});
    }
    before = place;
    for (const auto a : read_by_[u]) {
      auto& m = graph_.allocations[is_dropped_[a] ? again_[a] : a];
      m.last = m.last != trace::no_index && is_later(place, m.last) ? place : m.last;
    }
    for (const auto a : made_by_[u]) {
      auto later = graph_.allocations[a];
      later.from = place;
      later.last = last_[a];
      again_[a] = static_cast<std::uint32_t>(graph_.allocations.size());
      graph_.allocations.push_back(later);
    }
  }
  [[nodiscard]] bool is_made(std::uint32_t f) const { return again_[made_by_[f].front()] != trace::no_index; }

  bool close(const recomputed_segment& s, const std::vector<std::uint32_t>& next) {
    auto first = trace::no_index;
    for (const auto a : s.allocations) {
      const auto last = graph_.allocations[a].last;
      if (first == trace::no_index || graph_.tasks[last].recorded_start < graph_.tasks[first].recorded_start) {
        first = last;
      }
    }
    if (first == trace::no_index) {
      return false;
    }
    auto again = graph_.tasks[first];
    again.key = 0;
    again.duration = {};
    for (const auto t : s.operators) {
      again.duration += graph_.tasks[t].duration;
    }
    again.name = graph_.tasks[s.operators.front()].name;
    const auto place = graph_.add(again);
    for (const auto& e : graph_.edges) {
      if (e.after == first) {
        added_.push_back({e.before, place});
      }
    }
    added_.push_back({place, first});
    for (const auto a : s.allocations) {
      auto& m = graph_.allocations[a];
      auto later = m;
      later.from = place;
      const auto behind = next[m.from];
      m.last = behind == trace::no_index ? m.from : behind;
      graph_.allocations.push_back(later);
    }
    return true;
  }

  trace::flow_graph& graph_;
  const trace::name_table& names_;
  std::vector<trace::flow_edge> added_;
  std::vector<std::vector<std::uint32_t>> read_by_;  // by task: allocations
  std::vector<std::vector<std::uint32_t>> made_by_;  // by task: allocations that are not kept
  std::vector<std::uint32_t> again_;                 // by allocation: its recomputed copy in the backward pass
  std::vector<std::uint32_t> last_;                  // by allocation: its last task, as recorded
  std::vector<bool> is_dropped_;
};

// Whether every part of a batch runs the operator.
inline bool is_of_batch(const trace::flow_task& t) {
  return trace::is_computation(t.type) && t.part != trace::phase::update && t.part != trace::phase::communication;
}

}  // namespace detail

UNITY_INLINE graph_pass recomputation() {
  return {"recomputation", true, false,
          [](trace::flow_graph& g, const trace::name_table& names) { return detail::recomputer{g, names}.run(); }};
}

namespace detail {

// By rank: the time that its devices work on a whole batch. If the rank runs kernels, from the start of the first
// operator to the end of the last, because kernels of a part of a batch also wait for launches; otherwise the time in
// which any operator runs, because gaps of host threads belong to synchronization.
inline std::vector<picoseconds> batch_times(const trace::flow_graph& g) {
  std::vector<std::vector<std::pair<picoseconds, picoseconds>>> spans(g.ranks.size());
  std::vector<bool> has_stream(g.ranks.size());
  for (const auto& t : g.tasks) {
    if (is_of_batch(t)) {
      spans[t.rank].emplace_back(t.recorded_start, t.recorded_start + t.recorded_duration);
      has_stream[t.rank] = has_stream[t.rank] || t.type == trace::task_type::kernel;
    }
  }
  std::vector<picoseconds> all(g.ranks.size());
  for (std::size_t r = 0; r < spans.size(); ++r) {
    std::sort(spans[r].begin(), spans[r].end());
    auto end = spans[r].empty() ? picoseconds{} : spans[r].front().first;
    for (const auto& [from, to] : spans[r]) {
      all[r] += std::max(picoseconds{}, to - (has_stream[r] ? end : std::max(end, from)));
      end = std::max(end, to);
    }
  }
  return all;
}

}  // namespace detail

// Inserts a delay before the iteration of each rank for the earlier parts: the time of the last part's passes, times
// the number of earlier parts.
UNITY_INLINE graph_pass accumulation(std::uint32_t batches, picoseconds start) {
  UNITY_EXPECTS(batches >= 2, "two parts at least");
  const auto change = [batches, start](trace::flow_graph& g, const trace::name_table&) {
    const auto times = detail::batch_times(g);
    std::vector<double> part(g.ranks.size());
    std::vector<double> whole(g.ranks.size());
    for (auto& t : g.tasks) {
      if (detail::is_of_batch(t)) {
        const auto fixed = std::min(start, t.duration);
        whole[t.rank] += static_cast<double>(t.duration.count());
        t.duration = fixed + (t.duration - fixed) / batches;
        part[t.rank] += static_cast<double>(t.duration.count());
      }
    }
    bool changes = false;
    std::vector<std::uint32_t> leads(g.ranks.size(), trace::no_index);
    for (std::uint32_t r = 0; r < g.ranks.size(); ++r) {
      if (whole[r] <= 0 || g.ranks[r].begin == trace::no_index) {
        continue;
      }
      trace::flow_task lead;
      lead.type = trace::task_type::delay;
      lead.rank = r;
      lead.duration =
          picoseconds{std::llround(static_cast<double>(times[r].count()) * part[r] / whole[r] * (batches - 1))};
      lead.recorded_start = g.tasks[g.ranks[r].begin].recorded_start;
      leads[r] = g.add(lead);
      changes = true;
    }
    for (auto& e : g.edges) {
      const auto r = g.tasks[e.before].rank;
      if (leads[r] != trace::no_index && e.before == g.ranks[r].begin) {
        e.before = leads[r];
      }
    }
    for (std::uint32_t r = 0; r < g.ranks.size(); ++r) {
      if (leads[r] != trace::no_index) {
        g.link(g.ranks[r].begin, leads[r]);
      }
    }
    for (auto& a : g.allocations) {
      const bool is_made_there = a.from != trace::no_index && detail::is_of_batch(g.tasks[a.from]);
      const bool is_used_there = a.last != trace::no_index && detail::is_of_batch(g.tasks[a.last]);
      if (is_made_there && is_used_there) {
        a.size = (a.size + bytes{batches - 1}) / batches;
      } else if (is_made_there && g.tasks[a.from].part == trace::phase::backward) {
        a.from = g.ranks[a.rank].begin;  // gradients exist from the first part on
      }
    }
    return changes;
  };
  return {fmt::format("accumulation={}", batches), true, false, change};
}

UNITY_INLINE graph_pass mixed_precision(double speed) {
  UNITY_EXPECTS(speed > 0, "a factor above 0");
  const auto change = [speed](trace::flow_graph& g, const trace::name_table& names) {
    const transfer_times times{g};
    bool changes = false;
    for (auto& t : g.tasks) {
      if (trace::is_computation(t.type) && t.part != trace::phase::update) {
        const auto is_fast =
            is_product(names.text(t.name)) || (t.operation.valid() && is_product(names.text(t.operation)));
        t.duration = picoseconds{std::llround(static_cast<double>(t.duration.count()) / (is_fast ? speed : 2))};
        changes = true;
      } else if (t.communication != trace::no_index) {
        t.duration = times.fitted(t, g.communications[t.communication], 0.5);
      }
    }
    for (auto& c : g.communications) {
      c.size = (c.size + bytes{1}) / 2;
    }
    for (auto& gradient : g.gradients) {
      gradient.size /= 2;
    }
    for (auto& a : g.allocations) {
      a.size = a.from != trace::no_index && a.last != trace::no_index ? (a.size + bytes{1}) / 2 : a.size;
    }
    return changes;
  };
  return {"mixed_precision", true, true, change};
}

UNITY_INLINE graph_pass pass_named(std::string_view text, picoseconds start) {
  const auto equals = text.find('=');
  const auto name = text.substr(0, equals);
  const auto value = equals == std::string_view::npos ? std::string_view{} : text.substr(equals + 1);
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = !value.empty() && code == std::errc{} && end == value.data() + value.size();
  if (text == "recomputation") {
    return recomputation();
  }
  if (name == "accumulation" && is_number && number >= 2 && number <= 1024 && number == std::floor(number)) {
    return accumulation(static_cast<std::uint32_t>(number), start);
  }
  if (text == "mixed_precision" || (name == "mixed_precision" && is_number && number >= 0.1 && number <= 100)) {
    return mixed_precision(value.empty() ? 4 : number);
  }
  throw error{"pass", fmt::format("'{}'", text),
              "operator_fusion, tensor_fusion, tensor_partition, recomputation, accumulation=N (2 to 1024), "
              "mixed_precision or mixed_precision=SPEED"};
}

}  // namespace unity::systems

#endif
