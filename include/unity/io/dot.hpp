// Draws graphs by Graphviz: tensor graphs and parallel computation graphs as text, and text as SVG.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

extern "C" char** environ;

namespace unity::io {

namespace detail {

// The full path of a program, searched in PATH like a shell does.
[[nodiscard]] std::optional<std::filesystem::path> find_program(std::string_view name);

// Waits for a child and returns its exit status; after the limit, kills it and returns nothing.
[[nodiscard]] std::optional<int> wait_for(pid_t child, std::chrono::milliseconds limit);

// A file without a name.
using temporary_file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

}  // namespace detail

// A picture, or the reason why there is none. Regular.
struct drawn_svg {
  std::string text{};
  std::optional<std::string> problem{};

  friend bool operator==(const drawn_svg&, const drawn_svg&) = default;
};

// Draws `dot`. There is no picture if Graphviz is not installed, fails, or exceeds `limit` (its layout is superlinear).
[[nodiscard]] drawn_svg draw_svg(std::string_view dot, std::chrono::milliseconds limit = std::chrono::seconds{20});

// Effects: draws `dot` into the file, if there is a picture. Returns the reason if there is none.
// Throws: unity::error if the file cannot be written.
[[nodiscard]] std::optional<std::string> write_svg(const std::filesystem::path& path, std::string_view dot,
                                                   std::chrono::milliseconds limit = std::chrono::seconds{20});

struct dot_options {
  std::string title{};
  std::unordered_set<node_id> highlighted{};  // drawn with a thick red border
  bool show_sources = false;                  // weights and constants as separate nodes
  bool show_types = true;                     // types on edges
};

namespace detail {

// Text for double quotes: escapes what has a meaning in Graphviz; replaces unprintable characters by dots.
[[nodiscard]] std::string dot_text(std::string_view text, std::size_t longest = 60);

// One colour per operator family, which suggests the cost of an operator.
[[nodiscard]] std::string_view dot_colour(std::string_view kind);

class dot_writer {
 public:
  dot_writer(const tensor::algebra& algebra, const tensor::tensor_graph& graph, const dot_options& options,
             std::string prefix)
      : algebra_{&algebra}, graph_{&graph}, options_{&options}, prefix_{std::move(prefix)} {}

  // The statements of one graph, without the braces around them.
  [[nodiscard]] std::string body() const;

 private:
  [[nodiscard]] std::string_view kind(node_id n) const { return algebra_->signature(graph_->operation(n).kind).name; }
  [[nodiscard]] bool shown(node_id n) const {
    return options_->show_sources || !graph_->operands(n).empty() || kind(n) == "input";
  }
  [[nodiscard]] std::string name(node_id n) const { return fmt::format("{}n{}", prefix_, n.index()); }

  [[nodiscard]] std::string statement(node_id n) const;
  // Attributes that differ from their defaults; at most a few, to keep the picture small.
  [[nodiscard]] std::vector<std::string> attributes(node_id n) const;
  [[nodiscard]] static std::string value(const attribute_signature& a, const attribute& v);
  [[nodiscard]] std::string edge(value_id v, const std::string& to) const;

