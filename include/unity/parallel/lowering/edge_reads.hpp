// Chooses the tasks from which each task reads a value that is a sum of partials or has copies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/lowering/messages.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/operand_partials.hpp>

namespace unity::parallel {

// One block of a value: the partials whose sum some readers need, and these readers.
struct term_sum {
  std::uint32_t block = 0;
  std::vector<std::uint32_t> producers{};  // one task per partial
  std::vector<std::uint32_t> readers{};    // ascending; numbered as in overlaps

  friend bool operator==(const term_sum&, const term_sum&) = default;
};

struct edge_reads {
  std::vector<overlap> single{};  // read from a single task; producers are tasks here. Ordered by producer, then reader
  std::vector<term_sum> sums{};

  friend bool operator==(const edge_reads&, const edge_reads&) = default;
};

// Two operators with the devices of their tasks.
struct divided_edge {
  const division& from;
  std::span<const hardware::device_id> producers{};  // by task
  const division& to;
  std::span<const hardware::device_id> consumers{};
  std::span<const std::uint32_t> operands{};  // operands of the second operator that are the value
};

// Whether each block is written as a whole by exactly one task, and every operand has a single partial.
[[nodiscard]] inline bool is_single(const division& from, const division& to, std::span<const std::uint32_t> operands) {
  return from.copies == 1 && from.result_partials == 1 &&
         std::all_of(operands.begin(), operands.end(), [&](std::uint32_t i) { return to.partials[i].count == 1; });
}

namespace detail {

class edge_reader {
 public:
  edge_reader(const network& n, const divided_edge& e) : network_{n}, edge_{e} {}

  [[nodiscard]] edge_reads run(std::span<const overlap> overlaps) &&;

 private:
  // A block, and a range of partials.
  using key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

  [[nodiscard]] std::uint32_t first_term(std::uint32_t u, std::uint32_t classes) const {
    return u * edge_.from.result_partials / classes;
  }
  [[nodiscard]] hardware::device_id reader_device(std::uint32_t reader) const {
    return edge_.consumers[reader % edge_.consumers.size()];
  }
  [[nodiscard]] bool holds(const key& at, std::uint32_t copy, hardware::device_id d) const;

  // For each partial of the operand, the class of the value's partials that it stands for; pairs with the most elements
  // already on the same device come first. Complexity: linear in classes times overlaps or partials, besides sorting.
  template <class IsOf>
  [[nodiscard]] std::vector<std::optional<std::uint32_t>> matched(std::span<const overlap> overlaps,
                                                                  const operand_partials& partials,
                                                                  std::uint32_t classes, const IsOf& is_of) const {
    std::vector<std::optional<std::uint32_t>> class_of(partials.count);
    if (partials.count == 1) {
      class_of[0] = 0;
      return class_of;
    }
    std::vector<std::int64_t> local(std::size_t{classes} * partials.count, 0);
    for (const auto& o : overlaps) {
      for (std::uint32_t u = 0; is_of(o) && u < classes; ++u) {
        const key at{o.producer, first_term(u, classes), first_term(u + 1, classes)};
        bool is_there = false;
        for (std::uint32_t c = 0; c < edge_.from.copies && !is_there; ++c) {
          is_there = holds(at, c, reader_device(o.consumer));
        }
        local[u * partials.count + partials.of_task(o.consumer % edge_.consumers.size())] += is_there ? o.elements : 0;
      }
    }
    std::vector<std::size_t> best;  // pairs, best first; with many partials, most pairs have nothing in common
    for (std::size_t at = 0; at < local.size(); ++at) {
      if (local[at] > 0) {
        best.push_back(at);
      }
    }
    unity::stable_sort(best, [&](std::size_t x, std::size_t y) { return local[x] > local[y]; });
    std::vector<bool> is_taken(classes);
    const auto match = [&](std::size_t u, std::size_t partial) {
      if (!is_taken[u] && !class_of[partial]) {
        is_taken[u] = true;
        class_of[partial] = static_cast<std::uint32_t>(u);
      }
    };
    for (const auto at : best) {
      match(at / partials.count, at % partials.count);
    }
    std::size_t partial = 0;
    for (std::size_t u = 0; u < classes; ++u) {
      while (!is_taken[u]) {
        match(u, partial++);
      }
    }
    return class_of;
  }

  void add(const key& at, std::span<const overlap> readers);
  // The copy that each device reads: one of which it holds a partial, if there is one; otherwise one of which its node
  // holds a partial, if there is one; among these, the copy with the fewest readers so far.
  [[nodiscard]] std::map<hardware::device_id, std::uint32_t> copies(const key& at,
                                                                    std::span<const overlap> readers) const;
  [[nodiscard]] bool is_near(const key& at, std::uint32_t copy, hardware::device_id d) const;

