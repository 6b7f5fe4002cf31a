// What communicators share about missing ranks and exceptions.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace unity::backend::detail {

// Limits beyond a year would overflow the clock.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds limit) {
  return std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(limit, std::chrono::hours{24 * 365});
}

[[nodiscard]] inline std::string to_string(std::chrono::milliseconds limit) {
  const auto count = limit.count();
  return count % 1000 == 0 ? fmt::format("{} s", count / 1000) : fmt::format("{} ms", count);
}

// Throws: unity::error if a communicator of `size` ranks has no such rank; `what`: the operation that names it.
void check_rank(std::string_view what, int rank, int size);

[[nodiscard]] inline std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The message of the exception that is being handled.
[[nodiscard]] std::string current_exception_line();

// As a member: whether the object is destroyed by an exception.
class unwinding {
 public:
  [[nodiscard]] bool under_way() const noexcept { return std::uncaught_exceptions() > exceptions_; }

 private:
  int exceptions_ = std::uncaught_exceptions();
};

// Ends a request that nobody has waited for by waiting now. During stack unwinding it calls give_up() first: this rank
// stops, so that no other rank waits for it or accesses the memory of the request; the following wait() is then short.
template <class GiveUp, class Wait>
void end_request(const unwinding& state, const GiveUp& give_up, const Wait& wait) noexcept {
  try {
    if (state.under_way()) {
      give_up();
    }
    wait();
  } catch (...) {
    // The next operation of this rank reports it.
  }
}

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_COMMUNICATION_RANK_FAILURE)

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::backend::detail {

UNITY_INLINE void check_rank(std::string_view what, int rank, int size) {
  if (rank < 0 || rank >= size) {
    throw error{what, fmt::format("rank {}", rank), fmt::format("one below {}", size)};
  }
}

UNITY_INLINE std::string current_exception_line() {
  try {
    throw;
  } catch (const std::exception& e) {
    return one_line(e.what());
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace unity::backend::detail

#endif
