// The state that compressors keep between iterations, as tensors of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/io/stored_tensor.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/held_values.hpp>

namespace unity::train {

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_KEPT_VALUES)

#include <algorithm>

#include <fmt/core.h>

#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/shape.hpp>

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
