#include <unity/parallel/strategies/statement_groups.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/random.hpp>

#include "../../support/message_of.hpp"

using namespace unity;

TEST_CASE("a plan statement prints its keys in one fixed order") {
  const std::string text = "megatron:t=8,p=8,d=8,micro=1,batch=512,interleave=2,sp,zero=1,recompute=selective";
  const auto s = parallel::parse_plan_statement(text);
  CHECK(s.tensor == 8);
  CHECK(s.interleave == 2);
  CHECK(s.is_sequence_parallel);
  CHECK(s.microbatches() == 64);
  CHECK(to_string(s) == text);
  CHECK(to_string(parallel::parse_plan_statement("megatron:sp,recompute=none,zero=0,micro=2,d=4,interleave=1")) ==
        "megatron:t=1,p=1,d=4,micro=2,batch=8,sp");
  CHECK(to_string(parallel::parse_plan_statement("megatron:overlap,recompute=full,d=4,zero=1")) ==
        "megatron:t=1,p=1,d=4,micro=1,batch=4,zero=1,overlap,recompute=full");
}

TEST_CASE("random plan statements survive the print and parse round trip") {
  const auto seed = Catch::rngSeed();
  CAPTURE(seed);
  random_engine random{seed};
  for (int i = 0; i < 1000; ++i) {
    parallel::plan_statement s;
    s.tensor = random.between(1, 64);
    s.pipeline = random.between(1, 64);
    s.data = random.between(1, 64);
    s.micro = random.between(1, 8);
    s.batch = random.between(1, 4096);
    s.interleave = random.between(1, 4);
    s.is_sequence_parallel = random.below(2) == 0;
    s.zero = random.between(0, 3);
    s.recomputed = static_cast<parallel::recomputed_part>(random.below(3));
    s.is_overlapped = random.below(2) == 0;
    s.first_layers = random.between(0, 2);
    s.last_layers = random.between(0, 2);
    CHECK(parallel::parse_plan_statement(to_string(s)) == s);
  }
}

TEST_CASE("an invalid plan statement gives a one-line error with the expected form") {
  const auto told = [](const char* text) {
    return test::message_of([&] { static_cast<void>(parallel::parse_plan_statement(text)); });
  };
  CHECK(told("gpipe:p=2") == "plan 'gpipe:p=2': no kind of plan; expected megatron:t=..,p=..,d=..,...");
  CHECK(
      told("megatron:t=2,q=3") ==
      "plan, 'q': no such key; expected t, p, d, micro, batch, interleave, first, last, sp, zero, overlap, recompute");
  CHECK(told("megatron:t=0") == "plan, 't': '0'; expected a number from 1 to 65536");
  CHECK(told("megatron:t=2x") == "plan, 't': '2x'; expected a number from 1 to 65536");
  CHECK(told("megatron:zero=4") == "plan, 'zero': '4'; expected a number from 0 to 3");
  CHECK(told("megatron:sp=1") == "plan, 'sp': a value; expected sp alone");
  CHECK(told("megatron:recompute=") == "plan, 'recompute': ''; expected none, selective or full");
  CHECK(told("megatron:t=2,t=4") == "plan, 't': a second time; expected each key once");
  CHECK(told("megatron:t=2,,p=2") ==
        "plan, '': no such key; expected t, p, d, micro, batch, interleave, first, last, sp, zero, overlap, recompute");
  CHECK(told("megatron:t=8,") == told("megatron:t=2,,p=2"));
  CHECK(told("megatron:sp=") == "plan, 'sp': a value; expected sp alone");
  CHECK(told("megatron:overlap=1") == "plan, 'overlap': a value; expected overlap alone");
  CHECK(test::message_of([] { check(parallel::parse_plan_statement("megatron:d=2,zero=2,overlap"), 2); }) ==
        "plan: overlap with zero=2; expected zero=0 or zero=1: from 2 on, exchanges overlap anyway");
  CHECK(told("megatron:d=8192,micro=4096") ==
        "plan: d=8192 times micro=4096 samples; expected a batch of 16777216 at most");
  CHECK(told("megatron:p=2,first=0") == "plan, 'first': '0'; expected a number from 1 to 65536");
  CHECK(test::message_of([] { check(parallel::parse_plan_statement("megatron:last=2"), 1); }) ==
        "plan: last= with p=1; expected several stages");
}

TEST_CASE("first and last stage of a plan statement may have other numbers of layers") {
  using counts = std::vector<std::int64_t>;
  const auto of = [](const char* text, std::int64_t layers) {
    return parallel::layers_of_stages(parallel::parse_plan_statement(text), layers);
  };
  CHECK(of("megatron:p=4", 48) == counts{12, 12, 12, 12});
  CHECK(of("megatron:p=4,first=10,last=12", 48) == counts{10, 13, 13, 12});
  CHECK(of("megatron:p=4,last=9", 48) == counts{13, 13, 13, 9});
  CHECK(of("megatron:p=4,first=12", 48) == counts{12, 12, 12, 12});
  CHECK(of("megatron:p=2,first=3,last=5", 8) == counts{3, 5});
  CHECK(of("megatron:p=2,first=3", 8) == counts{3, 5});
  CHECK(of("megatron:p=3,first=2,last=4,interleave=2", 12) == counts{2, 6, 4});
  CHECK(parallel::chunks_of_pieces(parallel::parse_plan_statement("megatron:p=3,first=2,last=4,interleave=2"), 12) ==
        counts{0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 4, 5, 5, 5});
  const auto told = [&](const char* text, std::int64_t layers) {
    return test::message_of([&] { static_cast<void>(of(text, layers)); });
  };
  CHECK(told("megatron:p=4,first=13,last=12", 48) ==
        "plan: first=13 last=12 of 48 layers on p=4 stages; expected layers left that the other stages share equally");
  CHECK(told("megatron:p=2,first=13,last=12", 24) ==
        "plan: first=13 last=12 of 24 layers on p=2 stages; expected layers left that the other stages share equally");
  CHECK(told("megatron:p=4,first=7", 8) ==
        "plan: first=7 of 8 layers on p=4 stages; expected layers left that the other stages share equally");
  CHECK(told("megatron:p=4,first=3,last=3,interleave=2", 14) ==
        "plan: first=3 last=3 of 14 layers on p=4 stages, a stage of 3 with interleave=2; expected multiples of "
        "interleave");
}
