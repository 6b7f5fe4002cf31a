// What gradient compressors lose and keep, as ranks run them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/cpu.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/train/rank_executor.hpp>

#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_compressor_laws {

namespace {

using namespace unity;
using parallel::compression;
using parallel::compressor;
using tensor::dtype;
using train::test::operators;
using numbers = std::vector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

parallel::plan compressed(parallel::plan p, const compressor& method) {
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.resize(training.weights().size());
  for (auto& w : p.synchronization.weights) {
    w.parts.front().compressor = method;
  }
  return p;
}

// Calls f(rank's executor, rank) on a thread per rank. Weights are zeros, cotangents ones.
template <class Backend, class F>
void on_ranks(const parallel::plan& p, double rate, const F& f) {
  const auto programs = parallel::programs_of_ranks(operators(), p);
  backend::run_local(static_cast<int>(programs.ranks.size()), [&](backend::local_communicator& world) {
    Backend b{operators()};
    train::rank_executor rank{b, operators(), programs, world, train::update_rule{parallel::optimizer::sgd, rate}};
    const auto write = [&](value_id v, double x) {
      const auto& t = rank.program().graph.type(v);
      const auto count = static_cast<std::size_t>(tensor::element_count(t.dims));
      rank.write(v, backend::encode(tensor::dense<double>{t.dims, numbers(count, x)}, t));
    };
    for (const auto& w : rank.program().weights) {
      write(w.weight.value, 0);
    }
    for (const auto& c : rank.program().cotangents) {
      write(c.value, 1);
    }
    f(rank, static_cast<std::size_t>(world.rank()), write);
  });
}

template <class Executor>
numbers read(const Executor& rank, value_id v) {
  std::vector<std::byte> bytes(rank.size_of(v));
  rank.read(v, bytes);
  return backend::decode<double>(bytes.data(), rank.program().graph.type(v)).data;
}

// The results of synchronizing chosen gradients.
struct synchronized_gradients {
  std::vector<numbers> applied{};             // by iteration: change of the weight on the first rank
  std::vector<std::vector<numbers>> rests{};  // by rank and iteration: the error that it keeps
};

// gradients: those of a weight of that shape, by iteration and rank. The weight is read once, in a product with an
// input, so a rank's gradient is its input.
template <class Backend = backend::reference_backend>
synchronized_gradients synchronize(const tensor::shape& dims, const compressor& method,
                                   const std::vector<std::vector<numbers>>& gradients, dtype element = dtype::float64) {
  const auto ranks = gradients.front().size();
  tensor::builder b{operators()};
  auto with_ranks = dims;
  with_ranks.insert(with_ranks.begin(), static_cast<std::int64_t>(ranks));
  attribute axes;
  for (std::size_t d = 1; d < with_ranks.size(); ++d) {
    axes.push_back(static_cast<std::int64_t>(d));
  }
  const auto products = b.mul(b.input("x", with_ranks), b.weight("w", dims));
  const auto sums = b.apply("reduce_sum", {products}, {{"axes", axes}, {"keep_dims", 0}})[0];
  auto p = train::test::plan_for(std::move(b).finish({sums}), ranks, "data");
  p.graph = tensor::converted(operators(), p.graph, dtype::float64, element);
  p = compressed(p, method);
  synchronized_gradients all;
  all.rests.resize(ranks);
  on_ranks<Backend>(p, 1, [&](auto& rank, std::size_t number, const auto& write) {
    const auto& program = rank.program();
    for (std::size_t s = 0; s < gradients.size(); ++s) {
      write(program.weights[0].weight.value, 0);
      rank.run(s, [&](std::size_t i) {
        const auto& x = program.inputs[i];
        const auto& t = program.graph.type(x.value);
        const auto& own = gradients[s][static_cast<std::size_t>(x.part.begin[0])];
        rank.write(x.value, backend::encode(tensor::dense<double>{t.dims, own}, t));
      });
      rank.commit();
      if (number == 0) {
        all.applied.push_back(read(rank, program.weights[0].weight.value));
        for (auto& x : all.applied.back()) {
          x = -x;
        }
      }
      for (const auto& k : program.kept) {
        if (k.seed == 0) {
          all.rests[number].push_back(read(rank, k.before));
        }
      }
    }
  });
  return all;
}

numbers random_numbers(std::int64_t count, random_engine& random) {
  numbers all(static_cast<std::size_t>(count));
  std::generate(all.begin(), all.end(), [&] { return 2 * random.unit() - 1; });
  return all;
}

double norm(const numbers& x) {
  double sum = 0;
  for (const auto v : x) {
    sum += v * v;
  }
  return std::sqrt(sum);
}

numbers sum_of(const numbers& x, const numbers& y, double factor = 1) {
  numbers all = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    all[i] += factor * y[i];
  }
  return all;
}

