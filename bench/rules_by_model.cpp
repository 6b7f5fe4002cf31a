// rules_by_model [OUT.svg [FILE]...]: draws which rules improve which models as a heat map, like figure 2.10 of Jia's
// dissertation (2020). For the shipped rules, and for each given rule file together with the hand-written rules, prints
// the cost of each model after optimization over before (analytic:taso, 300 expansions).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/file.hpp>
#include <unity/tensor/generated_rules.hpp>

#include "support/models.hpp"

namespace {

using namespace unity;

const std::vector<std::string> models{"resnet50?form=taso", "resnext50?form=taso", "bert?form=taso", "nasrnn",
                                      "nasnet_a?form=taso", "resnet50", "resnext50", "bert", "bert_large", "nasnet_a",
                                      "inception_v3", "inception_v3?batch=1", "densenet121", "squeezenet1_1",
                                      "squeezenet1_1?batch=64", "vgg16", "vgg19", "mlp"};

struct rules_of_a_kind {
  std::string name;
  rule_set rules;
};

rule_set compiled(const std::string& text, const std::string& file) {
  return systems::select_rules(compile_rules(bench::operators(), parse_rules(text, file)), syntax::standing::proved,
                               tensor::mode::inference);
}

using heat = std::map<std::string, std::map<std::string, std::size_t>>;  // rule, model: uses

double ratio(const std::string& model, const rule_set& rules, heat* uses) {
  const auto r =
      systems::taso(bench::operators(), rules, bench::model(fmt::format("zoo:{}", model)), bench::options("taso", 300));
  for (const auto& u : uses != nullptr ? r.rules_used : std::vector<systems::rule_use>{}) {
    (*uses)[u.name][model] += u.count;
  }
  return r.cost_after_s / r.cost_before_s;
}

std::string svg(const heat& uses) {
  constexpr std::size_t cell = 18;
  constexpr std::size_t left = 280;
  constexpr std::size_t top = 150;
  std::string body;
  std::size_t row = 0;
  const auto text = [&](std::size_t x, std::size_t y, const std::string& t, const std::string& more) {
    body += fmt::format("<text x=\"{}\" y=\"{}\" {}>{}</text>\n", x, y, more, t);
  };
  for (std::size_t m = 0; m < models.size(); ++m) {
    const auto x = left + m * cell + 13;
    text(x, top - 6, models[m], fmt::format("transform=\"rotate(-60 {} {})\"", x, top - 6));
  }
  for (const auto& [rule, by_model] : uses) {
    const auto y = top + row++ * cell;
    text(left - 6, y + 13, rule, "text-anchor=\"end\"");
    for (std::size_t m = 0; m < models.size(); ++m) {
      const auto found = by_model.find(models[m]);
      const auto count = found == by_model.end() ? std::size_t{0} : found->second;
      const auto shade = count == 0 ? 245 : 200 - std::min<std::size_t>(180, 20 * count);
      body += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"17\" height=\"17\" fill=\"rgb({},{},245)\"/>\n",
                          left + m * cell, y, shade, shade);
      if (count > 0) {
        text(left + m * cell + 8, y + 13, fmt::format("{}", count), "text-anchor=\"middle\" fill=\"white\"");
      }
    }
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n{}</svg>\n",
      left + models.size() * cell + 60, top + row * cell + 10, body);
}

std::vector<rules_of_a_kind> kinds_of_rules(const std::vector<std::string>& files) {
  const std::string written{tensor::standard_rules};
  std::vector<rules_of_a_kind> kinds{
      {"written", compiled(written, "standard_rules")},
      {"shipped", compiled(fmt::format("{}{}", written, tensor::generated_rules), "shipped rules")}};
  for (const auto& file : files) {
    auto both = compiled(written, "standard_rules");
    for (auto& s : compiled(read_file(file), file)) {
      both.push_back(std::move(s));
    }
    kinds.push_back({file.substr(file.find_last_of('/') + 1), std::move(both)});
  }
  return kinds;
}

void run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto kinds = kinds_of_rules({words.begin() + (words.empty() ? 0 : 1), words.end()});
  heat uses;
  for (const auto& m : models) {
    benchmark::RegisterBenchmark((fmt::format("cost_after_over_before/{}", m)).c_str(),
                                 [&](benchmark::State& state) {
                                   for (auto _ : state) {
                                     for (const auto& k : kinds) {
                                       state.counters[k.name] =
                                           ratio(m, k.rules, k.name == "shipped" ? &uses : nullptr);
                                     }
                                   }
                                 })
        ->Iterations(1)
        ->Unit(benchmark::kSecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  if (!words.empty()) {
    atomic_write(words[0], svg(uses));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "rules_by_model: {}\n", e.what());
    return 1;
  }
  return 0;
}
