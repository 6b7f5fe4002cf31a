// What the suites in .cu files use of Catch2, for machines that have CUDA and no Catch2, and for compile time: the
// suites under test/backend include <catch2/catch.hpp>, and here they find this one.
#pragma once

#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace plain_catch {

struct test {
  const char* name;
  void (*run)();
};

struct state {
  std::vector<test> tests{};
  std::vector<std::string> context{};
  long checks = 0;
  long failures = 0;
};
inline state& all() {
  static state s;
  return s;
}

struct registration {
  registration(const char* name, void (*run)()) { all().tests.push_back({name, run}); }
};

class scoped_context {
 public:
  explicit scoped_context(std::string text) { all().context.push_back(std::move(text)); }
  scoped_context(const scoped_context&) = delete;
  scoped_context& operator=(const scoped_context&) = delete;
  ~scoped_context() { all().context.pop_back(); }
};

template <class T>
std::string text_of(const T& value) {
  if constexpr (requires(std::ostream& o) { o << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else {
    return "?";
  }
}
template <class... T>
std::string texts_of(const T&... values) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + text_of(values)), ...);
  return text;
}

struct outcome {
  bool holds;
  std::string values;
};

template <class L>
struct left_side {
  const L& value;

  template <class R>
  outcome operator<(const R& r) const { return {value < r, text_of(value) + " < " + text_of(r)}; }
  template <class R>
  outcome operator>(const R& r) const { return {value > r, text_of(value) + " > " + text_of(r)}; }
  template <class R>
  outcome operator<=(const R& r) const { return {value <= r, text_of(value) + " <= " + text_of(r)}; }
  template <class R>
  outcome operator>=(const R& r) const { return {value >= r, text_of(value) + " >= " + text_of(r)}; }
  template <class R>
  outcome operator==(const R& r) const { return {value == r, text_of(value) + " == " + text_of(r)}; }
  template <class R>
  outcome operator!=(const R& r) const { return {value != r, text_of(value) + " != " + text_of(r)}; }
  operator outcome() const { return {static_cast<bool>(value), text_of(value)}; }
};
struct decomposer {
  template <class L>
  left_side<L> operator<=(const L& value) const { return {value}; }
};

struct required {};

inline void report(const outcome& o, const char* expression, const char* file, int line, bool requires_it) {
  constexpr long shown = 20;
  auto& s = all();
  ++s.checks;
  if (o.holds) {
    return;
  }
  if (++s.failures <= shown) {
    std::printf("%s:%d: FAILED: %s\n  with %s\n", file, line, expression, o.values.c_str());
    for (const auto& c : s.context) {
      std::printf("  at %s\n", c.c_str());
    }
  }
  if (requires_it) {
    throw required{};
  }
}

// Every test; the number of checks that failed, a test that threw being one.
inline long run_all() {
  auto& s = all();
  for (const auto& t : s.tests) {
    const auto before = s.failures;
    try {
      t.run();
    } catch (const required&) {
    } catch (const std::exception& e) {
      ++s.failures;
      std::printf("%s: threw: %s\n", t.name, e.what());
    }
    s.context.clear();
    std::printf("%-6s %s\n", s.failures == before ? "ok" : "FAILED", t.name);
    std::fflush(stdout);
  }
  std::printf("%zu tests, %ld checks, %ld failed\n", s.tests.size(), s.checks, s.failures);
  return s.failures;
}

}  // namespace plain_catch

#define PLAIN_CATCH_JOIN_(a, b) a##b
#define PLAIN_CATCH_JOIN(a, b) PLAIN_CATCH_JOIN_(a, b)
#define PLAIN_CATCH_TEST(function, name)                                                        \
  static void function();                                                                       \
  static const plain_catch::registration PLAIN_CATCH_JOIN(function, _registration){name, &function}; \
  static void function()
#define TEST_CASE(name, ...) PLAIN_CATCH_TEST(PLAIN_CATCH_JOIN(plain_test_, __LINE__), name)
#define CHECK(...) \
  plain_catch::report(plain_catch::decomposer{} <= __VA_ARGS__, #__VA_ARGS__, __FILE__, __LINE__, false)
#define REQUIRE(...) \
  plain_catch::report(plain_catch::decomposer{} <= __VA_ARGS__, #__VA_ARGS__, __FILE__, __LINE__, true)
#define CAPTURE(...)                                                       \
  const plain_catch::scoped_context PLAIN_CATCH_JOIN(captured_, __LINE__){ \
      #__VA_ARGS__ " = " + plain_catch::texts_of(__VA_ARGS__)}
#define INFO(text) const plain_catch::scoped_context PLAIN_CATCH_JOIN(info_, __LINE__){text}
#define WARN(text)                              \
  do {                                          \
    std::ostringstream plain_text;              \
    plain_text << text;                         \
    std::printf("%s\n", plain_text.str().c_str()); \
  } while (false)
