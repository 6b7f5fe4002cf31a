// Measures the accuracy of a trained model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/io/dataset.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/batches.hpp>
#include <unity/train/held_state.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/rank_executor.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

// The result on the samples of a data set's test part (for text: on the characters of its windows). Regular.
struct test_result {
  std::int64_t right = 0;
  std::int64_t count = 0;

  [[nodiscard]] double accuracy() const noexcept {
    return count == 0 ? 0 : static_cast<double>(right) / static_cast<double>(count);
  }

  friend bool operator==(const test_result&, const test_result&) = default;
};

// The forward pass of one rank, with the weights of another program for the same division. All ranks construct and call
// it together.
template <backend::fusing_backend Backend, host_reaching_communicator Communicator>
class evaluation {
 public:
  // p: the original plan, without a loss. Dropouts drop nothing. trained: the executor of the same plan with a loss.
  // data: of that plan's graph, with a data set.
  // Throws: as rank_executor.
  template <class Executor>
  evaluation(Backend& b, const tensor::algebra& a, const parallel::plan& p, Communicator& world, Executor& trained,
             const tensor::tensor_graph& with_loss, const batches& data)
      : algebra_{a},
        plan_{p},
        world_{world},
        data_{data},
        programs_{
            forward_programs(parallel::programs_of_ranks(a, undelayed(p), static_cast<std::uint32_t>(world.rank())))},
        ranks_{b, a, programs_, world, update_rule{}},
        held_{held_by_all(world, ranks_.program())} {
    UNITY_EXPECTS(data.set() != nullptr && data.labels(), "batches of a data set");
    std::vector<std::byte> values;
    for (const auto& w : ranks_.program().weights) {
      const auto name = name_of(plan_.graph, w.weight.of);
      const auto& all = trained.program().weights;
      const auto same = std::find_if(all.begin(), all.end(), [&](const parallel::weight_part& t) {
        return t.weight.part == w.weight.part && name_of(with_loss, t.weight.of) == name;
      });
      if (same == all.end()) {
        throw error{"evaluation", fmt::format("no part of weight \"{}\" on rank {}", name, world.rank()),
                    "the division that it was trained with"};
      }
      values.resize(ranks_.size_of(w.weight.value));
      trained.read(same->weight.value, values);
      ranks_.write(w.weight.value, values);
    }
  }

  // The result on the whole test part, on rank 0; zeros on other ranks.
  [[nodiscard]] test_result run() {
    const auto& labels = *data_.labels();
    const auto row = tensor::element_count(labels.dims) / labels.dims[0];
    const auto batch = labels.dims[0] * plan_.pipeline.microbatches;
    const auto samples = data_.set()->samples(io::dataset_part::test);
    const auto rows = data_.set()->content() == io::dataset_content::text ? (samples - 1) / row : samples;
    test_result all;
    for (std::int64_t first = 0; first < rows; first += batch) {
      const auto number = static_cast<std::uint64_t>(first / batch);
      ranks_.run(number, [&](std::size_t i) { load(ranks_.program().inputs[i], number); });
      count(number, row * std::min(batch, rows - first), all);
    }
    return all;
  }

 private:
  [[nodiscard]] static parallel::plan undelayed(parallel::plan p) {
    p.pipeline.is_delayed = false;
    for (auto& w : p.synchronization.weights) {
      for (auto& part : w.parts) {
        part.staleness = 0;
      }
    }
    return p;
  }
  [[nodiscard]] std::string name_of(const tensor::tensor_graph& g, value_id v) const {
    return std::string{algebra_.read(g.operation(g.producer(v))).word("name")};
  }
  void load(const parallel::given_part& x, std::uint64_t number) {
    buffer_.resize(ranks_.size_of(x.value));
    data_.fill_part(name_of(plan_.graph, x.of), plan_.graph.type(x.of), x, plan_.pipeline.microbatches, number, buffer_,
                    io::dataset_part::test);
    ranks_.write(x.value, buffer_);
  }
  // The first output of a batch, on rank 0.
  [[nodiscard]] tensor::dense<double> output() {
    auto type = plan_.graph.type(plan_.graph.outputs()[0]);
    const auto samples = type.dims[0];
    type.dims[0] *= plan_.pipeline.microbatches;
    tensor::dense<double> all{world_.rank() == 0 ? type.dims : tensor::shape{}};
    for (std::size_t r = 0; r < held_.size(); ++r) {
      for (std::size_t i = 0; i < held_[r].outputs.size(); ++i) {
        const auto& o = held_[r].outputs[i];
        auto own = type;
        own.dims = o.part.sizes();
        buffer_.resize(backend::byte_count(own));
        if (static_cast<std::size_t>(world_.rank()) == r) {
          ranks_.read(ranks_.program().outputs[i].value, buffer_);
        }
        copy_between_ranks(world_, static_cast<int>(r), 0, buffer_.size(), buffer_);
        if (world_.rank() == 0 && o.output == 0) {
          auto at = o.part;
          at.begin[0] += o.microbatch * samples;
          at.end[0] += o.microbatch * samples;
          const auto values = backend::decode<double>(buffer_.data(), own);
          parallel::for_each_run(type.dims, at, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
            std::copy_n(values.data.begin() + from, n, all.data.begin() + to);
          });
        }
      }
    }
    return all;
  }
  // Counts the first `rows` labels of a batch.
  void count(std::uint64_t number, std::int64_t rows, test_result& all) {
    const auto made = output();
    if (world_.rank() != 0) {
      return;
    }
    auto type = *data_.labels();
    type.dims[0] *= plan_.pipeline.microbatches;
    std::vector<std::byte> bytes(backend::byte_count(type));
    data_.fill(tensor::labels_name(0), type, parallel::whole(type.dims), number, bytes, io::dataset_part::test);
    const auto labels = backend::decode<double>(bytes.data(), type);
    const auto classes = made.dims.back();
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto begin = made.data.begin() + r * classes;
      const auto best = std::max_element(begin, begin + classes) - begin;
      all.right += static_cast<double>(best) == labels.data[static_cast<std::size_t>(r)] ? 1 : 0;
    }
    all.count += rows;
  }

  const tensor::algebra& algebra_;
  const parallel::plan& plan_;
  Communicator& world_;
  const batches& data_;
  parallel::rank_programs programs_;
  rank_executor<Backend, Communicator> ranks_;
  std::vector<held_values> held_;  // of all ranks
  std::vector<std::byte> buffer_{};
};

}  // namespace unity::train
