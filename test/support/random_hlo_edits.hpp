// HLO modules with random fusions and combined all-reduces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/io/hlo/module.hpp>
#include <unity/io/hlo/work.hpp>
#include <unity/io/hlo_edits.hpp>

namespace unity::test {

// Computations that run by themselves rather than as part of an instruction: entry, bodies, branches, callees.
inline std::vector<std::string> running_computations(const io::hlo_module& m) {
  std::vector<bool> runs(m.computations.size());
  runs[m.entry.index()] = true;
  for (auto k = m.computations.size(); k-- > 0;) {
    for (const auto& i : m.computations[k].instructions) {
      const bool calls = runs[k] && (i.is("call") || i.is("while") || i.is("conditional"));
      for (const auto& a : i.attributes) {
        for (const auto f : a.computations) {
          runs[f.index()] = runs[f.index()] || calls;
        }
      }
    }
  }
  std::vector<std::string> names;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    if (runs[k]) {
      names.push_back(m.computations[k].name);
    }
  }
  return names;
}

// Whether merging the instructions of each color leaves the dependencies acyclic.
inline bool is_acyclic(const io::hlo_computation& c, const std::vector<std::size_t>& color) {
  const auto n = c.instructions.size();
  std::vector<std::vector<std::size_t>> after(n);
  std::vector<std::size_t> missing(n);
  std::size_t edges = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto add = [&](io::hlo_instruction_id before) {
      if (color[before.index()] != color[i]) {
        after[color[before.index()]].push_back(color[i]);
        ++missing[color[i]];
        ++edges;
      }
    };
    std::for_each(c.instructions[i].operands.begin(), c.instructions[i].operands.end(), add);
    for (const auto& a : c.instructions[i].attributes) {
      std::for_each(a.instructions.begin(), a.instructions.end(), add);
    }
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < n; ++i) {
    if (missing[i] == 0) {
      ready.push_back(i);
    }
  }
  while (!ready.empty()) {
    const auto u = ready.back();
    ready.pop_back();
    for (const auto a : after[u]) {
      --edges;
      if (--missing[a] == 0) {
        ready.push_back(a);
      }
    }
  }
  return edges == 0;
}

// Groups of instructions for which can_fuse(i) holds; some operands of groups are duplicated into them.
template <class Predicate>
std::vector<io::hlo_fusion_group> random_fusions(const io::hlo_computation& c, random_engine& random,
                                                 const Predicate& can_fuse) {
  const auto n = c.instructions.size();
  std::vector<std::size_t> color(n);
  std::iota(color.begin(), color.end(), std::size_t{0});
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto o : c.instructions[i].operands) {
      if (can_fuse(c.instructions[i]) && can_fuse(c[o])) {
        edges.emplace_back(o.index(), i);
      }
    }
  }
  for (std::size_t tries = edges.size() / 2; tries > 0; --tries) {
    const auto [a, b] = edges[random.below(edges.size())];
    auto merged = color;
    std::replace(merged.begin(), merged.end(), color[a], color[b]);
    color = is_acyclic(c, merged) ? merged : color;
  }
  std::vector<io::hlo_fusion_group> groups(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (can_fuse(c.instructions[i])) {
      groups[color[i]].members.emplace_back(i);
    }
  }
  for (const auto& [a, b] : edges) {
    auto& copies = groups[color[b]].copies;
    if (color[a] != color[b] && random.below(4) == 0) {
      copies.emplace_back(a);
    }
  }
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [](const auto& g) { return g.members.size() + g.copies.size() < 2; }),
               groups.end());
  return groups;
}

// Combines random sets of combinable all-reduces; `made`: number of sets.
inline io::hlo_module random_combinations(io::hlo_module m, const std::string& computation, random_engine& random,
                                          std::size_t& made) {
  for (int tries = 0; tries < 4; ++tries) {
    const auto k = *m.find(computation);
    std::vector<io::hlo_instruction_id> set;
    for (std::size_t i = 0; i < m[k].instructions.size(); ++i) {
      if (m[k].instructions[i].is("all-reduce") && random.below(2) == 0) {
        set.emplace_back(i);
      }
    }
    try {
      auto combined = io::combine_all_reduces(m, k, {set});
      made += set.size() > 1 ? 1 : 0;
      m = std::move(combined);
    } catch (const error&) {  // different types, or one depends on another
    }
  }
  return m;
}

struct random_edits {
  io::hlo_module module{};
  std::size_t fusions = 0;
  std::size_t combinations = 0;
};

inline random_edits edited_at_random(io::hlo_module m, random_engine& random, bool only_for_xla) {
  random_edits e;
  for (const auto& name : running_computations(m)) {
    m = random_combinations(std::move(m), name, random, e.combinations);
    const io::hlo_work_table work{m};
    const auto k = *m.find(name);
    const auto groups = random_fusions(m[k], random, [&](const auto& i) {
      return io::can_be_fused(i) && !i.is("tuple") && (!only_for_xla || work.is_fusible(i));
    });
    auto fused =
        only_for_xla ? io::fuse_what_xla_can(m, k, groups) : io::hlo_fused{io::fuse_instructions(m, k, groups), {}};
    e.fusions += groups.size() - fused.left_out.size();
    m = std::move(fused.module);
  }
  e.module = std::move(m);
  return e;
}

}  // namespace unity::test
