#include <unity/backend/calibration.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <unity/backend/local_communicator.hpp>

namespace tests_of_link_calibration {

namespace {

using namespace unity;
using namespace unity::backend;

exchange_options quick() {
  exchange_options o;
  o.smallest = bytes{1024};
  o.largest = bytes{16384};
  o.volume = bytes{4096};
  o.least = 3;
  o.most = 4;
  return o;
}
std::vector<hardware::link> calibrated(int ranks) {
  std::vector<hardware::link> links(static_cast<std::size_t>(ranks));
  run_local(ranks, [&](local_communicator& c) {
    links[static_cast<std::size_t>(c.rank())] = calibrate_link(c, "local", quick());
  });
  return links;
}

TEST_CASE("link calibration gives every exchange kind a cost and is equal on all ranks") {
  const auto ranks = GENERATE(2, 3, 4);
  CAPTURE(ranks);
  const auto links = calibrated(ranks);
  CHECK(std::all_of(links.begin(), links.end(), [&](const auto& l) { return l == links[0]; }));
  CHECK(links[0].name == "local");
  CHECK(links[0].ranks == ranks);
  REQUIRE(links[0].costs.size() == hardware::exchange_names.size());
  for (const auto& [kind, ranges] : links[0].costs) {
    CAPTURE(hardware::exchange_names[static_cast<std::size_t>(kind)]);
    CHECK(ranges.back().up_to == hardware::cost_range::no_end);
    for (std::int64_t size = 1024; size <= 16384; size *= 2) {
      CHECK(hardware::exchange_seconds(ranges, bytes{size}) > 1e-9);
      CHECK(hardware::exchange_seconds(ranges, bytes{size}) < 10);
    }
    REQUIRE(links[0].intervals.contains(kind));
    CHECK(links[0].intervals.at(kind).low <= 1);
    CHECK(links[0].intervals.at(kind).high >= 1);
  }
}

TEST_CASE("link calibration gives no costs for a single rank") {
  const auto links = calibrated(1);
  CHECK(links[0].costs.empty());
  CHECK(links[0].ranks == 1);
}

// Ranks of which each only believes that it has company: what it asks for is written down.
struct call {
  std::string what;
  std::size_t bytes = 0;
  friend bool operator==(const call&, const call&) = default;
};
class lone_communicator {
 public:
  struct request {
    void wait() {}
    [[nodiscard]] bool done() const { return true; }
  };
  static constexpr bool on_host = true;
  [[nodiscard]] int rank() const { return 2; }
  [[nodiscard]] int size() const { return 4; }
  void barrier() {}
  request send(int, std::span<const std::byte>, int) { return note("send", 0); }
  request receive(int, std::span<std::byte>, int) { return note("receive", 0); }
  request all_reduce(const std::byte*, std::byte*, std::size_t count, tensor::dtype t, reduction) {
    return t == tensor::dtype::float64 ? request{} : note("all_reduce", 4 * count);
  }
  request reduce_scatter(const std::byte*, std::byte*, std::size_t count, tensor::dtype, reduction) {
    return note("reduce_scatter", 4 * count);
  }
  request all_gather(const std::byte*, std::byte*, std::size_t count, tensor::dtype) {
    return note("all_gather", 4 * count);
  }
  request broadcast(std::byte*, std::size_t count, tensor::dtype, int) { return note("broadcast", 4 * count); }
  request all_to_all(const std::byte*, std::byte*, std::size_t count, tensor::dtype) {
    return note("all_to_all", 4 * count);
  }

  std::vector<call> calls{};

 private:
  request note(const char* what, std::size_t bytes) {
    const call c{what, bytes};
    if (std::find(calls.begin(), calls.end(), c) == calls.end()) {
      calls.push_back(c);
    }
    return {};
  }
};
static_assert(host_communicator<lone_communicator>);

TEST_CASE("link calibration on 4 ranks uses whole or quarter vectors and no messages") {
  lone_communicator c;
  auto o = quick();
  o.largest = o.smallest;
  static_cast<void>(calibrate_link(c, "lone", o));
  CHECK(c.calls == std::vector<call>{{"all_reduce", 1024},
                                     {"reduce_scatter", 256},
                                     {"all_gather", 256},
                                     {"broadcast", 1024},
                                     {"all_to_all", 256}});
}

}  // namespace

}  // namespace tests_of_link_calibration