// Random gradients by iteration and rank.
std::vector<std::vector<numbers>> random_gradients(std::size_t iterations, std::size_t ranks, std::int64_t count,
                                                   random_engine& random) {
  std::vector<std::vector<numbers>> all(iterations, std::vector<numbers>(ranks));
  for (auto& iteration : all) {
    for (auto& g : iteration) {
      g = random_numbers(count, random);
    }
  }
  return all;
}

const std::vector<compressor> with_feedback{{compression::float16, true, 0},   {compression::bfloat16, true, 0},
                                            {compression::top_k, true, 10},    {compression::top_k, true, 200},
                                            {compression::power_sgd, true, 1}, {compression::power_sgd, true, 3}};

}  // namespace

TEST_CASE("float16 and bfloat16 compressors round to nearest with overflow to infinity", "[law]") {
  struct format {
    compression kind;
    double relative;  // half an ulp of 1
    double smallest;  // smallest normal number
    double largest;
    double infinite;  // least magnitude that overflows
  };
  const auto f = GENERATE(format{compression::float16, 0x1p-11, 0x1p-14, 65504, 65520},
                          format{compression::bfloat16, 0x1p-8, 0x1p-126, 0x1.fep127, 0x1.ffp127});
  constexpr std::uint64_t seed = 1;
  CAPTURE(f.kind, seed);
  random_engine random{seed};
  numbers g;
  for (int i = 0; i < 4000; ++i) {  // of all magnitudes, including too large and too small ones
    const auto least = std::log2(f.smallest) - 14;
    const auto most = std::log2(f.largest) + 1;
    g.push_back(std::copysign(std::exp2(least + (most - least) * random.unit()), random.unit() - 0.5));
  }
  for (const auto x : {0.0, f.smallest, f.largest, std::nextafter(f.infinite, 0.0), f.infinite, 1 + f.relative}) {
    g.push_back(x);
    g.push_back(-x);
  }
  const auto count = static_cast<std::int64_t>(g.size());
  const auto made = synchronize({count}, {f.kind, false, 0}, {{g, numbers(g.size())}});
  const auto& found = made.applied[0];
  double largest_share = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const auto size = std::abs(g[i]);
    const auto lost = std::abs(found[i] - g[i]);
    CAPTURE(g[i], found[i]);
    if (size >= f.infinite) {
      CHECK(found[i] == std::copysign(infinity, g[i]));
    } else if (size > f.largest) {
      CHECK(found[i] == std::copysign(f.largest, g[i]));
    } else if (size >= f.smallest) {
      CHECK(lost <= f.relative * size);
      largest_share = std::max(largest_share, lost / size);
    } else {
      CHECK(lost <= f.relative * f.smallest);
    }
  }
  CHECK(largest_share > 0.95 * f.relative / (1 + f.relative));  // the bound is nearly tight
}

TEST_CASE("a 16-bit gradient sum is within the rounding error of its partial sums", "[law]") {
  constexpr std::uint64_t seed = 2;
  CAPTURE(seed);
  random_engine random{seed};
  for (const auto kind : {compression::float16, compression::bfloat16}) {
    const auto unit = kind == compression::float16 ? 0x1p-11 : 0x1p-8;
    for (const std::size_t ranks : {2U, 4U}) {
      const auto g = random_gradients(1, ranks, 300, random);
      const auto made = synchronize({300}, {kind, false, 0}, g);
      for (std::size_t i = 0; i < 300; ++i) {
        double sum = 0;
        double sizes = 0;
        for (const auto& own : g[0]) {
          sum += own[i];
          sizes += std::abs(own[i]);
        }
        // Each gradient was rounded, and so was each partial sum.
        CHECK(std::abs(made.applied[0][i] - sum) <= (std::pow(1 + unit, static_cast<double>(ranks)) - 1) * sizes);
      }
    }
  }
}

