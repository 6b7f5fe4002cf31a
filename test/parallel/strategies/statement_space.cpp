#include <unity/parallel/strategies/statement_space.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../../support/message_of.hpp"

namespace tests_of_statement_space {

using namespace unity;
using parallel::parse_statement_search;

TEST_CASE("a statement search parses and prints the keys that are given") {
  CHECK(parallel::is_statement_search("megatron:search"));
  CHECK(parallel::is_statement_search("megatron:search,t=2"));
  CHECK_FALSE(parallel::is_statement_search("megatron:searching"));
  CHECK_FALSE(parallel::is_statement_search("megatron:t=2"));
  const auto s = parse_statement_search("megatron:search,recompute=full,sp,batch=24,t=4");
  CHECK(s.is_given("t"));
  CHECK(s.is_given("sp"));
  CHECK_FALSE(s.is_given("p"));
  CHECK(s.values.tensor == 4);
  CHECK(to_string(s) == "megatron:search,t=4,batch=24,sp,recompute=full");
  CHECK(parse_statement_search(to_string(s)) == s);
}

TEST_CASE("an invalid statement search gives a one-line error") {
  const auto error_of = [](const std::string& text) {
    return test::message_of([&] { static_cast<void>(parse_statement_search(text)); });
  };
  CHECK(error_of("megatron:search") ==
        "plan, 'batch': not given; expected the samples of an iteration: megatron:search,batch=..");
  CHECK(error_of("megatron:search,") == error_of("megatron:search"));
  CHECK(error_of("megatron:search,batch=4,t=x") == "plan, 't': 'x'; expected a number from 1 to 65536");
  CHECK(error_of("megatron:search,batch=4,batch=4") == "plan, 'batch': a second time; expected each key once");
  CHECK(test::message_of([] {
          static_cast<void>(
              parallel::all_statements(parse_statement_search("megatron:search,batch=8,t=3"), {8, 8, 4, 4, true, 16}));
        }) ==
        "plan: no statement of megatron:search,t=3,batch=8 divides; expected degrees for 8 devices in nodes of 8, 4 "
        "layers, 4 heads and 16 positions, and 1048576 phases at most");
}

TEST_CASE("all_statements lists statements that divide devices and layers and heads and samples") {
  const auto of = [](const std::string& text, const parallel::statement_limits& m) {
    return parallel::all_statements(parse_statement_search(text), m);
  };
  const auto all = of("megatron:search,batch=8", {8, 4, 4, 4, true});
  for (const auto& s : all) {
    CHECK_NOTHROW(check(s, 8));
    CHECK(4 % s.tensor == 0);
    CHECK_NOTHROW(parallel::layers_of_stages(s, 4));
    CHECK((!s.is_sequence_parallel || s.tensor > 1));
    CHECK((s.zero == 0 || s.data > 1));
    CHECK((!s.is_overlapped || (s.data > 1 && s.zero <= 1)));
    CHECK(std::count(all.begin(), all.end(), s) == 1);
  }
  CHECK(std::is_sorted(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.micro < y.micro; }));
  // One device: micro-batches of 1 or 2 samples, times three kinds of recomputation, or two if there is no attention
  // core.
  CHECK(of("megatron:search,batch=2", {1, 1, 2, 2, true}).size() == 6);
  CHECK(of("megatron:search,batch=2", {1, 1, 2, 2, false}).size() == 4);
  const auto given = of("megatron:search,batch=8,t=2,p=2,interleave=2,sp,zero=1,recompute=none", {8, 4, 4, 4, true});
  for (const auto& s : given) {
    CHECK(s.first_layers + s.last_layers == 0);  // one layer on the first stage cannot be two chunks
    CHECK((s.tensor == 2 && s.pipeline == 2 && s.data == 2 && s.interleave == 2 && s.is_sequence_parallel));
    CHECK((s.zero == 1 && s.recomputed == parallel::recomputed_part::none));
  }
  CHECK(given.size() == 4);  // micro-batches of 1 and 2 samples, with overlap and without
  const auto overlapped =
      of("megatron:search,batch=8,t=2,p=2,interleave=2,sp,overlap,recompute=none", {8, 4, 4, 4, true});
  for (const auto& s : overlapped) {
    CHECK((s.is_overlapped && s.zero <= 1));
  }
  CHECK(overlapped.size() == 4);  // zero=0 and 1, two sizes of micro-batches
  // The numbers of layers of first and last stages that are not equal.
  const auto ends_of = [&](const std::string& text, std::int64_t layers) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ends;
    for (const auto& s :
         of("megatron:search,batch=8,d=1,micro=1,interleave=1,recompute=none," + text, {8, 1, layers, 1, true})) {
      ends.emplace_back(s.first_layers, s.last_layers);
    }
    return ends;
  };
  using pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(ends_of("p=8", 96) == pairs{{0, 0}, {9, 9}});
  CHECK(ends_of("p=8", 95) == pairs{{11, 12}, {12, 11}});
  CHECK(ends_of("p=8", 94) == pairs{{11, 11}});
  CHECK(ends_of("p=8", 8) == pairs{{0, 0}});
  CHECK(ends_of("p=8,first=5", 96) == pairs{{5, 0}});
  CHECK(
      of("megatron:search,batch=8,d=4,micro=1,interleave=1,recompute=none,zero=0,overlap", {8, 1, 4, 1, true}).size() ==
      3);  // two stages: 2 and 2, 1 and 3, 3 and 1 layers
  CHECK(to_string(parse_statement_search("megatron:search,last=3,first=2,p=4,batch=8")) ==
        "megatron:search,p=4,batch=8,first=2,last=3");
  CHECK(to_string(parse_statement_search("megatron:search,overlap,zero=1,batch=8")) ==
        "megatron:search,batch=8,zero=1,overlap");
}

TEST_CASE("all_statements leaves out sp where t does not divide positions, and programs that are too large") {
  const auto of = [](const std::string& text, const parallel::statement_limits& m) {
    return parallel::all_statements(parse_statement_search(text), m);
  };
  std::size_t divided = 0;
  for (const auto& s : of("megatron:search,batch=8", {8, 8, 4, 8, true, 18})) {
    CHECK((!s.is_sequence_parallel || s.tensor == 2));
    divided += s.is_sequence_parallel ? 1 : 0;
  }
  CHECK(divided > 0);
  const auto large = of("megatron:search,batch=16777216,p=2", {2, 2, 4, 1, true, 16});
  CHECK_FALSE(large.empty());
  for (const auto& s : large) {
    CHECK(s.phases() <= parallel::most_phases);
  }
}

}  // namespace tests_of_statement_space
