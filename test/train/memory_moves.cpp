// A rank that moves values to the host trains as one that has memory for all of them.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/backend/cpu.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/placement/find_memory_plan.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/memory_moves.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>
#include <unity/train/value_places.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "runs.hpp"

namespace tests_of_memory_moves {

using namespace unity;
using train::test::operators;
using train::test::plan_for;

namespace {

constexpr std::uint64_t steps = 3;
constexpr std::uint64_t seed = 5;

// Planning options that are fast rather than good.
placement::memory_planning quick_planning() {
  placement::memory_planning planning;
  planning.program.alternatives = 1 << 14;
  planning.search.width = 8;
  planning.search.choices = 4;
  planning.search.work = 100'000;
  return planning;
}

struct training {
  std::vector<double> losses{};
  std::vector<std::vector<std::byte>> weights{};  // after the steps, by rank, concatenated
  bytes arena{};
  std::vector<train::moved_bytes> moved{};  // by step
  bool is_as_planned = false;               // whether arena and moves match the plan

  friend bool operator==(const training&, const training&) = default;
};

// The least arena, from the error of with_moves without memory.
std::int64_t least_arena(const parallel::rank_program& p, std::span<const std::size_t> workspaces) {
  const auto message = test::message_of(
      [&] { static_cast<void>(train::with_moves(operators(), p, workspaces, bytes{0}, quick_planning())); });
  const std::string before = "expected ";
  return std::stoll(message.substr(message.find(before) + before.size()));
}

// Trains on each rank. share: size of the arena, from 0, the rank's least, to 1, its size without moves; nothing:
// without moves.
template <class Backend>
std::vector<training> train_all(const parallel::plan& p, std::optional<double> share) {
  std::vector<training> all(p.machine.network.device_count());
  backend::run_local(static_cast<int>(all.size()), [&](backend::local_communicator& world) {
    Backend b{operators()};
    auto& own = all[static_cast<std::size_t>(world.rank())];
    train::memory_moves moves;
    bytes limit;
    const auto change = [&](const parallel::rank_program& program) {
      const auto workspaces = train::workspaces_of(b, operators(), program);
      const auto whole = train::memory_of_rank(operators(), program, p.updates, workspaces).arena.count();
      const auto least = least_arena(program, workspaces);
      limit = bytes{least + static_cast<std::int64_t>(*share * static_cast<double>(whole - least))};
      moves = train::with_moves(operators(), program, workspaces, limit, quick_planning());
      return moves.program;
    };
    train::trainer<Backend, backend::local_communicator> rank{
        b,
        operators(),
        p,
        world,
        {},
        seed,
        train::batches{operators(), p.graph, seed},
        share ? train::program_change{change} : train::program_change{}};
    for (std::uint64_t s = 0; s < steps; ++s) {
      own.losses.push_back(rank.step(s));
      own.moved.push_back(rank.executor().moved());
    }
    for (const auto& w : rank.executor().program().weights) {
      own.weights.emplace_back(rank.executor().size_of(w.weight.value));
      rank.executor().read(w.weight.value, own.weights.back());
    }
    own.arena = rank.executor().arena_size();
    own.is_as_planned = !share || (own.arena == moves.arena && own.arena <= limit &&
                                   own.moved == std::vector<train::moved_bytes>(steps, moves.moved));
  });
  return all;
}

// Returns the number of bytes stored at the least arena, summed over ranks.
template <class Backend>
std::int64_t check_model(const parallel::plan& model) {
  const auto p = train::with_loss(operators(), model, tensor::loss::mean_square);
  const auto expected = train_all<Backend>(p, std::nullopt);
  std::int64_t stored = 0;
  for (const auto share : {0.0, 0.3, 1.0}) {
    CAPTURE(share);
    const auto found = train_all<Backend>(p, share);
    for (std::size_t r = 0; r < expected.size(); ++r) {
      CAPTURE(r);
      CHECK(found[r].is_as_planned);
      CHECK(found[r].losses == expected[r].losses);
      CHECK(found[r].weights == expected[r].weights);
      CHECK(found[r].moved[0].loaded >= expected[r].moved[0].loaded);
      CHECK((share < 1 || found[r] == expected[r]));
      stored += share == 0 ? found[r].moved[0].stored.count() : 0;
    }
  }
  return stored;
}

// Dense layers, element-wise operators and reshapes on earlier values, several of which have many readers.
tensor::tensor_graph random_model(random_engine& random) {
  tensor::builder b{operators()};
  std::vector<value_id> values{b.input("x", {4, 6}), b.input("y", {4, 6})};
  const auto any = [&] { return values[random.below(values.size())]; };
  for (int i = 0; i < 12; ++i) {
    const auto x = any();
    switch (random.below(5)) {
      case 0: values.push_back(b.matmul(x, b.weight("w" + std::to_string(i), {6, 6}))); break;
      case 1: values.push_back(b.relu(x)); break;
      case 2: values.push_back(b.mul(x, any())); break;
      case 3: values.push_back(b.reshape(b.relu(b.reshape(x, {8, 3})), {4, 6})); break;
      default: values.push_back(b.add(x, any())); break;
    }
  }
  auto sum = b.matmul(values.back(), b.weight("last", {6, 6}));
  for (int i = 0; i < 4; ++i) {
    sum = b.add(sum, any());
  }
  return std::move(b).finish({sum});
}

}  // namespace

TEST_CASE("offloading moves keep losses and weights bitwise and match the plan on one rank") {
  CHECK(check_model<backend::reference_backend>(plan_for("zoo:lenet?batch=2", 1, "data")) > 0);
  CHECK(check_model<backend::reference_backend>(plan_for("zoo:mlp?layers=4&hidden=8&batch=16", 1, "data")) >= 0);
}

TEST_CASE("offloading moves keep losses and weights bitwise on communicating ranks") {
  const std::string model = GENERATE("zoo:lenet?batch=2", "zoo:mlp?layers=4&hidden=8&batch=16");
  const std::string parallelism = GENERATE("data", "model", "mixed");
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(model, parallelism);
  check_model<backend::reference_backend>(plan_for(model, 2, parallelism));
}

TEST_CASE("offloading moves keep losses and weights bitwise in a pipeline") {
  const auto whole = plan_for("zoo:mlp?layers=4&hidden=8&batch=16", 1, "data");
  CHECK(check_model<backend::reference_backend>(train::test::in_stages(whole, 2, 4, false)) >= 0);
}

TEST_CASE("offloading moves keep losses and weights bitwise on the cpu backend") {
  CHECK(check_model<backend::cpu_backend>(plan_for("zoo:lenet?batch=2", 1, "data")) > 0);
}

TEST_CASE("offloading moves keep losses and weights bitwise on random graphs") {
  for (std::uint64_t s = 0; s < unity::test::cases(8); ++s) {
    CAPTURE(s);
    random_engine random{s};
    const auto g = random_model(random);
    check_model<backend::reference_backend>(plan_for(g, 1 + s % 2, s % 4 < 2 ? "data" : "mixed"));
  }
}

TEST_CASE("planning moves refuses programs with delayed updates") {
  const auto whole = plan_for("zoo:mlp?layers=4&hidden=8&batch=16", 1, "data");
  const auto p = train::with_loss(operators(), train::test::in_stages(whole, 2, 4, true), tensor::loss::mean_square);
  const auto program = parallel::programs_of_ranks(operators(), p).ranks[0];
  const std::vector<std::size_t> none(program.steps.size());
  CHECK_THAT(test::message_of([&] { static_cast<void>(train::with_moves(operators(), program, none, bytes{1})); }),
             Catch::Contains("without delayed updates and stale servers"));
}

}  // namespace tests_of_memory_moves
