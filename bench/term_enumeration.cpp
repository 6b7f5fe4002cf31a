// Claims: enumerating all terms of at most 3 operators over TASO's list takes at most 1.4 CPU seconds and 64 MB (TASO:
// 69.8 s and 7.13 GB); of at most 4, 2 CPU minutes and 1 GB; of 5 over only its matrix operators or only its image
// operators, 10 minutes and 2 GB. Each case runs in its own process; CPU time and peak memory are the operating
// system's figures.

#include <sys/resource.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/vocabularies.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

#include "support/child.hpp"
#include "support/models.hpp"

namespace {

using unity::tensor::vocabulary;

struct claim {
  vocabulary (*words)();
  std::size_t most_operators;
  std::size_t variables;
  double target_cpu_s;
  double target_bytes;
};

struct measured {
  unity::enumeration_counts counts{};
  std::size_t rules = 0;
};

vocabulary taso() {
  return unity::tensor::parse_vocabulary(bench::operators(), unity::tensor::taso_vocabulary, "vocabulary");
}
// TASO's list without the operators on matrices alone or on images alone.
vocabulary taso_without(std::initializer_list<std::string_view> names) {
  const auto named = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const auto kind = [](const auto& o) { return std::string_view{bench::operators().signature(o.kind).name}; };
  auto v = taso();
  std::erase_if(v.sizes, [&](const auto& s) { return named(s.first); });
  std::erase_if(v.sorts, [&](const auto& s) { return named(s.name); });
  std::erase_if(v.operators, [&](const auto& o) { return named(kind(o)); });
  return v;
}
// Sampled at 7 x 7: five operators with 3 x 3 windows see all of a 5 x 5 image from every position, so many different
// terms would agree there and need samples at other sizes.
vocabulary taso_images() {
  auto v = taso_without({"M", "K", "activation", "matrix", "matmul", "identity_matrix", "transpose"});
  for (auto& [letter, size] : v.sizes) {
    size = letter == "H" || letter == "W" ? 7 : size;
  }
  return v;
}
vocabulary taso_matrices() {
  return taso_without({"B", "C", "H", "W", "image", "kernel", "kernel_1x3", "kernel_3x1", "pooling_kernel", "conv2d",
                       "average_pool", "max_pool", "pool_kernel", "identity_kernel", "fill", "enlarge"});
}

measured enumerate(const claim& c) {
  using namespace unity;
  tensor::term_language language{bench::operators(), c.words()};
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

BENCHMARK_CAPTURE(terms_up_to_a_size, taso_3, claim{taso, 3, 4, 1.4, 64e6})->Iterations(1);
BENCHMARK_CAPTURE(terms_up_to_a_size, taso_4, claim{taso, 4, 4, 120, 1e9})->Iterations(1);
BENCHMARK_CAPTURE(terms_up_to_a_size, image_5, claim{taso_images, 5, 3, 600, 2e9})->Iterations(1);
BENCHMARK_CAPTURE(terms_up_to_a_size, matrix_5, claim{taso_matrices, 5, 3, 600, 2e9})->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
