// What the cuda backend runs on a device, run here by loops on the host: every function is the same code. Of the device
// remain the launches, the reductions inside of a group, and the libraries (test/cuda).
#include <unity/backend/cuda/kernel_factory.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unity/backend/executor.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/zoo.hpp>

#include "operator_suite.hpp"

namespace {

using namespace unity::backend;
using namespace unity::backend::test;
using unity::random_engine;
using unity::tensor::dtype;
using unity::tensor::layout;
using unity::tensor::test::type;

struct lone_thread {
  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] double sum(double x) const { return x; }
  [[nodiscard]] double largest(double x) const { return x; }
};

// Threads of the host as a group that shares a row.
class team {
 public:
  explicit team(int size) : numbers_(static_cast<std::size_t>(size)), meeting_{size} {}

  template <class F>
  double fold(int rank, double x, const F& f) {
    numbers_[static_cast<std::size_t>(rank)] = x;
    meeting_.arrive_and_wait();
    auto total = numbers_[0];
    for (std::size_t i = 1; i < numbers_.size(); ++i) {
      total = f(total, numbers_[i]);
    }
    meeting_.arrive_and_wait();
    return total;
  }

 private:
  std::vector<double> numbers_;
  std::barrier<> meeting_;
};
struct team_member {
  int rank_;
  int size_;
  team* all_;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] double sum(double x) const { return all_->fold(rank_, x, std::plus<double>{}); }
  [[nodiscard]] double largest(double x) const {
    return all_->fold(rank_, x, [](double a, double b) { return std::max(a, b); });
  }
};

// members: threads per group; 1, or a team that stands for any width above 1.
struct host_queue {
  int members = 1;

  template <class F>
  void each(std::int64_t n, const F& f) {
    for (std::int64_t i = n; i-- > 0;) {  // any order
      f(i);
    }
  }
  template <class F>
  void rows(std::int64_t n, int width, const F& f) {
    REQUIRE((width == 1 || width == 32 || width == 256));
    if (width == 1 || members == 1) {
      each(n, [&](std::int64_t i) { f(lone_thread{}, i); });
      return;
    }
    team all{members};
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < members; ++rank) {
      threads.emplace_back([&, rank] {
        for (std::int64_t i = 0; i < n; ++i) {
          f(team_member{rank, members, &all}, i);
        }
      });
    }
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
};

float as_float(dtype t, const std::byte* from, std::int64_t i) { return cuda::load_element<float>(t, from, i); }

// A product by the definition of BLAS: what the plan says and nothing else.
class host_product final : public cuda::routine<host_queue> {
 public:
  host_product(cuda::product_plan p, const tensor_type& result)
      : plan_{std::move(p)},
        ending_{cuda::ending_routine<host_queue>(result, plan_.biased && !plan_.bias_by_row, result.rank() - 1, plan_.then)} {}

  void run(const cuda::call<host_queue>& c) const override {
    for (const auto& [left, right, result] : plan_.offsets) {
      for (std::int64_t b = 0; b < plan_.batch; ++b) {
        multiply(c, left + b * plan_.left.batch_step, right + b * plan_.right.batch_step,
                 result + b * plan_.result.batch_step);
      }
    }
    cuda::run_ending(ending_.get(), c);
  }

 private:
  void multiply(const cuda::call<host_queue>& c, std::int64_t left, std::int64_t right, std::int64_t result) const {
    const auto at = [](const cuda::product_matrix& m, std::int64_t row, std::int64_t column) {
      if (m.transposed) {
        std::swap(row, column);
      }
      REQUIRE((row < m.rows && column < m.columns && m.rows <= m.leading));
      return row + column * m.leading;
    };
    for (std::int64_t i = 0; i < plan_.result.rows; ++i) {
      for (std::int64_t j = 0; j < plan_.result.columns; ++j) {
        double sum = plan_.biased && plan_.bias_by_row ? static_cast<double>(as_float(plan_.element, c.inputs[2], i)) : 0;
        for (std::int64_t k = 0; k < plan_.inner; ++k) {
          sum += static_cast<double>(as_float(plan_.element, c.inputs[plan_.left.operand], left + at(plan_.left, i, k))) *
                 static_cast<double>(as_float(plan_.element, c.inputs[plan_.right.operand], right + at(plan_.right, k, j)));
        }
        cuda::store_element(plan_.element, c.outputs[0], result + at(plan_.result, i, j), static_cast<float>(sum));
      }
    }
  }

