// Strong integer ids: an id of one kind cannot be used as another.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include <fmt/core.h>

#include <unity/core/printable.hpp>

namespace unity {

// A dense 32-bit index with its kind in the type. Default-constructed: the null id.
template <class Tag>
class id {
 public:
  using underlying_type = std::uint32_t;

  constexpr id() noexcept = default;
  constexpr explicit id(underlying_type index) noexcept : index_{index} {}
  constexpr explicit id(std::size_t index) noexcept : index_{static_cast<underlying_type>(index)} {}

  [[nodiscard]] constexpr underlying_type index() const noexcept { return index_; }
  [[nodiscard]] constexpr bool valid() const noexcept { return index_ != null_index; }
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return valid(); }

  friend constexpr auto operator<=>(id, id) noexcept = default;

 private:
  static constexpr underlying_type null_index = std::numeric_limits<underlying_type>::max();
  underlying_type index_ = null_index;
};

using node_id = id<struct node_tag>;    // an operator application in a graph
using value_id = id<struct value_tag>;  // what an edge carries: one result of one node
using kind_id = id<struct kind_tag>;    // a kind of operator within an algebra, dense from 0

}  // namespace unity

template <class Tag>
struct std::hash<unity::id<Tag>> {
  std::size_t operator()(unity::id<Tag> i) const noexcept { return i.index(); }
};

// Its index; "null" for the null id.
template <class Tag>
struct fmt::formatter<unity::id<Tag>> : unity::plain_formatter {
  template <class Context>
  auto format(unity::id<Tag> i, Context& context) const -> decltype(context.out()) {
    return put(context, i.valid() ? fmt::format("{}", i.index()) : "null");
  }
};
