// A plan in the words of a framework that runs the model's own code.
//
// run: {source}/examples/plans/mlp_p100_2x4.json --to pytorch --out {out}/plan.py
// run: {source}/examples/plans/mlp_p100_2x4.json --to jax --out {out}/plan.py

#include <CLI/CLI.hpp>
#include <string>

#include <fmt/core.h>

#include <unity/core/file.hpp>
#include <unity/io/jax_plan.hpp>
#include <unity/io/module_plan.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/pytorch_plan.hpp>
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
  app.add_option("PLAN", a.plan, "a plan's .json file: graph, machine and strategy")->required();
  app.add_option("--to", a.to, "the framework: pytorch or jax")->required()->check(CLI::IsMember({"pytorch", "jax"}));
  app.add_option("--out", a.out, "file for the module; default: standard output");
}

void run(arguments& a) {
  support::expect_writable(a.out);
  const auto operators = tensor::training_algebra();
  const auto text = read_file(a.plan);
  const auto plan = io::parse_plan(operators, text, a.plan);
  const auto modules = io::module_plan_of(operators, plan, io::parse_plan_notes(text, a.plan).mesh);
  const auto title = fmt::format("The plan {} on {}.", a.plan, plan.machine.name);
  const auto module = a.to == "pytorch" ? io::to_pytorch_text(modules, title) : io::to_jax_text(modules, title);
  if (a.out.empty()) {
    fmt::print("{}", module);
  } else {
    support::write_all({{a.out, module}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("export_plan", "Says a plan in the words of another framework.", argc, argv,
                                         declare, run);
}
