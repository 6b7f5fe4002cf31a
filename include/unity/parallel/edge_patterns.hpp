// The code of edges that are alike, made once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/program/fragment.hpp>

namespace unity::parallel {

// All that the code of an edge depends on, but for the fragments of its ends.
struct edge_pattern_key {
  std::uint32_t from = 0;  // kinds of operators (graph_dimensions)
  std::uint32_t to = 0;
  std::uint32_t result = 0;
  std::vector<std::uint32_t> operands{};
  bool is_wanted = false;
  bool consumer_keeps = false;
  configuration producer{};
  configuration consumer{};

  friend bool operator==(const edge_pattern_key&, const edge_pattern_key&) = default;
};

// Code in which the ends are named producer and consumer. A value; it forgets all when it holds too much.
class edge_patterns {
 public:
  static constexpr program::fragment_id producer{0xfffffff0U};
  static constexpr program::fragment_id consumer{0xfffffff1U};

  // Effects: `f` becomes the code between these ends. make(fragment): the code with the names above, where it is not known.
  // Complexity: linear in the code.
  template <class Make>
  void write(edge_pattern_key key, program::fragment_id from, program::fragment_id to, program::fragment& f, const Make& make) {
    f = find(std::move(key), make);
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
    edge_pattern_key key{};
    program::fragment code{};
  };

  template <class Make>
  const program::fragment& find(edge_pattern_key key, const Make& make) {
    auto& alike = known_[hash_of(key)];
    for (const auto& p : alike) {
      if (p.key == key) {
        return p.code;
      }
    }
    pattern made{std::move(key), {}};
    make(made.code);
    held_ += 64 + made.code.tasks.size() + made.code.dependencies.size() + made.code.buffers.size() + made.code.reads.size();
    if (held_ > most) {
      known_.clear();
      held_ = 0;
    }
    auto& all = known_[hash_of(made.key)];
    all.push_back(std::move(made));
    return all.back().code;
  }
  [[nodiscard]] static std::uint64_t hash_of(const edge_pattern_key& k) {
    auto h = hash_combine(hash_combine(k.from, k.to), k.result);
    for (const auto* c : {&k.producer, &k.consumer}) {
      for (const auto d : c->degrees) {
        h = hash_combine(h, static_cast<std::uint64_t>(d));
      }
      for (const auto d : c->devices) {
        h = hash_combine(h, d.index());
      }
    }
    return h;
  }

  static constexpr std::size_t most = std::size_t{1} << 22U;  // entries of code: some 150 MB
  std::unordered_map<std::uint64_t, std::vector<pattern>> known_{};
  std::size_t held_ = 0;
};

}  // namespace unity::parallel
