// The cells of weights, their holders, and what ranks have of them so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// A cell of a weight.
struct cell_id {
  std::size_t weight = 0;
  std::size_t cell = 0;
};

struct weight_state {
  std::vector<box> cells{};
  std::vector<synchronizer> syncs{};                                  // by cell
  std::vector<std::vector<std::uint32_t>> holders{};                  // by cell: ranks that read it, ascending
  std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> at{};  // by rank and cell: index in the rank's weights
  std::map<std::pair<std::uint32_t, std::size_t>, value_id> gradients{};
  std::map<std::pair<std::uint32_t, std::size_t>, awaited_value> fetched{};  // from servers, for this iteration
  std::map<std::pair<std::uint32_t, std::size_t>, value_id> gathered{};      // for this pass, from shares
};

// By weight: state that all synchronization methods share.
class weight_states {
 public:
  weight_states(const divided_training& d, rank_streams& streams)
      : training_{d}, streams_{streams}, all_(d.training().weights().size()) {}

  [[nodiscard]] weight_state& operator[](std::size_t weight) { return all_[weight]; }
  [[nodiscard]] const weight_state& operator[](std::size_t weight) const { return all_[weight]; }
  [[nodiscard]] const written_ranks& written() const { return training_.written(); }
  [[nodiscard]] node_id node_of(cell_id of) const {
    return training_.graph().producer(training_.training().weights()[of.weight].value);
  }
  [[nodiscard]] tensor::dtype element_of(cell_id of) const {
    return training_.graph().type(training_.training().weights()[of.weight].value).element;
  }
  [[nodiscard]] weight_part& part_of(cell_id of, std::uint32_t rank) {
    return streams_.program(rank).weights[all_[of.weight].at.at({rank, of.cell})];
  }
  // Holders with a gradient, or whose representative has one.
  [[nodiscard]] std::vector<std::uint32_t> givers(cell_id of) const;
  // A holder's contribution: its gradient, or zeros.
  [[nodiscard]] value_id given(cell_id of, std::uint32_t rank, node_id reader);
  // Makes the rank update the cell with the gradient, which is ready after the wait, if any.
  void change(cell_id of, std::uint32_t rank, value_id gradient, const rank_step& wait = {});

 private:
  const divided_training& training_;
  rank_streams& streams_;
  std::vector<weight_state> all_;
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_WEIGHT_STATES)

#include <algorithm>
#include <iterator>

#include <unity/core/config.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::vector<std::uint32_t> weight_states::givers(cell_id of) const {
  const auto& state = all_[of.weight];
  const auto& holders = state.holders[of.cell];
  if (written().is_one()) {  // holders are alike
    return state.gradients.contains({written().like(holders.front()), of.cell}) ? holders
                                                                                : std::vector<std::uint32_t>{};
  }
  std::vector<std::uint32_t> all;
  std::copy_if(holders.begin(), holders.end(), std::back_inserter(all), [&](std::uint32_t r) {
    return state.gradients.contains({r, of.cell});
  });
  return all;
}

UNITY_INLINE value_id weight_states::given(cell_id of, std::uint32_t rank, node_id reader) {
  const auto& state = all_[of.weight];
  const auto found = state.gradients.find({rank, of.cell});
  return found != state.gradients.end()
             ? found->second
             : streams_.on(rank, reader).filled(state.cells[of.cell].sizes(), element_of(of), 0);
}

UNITY_INLINE void weight_states::change(cell_id of, std::uint32_t rank, value_id gradient, const rank_step& wait) {
  part_of(of, rank).gradient = gradient;
  if (wait.kind == step_kind::wait) {
    streams_.wait_last(rank, wait);
  }
  streams_.update(rank, node_of(of), all_[of.weight].at.at({rank, of.cell}));
}

}  // namespace unity::parallel::detail

#endif
