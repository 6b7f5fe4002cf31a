#include <unity/learn/kernel_samples.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <fmt/core.h>

#include <unity/core/file.hpp>
#include <unity/core/units.hpp>
#include <unity/io/sealed_file.hpp>
#include <unity/io/stored_tensor.hpp>

#include "../support/message_of.hpp"
#include "synthetic_kernels.hpp"

namespace tests_of_kernel_samples {

using namespace unity;
using learn::kernel_sample;
using unity::test::message_of;

namespace {

// A path at which neither a file nor its predecessor exists.
std::filesystem::path scratch(const std::string& name) {
  const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / ("learn_samples_" + name);
  std::filesystem::remove(file);
  std::filesystem::remove(io::previous_of(file));
  return file;
}

std::string read_message(const std::filesystem::path& file) {
  return message_of([&] { static_cast<void>(learn::read_kernel_samples(file)); });
}

// A file of two parts and an edge in which the list `name` is replaced by `list`; returns the reader's error message.
template <class T>
std::string message_with(const std::string& name, const std::vector<T>& list) {
  io::sealed_tensors_writer file;
  const auto add = [&]<class Own>(const char* own, const std::vector<Own>& usual) {
    if (own == name) {
      file.add(own, std::span<const T>{list});
    } else {
      file.add(own, std::span<const Own>{usual});
    }
  };
  add("sample networks", std::vector<std::int32_t>{0});
  add("sample picoseconds", std::vector<std::int64_t>{5000});
  add("sample parts", std::vector<std::int32_t>{2});
  add("sample edges", std::vector<std::int32_t>{1});
  add("part classes", std::vector<std::uint8_t>{0, 3});
  add("part folding", std::vector<std::uint8_t>{0, 1});
  add("part numbers", std::vector<double>(10, 64));
  add("part picoseconds", std::vector<std::int64_t>{2000, 0});
  add("edges", std::vector<std::int32_t>{0, 1});
  const auto path = scratch("changed");
  file.write(path, learn::kernel_samples_line, {{"networks", {"net"}}});
  const auto m = read_message(path);
  std::filesystem::remove(path);
  return m;
}

}  // namespace

TEST_CASE("kernel samples survive a file round trip") {
  const auto file = scratch("whole");
  const auto samples = test::synthetic_kernels{2}.next(300);
  learn::write_kernel_samples(file, samples);
  CHECK(learn::read_kernel_samples(file) == samples);
  const std::vector<kernel_sample> single{{"a net", {{fusion::kernel_part{}}, {}}, picoseconds{1}}};
  learn::write_kernel_samples(file, single);
  CHECK(learn::read_kernel_samples(file) == single);
  learn::write_kernel_samples(file, {});
  CHECK(learn::read_kernel_samples(file).empty());
}

TEST_CASE("a damaged kernel sample file is refused in one line") {
  const auto file = scratch("damaged");
  learn::write_kernel_samples(file, test::synthetic_kernels{2}.next(3));
  const auto text = read_file(file);
  const auto message = [&](const std::string& content) {
    atomic_write(file, content);
    std::filesystem::remove(io::previous_of(file));
    const auto m = read_message(file);
    CHECK(m.find('\n') == std::string::npos);
    return m.substr(m.find(": ") + 2);
  };
  const auto end = std::to_string(text.size());
  CHECK(message(text.substr(0, 100)) == "is cut short at byte 100; expected " + end + " bytes, as it says");
  auto altered = text;
  altered[text.size() / 2] ^= 1;
  CHECK(message(altered) == "its checksum is not that of its content; expected a file that was not altered");
  auto later = text;
  later[14] = '2';
  CHECK(message(later) == "another version; expected \"unity kernels 1\"");
  CHECK(message("unity weights 1\n" + text.substr(16)) ==
        "another kind of file; expected one that begins with \"unity kernels 1\"");
}

TEST_CASE("reading kernel samples checks parts and edges and list lengths") {
  const auto changed = []<class T>(const std::string& name, const std::vector<T>& list) {
    const auto m = message_with(name, list);
    return m.empty() ? m : m.substr(m.find(": ") + 2);
  };
  CHECK(changed("nothing", std::vector<double>{}) == "");
  CHECK(changed("sample networks", std::vector<std::int32_t>{1}) ==
        "sample 0: network 1, 5000 ps, 2 parts, 1 edges; expected one of the networks, a time above 0, parts");
  CHECK(changed("sample picoseconds", std::vector<std::int64_t>{0}).starts_with("sample 0: network 0, 0 ps"));
  CHECK(changed("sample parts", std::vector<std::int32_t>{3}).starts_with("lists of lengths that do not fit"));
  CHECK(changed("sample parts", std::vector<double>{2}) == "has \"sample parts\" float64[1]; expected int32");
  CHECK(changed("part classes", std::vector<std::uint8_t>{0, 7}) ==
        "sample 0: a part of class 7, folding 1, 0 ps; expected a class, 0 or 1, and no negative time");
  CHECK(changed("part folding", std::vector<std::uint8_t>{2, 0}).starts_with("sample 0: a part of class 0, folding 2"));
  CHECK(changed("part numbers", std::vector<double>(10, -1)) ==
        "sample 0: a part with -1 flops or bytes; expected numbers of 0 to 1e30");
  CHECK(changed("part numbers", std::vector<double>(10, 1e300)).starts_with("sample 0: a part with 1e+300 flops"));
  CHECK(changed("part picoseconds", std::vector<std::int64_t>{2, -1}).starts_with("sample 0: a part of class 3"));
  for (const auto& edge : {std::vector<std::int32_t>{1, 0}, {1, 1}, {0, 2}, {-1, 1}}) {
    CHECK(changed("edges", edge) ==
          fmt::format("sample 0: an edge from {} to {}; expected ascending edges from parts to later ones", edge[0],
                      edge[1]));
  }
  CHECK(changed("edges", std::vector<std::int32_t>{0}).starts_with("lists of lengths that do not fit"));
}

}  // namespace tests_of_kernel_samples
