// Claim: all_reduce through unity takes at most 3% longer than the same MPI call made directly.
//
// all_reduce_now is compared with MPI_Allreduce, and all_reduce plus wait with MPI_Iallreduce plus MPI_Wait: same
// process, same memory, alternating in random order, medians. "again" times the direct call a second time; its
// deviation from 1 is the noise. "begun_over_blocking" is MPI alone: non-blocking call plus wait over the blocking
// call.
//
// mpirun -np 2 bench_mpi_overhead

#include <benchmark/benchmark.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/mpi_communicator.hpp>
#include <unity/core/random.hpp>

namespace {

using unity::backend::mpi_communicator;
using unity::backend::reduction;
using unity::tensor::dtype;

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

// Seconds per call, averaged over a batch that is long compared to the clock's resolution.
template <class Call>
double seconds(int batch, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < batch; ++i) {
    call();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / batch;
}

struct comparison {
  double direct = 0;
  double unity = 0;
  double again = 0;
};
template <class Direct, class Unity>
comparison compare(std::uint64_t seed, int turns, int batch, const Direct& direct, const Unity& unity) {
  std::array<std::vector<double>, 3> times;
  unity::random_engine random{seed};  // the same order on all ranks
  for (int i = 0; i < turns; ++i) {
    std::array<std::size_t, 3> order{0, 1, 2};
    std::swap(order[2], order[random.below(3)]);
    std::swap(order[1], order[random.below(2)]);
    seconds(batch, direct);  // warm-up, so that the first measurement is like the others
    for (const auto which : order) {
      times[which].push_back(which == 1 ? seconds(batch, unity) : seconds(batch, direct));
    }
  }
  return {median(times[0]), median(times[1]), median(times[2])};
}

// Reports the time of the direct, blocking call.
void all_reduce(benchmark::State& state, mpi_communicator& c, std::size_t bytes) {
  std::vector<float> in(bytes / 4, 1.0F);
  std::vector<float> out(bytes / 4);
  const auto* const from = std::as_bytes(std::span{in}).data();
  auto* const to = std::as_writable_bytes(std::span{out}).data();
  const int count = static_cast<int>(in.size());
  const int batch = bytes <= 4096 ? 200 : bytes <= 65536 ? 20 : 1;
  const int turns = bytes <= 65536 ? 301 : bytes <= std::size_t{1} << 20U ? 201 : 101;
  for (auto _ : state) {
    const auto now = compare(
        bytes, turns, batch, [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, c.native()); },
        [&] { c.all_reduce_now(from, to, in.size(), dtype::float32, reduction::sum); });
    const auto begun = compare(
        bytes, turns, batch,
        [&] {
          MPI_Request request = MPI_REQUEST_NULL;
          MPI_Iallreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, c.native(), &request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        },
        [&] { c.all_reduce(from, to, in.size(), dtype::float32, reduction::sum).wait(); });
    state.SetIterationTime(now.direct);
    state.counters["ratio"] = now.unity / now.direct;
    state.counters["again"] = now.again / now.direct;
    state.counters["begun_us"] = begun.direct * 1e6;
    state.counters["begun_ratio"] = begun.unity / begun.direct;
    state.counters["begun_again"] = begun.again / begun.direct;
    state.counters["begun_over_blocking"] = begun.direct / now.direct;
  }
  state.counters["target_ratio"] = 1.03;
}

// Reporter of all ranks but the first; the first reports the measurements of all.
class silent_reporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  return unity::backend::run_mpi([&](mpi_communicator& c) {
    for (std::size_t bytes = 4; bytes <= std::size_t{16} << 20U; bytes *= 4) {
      benchmark::RegisterBenchmark((fmt::format("all_reduce/{}", bytes)).c_str(),
                                   [&c, bytes](benchmark::State& s) { all_reduce(s, c, bytes); })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
    std::vector<char*> words{argv, argv + argc};
    if (c.rank() == 0) {
      benchmark::Initialize(&argc, argv);
      benchmark::RunSpecifiedBenchmarks();
    } else {  // same benchmarks as the first rank, but no output file
      std::erase_if(words, [](const char* word) { return std::string{word}.starts_with("--benchmark_out"); });
      int count = static_cast<int>(words.size());
      benchmark::Initialize(&count, words.data());
      silent_reporter nothing;
      benchmark::RunSpecifiedBenchmarks(&nothing);
    }
  });
}
