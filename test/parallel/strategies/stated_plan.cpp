#include <unity/parallel/strategies/stated_plan.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/message_of.hpp"
#include "../../support/operators.hpp"
#include "../replicated_plan.hpp"
#include "../stated_training.hpp"

namespace tests_of_stated_plan {

namespace {

using namespace unity;
using unity::test::training::operators;

std::string complaint(const parallel::plan& p) {
  return unity::test::message_of([&] { static_cast<void>(parallel::statement_of(operators(), p)); });
}

std::string data_complaint(const parallel::plan& p) {
  return unity::test::message_of([&] { static_cast<void>(parallel::data_statement_of(operators(), p)); });
}

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

// The operator of that kind (on activations) after `skip` others.
std::size_t find(const parallel::plan& p, const char* kind, std::size_t skip = 0) {
  for (const auto n : node_ids(p.graph)) {
    if (p.graph.operation(n).kind == operators().kind(kind) && !parallel::detail::is_of_weights(p.graph, n) &&
        skip-- == 0) {
      return n.index();
    }
  }
  FAIL("no " << kind);
  return 0;
}

std::int64_t stage_of(const parallel::plan& p, std::size_t op) {
  return p.pipeline.stages[p.configurations[op].devices[0].index()];
}

// By stage: its number of layers, as Megatron-LM's flags define it. first, last: 0 if not stated.
std::vector<std::int64_t> layers_by_stage(std::int64_t layers, std::int64_t stages, std::int64_t first,
                                          std::int64_t last) {
  const auto others = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  std::vector<std::int64_t> all(static_cast<std::size_t>(stages), others > 0 ? (layers - first - last) / others : 0);
  all.front() = first > 0 ? first : all.front();
  all.back() = last > 0 ? last : all.back();
  return all;
}

// By layer: its stage. With several chunks, each has an equal share of every stage's layers.
std::vector<std::int64_t> stages_by_layer(const std::vector<std::int64_t>& layers, std::int64_t chunks) {
  std::vector<std::int64_t> all;
  for (std::int64_t c = 0; c < chunks; ++c) {
    for (std::size_t s = 0; s < layers.size(); ++s) {
      all.insert(all.end(), static_cast<std::size_t>(layers[s] / chunks), static_cast<std::int64_t>(s));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("statement_of recovers the statement that a plan follows") {
  for (const std::string text : {
           "megatron:t=1,p=1,d=4,micro=2,batch=8",
           "megatron:t=4,p=1,d=1,micro=2,batch=2",
           "megatron:t=2,p=1,d=2,micro=2,batch=4,sp",
           "megatron:t=2,p=1,d=2,micro=1,batch=2,zero=1,recompute=full",
           "megatron:t=2,p=2,d=2,micro=1,batch=8,recompute=selective",
           "megatron:t=1,p=2,d=2,micro=1,batch=8,interleave=2",
           "megatron:t=2,p=4,d=1,micro=1,batch=4,sp,recompute=full",
           "megatron:t=1,p=1,d=2,micro=2,batch=16,recompute=selective",
       }) {
    CAPTURE(text);
    auto p = parallel::test::stated_training(operators(), text, 4);
    p.updates = parallel::optimizer::adam;
    parallel::check(operators(), p);
    parallel::check(p.graph, p.configurations, p.pipeline, p.machine.network.device_count());
    const auto r = parallel::statement_of(operators(), p);
    CHECK(to_string(r.statement) == text);
    CHECK(r.layers == 4);
    CHECK(r.updates == parallel::optimizer::adam);
    CHECK(r.element == tensor::dtype::float32);
    CHECK_FALSE(r.are_stages_inside_data);
  }
}

TEST_CASE("statement_of recovers other layer counts of the first and last stage") {
  for (const std::string text : {
           "megatron:t=1,p=4,d=1,micro=1,batch=8,first=1,last=1",
           "megatron:t=2,p=4,d=1,micro=1,batch=4,last=3,sp",
           "megatron:t=1,p=4,d=2,micro=1,batch=8,first=3",
           "megatron:t=1,p=2,d=2,micro=1,batch=8,first=4,last=2",
           "megatron:t=1,p=2,d=1,micro=1,batch=8,interleave=2,first=2,last=4",
       }) {
    CAPTURE(text);
    const auto p = parallel::test::stated_training(operators(), text, 6);
    parallel::check(operators(), p);
    parallel::check(p.graph, p.configurations, p.pipeline, p.machine.network.device_count());
    CHECK(to_string(parallel::statement_of(operators(), p).statement) == text);
    const auto stated = parallel::parse_plan_statement(text);
    const auto layers = layers_by_stage(6, stated.pipeline, stated.first_layers, stated.last_layers);
    const auto stages = stages_by_layer(layers, stated.interleave);
    REQUIRE(stages.size() == 6);
    for (std::size_t l = 0; l < stages.size(); ++l) {
      CAPTURE(l);
      CHECK(stage_of(p, find(p, "gelu", l)) == stages[l]);  // each layer has one gelu
    }
  }
  // Moves a layer from the second of four stages to the third.
  auto p = parallel::test::stated_training(operators(), "megatron:t=1,p=4,d=1,micro=1,batch=8", 8);
  const auto gelu = find(p, "gelu", 2);
  const auto next = find(p, "gelu", 4);
  for (auto n = gelu + 1; n < next; ++n) {
    if (!p.configurations[n].devices.empty()) {
      p.configurations[n].devices[0] = hardware::device_id{std::size_t{2}};
    }
  }
  const auto layers = layers_by_stage(8, 4, 0, 0);
  const auto wanted = stages_by_layer(layers, 1);
  REQUIRE(wanted[2] == 1);
  REQUIRE(stage_of(p, gelu) == 1);
  REQUIRE(stage_of(p, find(p, "gelu", 3)) == 2);
  CHECK(has(complaint(p), fmt::format(": on stage 2; expected stage {} of 4, of {} layers on devices in turn, the "
                                      "embedding on the first and the head on the last",
                                      wanted[2], fmt::join(layers, ", "))));
}

// Flash attention is one operator: divided by heads, without a core to recompute.
TEST_CASE("statement_of recovers the statement of a plan with flash attention") {
  for (const std::string text : {
           "megatron:t=1,p=1,d=4,micro=2,batch=8",
           "megatron:t=4,p=1,d=1,micro=2,batch=2",
           "megatron:t=2,p=1,d=2,micro=2,batch=4,sp,zero=1",
           "megatron:t=2,p=2,d=2,micro=1,batch=8,sp,recompute=full",
           "megatron:t=1,p=2,d=2,micro=1,batch=8,interleave=2",
       }) {
    CAPTURE(text);
    const auto p = parallel::test::stated_training(operators(), text, 4, false, "flash");
    parallel::check(operators(), p);
    const auto attention = find(p, "dot_product_attention");
    const auto t = parallel::parse_plan_statement(text).tensor;
    const auto& degrees = p.configurations[attention].degrees;
    CHECK(std::count(degrees.begin(), degrees.end(), t) >= 1);
    const auto r = parallel::statement_of(operators(), p);
    CHECK(to_string(r.statement) == text);
    CHECK(r.layers == 4);
  }
  const std::string text = "megatron:t=2,p=1,d=2,micro=2,batch=4";
  auto p = parallel::test::stated_training(operators(), text, 2, false, "flash");
  const auto attention = find(p, "dot_product_attention", 1);
  auto& c = p.configurations[attention];
  const auto by_heads = fmt::format("{}", c);
  std::fill(c.degrees.begin(), c.degrees.end(), 1);
  c.degrees[0] = 4;  // samples only
  CHECK(has(complaint(p), fmt::format("operator {} (dot_product_attention): divided as {}; expected {}, as Megatron-LM",
                                      attention, c, by_heads)));
  p = parallel::test::stated_training(operators(), text, 2, false, "flash");
  p.recomputed[find(p, "gelu")] = true;  // one operator of one layer only
  CHECK(has(complaint(p), "its result is kept; expected recomputation of whole layers from their inputs"));
}

TEST_CASE("statement_of accepts stages within data-parallel groups and no other device order") {
  const std::string text = "megatron:t=2,p=2,d=2,micro=1,batch=8";
  auto p = parallel::test::stated_training(operators(), text, 2, true);
  const auto r = parallel::statement_of(operators(), p);
  CHECK(to_string(r.statement) == text);
  CHECK(r.are_stages_inside_data);
  std::swap(p.pipeline.stages[0], p.pipeline.stages[2]);
  for (auto& c : p.configurations) {
    for (auto& d : c.devices) {
      d = d.index() == 0 || d.index() == 2 ? hardware::device_id{std::size_t{2} - d.index()} : d;
    }
  }
  CHECK(has(complaint(p), "plan.pipeline: stages of devices in an order of their own"));
}

// Megatron divides the columns of a layer's first product and the rows of its second.
TEST_CASE("statement_of names a matmul that is divided in another way than Megatron-LM's") {
  const std::string text = "megatron:t=2,p=1,d=2,micro=2,batch=4";
  const auto good = parallel::test::stated_training(operators(), text, 2);
  const parallel::graph_dimensions all{operators(), good.graph};
  const auto wide = find(good, "gelu") - 3;  // the product in front of the bias
  REQUIRE(good.graph.operation(node_id{wide}).kind == operators().kind("matmul"));
  auto p = good;
  auto& c = p.configurations[wide];
  REQUIRE(c.degrees.back() == 2);
  c = {parallel::degree_list(c.degrees.size(), 1), c.devices, {}, {}, 1};
  c.degrees[0] = 4;
  CHECK(complaint(p) == "operator " + std::to_string(wide) +
                            " (matmul): divided as [4,1,1] on [0,1,2,3]; expected [2,1,2] on [0,1,2,3], as Megatron-LM "
                            "divides it for t=2, d=2");
  p = good;
  std::swap(p.configurations[wide].devices[0], p.configurations[wide].devices[3]);
  CHECK(has(complaint(p), "[2,1,2] on [3,1,2,0]; expected [2,1,2] on [0,1,2,3]"));
}

TEST_CASE("statement_of rejects a plan that no statement describes and names the place") {
  const auto p2 = parallel::test::stated_training(operators(), "megatron:t=1,p=2,d=2,micro=1,batch=8", 2);
  auto p = p2;
  p.pipeline.schedule = parallel::pipeline_schedule::gpipe;
  CHECK(complaint(p) == "plan.pipeline: schedule gpipe; expected one_forward_one_backward or interleaved");
  p = p2;
  p.pipeline.is_delayed = true;
  CHECK(has(complaint(p), "delayed updates"));
  p = parallel::test::stated_training(operators(), "megatron:t=1,p=1,d=2,micro=1,batch=2", 3);
  CHECK(complaint(p).empty());
  p.recomputed[find(p, "gelu")] = true;
  CHECK(has(complaint(p), "its result is kept; expected recomputation of whole layers from their inputs"));
  p = parallel::test::stated_training(operators(), "megatron:t=1,p=1,d=2,micro=1,batch=2,recompute=selective", 3);
  p.recomputed[find(p, "softmax", 1)] = false;
  CHECK(
      has(complaint(p), "(softmax): its result is kept; expected recomputation of each layer's attention core alone"));
  p = parallel::test::stated_training(operators(), "megatron:t=1,p=1,d=2,micro=1,batch=2,zero=1", 3);
  p.synchronization.weights[5].parts[0].stage = 2;
  CHECK(has(complaint(p), "stage 2 of ZeRO, where those before have 1; expected one stage for all weights"));
  p.synchronization.weights[5].parts[0].stage = 1;
  p.offloaded.resize(p.graph.node_count());
  p.offloaded[find(p, "gelu")] = true;
  CHECK(has(complaint(p), "plan.offloaded: results that wait on the host"));
  CHECK(has(complaint(parallel::test::replicated_plan(operators(), "zoo:mlp?batch=8", "p100:1x4")),
            "a model without attention"));
}

TEST_CASE("statement_of names an operator on another stage than its layer's") {
  auto p = parallel::test::stated_training(operators(), "megatron:t=1,p=2,d=1,micro=1,batch=4", 4);
  const auto gelu = find(p, "gelu", 1);  // the second layer, which is the first stage's last
  for (auto n = gelu; n < p.graph.node_count(); ++n) {
    if (!p.configurations[n].devices.empty()) {
      p.configurations[n].devices[0] = hardware::device_id{std::size_t{1}};
    }
  }
  CHECK(has(complaint(p),
            "operator " + std::to_string(gelu) +
                " (gelu): on stage 1; expected stage 0 of 2, of 2 layers each, the embedding on the first"));
}

TEST_CASE("data_statement_of gives the statement of a data-parallel lenet plan") {
  auto p = parallel::test::replicated_plan(operators(), "zoo:lenet?batch=8", "p100:1x4");
  const auto samples = parallel::data_statement_of(operators(), p).statement.batch;
  auto r = parallel::data_statement_of(operators(), p);
  CHECK(r.statement.data == 4);
  CHECK(r.statement.micro * 4 == samples);
  CHECK(r.statement.zero == 0);
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.resize(training.weights().size());
  for (auto& w : p.synchronization.weights) {
    w.parts[0].kind = parallel::sync_kind::sharded;
    w.parts[0].stage = 3;
  }
  p.pipeline.microbatches = 3;
  p.pipeline.stages.resize(4);
  r = parallel::data_statement_of(operators(), p);
  CHECK(r.statement.zero == 3);
  CHECK_FALSE(r.statement.is_overlapped);  // said of stages 0 and 1 alone
  CHECK(r.statement.batch == 3 * samples);
  CHECK(r.statement.microbatches() == 3);
  for (auto& w : p.synchronization.weights) {
    w.parts[0].stage = 1;
  }
  CHECK(parallel::data_statement_of(operators(), p).statement.overlaps_sums());
  for (auto& w : p.synchronization.weights) {
    w.parts[0].stage = 3;
    w.parts[0].is_resharded = false;
  }
  CHECK(has(data_complaint(p), "weights that wait for the backward pass; expected weights that are gathered again"));
}

TEST_CASE("data_statement_of names an operator or weight that is not data-parallel") {
  const auto good = parallel::test::replicated_plan(operators(), "zoo:mlp?layers=2&hidden=64&batch=8", "p100:1x4");
  auto p = good;
  const auto product = find(p, "linear", 1);
  p.configurations[product].degrees[0] = 1;
  p.configurations[product].degrees.back() = 4;
  CHECK(has(data_complaint(p), "(linear): divided as [1,4] on [0,1,2,3]; expected [4,1] on [0,1,2,3], a part of the"));
  p = good;
  const parallel::training_graph training{operators(), p.graph};
  p.synchronization.weights.resize(training.weights().size());
  auto& s = p.synchronization.weights[0].parts[0];
  s.kind = parallel::sync_kind::parameter_server;
  s.destination = hardware::device_id{std::size_t{0}};
  CHECK(has(data_complaint(p), "parameter_server; expected all_reduce or sharded, the whole weight"));
  p = good;
  p.recomputed.resize(p.graph.node_count());
  p.recomputed[product] = true;
  CHECK(has(data_complaint(p), "(linear): its result is computed again"));
  p = good;
  p.offloaded.resize(p.graph.node_count());
  p.offloaded[product] = true;
  CHECK(data_complaint(p) ==
        "plan.offloaded: results that wait on the host; expected none: statements have no word for it");
}

}  // namespace tests_of_stated_plan
