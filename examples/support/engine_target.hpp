// `optimize --target`: an inference engine on this machine times optimized files and the original, end to end, and the
// original is kept if none is faster.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <unity/rewrite/substitution.hpp>
#include <unity/systems/taso.hpp>

#include "engine_process.hpp"
#include "models.hpp"

namespace support {

struct target_flags {
  std::string name{};  // "none", or empty: what is installed
  std::string python = "python3";
  std::string timer{};  // the script; empty: the project's
  std::string limit = "1m";
  int threads = 0;  // 0: all that this process may use
};

void declare_target(CLI::App& app, target_flags& f);

// The first engine that --python has; empty if it has none, or --timer names another program.
// Effects: starts it, which takes as long as importing it in Python.
[[nodiscard]] std::string installed_engine(const target_flags& f);

// `was_looked_for`: whether --python was searched for engines. Throws: unity::error if there is no such engine, or a
// flag of engines is given without one.
void check_target(const target_flags& f, bool was_looked_for);

// Runs of the original and of a candidate, in turns.
struct paired_times {
  double original_s = 0;  // medians
  double candidate_s = 0;
  double ratio = 1;  // median over the rounds of original / candidate: above 1, the candidate is faster
  double wins = 0;   // share of the rounds in which it is faster
  std::size_t rounds = 0;
};

// Faster beyond noise: by more than 1% in the median, and in more rounds than chance explains (sign test at 5%).
[[nodiscard]] bool is_faster(const paired_times& t) noexcept;

// The engine in a separate process, which is started again if a candidate ends it.
class engine_timer {
 public:
  // Throws: unity::error if there is no such engine, or it does not run the original.
  engine_timer(const target_flags& f, std::filesystem::path original, dimension_sizes dimensions, std::uint64_t seed,
               double tolerance);

  // Throws: unity::error if the engine does not accept the file, its outputs differ from the original's by more than
  // the tolerance, or the process is lost.
  [[nodiscard]] paired_times time(const std::filesystem::path& candidate, std::size_t rounds, double seconds);

  // The same in two new processes, of which one loads the original first and the other the candidate, since the
  // addresses of tensors affect times, too.
  [[nodiscard]] std::array<paired_times, 2> time_apart(const std::filesystem::path& candidate, std::size_t rounds,
                                                       double seconds) const;
  // Seconds of runs of a model alone, without a comparison. Throws: unity::error if the engine does not run it.
  [[nodiscard]] std::vector<double> measure(const std::filesystem::path& model, double seconds);

  [[nodiscard]] const std::string& engine() const noexcept { return engine_; }
  [[nodiscard]] const std::string& version() const noexcept { return version_; }
  [[nodiscard]] const std::string& machine() const noexcept { return machine_; }
  [[nodiscard]] int threads() const noexcept { return threads_; }

 private:
  void start();
  // Effects: starts it again if it was lost.
  void revive();
  [[nodiscard]] std::size_t load(engine_process& process, const std::filesystem::path& file) const;
  [[nodiscard]] paired_times pair(engine_process& process, std::size_t original, std::size_t candidate,
                                  std::size_t rounds, double seconds) const;

  std::string name_;
  std::vector<std::string> command_;
  std::chrono::milliseconds limit_;
  int threads_;
  std::filesystem::path original_;
  dimension_sizes dimensions_;
  std::uint64_t seed_;
  double tolerance_;
  std::unique_ptr<engine_process> process_{};
  std::string engine_{};
  std::string version_{};
  std::string machine_{};
};

struct timed_candidate {
  std::string about{};    // how it was found
  std::string dropped{};  // why it was not timed
  paired_times times{};
};

struct engine_choice {
  std::string engine{};
  std::string version{};
  int threads = 0;
  bool kept_original = true;
  paired_times
      times{};  // of the best candidate, the worse by time_apart, rounds of both; where there is none, 1 of 0 rounds
  std::vector<timed_candidate> candidates{};
};

// The functions of the program that the choice calls.
struct candidate_source {
  // A search by these rules for so many seconds.
  std::function<unity::systems::taso_result(const unity::rule_set&, double seconds)> search{};
  std::function<void(const unity::systems::taso_result&, const std::filesystem::path&)> write{};
  // Applies the rule at every match; nothing if there is none.
  std::function<std::optional<unity::systems::taso_result>(const unity::systems::taso_result&,
                                                           const unity::substitution&)>
      everywhere{};
};

// Searches with all rules, then without each used rule in turn, as long as seconds are left, and the engine shows which
// of them pay. Then applies each engine rule in turn at every match in the best graph, and keeps it if that is faster.
// All results (and some graphs on the path from the original to the best) are timed beside the original; the best is
// timed once more, and that decides. Returns the choice; `found`: its graph, or that of the first search if the
// original is kept.
[[nodiscard]] engine_choice choose(engine_timer& timer, const candidate_source& source, const unity::rule_set& rules,
                                   const unity::rule_set& engine_rules, double seconds,
                                   unity::systems::taso_result& found);

[[nodiscard]] nlohmann::json to_json(const engine_choice& c);
void print(const engine_choice& c);

// Effects: copies a model, with the files that hold its tensors.
void copy_model(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace support
