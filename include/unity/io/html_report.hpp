// A report as one static HTML file that loads nothing: text, tables, charts and pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>

namespace unity::io {

// Points in ascending order of x.
struct chart_point {
  double x = 0;
  double y = 0;
};

struct chart_line {
  std::string name{};
  std::vector<chart_point> points{};
  std::vector<std::string> labels{};  // of marks, shown when the pointer is on them; missing: the name
  bool has_line = true;               // else marks alone, in any order
};

// Axes begin at 0.
struct line_chart {
  std::string x{};  // labels of the axes, with units
  std::string y{};
  std::vector<chart_line> lines{};
  bool is_stepped = false;  // each value holds until the next point
  bool has_marks = false;   // points are drawn, and named when the pointer is on them
};

struct timeline_bar {
  std::uint32_t row = 0;
  std::uint32_t kind = 0;
  double begin = 0;
  double end = 0;
  std::string name{};
};

struct chart_bar {
  std::string name{};
  double value = 0;  // not negative
};

// Bars over time, one row for each resource. Bars of a row do not overlap.
struct timeline_chart {
  std::string x{};  // unit of time
  std::vector<std::string> rows{};
  std::vector<std::string> kinds{};  // colours
  std::vector<timeline_bar> bars{};
};

// Builds the page from top to bottom. Names and text may be any bytes; invalid UTF-8 is replaced. Complexity: linear in
// what is added, n log n in the bars of a timeline.
class html_report {
 public:
  explicit html_report(std::string_view title);

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  // Lines and their indentation, in a fixed-width font.
  void code(std::string_view text);
  // Numeric cells are right-aligned.
  void table(std::span<const std::string> heads, std::span<const std::vector<std::string>> rows);
  // A complete SVG document, and a description.
  void picture(std::string_view svg, std::string_view about);
  // Lines without points are left out.
  void chart(const line_chart& c);
  // Horizontal bars with their values. unit: "ms".
  void chart(std::span<const chart_bar> bars, std::string_view unit);
  // Adjacent bars of one kind that are narrower than a pixel are merged into one, whose name states their number.
  void chart(timeline_chart c);

  // The page. Nothing can be added afterwards.
  [[nodiscard]] std::string text() const;

 private:
  std::string title_;
  std::string body_;
};

// Whether the text begins with a number: "1.5", "-0.25 ms".
[[nodiscard]] bool is_numeric(std::string_view cell) noexcept;

// Adds a simulated iteration to a report: what ran where, and the memory of each device.

// At most this many resources appear in the timeline: the busiest ones.
inline constexpr std::size_t most_shown_devices = 32;
inline constexpr std::size_t most_shown_links = 16;
// The devices whose memory is drawn: at most this many, those with the largest peaks.
inline constexpr std::size_t most_shown_memories = 8;

// Effects: adds a timeline in milliseconds, devices above host threads and links, and memory in megabytes over time.
// Complexity: n log n in tasks and buffers.
void add_simulation(html_report& to, const tasks::program& p, std::span<const simulate::task_times> times);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HTML_REPORT)

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/fragment.hpp>

