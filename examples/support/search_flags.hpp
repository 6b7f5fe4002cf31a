// Flags that mean something for one of several searches alone.
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
  // Effects: the flag belongs to the search; returns it.
  CLI::Option* of(std::string search, CLI::Option* flag) {
    all_.push_back({std::move(search), flag});
    return flag;
  }
  // Throws: unity::error that names a flag which was given and is of another search.
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
