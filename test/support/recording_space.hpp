// A space that reports the states that a search builds.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include <unity/search/search_space.hpp>

namespace unity::test {

// Forwards to another space, which it does not own, and calls visit(state) for the initial state and every state built
// by apply. Models the concepts that `Space` models.
template <search_space Space>
class recording_space {
 public:
  using state_type = typename Space::state_type;
  using move_type = typename Space::move_type;
  using scratch_type = typename Space::scratch_type;

  recording_space(Space& space, std::function<void(const state_type&)> visit)
      : space_{space}, visit_{std::move(visit)} {}

  state_type initial() { return recorded(space_.initial()); }
  cost_value cost(const state_type& s) const { return space_.cost(s); }
  fingerprint fingerprint_of(const state_type& s) const { return space_.fingerprint_of(s); }
  std::span<const move_type> moves(const state_type& s) const { return space_.moves(s); }
  void prepare(const state_type& s, scratch_type& scratch) const { space_.prepare(s, scratch); }
  std::optional<candidate> price(const state_type& s, move_type m, scratch_type& scratch) const {
    return space_.price(s, m, scratch);
  }
  state_type apply(const state_type& s, move_type m, scratch_type& from, scratch_type& to) {
    return recorded(space_.apply(s, m, from, to));
  }
  fingerprint canonical_fingerprint(const state_type& s, scratch_type& scratch) const
    requires canonical_space<Space>
  {
    return space_.canonical_fingerprint(s, scratch);
  }
  bool independent(move_type a, move_type b) const
    requires commuting_space<Space>
  {
    return space_.independent(a, b);
  }
  std::size_t memory() const
    requires measured_space<Space>
  {
    return space_.memory();
  }
  std::size_t memory(const state_type& s) const
    requires measured_space<Space>
  {
    return space_.memory(s);
  }

 private:
  state_type recorded(state_type s) {
    visit_(s);
    return s;
  }
  Space& space_;
  std::function<void(const state_type&)> visit_;
};

}  // namespace unity::test
