// Checkpoints of training: a model's weights and the optimizer state of each, independent of how they are divided. A
// run can be resumed under another plan and on another number of ranks.
//
// A sealed file (io/sealed_file.hpp) with the line "unity weights 1" and the header
//
// {"graph": "90f3a1...", "step": 100, "seed": 7, "optimizer": "adam",
//  "settings": {"learning_rate": 0.001, ...}, "loss": "cross_entropy", "data": "synthetic",
//  "tensors": [{"name": "w", "kind": "weight", "element": "float32", "dims": [64, 10], "offset": 0}, ...]}
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/io/json_place.hpp>
#include <unity/io/sealed_file.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/optimizer.hpp>

namespace unity::io {

inline constexpr std::string_view weights_line = "unity weights 1\n";

// Regular. The kind of a tensor is "weight", the name of a state that the optimizer keeps for the weight (such as
// "velocity"), or the name of a value that compressors keep for it (train/held_state.hpp).
struct weights_header {
  std::string graph{};    // the fingerprint of the model, in the form chosen by the writer
  std::int64_t step = 0;  // completed steps
  std::uint64_t seed = 0;
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  std::vector<stored_tensor> tensors{};
  std::map<std::string, double> settings{};  // finite numbers
  std::string loss{};
  std::string data{};  // the training data

  friend bool operator==(const weights_header&, const weights_header&) = default;
};

namespace detail {

[[nodiscard]] std::string weights_header_text(const weights_header& h, const std::string& file);

[[nodiscard]] std::uint64_t seed_from(const json_place& in);

[[nodiscard]] std::map<std::string, double> settings_from(const json_place& in);

[[nodiscard]] weights_header weights_header_from(const sealed_reader& file);

// Whether the part lies inside the tensor and has this many bytes.
[[nodiscard]] bool fits(const stored_tensor& t, const parallel::box& part, std::size_t bytes);

}  // namespace detail

// Writes a checkpoint part by part, in any order, without holding the values in memory.
class weights_writer {
 public:
  // Effects: creates a temporary file beside `path`.
  // Throws: unity::error if it cannot be created, is being written, or a name is not UTF-8.
  weights_writer(const std::filesystem::path& path, weights_header header);

  // Writes the row-major elements of a part of a tensor (by number in the header). Complexity: linear in bytes, in
  // contiguous pieces of the part, and in the parts of the tensor written so far.
  // Throws: unity::error if an element was already written, or there is no space.
  void put(std::size_t tensor, const parallel::box& part, std::span<const std::byte> values);

  // Effects: as replaced_file::commit. Afterwards, this object can only be destroyed. Complexity: reads everything
  // written, for the checksum.
  // Throws: unity::error if an element was not written, or the file cannot be made durable; then the previous file
  // still exists.
  void commit();

 private:
  // Removes the part from the parts of the tensor that are still missing.
  void take(std::size_t tensor, const parallel::box& part);
  [[noreturn]] void refuse_incomplete(std::size_t tensor) const;

  replaced_file file_;
  weights_header header_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t begin_ = 0;
  std::vector<std::vector<parallel::box>> missing_;  // by tensor, disjoint
};

// A checkpoint that was intact when it was opened.
class weights_reader {
 public:
  // Effects: reads the whole file once. Memory: 1 MiB and the header.
  // Throws: unity::error if it is missing, of another kind or version, truncated or altered; the error mentions the
  // previous file if it exists.
  explicit weights_reader(const std::filesystem::path& path)
      : file_{path, weights_line, previous_of(path)},
        header_{detail::weights_header_from(file_)},
        offsets_{offsets_of(header_.tensors)} {}

  [[nodiscard]] const weights_header& header() const noexcept { return header_; }

  // The number of the tensor with that name and kind. Complexity: linear in tensors.
  // Throws: unity::error if there is none, or its element type or sizes differ.
  [[nodiscard]] std::size_t find(const stored_tensor& wanted) const;

  // Effects: fills `values` with the row-major elements of a part of a tensor. Complexity: linear in bytes and in
  // contiguous pieces of the part.
  // Throws: unity::error if the file can no longer be read.
  void get(std::size_t tensor, const parallel::box& part, std::span<std::byte> values) const;

