// What rewriting and searching over any algebra takes, of the rooms core, graph, rewrite, cost and search; nothing of
// tensors. Included by themselves are what else is done to graphs (graph/), enumeration of rules (rewrite/generation/)
// and proofs (rewrite/verification/).
#pragma once

#include <unity/core/budget.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/terms.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/branch_and_bound.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>
