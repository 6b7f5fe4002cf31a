// What collectives take where transfers do not contend: the alpha-beta model on the routes of a topology.
// Source: Hockney, The communication challenge for MPP, Parallel Computing 20(3),
// 1994; Thakur et al., IJHPCA 19(1), 2005.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/collective.hpp>
#include <unity/machine/routes.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

namespace detail {

// Rounds follow each other; one takes what its slowest transfer takes alone. Adding takes no time.
class collective_clock {
 public:
  collective_clock(const topology& t, const route_table& routes, const collective& c)
      : t_{t}, routes_{routes}, c_{c}, nodes_{by_node(t, c.devices)} {}

  [[nodiscard]] picoseconds run();

 private:
  [[nodiscard]] static picoseconds times(std::size_t count, picoseconds t) {
    return picoseconds{static_cast<std::int64_t>(count) * t.count()};
  }
  [[nodiscard]] static picoseconds twice(picoseconds t) { return t + t; }
  [[nodiscard]] picoseconds alone(std::uint32_t from, std::uint32_t to, bytes size) const {
    return transfer_time(routes_.cost(t_, c_.devices[from], c_.devices[to]), size);
  }
  // The largest of `count` parts out of one part per rank.
  [[nodiscard]] bytes parts(std::size_t count) const {
    const auto ranks = static_cast<std::int64_t>(c_.devices.size());
    return bytes{(c_.size.count() + ranks - 1) / ranks * static_cast<std::int64_t>(count)};
  }
  [[nodiscard]] bytes one_part() const { return parts(1); }
  // Of trees along which all of it goes, whatever is below.
  struct whole_size {
    bytes size;
    bytes operator()(std::size_t) const noexcept { return size; }
  };
  [[nodiscard]] whole_size whole() const noexcept { return {c_.size}; }

  // One step less than places; in each all send a block of that size to the next.
  [[nodiscard]] picoseconds ring(const team& ranks, bytes block) const;
  [[nodiscard]] picoseconds shifts(const team& ranks, bytes block) const;
  template <class F>
  [[nodiscard]] picoseconds slowest_node(const F& f) const {
    picoseconds slowest{};
    for (const auto& n : nodes_) {
      slowest = std::max(slowest, f(n));
    }
    return slowest;
  }
  template <class F>
  [[nodiscard]] picoseconds slowest_column(const F& f) const {
    picoseconds slowest{};
    for (std::size_t i = 0; i < nodes_.front().size(); ++i) {
      slowest = std::max(slowest, f(across(nodes_, i)));
    }
    return slowest;
  }
  // Blocks of a column inside the nodes, of a rank between them.
  [[nodiscard]] picoseconds two_rings() const {
    return slowest_node([&](const team& n) { return ring(n, parts(nodes_.size())); }) +
           slowest_column([&](const team& column) { return ring(column, one_part()); });
  }
  [[nodiscard]] picoseconds two_shifts() const {
    return slowest_node([&](const team& n) { return shifts(n, parts(nodes_.size())); }) +
           slowest_column([&](const team& column) { return shifts(column, parts(nodes_.front().size())); });
  }

  // size(subtree's places) -> bytes of a transfer
  template <class F>
  [[nodiscard]] picoseconds binomial(const team& ranks, const F& size) const {
    picoseconds sum{};
    for (auto step = widest_step(ranks.size()); step > 0; step /= 2) {
      picoseconds slowest{};
      binomial_round(ranks.size(), step, [&](std::size_t parent, std::size_t child) {
        const auto moved = size(std::min(step, ranks.size() - child));
        slowest =
            std::max({slowest, alone(ranks[parent], ranks[child], moved), alone(ranks[child], ranks[parent], moved)});
      });
      sum += slowest;
    }
    return sum;
  }
  // Everything to or from the first, and the parts of a subtree the other way.
  [[nodiscard]] picoseconds to_one_and_back() const {
    const auto ranks = all_of(nodes_);
    return binomial(ranks, whole()) + binomial(ranks, [this](std::size_t places) { return parts(places); });
  }
  [[nodiscard]] picoseconds broadcast();
  // One part per rank through all links, one behind the other: the first through all, the others behind the slowest.
  [[nodiscard]] picoseconds chain(const team& ranks) const;
  [[nodiscard]] picoseconds bruck() const;

  const topology& t_;
  const route_table& routes_;
  const collective& c_;
  std::vector<team> nodes_;
};

}  // namespace detail

