// Claim: the time to lower the program of one rank hardly depends on the number of ranks (`over_4_ranks`: CPU seconds
// relative to those with 4 ranks; `all_over_one`: lowering all ranks relative to lowering one). Plans are data parallel
// on p100:Nx4, with weights synchronized by a rule of AutoDist. Each case runs in its own process; `MB` is its peak
// memory, `plan_MB` the part before lowering.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/training_plan.hpp>

namespace {

using namespace unity;

struct measured {
  double seconds = 0;
  double megabytes = 0;
  double plan_megabytes = 0;
  std::size_t steps = 0;
};

parallel::plan plan_of(const tensor::algebra& operators, const std::string& model, std::size_t ranks,
                       const systems::named_builder& rule) {
  parallel::plan p;
  p.graph = tensor::zoo::build(operators, model + "batch=" + std::to_string(8 * ranks));
  p.machine = hardware::preset("p100:" + std::to_string(ranks / 4) + "x4");
  p.configurations =
      parallel::replicated_data_parallel(parallel::graph_dimensions{operators, p.graph}, p.machine.network);
  p = train::with_loss(operators, std::move(p), tensor::loss::mean_square);
  std::vector<hardware::device_id> servers;
  for (std::size_t d = 0; d < ranks; d += 4) {  // one device of each node
    servers.emplace_back(d);
  }
  p.synchronization = rule.build(systems::sync_problem_of(operators, p.graph, servers), {.is_proxied = true});
  return p;
}

double peak_megabytes() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

measured measure(const std::string& model, std::size_t ranks, const systems::named_builder& rule,
                 std::optional<std::uint32_t> only) {
  const auto operators = tensor::training_algebra();
  const auto p = plan_of(operators, model, ranks, rule);
  measured m;
  m.plan_megabytes = peak_megabytes();
  for (int i = 0; i < 3; ++i) {
    const auto start = std::clock();
    const auto programs = parallel::programs_of_ranks(operators, p, only);
    const auto seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    m.seconds = i == 0 ? seconds : std::min(m.seconds, seconds);
    m.steps = programs.ranks[only.value_or(0)].steps.size();
  }
  m.megabytes = peak_megabytes();
  return m;
}

// Runs f in its own process.
template <class F>
measured apart(const F& f) {
  int ends[2];
  measured m;
  if (pipe(ends) != 0) {
    return m;
  }
  if (const auto child = fork(); child == 0) {
    const auto own = f();
    const auto written = write(ends[1], &own, sizeof own);
    _exit(written == sizeof own ? 0 : 1);
  } else {
    close(ends[1]);
    const auto got = read(ends[0], &m, sizeof m);
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return got == sizeof m ? m : measured{};
  }
}

void lowering_one_rank_does_not_depend_on_how_many_there_are(const std::string& model,
                                                             const systems::named_builder& rule) {
  double first = 0;
  for (const std::size_t ranks : std::vector<std::size_t>{4, 16, 64, 256, 1024}) {
    // One rank that is not a server (where there are servers), and one that is.
    const auto own = apart([&] { return measure(model, ranks, rule, static_cast<std::uint32_t>(ranks - 1)); });
    const auto server = apart([&] { return measure(model, ranks, rule, static_cast<std::uint32_t>(0)); });
    const auto all = apart([&] { return measure(model, ranks, rule, std::nullopt); });
    first = ranks == 4 ? own.seconds : first;
    fmt::print(
        "{:12} {:18} {:6} ranks: one {:8.5f} s {:6.1f} MB, server {:8.5f} s {:6.1f} MB, all {:8.5f} s {:7.1f} MB "
        "(plan {:6.1f} MB); {:4} steps; over_4_ranks {:5.2f}, all_over_one {:6.1f}\n",
        model, rule.name, ranks, own.seconds, own.megabytes, server.seconds, server.megabytes, all.seconds,
        all.megabytes, own.plan_megabytes, own.steps, own.seconds / first, all.seconds / own.seconds);
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  for (const auto* model : {"zoo:mlp?layers=16&", "zoo:resnet50?"}) {
    for (const auto& rule : systems::sync_builders) {
      if (rule.name == "all_reduce" || rule.name == "ps_load_balancing") {
        lowering_one_rank_does_not_depend_on_how_many_there_are(model, rule);
      }
    }
  }
}
