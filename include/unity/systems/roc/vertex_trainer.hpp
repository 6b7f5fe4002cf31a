// Trains a graph neural network on ranks that have a range of the vertices each.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communicator.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/range_graph.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/systems/roc/range_balancer.hpp>
#include <unity/systems/roc/range_model.hpp>
#include <unity/systems/roc/range_program.hpp>
#include <unity/systems/roc/vertex_training.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/memory_moves.hpp>
#include <unity/train/non_numbers.hpp>
#include <unity/train/outside_arena.hpp>
#include <unity/train/rank_executor.hpp>
#include <unity/train/run_settings.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/update.hpp>
#include <unity/train/value_places.hpp>

namespace unity::systems {

// Accuracy by role: the fraction of vertices whose largest logit is that of their class; 0 if there are none. Regular.
struct vertex_accuracy {
  double train = 0;
  double validation = 0;
  double test = 0;

  friend bool operator==(const vertex_accuracy&, const vertex_accuracy&) = default;
};

// Initial values of a weight: matrices uniform with variance 2 / (rows + columns), biases 0.
// Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010.
void fill_first_weight(const tensor::tensor_type& type, std::uint64_t seed, std::size_t number,
                       std::span<std::byte> out);

namespace detail {

// By role: the number of rows with their maximum at the label, and of all rows.
struct role_counts {
  std::array<std::int64_t, 4> right{};
  std::array<std::int64_t, 4> all{};
};
[[nodiscard]] role_counts count_right(std::span<const double> logits, const vertex_rows& rows, gnn::vertex_range range);

// Seconds of each layer's operators, forward and backward.
[[nodiscard]] layer_seconds seconds_of_layers(const train::timeline& record, std::size_t layers);

}  // namespace detail

// One rank of a run. Losses and weights are independent of the partition, except for rounding. All ranks construct
// theirs and call its members together.
template <backend::fusing_backend Backend, train::host_reaching_communicator Communicator>
class vertex_trainer {
 public:
  // The training must outlive it. scales: from scales_of.
  // Throws: unity::error if the number of parts differs from the number of ranks; as range_graph_of, range_model_of and
  // rank_executor.
  vertex_trainer(Backend& b, const tensor::algebra& a, const vertex_training& t, vertex_scales scales,
                 Communicator& world, gnn::vertex_partition p)
      : backend_{b}, algebra_{a}, training_{t}, scales_{std::move(scales)}, world_{world}, partition_{std::move(p)} {
    if (partition_.parts() != static_cast<std::size_t>(world.size())) {
      throw error{"partition", fmt::format("{} parts", partition_.parts()),
                  fmt::format("one for each of the {} ranks", world.size())};
    }
    place();
    for (std::size_t w = 0; w < program().weights.size(); ++w) {
      const auto v = program().weights[w].weight.value;
      buffer_.resize(executor().size_of(v));
      fill_first_weight(program().graph.type(v), t.seed, w, buffer_);
      executor().write(v, buffer_);
    }
  }

  // One iteration over all vertices. Returns its loss before the update; the same on all ranks.
  // Throws: unity::error if there is no training vertex, or the loss is not finite; weights stay as they were.
  double step(std::uint64_t number, train::timeline* record = nullptr) {
    const auto& roles = training_.rows.roles;
    if (std::find(roles.begin(), roles.end(), gnn::vertex_role::train) == roles.end()) {
      throw error{"data", "no vertex to train on", "at least one"};
    }
    const auto loss = iterate({training_.seed, number, true}, record);
    if (!std::isfinite(loss)) {
      executor().restart();
      throw error{fmt::format("step {}", number), fmt::format("a loss of {}", loss),
                  "numbers; is the learning rate too large?"};
    }
    executor().commit();
    return loss;
  }

  // Accuracy without dropout. Weights do not change.
  [[nodiscard]] vertex_accuracy accuracy() {
    static_cast<void>(iterate({training_.seed, 0, false}, nullptr));
    executor().restart();
    const auto counts = detail::count_right(logits(), training_.rows, partition_.range(part()));
    const auto share = [&](gnn::vertex_role role) {
      const auto at = static_cast<std::size_t>(role);
      const auto all = train::sum_over_ranks(world_, static_cast<double>(counts.all[at]));
      const auto right = train::sum_over_ranks(world_, static_cast<double>(counts.right[at]));
      return all == 0 ? 0 : right / all;
    };
    return {share(gnn::vertex_role::train), share(gnn::vertex_role::validation), share(gnn::vertex_role::test)};
  }
  // Logits of the last iteration: a row for each vertex of the rank's range.
  [[nodiscard]] std::vector<double> logits() {
    const auto v = program().outputs[1].value;
    buffer_.resize(executor().size_of(v));
    executor().read(v, buffer_);
    return backend::decode<double>(buffer_.data(), program().graph.type(v)).data;
  }

