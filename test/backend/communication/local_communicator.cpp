#include <unity/backend/local_communicator.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/core/random.hpp>

#include "../../support/cases.hpp"
#include "suite.hpp"

namespace tests_of_local_communicator {

using namespace unity::backend;
using unity::tensor::dtype;
using namespace std::chrono_literals;

static_assert(communication_request<local_request>);
static_assert(host_communicator<local_communicator>);
static_assert(splitting_communicator<local_communicator>);
static_assert(!blocking_communicator<local_communicator>);
static_assert(!std::copyable<local_communicator> && !std::copyable<local_request>);

namespace {

using clock_type = std::chrono::steady_clock;

// By rank, the message of the exception that f throws ("": none); and the time until all ranks ended.
struct outcome {
  std::vector<std::string> lines;
  double seconds = 0;
};
template <class F>
outcome outcomes(int ranks, std::chrono::milliseconds limit, const F& f) {
  outcome result{std::vector<std::string>(static_cast<std::size_t>(ranks)), 0};
  const auto start = clock_type::now();
  {
    std::vector<std::thread> threads;
    for (auto& c : make_local_communicators(ranks, {limit})) {
      threads.emplace_back([&, c = std::move(c)]() mutable {
        auto own = std::move(c);
        auto& line = result.lines[static_cast<std::size_t>(own.rank())];
        try {
          f(own);
        } catch (const std::exception& e) {
          line = e.what();
        }
      });
    }
    for (auto& t : threads) {
      t.join();
    }
  }
  result.seconds = std::chrono::duration<double>(clock_type::now() - start).count();
  return result;
}

std::byte* data_of(std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); }

void exchange_what_the_oracle_says(int ranks, bool progress, int cases) {
  const auto seed = Catch::rngSeed() + static_cast<std::uint64_t>(ranks);
  INFO("seed " << seed << ", " << ranks << " ranks");
  run_local(ranks, [&](local_communicator& c) { communication_suite::suite{c, seed, "local"}.run(cases); },
            {60s, progress});
}

}  // namespace

TEST_CASE("local communicator operations match the reference on up to 8 ranks", "[exhaustive]") {
  const auto ranks = GENERATE(1, 2, 3, 4, 8);
  exchange_what_the_oracle_says(ranks, GENERATE(true, false), 30);
}

TEST_CASE("local communicator operations match the reference on 3 ranks") {
  const bool progress = GENERATE(true, false);
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  exchange_what_the_oracle_says(3, progress, static_cast<int>(unity::test::cases(3)));
}

TEST_CASE("a local all-reduce sums in rank order regardless of arrival order") {
  constexpr std::size_t count = 100'000;
  std::vector<std::vector<float>> in(4, std::vector<float>(count));
  unity::random_engine random{11};
  for (auto& v : in) {
    for (auto& x : v) {
      x = static_cast<float>(random.unit() - 0.5);
    }
  }
  std::vector<float> wanted = in[0];
  for (std::size_t r = 1; r < in.size(); ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      wanted[i] += in[r][i];
    }
  }
  for (int last = 0; last < 4; ++last) {
    run_local(4, [&](local_communicator& c) {
      const auto own = static_cast<std::size_t>(c.rank());
      std::this_thread::sleep_for(c.rank() == last ? 10ms : 0ms);
      std::vector<float> out(count);
      c.all_reduce(data_of(in[own]), data_of(out), count, dtype::float32, reduction::sum).wait();
      communication_suite::check(out == wanted, "rank " + std::to_string(own) + " has another sum");
    });
  }
}

TEST_CASE("a local all-reduce progresses without calls into the communicator") {
  run_local(3, [](local_communicator& c) {
    std::vector<float> data(3'000'000, 1.0F);
    auto request = c.all_reduce(data_of(data), data_of(data), data.size(), dtype::float32, reduction::sum);
    std::this_thread::sleep_for(2s);  // stands for computation: no call into the communicator
    // done() performs at most one of the operation's 184 units of work.
    communication_suite::check(request.done(), "not done, though there was time");
    communication_suite::check(data.front() == 3 && data.back() == 3, "wrong sum");
  });
}

TEST_CASE("a rank missing from an all-reduce after the time limit is named on all ranks") {
  const auto got = outcomes(4, 200ms, [](local_communicator& c) {
    std::vector<float> data(10);
    if (c.rank() == 2) {
      std::this_thread::sleep_for(600ms);
    }
    c.all_reduce(data_of(data), data_of(data), data.size(), dtype::float32, reduction::sum).wait();
  });
  for (const auto& line : got.lines) {
    CHECK(line == "rank 2: did not come to all_reduce of 10 float32 (sum); expected it within 200 ms");
  }
  CHECK(got.seconds < 5);
}

TEST_CASE("polling a receive names the absent sender after the time limit") {
  const auto got = outcomes(2, 100ms, [](local_communicator& c) {
    std::vector<float> data(10);
    if (c.rank() == 1) {
      std::this_thread::sleep_for(400ms);
      return;
    }
    auto request = c.receive(1, std::as_writable_bytes(std::span{data}), 4);
    while (!request.done()) {
    }
  });
  CHECK(got.lines[0] == "rank 1: did not come to message of 40 uint8; expected it within 100 ms");
}

