// Recomputation: forward tasks that run again before the backward tasks that need their results.
#pragma once

#include <cstdint>
#include <span>

#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>

namespace unity::parallel {

class lowering;
struct lowered_fragment;

namespace detail {

// Effects: adds recomputation to the fragments, indexed by number, of operators and edges of a plan that keeps
// everything. A backward task then reads results of a recomputed operator on its device from a new task, which follows
// the others in the fragment. New tasks read the same inputs as in the forward pass, so received values and sums are
// held until then. They start when the device has finished the backward task before the one that needs them, so results
// are not made too early. chunks: by node, as chunks_of gives them. Complexity: linear in the fragments, and n log n in
// the nodes.
void add_recomputation(const lowering& l, const strategy& s, const recomputation& r,
                       std::span<const std::uint32_t> chunks, std::span<lowered_fragment> all);

}  // namespace detail

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_RECOMPUTATION_WRITER)

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <range/v3/view/reverse.hpp>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

class recomputation_writer {
 public:
  recomputation_writer(const lowering& l, const strategy& s, const recomputation& r,
                       std::span<const std::uint32_t> chunks, std::span<lowered_fragment> all)
      : lowering_{l}, strategy_{s}, recomputed_{r}, chunks_{chunks}, all_{all}, operators_(l.graph().node_count()) {}

  void run() &&;

 private:
  // An entry in the list of reads of a fragment.
  struct place {
    tasks::fragment_id fragment{};
    std::uint32_t read = 0;
  };
  struct operator_state {
    std::vector<std::vector<place>> forward{};  // by task
    std::vector<std::vector<place>> backward{};
    std::vector<std::optional<tasks::task_ref>> again{};    // by task
    std::vector<std::uint32_t> buffers{};                   // by recomputed task: the first of its result buffers
  };

  void find_reads();
  [[nodiscard]] tasks::fragment& body_of(tasks::fragment_id f) { return all_[f.index()].body; }
  [[nodiscard]] tasks::buffer_ref read_at(const place& p);
  // The recomputed operator whose result the buffer is, if any.
  [[nodiscard]] std::optional<node_id> recomputed(const tasks::buffer_ref& b) const;
  // Returns the task that recomputes the buffer's contents, and changes `b` to the buffer of that task.
  tasks::task_ref redirect(node_id n, tasks::buffer_ref& b, const tasks::task_ref& behind);
  tasks::task_ref add(node_id n, std::uint32_t task, const tasks::task_ref& behind);

  const lowering& lowering_;
  const strategy& strategy_;
  const recomputation& recomputed_;
  std::span<const std::uint32_t> chunks_;
  std::span<lowered_fragment> all_;
  std::vector<operator_state> operators_;
  std::vector<node_id> node_of_{};  // by fragment
};

UNITY_INLINE void recomputation_writer::run() && {
  find_reads();
  const auto& g = lowering_.graph();
  // The order of the forward pass. An operator that depends only on weights is in chunk 0, wherever it is in the graph.
  std::vector<node_id> order;
  for (const auto n : node_ids(g)) {
    order.push_back(n);
  }
  std::sort(order.begin(), order.end(), [&](node_id a, node_id b) {
    return std::pair{chunks_[a.index()], a} < std::pair{chunks_[b.index()], b};
  });
  // By device: the last task so far, in the order of the passes.
  std::vector<tasks::task_ref> last(lowering_.device_count());
  for (const auto n : order) {
    for (std::uint32_t t = 0; t < operators_[n.index()].forward.size(); ++t) {
      last[strategy_[n.index()].devices[t].index()] = {lowering_.fragment_of(n), t};
    }
  }
  for (const auto n : ranges::views::reverse(order)) {
    const auto i = n.index();
    const auto tasks = static_cast<std::uint32_t>(operators_[i].backward.size());
    for (std::uint32_t t = 0; t < tasks; ++t) {
      const tasks::task_ref own{lowering_.fragment_of(n), tasks + t};
      auto& before = last[strategy_[i].devices[t].index()];
      for (const auto& p : operators_[i].backward[t]) {
        auto buffer = read_at(p);
        if (const auto of = recomputed(buffer)) {
          const auto made = redirect(*of, buffer, before);
          body_of(p.fragment).reads[p.read].of = buffer;
          body_of(lowering_.fragment_of(*of)).dependencies.push_back({made, own, false});
        }
      }
      before = own;
    }
  }
}

