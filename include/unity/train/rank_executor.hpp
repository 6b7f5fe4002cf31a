// Runs what one rank does in an iteration, and changes its weights.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/backend/detail/kernel_store.hpp>
#include <unity/backend/detail/memory_pool.hpp>
#include <unity/backend/detail/run_list.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

// A rank's program that is ready to run: kernels prepared, all values in one arena that lifetimes are planned for. What is sent stays
// where it is until it has gone, and what is received has a place from when it may come.
// Running allocates no memory but what communication needs. Weights and states of the optimizer have two places each: a step reads one and
// writes the other.
// Backend and communicator must outlive it, and reach the same memory. All ranks construct theirs together.
template <backend::fusing_backend Backend, backend::collective_communicator Communicator>
  requires backend::splitting_communicator<Communicator>
class rank_executor {
 public:
  // Throws: unity::error where the backend has no kernel (names node and operator), or memory does not suffice.
  rank_executor(Backend& b, const tensor::algebra& a, const parallel::rank_programs& programs, Communicator& world, const update_rule& rule)
      : backend_{b}, program_{programs.ranks[static_cast<std::size_t>(world.rank())]}, world_{world}, rule_{rule}, kernels_{a},
        places_(program_.graph.value_count(), none), addresses_(program_.graph.value_count(), nullptr), requests_(program_.steps.size()) {
    for (const auto& g : programs.groups) {
      const bool is_in = std::find(g.begin(), g.end(), static_cast<std::uint32_t>(world.rank())) != g.end();
      groups_.push_back(world.split(is_in ? 0 : -1));
    }
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      prepare(s);
    }
    place_ends();
    arena_.allocate(b, "memory for parts of values");
    place_weights(a);
    kept_.allocate(b, "memory for weights");
    bind();
  }

  [[nodiscard]] const parallel::rank_program& program() const noexcept { return program_; }
  // Bytes of the arena, and of weights with what the optimizer keeps.
  [[nodiscard]] bytes arena_size() const noexcept { return bytes{static_cast<std::int64_t>(arena_.size())}; }
  [[nodiscard]] bytes kept_size() const noexcept { return bytes{static_cast<std::int64_t>(kept_.size())}; }

  // A value that comes from outside, or an output or gradient after a run; a part of what the graph has, row-major.
  void write(value_id v, std::span<const std::byte> from) { backend_.write(addresses_[v.index()], from); }
  void read(value_id v, std::span<std::byte> to) const { backend_.read(to, addresses_[v.index()]); }
  [[nodiscard]] std::size_t size_of(value_id v) const { return backend::byte_count(program_.graph.type(v)); }
  // What the optimizer keeps of the weight of that number in the program.
  void write_state(std::size_t weight, std::size_t state, std::span<const std::byte> from) {
    backend_.write(kept_.at(weights_[weight].states[state][weights_[weight].current]), from);
  }
  void read_state(std::size_t weight, std::size_t state, std::span<std::byte> to) {
    backend_.read(to, kept_.at(weights_[weight].states[state][weights_[weight].current]));
  }

  // One iteration up to its gradients. Effects: records what it does where there is a timeline; labels are numbers of the plan's nodes.
  // Throws: unity::error where a kernel failed, or another rank is missing.
  void run(timeline* record = nullptr) {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const auto start = record != nullptr ? timeline::clock::now() : timeline::clock::time_point{};
      take(s);
      if (record != nullptr) {
        add(*record, program_.steps[s], start);
      }
    }
    backend_.wait();
  }
  // Changes all weights that have a gradient; step: from 0.
  void update(std::uint64_t step) {
    for (const auto& [element, at] : scalar_places_) {
      const auto values = scalars_at(rule_, step);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (element == tensor::dtype::float64) {
          backend_.write(kept_.at(at[i]), std::as_bytes(std::span{&values[i], 1}));
        } else {
          const auto narrow = static_cast<float>(values[i]);
          backend_.write(kept_.at(at[i]), std::as_bytes(std::span{&narrow, 1}));
        }
      }
    }
    for (auto& w : weights_) {
      if (w.kernel == none) {
        continue;
      }
      in_.assign({addresses_[w.value.index()], addresses_[w.gradient.index()]});
      const auto next = 1 - w.current;
      out_.assign({kept_.at(w.places[next])});
      for (const auto& s : w.states) {
        in_.push_back(kept_.at(s[w.current]));
        out_.push_back(kept_.at(s[next]));
      }
      for (const auto place : scalar_places_.at(w.element)) {
        in_.push_back(kept_.at(place));
      }
      backend_.run(chains_[w.kernel], in_, out_, kept_.at(w.workspace));
      w.current = next;
      addresses_[w.value.index()] = kept_.at(w.places[next]);
    }
    backend_.wait();
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  struct launch {
    std::size_t kernel = none;
    std::size_t workspace = none;
  };
  struct kept_weight {
    value_id value{};
    value_id gradient{};
    tensor::dtype element{};
    std::array<std::size_t, 2> places{};
    std::vector<std::array<std::size_t, 2>> states{};
    std::size_t current = 0;
    std::size_t kernel = none;  // none: it does not change
    std::size_t workspace = none;
  };

  [[nodiscard]] std::size_t bytes_of(value_id v) const { return backend::byte_count(program_.graph.type(v)); }
  void make(value_id v, std::size_t step) { places_[v.index()] = arena_.add(bytes_of(v), step); }
  void use(value_id v, std::size_t step) {
    if (places_[v.index()] != none) {  // weights are not in the arena
      arena_.extend(places_[v.index()], step);
    }
  }
  void prepare(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto& g = program_.graph;
    launches_.emplace_back();
    using kinds = parallel::step_kind;
    if (s == 0) {
      for (const auto& x : program_.inputs) {
        make(x.value, 0);
      }
      for (const auto& c : program_.cotangents) {
        make(c.value, 0);
      }
    }
    if (step.kind == kinds::run) {
      const auto operands = g.operands(step.node);
      const auto results = g.results(step.node);
      const backend::detail::run_item item{step.node, nullptr, {operands.begin(), operands.end()}, {results.begin(), results.end()}};
      auto& l = launches_.back();
      l.kernel = kernels_.prepare(backend_, g, item, false);
      for (const auto v : operands) {
        use(v, s);
      }
      for (const auto v : results) {
        make(v, s);
      }
      l.workspace = arena_.add(kernels_[l.kernel].workspace(), s);
    } else if (step.kind == kinds::wait) {
      const auto& begun = program_.steps[step.peer];
      if (begun.kind != kinds::receive) {
        use(begun.value, s);
      }
      if (begun.kind != kinds::send) {
        use(g.results(begun.node)[0], s);
      }
    } else {
      if (step.kind != kinds::receive) {
        use(step.value, s);
      }
      if (step.kind != kinds::send) {
        make(g.results(step.node)[0], s);
      }
    }
  }
  // What is read when all has run; inputs stay from run to run.
  void place_ends() {
    const auto end = program_.steps.size();
    for (const auto& x : program_.inputs) {
      use(x.value, end);
    }
    for (const auto& c : program_.cotangents) {
      use(c.value, end);
    }
    for (const auto& o : program_.outputs) {
      use(o.value, end);
    }
    for (const auto& w : program_.weights) {
      if (w.gradient.valid()) {
        use(w.gradient, end);
      }
    }
  }
  void place_weights(const tensor::algebra& a) {
    std::map<std::pair<std::int64_t, tensor::dtype>, std::size_t> known;
    const auto add = [&](std::size_t size) { return kept_.add(size, 0); };
    for (const auto& w : program_.weights) {
      const auto& t = program_.graph.type(w.weight.value);
      const auto size = bytes_of(w.weight.value);
      kept_weight k{w.weight.value, w.gradient, t.element, {add(size), none}, {}, 0, none, none};
      if (w.gradient.valid()) {
        k.places[1] = add(size);
        for (std::size_t i = 0; i < state_names(rule_.how).size(); ++i) {
          k.states.push_back({add(size), add(size)});
        }
        const auto elements = tensor::element_count(t.dims);
        const auto [at, is_new] = known.try_emplace({elements, t.element}, chains_.size());
        if (is_new) {
          chains_.push_back(backend_.prepare_chain(update_graph(a, rule_.how, elements, t.element)));
        }
        k.kernel = at->second;
        k.workspace = add(chains_[k.kernel].workspace());
        auto& scalars = scalar_places_[t.element];
        while (scalars.size() < scalar_names(rule_.how).size()) {
          scalars.push_back(add(static_cast<std::size_t>(tensor::size_of(t.element))));
        }
      }
      weights_.push_back(std::move(k));
    }
  }
  void bind() {
    for (std::size_t v = 0; v < places_.size(); ++v) {
      addresses_[v] = places_[v] != none ? arena_.at(places_[v]) : nullptr;
    }
    for (const auto& w : weights_) {
      addresses_[w.value.index()] = kept_.at(w.places[0]);
      for (const auto& s : w.states) {
        const std::vector<std::byte> zeros(bytes_of(w.value));
        backend_.write(kept_.at(s[0]), zeros);
      }
    }
  }

  void take(std::size_t s) {
    const auto& step = program_.steps[s];
    const auto& g = program_.graph;
    using kinds = parallel::step_kind;
    switch (step.kind) {
      case kinds::run: {
        in_.clear();
        out_.clear();
        for (const auto v : g.operands(step.node)) {
          in_.push_back(addresses_[v.index()]);
        }
        for (const auto v : g.results(step.node)) {
          out_.push_back(addresses_[v.index()]);
        }
        backend_.run(kernels_[launches_[s].kernel], in_, out_, arena_.at(launches_[s].workspace));
        break;
      }
      case kinds::send:
        backend_.wait();
        requests_[s].emplace(world_.send(static_cast<int>(step.peer), {addresses_[step.value.index()], bytes_of(step.value)}, tag_of(step)));
        break;
      case kinds::receive: {
        const auto v = g.results(step.node)[0];
        requests_[s].emplace(world_.receive(static_cast<int>(step.peer), {addresses_[v.index()], bytes_of(v)}, tag_of(step)));
        break;
      }
      case kinds::reduce: {
        backend_.wait();
        const auto& t = g.type(step.value);
        requests_[s].emplace(groups_[step.peer]->all_reduce(addresses_[step.value.index()], addresses_[g.results(step.node)[0].index()],
                                                           static_cast<std::size_t>(tensor::element_count(t.dims)), t.element, backend::reduction::sum));
        break;
      }
      case kinds::wait:
        if (requests_[step.peer]) {
          requests_[step.peer]->wait();
          requests_[step.peer].reset();
        }
        break;
    }
  }
  // Tags of an iteration; messages of equal ends and tag arrive in order.
  [[nodiscard]] static int tag_of(const parallel::rank_step& s) { return static_cast<int>(s.tag % most_tags); }
  void add(timeline& record, const parallel::rank_step& s, timeline::clock::time_point start) const {
    using kinds = parallel::step_kind;
    if (s.kind == kinds::receive) {
      return;
    }
    const auto kind = s.kind == kinds::run ? activity::compute : s.kind == kinds::wait ? activity::waiting : activity::communication;
    record.add(kind, static_cast<std::uint32_t>(s.origin.index()), start, timeline::clock::now(), s.kind == kinds::run ? no_peer : static_cast<std::int32_t>(s.peer));
  }

  static constexpr std::uint32_t most_tags = 32'768;  // that any MPI has

  Backend& backend_;
  const parallel::rank_program& program_;
  Communicator& world_;
  update_rule rule_;
  backend::detail::kernel_store<Backend> kernels_;
  backend::detail::memory_pool<Backend> arena_{};
  backend::detail::memory_pool<Backend> kept_{};
  std::vector<std::size_t> places_;     // per value, in the arena
  std::vector<std::byte*> addresses_;   // per value
  std::vector<launch> launches_{};      // per step
  std::vector<std::optional<typename Communicator::request>> requests_;  // per step
  std::vector<std::optional<Communicator>> groups_{};
  std::vector<kept_weight> weights_{};
  std::vector<typename Backend::kernel> chains_{};
  std::map<tensor::dtype, std::vector<std::size_t>> scalar_places_{};
  std::vector<const std::byte*> in_{};
  std::vector<std::byte*> out_{};
};

}  // namespace unity::train
