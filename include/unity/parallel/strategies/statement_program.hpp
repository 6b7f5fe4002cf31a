// Over 500 lines because the passes of an iteration are tasks of the same devices, in one order.
// The program of an iteration of a plan statement.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/statement_shards.hpp>
#include <unity/parallel/strategies/training_kernels.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

// Which devices a program has: all, or the first of each stage. Both programs take equally long: the devices of a stage
// do the same at the same times, because an exchange begins when all its members are ready, and takes the time that
// statement_groups says.
enum class statement_devices : std::uint8_t { all, one_of_each_stage };

struct statement_program {
  tasks::program program{};
  std::vector<hardware::device_id> devices{};  // by their number in the program
};

namespace detail {

class statement_lowering {
 public:
  statement_lowering(const plan_statement& s, const hardware::machine& m, const transformer_work& work,
                     const task_times& times, statement_groups& groups, statement_devices which,
                     const transformer_work* inner);

  [[nodiscard]] statement_program run();

 private:
  using task_list = std::vector<tasks::task_ref>;
  struct gathered_piece {
    task_list ready{};
    tasks::buffer_ref held{};  // of the null fragment: it has no weights
  };
  // A device, and the tasks that its next task waits for.
  struct lane {
    group_place place{};
    tasks::device_index number = 0;
    task_list last{};
    std::array<tasks::resource_id, group_kind_count> links{};             // by kind of group; null: not used yet
    std::deque<gathered_piece> gathered{};                                // in the order in which they are read
    std::map<std::uint32_t, std::vector<tasks::buffer_ref>> gradients{};  // by the piece that completes them
    task_list scattered{};                                                // exchanges of the last gradients
    task_list added{};                                                    // sums of the last shares of gradients
    task_list reduced{};                                                  // exchanges of buckets of gradients
  };
  using lane_list = std::vector<lane*>;
  struct stage_lanes {
    lane_list all{};
    std::vector<lane_list> tensor{};
    std::vector<lane_list> data{};
  };
  // One pass of a chunk of layers on a device, for one micro-batch: its first task, and the tasks that end it.
  struct phase_ends {
    tasks::task_ref first{};
    task_list last{};
    tasks::buffer_ref held{};
  };
  struct phase_key {
    std::int64_t chunk = 0;
    std::int64_t microbatch = 0;
    bool is_backward = false;
  };

  struct chunk {
    std::uint32_t first = 0;  // piece
    std::uint32_t last = 0;   // included
    bool is_found = false;
    std::vector<piece_shards> shards{};   // where gradients are divided
    std::vector<piece_bucket> buckets{};  // where exchanges overlap
    bytes kept{};
    bytes again{};
    bytes handed_on{};
    bool is_handed_on_whole = true;
  };

