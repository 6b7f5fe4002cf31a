// Draws replayed iterations of a job: a trace for Perfetto, and a page for a browser.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/printable.hpp>
#include <unity/simulate/full.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/replay.hpp>

namespace unity::io {

// An iteration of a job to show: the times of each task of the graph.
struct shown_iteration {
  std::string name{};
  const trace::flow_graph* graph = nullptr;
  std::vector<simulate::task_times> times{};
};

// The recorded times of the tasks in the step that defined the graph, on the aligned clocks.
[[nodiscard]] shown_iteration recorded_iteration(const trace::flow_graph& g, std::string name);

// Chrome's trace format: a process for each rank of each iteration, a thread for each of its resources. Tasks of zero
// duration and delays are left out. Units: microseconds, exact to the picosecond. Complexity: linear in tasks.
[[nodiscard]] std::string to_flow_trace(std::span<const shown_iteration> all, const trace::name_table& names);

// One self-contained page: the text, and the timelines, one above the other on the same scale, which can be zoomed and
// scrolled. `text`: lines of a report. Complexity: linear in tasks.
[[nodiscard]] std::string to_flow_html(std::span<const shown_iteration> all, const trace::name_table& names,
                                       const std::string& title, const std::string& text);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FLOW_TIMELINE)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include <unity/io/chrome_trace.hpp>

namespace unity::io {

UNITY_INLINE shown_iteration recorded_iteration(const trace::flow_graph& g, std::string name) {
  shown_iteration all{std::move(name), &g, {}};
  for (const auto& t : g.tasks) {
    const auto start = std::max(picoseconds{}, t.recorded_start);
    all.times.push_back({start.count(), start.count(), (start + t.recorded_duration).count()});
  }
  return all;
}

namespace detail {

inline bool is_shown(const trace::flow_task& t, const simulate::task_times& times) {
  return t.resource != trace::no_index && t.type != trace::task_type::gap && times.end > times.start;
}

inline std::string_view class_of(const trace::flow_task& t) {
  if (trace::is_communication(t.type)) {
    return "communication";
  }
  if (t.type == trace::task_type::launch || t.type == trace::task_type::synchronization) {
    return trace::task_type_names[static_cast<std::size_t>(t.type)];
  }
  return t.type == trace::task_type::earlier ? "earlier" : trace::phase_names[static_cast<std::size_t>(t.part)];
}

// JSON that is safe inside a script: without "</script>".
inline std::string script_text(const std::string& text) {
  std::string out;
  for (const char c : quoted(text)) {
    out += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return out;
}

inline constexpr std::string_view flow_page = R"page(
const colors = {forward: "#4878a8", output: "#7a5195", backward: "#bc5090", update: "#58a06c",
                communication: "#e08020", launch: "#8a8a8a", synchronization: "#c0b030", earlier: "#b0b0b0"};
const height = 16, gap = 4, left = 260;
const canvas = document.getElementById("timeline"), draw = canvas.getContext("2d");
const shown = document.getElementById("shown");
let from = 0, until = data.tasks.reduce((end, t) => Math.max(end, t[1] + t[2]), 1);  // calls take so many arguments
const whole = until;
// Browsers limit the height of a canvas. So this one is as high as the window, and shows what `rows` is scrolled to.
const rows = document.getElementById("rows");
function rowTop(row) { return 24 + row * (height + gap) - rows.scrollTop; }
function paint() {
  const all = 24 + data.rows.length * (height + gap) + 8;
  document.getElementById("space").style.height = all + "px";
  canvas.width = rows.clientWidth;
  canvas.height = Math.min(all, window.innerHeight);
  const scale = (canvas.width - left) / (until - from);
  const isVisible = row => rowTop(row) + height > 24 && rowTop(row) < canvas.height;
  draw.font = "11px sans-serif";
  draw.fillStyle = "#000";
  data.rows.forEach((name, row) => { if (isVisible(row)) draw.fillText(name.slice(0, 44), 4, rowTop(row) + 12); });
  for (const [row, start, time, name, kind] of data.tasks) {
    const x = left + (start - from) * scale, w = Math.max(0.5, time * scale);
    if (x + w < left || x > canvas.width || !isVisible(row)) continue;
    draw.fillStyle = colors[data.kinds[kind]];
    draw.fillRect(Math.max(left, x), rowTop(row), w - Math.max(0, left - x), height);
    if (w > 60) {
      draw.fillStyle = "#fff";
      draw.save();
      draw.beginPath();
      draw.rect(Math.max(left, x), rowTop(row), w, height);
      draw.clip();
      draw.fillText(data.names[name], Math.max(left, x) + 2, rowTop(row) + 12);
      draw.restore();
    }
  }
  draw.clearRect(0, 0, canvas.width, 20);
  draw.fillStyle = "#000";
  for (let k = 0; k <= 8; ++k) {
    const t = from + (until - from) * k / 8;
    draw.fillText((t / 1000).toFixed(3) + " ms", left + (t - from) * scale - (k == 8 ? 60 : 0), 12);
  }
}
function timeAt(x) { return from + (x - left) / (canvas.width - left) * (until - from); }
canvas.onwheel = e => {
  if (e.shiftKey) return;  // scrolls
  e.preventDefault();
  const at = timeAt(e.offsetX), by = e.deltaY > 0 ? 1.25 : 0.8;
  from = Math.max(0, at - (at - from) * by);
  until = Math.min(whole, at + (until - at) * by);
  paint();
};
let held = null;
canvas.onmousedown = e => { held = e.offsetX; };
window.onmouseup = () => { held = null; };
canvas.onmousemove = e => {
  if (held !== null) {
    const by = Math.max(-from, Math.min(whole - until, timeAt(held) - timeAt(e.offsetX)));
    from += by; until += by; held = e.offsetX;
    paint();
  }
  const t = timeAt(e.offsetX), row = Math.floor((e.offsetY - rowTop(0)) / (height + gap));
  const hit = data.tasks.find(k => k[0] == row && k[1] <= t && t <= k[1] + k[2]);
  shown.textContent = hit ? data.names[hit[3]] + ": " + data.kinds[hit[4]] + ", " + hit[2].toFixed(3) +
                            " us from " + (hit[1] / 1000).toFixed(3) + " ms on" : "wheel: zoom; drag: move";
};
canvas.ondblclick = () => { from = 0; until = whole; paint(); };
rows.onscroll = paint;
window.onresize = paint;
paint();
)page";

// Rows, names and tasks of the page's script.
class flow_page_data {
 public:
  void add(const shown_iteration& s, const trace::name_table& names) {
    const auto& g = *s.graph;
    std::unordered_map<std::uint32_t, std::size_t> rows;
    for (std::uint32_t r = 0; r < g.resources.size(); ++r) {
      rows[r] = row_count_++;
      rows_ += fmt::format(
          "{}{}", rows_.empty() ? "" : ",",
          script_text(fmt::format("{}: {}, {}", s.name, g.ranks[g.resources[r].rank].name, g.resources[r].name)));
    }
    for (std::size_t t = 0; t < g.tasks.size(); ++t) {
      const auto& task = g.tasks[t];
      if (is_shown(task, s.times[t])) {
        tasks_ += fmt::format("{}[{},{},{},{},{}]", tasks_.empty() ? "" : ",", rows[task.resource],
                              trace_time(s.times[t].start), trace_time(s.times[t].end - s.times[t].start),
                              number(names_, known_names_, names.text(task.name)),
                              number(kinds_, known_kinds_, std::string{class_of(task)}));
      }
    }
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("const data = {{rows: [{}], names: [{}], kinds: [{}], tasks: [{}]}};", rows_, names_, kinds_,
                       tasks_);
  }

