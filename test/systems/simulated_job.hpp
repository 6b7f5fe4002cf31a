// Simulated training jobs: a network of the zoo on workers that all-reduce gradients in a ring or through servers.
// Operator times are those of a roofline, as if each had been measured alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/hardware/device_rates.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/what_if.hpp>

namespace unity::test {

struct simulated_job_options {
  std::string model = "zoo:lenet?batch=32";
  std::uint32_t workers = 16;
  std::uint32_t per_machine = 8;
  std::uint32_t servers = 0;  // 0: ring all-reduce
  std::string device = "v100";
  double latency = 20e6;             // ps per message
  double bytes_per_second = 12.5e9;  // between machines
  double inside = 100e9;             // within a machine
  bytes smallest_tensor{};           // smaller gradients are not sent
};

struct simulated_job {
  trace::flow_graph graph{};
  trace::name_table names{};
  std::map<std::uint32_t, double> streamed{};  // by operator name: ps to move its result through memory
  double start = 0;

  // Each fused operator but the first saves its launch and its operand's round trip through memory, at most its own
  // time.
  [[nodiscard]] trace::fusion_time fused() const {
    return [this](std::span<const trace::fused_part> parts) {
      double time = 0;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const auto own = static_cast<double>(parts[p].duration.count());
        double saved = 0;
        if (p > 0) {
          const auto way = streamed.find(parts[p - 1].name.index());
          saved = start + (way == streamed.end() ? 0 : 2 * way->second);
        }
        time += std::max(own - saved, own / 10);
      }
      return picoseconds{static_cast<std::int64_t>(time)};
    };
  }
};

class job_simulator {
 public:
  explicit job_simulator(simulated_job_options o)
      : o_{std::move(o)},
        algebra_{tensor::standard_algebra()},
        graph_{tensor::zoo::build(algebra_, o_.model)},
        times_{algebra_, *hardware::find_device(o_.device)} {}

  simulated_job run() {
    all_.start = hardware::find_device(o_.device)->launch_seconds * 1e12;
    auto& g = all_.graph;
    for (std::uint32_t r = 0; r < o_.workers + o_.servers; ++r) {
      const bool is_worker = r < o_.workers;
      g.ranks.push_back({is_worker ? fmt::format("worker {}", r) : fmt::format("server {}", r - o_.workers), 0, 0});
      g.resources.push_back({"stream", r, trace::lane_kind::stream});
      g.resources.push_back({"to", r, trace::lane_kind::channel});
      g.resources.push_back({"from", r, trace::lane_kind::channel});
    }
    list_operators();
    for (std::uint32_t r = 0; r < o_.workers + o_.servers; ++r) {
      g.ranks[r].begin = g.add(of(r, trace::task_type::begin, {}, {}, trace::no_index));
    }
    add_operators();
    for (std::uint32_t k = 0; k < gradients_.size(); ++k) {
      o_.servers == 0 ? add_ring(k) : add_servers(k);
    }
    for (std::uint32_t r = 0; r < o_.workers + o_.servers; ++r) {
      g.ranks[r].finish = g.add(of(r, trace::task_type::finish, {}, {}, trace::no_index));
      g.tasks.back().recorded_start = now_ + picoseconds{1'000'000};
      g.link(g.ranks[r].begin, g.ranks[r].finish);
      for (const auto t : last_[r]) {
        g.link(t, g.ranks[r].finish);
      }
    }
    return std::move(all_);
  }

 private:
  struct planned {
    std::string name{};
    picoseconds time{};
    trace::phase part = trace::phase::forward;
    double result = 0;  // ps to move the result through memory
  };
  struct gradient {
    std::string name{};
    bytes size{};
    std::uint32_t producer = 0;          // index in operators_
    std::vector<std::uint32_t> ready{};  // by rank
    std::vector<std::uint32_t> update{};
  };

  trace::flow_task of(std::uint32_t rank, trace::task_type type, std::string_view name, picoseconds time,
                      std::uint32_t resource) {
    trace::flow_task t;
    t.type = type;
    t.name = all_.names.intern(name);
    t.rank = rank;
    t.duration = t.recorded_duration = time;
    t.resource = resource;
    return t;
  }

