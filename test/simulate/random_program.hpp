// Random programs like those that plans are lowered to (operators on devices, edges on links, forward and backward
// tasks), and random changes to them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tasks/program.hpp>

namespace unity::test {

struct random_plan_options {
  std::size_t operators = 12;
  std::size_t devices = 4;
  std::int64_t longest = 5;  // picoseconds; a small value makes many ties
  bool is_symmetric = false;  // all shards of an operator take the same time
  bool has_meetings = false;  // some tasks have no duration, and updates wait for one without a resource
};

// The fragments: first operators, then edges, then one per operator for its weights.
class random_plan {
 public:
  struct configuration {
    std::vector<std::uint32_t> devices{};  // of each shard
    std::vector<std::int64_t> durations{};
  };
  struct edge {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };
  using edit = std::vector<std::pair<tasks::fragment_id, tasks::fragment>>;

  random_plan(random_engine& random, const random_plan_options& o) : options_{o} {
    for (std::uint32_t i = 0; i < o.operators; ++i) {
      configurations_.push_back(draw(random));
      for (std::uint32_t k = 0; i > 0 && k < 1 + random.below(2); ++k) {
        const auto nearest = i > 4 ? i - 4 : 0;
        edges_.push_back({static_cast<std::uint32_t>(nearest + random.below(i - nearest)), i});
      }
    }
    for (std::size_t l = 0; l < 2 * o.devices + 1; ++l) {
      latencies_.push_back(random.between(1, 3));
    }
  }

  [[nodiscard]] tasks::program lower(random_engine& random) const {
    tasks::program p;
    for (std::uint32_t d = 0; d < options_.devices; ++d) {
      p.add_resource({"gpu " + std::to_string(d), tasks::resource_kind::stream, d});
    }
    for (std::size_t l = 0; l < latencies_.size(); ++l) {
      p.add_resource({"link " + std::to_string(l), tasks::resource_kind::link, 0});
    }
    edit all;
    for (std::uint32_t i = 0; i < fragments(); ++i) {
      const auto kind = i < configurations_.size()                   ? tasks::owner_kind::node
                        : i < configurations_.size() + edges_.size() ? tasks::owner_kind::edge
                                                                     : tasks::owner_kind::weight;
      const auto f = p.add_fragment({kind, i, "f" + std::to_string(i)});
      all.emplace_back(f, new_fragment(random, i));
    }
    apply(p, all);
    p.commit();
    return p;
  }

  // The fragments to replace, and the plan after that. Four kinds: a new configuration of one operator with its edges;
  // of several operators; new times and devices of the same tasks; one edge.
  edit propose(random_engine& random) {
    switch (random.below(5)) {
      case 0: return change(random, 1 + random.below(3));
      case 1: return retime(random);
      case 2: return reroute(random);
      default: return change(random, 1);
    }
  }
  edit change(random_engine& random, std::size_t count) {
    std::vector<std::uint32_t> changed;
    for (std::size_t k = 0; k < count; ++k) {
      const auto i = static_cast<std::uint32_t>(random.below(configurations_.size()));
      configurations_[i] = draw(random);
      changed.push_back(i);
      changed.push_back(weight_fragment(i));
      for (std::uint32_t e = 0; e < edges_.size(); ++e) {
        if (edges_[e].from == i || edges_[e].to == i) {
          changed.push_back(edge_fragment(e));
        }
      }
    }
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    edit all;
    for (const auto f : changed) {
      all.emplace_back(tasks::fragment_id{f}, new_fragment(random, f));
    }
    return all;
  }
  // Keeps the number of tasks, so that edges need no change.
  edit retime(random_engine& random) {
    const auto i = static_cast<std::uint32_t>(random.below(configurations_.size()));
    auto& c = configurations_[i];
    for (std::size_t s = 0; s < c.devices.size(); ++s) {
      c.devices[s] = static_cast<std::uint32_t>(random.below(options_.devices));
      c.durations[s] = any_time(random);
    }
    return {{tasks::fragment_id{i}, new_fragment(random, i)}};
  }
  edit reroute(random_engine& random) {
    const auto e = edge_fragment(static_cast<std::uint32_t>(random.below(edges_.size())));
    return {{tasks::fragment_id{e}, new_fragment(random, e)}};
  }

  static std::vector<tasks::replacement> replacements(const edit& e) {
    std::vector<tasks::replacement> all;
    for (const auto& [f, fragment] : e) {
      all.push_back({f, &fragment});
    }
    return all;
  }
  static void apply(tasks::program& p, const edit& e) { p.replace(replacements(e)); }

 private:
  [[nodiscard]] std::uint32_t edge_fragment(std::uint32_t e) const {
    return static_cast<std::uint32_t>(configurations_.size()) + e;
  }
  [[nodiscard]] std::uint32_t weight_fragment(std::uint32_t i) const {
    return static_cast<std::uint32_t>(configurations_.size() + edges_.size()) + i;
  }
  [[nodiscard]] std::size_t fragments() const { return 2 * configurations_.size() + edges_.size(); }

