// A comparison of fusion strategies, and its reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/systems/disco.hpp>

namespace support {

// One of the compared strategies: of a rule, or of the search.
inline constexpr std::array<std::string_view, 9> fusion_names{
    "no_fusion", "xla_kernels", "xla_reductions", "xla", "tvm", "tvm_ddp", "ddp", "horovod", "disco"};

struct fused_outcome {
  std::string name{};
  unity::fusion::fusion_strategy strategy{};
  unity::fusion::fusion_times times{};
  unity::fusion::group_counts groups{};
  unity::picoseconds on_network{};   // simulated with messages over the machine's links
  unity::picoseconds on_channels{};  // with several channels of all-reduces, if requested
};

class fusion_comparison {
 public:
  // All must outlive it.
  fusion_comparison(const unity::fusion::instruction_graph& g, const unity::fusion::fusion_target& t,
                    const unity::hardware::machine& m, std::size_t channels)
      : graph_{g}, target_{t}, machine_{m}, channels_{channels} {}

  void add(std::string name, unity::fusion::fusion_strategy s);
  [[nodiscard]] const std::vector<fused_outcome>& all() const noexcept { return all_; }
  [[nodiscard]] std::size_t channels() const noexcept { return channels_; }
  [[nodiscard]] const unity::fusion::instruction_graph& graph() const noexcept { return graph_; }
  // Precondition: there is one of that name.
  [[nodiscard]] const fused_outcome& named(const std::string& name) const;
  // The first of the fastest.
  [[nodiscard]] const fused_outcome& best() const;

 private:
  const unity::fusion::instruction_graph& graph_;
  const unity::fusion::fusion_target& target_;
  const unity::hardware::machine& machine_;
  std::size_t channels_;
  std::vector<fused_outcome> all_{};
};

// The parts of the report besides the strategies.
struct fusion_summary {
  std::string model{};  // or a file of HLO
  std::string machine{};
  unity::systems::disco_result found{};
  unity::picoseconds bound{};
  unity::fusion::reduction_line line{};
};

void print(const fusion_comparison& c, const fusion_summary& s);

nlohmann::json to_json(const fusion_comparison& c, const fusion_summary& s);

// As HTML.
std::string to_report(const fusion_comparison& c, const fusion_summary& s);

// The threshold with which XLA's combiner makes the strategy's buckets, if one does.
std::string to_xla_flags(const unity::fusion::instruction_graph& g, const unity::fusion::fusion_target& t,
                         const unity::fusion::fusion_strategy& s);

}  // namespace support
