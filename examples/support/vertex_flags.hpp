// The flags of `train_graph`.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <unity/systems/roc/vertex_model.hpp>
#include <unity/train/update.hpp>

#include "backend_names.hpp"
#include "graphs.hpp"
#include "machines.hpp"
#include "number_range.hpp"

namespace support {

struct vertex_flags {
  std::string graph{};
  std::string folder{};
  std::string model = "gcn";
  unity::systems::vertex_model shape{};
  std::string element = "float32";
  std::uint64_t epochs = 200;
  int ranks = 0;
  std::string backend = "reference";
  std::string partition = "learned";
  std::uint64_t repartition = 10;
  std::uint64_t evaluate = 0;
  double rate = 0.01;
  double decay = 0;
  std::uint64_t seed = 1;
  drawn_vertices drawn{};
  bool raw_features = false;
  std::string unseen{};
  std::string machine{};
  std::string memory{};   // a size
  std::string offload{};  // a rate
  std::string checkpoint{};
  std::uint64_t every = 0;
  std::string resume{};
  bool check = false;
  std::string json{};
  std::string trace{};
  std::string report{};
};

inline void declare(CLI::App& app, vertex_flags& a) {
  app.add_option("GRAPH", a.graph, graph_names)->required();
  app.add_option("--data", a.folder, "folder of GRAPH and of --unseen");
  app.add_option("--model", a.model, "kind of layer")
      ->check(CLI::IsMember(std::vector<std::string>(unity::systems::vertex_layer_names.begin(),
                                                     unity::systems::vertex_layer_names.end())))
      ->capture_default_str();
  app.add_option("--layers", a.shape.layers, "number of layers")->check(number_in(1, 1000))->capture_default_str();
  app.add_option("--hidden", a.shape.hidden, "hidden size; for gat, per head")
      ->check(number_in(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--heads", a.shape.heads, "attention heads of gat, in all layers but the last")
      ->check(number_in(1, 1024))
      ->capture_default_str();
  app.add_option("--dropout", a.shape.dropout, "dropout rate of layer inputs")
      ->check(number_in(0.0, 1 - 0x1.0p-24))
      ->capture_default_str();
  app.add_option("--drawn", a.shape.drawn, "average number of vertices that fastgcn samples per layer")
      ->check(number_in(1.0, 1e18))
      ->capture_default_str();
  app.add_option("--element", a.element, "element type of features and weights")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->capture_default_str();
  app.add_option(
         "--epochs", a.epochs,
         "epochs, including those of the resumed run; 0: only simulate --machine, or classify with the weights of "
         "--resume")
      ->check(number_in(0, 100'000'000))
      ->capture_default_str();
  app.add_option("--ranks", a.ranks,
                 "number of ranks, each with a range of vertices; under mpirun as many as it started")
      ->check(number_in(1, 4096));
  const auto backends = rank_backends();
  a.backend = backends.front();
  app.add_option("--backend", a.backend, "backend that runs operators")->check(CLI::IsMember(backends));
  std::vector<std::string> partitions{"learned", "equal_vertices", "equal_edges"};
#ifdef UNITY_HAS_METIS
  partitions.emplace_back("metis");
#endif
  app.add_option("--partition", a.partition,
                 "how vertices are divided; learned: into ranges of equal measured cost, starting from equal_edges")
      ->check(CLI::IsMember(partitions))
      ->capture_default_str();
  app.add_option("--repartition-every", a.repartition, "epochs between changes of learned ranges")
      ->check(number_in(1, 100'000'000))
      ->capture_default_str();
  app.add_option("--evaluate-every", a.evaluate, "epochs between evaluations; default: only at the end")
      ->check(number_in(1, 100'000'000));
  app.add_option("--rate", a.rate, "learning rate of Adam")->check(number_in(0.0, 1e308))->capture_default_str();
  app.add_option("--decay", a.decay, "weight decay of the first layer")
      ->check(number_in(0.0, 1e308))
      ->capture_default_str();
  app.add_option("--seed", a.seed, "random seed of initial weights, dropout, samples and generated graphs")
      ->check(number_from(std::uint64_t{0}))
      ->capture_default_str();
  app.add_option("--features", a.drawn.features, "random feature columns for a graph without data")
      ->check(number_in(std::size_t{1}, std::size_t{1} << 20U))
      ->capture_default_str();
  app.add_option("--classes", a.drawn.classes, "random classes for a graph without data")
      ->check(number_in(2, 1 << 20))
      ->capture_default_str();
  app.add_flag("--raw-features", a.raw_features, "do not normalize the features of a vertex to sum 1");
  app.add_option("--unseen", a.unseen, "another graph to classify at the end");
  app.add_option("--machine", a.machine,
                 "also simulate an epoch on this machine, each device with a range of vertices: " + machine_help());
  app.add_option(
      "--memory", a.memory,
      "memory limit of each rank, without weights and optimizer state: 100MB, 2GiB; values that do not fit are "
      "offloaded to the host");
  app.add_option("--offload", a.offload,
                 "bandwidth between a device of --machine and its host for offloading, such as 12GB/s");
  auto* const checkpoint =
      app.add_option("--checkpoint", a.checkpoint, "file for weights and optimizer state, written at the end");
  app.add_option("--every", a.every, "epochs between further checkpoints")
      ->check(number_in(1, 100'000'000))
      ->needs(checkpoint);
  app.add_option("--resume", a.resume,
                 "checkpoint to continue from, of any number of ranks; with --epochs 0 its weights classify");
  app.add_flag("--check", a.check, "also train on one rank, and fail if losses differ by more than 1e-5, relative");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--trace", a.trace, "file for a Perfetto trace of the last epoch");
  app.add_option("--report", a.report, "file for an HTML report: losses, ranges of vertices, the last epoch");
  app.parse_complete_callback([&app, &a] {
    const auto refuse = [&](const char* flag, bool has_effect, const char* where) {
      if (app.count(flag) > 0 && !has_effect) {
        throw CLI::ValidationError{flag, std::string{"has an effect with "} + where + " alone"};
      }
    };
    refuse("--heads", a.model == "gat", "--model gat");
    refuse("--heads", a.shape.layers > 1, "--layers 2 or more");
    refuse("--drawn", a.model == "fastgcn", "--model fastgcn");
    const bool mixes = a.model == "gin" || a.model == "sage_max";  // a layer has a hidden size of its own
    refuse("--hidden", a.shape.layers > 1 || mixes, "--layers 2 or more, --model gin or sage_max");
    refuse("--trace", a.epochs > 0, "an epoch at least");
    refuse("--evaluate-every", a.epochs > 0, "an epoch at least");
    refuse("--repartition-every", a.epochs > 0, "an epoch at least");
    refuse("--repartition-every", a.partition == "learned", "--partition learned");
    const bool reads = !names_generator(a.graph) || (!a.unseen.empty() && !names_generator(a.unseen));
    refuse("--data", reads, "a graph in a file");
    const bool draws = draws_vertices(a.graph) || draws_vertices(a.unseen);
    refuse("--features", draws, "a graph without data");
    refuse("--classes", draws, "a graph without data");
  });
}

}  // namespace support
