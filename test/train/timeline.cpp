#include <unity/train/timeline.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <unity/backend/local_communicator.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/train/timeline_report.hpp>

namespace tests_of_timeline {

namespace train = unity::train;
using std::chrono::nanoseconds;
using train::activity;
using train::activity_span;
using unity::picoseconds;

namespace {

picoseconds ns(std::int64_t count) { return picoseconds{count * 1000}; }

std::vector<activity_span> random_spans(unity::random_engine& random, std::int64_t length, std::uint64_t most) {
  std::vector<activity_span> spans;
  for (auto n = random.below(most + 1); n > 0; --n) {
    const auto start = random.between(0, length);
    spans.push_back({start, random.between(start, length), static_cast<std::uint32_t>(random.below(3)),
                     static_cast<std::int32_t>(random.between(-1, 3)), static_cast<activity>(random.below(4))});
  }
  return spans;
}

// Reference: looks at every instant.
train::time_shares slow_shares(const train::rank_timeline& rank, std::int64_t from, std::int64_t until) {
  train::time_shares all;
  for (auto t = from; t < until; ++t) {
    std::set<activity> open;
    for (const auto& s : rank.spans) {
      if (s.start <= t && t < s.end) {
        open.insert(s.kind);
      }
    }
    auto& share = open.empty()                               ? all.other
                  : *open.begin() == activity::compute       ? all.compute
                  : *open.begin() == activity::update        ? all.update
                  : *open.begin() == activity::communication ? all.communication
                                                             : all.waiting;
    share += ns(1);
    if (open.contains(activity::communication) && *open.begin() < activity::communication) {
      all.hidden += ns(1);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a timeline stores spans up to its capacity and counts dropped ones") {
  train::timeline t{3};
  CHECK(t.spans().empty());
  const auto* place = t.spans().data();
  const auto origin = train::timeline::clock::now();
  t.restart(origin);
  CHECK(t.origin() == origin);
  t.add(activity::compute, 7, origin + nanoseconds{5}, origin + nanoseconds{9});
  t.add(activity::communication, 8, origin - nanoseconds{2}, origin + nanoseconds{3}, 1);
  REQUIRE(t.spans().size() == 2);
  CHECK(t.spans()[0] == activity_span{5, 9, 7, train::no_peer, activity::compute});
  CHECK(t.spans()[1] == activity_span{-2, 3, 8, 1, activity::communication});
  for (int i = 0; i < 5; ++i) {
    t.add(activity::waiting, 0, origin, origin);
  }
  CHECK(t.spans().size() == 3);
  CHECK(t.dropped() == 4);
  CHECK(t.spans().data() == place);
  t.restart(origin);
  CHECK(t.spans().empty());
  CHECK(t.dropped() == 0);
  CHECK(t.spans().data() == place);
}

TEST_CASE("a measured span lasts as long as its scope and nests in outer spans") {
  train::timeline t{4};
  {
    const auto outer = t.measure(activity::compute, 1);
    const auto inner = t.measure(activity::waiting, 2, 3);
    const auto until = train::timeline::clock::now() + nanoseconds{200000};
    while (train::timeline::clock::now() < until) {
    }
  }
  REQUIRE(t.spans().size() == 2);
  const auto inner = t.spans()[0];
  const auto outer = t.spans()[1];
  CHECK(inner.label == 2);
  CHECK(inner.peer == 3);
  CHECK(inner.end - inner.start >= 200000);
  CHECK(outer.start <= inner.start);
  CHECK(outer.end >= inner.end);
}

TEST_CASE("gathered timelines give all ranks the timelines of all ranks") {
  for (const int ranks : {1, 3}) {
    std::vector<train::merged_timeline> merged(static_cast<std::size_t>(ranks));
    std::vector<std::int64_t> origins(static_cast<std::size_t>(ranks));
    unity::backend::run_local(ranks, [&](unity::backend::local_communicator& c) {
      const auto rank = static_cast<std::size_t>(c.rank());
      train::timeline own{2};
      origins[rank] = std::chrono::duration_cast<nanoseconds>(own.origin().time_since_epoch()).count();
      for (std::size_t i = 0; i < 2 * rank; ++i) {  // none, two and four spans; two of the four are dropped
        own.add(activity::update, static_cast<std::uint32_t>(10 * rank + i), own.origin(),
                own.origin() + nanoseconds{3});
      }
      const unity::bytes size{static_cast<std::int64_t>(rank)};
      merged[rank] = train::gather_timelines(c, own, {"a", "b"},
                                             {size, 2 * size, std::vector<train::needed_memory>(rank, {size, 1, 2})});
    });
    for (const auto& m : merged) {
      CHECK(m == merged[0]);
    }
    REQUIRE(merged[0].ranks.size() == static_cast<std::size_t>(ranks));
    CHECK(merged[0].labels == std::vector<std::string>{"a", "b"});
    CHECK(merged[0].ranks[0] == train::rank_timeline{{}, 0, unity::nanoseconds{origins[0]}, {}});
    for (std::size_t r = 0; r < merged[0].ranks.size(); ++r) {
      const unity::bytes size{static_cast<std::int64_t>(r)};
      CHECK(merged[0].ranks[r].memory ==
            train::rank_memory{size, 2 * size, std::vector<train::needed_memory>(r, {size, 1, 2})});
    }
    CHECK(merged[0].ranks.back().origin == unity::nanoseconds{origins.back()});
    CHECK(merged[0].complete() == (ranks == 1));
    if (ranks == 3) {
      REQUIRE(merged[0].ranks[1].spans.size() == 2);
      CHECK(merged[0].ranks[1].spans[1] == activity_span{0, 3, 11, train::no_peer, activity::update});
      CHECK(merged[0].ranks[1].dropped == 0);
      CHECK(merged[0].ranks[2].spans.size() == 2);
      CHECK(merged[0].ranks[2].dropped == 2);
    }
  }
}

TEST_CASE("threads share one timeline origin after the last arrival") {
  constexpr int ranks = 4;
  std::vector<train::timeline::clock::time_point> came(ranks);
  std::vector<train::timeline::clock::time_point> origins(ranks);
  std::vector<train::timeline::clock::time_point> left(ranks);
  unity::backend::run_local(ranks, [&](unity::backend::local_communicator& c) {
    const auto rank = static_cast<std::size_t>(c.rank());
    std::this_thread::sleep_for(std::chrono::milliseconds{5 * (ranks - c.rank())});
    came[rank] = train::timeline::clock::now();
    origins[rank] = train::common_origin(c);
    left[rank] = train::timeline::clock::now();
  });
  for (const auto& o : origins) {
    CHECK(o == origins[0]);
  }
  CHECK(origins[0] >= *std::max_element(came.begin(), came.end()));
  CHECK(origins[0] <= *std::min_element(left.begin(), left.end()));
}

TEST_CASE("the time breakdown counts communication and waiting only outside computation") {
  train::merged_timeline t;
  t.ranks.resize(2);
  t.ranks[0].spans = {{0, 40, 0, train::no_peer, activity::compute},
                      {30, 60, 1, 1, activity::communication},
                      {35, 70, 2, 1, activity::waiting},
                      {80, 90, 3, train::no_peer, activity::update}};
  t.ranks[1].spans = {{0, 100, 0, train::no_peer, activity::compute}};
  const auto all = train::break_down(t);
  CHECK(all.elapsed == ns(100));
  CHECK(all.ranks[0] == train::time_shares{ns(40), ns(10), ns(20), ns(10), ns(20), ns(10)});
  CHECK(all.ranks[1] == train::time_shares{ns(100), {}, {}, {}, {}, {}});
  CHECK(all.all.compute == ns(140));
  CHECK(all.critical == 1);
  const auto some = train::break_down(t, 50, 85);
  CHECK(some.ranks[0] == train::time_shares{{}, ns(5), ns(10), ns(10), ns(10), {}});
  CHECK(train::break_down(train::merged_timeline{}) == train::breakdown{});
}

TEST_CASE("the time breakdown matches an instant-by-instant reference and adds up") {
  const auto seed = GENERATE(range(0U, 100U));
  CAPTURE(seed);
  unity::random_engine random{seed};
  train::merged_timeline t;
  t.ranks.resize(static_cast<std::size_t>(random.between(1, 4)));
  for (auto& r : t.ranks) {
    r.spans = random_spans(random, 60, 8);
  }
  const auto from = random.between(0, 60);
  const auto until = random.between(from, 70);
  const auto b = train::break_down(t, from, until);
  REQUIRE(b.ranks.size() == t.ranks.size());
  train::time_shares sum;
  for (std::size_t r = 0; r < t.ranks.size(); ++r) {
    CHECK(b.ranks[r] == slow_shares(t.ranks[r], from, until));
    CHECK(b.ranks[r].total() == b.elapsed);
    CHECK(b.ranks[b.critical].busy() >= b.ranks[r].busy());
    sum += b.ranks[r];
  }
  CHECK(b.all == sum);
}

TEST_CASE("a chrome trace records direction and peer and bytes and step of messages") {
  train::merged_timeline t;
  t.ranks.resize(2);
  t.ranks[0].origin = unity::nanoseconds{1'000'000};
  t.ranks[0].spans = {
      {2000, 3000, 0, 1, activity::communication, train::direction::send, false, 9, 4, unity::bytes{128}},
      {3000, 4000, 0, train::no_peer, activity::communication, train::direction::all_reduce, false, 2, 4,
       unity::bytes{64}},
      {4000, 5000, 0, train::no_peer, activity::compute, train::direction::none, false, 0, 5, {}}};
  t.ranks[1].spans = {{2500, 3500, 0, 0, activity::waiting, train::direction::receive, false, 9, 4, unity::bytes{128}}};
  std::vector<nlohmann::json> about;
  const auto trace = nlohmann::json::parse(train::to_chrome_trace(t));
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("ph") == "X") {
      about.push_back(e.at("args"));
    }
  }
  CHECK(about ==
        std::vector<nlohmann::json>{
            nlohmann::json::parse(R"({"kind": "communication", "step": 4, "clock_us": 1002.0, "direction": "send",
                                      "tag": 9, "bytes": 128, "peer": 1})"),
            nlohmann::json::parse(R"({"kind": "communication", "step": 4, "clock_us": 1003.0,
                                      "direction": "all_reduce", "group": 2, "bytes": 64})"),
            nlohmann::json::parse(R"({"kind": "compute", "step": 5, "clock_us": 1004.0})"),
            nlohmann::json::parse(R"({"kind": "waiting", "step": 4, "clock_us": 2.5, "direction": "receive",
                                      "tag": 9, "bytes": 128, "peer": 0})")});
}

TEST_CASE("a chrome trace has clocks that run since months") {
  train::merged_timeline t;
  t.ranks.resize(1);
  t.ranks[0].origin =
      unity::nanoseconds{std::int64_t{250} * 24 * 3600 * 1'000'000'000 + 7};  // in picoseconds more than 64 bits hold
  t.ranks[0].spans = {{2000, 3000, 0, train::no_peer, activity::compute}};
  CHECK(train::to_chrome_trace(t).find("\"clock_us\":21600000000002.007000") != std::string::npos);
}

TEST_CASE("a chrome trace records steps and the memory that they need") {
  train::merged_timeline t;
  t.labels = {"mm"};
  t.ranks.resize(1);
  t.ranks[0].memory = {unity::bytes{100},
                       unity::bytes{60},
                       {{unity::bytes{10}, 3, 5}, {unity::bytes{20}, 3, 3}, {unity::bytes{30}, 5, 5}}};
  for (const std::uint32_t step : {0U, 1U}) {
    const auto start = std::int64_t{1000} * step;
    activity_span whole{start, start + 900, 0, train::no_peer, activity::step};
    activity_span first{start, start + 100, 0, train::no_peer, activity::compute};
    activity_span last{start + 100, start + 900, 0, train::no_peer, activity::update};
    whole.step = first.step = last.step = step;
    first.number = 3;
    last.number = 5;
    t.ranks[0].spans.insert(t.ranks[0].spans.end(), {first, last, whole});
  }
  const auto trace = nlohmann::json::parse(train::to_chrome_trace(t));
  std::vector<std::string> found;
  for (const auto& e : trace.at("traceEvents")) {
    const auto& about = e.at("args");
    if (e.at("name") == "process_memory") {
      CHECK(about == nlohmann::json::parse(R"({"kept_bytes": 100, "arena_bytes": 60})"));
    } else if (e.at("ph") == "X") {
      found.push_back(e.at("name").get<std::string>() + " " + about.value("memory", nlohmann::json{}).dump() + " " +
                      about.value("number", nlohmann::json{}).dump() + " " + e.at("tid").dump());
    }
  }
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<std::string>{"mm [[10,5],[20,3]] 3 0", "mm [[10,5],[20,3]] 3 0", "mm [[30,5]] 5 0",
                                          "mm [[30,5]] 5 0", "step 0 null null 2000", "step 1 null null 2000"});
  // Spans of whole steps do not count as time.
  CHECK(train::break_down(t).ranks[0] == train::time_shares{ns(200), ns(1600), {}, {}, ns(100), {}});
}

TEST_CASE("a chrome trace has a process per rank and no overlapping spans in a thread") {
  const auto seed = GENERATE(range(0U, 20U));
  CAPTURE(seed);
  unity::random_engine random{seed};
  train::merged_timeline t;
  t.labels = {"matmul \"1\"", "gradient\nof w"};
  t.ranks.resize(3);
  std::size_t count = 0;
  for (auto& r : t.ranks) {
    r.spans = random_spans(random, 1000, 12);
    count += r.spans.size();
  }
  t.ranks[1].origin = unity::nanoseconds{7'000};
  t.ranks[2].dropped = 5;
  const auto trace = nlohmann::json::parse(train::to_chrome_trace(t));
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> threads;
  std::map<std::pair<int, int>, std::string> names;
  std::map<int, std::string> processes;
  for (const auto& e : trace.at("traceEvents")) {
    const auto pid = e.at("pid").get<int>();
    const auto key = std::pair{pid, e.at("tid").get<int>()};
    if (e.at("name") == "process_name") {
      processes[pid] = e.at("args").at("name");
    } else if (e.at("ph") == "M") {
      names[key] = e.at("args").at("name");
    } else {
      REQUIRE(e.at("ph") == "X");
      const auto start = e.at("ts").get<double>();
      CHECK(start >= 0);
      threads[key].emplace_back(start, start + e.at("dur").get<double>());
      CHECK((e.at("name") == t.labels[0] || e.at("name") == t.labels[1] || e.at("name") == "2"));
      CHECK(e.at("args").at("kind") == e.at("cat"));
      const auto own = e.at("args").at("clock_us").get<double>() - start;
      CHECK(
          own ==
          Approx(static_cast<double>(t.ranks[static_cast<std::size_t>(pid)].origin.count() + t.extent().first) / 1000));
      CHECK((names[key].find("communication") == 0) == (e.at("cat") == "communication"));
      --count;
    }
  }
  CHECK(count == 0);
  CHECK(processes == std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}, {2, "rank 2, without the last 5 spans"}});
  for (auto& [key, spans] : threads) {
    CHECK_FALSE(names[key].empty());
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) {
      CHECK(spans[i - 1].second <= spans[i].first + 1e-6);
    }
  }
}

}  // namespace tests_of_timeline
