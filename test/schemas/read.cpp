// usage: test_schemas_read write FOLDER              machines, plans, strategies and weights with every member
//        test_schemas_read read machine|plan|weights|dataset FILE...
//                                                    "accepted", or what reading each FILE complains of, a line each
//        test_schemas_read read strategy PLAN FILE...  the same, for PLAN's graph and machine
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/dataset.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/io/strategy_json.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/sync_policies.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/divided_at_random.hpp"

namespace {

using namespace unity;

const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

hardware::machine measured_machine() {
  auto m = hardware::preset("p100:2x2");
  m.devices[0].versions = {{"driver", "1"}};
  m.devices[0].sources = {{"launch_s", "measured"}};
  m.network.set_reduces(hardware::vertex_id{m.network.device_count()});
  m.links.push_back({"local",
                     2,
                     {{hardware::exchange::all_reduce,
                       {{bytes{16384}, 3.1e-6, 2e-10}, {hardware::cost_range::no_end, 9e-6, 1.1e-10}}},
                      {hardware::exchange::message, {{hardware::cost_range::no_end, 1e-7, 0}}}},
                     {{hardware::exchange::message, {0.9, 1.25}}}});
  return m;
}

// All of it divided along results, sums and terms, with copies, on devices at random.
parallel::plan divided_plan(tensor::tensor_graph graph, std::uint64_t seed) {
  parallel::plan p{std::move(graph), {}, measured_machine()};
  random_engine random{seed};
  p.configurations =
      parallel::test::divided_at_random(p.graph, {operators(), p.graph}, p.machine.network.device_count(), random);
  return p;
}

// A product whose columns lie together.
tensor::tensor_graph column_major_product() {
  tensor::builder b{operators()};
  const auto product = b.matmul(b.input("x", {8, 4}), b.weight("w", {4, 6}));
  const auto plain = std::move(b).finish({product});
  tensor::tensor_graph g;
  for (const auto n : node_ids(plain)) {
    auto op = plain.operation(n);
    op.order = plain.operands(n).empty() ? tensor::layout::row_major : tensor::layout::column_major;
    std::vector<tensor::tensor_type> types;
    for (const auto v : plain.operands(n)) {
      types.push_back(plain.type(v));
    }
    g.add_node(op, plain.operands(n), operators().infer(op, types).value());
  }
  g.set_outputs(plain.outputs());
  return g;
}

// A weight in each way, and one in parts.
parallel::synchronization every_way(const parallel::plan& p) {
  using parallel::sync_kind;
  constexpr auto alone = parallel::synchronizer::no_bucket;
  const hardware::device_id server{std::size_t{1}};
  parallel::synchronization all;
  all.buckets = {"late"};
  all.weights.resize(parallel::training_graph{operators(), p.graph}.weights().size());
  all.weights.at(0).parts = {{sync_kind::all_reduce, 0, {}}};
  all.weights.at(1).parts = {{sync_kind::parameter_server, alone, server}};
  all.weights.at(2).parts = {
      {sync_kind::sharded, alone, {}}, {sync_kind::all_reduce, 0, {}}, {sync_kind::parameter_server, alone, server}};
  all.weights.at(3).parts = {{sync_kind::none, alone, {}}};
  auto gathered = parallel::sharded_by_stage(3);
  gathered.prefetch = 2;
  gathered.is_resharded = false;
  all.weights.at(2).parts.push_back(gathered);
  all.weights.at(4).parts = {gathered};
  all.weights.at(5).parts = {parallel::sharded_by_stage(2)};
  return all;
}

// What else can be said of them, of a weight and of parts of one.
parallel::synchronization every_message(const parallel::plan& p) {
  using parallel::sync_kind;
  const auto ring = [] {
    parallel::synchronizer s;
    s.algorithm = parallel::reduction_algorithm::ring;
    s.compressor = {parallel::compression::power_sgd, true, 2};
    return s;
  };
  const auto served = [](bool is_proxied, std::uint32_t staleness, bool is_per_node = false) {
    parallel::synchronizer s;
    s.kind = sync_kind::parameter_server;
    s.destination = hardware::device_id{std::size_t{1}};
    s.is_proxied = is_proxied;
    s.staleness = staleness;
    s.is_per_node = is_per_node;
    return s;
  };
  parallel::synchronizer sparse;
  sparse.is_sparse = true;
  const std::vector<std::vector<parallel::synchronizer>> ways{
      {ring()}, {served(false, 0)}, {served(true, 3, true)}, {ring(), served(false, 0, true), served(true, 1, true)}};
  const parallel::training_graph training{operators(), p.graph};
  parallel::synchronization all;
  std::size_t next = 0;
  for (const auto& w : training.weights()) {
    auto& own = all.weights.emplace_back();
    if (parallel::is_looked_up(operators(), p.graph, w)) {
      own.parts = {sparse};
    } else if (w.is_trained && next < ways.size()) {
      own.parts = ways[next++];
    }
  }
  return all;
}

// A table in two parts.
parallel::synchronization sparse_parts(const parallel::plan& p) {
  auto all = every_message(p);
  for (auto& w : all.weights) {
    w.parts.resize(w.parts.front().is_sparse ? 2 : w.parts.size(), w.parts.front());
  }
  return all;
}

io::plan_notes notes_for(const hardware::topology& t) {
  io::plan_notes n;
  n.substitutions = {{"merge_matmuls", 24}};
  n.parallel_substitutions = {{"matmul_over_k", {{"k", 2}}, false, true, 7},
                              {"combine_past_combine", {{"d", 1}, {"e", 0}}, true, true, {}},
                              {"lstm_cell over i", {{"k", 2}}, false, false, 3}};
  n.predicted = io::noted_prediction{0.0125, std::vector<bytes>(t.device_count(), bytes{1'000'000'000'000})};
  n.mesh = hardware::meshes_of(t, 2).back();
  return n;
}

// Four layers on two devices, each with two chunks of them.
parallel::plan interleaved_plan() {
  parallel::plan p;
  p.graph = tensor::zoo::build(operators(), "zoo:mlp?layers=4&hidden=8&batch=4");
  p.machine = hardware::preset("p100:1x2");
  const parallel::graph_dimensions all{operators(), p.graph};
  std::vector<parallel::strategy> on;  // by device
  std::size_t count = 0;
  for (std::size_t d = 0; d < 2; ++d) {
    on.push_back(parallel::replicated_data_parallel(all, std::vector<hardware::device_id>{hardware::device_id{d}}));
  }
  for (const auto n : node_ids(p.graph)) {
    count += p.graph.operands(n).empty() ? 0 : 1;
  }
  std::size_t before = 0;
  for (const auto n : node_ids(p.graph)) {
    p.configurations.push_back(on[4 * before / count % 2][n.index()]);
    before += p.graph.operands(n).empty() ? 0 : 1;
  }
  p.pipeline.microbatches = 2;
  p.pipeline.stages = {0, 1};
  p.pipeline.schedule = parallel::pipeline_schedule::interleaved;
  p.pipeline.chunks = 2;
  return p;
}

void write(const std::filesystem::path& folder) {
  io::write_machine(measured_machine(), folder / "machine.json");
  const std::vector<tensor::tensor_graph> graphs{
      tensor::zoo::build(operators(), "zoo:mlp?form=fig1"), tensor::zoo::build(operators(), "zoo:lenet?batch=8"),
      tensor::zoo::build(operators(), "zoo:rnnlm?seq=1&hidden=8&vocab=16"), column_major_product()};
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    auto p = divided_plan(graphs[k], k);
    const auto number = std::to_string(k);
    atomic_write(folder / ("strategy" + number + ".json"), io::to_strategy_text(operators(), p, "a model"));
    if (k == 0) {
      p.updates = parallel::optimizer::adam;
      p.pipeline = {4, std::vector<std::uint32_t>(p.machine.network.device_count()), true};
    }
    if (k == 1) {
      p.synchronization = every_way(p);
      p.recomputed = parallel::recomputation_but_every(p.graph, 3);
      p.offloaded = parallel::offloaded_results(operators(), p.graph, p.recomputed, false);
    }
    if (k == 2) {
      p.synchronization = sparse_parts(p);
      atomic_write(folder / "plan_parts.json", io::to_plan_text(operators(), p));
      p.synchronization = every_message(p);
    }
    atomic_write(folder / ("plan" + number + ".json"), io::to_plan_text(operators(), p, notes_for(p.machine.network)));
  }
  atomic_write(folder / "plan_interleaved.json", io::to_plan_text(operators(), interleaved_plan()));
  const std::vector<io::stored_tensor> tensors{{"w", "weight", tensor::dtype::float32, {2, 3}},
                                               {"w", "velocity", tensor::dtype::float32, {2, 3}},
                                               {"step", "weight", tensor::dtype::float64, {}}};
  io::weights_writer weights{folder / "weights.sealed",
                             {.graph = "90f3a1",
                              .step = 12,
                              .seed = 7,
                              .optimizer = parallel::optimizer::momentum,
                              .tensors = tensors,
                              .settings = {{"rate", 0.1}},
                              .loss = "cross_entropy",
                              .data = "synthetic"}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    weights.put(i, parallel::whole(tensors[i].dims), std::vector<std::byte>(tensors[i].byte_count()));
  }
  weights.commit();
}

