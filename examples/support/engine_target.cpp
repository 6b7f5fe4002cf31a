#include "engine_target.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/io/onnx/read_tensor.hpp>

#include "number_range.hpp"
#include "quantity.hpp"
#include "scratch_folder.hpp"

namespace support {

namespace {

// Timings of a candidate: a first one that selects candidates, and the last one, which decides.
constexpr std::size_t first_rounds = 40;
constexpr double first_seconds = 1.5;
constexpr std::size_t last_rounds = 200;
constexpr double last_seconds = 5;
constexpr std::size_t most_candidates = 8;
constexpr std::size_t retimed = 3;

// The engines for which there is an examples/ENGINE_timer.py.
constexpr std::array<std::string_view, 2> engines{"onnxruntime", "openvino"};

double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return all.size() % 2 == 1 ? *middle : (*middle + *std::max_element(all.begin(), middle)) / 2;
}

bool is_time(double seconds) { return std::isfinite(seconds) && seconds > 0; }

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds{std::llround(seconds * 1e3)};
}

paired_times summarize(const std::string& name, const nlohmann::json& answer) {
  const auto runs = answer.at("seconds").get<std::vector<std::vector<double>>>();
  const bool pairs = runs.size() == 2 && runs[0].size() == runs[1].size() && !runs[0].empty() &&
                     std::all_of(runs[0].begin(), runs[0].end(), is_time) &&
                     std::all_of(runs[1].begin(), runs[1].end(), is_time);
  if (!pairs) {
    throw unity::error{name, "other times than were asked for", "as many of both models, above 0"};
  }
  paired_times t{median(runs[0]), median(runs[1]), 1, 0, runs[0].size()};
  std::vector<double> ratios;
  for (std::size_t i = 0; i < t.rounds; ++i) {
    ratios.push_back(runs[0][i] / runs[1][i]);
    t.wins += (runs[1][i] < runs[0][i] ? 1.0 : 0.0) / static_cast<double>(t.rounds);
  }
  t.ratio = median(std::move(ratios));
  return t;
}

// Answers of another process may be JSON of any form.
template <class F>
auto reading(const std::string& name, const F& f) {
  try {
    return f();
  } catch (const nlohmann::json::exception& e) {
    throw unity::error{name, fmt::format("an answer of another form ({})", e.what()), "that of the question"};
  }
}

std::size_t steps(const unity::systems::taso_result& r) {
  std::size_t all = 0;
  for (const auto& use : r.rules_used) {
    all += use.count;
  }
  return all;
}

// The counts of all searches, whichever result is chosen.
struct search_statistics {
  unity::counters counts{};
  double seconds = 0;
  double cpu_s = 0;
  double seconds_to_best = 0;  // of the first search, as the members below
  std::uint64_t queued = 0;
  unity::stop_reason stopped{};
};

search_statistics statistics_of(const unity::systems::taso_result& r) {
  return {r.counts, r.seconds, r.cpu_s, r.seconds_to_best, r.queued, r.stopped};
}

void set_statistics(unity::systems::taso_result& r, const search_statistics& s) {
  r.counts = s.counts;
  r.seconds = s.seconds;
  r.cpu_s = s.cpu_s;
  r.seconds_to_best = s.seconds_to_best;
  r.queued = s.queued;
  r.stopped = s.stopped;
}

// The best of the timed candidates.
class contest {
 public:
  contest(engine_timer& timer, const candidate_source& source) : timer_{timer}, source_{source} {}

  [[nodiscard]] bool is_full() const { return all_.size() >= most_candidates; }
  // Whether it is the best so far. A graph that was tried before is not.
  bool enter(const unity::systems::taso_result& found, std::string about) {
    if (std::any_of(found_.begin(), found_.end(), [&](const auto& met) { return met.graph == found.graph; })) {
      return false;
    }
    found_.push_back(found);
    const auto file = file_of(all_.size());
    auto& entry = all_.emplace_back();
    entry.about = std::move(about);
    try {
      source_.write(found, file);
      entry.times = timer_.time(file, first_rounds, first_seconds);
    } catch (const unity::error& e) {
      entry.dropped = e.what();
      return false;
    }
    if (best_ && entry.times.ratio <= all_[*best_].times.ratio) {
      return false;
    }
    best_ = all_.size() - 1;
    return true;
  }
  // The best of those that are faster than the original; none: null.
  [[nodiscard]] const unity::systems::taso_result* best() const {
    return best_ && all_[*best_].times.ratio > 1 ? &found_[*best_] : nullptr;
  }
  // By further timings of the best.
  engine_choice decide(unity::systems::taso_result& found) {
    const auto best = best_of_retimed();
    engine_choice c{timer_.engine(), timer_.version(), timer_.threads(), true, {}, std::move(all_)};
    if (best) {
      try {
        const auto [one, other] = timer_.time_apart(file_of(*best), last_rounds, last_seconds);
        c.kept_original = !is_faster(one) || !is_faster(other);
        c.times = one.ratio < other.ratio ? one : other;
        c.times.rounds = one.rounds + other.rounds;
      } catch (const unity::error& e) {
        c.candidates[*best].dropped = e.what();
      }
    }
    if (!c.kept_original) {
      found = std::move(found_[*best]);
    }
    return c;
  }

