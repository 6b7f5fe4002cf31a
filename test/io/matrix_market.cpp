#include <unity/io/graph_text.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/gnn/csr_graph.hpp>

#include "../gnn/random_graphs.hpp"
#include "../support/cases.hpp"
#include "../support/message_of.hpp"

namespace tests_of_matrix_market {

using namespace unity;

io::coordinate_matrix parsed(std::string_view text) { return io::parse_matrix_market(text, "a.mtx"); }

TEST_CASE("Matrix Market entries become edges from columns to rows") {
  const auto m =
      parsed("%%matrixmarket MATRIX coordinate Real general\n% a comment\n\n3 3 3\n 1 2 0.5\n1 3 -1e3\n3 3 2\n");
  CHECK(m ==
        io::coordinate_matrix{
            io::matrix_field::real, io::matrix_symmetry::general, 3, 3, {{0, 1}, {0, 2}, {2, 2}}, {0.5, -1000, 2}});
  CHECK(io::graph_of(m, "a.mtx") == gnn::csr_graph{{0, 2, 2, 3}, {1, 2, 2}});
  const auto both = parsed("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n2 1\n3 1\n3 3\n");
  CHECK(io::graph_of(both, "a.mtx") == gnn::csr_graph{{0, 2, 3, 5}, {1, 2, 0, 0, 2}});
}

TEST_CASE("Matrix Market files of each field survive a round trip byte for byte") {
  for (const std::string text : {"%%MatrixMarket matrix coordinate pattern general\n2 3 2\n2 3\n1 1\n",
                                 "%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n2 1 -7\n2 2 0\n",
                                 "%%MatrixMarket matrix coordinate real general\n2 3 2\n2 3 0.1\n1 1 1e-300\n",
                                 "%%MatrixMarket matrix coordinate real general\n0 0 0\n"}) {
    CHECK(io::matrix_market_text(parsed(text)) == text);
  }
}

TEST_CASE("random graphs survive a round trip through Matrix Market text") {
  for (std::uint64_t seed = 0; seed < test::cases(100); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto g = test::random_graph(random, 20, 60);
    const auto m = parsed(io::matrix_market_text(io::matrix_of(g)));
    REQUIRE(m == io::matrix_of(g));
    REQUIRE(io::graph_of(m, "a.mtx") == g);
  }
}

TEST_CASE("invalid Matrix Market text is refused with the reason") {
  const auto complaint_of = [](std::string_view text) {
    return test::message_of([&] { static_cast<void>(io::graph_of(parsed(text), "a.mtx")); });
  };
  const std::string head = "%%MatrixMarket matrix coordinate pattern general\n";
  CHECK(complaint_of("") == "a.mtx:0: the end of the line; expected %%MatrixMarket");
  CHECK(complaint_of("%%MatrixMarket matrix array real general\n") == "a.mtx:1: array; expected coordinate");
  CHECK(complaint_of("%%MatrixMarket matrix coordinate complex general\n") ==
        "a.mtx:1: complex; expected pattern or real or integer");
  CHECK(complaint_of("%%MatrixMarket matrix coordinate real skew-symmetric\n") ==
        "a.mtx:1: skew-symmetric; expected general or symmetric");
  CHECK(complaint_of(head) ==
        "a.mtx:1: the end of the line; expected a line of rows, columns and entries after this one");
  CHECK(complaint_of(head + "2 2\n") == "a.mtx:2: the end of the line; expected the number of entries");
  CHECK(complaint_of(head + "2 2 1\n3 1\n") == "a.mtx:3: 3; expected a row, 1 to 2");
  CHECK(complaint_of(head + "2 2 1\n1 0\n") == "a.mtx:3: 0; expected a column, 1 to 2");
  CHECK(complaint_of(head + "2 2 1\n1 1 1\n") == "a.mtx:3: 1; expected the end of the line");
  CHECK(complaint_of(head + "2 2 1\n") == "a.mtx: 0 entries; expected 1 as its head says");
  CHECK(complaint_of(head + "2 2 1\n1 1\n1 2\n") == "a.mtx:4: 1 2; expected the end of the file after 1 entries");
  CHECK(complaint_of(head + "2 3 0\n") == "a.mtx: 2 rows, 3 columns; expected as many of both, one for each vertex");
  CHECK(complaint_of("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 5\n") ==
        "a.mtx:3: row 1, column 2; expected the lower triangle of a symmetric matrix");
  CHECK(complaint_of("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 nan\n") ==
        "a.mtx:3: nan; expected a finite number");
  CHECK(complaint_of("%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 9007199254740994\n") ==
        "a.mtx:3: 9007199254740994; expected an integer of 53 bits");
  CHECK(complaint_of("%%MatrixMarket matrix coordinate integer symmetric\n2 3 0\n") ==
        "a.mtx:2: 2 rows, 3 columns; expected as many rows as columns in a symmetric matrix");
}

}  // namespace tests_of_matrix_market
