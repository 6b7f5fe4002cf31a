// Runs a model on a backend, and compares what it computes: with stored outputs, with another model's, or with nothing.
//
//   run_model model.onnx --backend cpu --save data        random inputs; writes data/input_0.pb ... data/output_0.pb
//   run_model model.onnx --backend cpu --data data        inputs from there, and outputs compared with those there
//   run_model model.onnx --against optimized.onnx         both in turns, on equal values, outputs compared
//
// Files of tensors are as in the test data beside the models of ONNX: one serialized TensorProto each.
//
// run: {models}/resnet_small.onnx --dim batch=2 --backend reference --save {out}/data --json {out}/result.json
// run: zoo:nasrnn?hidden=32 --backend reference --against zoo:nasrnn?hidden=32

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/enumerate.hpp>

#include <unity/backend/executor.hpp>
#include <unity/backend/run_comparison.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/dot.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/onnx_tensor.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/backends.hpp"
#include "support/largest_bars.hpp"
#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/report_picture.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string model{};
  std::string against{};
  std::string backend{support::backend_names().front()};
  int backend_threads = 0;
  std::vector<std::string> dimensions{};
  std::vector<std::string> against_dimensions{};
  std::string data{};
  std::string save{};
  std::string json{};
  std::string report{};
  std::uint64_t seed = 0;
  std::optional<double> tolerance{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("MODEL", a.model, support::model_help)->required();
  auto* const against =
      app.add_option("--against", a.against, "second model with the same inputs and outputs; both run in turns");
  app.add_option("--backend", a.backend, fmt::format("backend: {}", support::backend_list()));
  app.add_option("--backend-threads", a.backend_threads, "threads of the cpu backend; 0: all of the machine")
      ->check(support::number_in(0, 1024));
  app.add_option("--dim", a.dimensions, support::dimension_help)->allow_extra_args(false);
  app.add_option("--against-dim", a.against_dimensions, "the same for --against")
      ->allow_extra_args(false)
      ->needs(against);
  app.add_option("--data", a.data, "folder with input_N.pb and, to compare with, output_N.pb");
  app.add_option("--save", a.save, "folder to write input_N.pb and output_N.pb to");
  app.add_option("--seed", a.seed, "random seed of values that neither the model nor --data has")
      ->check(support::number_from(std::uint64_t{0}));
  app.add_option("--tolerance", a.tolerance, "largest relative error of an output; default: 1e-4")
      ->check(support::number_in(0.0, 1e9));
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: times, memory, operators and a picture of the graph");
}

struct named_input {
  std::string name;
  tensor::tensor_type type;
};
std::vector<named_input> inputs_of(const tensor::algebra& operators, const tensor::tensor_graph& g) {
  std::vector<named_input> all;
  for (const auto i : node_ids(g)) {
    const auto& op = g.operation(i);
    if (operators.definition_of(op.kind).source == tensor::source_kind::input) {
      all.push_back({operators.read(op).word("name"), g.type(g.results(i)[0])});
    }
  }
  return all;
}

std::filesystem::path numbered(const std::string& folder, const char* what, std::size_t i) {
  return std::filesystem::path{folder} / (fmt::format("{}_{}.pb", what, i));
}
// The tensor of a file, which must have the sizes of `type`.
io::named_tensor read_tensor(const std::filesystem::path& file, const tensor::tensor_type& type) {
  auto t = io::read_onnx_tensor(file);
  if (t.data.dims != type.dims) {
    throw error{file.string(), "a tensor of other sizes", tensor::to_string(type)};
  }
  return t;
}
tensor::dense<double> values_of(const io::tensor_data& t) { return {t.dims, io::elements_of(t)}; }

// By name, what --data holds for the inputs: a tensor without a name belongs to the input of its number.
io::data_table read_inputs(const arguments& a, const std::vector<named_input>& inputs) {
  io::data_table table;
  for (std::size_t i = 0; !a.data.empty() && i < inputs.size(); ++i) {
    const auto file = numbered(a.data, "input", i);
    auto t = io::read_onnx_tensor(file);
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const auto& in) { return in.name == t.name; });
    if (input == inputs.end() && !t.name.empty()) {
      throw error{file.string(), fmt::format("a tensor of the name '{}'", t.name),
                  fmt::format("the name of an input of {}, or none", a.model)};
    }
    const auto& meant = input == inputs.end() ? inputs[i] : *input;
    if (t.data.dims != meant.type.dims) {
      throw error{file.string(), "a tensor of other sizes", tensor::to_string(meant.type)};
    }
    table[meant.name] = std::move(t.data);
  }
  return table;
}

// Inputs of --data before the model's own values.
tensor::source_data values_for(const tensor::algebra& operators, const io::onnx_model& model,
                               const io::data_table& given, std::uint64_t seed) {
  return [&given, own = support::model_values(operators, model, seed)](
             std::string_view name) -> std::optional<tensor::dense<double>> {
    const auto found = given.find(name);
    return found == given.end() ? own(name) : std::optional{values_of(found->second)};
  };
}

