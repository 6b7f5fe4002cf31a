#include <unity/parallel/strategies/statement_shards.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/tensor/shape.hpp>

namespace tests_of_statement_shards {

using namespace unity;
using begun_list = std::vector<std::pair<std::uint32_t, bytes>>;

namespace {

// Words shared by the embedding and the head, two layers, and the head's norm.
parallel::transformer_work work() {
  using tensor::dtype;
  parallel::transformer_work w;
  w.pieces.resize(4);
  w.weights = {{100, dtype::bfloat16, {0, 3}, false, picoseconds{7}},
               {10, dtype::bfloat16, {1}, false, picoseconds{1}},
               {5, dtype::float32, {1}, true, picoseconds{2}},
               {20, dtype::bfloat16, {2}, false, picoseconds{3}},
               {1, dtype::bfloat16, {3}, true, picoseconds{4}}};
  return w;
}

}  // namespace

TEST_CASE("a piece gathers its weights and scatters gradients that no earlier piece adds to") {
  const auto all = parallel::shards_of(work(), 0, 3);
  REQUIRE(all.size() == 4);
  CHECK(all[0] == parallel::piece_shards{bytes{200}, {}, bytes{400}, picoseconds{7}});
  CHECK(all[1] == parallel::piece_shards{bytes{40}, {{1, bytes{60}}}, bytes{60}, picoseconds{3}});
  CHECK(all[2] == parallel::piece_shards{bytes{40}, {{2, bytes{80}}}, bytes{80}, picoseconds{3}});
  CHECK(all[3].gathered == bytes{202});
  CHECK(all[3].begun == begun_list{{0, bytes{400}}, {3, bytes{4}}});
  CHECK(all[3].scattered == bytes{4});
}

TEST_CASE("the first and last pipeline stage each hold the shared embedding") {
  const auto first = parallel::shards_of(work(), 0, 1);
  CHECK(first[0] == parallel::piece_shards{bytes{200}, {{0, bytes{400}}}, bytes{400}, picoseconds{7}});
  const auto last = parallel::shards_of(work(), 2, 3);
  CHECK(last[1] == parallel::piece_shards{bytes{202}, {{3, bytes{404}}}, bytes{404}, picoseconds{11}});
}

TEST_CASE("gradient buckets end between pieces and hold each weight of a stage once") {
  auto w = work();
  for (auto& x : w.weights) {
    x.elements *= 10'000'000;  // so that the second layer is as large as five buckets
  }
  const auto of = [](std::uint32_t first, std::int64_t gradients, std::int64_t weights) {
    return parallel::piece_bucket{first, bytes{gradients * 10'000'000}, bytes{weights * 10'000'000}};
  };
  auto s = parallel::parse_plan_statement("megatron:d=2,zero=1,overlap");
  using bucket_list = std::vector<parallel::piece_bucket>;
  // The words belong to the first piece that reads them.
  CHECK(parallel::buckets_of(s, w, std::vector<std::int64_t>{0, 0, 0, 0}) ==
        std::vector<bucket_list>{{of(0, 400, 200), of(1, 60, 40), of(2, 84, 42)}});
  s.data = 200;  // buckets of a million elements per device
  CHECK(parallel::buckets_of(s, w, std::vector<std::int64_t>{0, 0, 0, 0}) ==
        std::vector<bucket_list>{{of(0, 460, 240), of(2, 84, 42)}});
  // Two stages: both have the words; the second has one bucket.
  s.pipeline = 2;
  s.data = 2;
  CHECK(parallel::buckets_of(s, w, std::vector<std::int64_t>{0, 0, 1, 1}) ==
        std::vector<bucket_list>{{of(0, 400, 200), of(1, 60, 40)}, {of(2, 484, 242)}});
  // Two chunks of one stage: only the first has the words.
  s.pipeline = 1;
  s.interleave = 2;
  CHECK(parallel::buckets_of(s, w, std::vector<std::int64_t>{0, 0, 1, 1}) ==
        std::vector<bucket_list>{{of(0, 400, 200), of(1, 60, 40)}, {of(2, 84, 42)}});
}

}  // namespace tests_of_statement_shards