  cuda::product_plan plan_;
  cuda::routine_ptr<host_queue> ending_;
};

// A convolution with one padding for both ends, of images in rows.
class host_convolution final : public cuda::routine<host_queue> {
 public:
  host_convolution(const cuda::convolution_plan& p, cuda::types inputs, const tensor_type& result)
      : plan_{p}, image_{inputs[0]}, weight_{inputs[1]}, result_{result},
        ending_{cuda::ending_routine<host_queue>(result, p.biased, 1, p.then)} {
    REQUIRE((p.symmetric() && cuda::is_row_major(image_) && cuda::is_row_major(weight_)));
  }

  void run(const cuda::call<host_queue>& c) const override {
    const auto& out = result_.dims;
    std::int64_t to = 0;
    for (std::int64_t n = 0; n < out[0]; ++n) {
      for (std::int64_t channel = 0; channel < out[1]; ++channel) {
        for (std::int64_t row = 0; row < out[2]; ++row) {
          for (std::int64_t column = 0; column < out[3]; ++column) {
            cuda::store_element(result_.element, c.outputs[0], to++, static_cast<float>(sum(c, n, channel, row, column)));
          }
        }
      }
    }
    cuda::run_ending(ending_.get(), c);
  }

 private:
  double sum(const cuda::call<host_queue>& c, std::int64_t n, std::int64_t channel, std::int64_t row,
             std::int64_t column) const {
    const auto& w = weight_.dims;
    const auto first = channel / (w[0] / plan_.groups) * w[1];
    double total = 0;
    for (std::int64_t i = 0; i < w[1]; ++i) {
      for (std::int64_t ky = 0; ky < w[2]; ++ky) {
        for (std::int64_t kx = 0; kx < w[3]; ++kx) {
          const auto y = row * plan_.y.stride + ky * plan_.y.dilation - plan_.y.before;
          const auto x = column * plan_.x.stride + kx * plan_.x.dilation - plan_.x.before;
          if (y >= 0 && y < image_.dims[2] && x >= 0 && x < image_.dims[3]) {
            const auto from = ((n * image_.dims[1] + first + i) * image_.dims[2] + y) * image_.dims[3] + x;
            const auto weight = ((channel * w[1] + i) * w[2] + ky) * w[3] + kx;
            total += static_cast<double>(as_float(image_.element, c.inputs[0], from)) *
                     static_cast<double>(as_float(weight_.element, c.inputs[1], weight));
          }
        }
      }
    }
    return total;
  }

  cuda::convolution_plan plan_;
  tensor_type image_;
  tensor_type weight_;
  tensor_type result_;
  cuda::routine_ptr<host_queue> ending_;
};

// present: are there libraries, as their contracts state them; or own functions for all.
struct host_library {
  bool present = true;

  [[nodiscard]] cuda::routine_ptr<host_queue> product(const cuda::product_plan& p, const tensor_type& result) const {
    return present ? std::make_unique<host_product>(p, result) : nullptr;
  }
  [[nodiscard]] bool convolves(dtype) const { return present; }
  [[nodiscard]] cuda::routine_ptr<host_queue> convolution(const cuda::convolution_plan& p, cuda::types inputs,
                                                          const tensor_type& result) const {
    return std::make_unique<host_convolution>(p, inputs, result);
  }
};

class host_backend {
 public:
  using memory = host_memory;
  class kernel {
   public:
    [[nodiscard]] std::size_t workspace() const { return routine_->workspace(); }

   private:
    friend class host_backend;
    cuda::routine_ptr<host_queue> routine_{};
  };

  host_backend(const unity::tensor::algebra& a, bool with_libraries, int members)
      : algebra_{&a}, library_{std::make_unique<host_library>(host_library{with_libraries})}, queue_{members} {}

  [[nodiscard]] device_description description() const { return {"cuda functions", "host", {}}; }
  [[nodiscard]] memory allocate(std::size_t bytes) { return memory{bytes}; }
  [[nodiscard]] kernel prepare(const operation& op, std::span<const tensor_type> in, std::span<const tensor_type> out) {
    kernel k;
    k.routine_ = factory().make(op, in, out);
    return k;
  }
  [[nodiscard]] kernel prepare_chain(const tensor_graph& region) {
    kernel k;
    k.routine_ = factory().make_chain(region);
    return k;
  }
  void run(const kernel& k, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    k.routine_->run({in, out, work, queue_});
  }
  void write(std::byte* to, std::span<const std::byte> from) { std::memcpy(to, from.data(), from.size()); }
  void read(std::span<std::byte> to, const std::byte* from) { std::memcpy(to.data(), from, to.size()); }
  void wait() {}