struct outcome {
  measurement time{};
  std::optional<measurement> time_against{};
  std::optional<double> error_of_stored{};  // against the outputs of --data
  std::optional<double> error_against{};    // of the other model's outputs
  backend::executor_counts counts{};
  tensor::tensor_graph graph{};
  std::optional<tensor::tensor_graph> graph_against{};
};

// Effects: files in the folder of --save; what they held before where a write fails.
void save(const arguments& a, const io::onnx_model& model, const std::vector<named_input>& inputs,
          const tensor::source_data& values, const std::vector<tensor::dense<double>>& outputs) {
  std::vector<support::output> files;
  const auto add = [&](const std::filesystem::path& file, const std::string& name, auto data) {
    files.push_back({file, "", [name, kept = std::move(data)](const auto& path) {
                       io::write_onnx_tensor(path, {name, kept});
                     }});
  };
  for (const auto& [i, input] : ranges::views::enumerate(inputs)) {
    const auto value = values(input.name).value();
    add(numbered(a.save, "input", i), input.name, io::make_data(input.type.element, value.dims, value.data));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& type = model.graph.type(model.graph.outputs()[i]);
    add(numbered(a.save, "output", i), model.outputs[i], io::make_data(type.element, outputs[i].dims, outputs[i].data));
  }
  support::write_all(files);
}

// The largest error of an output, of those that --data holds.
std::optional<double> compare_stored(const arguments& a, const tensor::tensor_graph& g,
                                     const std::vector<tensor::dense<double>>& outputs) {
  std::optional<double> largest;
  for (std::size_t i = 0; !a.data.empty() && i < outputs.size(); ++i) {
    const auto file = numbered(a.data, "output", i);
    if (std::filesystem::exists(file)) {
      const auto expected = read_tensor(file, g.type(g.outputs()[i]));
      largest = std::max(largest.value_or(0), backend::relative_error(outputs[i], values_of(expected.data)));
    }
  }
  return largest;
}

// Throws: unity::error if --tolerance is given, and --data holds no output to compare with.
void expect_stored(const arguments& a, const tensor::tensor_graph& g) {
  bool is_there = !a.against.empty();
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    is_there = is_there || std::filesystem::exists(numbered(a.data, "output", i));
  }
  if (a.tolerance && !is_there) {
    throw error{"--tolerance", fmt::format("no output_N.pb in {} to compare with", a.data), "one, or --against"};
  }
}

template <class Backend>
outcome run_on(Backend& device, const tensor::algebra& operators, const arguments& a) {
  const auto model = support::load_model(operators, a.model, a.dimensions);
  const auto inputs = inputs_of(operators, model.graph);
  const auto given = read_inputs(a, inputs);
  expect_stored(a, model.graph);
  const auto values = values_for(operators, model, given, a.seed);
  outcome r;
  backend::executor<Backend> executor{device, operators, model.graph, {.data = values}};
  executor.run();
  executor.wait();
  std::vector<tensor::dense<double>> outputs;
  for (std::size_t i = 0; i < executor.output_count(); ++i) {
    outputs.push_back(executor.template output<double>(i));
  }
  r.counts = executor.counts();
  r.graph = model.graph;
  r.error_of_stored = compare_stored(a, model.graph, outputs);
  if (a.against.empty()) {
    r.time = backend::time_runs(executor);
  } else {
    const auto other = support::load_model(operators, a.against, a.against_dimensions);
    const auto other_values = values_for(operators, other, given, a.seed);
    backend::executor<Backend> second{device, operators, other.graph, {.data = [&](std::string_view name) {
                                        // Of what neither file stores, the first model's values; of weights that only
                                        // one has, its own.
                                        auto value = other.data.contains(name) ? other_values(name) : values(name);
                                        return value ? value : other_values(name);
                                      }}};
    const auto both = backend::compare_runs(executor, second);
    r.time = both.first;
    r.time_against = both.second;
    r.error_against = both.max_relative_error;
    r.graph_against = other.graph;
  }
  if (!a.save.empty()) {
    save(a, model, inputs, values, outputs);
  }
  return r;
}

nlohmann::json to_json(const arguments& a, const outcome& r) {
  nlohmann::json all{{"model", a.model},
                     {"backend", a.backend},
                     {"seconds", to_seconds(r.time.median)},
                     {"interval_s", {to_seconds(r.time.low), to_seconds(r.time.high)}},
                     {"runs", r.time.repetitions},
                     {"launches", r.counts.launches},
                     {"arena_bytes", r.counts.arena.count()},
                     {"constant_bytes", r.counts.constants.count()}};
  if (r.error_of_stored) {
    all["max_rel_error"] = *r.error_of_stored;
  }
  if (r.time_against) {
    all["against"] = {{"model", a.against},
                      {"seconds", to_seconds(r.time_against->median)},
                      {"interval_s", {to_seconds(r.time_against->low), to_seconds(r.time_against->high)}},
                      {"max_rel_error", *r.error_against}};
  }
  return all;
}

