// The program of an iteration in micro-batches from that of one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>

namespace unity::parallel {

// What a stage of a pipeline works on, one after the other: the forward or the backward pass of a micro-batch.
struct pipeline_phase {
  std::int64_t microbatch = 0;
  bool is_backward = false;

  friend bool operator==(const pipeline_phase&, const pipeline_phase&) = default;
};

// One forward, one backward: as many forward passes as there are stages from this one on, then each further one after a
// backward pass, so that a stage keeps the activations of no more micro-batches than that.
// Source: Narayanan et al., PipeDream: generalized pipeline parallelism for DNN training, SOSP 2019; flushed at the end
// of each iteration as by Fan et al., DAPPLE, PPoPP 2021, so that weights are of one version.
[[nodiscard]] std::vector<pipeline_phase> phases_of(std::uint32_t stage, std::uint32_t stages,
                                                    std::int64_t microbatches);

namespace detail {

class pipeline_repeater {
 public:
  pipeline_repeater(const program::program& one, const pipeline& p) : one_{one}, pipeline_{p} {}

  [[nodiscard]] program::program run();

 private:
  // Weights are reduced and updated once, after the last micro-batch.
  [[nodiscard]] bool is_repeated(program::fragment_id f) const {
    const auto kind = one_.owner_of(f).kind;
    return kind != program::owner_kind::weight && kind != program::owner_kind::bucket;
  }
  [[nodiscard]] std::uint32_t first_of(program::fragment_id f, std::int64_t microbatch, std::size_t count) const {
    return is_repeated(f) ? static_cast<std::uint32_t>(static_cast<std::size_t>(microbatch) * count) : 0;
  }
  [[nodiscard]] program::task_ref moved(program::task_ref r, program::fragment_id own, std::int64_t microbatch) const;
  [[nodiscard]] program::buffer_ref moved(program::buffer_ref r, program::fragment_id own,
                                          std::int64_t microbatch) const;
  void add(program::fragment_id f, std::int64_t microbatch, program::fragment& code) const;

  // Per device, a task behind each phase: all of the phase are before it, all of the next behind it.
  [[nodiscard]] program::fragment order() const;

  const program::program& one_;
  const pipeline& pipeline_;
  program::program all_{};
};

}  // namespace detail

// The program of all micro-batches from that of one. Devices work in the order of phases_of; reductions of
// gradients and updates come once, behind the last micro-batch. Adding up gradients is not priced.
// Precondition: forward passes depend on no later stage.
// Complexity: the program, times the micro-batches.
[[nodiscard]] inline program::program pipelined(const program::program& one, const pipeline& p) {
  return p.is_trivial() ? one : detail::pipeline_repeater{one, p}.run();
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_PIPELINED_PROGRAM)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<pipeline_phase> phases_of(std::uint32_t stage, std::uint32_t stages,
                                                   std::int64_t microbatches) {
  const auto ahead = std::min<std::int64_t>(microbatches, stages - stage);
  std::vector<pipeline_phase> all;
  for (std::int64_t i = 0; i < ahead; ++i) {
    all.push_back({i, false});
  }
  for (std::int64_t i = 0; i < microbatches; ++i) {
    all.push_back({i, true});
    if (i + ahead < microbatches) {
      all.push_back({i + ahead, false});
    }
  }
  return all;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE program::program pipeline_repeater::run() {
  all_ = one_.without_fragments();
  std::vector<program::fragment> codes(one_.fragment_count());
  for (std::size_t f = 0; f < codes.size(); ++f) {
    const program::fragment_id id{f};
    all_.add_fragment(one_.owner_of(id));
    if (is_repeated(id)) {
      for (std::int64_t m = 0; m < pipeline_.microbatches; ++m) {
        add(id, m, codes[f]);
      }
    } else {
      add(id, pipeline_.microbatches - 1, codes[f]);
    }
  }
  codes.push_back(order());
  all_.add_fragment({program::owner_kind::other, 0, "micro-batches in turn"});
  all_.replace(program::replacements_of(codes));
  all_.commit();
  return std::move(all_);
}

UNITY_INLINE program::task_ref pipeline_repeater::moved(program::task_ref r, program::fragment_id own,
                                                        std::int64_t microbatch) const {
  const auto f = r.fragment.valid() ? r.fragment : own;
  r.index += first_of(f, microbatch, one_.code(f).tasks.size());
  return r;
}

UNITY_INLINE program::buffer_ref pipeline_repeater::moved(program::buffer_ref r, program::fragment_id own,
                                                          std::int64_t microbatch) const {
  const auto f = r.fragment.valid() ? r.fragment : own;
  r.index += first_of(f, microbatch, one_.code(f).buffers.size());
  return r;
}

UNITY_INLINE void pipeline_repeater::add(program::fragment_id f, std::int64_t microbatch,
                                         program::fragment& code) const {
  const auto& from = one_.code(f);
  code.tasks.insert(code.tasks.end(), from.tasks.begin(), from.tasks.end());
  for (const auto& d : from.dependencies) {
    code.dependencies.push_back({moved(d.before, f, microbatch), moved(d.after, f, microbatch), d.cut_through});
  }
  for (auto b : from.buffers) {
    if (!b.permanent) {
      b.producer = moved(b.producer, f, microbatch);
    }
    code.buffers.push_back(b);
  }
  for (const auto& r : from.reads) {
    code.reads.push_back({moved(r.of, f, microbatch), moved(r.reader, f, microbatch)});
  }
}

UNITY_INLINE program::fragment pipeline_repeater::order() const {
  struct pass_tasks {
    std::vector<program::task_ref> forward{};
    std::vector<program::task_ref> backward{};
  };
  std::vector<pass_tasks> tasks(one_.resources().size());
  for (std::size_t f = 0; f < one_.fragment_count(); ++f) {
    const program::fragment_id id{f};
    const auto& code = one_.code(id);
    for (std::uint32_t t = 0; t < code.tasks.size(); ++t) {
      if (!code.tasks[t].resource.valid()) {
        continue;
      }
      auto& own = tasks[code.tasks[t].resource.index()];
      if (code.tasks[t].kind == program::task_kind::forward) {
        own.forward.push_back({id, t});
      } else if (code.tasks[t].kind == program::task_kind::backward ||
                 code.tasks[t].kind == program::task_kind::recompute) {
        own.backward.push_back({id, t});
      }
    }
  }
  program::fragment code;
  for (std::size_t r = 0; r < tasks.size(); ++r) {
    const auto& resource = one_.resources()[r];
    if (tasks[r].forward.empty()) {
      continue;
    }
    program::task_ref last{};
    const auto phases = phases_of(pipeline_.stages.empty() ? 0 : pipeline_.stages[resource.device],
                                  pipeline_.stage_count(), pipeline_.microbatches);
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const auto& of = phases[i].is_backward ? tasks[r].backward : tasks[r].forward;
      const auto end =
          code.add({program::resource_id{r}, picoseconds{1}, {}, {}, program::task_kind::other, resource.device});
      if (i > 0) {
        code.dependencies.push_back({last, {{}, end}, false});
      }
      for (const auto& t : of) {
        const auto own = moved(t, {}, phases[i].microbatch);
        if (i > 0) {
          code.dependencies.push_back({last, own, false});
        }
        code.dependencies.push_back({own, {{}, end}, false});
      }
      last = {{}, end};
    }
  }
  return code;
}

}  // namespace unity::parallel::detail

#endif
