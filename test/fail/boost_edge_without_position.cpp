// expect: satisf[a-z ]+[^a-z]+operand_edge
// expect: e[.]position[^ ]* (is|would be) invalid
// A Boost graph whose edges do not say which operand they are.
#include <boost/graph/adjacency_list.hpp>

#include <unity/graph/boost_graph.hpp>

struct unnumbered {};
using graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, int, unnumbered>;

using bridged = unity::boost_dataflow<graph>;
