// The files of measured times between runs of a program, and a check that the machine is idle enough to measure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/cost/duration.hpp>
#include <unity/tensor/operation.hpp>

namespace support {

// A kernel_timer of any kind: a search is compiled once for all.
struct any_timer {
  std::function<unity::measurement(const unity::tensor::operation&, std::span<const unity::tensor::tensor_type>,
                                   std::span<const unity::tensor::tensor_type>)>
      ask;
  std::string about;

  [[nodiscard]] unity::measurement time(const unity::tensor::operation& op,
                                        std::span<const unity::tensor::tensor_type> inputs,
                                        std::span<const unity::tensor::tensor_type> outputs) const {
    return ask(op, inputs, outputs);
  }
  [[nodiscard]] std::string description() const { return about; }
};

// `choice`: a file, or `none`. Empty: one file for each description in the user's cache folder (XDG base directory
// specification), so that different machines with one home folder and different versions have separate files; none if
// there is no such folder. If there is no file for this description, but for others, `say` is called.
inline std::filesystem::path timings_file(const std::string& choice, std::string_view description,
                                          const std::function<void(const std::string&)>& say) {
  if (!choice.empty()) {
    return choice == "none" ? std::filesystem::path{} : std::filesystem::path{choice};
  }
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    const std::filesystem::path path{value == nullptr ? "" : value};
    return path.is_absolute() ? path : std::filesystem::path{};
  };
  auto caches = folder("XDG_CACHE_HOME");
  if (caches.empty() && !folder("HOME").empty()) {
    caches = folder("HOME") / ".cache";
  }
  if (caches.empty()) {
    return caches;
  }
  const auto timings = caches / "unity" / "timings";
  const auto name = fmt::format("{:016x}.txt", unity::hash_bytes(description));
  std::error_code unreadable;
  std::size_t others = 0;
  for (std::filesystem::directory_iterator i{timings, unreadable}, end; !unreadable && i != end;
       i.increment(unreadable)) {
    others += i->path().extension() == ".txt" ? 1 : 0;
  }
  if (others > 0 && !std::filesystem::exists(timings / name, unreadable)) {
    say(fmt::format("{}: timings of {} other device(s) or version(s) are not used on {}", timings.string(), others,
                    description));
  }
  return timings / name;
}

// Calls `say` if other processes use the cores: threads that wait for each other then wait for whole time slices, and
// times are many times too long. Effects: sleeps a tenth of a second. Does nothing if the system does not report
// loads (/proc/stat).
inline void warn_if_busy(const std::function<void(const std::string&)>& say) {
  struct reading {
    double all = 0;
    double idle = 0;
  };
  const auto read = [] {
    reading r;
    std::ifstream file{"/proc/stat"};
    std::string label;
    file >> label;
    double ticks = 0;
    for (int i = 0; i < 8 && file >> ticks; ++i) {  // user nice system idle iowait irq softirq steal
      r.all += ticks;
      r.idle += i == 3 || i == 4 ? ticks : 0;
    }
    return r;
  };
  const auto before = read();
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  const auto after = read();
  const auto busy = after.all > before.all ? 1 - (after.idle - before.idle) / (after.all - before.all) : 0;
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  if (busy * cores > 0.5) {
    say(fmt::format("other processes use {:.1f} of {} cores: measured times will be too long", busy * cores, cores));
  }
}

}  // namespace support
