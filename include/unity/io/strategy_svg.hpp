// Draws plans: which device computes which part of which operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/strategy_layout.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>

namespace unity::io {

namespace detail {

// hue in full turns, lightness from 0 to 1, saturation 0.6; as #rrggbb.
[[nodiscard]] std::string svg_colour(double hue, double lightness);

// On one host each device has its own hue; on several, each host has, and its devices differ in lightness.
[[nodiscard]] std::vector<std::string> device_colours(const hardware::topology& t);

// How an operator's box is divided: samples from top to bottom, parameters from left to right; the resulting fields are
// divided by attributes, alternately from top to bottom and from left to right.
struct box_grid {
  std::int64_t samples = 1;
  std::int64_t parameters = 1;
  std::int64_t rows = 1;                                        // a multiple of samples
  std::int64_t columns = 1;                                     // a multiple of parameters
  std::vector<std::pair<std::int64_t, std::int64_t>> places{};  // row and column of each task
};
[[nodiscard]] box_grid grid_of(const parallel::operator_dimensions& o, const parallel::configuration& c);

// Hundredths of a pixel.
[[nodiscard]] std::string svg_length(std::int64_t hundredths);

class strategy_drawing {
 public:
  strategy_drawing(const tensor::algebra& a, const parallel::plan& p, std::string_view title)
      : algebra_{a}, plan_{p}, title_{title}, dimensions_{a, p.graph}, layout_{layout_of(a, p.graph)} {
    parallel::check(a, dimensions_, p.configurations, p.machine.network.device_count());
  }

  [[nodiscard]] std::string run();

 private:
  static constexpr int least_width = 480;

  [[nodiscard]] std::string style() const;
  [[nodiscard]] std::string frames() const;
  // All edges as one path, because there are many.
  [[nodiscard]] std::string edges() const;

  [[nodiscard]] std::string operator_at(node_id n, picture_point at);

  // The number of the drawing of a box; equal boxes share one.
  [[nodiscard]] std::size_t box(const parallel::operator_dimensions& o, const parallel::configuration& c);
  // Merges equal neighbours in a row: even boxes of a thousand fields need few rectangles.
  [[nodiscard]] static std::string fields(const box_grid& g, const std::vector<std::uint32_t>& devices);
  // The border, and lines between samples and between parameters.
  [[nodiscard]] static std::string cuts(const box_grid& g);

  [[nodiscard]] std::string legend();
  [[nodiscard]] static std::string line(int y, const char* words) {
    return fmt::format("<text class=\"l\" x=\"{}\" y=\"{}\">{}</text>\n", picture_margin, y, words);
  }

  static constexpr std::int64_t wide = 100 * strategy_layout::box_width;
  static constexpr std::int64_t high = 100 * strategy_layout::box_height;
  const tensor::algebra& algebra_;
  const parallel::plan& plan_;
  std::string_view title_;
  parallel::graph_dimensions dimensions_;
  strategy_layout layout_;
  std::map<std::vector<std::int64_t>, std::size_t> known_boxes_{};
  std::string boxes_{};
  int height_ = 0;
};

}  // namespace detail

// An SVG picture: each operator is a box, divided like its tasks and coloured by their devices; plus edges and a
// legend.
// Source: the style of Jia's dissertation (2020), figures 3.14 and 3.15. Complexity: linear in tasks, plus the layout
// (strategy_layout.hpp).
// Throws: unity::error if the plan is invalid.
[[nodiscard]] inline std::string to_strategy_svg(const tensor::algebra& a, const parallel::plan& p,
                                                 std::string_view title = {}) {
  return detail::strategy_drawing{a, p, title}.run();
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_STRATEGY_SVG)

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <unity/core/printable.hpp>
#include <unity/core/row_major.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string svg_colour(double hue, double lightness) {
  const auto chroma = 0.6 * std::min(lightness, 1 - lightness);
  const auto channel = [&](double offset) {
    const auto k = std::fmod(offset + hue * 12, 12.0);
    return static_cast<int>(std::lround(255 * (lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})))));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(8), channel(4));
}

UNITY_INLINE std::vector<std::string> device_colours(const hardware::topology& t) {
  std::map<std::uint32_t, std::vector<std::size_t>> hosts;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    hosts[t.devices()[d].node].push_back(d);
  }
  std::vector<std::string> all(t.device_count());
  std::size_t host = 0;
  for (const auto& [number, devices] : hosts) {
    for (std::size_t k = 0; k < devices.size(); ++k) {
      const auto part = static_cast<double>(k) / static_cast<double>(devices.size());
      const auto turn = static_cast<double>(host) / static_cast<double>(hosts.size());
      all[devices[k]] = hosts.size() == 1 ? svg_colour(part, 0.62) : svg_colour(turn, 0.35 + 0.5 * part);
    }
    ++host;
  }
  return all;
}