 private:
  static std::size_t number(std::string& list, std::unordered_map<std::string, std::size_t>& known,
                            const std::string& name) {
    const auto [at, is_new] = known.try_emplace(name, known.size());
    if (is_new) {
      list += fmt::format("{}{}", list.empty() ? "" : ",", script_text(name));
    }
    return at->second;
  }

  std::string rows_;
  std::string names_;
  std::string kinds_;
  std::string tasks_;
  std::unordered_map<std::string, std::size_t> known_names_;
  std::unordered_map<std::string, std::size_t> known_kinds_;
  std::size_t row_count_ = 0;
};

}  // namespace detail

UNITY_INLINE std::string to_flow_trace(std::span<const shown_iteration> all, const trace::name_table& names) {
  trace_events out;
  std::size_t process = 0;
  for (const auto& s : all) {
    const auto& g = *s.graph;
    for (std::size_t r = 0; r < g.ranks.size(); ++r) {
      out.name_process(process + r, fmt::format("{}, {}", g.ranks[r].name, s.name));
    }
    for (std::size_t r = 0; r < g.resources.size(); ++r) {
      out.name_thread(process + g.resources[r].rank, r, g.resources[r].name);
    }
    for (std::size_t t = 0; t < g.tasks.size(); ++t) {
      const auto& task = g.tasks[t];
      if (!detail::is_shown(task, s.times[t])) {
        continue;
      }
      auto about = fmt::format(R"("type":"{}")", trace::task_type_names[static_cast<std::size_t>(task.type)]);
      if (task.communication != trace::no_index) {
        about += fmt::format(R"(,"bytes":{})", g.communications[task.communication].size.count());
      }
      out.add({process + task.rank, task.resource, names.text(task.name), std::string{detail::class_of(task)},
               s.times[t].start, s.times[t].end - s.times[t].start, about});
    }
    process += g.ranks.size();
  }
  return out.text();
}

UNITY_INLINE std::string to_flow_html(std::span<const shown_iteration> all, const trace::name_table& names,
                                      const std::string& title, const std::string& text) {
  detail::flow_page_data data;
  for (const auto& s : all) {
    data.add(s, names);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{0}</title></head>\n"
      "<body style=\"font-family: sans-serif\">\n<h1>{0}</h1>\n<pre>{1}</pre>\n<p id=\"shown\">wheel: zoom; drag: "
      "move</p>\n<div id=\"rows\" style=\"max-height: 100vh; overflow-y: auto\"><div id=\"space\"><canvas "
      "id=\"timeline\" style=\"display: block; position: sticky; top: 0\"></canvas></div></div>\n"
      "<script>\n{2}\n{3}</script>\n</body>\n</html>\n",
      markup(title), markup(text), data.text(), detail::flow_page);
}

}  // namespace unity::io

#endif
