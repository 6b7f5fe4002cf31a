// The state that ranks hold: weights with their optimizer state, outputs, what compressors keep; and its exchange.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/memory_pool.hpp>
#include <unity/core/id.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

// As parallel::weight_part. Regular.
struct held_weight {
  value_id of{};  // of the plan's graph
  parallel::box part{};
  parallel::box updated{};
  bool is_updated = false;  // whether it has a gradient

  friend bool operator==(const held_weight&, const held_weight&) = default;
};

// Regular.
struct held_values {
  std::vector<held_weight> weights{};            // in the order of the program
  std::vector<tensor::tensor_type> kept{};       // likewise: state of compressors
  std::vector<parallel::output_part> outputs{};  // likewise, without values

  friend bool operator==(const held_values&, const held_values&) = default;
};

// Complexity: linear in parts of weights, kept values and outputs.
[[nodiscard]] held_values held_by(const parallel::rank_program& p);

namespace detail {

// Serializes to integers, and back.
[[nodiscard]] std::vector<std::int64_t> to_numbers(const held_values& x);
[[nodiscard]] held_values held_in(std::span<const std::int64_t> numbers);

}  // namespace detail

// What each rank holds. To be called by all ranks. Complexity: ranks times the largest number of values that one holds.
// Throws: unity::error if a rank is lost.
template <host_reaching_communicator C>
[[nodiscard]] std::vector<held_values> held_by_all(C& c, const parallel::rank_program& own) {
  const auto numbers = detail::to_numbers(held_by(own));
  const std::uint64_t size = numbers.size();
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(c.size()));
  gather_bytes(c, std::as_bytes(std::span{&size, 1}), std::as_writable_bytes(std::span{sizes}));
  std::vector<held_values> all;
  for (const auto& of_rank : gather_lists(c, std::span<const std::int64_t>{numbers}, sizes)) {
    all.push_back(detail::held_in(of_rank));
  }
  return all;
}

// The parts of weights that a rank keeps, with their optimizer state.

// Double-buffered weights and states: an update reads one buffer and writes the other, and commit() swaps them. So two
// consecutive versions of the weights can be read.
template <backend::fusing_backend Backend>
class kept_weights {
 public:
  // The program must outlive this object.
  // Throws: unity::error if memory does not suffice, or updates do not support a weight's type.
  kept_weights(Backend& b, const tensor::algebra& a, const parallel::rank_program& p, const update_rule& rule)
      : backend_{b}, rule_{rule} {
    std::map<std::pair<std::int64_t, tensor::dtype>, std::size_t> known;
    for (const auto& w : p.weights) {
      add(a, p, w, known);
    }
    std::size_t workspace = 0;
    for (const auto& c : chains_) {
      workspace = std::max(workspace, c.workspace());
    }
    workspace_ = memory_.add(workspace, 0);
    memory_.allocate(b, "memory for weights");
    for (std::size_t w = 0; w < weights_.size(); ++w) {
      const std::vector<std::byte> zeros(weights_[w].updated);
      for (std::size_t s = 0; s < weights_[w].states.size(); ++s) {
        write_state(w, s, zeros);
      }
    }
  }

  // The size of all versions of weights, of the optimizer state, and of the workspace of updates.
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
  [[nodiscard]] std::size_t state_count(std::size_t weight) const { return weights_[weight].states.size(); }
  // The size of each state of the weight. Unit: bytes.
  [[nodiscard]] std::size_t state_size(std::size_t weight) const { return weights_[weight].updated; }
  // The version that the current iteration reads, and the one that the previous iteration read.
  [[nodiscard]] std::byte* address(std::size_t weight) {
    return memory_.at(weights_[weight].places[weights_[weight].current]);
  }
  [[nodiscard]] std::byte* address_before(std::size_t weight) {
    return memory_.at(weights_[weight].places[weights_[weight].before]);
  }
  // Where the next version is written. Precondition: the weight has one.
  [[nodiscard]] std::byte* address_next(std::size_t weight) {
    return memory_.at(weights_[weight].places[1 - weights_[weight].current]);
  }
  // Declares that other ranks make the next version, or a part of it.
  void expect_next(std::size_t weight) {
    weights_[weight].is_changed = true;
    can_revert_ = false;
  }
  void write_state(std::size_t weight, std::size_t state, std::span<const std::byte> from) {
    backend_.write(memory_.at(weights_[weight].states[state][weights_[weight].current]), from);
  }
  void read_state(std::size_t weight, std::size_t state, std::span<std::byte> to) {
    backend_.read(to, memory_.at(weights_[weight].states[state][weights_[weight].current]));
  }