  void add_devices(statement_devices which);
  void find_chunks();
  [[nodiscard]] pipeline order_of_stages() const;
  [[nodiscard]] stage_lanes lanes_of(std::int64_t stage);
  tasks::task_ref add(lane& l, const tasks::task& t, std::span<const tasks::task_ref> before);
  // Effects: adds an exchange that begins when the last tasks of all lanes have ended. Their next tasks do not wait for
  // it. Returns its tasks, one per lane.
  task_list exchange_beside(std::span<lane* const> lanes, group_kind group, hardware::exchange collective, bytes size);
  // Effects: adds an exchange that the next tasks of all lanes wait for.
  void exchange(std::span<lane* const> lanes, group_kind group, hardware::exchange collective, bytes size);
  void run_steps(const stage_lanes& lanes, std::span<const work_step> steps);
  void run_phase(const stage_lanes& lanes, const phase_key& k);
  // Effects: gathers the weights of the piece at that place of a phase, while others run. FSDP does so one piece ahead.
  void gather(const stage_lanes& lanes, const phase_key& k, std::uint32_t place);
  // Effects: adds the pass through a piece.
  void run_piece(const stage_lanes& lanes, const phase_key& k, std::uint32_t piece);
  // Effects: scatters the gradients that a piece completes, while others run. As in FSDP, the next ones wait for it, so
  // that a device holds at most two.
  void scatter(const stage_lanes& lanes, const chunk& c, std::uint32_t piece);
  // Effects: reduces the bucket of gradients that a piece completes, while others run.
  void reduce_bucket(const stage_lanes& lanes, const chunk& c, std::uint32_t piece);
  // Effects: gathers the new weights of the stage's next bucket, while others run.
  void gather_bucket(const stage_lanes& lanes);
  // Whether a bucket begins with the piece.
  [[nodiscard]] static bool begins_bucket(const chunk& c, std::uint32_t piece);
  // Whether gradients are reduced, or new weights gathered, during the phase.
  [[nodiscard]] bool is_overlapped(const phase_key& k) const {
    return k.is_backward ? statement_.overlaps_sums() && k.microbatch + 1 == statement_.microbatches()
                         : statement_.overlaps_gathers() && k.microbatch == 0;
  }
  // Effects: adds the message that a phase of a device waits for.
  void add_message(lane& to, const phase_key& key);
  void add_messages();
  void synchronize();
  // Effects: adds the update. parts: into how many the optimizer's state is divided.
  void update(lane& l, std::int64_t parts);
  [[nodiscard]] std::vector<lane*> members(group_kind kind, const lane& of);
  [[nodiscard]] std::int64_t chunk_of(std::int64_t piece) const { return numbers_[static_cast<std::size_t>(piece)]; }
  [[nodiscard]] phase_ends& ends(const lane& l, const phase_key& k) {
    const auto number = (k.chunk / statement_.pipeline * statement_.microbatches() + k.microbatch) * 2;
    return phases_[l.number][static_cast<std::size_t>(number + (k.is_backward ? 1 : 0))];
  }
  [[nodiscard]] lane& lane_at(const group_place& p);
  // As received_chunk; null if there is none.
  [[nodiscard]] const chunk* sent_to(const phase_key& k) const;
  [[nodiscard]] bool holds(std::int64_t stage, const held_weight& w) const;
  // The sum of `count` over the weights of a stage.
  template <class F>
  [[nodiscard]] bytes sum_of_weights(std::int64_t stage, const F& count) const {
    bytes sum{};
    for (const auto& w : work_.weights) {
      sum += holds(stage, w) ? bytes{count(w)} : bytes{};
    }
    return sum;
  }
  [[nodiscard]] tasks::resource_id link(lane& l, group_kind group);

  plan_statement statement_;
  const hardware::machine& machine_;
  const transformer_work& work_;
  const transformer_work& inner_;  // of phases that nothing overlaps
  const task_times& times_;
  statement_groups& groups_;
  std::vector<lane> lanes_{};
  std::vector<std::int64_t> numbers_;  // of chunks, by piece
  std::vector<chunk> chunks_{};
  std::vector<std::vector<piece_bucket>> buckets_{};  // by stage, in the order in which they are gathered
  std::vector<std::size_t> asked_for_{};              // by stage: how many of its buckets are gathered so far
  std::vector<std::vector<phase_ends>> phases_{};     // by lane
  std::vector<tasks::fragment> fragments_{};          // by lane
  std::map<hardware::resource_id, tasks::resource_id> links_{};
  statement_program all_{};
};

}  // namespace detail

// Precondition: the work is that of the statement; the groups were made for a statement of the same degrees on the
// machine, and for one with several chunks if this one has several. inner: the same work in fewer tasks
// (in_one_step_each), used for phases that no exchange of gradients or weights overlaps; null: not used.
// Complexity: linear in the devices of the program, their phases and the layers of each.
[[nodiscard]] inline statement_program program_of(const plan_statement& s, const hardware::machine& m,
                                                  const transformer_work& work, const task_times& times,
                                                  statement_groups& groups,
                                                  statement_devices which = statement_devices::one_of_each_stage,
                                                  const transformer_work* inner = nullptr) {
  return detail::statement_lowering{s, m, work, times, groups, which, inner}.run();
}
[[nodiscard]] inline statement_program program_of(const plan_statement& s, const hardware::machine& m,
                                                  const transformer_work& work, const task_times& times,
                                                  statement_devices which = statement_devices::one_of_each_stage) {
  statement_groups groups{s, m};
  return program_of(s, m, work, times, groups, which);
}

