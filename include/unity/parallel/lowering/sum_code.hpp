// Writes sums of terms on several devices, and their cotangents, to an edge's fragment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/lowering/edge_code.hpp>
#include <unity/parallel/lowering/exchanges.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/sum_routes.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>

namespace unity::parallel {

// How messages become tasks, and the size of an element.
struct sum_network {
  network& links;
  exchange_builder& exchanges;
  bool together = true;  // as exchanges; otherwise separately
  bytes element{};
};

// Appends sums to a fragment: all-reduces, and reduce-scatters followed by messages (sum_routes). Cotangents return
// along the same routes: those of all readers of an element are summed, and every device with a term gets the sum, by
// the same all-reduce, or by messages to where the sums ended and from there around the ring. Adding up is not priced.
// Readers of a reduce-scatter start when all its sums are available.
class sum_code {
 public:
  sum_code(program::fragment& f, const edge_ends& ends, const sum_network& n) : code_{f}, ends_{ends}, network_{n} {}

  void add(const summed_value& s);

 private:
  [[nodiscard]] bytes size_of(std::int64_t elements) const { return bytes{elements * network_.element.count()}; }
  [[nodiscard]] std::uint32_t shard() const { return ways_.holders.front().index(); }

  [[nodiscard]] program::buffer_ref add_buffer(std::int64_t elements, machine::device_id d,
                                               const program::task_ref& producer) {
    code_.buffers.push_back({size_of(elements), d.index(), producer, false});
    return {{}, static_cast<std::uint32_t>(code_.buffers.size() - 1)};
  }
  void give(const program::buffer_ref& sum, std::span<const std::uint32_t> consumers);
  [[nodiscard]] std::vector<program::task_ref> terms() const;
  // Marks the terms as no longer needed after `done`.
  void end_terms(const program::task_ref& done);
  // Gives every device with terms the cotangent.
  void give_back(std::int64_t elements, const program::task_ref& done);

  void reduce();

  void scatter();
  // Sends around the ring, or in reverse.
  [[nodiscard]] program::task_ref add_rounds(const program::task_ref& ready, bool backwards);
  [[nodiscard]] std::span<const message_ends> add_messages(bool backwards);
  // Merges dependencies, because several messages may be one task.
  void wait(const program::task_ref& before, const program::task_ref& after) {
    waits_.push_back({before, after, false});
  }
  void end_waits();

  void hand_out(const program::task_ref& done);
  void hand_back();

