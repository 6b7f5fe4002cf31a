// Caches the code of equal edges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/program/fragment.hpp>

namespace unity::parallel {

// Everything that determines the code of an edge, except the fragments of its ends. Refers to lists and configurations,
// or owns them.
template <class Operands, class Configuration>
struct basic_edge_pattern_key {
  std::uint32_t from = 0;  // kinds of operators (graph_dimensions)
  std::uint32_t to = 0;
  std::uint32_t result = 0;
  bool is_wanted = false;
  bool consumer_keeps = false;
  Operands operands;
  Configuration producer;
  Configuration consumer;
};
using edge_pattern_key = basic_edge_pattern_key<std::span<const std::uint32_t>, const configuration&>;

// A cache of code with placeholders for the fragments of the ends. A value; it is emptied when it becomes too large.
class edge_patterns {
 public:
  static constexpr program::fragment_id producer{0xfffffff0U};
  static constexpr program::fragment_id consumer{0xfffffff1U};

  // Effects: sets `f` to the code between these ends. make(fragment): writes the code with the placeholders above;
  // called if it is not cached. Complexity: linear in the code.
  template <class Make>
  void write(const edge_pattern_key& key, program::fragment_id from, program::fragment_id to, program::fragment& f,
             const Make& make) {
    f = find(key, make);
    const auto name = [&](program::fragment_id& id) { id = id == producer ? from : id == consumer ? to : id; };
    for (auto& d : f.dependencies) {
      name(d.before.fragment);
      name(d.after.fragment);
    }
    for (auto& r : f.reads) {
      name(r.of.fragment);
      name(r.reader.fragment);
    }
  }

 private:
  struct pattern {
    basic_edge_pattern_key<std::vector<std::uint32_t>, configuration> key;
    program::fragment code{};
  };

  [[nodiscard]] static bool is_of(const pattern& p, const edge_pattern_key& k);
  template <class Make>
  const program::fragment& find(const edge_pattern_key& key, const Make& make) {
    const auto hash = hash_of(key);
    for (const auto& p : known_[hash]) {
      if (is_of(p, key)) {
        return p.code;
      }
    }
    pattern made{{key.from,
                  key.to,
                  key.result,
                  key.is_wanted,
                  key.consumer_keeps,
                  {key.operands.begin(), key.operands.end()},
                  key.producer,
                  key.consumer},
                 {}};
    make(made.code);
    held_ +=
        64 + made.code.tasks.size() + made.code.dependencies.size() + made.code.buffers.size() + made.code.reads.size();
    if (held_ > most) {
      known_.clear();
      held_ = 0;
    }
    auto& all = known_[hash];
    all.push_back(std::move(made));
    return all.back().code;
  }
  [[nodiscard]] static std::uint64_t hash_of(const edge_pattern_key& k);

  static constexpr std::size_t most = std::size_t{1} << 22U;  // entries of code: about 150 MB
  std::unordered_map<std::uint64_t, std::vector<pattern>> known_{};
  std::size_t held_ = 0;
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_EDGE_PATTERNS)

#include <algorithm>

#include <unity/core/hash.hpp>

namespace unity::parallel {

UNITY_INLINE bool edge_patterns::is_of(const pattern& p, const edge_pattern_key& k) {
  return p.key.from == k.from && p.key.to == k.to && p.key.result == k.result && p.key.is_wanted == k.is_wanted &&
         p.key.consumer_keeps == k.consumer_keeps && std::ranges::equal(p.key.operands, k.operands) &&
         p.key.producer == k.producer && p.key.consumer == k.consumer;
}

UNITY_INLINE std::uint64_t edge_patterns::hash_of(const edge_pattern_key& k) {
  auto h = hash_combine(hash_combine(k.from, k.to), k.result);
  for (const auto* c : {&k.producer, &k.consumer}) {
    for (const auto d : c->degrees) {
      h = hash_combine(h, static_cast<std::uint64_t>(d));
    }
    for (const auto d : c->devices) {
      h = hash_combine(h, d.index());
    }
    for (const auto* list : {&c->reductions, &c->terms}) {
      for (const auto d : *list) {
        h = hash_combine(h, static_cast<std::uint64_t>(d));
      }
    }
    h = c->copies == 1 ? h : hash_combine(h, static_cast<std::uint64_t>(c->copies));
  }
  return h;
}

}  // namespace unity::parallel

#endif
