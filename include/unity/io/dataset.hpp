// Small real data sets, as made by examples/data: images of characters, and text. The sample in a row of a batch
// depends only on the seed, the step and the row, so neither on how the batch is divided nor on the number of ranks.
//
// A sealed file (io/sealed_file.hpp) with the line "unity dataset 1" and the header
//
// {"content": "images", "classes": 10, "tensors": [
//  {"name": "train samples", "kind": "", "element": "uint8", "dims": [198, 16, 16], "offset": 0},
//  {"name": "train labels", ..., "dims": [198]}, {"name": "test samples", ...}, {"name": "test labels", ...}]}
//
// or with the content "text", which has no labels and whose samples are one row of characters, numbered from 0. Other
// members, such as the origin of the data, are ignored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/io/sealed_file.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

inline constexpr std::string_view dataset_line = "unity dataset 1\n";

enum class dataset_content : std::uint8_t { images, text };
enum class dataset_part : std::uint8_t { train, test };
enum class dataset_field : std::uint8_t { samples, labels };
inline constexpr std::array<std::string_view, 2> dataset_content_names{"images", "text"};
inline constexpr std::array<std::string_view, 2> dataset_part_names{"train", "test"};

// How batches are drawn.
//   train   images: each once per epoch, in another order each time, moved by up to `shift` pixels along each axis;
//           text: windows that begin anywhere
//   test    in order, repeatedly, without shifts; text: windows that do not overlap; independent of the seed
// Regular.
struct dataset_reading {
  dataset_part part = dataset_part::train;
  std::uint64_t seed = 0;
  std::int64_t shift = 0;

  friend bool operator==(const dataset_reading&, const dataset_reading&) = default;
};

// Holds the whole data set in memory.
class dataset {
 public:
  // Throws: unity::error if the file is missing, of another kind or version, truncated, altered, or inconsistent.
  explicit dataset(const std::filesystem::path& path);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  // The checksum of the file.
  [[nodiscard]] const fingerprint& sum() const noexcept { return sum_; }
  [[nodiscard]] dataset_content content() const noexcept { return content_; }
  // The number of classes, or of distinct characters: labels and character numbers are less than this.
  [[nodiscard]] std::int64_t classes() const noexcept { return classes_; }
  // The number of images, or of characters of text.
  [[nodiscard]] std::int64_t samples(dataset_part part) const noexcept { return at(part).count; }
  // Height and width of an image; empty for text.
  [[nodiscard]] const tensor::shape& sizes() const noexcept { return parts_[0].sizes; }

  // Checks that a tensor of that type can be the field of a batch; its first dimension counts the rows. A row of images
  // is floating-point numbers, one per pixel, in any shape; its label is one integer. A row of text is integers, fewer
  // than the text has; its labels are the characters that follow each of them.
  // Throws: unity::error if it cannot.
  void expect_fits(dataset_field field, const tensor::tensor_type& type) const;

  // Effects: fills `out` with the elements of a box, row-major. The box is a part of the tensor of that type that is
  // the field of the step's batch. Pixels are scaled to 0 to 1. Complexity: linear in the box.
  // Throws: unity::error as expect_fits.
  void fill(dataset_field field, const tensor::tensor_type& type, const parallel::box& part, std::int64_t step,
            const dataset_reading& reading, std::span<std::byte> out) const;

 private:
  struct stored {
    std::int64_t count = 0;
    tensor::shape sizes{};
    std::vector<std::uint8_t> samples{};
    std::vector<std::uint8_t> labels{};
  };
  // The origin of a row: a sample and its shift, or the first character of a window.
  struct row_source {
    const stored* from;
    std::int64_t first;
    std::int64_t down = 0;
    std::int64_t right = 0;
  };

  [[nodiscard]] const stored& at(dataset_part part) const noexcept { return parts_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] std::int64_t row_length() const noexcept { return tensor::element_count(parts_[0].sizes); }

  [[nodiscard]] bool fits_row(dataset_field field, const tensor::shape& dims) const;

  [[nodiscard]] row_source find_row(std::uint64_t place, const dataset_reading& reading, std::int64_t length) const;

