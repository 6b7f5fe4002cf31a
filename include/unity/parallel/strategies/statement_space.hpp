// The plan statements of a model on a machine: "megatron:search,batch=1536,t=8".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/parallel/strategies/statement_groups.hpp>

namespace unity::parallel {

// The stages of ZeRO that are searched.
inline constexpr std::array<std::int64_t, 4> searched_zeros{0, 1, 2, 3};

// The statements that have the given values. Regular.
struct statement_space {
  plan_statement values{};
  std::vector<std::string> given{};  // keys

  [[nodiscard]] bool is_given(std::string_view key) const noexcept;

  friend bool operator==(const statement_space&, const statement_space&) = default;
};

// Whether a text asks for a search: "megatron:search" and, behind a comma, keys.
[[nodiscard]] bool is_statement_search(std::string_view text) noexcept;

// "megatron:search,batch=1536" and any other keys of a statement, which are then not searched.
// Throws: unity::error for another text, and where there is no batch.
[[nodiscard]] statement_space parse_statement_search(std::string_view text);

// Law: parse_statement_search(to_string(s)) == s, with keys in one order.
[[nodiscard]] std::string to_string(const statement_space& s);

// The model and machine that statements divide.
struct statement_limits {
  std::int64_t devices = 1;
  std::int64_t devices_of_node = 1;
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  bool has_core = true;  // attention has a core, so that selective recomputation is possible
  std::int64_t positions = 0;
};

// All statements that divide the model and the machine: t divides the heads and the devices of a node, p * interleave
// the layers, d * micro the batch, and, with several chunks, p the micro-batches. Besides equal stages, there are
// nearly equal ones: the middle stages have one layer more than an equal share, rounded down, and the first and the
// last share the rest as equally as possible, with no more layers than the middle ones; two stages may differ by two
// layers. Other stages are only there if they are given. sp is left out where t does not divide the positions; it is
// also left out for t = 1, and ZeRO and overlap for d = 1, where they change nothing, unless they are given. overlap is
// only combined with ZeRO's stages 0 and 1. Statements of more than most_phases are left out.
// In a fixed order; micro-batches ascend. Complexity: linear in the statements and in the divisors of all numbers.
// Throws: unity::error if there are none.
[[nodiscard]] std::vector<plan_statement> all_statements(const statement_space& space, const statement_limits& m);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_SPACE)

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::parallel::detail {

inline constexpr std::string_view search_prefix = "megatron:search";

UNITY_INLINE std::vector<std::int64_t> divisors_of(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 1; i * i <= n; ++i) {
    if (n % i == 0) {
      all.push_back(i);
      if (i * i != n) {
        all.push_back(n / i);
      }
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

class statement_writer {
 public:
  statement_writer(const statement_space& space, const statement_limits& m)
      : space_{space}, limits_{m}, now_{space.values} {}

  [[nodiscard]] std::vector<plan_statement> run();

 private:
  // All of these values, or only the given one.
  [[nodiscard]] std::vector<std::int64_t> of(std::string_view key, std::int64_t given,
                                             std::vector<std::int64_t> all) const;
  void add_stages();
  void add_chunks();
  // The possible numbers of layers of the first and of the last stage.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> ends_of(std::int64_t p) const;
  void add_flags();
  void add_recomputed(plan_statement one);

  const statement_space& space_;
  statement_limits limits_;
  plan_statement now_;
  std::vector<plan_statement> all_{};
};

UNITY_INLINE std::vector<std::int64_t> statement_writer::of(std::string_view key, std::int64_t given,
                                                            std::vector<std::int64_t> all) const {
  if (!space_.is_given(key)) {
    return all;
  }
  const bool is_there = std::find(all.begin(), all.end(), given) != all.end();
  return is_there ? std::vector<std::int64_t>{given} : std::vector<std::int64_t>{};
}

UNITY_INLINE std::vector<plan_statement> statement_writer::run() {
  for (const auto micro : of("micro", space_.values.micro, divisors_of(now_.batch))) {
    for (const auto t : of("t", space_.values.tensor, divisors_of(limits_.devices_of_node))) {
      if (limits_.devices % t == 0 && limits_.heads % t == 0) {
        now_.micro = micro;
        now_.tensor = t;
        add_stages();
      }
    }
  }
  return std::move(all_);
}

UNITY_INLINE void statement_writer::add_stages() {
  for (const auto p : of("p", space_.values.pipeline, divisors_of(limits_.devices / now_.tensor))) {
    const auto d = limits_.devices / now_.tensor / p;
    if (now_.batch % (d * now_.micro) != 0 || of("d", space_.values.data, {d}).empty()) {
      continue;
    }
    now_.pipeline = p;
    now_.data = d;
    for (const auto& [first, last] : ends_of(p)) {
      now_.first_layers = first;
      now_.last_layers = last;
      add_chunks();
    }
  }
}

UNITY_INLINE void statement_writer::add_chunks() {
  now_.interleave = 1;
  std::int64_t common = 0;  // the greatest number that divides the layers of every stage
  for (const auto layers : layers_of_stages(now_, limits_.layers)) {
    common = std::gcd(common, layers);
  }
  for (const auto chunks : of("interleave", space_.values.interleave, divisors_of(common))) {
    now_.interleave = chunks;
    if (now_.phases() <= most_phases &&
        (chunks == 1 || (now_.pipeline > 1 && now_.microbatches() % now_.pipeline == 0))) {
      add_flags();
    }
  }
}

UNITY_INLINE std::vector<std::pair<std::int64_t, std::int64_t>> statement_writer::ends_of(std::int64_t p) const {
  const auto layers = limits_.layers;
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  if (space_.is_given("first") || space_.is_given("last")) {
    auto one = now_;
    one.pipeline = p;
    one.first_layers = space_.values.first_layers;
    one.last_layers = space_.values.last_layers;
    if (p > 1 && !find_layers_of_stages(one, layers).empty()) {
      all.emplace_back(one.first_layers, one.last_layers);
    }
    return all;
  }
  if (layers % p == 0) {
    all.emplace_back(0, 0);
  }
  const auto middle = layers / p + 1;
  const auto rest = p > 2 ? layers - (p - 2) * middle : layers;
  const auto add = [&](std::int64_t first) {
    const auto last = rest - first;
    if (p > 1 && first > 0 && last > 0 && (p == 2 || std::max(first, last) <= middle)) {
      all.emplace_back(first, last);
    }
  };
  if (p == 2 && layers % 2 == 0) {
    add(rest / 2 - 1);
    add(rest / 2 + 1);
  } else {
    add(rest / 2);
    if (rest % 2 != 0) {
      add(rest - rest / 2);
    }
  }
  return all;
}

UNITY_INLINE void statement_writer::add_flags() {
  std::vector<std::int64_t> zeros{searched_zeros.begin(), searched_zeros.end()};
  if (space_.is_given("zero")) {
    zeros = {space_.values.zero};
  } else if (now_.data == 1) {
    zeros = {0};
  }
  for (const bool sp : {false, true}) {
    if ((space_.is_given("sp") ? !sp : sp && now_.tensor == 1) || (sp && limits_.positions % now_.tensor != 0)) {
      continue;
    }
    for (const auto zero : zeros) {
      for (const bool overlap : {false, true}) {
        if ((overlap && zero > 1) || (space_.is_given("overlap") ? !overlap : overlap && now_.data == 1)) {
          continue;
        }
        auto one = now_;
        one.is_sequence_parallel = sp;
        one.zero = zero;
        one.is_overlapped = overlap;
        add_recomputed(one);
      }
    }
  }
}

UNITY_INLINE void statement_writer::add_recomputed(plan_statement one) {
  for (std::size_t part = 0; part < recomputed_part_names.size(); ++part) {
    const auto recomputed = static_cast<recomputed_part>(part);
    if (space_.is_given("recompute") ? recomputed == space_.values.recomputed
                                     : recomputed != recomputed_part::selective || limits_.has_core) {
      one.recomputed = recomputed;
      all_.push_back(one);
    }
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE bool statement_space::is_given(std::string_view key) const noexcept {
  return std::find(given.begin(), given.end(), key) != given.end();
}

UNITY_INLINE bool is_statement_search(std::string_view text) noexcept {
  return text.starts_with(detail::search_prefix) &&
         (text.size() == detail::search_prefix.size() || text[detail::search_prefix.size()] == ',');
}

UNITY_INLINE statement_space parse_statement_search(std::string_view text) {
  if (!is_statement_search(text)) {
    throw error{"plan", "no search", "megatron:search,batch=..,..."};
  }
  text.remove_prefix(std::min(text.size(), detail::search_prefix.size() + 1));
  statement_space s{parse_plan_statement(fmt::format("megatron:{}", text)), {}};
  for (auto rest = text; !rest.empty();) {
    const auto part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    s.given.emplace_back(part.substr(0, part.find('=')));
  }
  std::sort(s.given.begin(), s.given.end());
  if (!s.is_given("batch")) {
    throw error{"plan, 'batch'", "not given", "the samples of an iteration: megatron:search,batch=.."};
  }
  return s;
}

UNITY_INLINE std::string to_string(const statement_space& s) {
  std::string text{detail::search_prefix};
  const auto add = [&](std::string_view key, std::int64_t value) {
    text += s.is_given(key) ? fmt::format(",{}={}", key, value) : std::string{};
  };
  add("t", s.values.tensor);
  add("p", s.values.pipeline);
  add("d", s.values.data);
  add("micro", s.values.micro);
  add("batch", s.values.batch);
  add("interleave", s.values.interleave);
  add("first", s.values.first_layers);
  add("last", s.values.last_layers);
  text += s.is_given("sp") ? ",sp" : "";
  add("zero", s.values.zero);
  text += s.is_given("overlap") ? ",overlap" : "";
  if (s.is_given("recompute")) {
    text += fmt::format(",recompute={}", recomputed_part_names[static_cast<std::size_t>(s.values.recomputed)]);
  }
  return text;
}

UNITY_INLINE std::vector<plan_statement> all_statements(const statement_space& space, const statement_limits& m) {
  auto all = detail::statement_writer{space, m}.run();
  if (all.empty()) {
    throw error{
        "plan", fmt::format("no statement of {} divides", to_string(space)),
        fmt::format("degrees for {} devices in nodes of {}, {} layers, {} heads and {} positions, and {} phases "
                    "at most",
                    m.devices, m.devices_of_node, m.layers, m.heads, m.positions, most_phases)};
  }
  return all;
}

}  // namespace unity::parallel

#endif