// How the time of an iteration is spent, on average over the devices of a program. The parts add up to the iteration.
struct time_breakdown {
  double compute = 0;  // all in seconds
  double recompute = 0;
  double optimizer = 0;
  double communication = 0;  // exchanges of the device, and messages to it, while it computes nothing
  double bubble = 0;         // the rest
};
[[nodiscard]] time_breakdown breakdown_of(const statement_program& p, std::span<const simulate::task_times> times);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_PROGRAM)

#include <algorithm>
#include <tuple>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE statement_lowering::statement_lowering(const plan_statement& s, const hardware::machine& m,
                                                    const transformer_work& work, const task_times& times,
                                                    statement_groups& groups, statement_devices which,
                                                    const transformer_work* inner)
    : statement_{s},
      machine_{m},
      work_{work},
      inner_{inner == nullptr ? work : *inner},
      times_{times},
      groups_{groups},
      numbers_{chunks_of_pieces(s, static_cast<std::int64_t>(work.pieces.size()) - 2)} {
  if (s.phases() > most_phases) {
    throw error{"plan", fmt::format("{} micro-batches through {} chunks of layers", s.microbatches(), s.chunks()),
                fmt::format("{} phases at most", most_phases)};
  }
  add_devices(which);
  find_chunks();
}

UNITY_INLINE void statement_lowering::add_devices(statement_devices which) {
  const bool is_folded = which == statement_devices::one_of_each_stage;
  for (std::int64_t k = 0; k < statement_.pipeline; ++k) {
    for (std::int64_t i = 0; i < (is_folded ? 1 : statement_.data); ++i) {
      for (std::int64_t j = 0; j < (is_folded ? 1 : statement_.tensor); ++j) {
        const auto number = static_cast<tasks::device_index>(lanes_.size());
        lanes_.push_back({{k, i, j}, number, {}, {}, {}, {}, {}, {}, {}});
        all_.devices.push_back(groups_.device({k, i, j}));
        const auto& name = machine_.network[all_.devices.back()].name;
        all_.program.add_resource({name, tasks::resource_kind::stream, number});
        all_.program.add_fragment({tasks::owner_kind::other, number, fmt::format("stage {}", k)});
      }
    }
  }
  fragments_.resize(lanes_.size());
  phases_.assign(lanes_.size(), std::vector<phase_ends>(
                                    static_cast<std::size_t>(2 * statement_.interleave * statement_.microbatches())));
}

UNITY_INLINE void statement_lowering::find_chunks() {
  chunks_.resize(static_cast<std::size_t>(statement_.chunks()));
  for (std::uint32_t i = 0; i < work_.pieces.size(); ++i) {
    const auto& piece = work_.pieces[i];
    auto& c = chunks_[static_cast<std::size_t>(chunk_of(i))];
    c.first = c.is_found ? c.first : i;
    c.last = i;
    c.is_found = true;
    c.kept += piece.kept;
    c.again = std::max(c.again, piece.again);
    c.handed_on = piece.handed_on;
    c.is_handed_on_whole = piece.is_handed_on_whole;
  }
  for (auto& c : chunks_) {
    if (statement_.divides_gradients()) {
      c.shards = shards_of(work_, c.first, c.last);
    }
  }
  buckets_.resize(static_cast<std::size_t>(statement_.pipeline));
  asked_for_.resize(buckets_.size());
  if (statement_.overlaps_sums()) {
    auto all = buckets_of(statement_, work_, numbers_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& of_stage = buckets_[i % buckets_.size()];
      of_stage.insert(of_stage.end(), all[i].begin(), all[i].end());
      chunks_[i].buckets = std::move(all[i]);
    }
  }
}

// The pipeline as if each stage were a single device.
UNITY_INLINE pipeline statement_lowering::order_of_stages() const {
  pipeline p;
  p.microbatches = statement_.microbatches();
  p.chunks = static_cast<std::uint32_t>(statement_.interleave);
  p.schedule = p.chunks > 1 ? pipeline_schedule::interleaved : pipeline_schedule::one_forward_one_backward;
  for (std::int64_t k = 0; k < statement_.pipeline; ++k) {
    p.stages.push_back(static_cast<std::uint32_t>(k));
  }
  return p;
}