 private:
  [[nodiscard]] std::filesystem::path file_of(std::size_t number) const {
    return folder_.path() / fmt::format("candidate_{}.onnx", number);
  }

  // The few that looked best are timed again, since the best of several noisy timings looks better than it is.
  // The worse timing of each counts.
  std::optional<std::size_t> best_of_retimed() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].dropped.empty()) {
        order.push_back(i);
      }
    }
    unity::stable_sort(order, [&](auto i, auto j) { return all_[i].times.ratio > all_[j].times.ratio; });
    order.resize(std::min(order.size(), retimed));
    std::optional<std::size_t> best;
    for (const auto i : order) {
      auto& one = all_[i];
      try {
        const auto again = timer_.time(file_of(i), first_rounds, first_seconds);
        const auto rounds = one.times.rounds + again.rounds;
        one.times = again.ratio < one.times.ratio ? again : one.times;
        one.times.rounds = rounds;
        best = !best || one.times.ratio > all_[*best].times.ratio ? i : *best;
      } catch (const unity::error& e) {
        one.dropped = e.what();
      }
    }
    return best;
  }

  engine_timer& timer_;
  const candidate_source& source_;
  scratch_folder folder_{"candidates"};
  std::vector<unity::systems::taso_result> found_{};  // with all_
  std::vector<timed_candidate> all_{};
  std::optional<std::size_t> best_{};
};

}  // namespace

void declare_target(CLI::App& app, target_flags& f) {
  app.add_option("--target", f.name,
                 fmt::format("engine on this machine that times candidates beside the original; the original is kept "
                             "where nothing is faster: {}; or none. Default for a file without --cost, --run and "
                             "checkpoints: the first engine that --python has",
                             fmt::join(engines, ", ")))
      ->envname("UNITY_TARGET");
  app.add_option("--python", f.python, "Python interpreter with the engine of --target")->capture_default_str();
  app.add_option("--timer", f.timer, "script that times files in the engine; default: the one of this project");
  app.add_option("--engine-limit", f.limit, "time limit for an answer of the engine: 30s, 5m")->capture_default_str();
  app.add_option("--engine-threads", f.threads, "threads of the engine; 0: all that this process may use")
      ->check(number_in(0, 1024));
}

namespace {

std::vector<std::string> command_of(const target_flags& f, std::string_view engine) {
  return {f.python, f.timer.empty() ? fmt::format("{}/{}_timer.py", UNITY_EXAMPLES_DIR, engine) : f.timer};
}

std::chrono::milliseconds limit_of(const target_flags& f) {
  return std::chrono::milliseconds{
      std::llround(std::min(parse_quantity("--engine-limit", f.limit, durations), 1e6) * 1e3)};
}

}  // namespace

std::string installed_engine(const target_flags& f) {
  if (!f.timer.empty()) {
    return {};
  }
  for (const auto engine : engines) {
    try {
      const engine_process starts{std::string{engine}, command_of(f, engine), limit_of(f)};
      return std::string{engine};
    } catch (const unity::error&) {  // it is not installed
    }
  }
  return {};
}

void check_target(const target_flags& f, bool was_looked_for) {
  if (!f.name.empty() && std::find(engines.begin(), engines.end(), f.name) == engines.end()) {
    throw unity::error{"--target", fmt::format("no engine '{}'", f.name), fmt::format("{}", fmt::join(engines, ", "))};
  }
  const target_flags plain;
  const bool has_more = (f.python != plain.python && !was_looked_for) || f.timer != plain.timer ||
                        f.limit != plain.limit || f.threads != plain.threads;
  if (f.name.empty() && has_more) {
    throw unity::error{"--python, --timer, --engine-limit, --engine-threads", "given without an engine", "--target"};
  }
  if (parse_quantity("--engine-limit", f.limit, durations) <= 0) {
    throw unity::error{"--engine-limit", fmt::format("'{}'", f.limit), "a time above 0"};
  }
}