namespace unity::io {

namespace detail {

inline constexpr int chart_width = 1000;  // pixels, of the area within the axes
inline constexpr int chart_left = 170;    // pixels for names of rows, and numbers

// Okabe and Ito's colours, which colour-blind people can distinguish.
inline constexpr std::array<std::string_view, 8> chart_colours{"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                               "#56b4e9", "#d55e00", "#f0e442", "#888888"};
UNITY_INLINE std::string_view chart_colour(std::size_t k) { return chart_colours[k % chart_colours.size()]; }

UNITY_INLINE std::string escaped(std::string_view text) { return markup(printable(text, text.size())); }

// Source: RFC 4648, section 4.
UNITY_INLINE std::string base64(std::string_view data) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string all;
  for (std::size_t i = 0; i < data.size(); i += 3) {
    const auto count = std::min<std::size_t>(data.size() - i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8U | (k < count ? static_cast<unsigned char>(data[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      all += k <= count ? digits[bits >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return all;
}

// 1, 2 or 5 times a power of ten: about a fifth of the range.
UNITY_INLINE double tick_of(double range) {
  const double raw = range / 5;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10) * power;
}

// The end of an axis; 1 if there is no positive finite value.
UNITY_INLINE double axis_end(double largest) { return largest > 0 && std::isfinite(largest) ? largest : 1; }

UNITY_INLINE std::string x_axis(double end, std::string_view label, double bottom) {
  std::string all;
  const double tick = tick_of(end);
  for (int k = 0; k * tick <= end * 1.0001; ++k) {
    const double x = chart_left + k * tick / end * chart_width;
    all += fmt::format(
        R"(<line class="axis" x1="{0:.1f}" y1="0" x2="{0:.1f}" y2="{1:.1f}"/><text x="{0:.1f}" y="{2:.1f}" text-anchor="middle">{3:.6g}</text>)",
        x, bottom, bottom + 14, k * tick);
  }
  return all + fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", chart_left + chart_width,
                           bottom + 30, escaped(label));
}

UNITY_INLINE std::string legend(const std::vector<std::string>& names) {
  std::string all = "<p class=\"legend\">";
  for (std::size_t k = 0; k < names.size(); ++k) {
    all += fmt::format(R"(<span><i style="background:{}"></i>{}</span>)", chart_colour(k), escaped(names[k]));
  }
  return all + "</p>\n";
}

UNITY_INLINE std::string svg_of(int height, const std::string& content) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">{}</svg>\n", chart_left + chart_width + 10, height,
                     content);
}

}  // namespace detail

UNITY_INLINE bool is_numeric(std::string_view cell) noexcept {
  const auto first = cell.find_first_not_of("+-");
  return first != std::string_view::npos && first <= 1 && cell[first] >= '0' && cell[first] <= '9';
}

UNITY_INLINE html_report::html_report(std::string_view title) : title_{detail::escaped(title)} {}

UNITY_INLINE void html_report::heading(std::string_view text) {
  body_ += fmt::format("<h2>{}</h2>\n", detail::escaped(text));
}

UNITY_INLINE void html_report::paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", detail::escaped(text));
}

UNITY_INLINE void html_report::code(std::string_view text) {
  body_ += "<pre>";
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto begin = std::min(text.find_first_not_of(' '), end);
    body_ += std::string(begin, ' ') + detail::escaped(text.substr(begin, end - begin)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  body_ += "</pre>\n";
}

UNITY_INLINE void html_report::table(std::span<const std::string> heads,
                                     std::span<const std::vector<std::string>> rows) {
  body_ += "<div class=\"wide\"><table><tr>";
  for (const auto& h : heads) {
    body_ += fmt::format("<th>{}</th>", detail::escaped(h));
  }
  body_ += "</tr>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (const auto& cell : row) {
      body_ += fmt::format("<td{}>{}</td>", is_numeric(cell) ? " class=\"number\"" : "", detail::escaped(cell));
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

// Embeds the picture as a separate image: the styles of an inline picture would apply to the whole page.
UNITY_INLINE void html_report::picture(std::string_view svg, std::string_view about) {
  body_ += fmt::format("<div class=\"wide\"><img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"/></div>\n",
                       detail::escaped(about), detail::base64(svg));
}

UNITY_INLINE void html_report::chart(const line_chart& c) {
  constexpr double bottom = 260;
  double x_end = 0;
  double y_end = 0;
  std::vector<std::string> names;
  for (const auto& line : c.lines) {
    names.push_back(line.name);
    for (const auto& p : line.points) {
      x_end = std::max(x_end, p.x);
      y_end = std::max(y_end, p.y);
    }
  }
  x_end = detail::axis_end(x_end);
  y_end = detail::axis_end(y_end);
  const auto x_of = [&](double x) { return detail::chart_left + x / x_end * detail::chart_width; };
  const auto y_of = [&](double y) { return bottom - y / y_end * (bottom - 10); };
  auto content = detail::x_axis(x_end, c.x, bottom);
  const double tick = detail::tick_of(y_end);
  for (int k = 0; k * tick <= y_end * 1.0001; ++k) {
    content += fmt::format(
        R"(<line class="axis" x1="{0}" y1="{1:.1f}" x2="{2}" y2="{1:.1f}"/><text x="{3}" y="{4:.1f}" text-anchor="end">{5:.6g}</text>)",
        detail::chart_left, y_of(k * tick), detail::chart_left + detail::chart_width, detail::chart_left - 6,
        y_of(k * tick) + 4, k * tick);
  }
  for (std::size_t k = 0; k < c.lines.size(); ++k) {
    const auto& points = c.lines[k].points;
    if (points.empty()) {
      continue;
    }
    std::string path;
    double last = 0;
    for (const auto& p : points) {
      path += path.empty()   ? fmt::format("M{:.2f} {:.2f}", x_of(p.x), y_of(p.y))
              : c.is_stepped ? fmt::format("L{0:.2f} {1:.2f}L{0:.2f} {2:.2f}", x_of(p.x), last, y_of(p.y))
                             : fmt::format("L{:.2f} {:.2f}", x_of(p.x), y_of(p.y));
      last = y_of(p.y);
    }
    if (c.lines[k].has_line) {
      content += fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="1.5"><title>{}</title></path>)",
                             path, detail::chart_colour(k), detail::escaped(c.lines[k].name));
    }
    for (std::size_t i = 0; c.has_marks && i < points.size(); ++i) {
      content +=
          fmt::format(R"(<circle cx="{:.2f}" cy="{:.2f}" r="3.5" fill="{}"><title>{}: {:.6g}, {:.6g}</title></circle>)",
                      x_of(points[i].x), y_of(points[i].y), detail::chart_colour(k),
                      detail::escaped(i < c.lines[k].labels.size() ? c.lines[k].labels[i] : c.lines[k].name),
                      points[i].x, points[i].y);
    }
  }
  body_ += fmt::format("<p class=\"label\">{}</p>\n", detail::escaped(c.y));
  body_ += detail::svg_of(static_cast<int>(bottom) + 36, content) + detail::legend(names);
}

UNITY_INLINE void html_report::chart(std::span<const chart_bar> bars, std::string_view unit) {
  constexpr double height = 22;
  double largest = 0;
  for (const auto& b : bars) {
    largest = std::max(largest, b.value);
  }
  largest = detail::axis_end(largest);
  std::string content;
  for (std::size_t k = 0; k < bars.size(); ++k) {
    const double top = height * static_cast<double>(k);
    const double width = bars[k].value / largest * (detail::chart_width - 100);  // leaves room for the value behind it
    content += fmt::format(
        R"(<text x="{0}" y="{1:.1f}" text-anchor="end">{2}</text><rect x="{3}" y="{4:.1f}" width="{5:.2f}" height="{6}" fill="{7}"/><text x="{8:.2f}" y="{1:.1f}">{9:.6g} {10}</text>)",
        detail::chart_left - 6, top + 15, detail::escaped(bars[k].name), detail::chart_left, top + 3, width, height - 6,
        detail::chart_colour(0), detail::chart_left + width + 6, bars[k].value, detail::escaped(unit));
  }
  body_ += detail::svg_of(static_cast<int>(height * static_cast<double>(bars.size())) + 6, content);
}

UNITY_INLINE void html_report::chart(timeline_chart c) {
  constexpr double height = 18;
  double end = 0;
  for (const auto& b : c.bars) {
    end = std::max(end, b.end);
  }
  end = detail::axis_end(end);
  const double pixel = end / detail::chart_width;
  std::sort(c.bars.begin(), c.bars.end(), [](const timeline_bar& a, const timeline_bar& b) {
    return std::tie(a.row, a.begin, a.end, a.kind, a.name) < std::tie(b.row, b.begin, b.end, b.kind, b.name);
  });
  const double bottom = height * static_cast<double>(c.rows.size());
  auto content = detail::x_axis(end, c.x, bottom);
  for (std::size_t r = 0; r < c.rows.size(); ++r) {
    content += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", detail::chart_left - 6,
                           height * static_cast<double>(r) + 13, detail::escaped(c.rows[r]));
  }
  for (std::size_t i = 0; i < c.bars.size();) {
    auto bar = c.bars[i];
    std::size_t count = 1;
    while (i + count < c.bars.size() && bar.end - bar.begin < pixel) {
      const auto& next = c.bars[i + count];
      if (next.row != bar.row || next.kind != bar.kind || next.end - next.begin >= pixel ||
          next.begin - bar.end >= pixel / 2) {
        break;
      }
      bar.end = next.end;
      ++count;
    }
    i += count;
    if (count > 1) {
      bar.name = fmt::format("{} tasks from {} on", count, bar.name);
    }
    content += fmt::format(
        R"(<rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{}" fill="{}"><title>{}, {}: {:.6g} to {:.6g}</title></rect>)",
        detail::chart_left + bar.begin / pixel, height * bar.row + 2, std::max((bar.end - bar.begin) / pixel, 0.2),
        height - 4, detail::chart_colour(bar.kind), detail::escaped(bar.name),
        detail::escaped(bar.kind < c.kinds.size() ? c.kinds[bar.kind] : ""), bar.begin, bar.end);
  }
  body_ += detail::svg_of(static_cast<int>(bottom) + 36, content) + detail::legend(c.kinds);
}