  [[nodiscard]] double value(dataset_field field, const row_source& row, std::int64_t i) const;

  // The values of the tensor with that name and that number of dimensions.
  [[nodiscard]] std::vector<std::uint8_t> read(const sealed_reader& file, std::span<const stored_tensor> tensors,
                                               const std::string& what, std::size_t rank, tensor::shape& dims) const;
  void read_part(const sealed_reader& file, std::span<const stored_tensor> tensors, dataset_part part);

  std::string name_;
  fingerprint sum_{};
  dataset_content content_ = dataset_content::images;
  std::int64_t classes_ = 0;
  std::array<stored, 2> parts_{};
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_DATASET)

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/tensor_data.hpp>

namespace unity::io {

UNITY_INLINE dataset::dataset(const std::filesystem::path& path) {
  const sealed_reader file{path, dataset_line};
  name_ = file.name();
  sum_ = file.sum();
  const auto document = detail::parse_json(file.header(), name_);
  const json_place in{document, fmt::format("{}: header", name_)};
  const auto word = in.at("content").word();
  const auto found = std::find(dataset_content_names.begin(), dataset_content_names.end(), word);
  if (found == dataset_content_names.end()) {
    throw error{in.at("content").where(), detail::shown(word), "images or text"};
  }
  content_ = static_cast<dataset_content>(found - dataset_content_names.begin());
  classes_ = in.at("classes").integer();
  const auto tensors = detail::stored_tensors_from(in.at("tensors"), file.value_bytes());
  for (const auto part : {dataset_part::train, dataset_part::test}) {
    read_part(file, tensors, part);
  }
  if (parts_[0].sizes != parts_[1].sizes) {
    throw error{name_, "images for training and for testing of different sizes", "the same"};
  }
}

UNITY_INLINE void dataset::expect_fits(dataset_field field, const tensor::tensor_type& type) const {
  const bool is_image = content_ == dataset_content::images && field == dataset_field::samples;
  std::string expected;
  if (is_image) {
    expected = fmt::format("floating-point numbers, {} a row", row_length());
  } else if (content_ == dataset_content::images) {
    expected = "integers, one a row";
  } else {
    expected = fmt::format("integers, rows of less than {}", std::min(parts_[0].count, parts_[1].count));
  }
  const bool has_type = is_image ? tensor::is_floating(type.element) : tensor::is_integral(type.element);
  if (!has_type || type.rank() == 0 || !fits_row(field, type.dims)) {
    throw error{name_, fmt::format("does not fill {}", tensor::to_string(type)), expected};
  }
}

UNITY_INLINE void dataset::fill(dataset_field field, const tensor::tensor_type& type, const parallel::box& part,
                                std::int64_t step, const dataset_reading& reading, std::span<std::byte> out) const {
  expect_fits(field, type);
  UNITY_EXPECTS(step >= 0 && reading.shift >= 0, "a step and a shift from 0 on");
  UNITY_EXPECTS(part.begin.size() == type.rank(), "a box of the tensor");
  UNITY_EXPECTS(static_cast<std::size_t>(part.volume() * tensor::size_of(type.element)) == out.size(),
                "as much room as the box has elements");
  if (part.empty()) {
    return;
  }
  const tensor::shape row_dims(std::span{type.dims}.subspan(1));
  const parallel::box in_row{tensor::shape(std::span{part.begin}.subspan(1)),
                             tensor::shape(std::span{part.end}.subspan(1))};
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(part.volume()));
  for (auto r = part.begin[0]; r < part.end[0]; ++r) {
    const auto row =
        find_row(static_cast<std::uint64_t>(step * type.dims[0] + r), reading, tensor::element_count(row_dims));
    parallel::for_each_run(row_dims, in_row, [&](std::int64_t first, std::int64_t, std::int64_t count) {
      for (auto i = first; i < first + count; ++i) {
        values.push_back(value(field, row, i));
      }
    });
  }
  const auto data = make_data(type.element, part.sizes(), values);
  std::memcpy(out.data(), data.bytes.data(), data.bytes.size());
}

