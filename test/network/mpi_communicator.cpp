// The communication suite on the ranks that mpirun started.
// usage: mpirun -np N test_mpi_communicator [seed]
#include <unity/backend/mpi_communicator.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../backend/communication/suite.hpp"

using namespace unity::backend;

static_assert(communication_request<mpi_request>);
static_assert(host_communicator<mpi_communicator>);
static_assert(splitting_communicator<mpi_communicator>);
static_assert(blocking_communicator<mpi_communicator>);
static_assert(!std::copyable<mpi_communicator> && !std::copyable<mpi_request>);

namespace {

// No call into the communicator between begin and done: the watch moves the data.
void moves_data_while_computing(mpi_communicator& c) {
  std::vector<float> data(1'000'000, 1.0F);
  auto* const bytes = std::as_writable_bytes(std::span{data}).data();
  auto request = c.all_reduce(bytes, bytes, data.size(), unity::tensor::dtype::float32, reduction::sum);
  std::this_thread::sleep_for(std::chrono::seconds{3});  // stands for computation
  communication_suite::check(request.done(), "not done, though there was time");
  const auto sum = static_cast<float>(c.size());
  communication_suite::check(data.front() == sum && data.back() == sum, "wrong sum");
}

void refuses_ranks_that_there_are_not(mpi_communicator& c) {
  std::string complaint;
  try {
    auto too_far = c.send(c.size(), {}, 0);
  } catch (const unity::error& e) {
    complaint = e.what();
  }
  const auto size = std::to_string(c.size());
  communication_suite::check(complaint == "send: rank " + size + "; expected one below " + size, "'" + complaint + "'");
}

void refuses_messages_of_another_length(mpi_communicator& c) {
  std::string complaint;
  std::vector<std::byte> data(40);
  auto sending = c.send(c.rank(), std::span{data}.first(36), 1);
  try {
    c.receive(c.rank(), data, 1).wait();
  } catch (const unity::error& e) {
    complaint = e.what();
  }
  communication_suite::check(complaint == "receive: a message of 36 bytes; expected 40", "'" + complaint + "'");
}

// What a few ranks choose for a sum of their own is not in force where all of them make a communicator.
void divides_after_sums_of_a_few(mpi_communicator& c) {
  auto few = c.split(c.rank() < 2 ? 0 : -1);
  if (few) {
    const std::vector<float> data(10'000, 1.0F);
    std::vector<float> sums(data.size());
    few->all_reduce(std::as_bytes(std::span{data}).data(), std::as_writable_bytes(std::span{sums}).data(), data.size(),
                    unity::tensor::dtype::float32, reduction::sum)
        .wait();
    communication_suite::check(sums.back() == static_cast<float>(few->size()), "wrong sum");
  }
  const auto all = c.split(0);
  communication_suite::check(all && all->size() == c.size(), "not all ranks in one group");
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  return run_mpi([&](mpi_communicator& c) {
    communication_suite::suite{c, seed, "mpi"}.run(60);
    moves_data_while_computing(c);
    refuses_ranks_that_there_are_not(c);
    refuses_messages_of_another_length(c);
    divides_after_sums_of_a_few(c);
    c.barrier();
    if (c.rank() == 0) {
      std::printf("passed on %d ranks, seed %llu\n", c.size(), static_cast<unsigned long long>(seed));
    }
  });
}