// What the collective takes when no transfer waits for another's link: rounds one after the other, each as long as its
// slowest transfer alone. An upper bound of what lower(t, c) takes without contention, and equal to it where all links
// and parts are alike.
// Complexity: linear in the ranks for a ring, p log p for a tree, p^2 for all_to_all; times the links of a route.
[[nodiscard]] inline picoseconds collective_time(const topology& t, const route_table& routes, const collective& c) {
  detail::check_collective(t, c);
  return c.devices.size() < 2 ? picoseconds{} : detail::collective_clock{t, routes, c}.run();
}

// The algorithm for which collective_time is least, and that time; the first of those alike. Ignores c.how.
[[nodiscard]] std::pair<collective_algorithm, picoseconds> fastest_algorithm(const topology& t,
                                                                             const route_table& routes, collective c);

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_COST)

#include <array>

#include <unity/machine/link.hpp>

namespace unity::machine::detail {

UNITY_INLINE picoseconds collective_clock::run() {
  const bool tree = c_.how == collective_algorithm::tree;
  const bool grid = c_.how == collective_algorithm::hierarchical && is_grid(nodes_);
  const auto around = [&] { return grid ? two_rings() : ring(all_of(nodes_), one_part()); };
  switch (c_.kind) {
    case exchange::message: return alone(0, 1, c_.size);
    case exchange::all_reduce: return tree ? twice(binomial(all_of(nodes_), whole())) : twice(around());
    case exchange::reduce_scatter:
    case exchange::all_gather: return tree ? to_one_and_back() : around();
    case exchange::broadcast: return broadcast();
    case exchange::all_to_all: return tree ? bruck() : grid ? two_shifts() : shifts(all_of(nodes_), one_part());
  }
  return {};
}

UNITY_INLINE picoseconds collective_clock::ring(const team& ranks, bytes block) const {
  picoseconds slowest{};
  for (std::size_t x = 0; x < ranks.size(); ++x) {
    slowest = std::max(slowest, alone(ranks[x], ranks[(x + 1) % ranks.size()], block));
  }
  return times(ranks.size() - 1, slowest);
}

UNITY_INLINE picoseconds collective_clock::shifts(const team& ranks, bytes block) const {
  picoseconds sum{};
  for (std::size_t shift = 1; shift < ranks.size(); ++shift) {
    picoseconds slowest{};
    for (std::size_t x = 0; x < ranks.size(); ++x) {
      slowest = std::max(slowest, alone(ranks[x], ranks[(x + shift) % ranks.size()], block));
    }
    sum += slowest;
  }
  return sum;
}

UNITY_INLINE picoseconds collective_clock::broadcast() {
  const auto root = static_cast<std::uint32_t>(c_.root);
  switch (c_.how) {
    case collective_algorithm::ring: return chain(starting_with(all_of(nodes_), root));
    case collective_algorithm::tree: return binomial(starting_with(all_of(nodes_), root), whole());
    case collective_algorithm::hierarchical: {
      const auto first = leaders(nodes_, root);
      return binomial(first, whole()) + slowest_node([&](const team& n) { return binomial(n, whole()); });
    }
  }
  return {};
}

UNITY_INLINE picoseconds collective_clock::chain(const team& ranks) const {
  picoseconds first{};
  picoseconds slowest{};
  for (std::size_t x = 0; x + 1 < ranks.size(); ++x) {
    const auto link = alone(ranks[x], ranks[x + 1], one_part());
    first += link;
    slowest = std::max(slowest, link);
  }
  return first + times(ranks.size() - 1, slowest);
}

UNITY_INLINE picoseconds collective_clock::bruck() const {
  const auto ranks = all_of(nodes_);
  picoseconds sum{};
  for (std::size_t bit = 1; bit < ranks.size(); bit *= 2) {
    std::size_t blocks = 0;
    for (std::size_t distance = bit; distance < ranks.size(); ++distance) {
      blocks += (distance & bit) != 0 ? 1 : 0;
    }
    picoseconds slowest{};
    for (std::size_t x = 0; x < ranks.size(); ++x) {
      slowest = std::max(slowest, alone(ranks[x], ranks[(x + bit) % ranks.size()], parts(blocks)));
    }
    sum += slowest;
  }
  return sum;
}

}  // namespace unity::machine::detail

namespace unity::machine {

UNITY_INLINE std::pair<collective_algorithm, picoseconds> fastest_algorithm(const topology& t,
                                                                            const route_table& routes, collective c) {
  std::pair<collective_algorithm, picoseconds> best{};
  for (std::size_t a = 0; a < collective_algorithm_names.size(); ++a) {
    c.how = static_cast<collective_algorithm>(a);
    if (const auto time = collective_time(t, routes, c); a == 0 || time < best.second) {
      best = {c.how, time};
    }
  }
  return best;
}

}  // namespace unity::machine

#endif
