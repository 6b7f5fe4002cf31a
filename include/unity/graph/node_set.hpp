// Sets of nodes of one graph, a bit for each node.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>

namespace unity {

// A set that lies elsewhere: node n is bit n % 64 of word n / 64. Cheap to copy; valid while its owner is.
class node_set_view {
 public:
  using word = std::uint64_t;

  node_set_view() = default;
  explicit node_set_view(std::span<const word> words) noexcept : words_{words} {}

  [[nodiscard]] bool contains(node_id n) const {
    UNITY_EXPECTS(n.index() / 64 < words_.size(), "a node of the graph");
    return ((words_[n.index() / 64] >> (n.index() % 64)) & 1U) != 0;
  }
  [[nodiscard]] std::size_t size() const noexcept {
    std::size_t count = 0;
    for (const word w : words_) {
      count += static_cast<std::size_t>(std::popcount(w));
    }
    return count;
  }
  [[nodiscard]] std::span<const word> words() const noexcept { return words_; }

  // The members, ascending. Complexity: O(words + members).
  [[nodiscard]] std::vector<node_id> to_vector() const {
    std::vector<node_id> nodes;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (word rest = words_[i]; rest != 0; rest &= rest - 1) {
        nodes.emplace_back(i * 64 + static_cast<std::size_t>(std::countr_zero(rest)));
      }
    }
    return nodes;
  }

 private:
  std::span<const word> words_;
};

// Whether two sets of nodes of one graph share a member. Complexity: O(words).
[[nodiscard]] inline bool intersects(node_set_view a, node_set_view b) {
  UNITY_EXPECTS(a.words().size() == b.words().size(), "two sets of nodes of one graph");
  for (std::size_t i = 0; i < a.words().size(); ++i) {
    if ((a.words()[i] & b.words()[i]) != 0) {
      return true;
    }
  }
  return false;
}

// A set that owns its bits. Regular.
class node_set {
 public:
  using word = node_set_view::word;

  node_set() = default;
  explicit node_set(std::size_t node_count) : words_((node_count + 63) / 64) {}
  node_set(std::size_t node_count, std::span<const node_id> members) : node_set{node_count} {
    for (const node_id n : members) {
      insert(n);
    }
  }
  explicit node_set(node_set_view members) : words_{members.words().begin(), members.words().end()} {}

  void insert(node_id n) {
    UNITY_EXPECTS(n.index() / 64 < words_.size(), "a node of the graph");
    words_[n.index() / 64] |= word{1} << (n.index() % 64);
  }
  void insert(node_set_view nodes) {
    UNITY_EXPECTS(nodes.words().size() == words_.size(), "two sets of nodes of one graph");
    for (std::size_t i = 0; i < words_.size(); ++i) {
      words_[i] |= nodes.words()[i];
    }
  }
  void erase(node_id n) {
    UNITY_EXPECTS(n.index() / 64 < words_.size(), "a node of the graph");
    words_[n.index() / 64] &= ~(word{1} << (n.index() % 64));
  }

  [[nodiscard]] bool contains(node_id n) const { return view().contains(n); }
  [[nodiscard]] std::size_t size() const noexcept { return view().size(); }
  [[nodiscard]] std::vector<node_id> to_vector() const { return view().to_vector(); }
  [[nodiscard]] node_set_view view() const noexcept { return node_set_view{words_}; }
  // A set serves wherever a view is asked for.
  operator node_set_view() const noexcept { return view(); }  // NOLINT(google-explicit-constructor)

  friend bool operator==(const node_set&, const node_set&) = default;

 private:
  std::vector<word> words_;
};

}  // namespace unity
