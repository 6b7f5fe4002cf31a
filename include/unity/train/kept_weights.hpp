// The parts of weights that a rank keeps, with what the optimizer keeps of them.
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
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

// Weights and states have two places each: an update reads one and writes the other, and commit() has them change
// roles. Weights of two versions in a row can be read.
template <backend::fusing_backend Backend>
class kept_weights {
 public:
  // The program must outlive it. Throws: unity::error where memory does not suffice, or a weight's type has no updates.
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

  // Of all versions of weights, of what the optimizer keeps of them, and for making the next.
  [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
  [[nodiscard]] std::size_t state_count(std::size_t weight) const { return weights_[weight].states.size(); }
  // Of what the optimizer keeps of the weight, each. Unit: bytes.
  [[nodiscard]] std::size_t state_size(std::size_t weight) const { return weights_[weight].updated; }
  // What the current iteration reads, and what the one before read.
  [[nodiscard]] std::byte* address(std::size_t weight) {
    return memory_.at(weights_[weight].places[weights_[weight].current]);
  }
  [[nodiscard]] std::byte* address_before(std::size_t weight) {
    return memory_.at(weights_[weight].places[weights_[weight].before]);
  }
  // Where the next version is made. Precondition: the weight has one.
  [[nodiscard]] std::byte* address_next(std::size_t weight) {
    return memory_.at(weights_[weight].places[1 - weights_[weight].current]);
  }
  // Other ranks make some of the next version, or all of it.
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

  // Updates that follow are those of that step, from 0.
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
  // Begins to make the next version. Precondition: the weight has a gradient.
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
    can_revert_ = false;  // what was before the last commit is written over
  }
  // The next versions, where there are such, become current.
  void commit() {
    for (auto& w : weights_) {
      w.before = w.current;
      w.current = w.is_changed ? 1 - w.current : w.current;
      w.is_changed = false;
    }
    can_revert_ = true;
  }
  // The next versions are dropped.
  void drop() noexcept {
    for (auto& w : weights_) {
      w.is_changed = false;
    }
  }
  // All is again as it was before the last commit. False: there was none since the last call, or updates came after it.
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
    std::size_t offset = 0;   // bytes: where what it updates begins
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
  std::size_t workspace_ = 0;  // of all updates, which come one after the other
  std::map<tensor::dtype, std::vector<std::size_t>> scalars_{};
  std::vector<const std::byte*> in_{};
  std::vector<std::byte*> out_{};
  bool can_revert_ = false;
};

}  // namespace unity::train
