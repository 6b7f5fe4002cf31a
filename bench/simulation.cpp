// Claims, on plans of operators with random configurations, lowered to a thousand to a hundred thousand tasks:
// - full simulation takes less than 1.2 times as long as a hand-written event loop over flat arrays (counter `ratio`;
//   that loop uses the library's queue; `ratio_std` compares with std::priority_queue);
// - delta simulation is faster than full simulation of the same edits (`full_over_delta` more than 1; both include the
//   edits of the program and their rollbacks), and retimes at least 5 million tasks a second on one core
//   (`retimed_per_s`).
// `changed_share` is the share of tasks whose times an edit changes.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <queue>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>

#include "../test/simulate/random_program.hpp"
#include "support/changed_tasks.hpp"

namespace {

using namespace unity;
using test::random_plan;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

random_plan a_plan(random_engine& random, const benchmark::State& state) {
  test::random_plan_options o;
  o.operators = static_cast<std::size_t>(state.range(0));
  o.devices = static_cast<std::size_t>(state.range(1));
  o.longest = 1000000;
  o.is_symmetric = state.range(2) != 0;
  return {random, o};
}

struct std_queue {
  struct later {
    bool operator()(const simulate::event& a, const simulate::event& b) const { return simulate::earlier(b, a); }
  };
  std::priority_queue<simulate::event, std::vector<simulate::event>, later> heap;
  bool empty() const { return heap.empty(); }
  void push(const simulate::event& e) { heap.push(e); }
  simulate::event pop() {
    const auto e = heap.top();
    heap.pop();
    return e;
  }
};

// The program in flat arrays, as hand-written for this purpose alone.
template <class Queue>
class by_hand {
 public:
  explicit by_hand(const tasks::program& p) {
    std::vector<std::uint32_t> number(p.capacity());
    const auto none = static_cast<std::uint32_t>(p.resources().size());
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        number[t] = static_cast<std::uint32_t>(duration_.size());
        const auto& task = p.timed(t);
        duration_.push_back(task.duration);
        latency_.push_back(task.latency);
        tie_.push_back(p.tie(t));
        resource_.push_back(task.resource.valid() ? task.resource.index() : none);
        before_.push_back(task.before_count);
      }
    }
    first_.push_back(0);
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        for (const auto l : p.after(t)) {
          after_.push_back(number[l.task()] << 1U | (l.cut_through() ? 1U : 0U));
        }
        first_.push_back(static_cast<std::uint32_t>(after_.size()));
      }
    }
    free_.resize(p.resources().size() + 1);
  }
  std::int64_t run() {
    const auto n = duration_.size();
    ready_.assign(n, 0);
    start_.assign(n, 0);
    end_.assign(n, 0);
    left_ = before_;
    std::fill(free_.begin(), free_.end(), 0);
    for (std::uint32_t t = 0; t < n; ++t) {
      if (left_[t] == 0) {
        queue_.push({0, tie_[t], t});
      }
    }
    std::int64_t latest = 0;
    while (!queue_.empty()) {
      const auto t = queue_.pop().task;
      auto& free = free_[resource_[t]];
      const auto start = std::max(ready_[t], free);
      const auto end = std::max(end_[t], start + duration_[t]);
      start_[t] = start;
      end_[t] = end;
      free = resource_[t] + 1 < free_.size() ? end : 0;  // the last entry stands for tasks without a resource
      latest = std::max(latest, end);
      for (auto i = first_[t]; i < first_[t + 1]; ++i) {
        const auto s = after_[i] >> 1U;
        const bool cut = (after_[i] & 1U) != 0;
        ready_[s] = std::max(ready_[s], (cut ? start : end) + latency_[t]);
        if (cut) {
          end_[s] = std::max(end_[s], end + latency_[t]);
        }
        if (--left_[s] == 0) {
          queue_.push({ready_[s], tie_[s], s});
        }
      }
    }
    return latest;
  }

 private:
  std::vector<std::int64_t> duration_, latency_, ready_, start_, end_, free_;
  std::vector<std::uint64_t> tie_;
  std::vector<std::uint32_t> resource_, before_, left_, first_, after_;
  Queue queue_;
};

