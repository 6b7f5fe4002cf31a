// Kernels that were measured, and a file of them.
//
// A sealed file (io/sealed_file.hpp) of the line "unity kernels 1", with the header
//
// {"networks": ["zoo:resnet50", ...], "tensors": [
//  {"name": "sample networks", "kind": "", "element": "int32", "dims": [2000], "offset": 0}, ...]}
//
// Per sample: the number of its network, picoseconds, the numbers of its parts and edges. Per part, sample by sample:
// class, folding, five numbers (flops, reads, writes, outside reads, outside writes), picoseconds. Per edge: two part
// numbers within its sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/fusion/instruction_graph.hpp>

namespace unity::learn {

// Regular.
struct kernel_sample {
  std::string network{};  // network that contains the kernel
  fusion::kernel_description kernel{};
  picoseconds time{};  // measured

  friend bool operator==(const kernel_sample&, const kernel_sample&) = default;
};

inline constexpr std::string_view kernel_samples_line = "unity kernels 1\n";

// Effects: as io::replaced_file: an interruption leaves the old or the new file. Preconditions: samples have operators
// and positive times.
// Throws: unity::error if it cannot be written.
void write_kernel_samples(const std::filesystem::path& path, std::span<const kernel_sample> samples);

// Throws: unity::error, one line, if the file is missing, of another kind or version, truncated or altered, or has
// invalid content.
[[nodiscard]] std::vector<kernel_sample> read_kernel_samples(const std::filesystem::path& path);

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_KERNEL_SAMPLES)

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/stored_tensor.hpp>

namespace unity::learn::detail {

inline constexpr std::array part_numbers{&fusion::kernel_part::flops, &fusion::kernel_part::reads,
                                         &fusion::kernel_part::writes, &fusion::kernel_part::reads_outside,
                                         &fusion::kernel_part::writes_outside};

inline constexpr double most_of_a_part = 1e30;  // sums over a kernel stay finite

// The lists of a file.
struct sample_lists {
  std::vector<std::int32_t> networks{};
  std::vector<std::int64_t> times{};  // picoseconds, as the file has them
  std::vector<std::int32_t> part_counts{};
  std::vector<std::int32_t> edge_counts{};
  std::vector<std::uint8_t> classes{};
  std::vector<std::uint8_t> folding{};
  std::vector<double> numbers{};
  std::vector<std::int64_t> durations{};
  std::vector<std::int32_t> edges{};

  // f(name, list)
  template <class Self, class F>
  static void visit(Self& self, const F& f) {
    f("sample networks", self.networks);
    f("sample picoseconds", self.times);
    f("sample parts", self.part_counts);
    f("sample edges", self.edge_counts);
    f("part classes", self.classes);
    f("part folding", self.folding);
    f("part numbers", self.numbers);
    f("part picoseconds", self.durations);
    f("edges", self.edges);
  }

  void add(const kernel_sample& s, std::size_t network);
  // Whether they have equal numbers of samples, operators and edges.
  [[nodiscard]] bool fit() const;
};

UNITY_INLINE void sample_lists::add(const kernel_sample& s, std::size_t network) {
  UNITY_EXPECTS(!s.kernel.parts.empty() && s.time > picoseconds{}, "samples with parts and times");
  networks.push_back(static_cast<std::int32_t>(network));
  times.push_back(s.time.count());
  part_counts.push_back(static_cast<std::int32_t>(s.kernel.parts.size()));
  edge_counts.push_back(static_cast<std::int32_t>(s.kernel.edges.size()));
  for (const auto& p : s.kernel.parts) {
    classes.push_back(static_cast<std::uint8_t>(p.kind));
    folding.push_back(p.is_folding ? 1 : 0);
    durations.push_back(p.duration.count());
    for (const auto n : part_numbers) {
      numbers.push_back(p.*n);
    }
  }
  for (const auto& [from, to] : s.kernel.edges) {
    edges.insert(edges.end(), {from, to});
  }
}

UNITY_INLINE bool sample_lists::fit() const {
  const auto sum = [](const std::vector<std::int32_t>& counts) {
    std::size_t all = 0;
    for (const auto c : counts) {
      all += static_cast<std::size_t>(std::max(c, 0));
    }
    return all;
  };
  const auto samples = networks.size();
  const auto parts = sum(part_counts);
  return times.size() == samples && part_counts.size() == samples && edge_counts.size() == samples &&
         classes.size() == parts && folding.size() == parts && numbers.size() == part_numbers.size() * parts &&
         durations.size() == parts && edges.size() == 2 * sum(edge_counts);
}

// Samples one after another, each checked.
class kernel_samples_reader {
 public:
  explicit kernel_samples_reader(const std::filesystem::path& path);

  [[nodiscard]] std::vector<kernel_sample> read();

 private:
  [[nodiscard]] fusion::kernel_part next_part();
  [[nodiscard]] std::pair<std::uint16_t, std::uint16_t> next_edge(const fusion::kernel_description& k);
  void check_sample() const;
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    file_.refuse(fmt::format("sample {}: {}", sample_, found), expected);
  }

