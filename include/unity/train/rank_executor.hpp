// Runs what one rank does in an iteration, and changes its weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/backend/detail/kernel_store.hpp>
#include <unity/backend/detail/memory_pool.hpp>
#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/kept_weights.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/update.hpp>
#include <unity/train/value_lifetimes.hpp>

namespace unity::train {

// A rank's program that is ready to run: kernels prepared, all values in one arena that lifetimes are planned for. What is sent stays
// where it is until it has gone, and what is received has a place from when it may come.
// Running allocates no memory but what communication needs.
// Backend and communicator must outlive it, and reach the same memory. All ranks construct theirs together.
template <backend::fusing_backend Backend, backend::collective_communicator Communicator>
  requires backend::splitting_communicator<Communicator>
class rank_executor {
 public:
  // programs: must outlive it. Throws: unity::error where the backend has no kernel (names node and operator), or memory does not suffice.
  rank_executor(Backend& b, const tensor::algebra& a, const parallel::rank_programs& programs, Communicator& world, const update_rule& rule)
      : backend_{b}, program_{programs.ranks[static_cast<std::size_t>(world.rank())]}, world_{world}, kernels_{a}, weights_{b, a, program_, rule},
        addresses_(program_.graph.value_count(), nullptr), launches_(program_.steps.size()), requests_(program_.steps.size()) {
    for (const auto& g : programs.groups) {
      const bool is_in = std::find(g.begin(), g.end(), static_cast<std::uint32_t>(world.rank())) != g.end();
      groups_.push_back(world.split(is_in ? 0 : -1));
    }
    prepare();
  }

  [[nodiscard]] const parallel::rank_program& program() const noexcept { return program_; }
  // Bytes of the arena, and of weights with what the optimizer keeps.
  [[nodiscard]] bytes arena_size() const noexcept { return bytes{static_cast<std::int64_t>(arena_.size())}; }
  [[nodiscard]] bytes kept_size() const noexcept { return bytes{static_cast<std::int64_t>(weights_.size())}; }

  // A value that comes from outside, or an output or gradient after a run; a part of what the graph has, row-major.
  void write(value_id v, std::span<const std::byte> from) { backend_.write(addresses_[v.index()], from); }
  void read(value_id v, std::span<std::byte> to) const { backend_.read(to, addresses_[v.index()]); }
  [[nodiscard]] std::size_t size_of(value_id v) const { return backend::byte_count(program_.graph.type(v)); }
  // What the optimizer keeps of the weight of that number in the program.
  [[nodiscard]] std::size_t state_count(std::size_t weight) const { return weights_.state_count(weight); }
  void write_state(std::size_t weight, std::size_t state, std::span<const std::byte> from) { weights_.write_state(weight, state, from); }
  void read_state(std::size_t weight, std::size_t state, std::span<std::byte> to) { weights_.read_state(weight, state, to); }

