// Reads TASO's rule files: serialized collections of rules (protocol buffers).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/io/foreign_rule.hpp>
#include <unity/io/wire.hpp>

namespace unity::io {

namespace detail {

std::string taso_operator(std::uint64_t number);

std::string taso_parameter(std::int64_t number);

class taso_reader {
 public:
  explicit taso_reader(std::string_view file) : file_{file} {}

  std::vector<foreign_rule> collection(std::string_view bytes);

 private:
  // Rules have a handful of operators; far more indicate a damaged file.
  static constexpr std::size_t most_operators = 1000;

  static std::string_view message(const wire_reader& in, const wire_reader::field& f);
  static std::int64_t integer(const wire_reader& in, const wire_reader::field& f);

  foreign_rule rule(std::string_view bytes, std::size_t position);

  foreign_rule::operation operation(std::string_view bytes, std::size_t position);

  // A message whose fields 1..N are integers; absent ones are zero.
  template <std::size_t N>
  std::array<std::int64_t, N> integers(std::string_view bytes, std::size_t position) {
    std::array<std::int64_t, N> all{};
    wire_reader in{bytes, file_, position};
    for (wire_reader::field f; in.next(f);) {
      if (f.number <= N) {
        all[f.number - 1] = integer(in, f);
      }
    }
    return all;
  }

  std::string_view file_;
};

}  // namespace detail

// The rules of a serialized collection, named taso_0, taso_1, ... in order. `file` is for messages.
// Throws: unity::error with the byte position or the rule if the collection is malformed.
[[nodiscard]] inline std::vector<foreign_rule> parse_taso_rules(std::string_view bytes, std::string_view file) {
  return detail::taso_reader{file}.collection(bytes);
}

// Throws: unity::error.
[[nodiscard]] inline std::vector<foreign_rule> read_taso_rules(const std::filesystem::path& path) {
  return parse_taso_rules(read_file(path), path.string());
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_TASO_RULES)

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string taso_operator(std::uint64_t number) {
  static constexpr std::array names{"input",
                                    "weight",
                                    "any",
                                    "conv2d",
                                    "dropout",
                                    "linear",
                                    "max_pool",
                                    "average_pool",
                                    "relu",
                                    "sigmoid",
                                    "tanh",
                                    "batch_norm",
                                    "concat",
                                    "split",
                                    "reshape",
                                    "transpose",
                                    "add",
                                    "mul",
                                    "matmul",
                                    "scalar_multiply",
                                    "enlarge",
                                    "merge_grouped_conv",
                                    "identity_matrix",
                                    "identity_kernel",
                                    "one",
                                    "pool_kernel"};
  return number < names.size() ? names[number] : fmt::format("taso_{}", number);
}

UNITY_INLINE std::string taso_parameter(std::int64_t number) {
  static constexpr std::array names{"op_type",  "num_inputs", "num_outputs", "groups",      "kernel_h",
                                    "kernel_w", "stride_h",   "stride_w",    "pad",         "activation",
                                    "num_dims", "axis",       "permutation", "out_shuffle", "merge_count"};
  return number >= 0 && number < static_cast<std::int64_t>(names.size()) ? names[static_cast<std::size_t>(number)]
                                                                         : fmt::format("taso_{}", number);
}

UNITY_INLINE std::vector<foreign_rule> taso_reader::collection(std::string_view bytes) {
  std::vector<foreign_rule> rules;
  wire_reader in{bytes, file_};
  for (wire_reader::field f; in.next(f);) {
    if (f.number == 1) {
      rules.push_back(rule(message(in, f), in.start_of(f)));
      rules.back().name = fmt::format("taso_{}", rules.size() - 1);
      validate(rules.back(), file_);
    }
  }
  return rules;
}

UNITY_INLINE std::string_view taso_reader::message(const wire_reader& in, const wire_reader::field& f) {
  if (!f.is_bytes) {
    in.fail(fmt::format("field {} holds a number", f.number), "a message");
  }
  return f.bytes;
}

UNITY_INLINE std::int64_t taso_reader::integer(const wire_reader& in, const wire_reader::field& f) {
  if (f.is_bytes) {
    in.fail(fmt::format("field {} holds bytes", f.number), "a number");
  }
  return static_cast<std::int32_t>(f.integer);
}

UNITY_INLINE foreign_rule taso_reader::rule(std::string_view bytes, std::size_t position) {
  foreign_rule r;
  wire_reader in{bytes, file_, position};
  for (wire_reader::field f; in.next(f);) {
    if (f.number == 1 || f.number == 2) {
      auto& side = f.number == 1 ? r.source : r.target;
      if (side.size() == most_operators) {
        in.fail(fmt::format("a rule of more than {} operators", most_operators), "a rule");
      }
      side.push_back(operation(message(in, f), in.start_of(f)));
    } else if (f.number == 3) {
      const auto n = integers<4>(message(in, f), in.start_of(f));
      r.outputs.push_back({{n[0], n[2]}, {n[1], n[3]}});
    }
  }
  return r;
}

UNITY_INLINE auto taso_reader::operation(std::string_view bytes, std::size_t position) -> foreign_rule::operation {
  foreign_rule::operation op;
  wire_reader in{bytes, file_, position};
  for (wire_reader::field f; in.next(f);) {
    if (f.number == 1) {
      op.type = taso_operator(static_cast<std::uint64_t>(integer(in, f)));
    } else if (f.number == 2) {
      const auto n = integers<2>(message(in, f), in.start_of(f));
      op.inputs.push_back({n[0], n[1]});
    } else if (f.number == 3) {
      const auto n = integers<2>(message(in, f), in.start_of(f));
      op.parameters[taso_parameter(n[0])] = n[1];
    }
  }
  return op;
}

}  // namespace unity::io::detail

#endif