engine_timer::engine_timer(const target_flags& f, std::filesystem::path original, dimension_sizes dimensions,
                           std::uint64_t seed, double tolerance)
    : name_{fmt::format("--target {}", f.name)},
      command_{command_of(f, f.name)},
      limit_{limit_of(f)},
      threads_{f.threads > 0 ? f.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))},
      original_{std::move(original)},
      dimensions_{std::move(dimensions)},
      seed_{seed},
      tolerance_{tolerance} {
  start();
}

void engine_timer::start() {
  process_ = std::make_unique<engine_process>(name_, command_, limit_);
  reading(name_, [&] {
    engine_ = process_->hello().at("engine").get<std::string>();
    version_ = process_->hello().at("version").get<std::string>();
    machine_ = process_->hello().value("machine", "an unknown machine");
    return 0;
  });
  static_cast<void>(load(*process_, original_));
}

void engine_timer::revive() {
  if (process_->is_lost()) {
    start();
  }
}

std::vector<double> engine_timer::measure(const std::filesystem::path& model, double seconds) {
  revive();
  const auto answer = process_->ask({{"measure", model.string()}, {"threads", threads_}, {"seconds", seconds}},
                                    milliseconds_of(seconds));
  auto runs = reading(name_, [&] { return answer.at("seconds").get<std::vector<double>>(); });
  if (runs.empty() || !std::all_of(runs.begin(), runs.end(), is_time)) {
    throw unity::error{name_, "times that are none", "numbers above 0"};
  }
  return runs;
}

std::size_t engine_timer::load(engine_process& process, const std::filesystem::path& file) const {
  const auto answer = process.ask({{"load", std::filesystem::absolute(file).string()},
                                   {"threads", threads_},
                                   {"dimensions", dimensions_},
                                   {"seed", seed_}});
  return reading(name_, [&] { return answer.at("model").get<std::size_t>(); });
}

paired_times engine_timer::pair(engine_process& process, std::size_t original, std::size_t candidate,
                                std::size_t rounds, double seconds) const {
  const auto compared = process.ask({{"compare", {original, candidate}}});
  const auto error = reading(name_, [&] {
    const auto& e = compared.at("max_rel_error");
    return e.is_null() ? std::numeric_limits<double>::infinity() : e.get<double>();
  });
  if (!(error <= tolerance_)) {
    throw unity::error{name_, fmt::format("outputs differ from the original's by {:.2g}", error),
                       fmt::format("a relative error of at most {:g}", tolerance_)};
  }
  const auto timed = process.ask({{"time", {original, candidate}}, {"rounds", rounds}, {"seconds", seconds}},
                                 milliseconds_of(seconds));
  return reading(name_, [&] { return summarize(name_, timed); });
}

paired_times engine_timer::time(const std::filesystem::path& candidate, std::size_t rounds, double seconds) {
  revive();
  const auto number = load(*process_, candidate);
  const auto unload = [&] { static_cast<void>(process_->ask({{"unload", number}})); };
  try {
    const auto found = pair(*process_, 0, number, rounds, seconds);
    unload();
    return found;
  } catch (const unity::error&) {
    if (!process_->is_lost()) {
      unload();
    }
    throw;
  }
}

std::array<paired_times, 2> engine_timer::time_apart(const std::filesystem::path& candidate, std::size_t rounds,
                                                     double seconds) const {
  const auto apart = [&](const std::filesystem::path& first, const std::filesystem::path& second) {
    engine_process process{name_, command_, limit_};
    const auto one = load(process, first);
    const auto other = load(process, second);
    const bool in_order = first == original_;
    return pair(process, in_order ? one : other, in_order ? other : one, rounds / 2, seconds / 2);
  };
  return {apart(original_, candidate), apart(candidate, original_)};
}

bool is_faster(const paired_times& t) noexcept {
  constexpr double one_of_twenty = 1.645 / 2;  // deviations of the share of wins, times the root of the rounds
  return t.ratio > 1.01 && t.wins - 0.5 >= one_of_twenty / std::sqrt(static_cast<double>(t.rounds));
}

