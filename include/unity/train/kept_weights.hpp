// The parts of weights that a rank keeps, with their optimizer state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/detail/memory_pool.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

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
  // Makes the next versions, where they exist, the current ones.
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
    for (std::size_t i = 0; i < state_names(rule_.how).size(); ++i) {
      k.states.push_back({place(k.updated), place(k.updated)});
    }
    const auto [at, is_new] = known.try_emplace({elements, t.element}, chains_.size());
    if (is_new) {
      chains_.push_back(backend_.prepare_chain(update_graph(a, rule_.how, elements, t.element)));
    }
    k.kernel = at->second;
    auto& scalars = scalars_[t.element];
    while (scalars.size() < scalar_names(rule_.how).size()) {
      scalars.push_back(place(static_cast<std::size_t>(tensor::size_of(t.element))));
    }
  }

  Backend& backend_;
  update_rule rule_;
  backend::detail::memory_pool<Backend> memory_{};
  std::vector<kept_weight> weights_{};
  std::vector<typename Backend::kernel> chains_{};
  std::size_t workspace_ = 0;  // of all updates, which run one after another
  std::map<tensor::dtype, std::vector<std::size_t>> scalars_{};
  std::vector<const std::byte*> in_{};
  std::vector<std::byte*> out_{};
  bool can_revert_ = false;
};

}  // namespace unity::train