TEST_CASE("the error kept by top-k is at most the share of unsent elements", "[law]") {
  const auto cases = unity::test::cases(40);
  for (std::size_t i = 0; i < cases; ++i) {
    const auto seed = 3 + 1000 * i;
    random_engine random{seed};
    const auto count = random.between(1, 400);
    const compressor method{compression::top_k, true, static_cast<std::uint32_t>(random.between(1, 1000))};
    const auto ranks = static_cast<std::size_t>(random.between(2, 4));
    CAPTURE(seed, count, method.amount, ranks);
    const auto g = random_gradients(4, ranks, count, random);
    const auto made = synchronize({count}, method, g);
    const auto sent = parallel::sent_elements(method, count);
    for (std::size_t r = 0; r < ranks; ++r) {
      numbers before(static_cast<std::size_t>(count));
      for (std::size_t s = 0; s < g.size(); ++s) {
        const auto given = sum_of(g[s][r], before);
        const auto& rest = made.rests[r][s];
        const auto share = 1 - static_cast<double>(sent) / static_cast<double>(count);
        CHECK(norm(rest) * norm(rest) <= share * norm(given) * norm(given));
        CHECK(std::count(rest.begin(), rest.end(), 0.0) >= sent);
        before = rest;
      }
    }
  }
}

// P P^T does not increase norms if the columns of P are orthogonal and of length at most 1.
TEST_CASE("the error kept by PowerSGD is at most the given gradient and zero for low rank", "[law]") {
  const auto cases = unity::test::cases(40);
  for (std::size_t i = 0; i < cases; ++i) {
    const auto seed = 4 + 1000 * i;
    random_engine random{seed};
    const auto n = random.between(3, 20);
    const auto m = random.between(3, 20);
    const auto columns = random.between(1, std::min(n, m) - 1);
    const auto ranks = static_cast<std::size_t>(random.between(2, 3));
    const auto product_of = random.between(0, columns);  // numbers of columns and rows; 0: any matrix
    CAPTURE(seed, n, m, columns, ranks, product_of);
    auto g = random_gradients(4, ranks, n * m, random);
    const auto x = random_numbers(n * std::max<std::int64_t>(product_of, 1), random);
    for (auto& iteration : g) {
      for (auto& own : iteration) {
        const auto scale = std::exp2(static_cast<double>(random.between(-20, 20)));
        const auto y = random_numbers(m * std::max<std::int64_t>(product_of, 1), random);
        for (std::int64_t k = 0; k < n * m; ++k) {
          auto& v = own[static_cast<std::size_t>(k)];
          v = product_of > 0 ? 0 : v;
          for (std::int64_t c = 0; c < product_of; ++c) {
            v += x[static_cast<std::size_t>(k / m * product_of + c)] *
                 y[static_cast<std::size_t>(k % m * product_of + c)];
          }
          v *= scale;
        }
      }
    }
    const auto made = synchronize({n, m}, {compression::power_sgd, true, static_cast<std::uint32_t>(columns)}, g);
    double most = 0;
    for (std::size_t s = 0; s < g.size(); ++s) {
      double all = 0;
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto given = s == 0 ? g[s][r] : sum_of(g[s][r], made.rests[r][s - 1]);
        all += norm(given);
        CAPTURE(s, r);
        CHECK(norm(made.rests[r][s]) <= (1 + 1e-9) * norm(given));
      }
      // All columns are sums of those of x, so from the first iteration on only rounding errors are lost and kept.
      most = std::max(most, all);
      for (std::size_t r = 0; product_of > 0 && r < ranks; ++r) {
        CHECK(norm(made.rests[r][s]) <= 1e-9 * most);
      }
    }
  }
}

TEST_CASE("with error feedback the applied and kept gradients sum to the given ones", "[law]") {
  unity::test::one_of_some is_tried;
  const auto check = [&](auto backend, dtype element, double rounding) {
    using used = typename decltype(backend)::type;
    for (const auto& method : with_feedback) {
      for (const std::size_t ranks : {2U, 3U}) {
        if (!is_tried()) {
          continue;
        }
        const auto seed = 5 + 10 * ranks;
        CAPTURE(seed, method.kind, method.amount, ranks, element);
        random_engine random{seed};
        const auto g = random_gradients(12, ranks, 7 * 11, random);
        const auto made = synchronize<used>({7, 11}, method, g, element);
        for (std::size_t i = 0; i < 7 * 11; ++i) {
          double given = 0;
          double applied = 0;
          double sizes = 0;
          for (std::size_t s = 0; s < g.size(); ++s) {
            for (std::size_t r = 0; r < ranks; ++r) {
              given += g[s][r][i];
              sizes += std::abs(g[s][r][i]);
            }
            applied += made.applied[s][i];
          }
          for (const auto& own : made.rests) {
            applied += own.back()[i];
          }
          // The rounding error of a 16-bit sum is not kept.
          const auto unit = method.kind == compression::float16    ? 0x1p-11
                            : method.kind == compression::bfloat16 ? 0x1p-8
                                                                   : 0;
          CHECK(std::abs(applied - given) <= (rounding + 1.1 * unit * static_cast<double>(ranks - 1)) * sizes);
        }
      }
    }
  };
  check(std::type_identity<backend::reference_backend>{}, dtype::float64, 1e-12);
  check(std::type_identity<backend::reference_backend>{}, dtype::float32, 1e-5);
  check(std::type_identity<backend::cpu_backend>{}, dtype::float32, 1e-5);
}

