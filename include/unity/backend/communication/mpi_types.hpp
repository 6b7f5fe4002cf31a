// Element types and reductions in MPI.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include <unity/backend/communication/reduce.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

// Throws: unity::error with MPI's own message if a call failed.
inline void check_mpi(int code, std::string_view what) {
  if (code != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    throw error{what, std::string(text.data(), static_cast<std::size_t>(length)), "MPI_SUCCESS"};
  }
}

[[nodiscard]] inline int mpi_count(std::size_t count, std::string_view what) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (count > most) {
    throw error{what, fmt::format("{} elements", count), fmt::format("at most {} in one call of MPI", most)};
  }
  return static_cast<int>(count);
}

// MPI 3 has no 16-bit floats: they are sent as integers and reduced by our own operators.
[[nodiscard]] inline MPI_Datatype mpi_type(tensor::dtype type) noexcept {
  using tensor::dtype;
  switch (type) {
    case dtype::float32: return MPI_FLOAT;
    case dtype::float64: return MPI_DOUBLE;
    case dtype::float16:
    case dtype::bfloat16: return MPI_UINT16_T;
    case dtype::int64: return MPI_INT64_T;
    case dtype::int32: return MPI_INT32_T;
    case dtype::int8: return MPI_INT8_T;
    case dtype::uint8:
    case dtype::boolean: break;
  }
  return MPI_UINT8_T;
}

// Reduction operators for 16-bit floats. Each step of a reduction rounds once.
class mpi_operators {
 public:
  mpi_operators() {
    with<float16_element>(0);
    with<bfloat16_element>(4);
  }
  mpi_operators(const mpi_operators&) = delete;
  mpi_operators& operator=(const mpi_operators&) = delete;
  // Not in the destructor, which may run after MPI_Finalize.
  void free() noexcept {
    for (auto& op : half_) {
      MPI_Op_free(&op);
    }
  }

  [[nodiscard]] MPI_Op find(tensor::dtype type, reduction op) const noexcept {
    const auto index = static_cast<std::size_t>(op);
    switch (type) {
      case tensor::dtype::float16: return half_[index];
      case tensor::dtype::bfloat16: return half_[4 + index];
      case tensor::dtype::boolean:
        return op == reduction::sum || op == reduction::maximum ? MPI_MAX : MPI_MIN;  // of 0 and 1
      default: break;
    }
    switch (op) {
      case reduction::product: return MPI_PROD;
      case reduction::minimum: return MPI_MIN;
      case reduction::maximum: return MPI_MAX;
      case reduction::sum: break;
    }
    return MPI_SUM;
  }

 private:
  template <class Element, reduction Op>
  static void combine(void* in, void* inout, int* count, MPI_Datatype*) {
    const std::array<const std::byte*, 2> inputs{static_cast<const std::byte*>(in),
                                                 static_cast<const std::byte*>(inout)};
    const std::array<std::byte*, 1> outputs{static_cast<std::byte*>(inout)};
    reduce_elements<Element, Op>(inputs, 0, outputs, 0, static_cast<std::size_t>(*count));
  }
  template <class Element>
  void with(std::size_t first) {
    make(first, combine<Element, reduction::sum>);
    make(first + 1, combine<Element, reduction::product>);
    make(first + 2, combine<Element, reduction::minimum>);
    make(first + 3, combine<Element, reduction::maximum>);
  }
  void make(std::size_t at, MPI_User_function* function) {
    check_mpi(MPI_Op_create(function, 1, &half_[at]), "MPI_Op_create");
  }

  std::array<MPI_Op, 8> half_{};  // by type (float16, bfloat16) and reduction
};

}  // namespace unity::backend::detail
