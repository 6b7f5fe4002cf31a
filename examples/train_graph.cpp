// Trains a graph neural network that classifies the vertices of one graph, on ranks (threads of this process, or
// processes under mpirun) that each have a range of the vertices, divided by measured times of layers.
//
// run: rmat:9:4000 --model gcn --epochs 12 --ranks 2 --repartition-every 4 --check --json {out}/result.json --trace {out}/trace.json --report {out}/report.html
// run: attached:300:3 --model gat --hidden 4 --heads 2 --epochs 4 --ranks 2 --partition equal_vertices --unseen attached:200:3 --checkpoint {out}/gat.weights --machine p100:1x2

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/local_communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/gnn/range_costs.hpp>
#include <unity/gnn/vertex_partition.hpp>
#include <unity/io/html_report.hpp>
#include <unity/systems/roc/range_balancer.hpp>
#include <unity/systems/roc/vertex_trainer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/standard_operators.hpp>
#include <unity/train/checkpoint.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/outside_arena.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/timeline_report.hpp>
#ifdef UNITY_HAS_MPI
#include <unity/backend/mpi_communicator.hpp>  // if found
#endif

#include "support/loss_check.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/rank_devices.hpp"
#include "support/rank_timeline.hpp"
#include "support/vertex_flags.hpp"
#include "support/vertex_job.hpp"
#include "support/vertex_simulation.hpp"

