// Trains a plan on ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communicator.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/io/dataset.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/train/batches.hpp>
#include <unity/train/held_state.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/initial_weights.hpp>
#include <unity/train/non_numbers.hpp>
#include <unity/train/offloaded_values.hpp>
#include <unity/train/rank_executor.hpp>
#include <unity/train/run_settings.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/training_plan.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

using program_change = std::function<parallel::rank_program(const parallel::rank_program&)>;

// One rank of a run. Its results depend on the plan only by rounding, because data and initial
// weights are functions of positions in whole tensors. All ranks construct their trainer and make
// their steps together. The plan must outlive it.
template <backend::fusing_backend Backend, host_reaching_communicator Communicator>
class trainer {
 public:
  // p: its only output is a loss (training_plan.hpp). seed: of the initial weights.
  // change: applied to the rank's program before it runs, such as fusing its operators; empty: none.
  // Each rank lowers only its own program; for threads of one process, that is less work than all programs in each.
  // Throws: unity::error if the plan is for another number of ranks, or ranks have different plans or messages that do
  // not match; as programs_of_ranks, rank_executor and the change.
  trainer(Backend& b, const tensor::algebra& a, const parallel::plan& p, Communicator& world, const update_rule& rule,
          std::uint64_t seed, batches data, const program_change& change = {})
      : algebra_{a},
        plan_{p},
        world_{world},
        programs_{programs_for(a, p, world, change)},
        ranks_{b, a, programs_, world, rule},
        data_{std::move(data)} {
    parallel::for_each_part(p.synchronization,
                            [&](const parallel::synchronizer& part) { is_stale_ = is_stale_ || part.staleness > 0; });
    const initial_weights first{a, p.graph, seed};
    for (const auto& w : ranks_.program().weights) {
      buffer_.resize(ranks_.size_of(w.weight.value));
      first.fill(name_of(w.weight.of), p.graph.type(w.weight.of), w.weight.part, buffer_);
      ranks_.write(w.weight.value, buffer_);
    }
    for (const auto& c : ranks_.program().cotangents) {
      const auto& t = ranks_.program().graph.type(c.value);
      ranks_.write(c.value,
                   backend::encode(
                       tensor::dense<double>{
                           t.dims, std::vector<double>(static_cast<std::size_t>(tensor::element_count(t.dims)), 1)},
                       t));
    }
  }

  // Likewise, with synthetic data.
  trainer(Backend& b, const tensor::algebra& a, const parallel::plan& p, Communicator& world, const update_rule& rule,
          std::uint64_t seed)
      : trainer{b, a, p, world, rule, seed, batches{a, p.graph, seed}} {}

  // Runs an iteration on the batch with that number. Returns the loss before weights change, the same on all ranks. If
  // the plan has stale servers, returns the rank's own share, since ranks may be iterations apart; see losses.
  // Throws: unity::error if the loss is not finite; it names the first operator with a result that
  // is not finite. Weights are unchanged then.
  double step(std::uint64_t number, timeline* record = nullptr) {
    if (is_stale_) {
      const auto own = run_alone(number, io::dataset_part::train, record);
      ranks_.commit();
      last_ = number;
      return own;
    }
    const auto all = iterate(number, io::dataset_part::train, record);
    if (!std::isfinite(all)) {
      ranks_.restart();
      refuse(number, fmt::format("a loss of {}", all), false);
    }
    ranks_.commit();
    last_ = number;
    return all;
  }
  // The losses of consecutive steps, from the values that step returned. All ranks call it together.
  // Throws: unity::error if the plan has stale servers and a loss is not finite.
  [[nodiscard]] std::vector<double> losses(std::uint64_t from, std::vector<double> steps) {
    if (!is_stale_) {
      return steps;
    }
    const auto count = steps.size();
    std::vector<double> all(count * static_cast<std::size_t>(world_.size()));
    gather_bytes(world_, std::as_bytes(std::span{steps}), std::as_writable_bytes(std::span{all}));
    for (std::size_t s = 0; s < count; ++s) {
      steps[s] = 0;
      for (std::size_t at = s; at < all.size(); at += count) {  // in the order of ranks
        steps[s] += all[at];
      }
      if (!std::isfinite(steps[s])) {
        throw error{fmt::format("step {}", from + s), fmt::format("a loss of {}", steps[s]),
                    "numbers; is the learning rate too large?"};
      }
    }
    return steps;
  }
  // Whether the plan has stale servers.
  [[nodiscard]] bool is_stale() const noexcept { return is_stale_; }
  // Effects: with delayed updates or stale servers, applies the gradients of the last batches; otherwise none.
  void finish() {
    if (last_) {
      ranks_.finish(*last_);
      last_.reset();
    }
  }
  // The loss of a batch, without changing weights or the state of compressors. It may be NaN. Effects: calls finish().
  [[nodiscard]] double loss_of(std::uint64_t number, io::dataset_part from, timeline* record = nullptr) {
    finish();
    const auto kept = kept_values_of(ranks_);
    const auto all = iterate(number, from, record);
    ranks_.restart();
    set_kept_values(ranks_, kept);
    return all;
  }
  // Checks weights after that many steps. Effects: calls finish().
  // Throws: unity::error like step if a weight or its optimizer state is not finite. If the last step made it so,
  // weights are restored to their values before that step.
  void expect_finite(std::uint64_t steps) {
    finish();
    if (!are_weights_finite()) {
      const bool is_back = ranks_.revert();
      refuse(is_back ? steps - 1 : steps, "weights that are not finite", is_back);
    }
  }

