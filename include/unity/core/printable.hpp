// Text out of a file, for a line of a message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace unity {

// Not more than `most` bytes of it, "..." where there are more, and a '?' for each that is not visible ASCII or a
// space: what is quoted may hold line breaks, or half of a character.
[[nodiscard]] inline std::string printable(std::string_view text, std::size_t most = 60) {
  std::string line{text.substr(0, most)};
  std::replace_if(line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > most ? line + "..." : line;
}

}  // namespace unity
