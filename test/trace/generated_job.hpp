// Traces of an invented training job: the true times and the error of each clock are known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/trace/events.hpp>

namespace unity::test {

struct generated_job_options {
  std::size_t machines = 8;
  std::size_t layers = 6;
  std::size_t steps = 5;
  picoseconds most_drift{5'000'000'000};  // either way
  picoseconds layer_time{2'000'000'000};
  picoseconds chunk_time{150'000'000};
  double late = 0.3;     // share of receives that begin after the send
  double jitter = 0.05;  // relative, of every time
};

struct generated_job {
  trace::job_trace job{};
  std::vector<picoseconds> drift{};       // how far the clock of each machine is ahead
  std::vector<picoseconds> step_times{};  // true times, of the longest rank
};

// Data parallelism: a forward and a backward operator per layer, and a ring all-reduce of chunks per layer's gradient,
// which begins with the layer's backward operator and overlaps with later ones. A chunk is transferred once it is sent
// and its receiver waits; a channel between two machines carries one chunk at a time.
class job_generator {
 public:
  job_generator(random_engine& random, const generated_job_options& o) : random_{random}, o_{o} {}

  generated_job run() {
    generated_job all;
    for (std::size_t m = 0; m < o_.machines; ++m) {
      all.drift.push_back(m == 0 ? picoseconds{} : between(o_.most_drift));
      auto& r = all.job.ranks.emplace_back();
      r.name = fmt::format("host{}.rank{}", m, m);
      r.machine = fmt::format("host{}", m);
      r.source = "generated";
      r.rank = static_cast<std::int32_t>(m);
      r.world_size = static_cast<std::int32_t>(o_.machines);
      r.lanes = {{"operators", trace::lane_kind::host, 0},
                 {"to", trace::lane_kind::channel, 0},
                 {"from", trace::lane_kind::channel, 0}};
    }
    names_ = &all.job.names;
    for (const auto& r : all.job.ranks) {
      static_cast<void>(names_->intern(r.name));
    }
    clock_.assign(o_.machines, picoseconds{1'000'000'000});
    link_free_.assign(o_.machines, {});
    for (std::size_t s = 0; s < o_.steps; ++s) {
      all.step_times.push_back(step(all.job, static_cast<std::int64_t>(s)));
    }
    for (std::size_t m = 0; m < o_.machines; ++m) {
      auto& r = all.job.ranks[m];
      for (auto& e : r.events) {
        e.start += all.drift[m];
      }
      trace::complete(r);
    }
    trace::check_job(all.job);
    return all;
  }

 private:
  picoseconds between(picoseconds most) { return picoseconds{random_.between(-most.count(), most.count())}; }
  picoseconds about(picoseconds t) {
    const picoseconds most{static_cast<std::int64_t>(o_.jitter * static_cast<double>(t.count()))};
    return t + (most > picoseconds{} ? between(most) : picoseconds{});
  }
  void add(trace::job_trace& job, std::size_t m, trace::event e, const std::string& name, std::int64_t step) {
    e.name = names_->intern(name);
    e.step = step;
    job.ranks[m].events.push_back(e);
  }
  picoseconds compute(trace::job_trace& job, std::size_t m, const std::string& name, std::int64_t step,
                      trace::phase part, picoseconds time) {
    trace::event e;
    e.start = clock_[m];
    e.duration = about(time);
    e.part = part;
    add(job, m, e, name, step);
    return clock_[m] += e.duration;
  }

  picoseconds step(trace::job_trace& job, std::int64_t s) {
    const auto begin = clock_;
    for (std::size_t l = 0; l < o_.layers; ++l) {
      for (std::size_t m = 0; m < o_.machines; ++m) {
        compute(job, m, fmt::format("FW.{}", l), s, trace::phase::forward, o_.layer_time / 2);
      }
    }
    std::vector<picoseconds> done(o_.machines);
    for (std::size_t l = o_.layers; l-- > 0;) {
      std::vector<picoseconds> ready;
      for (std::size_t m = 0; m < o_.machines; ++m) {
        ready.push_back(compute(job, m, fmt::format("BW.{}", l), s, trace::phase::backward, o_.layer_time));
      }
      const auto ended = ring(job, s, l, ready);
      for (std::size_t m = 0; m < o_.machines; ++m) {
        done[m] = std::max(done[m], ended[m]);
      }
    }
    picoseconds longest;
    for (std::size_t m = 0; m < o_.machines; ++m) {
      clock_[m] = std::max(clock_[m], done[m] + picoseconds{10'000'000});
      compute(job, m, "UPDATE.0", s, trace::phase::update, o_.layer_time / 4);
      trace::event window;
      window.kind = trace::event_kind::step;
      window.start = begin[m];
      window.duration = clock_[m] - begin[m];
      add(job, m, window, "step", s);
      longest = std::max(longest, window.duration);
    }
    return longest;
  }

  std::vector<picoseconds> ring(trace::job_trace& job, std::int64_t s, std::size_t layer, std::vector<picoseconds> at) {
    for (std::uint32_t round = 0; round < 2 * (o_.machines - 1); ++round) {
      auto next = at;
      for (std::size_t m = 0; m < o_.machines; ++m) {
        const auto to = (m + 1) % o_.machines;
        const auto sent = std::max(at[m], link_free_[m]);
        const bool is_late = static_cast<double>(random_.below(1000)) < 1000 * o_.late;
        const auto posted =
            is_late ? std::max(sent, at[to]) + about(o_.chunk_time / 2) : std::max(at[to], last_receive_);
        const auto end = std::max(sent, posted) + about(o_.chunk_time);
        link_free_[m] = end;
        message(job, m, to, s, layer, round, sent, posted, end);
        next[to] = end;
      }
      for (std::size_t m = 0; m < o_.machines; ++m) {
        at[m] = std::max(at[m], next[m]);
      }
    }
    return at;
  }
  void message(trace::job_trace& job, std::size_t from, std::size_t to, std::int64_t s, std::size_t layer,
               std::uint32_t round, picoseconds sent, picoseconds posted, picoseconds end) {
    const auto name = fmt::format("gradient {}", layer);
    trace::message m;
    m.tensor = names_->intern(name);
    m.sender = names_->intern(job.ranks[from].name);
    m.receiver = names_->intern(job.ranks[to].name);
    m.way = trace::exchange::chunk;
    m.round = round;
    m.chunk = static_cast<std::uint32_t>((from + o_.machines - round % o_.machines) % o_.machines);
    m.size = bytes{1'000'000};
    trace::event send;
    send.kind = trace::event_kind::send;
    send.part = trace::phase::communication;
    send.start = sent;
    send.duration = end - sent;
    send.lane = 1;
    send.message = static_cast<std::uint32_t>(job.ranks[from].messages.size());
    job.ranks[from].messages.push_back(m);
    add(job, from, send, "SEND", s);
    auto receive = send;
    receive.kind = trace::event_kind::receive;
    receive.start = posted;
    receive.duration = end - posted;
    receive.lane = 2;
    receive.message = static_cast<std::uint32_t>(job.ranks[to].messages.size());
    job.ranks[to].messages.push_back(m);
    add(job, to, receive, "RECV", s);
  }

  random_engine& random_;
  const generated_job_options& o_;
  trace::name_table* names_ = nullptr;
  std::vector<picoseconds> clock_;
  std::vector<picoseconds> link_free_;
  picoseconds last_receive_{};
};

}  // namespace unity::test
