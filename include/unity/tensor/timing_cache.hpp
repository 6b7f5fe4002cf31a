// Measured times that are remembered, in memory and in a file.
//
//   unity timings 2
//   device cpu: AMD EPYC, 2 threads; oneDNN 2.6.3
//   57102345 56801001 60034567 25 matmul{activation=none}(float32[64,512], float32[512,512]) -> float32[64,512]
//
// Each line: the median, and the 10th and 90th percentiles, in picoseconds, the number of repetitions, and the
// signature of what ran. Lists of version 1, which had quartiles, count as timings of another device.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/cost/duration.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Operators with several spellings that run in the same way.

namespace detail {

[[nodiscard]] std::optional<std::size_t> attribute_index(const op_signature& s, std::string_view name);

}  // namespace detail

// The operator whose time is that of `op` on these operands: padding is spelled as numbers of elements. If each
// spelling were measured separately, a search would follow noise between equal measurements.
// Precondition: the operator accepts these operands.
[[nodiscard]] operation timed_operation(const algebra& operators, const operation& op,
                                        std::span<const tensor_type> inputs);

namespace detail {

[[nodiscard]] std::string signature_integers(std::span<const std::int64_t> values);
[[nodiscard]] std::string signature_attribute(const attribute_signature& a, const attribute& value);

}  // namespace detail

// Types as signature_text() writes them: separated by commas, with a word after those of constants.
[[nodiscard]] std::string signature_types(std::span<const tensor_type> types);

// Everything that the time of an operator may depend on, in one line: attributes, shapes, element types, layouts, and
// which operands are constant. Different questions have different signatures.
[[nodiscard]] std::string signature_text(const algebra& operators, const operation& op,
                                         std::span<const tensor_type> inputs, std::span<const tensor_type> outputs);

// Measurements by signature, for one device description.
struct timing_table {
  std::string description{};
  std::map<std::string, measurement, std::less<>> entries{};

  friend bool operator==(const timing_table&, const timing_table&) = default;
};

[[nodiscard]] std::string timings_text(const timing_table& t);

namespace detail {

// Reads a timing file line by line; error messages name the line.
class timing_reader {
 public:
  timing_reader(std::string_view text, std::string_view file) : rest_{text}, file_{file} {}

  [[nodiscard]] timing_table read();

 private:
  [[noreturn]] void fail(std::string_view found, std::string_view expected) const {
    throw error{fmt::format("{}, line {}", file_, line_), found, expected};
  }
  [[nodiscard]] std::string_view next();
  [[nodiscard]] std::int64_t number(std::string_view& line) const;

  static constexpr std::string_view entry_form =
      "median, 10th and 90th percentile in picoseconds, repetitions, and an operator";
  std::string_view rest_;
  std::string_view file_;
  std::size_t line_ = 0;
};

// A question to a timer.
struct timing_question {
  operation op{};
  std::vector<tensor_type> inputs{};
  std::vector<tensor_type> outputs{};

  friend bool operator==(const timing_question&, const timing_question&) = default;
};
struct timing_question_hash {
  std::size_t operator()(const timing_question& q) const noexcept;
};

}  // namespace detail

// `file`: for messages.
// Throws: unity::error naming the line that is wrong.
[[nodiscard]] inline timing_table parse_timings(std::string_view text, std::string_view file) {
  return detail::timing_reader{text, file}.read();
}

// A timer that never measures anything twice: neither during its lifetime nor, given a file, in another run. Models
// kernel_timer, and gives the same answer to the same question. Several threads may call it; they measure one at a
// time. The algebra and the timer must outlive it.
//
// A file with another device description is not used, and is replaced. A file that cannot be read or is not a list of
// timings is neither used nor changed. If the file cannot be written, measurements last as long as the process. Each of
// these is reported once, in one line, to `warn`.
template <kernel_timer<algebra> Timer>
class timing_cache {
 public:
  using warning = std::function<void(const std::string&)>;

  // Empty `file`: remembers in memory only.
  timing_cache(const algebra& operators, Timer& timer, std::filesystem::path file = {}, warning warn = {})
      : operators_{&operators},
        timer_{&timer},
        file_{std::move(file)},
        warn_{std::move(warn)},
        table_{timer.description(), {}} {
    if (auto stored = load()) {
      table_.entries = std::move(*stored);
      known_ = table_.entries.size();
    }
  }
  timing_cache(const timing_cache&) = delete;
  timing_cache& operator=(const timing_cache&) = delete;
  ~timing_cache() {
    try {
      save();
    } catch (...) {  // a destructor cannot report errors; save() can
    }
  }

