#include <unity/parallel/strategies/statement_program.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/message_of.hpp"

using namespace unity;
using parallel::statement_devices;

namespace {

struct subject {
  tensor::algebra operators = tensor::training_algebra();
  tensor::tensor_graph graph{};
  hardware::machine on{};
  parallel::plan_statement statement{};

  subject(const std::string& model, const std::string& plan, const std::string& machine)
      : on{hardware::preset(machine)}, statement{parallel::parse_plan_statement(plan)} {
    auto r = tensor::zoo::parse(model);
    r.values.batch = statement.micro;
    graph = tensor::converted(operators, r.chosen->build(operators, r.values), tensor::dtype::float32,
                              tensor::dtype::bfloat16);
  }

  [[nodiscard]] parallel::transformer_work work() const {
    return parallel::work_of(operators, graph, statement, parallel::analytic_durations(operators, on));
  }
  [[nodiscard]] parallel::statement_program program(statement_devices which) const {
    const parallel::task_times times{operators, parallel::analytic_durations(operators, on), parallel::optimizer::adam};
    return parallel::program_of(statement, on, work(), times, which);
  }
};

struct run {
  parallel::statement_program program;
  simulate::full_simulation simulation{};
  picoseconds iteration{};
  std::vector<bytes> peaks{};
  parallel::time_breakdown parts{};

  explicit run(parallel::statement_program p) : program{std::move(p)} {
    iteration = simulation.run(program.program);
    for (const auto& m : simulate::memory_profiles(program.program, simulation.times())) {
      peaks.push_back(m.peak);
    }
    parts = parallel::breakdown_of(program, simulation.times());
  }
};

constexpr const char* small_gpt = "zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=128";

run ran(const std::string& plan, const std::string& machine, statement_devices which, const char* model = small_gpt) {
  return run{subject{model, plan, machine}.program(which)};
}

std::string error_of(const std::string& plan, const std::string& machine, const char* model = small_gpt) {
  return test::message_of([&] {
    const subject x{model, plan, machine};
    static_cast<void>(x.program(statement_devices::one_of_each_stage));
  });
}

// A random statement that suits four layers and heads on eight devices.
std::string random_plan(random_engine& random) {
  const std::vector<std::int64_t> degrees{1, 2, 4, 8};
  const auto t = degrees[random.below(3)];
  auto p = degrees[random.below(3)];
  while (t * p > 8) {
    p /= 2;
  }
  const auto d = 8 / (t * p);
  const bool is_interleaved = p == 2 && random.below(2) == 0;
  const auto micro = static_cast<std::int64_t>(1 + random.below(2));
  const auto batch = d * micro * p * static_cast<std::int64_t>(1 + random.below(4));
  const auto zero = random.below(4);
  const bool is_divided = random.below(2) == 0;
  const bool is_overlapped = zero < 2 && random.below(2) == 0;
  return fmt::format("megatron:t={},p={},d={},micro={},batch={}{}{},zero={}{},recompute={}", t, p, d, micro, batch,
                     is_interleaved ? ",interleave=2" : "", is_divided ? ",sp" : "", zero,
                     is_overlapped ? ",overlap" : "", parallel::recomputed_part_names[random.below(3)]);
}

}  // namespace

TEST_CASE("one device per stage simulates like all devices for random statements") {
  const auto seed = Catch::rngSeed();
  CAPTURE(seed);
  random_engine random{seed};
  for (int i = 0; i < 32; ++i) {
    const auto plan = random_plan(random);
    const std::string machine = random.below(2) == 0   ? "dgx_a100_80:1x8"
                                : random.below(2) == 0 ? "dgx_a100_80:2x4"
                                                       : "p100:2x4";
    CAPTURE(plan, machine);
    const auto all = ran(plan, machine, statement_devices::all);
    const auto few = ran(plan, machine, statement_devices::one_of_each_stage);
    CHECK(few.iteration == all.iteration);
    CHECK(few.parts.bubble == Approx(all.parts.bubble).margin(1e-12));
    CHECK(few.parts.communication == Approx(all.parts.communication).margin(1e-12));
    const auto each = all.peaks.size() / few.peaks.size();
    for (std::size_t d = 0; d < all.peaks.size(); ++d) {
      CHECK(all.peaks[d] == few.peaks[d / each]);
    }
  }
}