  // Starts the updates of a step, which counts from 0.
  void begin(std::uint64_t step) {
    const auto values = scalars_at(rule_, step);
    for (const auto& [element, at] : scalars_) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto narrow = static_cast<float>(values[i]);
        backend_.write(memory_.at(at[i]), element == tensor::dtype::float64 ? std::as_bytes(std::span{&values[i], 1})
                                                                            : std::as_bytes(std::span{&narrow, 1}));
      }
    }
  }
  // Starts to compute the next version. Precondition: the weight has a gradient.
  void update(std::size_t weight, const std::byte* gradient) {
    auto& w = weights_[weight];
    in_.assign({address(weight) + w.offset, gradient});
    out_.assign({address_next(weight) + w.offset});
    for (const auto& s : w.states) {
      in_.push_back(memory_.at(s[w.current]));
      out_.push_back(memory_.at(s[1 - w.current]));
    }
    for (const auto place : scalars_.at(w.element)) {
      in_.push_back(memory_.at(place));
    }
    backend_.run(chains_[w.kernel], in_, out_, memory_.at(workspace_));
    w.is_changed = true;
    can_revert_ = false;  // overwrites the version before the last commit
  }
  // For each weight that has a next version, makes it the current one.
  void commit() {
    for (auto& w : weights_) {
      w.before = w.current;
      w.current = w.is_changed ? 1 - w.current : w.current;
      w.is_changed = false;
    }
    can_revert_ = true;
  }
  // Drops the next versions.
  void drop() noexcept {
    for (auto& w : weights_) {
      w.is_changed = false;
    }
  }
  // Restores the state before the last commit. Returns false if there was no commit since the last call, or updates
  // followed it.
  [[nodiscard]] bool revert() {
    if (!can_revert_) {
      return false;
    }
    for (auto& w : weights_) {
      w.current = w.before;
      w.is_changed = false;
    }
    can_revert_ = false;
    return true;
  }

 private:
  using place_pair = std::array<std::size_t, 2>;

  struct kept_weight {
    std::size_t offset = 0;   // offset in bytes of the updated part
    std::size_t updated = 0;  // bytes
    tensor::dtype element{};
    place_pair places{};
    std::vector<place_pair> states{};
    std::size_t current = 0;
    std::size_t before = 0;
    bool is_changed = false;
    std::size_t kernel = 0;
  };

  void add(const tensor::algebra& a, const parallel::rank_program& p, const parallel::weight_part& w,
           std::map<std::pair<std::int64_t, tensor::dtype>, std::size_t>& known) {
    const auto& t = p.graph.type(w.weight.value);
    const auto size = backend::byte_count(w.next.valid() ? p.graph.type(w.next) : t);
    const auto place = [&](std::size_t bytes) { return memory_.add(bytes, 0); };
    auto& k = weights_.emplace_back();
    k.element = t.element;
    k.places[0] = place(size);
    k.places[1] = k.places[0];
    if (w.gradient.valid() || w.next.valid()) {
      k.places[1] = place(size);
    }
    if (!w.gradient.valid()) {
      return;
    }
    const auto elements = w.updated.volume();
    const auto before = w.updated == w.weight.part  // rows that come before those it updates
                            ? 0
                            : (w.updated.begin[0] - w.weight.part.begin[0]) * elements / w.updated.sizes()[0];
    k.offset = static_cast<std::size_t>(before * tensor::size_of(t.element));
    k.updated = static_cast<std::size_t>(elements * tensor::size_of(t.element));
    for (std::size_t i = 0; i < state_names(rule_.updates).size(); ++i) {
      k.states.push_back({place(k.updated), place(k.updated)});
    }
    const auto [at, is_new] = known.try_emplace({elements, t.element}, chains_.size());
    if (is_new) {
      chains_.push_back(backend_.prepare_chain(update_graph(a, rule_.updates, elements, t.element)));
    }
    k.kernel = at->second;
    auto& scalars = scalars_[t.element];
    while (scalars.size() < scalar_names(rule_.updates).size()) {
      scalars.push_back(place(static_cast<std::size_t>(tensor::size_of(t.element))));
    }
  }

  Backend& backend_;
  update_rule rule_;
  backend::memory_pool<Backend> memory_{};
  std::vector<kept_weight> weights_{};
  std::vector<typename Backend::kernel> chains_{};
  std::size_t workspace_ = 0;  // of all updates, which run one after another
  std::map<tensor::dtype, std::vector<std::size_t>> scalars_{};
  std::vector<const std::byte*> in_{};
  std::vector<std::byte*> out_{};
  bool can_revert_ = false;
};

