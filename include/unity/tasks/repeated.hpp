// Several iterations of a program as one program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::tasks {

// `after` waits for `before` of the iteration that is that many iterations earlier.
struct carried_dependency {
  task_ref before{};
  task_ref after{};
  std::uint32_t iterations = 1;

  friend bool operator==(const carried_dependency&, const carried_dependency&) = default;
};

// The program `count` times: fragment f of iteration i is fragment i * n + f, for n fragments. Permanent buffers exist
// once. Preconditions: no open edit; count > 0; carried dependencies name fragments and reach back at least one
// iteration.
// Complexity: linear in the result.
[[nodiscard]] inline program repeated(const program& p, std::span<const carried_dependency> carried,
                                      std::size_t count) {
  UNITY_EXPECTS(!p.is_open() && count > 0, "a program without an open edit, and at least one iteration");
  const auto fragments = p.fragment_count();
  auto all = p.without_fragments();
  const auto in = [&](task_ref r, std::size_t iteration) {
    if (r.fragment.valid()) {
      r.fragment = fragment_id{iteration * fragments + r.fragment.index()};
    }
    return r;
  };
  std::vector<fragment> bodies;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t f = 0; f < fragments; ++f) {
      const fragment_id id{f};
      all.add_fragment(p.owner_of(id));
      auto body = p[id];
      for (auto& d : body.dependencies) {
        d.before = in(d.before, i);
        d.after = in(d.after, i);
      }
      for (auto& b : body.buffers) {
        b.producer = in(b.producer, i);
        b.size = b.permanent && i > 0 ? bytes{} : b.size;
      }
      for (auto& r : body.reads) {
        r.reader = in(r.reader, i);
        if (r.of.fragment.valid()) {
          r.of.fragment = fragment_id{i * fragments + r.of.fragment.index()};
        }
      }
      bodies.push_back(std::move(body));
    }
  }
  for (const auto& c : carried) {
    UNITY_EXPECTS(c.before.fragment.valid() && c.after.fragment.valid() && c.iterations > 0,
                  "carried dependencies that name fragments and reach back");
    for (std::size_t i = c.iterations; i < count; ++i) {
      const auto after = in(c.after, i);
      bodies[after.fragment.index()].dependencies.push_back({in(c.before, i - c.iterations), after, false});
    }
  }
  all.replace(replacements_of(bodies));
  all.commit();
  return all;
}

}  // namespace unity::tasks
