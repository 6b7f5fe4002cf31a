// Runs one rank's part of an iteration, and updates its weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/kernel_store.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/rank_region.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/held_state.hpp>
#include <unity/train/outside_arena.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/update.hpp>
#include <unity/train/value_places.hpp>

namespace unity::train {

// A rank's program, ready to run: kernels are prepared, and all values are in one arena planned by lifetimes. Sent
// values stay in place until they are sent; received ones have a place from when they may arrive. Running allocates no
// memory. Backend and communicator must outlive this object, and access the same memory. All ranks construct theirs
// together. If the memory is not the host's (NCCL), messages between two ranks are matched by their order, which is the
// same at both ends, and started messages proceed when the rank waits (test/parallel/ranks/message_order.cpp). Delayed
// updates have messages in transit for which nobody waits, and stale servers messages of several iterations, so they
// need host memory.
template <backend::fusing_backend Backend, backend::collective_communicator Communicator>
  requires backend::splitting_communicator<Communicator>
class rank_executor {
 public:
  // programs: must outlive this object.
  // Throws: unity::error if the backend has no kernel (naming node and operator), or memory does not suffice.
  rank_executor(Backend& b, const tensor::algebra& a, const parallel::rank_programs& programs, Communicator& world,
                const update_rule& rule)
      : backend_{b},
        program_{programs.ranks[static_cast<std::size_t>(world.rank())]},
        world_{world},
        kernels_{a},
        weights_{b, a, program_, rule},
        addresses_(program_.graph.value_count(), nullptr),
        launches_(program_.steps.size()),
        requests_(program_.steps.size()) {
    for (const auto& g : programs.groups) {
      const bool is_in = std::find(g.begin(), g.end(), static_cast<std::uint32_t>(world.rank())) != g.end();
      groups_.push_back(world.split(is_in ? 0 : -1));
    }
    prepare(a);
    if (is_delayed_ && !is_on_host) {
      throw error{"plan", "delayed updates, on ranks whose memory is not the host's", "a pipeline that is flushed"};
    }
    if (most_lag_ > 0 && !is_on_host) {
      throw error{"plan", "stale servers, on ranks whose memory is not the host's", "servers that all wait for"};
    }
  }

  [[nodiscard]] const parallel::rank_program& program() const noexcept { return program_; }
  // The size of the arena: values other than weights and optimizer state, and workspaces of kernels.
  [[nodiscard]] bytes arena_size() const noexcept { return bytes{static_cast<std::int64_t>(arena_.size())}; }
  // The memory of the rank, and the recorded spans, by number, that need each value of the arena. Complexity: linear in
  // steps and values.
  [[nodiscard]] rank_memory memory() const {
    std::vector<bool> recorded;
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      recorded.push_back(is_recorded(s));
    }
    auto all = recorded_memory(arena_.values(), readers_, recorded);
    all.kept = bytes{static_cast<std::int64_t>(weights_.size() + aside_.size())};
    all.arena = arena_size();
    all.loaded = moved().loaded;
    all.stored = moved().stored;
    return all;
  }
  // The bytes that the last iteration copied between host and arena: loaded inputs, fetched and stored values.
  [[nodiscard]] const moved_bytes& moved() const noexcept { return moved_.moved(); }

  // Writes an input, or reads an output or gradient after a run: a part of a tensor of the graph, row-major.
  void write(value_id v, std::span<const std::byte> from) {
    backend_.write(addresses_[v.index()], from);
    moved_.keep(v, from);
  }
  void read(value_id v, std::span<std::byte> to) const { backend_.read(to, addresses_[v.index()]); }
  [[nodiscard]] std::size_t size_of(value_id v) const { return backend::byte_count(program_.graph.type(v)); }
  // The optimizer state of the weight with that number in the program.
  [[nodiscard]] std::size_t state_count(std::size_t weight) const { return weights_.state_count(weight); }
  [[nodiscard]] std::size_t state_size(std::size_t weight) const { return weights_.state_size(weight); }
  void write_state(std::size_t weight, std::size_t state, std::span<const std::byte> from) {
    weights_.write_state(weight, state, from);
  }
  void read_state(std::size_t weight, std::size_t state, std::span<std::byte> to) {
    weights_.read_state(weight, state, to);
  }