namespace {

using namespace unity;
using support::vertex_flags;
using support::vertex_job;

struct epoch {
  double loss = 0;
  double seconds = 0;  // of the slowest rank
  std::optional<systems::vertex_accuracy> accuracy{};
};

struct part_outcome {
  gnn::vertex_range range{};
  systems::part_seconds seconds{};
};

// The same on all ranks.
struct outcome {
  std::vector<epoch> epochs{};
  systems::vertex_accuracy accuracy{};
  std::vector<part_outcome> parts{};
  std::int64_t halo_bytes = 0;
  std::vector<train::moved_bytes> planned{};  // by rank, with --memory
  std::size_t repartitions = 0;
  train::merged_timeline timeline{};
  std::optional<systems::vertex_accuracy> unseen{};
  double unseen_seconds = 0;
};

// Relative tolerance, as ranks add up in another order.
constexpr double most_error_of_losses = 1e-5;

// The rest of rank 0's report on the run.
struct further_results {
  std::optional<double> error_of_losses{};
  std::optional<support::vertex_simulation> simulated{};
};

template <class Communicator>
double most_of(Communicator& world, double own) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  train::gather_bytes(world, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
  return *std::max_element(all.begin(), all.end());
}

double seconds_since(train::timeline::clock::time_point start) {
  return std::chrono::duration<double>(train::timeline::clock::now() - start).count();
}

// The rank of a classification of the graph of --unseen.
template <class Backend, class Communicator>
systems::vertex_trainer<Backend, Communicator> unseen_rank(const tensor::algebra& operators,
                                                           const systems::vertex_training& t, Backend& b,
                                                           Communicator& world, gnn::vertex_partition p) {
  try {
    return {b, operators, t, systems::scales_of(t.model, t.graph), world, support::without_empty_parts(std::move(p))};
  } catch (const unity::error& e) {
    throw unity::error{fmt::format("--unseen: {}", e.what())};
  }
}

// Classifies the vertices of another graph with the rank's weights, in ranges of equal cost.
template <class Trainer, class Backend, class Communicator>
void classify_unseen(const tensor::algebra& operators, const systems::vertex_training& t, Trainer& rank,
                     const systems::range_balancer& balancer, Backend& b, Communicator& world, outcome& r) {
  auto other = unseen_rank(operators, t, b, world, balancer.partition_of(t.graph));
  std::vector<std::byte> bytes;
  for (std::size_t w = 0; w < rank.program().weights.size(); ++w) {
    bytes.resize(rank.executor().size_of(rank.program().weights[w].weight.value));
    rank.executor().read(rank.program().weights[w].weight.value, bytes);
    other.executor().write(other.program().weights[w].weight.value, bytes);
  }
  static_cast<void>(other.accuracy());  // touches what it needs
  const auto start = train::common_origin(world);
  r.unseen = other.accuracy();
  r.unseen_seconds = most_of(world, seconds_since(start));
}

// What one rank does.
template <class Communicator>
outcome trained(const vertex_flags& a, const tensor::algebra& operators, const vertex_job& j,
                const gnn::vertex_partition& p, Communicator& world, bool writes) {
  if (a.epochs == 0 && !j.before) {
    return {};
  }
  return support::with_backend(a.backend, operators, world, [&](auto& b) {
    const auto t = support::training_of(a, j, j.data);
    auto unseen = support::training_of(a, j, j.unseen ? *j.unseen : j.data);
    unseen.program.is_forward = true;
    if (j.unseen && writes && !a.memory.empty()) {
      // Whether it fits is known now, rather than after all epochs.
      static_cast<void>(unseen_rank(operators, unseen, b, world, gnn::equal_edges(unseen.graph, p.parts())));
    }
    outcome r;
    auto start = train::timeline::clock::now();
    systems::vertex_trainer rank{b, operators, t, systems::scales_of(t.model, t.graph), world, p};
    gnn::repartition_rule rule;
    rule.moving.seconds_each = most_of(world, seconds_since(start));
    systems::range_balancer balancer{t.graph, rank.model().widths, std::vector<std::size_t>(p.parts())};
    if (j.before) {
      static_cast<void>(train::read_checkpoint(*j.before, a.resume, operators, rank, world, j.run));
    }
    train::timeline record{2 * (rank.program().steps.size() + 1)};
    bool is_warm = false;  // false in an epoch that touches memory for the first time and so takes longer
    for (auto s = j.first; s < a.epochs; ++s) {
      start = train::common_origin(world);
      record.restart(start);
      epoch e;
      e.loss = rank.step(s, &record);
      e.seconds = most_of(world, seconds_since(start));
      const auto done = s + 1;
      if (is_warm || a.repartition == 1 || done == a.epochs) {
        balancer.observe(rank.partition(), rank.measured(record));
      }
      is_warm = true;
      if (a.evaluate > 0 && done % a.evaluate == 0) {
        e.accuracy = rank.accuracy();
      }
      r.epochs.push_back(e);
      if (writes && !a.checkpoint.empty() && (done == a.epochs || (a.every > 0 && done % a.every == 0))) {
        train::write_checkpoint(a.checkpoint, operators, rank, world, j.run, static_cast<std::int64_t>(done));
      }
      if (a.partition == "learned" && p.parts() > 1 && done % a.repartition == 0 && done < a.epochs) {
        rule.iterations = static_cast<double>(a.epochs - done);
        if (auto next = balancer.better(rank.partition(), rule)) {
          rank.divide(*std::move(next));
          record = train::timeline{2 * (rank.program().steps.size() + 1)};
          ++r.repartitions;
          is_warm = false;
        }
      }
    }
    r.accuracy = rank.accuracy();
    const auto seconds = r.epochs.empty() ? std::vector<systems::part_seconds>(p.parts()) : balancer.last();
    for (std::size_t k = 0; k < p.parts(); ++k) {
      r.parts.push_back({rank.partition().range(k), seconds[k]});
    }
    r.halo_bytes = std::llround(train::sum_over_ranks(world, static_cast<double>(rank.halo_bytes())));
    const auto memory = rank.executor().memory();
    r.planned.resize(a.memory.empty() ? 0 : p.parts());
    if (!r.planned.empty()) {
      train::gather_bytes(world, std::as_bytes(std::span{&rank.planned_moves(), 1}),
                          std::as_writable_bytes(std::span{r.planned}));
    }
    std::vector<std::string> labels;
    for (std::size_t l = 0; l < rank.model().widths.size(); ++l) {
      labels.push_back(fmt::format("layer {}", l));
    }
    if (j.unseen && writes) {
      classify_unseen(operators, unseen, rank, balancer, b, world, r);
    }
    r.timeline = train::gather_timelines(world, record, std::move(labels), memory);
    return r;
  });
}

// The largest relative difference of losses from those of one rank, from the same initial state.
double checked(const vertex_flags& a, const tensor::algebra& operators, const vertex_job& j, const outcome& r) {
  double most = 0;
  auto unbounded = a;
  unbounded.memory.clear();  // all vertices on one rank need more
  backend::run_local(1, [&](backend::local_communicator& host) {
    const auto one = support::with_communicator(unbounded.backend, host, [&](auto& world) {
      return trained(unbounded, operators, j, gnn::equal_vertices(j.data.graph.vertices(), 1), world, false);
    });
    for (std::size_t s = 0; s < one.epochs.size(); ++s) {
      const auto wanted = one.epochs[s].loss;
      most = std::max(most, std::abs(r.epochs[s].loss - wanted) / std::max(std::abs(wanted), 1e-30));
    }
  });
  return most;
}

double median_seconds(const outcome& r) {
  std::vector<double> all;
  for (std::size_t s = r.epochs.size() > 1 ? 1 : 0; s < r.epochs.size(); ++s) {
    all.push_back(r.epochs[s].seconds);
  }
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

void print_trained(const vertex_flags& a, const vertex_job& j, const outcome& r) {
  fmt::print("{}: {} vertices, {} edges, {} features, {} classes\n", a.graph, j.data.graph.vertices(),
             j.data.graph.edges(), j.data.features.columns, j.data.classes);
  if (j.before) {
    fmt::print("goes on after {} epochs\n", j.first);
  }
  const auto line = [&](std::size_t s) {
    const auto& e = r.epochs[s];
    fmt::print("epoch {}: loss {:.9g}", j.first + s, e.loss);
    if (e.accuracy) {
      fmt::print(", accuracy {:.4f} of training, {:.4f} of validation, {:.4f} of test vertices", e.accuracy->train,
                 e.accuracy->validation, e.accuracy->test);
    }
    fmt::print("\n");
  };
  for (std::size_t s = 0; s < r.epochs.size(); ++s) {
    if (s == 0 || s + 1 == r.epochs.size() || r.epochs[s].accuracy) {
      line(s);
    }
  }
  fmt::print("accuracy: {:.4f} of training, {:.4f} of validation, {:.4f} of test vertices\n", r.accuracy.train,
             r.accuracy.validation, r.accuracy.test);
  const auto held = [](const train::rank_timeline& t) { return t.memory.kept + t.memory.arena; };
  const auto& most = *std::max_element(r.timeline.ranks.begin(), r.timeline.ranks.end(),
                                       [&](const auto& x, const auto& y) { return held(x) < held(y); });
  if (!r.epochs.empty()) {
    fmt::print("an epoch takes {:.3f} ms; ", median_seconds(r) * 1e3);
  }
  fmt::print("ranks send {:.3f} MB for neighbours; the largest holds {:.3f} MB\n",
             static_cast<double>(r.halo_bytes) * 1e-6, static_cast<double>(held(most).count()) * 1e-6);
  if (!a.memory.empty()) {
    fmt::print("of which {:.3f} MB are within --memory; an epoch loads {:.3f} MB and stores {:.3f} MB\n",
               static_cast<double>(most.memory.arena.count()) * 1e-6,
               static_cast<double>(most.memory.loaded.count()) * 1e-6,
               static_cast<double>(most.memory.stored.count()) * 1e-6);
  }
  fmt::print("{:<6}{:>12}{:>12}{:>16}{:>16}\n", "rank", "from", "to", "predicted, ms", "measured, ms");
  for (std::size_t k = 0; k < r.parts.size(); ++k) {
    fmt::print("{:<6}{:>12}{:>12}{:>16.3f}{:>16.3f}\n", k, r.parts[k].range.begin, r.parts[k].range.end,
               r.parts[k].seconds.predicted * 1e3, r.parts[k].seconds.measured * 1e3);
  }
  if (r.repartitions > 0) {
    fmt::print("ranges changed {} times\n", r.repartitions);
  }
  if (r.unseen) {
    fmt::print("{}: accuracy {:.4f} of training, {:.4f} of validation, {:.4f} of test vertices, in {:.3f} ms\n",
               a.unseen, r.unseen->train, r.unseen->validation, r.unseen->test, r.unseen_seconds * 1e3);
  }
}

nlohmann::json accuracy_json(const systems::vertex_accuracy& x) {
  return {{"train", x.train}, {"validation", x.validation}, {"test", x.test}};
}

nlohmann::json simulation_json(const support::vertex_simulation& s) {
  nlohmann::json all{{"machine", s.machine}, {"devices", s.devices}};
  for (const auto& d : s.divisions) {
    all[d.name] = {{"epoch_s", d.epoch},
                   {"slowest_part_s", d.slowest},
                   {"halo_bytes", d.exchanged},
                   {"held_bytes", d.held},
                   {"fits", d.excess.empty()},
                   {"loaded_bytes", d.moved.loaded.count()},
                   {"stored_bytes", d.moved.stored.count()}};
  }
  return all;
}

nlohmann::json result_json(const vertex_flags& a, const vertex_job& j, int ranks, const char* comm, const outcome& r,
                           const further_results& more) {
  const auto or_null = [](const auto& x, const auto& f) { return x ? nlohmann::json(f(*x)) : nlohmann::json(nullptr); };
  nlohmann::json result{{"ranks", ranks},
                        {"backend", a.backend},
                        {"comm", comm},
                        {"model", a.model},
                        {"vertices", j.data.graph.vertices()},
                        {"edges", j.data.graph.edges()},
                        {"first_epoch", j.first},
                        {"epochs", nlohmann::json::array()},
                        {"epoch_s", r.epochs.empty() ? nlohmann::json(nullptr) : nlohmann::json(median_seconds(r))},
                        {"accuracy", accuracy_json(r.accuracy)},
                        {"partition", nlohmann::json::array()},
                        {"repartitions", r.repartitions},
                        {"halo_bytes", r.halo_bytes},
                        {"memory", nlohmann::json::array()},
                        {"max_rel_error_vs_single", or_null(more.error_of_losses, [](double x) { return x; })},
                        {"simulated", or_null(more.simulated, simulation_json)},
                        {"unseen", or_null(r.unseen, [&](const systems::vertex_accuracy& x) {
                           auto of_unseen = accuracy_json(x);
                           of_unseen["seconds"] = r.unseen_seconds;
                           return of_unseen;
                         })}};
  for (const auto& e : r.epochs) {
    result["epochs"].push_back(
        {{"loss", e.loss}, {"seconds", e.seconds}, {"accuracy", or_null(e.accuracy, accuracy_json)}});
  }
  for (std::size_t k = 0; k < r.timeline.ranks.size(); ++k) {
    const auto& m = r.timeline.ranks[k].memory;
    result["memory"].push_back({{"bytes", (m.kept + m.arena).count()},
                                {"kept_bytes", m.kept.count()},
                                {"arena_bytes", m.arena.count()},
                                {"loaded_bytes", m.loaded.count()},
                                {"stored_bytes", m.stored.count()}});
    if (!r.planned.empty()) {
      result["memory"][k]["predicted_loaded_bytes"] = r.planned[k].loaded.count();
      result["memory"][k]["predicted_stored_bytes"] = r.planned[k].stored.count();
    }
  }
  for (const auto& p : r.parts) {
    result["partition"].push_back({{"begin", p.range.begin},
                                   {"end", p.range.end},
                                   {"predicted_s", p.seconds.predicted},
                                   {"measured_s", p.seconds.measured}});
  }
  return result;
}

// Losses, the ranges of vertices and the timeline of the last epoch.
void add_training(io::html_report& page, const vertex_job& j, const outcome& r) {
  page.paragraph(fmt::format("Accuracy: {:.4f} of training, {:.4f} of validation, {:.4f} of test vertices.",
                             r.accuracy.train, r.accuracy.validation, r.accuracy.test));
  io::line_chart losses{"epoch", "loss", {{"loss", {}}}};
  for (std::size_t s = 0; s < r.epochs.size(); ++s) {
    if (std::isfinite(r.epochs[s].loss)) {
      losses.lines[0].points.push_back({static_cast<double>(j.first + s), r.epochs[s].loss});
    }
  }
  page.heading("Losses");
  page.chart(losses);
  page.heading("Ranges of vertices");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t k = 0; k < r.parts.size(); ++k) {
    const auto& memory = r.timeline.ranks[k].memory;
    const auto& part = r.parts[k];
    rows.push_back({fmt::format("{}", k), fmt::format("{}", part.range.begin), fmt::format("{}", part.range.end),
                    fmt::format("{:.3f}", part.seconds.predicted * 1e3),
                    fmt::format("{:.3f}", part.seconds.measured * 1e3),
                    fmt::format("{:.3f}", static_cast<double>((memory.kept + memory.arena).count()) * 1e-6)});
  }
  page.table(std::vector<std::string>{"rank", "from", "to", "predicted, ms", "measured, ms", "memory, MB"}, rows);
  page.paragraph(fmt::format("Ranges changed {} times.", r.repartitions));
  if (!r.epochs.empty()) {
    page.heading("The last epoch");
    support::add_timeline(page, r.timeline, 0);
  }
}

std::string to_report(const vertex_flags& a, const vertex_job& j, const outcome& r, const further_results& more) {
  io::html_report page{fmt::format("{} on {}", a.model, a.graph)};
  page.paragraph(fmt::format("{} vertices, {} edges.", j.data.graph.vertices(), j.data.graph.edges()));
  if (!r.parts.empty()) {
    add_training(page, j, r);
  }
  if (more.simulated) {
    std::vector<io::chart_bar> epochs;
    for (const auto& d : more.simulated->divisions) {
      epochs.push_back({d.name, d.epoch * 1e3});
    }
    page.heading(fmt::format("An epoch on {}, simulated", more.simulated->machine));
    page.chart(epochs, "ms");
  }
  return page.text();
}
// After a run, on rank 0. Throws: unity::error if a file cannot be written, or, at the end, if losses differ from those
// of one rank.
void report(const vertex_flags& a, const tensor::algebra& operators, const vertex_job& j, int ranks, const char* comm,
            const outcome& r) {
  further_results more;
  if (a.epochs > 0 || j.before) {
    print_trained(a, j, r);
  }
  if (a.check) {
    more.error_of_losses = checked(a, operators, j, r);
    fmt::print("checked: losses differ from those of one rank by {:.3g} at most, relative\n", *more.error_of_losses);
  }
  if (!a.machine.empty()) {
    more.simulated = support::simulated(a, operators, j);
    print(*more.simulated);
  }
  std::vector<support::output> files;
  if (!a.trace.empty()) {
    files.push_back(
        {a.trace, {}, [&](const std::filesystem::path& path) { train::write_chrome_trace(r.timeline, path); }, {}});
  }
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", result_json(a, j, ranks, comm, r, more).dump(2)), {}, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, j, r, more)});
  }
  support::write_all(files);
  support::expect_same_losses(more.error_of_losses, most_error_of_losses, "one rank");
}