TEST_CASE("the time breakdown of a statement adds up; its bubble matches the formula") {
  const auto of = [](const std::string& plan, const std::string& machine) {
    subject x{"zoo:gpt?layers=4&hidden=512&heads=8&seq=512&vocab=64", plan, machine};
    x.on.devices[0].collective_start_seconds = 0;  // so that devices wait for computation only
    return run{x.program(statement_devices::one_of_each_stage)};
  };
  const auto r = of("megatron:p=4,batch=8", "dgx_a100_80:1x4");
  const auto& b = r.parts;
  CHECK(b.compute + b.recompute + b.optimizer + b.communication + b.bubble ==
        Approx(to_seconds(r.iteration)).epsilon(1e-9));
  // The bubble is (p - 1) / m of the computing time: Narayanan et al., SC 2021, section 2.2.1
  CHECK(b.bubble == Approx(b.compute * 3 / 8).epsilon(0.2));
  const auto one = of("megatron:p=2,batch=8", "dgx_a100_80:1x2");
  const auto two = of("megatron:p=2,batch=8,interleave=2", "dgx_a100_80:1x2");
  CHECK(two.parts.bubble < 0.7 * one.parts.bubble);
}

TEST_CASE("a tensor-parallel device has its share of the weights and Megatron's collectives") {
  const auto count = [](const std::vector<parallel::work_step>& steps, hardware::exchange exchange) {
    std::size_t n = 0;
    for (const auto& s : steps) {
      n += s.kind == tasks::task_kind::transfer && s.exchange == exchange ? 1 : 0;
    }
    return n;
  };
  using hardware::exchange;
  const subject x{small_gpt, "megatron:t=2", "dgx_a100_80:1x2"};
  const auto w = x.work();
  REQUIRE(w.pieces.size() == 6);
  const auto& layer = w.pieces[2];
  CHECK(count(layer.forward, exchange::all_reduce) == 2);
  CHECK(count(layer.backward, exchange::all_reduce) == 2);
  const auto divided = subject{small_gpt, "megatron:t=2,sp", "dgx_a100_80:1x2"}.work();
  const auto& part = divided.pieces[2];
  CHECK(count(part.forward, exchange::reduce_scatter) == 2);
  CHECK(count(part.forward, exchange::all_gather) == 2);
  CHECK(count(part.backward, exchange::reduce_scatter) == 2);
  CHECK(count(part.backward, exchange::all_gather) == 2);
  CHECK(count(part.forward, exchange::all_reduce) == 0);
  CHECK(part.kept < layer.kept);
  CHECK(part.handed_on == bytes{layer.handed_on.count() / 2});
  const auto whole = subject{small_gpt, "megatron:", "dgx_a100_80:1x1"}.work();
  std::int64_t all = 0;
  std::int64_t own = 0;
  for (const auto& weight : whole.weights) {
    all += weight.elements;
  }
  for (const auto& weight : w.weights) {
    own += weight.elements;
  }
  CHECK(own > all / 2);
  CHECK(own < all * 6 / 10);
}

// Korthikanti et al., 2022, table 2, without dropout (whose masks are 3 a s / h + 2 of s b h) and with the outputs of
// gelu and softmax, all in two bytes: 8 + 28 / t + 4 a s / (h t) of s b h.
TEST_CASE("activations kept by a layer without dropout match the closed form") {
  constexpr std::int64_t a = 4;
  constexpr std::int64_t s = 32;
  constexpr std::int64_t h = 64;
  const auto kept = [](const std::string& plan, const std::string& machine) {
    return subject{small_gpt, plan, machine}.work().pieces[2].kept.count();
  };
  CHECK(kept("megatron:", "dgx_a100_80:1x1") == s * h * (8 + 24) + 2 * a * s * s);
  CHECK(kept("megatron:t=2", "dgx_a100_80:1x2") == s * h * (8 + 24 / 2) + 2 * a * s * s / 2);
  CHECK(kept("megatron:t=2,sp", "dgx_a100_80:1x2") == s * h * (8 + 24) / 2 + 2 * a * s * s / 2);
  CHECK(kept("megatron:t=2,recompute=selective", "dgx_a100_80:1x2") == s * h * (8 + 24 / 2));
  CHECK(kept("megatron:t=2,sp,recompute=full", "dgx_a100_80:1x2") == s * h * 2 / 2);
}

