// Transfers between devices and the order between them, in flat arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

// From a device or switch to another.
struct transfer {
  vertex_id from{};
  vertex_id to{};
  bytes size{};
  bool reduces = false;  // the receiver adds the data to its own, otherwise it stores them

  friend bool operator==(const transfer&, const transfer&) = default;
};

// Transfers in an order compatible with their dependencies: each depends only on earlier ones. A transfer may begin
// when its dependencies have ended. The data of a collective is divided into chunks, dense from 0; `chunks` of a
// transfer are those that it carries, so that the result can be checked.
// Regular.
class transfer_graph {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return transfers_.size(); }
  [[nodiscard]] std::span<const transfer> transfers() const noexcept { return transfers_; }
  [[nodiscard]] const transfer& operator[](std::size_t i) const {
    UNITY_EXPECTS(i < size(), "a transfer");
    return transfers_[i];
  }
  [[nodiscard]] std::span<const std::uint32_t> dependencies(std::size_t i) const {
    return row(dependencies_, first_dependency_, i);
  }
  [[nodiscard]] std::span<const std::uint32_t> chunks(std::size_t i) const { return row(chunks_, first_chunk_, i); }

  // Returns its index.
  std::uint32_t add(const transfer& t, std::span<const std::uint32_t> dependencies,
                    std::span<const std::uint32_t> chunks);

  friend bool operator==(const transfer_graph&, const transfer_graph&) = default;

 private:
  [[nodiscard]] std::span<const std::uint32_t> row(const std::vector<std::uint32_t>& all,
                                                   const std::vector<std::size_t>& first, std::size_t i) const {
    UNITY_EXPECTS(i < size(), "a transfer");
    return {all.data() + first[i], first[i + 1] - first[i]};
  }

  std::vector<transfer> transfers_{};
  std::vector<std::size_t> first_dependency_{0};
  std::vector<std::uint32_t> dependencies_{};
  std::vector<std::size_t> first_chunk_{0};
  std::vector<std::uint32_t> chunks_{};
};

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_TRANSFERS)

#include <limits>

namespace unity::machine {

UNITY_INLINE std::uint32_t transfer_graph::add(const transfer& t, std::span<const std::uint32_t> dependencies,
                                               std::span<const std::uint32_t> chunks) {
  const auto number = static_cast<std::uint32_t>(size());
  for (const auto d : dependencies) {
    UNITY_EXPECTS(d < number, "dependencies that were added before");
  }
  transfers_.push_back(t);
  dependencies_.insert(dependencies_.end(), dependencies.begin(), dependencies.end());
  first_dependency_.push_back(dependencies_.size());
  chunks_.insert(chunks_.end(), chunks.begin(), chunks.end());
  first_chunk_.push_back(chunks_.size());
  return number;
}

}  // namespace unity::machine

#endif
