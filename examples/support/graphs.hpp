// Graphs of many vertices as arguments of programs: files or generators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/generators.hpp>
#include <unity/gnn/vertex_data.hpp>
#include <unity/io/graph_text.hpp>
#include <unity/io/lux.hpp>
#include <unity/io/packed_text.hpp>
#include <unity/io/vertex_dataset.hpp>

namespace support {

inline constexpr const char* graph_names =
    "a file (.lux, .mtx, .graph or .txt, also .gz), the prefix of a data set's files, or rmat:SCALE:EDGES, "
    "random:VERTICES:EDGES, attached:VERTICES:EDGES_EACH";

// The name before the numbers: rmat:14:200000.
inline bool names_generator(std::string_view name) {
  const auto kind = name.substr(0, name.find(':'));
  return kind.size() < name.size() && (kind == "rmat" || kind == "random" || kind == "attached");
}

// A graph of one of the generators, or nothing. Throws: unity::error if the numbers are invalid.
inline std::optional<unity::gnn::csr_graph> generated_graph(std::string_view name, std::uint64_t seed) {
  namespace gnn = unity::gnn;
  const auto first = std::min(name.find(':'), name.size());
  const auto second = std::min(name.find(':', first + 1), name.size());
  const auto kind = name.substr(0, first);
  if (second == name.size() || !names_generator(name)) {
    return std::nullopt;
  }
  const auto a = unity::to_number<gnn::vertex_id>(name.substr(first + 1, second - first - 1));
  const auto b = unity::to_number<gnn::edge_id>(name.substr(second + 1));
  if (!a || !b) {
    throw unity::error{name, "no two numbers behind the generator", "as in rmat:14:200000"};
  }
  constexpr auto most = std::uint64_t{1} << 31U;
  if (*b > most || (kind == "attached" && *b * *a > most)) {
    throw unity::error{name, "too many edges", "2^31 at most"};
  }
  const gnn::edge_rules rules{.both_directions = true, .self_edges = true, .distinct = true};
  if (kind == "rmat") {
    return gnn::generate(gnn::rmat{*a, *b, seed}, rules);
  }
  return kind == "random" ? gnn::generate(gnn::erdos_renyi{*a, *b, seed}, rules)
                          : gnn::generate(gnn::barabasi_albert{*a, static_cast<gnn::vertex_id>(*b), seed}, rules);
}

inline std::string_view without_gz(std::string_view name) {
  return name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
}

// Whether the name is that of a file that holds edges and nothing else.
inline bool names_edge_file(std::string_view name) {
  const auto bare = without_gz(name);
  return bare.ends_with(".lux") || bare.ends_with(".mtx") || bare.ends_with(".graph") || bare.ends_with(".txt");
}

// A graph of a file with edges only; nothing if the name is not one of these.
inline std::optional<unity::gnn::csr_graph> graph_in_file(const std::string& path) {
  if (!names_edge_file(path)) {
    return std::nullopt;
  }
  const auto bare = without_gz(path);
  if (path.ends_with(".lux")) {
    return unity::io::read_lux(path);
  }
  if (bare.ends_with(".lux")) {
    const auto unpacked = unity::io::read_packed(path).front();
    return unity::io::parse_lux(unpacked.text, unpacked.name);
  }
  const auto text = unity::io::read_packed(path).front();
  return bare.ends_with(".mtx") ? unity::io::graph_of(unity::io::parse_matrix_market(text.text, text.name), text.name)
         : bare.ends_with(".graph") ? unity::io::parse_neighbours(text.text, text.name)
                                    : unity::io::parse_edges(text.text, text.name);
}

// A graph without data. The sources of a .lux file are mapped from it, and may be larger than memory.
class graph_named {
 public:
  // Throws: unity::error that names the file and the position of the error.
  graph_named(const std::string& name, std::uint64_t seed) : graph_{of(name, seed)} {}

  // Valid as long as this is.
  [[nodiscard]] unity::gnn::csr_view view() const {
    return std::visit([](const auto& g) { return g.view(); }, graph_);
  }

 private:
  using any_graph = std::variant<unity::gnn::csr_graph, unity::io::mapped_lux>;

  static any_graph of(const std::string& name, std::uint64_t seed) {
    if (auto drawn = generated_graph(name, seed)) {
      return *std::move(drawn);
    }
    if (name.ends_with(".lux")) {
      return unity::io::mapped_lux{name};
    }
    if (auto read = graph_in_file(name)) {
      return *std::move(read);
    }
    return unity::io::read_vertex_dataset(name).graph;
  }

  any_graph graph_;
};

// The random data for the vertices of a graph without data. Regular.
struct drawn_vertices {
  std::size_t features = 64;
  std::int32_t classes = 8;
  std::uint64_t seed = 1;
  bool has_values = true;  // whether features are drawn, or only their number is known
};

// Whether a name is that of a graph whose vertices have no data.
inline bool draws_vertices(std::string_view name) { return names_generator(name) || names_edge_file(name); }

// A data set. A graph without data gets random features in [-1, 1), labels and roles (60% for training, 20% for
// validation, 20% for testing).
inline unity::gnn::vertex_dataset vertex_data_named(const std::string& name, const drawn_vertices& drawn) {
  namespace gnn = unity::gnn;
  auto graph = generated_graph(name, drawn.seed);
  if (!graph) {
    graph = graph_in_file(name);
  }
  if (!graph) {
    return unity::io::read_vertex_dataset(name);
  }
  gnn::vertex_dataset data;
  data.graph = *std::move(graph);
  data.features.columns = drawn.features;
  data.classes = drawn.classes;
  unity::random_engine of_features{unity::hash_combine(drawn.seed, 1)};  // labels do not depend on has_values
  data.features.values.resize(drawn.has_values ? data.graph.vertices() * drawn.features : 0);
  for (auto& x : data.features.values) {
    x = static_cast<float>(2 * of_features.unit() - 1);
  }
  unity::random_engine random{drawn.seed};
  for (gnn::vertex_id v = 0; v < data.graph.vertices(); ++v) {
    data.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(drawn.classes))));
    const auto turn = random.below(10);
    data.roles.push_back(turn < 6   ? gnn::vertex_role::train
                         : turn < 8 ? gnn::vertex_role::validation
                                    : gnn::vertex_role::test);
  }
  return data;
}

}  // namespace support