template <class Read>
void report(const std::vector<std::string>& files, const Read& read) {
  for (const auto& file : files) {
    std::string verdict = "accepted";
    try {
      read(file);
    } catch (const error& e) {
      verdict = e.what();
    }
    std::printf("%s\n", verdict.c_str());
  }
}

void run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "write") {
    write(words[1]);
  } else if (words.size() >= 2 && words[0] == "read" && words[1] == "machine") {
    report({words.begin() + 2, words.end()},
           [](const std::string& file) { static_cast<void>(io::parse_machine(read_file(file), "")); });
  } else if (words.size() >= 2 && words[0] == "read" && words[1] == "plan") {
    report({words.begin() + 2, words.end()}, [](const std::string& file) {
      const auto text = read_file(file);
      static_cast<void>(io::parse_plan(operators(), text, ""));
      static_cast<void>(io::parse_plan_notes(text, ""));
    });
  } else if (words.size() >= 3 && words[0] == "read" && words[1] == "strategy") {
    const auto plan = io::read_plan(operators(), words[2]);
    report({words.begin() + 3, words.end()}, [&](const std::string& file) {
      static_cast<void>(io::parse_strategy(operators(), plan.graph, plan.machine, read_file(file), ""));
    });
  } else if (words.size() >= 2 && words[0] == "read" && words[1] == "weights") {
    report({words.begin() + 2, words.end()}, [](const std::string& file) { io::weights_reader{file}; });
  } else if (words.size() >= 2 && words[0] == "read" && words[1] == "dataset") {
    report({words.begin() + 2, words.end()}, [](const std::string& file) { io::dataset{file}; });
  } else {
    throw error{"arguments", "none that are known",
                "write FOLDER, or read machine|plan|strategy|weights|dataset FILE..."};
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "schemas_read: %s\n", e.what());
    return 1;
  }
}
