// dPRO's search: its time with and without each of its accelerations (table 5 of the paper), the gain of its strategies
// (figure 9), and the results of other searches on the same space in the same time. Jobs are simulated: 16 V100
// workers, 8 per machine.
//
//   bench_dpro_search [SECONDS]   time limit of each search of the table (default 60); > marks a search that reached it

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/systems/dpro.hpp>
#include <unity/systems/dpro/space.hpp>

#include "../test/systems/simulated_job.hpp"

namespace {

using namespace unity;

struct subject {
  std::string name;
  std::string model;
};
const std::vector<subject> subjects{{"ResNet-50", "zoo:resnet50?batch=32"},
                                    {"VGG-16", "zoo:vgg16?batch=32"},
                                    {"Inception-v3", "zoo:inception_v3?batch=32"},
                                    {"BERT-base", "zoo:bert?batch=32"}};

test::simulated_job job_of(const subject& s, std::uint32_t servers) {
  test::simulated_job_options o;
  o.model = s.model;
  o.servers = servers;
  return test::job_simulator{o}.run();
}

double ms(picoseconds t) { return static_cast<double>(t.count()) * 1e-9; }

std::string shown(const systems::dpro_result& r) {
  return fmt::format("{}{:.2f} ({:.2f})", r.stopped == stop_reason::time ? "> " : "", r.seconds, ms(r.iteration));
}

// Prints seconds and, in brackets, the best iteration time in ms.
void speedups(double most) {
  fmt::print(
      "| network, two servers | recorded, ms | strawman | + coarsened view | + partial replay | + symmetry | "
      "the same, not polished |\n|---|---|---|---|---|---|---|\n");
  for (const auto& s : subjects) {
    const auto job = job_of(s, 2);
    fmt::print("| {} ", s.name);
    for (int k = 0; k < 5; ++k) {
      systems::dpro_options o;
      o.limits.seconds = most;
      o.speedups = {k > 0, k > 1, k > 2};
      o.polish = k == 3;
      const auto r = systems::dpro(job.graph, job.names, job.fused(), o);
      if (k == 0) {
        fmt::print("| {:.2f} ", ms(r.recorded));
      }
      fmt::print("| {} ", shown(r));
      std::fflush(stdout);
    }
    fmt::print("|\n");
  }
}

// XLA's strategy as the dPRO paper describes it: fuse as many operators as may run as one.
systems::dpro_strategy all_fused(const systems::dpro_view& v) {
  auto s = v.recorded();
  std::uint32_t first = 0;
  for (std::uint32_t o = 1; o < s.fused.size(); ++o) {
    s.fused[o] = v.may_fuse(first, o) ? 1 : 0;
    first = s.fused[o] != 0 ? first : o;
  }
  return s;
}
// Joins tensors in order while they fit in the bucket. Horovod's bucket size is 64 MB.
systems::dpro_strategy bucketed(const systems::dpro_view& v, systems::dpro_strategy s, bytes most) {
  bytes size;
  for (std::uint32_t t = 0; t < s.joined.size(); ++t) {
    const auto own = v.tensors()[t].size;
    s.joined[t] = t > 0 && size + own <= most && v.may_join(t) ? 1 : 0;
    size = s.joined[t] != 0 ? size + own : own;
  }
  return s;
}
// Splits tensors into parts of 4 MB, as BytePS does.
systems::dpro_strategy partitioned(const systems::dpro_view& v, systems::dpro_strategy s, bytes most) {
  for (std::uint32_t t = 0; t < s.parts.size(); ++t) {
    s.parts[t] = static_cast<std::uint32_t>((v.tensors()[t].size.count() + most.count() - 1) / most.count());
  }
  return s;
}

void gains() {
  fmt::print(
      "\n| network | synchronized by | recorded, ms | XLA's fusion | default of the library | operators fused | "
      "tensors | both | over XLA | over the library |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& s : subjects) {
    for (const std::uint32_t servers : {0U, 2U}) {
      const auto job = job_of(s, servers);
      const systems::dpro_view v{job.graph, job.names, job.fused(), {true, false}};
      const auto by_default = [&](const systems::dpro_strategy& from) {
        return servers == 0 ? bucketed(v, from, bytes{64'000'000}) : partitioned(v, from, bytes{4'000'000});
      };
      const auto xla = systems::iteration_of(v, by_default(all_fused(v)));
      const auto library = systems::iteration_of(v, by_default(v.recorded()));
      std::vector<picoseconds> found;
      for (const systems::dpro_techniques t :
           {systems::dpro_techniques{true, false, false}, systems::dpro_techniques{false, true, true},
            systems::dpro_techniques{}}) {
        systems::dpro_options o;
        o.limits.seconds = 10;
        o.techniques = t;
        found.push_back(systems::dpro(job.graph, job.names, job.fused(), o).iteration);
      }
      fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:+.1f}% | {:+.1f}% |\n", s.name,
                 servers == 0 ? "ring" : "two servers", ms(systems::iteration_of(v, v.recorded())), ms(xla),
                 ms(library), ms(found[0]), ms(found[1]), ms(found[2]), 100 * (ms(xla) / ms(found[2]) - 1),
                 100 * (ms(library) / ms(found[2]) - 1));
      std::fflush(stdout);
    }
  }
}

void searches() {
  fmt::print(
      "\n| network, two servers | recorded, ms | Algorithm 1 | and polished | its seconds | beam of 8, ms | "
      "backtracking, ms |\n|---|---|---|---|---|---|---|\n");
  for (const auto& s : subjects) {
    const auto job = job_of(s, 2);
    systems::dpro_options o;
    o.limits.seconds = 10;
    const auto polished = systems::dpro(job.graph, job.names, job.fused(), o);
    o.polish = false;
    const auto plain = systems::dpro(job.graph, job.names, job.fused(), o);
    const systems::dpro_view v{job.graph, job.names, job.fused()};
    const systems::dpro_view whole{job.graph, job.names, job.fused(), {true, false}};
    systems::dpro_space space{v, coarsened(v, v.separate(), o.techniques), o.techniques};
    beam_options b;
    b.width = 8;
    b.limits.seconds = polished.seconds;
    const auto by_beam = systems::iteration_of(whole, beam(space, b).best.strategy);
    backtracking_options a;
    a.limits.seconds = polished.seconds;
    const auto by_backtracking = systems::iteration_of(whole, backtracking(space, a).best.strategy);
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", s.name, ms(plain.recorded),
               ms(plain.iteration), ms(polished.iteration), polished.seconds, ms(by_beam), ms(by_backtracking));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  speedups(argc > 1 ? std::atof(argv[1]) : 60);
  gains();
  searches();
  return 0;
}