// The state that compressors keep between iterations, as tensors of a checkpoint.

// By rank and number of the kept value. Unlike weights, these belong to a plan: under another plan, ranks lose other
// parts of other messages. So their kinds contain 16 hexadecimal digits that depend on which parts of which weights
// each rank holds and how these are synchronized; equal kinds have the same meaning. Complexity: linear in parts of
// weights.
[[nodiscard]] std::vector<std::vector<io::stored_tensor>> kept_value_tensors(const tensor::algebra& a,
                                                                             const parallel::plan& p,
                                                                             const std::vector<held_values>& held);

// A kept value before the first iteration.
[[nodiscard]] std::vector<std::byte> first_kept(const parallel::rank_program& p, const parallel::kept_value& k);

// Reads the kept values of an executor's rank, and writes them back. Executor: rank_executor.
template <class Executor>
[[nodiscard]] std::vector<std::vector<std::byte>> kept_values_of(const Executor& rank) {
  std::vector<std::vector<std::byte>> all;
  for (const auto& k : rank.program().kept) {
    rank.read(k.before, all.emplace_back(rank.size_of(k.before)));
  }
  return all;
}
template <class Executor>
void set_kept_values(Executor& rank, const std::vector<std::vector<std::byte>>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    rank.write(rank.program().kept[i].before, all[i]);
  }
}

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_HELD_STATE)

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/synchronization.hpp>