  [[nodiscard]] measurement time(const operation& op, std::span<const tensor_type> inputs,
                                 std::span<const tensor_type> outputs) {
    const std::lock_guard lock{mutex_};
    detail::timing_question question{op, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}};
    if (const auto known = asked_.find(question); known != asked_.end()) {
      return known->second;
    }
    const auto timed = timed_operation(*operators_, op, inputs);
    const auto answer = find_or_measure(signature_text(*operators_, timed, inputs, outputs),
                                        [&] { return timer_->time(timed, inputs, outputs); });
    asked_.emplace(std::move(question), answer);
    return answer;
  }
  // The same for something other than a single operator: `signature`, one line that no operator has, names what
  // `measure` times.
  [[nodiscard]] measurement time(const std::string& signature, const std::function<measurement()>& measure) {
    UNITY_EXPECTS(!signature.empty() && signature.find('\n') == std::string::npos, "one line");
    const std::lock_guard lock{mutex_};
    return find_or_measure(signature, measure);
  }
  [[nodiscard]] std::string description() const { return table_.description; }
  // How many it has measured, and how many it knew from its file at the start.
  [[nodiscard]] std::size_t measured() const {
    const std::lock_guard lock{mutex_};
    return measured_;
  }
  [[nodiscard]] std::size_t known() const noexcept { return known_; }
  // The time spent measuring.
  [[nodiscard]] double seconds() const {
    const std::lock_guard lock{mutex_};
    return seconds_;
  }

  // Effects: writes the measurements made since the last time, together with those that another process wrote
  // meanwhile. Also happens on its own, from time to time and at the end.
  void save() {
    const std::lock_guard lock{mutex_};
    write();
  }

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] measurement find_or_measure(const std::string& signature, const std::function<measurement()>& measure) {
    if (const auto known = table_.entries.find(signature); known != table_.entries.end()) {
      return known->second;
    }
    const auto start = clock::now();
    const auto answer = measure();
    seconds_ += std::chrono::duration<double>(clock::now() - start).count();
    ++measured_;
    ++unsaved_;
    table_.entries.emplace(signature, answer);
    constexpr std::chrono::seconds between_saves{10};
    if (clock::now() - saved_ > between_saves) {
      write();
    }
    return answer;
  }
  void warn(const std::string& line) const {
    if (warn_) {
      warn_(line);
    }
  }
  [[nodiscard]] std::optional<std::map<std::string, measurement, std::less<>>> load() {
    std::error_code ignored;
    if (file_.empty() || !std::filesystem::exists(file_, ignored)) {
      return std::nullopt;
    }
    try {
      auto stored = parse_timings(read_file(file_), file_.string());
      if (stored.description == table_.description) {
        return std::move(stored.entries);
      }
      warn(fmt::format("{}: timings of {} are not used on {} and will be replaced", file_.string(), stored.description,
                       table_.description));
    } catch (const error& e) {
      warn(fmt::format("{}; timings are not kept", e.what()));
      file_.clear();
    }
    return std::nullopt;
  }
  void write() {
    if (file_.empty() || unsaved_ == 0) {
      return;
    }
    try {
      merge();
      if (file_.has_parent_path()) {
        std::error_code reported_below;
        std::filesystem::create_directories(file_.parent_path(), reported_below);
      }
      atomic_write(file_, timings_text(table_));
      unsaved_ = 0;
      saved_ = clock::now();
    } catch (const error& e) {
      warn(fmt::format("{}; timings are not kept", e.what()));
      file_.clear();
    }
  }
  // Adds what other processes have written since the start. If two processes write at the same moment, the measurements
  // of one are lost.
  void merge() {
    std::error_code ignored;
    const auto status = std::filesystem::status(file_, ignored);
    if (!std::filesystem::exists(status)) {
      return;
    }
    using std::filesystem::perms;
    constexpr auto writable = perms::owner_write | perms::group_write | perms::others_write;
    if ((status.permissions() & writable) ==
        std::filesystem::perms::none) {  // a new file in its place would ignore that
      throw error{file_.string(), "is read-only", "a file that may be written"};
    }
    auto stored = parse_timings(read_file(file_), file_.string());
    if (stored.description == table_.description) {
      table_.entries.merge(stored.entries);
    }
  }

  const algebra* operators_;
  Timer* timer_;
  std::filesystem::path file_;
  warning warn_;
  timing_table table_;
  std::unordered_map<detail::timing_question, measurement, detail::timing_question_hash> asked_;
  std::size_t known_ = 0;
  std::size_t measured_ = 0;
  std::size_t unsaved_ = 0;
  double seconds_ = 0;
  clock::time_point saved_ = clock::now();
  mutable std::mutex mutex_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_TIMING_CACHE)