  void list_operators() {
    std::vector<std::uint32_t> order;
    const auto memory = hardware::find_device(o_.device)->bytes_per_second;
    const auto bytes_of = [&](value_id v) {
      std::int64_t n = 4;
      for (const auto d : graph_.type(v).dims) {
        n *= d;
      }
      return bytes{n};
    };
    std::vector<tensor::tensor_type> in;
    std::vector<tensor::tensor_type> out;
    std::vector<planned> backward;
    std::vector<gradient> of_backward;
    for (const auto n : node_ids(graph_)) {
      if (graph_.operands(n).empty()) {
        continue;
      }
      in.clear();
      out.clear();
      bytes weights;
      for (const auto v : graph_.operands(n)) {
        in.push_back(graph_.type(v));
        weights += graph_.type(v).constant ? bytes_of(v) : bytes{};
      }
      double result = 0;
      for (const auto v : graph_.results(n)) {
        out.push_back(graph_.type(v));
        result += static_cast<double>(bytes_of(v).count()) * 1e12 / memory;
      }
      const auto time = times_.duration_of(0, graph_.operation(n), in, out).expected;
      if (time <= picoseconds{}) {
        continue;
      }
      const auto name = fmt::format("{} {}", algebra_.signature(graph_.operation(n).kind).name, n.index());
      const auto whole = time;
      operators_.push_back({"forward " + name, whole, trace::phase::forward, result});
      if (weights > o_.smallest_tensor) {
        backward.push_back({"weights " + name, whole, trace::phase::backward, 0});
        of_backward.push_back({"gradient " + name, weights, static_cast<std::uint32_t>(backward.size() - 1), {}, {}});
      }
      backward.push_back({"backward " + name, whole, trace::phase::backward, result});
    }
    const auto forward = operators_.size();
    for (auto b = backward.rbegin(); b != backward.rend(); ++b) {
      operators_.push_back(std::move(*b));
    }
    for (auto k = of_backward.rbegin(); k != of_backward.rend(); ++k) {
      k->producer = static_cast<std::uint32_t>(forward + backward.size() - 1 - k->producer);
      gradients_.push_back(std::move(*k));
    }
  }

  void add_operators() {
    auto& g = all_.graph;
    last_.resize(o_.workers + o_.servers);
    for (auto& k : gradients_) {
      k.ready.resize(o_.workers);
      k.update.resize(o_.workers);
    }
    for (std::uint32_t r = 0; r < o_.workers; ++r) {
      auto before = g.ranks[r].begin;
      now_ = {};
      std::size_t next = 0;
      for (std::uint32_t o = 0; o < operators_.size(); ++o) {
        auto t = of(r, trace::task_type::kernel, operators_[o].name, operators_[o].time, 3 * r);
        all_.streamed[static_cast<std::uint32_t>(t.name.index())] = operators_[o].result;
        t.part = operators_[o].part;
        t.recorded_start = now_;
        now_ += t.duration;
        const auto at = g.add(t);
        g.link(before, at);
        before = at;
        while (next < gradients_.size() && gradients_[next].producer == o) {
          gradients_[next++].ready[r] = at;
        }
      }
      last_[r].push_back(before);
      for (std::size_t k = 0; k < gradients_.size(); ++k) {
        const auto time =
            picoseconds{static_cast<std::int64_t>(all_.start + 3e12 * static_cast<double>(gradients_[k].size.count()) /
                                                                   hardware::find_device(o_.device)->bytes_per_second)};
        auto t = of(r, trace::task_type::kernel, "update " + gradients_[k].name, time, 3 * r);
        t.part = trace::phase::update;
        t.recorded_start = now_ + picoseconds{static_cast<std::int64_t>(k) * 1000};
        gradients_[k].update[r] = g.add(t);
        last_[r].push_back(gradients_[k].update[r]);
      }
    }
  }

