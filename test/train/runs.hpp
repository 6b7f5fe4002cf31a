// Plans of small models, and runs of them on threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/id.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/delivered_outputs.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategy.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/tensor/zoo.hpp>
#include <unity/train/trainer.hpp>

namespace unity::train::test {

inline const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

// In double precision. how: "data", "model", or "mixed", which is the one for every second operator and the other for the rest.
inline parallel::plan plan_for(const tensor::tensor_graph& g, std::size_t devices, std::string_view how) {
  parallel::plan p;
  p.graph = parallel::with_delivered_outputs(operators(), tensor::converted(operators(), g, tensor::dtype::float32, tensor::dtype::float64));
  p.machine = machine::preset("p100:1x" + std::to_string(devices));
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto data = parallel::data_parallel(all, p.machine.network);
  const auto model = parallel::model_parallel(operators(), p.graph, all, p.machine.network);
  for (std::size_t n = 0; n < data.size(); ++n) {
    const bool is_last = n + 1 == data.size();
    p.configurations.push_back(how == "data" || (how == "mixed" && (n % 2 == 0 || is_last)) ? data[n] : model[n]);
  }
  return p;
}
inline parallel::plan plan_for(const std::string& model, std::size_t devices, std::string_view how) {
  return plan_for(tensor::zoo::build(operators(), model), devices, how);
}

using reference_trainer = trainer<backend::reference_backend, backend::local_communicator>;

// f(rank, communicator) on a thread per rank; p: with a loss.
template <class F>
void on_threads(const parallel::plan& p, const update_rule& rule, std::uint64_t seed, const batches& data, const F& f) {
  backend::run_local(static_cast<int>(p.machine.network.device_count()), [&](backend::local_communicator& world) {
    backend::reference_backend b{operators()};
    reference_trainer rank{b, operators(), p, world, rule, seed, data};
    f(rank, world);
  });
}

}  // namespace unity::train::test
