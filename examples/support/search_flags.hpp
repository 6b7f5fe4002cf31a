// Flags that apply to only one of several searches.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace support {

class search_flags {
 public:
  // Effects: assigns the flag to the search; returns it.
  CLI::Option* of(std::string search, CLI::Option* flag) {
    all_.push_back({std::move(search), flag});
    return flag;
  }
  // Throws: unity::error that names a given flag of another search.
  void check(const std::string& search) const {
    for (const auto& [of, flag] : all_) {
      if (of != search && flag->count() > 0) {
        throw unity::error{flag->get_name(), fmt::format("a flag of --search {}", of),
                           fmt::format("none with --search {}", search)};
      }
    }
  }

 private:
  struct owned_flag {
    std::string search;
    const CLI::Option* flag;  // the command line outlives this
  };
  std::vector<owned_flag> all_{};
};

}  // namespace support