 private:
  [[nodiscard]] cuda::kernel_factory<host_queue, host_library> factory() const { return {*algebra_, *library_}; }

  const unity::tensor::algebra* algebra_;
  std::unique_ptr<host_library> library_;
  host_queue queue_;
};

host_backend with_libraries(const unity::tensor::algebra& a) { return {a, true, 1}; }
host_backend without_libraries(const unity::tensor::algebra& a) { return {a, false, 1}; }
host_backend in_teams(const unity::tensor::algebra& a) { return {a, true, 3}; }

static_assert(device_backend<host_backend> && fusing_backend<host_backend>);

}  // namespace

TEST_CASE("division by a loop's size is exact", "[cuda]") {
  random_engine random{1};
  const auto check = [](std::int64_t n, std::int64_t size) {
    auto flat = n;
    const auto at = cuda::loop_size{size}.split(flat);
    CAPTURE(n, size);
    REQUIRE(flat == n / size);
    REQUIRE(at == n % size);
  };
  const auto limit = cuda::loop_size::limit;
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{1} << 30,
                                  (std::int64_t{1} << 30) + 1, limit - 1, limit, limit + 1, limit * 5}) {
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, size - 1, size, size + 1, 2 * size - 1, limit - 1, limit,
                                 limit + 1, std::int64_t{1} << 45}) {
      check(n, size);
    }
  }
  for (int i = 0; i < 200000; ++i) {
    const auto size = static_cast<std::int64_t>(1 + random.below(std::uint64_t{1} << (1 + random.below(31))));
    check(static_cast<std::int64_t>(random.below(std::uint64_t{1} << (1 + random.below(34)))), size);
  }
}

TEST_CASE("the functions of the cuda backend compute every operator", "[cuda]") {
  check_operators(with_libraries, {.cases = 100});
  check_operators(without_libraries, {.cases = 30, .seed = 2});
}

TEST_CASE("the functions of the cuda backend compute every operator in other types", "[cuda]") {
  check_operators(with_libraries, {.tolerance = 1e-2, .cases = 15, .element = dtype::bfloat16});
  check_operators(with_libraries, {.tolerance = 3e-3, .cases = 15, .element = dtype::float16});
  check_operators(with_libraries, {.cases = 10, .element = dtype::float64});
  check_operators(without_libraries, {.tolerance = 1e-2, .cases = 5, .element = dtype::bfloat16});
}

TEST_CASE("the functions of the cuda backend compute large operators", "[cuda]") {
  check_large_operators(with_libraries);
}

TEST_CASE("the functions of the cuda backend compute rows in groups of threads", "[cuda]") {
  check_operators(in_teams, {.cases = 6, .seed = 3});
  check_large_operators(in_teams, {.seed = 3});
}

TEST_CASE("softmax of large numbers is as exact as of small ones", "[cuda]") {
  auto b = with_libraries(standard());
  const auto op = standard().make_operation("softmax", {{"axis", 1}});
  const std::vector<tensor_type> t{type({2, 3})};
  const dense<double> x{{2, 3}, {1000, 1001, 999, -1000, -1001, -999}};
  const std::vector<dense<double>> operands{x};
  const auto expected = unity::tensor::evaluate<double>(standard(), op, operands, t);
  check_results(run_kernel(b, b.prepare(op, t, t), t, t, {encode(x, t[0])}), t, expected, 1e-5);
}

TEST_CASE("models run by the functions of the cuda backend as the double reference evaluates them", "[cuda]") {
  for (const char* text :
       {"zoo:bert?layers=2&hidden=8&heads=2&seq=4&vocab=9", "zoo:bert?form=taso&layers=2&hidden=8&heads=2&seq=4",
        "zoo:nasrnn?hidden=4&seq=3", "zoo:mlp?layers=3&hidden=6&batch=2", "zoo:squeezenet1_1?image=25"}) {
    CAPTURE(text);
    const auto g = unity::tensor::zoo::build(standard(), text);
    auto b = with_libraries(standard());
    executor e{b, standard(), g, {.seed = 1}};
    e.run();
    const auto expected = unity::tensor::evaluate<double>(standard(), g, 1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(relative_error(e.output(i), expected[i]) < 1e-5);
    }
  }
}

