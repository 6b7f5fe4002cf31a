// Whatever a data set with a valid checksum contains, it is read or refused; batches can be drawn from an accepted one.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/dataset.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

namespace {

using namespace unity;

// Draws batches of three: all values of both fields and parts must be in range.
void draw(const io::dataset& d) {
  const bool is_text = d.content() == io::dataset_content::text;
  constexpr std::int64_t window = 3;
  for (const auto field : {io::dataset_field::samples, io::dataset_field::labels}) {
    const bool is_image = !is_text && field == io::dataset_field::samples;
    tensor::tensor_type type{.element = is_image ? tensor::dtype::float32 : tensor::dtype::int32, .dims = {3}};
    for (const auto n : is_image ? d.sizes() : is_text ? tensor::shape{window} : tensor::shape{}) {
      type.dims.push_back(n);
    }
    std::vector<float> levels(is_image ? static_cast<std::size_t>(tensor::element_count(type.dims)) : 0);
    std::vector<std::int32_t> numbers(is_image ? 0 : static_cast<std::size_t>(tensor::element_count(type.dims)));
    const auto bytes =
        is_image ? std::as_writable_bytes(std::span{levels}) : std::as_writable_bytes(std::span{numbers});
    for (const auto part : {io::dataset_part::train, io::dataset_part::test}) {
      try {
        d.fill(field, type, parallel::whole(type.dims), 5, {part, 1, 1}, bytes);
      } catch (const error& e) {
        test::expect_one_line(e);
        continue;  // the text is shorter than a window
      }
      for (const auto x : levels) {
        if (!(x >= 0 && x <= 1)) {
          __builtin_trap();
        }
      }
      for (const auto x : numbers) {
        if (x < 0 || x >= d.classes()) {
          __builtin_trap();
        }
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static test::memory_file file;
  const auto input = test::split_input(data, size);
  file.assign(test::sealed_of(io::dataset_line, input.header, input.values));
  std::optional<io::dataset> found;
  try {
    found.emplace(file.path());
  } catch (const error& e) {
    test::expect_one_line(e);
    return 0;  // refused: not a data set
  }
  draw(*found);
  return 0;
}
