// expect: satisf[a-z ]+[^a-z]+host_communicator
// expect: satisf[a-z ]+[^a-z]+collective_communicator
// expect: c[.]all_reduce[(]in, out, count, type, op[)][^ ]* (is|would be) invalid
// A communicator without collectives cannot be calibrated.
#include <cstddef>
#include <span>

#include <unity/backend/calibration.hpp>

struct ranks {
  struct request {
    void wait();
    bool done();
  };
  static constexpr bool on_host = true;
  int rank() const;
  int size() const;
  void barrier();
  request send(int, std::span<const std::byte>, int);
  request receive(int, std::span<std::byte>, int);
};

auto calibrate(ranks& c) { return unity::backend::calibrate_link(c, "mine"); }
