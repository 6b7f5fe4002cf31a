// Checks a communicator against a sequential oracle. Every rank calls every case with the same seed, so each rank can
// compute the other ranks' data and check its own results without communication.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace communication_suite {

using unity::backend::reduction;
using unity::tensor::dtype;
using bytes = std::vector<std::byte>;

// Throws on failure, because Catch2's assertions are neither thread-safe nor work across processes.
inline void check(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error{what};
  }
}

// Host memory, for communicators that access it directly.
class host_memory {
 public:
  explicit host_memory(const bytes& content) : content_{content} {
    content_.resize(std::max<std::size_t>(content.size(), 1));
  }
  [[nodiscard]] std::byte* data() { return content_.data(); }
  void read(bytes& to) const { std::copy_n(content_.begin(), to.size(), to.begin()); }

 private:
  bytes content_;
};

[[nodiscard]] inline double value_at(const std::byte* at, dtype type) {
  const auto load = [at]<class T>(T x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  switch (type) {
    case dtype::float32: return load(float{});
    case dtype::float64: return load(double{});
    case dtype::float16: return unity::tensor::from_float16(load(std::uint16_t{}));
    case dtype::bfloat16: return unity::tensor::from_bfloat16(load(std::uint16_t{}));
    case dtype::int64: return static_cast<double>(load(std::int64_t{}));
    case dtype::int32: return load(std::int32_t{});
    case dtype::int8: return load(std::int8_t{});
    case dtype::uint8:
    case dtype::boolean: break;
  }
  return load(std::uint8_t{});
}
inline void store_at(std::byte* at, dtype type, double value) {
  const auto store = [at](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (type) {
    case dtype::float32: store(static_cast<float>(value)); break;
    case dtype::float64: store(value); break;
    case dtype::float16: store(unity::tensor::to_float16(value)); break;
    case dtype::bfloat16: store(unity::tensor::to_bfloat16(value)); break;
    case dtype::int64: store(static_cast<std::int64_t>(value)); break;
    case dtype::int32: store(static_cast<std::int32_t>(value)); break;
    case dtype::int8: store(static_cast<std::int8_t>(value)); break;
    case dtype::uint8:
    case dtype::boolean: store(static_cast<std::uint8_t>(value)); break;
  }
}

// If exact: integers whose sum and product over 8 ranks every type represents exactly (modulo 2^8 in 8 bits). Otherwise
// reals of either sign.
[[nodiscard]] inline bytes values_of(std::uint64_t seed, int rank, std::size_t count, dtype type, bool exact) {
  const auto size = static_cast<std::size_t>(unity::tensor::size_of(type));
  unity::random_engine random{unity::hash_combine(seed, static_cast<std::uint64_t>(rank))};
  bytes result(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    double value = 0;
    if (type == dtype::boolean) {
      value = static_cast<double>(random.below(4) != 0);
    } else if (type == dtype::uint8) {
      value = static_cast<double>(random.below(3));
    } else if (exact) {
      value = static_cast<double>(random.between(-2, 2));
    } else {
      value = random.unit() * 4 - 2;
    }
    store_at(&result[i * size], type, value);
  }
  return result;
}

struct expected_value {
  double value = 0;
  double tolerance = 0;  // 0: exact
};

// The reduction of element i over ranks, in double, and the error bound of a reduction in any order in the type itself.
[[nodiscard]] inline expected_value reduced(const std::vector<bytes>& inputs, std::size_t i, dtype type, reduction op,
                                            bool exact) {
  const auto size = static_cast<std::size_t>(unity::tensor::size_of(type));
  double result = value_at(&inputs[0][i * size], type);
  double magnitude = std::abs(result);
  for (std::size_t r = 1; r < inputs.size(); ++r) {
    const double x = value_at(&inputs[r][i * size], type);
    switch (op) {
      case reduction::sum:
        result += x;
        magnitude += std::abs(x);
        break;
      case reduction::product:
        result *= x;
        magnitude *= std::abs(x);
        break;
      case reduction::minimum: result = std::min(result, x); break;
      case reduction::maximum: result = std::max(result, x); break;
    }
  }
  if (type == dtype::boolean) {
    result = result != 0 ? 1 : 0;
  } else if (type == dtype::uint8 || type == dtype::int8) {
    result = std::fmod(std::fmod(result, 256) + 256, 256);  // 8-bit integers wrap
    if (type == dtype::int8 && result >= 128) {
      result -= 256;
    }
  }
  const bool rounds = !exact && unity::tensor::is_floating(type) && (op == reduction::sum || op == reduction::product);
  if (!rounds) {
    return {result, 0};
  }
  const double unit = type == dtype::float64   ? 0x1p-53
                      : type == dtype::float32 ? 0x1p-24
                      : type == dtype::float16 ? 0x1p-11
                                               : 0x1p-8;
  // Intermediate products may become subnormal in float16 and grow again; factors are below 2.
  const auto ranks = static_cast<double>(inputs.size());
  const double subnormal = type == dtype::float16 && op == reduction::product ? std::exp2(ranks - 24) : 0;
  return {result, ranks * (unit * magnitude + subnormal)};
}

template <class C, class Memory = host_memory>
class suite {
 public:
  suite(C& c, std::uint64_t seed, std::string where) : c_{c}, seed_{seed}, random_{seed}, where_{std::move(where)} {}

  void run(int rounds) {
    every_type_and_operation();
    for (int i = 0; i < rounds; ++i) {
      random_collective(static_cast<std::size_t>(random_.below(5000)));
    }
    random_collective(300'000);
    random_collective(1'000'000);
    several_in_flight();
    abandoned_requests_wait();
    messages();
    barriers();
    agreement();
    if constexpr (unity::backend::splitting_communicator<C>) {
      groups(2);
    }
  }

 private:
  enum class kind { all_reduce, all_reduce_now, reduce_scatter, all_gather, broadcast, all_to_all };

  // A collective and its memory: begun first, checked later.
  struct one {
    kind what = kind::all_reduce;
    std::size_t count = 0;
    dtype type = dtype::float32;
    reduction op = reduction::sum;
    int root = 0;
    bool exact = true;
    bool in_place = false;
    std::uint64_t seed = 0;
    std::size_t out_at = 0;
    std::optional<Memory> in{};
    std::optional<Memory> out{};
    std::optional<typename C::request> request{};
  };

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(c_.size()); }
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(c_.rank()); }
  [[nodiscard]] std::string place(const std::string& what) const {
    return where_ + ", rank " + std::to_string(c_.rank()) + " of " + std::to_string(c_.size()) + ", seed " +
           std::to_string(seed_) + ": " + what;
  }
  [[nodiscard]] static std::string describe(const one& o) {
    static const char* const names[] = {"all_reduce", "all_reduce_now", "reduce_scatter",
                                        "all_gather", "broadcast",      "all_to_all"};
    return std::string{names[static_cast<int>(o.what)]} + " of " + std::to_string(o.count) + " " +
           std::string{unity::tensor::name_of(o.type)} + ", reduction " + std::to_string(static_cast<int>(o.op)) +
           ", root " + std::to_string(o.root) + (o.in_place ? ", in place" : "") + (o.exact ? "" : ", reals");
  }
  [[nodiscard]] static bool reduces(kind k) {
    return k == kind::all_reduce || k == kind::all_reduce_now || k == kind::reduce_scatter;
  }

  static constexpr std::size_t guard = 64;
  static constexpr std::byte poison{0xa5};

  void begin(one& o) {
    const auto size = static_cast<std::size_t>(unity::tensor::size_of(o.type));
    const auto part = o.count * size;
    const bool wide_in = o.what == kind::reduce_scatter || o.what == kind::all_to_all;
    const bool wide_out = o.what == kind::all_gather || o.what == kind::all_to_all;
    const auto content = values_of(o.seed, c_.rank(), o.count * (wide_in ? ranks() : 1), o.type, o.exact);
    if (o.in_place) {
      // The whole buffer between guards, with the operand at its place.
      bytes whole(guard + part * (wide_in || wide_out ? ranks() : 1) + guard, poison);
      const auto in_at = guard + (o.what == kind::all_gather ? own() * part : 0);
      o.out_at = guard + (o.what == kind::reduce_scatter ? own() * part : 0);
      std::copy(content.begin(), content.end(), whole.begin() + static_cast<std::ptrdiff_t>(in_at));
      o.out.emplace(whole);
      call(o, o.out->data() + in_at, o.out->data() + o.out_at);
    } else {
      o.out_at = guard;
      o.in.emplace(content);
      o.out.emplace(bytes(guard + part * (wide_out ? ranks() : 1) + guard, poison));
      call(o, o.in->data(), o.out->data() + guard);
    }
  }
  void call(one& o, const std::byte* in, std::byte* out) {
    switch (o.what) {
      case kind::all_reduce: o.request.emplace(c_.all_reduce(in, out, o.count, o.type, o.op)); break;
      case kind::all_reduce_now:
        if constexpr (unity::backend::blocking_communicator<C>) {
          c_.all_reduce_now(in, out, o.count, o.type, o.op);
        }
        break;
      case kind::reduce_scatter: o.request.emplace(c_.reduce_scatter(in, out, o.count, o.type, o.op)); break;
      case kind::all_gather: o.request.emplace(c_.all_gather(in, out, o.count, o.type)); break;
      case kind::broadcast: o.request.emplace(c_.broadcast(out, o.count, o.type, o.root)); break;
      case kind::all_to_all: o.request.emplace(c_.all_to_all(in, out, o.count, o.type)); break;
    }
  }
  void finish(one& o) {
    if (o.request) {
      o.request->wait();
    }
    check_result(o);
  }

  void check_result(one& o) {
    const auto size = static_cast<std::size_t>(unity::tensor::size_of(o.type));
    const auto part = o.count * size;
    const bool wide_in = o.what == kind::reduce_scatter || o.what == kind::all_to_all;
    const bool wide_out = o.what == kind::all_gather || o.what == kind::all_to_all;
    const auto result_bytes = part * (wide_out ? ranks() : 1);
    const bool within = o.in_place && o.what == kind::reduce_scatter;
    bytes whole(guard + (within ? part * ranks() : result_bytes) + guard);
    o.out->read(whole);
    for (std::size_t i = 0; i < guard; ++i) {
      check(whole[i] == poison && whole[whole.size() - 1 - i] == poison,
            place(describe(o) + " wrote outside of its result"));
    }
    std::vector<bytes> inputs;
    for (std::size_t r = 0; r < ranks(); ++r) {
      inputs.push_back(values_of(o.seed, static_cast<int>(r), o.count * (wide_in ? ranks() : 1), o.type, o.exact));
    }
    if (o.in) {
      bytes after(inputs[own()].size());
      o.in->read(after);
      check(after == inputs[own()], place(describe(o) + " changed its operand"));
    }
    const auto* const out = whole.data() + o.out_at;
    if (reduces(o.what)) {
      const auto first = o.what == kind::reduce_scatter ? own() * o.count : 0;
      for (std::size_t i = 0; i < o.count; ++i) {
        const auto wanted = reduced(inputs, first + i, o.type, o.op, o.exact);
        const auto got = value_at(out + i * size, o.type);
        check(std::abs(got - wanted.value) <= wanted.tolerance,
              place(describe(o) + ": element " + std::to_string(i) + " is " + std::to_string(got) + ", expected " +
                    std::to_string(wanted.value)));
      }
      return;
    }
    bytes wanted;
    for (std::size_t r = 0; r < ranks(); ++r) {
      const auto at = o.what == kind::all_to_all ? static_cast<std::ptrdiff_t>(own() * part) : 0;
      const auto from = inputs[o.what == kind::broadcast ? static_cast<std::size_t>(o.root) : r].begin() + at;
      wanted.insert(wanted.end(), from, from + static_cast<std::ptrdiff_t>(part));
    }
    wanted.resize(result_bytes);
    check(std::equal(wanted.begin(), wanted.end(), out), place(describe(o) + ": wrong data"));
  }

  [[nodiscard]] one draw(std::size_t count) {
    one o;
    do {
      o.what = static_cast<kind>(random_.below(6));
    } while (o.what == kind::all_reduce_now && !unity::backend::blocking_communicator<C>);
    o.count = count;
    o.type = static_cast<dtype>(random_.below(9));
    o.op = static_cast<reduction>(random_.below(4));
    o.root = static_cast<int>(random_.below(ranks()));
    o.exact = random_.below(2) == 0;
    o.in_place = random_.below(2) == 0 || o.what == kind::broadcast;
    o.seed = random_();
    if (o.what == kind::broadcast) {
      o.op = reduction::sum;
    }
    return o;
  }

  void random_collective(std::size_t count) {
    auto o = draw(count);
    begin(o);
    finish(o);
  }
  void every_type_and_operation() {
    for (int what = 0; what < 6; ++what) {
      for (int type = 0; type < 9; ++type) {
        for (int op = 0; op < (reduces(static_cast<kind>(what)) ? 4 : 1); ++op) {
          for (const std::size_t count : {0U, 1U, 37U}) {
            if (static_cast<kind>(what) == kind::all_reduce_now && !unity::backend::blocking_communicator<C>) {
              continue;
            }
            for (const bool in_place : {false, true}) {
              auto o = draw(count);
              o.what = static_cast<kind>(what);
              o.type = static_cast<dtype>(type);
              o.op = static_cast<reduction>(op);
              o.in_place = in_place || o.what == kind::broadcast;
              begin(o);
              finish(o);
            }
          }
        }
      }
    }
  }

  // All ranks begin in the same order; each waits in a random order of its own.
  void several_in_flight() {
    std::vector<one> all(12);
    for (auto& o : all) {
      o = draw(static_cast<std::size_t>(random_.below(40'000)));
      while (o.what == kind::all_reduce_now) {
        o = draw(o.count);
      }
      begin(o);
    }
    unity::random_engine shuffle{unity::hash_combine(seed_, own())};
    for (std::size_t left = all.size(); left > 0; --left) {
      std::swap(all[static_cast<std::size_t>(shuffle.below(left))], all[left - 1]);
      auto& o = all[left - 1];
      if (shuffle.below(2) == 0) {
        while (!o.request->done()) {
          std::this_thread::yield();
        }
        check(o.request->done(), place("done() forgot that it was"));
      }
      finish(o);
    }
  }
  void abandoned_requests_wait() {
    auto o = draw(100'000);
    o.what = kind::all_reduce;
    begin(o);
    o.request.reset();
    check_result(o);
  }

  void messages() {
    const std::vector<std::size_t> sizes{0, 1, 8, 1000, 70'000, 1'000'000};
    for (const auto size : sizes) {
      around_the_ring(size);
    }
    // Two messages with one tag keep their order; a message with another tag may overtake them.
    const auto next = static_cast<int>((own() + 1) % ranks());
    const auto previous = static_cast<int>((own() + ranks() - 1) % ranks());
    std::vector<Memory> out;
    std::vector<Memory> in;
    for (int i = 0; i < 3; ++i) {
      out.emplace_back(bytes(8, std::byte(i + 1)));
      in.emplace_back(bytes(8, poison));
    }
    auto third = c_.receive(previous, {in[2].data(), 8}, 6);
    auto first = c_.receive(previous, {in[0].data(), 8}, 5);
    auto second = c_.receive(previous, {in[1].data(), 8}, 5);
    auto s1 = c_.send(next, {out[0].data(), 8}, 5);
    auto s2 = c_.send(next, {out[1].data(), 8}, 5);
    auto s3 = c_.send(next, {out[2].data(), 8}, 6);
    for (auto* request : {&second, &first, &third, &s3, &s2, &s1}) {
      request->wait();
    }
    for (int i = 0; i < 3; ++i) {
      bytes got(8);
      in[static_cast<std::size_t>(i)].read(got);
      check(got == bytes(8, std::byte(i + 1)), place("message " + std::to_string(i) + " came out of order"));
    }
  }
  void around_the_ring(std::size_t size) {
    const auto next = static_cast<int>((own() + 1) % ranks());
    const auto previous = static_cast<int>((own() + ranks() - 1) % ranks());
    const auto seed = random_();
    Memory out{values_of(seed, c_.rank(), size, dtype::uint8, true)};
    Memory in{bytes(size, poison)};
    auto sending = c_.send(next, {out.data(), size}, 3);
    auto receiving = c_.receive(previous, {in.data(), size}, 3);
    receiving.wait();
    sending.wait();
    bytes got(size);
    in.read(got);
    check(got == values_of(seed, previous, size, dtype::uint8, true),
          place("message of " + std::to_string(size) + " bytes"));
  }

  // No rank leaves the barrier before the last has entered. All ranks share one machine, and so one clock.
  void barriers() {
    for (std::size_t late = 0; late < ranks(); ++late) {
      if (own() == late) {
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
      }
      std::int64_t came = std::chrono::steady_clock::now().time_since_epoch().count();
      c_.barrier();
      const std::int64_t left = std::chrono::steady_clock::now().time_since_epoch().count();
      bytes mine(sizeof came);
      std::memcpy(mine.data(), &came, sizeof came);
      Memory data{mine};
      c_.broadcast(data.data(), 1, dtype::int64, static_cast<int>(late)).wait();
      data.read(mine);
      std::memcpy(&came, mine.data(), sizeof came);
      check(came <= left, place("the barrier let a rank go before the last had come"));
    }
  }

  void agreement() {
    const unity::fingerprint same{seed_, 7};
    unity::backend::agree(c_, same, "the program");
    if (c_.size() == 1) {
      return;
    }
    const auto odd = static_cast<int>(1 + random_.below(ranks() - 1));
    std::string line;
    try {
      // Rank `odd` and all later ones have other fingerprints; the error names the first of them.
      unity::backend::agree(c_, c_.rank() < odd ? same : unity::fingerprint{seed_, 8 + own()}, "the program");
    } catch (const unity::error& e) {
      line = e.what();
    }
    const auto wanted =
        "the program: rank " + std::to_string(odd) + " differs from rank 0; expected the same on all ranks";
    check(line == wanted, place("agree said '" + line + "', expected '" + wanted + "'"));
  }

  // Splits by random colors, with some ranks in no group; runs the suite again in all groups concurrently.
  void groups(int depth) {
    for (int round = 0; round < 2; ++round) {
      const auto draw_color = random_();
      const auto color_of = [&](std::size_t r) {
        unity::random_engine random{unity::hash_combine(draw_color, r)};
        return static_cast<int>(random.between(-1, 1));
      };
      const auto color = color_of(own());
      std::vector<std::size_t> members;
      for (std::size_t r = 0; r < ranks(); ++r) {
        if (color_of(r) == color) {
          members.push_back(r);
        }
      }
      auto part = c_.split(color);
      check(static_cast<bool>(part) == (color >= 0), place("a group where there is none, or none where there is one"));
      const auto below = random_();
      if (part) {
        check(part->size() == static_cast<int>(members.size()) &&
                  members[static_cast<std::size_t>(part->rank())] == own(),
              place("ranks of a group are not in order"));
        suite within{*part, unity::hash_combine(below, static_cast<std::uint64_t>(color)), where_ + ", group"};
        for (int i = 0; i < 20; ++i) {
          within.random_collective(static_cast<std::size_t>(within.random_.below(2000)));
        }
        within.messages();
        within.agreement();
        if (depth > 1) {
          within.groups(depth - 1);
        }
      }
      random_collective(1000);
    }
  }

  C& c_;
  std::uint64_t seed_;
  unity::random_engine random_;
  std::string where_;
};

}  // namespace communication_suite