  struct message_tasks {
    std::uint32_t in = 0;
    std::uint32_t out = 0;
  };
  [[nodiscard]] double bandwidth(std::uint32_t a, std::uint32_t b) const {
    const bool is_inside = a < o_.workers && b < o_.workers && a / o_.per_machine == b / o_.per_machine;
    return is_inside ? o_.inside : o_.bytes_per_second;
  }
  // Adds a message between two ranks; returns the tasks at which it begins at the sender and has arrived at the
  // receiver.
  std::pair<message_tasks, message_tasks> send(std::uint32_t from, std::uint32_t to, std::uint32_t k,
                                               trace::exchange way, bytes size, std::uint32_t round,
                                               std::uint32_t chunk) {
    auto& g = all_.graph;
    const picoseconds time{
        static_cast<std::int64_t>(o_.latency + 1e12 * static_cast<double>(size.count()) / bandwidth(from, to))};
    const auto add = [&](std::uint32_t rank, trace::task_type type, std::uint32_t resource) {
      trace::communication c;
      c.tensor = all_.names.intern(gradients_[k].name);
      c.way = way;
      c.size = size;
      c.sender = from;
      c.receiver = to;
      c.round = round;
      c.chunk = chunk;
      auto t = of(rank, trace::task_type::in, gradients_[k].name, {}, trace::no_index);
      t.part = trace::phase::communication;
      t.communication = static_cast<std::uint32_t>(g.communications.size());
      t.recorded_start = g.tasks[gradients_[k].ready[0]].recorded_start + g.tasks[gradients_[k].ready[0]].duration;
      g.communications.push_back(c);
      const auto in = g.add(t);
      t.type = type;
      t.duration = t.recorded_duration = time;
      t.resource = resource;
      const auto main = g.add(t);
      t.type = trace::task_type::out;
      t.duration = t.recorded_duration = {};
      t.resource = trace::no_index;
      const auto out = g.add(t);
      g.link(in, main);
      g.link(main, out);
      return message_tasks{in, out};
    };
    const auto sent = add(from, trace::task_type::send, 3 * from + 1);
    const auto received = add(to, trace::task_type::receive, 3 * to + 2);
    g.link(sent.in + 1, received.in);  // store and forward: starts once the whole message has arrived
    g.tasks[received.in + 1].duration = g.tasks[received.in + 1].recorded_duration = picoseconds{1'000'000};
    return {sent, received};
  }

  void add_ring(std::uint32_t k) {
    auto& g = all_.graph;
    const auto n = o_.workers;
    const auto size = (gradients_[k].size + bytes{n - 1}) / n;
    std::vector<std::uint32_t> at = gradients_[k].ready;
    for (std::uint32_t round = 0; round + 1 < 2 * n - 1; ++round) {
      std::vector<std::uint32_t> next(n);
      for (std::uint32_t r = 0; r < n; ++r) {
        const auto chunk = (r + 2 * n - round % n) % n;
        const auto [sent, received] = send(r, (r + 1) % n, k, trace::exchange::chunk, size, round, chunk);
        g.link(at[r], sent.in);
        next[(r + 1) % n] = received.out;
      }
      at = next;
    }
    for (std::uint32_t r = 0; r < n; ++r) {
      g.link(at[r], gradients_[k].update[r]);
    }
  }

  // Tensors are assigned to servers in turn. A server receives its messages one after another.
  void add_servers(std::uint32_t k) {
    auto& g = all_.graph;
    const auto server = o_.workers + k % o_.servers;
    std::vector<std::uint32_t> pushed;
    for (std::uint32_t r = 0; r < o_.workers; ++r) {
      const auto [sent, received] = send(r, server, k, trace::exchange::push, gradients_[k].size, 0, 0);
      g.link(gradients_[k].ready[r], sent.in);
      g.tasks[received.in + 1].duration = g.tasks[sent.in + 1].duration / 4;  // a server has four links
      pushed.push_back(received.out);
    }
    for (std::uint32_t r = 0; r < o_.workers; ++r) {
      const auto [sent, received] = send(server, r, k, trace::exchange::pull, gradients_[k].size, 0, 0);
      g.tasks[sent.in + 1].duration /= 4;
      for (const auto p : pushed) {
        g.link(p, sent.in);
      }
      g.link(received.out, gradients_[k].update[r]);
    }
  }

  simulated_job_options o_;
  tensor::algebra algebra_;
  tensor::tensor_graph graph_;
  tensor::roofline_durations times_;
  simulated_job all_;
  std::vector<planned> operators_;
  std::vector<gradient> gradients_;
  std::vector<std::vector<std::uint32_t>> last_;
  picoseconds now_{};
};

}  // namespace unity::test
