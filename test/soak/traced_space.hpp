// A space that records how a search reached each state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "../support/recording_space.hpp"

namespace unity::test {

// A recording_space over a rewrite_space, with the path to each state.
template <search_space Space>
class traced_space : public recording_space<Space> {
 public:
  using state = typename Space::state_type;
  using move = typename Space::move_type;
  using scratch = typename Space::scratch_type;

  template <class Visit>
  traced_space(Space& space, Visit visit) : recording_space<Space>{space, std::move(visit)}, space_{space} {}

  state apply(const state& s, move m, scratch& from, scratch& to) {
    last_ = {s.serial, m};
    auto child = recording_space<Space>::apply(s, m, from, to);
    came_from_[child.serial] = last_;
    return child;
  }
  // The rules on the path to the state that is being visited, first to last.
  [[nodiscard]] std::string rules() const {
    std::string all;
    for (auto at = last_; at.parent != 0;) {
      all = space_.rule_of(at.by).name + (all.empty() ? "" : ", ") + all;
      const auto before = came_from_.find(at.parent);
      at = before == came_from_.end() ? step{} : before->second;
    }
    return all.empty() ? "none" : all;
  }

 private:
  struct step {
    std::uint64_t parent = 0;
    move by{};
  };
  Space& space_;
  step last_{};
  std::unordered_map<std::uint64_t, step> came_from_{};
};

}  // namespace unity::test