TEST_CASE("a rank that leaves before a barrier is named at once") {
  const auto got = outcomes(3, 60s, [](local_communicator& c) {
    if (c.rank() != 1) {
      c.barrier();
    }
  });
  CHECK(got.lines[0] == "rank 1: has left; expected it to come to barrier");
  CHECK(got.lines[1].empty());
  CHECK(got.lines[2] == got.lines[0]);
  CHECK(got.seconds < 5);
}

TEST_CASE("a failing rank stops the other ranks in all groups and its own error is rethrown") {
  const auto start = clock_type::now();
  std::atomic<int> named = 0;
  CHECK_THROWS_WITH(run_local(4,
                              [&](local_communicator& c) {
                                auto part = c.split(c.rank() / 2);
                                try {
                                  if (c.rank() == 3) {
                                    throw std::runtime_error{"out of luck"};
                                  }
                                  part->barrier();
                                  c.barrier();
                                } catch (const unity::error& e) {
                                  named += std::string{e.what()}.starts_with("rank 3: ") ? 1 : 0;
                                  throw;
                                }
                              }),
                    "out of luck");
  CHECK(named == 3);
  CHECK(clock_type::now() - start < 5s);
}

TEST_CASE("the failing rank's error is rethrown even if other ranks notice the failure first") {
  struct slow {
    ~slow() { std::this_thread::sleep_for(200ms); }
  };
  // Ranks 2 and 3 both throw; the error of the lower rank is reported.
  CHECK_THROWS_WITH(run_local(4,
                              [](local_communicator& c) {
                                if (c.rank() >= 2) {
                                  const slow on_the_way_out;
                                  auto left = std::move(c);
                                  throw std::runtime_error{"out of luck at " + std::to_string(left.rank())};
                                }
                                c.barrier();
                              }),
                    "out of luck at 2");
  CHECK_THROWS_AS(run_local(2,
                            [](local_communicator& c) {
                              if (c.rank() == 1) {
                                throw 42;
                              }
                              c.barrier();
                            }),
                  int);
}

TEST_CASE("a local run throws the missing-rank error if no rank has another error") {
  CHECK_THROWS_WITH(run_local(3,
                              [](local_communicator& c) {
                                if (c.rank() != 1) {
                                  c.barrier();
                                }
                              },
                              {60s, true}),
                    "rank 1: has left; expected it to come to barrier");
}

namespace {

// Fails to start the third thread of a process.
class scarce_thread {
 public:
  template <class F>
  scarce_thread(const F& f, std::size_t rank) {
    if (rank == 2) {
      throw std::runtime_error{"no\nmore"};
    }
    thread_ = std::jthread{f, rank};
  }

 private:
  std::jthread thread_;
};

}  // namespace

TEST_CASE("a rank whose thread cannot start stops the others and is named in the error") {
  auto ranks = make_local_communicators(4);
  std::atomic<int> stopped = 0;
  const std::string line = "rank 2: no thread can be started (no more); expected 4 of them";
  CHECK_THROWS_WITH(detail::run_ranks<scarce_thread>(ranks,
                                                     [&](local_communicator& c) {
                                                       try {
                                                         c.barrier();
                                                       } catch (const unity::error& e) {
                                                         stopped += e.what() == line ? 1 : 0;
                                                       }
                                                     }),
                    line);
  CHECK(stopped == 2);
}

TEST_CASE("an exception does not wait for pending requests during unwinding") {
  const auto got = outcomes(2, 60s, [](local_communicator& c) {
    std::vector<float> data(10);
    auto request = c.receive(1 - c.rank(), std::as_writable_bytes(std::span{data}), 4);
    if (c.rank() == 0) {
      throw std::runtime_error{"out of luck"};
    }
    request.wait();
  });
  CHECK(got.lines[0] == "out of luck");
  CHECK(got.lines[1] == "rank 0: stopped; expected it to end its message of 40 uint8");
  CHECK(got.seconds < 5);
}

TEST_CASE("an all-reduce with differing counts gives the same error on all ranks") {
  const auto got = outcomes(3, 60s, [](local_communicator& c) {
    std::vector<float> data(10);
    c.all_reduce(data_of(data), data_of(data), c.rank() == 1 ? 9U : 10U, dtype::float32, reduction::sum).wait();
  });
  CHECK(got.lines[0].find("all_reduce of 9 float32 (sum)") != std::string::npos);
  CHECK(got.lines[0] == got.lines[1]);
  CHECK(got.lines[1] == got.lines[2]);
}

TEST_CASE("a message length mismatch is an error on both sender and receiver") {
  const auto got = outcomes(2, 60s, [](local_communicator& c) {
    std::vector<float> data(10);
    if (c.rank() == 0) {
      c.send(1, std::as_bytes(std::span{data}), 9).wait();
    } else {
      c.receive(0, std::as_writable_bytes(std::span{data}.first(9)), 9).wait();
    }
  });
  CHECK(got.lines[0] == "message from rank 0 to rank 1, tag 9: 40 bytes; expected 36");
  CHECK(got.lines[1] == got.lines[0]);
}

TEST_CASE("ranks out of range and a communicator of zero ranks are refused") {
  auto one = make_local_communicators(1);
  CHECK_THROWS_WITH(one[0].send(1, {}, 0), "send: rank 1; expected one below 1");
  CHECK_THROWS_WITH(one[0].broadcast(nullptr, 0, dtype::int8, -1), "broadcast: rank -1; expected one below 1");
  CHECK_THROWS_WITH(make_local_communicators(0), "local communicators: 0 ranks; expected at least one");
}

}  // namespace tests_of_local_communicator
