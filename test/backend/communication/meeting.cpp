#include <unity/backend/communication/meeting.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <unity/backend/local_communicator.hpp>
#include <unity/core/error.hpp>

namespace tests_of_meeting {

using namespace unity::backend;
using namespace std::chrono_literals;

namespace {

class folder {
 public:
  folder() : path_{std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "meeting"} { std::filesystem::remove_all(path_); }
  ~folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::array<std::byte, 4> shared_by(const detail::meeting& m) {
  std::array<std::byte, 4> data{};
  data.fill(std::byte(10 + m.rank));
  m.share(data);
  return data;
}

// The messages of three ranks that meet in a folder, where rank `absent` never comes.
std::vector<std::string> lines_of(const std::filesystem::path& place,
                                  const std::function<void(const detail::meeting&)>& f, int absent) {
  std::vector<std::string> lines(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      try {
        if (r != absent) {
          f(detail::meet_in(place, r, 3, 300ms));
        }
      } catch (const unity::error& e) {
        lines[static_cast<std::size_t>(r)] = e.what();
      }
    });
  }
  for (auto& t : threads) {
    t.join();
  }
  return lines;
}

}  // namespace

TEST_CASE("a meeting over a communicator shares the data of rank 0") {
  run_local(3, [](local_communicator& c) {
    const auto m = detail::meet_on(c);
    if (shared_by(m)[3] != std::byte{10} || m.rank != c.rank() || m.size != 3) {
      throw unity::error{"rank " + std::to_string(c.rank()) + " has other data"};
    }
    m.call_roll();
  });
}

TEST_CASE("a meeting in a folder shares the data of rank 0") {
  const folder place;
  const auto lines = lines_of(
      place.path(),
      [](const detail::meeting& m) {
        if (shared_by(m)[3] != std::byte{10}) {
          throw unity::error{"other data"};
        }
        m.call_roll();
      },
      -1);
  CHECK(lines == std::vector<std::string>(3));
}

TEST_CASE("a rank absent from a meeting folder is named in the errors of the others") {
  const folder place;
  for (const int absent : {0, 2}) {
    const auto here = place.path() / std::to_string(absent);
    const auto lines = lines_of(
        here, [](const detail::meeting& m) { shared_by(m); }, absent);
    for (int r = 0; r < 3; ++r) {
      const auto wanted =
          "rank " + std::to_string(absent) + ": did not come to " + here.string() + "; expected it within 300 ms";
      CHECK(lines[static_cast<std::size_t>(r)] == (r == absent ? "" : wanted));
    }
  }
}

TEST_CASE("a rank absent from the roll call is named in the errors of the others") {
  const folder place;
  const auto lines = lines_of(
      place.path(),
      [](const detail::meeting& m) {
        shared_by(m);
        if (m.rank != 1) {
          m.call_roll();
        }
      },
      -1);
  CHECK(lines[0].starts_with("rank 1: did not come to "));
  CHECK(lines[1].empty());
  CHECK(lines[2] == lines[0]);
}

TEST_CASE("repeated roll calls and shares of a meeting do not see data of earlier ones") {
  const folder place;
  const auto lines = lines_of(
      place.path(),
      [](const detail::meeting& m) {
        const auto copy = m;  // the parts of a communicator hold copies
        m.call_roll();
        std::array<std::byte, 1> data{std::byte{1}};
        m.share(data);
        data[0] = std::byte(m.rank == 0 ? 2 : 0);
        copy.share(data);
        if (data[0] != std::byte{2}) {
          throw unity::error{"other data"};
        }
        if (m.rank != 1) {
          copy.call_roll();
        }
      },
      -1);
  CHECK(lines[0].starts_with("rank 1: did not come to "));
  CHECK(lines[1].empty());
  CHECK(lines[2] == lines[0]);
}

TEST_CASE("a meeting folder used by an earlier run is refused") {
  const folder place;
  static_cast<void>(detail::meet_in(place.path(), 0, 1, 300ms));
  CHECK_THROWS_WITH(detail::meet_in(place.path(), 0, 1, 300ms),
                    place.path().string() + ": rank 0 has been here; expected a folder that no other run uses");
}

}  // namespace tests_of_meeting
