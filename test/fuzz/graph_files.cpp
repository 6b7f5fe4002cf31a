// Whatever a graph or vertex file contains, it is read or refused; an accepted one survives writing and reading. The
// first byte selects the format.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/io/graph_text.hpp>
#include <unity/io/lux.hpp>
#include <unity/io/vertex_files.hpp>

#include "support/expect_one_line.hpp"

namespace {

using namespace unity;

void expect(bool holds) {
  if (!holds) {
    __builtin_trap();
  }
}

// Uses a graph that was read as its readers do.
void use(gnn::csr_view g) {
  const auto closed = gnn::with_self_edges(g);
  expect(closed.edges() >= g.vertices());
  std::vector<gnn::vertex_id> same(g.vertices());
  std::iota(same.begin(), same.end(), gnn::vertex_id{0});
  expect(gnn::transposed(gnn::transposed(closed)) == gnn::renumbered(closed, same));
  const auto x = gnn::vertex_feature_sums{closed, {3}}.total();
  expect(x[2] <= x[3] && x[3] <= x[4]);
}

void read(char format, std::string_view text) {
  switch (format) {
    case 'l': use(io::parse_lux(text, "f")); break;
    case 'n': {
      const auto g = io::parse_neighbours(text, "f");
      expect(io::parse_neighbours(io::neighbours_text(g), "f") == g);
      use(g);
      break;
    }
    case 'e': {
      const auto g = io::parse_edges(text, "f", 1000);
      expect(io::parse_edges(io::edges_text(g), "f", 1000) == g);
      use(g);
      break;
    }
    case 'm': {
      const auto m = io::parse_matrix_market(text, "f");
      expect(io::parse_matrix_market(io::matrix_market_text(m), "f") == m);
      if (m.rows < 1000) {
        use(io::graph_of(m, "f"));
      }
      break;
    }
    case 's': {
      const auto rows = io::parse_svmlight(text, "f");
      expect(io::parse_svmlight(io::svmlight_text(rows), "f") == rows);
      static_cast<void>(io::dense(rows, "f", 0, 10000));
      break;
    }
    case 'b': {
      const auto features = io::parse_features_bin(text, 2, "f");
      expect(io::features_bin(features) == text);
      break;
    }
    case 'c': {
      const auto features = io::parse_features_csv(text, "f");
      expect(io::parse_features_csv(io::features_csv(features), "f") == features);
      break;
    }
    case 'i': {
      const auto labels = io::parse_labels(text, "f");
      expect(io::parse_labels(io::labels_text(labels), "f") == labels);
      break;
    }
    case 'k': {
      const auto roles = io::parse_mask(text, "f");
      expect(io::parse_mask(io::mask_text(roles), "f") == roles);
      break;
    }
    default: {
      const auto roles = io::parse_split(text, "f");
      expect(io::parse_split(io::split_text(roles), "f") == roles);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0) {
    try {
      read(static_cast<char>(data[0]), {reinterpret_cast<const char*>(data) + 1, size - 1});
    } catch (const error& e) {
      test::expect_one_line(e);
    }
  }
  return 0;
}
