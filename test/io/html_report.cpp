#include <cstddef>
#include <cstdint>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/html_report.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/zoo.hpp>

#include "../support/cases.hpp"

namespace tests_of_html_report {

using namespace unity;

namespace {

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) {
    ++found;
  }
  return found;
}

// Whether every element is closed, in order; except for its first line, the page is XML.
bool is_balanced(const std::string& page) {
  static const std::regex tag{"<(/?)([a-z0-9]+)([^<>]*)>"};
  std::vector<std::string> open;
  const auto begin = page.find("<html");
  for (std::sregex_iterator i{page.begin() + static_cast<std::ptrdiff_t>(begin), page.end(), tag}, end; i != end; ++i) {
    const auto& m = *i;
    if (m[1] == "/") {
      if (open.empty() || open.back() != m[2]) {
        return false;
      }
      open.pop_back();
    } else if (!m[3].str().ends_with("/")) {
      open.push_back(m[2]);
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("an HTML report loads nothing external and escapes its text", "[io]") {
  io::html_report r{"a <b> & \"c\""};
  r.heading("<script>alert(1)</script>");
  r.paragraph("line\nbreaks and \xff bytes");
  r.code("if a < b:\n  pass\n\nlast");
  r.table(std::vector<std::string>{"name", "ms"},
          std::vector<std::vector<std::string>>{{"<i>", "1.5"}, {"x", "-2 ms"}});
  r.picture("<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\"/>", "nothing");
  r.chart(std::vector<io::chart_bar>{{"one", 1}, {"<two>", 2}}, "ms");
  r.chart(io::line_chart{"x", "y", {{"empty", {}}, {"line", {{0, 1}, {1, 0}, {2, 3}}}}, true, true});
  r.chart(io::timeline_chart{"ms", {"row"}, {"kind"}, {{0, 0, 0, 1, "task <1>"}}});
  const auto page = r.text();
  CHECK(is_balanced(page));
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("http:") == std::string::npos);  // the picture is encoded
  CHECK(page.find("a &lt;b&gt; &amp; &quot;c&quot;") != std::string::npos);
  CHECK(count(page, "class=\"number\"") == 2);
  CHECK(count(page, "<circle") == 3);
  CHECK(page.find("<pre>if a &lt; b:\n  pass\n\nlast\n</pre>") != std::string::npos);
  CHECK(count(page, "PD94bWwgdmVyc2lvbj0iMS4wIj8+") == 1);  // base64 of the picture's beginning
}

TEST_CASE("HTML charts of no data and of zeros contain no NaN or infinity", "[io]") {
  io::html_report r{"empty"};
  r.chart(io::line_chart{"x", "y", {}, false, false});
  r.chart(io::line_chart{"x", "y", {{"zeros", {{0, 0}, {0, 0}}}}, true, false});
  r.chart(std::vector<io::chart_bar>{}, "ms");
  r.chart(std::vector<io::chart_bar>{{"zero", 0}}, "ms");
  r.chart(io::timeline_chart{"ms", {}, {}, {}});
  const auto page = r.text();
  CHECK(is_balanced(page));
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.find("inf") == std::string::npos);
}

TEST_CASE("an HTML timeline accounts for each task alone or in a merged bar", "[io]") {
  for (std::uint64_t seed = 0; seed < test::cases(20); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    io::timeline_chart c{"ms", {"a", "b"}, {"x", "y"}, {}};
    for (std::uint32_t row = 0; row < 2; ++row) {
      double at = 0;
      for (std::uint64_t i = 0; i < 2000; ++i) {
        at += static_cast<double>(random.below(3)) * 0.01;
        const double until = at + 0.001 + (random.below(100) == 0 ? 5 : 0);
        c.bars.push_back({row, static_cast<std::uint32_t>(random.below(2)), at, until, "t"});
        at = until;
      }
    }
    const auto total = c.bars.size();
    io::html_report r{"timeline"};
    r.chart(std::move(c));
    const auto page = r.text();
    static const std::regex several{"<title>([0-9]+) tasks from t on,"};
    std::size_t shown = count(page, "<title>t, ");
    for (std::sregex_iterator i{page.begin(), page.end(), several}, end; i != end; ++i) {
      shown += static_cast<std::size_t>(std::stoul((*i)[1]));
    }
    CHECK(shown == total);
    CHECK(count(page, "<rect") < total);
  }
}

TEST_CASE("a simulation's HTML report shows devices with task bars and the iteration time", "[io]") {
  const auto operators = tensor::training_algebra();
  const auto graph = tensor::zoo::build(operators, "zoo:lenet?batch=64");
  const auto machine = hardware::preset("p100:1x4");
  parallel::lowering l{operators, graph, machine};
  const auto program = l.run(parallel::data_parallel(l.dimensions(), machine.network));
  simulate::full_simulation simulation;
  simulation.run(program);
  io::html_report r{"lenet"};
  io::add_simulation(r, program, simulation.times());
  const auto page = r.text();
  CHECK(is_balanced(page));
  const auto line = simulate::summarize(program, simulation.times());
  for (std::size_t d = 0; d < 4; ++d) {
    CHECK(page.find(program.resources()[d].name) != std::string::npos);
  }
  CHECK(page.find(fmt::format("{:.6f} ms", to_seconds(line.iteration) * 1e3)) != std::string::npos);
  CHECK(count(page, "<rect") > 100);
}

TEST_CASE("HTML line charts support labelled points and series without a line") {
  io::html_report page{"marks"};
  io::line_chart chart{"s", "GB", {{"line", {{1, 2}, {3, 1}}}, {"marks", {{2, 2}, {1, 1}}}}, false, true};
  chart.lines[0].labels = {"first & only"};
  chart.lines[1].has_line = false;
  page.chart(chart);
  const auto text = page.text();
  CHECK(is_balanced(text));
  CHECK(count(text, "<path") == 1);
  CHECK(count(text, "<circle") == 4);
  CHECK(count(text, "first &amp; only: 1, 2") == 1);
  CHECK(count(text, "line: 3, 1") == 1);
  CHECK(count(text, "marks: 2, 2") == 1);
}

}  // namespace tests_of_html_report