void print(const arguments& a, const outcome& r) {
  const auto line = [](const std::string& what, const measurement& m) {
    fmt::print("{:<40} {:14.3f} us; four of five of {} runs between {:.3f} and {:.3f} us\n", what,
               to_seconds(m.median) * 1e6, m.repetitions, to_seconds(m.low) * 1e6, to_seconds(m.high) * 1e6);
  };
  line(a.model, r.time);
  if (r.time_against) {
    line(a.against, *r.time_against);
    fmt::print("{:<40} {:14.4f}\n", "ratio", to_seconds(r.time.median) / to_seconds(r.time_against->median));
    fmt::print("{:<40} {:14.2g}\n", "largest relative error", *r.error_against);
  }
  if (r.error_of_stored) {
    fmt::print("{:<40} {:14.2g}\n", "largest relative error of stored outputs", *r.error_of_stored);
  }
}

// By kind, without inputs, weights and constants.
std::map<std::string, double> operators_of(const tensor::algebra& operators, const tensor::tensor_graph& g) {
  std::map<std::string, double> counts;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      ++counts[std::string{operators.signature(g.operation(n).kind).name}];
    }
  }
  return counts;
}

void add_times(io::html_report& page, const arguments& a, const outcome& r) {
  page.heading("Time of a run");
  std::vector<io::chart_bar> times;
  const auto add = [&](const std::string& of, const measurement& m) {
    page.paragraph(fmt::format("{}: {} runs; four of five took {:.3f} to {:.3f} us.", of, m.repetitions,
                               to_seconds(m.low) * 1e6, to_seconds(m.high) * 1e6));
    times.push_back({times.empty() ? "MODEL" : "--against", to_seconds(m.median) * 1e6});
  };
  add(a.model, r.time);
  if (r.time_against) {
    add(a.against, *r.time_against);
    page.paragraph(fmt::format("The largest relative error of an output is {:.2g}.", *r.error_against));
  }
  if (r.error_of_stored) {
    page.paragraph(fmt::format("The largest relative error of a stored output is {:.2g}.", *r.error_of_stored));
  }
  page.chart(times, "us");
}

std::string to_report(const tensor::algebra& operators, const arguments& a, const outcome& r) {
  io::html_report page{fmt::format("{} on {}", a.model, a.backend)};
  add_times(page, a, r);
  page.heading("Memory");
  page.chart(
      std::vector<io::chart_bar>{{"values of a run", static_cast<double>(r.counts.arena.count()) * 1e-6},
                                 {"weights and constants", static_cast<double>(r.counts.constants.count()) * 1e-6}},
      "MB");
  page.heading("Operators");
  page.chart(support::largest_bars(operators_of(operators, r.graph)), "");
  page.heading(r.graph_against ? "Both graphs" : "The graph");
  const io::dot_options title{.title = a.model};
  support::add_graph(page,
                     r.graph_against ? io::to_dot(operators, r.graph, title, *r.graph_against, {.title = a.against})
                                     : io::to_dot(operators, r.graph, title),
                     "Each box is an operator, each arrow a tensor.", "operators of the model");
  return page.text();
}

// Throws: unity::error where outputs differ by more than the tolerance.
void check(const arguments& a, const std::string& what, const std::optional<double>& found) {
  const auto most = a.tolerance.value_or(1e-4);
  if (found && !(*found <= most)) {
    throw error{what, fmt::format("outputs differ by {:f}", *found),
                fmt::format("a relative error of at most {:f}", most)};
  }
}

void run(const arguments& a) {
  support::check_backend(a.backend, "--backend");
  support::check_threads(a.backend, a.backend_threads);
  if (a.tolerance && a.data.empty() && a.against.empty()) {
    throw error{"--tolerance", "nothing to compare with", "--data or --against"};
  }
  static_cast<void>(io::utf8_word("MODEL", a.model));  // reports an error now, not when results are written
  static_cast<void>(io::utf8_word("--against", a.against));
  if (!a.data.empty() && !a.save.empty() && support::is_same_file(a.data, a.save)) {
    throw error{"--save", fmt::format("{}, which --data reads", a.save), "another folder"};
  }
  const support::output_folder folder{a.save};  // before the runs: they take long
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  const auto operators = tensor::standard_algebra();
  outcome r;
  support::with_backend(a.backend, operators, a.backend_threads,
                        [&](auto& device) { r = run_on(device, operators, a); });
  print(a, r);
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", to_json(a, r).dump(2)), {}, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(operators, a, r), {}, {}});
  }
  support::write_all(files);
  check(a, a.data, r.error_of_stored);
  check(a, a.against, r.error_against);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("run_model", "Runs a model and compares its outputs", argc, argv, declare,
                                         run);
}