UNITY_INLINE statement_program statement_lowering::run() {
  const auto order = order_of_stages();
  for (std::int64_t stage = 0; stage < statement_.pipeline; ++stage) {
    const auto lanes = lanes_of(stage);
    for (const auto& p : phases_of(order, static_cast<std::uint32_t>(stage))) {
      run_phase(lanes, {p.chunk * statement_.pipeline + stage, p.microbatch, p.pass == pipeline_pass::backward});
    }
  }
  add_messages();
  synchronize();
  all_.program.replace(tasks::replacements_of(fragments_));
  all_.program.commit();
  return std::move(all_);
}

UNITY_INLINE statement_lowering::lane& statement_lowering::lane_at(const group_place& p) {
  return *std::find_if(lanes_.begin(), lanes_.end(), [&](const lane& l) { return l.place == p; });
}

UNITY_INLINE statement_lowering::stage_lanes statement_lowering::lanes_of(std::int64_t stage) {
  stage_lanes all;
  for (auto& l : lanes_) {
    if (l.place.stage != stage) {
      continue;
    }
    all.all.push_back(&l);
    if (l.place.tensor == 0) {
      all.tensor.push_back(members(group_kind::tensor, l));
    }
    if (l.place.data == 0) {
      all.data.push_back(members(group_kind::data, l));
    }
  }
  return all;
}

UNITY_INLINE tasks::task_ref statement_lowering::add(lane& l, const tasks::task& t,
                                                     std::span<const tasks::task_ref> before) {
  auto& fragment = fragments_[l.number];
  const tasks::task_ref own{tasks::fragment_id{l.number}, fragment.add(t)};
  for (const auto& b : before) {
    fragment.dependencies.push_back({b, own, false});
  }
  return own;
}

UNITY_INLINE tasks::resource_id statement_lowering::link(lane& l, group_kind group) {
  auto& own = l.links[static_cast<std::size_t>(group)];
  if (!own.valid()) {
    const auto real = groups_.link(group, l.place);
    const auto [at, is_new] = links_.try_emplace(real);
    if (is_new) {
      const auto& name = machine_.network[all_.devices[l.number]].name;
      at->second = all_.program.add_resource(
          {fmt::format("{}: link {}", name, real.index()), tasks::resource_kind::link, l.number});
    }
    own = at->second;
  }
  return own;
}

UNITY_INLINE statement_lowering::task_list statement_lowering::exchange_beside(std::span<lane* const> lanes,
                                                                               group_kind group,
                                                                               hardware::exchange collective,
                                                                               bytes size) {
  const auto takes = groups_.time(group, collective, size);
  task_list before;
  for (const auto* l : lanes) {
    before.insert(before.end(), l->last.begin(), l->last.end());
  }
  std::sort(before.begin(), before.end(), [](const auto& x, const auto& y) {
    return std::tuple{x.fragment, x.index} < std::tuple{y.fragment, y.index};
  });
  before.erase(std::unique(before.begin(), before.end()), before.end());
  task_list own;
  for (auto* l : lanes) {
    own.push_back(add(*l, {link(*l, group), takes, {}, size, tasks::task_kind::transfer, l->number}, before));
  }
  return own;
}

UNITY_INLINE void statement_lowering::exchange(std::span<lane* const> lanes, group_kind group,
                                               hardware::exchange collective, bytes size) {
  const auto own = exchange_beside(lanes, group, collective, size);
  for (auto* l : lanes) {
    l->last = own;
  }
}

UNITY_INLINE void statement_lowering::run_steps(const stage_lanes& lanes, std::span<const work_step> steps) {
  for (const auto& s : steps) {
    if (s.kind == tasks::task_kind::transfer) {
      for (const auto& group : lanes.tensor) {
        exchange(group, group_kind::tensor, s.exchange, s.size);
      }
      continue;
    }
    for (auto* l : lanes.all) {
      l->last = {add(*l, {tasks::resource_id{l->number}, s.time, {}, {}, s.kind, l->number}, l->last)};
    }
  }
}