  const network& network_;
  const divided_edge& edge_;
  edge_reads all_{};
};

}  // namespace detail

// overlaps: between blocks of the result and what tasks read, operand by operand (division_table::overlaps). If a value
// of p partials is read as an operand of q partials: with p > q, each of the q is the sum of a class of about p / q
// partials; otherwise p of the operand's partials are partials of the value, and the others are zero and read nothing.
// The sum does not depend on the assignment; pairs with the most elements on the same device are chosen first. A device
// reads one of the copies. Complexity: overlaps times partials and copies, apart from logarithms.
[[nodiscard]] inline edge_reads reads_of(const network& n, const divided_edge& e, std::span<const overlap> overlaps) {
  return detail::edge_reader{n, e}.run(overlaps);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_EDGE_READS)

namespace unity::parallel::detail {

UNITY_INLINE edge_reads edge_reader::run(std::span<const overlap> overlaps) && {
  const auto tasks = edge_.consumers.size();
  std::map<key, std::vector<overlap>> rows;
  for (std::size_t i = 0; i < edge_.operands.size(); ++i) {
    const auto& partials = edge_.to.partials[edge_.operands[i]];
    const auto is_of = [&](const overlap& o) { return o.consumer / tasks == i; };
    const auto classes = std::min(edge_.from.result_partials, partials.count);
    const auto class_of = matched(overlaps, partials, classes, is_of);
    for (const auto& o : overlaps) {
      const auto u = is_of(o) ? class_of[partials.of_task(o.consumer % tasks)] : std::nullopt;
      if (u) {
        rows[{o.producer, first_term(*u, classes), first_term(*u + 1, classes)}].push_back(o);
      }
    }
  }
  for (auto& [at, readers] : rows) {
    add(at, readers);
  }
  std::sort(all_.single.begin(), all_.single.end(), [](const overlap& a, const overlap& b) {
    return std::pair{a.producer, a.consumer} < std::pair{b.producer, b.consumer};
  });
  return std::move(all_);
}

UNITY_INLINE bool edge_reader::holds(const key& at, std::uint32_t copy, hardware::device_id d) const {
  const auto [block, first, last] = at;
  for (auto partial = first; partial < last; ++partial) {
    if (edge_.producers[edge_.from.task(partial, copy, block)] == d) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE void edge_reader::add(const key& at, std::span<const overlap> readers) {
  const auto [block, first, last] = at;
  const auto copy_for = copies(at, readers);
  for (std::uint32_t c = 0; c < edge_.from.copies; ++c) {
    term_sum sum{block, {}, {}};
    for (const auto& o : readers) {
      if (copy_for.at(reader_device(o.consumer)) != c) {
        continue;
      }
      if (last - first == 1) {
        all_.single.push_back({edge_.from.task(first, c, block), o.consumer, o.elements});
      } else {
        sum.readers.push_back(o.consumer);
      }
    }
    if (!sum.readers.empty()) {
      for (auto partial = first; partial < last; ++partial) {
        sum.producers.push_back(edge_.from.task(partial, c, block));
      }
      all_.sums.push_back(std::move(sum));
    }
  }
}

UNITY_INLINE std::map<hardware::device_id, std::uint32_t> edge_reader::copies(const key& at,
                                                                              std::span<const overlap> readers) const {
  std::map<hardware::device_id, std::uint32_t> copy_for;
  for (const auto& o : readers) {
    copy_for.emplace(reader_device(o.consumer), 0U);
  }
  std::vector<std::uint32_t> taken(edge_.from.copies, 0);
  for (auto& [device, copy] : copy_for) {
    std::tuple<bool, bool, std::uint32_t> best{true, true, 0};
    for (std::uint32_t c = 0; c < edge_.from.copies; ++c) {
      const bool is_here = holds(at, c, device);
      const std::tuple rank{!is_here, !is_near(at, c, device), is_here ? 0U : taken[c]};
      if (c == 0 || rank < best) {
        best = rank;
        copy = c;
      }
    }
    ++taken[copy];
  }
  return copy_for;
}

UNITY_INLINE bool edge_reader::is_near(const key& at, std::uint32_t copy, hardware::device_id d) const {
  const auto [block, first, last] = at;
  for (auto partial = first; partial < last; ++partial) {
    if (network_.place(edge_.producers[edge_.from.task(partial, copy, block)]).node == network_.place(d).node) {
      return true;
    }
  }
  return false;
}

}  // namespace unity::parallel::detail

#endif
