// How ranks find each other before there is a communicator, and how a missing rank is identified afterwards.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/communicator.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

struct meeting {
  int rank = 0;
  int size = 1;
  // Sends the bytes of rank 0 to all ranks.
  // Throws: unity::error that names a rank that did not arrive.
  std::function<void(std::span<std::byte>)> share{};
  // Called by a rank after a timeout.
  // Throws: unity::error that names a rank which does not call it as well.
  std::function<void()> call_roll{};
};

// Uses a communicator that must outlive the meeting.
template <host_communicator Host>
[[nodiscard]] meeting meet_on(Host& host) {
  return {host.rank(), host.size(),
          [&host](std::span<std::byte> bytes) {
            host.broadcast(bytes.data(), bytes.size(), tensor::dtype::uint8, 0).wait();
          },
          [&host] { host.barrier(); }};
}

// Uses a new folder that all ranks can access: one file for each step of each rank. Steps are numbered, so that
// repeated calls do not find the files of earlier ones.
class folder_meeting {
 public:
  folder_meeting(std::filesystem::path folder, int rank, int size, std::chrono::milliseconds limit);

  void share(std::span<std::byte> bytes);
  // Ranks time out at about the same time: waiting a few more seconds shows which are still there.
  void call_roll();

 private:
  [[nodiscard]] std::filesystem::path name(std::string_view step, int rank) const {
    return folder_ / (fmt::format("{}_{}", step, rank));
  }
  void all_have(std::string_view step, std::chrono::milliseconds limit) const;
  void all_have_one(const std::filesystem::path& file, int rank, std::chrono::milliseconds limit) const;

  std::filesystem::path folder_;
  int rank_;
  int size_;
  std::chrono::milliseconds limit_;
  int shared_ = 0;
  int roll_calls_ = 0;
};

[[nodiscard]] meeting meet_in(const std::filesystem::path& folder, int rank, int size, std::chrono::milliseconds limit);

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_COMMUNICATION_MEETING)

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>

#include <unity/backend/communication/rank_failure.hpp>
#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/file.hpp>

namespace unity::backend::detail {

UNITY_INLINE folder_meeting::folder_meeting(std::filesystem::path folder, int rank, int size,
                                            std::chrono::milliseconds limit)
    : folder_{std::move(folder)}, rank_{rank}, size_{size}, limit_{limit} {
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  if (std::filesystem::exists(name("came", rank_), problem)) {
    throw error{folder_.string(), fmt::format("rank {} has been here", rank_), "a folder that no other run uses"};
  }
  atomic_write(name("came", rank_), "");
}

UNITY_INLINE void folder_meeting::share(std::span<std::byte> bytes) {
  const auto file = name(fmt::format("shared_{}", shared_++), 0);
  if (rank_ == 0) {
    atomic_write(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  all_have("came", limit_);
  all_have_one(file, 0, limit_);
  const auto content = read_file(file, 0, bytes.size());
  std::transform(content.begin(), content.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
}

UNITY_INLINE void folder_meeting::call_roll() {
  const auto step = fmt::format("waits_{}", roll_calls_++);
  atomic_write(name(step, rank_), "");
  all_have(step,
           std::clamp<std::chrono::milliseconds>(limit_, std::chrono::milliseconds{200}, std::chrono::seconds{5}));
}

UNITY_INLINE void folder_meeting::all_have(std::string_view step, std::chrono::milliseconds limit) const {
  const auto until = deadline_after(limit);
  for (int r = 0; r < size_; ++r) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    all_have_one(name(step, r), r, std::max(left, std::chrono::milliseconds{0}));
  }
}

UNITY_INLINE void folder_meeting::all_have_one(const std::filesystem::path& file, int rank,
                                               std::chrono::milliseconds limit) const {
  const auto until = deadline_after(limit);
  std::error_code none;
  while (!std::filesystem::exists(file, none)) {
    if (std::chrono::steady_clock::now() >= until) {
      throw error{fmt::format("rank {}", rank), fmt::format("did not come to {}", folder_.string()),
                  fmt::format("it within {}", to_string(limit_))};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
}

UNITY_INLINE meeting meet_in(const std::filesystem::path& folder, int rank, int size, std::chrono::milliseconds limit) {
  // Shared by all copies of the meeting, which count their steps together.
  const auto place = std::make_shared<folder_meeting>(folder, rank, size, limit);
  return {rank, size, [place](std::span<std::byte> bytes) { place->share(bytes); }, [place] { place->call_roll(); }};
}

}  // namespace unity::backend::detail

#endif
