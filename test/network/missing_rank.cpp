// A program whose rank 1 goes wrong in one of several ways, for missing_rank.sh.
// usage: mpirun -np N test_missing_rank HOW WHERE LIMIT_MS START_LIMIT_MS
#include <unity/backend/mpi_communicator.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/core/hash.hpp>

using namespace unity::backend;
using unity::tensor::dtype;

namespace {

void go_wrong(const std::string& fault) {
  if (fault == "killed") {
    std::raise(SIGKILL);
  } else if (fault == "stopped") {
    std::raise(SIGSTOP);
  } else if (fault == "exits") {
    std::_Exit(3);
  } else if (fault == "throws") {
    throw std::runtime_error{"out\nof luck"};
  } else if (fault == "throws_number") {
    throw 42;
  } else if (fault == "slow") {
    std::this_thread::sleep_for(std::chrono::seconds{10});  // longer than a rank may be silent
  } else {
    std::this_thread::sleep_for(std::chrono::minutes{2});  // late
  }
}

// Ends the process where it lives for longer than a call that waits for nobody.
class prompt_call {
 public:
  ~prompt_call() {
    if (std::chrono::steady_clock::now() - start_ > std::chrono::seconds{1}) {
      std::fputs("done() has waited\n", stderr);
      std::_Exit(1);
    }
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void run(mpi_communicator& c, const std::string& fault, const std::string& where) {
  std::vector<std::byte> data(400);
  c.all_reduce(data.data(), data.data(), 100, dtype::float32, reduction::sum).wait();
  if (where == "agree") {
    agree(c, unity::fingerprint{c.rank() == 1 ? 2U : 1U, 0}, "the plan");
    return;
  }
  if (where == "deadlock") {
    c.receive((c.rank() + 1) % c.size(), data, 0).wait();
    return;
  }
  if (where.starts_with("leaves")) {
    if (c.rank() != 1) {
      c.receive(1, data, 0).wait();
    }
    return;
  }
  if (where == "begun") {
    // Too large to be there at once: what the others send finds the memory of rank 1 gone.
    std::vector<std::byte> large(std::size_t{16} << 20U);
    auto request = c.all_reduce(large.data(), large.data(), large.size(), dtype::uint8, reduction::sum);
    if (c.rank() == 1) {
      go_wrong(fault);
    }
    request.wait();
    return;
  }
  // Ranks 0 and 1, and the rest, which waits for rank 0.
  auto group = where == "group" ? c.split(c.rank() < 2 ? 0 : 1) : std::optional<mpi_communicator>{};
  if (c.rank() == 1) {
    go_wrong(fault);
  }
  if (where == "group" && c.rank() < 2) {
    group->barrier();
  } else if (where == "now") {
    c.all_reduce_now(data.data(), data.data(), 100, dtype::float32, reduction::sum);
  } else if (where == "done") {
    auto request = c.all_gather(data.data(), std::vector<std::byte>(data.size() * 8).data(), 0, dtype::float32);
    const auto done = [&] {
      const prompt_call call;
      return request.done();
    };
    while (!done()) {
    }
  } else if (where == "receive" && c.rank() == 0) {
    c.receive(1, data, 0).wait();
  } else if (where == "split") {
    c.split(0);
  }
  c.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: test_missing_rank HOW WHERE LIMIT_MS START_LIMIT_MS\n", stderr);
    return 2;
  }
  mpi_options options{std::chrono::milliseconds{std::atoi(argv[3])}, std::chrono::milliseconds{std::atoi(argv[4])}};
  options.program = unity::hasher{}.add(unity::hash_bytes(argv[2])).result();
  if (argv[2] == std::string{"finalize"}) {
    mpi_environment mpi{options};
    mpi.finish();
    if (mpi.world().rank() == 1) {
      go_wrong(argv[1]);
    }
    return 0;
  }
  int rank = 0;
  const int code = run_mpi(
      [&](mpi_communicator& c) {
        rank = c.rank();
        run(c, argv[1], argv[2]);
      },
      options);
  if (argv[2] == std::string{"leaves_alone"} && rank != 1) {
    // Rank 1, which had ended before the others failed, has time to say what it exits with.
    std::this_thread::sleep_for(std::chrono::seconds{3});
    return 0;
  }
  if (code != 0) {
    std::fprintf(stderr, "exit %d\n", code);
  }
  return code;
}
