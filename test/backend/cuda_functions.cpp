// What the cuda backend runs on a device, run here by loops on the host: every function is the same code. Of the device
// remain the launches, the reductions inside of a group, and the libraries (test/cuda).
#include <unity/backend/cuda/kernel_factory.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/executor.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/zoo.hpp>

#include "adjoint_suite.hpp"
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
  template <class F>
  void tiles(std::int64_t n, const F& f) {
    for (std::int64_t i = n; i-- > 0;) {
      std::vector<typename F::element> tile(F::tile_size);
      for (int t = 0; t < cuda::block_threads; ++t) {
        f.read(tile.data(), t, i);
      }
      for (int t = 0; t < cuda::block_threads; ++t) {
        f.write(tile.data(), t, i);
      }
    }
  }
};

float as_float(dtype t, const std::byte* from, std::int64_t i) { return cuda::load_element<float>(t, from, i); }

// A product by the definition of BLAS: what the plan says and nothing else.
class host_product final : public cuda::routine<host_queue> {
 public:
  host_product(cuda::product_plan p, const tensor_type& result)
      : plan_{std::move(p)},
        ending_{cuda::ending_routine<host_queue>(result, plan_.biased && !plan_.bias_by_row, result.rank() - 1,
                                                 plan_.then)} {}

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
        double sum =
            plan_.biased && plan_.bias_by_row ? static_cast<double>(as_float(plan_.element, c.inputs[2], i)) : 0;
        for (std::int64_t k = 0; k < plan_.inner; ++k) {
          sum +=
              static_cast<double>(as_float(plan_.element, c.inputs[plan_.left.operand], left + at(plan_.left, i, k))) *
              static_cast<double>(
                  as_float(plan_.element, c.inputs[plan_.right.operand], right + at(plan_.right, k, j)));
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
            cuda::store_element(result_.element, c.outputs[0], to++,
                                static_cast<float>(sum(c, n, channel, row, column)));
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

// The adjoint of a convolution with one padding for both ends: each product of the convolution gives to one element.
class host_convolution_gradient final : public cuda::routine<host_queue> {
 public:
  host_convolution_gradient(const cuda::convolution_plan& p, cuda::convolution_operand of, cuda::types inputs,
                            const tensor_type& result)
      : plan_{p}, to_image_{of == cuda::convolution_operand::image}, image_{to_image_ ? result : inputs[0]},
        weight_{to_image_ ? inputs[1] : result}, cotangent_{to_image_ ? inputs[0] : inputs[1]} {
    REQUIRE((p.symmetric() && cuda::is_row_major(inputs[0]) && cuda::is_row_major(inputs[1]) &&
             cuda::is_row_major(result)));
  }

  void run(const cuda::call<host_queue>& c) const override {
    const auto& result = to_image_ ? image_ : weight_;
    std::vector<double> sums(static_cast<std::size_t>(unity::tensor::element_count(result.dims)));
    const auto& d = cotangent_.dims;
    for (std::int64_t i = 0; i < unity::tensor::element_count(d); ++i) {
      add(c, i, i / (d[1] * d[2] * d[3]), i / (d[2] * d[3]) % d[1], i / d[3] % d[2], i % d[3], sums);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      cuda::store_element(result.element, c.outputs[0], static_cast<std::int64_t>(i), sums[i]);
    }
  }

 private:
  void add(const cuda::call<host_queue>& c, std::int64_t i, std::int64_t n, std::int64_t channel, std::int64_t row,
           std::int64_t column, std::vector<double>& sums) const {
    const auto& w = weight_.dims;
    const auto y = static_cast<double>(as_float(cotangent_.element, c.inputs[to_image_ ? 0 : 1], i));
    for (std::int64_t tap = 0; tap < w[1] * w[2] * w[3]; ++tap) {
      const auto at_y = row * plan_.y.stride + tap / w[3] % w[2] * plan_.y.dilation - plan_.y.before;
      const auto at_x = column * plan_.x.stride + tap % w[3] * plan_.x.dilation - plan_.x.before;
      if (at_y < 0 || at_y >= image_.dims[2] || at_x < 0 || at_x >= image_.dims[3]) {
        continue;
      }
      const auto plane = n * image_.dims[1] + channel / (w[0] / plan_.groups) * w[1] + tap / (w[2] * w[3]);
      const auto point = (plane * image_.dims[2] + at_y) * image_.dims[3] + at_x;
      const auto weight = channel * w[1] * w[2] * w[3] + tap;
      const auto factor = as_float(cotangent_.element, c.inputs[to_image_ ? 1 : 0], to_image_ ? weight : point);
      sums[static_cast<std::size_t>(to_image_ ? point : weight)] += y * static_cast<double>(factor);
    }
  }

  cuda::convolution_plan plan_;
  bool to_image_;
  tensor_type image_;
  tensor_type weight_;
  tensor_type cotangent_;
};

// A pooling of images in rows as cuDNN does it: one padding for both ends, averages over all of a
// window or over what of it lies in the image.
class host_pooling final : public cuda::routine<host_queue> {
 public:
  host_pooling(const cuda::pooling_plan& p, const tensor_type& image, const tensor_type& result)
      : plan_{p}, image_{image}, result_{result} {
    REQUIRE((p.is_plain() && cuda::is_row_major(image) && cuda::is_row_major(result)));
    const auto windows = [](const auto& s) { return (s.in + 2 * s.before - s.kernel) / s.stride + 1; };
    REQUIRE((windows(p.y) == result.dims[2] && windows(p.x) == result.dims[3]));
  }

  void run(const cuda::call<host_queue>& c) const override {
    const auto& d = result_.dims;
    for (std::int64_t to = 0; to < unity::tensor::element_count(d); ++to) {
      const auto x = value(c, to / (d[2] * d[3]) * image_.dims[2] * image_.dims[3], to / d[3] % d[2], to % d[3]);
      cuda::store_element(result_.element, c.outputs[0], to, x);
    }
  }

 private:
  float value(const cuda::call<host_queue>& c, std::int64_t image, std::int64_t row, std::int64_t column) const {
    using kind = cuda::pooling_plan::kind;
    double sum = 0;
    auto largest = -std::numeric_limits<float>::infinity();
    int inside = 0;
    for (std::int64_t ky = 0; ky < plan_.y.kernel; ++ky) {
      for (std::int64_t kx = 0; kx < plan_.x.kernel; ++kx) {
        const auto y = row * plan_.y.stride + ky - plan_.y.before;
        const auto x = column * plan_.x.stride + kx - plan_.x.before;
        if (y >= 0 && y < image_.dims[2] && x >= 0 && x < image_.dims[3]) {
          const auto e = as_float(image_.element, c.inputs[0], image + y * image_.dims[3] + x);
          sum += static_cast<double>(e);
          largest = std::max(largest, e);
          ++inside;
        }
      }
    }
    const auto all = static_cast<double>(plan_.y.kernel * plan_.x.kernel);
    return plan_.how == kind::largest ? largest
                                      : static_cast<float>(sum / (plan_.how == kind::average_of_window ? all : inside));
  }

  cuda::pooling_plan plan_;
  tensor_type image_;
  tensor_type result_;
};

class host_normalization final : public cuda::routine<host_queue> {
 public:
  host_normalization(double epsilon, const tensor_type& image) : epsilon_{epsilon}, image_{image} {
    REQUIRE((cuda::is_row_major(image) && image.element == dtype::float32));
  }

  void run(const cuda::call<host_queue>& c) const override {
    const auto all = unity::tensor::element_count(image_.dims);
    const auto each = all / (image_.dims[0] * image_.dims[1]);
    for (std::int64_t i = 0; i < all; ++i) {
      const auto of = [&](std::size_t operand) {
        return as_float(dtype::float32, c.inputs[operand], i / each % image_.dims[1]);
      };
      const auto scaled =
          (as_float(dtype::float32, c.inputs[0], i) - of(3)) / std::sqrt(of(4) + static_cast<float>(epsilon_));
      cuda::store_element(dtype::float32, c.outputs[0], i, scaled * of(1) + of(2));
    }
  }

 private:
  double epsilon_;
  tensor_type image_;
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
  [[nodiscard]] cuda::routine_ptr<host_queue> convolution_gradient(const cuda::convolution_plan& p,
                                                                   cuda::convolution_operand of, cuda::types inputs,
                                                                   const tensor_type& result) const {
    return std::make_unique<host_convolution_gradient>(p, of, inputs, result);
  }
  [[nodiscard]] cuda::routine_ptr<host_queue> pooling(const cuda::pooling_plan& p, const tensor_type& image,
                                                      const tensor_type& result,
                                                      cuda::routine_ptr<host_queue> own) const {
    return present ? std::make_unique<host_pooling>(p, image, result) : std::move(own);
  }
  [[nodiscard]] cuda::routine_ptr<host_queue> normalization(double epsilon, const tensor_type& image,
                                                            cuda::routine_ptr<host_queue> own) const {
    return present ? std::make_unique<host_normalization>(epsilon, image) : std::move(own);
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

using origin = tile_leaf::origin;

// An element-wise computation and its operands, each large enough for every step.
struct chain_case {
  tile_program program{};
  std::vector<std::vector<std::byte>> operands{};

  void add_operand(dtype element, loop_steps steps, random_engine& random) {
    std::int64_t last = 0;
    for (std::size_t l = 0; l < steps.size(); ++l) {
      last += (program.sizes[l] - 1) * steps[l];
    }
    dense<double> values{{last + 1}};
    for (auto& x : values.data) {
      x = element == dtype::uint8 ? static_cast<double>(random.below(4)) : 2 * random.unit() - 1;
    }
    const auto operand = operands.size();
    operands.push_back(encode(values, type({last + 1}, element)));
    join(program.add_leaf({origin::operand, operand, element, 0, std::move(steps)}));
  }
  // value = (value / 2 - leaf) + tanh(value): every instruction of the machine is needed.
  void join(std::size_t leaf) {
    if (value_ == none) {
      value_ = leaf;
      return;
    }
    const auto half = apply(unity::tensor::scalar_op::mul, value_, program.add_literal(0.5));
    const auto less = apply(unity::tensor::scalar_op::sub, half, leaf);
    value_ = apply(unity::tensor::scalar_op::add, less, apply(unity::tensor::scalar_op::tanh, value_, value_));
  }
  cuda::chain_code code(dtype element) {
    program.stores = {{value_, 0, element}};
    return *cuda::compile_chain(program);
  }
  // One point after another, in double.
  [[nodiscard]] std::vector<double> evaluate() const {
    std::vector<double> all(static_cast<std::size_t>(points()));
    std::vector<double> x(program.code.size());
    for (std::size_t p = 0; p < all.size(); ++p) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto& c = program.code[i];
        x[i] = c.op == unity::tensor::scalar_op::operand ? leaf(program.leaves[c.leaf], static_cast<std::int64_t>(p))
                                                         : cuda::apply<double>(c.op, x[c.a], x[c.b]);
      }
      all[p] = x[value_];
    }
    return all;
  }
  [[nodiscard]] std::int64_t points() const {
    std::int64_t n = 1;
    for (const auto s : program.sizes) {
      n *= s;
    }
    return n;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::size_t apply(unity::tensor::scalar_op op, std::size_t a, std::size_t b) {
    program.code.push_back({op, 0, a, b});
    return program.code.size() - 1;
  }
  [[nodiscard]] double leaf(const tile_leaf& l, std::int64_t point) const {
    std::int64_t offset = 0;
    for (auto n = program.sizes.size(); n-- > 0;) {
      offset += point % program.sizes[n] * l.steps[n];
      point /= program.sizes[n];
    }
    return l.from == origin::literal      ? l.value
           : l.from == origin::coordinate ? static_cast<double>(offset)
                                          : cuda::load_element<double>(l.element, operands[l.operand].data(), offset);
  }

  std::size_t value_ = none;
};

// Every kind of leaf that fits the sizes; short ones, so that small kernels take them too.
std::vector<chain_case> chain_cases(loop_steps sizes, random_engine& random) {
  std::vector<chain_case> all;
  const auto inner = sizes.back();
  for (const bool narrow : {false, true}) {
    for (const int part : {0, 1, 2}) {
      chain_case c;
      c.program.sizes = sizes;
      const auto lying = [&](std::int64_t step) {
        loop_steps steps(sizes.size(), 0);
        for (auto n = sizes.size(); n-- > 0;) {
          steps[n] = step;
          step *= sizes[n];
        }
        return steps;
      };
      c.add_operand(dtype::float32, lying(1), random);
      if (part == 0) {
        c.add_operand(narrow ? dtype::bfloat16 : dtype::float16, lying(1), random);
        c.add_operand(dtype::float32, loop_steps(sizes.size(), 0), random);
      }
      if (part <= 1) {
        c.add_operand(narrow ? dtype::float16 : dtype::float32, lying(3), random);
        c.join(c.program.add_leaf({origin::coordinate, 0, dtype::float32, 0, lying(1)}));
      }
      if (part != 1 && sizes.size() > 1) {
        auto row = lying(1);
        auto column = lying(1);
        row.back() = 0;
        for (std::size_t n = 0; n + 1 < sizes.size(); ++n) {
          row[n] /= inner;
          column[n] = 0;
        }
        c.add_operand(dtype::float32, row, random);
        c.add_operand(narrow ? dtype::float16 : dtype::float32, column, random);
        c.add_operand(dtype::uint8, row, random);
      }
      all.push_back(std::move(c));
    }
  }
  return all;
}

// Runs one function on a case; false where the function does not take it.
template <class Function>
bool check_chain_function(chain_case& c, dtype element) {
  const auto code = c.code(element);
  if (!Function::takes(code)) {
    return false;
  }
  Function f{code};
  for (int l = 0; l < f.leaf_count; ++l) {
    f.leaves[l].from = c.operands.at(f.leaves[l].operand).data();
  }
  const std::vector<std::byte> margin(64, std::byte{0x5A});
  std::vector<std::byte> result(static_cast<std::size_t>(c.points() * unity::tensor::size_of(element)),
                                std::byte{0xFF});
  const auto size = result.size();
  result.insert(result.end(), margin.begin(), margin.end());
  f.stores[0].to = result.data();
  host_queue{}.each(f.threads(), f);
  CHECK(std::equal(margin.begin(), margin.end(), result.begin() + static_cast<std::ptrdiff_t>(size)));
  const auto expected = c.evaluate();
  double error = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto found = cuda::load_element<double>(element, result.data(), static_cast<std::int64_t>(i));
    error = std::max(error, found == found ? std::abs(found - expected[i]) : std::numeric_limits<double>::infinity());
    magnitude = std::max(magnitude, std::abs(expected[i]));
  }
  CHECK(error <= (element == dtype::float32 ? 1e-5 : element == dtype::float16 ? 1e-3 : 1e-2) * magnitude);
  return true;
}

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
  for (const std::int64_t size :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{1} << 30,
        (std::int64_t{1} << 30) + 1, limit - 1, limit, limit + 1, limit * 5}) {
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, size - 1, size, size + 1, 2 * size - 1, limit - 1,
                                 limit, limit + 1, std::int64_t{1} << 45}) {
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

TEST_CASE("the functions of the cuda backend compute every operator of adjoints", "[cuda]") {
  check_adjoint_operators(with_libraries, {.cases = 40});
  check_adjoint_operators(without_libraries, {.cases = 20, .seed = 2});
  check_adjoint_operators(in_teams, {.cases = 4, .seed = 3});
  check_adjoint_operators(with_libraries, {.tolerance = 1e-2, .cases = 10, .element = dtype::bfloat16});
  check_adjoint_operators(with_libraries, {.cases = 10, .element = dtype::float64});
}

TEST_CASE("the functions of the cuda backend compute large adjoints", "[cuda]") {
  auto b = with_libraries(training());
  for (const auto& c : large_adjoint_cases()) {
    static_cast<void>(check_large_adjoint(b, c));
  }
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
    chain_writer writer{standard(), region, region.type(region.outputs()[0])};
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
  const auto aligned = [](loop_steps sizes, loop_steps steps) {
    tile_program p;
    p.sizes = std::move(sizes);
    p.stores.push_back(
        {p.add_leaf({tile_leaf::origin::operand, 0, dtype::float32, 0, std::move(steps)}), 0, dtype::float32});
    return cuda::compile_chain(std::move(p))->leaves[0].aligned;
  };
  CHECK(aligned({32}, {1}));
  CHECK(aligned({2, 4}, {8, 1}));
  CHECK_FALSE(aligned({2, 4}, {6, 1}));
  CHECK_FALSE(aligned({2, 4}, {1, 2}));
  CHECK_FALSE(aligned({2, 4}, {4, 0}));
}

TEST_CASE("every function of a chain computes every kind of leaf, the last elements included", "[cuda]") {
  random_engine random{7};
  std::array<int, std::variant_size_v<cuda::chain_functions>> ran{};
  const auto check = [&]<std::size_t... I>(chain_case& c, dtype element, std::index_sequence<I...>) {
    ((ran[I] += check_chain_function<std::variant_alternative_t<I, cuda::chain_functions>>(c, element) ? 1 : 0), ...);
  };
  for (const auto& sizes : std::vector<loop_steps>{{1},
                                                   {3},
                                                   {4},
                                                   {1021},
                                                   {4096},
                                                   {4099},
                                                   {16389},
                                                   {3, 4},
                                                   {7, 8},
                                                   {600, 12},
                                                   {5, 1028},
                                                   {5, 7},
                                                   {3, 1031},
                                                   {2, 3, 5, 8},
                                                   {2, 3, 2, 3, 2, 4}}) {
    for (auto& c : chain_cases(sizes, random)) {
      for (const auto element : {dtype::float32, dtype::bfloat16, dtype::float16}) {
        CAPTURE(c.points(), sizes.size(), unity::tensor::name_of(element), c.program.leaves.size());
        check(c, element, std::make_index_sequence<std::variant_size_v<cuda::chain_functions>>{});
      }
    }
  }
  for (std::size_t i = 0; i < ran.size(); ++i) {
    CAPTURE(i);
    CHECK(ran[i] >= 20);
  }
}

TEST_CASE("the smallest function that takes a chain is chosen", "[cuda]") {
  const auto chosen = [](loop_steps sizes, loop_steps steps, bool in_double = false) {
    tile_program p;
    p.sizes = std::move(sizes);
    const auto whole = p.add_leaf({origin::operand, 0, dtype::float32, 0, std::move(steps)});
    p.code.push_back({unity::tensor::scalar_op::relu, 0, whole, whole});
    p.stores.push_back({1, 0, dtype::float32});
    return cuda::function_of(*cuda::compile_chain(std::move(p)), in_double).index();
  };
  const std::int64_t large = std::int64_t{1} << 16;
  CHECK(chosen({1024}, {1}) == 0);
  CHECK(chosen({8, 1024}, {0, 1}) == 1);
  CHECK(chosen({8, 1023}, {0, 1}) == 4);
  CHECK(chosen({large, large / 4}, {1, 0}) == 1);
  CHECK(chosen({large, large / 2}, {1, 0}) == 5);  // 2^31 results
  CHECK(chosen({2, large}, {large * large, 1}) == 5);
  CHECK(chosen({8, 1024}, {0, 1}, true) == 6);
  CHECK(chosen({large, large}, {1, 0}, true) == 7);
  CHECK(sizeof(std::variant_alternative_t<0, cuda::chain_functions>) < 700);
}

TEST_CASE("few results of many points are computed in parts", "[cuda]") {
  auto b = with_libraries(standard());
  auto teams = in_teams(standard());
  const auto check = [&](const char* name, std::int64_t axis, unity::tensor::shape dims, dtype element, bool in_parts) {
    CAPTURE(name, axis, dims[0], dims[1], unity::tensor::name_of(element));
    const auto op = standard().make_operation(name, {{"axes", {axis}}});
    const std::vector<tensor_type> in{type(dims, element)};
    const auto out = *standard().infer(op, in);
    random_engine random{3};
    suite_operands operands;
    dense<double> values{dims};
    for (auto& x : values.data) {
      x = 2 * random.unit() - 1;
    }
    operands.add(std::move(values), in[0]);
    const auto expected = unity::tensor::evaluate<double>(standard(), op, operands.numbers, in);
    const auto kernel = b.prepare(op, in, out);
    CHECK((kernel.workspace() > 0) == in_parts);
    const auto found = run_kernel(b, kernel, in, out, operands.bytes);
    check_results(found, out, expected, element == dtype::float32 ? 1e-5 : 1e-2);
    check_results(run_kernel(teams, teams.prepare(op, in, out), in, out, operands.bytes), out, expected,
                  element == dtype::float32 ? 1e-5 : 1e-2);
  };
  for (const char* name : {"reduce_sum", "reduce_mean", "reduce_max"}) {
    check(name, 1, {1, 100000}, dtype::float32, true);
    check(name, 1, {3, 40004}, dtype::bfloat16, true);
    check(name, 1, {3, 40003}, dtype::float32, true);
    check(name, 0, {33333, 2}, dtype::float32, true);
    check(name, 1, {2, 8192}, dtype::float32, false);
    check(name, 1, {600, 64}, dtype::float16, false);
  }
}

TEST_CASE("poolings go to a library where it computes the same windows", "[cuda]") {
  const auto plain = [](const char* name, unity::tensor::test::attributes attributes) {
    const auto op = standard().make_operation(name, attributes);
    const std::vector<tensor_type> in{type({1, 1, 9, 9})};
    REQUIRE(standard().infer(op, in));
    return cuda::plan_pooling(standard().read(op), in, std::string{name} == "average_pool").is_plain();
  };
  using attributes = unity::tensor::test::attributes;
  CHECK(plain("max_pool", attributes{{"kernel", {3, 3}}, {"padding", "explicit"}, {"pads", {1, 1, 1, 1}}}));
  CHECK(plain("max_pool", attributes{{"kernel", {2, 2}}, {"stride", {2, 2}}, {"padding", "valid"}}));
  CHECK(plain("average_pool", attributes{{"kernel", {3, 3}}, {"padding", "same"}}));
  CHECK(plain("average_pool", attributes{{"kernel", {3, 3}}, {"padding", "same"}, {"count_include_pad", 1}}));
  CHECK_FALSE(plain("max_pool", attributes{{"kernel", {3, 3}}, {"padding", "valid"}, {"dilation", {2, 1}}}));
  CHECK_FALSE(
      plain("max_pool", attributes{{"kernel", {2, 2}}, {"stride", {2, 2}}, {"padding", "valid"}, {"ceil_mode", 1}}));
  CHECK_FALSE(plain("max_pool", attributes{{"kernel", {2, 2}}, {"padding", "same"}}));
}

TEST_CASE("what lies along one loop and is written along another goes by tiles", "[cuda]") {
  using copy = cuda::strided_copy;
  CHECK(copy{{0, 0, {{40, 1, 33}, {33, 40, 1}}}, 4}.turns());
  CHECK(copy{{0, 0, {{3, 1320, 1320}, {40, 1, 33}, {33, 40, 1}}}, 2}.turns());
  CHECK_FALSE(copy{{0, 0, {{40, 33, 33}, {33, 1, 1}}}, 4}.turns());
  CHECK_FALSE(copy{{0, 0, {{40, 1, 3}, {3, 40, 1}}}, 4}.turns());
  for (const auto element : {dtype::float32, dtype::bfloat16, dtype::float64, dtype::uint8}) {
    auto b = with_libraries(standard());
    const auto op = standard().make_operation("transpose", {{"permutation", {0, 3, 1, 2}}});
    const std::vector<tensor_type> in{type({2, 9, 5, 70}, element)};
    const auto out = *standard().infer(op, in);
    suite_operands operands;
    dense<double> values{in[0].dims};
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      values.data[i] = static_cast<double>(i % 251);
    }
    operands.add(std::move(values), in[0]);
    check_results(run_kernel(b, b.prepare(op, in, out), in, out, operands.bytes), out,
                  unity::tensor::evaluate<double>(standard(), op, operands.numbers, in), 1e-9);
  }
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
  CHECK(copy{{0, 0, {{4, 64, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 16);
  CHECK(copy{{2, 0, {{4, 64, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 8);
  CHECK(copy{{0, 0, {{4, 66, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 8);
  CHECK(copy{{0, 0, {{4, 33, 32}, {32, 1, 1}}}, 4}.moved_at_once() == 4);
  CHECK(copy{{0, 0, {{32, 1, 32}, {32, 32, 1}}}, 4}.moved_at_once() == 4);
  CHECK(copy{{0, 0, {{48, 1, 1}}}, 1}.moved_at_once() == 16);
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
