// Random searches over random models: modulo 2^61 - 1, every graph that a search builds must compute the same as its
// model.
//
// usage: test_soak [--seconds S] [--seed N] [--first ROUND] [--rounds N] [--rules FILE]
//
// Prints the number of compared states, the number of different graphs among them (by canonical fingerprint), the
// number of mismatches, and the seed. The first mismatch ends the run with exit code 1. Leaves out rules that hold on
// real numbers only.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "evaluated_graphs.hpp"
#include "random_prices.hpp"
#include "random_search.hpp"
#include "traced_space.hpp"

namespace {

using namespace unity;

struct arguments {
  double seconds = std::numeric_limits<double>::infinity();
  std::uint64_t seed = std::random_device{}();
  std::uint64_t first = 0;
  std::uint64_t rounds = std::numeric_limits<std::uint64_t>::max();
  std::string rules{};
};

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--seconds") {
      a.seconds = std::stod(value);
    } else if (flag == "--seed") {
      a.seed = std::stoull(value);
    } else if (flag == "--first") {
      a.first = std::stoull(value);
    } else if (flag == "--rounds") {
      a.rounds = std::stoull(value);
    } else if (flag == "--rules") {
      a.rules = value;
    } else {
      throw std::invalid_argument{std::string{flag}};
    }
  }
  return a;
}

// Thrown if a graph computes something else than its model.
class mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The current round, for a broken contract's report: nothing else can be said then.
std::atomic<std::uint64_t> current_round{0};
std::atomic<std::uint64_t> current_seed{0};
void tell_round(int) {
  char line[120];
  const auto length =
      std::snprintf(line, sizeof line, "aborted; again: --seed %llu --first %llu --rounds 1\n",
                    static_cast<unsigned long long>(current_seed), static_cast<unsigned long long>(current_round));
  if (::write(STDERR_FILENO, line, static_cast<std::size_t>(length)) != length) {
    ::_exit(1);
  }
}

class soak {
 public:
  soak(const tensor::algebra& a, const rule_set& rules) : algebra_{a}, rules_{rules} {}

  // Throws: mismatch.
  void round(std::uint64_t seed) {
    random_engine random{seed};
    const bool fixed = random.below(2) == 0;
    const auto rules = some_rules(random, fixed);
    if (rules.empty()) {
      return;
    }
    const auto model = test::random_model(algebra_, rules, random);
    test::evaluated_graphs evaluated{algebra_, random()};
    const auto expected = evaluated.outputs(model.graph);
    const auto allowed = random.below(3) == 0 ? variants::searched : variants::kept;
    rewrite_space space{algebra_, test::random_prices{random(), fixed}, rules, model.graph, allowed};
    using space_type = decltype(space);
    std::unordered_set<fingerprint, hash_of_fingerprint> met;  // by node ids: a graph reached on two paths counts twice
    typename space_type::scratch_type scratch{};
    const test::traced_space<space_type>* path = nullptr;
    test::traced_space<space_type> traced{space, [&](const typename space_type::state_type& s) {
      if (!met.insert(s.fingerprint).second) {
        return;
      }
      different_.insert(space.canonical_fingerprint(s, scratch));
      std::string problem;
      try {
        problem = evaluated.outputs(space.graph(s)) == expected ? "" : "computes something else";
      } catch (const error& e) {
        problem = e.what();
      }
      if (!problem.empty()) {
        throw mismatch{model.name + ", after the rules " + path->rules() + ": " + problem};
      }
    }};
    path = &traced;
    test::random_search(traced, random);
    states_ += met.size();
    evaluations_ += evaluated.evaluations();
  }
  [[nodiscard]] std::uint64_t states() const noexcept { return states_; }
  [[nodiscard]] std::uint64_t graphs() const noexcept { return different_.size(); }
  [[nodiscard]] std::uint64_t evaluations() const noexcept { return evaluations_; }

 private:
  struct hash_of_fingerprint {
    std::size_t operator()(const fingerprint& f) const noexcept { return static_cast<std::size_t>(f.low); }
  };

  // All rules that may be used, or a random half of them. weights_are_fixed: as in inference.
  [[nodiscard]] rule_set some_rules(random_engine& random, bool weights_are_fixed) const {
    const bool all = random.below(2) == 0;
    rule_set some;
    for (const auto& s : rules_) {
      const bool may = !s.rule.real_only && (weights_are_fixed || s.rule.safe_for != tensor::algebra::inference_use);
      if (may && (all || random.below(2) == 0)) {
        some.push_back(s);
      }
    }
    return some;
  }

  const tensor::algebra& algebra_;
  const rule_set& rules_;
  std::uint64_t states_ = 0;
  std::unordered_set<fingerprint, hash_of_fingerprint> different_{};  // canonical fingerprints of all rounds
  std::uint64_t evaluations_ = 0;
};

int run(const arguments& a) {
  const auto& operators = parallel::test::operators();
  const auto text =
      a.rules.empty() ? std::string{tensor::standard_rules} + std::string{tensor::generated_rules} : read_file(a.rules);
  const auto rules = compile_rules(operators, parse_rules(text, a.rules.empty() ? "shipped rules" : a.rules));
  soak all{operators, rules};
  const stopwatch watch;
  std::uint64_t done = 0;
  int mismatches = 0;
  current_seed = a.seed;
  std::signal(SIGABRT, tell_round);
  std::printf("soak: seed %llu\n", static_cast<unsigned long long>(a.seed));
  std::fflush(stdout);
  for (; done < a.rounds && watch.seconds() < a.seconds && mismatches == 0; ++done) {
    const auto round = a.first + done;
    current_round = round;
    try {
      all.round(hash_combine(a.seed, round));
    } catch (const mismatch& e) {
      ++mismatches;
      std::printf("MISMATCH in round %llu: %s\nagain: --seed %llu --first %llu --rounds 1\n",
                  static_cast<unsigned long long>(round), e.what(), static_cast<unsigned long long>(a.seed),
                  static_cast<unsigned long long>(round));
    }
  }
  fmt::print(
      "{} different graphs checked in {} rounds, met as {} states, {} operators evaluated, {} mismatches, {:.0f} s, "
      "seed {}\n",
      all.graphs(), done, all.states(), all.evaluations(), mismatches, watch.seconds(), a.seed);
  return mismatches == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "test_soak: %s; usage: [--seconds S] [--seed N] [--first ROUND] [--rounds N] [--rules FILE]\n",
                 e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "test_soak: %s\n", e.what());
    return 1;
  }
}