  const tensor::algebra* algebra_;
  const tensor::tensor_graph* graph_;
  const dot_options* options_;
  std::string prefix_;
};

inline constexpr std::string_view dot_header =
    "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=10];\n"
    "  edge [fontname=\"Helvetica\", fontsize=8, color=\"#606060\"];\n";

[[nodiscard]] inline std::string dot_cluster(const std::string& id, std::string_view label, const std::string& body) {
  return fmt::format("  subgraph cluster_{} {{\n  label=\"{}\";\n  fontname=\"Helvetica\";\n{}  }}\n", id,
                     dot_text(label), body);
}

}  // namespace detail

// One graph. Complexity: linear in nodes and edges.
[[nodiscard]] inline std::string to_dot(const tensor::algebra& algebra, const tensor::tensor_graph& graph,
                                        const dot_options& options = {}) {
  return fmt::format("digraph \"{}\" {{\n  label=\"{}\";\n{}{}}}\n", detail::dot_text(options.title),
                     detail::dot_text(options.title), detail::dot_header,
                     detail::dot_writer{algebra, graph, options, ""}.body());
}

// Two graphs side by side, each in a frame with the title of its options.
[[nodiscard]] std::string to_dot(const tensor::algebra& algebra, const tensor::tensor_graph& before,
                                 const dot_options& before_options, const tensor::tensor_graph& after,
                                 const dot_options& after_options);

// Draws parallel computation graphs as Graphviz text: operators green, parallelization operators orange.
// Source: Unger et al., Unity (OSDI 2022), figure 6.

inline constexpr std::string_view operator_colour = "#b8e0a8";
inline constexpr std::string_view parallel_operator_colour = "#f7b26b";

namespace detail {

// "partition\nof 0 by 4"
[[nodiscard]] std::string parallel_label(const parallel::parallel_operator& p);

[[nodiscard]] std::string pcg_statement(const parallel::pcg_algebra& a, const parallel::pcg& g, node_id n);

}  // namespace detail

// Edges show how tensors are divided, in the form of to_string of their types. Complexity: linear in nodes and edges.
[[nodiscard]] std::string to_dot(const parallel::pcg_algebra& a, const parallel::pcg& g, std::string_view title);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_DOT)

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <unity/core/config.hpp>
#include <unity/core/file.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<std::filesystem::path> find_program(std::string_view name) {
  const char* variable = std::getenv("PATH");
  std::string_view path = variable == nullptr ? std::string_view{"/usr/bin:/bin"} : std::string_view{variable};
  while (!path.empty()) {
    const auto end = std::min(path.find(':'), path.size());
    const auto candidate = std::filesystem::path{path.substr(0, end)} / name;
    if (end > 0 && ::access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate)) {
      return candidate;
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return std::nullopt;
}