UNITY_INLINE void statement_lowering::gather(const stage_lanes& lanes, const phase_key& k, std::uint32_t place) {
  const auto& c = chunks_[static_cast<std::size_t>(k.chunk)];
  if (!statement_.divides_weights() || place > c.last - c.first) {
    return;
  }
  const auto size = c.shards[k.is_backward ? c.last - c.first - place : place].gathered;
  for (const auto& group : lanes.data) {
    const auto ready =
        size > bytes{} ? exchange_beside(group, group_kind::data, hardware::exchange::all_gather, size) : task_list{};
    for (std::size_t i = 0; i < group.size(); ++i) {
      auto& l = *group[i];
      l.gathered.push_back({ready, {}});
      if (!ready.empty()) {
        auto& fragment = fragments_[l.number];
        l.gathered.back().held = {tasks::fragment_id{l.number}, static_cast<std::uint32_t>(fragment.buffers.size())};
        fragment.buffers.push_back({size, l.number, ready[i], false});
      }
    }
  }
}

UNITY_INLINE void statement_lowering::run_piece(const stage_lanes& lanes, const phase_key& k, std::uint32_t piece) {
  const auto& c = chunks_[static_cast<std::size_t>(k.chunk)];
  const auto own = [&](const lane& l, std::size_t index) {
    return tasks::task_ref{tasks::fragment_id{l.number}, static_cast<std::uint32_t>(index)};
  };
  for (auto* l : lanes.all) {
    auto& fragment = fragments_[l->number];
    if (k.is_backward && statement_.divides_gradients()) {
      for (const auto& [until, size] : c.shards[piece - c.first].begun) {
        l->gradients[until].push_back(
            {tasks::fragment_id{l->number}, static_cast<std::uint32_t>(fragment.buffers.size())});
        fragment.buffers.push_back({size, l->number, own(*l, fragment.tasks.size()), false});
      }
    }
    if (statement_.divides_weights()) {
      const auto& ready = l->gathered.front().ready;
      l->last.insert(l->last.end(), ready.begin(), ready.end());
    } else if (!k.is_backward && is_overlapped(k) && begins_bucket(c, piece)) {
      const auto& ready = l->gathered.front().ready;
      l->last.insert(l->last.end(), ready.begin(), ready.end());
      l->gathered.pop_front();
    }
  }
  const auto& work = is_overlapped(k) ? work_.pieces[piece] : inner_.pieces[piece];
  run_steps(lanes, k.is_backward ? work.backward : work.forward);
  for (auto* l : lanes.all) {
    if (statement_.divides_weights()) {
      auto& fragment = fragments_[l->number];
      if (const auto held = l->gathered.front().held; held.fragment.valid()) {
        fragment.reads.push_back({held, own(*l, fragment.tasks.size() - 1)});
      }
      l->gathered.pop_front();
    }
  }
}

UNITY_INLINE void statement_lowering::scatter(const stage_lanes& lanes, const chunk& c, std::uint32_t piece) {
  const auto& shards = c.shards[piece - c.first];
  if (shards.scattered == bytes{}) {
    return;
  }
  for (auto* l : lanes.all) {
    l->last.insert(l->last.end(), l->scattered.begin(), l->scattered.end());
  }
  for (const auto& group : lanes.data) {
    const auto scattered =
        exchange_beside(group, group_kind::data, hardware::exchange::reduce_scatter, shards.scattered);
    for (std::size_t i = 0; i < group.size(); ++i) {
      auto& l = *group[i];
      l.scattered = scattered;
      for (const auto& held : l.gradients[piece]) {
        fragments_[l.number].reads.push_back({held, scattered[i]});
      }
      l.gradients.erase(piece);
      auto before = scattered;
      before.insert(before.end(), l.added.begin(), l.added.end());
      l.added = {
          add(l, {tasks::resource_id{l.number}, shards.adding, {}, {}, tasks::task_kind::reduce, l.number}, before)};
    }
  }
}

UNITY_INLINE bool statement_lowering::begins_bucket(const chunk& c, std::uint32_t piece) {
  return std::any_of(c.buckets.begin(), c.buckets.end(), [&](const piece_bucket& b) { return b.first == piece; });
}