  // One iteration; step: from 0. The next versions of weights are made, but read from commit() on only.
  //   load(i)   writes input i of the program; called when it is needed, by the step that says so
  //   seen(s)   called after step s, when its results can be read
  // Effects: records what it does where there is a timeline; labels are numbers of the plan's nodes.
  // Throws: unity::error where a kernel failed, or another rank is missing.
  template <class Load, class Seen>
  void run(std::uint64_t step, const Load& load, timeline* record, Seen&& seen) {
    weights_.begin(is_started_ ? step - 1 : step);  // without late steps, there are no late updates
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      if (is_started_ || !program_.steps[s].is_late) {
        take(s, load, record);
        seen(s);
      }
    }
    backend_.wait();
    is_started_ = is_delayed_;
  }
  template <class Load>
  void run(std::uint64_t step, const Load& load, timeline* record = nullptr) {
    run(step, load, record, [](std::size_t) {});
  }
  // Of delayed updates: what the last iteration left, committed; step: its number. Otherwise without effect.
  void finish(std::uint64_t step) {
    if (!is_started_) {
      return;
    }
    weights_.begin(step);
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      if (program_.steps[s].is_late) {
        take(s, [](std::size_t) {}, nullptr);
      }
    }
    for (auto& r : requests_) {
      wait(r);
    }
    backend_.wait();
    is_started_ = false;
    commit();
  }
  // Forgets what the last iteration left and made: the next one begins as the first one does.
  void restart() noexcept {
    is_started_ = false;
    weights_.drop();
  }
  // The weights that were made are those of the next iteration.
  void commit() {
    weights_.commit();
    bind_weights();
  }
  // Weights and what the optimizer keeps are again what they were before the last commit. False: there was none since the last call.
  bool revert() {
    const bool is_back = weights_.revert();
    bind_weights();
    return is_back;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct launch {
    std::size_t kernel = none;
    std::size_t workspace = none;
  };

  void prepare() {
    const value_lifetimes lives{program_};
    std::vector<std::size_t> places(program_.graph.value_count(), none);
    for (std::size_t v = 0; v < places.size(); ++v) {
      if (lives[value_id{v}].is_live) {
        places[v] = arena_.add(size_of(value_id{v}), lives[value_id{v}].first);
        arena_.extend(places[v], lives[value_id{v}].last);
      }
    }
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const auto& step = program_.steps[s];
      is_delayed_ = is_delayed_ || step.is_late;
      if (step.kind == parallel::step_kind::run) {
        const auto operands = program_.graph.operands(step.node);
        const auto results = program_.graph.results(step.node);
        const backend::detail::run_item item{step.node, nullptr, {operands.begin(), operands.end()}, {results.begin(), results.end()}};
        launches_[s].kernel = kernels_.prepare(backend_, program_.graph, item, false);
        launches_[s].workspace = arena_.add(kernels_[launches_[s].kernel].workspace(), s);
      }
    }
    arena_.allocate(backend_, "memory for parts of values");
    for (std::size_t v = 0; v < places.size(); ++v) {
      addresses_[v] = places[v] != none ? arena_.at(places[v]) : nullptr;
    }
    late_addresses_ = addresses_;
    bind_weights();
  }
  void bind_weights() {
    for (std::size_t w = 0; w < program_.weights.size(); ++w) {
      const auto v = program_.weights[w].weight.value.index();
      addresses_[v] = weights_.address(w);
      late_addresses_[v] = weights_.address_before(w);
    }
  }

  template <class Load>
  void take(std::size_t s, const Load& load, timeline* record) {
    const auto start = record != nullptr ? timeline::clock::now() : timeline::clock::time_point{};
    const auto& step = program_.steps[s];
    using kinds = parallel::step_kind;
    switch (step.kind) {
      case kinds::load: load(step.peer); break;
      case kinds::run: launch_kernel(s); break;
      case kinds::wait: wait(requests_[step.peer]); break;
      case kinds::update: weights_.update(step.peer, addresses_[program_.weights[step.peer].gradient.index()]); break;
      default: begin(s); break;
    }
    if (record != nullptr) {
      add(*record, step, start);
    }
  }
  void launch_kernel(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto& addresses = step.is_late ? late_addresses_ : addresses_;
    in_.clear();
    out_.clear();
    for (const auto v : program_.graph.operands(step.node)) {
      in_.push_back(addresses[v.index()]);
    }
    for (const auto v : program_.graph.results(step.node)) {
      out_.push_back(addresses[v.index()]);
    }
    backend_.run(kernels_[launches_[s].kernel], in_, out_, arena_.at(launches_[s].workspace));
  }
  void begin(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto& g = program_.graph;
    if (step.kind == parallel::step_kind::receive) {
      const auto v = g.results(step.node)[0];
      requests_[s].emplace(world_.receive(static_cast<int>(step.peer), {addresses_[v.index()], size_of(v)}, tag_of(step)));
      return;
    }
    backend_.wait();
    if (step.kind == parallel::step_kind::send) {
      requests_[s].emplace(world_.send(static_cast<int>(step.peer), {addresses_[step.value.index()], size_of(step.value)}, tag_of(step)));
    } else {
      const auto& t = g.type(step.value);
      requests_[s].emplace(groups_[step.peer]->all_reduce(addresses_[step.value.index()], addresses_[g.results(step.node)[0].index()],
                                                         static_cast<std::size_t>(tensor::element_count(t.dims)), t.element, backend::reduction::sum));
    }
  }
  static void wait(std::optional<typename Communicator::request>& r) {
    if (r) {
      r->wait();
      r.reset();
    }
  }
  // Tags of an iteration; messages of equal ends and tag arrive in order.
  [[nodiscard]] static int tag_of(const parallel::rank_step& s) { return static_cast<int>(s.tag % most_tags); }
  static void add(timeline& record, const parallel::rank_step& s, timeline::clock::time_point start) {
    using kinds = parallel::step_kind;
    if (s.kind == kinds::receive || s.kind == kinds::load) {
      return;
    }
    const bool is_compute = s.kind == kinds::run || s.kind == kinds::update;
    const auto kind = is_compute ? activity::compute : s.kind == kinds::wait ? activity::waiting : activity::communication;
    record.add(kind, static_cast<std::uint32_t>(s.origin.index()), start, timeline::clock::now(), is_compute ? no_peer : static_cast<std::int32_t>(s.peer));
  }

  static constexpr std::uint32_t most_tags = 32'768;  // that any MPI has

  Backend& backend_;
  const parallel::rank_program& program_;
  Communicator& world_;
  backend::detail::kernel_store<Backend> kernels_;
  kept_weights<Backend> weights_;
  backend::detail::memory_pool<Backend> arena_{};
  std::vector<std::byte*> addresses_;         // per value
  std::vector<std::byte*> late_addresses_{};  // with weights as they were before the last commit
  std::vector<launch> launches_;              // per step
  std::vector<std::optional<typename Communicator::request>> requests_;  // per step
  std::vector<std::optional<Communicator>> groups_{};
  bool is_delayed_ = false;
  bool is_started_ = false;  // late steps have something to go on with
  std::vector<const std::byte*> in_{};
  std::vector<std::byte*> out_{};
};

}  // namespace unity::train
