// Streams over files and texts, for protobuf's parser.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <unity/core/file.hpp>

namespace unity::io::detail {

[[nodiscard]] inline google::protobuf::io::ArrayInputStream in_memory(std::string_view bytes) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());  // parse() reports longer texts
  return {bytes.data(), static_cast<int>(std::min(bytes.size(), most))};
}

// The result of f(stream, size) on a file; the file is read in pieces, except for pipes.
template <class F>
auto with_stream(const std::filesystem::path& path, const F& f) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    const auto bytes = read_file(path);
    auto stream = in_memory(bytes);
    return f(stream, bytes.size());
  }
  static_cast<void>(read_file(path, 0, 0));  // reports why it cannot be read
  const unity::detail::descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  google::protobuf::io::FileInputStream stream{file.get()};
  return f(stream, std::filesystem::file_size(path));
}

}  // namespace unity::io::detail
