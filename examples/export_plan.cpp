// Exports a plan for a framework that runs the model's own code, or as an annotated ONNX model.
//
// run: {source}/examples/plans/mlp_p100_2x4.json --to pytorch --out {out}/plan.py
// run: {source}/examples/plans/mlp_p100_2x4.json --to jax --out {out}/plan.py
// run: megatron:t=8,p=8,d=8,micro=1,batch=512,interleave=2,sp,zero=1 --to megatron --out {out}/flags.txt
// run: megatron:d=8,micro=4,batch=64,zero=1 --to deepspeed --out {out}/deepspeed.json
// run: {source}/examples/plans/mlp_p100_2x4.json --to onnx --out {out}/plan.onnx

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/framework_plan.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/module_plan.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_plan.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/strategy_svg.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/stated_plan.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/outputs.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string plan{};
  std::string to{};
  std::string out{};
  std::string report{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("PLAN", a.plan,
                 "a plan's .json file: graph, machine and strategy; for megatron and deepspeed also what `simulate "
                 "--plan` takes, megatron:t=,p=,d=,...")
      ->required();
  app.add_option("--to", a.to,
                 "the framework: pytorch, jax, megatron (Megatron-LM) or deepspeed; onnx: an ONNX model with "
                 "annotations for several devices")
      ->required()
      ->check(CLI::IsMember({"pytorch", "jax", "megatron", "deepspeed", "onnx"}));
  app.add_option("--out", a.out,
                 "file for the module, the flags, the JSON or the model; default: standard output, but for onnx");
  app.add_option("--report", a.report, "file for an HTML report: a picture of the plan, and what is written for it");
}

// What a plan becomes elsewhere.
struct exported {
  std::optional<parallel::plan> plan{};  // none for a statement
  std::string file{};
  std::vector<std::string> unstated{};  // parts of the plan that the file does not say, one line each
};

// For frameworks that run a model by its modules.
exported for_modules(const arguments& a, const tensor::algebra& operators) {
  const auto text = read_file(a.plan);
  auto plan = io::parse_plan(operators, text, a.plan);
  const auto modules = io::module_plan_of(operators, plan, io::parse_plan_notes(text, a.plan).mesh);
  const auto title = fmt::format("The plan {} on {}.", a.plan, plan.machine.name);
  return {
      std::move(plan), a.to == "pytorch" ? io::to_pytorch_text(modules, title) : io::to_jax_text(modules, title), {}};
}

// For frameworks that are configured by degrees and switches.
exported for_degrees(const arguments& a, const tensor::algebra& operators) {
  exported r;
  parallel::stated_plan stated;
  if (a.plan.starts_with("megatron:")) {
    stated.statement = parallel::parse_plan_statement(a.plan);
  } else {
    r.plan = io::read_plan(operators, a.plan);
    stated = a.to == "megatron" ? parallel::statement_of(operators, *r.plan)
                                : parallel::data_statement_of(operators, *r.plan);
  }
  r.file = a.to == "megatron" ? io::to_megatron_text(stated) : io::to_deepspeed_text(stated);
  return r;
}

exported annotated_model(const arguments& a, const tensor::algebra& operators) {
  auto plan = io::read_plan(operators, a.plan);
  auto annotated = io::onnx_plan_of(operators, plan);
  auto file = io::serialize_onnx(operators, io::make_model(plan.graph, "plan"), annotated.devices);
  return {std::move(plan), std::move(file), std::move(annotated.unstated)};
}

std::string to_report(const arguments& a, const tensor::algebra& operators, const exported& r) {
  io::html_report page{fmt::format("{} for {}", a.plan, a.to)};
  if (r.plan) {
    page.heading(fmt::format("The plan on {}", r.plan->machine.name));
    page.picture(io::to_strategy_svg(operators, *r.plan, a.plan), "operators, divided and coloured by devices");
  }
  if (a.to != "onnx") {
    page.heading("What is written");
    page.code(r.file);
    return page.text();
  }
  page.heading("What ONNX does not say");
  page.paragraph(r.unstated.empty() ? "Nothing but what only training needs." : "Besides what only training needs:");
  for (const auto& one : r.unstated) {
    page.paragraph(one);
  }
  return page.text();
}

void run(arguments& a) {
  if (a.to == "onnx" && a.out.empty()) {
    throw error{"--to onnx", "no --out", "a file: an ONNX model is not text"};
  }
  support::expect_writable(a.out);
  support::expect_writable(a.report);
  const auto operators = tensor::training_algebra();
  const auto r = a.to == "onnx"                       ? annotated_model(a, operators)
                 : a.to == "pytorch" || a.to == "jax" ? for_modules(a, operators)
                                                      : for_degrees(a, operators);
  std::vector<support::output> files;
  if (!a.out.empty()) {
    files.push_back({a.out, r.file});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, operators, r)});
  }
  support::write_all(files);
  if (a.out.empty()) {
    fmt::print("{}", r.file);
  }
  for (const auto& one : r.unstated) {
    fmt::print("not in {}: {}\n", a.out, one);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("export_plan", "Exports a plan to another framework.", argc, argv, declare,
                                         run);
}
