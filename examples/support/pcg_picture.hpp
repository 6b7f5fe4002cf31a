// Draws a plan's parallel computation graph.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/io/dot.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>

#include "outputs.hpp"
#include "plan_trace.hpp"

namespace support {

// Writes pcg.dot, and pcg.svg if Graphviz can lay out a graph of this size in seconds; otherwise prints the reason on
// standard error.
inline std::vector<output> pcg_pictures(const unity::tensor::algebra& operators, const unity::parallel::plan& p,
                                        const std::string& title, const std::filesystem::path& folder) {
  using namespace unity;
  constexpr std::size_t most_nodes = 400;
  const parallel::pcg_algebra a{operators};
  const auto g = parallel::spell_out(a, p.graph, grids_of(operators, p));
  const auto dot = io::to_dot(a, g, title);
  std::vector<output> files{{folder / "pcg.dot", dot}};
  if (g.node_count() > most_nodes) {
    fmt::print(stderr, "parallelize: no pcg.svg: pcg.dot has {} nodes\n", g.node_count());
    return files;
  }
  const auto draw = [dot](const std::filesystem::path& file) {
    if (const auto problem = io::write_svg(file, dot)) {
      fmt::print(stderr, "parallelize: {}\n", *problem);
    }
  };
  files.push_back({folder / "pcg.svg", "", draw});
  return files;
}

}  // namespace support
