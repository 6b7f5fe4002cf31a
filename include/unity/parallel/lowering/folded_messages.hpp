// Folds messages: keeps one of each class that a symmetry maps to each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/lowering/messages.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/symmetry.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>

namespace unity::parallel {

// The order of simultaneously ready messages of a fragment on each link, which must be the same for their images.
class link_ties {
 public:
  link_ties(const link_orbits& links, std::size_t order) : links_{links}, order_{order} {}

  // Adds a hop of a message. Hops are ordered by `ties`, then `turn`, then `last_ties`; ties have an entry for each
  // image of the message.
  void add(program::resource_id link, std::span<const std::uint32_t> ties, std::uint32_t turn,
           std::span<const std::uint32_t> last_ties) {
    const auto at = links_.place(link);
    hops_.push_back({at.representative, at.shift, ties, turn, last_ties});
  }
  // The rank of each hop on the link that represents its link; nullopt if some images have a different order.
  // Complexity: linear in hops and order, plus sorting.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> ranks() const;

 private:
  struct hop_place {
    program::resource_id link{};
    std::uint32_t shift = 0;
    std::span<const std::uint32_t> ties{};
    std::uint32_t turn = 0;
    std::span<const std::uint32_t> last_ties{};
  };
  [[nodiscard]] std::array<std::uint32_t, 3> key(std::uint32_t h, std::size_t image) const;

  const link_orbits& links_;
  std::size_t order_;
  std::vector<hop_place> hops_{};
};

// The needs of an edge for representative tasks; tasks are numbered among these.
struct folded_messages {
  struct item {
    std::uint32_t producer = 0;
    std::vector<std::uint32_t> consumers{};
    std::int64_t elements = 0;
    machine::device_id from{};
    machine::device_id to{};             // may be any device
    std::vector<std::uint32_t> there{};  // rank of each hop on its link (link_ties)
    std::vector<std::uint32_t> back{};
  };
  std::vector<local_use> local{};
  std::vector<item> messages{};
};

// The operators at the ends of an edge.
struct folded_ends {
  const task_orbits* producers = nullptr;
  const task_orbits* consumers = nullptr;
  std::span<const machine::device_id> from{};  // by task
};

namespace detail {

class message_folder {
 public:
  message_folder(const device_symmetry& s, network& n, link_orbits& links, const folded_ends& e)
      : symmetry_{s}, network_{n}, links_{links}, ends_{e} {}

  // Returns the reason if folding is not possible, otherwise an empty string.
  [[nodiscard]] std::string run(const edge_messages& all, folded_messages& result);

 private:
  [[nodiscard]] bool keeps_local(const edge_messages& all) const;
  // Pairs several messages from one task to one device with their images in order.
  [[nodiscard]] bool find_images(const edge_messages& all);
  [[nodiscard]] bool alike(const edge_messages& all, std::uint32_t a, std::uint32_t b) const;
  void fold(const edge_messages& all, folded_messages& result);
  [[nodiscard]] std::string order(folded_messages& result);

  const device_symmetry& symmetry_;
  network& network_;
  link_orbits& links_;
  const folded_ends& ends_;
  std::vector<std::uint32_t> image_{};
  std::vector<std::uint32_t> ties_{};  // for each folded message, its images
};

}  // namespace detail

// Effects: fills `result` and admits the links that it uses. Returns the reason if the symmetry does not map messages
// to equal messages between corresponding tasks, otherwise an empty string. Complexity: linear in messages and their
// routes, plus sorting.
[[nodiscard]] inline std::string fold_messages(const device_symmetry& s, network& n, link_orbits& links,
                                               const folded_ends& e, const edge_messages& all,
                                               folded_messages& result) {
  return detail::message_folder{s, n, links, e}.run(all, result);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_FOLDED_MESSAGES)

#include <algorithm>
#include <numeric>
#include <tuple>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE std::optional<std::vector<std::uint32_t>> link_ties::ranks() const {
  std::vector<std::uint32_t> sorted(hops_.size());
  std::iota(sorted.begin(), sorted.end(), std::uint32_t{0});
  std::sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple{hops_[a].link, key(a, 0)} < std::tuple{hops_[b].link, key(b, 0)};
  });
  std::vector<std::uint32_t> all(hops_.size(), 0);
  for (std::size_t k = 1; k < sorted.size(); ++k) {
    const auto a = sorted[k - 1];
    const auto b = sorted[k];
    if (hops_[a].link != hops_[b].link) {
      continue;
    }
    all[b] = all[a] + 1;
    for (std::size_t i = 0; i < order_; ++i) {
      if (!(key(a, i) < key(b, i))) {
        return std::nullopt;
      }
    }
  }
  return all;
}

