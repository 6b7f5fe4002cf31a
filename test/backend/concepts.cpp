// Minimal models of this room's concepts, and near misses for each.
#include <cstddef>
#include <optional>
#include <span>

#include <unity/backend/calibration.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace tests_of_concepts {

namespace {

using namespace unity;
using namespace unity::backend;

// ---- Devices ----

struct some_memory {
  std::byte* data();
  std::size_t size() const;
};
struct some_kernel {
  std::size_t workspace() const;
};
template <class Memory = some_memory, class Kernel = some_kernel>
struct some_device {
  using memory = Memory;
  using kernel = Kernel;
  device_description description() const;
  memory allocate(std::size_t);
  kernel prepare(const tensor::operation&, std::span<const tensor::tensor_type>, std::span<const tensor::tensor_type>);
  void run(const kernel&, std::span<const std::byte* const>, std::span<std::byte* const>, std::byte*);
  void write(std::byte*, std::span<const std::byte>);
  void read(std::span<std::byte>, const std::byte*);
  void wait();
};
static_assert(device_backend<some_device<>>);

struct kernel_without_workspace {};
struct memory_of_unknown_size {
  std::byte* data();
};
struct memory_that_stays : some_memory {
  memory_that_stays(memory_that_stays&&) = delete;
};
struct device_without_wait : some_device<> {
  void wait() = delete;
};
struct device_that_copies_from_itself_alone : some_device<> {
  void write(std::byte*, std::span<std::byte>);  // does not accept constant bytes
};
struct device_that_knows_addresses : some_device<> {  // prepare() takes addresses: a kernel would serve one node only
  kernel prepare(const tensor::operation&, std::span<const std::byte* const>, std::span<std::byte* const>);
};
struct device_of_unknown_name : some_device<> {
  const char* description() const;
};
static_assert(!device_backend<int>);
static_assert(!device_backend<some_device<some_memory, kernel_without_workspace>>);
static_assert(!device_backend<some_device<memory_of_unknown_size>>);
static_assert(!device_backend<some_device<memory_that_stays>>);
static_assert(!device_backend<device_without_wait>);
static_assert(!device_backend<device_that_copies_from_itself_alone>);
static_assert(!device_backend<device_that_knows_addresses>);
static_assert(!device_backend<device_of_unknown_name>);
// A minimal device models none of the refinements.
static_assert(!packing_backend<some_device<>> && !fusing_backend<some_device<>> && !recording_backend<some_device<>> &&
              !clocked_backend<some_device<>> && !accelerator_backend<some_device<>> &&
              !narrow_float_backend<some_device<>>);

struct packed_kernel : some_kernel {
  std::size_t packed_size(std::size_t) const;
};
struct packing_device : some_device<some_memory, packed_kernel> {
  void pack(const packed_kernel&, std::size_t, const std::byte*, std::byte*);
};
struct device_that_packs_of_unknown_size : some_device<> {
  void pack(const some_kernel&, std::size_t, const std::byte*, std::byte*);
};
static_assert(packing_backend<packing_device>);
static_assert(!packing_backend<some_device<some_memory, packed_kernel>>);
static_assert(!packing_backend<device_that_packs_of_unknown_size>);

struct fusing_device : some_device<> {
  some_kernel prepare_chain(const tensor::tensor_graph&);
};
struct device_that_fuses_in_place : some_device<> {
  some_kernel prepare_chain(tensor::tensor_graph&);  // takes a mutable graph
};
struct device_that_fuses_to_another_kernel : some_device<> {
  kernel_without_workspace prepare_chain(const tensor::tensor_graph&);
};
static_assert(fusing_backend<fusing_device>);
static_assert(!fusing_backend<device_that_fuses_in_place>);
static_assert(!fusing_backend<device_that_fuses_to_another_kernel>);

struct region_device : some_device<> {
  some_kernel prepare_region(const fusion::kernel_region&);
};
struct device_that_takes_regions_without_rows : some_device<> {
  some_kernel prepare_region(const tensor::tensor_graph&);
};
struct device_of_region_kernels : some_device<> {
  kernel_without_workspace prepare_region(const fusion::kernel_region&);
};
static_assert(region_backend<region_device>);
static_assert(!region_backend<some_device<>>);
static_assert(!region_backend<device_that_takes_regions_without_rows>);
static_assert(!region_backend<device_of_region_kernels>);

struct recording_device : some_device<> {
  struct recording {};
  template <class F>
  recording record(const F&);
  void replay(const recording&);
};
struct device_that_records_for_ever : some_device<> {
  struct recording {};
  template <class F>
  recording record(const F&);
};
struct device_that_replays_once : recording_device {
  void replay(recording&&);
};
static_assert(recording_backend<recording_device>);
static_assert(!recording_backend<device_that_records_for_ever>);
static_assert(!recording_backend<device_that_replays_once>);

struct clocked_device : some_device<> {
  using moment = int;
  moment mark();
  double seconds(moment, moment);
};
struct device_with_a_stopwatch : some_device<> {
  using moment = int;
  moment mark();
  double seconds();
};
struct device_without_marks : some_device<> {
  using moment = int;
  double seconds(moment, moment);
};
static_assert(clocked_backend<clocked_device>);
static_assert(!clocked_backend<device_with_a_stopwatch>);
static_assert(!clocked_backend<device_without_marks>);

struct accelerator : some_device<> {
  std::size_t memory_size() const;
};
struct accelerator_that_must_be_changed_to_say : some_device<> {
  std::size_t memory_size();
};
struct memory_alone {
  std::size_t memory_size() const;
};
static_assert(accelerator_backend<accelerator>);
static_assert(!accelerator_backend<accelerator_that_must_be_changed_to_say>);
static_assert(!accelerator_backend<memory_alone>);

struct narrow_device : some_device<> {
  bool multiplies(tensor::dtype) const;
};
struct device_that_multiplies_something : some_device<> {
  bool multiplies() const;
};
struct device_that_multiplies_in_silence : some_device<> {
  void multiplies(tensor::dtype) const;
};
static_assert(narrow_float_backend<narrow_device>);
static_assert(!narrow_float_backend<device_that_multiplies_something>);
static_assert(!narrow_float_backend<device_that_multiplies_in_silence>);

// ---- Ranks ----

struct some_request {
  void wait();
  bool done();
};
struct request_that_only_waits {
  void wait();
};
struct request_of_unknown_state {
  void wait();
  void done();
};
struct request_that_stays : some_request {
  request_that_stays(request_that_stays&&) = delete;
};
static_assert(communication_request<some_request>);
static_assert(!communication_request<request_that_only_waits>);
static_assert(!communication_request<request_of_unknown_state>);
static_assert(!communication_request<request_that_stays>);

template <class Request = some_request>
struct some_ranks {
  using request = Request;
  int rank() const;
  int size() const;
  void barrier();
  request send(int, std::span<const std::byte>, int);
  request receive(int, std::span<std::byte>, int);
};
// A point-to-point channel without ranks.
struct channel {
  using request = some_request;
  request send(std::span<const std::byte>, int);
  request receive(std::span<std::byte>, int);
};
struct ranks_that_send_and_wait : some_ranks<> {
  void send(int, std::span<const std::byte>, int);
};
struct ranks_that_send_without_tags : some_ranks<> {
  request send(int, std::span<const std::byte>);
};
static_assert(communicator<some_ranks<>>);
static_assert(!communicator<some_ranks<request_that_only_waits>>);
static_assert(!communicator<channel>);
static_assert(!communicator<ranks_that_send_and_wait>);
static_assert(!communicator<ranks_that_send_without_tags>);
static_assert(!collective_communicator<some_ranks<>> && !host_communicator<some_ranks<>> &&
              !host_gathering_communicator<some_ranks<>> && !splitting_communicator<some_ranks<>>);

struct collective_ranks : some_ranks<> {
  request all_reduce(const std::byte*, std::byte*, std::size_t, tensor::dtype, reduction);
  request reduce_scatter(const std::byte*, std::byte*, std::size_t, tensor::dtype, reduction);
  request all_gather(const std::byte*, std::byte*, std::size_t, tensor::dtype);
  request broadcast(std::byte*, std::size_t, tensor::dtype, int);
  request all_to_all(const std::byte*, std::byte*, std::size_t, tensor::dtype);
};
struct ranks_without_all_to_all : collective_ranks {
  request all_to_all(const std::byte*, std::byte*, std::size_t, tensor::dtype) = delete;
};
struct ranks_that_reduce_and_wait : collective_ranks {
  void all_reduce(const std::byte*, std::byte*, std::size_t, tensor::dtype, reduction);
};
struct ranks_that_spoil_operands : collective_ranks {
  request all_gather(std::byte*, std::byte*, std::size_t, tensor::dtype);
};
static_assert(collective_communicator<collective_ranks>);
static_assert(!collective_communicator<ranks_without_all_to_all>);
static_assert(!collective_communicator<ranks_that_reduce_and_wait>);
static_assert(!collective_communicator<ranks_that_spoil_operands>);
static_assert(!host_communicator<collective_ranks> && !blocking_communicator<collective_ranks>);

struct ranks_on_the_host : collective_ranks {
  static constexpr bool on_host = true;
};
struct ranks_on_gpus : collective_ranks {
  static constexpr bool on_host = false;
};
struct messengers_on_the_host : some_ranks<> {
  [[maybe_unused]] static constexpr bool on_host = true;
};
static_assert(host_communicator<ranks_on_the_host>);
static_assert(!host_communicator<ranks_on_gpus>);
static_assert(!host_communicator<messengers_on_the_host>);

struct ranks_that_gather : some_ranks<> {
  void gather_on_host(std::span<const std::byte>, std::span<std::byte>);
};
struct ranks_that_gather_one_kind : some_ranks<> {
  void gather_on_host(std::span<const int>, std::span<int>);
};
struct ranks_that_gather_in_place : some_ranks<> {
  void gather_on_host(std::span<std::byte>);
};
static_assert(host_gathering_communicator<ranks_that_gather>);
static_assert(!host_gathering_communicator<ranks_that_gather_one_kind>);
static_assert(!host_gathering_communicator<ranks_that_gather_in_place>);

struct blocking_ranks : collective_ranks {
  void all_reduce_now(const std::byte*, std::byte*, std::size_t, tensor::dtype, reduction);
};
struct ranks_that_block_alone : some_ranks<> {
  void all_reduce_now(const std::byte*, std::byte*, std::size_t, tensor::dtype, reduction);
};
struct ranks_that_only_add : collective_ranks {
  void all_reduce_now(const std::byte*, std::byte*, std::size_t, tensor::dtype);
};
static_assert(blocking_communicator<blocking_ranks>);
static_assert(!blocking_communicator<ranks_that_block_alone>);
static_assert(!blocking_communicator<ranks_that_only_add>);

struct splitting_ranks : some_ranks<> {
  std::optional<some_ranks<>> split(int);
};
struct ranks_always_in_a_group : some_ranks<> {
  some_ranks<> split(int);  // cannot express that a rank is in no group
};
struct ranks_that_split_in_halves : some_ranks<> {
  std::optional<some_ranks<>> split();
};
static_assert(splitting_communicator<splitting_ranks>);
static_assert(!splitting_communicator<ranks_always_in_a_group>);
static_assert(!splitting_communicator<ranks_that_split_in_halves>);

}  // namespace

}  // namespace tests_of_concepts
