#include "cuda_device.hpp"

#include <utility>

#include <unity/backend/cuda.cuh>

namespace support {

namespace {

using unity::backend::cuda_backend;

template <class T>
std::unique_ptr<void, void (*)(void*)> own(T value) {
  return {new T{std::move(value)}, [](void* p) { delete static_cast<T*>(p); }};
}
template <class T, class Owned>
T& get(const Owned& o) {
  return *static_cast<T*>(o.get());
}

}  // namespace

cuda_device::cuda_device(const unity::tensor::algebra& operators, int device)
    : owned_{own(cuda_backend{operators, {.device = device}})} {}

unity::backend::device_description cuda_device::description() const { return get<cuda_backend>(owned_).description(); }

cuda_device::memory cuda_device::allocate(std::size_t bytes) {
  auto m = get<cuda_backend>(owned_).allocate(bytes);
  auto* data = m.data();
  return {own(std::move(m)), data, bytes};
}

cuda_device::kernel cuda_device::prepare(const unity::tensor::operation& op,
                                         std::span<const unity::tensor::tensor_type> inputs,
                                         std::span<const unity::tensor::tensor_type> outputs) {
  auto k = get<cuda_backend>(owned_).prepare(op, inputs, outputs);
  const auto workspace = k.workspace();
  return {own(std::move(k)), workspace};
}
cuda_device::kernel cuda_device::prepare_chain(const unity::tensor::tensor_graph& region) {
  auto k = get<cuda_backend>(owned_).prepare_chain(region);
  const auto workspace = k.workspace();
  return {own(std::move(k)), workspace};
}

void cuda_device::run(const kernel& k, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                      std::byte* work) {
  get<cuda_backend>(owned_).run(get<cuda_backend::kernel>(k.owned_), inputs, outputs, work);
}
void cuda_device::write(std::byte* to, std::span<const std::byte> from) { get<cuda_backend>(owned_).write(to, from); }
void cuda_device::read(std::span<std::byte> to, const std::byte* from) { get<cuda_backend>(owned_).read(to, from); }
void cuda_device::wait() { get<cuda_backend>(owned_).wait(); }

cuda_device::recording cuda_device::record(const std::function<void()>& f) {
  return recording{own(get<cuda_backend>(owned_).record(f))};
}
void cuda_device::replay(const recording& r) {
  get<cuda_backend>(owned_).replay(get<cuda_backend::recording>(r.owned_));
}
cuda_device::moment cuda_device::mark() { return moment{own(get<cuda_backend>(owned_).mark())}; }
double cuda_device::seconds(const moment& from, const moment& to) {
  return get<cuda_backend>(owned_).seconds(get<cuda_backend::moment>(from.owned_),
                                           get<cuda_backend::moment>(to.owned_));
}
std::size_t cuda_device::memory_size() const { return get<const cuda_backend>(owned_).memory_size(); }
bool cuda_device::multiplies(unity::tensor::dtype t) const { return get<const cuda_backend>(owned_).multiplies(t); }

}  // namespace support