UNITY_INLINE std::array<std::uint32_t, 3> link_ties::key(std::uint32_t h, std::size_t image) const {
  const auto& x = hops_[h];
  const auto k = (x.shift + image) % order_;
  return {x.ties[k], x.turn, x.last_ties[k]};
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::string message_folder::run(const edge_messages& all, folded_messages& result) {
  if (!keeps_local(all)) {
    return "tasks that read what their device wrote, but not on all devices alike";
  }
  if (!find_images(all)) {
    return "messages that do not have the same on other devices";
  }
  fold(all, result);
  return order(result);
}

UNITY_INLINE bool message_folder::keeps_local(const edge_messages& all) const {
  const auto key = [](std::uint32_t p, std::uint32_t c) { return std::uint64_t{p} << 32U | c; };
  std::vector<std::uint64_t> uses;
  std::vector<std::uint64_t> images;
  for (const auto& u : all.local) {
    uses.push_back(key(u.producer, u.consumer));
    images.push_back(key(ends_.producers->image[u.producer], ends_.consumers->image[u.consumer]));
  }
  std::sort(uses.begin(), uses.end());
  std::sort(images.begin(), images.end());
  return uses == images;
}

UNITY_INLINE bool message_folder::find_images(const edge_messages& all) {
  using route_key = std::pair<std::uint32_t, machine::device_id>;
  std::vector<std::pair<route_key, std::uint32_t>> sorted;
  for (std::uint32_t m = 0; m < all.messages.size(); ++m) {
    sorted.push_back({{all.messages[m].producer, all.messages[m].to}, m});
  }
  std::sort(sorted.begin(), sorted.end());
  image_.resize(sorted.size());
  for (std::size_t i = 0; i < sorted.size();) {
    const auto& [producer, to] = sorted[i].first;
    const route_key there{ends_.producers->image[producer], symmetry_.image(to)};
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), std::pair{there, std::uint32_t{0}});
    auto j = static_cast<std::size_t>(found - sorted.begin());
    const auto key = sorted[i].first;
    for (; i < sorted.size() && sorted[i].first == key; ++i, ++j) {
      if (j == sorted.size() || sorted[j].first != there || !alike(all, sorted[i].second, sorted[j].second)) {
        return false;
      }
      image_[sorted[i].second] = sorted[j].second;
    }
    if (j < sorted.size() && sorted[j].first == there) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool message_folder::alike(const edge_messages& all, std::uint32_t a, std::uint32_t b) const {
  std::vector<std::uint32_t> images;
  for (const auto c : all.consumers_of(all.messages[a])) {
    images.push_back(ends_.consumers->image[c]);
  }
  std::sort(images.begin(), images.end());
  const auto consumers = all.consumers_of(all.messages[b]);
  return all.messages[a].elements == all.messages[b].elements &&
         std::equal(images.begin(), images.end(), consumers.begin(), consumers.end());
}

UNITY_INLINE void message_folder::fold(const edge_messages& all, folded_messages& result) {
  for (const auto& u : all.local) {
    if (symmetry_.represents(ends_.from[u.producer])) {
      result.local.push_back({ends_.producers->folded[u.producer], ends_.consumers->folded[u.consumer]});
    }
  }
  for (std::uint32_t m = 0; m < all.messages.size(); ++m) {
    const auto& x = all.messages[m];
    if (!symmetry_.represents(ends_.from[x.producer])) {
      continue;
    }
    result.messages.push_back(
        {ends_.producers->folded[x.producer], {}, x.elements, ends_.from[x.producer], x.to, {}, {}});
    for (const auto c : all.consumers_of(x)) {
      result.messages.back().consumers.push_back(ends_.consumers->folded[c]);
    }
    auto at = m;
    for (std::size_t k = 0; k < symmetry_.order(); ++k) {
      ties_.push_back(at);  // messages are ordered as ties
      at = image_[at];
    }
  }
}

UNITY_INLINE std::string message_folder::order(folded_messages& result) {
  constexpr std::uint32_t back = 1U << 16U;
  const auto images = symmetry_.order();
  link_ties ties{links_, images};
  for (std::size_t m = 0; m < result.messages.size(); ++m) {
    auto& x = result.messages[m];
    for (const auto& [from, to, first] : {std::tuple{x.from, x.to, std::uint32_t{0}}, std::tuple{x.to, x.from, back}}) {
      if (auto reason = links_.admit(from, to); !reason.empty()) {
        return reason;
      }
      std::uint32_t turn = first;
      for (const auto& l : network_.route(from, to)) {
        const auto places = std::span{ties_}.subspan(m * images, images);
        ties.add(l.resource, places, turn++, places);
      }
      (first == 0 ? x.there : x.back).resize(turn - first);
    }
  }
  const auto ranks = ties.ranks();
  if (!ranks) {
    return "messages that take turns on a link in another order than their images";
  }
  auto next = ranks->begin();
  for (auto& x : result.messages) {
    for (auto* list : {&x.there, &x.back}) {
      std::copy_n(next, list->size(), list->begin());
      next += static_cast<std::ptrdiff_t>(list->size());
    }
  }
  return {};
}

}  // namespace unity::parallel::detail

#endif
