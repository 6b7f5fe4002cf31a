// Checkpoints of a run: all weights with their optimizer state in one file, independent of how they are divided, and
// the state of compressors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/held_state.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/run_settings.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

namespace detail {

// The tensors that ranks hold in parts: for each weight, the weight itself, then its optimizer state.
class kept_tensors {
 public:
  // Throws: unity::error if two weights have the same name.
  kept_tensors(const tensor::algebra& a, const tensor::tensor_graph& g, const std::vector<held_values>& held,
               parallel::optimizer updates);

  [[nodiscard]] const std::vector<io::stored_tensor>& all() const noexcept { return all_; }
  [[nodiscard]] std::size_t first_of(node_id weight) const { return first_.at(weight.index()); }

 private:
  std::vector<io::stored_tensor> all_{};
  std::map<std::size_t, std::size_t> first_{};  // by node of the weight
};

// Calls f(rank, index of the rank's weight, tensor, its index among the tensors of the weight) for each part of a
// tensor that a rank holds, in the same order on all ranks.
template <class F>
void for_each_kept(const kept_tensors& tensors, const tensor::tensor_graph& g, const std::vector<held_values>& held,
                   parallel::optimizer updates, const F& f) {
  for (std::size_t r = 0; r < held.size(); ++r) {
    for (std::size_t i = 0; i < held[r].weights.size(); ++i) {
      const auto& w = held[r].weights[i];
      const auto count = 1 + (w.is_updated ? state_names(updates).size() : 0);
      for (std::size_t k = 0; k < count; ++k) {
        f(static_cast<int>(r), i, tensors.first_of(g.producer(w.of)) + k, k);
      }
    }
  }
}

// Writes the kept values of all ranks through rank 0, which has the file. kept: by rank, the tensors; first: the index
// in the file of the first of them.
template <class Executor, host_reaching_communicator Communicator>
void put_kept_values(const Executor& rank, Communicator& world, const std::vector<std::vector<io::stored_tensor>>& kept,
                     std::size_t first, std::optional<io::weights_writer>& file) {
  const auto own = kept_values_of(rank);
  std::vector<std::byte> bytes;
  for (std::size_t r = 0; r < kept.size(); ++r) {
    for (std::size_t k = 0; k < kept[r].size(); ++k, ++first) {
      const auto from = static_cast<int>(r);
      const auto size = static_cast<std::size_t>(kept[r][k].byte_count());
      bytes.resize(file ? size : 0);
      if (world.rank() == from) {
        bytes = own[k];
      }
      copy_between_ranks(world, from, 0, size, bytes);
      if (file) {
        file->put(first, parallel::whole(kept[r][k].dims), bytes);
      }
    }
  }
}

// Reads a rank's kept values from the file; values that the file lacks stay unchanged. kept: of this rank.
template <class Executor>
void get_kept_values(Executor& rank, const std::vector<io::stored_tensor>& kept, const io::weights_reader& file) {
  auto own = kept_values_of(rank);
  for (std::size_t k = 0; k < own.size(); ++k) {
    const auto& all = file.header().tensors;
    if (std::any_of(all.begin(), all.end(),
                    [&](const auto& t) { return t.name == kept[k].name && t.kind == kept[k].kind; })) {
      file.get(file.find(kept[k]), parallel::whole(kept[k].dims), own[k]);
    }
  }
  set_kept_values(rank, own);
}

}  // namespace detail

