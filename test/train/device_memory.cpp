// Training on devices with their own memory, whose kernels and messages run asynchronously: stand-ins for a GPU and for
// NCCL that execute everything as late as they may.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/sample_values.hpp>
#include <unity/parallel/strategies/loss_strategy.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>

#include "../support/cases.hpp"
#include "runs.hpp"

namespace tests_of_device_memory {

using namespace unity;
using train::test::operators;
using train::test::plan_for;

namespace {

// A backend whose kernels run only when somebody waits for them.
class late_backend {
 public:
  using memory = backend::reference_backend::memory;
  using kernel = backend::reference_backend::kernel;

  explicit late_backend(const tensor::algebra& a) : device_{a} {}

  [[nodiscard]] backend::device_description description() const { return device_.description(); }
  [[nodiscard]] memory allocate(std::size_t bytes) { return device_.allocate(bytes); }
  [[nodiscard]] kernel prepare(const tensor::operation& op, std::span<const tensor::tensor_type> in,
                               std::span<const tensor::tensor_type> out) {
    return device_.prepare(op, in, out);
  }
  [[nodiscard]] kernel prepare_chain(const tensor::tensor_graph& region) { return device_.prepare_chain(region); }
  void run(const kernel& k, std::span<const std::byte* const> in, std::span<std::byte* const> out, std::byte* work) {
    begun_.push_back([this, &k, from = std::vector<const std::byte*>(in.begin(), in.end()),
                      to = std::vector<std::byte*>(out.begin(), out.end()), work] { device_.run(k, from, to, work); });
  }
  void write(std::byte* to, std::span<const std::byte> from) {
    wait();
    device_.write(to, from);
  }
  void read(std::span<std::byte> to, const std::byte* from) {
    wait();
    device_.read(to, from);
  }
  void wait() {
    for (const auto& f : std::exchange(begun_, {})) {
      f();
    }
    device_.wait();
  }

 private:
  backend::reference_backend device_;
  std::vector<std::function<void()>> begun_{};
};
static_assert(backend::fusing_backend<late_backend>);

// Messages that have begun run, as a group and in order, when one of them is queried; the next group runs when that
// one has ended.
class message_queue {
 public:
  using begin = std::function<backend::local_request()>;
  struct group {
    std::vector<begin> begun{};
    std::vector<backend::local_request> under_way{};
    bool has_ended = false;
  };

  std::shared_ptr<group> add(begin f) {
    if (!open_) {
      open_ = std::make_shared<group>();
    }
    open_->begun.push_back(std::move(f));
    return open_;
  }
  void submit_messages() {
    if (open_) {
      groups_.push_back(std::exchange(open_, nullptr));
    }
  }
  void go_on() {
    while (!groups_.empty()) {
      auto& first = *groups_.front();
      for (const auto& f : std::exchange(first.begun, {})) {
        first.under_way.push_back(f());
      }
      for (auto& r : first.under_way) {
        if (!r.done()) {
          return;
        }
      }
      first.has_ended = true;
      groups_.pop_front();
    }
  }

 private:
  std::shared_ptr<group> open_{};
  std::deque<std::shared_ptr<group>> groups_{};
};

class late_request {
 public:
  late_request(std::shared_ptr<message_queue> q, std::shared_ptr<message_queue::group> g)
      : queue_{std::move(q)}, group_{std::move(g)} {}
  late_request(std::shared_ptr<message_queue> q, backend::local_request sum)
      : queue_{std::move(q)}, sum_{std::move(sum)} {}

  bool done() {
    if (!group_) {
      queue_->go_on();
      return sum_->done();
    }
    queue_->submit_messages();
    queue_->go_on();
    return group_->has_ended;
  }
  void wait() {
    while (!done()) {
      std::this_thread::yield();
    }
  }

 private:
  std::shared_ptr<message_queue> queue_;
  std::shared_ptr<message_queue::group> group_{};
  std::optional<backend::local_request> sum_{};
};

class late_communicator {
 public:
  using request = late_request;

  explicit late_communicator(backend::local_communicator& c)
      : owned_{c.split(0)}, queue_{std::make_shared<message_queue>()} {}

  [[nodiscard]] int rank() const { return owned_->rank(); }
  [[nodiscard]] int size() const { return owned_->size(); }
  void barrier() { owned_->barrier(); }
  // Ignores tags, on which the order of messages must not depend.
  request send(int to, std::span<const std::byte> bytes, int) {
    return {queue_, queue_->add([this, to, bytes] { return owned_->send(to, bytes, 0); })};
  }
  request receive(int from, std::span<std::byte> bytes, int) {
    return {queue_, queue_->add([this, from, bytes] { return owned_->receive(from, bytes, 0); })};
  }
  request all_reduce(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type,
                     backend::reduction op) {
    return {queue_, owned_->all_reduce(in, out, count, type, op)};
  }
  request reduce_scatter(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type,
                         backend::reduction op) {
    return {queue_, owned_->reduce_scatter(in, out, count, type, op)};
  }
  request all_gather(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    return {queue_, owned_->all_gather(in, out, count, type)};
  }
  request broadcast(std::byte* data, std::size_t count, tensor::dtype type, int root) {
    return {queue_, owned_->broadcast(data, count, type, root)};
  }
  request all_to_all(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    return {queue_, owned_->all_to_all(in, out, count, type)};
  }
  void gather_on_host(std::span<const std::byte> in, std::span<std::byte> out) {
    owned_->all_gather(in.data(), out.data(), in.size(), tensor::dtype::uint8).wait();
  }
  std::optional<late_communicator> split(int color) {
    auto part = owned_->split(color);
    return part ? std::optional{late_communicator{std::move(*part), queue_}} : std::nullopt;
  }