UNITY_INLINE void statement_lowering::reduce_bucket(const stage_lanes& lanes, const chunk& c, std::uint32_t piece) {
  const auto collective = statement_.zero > 0 ? hardware::exchange::reduce_scatter : hardware::exchange::all_reduce;
  for (const auto& b : c.buckets) {
    if (b.first != piece || b.gradients == bytes{}) {
      continue;
    }
    for (const auto& group : lanes.data) {
      const auto reduced = exchange_beside(group, group_kind::data, collective, b.gradients);
      for (auto* l : group) {
        l->reduced.insert(l->reduced.end(), reduced.begin(), reduced.end());
      }
    }
  }
}

UNITY_INLINE void statement_lowering::gather_bucket(const stage_lanes& lanes) {
  const auto stage = static_cast<std::size_t>(lanes.all.front()->place.stage);
  if (asked_for_[stage] == buckets_[stage].size()) {
    return;
  }
  const auto size = buckets_[stage][asked_for_[stage]++].weights;
  for (const auto& group : lanes.data) {
    const auto ready =
        size > bytes{} ? exchange_beside(group, group_kind::data, hardware::exchange::all_gather, size) : task_list{};
    for (auto* l : group) {
      l->gathered.push_back({ready, {}});
    }
  }
}

UNITY_INLINE void statement_lowering::run_phase(const stage_lanes& lanes, const phase_key& k) {
  const auto& c = chunks_[static_cast<std::size_t>(k.chunk)];
  const auto next = [&](const lane& l) { return static_cast<std::uint32_t>(fragments_[l.number].tasks.size()); };
  gather(lanes, k, 0);
  gather(lanes, k, 1);
  const bool is_gathered = !k.is_backward && is_overlapped(k);
  if (is_gathered) {
    if (k.chunk < statement_.pipeline) {
      gather_bucket(lanes);
    }
    gather_bucket(lanes);
  }
  std::vector<std::uint32_t> first;
  for (const auto* l : lanes.all) {
    first.push_back(next(*l));
  }
  if (const auto* from = sent_to(k); from != nullptr && from->is_handed_on_whole && statement_.tensor > 1) {
    for (const auto& group : lanes.tensor) {
      exchange(group, group_kind::tensor, hardware::exchange::all_gather, from->handed_on);
    }
  }
  std::vector<std::uint32_t> last(lanes.all.size());
  for (std::uint32_t place = 0; place <= c.last - c.first; ++place) {
    const auto piece = k.is_backward ? c.last - place : c.first + place;
    if (place > 0) {
      gather(lanes, k, place + 1);
      if (is_gathered && begins_bucket(c, piece)) {
        gather_bucket(lanes);
      }
    }
    run_piece(lanes, k, piece);
    for (std::size_t i = 0; i < lanes.all.size(); ++i) {
      last[i] = next(*lanes.all[i]) - 1;
    }
    if (k.is_backward && statement_.divides_gradients()) {
      scatter(lanes, c, piece);
    } else if (k.is_backward && is_overlapped(k)) {
      reduce_bucket(lanes, c, piece);
    }
  }
  for (std::size_t i = 0; i < lanes.all.size(); ++i) {
    auto& l = *lanes.all[i];
    auto& fragment = fragments_[l.number];
    const tasks::fragment_id id{l.number};
    const tasks::task_ref begin{id, first[i]};
    const tasks::task_ref end{id, last[i]};
    const tasks::buffer_ref held{id, static_cast<std::uint32_t>(fragment.buffers.size())};
    fragment.buffers.push_back({k.is_backward ? c.again : c.kept, l.number, begin, false});
    fragment.reads.push_back({held, end});
    ends(l, k) = {begin, l.last, held};
    if (k.is_backward) {
      fragment.reads.push_back({ends(l, {k.chunk, k.microbatch, false}).held, end});
    }
  }
}

UNITY_INLINE const statement_lowering::chunk* statement_lowering::sent_to(const phase_key& k) const {
  const auto from = received_chunk(statement_, k.chunk, k.is_backward);
  return from ? &chunks_[static_cast<std::size_t>(*from)] : nullptr;
}

UNITY_INLINE void statement_lowering::add_messages() {
  for (auto& to : lanes_) {
    for (std::int64_t c = to.place.stage; c < statement_.chunks(); c += statement_.pipeline) {
      for (std::int64_t m = 0; m < statement_.microbatches(); ++m) {
        add_message(to, {c, m, false});
        add_message(to, {c, m, true});
      }
    }
  }
}

