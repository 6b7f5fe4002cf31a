#include <unity/backend/nccl_communicator.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>

#include <unity/backend/local_communicator.hpp>
#include <unity/core/error.hpp>

#include "suite.hpp"

namespace tests_of_nccl_communicator {

using namespace unity::backend;

static_assert(communication_request<nccl_request>);
static_assert(splitting_communicator<nccl_communicator>);
static_assert(host_gathering_communicator<nccl_communicator>);
static_assert(!host_gathering_communicator<local_communicator>);

namespace {

class gpu_memory {
 public:
  explicit gpu_memory(const communication_suite::bytes& content) : buffer_{content.size()} {
    detail::check_cuda(cudaMemcpy(buffer_.data(), content.data(), content.size(), cudaMemcpyHostToDevice), "write");
  }
  [[nodiscard]] std::byte* data() { return buffer_.data(); }
  void read(communication_suite::bytes& to) const {
    detail::check_cuda(cudaMemcpy(to.data(), buffer_.data(), to.size(), cudaMemcpyDeviceToHost), "read");
  }

 private:
  detail::gpu_buffer buffer_;
};

}  // namespace

// Uses one rank per GPU, because NCCL requires a different GPU for each rank.
TEST_CASE("NCCL communicator operations match the reference with one rank per GPU") {
  const auto reason = why_no_nccl();
  if (!reason.empty()) {
    WARN("skipped: " << reason);
    return;
  }
  int gpus = 0;
  cudaGetDeviceCount(&gpus);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    if (ranks > gpus) {
      break;
    }
    run_local(ranks, [](local_communicator& host) {
      nccl_communicator c{host, host.rank()};
      communication_suite::suite<nccl_communicator, gpu_memory>{c, 1, "nccl"}.run(30);
    });
  }
}

TEST_CASE("an NCCL communicator for a nonexistent GPU throws an error") {
  auto host = make_local_communicators(1);
  std::string text;
  try {
    const nccl_communicator c{host[0], 1000};
  } catch (const unity::error& e) {
    text = e.what();
  }
  CHECK(text.starts_with("GPU 1000: "));
}

}  // namespace tests_of_nccl_communicator
