// Parts of divided operators and overlaps between two operators, each computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/messages.hpp>
#include <unity/parallel/lowering/operand_partials.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>

namespace unity::parallel {

// An operator divided by a certain grid, independent of devices.
struct division {
  std::uint32_t number = 0;
  std::vector<shard> parts{};                // by task
  std::vector<operand_partials> partials{};  // by operand
  // For operands that no operator makes: the tasks that read them, and what these read. Only tasks of the first partial
  // read them; other partials are zero.
  std::vector<std::vector<std::uint32_t>> readers{};
  std::vector<distinct_boxes> operands{};
  std::uint32_t blocks = 1;      // blocks of the results, which are those of the first tasks
  std::uint32_t reductions = 1;  // tasks are ordered as [groups of partials][copies][reductions][blocks]
  std::uint32_t copies = 1;
  std::uint32_t result_partials = 1;

  // The task that has this block of this partial and copy of the results.
  [[nodiscard]] std::uint32_t task(std::uint32_t partial, std::uint32_t copy, std::uint32_t block) const noexcept {
    return ((partial / reductions * copies + copy) * reductions + partial % reductions) * blocks + block;
  }
};

// Caches divisions and overlaps. Not thread-safe.
class division_table {
 public:
  division_table() = default;
  // Computes only this task of every operator; divisions then contain it as their only part.
  explicit division_table(std::size_t task) : task_{task} {}

  // Effects: empties a large cache; earlier results become invalid.
  void make_room();
  // kind: the number of the operator kind. Valid until make_room().
  [[nodiscard]] const division& of(std::uint32_t kind, const operator_dimensions& o, const task_grid& grid) {
    return find(kind, o, grid);
  }
  [[nodiscard]] const division& of(std::uint32_t kind, const operator_dimensions& o, const configuration& c) {
    return find(kind, o, c);
  }

  // Overlaps between the blocks of a result and the parts that tasks read as the given operands. Readers are numbered
  // operand by operand, so a task has a number for each operand. Valid until the next call.
  [[nodiscard]] std::span<const overlap> overlaps(const division& from, std::uint32_t result, const division& to,
                                                  std::span<const std::uint32_t> operands);

 private:
  static constexpr std::size_t most_kept = std::size_t{1} << 22U;  // overlaps: 64 MiB

  // Hashes grids, and configurations without copying them, because most lookups succeed.
  struct grid_hash {
    using is_transparent = void;

    template <class Grid>
    std::size_t operator()(const Grid& g) const noexcept {
      auto h = hash_combine(g.degrees.size(), static_cast<std::uint64_t>(g.copies));
      for (const auto d : g.degrees) {
        h = hash_combine(h, static_cast<std::uint64_t>(d));
      }
      for (const auto* list : {&g.reductions, &g.partials}) {
        if (product(*list) != 1) {
          for (const auto d : *list) {
            h = hash_combine(h, static_cast<std::uint64_t>(d));
          }
        }
      }
      return h;
    }
  };
  struct grid_equal {
    using is_transparent = void;

    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      const auto same = [](const degree_list& x, const degree_list& y) {
        return x == y || (product(x) == 1 && product(y) == 1);
      };
      return a.degrees == b.degrees && a.copies == b.copies && same(a.reductions, b.reductions) &&
             same(a.partials, b.partials);
    }
  };

  [[nodiscard]] static task_grid grid_of_key(const configuration& c) { return c.grid(); }
  [[nodiscard]] static const task_grid& grid_of_key(const task_grid& g) { return g; }
  template <class Grid>
  [[nodiscard]] const division& find(std::uint32_t kind, const operator_dimensions& o, const Grid& grid) {
    if (kinds_.size() <= kind) {
      kinds_.resize(kind + std::size_t{1});
    }
    if (const auto known = kinds_[kind].find(grid); known != kinds_[kind].end()) {
      return known->second;
    }
    auto& d = kinds_[kind].try_emplace(grid_of_key(grid)).first->second;
    d.number = count_++;
    divide(o, grid_of_key(grid), d);
    tasks_ += d.parts.size();
    return d;
  }
  void divide(const operator_dimensions& o, const task_grid& grid, division& d) const;

