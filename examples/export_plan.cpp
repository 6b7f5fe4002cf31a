// Exports a plan for a framework that runs the model's own code, or as an annotated ONNX model.
//
// run: {source}/examples/plans/mlp_p100_2x4.json --to pytorch --out {out}/plan.py
// run: {source}/examples/plans/mlp_p100_2x4.json --to jax --out {out}/plan.py
// run: megatron:t=8,p=8,d=8,micro=1,batch=512,interleave=2,sp,zero=1 --to megatron --out {out}/flags.txt
// run: megatron:d=8,micro=4,batch=64,zero=1 --to deepspeed --out {out}/deepspeed.json
// run: {source}/examples/plans/mlp_p100_2x4.json --to onnx --out {out}/plan.onnx

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/framework_plan.hpp>
#include <unity/io/module_plan.hpp>
#include <unity/io/onnx_export.hpp>
#include <unity/io/onnx_plan.hpp>
#include <unity/io/plan_json.hpp>
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
}

// For frameworks that run a model by its modules.
std::string module_text(const arguments& a, const tensor::algebra& operators) {
  const auto text = read_file(a.plan);
  const auto plan = io::parse_plan(operators, text, a.plan);
  const auto modules = io::module_plan_of(operators, plan, io::parse_plan_notes(text, a.plan).mesh);
  const auto title = fmt::format("The plan {} on {}.", a.plan, plan.machine.name);
  return a.to == "pytorch" ? io::to_pytorch_text(modules, title) : io::to_jax_text(modules, title);
}

// For frameworks that are configured by degrees and switches.
std::string stated_text(const arguments& a, const tensor::algebra& operators) {
  constexpr std::string_view statement = "megatron:";
  parallel::stated_plan stated;
  if (std::string_view{a.plan}.starts_with(statement)) {
    stated.statement = parallel::parse_plan_statement(a.plan);
  } else {
    const auto plan = io::read_plan(operators, a.plan);
    stated =
        a.to == "megatron" ? parallel::statement_of(operators, plan) : parallel::data_statement_of(operators, plan);
  }
  return a.to == "megatron" ? io::to_megatron_text(stated) : io::to_deepspeed_text(stated);
}

void write_model(const arguments& a, const tensor::algebra& operators) {
  const auto plan = io::read_plan(operators, a.plan);
  const auto annotated = io::onnx_plan_of(operators, plan);
  const auto bytes = io::serialize_onnx(operators, io::make_model(plan.graph, "plan"), annotated.devices);
  support::write_all({{a.out, bytes}});
  for (const auto& one : annotated.unstated) {
    fmt::print("not in {}: {}\n", a.out, one);
  }
}

void run(arguments& a) {
  if (a.to == "onnx" && a.out.empty()) {
    throw error{"--to onnx", "no --out", "a file: an ONNX model is not text"};
  }
  support::expect_writable(a.out);
  const auto operators = tensor::training_algebra();
  if (a.to == "onnx") {
    write_model(a, operators);
    return;
  }
  const bool is_of_modules = a.to == "pytorch" || a.to == "jax";
  const auto text = is_of_modules ? module_text(a, operators) : stated_text(a, operators);
  if (a.out.empty()) {
    fmt::print("{}", text);
  } else {
    support::write_all({{a.out, text}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("export_plan", "Exports a plan to another framework.", argc, argv, declare,
                                         run);
}
