// Why a plan divides each operator as it does, as a table of a report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/units.hpp>
#include <unity/io/html_report.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/systems/flexflow/explanation.hpp>

namespace support {

// A row for each of the first `most` operators.
inline void add_explanation(unity::io::html_report& page, const unity::parallel::plan& plan,
                            const unity::systems::strategy_price& own,
                            const std::vector<unity::systems::operator_explanation>& operators, std::size_t most) {
  const auto ms = [](unity::picoseconds t) { return unity::to_seconds(t) * 1e3; };
  std::vector<std::vector<std::string>> rows;
  for (const auto& e : operators) {
    if (rows.size() == most) {
      break;
    }
    rows.push_back({e.name, fmt::format("{:.3f}", ms(e.computing)), fmt::format("{:.3f}", ms(e.receiving)),
                    fmt::format("{:.3f}", ms(e.gradients)), fmt::format("{}", plan.configurations[e.node.index()]),
                    e.next ? fmt::format("{}", e.next->to) : "", e.next ? fmt::format("{}", e.next->operators) : "",
                    !e.next                ? "not looked at"
                    : e.next->price.fits() ? fmt::format("{:+.6f}", ms(e.next->price.iteration - own.iteration))
                                           : "does not fit"});
  }
  page.table(std::vector<std::string>{"operator", "computing, ms", "receiving, ms", "gradients, ms", "division",
                                      "best other one", "operators changed", "iteration longer by, ms"},
             rows);
}

}  // namespace support