#ifdef UNITY_HAS_MPI
// All ranks train. Then MPI ends, so that no rank waits, and rank 0 checks and reports.
int run_as_rank(const vertex_flags& a, const tensor::algebra& operators) {
  int rank = 0;
  int ranks = 0;
  vertex_job j;
  outcome own;
  backend::mpi_options options;
  options.limit = support::patience;
  const int code = backend::run_mpi(
      [&](backend::mpi_communicator& world) {
        rank = world.rank();
        ranks = world.size();
        if (a.ranks > 0 && a.ranks != ranks) {
          throw error{"--ranks", fmt::format("{}", a.ranks), fmt::format("the {} of mpirun", ranks)};
        }
        support::prepare(a, static_cast<std::size_t>(ranks), j);
        if (rank == 0) {
          support::expect_writable(a);
        }
        own = support::with_communicator(a.backend, world,
                                         [&](auto& c) { return trained(a, operators, j, j.partition, c, true); });
      },
      options);
  if (code == 0 && rank == 0) {
    report(a, operators, j, ranks, a.backend == "cuda" ? "nccl" : "mpi", own);
  }
  return code;
}
#endif

// Without epochs there must be a checkpoint whose weights classify vertices, or a machine for a simulation.
void expect_epochs(const vertex_flags& a) {
  if (a.epochs > 0) {
    return;
  }
  if (a.check || !a.checkpoint.empty()) {
    throw error{"--epochs", "0", fmt::format("an epoch at least, for {}", a.check ? "--check" : "--checkpoint")};
  }
  if (a.resume.empty() && (a.machine.empty() || !a.unseen.empty())) {
    throw error{"--epochs", "0",
                a.unseen.empty() ? "an epoch at least, or --machine or --resume"
                                 : "an epoch at least, or --resume, for --unseen"};
  }
}

int run(const vertex_flags& a) {
  expect_epochs(a);
  static_cast<void>(support::host_rate_of(a));
  const auto operators = tensor::training_algebra();
#ifdef UNITY_HAS_MPI
  if (backend::started_as_rank()) {
    return run_as_rank(a, operators);
  }
#endif
  const auto ranks = std::max(a.ranks, 1);
  vertex_job j;
  support::prepare(a, static_cast<std::size_t>(ranks), j);
  support::expect_writable(a);
  outcome first;
  backend::run_local(ranks,
                     [&](backend::local_communicator& world) {
                       auto r = support::with_communicator(
                           a.backend, world, [&](auto& c) { return trained(a, operators, j, j.partition, c, true); });
                       if (world.rank() == 0) {
                         first = std::move(r);
                       }
                     },
                     {support::patience});
  report(a, operators, j, ranks, a.backend == "cuda" ? "nccl" : "local", first);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<vertex_flags>(
      "train_graph", "Trains a graph neural network on ranks.", argc, argv,
      [](CLI::App& app, vertex_flags& a) { support::declare(app, a); }, run);
}