TEST_CASE("the functions of the cuda backend compute chains", "[cuda]") {
  check_chains(with_libraries);
  check_chains(with_libraries, {.tolerance = 1e-2, .cases = 5, .seed = 4, .element = dtype::bfloat16});
}

TEST_CASE("values that are read several times, far apart, are kept until the last time", "[cuda]") {
  int kept_many = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    unity::tensor::builder b{standard()};
    std::vector<unity::value_id> values{b.input("x", {3, 4}), b.input("y", {4})};
    const auto any = [&] { return values[random.below(values.size())]; };
    for (auto left = random.between(3, 14); left > 0; --left) {
      const auto x = any();
      const auto y = any();
      values.push_back(random.below(4) == 0 ? b.tanh(x) : random.below(2) == 0 ? b.sub(x, y) : b.tanh(b.add(y, x)));
    }
    auto sum = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) {
      sum = b.sub(sum, values[i]);
    }
    const auto region = std::move(b).finish({sum});
    cpu::detail::chain_writer writer{standard(), region, region.type(region.outputs()[0])};
    writer.store(region.outputs()[0], 0);
    if (const auto compiled = cuda::compile_chain(std::move(writer).take())) {
      kept_many += compiled->slot_count >= 4 ? 1 : 0;
      CHECK(compiled->slot_count <= static_cast<int>(cuda::chain_code::max_slots));
    }
    auto backend = with_libraries(standard());
    check_region(backend, region, 1e-5, random);
  }
  CHECK(kept_many > 20);
}

TEST_CASE("four elements are read at once only where each four begin at a multiple of four", "[cuda]") {
  const auto aligned = [](cpu::loop_steps sizes, cpu::loop_steps steps) {
    cpu::tile_program p;
    p.sizes = std::move(sizes);
    p.stores.push_back({p.add_leaf({cpu::tile_leaf::origin::operand, 0, dtype::float32, 0, std::move(steps)}), 0, dtype::float32});
    return cuda::compile_chain(std::move(p))->leaves[0].aligned;
  };
  CHECK(aligned({32}, {1}));
  CHECK(aligned({2, 4}, {8, 1}));
  CHECK_FALSE(aligned({2, 4}, {6, 1}));
  CHECK_FALSE(aligned({2, 4}, {1, 2}));
  CHECK_FALSE(aligned({2, 4}, {4, 0}));
}

TEST_CASE("chains larger than a kernel's code run node by node", "[cuda]") {
  unity::tensor::builder b{standard()};
  const auto x = b.input("x", {3, 5});
  auto last = x;
  for (int i = 0; i < 40; ++i) {
    last = b.tanh(b.add(last, b.input("y" + std::to_string(i), {3, 5})));
  }
  const auto g = std::move(b).finish({last});
  const auto chains = elementwise_chains(standard(), g);
  REQUIRE(chains.size() == 1);
  CHECK(cuda::region_routine<host_queue>(standard(), chains[0].region) == nullptr);
  auto backend = with_libraries(standard());
  random_engine random{1};
  check_region(backend, chains[0].region, 1e-5, random);
}

TEST_CASE("copies move as many bytes at once as sizes and places allow", "[cuda]") {
  using copy = cuda::strided_copy;
  CHECK(copy{0, 0, {{4, 64, 32}, {32, 1, 1}}, 4}.moved_at_once() == 16);
  CHECK(copy{2, 0, {{4, 64, 32}, {32, 1, 1}}, 4}.moved_at_once() == 8);
  CHECK(copy{0, 0, {{4, 66, 32}, {32, 1, 1}}, 4}.moved_at_once() == 8);
  CHECK(copy{0, 0, {{4, 33, 32}, {32, 1, 1}}, 4}.moved_at_once() == 4);
  CHECK(copy{0, 0, {{32, 1, 32}, {32, 32, 1}}, 4}.moved_at_once() == 4);
  CHECK(copy{0, 0, {{48, 1, 1}}, 1}.moved_at_once() == 16);
}

TEST_CASE("what the cuda backend has no kernel for is refused by name", "[cuda]") {
  auto b = with_libraries(standard());
  const auto op = standard().make_operation("relu", {});
  const std::vector<tensor_type> two{type({2}), type({2})};
  std::string text;
  try {
    static_cast<void>(b.prepare(op, two, two));
  } catch (const unity::error& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.starts_with("cuda kernel of relu: "));
  CHECK(text.find('\n') == std::string::npos);
}