#include <unity/core/hash.hpp>
#include <unity/core/printable.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/operators/sources.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<std::size_t> attribute_index(const op_signature& s, std::string_view name) {
  for (std::size_t i = 0; i < s.attributes.size(); ++i) {
    if (s.attributes[i].name == name) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE operation timed_operation(const algebra& operators, const operation& op,
                                       std::span<const tensor_type> inputs) {
  const auto& signature = operators.signature(op.kind);
  const auto padding = detail::attribute_index(signature, "padding");
  const auto pads = detail::attribute_index(signature, "pads");
  if (!padding || !pads ||
      op.attributes[*padding][0] == static_cast<std::int64_t>(tensor::operators::padding::from_pads)) {
    return op;
  }
  const auto a = operators.read(op);
  const bool has_kernel = detail::attribute_index(signature, "kernel").has_value();
  const bool has_dilation = detail::attribute_index(signature, "dilation").has_value();
  const bool has_ceil = detail::attribute_index(signature, "ceil_mode").has_value();
  space s{inputs};
  attribute explicit_pads{0, 0, 0, 0};
  for (std::size_t d = 0; d < 2; ++d) {
    const auto kernel = has_kernel ? a.integers("kernel")[d] : inputs[1].dims[2 + d];
    const auto dilation = has_dilation ? a.integers("dilation")[d] : 1;
    const auto slide = tensor::operators::slide_of(s, a, d, kernel, dilation, has_ceil && a.integer("ceil_mode") != 0);
    explicit_pads[d] = slide.before;
    explicit_pads[2 + d] = slide.after;
  }
  auto timed = op;
  timed.attributes[*padding] = {static_cast<std::int64_t>(tensor::operators::padding::from_pads)};
  timed.attributes[*pads] = explicit_pads;
  return timed;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE std::string signature_integers(std::span<const std::int64_t> values) {
  std::string text;
  for (const auto v : values) {
    text += fmt::format("{}{}", text.empty() ? '[' : ',', v);
  }
  return text.empty() ? "[]" : fmt::format("{}]", text);
}

UNITY_INLINE std::string signature_attribute(const attribute_signature& a, const attribute& value) {
  switch (a.form) {
    case attribute_form::integer: return fmt::format("{}", value[0]);
    case attribute_form::real: return unity::real_text(to_real(value[0]));
    case attribute_form::choice: return a.choices.at(static_cast<std::size_t>(value[0]));
    case attribute_form::word:  // one that is not a name may hold what separates fields or lines
      if (const auto word = to_word(value); unity::is_plain_word(word)) {
        return word;
      }
      break;
    case attribute_form::integers: break;
  }
  return signature_integers(value);
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE std::string signature_types(std::span<const tensor_type> types) {
  std::string text;
  for (const auto& t : types) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", t, t.constant ? " constant" : "");
  }
  return text;
}

UNITY_INLINE std::string signature_text(const algebra& operators, const operation& op,
                                        std::span<const tensor_type> inputs, std::span<const tensor_type> outputs) {
  const auto& signature = operators.signature(op.kind);
  std::string attributes;
  for (std::size_t i = 0; i < signature.attributes.size(); ++i) {
    const auto& a = signature.attributes[i];
    attributes += fmt::format("{}{}={}", i == 0 ? "{" : ", ", a.name, detail::signature_attribute(a, op.attributes[i]));
  }
  return fmt::format("{}{}{}{}) -> {}", signature.name, attributes, attributes.empty() ? "(" : "}(",
                     signature_types(inputs), signature_types(outputs));
}

UNITY_INLINE std::string timings_text(const timing_table& t) {
  auto text = fmt::format("unity timings 2\ndevice {}\n", t.description);
  for (const auto& [signature, m] : t.entries) {
    text += fmt::format("{} {} {} {} {}\n", m.median.count(), m.low.count(), m.high.count(), m.repetitions, signature);
  }
  return text;
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE timing_table timing_reader::read() {
  const auto format = next();
  if (format == "unity timings 1") {
    return {"an older version", {}};
  }
  if (format != "unity timings 2") {
    fail("is not a list of timings", "the line 'unity timings 2'");
  }
  timing_table table;
  constexpr std::string_view device = "device ";
  const auto header = next();
  if (header.substr(0, device.size()) != device) {
    fail("names no device", "the line 'device ...'");
  }
  table.description = header.substr(device.size());
  while (!rest_.empty()) {
    auto line = next();
    measurement m;
    m.median = picoseconds{number(line)};
    m.low = picoseconds{number(line)};
    m.high = picoseconds{number(line)};
    m.repetitions = number(line);
    constexpr picoseconds longest{1'000'000'000'000'000};  // 1000 s: sums of many do not overflow
    const bool ascend = picoseconds{} < m.low && m.low <= m.median && m.median <= m.high && m.high <= longest;
    if (line.empty() || !ascend || m.repetitions < 1) {
      fail("is not a timing", entry_form);
    }
    if (!table.entries.emplace(line, m).second) {
      fail("is a second timing of one operator", "one");
    }
  }
  return table;
}

UNITY_INLINE std::string_view timing_reader::next() {
  ++line_;
  const auto end = rest_.find('\n');
  if (end == std::string_view::npos) {
    fail("ends early", "a whole line");
  }
  const auto line = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return line;
}

UNITY_INLINE std::int64_t timing_reader::number(std::string_view& line) const {
  const auto end = line.find(' ');
  const auto value = to_number<std::int64_t>(line.substr(0, end));
  if (!value || end == std::string_view::npos) {
    fail("is not a timing", entry_form);
  }
  line.remove_prefix(end + 1);
  return *value;
}

UNITY_INLINE std::size_t timing_question_hash::operator()(const timing_question& q) const noexcept {
  auto h = std::hash<operation>{}(q.op);
  for (const auto* types : {&q.inputs, &q.outputs}) {
    for (const auto& t : *types) {
      h = hash_combine(h, std::hash<tensor_type>{}(t));
    }
  }
  return h;
}

}  // namespace unity::tensor::detail

#endif