UNITY_INLINE void statement_lowering::add_message(lane& to, const phase_key& key) {
  const auto* what = sent_to(key);
  if (what == nullptr) {
    return;
  }
  const phase_key sent{key.chunk + (key.is_backward ? 1 : -1), key.microbatch, key.is_backward};
  auto& from = lane_at({sent.chunk % statement_.pipeline, to.place.data, to.place.tensor});
  const auto group = key.is_backward ? group_kind::backward : group_kind::onward;
  const bytes size{what->handed_on.count() / (what->is_handed_on_whole ? statement_.tensor : 1)};
  const auto takes = groups_.time(group, hardware::exchange::message, size);
  auto& fragment = fragments_[to.number];
  const tasks::task_ref message{
      tasks::fragment_id{to.number},
      fragment.add({link(from, group), takes, {}, size, tasks::task_kind::transfer, to.number})};
  for (const auto& t : ends(from, sent).last) {
    fragment.dependencies.push_back({t, message, false});
  }
  fragment.dependencies.push_back({message, ends(to, key).first, false});
}

UNITY_INLINE std::vector<statement_lowering::lane*> statement_lowering::members(group_kind kind, const lane& of) {
  std::vector<lane*> all;
  for (auto& l : lanes_) {
    const bool is_end = l.place.stage == 0 || l.place.stage + 1 == statement_.pipeline;
    const bool is_any = kind == group_kind::all;
    const bool stage = is_any || (kind == group_kind::ends ? is_end : l.place.stage == of.place.stage);
    const bool data = is_any || kind == group_kind::data || l.place.data == of.place.data;
    const bool tensor = is_any || kind == group_kind::tensor || l.place.tensor == of.place.tensor;
    if (stage && data && tensor) {
      all.push_back(&l);
    }
  }
  return all;
}

UNITY_INLINE bool statement_lowering::holds(std::int64_t stage, const held_weight& w) const {
  return std::any_of(w.pieces.begin(), w.pieces.end(),
                     [&](std::uint32_t piece) { return chunk_of(piece) % statement_.pipeline == stage; });
}

// Sums gradients, then their norm, and updates. Data-parallel groups have summed theirs before if gradients are divided
// (in each micro-batch) or if exchanges overlap (during the last one).
UNITY_INLINE void statement_lowering::synchronize() {
  const auto weight_size = [](const held_weight& w) {
    return w.elements * static_cast<std::int64_t>(tensor::size_of(w.element));
  };
  const auto parts = statement_.divides_gradients() ? statement_.data : 1;
  const auto gradient_size = [&](const held_weight& w) {
    return (w.elements + parts - 1) / parts * gradient_bytes(w.element);
  };
  for (auto& l : lanes_) {
    l.last.insert(l.last.end(), l.added.begin(), l.added.end());
    l.last.insert(l.last.end(), l.reduced.begin(), l.reduced.end());
  }
  const bool is_divided = statement_.zero > 0 && statement_.data > 1;
  const auto over_all = [&](group_kind kind, hardware::exchange collective, const auto& counted, const auto& size_of) {
    for (auto& l : lanes_) {
      const bool is_first = members(kind, l).front() == &l;
      const auto size = sum_of_weights(l.place.stage, [&](const auto& w) { return counted(w) ? size_of(w) : 0; });
      if (is_first && size > bytes{}) {
        exchange(members(kind, l), kind, collective, size);
      }
    }
  };
  const auto any = [](const held_weight&) { return true; };
  if (statement_.tensor > 1) {
    over_all(
        group_kind::tensor, hardware::exchange::all_reduce, [](const auto& w) { return w.adds_up; }, gradient_size);
  }
  if (statement_.data > 1 && !statement_.divides_gradients() && !statement_.overlaps_sums()) {
    over_all(group_kind::data, is_divided ? hardware::exchange::reduce_scatter : hardware::exchange::all_reduce, any,
             gradient_size);
  }
  if (statement_.pipeline > 1) {
    const auto tied = [&](const auto& w) { return holds(0, w) && holds(statement_.pipeline - 1, w); };
    over_all(group_kind::ends, hardware::exchange::all_reduce, tied, gradient_size);
  }
  if (statement_.tensor * statement_.pipeline * statement_.data > 1) {
    const bytes norm{gradient_bytes(tensor::dtype::float32)};  // its square, a number
    exchange(members(group_kind::all, lanes_.front()), group_kind::all, hardware::exchange::all_reduce, norm);
  }
  for (auto& l : lanes_) {
    update(l, is_divided ? statement_.data : 1);
  }
  if (is_divided && !statement_.divides_weights() && !statement_.overlaps_gathers()) {
    over_all(group_kind::data, hardware::exchange::all_gather, any, weight_size);
  }
}