  struct pair_key {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t result = 0;
    small_vector<std::uint32_t, 4> operands{};

    friend bool operator==(const pair_key&, const pair_key&) = default;
  };
  struct pair_hash {
    std::size_t operator()(const pair_key& k) const noexcept;
  };

  static constexpr std::size_t most_tasks = std::size_t{1} << 17U;  // some tens of MB

  std::deque<std::unordered_map<task_grid, division, grid_hash, grid_equal>>
      kinds_{};  // references stay valid as it grows
  std::optional<std::size_t> task_{};
  std::size_t tasks_ = 0;
  std::uint32_t count_ = 0;
  std::unordered_map<pair_key, std::vector<overlap>, pair_hash> pairs_{};
  std::size_t kept_ = 0;
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_DIVISIONS)

#include <functional>

#include <unity/parallel/box.hpp>

namespace unity::parallel {

UNITY_INLINE void division_table::make_room() {
  if (tasks_ > most_tasks) {
    kinds_.clear();
    pairs_.clear();
    kept_ = tasks_ = 0;
  }
}

UNITY_INLINE std::span<const overlap> division_table::overlaps(const division& from, std::uint32_t result,
                                                               const division& to,
                                                               std::span<const std::uint32_t> operands) {
  const pair_key key{from.number, to.number, result, small_vector<std::uint32_t, 4>{operands}};
  if (const auto found = pairs_.find(key); found != pairs_.end()) {
    return found->second;
  }
  std::vector<box> written;
  for (std::uint32_t b = 0; b < from.blocks; ++b) {
    written.push_back(from.parts[b].results[result]);
  }
  std::vector<box> read;
  for (const auto i : operands) {
    for (const auto& part : to.parts) {
      read.push_back(part.operands[i]);
    }
  }
  auto all = overlaps_of(written, read);
  if (kept_ + all.size() > most_kept) {
    pairs_.clear();
    kept_ = 0;
  }
  kept_ += all.size();
  return pairs_.emplace(key, std::move(all)).first->second;
}

UNITY_INLINE void division_table::divide(const operator_dimensions& o, const task_grid& grid, division& d) const {
  if (task_) {
    d.parts = {shard_of(o, grid, *task_)};
    for (const auto& b : d.parts[0].operands) {
      d.operands.push_back(distinct({&b, 1}));
    }
    d.partials.resize(o.inputs.size());
    d.readers.assign(o.inputs.size(), {0});
    return;
  }
  d.parts = shards_of(o, grid);
  d.blocks = static_cast<std::uint32_t>(grid.blocks());
  d.reductions = static_cast<std::uint32_t>(product(grid.reductions));
  d.copies = static_cast<std::uint32_t>(grid.copies);
  d.result_partials = static_cast<std::uint32_t>(grid.result_partials());
  std::vector<box> boxes;
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    d.partials.push_back(partials_of(o, grid, i));
    auto& readers = d.readers.emplace_back();
    boxes.clear();
    for (std::uint32_t t = 0; t < d.parts.size(); ++t) {
      if (d.partials[i].of_task(t) == 0) {
        readers.push_back(t);
        boxes.push_back(d.parts[t].operands[i]);
      }
    }
    d.operands.push_back(distinct(boxes));
  }
}

UNITY_INLINE std::size_t division_table::pair_hash::operator()(const pair_key& k) const noexcept {
  auto h = hash_combine(std::uint64_t{k.from} << 32U | k.to, k.result);
  for (const auto i : k.operands) {
    h = hash_combine(h, i);
  }
  return h;
}

}  // namespace unity::parallel

#endif