  program::fragment& code_;
  const edge_ends& ends_;
  sum_network network_;
  const summed_value* value_ = nullptr;
  sum_routes ways_{};
  std::vector<routed_message> routed_{};
  std::vector<program::dependency> waits_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_SUM_CODE)

#include <algorithm>
#include <numeric>
#include <tuple>

#include <unity/parallel/lowering/collectives.hpp>

namespace unity::parallel {

UNITY_INLINE void sum_code::add(const summed_value& s) {
  value_ = &s;
  ways_ = routes_of(network_.links.topology(), s);
  if (ways_.reduced > 0) {
    reduce();
  }
  if (!ways_.routes.empty()) {
    scatter();
  }
}

UNITY_INLINE void sum_code::give(const program::buffer_ref& sum, std::span<const std::uint32_t> consumers) {
  for (const auto c : consumers) {
    code_.reads.push_back({sum, ends_.read(c)});
    if (ends_.consumer_keeps) {
      code_.reads.push_back({sum, ends_.read_back(c)});
    }
  }
}

UNITY_INLINE std::vector<program::task_ref> sum_code::terms() const {
  std::vector<program::task_ref> all;
  for (const auto p : value_->producers) {
    all.push_back(ends_.written(p));
  }
  return all;
}

UNITY_INLINE void sum_code::end_terms(const program::task_ref& done) {
  for (const auto p : value_->producers) {
    code_.reads.push_back({ends_.result_of(p), done});
  }
}

UNITY_INLINE void sum_code::give_back(std::int64_t elements, const program::task_ref& done) {
  for (const auto d : ways_.holders) {
    const auto cotangent = add_buffer(elements, d, done);
    for (std::size_t i = 0; i < value_->producers.size(); ++i) {
      if (value_->from[i] == d) {
        code_.dependencies.push_back({done, ends_.written_back(value_->producers[i]), false});
        code_.reads.push_back({cotangent, ends_.written_back(value_->producers[i])});
      }
    }
  }
}

UNITY_INLINE void sum_code::reduce() {
  const auto size = size_of(ways_.reduced);
  const auto done = add_collective(network_.links, code_, machine::exchange::all_reduce, ways_.holders, size, terms());
  end_terms(done);
  std::vector<program::task_ref> cotangents;
  for (const auto& [device, consumers] : ways_.reduced_for) {
    give(add_buffer(ways_.reduced, device, done), consumers);
    for (const auto c : consumers) {
      code_.dependencies.push_back({done, ends_.read(c), false});
      cotangents.push_back(ends_.read_back(c));
    }
  }
  if (!ends_.is_wanted) {
    return;
  }
  const auto back =
      add_collective(network_.links, code_, machine::exchange::all_reduce, ways_.holders, size, cotangents);
  for (const auto& [device, consumers] : ways_.reduced_for) {
    for (const auto c : consumers) {
      code_.reads.push_back({ends_.cotangent_of(c), back});
    }
  }
  give_back(ways_.reduced, back);
}

UNITY_INLINE void sum_code::scatter() {
  const auto done = add_rounds(add_meeting(code_, terms(), shard()), false);
  end_terms(done);
  hand_out(done);
  if (ends_.is_wanted) {
    hand_back();
  }
}

UNITY_INLINE program::task_ref sum_code::add_rounds(const program::task_ref& ready, bool backwards) {
  std::vector<flow_message> messages;
  for (std::size_t i = 0; i < ways_.ring.size(); ++i) {
    const auto here = machine::topology::vertex_of(ways_.ring[i]);
    const auto next = machine::topology::vertex_of(ways_.ring[(i + 1) % ways_.ring.size()]);
    if (ways_.sent[i] > 0) {
      messages.push_back({backwards ? next : here, backwards ? here : next, size_of(ways_.sent[i])});
    }
  }
  if (messages.empty()) {
    return ready;
  }
  const auto rounds = static_cast<std::int64_t>(ways_.ring.size() - 1);
  const auto first = ways_.holders.front();
  const auto started = add_start(network_.links, code_, {&ready, 1}, first, rounds);
  return add_phase(network_.links, code_, messages, rounds, started, shard());
}

UNITY_INLINE std::span<const message_ends> sum_code::add_messages(bool backwards) {
  routed_.clear();
  for (const auto& [at, way] : ways_.routes) {
    const auto owner = ways_.ring[at.first];
    if (owner != at.second) {
      routed_.push_back({backwards ? at.second : owner, backwards ? owner : at.second, size_of(way.elements)});
    }
  }
  return network_.together ? network_.exchanges.add(network_.links, code_, routed_)
                           : network_.exchanges.add_apart(network_.links, code_, routed_);
}

UNITY_INLINE void sum_code::end_waits() {
  const auto rank = [](const program::dependency& d) {
    return std::tuple{d.before.fragment.index(), d.before.index, d.after.fragment.index(), d.after.index};
  };
  std::sort(waits_.begin(), waits_.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
  code_.dependencies.insert(code_.dependencies.end(), waits_.begin(), waits_.end());
  waits_.clear();
}

UNITY_INLINE void sum_code::hand_out(const program::task_ref& done) {
  const auto ends = add_messages(false);
  std::vector<program::buffer_ref> sums;
  for (std::size_t i = 0; i < ways_.ring.size(); ++i) {
    sums.push_back(ways_.held[i] > 0 ? add_buffer(ways_.held[i], ways_.ring[i], done) : program::buffer_ref{});
  }
  auto message = ends.begin();
  for (const auto& [at, way] : ways_.routes) {
    const bool is_here = ways_.ring[at.first] == at.second;
    const program::task_ref last = is_here ? done : program::task_ref{{}, message->last};
    if (is_here) {
      give(sums[at.first], way.consumers);
    } else {
      wait(done, {{}, message->first});
      code_.reads.push_back({sums[at.first], {{}, message->first}});
      give(add_buffer(way.elements, at.second, last), way.consumers);
      ++message;
    }
    for (const auto c : way.consumers) {
      wait(last, ends_.read(c));
    }
  }
  end_waits();
}

UNITY_INLINE void sum_code::hand_back() {
  const auto ends = add_messages(true);
  std::vector<program::task_ref> contributions;
  std::vector<program::buffer_ref> cotangents;  // to be summed
  auto message = ends.begin();
  for (const auto& [at, way] : ways_.routes) {
    const bool is_here = ways_.ring[at.first] == at.second;
    for (const auto c : way.consumers) {
      if (is_here) {
        contributions.push_back(ends_.read_back(c));
        cotangents.push_back(ends_.cotangent_of(c));
      } else {
        wait(ends_.read_back(c), {{}, message->first});
        code_.reads.push_back({ends_.cotangent_of(c), {{}, message->first}});
      }
    }
    if (!is_here) {
      const program::task_ref last{{}, message->last};
      cotangents.push_back(add_buffer(way.elements, ways_.ring[at.first], last));
      contributions.push_back(last);
      ++message;
    }
  }
  end_waits();
  const auto ready = add_meeting(code_, {}, shard());
  for (const auto& c : contributions) {
    wait(c, ready);
  }
  end_waits();
  for (const auto& c : cotangents) {
    code_.reads.push_back({c, ready});
  }
  give_back(std::accumulate(ways_.held.begin(), ways_.held.end(), std::int64_t{0}), add_rounds(ready, true));
}

}  // namespace unity::parallel

#endif