  // Seconds of each layer of each rank in the recorded iteration, gathered from all ranks.
  [[nodiscard]] std::vector<layer_seconds> measured(const train::timeline& record) {
    const auto layers = model_.widths.size();
    const auto own = detail::seconds_of_layers(record, layers);
    std::vector<double> all(layers * static_cast<std::size_t>(world_.size()));
    train::gather_bytes(world_, std::as_bytes(std::span{own}), std::as_writable_bytes(std::span{all}));
    std::vector<layer_seconds> by_rank;
    for (std::size_t at = 0; at < all.size(); at += layers) {
      by_rank.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                           all.begin() + static_cast<std::ptrdiff_t>(at + layers));
    }
    return by_rank;
  }

  // Switches to another partition; weights and optimizer state are kept.
  void divide(gnn::vertex_partition next) {
    std::vector<std::vector<std::byte>> kept;
    for_each_kept([&](value_id v, std::size_t w, std::size_t s) {
      auto& to = kept.emplace_back(v.valid() ? executor().size_of(v) : executor().state_size(w));
      v.valid() ? executor().read(v, to) : executor().read_state(w, s, to);
    });
    ranks_.reset();  // before the next is constructed
    partition_ = std::move(next);
    place();
    std::size_t at = 0;
    for_each_kept([&](value_id v, std::size_t w, std::size_t s) {
      v.valid() ? executor().write(v, kept[at]) : executor().write_state(w, s, kept[at]);
      ++at;
    });
  }

  // Bytes per iteration that the rank sends for sums of layers, forward and backward.
  [[nodiscard]] std::int64_t halo_bytes() const {
    std::int64_t all = 0;
    for (const auto& s : program().steps) {
      if (s.kind == parallel::step_kind::send) {
        all += static_cast<std::int64_t>(backend::byte_count(program().graph.type(s.value)));
      }
    }
    return all;
  }

  // Planned transfers between host and device per iteration, if there is a limit (vertex_training::memory).
  [[nodiscard]] const train::moved_bytes& planned_moves() const noexcept { return planned_; }

  // For checkpoints (train/checkpoint.hpp).
  void expect_finite(std::uint64_t steps) {
    bool all = true;
    for_each_kept([&](value_id v, std::size_t w, std::size_t s) {
      buffer_.resize(v.valid() ? executor().size_of(v) : executor().state_size(w));
      v.valid() ? executor().read(v, buffer_) : executor().read_state(w, s, buffer_);
      all = all && train::is_finite(training_.model.element, buffer_);
    });
    if (train::sum_over_ranks(world_, all ? 0 : 1) != 0) {
      throw error{fmt::format("step {}", steps), "weights that are not finite",
                  "numbers; is the learning rate too large?"};
    }
  }
  // The plan of this rank: its graph covers the rank's range; weights are whole.
  [[nodiscard]] const parallel::plan& plan() const noexcept { return plan_; }
  [[nodiscard]] train::rank_executor<Backend, Communicator>& executor() noexcept { return *ranks_; }
  [[nodiscard]] const parallel::rank_program& program() const noexcept { return ranks_->program(); }
  [[nodiscard]] const gnn::vertex_partition& partition() const noexcept { return partition_; }
  [[nodiscard]] const range_model& model() const noexcept { return model_; }