void full_simulation_is_as_fast_as_a_loop_by_hand(benchmark::State& state) {
  random_engine random{1};
  const auto plan = a_plan(random, state);
  const auto p = plan.lower(random);
  simulate::full_simulation full;
  by_hand<simulate::event_queue> hand{p};
  by_hand<std_queue> plain{p};
  if (full.run(p).count() != hand.run() || full.run(p).count() != plain.run()) {
    fmt::print(stderr, "the loops do not agree\n");
    std::exit(1);
  }
  std::vector<double> ratios;
  std::vector<double> plain_ratios;
  for (auto _ : state) {
    auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(full.run(p));
    const auto of_full = seconds_since(start);
    start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(hand.run());
    const auto of_hand = seconds_since(start);
    start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(plain.run());
    ratios.push_back(of_full / of_hand);
    plain_ratios.push_back(of_full / seconds_since(start));
  }
  state.counters["tasks"] = static_cast<double>(p.task_count());
  state.counters["ratio"] = median(ratios);
  state.counters["ratio_std"] = median(plain_ratios);
  state.counters["target_below"] = 1.2;
}

// The share of tasks whose times the edits change, including new tasks.
double changed_share(simulate::delta_simulation& delta, const std::vector<random_plan::edit>& edits) {
  std::size_t changed = 0;
  std::size_t tasks = 0;
  for (const auto& e : edits) {
    const std::vector before(delta.times().begin(), delta.times().end());
    (void)delta.try_replace(random_plan::replacements(e));
    tasks += delta.program().task_count();
    changed += support::changed_tasks(delta, before);
    delta.rollback();
  }
  return static_cast<double>(changed) / static_cast<double>(tasks);
}

// Counter `seconds`: time of a full simulation.
void a_million_tasks_take_less_than_half_a_second(benchmark::State& state) {
  random_engine random{1};
  test::random_plan_options o;
  o.operators = 200;
  o.devices = 500;
  o.longest = 1000000;
  const random_plan plan{random, o};
  const auto p = plan.lower(random);
  simulate::full_simulation full;
  std::vector<double> seconds;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(full.run(p));
    seconds.push_back(seconds_since(start));
  }
  state.counters["tasks"] = static_cast<double>(p.task_count());
  state.counters["seconds"] = median(seconds);
  state.counters["target_below"] = 0.5;
}

void delta_simulation_is_faster_than_full(benchmark::State& state) {
  random_engine random{1};
  const auto plan = a_plan(random, state);
  const auto lowered = plan.lower(random);
  simulate::delta_simulation delta{lowered};
  auto edited = lowered;
  std::vector<random_plan::edit> edits;
  for (int i = 0; i < 40; ++i) {
    auto next = plan;
    edits.push_back(next.change(random, 1));
  }
  simulate::full_simulation full;
  std::vector<double> rates;
  std::vector<double> gains;
  for (auto _ : state) {
    const auto before = delta.counts();
    const auto start = std::chrono::steady_clock::now();
    for (const auto& e : edits) {
      benchmark::DoNotOptimize(delta.try_replace(random_plan::replacements(e)));
      delta.rollback();
    }
    const auto seconds = seconds_since(start);
    const auto full_start = std::chrono::steady_clock::now();
    for (const auto& e : edits) {
      edited.replace(random_plan::replacements(e));
      benchmark::DoNotOptimize(full.run(edited));
      edited.rollback();
    }
    gains.push_back(seconds_since(full_start) / seconds);
    rates.push_back(static_cast<double>(delta.counts().retimed - before.retimed) / seconds);
  }
  state.counters["tasks"] = static_cast<double>(delta.program().task_count());
  state.counters["retimed_per_s"] = median(rates);
  state.counters["changed_share"] = changed_share(delta, edits);
  state.counters["full_over_delta"] = median(gains);
}

// Arguments: operators, devices, whether all shards of an operator take the same time.
void sizes(benchmark::internal::Benchmark* b) {
  for (const int symmetric : {0, 1}) {
    b->Args({40, 4, symmetric});
    b->Args({100, 16, symmetric});
    b->Args({200, 64, symmetric});
  }
  b->Iterations(9)->Unit(benchmark::kMillisecond);
}
BENCHMARK(full_simulation_is_as_fast_as_a_loop_by_hand)->Apply(sizes);
BENCHMARK(a_million_tasks_take_less_than_half_a_second)->Iterations(9)->Unit(benchmark::kMillisecond);
BENCHMARK(delta_simulation_is_faster_than_full)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
