// The parts of divided operators, each computed once, and what those of two have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/messages.hpp>
#include <unity/parallel/replicas.hpp>

namespace unity::parallel {

// An operator divided by certain degrees, on whatever devices.
struct division {
  std::uint32_t number = 0;
  std::vector<shard> parts{};
  std::vector<distinct_boxes> operands{};  // what tasks read of each
};

// Keeps what it has computed. One thread uses one table.
class division_table {
 public:
  // Effects: forgets all where it is a lot; what it gave away before is not valid any more.
  void make_room() {
    if (tasks_ > most_tasks) {
      kinds_.clear();
      pairs_.clear();
      kept_ = tasks_ = 0;
    }
  }
  // kind: the number of the operator. Valid until make_room().
  [[nodiscard]] const division& of(std::uint32_t kind, const operator_dimensions& o, const degree_list& degrees) {
    if (kinds_.size() <= kind) {
      kinds_.resize(kind + std::size_t{1});
    }
    const auto [found, is_new] = kinds_[kind].try_emplace(degrees);
    auto& d = found->second;
    if (is_new) {
      d.number = count_++;
      d.parts = shards_of(o, degrees);
      tasks_ += d.parts.size();
      std::vector<box> boxes;
      for (std::size_t i = 0; i < o.inputs.size(); ++i) {
        boxes.clear();
        for (const auto& part : d.parts) {
          boxes.push_back(part.operands[i]);
        }
        d.operands.push_back(distinct(boxes));
      }
    }
    return d;
  }

  // Of what tasks write of a result and others read of operands, which are that value; a task that reads several of them is
  // numbered once for each, after all tasks for the operand before. Valid until the next call.
  [[nodiscard]] std::span<const overlap> overlaps(const division& from, std::uint32_t result, const division& to,
                                                  std::span<const std::uint32_t> operands) {
    const pair_key key{from.number, to.number, result, small_vector<std::uint32_t, 4>{operands}};
    if (const auto found = pairs_.find(key); found != pairs_.end()) {
      return found->second;
    }
    std::vector<box> written;
    for (const auto& part : from.parts) {
      written.push_back(part.results[result]);
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

 private:
  static constexpr std::size_t most_kept = std::size_t{1} << 22U;  // overlaps: 64 MiB

  struct degrees_hash {
    std::size_t operator()(const degree_list& degrees) const noexcept {
      std::uint64_t h = degrees.size();
      for (const auto d : degrees) {
        h = hash_combine(h, static_cast<std::uint64_t>(d));
      }
      return h;
    }
  };
  struct pair_key {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t result = 0;
    small_vector<std::uint32_t, 4> operands{};

    friend bool operator==(const pair_key&, const pair_key&) = default;
  };
  struct pair_hash {
    std::size_t operator()(const pair_key& k) const noexcept {
      auto h = hash_combine(std::uint64_t{k.from} << 32U | k.to, k.result);
      for (const auto i : k.operands) {
        h = hash_combine(h, i);
      }
      return h;
    }
  };

  static constexpr std::size_t most_tasks = std::size_t{1} << 17U;  // some tens of MB

  std::deque<std::unordered_map<degree_list, division, degrees_hash>> kinds_{};  // stay where they are as it grows
  std::size_t tasks_ = 0;
  std::uint32_t count_ = 0;
  std::unordered_map<pair_key, std::vector<overlap>, pair_hash> pairs_{};
  std::size_t kept_ = 0;
};

}  // namespace unity::parallel