UNITY_INLINE std::optional<int> wait_for(pid_t child, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  for (;;) {
    const auto got = ::waitpid(child, &status, WNOHANG);
    if (got == child) {
      return WIFEXITED(status) ? std::optional{WEXITSTATUS(status)} : std::optional{-1};
    }
    if (got < 0 && errno != EINTR) {
      return -1;
    }
    if (std::chrono::steady_clock::now() >= end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE drawn_svg draw_svg(std::string_view dot, std::chrono::milliseconds limit) {
  const auto because = [](std::string why) { return drawn_svg{{}, fmt::format("no SVG: {}", why)}; };
  const auto program = detail::find_program("dot");
  if (!program) {
    return because("the program `dot` is not installed (package graphviz)");
  }
  const detail::temporary_file in{std::tmpfile(), &std::fclose};
  const detail::temporary_file out{std::tmpfile(), &std::fclose};
  if (!in || !out || std::fwrite(dot.data(), 1, dot.size(), in.get()) != dot.size() || std::fflush(in.get()) != 0) {
    return because(fmt::format("no temporary file for `dot` ({})", std::strerror(errno)));
  }
  std::rewind(in.get());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(in.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(out.get()), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string arguments[] = {program->string(), "-Tsvg"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
  pid_t child = 0;
  const int problem = ::posix_spawn(&child, program->c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) {
    return because(fmt::format("`dot` does not start ({})", std::strerror(problem)));
  }
  const auto status = detail::wait_for(child, limit);
  if (!status || *status != 0) {
    return because(status ? fmt::format("`dot` failed with status {}", *status)
                          : fmt::format("`dot` took longer than {} ms", limit.count()));
  }
  drawn_svg drawn;
  std::rewind(out.get());
  char block[4096];
  for (auto size = sizeof block; size == sizeof block;) {
    size = std::fread(block, 1, sizeof block, out.get());
    drawn.text.append(block, size);
  }
  return drawn;
}

UNITY_INLINE std::optional<std::string> write_svg(const std::filesystem::path& path, std::string_view dot,
                                                  std::chrono::milliseconds limit) {
  auto drawn = draw_svg(dot, limit);
  if (!drawn.problem) {
    atomic_write(path, drawn.text);
  }
  return std::move(drawn.problem);
}

}  // namespace unity::io

namespace unity::io::detail {

UNITY_INLINE std::string dot_text(std::string_view text, std::size_t longest) {
  std::string out;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += byte < 0x20 || byte >= 0x7f ? '.' : c;
  }
  return text.size() > longest ? fmt::format("{}...", out) : out;
}

UNITY_INLINE std::string_view dot_colour(std::string_view kind) {
  struct family {
    std::string_view colour;
    std::string_view kinds;
  };
  static constexpr family families[] = {
      {"#f4a582",
       " matmul linear conv2d attention lstm_cell segment_sum segment_mean segment_max segment_weighted_sum "},
      {"#fddbc7",
       " softmax layer_norm batch_norm reduce_sum reduce_mean reduce_max max_pool average_pool "
       "global_average_pool global_max_pool segment_softmax "},
      {"#d1e5f0",
       " concat split slice pad enlarge transpose reshape squeeze unsqueeze expand embedding embedding_bag cast "
       "identity "},
      {"#e0e0e0", " input weight constant fill pool_kernel identity_kernel identity_matrix "},
      {"#e9d5f5", " opaque "}};
  for (const auto& f : families) {
    if (f.kinds.find(fmt::format(" {} ", kind)) != std::string_view::npos) {
      return f.colour;
    }
  }
  return "#d9f0d3";  // element-wise
}

UNITY_INLINE std::string dot_writer::body() const {
  std::string out;
  for (const auto n : node_ids(*graph_)) {
    if (shown(n)) {
      out += statement(n);
      for (const auto v : graph_->operands(n)) {
        out += edge(v, name(n));
      }
    }
  }
  for (std::size_t i = 0; i < graph_->outputs().size(); ++i) {
    const auto id = fmt::format("{}out{}", prefix_, i);
    out += fmt::format("  {} [label=\"output {}\", shape=ellipse, fillcolor=\"#e0e0e0\"];\n", id, i);
    out += edge(graph_->outputs()[i], id);
  }
  return out;
}

UNITY_INLINE std::string dot_writer::statement(node_id n) const {
  auto label = dot_text(kind(n));
  for (const auto& a : attributes(n)) {
    label += fmt::format("\\n{}", a);
  }
  std::string out = fmt::format("  {} [label=\"{}\", fillcolor=\"{}\"", name(n), label, dot_colour(kind(n)));
  if (graph_->operands(n).empty()) {
    out += ", shape=ellipse";
  }
  if (options_->highlighted.contains(n)) {
    out += ", color=\"#b2182b\", penwidth=3";
  }
  return fmt::format("{}];\n", out);
}

UNITY_INLINE std::vector<std::string> dot_writer::attributes(node_id n) const {
  const auto& op = graph_->operation(n);
  const auto& signature = algebra_->signature(op.kind);
  std::vector<std::string> all;
  for (const auto& [field, number] : ranges::views::zip(signature.attributes, op.attributes)) {
    const bool dull = number == field.default_value || field.name == "signature" || field.name == "element" ||
                      field.name == "elements" || (field.name == "dims" && graph_->operands(n).empty());
    if (!dull && all.size() < 4) {
      all.push_back(dot_text(fmt::format("{}={}", field.name, value(field, number)), 40));
    }
  }
  if (op.order == tensor::layout::column_major) {
    all.push_back("column_major");
  }
  return all;
}

UNITY_INLINE std::string dot_writer::value(const attribute_signature& a, const attribute& v) {
  switch (a.form) {
    case attribute_form::word: return tensor::to_word(v);
    case attribute_form::choice: return a.choices.at(static_cast<std::size_t>(v[0]));
    case attribute_form::real: return fmt::format("{:g}", tensor::to_real(v[0]));
    case attribute_form::integer: return fmt::format("{}", v[0]);
    case attribute_form::integers: break;
  }
  std::string list;
  for (const auto x : v) {
    list += fmt::format("{}{}", list.empty() ? "[" : ",", x);
  }
  return fmt::format("{}]", list.empty() ? "[" : list);
}

UNITY_INLINE std::string dot_writer::edge(value_id v, const std::string& to) const {
  const auto from = graph_->producer(v);
  if (!shown(from)) {
    return {};
  }
  std::string out = fmt::format("  {} -> {}", name(from), to);
  if (options_->show_types) {
    std::string sizes;
    for (const auto d : graph_->type(v).dims) {
      sizes += fmt::format("{}{}", sizes.empty() ? "" : "x", d);
    }
    out += fmt::format(" [label=\"{}\"]", sizes);
  }
  return fmt::format("{};\n", out);
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string to_dot(const tensor::algebra& algebra, const tensor::tensor_graph& before,
                                const dot_options& before_options, const tensor::tensor_graph& after,
                                const dot_options& after_options) {
  return fmt::format("digraph comparison {{\n{}{}{}}}\n", detail::dot_header,
                     detail::dot_cluster("before", before_options.title,
                                         detail::dot_writer{algebra, before, before_options, "b_"}.body()),
                     detail::dot_cluster("after", after_options.title,
                                         detail::dot_writer{algebra, after, after_options, "a_"}.body()));
}

}  // namespace unity::io

namespace unity::io::detail {

UNITY_INLINE std::string parallel_label(const parallel::parallel_operator& p) {
  std::string label{parallel::parallel_names[static_cast<std::size_t>(p.kind)]};
  label += parallel::has_axis(p.kind) ? fmt::format("\\nof {}", p.axis) : "";
  label +=
      parallel::has_degree(p.kind) ? fmt::format("{}{}", parallel::has_axis(p.kind) ? " by " : "\\nby ", p.degree) : "";
  return label;
}

UNITY_INLINE std::string pcg_statement(const parallel::pcg_algebra& a, const parallel::pcg& g, node_id n) {
  const auto& op = g.operation(n);
  const auto p = a.read(op);
  const bool is_source = !p && g.operands(n).empty();
  auto label = p ? parallel_label(*p) : dot_text(a.signature(op.kind).name);
  if (is_source && a.operators().signature(op.kind).attributes.size() == op.attributes.size()) {
    const auto& fields = a.operators().signature(op.kind).attributes;
    for (const auto& [field, value] : ranges::views::zip(fields, op.attributes)) {
      label += field.name == "name" ? fmt::format("\\n{}", dot_text(tensor::to_word(value), 40)) : "";
    }
  }
  return fmt::format("  n{} [label=\"{}\", fillcolor=\"{}\"{}];\n", n.index(), label,
                     p           ? parallel_operator_colour
                     : is_source ? dot_colour("input")
                                 : operator_colour,
                     is_source ? ", shape=ellipse" : "");
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::string to_dot(const parallel::pcg_algebra& a, const parallel::pcg& g, std::string_view title) {
  const auto name = detail::dot_text(title);
  auto text = fmt::format("digraph \"{}\" {{\n  label=\"{}\";\n{}", name, name, detail::dot_header);
  const auto edge = [&](value_id v, const std::string& to) {
    text +=
        fmt::format("  n{} -> {} [label=\"{}\"];\n", g.producer(v).index(), to, detail::dot_text(to_string(g.type(v))));
  };
  for (const auto i : node_ids(g)) {
    text += detail::pcg_statement(a, g, i);
    for (const auto v : g.operands(i)) {
      edge(v, fmt::format("n{}", i.index()));
    }
  }
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    const auto id = fmt::format("out{}", i);
    text += fmt::format("  {} [label=\"output {}\", shape=ellipse, fillcolor=\"{}\"];\n", id, i,
                        detail::dot_colour("input"));
    edge(g.outputs()[i], id);
  }
  return fmt::format("{}}}\n", text);
}

}  // namespace unity::io

#endif