 private:
  // Shares one queue with the whole communicator: nothing tells whether sums or messages come first, so each advances
  // the other.
  late_communicator(backend::local_communicator c, std::shared_ptr<message_queue> q)
      : owned_{std::move(c)}, queue_{std::move(q)} {}

  std::optional<backend::local_communicator> owned_;
  std::shared_ptr<message_queue> queue_;
};
static_assert(backend::splitting_communicator<late_communicator> &&
              backend::host_gathering_communicator<late_communicator>);
static_assert(backend::collective_communicator<late_communicator> && !backend::host_communicator<late_communicator>);

constexpr std::uint64_t seed = 3;
constexpr std::uint64_t steps = 4;
const train::update_rule rule{parallel::optimizer::adam, 0.01};

// Losses of rank 0; make(communicator) makes the device's communicator.
template <class Backend, class Make>
std::vector<double> losses_of(const parallel::plan& p, const Make& make) {
  std::vector<double> losses;
  backend::run_local(static_cast<int>(p.machine.network.device_count()), [&](backend::local_communicator& host) {
    decltype(auto) world = make(host);
    Backend b{operators()};
    train::trainer rank{b, operators(), p, world, rule, seed};
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto loss = rank.step(s);
      if (host.rank() == 0) {
        losses.push_back(loss);
      }
    }
  });
  return losses;
}
std::vector<double> late_losses(const parallel::plan& p) {
  return losses_of<late_backend>(p, [](backend::local_communicator& c) { return late_communicator{c}; });
}
std::vector<double> prompt_losses(const parallel::plan& p) {
  return losses_of<backend::reference_backend>(
      p, [](backend::local_communicator& c) -> backend::local_communicator& { return c; });
}

// A chain with one stage per device.
parallel::plan in_stages(const parallel::plan& whole, std::size_t stages, std::int64_t microbatches) {
  auto p = plan_for("zoo:mlp?layers=4&hidden=8&batch=8", stages, "data");
  p.graph =
      parallel::microbatch(operators(), whole.graph, parallel::graph_dimensions{operators(), whole.graph}, microbatches)
          .value();
  p.pipeline.microbatches = microbatches;
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations.clear();
  for (const auto n : node_ids(p.graph)) {
    const auto& o = all[n];
    const hardware::device_id device{n.index() * stages / p.graph.node_count()};
    p.configurations.push_back(
        o.inputs.empty() ? parallel::configuration{}
                         : parallel::configuration{parallel::degree_list(o.divisible.size(), 1), {device}, {}, {}, 1});
  }
  for (std::size_t d = 0; d < stages; ++d) {
    p.pipeline.stages.push_back(static_cast<std::uint32_t>(d));
  }
  return p;
}

}  // namespace

TEST_CASE("deferred kernels and messages give the losses of immediate ones") {
  const auto* model =
      GENERATE("zoo:mlp?layers=3&hidden=8&batch=8", "zoo:lenet?batch=8", "zoo:dlrm?form=ae&batch=8&hidden=8&vocab=20",
               "zoo:gpt?layers=1&hidden=16&heads=4&seq=4&vocab=20&batch=8");
  const auto* parallelism = GENERATE("mixed", "data", "model");
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(model, parallelism);
  const auto p = train::with_loss(operators(), plan_for(model, 4, parallelism), tensor::loss::mean_square);
  CHECK(late_losses(p) == prompt_losses(p));
}

TEST_CASE("deferred kernels and messages give the losses of immediate ones in pipelines") {
  const auto stages = GENERATE(std::size_t{2}, std::size_t{4});
  const auto microbatches = GENERATE(std::int64_t{2}, std::int64_t{4}, std::int64_t{8});
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(stages, microbatches);
  const auto whole = plan_for("zoo:mlp?layers=4&hidden=8&batch=8", 1, "data");
  auto p = train::with_loss(operators(), in_stages(whole, stages, microbatches), tensor::loss::mean_square);
  CHECK(late_losses(p) == prompt_losses(p));
  if (microbatches >= static_cast<std::int64_t>(stages)) {
    p.pipeline.is_delayed = true;
    CHECK_THROWS_WITH(late_losses(p), Catch::Contains("delayed updates, on ranks whose memory is not the host's"));
  }
}

}  // namespace tests_of_device_memory