namespace {

bytes permanent(const run& r) {
  bytes sum{};
  for (const auto& b : r.program.program[tasks::fragment_id{0U}].buffers) {
    sum += b.permanent ? b.size : bytes{};
  }
  return sum;
}

// Weights of the small model: words, positions, layers of 12 h^2 + 13 h, final norm.
constexpr std::int64_t small_weights = 128 * 64 + 32 * 64 + 4 * (12 * 64 * 64 + 13 * 64) + 2 * 64;

// For each buffer of that size on a device: when it is held, and which task produces it.
struct held_span {
  std::int64_t start;
  std::int64_t end;
};
std::vector<held_span> spans_of(const run& r, bytes size) {
  const auto& fragment = r.program.program[tasks::fragment_id{0U}];
  const auto times = [&](const tasks::task_ref& t) {
    return r.simulation.times()[r.program.program.find(t.fragment, t.index).index()];
  };
  std::vector<held_span> all;
  for (std::uint32_t i = 0; i < fragment.buffers.size(); ++i) {
    if (fragment.buffers[i].permanent || fragment.buffers[i].size != size) {
      continue;
    }
    held_span s{times(fragment.buffers[i].producer).start, 0};
    for (const auto& read : fragment.reads) {
      s.end = read.of.index == i ? std::max(s.end, times(read.reader).end) : s.end;
    }
    all.push_back(s);
  }
  return all;
}

std::size_t most_at_once(const std::vector<held_span>& all) {
  std::size_t most = 0;
  for (const auto& s : all) {
    const auto at = [&](const auto& o) { return o.start <= s.start && s.start < o.end; };
    most = std::max(most, static_cast<std::size_t>(std::count_if(all.begin(), all.end(), at)));
  }
  return most;
}

// Bytes of exchanges, except those of single numbers.
std::int64_t moved(const run& r) {
  std::int64_t sum = 0;
  for (const auto& t : r.program.program[tasks::fragment_id{0U}].tasks) {
    sum += t.kind == tasks::task_kind::transfer && t.volume > bytes{4} ? t.volume.count() : 0;
  }
  return sum;
}

TEST_CASE("a statement of too many phases is refused before its program is made") {
  const subject x{small_gpt, "megatron:p=2,batch=1048576", "dgx_a100:1x2"};
  CHECK(test::message_of([&] { static_cast<void>(x.program(statement_devices::one_of_each_stage)); }) ==
        "plan: 1048576 micro-batches through 2 chunks of layers; expected 1048576 phases at most");
}

}  // namespace

// Source: Rajbhandari et al., ZeRO, SC 2020, section 5 and figure 1: each of N devices holds (2 + 2 + K) psi, 4 psi + K
// psi / N, 2 psi + (2 + K) psi / N, and (4 + K) psi / N bytes, with K = 12 for Adam. Gradients here are float32: 4
// bytes instead of the paper's 2.
TEST_CASE("permanent memory of statements with ZeRO matches the closed form") {
  constexpr auto psi = small_weights;
  constexpr std::int64_t n = 4;
  static_assert(psi % n == 0, "shares are equal");
  const auto held = [](int zero) {
    return permanent(ran(fmt::format("megatron:d=4,batch=8,zero={}", zero), "dgx_a100_80:1x4",
                         statement_devices::one_of_each_stage))
        .count();
  };
  CHECK(held(0) == (2 + 4 + 12) * psi);
  CHECK(held(1) == (2 + 4) * psi + 12 * psi / n);
  CHECK(held(2) == 2 * psi + (4 + 12) * psi / n);
  CHECK(held(3) == (2 + 4 + 12) * psi / n);
}