 private:
  [[nodiscard]] std::size_t part() const { return static_cast<std::size_t>(world_.rank()); }
  // Builds everything that depends on the partition.
  void place() {
    const auto& t = training_;
    const auto split = joins_edges(t.model.layer) ? gnn::edge_split::joint : gnn::edge_split::apart;
    range_ = gnn::range_graph_of(t.graph, partition_, part(), split);
    model_ = range_model_of(algebra_, t.model, range_, t.rows, scales_, t.graph.offsets()[range_.range.begin]);
    auto options = t.program;
    options.loads_all = options.loads_all || t.memory > bytes{};
    programs_ = range_program(algebra_, model_, range_, part(), partition_.parts(), options);
    if (t.memory > bytes{}) {
      auto& own = programs_.ranks[part()];
      auto moves = train::with_moves(algebra_, own, train::workspaces_of(backend_, algebra_, own), t.memory);
      own = std::move(moves.program);
      planned_ = moves.moved;
    }
    plan_.graph = model_.graph;
    ranks_ =
        std::make_unique<train::rank_executor<Backend, Communicator>>(backend_, algebra_, programs_, world_, t.rule);
    for (const auto& c : program().constants) {
      fill(c, {});
    }
    for (const auto& c : program().cotangents) {
      buffer_ = backend::encode(tensor::dense<double>{{}, {1}}, program().graph.type(c.value));
      executor().write(c.value, buffer_);
    }
  }
  void fill(const parallel::given_part& x, const drawing& d) {
    const auto of =
        std::find_if(model_.values.begin(), model_.values.end(), [&](const range_value& v) { return v.value == x.of; });
    buffer_.resize(executor().size_of(x.value));
    of->fill(d, buffer_);
    executor().write(x.value, buffer_);
  }
  [[nodiscard]] double iterate(const drawing& d, train::timeline* record) {
    executor().run(d.step, [&](std::size_t i) { fill(program().inputs[i], d); }, record);
    const auto v = program().outputs[0].value;
    buffer_.resize(executor().size_of(v));
    executor().read(v, buffer_);
    return train::sum_over_ranks(world_, backend::decode<double>(buffer_.data(), program().graph.type(v)).data[0]);
  }
  // Calls f(weight, its index, 0), then f(null, the weight's index, state) for its optimizer state.
  template <class F>
  void for_each_kept(const F& f) {
    for (std::size_t w = 0; w < program().weights.size(); ++w) {
      f(program().weights[w].weight.value, w, std::size_t{0});
      for (std::size_t s = 0; s < executor().state_count(w); ++s) {
        f(value_id{}, w, s);
      }
    }
  }

  Backend& backend_;
  const tensor::algebra& algebra_;
  const vertex_training& training_;
  vertex_scales scales_;
  Communicator& world_;
  gnn::vertex_partition partition_;
  gnn::range_graph range_{};
  range_model model_{};
  parallel::rank_programs programs_{};
  train::moved_bytes planned_{};
  parallel::plan plan_{};
  std::unique_ptr<train::rank_executor<Backend, Communicator>> ranks_{};
  std::vector<std::byte> buffer_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_VERTEX_TRAINER)

#include <unity/parallel/box.hpp>
#include <unity/train/data.hpp>

namespace unity::systems {

UNITY_INLINE void fill_first_weight(const tensor::tensor_type& type, std::uint64_t seed, std::size_t number,
                                    std::span<std::byte> out) {
  const auto stream = hash_combine(hash_combine(seed, 0x77656967687473U), number);
  const auto most = type.rank() < 2 ? 0.0 : std::sqrt(6.0 / static_cast<double>(type.dims[0] + type.dims[1]));
  // Rounded to float32, so that wider types get the same values.
  train::fill_box(type, parallel::whole(type.dims), out, [&](std::uint64_t i) {
    return static_cast<double>(static_cast<float>(most * (2 * train::uniform_of(hash_combine(stream, i)) - 1)));
  });
}

}  // namespace unity::systems

namespace unity::systems::detail {

UNITY_INLINE role_counts count_right(std::span<const double> logits, const vertex_rows& rows, gnn::vertex_range range) {
  role_counts counts;
  const auto classes = static_cast<std::size_t>(rows.classes);
  for (auto v = range.begin; v < range.end; ++v) {
    const auto row = logits.subspan((v - range.begin) * classes, classes);
    const auto found = std::max_element(row.begin(), row.end()) - row.begin();
    const auto role = static_cast<std::size_t>(rows.roles[v]);
    ++counts.all[role];
    counts.right[role] += found == rows.labels[v] ? 1 : 0;
  }
  return counts;
}

UNITY_INLINE layer_seconds seconds_of_layers(const train::timeline& record, std::size_t layers) {
  layer_seconds all(layers);
  for (const auto& s : record.spans()) {
    if (s.kind == train::activity::compute) {
      all[s.label] += static_cast<double>(s.end - s.start) * 1e-9;
    }
  }
  return all;
}

}  // namespace unity::systems::detail

#endif
