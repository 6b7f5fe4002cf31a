// Messages between devices that bring every task what it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>

namespace unity::parallel {

// A task reads elements that another one wrote.
struct overlap {
  std::uint32_t producer = 0;
  std::uint32_t consumer = 0;
  std::int64_t elements = 0;

  friend bool operator==(const overlap&, const overlap&) = default;
};

namespace detail {

// Finds the boxes that intersect a given one, fast if the boxes are the cells of a grid; otherwise tests each box.
class box_finder {
 public:
  explicit box_finder(std::span<const box> boxes);

  // Calls f(index, number of common elements) for each box that intersects `b`, in unspecified order.
  template <class F>
  void for_each(const box& b, const F& f) {
    if (b.empty()) {
      return;
    }
    if (cells_.empty()) {
      for (std::uint32_t i = 0; i < boxes_.size(); ++i) {
        if (const auto common = intersection(boxes_[i], b); !common.empty()) {
          f(i, common.volume());
        }
      }
      return;
    }
    pieces_.clear();
    pieces_.push_back({0, 1});
    for (std::size_t d = 0; d < cuts_.size(); ++d) {
      meet(cuts_[d], b.begin[d], b.end[d]);
    }
    for (const auto& p : pieces_) {
      f(cells_[p.cell], p.elements);
    }
  }

 private:
  struct piece {
    std::size_t cell;
    std::int64_t elements;
  };

  void find_cuts();
  // Leaves no cells if the boxes are not a full grid.
  void find_cells();
  // Extends the pieces by one dimension.
  void meet(const std::vector<std::int64_t>& cuts, std::int64_t begin, std::int64_t end);

  std::span<const box> boxes_;
  std::vector<std::vector<std::int64_t>> cuts_{};
  std::vector<std::uint32_t> cells_{};
  std::vector<piece> pieces_{};
  std::vector<piece> next_{};
};

}  // namespace detail

// Overlaps between boxes of one tensor, ordered by producer, then consumer; written boxes are disjoint. Complexity:
// linear in boxes and overlaps if the written boxes form a grid, otherwise O(written * read).
[[nodiscard]] std::vector<overlap> overlaps_of(std::span<const box> written, std::span<const box> read);

// A message from the task that wrote elements to a device on which tasks read them.
struct message {
  std::uint32_t producer = 0;  // a task
  hardware::device_id to{};
  std::int64_t elements = 0;
  // The tasks on that device that read some of the elements, ascending: consumer_count entries of the edge's
  // `consumers` from this index on.
  std::uint32_t first_consumer = 0;
  std::uint32_t consumer_count = 0;

  friend bool operator==(const message&, const message&) = default;
};

// A producer and a consumer on the same device.
struct local_use {
  std::uint32_t producer = 0;
  std::uint32_t consumer = 0;

  friend bool operator==(const local_use&, const local_use&) = default;
};

struct edge_messages {
  std::vector<local_use> local{};
  std::vector<message> messages{};
  std::vector<std::uint32_t> consumers{};

  [[nodiscard]] std::span<const std::uint32_t> consumers_of(const message& m) const {
    return {consumers.data() + m.first_consumer, m.consumer_count};
  }
  void clear() noexcept;

  friend bool operator==(const edge_messages&, const edge_messages&) = default;
};

// Finds the messages that one use of a value needs. An element is sent to a device once, for all tasks that read it
// there. All elements from one task to one device are one message, except that elements which only a later consumer
// needs are a separate message. Messages are ordered by producer, then first consumer. Reuses its memory: one per
// thread.
// Source: Jia's dissertation (2020), section 3.4.1, step 2.
class message_finder {
 public:
  // from, to: the devices of producers and consumers. common(producer, consumer): their intersection, called for pairs
  // that overlap if several tasks on a device read from the producer. Valid until the next call. Complexity: linear in
  // overlaps, besides what tasks on one device share.
  template <class Common>
  [[nodiscard]] edge_messages& run(std::span<const overlap> overlaps, std::span<const hardware::device_id> from,
                                   std::span<const hardware::device_id> to, const Common& common) {
    all_.clear();
    for (const auto d : to) {
      if (readers_.size() <= d.index()) {
        readers_.resize(d.index() + std::size_t{1}, 0);
      }
    }
    for (std::size_t begin = 0; begin < overlaps.size();) {
      auto end = begin;
      bool shared = false;
      for (; end < overlaps.size() && overlaps[end].producer == overlaps[begin].producer; ++end) {
        shared = ++readers_[to[overlaps[end].consumer].index()] > 1 || shared;
      }
      const auto row = overlaps.subspan(begin, end - begin);
      if (shared) {
        add_shared(row, from, to, common);
      } else {
        add(row, from, to);
      }
      for (const auto& o : row) {
        readers_[to[o.consumer].index()] = 0;
      }
      begin = end;
    }
    return all_;
  }