UNITY_INLINE void statement_lowering::update(lane& l, std::int64_t parts) {
  picoseconds takes{};
  std::int64_t held = 0;
  std::map<tensor::dtype, std::int64_t> elements;
  for (const auto& w : work_.weights) {
    if (holds(l.place.stage, w)) {
      elements[w.element] += w.elements;
    }
  }
  for (const auto& [element, count] : elements) {
    const auto own = (count + parts - 1) / parts;
    // As long as a step for the number of float32 weights that moves as many bytes.
    const auto each = step_bytes_of_float32(times_.updates());
    takes += times_.update((step_bytes(own, element, times_.updates()) + each - 1) / each, tensor::dtype::float32,
                           machine_.network[all_.devices[l.number]].model);
    held += (statement_.divides_weights() ? own : count) * static_cast<std::int64_t>(tensor::size_of(element)) +
            (statement_.divides_gradients() ? own : count) * gradient_bytes(element) +
            own * state_bytes(times_.updates(), element);
  }
  l.last = {add(l, {tasks::resource_id{l.number}, takes, {}, {}, tasks::task_kind::update, l.number}, l.last)};
  fragments_[l.number].buffers.push_back({bytes{held}, l.number, {}, true});
}

// How long transfers of a device take while its stream does nothing.
UNITY_INLINE std::int64_t idle_transfers(std::vector<std::pair<std::int64_t, std::int64_t>> computing,
                                         std::vector<std::pair<std::int64_t, std::int64_t>> moving) {
  std::sort(computing.begin(), computing.end());
  std::sort(moving.begin(), moving.end());
  std::int64_t sum = 0;
  std::int64_t seen = 0;  // until when it is known
  std::size_t c = 0;
  for (const auto& [start, end] : moving) {
    const auto from = std::max(start, seen);
    if (from >= end) {
      continue;
    }
    sum += end - from;
    while (c < computing.size() && computing[c].second <= from) {
      ++c;
    }
    for (auto k = c; k < computing.size() && computing[k].first < end; ++k) {
      sum -= std::min(end, computing[k].second) - std::max(from, computing[k].first);
    }
    seen = end;
  }
  return sum;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE time_breakdown breakdown_of(const statement_program& p, std::span<const simulate::task_times> times) {
  using spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
  time_breakdown all;
  std::int64_t end = 0;
  for (std::size_t f = 0; f < p.program.fragment_count(); ++f) {
    spans computing;
    spans moving;
    const tasks::fragment_id id{f};
    const auto& tasks = p.program[id].tasks;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto& t = times[p.program.find(id, i).index()];
      const auto seconds = to_seconds(picoseconds{t.end - t.start});
      end = std::max(end, t.end);
      (tasks[i].kind == tasks::task_kind::transfer ? moving : computing).emplace_back(t.start, t.end);
      switch (tasks[i].kind) {
        case tasks::task_kind::transfer: break;
        case tasks::task_kind::recompute: all.recompute += seconds; break;
        case tasks::task_kind::update: all.optimizer += seconds; break;
        default: all.compute += seconds;
      }
    }
    all.communication += to_seconds(picoseconds{detail::idle_transfers(std::move(computing), std::move(moving))});
  }
  const auto devices = static_cast<double>(p.program.fragment_count());
  for (auto* part : {&all.compute, &all.recompute, &all.optimizer, &all.communication}) {
    *part /= devices;
  }
  all.bubble =
      std::max(0.0, to_seconds(picoseconds{end}) - all.compute - all.recompute - all.optimizer - all.communication);
  return all;
}

}  // namespace unity::parallel

#endif