UNITY_INLINE std::string html_report::text() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/><title>{0}</title>\n<style>\n"
      "body{{font:14px sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222;background:#fff}}\n"
      "table{{border-collapse:collapse}}th,td{{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left}}\n"
      "td.number{{text-align:right;font-variant-numeric:tabular-nums}}.wide,pre{{overflow-x:auto}}\n"
      "svg text{{font:11px sans-serif;fill:#444}}svg .axis{{stroke:#eee}}.label{{margin:.5em 0 0;color:#444}}\n"
      ".legend span{{margin-right:1.2em}}.legend i{{display:inline-block;width:.9em;height:.9em;margin-right:.4em}}\n"
      "</style></head>\n<body>\n<h1>{0}</h1>\n{1}</body>\n</html>\n",
      title_, body_);
}

namespace detail {

// The resources of one kind that are used, at most `most` of them, the busiest, in the program's order.
UNITY_INLINE std::vector<std::size_t> shown_resources(const tasks::program& p, const simulate::timeline& line,
                                                      tasks::resource_kind kind, std::size_t most) {
  std::vector<std::size_t> all;
  for (std::size_t r = 0; r < p.resources().size(); ++r) {
    if (p.resources()[r].kind == kind && line.resources[r].tasks > 0) {
      all.push_back(r);
    }
  }
  unity::stable_sort(all,
                     [&](std::size_t a, std::size_t b) { return line.resources[a].busy > line.resources[b].busy; });
  all.resize(std::min(all.size(), most));
  std::sort(all.begin(), all.end());
  return all;
}

UNITY_INLINE timeline_chart timeline_of(const tasks::program& p, std::span<const simulate::task_times> times,
                                        const simulate::timeline& line) {
  timeline_chart chart{"ms", {}, {}, {}};
  std::vector<std::optional<std::uint32_t>> rows(p.resources().size());
  for (const auto kind : {tasks::resource_kind::stream, tasks::resource_kind::host, tasks::resource_kind::link}) {
    const auto most = kind == tasks::resource_kind::link ? most_shown_links : most_shown_devices;
    for (const auto r : shown_resources(p, line, kind, most)) {
      rows[r] = static_cast<std::uint32_t>(chart.rows.size());
      chart.rows.push_back(p.resources()[r].name);
    }
  }
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    const auto& tasks = p[id].tasks;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto& t = tasks[i];
      if (!t.resource.valid() || !rows[t.resource.index()]) {
        continue;
      }
      const auto& name = p.name_of(t.kind);
      const auto known = std::find(chart.kinds.begin(), chart.kinds.end(), name);
      const auto kind = static_cast<std::uint32_t>(known - chart.kinds.begin());
      if (known == chart.kinds.end()) {
        chart.kinds.push_back(name);
      }
      const auto& when = times[p.find(id, i).index()];
      chart.bars.push_back({*rows[t.resource.index()], kind, static_cast<double>(when.start) * 1e-9,
                            static_cast<double>(when.end) * 1e-9, p.owner_of(id).name});
    }
  }
  return chart;
}