  // Runs one iteration; step: from 0. Makes the next versions of weights, which are read only after commit().
  //   load(i)   writes input i of the program; called by the step that needs it
  //   seen(s)   called after step s, when its results can be read
  // Effects: records its activities if there is a timeline; labels are numbers of the plan's nodes.
  // Throws: unity::error if a kernel failed, or another rank is missing.
  template <class Load, class Seen>
  void run(std::uint64_t step, const Load& load, timeline* record, Seen&& seen) {
    const auto start = record != nullptr ? timeline::clock::now() : timeline::clock::time_point{};
    weights_.begin(is_started_ ? step - 1 : step);  // without late steps, there are no late updates
    iteration_ = step;
    moved_.begin(arena_, addresses_);
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      if ((is_started_ || !program_.steps[s].is_late) && program_.steps[s].since <= before_) {
        take(s, load, record);
        seen(s);
      }
    }
    backend_.wait();
    is_started_ = is_delayed_;
    ++before_;
    if (record != nullptr) {
      activity_span whole;
      whole.kind = activity::step;
      whole.step = static_cast<std::uint32_t>(step);
      record->add(whole, start, timeline::clock::now());
    }
  }
  template <class Load>
  void run(std::uint64_t step, const Load& load, timeline* record = nullptr) {
    run(step, load, record, [](std::size_t) {});
  }
  // For delayed updates and stale servers: completes and commits what the last iterations left; step: the number of the
  // last one. Otherwise has no effect. To be called by all ranks together.
  void finish(std::uint64_t step) {
    for (std::uint32_t i = 1; i <= most_lag_ && before_ > 0; ++i, ++before_) {  // iterations of the servers alone
      iteration_ = step + i;
      for (std::size_t s = 0; s < program_.steps.size(); ++s) {
        const auto since = program_.steps[s].since;
        if (since >= i && since <= before_) {
          take(s, [](std::size_t) {}, nullptr);
        }
      }
      backend_.wait();
      commit();
    }
    settle();
    if (is_started_) {
      weights_.begin(step);
      drain();
      commit();
    }
  }
  // Discards what the last iteration left and computed: the next one begins like the first. To be called by all ranks
  // together.
  void restart() {
    if (is_started_) {
      drain();
    }
    settle();
    weights_.drop();
    forget();
  }
  // Makes the new weights the current ones.
  void commit() {
    weights_.commit();
    bind_weights();
  }
  // Restores weights and optimizer state to before the last commit. Returns false if there was no commit since the last
  // call, or an iteration followed it.
  bool revert() {
    const bool is_back = weights_.revert();
    bind_weights();
    forget();  // it may not be finite either
    return is_back;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static constexpr bool is_on_host = backend::host_communicator<Communicator>;

  // A value that lies in a weight, or is one.
  struct part_of_weight {
    value_id value{};
    std::size_t weight = 0;
    std::size_t offset = 0;  // bytes
  };
  struct launch {
    std::size_t kernel = none;
    std::size_t workspace = none;
  };

  void prepare(const tensor::algebra& a) {
    const value_places values{a, program_};
    std::vector<std::size_t> places(program_.graph.value_count(), none);
    for (std::size_t v = 0; v < places.size(); ++v) {
      std::vector<std::size_t> own;
      for (const auto& stay : values[value_id{v}]) {
        own.push_back(arena_.add(size_of(value_id{v}), stay.first));
        arena_.extend(own.back(), stay.last);
        readers_.push_back(stay.readers);
      }
      places[v] = own.empty() ? none : own.front();
      if (own.size() > 1) {
        moved_.add(value_id{v}, size_of(value_id{v}), std::move(own));
      }
    }
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const auto& step = program_.steps[s];
      is_delayed_ = is_delayed_ || step.is_late;
      most_lag_ = std::max(most_lag_, step.since);
      if (step.lag > 0 && step.kind != parallel::step_kind::wait) {
        const auto sends = step.kind == parallel::step_kind::send;
        aside_.add(s, size_of(sends ? step.value : program_.graph.results(step.node)[0]), step.lag);
      }
      if (step.kind == parallel::step_kind::run && values.runs(s)) {
        const auto operands = program_.graph.operands(step.node);
        const auto results = program_.graph.results(step.node);
        const backend::run_item item{
            step.node, nullptr, {operands.begin(), operands.end()}, {results.begin(), results.end()}};
        launches_[s].kernel = kernels_.prepare(backend_, program_.graph, item, false);
        launches_[s].workspace = arena_.add(kernels_[launches_[s].kernel].workspace(), s);
      } else if (step.kind == parallel::step_kind::fused) {
        launches_[s].kernel =
            kernels_.prepare_region(backend_, fusion::region_of(a, program_, program_.kernels[step.peer]));
        launches_[s].workspace = arena_.add(kernels_[launches_[s].kernel].workspace(), s);
      }
    }
    arena_.allocate(backend_, "memory for parts of values");
    aside_.allocate(backend_);
    std::vector weights(places.size(), none);
    next_of_.assign(places.size(), none);
    for (std::size_t w = 0; w < program_.weights.size(); ++w) {
      weights[program_.weights[w].weight.value.index()] = w;
      if (const auto next = program_.weights[w].next; next.valid()) {
        next_of_[next.index()] = w;
      }
    }
    for (std::size_t v = 0; v < places.size(); ++v) {
      const auto root = values.root(value_id{v}).index();
      if (weights[root] != none) {
        in_weights_.push_back({value_id{v}, weights[root], values.offset(value_id{v})});
      } else if (places[root] != none) {
        addresses_[v] = arena_.at(places[root]) + values.offset(value_id{v});
      }
      if (moved_.has(value_id{root})) {
        moved_.add_part(value_id{root}, value_id{v}, values.offset(value_id{v}));
      }
    }
    late_addresses_ = addresses_;
    bind_weights();
    forget();
  }
  // Resets values kept between iterations to their initial state.
  void forget() {
    for (const auto& k : program_.kept) {
      write(k.before, first_kept(program_, k));
    }
  }
  void bind_weights() {
    for (const auto& x : in_weights_) {
      addresses_[x.value.index()] = weights_.address(x.weight) + x.offset;
      late_addresses_[x.value.index()] = weights_.address_before(x.weight) + x.offset;
    }
    for (std::size_t w = 0; w < program_.weights.size(); ++w) {
      if (const auto next = program_.weights[w].next; next.valid()) {
        addresses_[next.index()] = weights_.address_next(w);
      }
    }
  }

  // Runs the steps that the last iteration left: other ranks may still have to receive what this one has sent.
  void drain() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      if (program_.steps[s].is_late) {
        take(s, [](std::size_t) {}, nullptr);
      }
    }
    for (auto& r : requests_) {
      wait_for(r);
    }
    under_way_.clear();
    backend_.wait();
    is_started_ = false;
  }
  template <class Load>
  void take(std::size_t s, const Load& load, timeline* record) {
    const auto& step = program_.steps[s];
    using kinds = parallel::step_kind;
    if (step.kind == kinds::run && launches_[s].kernel == none) {
      return;  // nothing to do
    }
    const auto start = record != nullptr ? timeline::clock::now() : timeline::clock::time_point{};
    switch (step.kind) {
      case kinds::load:
        load(step.peer);
        moved_.count_load(size_of(program_.graph.results(step.node)[0]));
        break;
      case kinds::store: moved_.store(step.value, backend_, addresses_); break;
      case kinds::fetch: moved_.fetch(step.value, backend_, arena_, addresses_); break;
      case kinds::run:
      case kinds::fused: launch_kernel(s); break;
      case kinds::wait:
        if (step.lag > 0) {
          bring(s);
          break;
        }
        submit_messages();
        wait_for(requests_[step.peer]);
        break;
      case kinds::update:
        if (most_lag_ > 0) {
          weights_.begin(iteration_ - step.since);  // of the batch that the gradients belong to
        }
        weights_.update(step.peer, addresses_[program_.weights[step.peer].gradient.index()]);
        break;
      default:
        if (step.lag > 0) {
          put_aside(s);
          break;
        }
        begin(s);
        if constexpr (is_on_host) {
          under_way_.push_back(s);
        }
        break;
    }
    if (record != nullptr) {
      backend_.wait();  // a device may only have started
      add(*record, s, start);
    }
    if (step.kind == kinds::run || step.kind == kinds::fused) {
      advance();
    }
  }
  void launch_kernel(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto& addresses = step.is_late ? late_addresses_ : addresses_;
    const bool is_fused = step.kind == parallel::step_kind::fused;
    in_.clear();
    out_.clear();
    for (const auto v : is_fused ? std::span<const value_id>{program_.kernels[step.peer].inputs}
                                 : program_.graph.operands(step.node)) {
      in_.push_back(addresses[v.index()]);
    }
    for (const auto v : is_fused ? std::span<const value_id>{program_.kernels[step.peer].outputs}
                                 : program_.graph.results(step.node)) {
      out_.push_back(addresses[v.index()]);
    }
    backend_.run(kernels_[launches_[s].kernel], in_, out_, arena_.at(launches_[s].workspace));
  }
  // Starts a message that is awaited in a later iteration, or not at all.
  void put_aside(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto peer = static_cast<int>(step.peer);
    if (step.kind == parallel::step_kind::receive) {
      aside_.begin(s, before_, [&](std::span<std::byte> at) { return world_.receive(peer, at, tag_of(step)); });
      return;
    }
    backend_.wait();
    aside_.begin(s, before_, [&](std::span<std::byte> at) {
      std::copy_n(addresses_[step.value.index()], at.size(), at.data());
      return world_.send(peer, at, tag_of(step));
    });
  }
  // Waits for what arrived `lag` iterations ago.
  void bring(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto v = program_.graph.results(program_.steps[step.peer].node)[0];
    const auto came = aside_.end(step.peer, before_ - step.lag);
    backend_.wait();  // the previous content may still be in use
    std::copy(came.begin(), came.end(), addresses_[v.index()]);
  }
  // Ends everything in transit between iterations; the next iteration is like the first.
  void settle() {
    aside_.settle();
    before_ = 0;
  }
  void begin(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto& g = program_.graph;
    if (!is_collective(step.kind)) {
      last_message_ = s;
    }
    if (step.kind != parallel::step_kind::send) {
      if (const auto of = next_of_[g.results(step.node)[0].index()]; of != none) {
        weights_.expect_next(of);
      }
    }
    if (step.kind == parallel::step_kind::receive) {
      if constexpr (!is_on_host) {
        backend_.wait();  // the previous content may still be in use
      }
      const auto v = g.results(step.node)[0];
      requests_[s].emplace(
          world_.receive(static_cast<int>(step.peer), {addresses_[v.index()], size_of(v)}, tag_of(step)));
      return;
    }
    backend_.wait();
    if (step.kind == parallel::step_kind::send) {
      requests_[s].emplace(world_.send(static_cast<int>(step.peer),
                                       {addresses_[step.value.index()], size_of(step.value)}, tag_of(step)));
    } else {
      begin_together(s);
    }
  }
  void begin_together(std::size_t s) {
    using kinds = parallel::step_kind;
    const auto& step = program_.steps[s];
    auto& group = *groups_[step.peer];
    const auto& t = program_.graph.type(step.value);
    const auto elements = static_cast<std::size_t>(tensor::element_count(t.dims));
    const auto result = program_.graph.results(step.node)[0];
    const auto share = elements / static_cast<std::size_t>(group.size());
    auto* const from = addresses_[step.value.index()];
    auto* const to = addresses_[result.index()];
    if (step.kind == kinds::reduce) {
      requests_[s].emplace(group.all_reduce(from, to, elements, t.element, backend::reduction::sum));
    } else if (step.kind == kinds::scatter) {
      requests_[s].emplace(group.reduce_scatter(from, to, share, t.element, backend::reduction::sum));
    } else if (result != step.value) {
      requests_[s].emplace(group.all_gather(from, to, elements, t.element));
    } else {
      const auto size = share * static_cast<std::size_t>(tensor::size_of(t.element));
      const auto own = static_cast<std::size_t>(group.rank()) * size;
      requests_[s].emplace(group.all_gather(to + own, to, share, t.element));
    }
  }
  // Lets host communication proceed while operators run. Testing one request suffices, because it advances all of them.
  void advance() {
    if constexpr (is_on_host) {
      while (!under_way_.empty() && (!requests_[under_way_.front()] || requests_[under_way_.front()]->done())) {
        under_way_.pop_front();
      }
    }
  }
  // Submits all started messages, if testing one submits them as a group: others may wait for them before they do what
  // this rank waits for.
  void submit_messages() {
    if constexpr (!is_on_host) {
      if (last_message_ != none && requests_[last_message_]) {
        static_cast<void>(requests_[last_message_]->done());
      }
      last_message_ = none;
    }
  }
  // Messages with equal ends and tag arrive in order.
  [[nodiscard]] static int tag_of(const parallel::rank_step& s) {
    return is_on_host ? static_cast<int>(s.tag % most_tags) : 0;
  }
  [[nodiscard]] bool is_recorded(std::size_t s) const {
    using kinds = parallel::step_kind;
    const auto kind = program_.steps[s].kind;
    return kind != kinds::receive && kind != kinds::load && (kind != kinds::run || launches_[s].kernel != none);
  }
  void add(timeline& record, std::size_t s, timeline::clock::time_point start) const {
    if (is_recorded(s)) {
      auto span = activity_of(program_, s);
      span.step = static_cast<std::uint32_t>(program_.steps[s].is_late ? iteration_ - 1 : iteration_);
      record.add(span, start, timeline::clock::now());
    }
  }

  static constexpr std::uint32_t most_tags = 32'768;  // supported by every MPI

  Backend& backend_;
  const parallel::rank_program& program_;
  Communicator& world_;
  backend::kernel_store<Backend> kernels_;
  kept_weights<Backend> weights_;
  backend::memory_pool<Backend> arena_{};
  moved_values<Backend> moved_{};
  std::vector<std::vector<std::uint32_t>> readers_;  // steps, by value of the arena, for the first values
  std::vector<std::byte*> addresses_;                // per value
  std::vector<std::byte*> late_addresses_{};         // with weights as before the last commit
  std::vector<part_of_weight> in_weights_{};
  std::vector<std::size_t> next_of_{};  // per value: the weight whose next version it is
  std::vector<launch> launches_;        // per step
  std::vector<std::optional<typename Communicator::request>> requests_;  // per step
  std::deque<std::size_t> under_way_{};                                  // started steps, some of which may have ended
  std::vector<std::optional<Communicator>> groups_{};
  std::size_t last_message_ = none;  // the step that started it
  messages_aside<Backend, Communicator> aside_{};
  std::uint32_t most_lag_ = 0;  // iterations
  std::uint64_t before_ = 0;    // iterations since the first, or since finish()
  bool is_delayed_ = false;
  std::uint64_t iteration_ = 0;
  bool is_started_ = false;  // late steps have something to continue with
  std::vector<const std::byte*> in_{};
  std::vector<std::byte*> out_{};
};

}  // namespace unity::train