UNITY_INLINE box_grid grid_of(const parallel::operator_dimensions& o, const parallel::configuration& c) {
  struct axis {
    std::size_t dimension;
    bool down;
  };
  box_grid g;
  std::vector<axis> outer;
  std::vector<axis> inner;
  for (std::size_t k = 0; k < o.divisible.size(); ++k) {
    const auto kind = o.divisible[k].kind;
    const bool is_sample = kind == parallel::parallelism::sample;
    if (is_sample || kind == parallel::parallelism::parameter) {
      outer.push_back({k, is_sample});
      (is_sample ? g.samples : g.parameters) *= c.degrees[k];
    } else if (c.degrees[k] > 1) {
      inner.push_back({k, inner.size() % 2 == 0});
    }
  }
  outer.insert(outer.end(), inner.begin(), inner.end());
  for (const auto& a : outer) {
    (a.down ? g.rows : g.columns) *= c.degrees[a.dimension];
  }
  const auto tasks = c.grid();
  const auto same = tasks.result_partials() * tasks.copies;  // tasks on one part of the result
  g.columns *= same;
  for (std::size_t t = 0; t < c.task_count(); ++t) {
    const auto number = static_cast<std::int64_t>(t);
    const auto part = position_of(number % tasks.blocks(), c.degrees);
    std::pair<std::int64_t, std::int64_t> place{0, 0};
    for (const auto& a : outer) {
      auto& at = a.down ? place.first : place.second;
      at = at * c.degrees[a.dimension] + part[a.dimension];
    }
    place.second = place.second * same + number / tasks.blocks();
    g.places.push_back(place);
  }
  return g;
}

UNITY_INLINE std::string svg_length(std::int64_t hundredths) {
  auto text = fmt::format("{}", hundredths / 100);
  if (const auto rest = hundredths % 100; rest != 0) {
    text += fmt::format("{}{}", rest < 10 ? ".0" : ".", rest % 10 == 0 ? rest / 10 : rest);
  }
  return text;
}

UNITY_INLINE std::string strategy_drawing::run() {
  std::string operators;
  for (const auto n : node_ids(plan_.graph)) {
    if (const auto& corner = layout_.corners[n.index()]) {
      operators += operator_at(n, *corner);
    }
  }
  const auto legend = this->legend();
  const auto width = fmt::format("{}", std::max(layout_.width, least_width) + picture_margin);
  const auto height = fmt::format("{}", height_ + picture_margin);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} "
      "{}\">\n{}{}<defs>\n{}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}{}{}{}</svg>\n",
      width, height, width, height, title_.empty() ? "" : fmt::format("<title>{}</title>\n", markup(printable(title_))),
      style(), boxes_, frames(), edges(), operators, legend);
}

UNITY_INLINE std::string strategy_drawing::style() const {
  std::string text =
      "<style>\ntext{font-family:Helvetica,Arial,sans-serif;font-size:8px;text-anchor:middle}\n"
      ".l{font-size:11px;text-anchor:start}\n.e{fill:none;stroke:#707070;stroke-width:.7;opacity:.7}\n"
      ".f{fill:#ececec}\n.c{fill:none;stroke:#202020;stroke-width:.8}\n.a{stroke:#ffffff;stroke-width:.3}\n";
  const auto colours = device_colours(plan_.machine.network);
  for (std::size_t d = 0; d < colours.size(); ++d) {
    text += fmt::format(".d{}{{fill:{}}}\n", d, colours[d]);
  }
  return fmt::format("{}</style>\n", text);
}

UNITY_INLINE std::string strategy_drawing::frames() const {
  std::string text;
  for (const auto& f : layout_.frames) {
    text += fmt::format(
        "<rect class=\"f\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/><text class=\"l\" x=\"{}\" "
        "y=\"{}\">{}</text>\n",
        f.corner.x, f.corner.y, f.width, f.height, f.corner.x + 6, f.corner.y + 24, markup(printable(f.name, 18)));
  }
  return text;
}

UNITY_INLINE std::string strategy_drawing::edges() const {
  std::string text = "<path class=\"e\" d=\"";
  const auto point = [](int x, int y) { return fmt::format("{} {}", x, y); };
  for (const auto& [from, to] : layout_.segments) {
    text += fmt::format("M{}", point(from.x, from.y));
    if (from.x == to.x || from.y == to.y) {
      text += fmt::format("L{}", point(to.x, to.y));
    } else if (to.x > from.x) {
      const auto middle = (from.x + to.x) / 2;
      text += fmt::format("C{} {} {}", point(middle, from.y), point(middle, to.y), point(to.x, to.y));
    } else {
      const auto middle = (from.y + to.y) / 2;
      text += fmt::format("C{} {} {}", point(from.x, middle), point(to.x, middle), point(to.x, to.y));
    }
    text += "\n";
  }
  return fmt::format("{}\"/>\n", text);
}