void copy_model(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto bytes = unity::read_file(from);
  for (const auto& name : unity::io::external_files(bytes)) {
    const auto source = from.parent_path() / name;
    const auto target = to.parent_path() / name;
    std::error_code problem;
    if (std::filesystem::equivalent(source, target, problem)) {
      continue;
    }
    std::filesystem::create_directories(target.parent_path(), problem);
    std::filesystem::copy_file(source, target, std::filesystem::copy_options::overwrite_existing, problem);
    if (problem) {
      throw unity::error{target.string(), fmt::format("cannot be made of {} ({})", source.string(), problem.message()),
                         "a writable place with enough room"};
    }
  }
  unity::atomic_write(to, bytes);
}

engine_choice choose(engine_timer& timer, const candidate_source& source, const unity::rule_set& rules,
                     const unity::rule_set& engine_rules, double seconds, unity::systems::taso_result& found) {
  contest all{timer, source};
  found = source.search(rules, seconds / 2);
  auto left = seconds - found.seconds;
  auto searches = statistics_of(found);
  all.enter(found, "all rules");
  for (const auto& stage : found.stages) {
    all.enter(stage, fmt::format("{} of its {} rewrites", steps(stage), steps(found)));
  }
  auto best = found;
  std::set<std::string> dropped;  // rules without which the engine is faster
  std::set<std::string> tried;
  const auto next = [&]() -> std::optional<std::string> {
    for (const auto& use : best.rules_used) {
      if (!tried.contains(use.name)) {
        return use.name;
      }
    }
    return std::nullopt;
  };
  while (!all.is_full() && left > 0) {
    const auto rule = next();
    if (!rule) {
      break;
    }
    tried.insert(*rule);
    auto fewer = rules;
    std::erase_if(fewer, [&](const auto& r) { return r.name == *rule || dropped.contains(r.name); });
    auto other = source.search(fewer, left / 2);
    left -= other.seconds;
    searches.counts.expanded += other.counts.expanded;
    searches.counts.candidates += other.counts.candidates;
    searches.seconds += other.seconds;
    searches.cpu_s += other.cpu_s;
    std::string about = fmt::format("without {}", *rule);
    for (const auto& d : dropped) {
      about += fmt::format(", {}", d);
    }
    if (all.enter(other, std::move(about))) {
      dropped.insert(*rule);
      best = std::move(other);
    }
  }
  // Noise decides which of several close results is the best, and rules may need the results of others. So rules are
  // also tried on the first candidate.
  std::vector bases{all.best() != nullptr ? *all.best() : source.search({}, seconds)};
  if (!(bases.front().graph == found.graph)) {
    bases.push_back(found);
  }
  for (auto& base : bases) {
    for (const auto& rule : engine_rules) {
      auto other = source.everywhere(base, rule);
      if (other && all.enter(*other, fmt::format("{} wherever it applies", rule.name))) {
        base = std::move(*other);
      }
    }
  }
  auto choice = all.decide(found);
  set_statistics(found, searches);
  return choice;
}

nlohmann::json to_json(const engine_choice& c) {
  auto candidates = nlohmann::json::array();
  for (const auto& one : c.candidates) {
    nlohmann::json entry{{"about", one.about}};
    if (one.dropped.empty()) {
      entry["ratio"] = one.times.ratio;
      entry["rounds"] = one.times.rounds;
    } else {
      entry["dropped"] = one.dropped;
    }
    candidates.push_back(std::move(entry));
  }
  return {{"engine", c.engine},
          {"version", c.version},
          {"threads", c.threads},
          {"original_s", c.times.original_s},
          {"optimized_s", c.times.candidate_s},
          {"ratio", c.times.ratio},
          {"rounds", c.times.rounds},
          {"kept_original", c.kept_original},
          {"candidates", candidates}};
}

void print(const engine_choice& c) {
  for (const auto& one : c.candidates) {
    fmt::print("tried: {:<40} {}\n", one.about,
               one.dropped.empty() ? fmt::format("{:.3f} times as fast, {} rounds", one.times.ratio, one.times.rounds)
                                   : fmt::format("dropped: {}", one.dropped));
  }
  fmt::print("{:<28} {:14.3f} {:14.3f}   {:.3f} times as fast in {} rounds, {} thread{}\n",
             fmt::format("{} {}, us", c.engine, c.version), c.times.original_s * 1e6, c.times.candidate_s * 1e6,
             c.times.ratio, c.times.rounds, c.threads, c.threads == 1 ? "" : "s");
  if (c.kept_original) {
    fmt::print("the original is kept: nothing is faster in {} by more than 1% and beyond chance, twice\n", c.engine);
  }
}

}  // namespace support