namespace unity::train {

UNITY_INLINE held_values held_by(const parallel::rank_program& p) {
  held_values all;
  for (const auto& w : p.weights) {
    all.weights.push_back({w.weight.of, w.weight.part, w.updated, w.gradient.valid()});
  }
  for (const auto& k : p.kept) {
    all.kept.push_back(p.graph.type(k.before));
  }
  for (auto o : p.outputs) {
    o.value = {};
    all.outputs.push_back(std::move(o));
  }
  return all;
}

namespace detail {

UNITY_INLINE std::vector<std::int64_t> to_numbers(const held_values& x) {
  std::vector<std::int64_t> all;
  const auto number = [&](auto n) { all.push_back(static_cast<std::int64_t>(n)); };
  const auto list = [&](const auto& numbers) {
    number(numbers.size());
    all.insert(all.end(), numbers.begin(), numbers.end());
  };
  const auto add_box = [&](const parallel::box& b) {
    list(b.begin);
    list(b.end);
  };
  number(x.weights.size());
  for (const auto& w : x.weights) {
    number(w.of.index());
    add_box(w.part);
    add_box(w.updated);
    number(w.is_updated);
  }
  number(x.kept.size());
  for (const auto& t : x.kept) {
    number(t.element);
    list(t.dims);
  }
  number(x.outputs.size());
  for (const auto& o : x.outputs) {
    number(o.output);
    add_box(o.part);
    number(o.microbatch);
  }
  return all;
}

UNITY_INLINE held_values held_in(std::span<const std::int64_t> numbers) {
  const auto number = [&] {
    const auto first = numbers.front();
    numbers = numbers.subspan(1);
    return first;
  };
  const auto read_list = [&](auto& to) {
    for (auto left = number(); left > 0; --left) {
      to.push_back(number());
    }
  };
  const auto read_box = [&](parallel::box& b) {
    read_list(b.begin);
    read_list(b.end);
  };
  held_values x;
  for (auto left = number(); left > 0; --left) {
    auto& w = x.weights.emplace_back();
    w.of = value_id{static_cast<std::size_t>(number())};
    read_box(w.part);
    read_box(w.updated);
    w.is_updated = number() != 0;
  }
  for (auto left = number(); left > 0; --left) {
    auto& t = x.kept.emplace_back();
    t.element = static_cast<tensor::dtype>(number());
    read_list(t.dims);
  }
  for (auto left = number(); left > 0; --left) {
    auto& o = x.outputs.emplace_back();
    o.output = static_cast<std::uint32_t>(number());
    read_box(o.part);
    o.microbatch = number();
  }
  return x;
}

}  // namespace detail

}  // namespace unity::train

namespace unity::train::detail {

UNITY_INLINE std::uint64_t kept_values_fingerprint(const tensor::algebra& a, const parallel::plan& p,
                                                   const std::vector<held_values>& held) {
  hasher all;
  const auto number = [&](auto x) { all.add(static_cast<std::uint64_t>(x)); };
  const auto add = [&](const parallel::box& b) {
    for (std::size_t d = 0; d < b.begin.size(); ++d) {
      number(b.begin[d]);
      number(b.end[d]);
    }
  };
  for (const auto& r : held) {
    number(r.weights.size());
    for (const auto& w : r.weights) {
      all.add(hash_bytes(a.read(p.graph.operation(p.graph.producer(w.of))).word("name")));
      add(w.part);
    }
  }
  parallel::for_each_part(p.synchronization, [&](const parallel::synchronizer& s) {
    number(s.kind);
    number(s.bucket);
    number(s.is_sparse);
    number(s.compressor.kind);
    number(s.compressor.has_feedback);
    number(s.compressor.amount);
  });
  return all.result().low;
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE std::vector<std::vector<io::stored_tensor>> kept_value_tensors(const tensor::algebra& a,
                                                                            const parallel::plan& p,
                                                                            const std::vector<held_values>& held) {
  const auto fingerprint = detail::kept_values_fingerprint(a, p, held);
  std::vector<std::vector<io::stored_tensor>> all(held.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t k = 0; k < held[r].kept.size(); ++k) {
      const auto& t = held[r].kept[k];
      all[r].push_back(
          {"compressors", fmt::format("kept {} of rank {}, {:016x}", k, r, fingerprint), t.element, t.dims});
    }
  }
  return all;
}

UNITY_INLINE std::vector<std::byte> first_kept(const parallel::rank_program& p, const parallel::kept_value& k) {
  const auto& t = p.graph.type(k.before);
  std::vector<double> numbers(static_cast<std::size_t>(tensor::element_count(t.dims)));
  if (k.seed != 0) {
    random_engine random{k.seed};
    std::generate(numbers.begin(), numbers.end(), [&] { return 2 * random.unit() - 1; });
  }
  std::vector<std::byte> bytes(backend::byte_count(t));
  backend::encode<double>(numbers, t, bytes);
  return bytes;
}

}  // namespace unity::train

#endif