TEST_CASE("16-bit error feedback for one rank loses no more than one message's rounding", "[law]") {
  constexpr std::uint64_t seed = 6;
  CAPTURE(seed);
  random_engine random{seed};
  for (const auto kind : {compression::float16, compression::bfloat16}) {
    auto g = random_gradients(20, 2, 50, random);
    for (auto& iteration : g) {
      iteration[1].assign(50, 0);
    }
    const auto made = synchronize({50}, {kind, true, 0}, g);
    for (std::size_t i = 0; i < 50; ++i) {
      double left = 0;
      for (std::size_t s = 0; s < g.size(); ++s) {
        left += g[s][0][i] - made.applied[s][i];
      }
      CHECK(std::abs(left - made.rests[0].back()[i]) < 1e-14);
      CHECK(std::abs(left) < 1.1 * (kind == compression::float16 ? 0x1p-11 : 0x1p-8));  // of one message
    }
  }
}

TEST_CASE("compressors with feedback keep zero gradients and errors at zero", "[law]") {
  for (const auto element : {dtype::float64, dtype::float32}) {
    for (const auto& method : with_feedback) {
      CAPTURE(method.kind, method.amount, element);
      const std::vector<std::vector<numbers>> g(3, std::vector<numbers>(2, numbers(5 * 6)));
      const auto made = synchronize({5, 6}, method, g, element);
      for (const auto& applied : made.applied) {
        CHECK(std::all_of(applied.begin(), applied.end(), [](double x) { return x == 0; }));
      }
      for (const auto& own : made.rests) {
        REQUIRE(own.size() == g.size());
        for (const auto& rest : own) {
          CHECK(std::all_of(rest.begin(), rest.end(), [](double x) { return x == 0; }));
        }
      }
    }
  }
}

// A zero gradient gives no direction, and a product of few columns no more directions than columns, but the next
// iteration needs all of them.
TEST_CASE("PowerSGD recovers full rank after zero or low-rank gradients", "[law]") {
  const auto cases = unity::test::cases(20);
  for (std::size_t i = 0; i < cases; ++i) {
    const auto seed = 7 + 1000 * i;
    CAPTURE(seed);
    random_engine random{seed};
    const std::int64_t n = 6;
    const std::int64_t m = 9;
    const auto product_of = [&](std::int64_t columns) {
      numbers all(static_cast<std::size_t>(n * m));
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto x = random_numbers(n, random);
        const auto y = random_numbers(m, random);
        for (std::size_t k = 0; k < all.size(); ++k) {
          all[k] += x[k / static_cast<std::size_t>(m)] * y[k % static_cast<std::size_t>(m)];
        }
      }
      return all;
    };
    std::vector<std::vector<numbers>> g;
    for (const std::int64_t columns : {0, 0, 1, 3, 0, 2, 3}) {
      g.push_back({product_of(columns), numbers(static_cast<std::size_t>(n * m))});
    }
    const auto made = synchronize({n, m}, {compression::power_sgd, true, 3}, g);
    for (std::size_t s = 0; s < g.size(); ++s) {
      CAPTURE(s);
      CHECK(norm(sum_of(made.applied[s], g[s][0], -1)) <= 1e-6 * (1 + norm(g[s][0])));
    }
  }
}