  [[nodiscard]] rank_executor<Backend, Communicator>& executor() noexcept { return ranks_; }
  [[nodiscard]] const parallel::plan& plan() const noexcept { return plan_; }
  [[nodiscard]] const batches& data() const noexcept { return data_; }

 private:
  [[nodiscard]] static parallel::rank_programs programs_for(const tensor::algebra& a, const parallel::plan& p,
                                                            Communicator& world, const program_change& change) {
    const auto devices = p.machine.network.device_count();
    if (static_cast<std::size_t>(world.size()) != devices) {
      throw error{"plan", fmt::format("one for {} devices", devices),
                  fmt::format("as many as the {} ranks", world.size())};
    }
    if (p.pipeline.chunks > 1 && !backend::host_communicator<Communicator>) {
      throw error{"plan", "an interleaved pipeline, on ranks whose memory is not the host's",
                  "another schedule: where messages go in one order, ranks would wait for each other"};
    }
    backend::agree(world, parallel::fingerprint_of(p), "the plan");
    const auto rank = static_cast<std::uint32_t>(world.rank());
    auto all = parallel::programs_of_ranks(a, p, rank);
    backend::cancel(world, parallel::exchanges_of(all, rank), "the plan");
    if (change) {
      all.ranks[rank] = change(all.ranks[rank]);
    }
    if (!p.offloaded.empty()) {
      all.ranks[rank] = with_offloaded_values(a, all.ranks[rank], p.offloaded);
    }
    return all;
  }
  [[nodiscard]] std::string name_of(value_id v) const {
    return std::string{algebra_.read(plan_.graph.operation(plan_.graph.producer(v))).word("name")};
  }
  [[nodiscard]] double iterate(std::uint64_t number, io::dataset_part from, timeline* record) {
    return sum_over_ranks(world_, run_alone(number, from, record));
  }
  // Returns the rank's share of the loss.
  [[nodiscard]] double run_alone(std::uint64_t number, io::dataset_part from, timeline* record) {
    ranks_.run(number, [&](std::size_t i) { read_part(ranks_.program().inputs[i], number, from); }, record);
    double own = 0;
    for (const auto& o : ranks_.program().outputs) {
      buffer_.resize(ranks_.size_of(o.value));
      ranks_.read(o.value, buffer_);
      own += backend::decode<double>(buffer_.data(), ranks_.program().graph.type(o.value)).data[0];
    }
    return own;
  }
  [[nodiscard]] bool are_weights_finite() {
    bool all = true;
    for (std::size_t i = 0; i < ranks_.program().weights.size() && all; ++i) {
      const auto& w = ranks_.program().weights[i];
      const auto element = ranks_.program().graph.type(w.weight.value).element;
      buffer_.resize(ranks_.size_of(w.weight.value));
      ranks_.read(w.weight.value, buffer_);
      all = is_finite(element, buffer_);
      buffer_.resize(ranks_.state_count(i) > 0 ? ranks_.state_size(i) : 0);
      for (std::size_t k = 0; k < ranks_.state_count(i) && all; ++k) {
        ranks_.read_state(i, k, buffer_);
        all = is_finite(element, buffer_);
      }
    }
    return sum_over_ranks(world_, all ? 0 : 1) == 0;
  }
  // Repeats the iteration and checks the results of each step. is_change: the loss was
  // finite, but the changed weights were not.
  [[noreturn]] void refuse(std::uint64_t number, const std::string& found, bool is_change) {
    non_number_search search{ranks_, plan_.graph};
    ranks_.run(
        number, [&](std::size_t i) { read_part(ranks_.program().inputs[i], number, io::dataset_part::train); }, nullptr,
        search);
    ranks_.restart();
    std::vector<iteration_place> all(static_cast<std::size_t>(world_.size()));
    const auto own = search.first();
    gather_bytes(world_, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
    const auto first = std::min_element(all.begin(), all.end());
    const auto where =
        !first->is_none() ? fmt::format("{}, on rank {}", to_string(algebra_, plan_.graph, *first), first - all.begin())
        : is_change       ? std::string{"a change of weights"}
                          : std::string{"the sum of the ranks' losses"};
    throw error{fmt::format("step {}", number), fmt::format("{}, first from {}", found, where),
                "numbers; is the learning rate too large?"};
  }
  void read_part(const parallel::given_part& x, std::uint64_t number, io::dataset_part from) {
    buffer_.resize(ranks_.size_of(x.value));
    data_.fill_part(name_of(x.of), plan_.graph.type(x.of), x, plan_.pipeline.microbatches, number, buffer_, from);
    ranks_.write(x.value, buffer_);
  }

  const tensor::algebra& algebra_;
  const parallel::plan& plan_;
  Communicator& world_;
  parallel::rank_programs programs_;
  rank_executor<Backend, Communicator> ranks_;
  batches data_;
  bool is_stale_ = false;
  std::optional<std::uint64_t> last_{};  // a step that is not finished
  std::vector<std::byte> buffer_{};
};

}  // namespace unity::train
