// A graph in a report, drawn by Graphviz.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include <unity/io/dot.hpp>
#include <unity/io/html_report.hpp>

namespace support {

// Effects: adds the picture, with a sentence before it, or the reason why it could not be drawn within 5 s.
inline void add_graph(unity::io::html_report& page, const std::string& dot, std::string_view sentence,
                      std::string_view about) {
  const auto picture = unity::io::draw_svg(dot, std::chrono::seconds{5});
  if (picture.problem) {
    page.paragraph(fmt::format("No picture: {}.", *picture.problem));
    return;
  }
  page.paragraph(sentence);
  page.picture(picture.text, about);
}

}  // namespace support