// Non-finite gradients must remain visible: the weight becomes non-finite, too, and training stops.
TEST_CASE("non-finite gradients reach the weights under every compressor", "[law]") {
  constexpr std::uint64_t seed = 8;
  for (const auto bad : {not_a_number, infinity, -infinity}) {
    auto all = with_feedback;
    all.push_back({compression::float16, false, 0});
    all.push_back({compression::bfloat16, false, 0});
    for (const auto& method : all) {
      CAPTURE(seed, bad, method.kind, method.amount, method.has_feedback);
      random_engine random{seed};
      auto g = random_gradients(3, 2, 5 * 6, random);
      const auto good = synchronize({5, 6}, method, g);
      g[1][0][17] = bad;
      const auto made = synchronize({5, 6}, method, g);
      CHECK(made.applied[0] == good.applied[0]);
      CHECK_FALSE(std::isfinite(made.applied[1][17]));
      if (method.kind == compression::power_sgd) {
        continue;  // it spreads over the whole matrix
      }
      for (std::size_t i = 0; i < 5 * 6; ++i) {
        CHECK((i == 17 || std::isfinite(made.applied[1][i])));
        CHECK((i == 17 || std::isfinite(made.applied[2][i])));
      }
      CHECK(std::isfinite(made.applied[2][17]) == !method.has_feedback);
      if (method.kind != compression::top_k) {
        CHECK((std::isnan(bad) ? std::isnan(made.applied[1][17]) : made.applied[1][17] == bad));
      }
    }
  }
}

namespace {

// Least squares on fixed data with noise.
struct least_squares {
  std::int64_t samples = 32;
  std::int64_t inputs = 8;
  std::int64_t outputs = 6;
  numbers x{};
  numbers y{};

  explicit least_squares(std::uint64_t seed) {
    random_engine random{seed};
    x = random_numbers(samples * inputs, random);
    const auto w = random_numbers(inputs * outputs, random);
    y = random_numbers(samples * outputs, random);
    each([&](std::size_t k, double product) { y[k] = product + y[k] / 10; }, w);
  }

  // Calls f(element of the product, its value).
  template <class F>
  void each(const F& f, const numbers& w) const {
    for (std::int64_t s = 0; s < samples; ++s) {
      for (std::int64_t o = 0; o < outputs; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < inputs; ++i) {
          sum += x[static_cast<std::size_t>(s * inputs + i)] * w[static_cast<std::size_t>(i * outputs + o)];
        }
        f(static_cast<std::size_t>(s * outputs + o), sum);
      }
    }
  }
  [[nodiscard]] double loss(const numbers& w) const {
    double sum = 0;
    each([&](std::size_t k, double product) { sum += (product - y[k]) * (product - y[k]); }, w);
    return sum / static_cast<double>(samples * outputs);
  }

  [[nodiscard]] double loss_after(std::size_t steps, double rate, std::size_t ranks, const compressor& method) const {
    tensor::builder b{operators()};
    const auto product = b.matmul(b.input("x", {samples, inputs}), b.weight("w", {inputs, outputs}));
    auto p = train::test::plan_for(std::move(b).finish({product}), ranks, "data");
    p = compressed(train::with_loss(operators(), std::move(p), tensor::loss::mean_square), method);
    double last = 0;
    on_ranks<backend::reference_backend>(p, rate, [&](auto& rank, std::size_t number, const auto&) {
      const auto& program = rank.program();
      for (std::size_t s = 0; s < steps; ++s) {
        rank.run(s, [&](std::size_t i) {
          const auto& part = program.inputs[i];
          const auto& t = program.graph.type(part.value);
          const auto& all = t.dims[1] == inputs ? x : y;
          const auto from = all.begin() + part.part.begin[0] * t.dims[1];
          rank.write(part.value,
                     backend::encode(tensor::dense<double>{t.dims, {from, from + tensor::element_count(t.dims)}}, t));
        });
        rank.commit();
      }
      if (number == 0) {
        last = loss(read(rank, program.weights[0].weight.value));
      }
    });
    return last;
  }
};

}  // namespace

TEST_CASE("every compressor with feedback solves least squares", "[law][exhaustive]") {
  for (const std::uint64_t seed : {11U, 12U, 13U}) {
    const least_squares problem{seed};
    for (const std::size_t ranks : {2U, 4U}) {
      const auto expected = problem.loss_after(400, 1, ranks, {});
      const auto before = problem.loss(numbers(static_cast<std::size_t>(problem.inputs * problem.outputs)));
      CHECK(expected < before / 20);
      for (const auto& method : with_feedback) {
        const auto found = problem.loss_after(400, 1, ranks, method);
        CAPTURE(seed, ranks, method.kind, method.amount, before, expected);
        // One of 48 elements is sent and the rest waits, so the kept error is as large as steps are.
        CHECK(found <= (method.kind == compression::top_k && method.amount == 10 ? 1.5 : 1.01) * expected);
      }
    }
  }
}

}  // namespace tests_of_compressor_laws