// Per micro-batch, stage 2 reduce-scatters all gradients; stage 3 also gathers all weights for each pass, the words
// once for each piece that reads them. After the step, stages 1 and 2 all-gather the new weights.
TEST_CASE("bytes exchanged by statements with ZeRO match the paper") {
  constexpr auto psi = small_weights;
  const auto of = [](int zero) {
    return moved(ran(fmt::format("megatron:d=4,micro=2,batch=24,zero={}", zero), "dgx_a100_80:1x4",
                     statement_devices::one_of_each_stage));
  };
  constexpr std::int64_t m = 3;
  CHECK(of(0) == 4 * psi);
  CHECK(of(1) == 4 * psi + 2 * psi);
  CHECK(of(2) == m * 4 * psi + 2 * psi);
  CHECK(of(3) == m * 4 * psi + m * 2 * 2 * (psi + 128 * 64));
}

TEST_CASE("ZeRO stage 3 gathers a layer's weights one layer ahead and drops them after use") {
  const std::string model = "zoo:gpt?layers=4&hidden=512&heads=8&seq=512&vocab=64";
  const auto of = [&](int zero) {
    return ran(fmt::format("megatron:d=2,micro=4,batch=16,zero={},recompute=full", zero), "dgx_a100_80:1x2",
               statement_devices::one_of_each_stage, model.c_str());
  };
  constexpr std::int64_t h = 512;
  constexpr std::int64_t weights = 12 * h * h + 13 * h;  // of a layer
  const auto three = of(3);
  const auto gathered = spans_of(three, bytes{2 * weights});
  CHECK(gathered.size() == 4 * 2 * 2);  // layers, passes, micro-batches
  CHECK(most_at_once(gathered) == 2);
  const auto gradients = spans_of(three, bytes{4 * weights});
  CHECK(gradients.size() == 4 * 2);
  CHECK(most_at_once(gradients) <= 2);
  CHECK(spans_of(of(2), bytes{2 * weights}).empty());
  CHECK(of(3).peaks[0] < of(2).peaks[0]);
  CHECK(of(2).peaks[0] < of(1).peaks[0]);
  // overlap hides all but the first gather of a pass, the last gradients and the exchanges after the step
  double all = 0;
  for (const auto& t : three.program.program[tasks::fragment_id{0U}].tasks) {
    all += t.kind == tasks::task_kind::transfer ? to_seconds(t.duration) : 0;
  }
  CHECK(three.parts.communication < all / 3);
  CHECK(of(2).parts.communication < all / 3);
}

TEST_CASE("optimizer steps wait for the norm of all gradients") {
  for (const std::string plan : {"megatron:t=2,p=2,d=2,batch=8", "megatron:t=2,p=2,d=2,batch=8,zero=3"}) {
    CAPTURE(plan);
    const auto r = ran(plan, "dgx_a100_80:2x4", statement_devices::one_of_each_stage);
    std::vector<std::int64_t> ends;    // of the norm
    std::vector<std::int64_t> before;  // by device: the end of its own last task before the norm
    std::vector<std::int64_t> steps;
    for (std::size_t f = 0; f < r.program.program.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      const auto& tasks = r.program.program[id].tasks;
      std::int64_t last = 0;
      for (std::uint32_t i = 0; i < tasks.size(); ++i) {
        const auto& times = r.simulation.times()[r.program.program.find(id, i).index()];
        if (tasks[i].kind == tasks::task_kind::transfer && tasks[i].volume == bytes{4}) {
          ends.push_back(times.end);
          before.push_back(last);
          CHECK(tasks[i].duration > picoseconds{0});
        } else if (tasks[i].kind == tasks::task_kind::update) {
          steps.push_back(times.start);
        }
        last = std::max(last, times.end);
      }
    }
    REQUIRE(ends.size() == 2);
    REQUIRE(steps.size() == 2);
    CHECK(steps[0] == steps[1]);
    CHECK(*std::min_element(ends.begin(), ends.end()) > *std::max_element(before.begin(), before.end()));
    CHECK(*std::min_element(steps.begin(), steps.end()) >= *std::max_element(ends.begin(), ends.end()));
  }
}