UNITY_INLINE line_chart memory_of(const tasks::program& p, const simulate::timeline& line) {
  line_chart chart{"ms", "memory of devices, MB", {}, true, false};
  std::vector<std::size_t> devices;
  for (std::size_t d = 0; d < line.memory.size(); ++d) {
    devices.push_back(d);
  }
  unity::stable_sort(devices, [&](std::size_t a, std::size_t b) { return line.memory[a].peak > line.memory[b].peak; });
  devices.resize(std::min(devices.size(), most_shown_memories));
  std::sort(devices.begin(), devices.end());
  for (const auto d : devices) {
    chart_line one{d < p.resources().size() ? p.resources()[d].name : fmt::format("device {}", d), {}};
    for (const auto& level : line.memory[d].levels) {
      one.points.push_back({to_seconds(level.from) * 1e3, static_cast<double>(level.held.count()) * 1e-6});
    }
    chart.lines.push_back(std::move(one));
  }
  return chart;
}

}  // namespace detail

UNITY_INLINE void add_simulation(html_report& to, const tasks::program& p,
                                 std::span<const simulate::task_times> times) {
  const auto line = simulate::summarize(p, times);
  to.heading("Timeline");
  to.paragraph(
      fmt::format("One iteration takes {:.6f} ms, simulated. Shown are the busiest {} devices and {} links at "
                  "most; rest the pointer on a bar to read what it is.",
                  to_seconds(line.iteration) * 1e3, most_shown_devices, most_shown_links));
  to.chart(detail::timeline_of(p, times, line));
  to.heading("Memory");
  to.chart(detail::memory_of(p, line));
}

}  // namespace unity::io

#endif
