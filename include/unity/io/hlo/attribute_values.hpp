// Parses the attributes that determine shapes and work.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// One dimension of a window. Regular.
struct hlo_window_dimension {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t low = 0;  // elements of padding before the first one; if negative, elements removed
  std::int64_t high = 0;
  std::int64_t base_dilation = 1;    // dilation of the base area
  std::int64_t window_dilation = 1;  // dilation of the window

  friend bool operator==(const hlo_window_dimension&, const hlo_window_dimension&) = default;
};

// The roles of dimensions, such as "bf01_oi01->bf01". Regular.
struct hlo_convolution_dimensions {
  struct roles {
    std::size_t batch = 0;    // or output features of a kernel
    std::size_t feature = 0;  // or input features of a kernel
    std::vector<std::size_t> spatial{};

    friend bool operator==(const roles&, const roles&) = default;
  };
  roles input{};
  roles kernel{};
  roles output{};

  friend bool operator==(const hlo_convolution_dimensions&, const hlo_convolution_dimensions&) = default;
};

// "{1,0}", "1"; empty if the text is not a list of integers.
[[nodiscard]] std::optional<std::vector<std::int64_t>> integers_of(std::string_view text);

// The value of an attribute; an empty list if it is missing. No value if it is not a list of integers.
[[nodiscard]] std::optional<std::vector<std::int64_t>> integers_of(const hlo_instruction& i, std::string_view key);

// "{[0:4:2], [1:3]}": starts, limits and steps.
[[nodiscard]] std::optional<std::vector<std::array<std::int64_t, 3>>> slices_of(std::string_view text);

// "0_1x2_3_1": low, high and interior.
[[nodiscard]] std::optional<std::vector<std::array<std::int64_t, 3>>> padding_of(std::string_view text);

// "{size=2x3 stride=1x2 pad=0_1x1_1 lhs_dilate=1x2 rhs_dilate=2x1}".
[[nodiscard]] std::optional<std::vector<hlo_window_dimension>> window_of(std::string_view text);

[[nodiscard]] std::optional<hlo_convolution_dimensions> convolution_dimensions_of(std::string_view text);

// The number of members in each group of "{{0,1},{2,3}}" or "[2,2]<=[4]"; empty if the text does not state it, or
// groups differ.
[[nodiscard]] std::optional<std::int64_t> group_size_of(std::string_view text);

// The number of positions of a window along a dimension of that size; -1 if it is out of range.
[[nodiscard]] std::int64_t window_places(const hlo_window_dimension& w, std::int64_t size);

// The number of pairs of a window position and a window element that meet a real element, not padding or a hole. With
// more than 1e6 pairs, the number of all pairs.
[[nodiscard]] double window_hits(const hlo_window_dimension& w, std::int64_t size);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_ATTRIBUTE_VALUES)

#include <algorithm>

#include <unity/core/printable.hpp>