// The head of a wide vocabulary takes as long as several layers.
TEST_CASE("a last stage with fewer layers compensates for a wide vocabulary head") {
  const char* model = "zoo:gpt?layers=16&hidden=1024&heads=16&seq=128&vocab=65536";
  const auto of = [&](const std::string& plan, statement_devices which) {
    return ran("megatron:" + plan, "dgx_a100_80:1x8", which, model);
  };
  const auto one = statement_devices::one_of_each_stage;
  const auto equal = of("p=4,d=2,batch=32", one);
  const auto unequal = of("p=4,d=2,batch=32,first=4,last=2", one);
  CHECK(unequal.iteration < equal.iteration);
  CHECK(unequal.peaks[3] < equal.peaks[3]);
  CHECK(unequal.peaks[1] > equal.peaks[1]);
  // layers of 12 h^2 + 13 h weights; words and positions; words and final norm
  constexpr std::int64_t h = 1024;
  constexpr std::int64_t layer = 12 * h * h + 13 * h;
  CHECK(permanent(unequal).count() == (2 + 4 + 12) * (4 * layer + 65536 * h + 128 * h));
  CHECK(of("p=4,d=2,batch=32,first=4,last=4", one).iteration == equal.iteration);
  for (const std::string plan : {"t=2,p=2,d=2,batch=8,first=7,last=9,zero=3", "t=2,p=4,batch=8,first=3,last=3,sp",
                                 "p=4,d=2,batch=8,interleave=2,first=6,last=2,zero=1,overlap"}) {
    CAPTURE(plan);
    const auto all = of(plan, statement_devices::all);
    const auto few = of(plan, one);
    CHECK(few.iteration == all.iteration);
    const auto each = all.peaks.size() / few.peaks.size();
    for (std::size_t d = 0; d < all.peaks.size(); ++d) {
      CHECK(all.peaks[d] == few.peaks[d / each]);
    }
  }
}

// Large enough that the first stage has several buckets.
constexpr const char* wide_gpt = "zoo:gpt?layers=8&hidden=2048&heads=16&seq=512&vocab=8192";

// Sum of the first device's exchange times.
picoseconds exchanging(const run& r) {
  picoseconds sum{};
  for (const auto& t : r.program.program[tasks::fragment_id{0U}].tasks) {
    sum += t.kind == tasks::task_kind::transfer ? t.duration : picoseconds{};
  }
  return sum;
}

// Overlap adds an exchange start per bucket. If the tensor-parallel group's exchanges use the same link and little is
// hidden, these starts may lengthen an iteration.
TEST_CASE("overlapped gradient exchanges move as much and cost at most the bucket starts") {
  std::size_t faster = 0;
  for (const std::string plan :
       {"megatron:d=8,batch=32", "megatron:d=8,batch=8,zero=1", "megatron:d=8,batch=32,zero=1,recompute=full",
        "megatron:t=2,d=4,batch=16,sp,zero=1", "megatron:t=2,d=4,batch=16", "megatron:p=2,d=4,batch=16,zero=1",
        "megatron:p=4,d=2,batch=16", "megatron:p=2,d=4,batch=32,interleave=2,zero=1",
        "megatron:t=2,p=2,d=2,batch=8,interleave=4,zero=1", "megatron:t=4,p=2,batch=8",
        "megatron:t=8,batch=2,zero=1"}) {
    for (const std::string machine : {"dgx_a100_80:1x8", "dgx_a100_80:2x4", "p100:2x4"}) {
      if (plan.find("t=8") != std::string::npos && machine != "dgx_a100_80:1x8") {
        continue;
      }
      CAPTURE(plan, machine);
      const auto behind = ran(plan, machine, statement_devices::one_of_each_stage, wide_gpt);
      const auto beside = ran(plan + ",overlap", machine, statement_devices::one_of_each_stage, wide_gpt);
      CHECK(moved(beside) == moved(behind));
      CHECK(beside.peaks == behind.peaks);
      CHECK(beside.parts.compute == Approx(behind.parts.compute));
      const bool is_pipeline_on_one_link = plan == "megatron:t=2,p=2,d=2,batch=8,interleave=4,zero=1";
      if (is_pipeline_on_one_link) {  // other stages wait for the exchanges of one
        CHECK(to_seconds(beside.iteration) < 1.03 * to_seconds(behind.iteration));
      } else {
        CHECK(beside.iteration <= behind.iteration + (exchanging(beside) - exchanging(behind)));
      }
      faster += beside.iteration < behind.iteration ? 1 : 0;
      if (plan.find("t=") == std::string::npos) {  // no other exchanges contend
        CHECK(beside.iteration < behind.iteration);
      }
      if (plan.find("d=") == std::string::npos) {
        CHECK(beside.iteration == behind.iteration);
      }
    }
  }
  CHECK(faster >= 20);
}

