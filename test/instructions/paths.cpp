// paths NAME: runs one path once, inside a function of its own whose instructions callgrind counts (check.py). paths:
// lists the names.
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "paths.hpp"

namespace {

using namespace unity::test;

struct path {
  const char* name;
  work (*prepare)();
};
constexpr path paths[] = {
    {"match_rules", match_rules},
    {"price_candidates", price_candidates},
    {"canonical_fingerprints", canonical_fingerprints},
    {"expand_states", expand_states},
    {"read_rules", read_rules},
    {"evaluate_modulo_a_prime", evaluate_modulo_a_prime},
    {"enumerate_terms", enumerate_terms},
    {"simulate_in_full", simulate_in_full},
    {"simulate_changes", simulate_changes},
    {"propose_strategies", propose_strategies},
    {"lower_a_plan", lower_a_plan},
    {"map_onto_meshes", map_onto_meshes},
    {"plan_memory", plan_memory},
};

}  // namespace

// Stores the result so that the call is not a tail call, which would leave the counted function before the work.
extern "C" [[gnu::noinline]] void unity_counted(const work& w, volatile std::uint64_t& result) { result = w(); }

int main(int argc, char** argv) {
  const std::string_view wanted = argc == 2 ? argv[1] : "";
  volatile std::uint64_t result = 0;
  for (const auto& p : paths) {
    if (wanted.empty()) {
      std::puts(p.name);
    } else if (p.name == wanted) {
      unity_counted(p.prepare(), result);
      std::printf("%s: %llu\n", p.name, static_cast<unsigned long long>(result));
      return 0;
    }
  }
  return wanted.empty() ? 0 : 2;
}
