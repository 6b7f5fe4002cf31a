// The test of losses by `--check` of programs that train.
#pragma once

#include <optional>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace support {

// Throws: unity::error if the relative error exceeds `most`; `other`: the run whose losses are the reference.
inline void expect_same_losses(const std::optional<double>& error, double most, const std::string& other) {
  if (error && !(*error <= most)) {
    throw unity::error{"--check", fmt::format("losses that differ from those of {} by {:.3g}, relative", other, *error),
                       fmt::format("{:.3g} at most", most)};
  }
}

}  // namespace support