UNITY_INLINE std::string strategy_drawing::operator_at(node_id n, picture_point at) {
  const auto& o = dimensions_[n];
  const auto& c = plan_.configurations[n.index()];
  const auto& name = algebra_.signature(o.op.kind).name;
  const auto& machine = plan_.machine.network;
  std::string tip = fmt::format("{} {}:", name, n.index());
  for (const auto& [p, degree] : ranges::views::zip(o.divisible, c.degrees)) {
    const auto kind = parallel::parallelism_names[static_cast<std::size_t>(p.kind)];
    tip += degree == 1 ? "" : fmt::format(" {} dimension {} by {},", kind, p.dimension, degree);
  }
  for (const auto& [p, degree] : ranges::views::zip(o.reductions, c.reductions)) {
    const auto* index = o.structure.indices[p.indices[0]].name;
    tip += degree == 1 ? "" : fmt::format(" sum over {} by {},", index, degree);
  }
  const auto partials = parallel::product(c.partials);
  tip += partials == 1 ? "" : fmt::format(" {} partials,", partials);
  tip += c.copies == 1 ? "" : fmt::format(" {} copies,", c.copies);
  tip += fmt::format(" on {}{}", machine[c.devices.front()].name,
                     c.task_count() > 1 ? fmt::format(" to {}", machine[c.devices.back()].name) : "");
  const auto x = fmt::format("{}", at.x);
  return fmt::format(
      "<g><title>{}</title><use href=\"#b{}\" x=\"{}\" y=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text></g>\n",
      markup(printable(tip, 200)), box(o, c), x, at.y, at.x + strategy_layout::box_width / 2,
      at.y + strategy_layout::box_height + 9, markup(printable(name, 12)));
}

UNITY_INLINE std::size_t strategy_drawing::box(const parallel::operator_dimensions& o,
                                               const parallel::configuration& c) {
  auto grid = detail::grid_of(o, c);
  std::vector<std::int64_t> key{grid.samples, grid.parameters, grid.rows, grid.columns};
  std::vector<std::uint32_t> devices(static_cast<std::size_t>(grid.rows * grid.columns), 0);
  for (const auto& [place, device] : ranges::views::zip(grid.places, c.devices)) {
    devices[static_cast<std::size_t>(place.first * grid.columns + place.second)] = device.index();
  }
  key.insert(key.end(), devices.begin(), devices.end());
  const auto [known, is_new] = known_boxes_.emplace(std::move(key), known_boxes_.size());
  if (is_new) {
    boxes_ += fmt::format("<g id=\"b{}\">{}{}</g>\n", known->second, fields(grid, devices), cuts(grid));
  }
  return known->second;
}

UNITY_INLINE std::string strategy_drawing::fields(const box_grid& g, const std::vector<std::uint32_t>& devices) {
  std::string text;
  const auto is_fine = g.rows * g.columns > 64;
  for (std::int64_t r = 0; r < g.rows; ++r) {
    for (std::int64_t c = 0; c < g.columns;) {
      const auto device = devices[static_cast<std::size_t>(r * g.columns + c)];
      auto end = c + 1;
      while (is_fine && end < g.columns && devices[static_cast<std::size_t>(r * g.columns + end)] == device) {
        ++end;
      }
      const auto left = wide * c / g.columns;
      const auto top = high * r / g.rows;
      text += fmt::format("<rect class=\"d{}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", device,
                          is_fine ? "" : " a", svg_length(left), svg_length(top),
                          svg_length(wide * end / g.columns - left), svg_length(high * (r + 1) / g.rows - top));
      c = end;
    }
  }
  return text;
}

UNITY_INLINE std::string strategy_drawing::cuts(const box_grid& g) {
  std::string path = fmt::format("M0 0H{}V{}H0Z", svg_length(wide), svg_length(high));
  for (std::int64_t s = 1; s < g.samples && g.samples <= 16; ++s) {
    path += fmt::format("M0 {}H{}", svg_length(high * s / g.samples), svg_length(wide));
  }
  for (std::int64_t p = 1; p < g.parameters && g.parameters <= 16; ++p) {
    path += fmt::format("M{} 0V{}", svg_length(wide * p / g.parameters), svg_length(high));
  }
  return fmt::format("<path class=\"c\" d=\"{}\"/>", path);
}

UNITY_INLINE std::string strategy_drawing::legend() {
  constexpr int entry_width = 120;
  constexpr int entry_height = 16;
  const auto columns = std::max(1, std::max(layout_.width, least_width) / entry_width);
  auto y = layout_.height + 2 * picture_margin;
  std::string text = line(y, "Boxes: samples from top to bottom, parameters from left to right;");
  text += line(y + entry_height,
               "white lines: attributes, in turn from top to bottom and left to right. Colours: devices.");
  y += 2 * entry_height;
  const auto& t = plan_.machine.network;
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    const auto left = picture_margin + static_cast<int>(d) % columns * entry_width;
    const auto top = y + static_cast<int>(d) / columns * entry_height;
    text += fmt::format(
        "<rect class=\"d{}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"12\"/><text class=\"l\" x=\"{}\" "
        "y=\"{}\">{}</text>\n",
        d, left, top, left + 16, top + 10, markup(printable(t.devices()[d].name, 16)));
    height_ = top + entry_height;
  }
  return text;
}

}  // namespace unity::io::detail

#endif