TEST_CASE("one device per stage simulates like all devices with overlapping buckets") {
  for (const std::string plan :
       {"megatron:d=4,batch=8,zero=1,overlap", "megatron:t=2,d=2,batch=4,sp,zero=1,overlap",
        "megatron:p=2,d=2,batch=8,interleave=2,zero=1,overlap", "megatron:p=2,d=2,batch=4,overlap"}) {
    CAPTURE(plan);
    const auto all = ran(plan, "dgx_a100_80:2x2", statement_devices::all, wide_gpt);
    const auto few = ran(plan, "dgx_a100_80:2x2", statement_devices::one_of_each_stage, wide_gpt);
    CHECK(few.iteration == all.iteration);
    CHECK(few.parts.communication == Approx(all.parts.communication).margin(1e-12));
  }
}

// The exposed exchanges of one stage without tensor parallelism: the gather of the first bucket (the embedding), the
// reduction of that bucket, and the excess over passes that are too short.
TEST_CASE("long passes hide all gradient exchanges but the first gather and last reduction") {
  const auto r = ran("megatron:d=2,micro=64,batch=128,zero=1,overlap", "dgx_a100_80:1x2",
                     statement_devices::one_of_each_stage, wide_gpt);
  const auto& tasks = r.program.program[tasks::fragment_id{0U}].tasks;
  std::vector<double> exchanges;
  for (const auto& t : tasks) {
    if (t.kind == tasks::task_kind::transfer) {
      exchanges.push_back(to_seconds(t.duration));
    }
  }
  // buckets: eight layers of 50 million weights, and the embedding; then the norm of gradients
  REQUIRE(exchanges.size() == 9 + 9 + 1);
  const auto seen = exchanges[0] + exchanges[17] + exchanges[18];
  CHECK(r.parts.communication > 0.999 * seen);
  CHECK(r.parts.communication < seen + exchanges[1]);  // the first layer's gather outlasts the embedding's pass
}

// The tensor-parallel group replicates norms and biases: each device has a d-th of them, as in Megatron-LM's
// distributed optimizer, not a (t d)-th.
TEST_CASE("optimizer state is divided among the data-parallel groups only") {
  const auto r = ran("megatron:t=2,d=2,batch=4,zero=1", "dgx_a100_80:1x4", statement_devices::one_of_each_stage);
  constexpr std::int64_t h = 64;
  constexpr std::int64_t repeated =
      32 * h + 4 * (4 * h + 2 * h) + 2 * h;  // positions; norms, row-parallel biases; final norm
  constexpr std::int64_t own = (small_weights - repeated) / 2 + repeated;
  CHECK(permanent(r).count() == (2 + 4) * own + 12 * own / 2);
}

TEST_CASE("a statement that does not fit the model or machine gives a one-line error") {
  CHECK(error_of("megatron:t=2,p=2", "dgx_a100_80:1x8") ==
        "plan: t=2 times p=2 times d=1 are 4 devices; expected the 8 of the machine");
  CHECK(error_of("megatron:d=8,batch=12", "dgx_a100_80:1x8") ==
        "plan: batch=12; expected a multiple of d=8 times micro=1");
  CHECK(error_of("megatron:p=8", "dgx_a100_80:1x8") ==
        "plan: 4 layers for p=8 times interleave=1; expected a multiple of them");
  CHECK(error_of("megatron:t=8", "dgx_a100_80:1x8") == "plan: 4 heads for t=8; expected a multiple of t");
  CHECK(error_of("megatron:t=8", "dgx_a100_80:2x4", "zoo:gpt?layers=4&hidden=64&heads=8&seq=32&vocab=128") ==
        "plan: t=8 on nodes of 4 devices; expected a divisor of them");
  CHECK(error_of("megatron:d=2", "dgx_a100_80:1x2", "zoo:mlp?layers=2&hidden=64") ==
        "plan: a model without attention; expected a transformer");
}
