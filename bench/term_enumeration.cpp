// Claims: all terms of at most 3 operators over TASO's list take at most 1.4 CPU seconds and 64 MB (TASO: 69.8 s and
// 7.13 GB), of at most 4 at most 2 CPU minutes and 1 GB; of 5 over the matrix and the image part at most 10 minutes and
// 2 GB. Each runs in a process of its own, whose CPU time and peak memory are the system's.

#include <sys/resource.h>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string_view>

#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/vocabularies.hpp>

#include "support/child.hpp"
#include "support/models.hpp"

namespace {

struct claim {
  std::string_view words;
  std::size_t most_operators;
  std::size_t variables;
  double target_cpu_s;
  double target_bytes;
};

struct measured {
  unity::enumeration_counts counts{};
  std::size_t rules = 0;
};

measured enumerate(const claim& c) {
  using namespace unity;
  tensor::term_language language{bench::operators(), tensor::parse_vocabulary(bench::operators(), c.words, "vocabulary")};
  enumeration<tensor::term_language> terms{
      language, {.most_operators = c.most_operators, .variables = c.variables, .memory = std::size_t{256} << 20U}};
  terms.run();
  return {terms.counts(), terms.rules().size() + terms.joint_rules().size()};
}

void terms_up_to_a_size(benchmark::State& state, claim c) {
  for (auto _ : state) {
    rusage usage{};
    const auto m = bench::in_child([&] { return enumerate(c); }, usage);
    const auto seconds = bench::cpu_seconds(usage);
    const auto bytes = bench::peak_bytes(usage);
    state.counters["terms"] = static_cast<double>(m.counts.terms);
    state.counters["classes"] = static_cast<double>(m.counts.classes);
    state.counters["unexplained"] = static_cast<double>(m.rules);
    state.counters["cpu_s"] = seconds;
    state.counters["cpu_s_target"] = c.target_cpu_s;
    state.counters["terms_per_cpu_s"] = static_cast<double>(m.counts.terms) / seconds;
    state.counters["peak_bytes"] = bytes;
    state.counters["peak_bytes_target"] = c.target_bytes;
    state.counters["bytes_per_class"] = bytes / static_cast<double>(m.counts.classes);
  }
}

using unity::tensor::image_vocabulary;
using unity::tensor::matrix_vocabulary;
using unity::tensor::taso_vocabulary;
BENCHMARK_CAPTURE(terms_up_to_a_size, taso_3, claim{taso_vocabulary, 3, 4, 1.4, 64e6})->Iterations(1);
BENCHMARK_CAPTURE(terms_up_to_a_size, taso_4, claim{taso_vocabulary, 4, 4, 120, 1e9})->Iterations(1);
BENCHMARK_CAPTURE(terms_up_to_a_size, image_5, claim{image_vocabulary, 5, 3, 600, 2e9})->Iterations(1);
BENCHMARK_CAPTURE(terms_up_to_a_size, matrix_5, claim{matrix_vocabulary, 5, 3, 600, 2e9})->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
