// Messages and collectives of a job: names, ranks, sizes, and kinds of exchange.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/units.hpp>

namespace unity::trace {

using name_id = id<struct name_tag>;

// Interned texts: names of operators, kernels, tensors, process groups and ranks. Regular.
class name_table {
 public:
  // The id of the text, new or known. Complexity: expected linear in the text.
  name_id intern(std::string_view text);
  // The null id for a text that was never interned.
  [[nodiscard]] name_id find(std::string_view text) const;
  [[nodiscard]] const std::string& text(name_id n) const;  // of the null id: empty
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::vector<std::string> texts_;
  index_table table_;
  std::string none_;
};

// How a message or collective moves its data. `chunk`: one hop of a collective, as in NCCL's rings.
enum class exchange : std::uint8_t {
  point_to_point,
  push,
  pull,
  chunk,
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  barrier,
  other
};
inline constexpr std::array<std::string_view, 12> exchange_names{
    "point_to_point", "push",      "pull",   "chunk",      "all_reduce", "reduce_scatter",
    "all_gather",     "broadcast", "reduce", "all_to_all", "barrier",    "other"};

// The data that a collective, send or receive moves. Both ends of a message have the same (sender, receiver, tensor,
// way, chunk, round) and occurrence within a step. The ranks of a collective have the same group, way and sequence
// number.
struct message {
  name_id group{};   // process group of a collective; null: all ranks
  name_id tensor{};  // or bucket
  name_id sender{};  // names of ranks; null for collectives
  name_id receiver{};
  std::uint32_t chunk = 0;
  std::uint32_t round = 0;  // of a ring
  // number among the collectives of the group in the step; negative: to be counted (number_sequences)
  std::int64_t sequence = -1;
  bytes size{};                  // 0: unknown
  std::uint32_t group_size = 0;  // ranks; 0: unknown
  exchange way = exchange::other;
  bool is_end_seen = true;  // false: the exchange ended unseen before its event does

  friend bool operator==(const message&, const message&) = default;
};

inline constexpr std::uint32_t no_message = std::numeric_limits<std::uint32_t>::max();

// The exchange that the name of an operator, kernel or collective states (all_reduce, AllReduce, ...).
[[nodiscard]] exchange exchange_named(std::string_view name);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_MESSAGE)

#include <cctype>
#include <utility>

#include <unity/core/hash.hpp>

namespace unity::trace {

UNITY_INLINE name_id name_table::find(std::string_view text) const {
  const auto i = table_.find(hash_bytes(text), [&](std::uint32_t k) { return texts_[k] == text; });
  return i == index_table::none ? name_id{} : name_id{i};
}

UNITY_INLINE name_id name_table::intern(std::string_view text) {
  const auto hash = hash_bytes(text);
  if (const auto i = table_.find(hash, [&](std::uint32_t k) { return texts_[k] == text; }); i != index_table::none) {
    return name_id{i};
  }
  texts_.emplace_back(text);
  table_.insert(hash, static_cast<std::uint32_t>(texts_.size() - 1));
  return name_id{texts_.size() - 1};
}

UNITY_INLINE const std::string& name_table::text(name_id n) const { return n.valid() ? texts_[n.index()] : none_; }

UNITY_INLINE exchange exchange_named(std::string_view name) {
  std::string plain;  // lower case, letters only
  for (const char c : name) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  constexpr std::array<std::pair<std::string_view, exchange>, 14> known{{
      {"allreduce", exchange::all_reduce},
      {"reducescatter", exchange::reduce_scatter},
      {"allgather", exchange::all_gather},
      {"alltoall", exchange::all_to_all},
      {"broadcast", exchange::broadcast},
      {"barrier", exchange::barrier},
      {"sendrecv", exchange::all_to_all},
      {"reduce", exchange::reduce},
      {"push", exchange::push},
      {"pull", exchange::pull},
      {"send", exchange::point_to_point},
      {"recv", exchange::point_to_point},
      {"gather", exchange::all_gather},
      {"scatter", exchange::reduce_scatter},
  }};
  for (const auto& [text, way] : known) {
    if (plain.find(text) != std::string::npos) {
      return way;
    }
  }
  return exchange::other;
}

}  // namespace unity::trace

#endif