UNITY_INLINE void recomputation_writer::find_reads() {
  node_of_.resize(all_.size());
  for (const auto n : node_ids(lowering_.graph())) {
    if (const auto f = lowering_.fragment_of(n); f.valid()) {
      const auto tasks = strategy_[n.index()].task_count();
      node_of_[f.index()] = n;
      operators_[n.index()] = {std::vector<std::vector<place>>(tasks),
                               std::vector<std::vector<place>>(lowering_.training().has_backward(n) ? tasks : 0),
                               std::vector<std::optional<tasks::task_ref>>(tasks), std::vector<std::uint32_t>(tasks)};
    }
  }
  for (std::size_t f = 0; f < all_.size(); ++f) {
    const auto& reads = all_[f].body.reads;
    for (std::uint32_t r = 0; r < reads.size(); ++r) {
      const auto reader = reads[r].reader.fragment.valid() ? reads[r].reader.fragment : tasks::fragment_id{f};
      if (!node_of_[reader.index()].valid()) {
        continue;
      }
      auto& own = operators_[node_of_[reader.index()].index()];
      const auto tasks = own.forward.size();
      const auto task = reads[r].reader.index;
      (task < tasks ? own.forward[task] : own.backward[task - tasks]).push_back({tasks::fragment_id{f}, r});
    }
  }
}

UNITY_INLINE tasks::buffer_ref recomputation_writer::read_at(const place& p) {
  auto b = body_of(p.fragment).reads[p.read].of;
  b.fragment = b.fragment.valid() ? b.fragment : p.fragment;
  return b;
}

UNITY_INLINE std::optional<node_id> recomputation_writer::recomputed(const tasks::buffer_ref& b) const {
  const auto n = node_of_[b.fragment.index()];
  if (!n.valid() || !recomputed_[n.index()]) {
    return std::nullopt;
  }
  const auto results = operators_[n.index()].forward.size() * lowering_.graph().results(n).size();
  return b.index < results ? std::optional{n} : std::nullopt;  // buffers of cotangents follow those of results
}

UNITY_INLINE tasks::task_ref recomputation_writer::redirect(node_id n, tasks::buffer_ref& b,
                                                            const tasks::task_ref& behind) {
  const auto results = static_cast<std::uint32_t>(lowering_.graph().results(n).size());
  const auto task = b.index / results;
  const auto made = add(n, task, behind);
  b.index = operators_[n.index()].buffers[task] + b.index % results;
  return made;
}

UNITY_INLINE tasks::task_ref recomputation_writer::add(node_id n, std::uint32_t task, const tasks::task_ref& behind) {
  auto& own = operators_[n.index()];
  if (own.again[task]) {
    return *own.again[task];
  }
  const auto id = lowering_.fragment_of(n);
  std::vector<tasks::buffer_ref> operands;
  std::vector<tasks::task_ref> before{behind};
  for (const auto& p : own.forward[task]) {
    auto buffer = read_at(p);
    if (const auto of = recomputed(buffer)) {
      before.push_back(redirect(*of, buffer, behind));
    }
    operands.push_back(buffer);
  }
  auto& body = body_of(id);
  auto again = body.tasks[task];
  again.kind = tasks::task_kind::recompute;
  const tasks::task_ref made{id, body.add(again)};
  own.again[task] = made;
  own.buffers[task] = static_cast<std::uint32_t>(body.buffers.size());
  const auto results = static_cast<std::uint32_t>(lowering_.graph().results(n).size());
  for (std::uint32_t r = 0; r < results; ++r) {
    auto buffer = body.buffers[task * results + r];
    buffer.producer = {{}, made.index};
    body.buffers.push_back(buffer);
  }
  for (const auto& b : before) {
    body.dependencies.push_back({b, made, false});
  }
  for (const auto& b : operands) {
    body.reads.push_back({b, made});
  }
  return made;
}

UNITY_INLINE void add_recomputation(const lowering& l, const strategy& s, const recomputation& r,
                                    std::span<const std::uint32_t> chunks, std::span<lowered_fragment> all) {
  recomputation_writer{l, s, r, chunks, all}.run();
}

}  // namespace unity::parallel::detail

#endif