UNITY_INLINE bool dataset::fits_row(dataset_field field, const tensor::shape& dims) const {
  const auto length = tensor::element_count(std::span{dims}.subspan(1));
  if (content_ == dataset_content::images) {
    return length == (field == dataset_field::samples ? row_length() : 1);
  }
  return length < parts_[0].count && length < parts_[1].count;
}

UNITY_INLINE auto dataset::find_row(std::uint64_t place, const dataset_reading& reading, std::int64_t length) const
    -> row_source {
  const auto& from = at(reading.part);
  const auto count = static_cast<std::uint64_t>(from.count);
  const auto window = static_cast<std::uint64_t>(length);
  const bool is_text = content_ == dataset_content::text;
  if (reading.part == dataset_part::test) {
    const auto first = is_text ? place % ((count - 1) / window) * window : place % count;
    return {&from, static_cast<std::int64_t>(first)};
  }
  random_engine random{hash_combine(reading.seed, place)};
  if (is_text) {
    return {&from, static_cast<std::int64_t>(random.below(count - window))};
  }
  const index_permutation order{count, hash_combine(reading.seed, place / count)};
  return {&from, static_cast<std::int64_t>(order(place % count)), random.between(-reading.shift, reading.shift),
          random.between(-reading.shift, reading.shift)};
}

UNITY_INLINE double dataset::value(dataset_field field, const row_source& row, std::int64_t i) const {
  if (content_ == dataset_content::text) {
    return row.from->samples[static_cast<std::size_t>(row.first + i + (field == dataset_field::labels ? 1 : 0))];
  }
  if (field == dataset_field::labels) {
    return row.from->labels[static_cast<std::size_t>(row.first)];
  }
  const auto height = row.from->sizes[0];
  const auto width = row.from->sizes[1];
  const auto y = i / width - row.down;
  const auto x = i % width - row.right;
  if (y < 0 || y >= height || x < 0 || x >= width) {
    return 0;
  }
  return row.from->samples[static_cast<std::size_t>((row.first * height + y) * width + x)] / 255.0;
}

UNITY_INLINE std::vector<std::uint8_t> dataset::read(const sealed_reader& file, std::span<const stored_tensor> tensors,
                                                     const std::string& what, std::size_t rank,
                                                     tensor::shape& dims) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == what; });
  if (found == tensors.end() || found->element != tensor::dtype::uint8 || found->dims.size() != rank) {
    throw error{name_,
                found == tensors.end() ? fmt::format("has no {}", what) : fmt::format("has {}", to_string(*found)),
                fmt::format("{} of type uint8 and rank {}", what, rank)};
  }
  dims = found->dims;
  std::vector<std::uint8_t> values(static_cast<std::size_t>(found->byte_count()));
  const auto offset = offsets_of(tensors)[static_cast<std::size_t>(found - tensors.begin())];
  file.read(offset, std::as_writable_bytes(std::span{values}));
  return values;
}

UNITY_INLINE void dataset::read_part(const sealed_reader& file, std::span<const stored_tensor> tensors,
                                     dataset_part part) {
  auto& into = parts_[static_cast<std::size_t>(part)];
  const std::string word{dataset_part_names[static_cast<std::size_t>(part)]};
  const bool is_text = content_ == dataset_content::text;
  tensor::shape dims;
  into.samples = read(file, tensors, fmt::format("{} samples", word), is_text ? 1 : 3, dims);
  into.count = dims[0];
  if (!is_text) {
    into.sizes = {dims[1], dims[2]};
    into.labels = read(file, tensors, fmt::format("{} labels", word), 1, dims);
  }
  if (dims[0] != into.count) {
    throw error{name_, fmt::format("{} {} labels", dims[0], word), fmt::format("{}, one a sample", into.count)};
  }
  const auto& classes = is_text ? into.samples : into.labels;
  if (const auto most = *std::max_element(classes.begin(), classes.end()); most >= classes_) {
    throw error{name_, fmt::format("class {} among {} samples", most, word), fmt::format("less than {}", classes_)};
  }
}

}  // namespace unity::io

#endif