// Effects: finishes delayed updates; rank 0 writes the file and keeps its previous content (io/sealed_file.hpp). To
// be called by all ranks. steps: the number of completed ones. Memory: a part of a weight, and the state of the rank's
// compressors.
// Throws: unity::error on rank 0 if the file cannot be written; the previous one then still exists. Also as
// Rank::expect_finite.
template <class Rank, host_reaching_communicator Communicator>
void write_checkpoint(const std::filesystem::path& path, const tensor::algebra& a, Rank& rank, Communicator& world,
                      const run_settings& run, std::int64_t steps) {
  rank.expect_finite(static_cast<std::uint64_t>(steps));
  const auto& g = rank.plan().graph;
  const auto held = held_by_all(world, rank.executor().program());
  const detail::kept_tensors tensors{a, g, held, run.rule.updates};
  const auto kept = kept_value_tensors(a, rank.plan(), held);
  std::optional<io::weights_writer> file;
  if (world.rank() == 0) {
    auto header = header_of(run, steps);
    header.tensors = tensors.all();
    for (const auto& of_rank : kept) {
      header.tensors.insert(header.tensors.end(), of_rank.begin(), of_rank.end());
    }
    file.emplace(path, std::move(header));
  }
  std::set<std::pair<std::size_t, std::vector<std::int64_t>>>
      written;  // tensors and the beginnings of their parts: ranks may hold equal parts
  std::vector<std::byte> bytes;
  detail::for_each_kept(
      tensors, g, held, run.rule.updates, [&](int from, std::size_t weight, std::size_t tensor, std::size_t number) {
        const auto& w = held[static_cast<std::size_t>(from)].weights[weight];
        const auto& part = number == 0 ? w.part : w.updated;
        if (!written.insert({tensor, {part.begin.begin(), part.begin.end()}}).second) {
          return;
        }
        const auto size = static_cast<std::size_t>(part.volume() * tensor::size_of(tensors.all()[tensor].element));
        bytes.resize(world.rank() == from || world.rank() == 0 ? size : 0);
        if (world.rank() == from && number == 0) {
          rank.executor().read(rank.executor().program().weights[weight].weight.value, bytes);
        } else if (world.rank() == from) {
          rank.executor().read_state(weight, number - 1, bytes);
        }
        copy_between_ranks(world, from, 0, size, bytes);
        if (file) {
          file->put(tensor, part, bytes);
        }
      });
  detail::put_kept_values(rank.executor(), world, kept, tensors.all().size(), file);
  if (file) {
    file->commit();
  }
}

// Effects: reads weights and optimizer state from the file, on every rank; also the state of compressors, if it was
// written under a plan that divides and synchronizes weights in the same way; otherwise that state starts empty.
// Returns the number of completed steps. To be called by all ranks.
// Throws: unity::error if the file belongs to another run, or differs between ranks.
template <class Rank, host_reaching_communicator Communicator>
[[nodiscard]] std::int64_t read_checkpoint(const io::weights_reader& file, const std::filesystem::path& path,
                                           const tensor::algebra& a, Rank& rank, Communicator& world,
                                           const run_settings& run) {
  const auto& h = file.header();
  expect_same(settings_in(h, path.string()), run, path.string());
  backend::agree(world, hasher{}.add(static_cast<std::uint64_t>(h.step)).add(h.seed).result(), path.string());
  const auto& g = rank.plan().graph;
  const auto held = held_by_all(world, rank.executor().program());
  const detail::kept_tensors tensors{a, g, held, run.rule.updates};
  std::vector<std::byte> bytes;
  detail::for_each_kept(
      tensors, g, held, run.rule.updates, [&](int of, std::size_t weight, std::size_t tensor, std::size_t number) {
        if (of != world.rank()) {
          return;
        }
        const auto& w = rank.executor().program().weights[weight];
        bytes.resize(number == 0 ? rank.executor().size_of(w.weight.value) : rank.executor().state_size(weight));
        file.get(file.find(tensors.all()[tensor]), number == 0 ? w.weight.part : w.updated, bytes);
        if (number == 0) {
          rank.executor().write(w.weight.value, bytes);
        } else {
          rank.executor().write_state(weight, number - 1, bytes);
        }
      });
  const auto kept = kept_value_tensors(a, rank.plan(), held);
  detail::get_kept_values(rank.executor(), kept[static_cast<std::size_t>(world.rank())], file);
  return h.step;
}

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_CHECKPOINT)

#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/sealed_file.hpp>

namespace unity::train::detail {

UNITY_INLINE kept_tensors::kept_tensors(const tensor::algebra& a, const tensor::tensor_graph& g,
                                        const std::vector<held_values>& held, parallel::optimizer updates) {
  std::map<std::size_t, bool> weights;  // by node: whether it changes
  for (const auto& r : held) {
    for (const auto& w : r.weights) {
      auto& changes = weights[g.producer(w.of).index()];
      changes = changes || w.is_updated;
    }
  }
  std::set<std::string> names;
  for (const auto& [n, changes] : weights) {
    const auto& t = g.type(g.results(node_id{n})[0]);
    const std::string name{a.read(g.operation(node_id{n})).word("name")};
    if (!names.insert(name).second) {
      throw error{"checkpoint", fmt::format("two weights \"{}\" in the graph", name), "weights of different names"};
    }
    first_[n] = all_.size();
    all_.push_back({name, "weight", t.element, t.dims});
    for (const auto state : changes ? state_names(updates) : std::vector<std::string_view>{}) {
      all_.push_back({name, std::string{state}, t.element, t.dims});
    }
  }
}

}  // namespace unity::train::detail

#endif