namespace unity::io::detail {

// Of windows: sums and products of two do not overflow.
inline constexpr std::int64_t most_of_window = std::int64_t{1} << 31U;
// Of dimensions and their bounds: sums do not overflow.
inline constexpr std::int64_t most_of_dimension = std::int64_t{1} << 50U;

[[nodiscard]] inline std::optional<std::int64_t> hlo_number(std::string_view text, std::int64_t most) {
  const auto n = to_number<std::int64_t>(text);
  return n && *n <= most && *n >= -most ? n : std::nullopt;
}

// Splits at separators and trims blanks; empty for an empty text.
[[nodiscard]] inline std::vector<std::string_view> hlo_split(std::string_view text, char separator) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    auto part = text.substr(0, end);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    all.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

// Removes the surrounding brackets, if there are any.
[[nodiscard]] inline std::string_view hlo_inside(std::string_view text, char open, char close) {
  return text.size() >= 2 && text.front() == open && text.back() == close ? text.substr(1, text.size() - 2) : text;
}

[[nodiscard]] inline std::optional<std::vector<std::int64_t>> hlo_numbers(std::string_view text, char separator,
                                                                          std::int64_t most = most_of_window) {
  std::vector<std::int64_t> all;
  for (const auto part : hlo_split(text, separator)) {
    const auto n = hlo_number(part, most);
    if (!n) {
      return std::nullopt;
    }
    all.push_back(*n);
  }
  return all;
}

// Two or three numbers for each part; `third`: the default of the third.
[[nodiscard]] inline std::optional<std::vector<std::array<std::int64_t, 3>>> hlo_triples(
    const std::vector<std::string_view>& parts, char separator, std::int64_t third, std::int64_t most) {
  std::vector<std::array<std::int64_t, 3>> all;
  for (const auto part : parts) {
    const auto n = hlo_numbers(part, separator, most);
    if (!n || n->size() < 2 || n->size() > 3) {
      return std::nullopt;
    }
    all.push_back({(*n)[0], (*n)[1], n->size() == 3 ? (*n)[2] : third});
  }
  return all;
}

// "01bf": digits are spatial dimensions, '?' unused ones.
[[nodiscard]] inline std::optional<hlo_convolution_dimensions::roles> hlo_roles(std::string_view text, char batch,
                                                                                char feature) {
  hlo_convolution_dimensions::roles r;
  const auto of = [&](char c) { return text.find(c); };
  r.batch = of(batch);
  r.feature = of(feature);
  for (char c = '0'; c <= '9' && of(c) != std::string_view::npos; ++c) {
    r.spatial.push_back(of(c));
  }
  const bool is_whole =
      r.batch != std::string_view::npos && r.feature != std::string_view::npos && r.spatial.size() + 2 == text.size();
  return is_whole ? std::optional{r} : std::nullopt;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::optional<std::vector<std::int64_t>> integers_of(std::string_view text) {
  return detail::hlo_numbers(detail::hlo_inside(text, '{', '}'), ',', detail::most_of_dimension);
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> integers_of(const hlo_instruction& i, std::string_view key) {
  return integers_of(i.text_of(key).value_or("{}"));
}

UNITY_INLINE std::optional<std::vector<std::array<std::int64_t, 3>>> slices_of(std::string_view text) {
  auto parts = detail::hlo_split(detail::hlo_inside(text, '{', '}'), ',');
  for (auto& part : parts) {
    part = detail::hlo_inside(part, '[', ']');
  }
  return detail::hlo_triples(parts, ':', 1, detail::most_of_dimension);
}

UNITY_INLINE std::optional<std::vector<std::array<std::int64_t, 3>>> padding_of(std::string_view text) {
  return detail::hlo_triples(detail::hlo_split(text, 'x'), '_', 0, detail::most_of_window);
}

UNITY_INLINE std::optional<std::vector<hlo_window_dimension>> window_of(std::string_view text) {
  std::vector<hlo_window_dimension> all;
  bool is_first = true;
  for (const auto field : detail::hlo_split(detail::hlo_inside(text, '{', '}'), ' ')) {
    const auto equals = std::min(field.find('='), field.size());
    const auto key = field.substr(0, equals);
    const auto value = field.substr(std::min(equals + 1, field.size()));
    const auto numbers = detail::hlo_numbers(value, 'x');
    const auto padding = padding_of(value);
    const auto count = key == "pad" ? (padding ? padding->size() : 0) : numbers ? numbers->size() : 0;
    all.resize(is_first ? count : all.size());
    if (count != all.size() || count == 0) {
      return std::nullopt;
    }
    is_first = false;
    for (std::size_t i = 0; i < count; ++i) {
      auto& w = all[i];
      if (key == "pad") {
        w.low = (*padding)[i][0];
        w.high = (*padding)[i][1];
        continue;
      }
      auto* const at = key == "size"         ? &w.size
                       : key == "stride"     ? &w.stride
                       : key == "lhs_dilate" ? &w.base_dilation
                       : key == "rhs_dilate" ? &w.window_dilation
                                             : nullptr;
      if (at != nullptr) {
        *at = (*numbers)[i];
      } else if (key != "rhs_reversal") {
        return std::nullopt;
      }
    }
  }
  const bool is_positive = std::all_of(all.begin(), all.end(), [](const auto& w) {
    return w.size > 0 && w.stride > 0 && w.base_dilation > 0 && w.window_dilation > 0;
  });
  return is_positive ? std::optional{all} : std::nullopt;
}

UNITY_INLINE std::optional<hlo_convolution_dimensions> convolution_dimensions_of(std::string_view text) {
  const auto line = text.find('_');
  const auto arrow = text.find("->");
  if (line == std::string_view::npos || arrow == std::string_view::npos || arrow < line) {
    return std::nullopt;
  }
  const auto input = detail::hlo_roles(text.substr(0, line), 'b', 'f');
  const auto kernel = detail::hlo_roles(text.substr(line + 1, arrow - line - 1), 'o', 'i');
  const auto output = detail::hlo_roles(text.substr(arrow + 2), 'b', 'f');
  const bool is_whole = input && kernel && output && input->spatial.size() == kernel->spatial.size() &&
                        input->spatial.size() == output->spatial.size();
  return is_whole ? std::optional{hlo_convolution_dimensions{*input, *kernel, *output}} : std::nullopt;
}

UNITY_INLINE std::optional<std::int64_t> group_size_of(std::string_view text) {
  if (const auto arrow = text.find("<="); arrow != std::string_view::npos) {
    const auto sizes = detail::hlo_numbers(detail::hlo_inside(text.substr(0, arrow), '[', ']'), ',');
    return sizes && sizes->size() == 2 && sizes->back() > 0 ? std::optional{sizes->back()} : std::nullopt;
  }
  std::optional<std::int64_t> size;
  text = detail::hlo_inside(text, '{', '}');
  while (!text.empty()) {
    const auto end = text.find('}');
    const auto group = integers_of(text.substr(0, end == std::string_view::npos ? end : end + 1));
    const auto members = group ? static_cast<std::int64_t>(group->size()) : 0;
    if (members == 0 || (size && *size != members) || end == std::string_view::npos) {
      return std::nullopt;
    }
    size = members;
    text.remove_prefix(std::min(text.find('{', end), text.size()));
  }
  return size;
}

UNITY_INLINE std::int64_t window_places(const hlo_window_dimension& w, std::int64_t size) {
  __extension__ using wide = __int128;
  const auto base = size == 0 ? wide{0} : wide{size - 1} * w.base_dilation + 1;
  const auto padded = base + w.low + w.high;
  const auto window = wide{w.size - 1} * w.window_dilation + 1;
  const auto places = padded < window ? wide{0} : (padded - window) / w.stride + 1;
  return places > (wide{1} << 50U) ? -1 : static_cast<std::int64_t>(places);
}

UNITY_INLINE double window_hits(const hlo_window_dimension& w, std::int64_t size) {
  const auto places = window_places(w, size);
  constexpr double most = 1e6;  // with more pairs, all count as hits
  const auto pairs = static_cast<double>(std::max<std::int64_t>(0, places)) * static_cast<double>(w.size);
  if (pairs > most) {
    return pairs;
  }
  std::int64_t hits = 0;
  for (std::int64_t place = 0; place < places; ++place) {
    for (std::int64_t k = 0; k < w.size; ++k) {
      const auto at = place * w.stride + k * w.window_dilation - w.low;
      hits += at >= 0 && at % w.base_dilation == 0 && at / w.base_dilation < size ? 1 : 0;
    }
  }
  return static_cast<double>(hits);
}

}  // namespace unity::io

#endif