  [[nodiscard]] std::int64_t any_time(random_engine& random) const {
    return random.between(options_.has_meetings ? 0 : 1, options_.longest);
  }
  [[nodiscard]] configuration draw(random_engine& random) const {
    configuration c;
    const auto degree = 1 + random.below(options_.devices);
    const auto time = any_time(random);
    const auto first = random.below(options_.devices);
    for (std::size_t s = 0; s < degree; ++s) {
      const auto device = options_.is_symmetric ? (first + s) % options_.devices : random.below(options_.devices);
      c.devices.push_back(static_cast<std::uint32_t>(device));
      c.durations.push_back(options_.is_symmetric ? time : any_time(random));
    }
    return c;
  }

  [[nodiscard]] tasks::fragment new_fragment(random_engine& random, std::uint32_t f) const {
    if (f < configurations_.size()) {
      return new_operator(f);
    }
    return f < configurations_.size() + edges_.size()
               ? new_edge(random, edges_[f - configurations_.size()])
               : new_weight(random, static_cast<std::uint32_t>(f - configurations_.size() - edges_.size()));
  }
  // Forward tasks, then backward ones.
  [[nodiscard]] tasks::fragment new_operator(std::uint32_t i) const {
    tasks::fragment f;
    const auto& c = configurations_[i];
    const auto degree = static_cast<std::uint32_t>(c.devices.size());
    for (std::uint32_t s = 0; s < 2 * degree; ++s) {
      const auto shard = s % degree;
      f.add({tasks::resource_id{c.devices[shard]},
             picoseconds{c.durations[shard] * (s < degree ? 1 : 2)},
             {},
             {},
             s < degree ? tasks::task_kind::forward : tasks::task_kind::backward,
             shard});
      f.buffers.push_back({bytes{100 + 10 * shard}, c.devices[shard], {{}, s}, false});
      if (s >= degree) {
        f.dependencies.push_back({{{}, shard}, {{}, s}, false});
        f.reads.push_back({{{}, shard}, {{}, s}});
      }
    }
    return f;
  }
  [[nodiscard]] static bool overlap(std::size_t a, std::size_t of_a, std::size_t b, std::size_t of_b) {
    return a * of_b < (b + 1) * of_a && b * of_a < (a + 1) * of_b;
  }
  [[nodiscard]] tasks::fragment new_edge(random_engine& random, const edge& e) const {
    tasks::fragment f;
    const auto& from = configurations_[e.from].devices;
    const auto& to = configurations_[e.to].devices;
    for (std::uint32_t a = 0; a < from.size(); ++a) {
      for (std::uint32_t b = 0; b < to.size(); ++b) {
        if (overlap(a, from.size(), b, to.size())) {
          const tasks::task_ref out{tasks::fragment_id{e.from}, a};
          const tasks::task_ref in{tasks::fragment_id{e.to}, b};
          move(random, f, out, from[a], in, to[b], b);
          const tasks::task_ref d_in{tasks::fragment_id{e.to}, b + static_cast<std::uint32_t>(to.size())};
          const tasks::task_ref d_out{tasks::fragment_id{e.from}, a + static_cast<std::uint32_t>(from.size())};
          move(random, f, d_in, to[b], d_out, from[a], a);
        }
      }
    }
    return f;
  }
  // A ring over the shards' devices after the backward tasks, then an update on each device.
  [[nodiscard]] tasks::fragment new_weight(random_engine& random, std::uint32_t i) const {
    tasks::fragment f;
    const auto& devices = configurations_[i].devices;
    const auto degree = static_cast<std::uint32_t>(devices.size());
    for (std::uint32_t s = 0; s < degree; ++s) {
      f.add({tasks::resource_id{devices[s]}, picoseconds{1}, {}, {}, tasks::task_kind::update, s});
    }
    if (options_.has_meetings) {
      f.add({{}, picoseconds{i % 3}, {}, {}, tasks::task_kind::other, 0});
    }
    for (std::uint32_t s = 0; s < degree; ++s) {
      const tasks::task_ref gradient{tasks::fragment_id{i}, degree + s};
      f.dependencies.push_back({gradient, {{}, s}, false});
      if (options_.has_meetings) {
        f.dependencies.push_back({gradient, {{}, degree}, false});
        f.dependencies.push_back({{{}, degree}, {{}, s}, false});
      }
      const auto next = (s + 1) % degree;
      if (next != s) {
        move(random, f, gradient, devices[s], {{}, next}, devices[next], next);
      }
    }
    return f;
  }
  // Each device has one link out and one link in; devices of different parity communicate over a shared bus.
  void move(random_engine& random, tasks::fragment& f, tasks::task_ref out, std::uint32_t from, tasks::task_ref in,
            std::uint32_t to, std::uint32_t shard) const {
    if (from == to) {
      f.dependencies.push_back({out, in, false});
      return;
    }
    const auto devices = static_cast<std::uint32_t>(options_.devices);
    const auto size = options_.is_symmetric ? options_.longest : any_time(random);
    std::vector<tasks::hop> route;
    const auto cross = [&](std::uint32_t link, std::int64_t slowness) {
      route.push_back(
          {tasks::resource_id{devices + link}, picoseconds{size * slowness}, picoseconds{latencies_[link]}});
    };
    cross(from, 1);
    if (from % 2 != to % 2) {
      cross(2 * devices, 2);
    }
    cross(devices + to, 1);
    const auto last = tasks::add_transfer(f, route, bytes{size * 8}, shard, {&out, 1});
    f.dependencies.push_back({last, in, false});
  }

  random_plan_options options_;
  std::vector<configuration> configurations_;
  std::vector<edge> edges_;
  std::vector<std::int64_t> latencies_;
};

}  // namespace unity::test