 private:
  sealed_reader file_;
  weights_header header_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_WEIGHTS_FILE)

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string weights_header_text(const weights_header& h, const std::string& file) {
  try {
    return nlohmann::json{
        {"graph", h.graph},       {"step", h.step},
        {"seed", h.seed},         {"optimizer", parallel::optimizer_names[static_cast<std::size_t>(h.optimizer)]},
        {"settings", h.settings}, {"loss", h.loss},
        {"data", h.data},         {"tensors", to_json(h.tensors)}}
        .dump();
  } catch (const nlohmann::json::exception&) {
    throw error{file, "a name that is not UTF-8", "names in UTF-8"};
  }
}

UNITY_INLINE std::uint64_t seed_from(const json_place& in) {
  if (!in.value().is_number_unsigned()) {
    throw error{in.where(), fmt::format("is {}", in.value().type_name()), "a number of 64 bits that is not negative"};
  }
  return in.value().get<std::uint64_t>();
}

UNITY_INLINE std::map<std::string, double> settings_from(const json_place& in) {
  if (!in.value().is_object()) {
    throw error{in.where(), fmt::format("is {}", in.value().type_name()), "an object of numbers"};
  }
  std::map<std::string, double> settings;
  for (const auto& [name, value] : in.value().items()) {
    if (!value.is_number()) {
      throw error{in.at(name).where(), fmt::format("is {}", value.type_name()), "a number"};
    }
    settings[name] = value.get<double>();
  }
  return settings;
}

UNITY_INLINE weights_header weights_header_from(const sealed_reader& file) {
  const auto document = parse_json(file.header(), file.name());
  const json_place in{document, fmt::format("{}: header", file.name())};
  weights_header h{in.at("graph").line(), in.at("step").integer(), seed_from(in.at("seed")), {}, {}, {}, {}, {}};
  if (h.step < 0) {
    throw error{in.at("step").where(), fmt::format("is {}", h.step), "how many steps were done"};
  }
  const auto optimizer = parallel::find_optimizer(in.at("optimizer").word());
  if (!optimizer) {
    throw error{in.at("optimizer").where(), shown(in.at("optimizer").word()), "sgd, momentum or adam"};
  }
  h.optimizer = *optimizer;
  h.settings = settings_from(in.at("settings"));
  h.loss = in.at("loss").line();
  h.data = in.at("data").line();
  h.tensors = stored_tensors_from(in.at("tensors"), file.value_bytes());
  return h;
}

UNITY_INLINE bool fits(const stored_tensor& t, const parallel::box& part, std::size_t bytes) {
  if (part.begin.size() != t.dims.size() || part.end.size() != t.dims.size() ||
      (!part.empty() && parallel::intersection(part, parallel::whole(t.dims)) != part)) {
    return false;
  }
  return static_cast<std::uint64_t>(part.volume() * tensor::size_of(t.element)) == bytes;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE weights_writer::weights_writer(const std::filesystem::path& path, weights_header header)
    : file_{path}, header_{std::move(header)}, offsets_{offsets_of(header_.tensors)} {
  for (const auto& t : header_.tensors) {
    UNITY_EXPECTS(tensor::checked_element_count(t.dims), "sizes of a tensor");
    missing_.push_back({parallel::whole(t.dims)});
  }
  const auto head = sealed_head(weights_line, detail::weights_header_text(header_, file_.name()), offsets_.back());
  begin_ = head.size();
  file_.write(0, std::as_bytes(std::span{head}));
}

UNITY_INLINE void weights_writer::put(std::size_t tensor, const parallel::box& part,
                                      std::span<const std::byte> values) {
  UNITY_EXPECTS(tensor < header_.tensors.size(), "a tensor of the header");
  const auto& t = header_.tensors[tensor];
  UNITY_EXPECTS(detail::fits(t, part, values.size()), "a box of the tensor and as many values");
  take(tensor, part);
  const auto size = tensor::size_of(t.element);
  parallel::for_each_run(t.dims, part, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
    file_.write(begin_ + offsets_[tensor] + static_cast<std::uint64_t>(at * size),
                values.subspan(static_cast<std::size_t>(from * size), static_cast<std::size_t>(count * size)));
  });
}

UNITY_INLINE void weights_writer::commit() {
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (!missing_[i].empty()) {
      refuse_incomplete(i);
    }
  }
  const auto end = begin_ + offsets_.back();
  // Gaps between tensors read as zeros, since nothing was written there.
  const auto sum = checksum_of(end, [&](std::uint64_t at, std::span<std::byte> bytes) { file_.read(at, bytes); });
  const std::uint64_t words[2]{sum.low, sum.high};
  file_.write(end, std::as_bytes(std::span{words}));
  file_.commit();
}

UNITY_INLINE void weights_writer::take(std::size_t tensor, const parallel::box& part) {
  std::vector<parallel::box> rest;
  std::int64_t found = 0;
  for (const auto& open : missing_[tensor]) {
    const auto common = parallel::intersection(open, part);
    found += common.empty() ? 0 : common.volume();
    parallel::subtract(open, part, rest);
  }
  if (!part.empty() && found != part.volume()) {
    throw error{file_.name(), fmt::format("a part of {} is written twice", to_string(header_.tensors[tensor])),
                "each element once"};
  }
  missing_[tensor] = std::move(rest);
}

UNITY_INLINE void weights_writer::refuse_incomplete(std::size_t tensor) const {
  std::int64_t count = 0;
  for (const auto& open : missing_[tensor]) {
    count += open.volume();
  }
  std::string first;
  for (const auto begin : missing_[tensor].front().begin) {
    first += fmt::format("{}{}", first.empty() ? "" : ",", begin);
  }
  const auto& t = header_.tensors[tensor];
  throw error{file_.name(),
              fmt::format("{} lacks {} of {} elements, such as [{}]", to_string(t), count,
                          tensor::element_count(t.dims), first),
              "all of them before commit"};
}

UNITY_INLINE std::size_t weights_reader::find(const stored_tensor& wanted) const {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
    const auto& t = header_.tensors[i];
    if (t.name == wanted.name && t.kind == wanted.kind) {
      if (t != wanted) {
        file_.refuse(fmt::format("has {}", to_string(t)), to_string(wanted));
      }
      return i;
    }
  }
  file_.refuse(fmt::format("has no {} {}", wanted.kind, detail::shown(wanted.name)), to_string(wanted));
}

UNITY_INLINE void weights_reader::get(std::size_t tensor, const parallel::box& part,
                                      std::span<std::byte> values) const {
  UNITY_EXPECTS(tensor < header_.tensors.size(), "a tensor of the header");
  const auto& t = header_.tensors[tensor];
  UNITY_EXPECTS(detail::fits(t, part, values.size()), "a box of the tensor and as much room");
  const auto size = tensor::size_of(t.element);
  parallel::for_each_run(t.dims, part, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
    file_.read(offsets_[tensor] + static_cast<std::uint64_t>(at * size),
               values.subspan(static_cast<std::size_t>(from * size), static_cast<std::size_t>(count * size)));
  });
}

}  // namespace unity::io

#endif
