// The settings of a training run, independent of its ranks: stored in checkpoints and compared when they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/update.hpp>

namespace unity::train {

// Regular.
struct run_settings {
  std::string model{};     // model_fingerprint
  std::int64_t batch = 0;  // samples per iteration
  std::string loss{};
  std::string data{};  // "synthetic", or a description of the data set and how it is read
  update_rule rule{};
  std::uint64_t seed = 0;

  friend bool operator==(const run_settings&, const run_settings&) = default;
};

// A number of an update rule, with its name in checkpoints and flags.
struct rule_setting {
  std::string_view name{};
  double update_rule::* number = nullptr;
};

// The numbers on which a step of the optimizer depends.
[[nodiscard]] std::vector<rule_setting> settings_of(parallel::optimizer updates);

// The first input that the loss compares; empty if there is none.
[[nodiscard]] std::optional<value_id> compared_input(const tensor::algebra& a, const tensor::tensor_graph& g);
// The samples of one micro-batch; 0 if there is no such input.
[[nodiscard]] inline std::int64_t samples_of(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const auto compared = compared_input(a, g);
  return compared ? g.type(*compared).dims[0] : 0;
}

// 16 hexadecimal digits that depend on names, types and sizes of the inputs and weights of a graph with a loss, but
// neither on the number of samples nor on how operators were rewritten. The graph is stated for one of so many
// micro-batches. Complexity: n log n in the graph.
[[nodiscard]] std::string model_fingerprint(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            std::int64_t microbatches = 1);

namespace detail {

[[nodiscard]] std::string number_text(double x);

}  // namespace detail

// The header of a checkpoint with these settings, without tensors.
[[nodiscard]] io::weights_header header_of(const run_settings& s, std::int64_t step);

// Throws: unity::error about `file` if a setting of its optimizer is missing, or a number is invalid.
[[nodiscard]] run_settings settings_in(const io::weights_header& h, const std::string& file);

// Throws: unity::error that names the first setting in which a checkpoint's run differs.
void expect_same(const run_settings& found, const run_settings& wanted, const std::string& file);

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_RUN_SETTINGS)

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/sample_values.hpp>
#include <unity/tensor/loss.hpp>

namespace unity::train {

UNITY_INLINE std::vector<rule_setting> settings_of(parallel::optimizer updates) {
  switch (updates) {
    case parallel::optimizer::sgd: return {{"rate", &update_rule::learning_rate}};
    case parallel::optimizer::momentum:
      return {{"rate", &update_rule::learning_rate}, {"momentum", &update_rule::momentum}};
    case parallel::optimizer::adam:
      return {{"rate", &update_rule::learning_rate},
              {"beta1", &update_rule::beta1},
              {"beta2", &update_rule::beta2},
              {"epsilon", &update_rule::epsilon}};
  }
  return {};
}

UNITY_INLINE std::optional<value_id> compared_input(const tensor::algebra& a, const tensor::tensor_graph& g) {
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == a.kind("input")) {
      const auto name = a.read(g.operation(n)).word("name");
      const auto v = g.results(n)[0];
      if (!g.type(v).dims.empty() && (name == tensor::labels_name(0) || name == tensor::target_name(0))) {
        return v;
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::string model_fingerprint(const tensor::algebra& a, const tensor::tensor_graph& g,
                                           std::int64_t microbatches) {
  const auto compared = compared_input(a, g);
  const auto samples = samples_of(a, g) * microbatches;
  // Micro-batches have parts of these inputs only. A mask may have as many rows as a micro-batch has samples.
  const auto is_part = compared && microbatches > 1
                           ? parallel::sample_values(g, parallel::graph_dimensions{a, g}, {{*compared}})
                           : std::vector<bool>(g.value_count());
  std::set<std::string> lines;
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    const bool is_weight = op.kind == a.kind("weight");
    if (!is_weight && op.kind != a.kind("input")) {
      continue;
    }
    const auto v = g.results(n)[0];
    const auto& t = g.type(v);
    std::string line =
        fmt::format("{}{} {}", is_weight ? "w " : "i ", a.read(op).word("name"), tensor::name_of(t.element));
    for (std::size_t d = 0; d < t.rank(); ++d) {
      const auto size = !is_weight && d == 0 && is_part[v.index()] ? t.dims[d] * microbatches : t.dims[d];
      line += !is_weight && d == 0 && size == samples ? " samples" : fmt::format(" {}", size);
    }
    lines.insert(line);
  }
  hasher all;
  for (const auto& line : lines) {
    all.add(hash_bytes(line));
  }
  return fmt::format("{:016x}", all.result().low);
}

}  // namespace unity::train

namespace unity::train::detail {

UNITY_INLINE std::string number_text(double x) { return fmt::format("{:.17g}", x); }

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE io::weights_header header_of(const run_settings& s, std::int64_t step) {
  io::weights_header h{s.model, step,  s.seed, s.rule.updates, {}, {{"batch", static_cast<double>(s.batch)}},
                       s.loss,  s.data};
  for (const auto& setting : settings_of(s.rule.updates)) {
    h.settings[std::string{setting.name}] = s.rule.*setting.number;
  }
  return h;
}

UNITY_INLINE run_settings settings_in(const io::weights_header& h, const std::string& file) {
  const auto number = [&](std::string_view name) {
    const auto found = h.settings.find(std::string{name});
    if (found == h.settings.end()) {
      throw error{file, fmt::format("no setting \"{}\"", name), "those of the optimizer, and the batch"};
    }
    return found->second;
  };
  if (h.step < 0) {
    throw error{file, fmt::format("step {}", h.step), "a number of steps"};
  }
  const auto batch = number("batch");
  constexpr double most = 0x1p53;
  if (!(batch >= 0 && batch <= most) || std::trunc(batch) != batch) {
    throw error{file, fmt::format("a batch of {}", detail::number_text(batch)), "a number of samples"};
  }
  run_settings s{h.graph, static_cast<std::int64_t>(batch), h.loss, h.data, {}, h.seed};
  s.rule.updates = h.optimizer;
  for (const auto& setting : settings_of(h.optimizer)) {
    s.rule.*setting.number = number(setting.name);
  }
  return s;
}

UNITY_INLINE void expect_same(const run_settings& found, const run_settings& wanted, const std::string& file) {
  const auto expect = [&](const auto& of, const auto& here, const auto& text) {
    if (of != here) {
      throw error{file, fmt::format("of a run with {}", text(of)), fmt::format("{}, as here", text(here))};
    }
  };
  const auto optimizer = [](parallel::optimizer o) {
    return fmt::format("optimizer {}", parallel::optimizer_names[static_cast<std::size_t>(o)]);
  };
  expect(found.loss, wanted.loss, [](const std::string& x) { return fmt::format("loss {}", x); });
  if (found.model != wanted.model) {
    throw error{file, fmt::format("weights of another model, fingerprint \"{}\"", found.model),
                fmt::format("this one, fingerprint \"{}\"", wanted.model)};
  }
  expect(found.batch, wanted.batch, [](std::int64_t x) { return fmt::format("batches of {} samples", x); });
  expect(found.rule.updates, wanted.rule.updates, optimizer);
  for (const auto& s : settings_of(wanted.rule.updates)) {
    expect(found.rule.*s.number, wanted.rule.*s.number,
           [&](double x) { return fmt::format("{} {}", s.name, detail::number_text(x)); });
  }
  expect(found.seed, wanted.seed, [](std::uint64_t x) { return fmt::format("seed {}", x); });
  expect(found.data, wanted.data, [](const std::string& x) { return fmt::format("data {}", x); });
}

}  // namespace unity::train

#endif