 private:
  void add(std::span<const overlap> row, std::span<const hardware::device_id> from,
           std::span<const hardware::device_id> to);
  struct sent_parts {
    message what{};
    std::vector<std::uint32_t> consumers{};
    std::vector<box> parts{};  // disjoint
  };
  template <class Common>
  void add_shared(std::span<const overlap> row, std::span<const hardware::device_id> from,
                  std::span<const hardware::device_id> to, const Common& common) {
    std::vector<sent_parts> sent;
    for (const auto& o : row) {
      const auto there = to[o.consumer];
      if (from[o.producer] == there) {
        all_.local.push_back({o.producer, o.consumer});
        continue;
      }
      const box read = common(o.producer, o.consumer);
      std::vector<box> rest{read};
      for (auto& before : sent) {
        if (readers_[there.index()] > 1 && before.what.to == there) {
          receive(before, read, o.consumer, rest);
        }
      }
      if (!rest.empty()) {
        sent.push_back({{o.producer, there, 0, 0, 0}, {o.consumer}, std::move(rest)});
      }
    }
    for (auto& s : sent) {
      for (const auto& b : s.parts) {
        s.what.elements += b.volume();
      }
      s.what.first_consumer = static_cast<std::uint32_t>(all_.consumers.size());
      s.what.consumer_count = static_cast<std::uint32_t>(s.consumers.size());
      all_.messages.push_back(s.what);
      all_.consumers.insert(all_.consumers.end(), s.consumers.begin(), s.consumers.end());
    }
  }
  // Removes elements that arrive with an earlier message from what another consumer needs.
  static void receive(sent_parts& before, const box& read, std::uint32_t consumer, std::vector<box>& rest);

  edge_messages all_{};
  std::vector<std::uint32_t> readers_{};  // of the producer's box, by device
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_MESSAGES)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE box_finder::box_finder(std::span<const box> boxes) : boxes_{boxes} {
  if (!boxes.empty()) {
    find_cuts();
    find_cells();
  }
}

UNITY_INLINE void box_finder::find_cuts() {
  cuts_.resize(boxes_.front().begin.size());
  for (std::size_t d = 0; d < cuts_.size(); ++d) {
    for (const auto& b : boxes_) {
      if (cuts_[d].empty() || cuts_[d].back() != b.begin[d]) {
        cuts_[d].push_back(b.begin[d]);
      }
    }
    std::sort(cuts_[d].begin(), cuts_[d].end());
    cuts_[d].erase(std::unique(cuts_[d].begin(), cuts_[d].end()), cuts_[d].end());
    auto last = boxes_.front().end[d];
    for (const auto& b : boxes_) {
      last = std::max(last, b.end[d]);
    }
    cuts_[d].push_back(last);
  }
}

UNITY_INLINE void box_finder::find_cells() {
  std::size_t count = 1;
  for (const auto& c : cuts_) {
    count *= c.size() - 1;
  }
  constexpr auto none = static_cast<std::uint32_t>(-1);
  if (count != boxes_.size()) {
    return;
  }
  cells_.assign(count, none);
  for (std::uint32_t i = 0; i < boxes_.size(); ++i) {
    std::size_t cell = 0;
    bool fits = true;
    for (std::size_t d = 0; d < cuts_.size(); ++d) {
      const auto at = std::lower_bound(cuts_[d].begin(), cuts_[d].end(), boxes_[i].begin[d]);
      fits = fits && at + 1 != cuts_[d].end() && *(at + 1) == boxes_[i].end[d];
      cell = cell * (cuts_[d].size() - 1) + static_cast<std::size_t>(at - cuts_[d].begin());
    }
    if (!fits || cells_[cell] != none) {
      cells_.clear();
      return;
    }
    cells_[cell] = i;
  }
}

UNITY_INLINE void box_finder::meet(const std::vector<std::int64_t>& cuts, std::int64_t begin, std::int64_t end) {
  next_.clear();
  const auto first = std::upper_bound(cuts.begin(), cuts.end() - 1, begin) - cuts.begin();
  const auto from = static_cast<std::size_t>(std::max<std::ptrdiff_t>(first - 1, 0));
  for (const auto& p : pieces_) {
    for (auto k = from; k + 1 < cuts.size() && cuts[k] < end; ++k) {
      const auto size = std::min(end, cuts[k + 1]) - std::max(begin, cuts[k]);
      if (size > 0) {
        next_.push_back({p.cell * (cuts.size() - 1) + k, p.elements * size});
      }
    }
  }
  pieces_.swap(next_);
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<overlap> overlaps_of(std::span<const box> written, std::span<const box> read) {
  detail::box_finder find{written};
  std::vector<overlap> found;
  std::vector<std::size_t> first(written.size() + 1, 0);
  for (std::uint32_t c = 0; c < read.size(); ++c) {
    find.for_each(read[c], [&](std::uint32_t p, std::int64_t elements) {
      found.push_back({p, c, elements});
      ++first[p + std::size_t{1}];
    });
  }
  for (std::size_t p = 0; p < written.size(); ++p) {
    first[p + 1] += first[p];
  }
  std::vector<overlap> all(found.size());
  for (const auto& o : found) {
    all[first[o.producer]++] = o;
  }
  return all;
}

UNITY_INLINE void edge_messages::clear() noexcept {
  local.clear();
  messages.clear();
  consumers.clear();
}

UNITY_INLINE void message_finder::add(std::span<const overlap> row, std::span<const hardware::device_id> from,
                                      std::span<const hardware::device_id> to) {
  for (const auto& o : row) {
    if (from[o.producer] == to[o.consumer]) {
      all_.local.push_back({o.producer, o.consumer});
    } else {
      all_.messages.push_back(
          {o.producer, to[o.consumer], o.elements, static_cast<std::uint32_t>(all_.consumers.size()), 1});
      all_.consumers.push_back(o.consumer);
    }
  }
}

UNITY_INLINE void message_finder::receive(sent_parts& before, const box& read, std::uint32_t consumer,
                                          std::vector<box>& rest) {
  bool reads = false;
  std::vector<box> left;
  for (const auto& part : before.parts) {
    reads = reads || !intersection(part, read).empty();
    left.clear();
    for (const auto& b : rest) {
      subtract(b, part, left);
    }
    rest.swap(left);
  }
  if (reads) {
    before.consumers.push_back(consumer);
  }
}

}  // namespace unity::parallel

#endif