  io::sealed_tensors_reader file_;
  std::vector<std::string> names_{};
  sample_lists lists_{};
  std::size_t sample_ = 0;
  std::size_t part_ = 0;
  std::size_t edge_ = 0;
};

UNITY_INLINE kernel_samples_reader::kernel_samples_reader(const std::filesystem::path& path)
    : file_{path, kernel_samples_line} {
  for (const auto& name : file_.header().at("networks").items()) {
    names_.push_back(name.line());
  }
  sample_lists::visit(lists_, [&]<class T>(const char* name, std::vector<T>& list) { list = file_.get<T>(name); });
  if (!lists_.fit()) {
    file_.refuse("lists of lengths that do not fit", "as many numbers as samples, parts and edges have");
  }
}

UNITY_INLINE fusion::kernel_part kernel_samples_reader::next_part() {
  fusion::kernel_part p;
  const auto kind = lists_.classes[part_];
  const auto folding = lists_.folding[part_];
  p.duration = picoseconds{lists_.durations[part_]};
  if (kind >= fusion::operator_class_names.size() || folding > 1 || p.duration < picoseconds{}) {
    refuse(fmt::format("a part of class {}, folding {}, {}", kind, folding, p.duration),
           "a class, 0 or 1, and no negative time");
  }
  p.kind = static_cast<fusion::operator_class>(kind);
  p.is_folding = folding == 1;
  for (std::size_t i = 0; i < part_numbers.size(); ++i) {
    auto& x = p.*part_numbers[i];
    x = lists_.numbers[part_numbers.size() * part_ + i];
    if (!(x >= 0 && x <= most_of_a_part)) {
      refuse(fmt::format("a part with {} flops or bytes", x), "numbers of 0 to 1e30");
    }
  }
  ++part_;
  return p;
}

UNITY_INLINE std::pair<std::uint16_t, std::uint16_t> kernel_samples_reader::next_edge(
    const fusion::kernel_description& k) {
  const auto from = lists_.edges[2 * edge_];
  const auto to = lists_.edges[2 * edge_ + 1];
  ++edge_;
  const std::pair<std::uint16_t, std::uint16_t> edge{static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(to)};
  const bool goes_on = from >= 0 && from < to && static_cast<std::size_t>(to) < k.parts.size();
  if (!goes_on || (!k.edges.empty() && edge <= k.edges.back())) {
    refuse(fmt::format("an edge from {} to {}", from, to), "ascending edges from parts to later ones");
  }
  return edge;
}

UNITY_INLINE void kernel_samples_reader::check_sample() const {
  const auto network = lists_.networks[sample_];
  const auto time = lists_.times[sample_];
  const auto parts = lists_.part_counts[sample_];
  const auto edges = lists_.edge_counts[sample_];
  if (network < 0 || static_cast<std::size_t>(network) >= names_.size() || time <= 0 || parts < 1 ||
      parts > UINT16_MAX || edges < 0) {
    refuse(fmt::format("network {}, {} ps, {} parts, {} edges", network, time, parts, edges),
           "one of the networks, a time above 0, parts");
  }
}

UNITY_INLINE std::vector<kernel_sample> kernel_samples_reader::read() {
  std::vector<kernel_sample> samples(lists_.networks.size());
  for (sample_ = 0; sample_ < samples.size(); ++sample_) {
    check_sample();
    auto& s = samples[sample_];
    s.network = names_[static_cast<std::size_t>(lists_.networks[sample_])];
    s.time = picoseconds{lists_.times[sample_]};
    for (std::int32_t i = 0; i < lists_.part_counts[sample_]; ++i) {
      s.kernel.parts.push_back(next_part());
    }
    for (std::int32_t i = 0; i < lists_.edge_counts[sample_]; ++i) {
      s.kernel.edges.push_back(next_edge(s.kernel));
    }
  }
  return samples;
}

}  // namespace unity::learn::detail

namespace unity::learn {

UNITY_INLINE void write_kernel_samples(const std::filesystem::path& path, std::span<const kernel_sample> samples) {
  std::vector<std::string> names;
  detail::sample_lists lists;
  for (const auto& s : samples) {
    const auto known = std::find(names.begin(), names.end(), s.network);
    lists.add(s, static_cast<std::size_t>(known - names.begin()));
    if (known == names.end()) {
      names.push_back(s.network);
    }
  }
  io::sealed_tensors_writer file;
  detail::sample_lists::visit(
      lists, [&]<class T>(const char* name, const std::vector<T>& list) { file.add(name, std::span<const T>{list}); });
  file.write(path, kernel_samples_line, {{"networks", names}});
}

UNITY_INLINE std::vector<kernel_sample> read_kernel_samples(const std::filesystem::path& path) {
  return detail::kernel_samples_reader{path}.read();
}

}  // namespace unity::learn

#endif
