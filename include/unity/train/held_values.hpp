// The weights and outputs that each rank holds, exchanged between ranks, since a rank lowers only its own program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/train/host_exchange.hpp>

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

// The values held by each rank. To be called by all ranks. Complexity: ranks times the largest number that one holds.
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

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_HELD_VALUES)

#include <unity/core/config.hpp>
#include <unity/tensor/shape.hpp>

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

#endif
