// expect: rewrite_space: the second argument is not an additive_cost_model
// expect: (satisf[a-z ]+[^a-z]+additive_cost_model|additive_cost_model<[^>]*>. evaluated to false)
// expect: m[.]objective[(]total[)]
// Deduced template arguments are checked as early as explicit ones.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <unity/search/rewrite_space.hpp>

struct gate {
  int kind;
  friend bool operator==(const gate&, const gate&) = default;
};
template <>
struct std::hash<gate> {
  std::size_t operator()(const gate& g) const { return static_cast<std::size_t>(g.kind); }
};

struct circuits {
  using op_type = gate;
  using value_type = int;
  std::optional<std::vector<int>> infer(const gate&, std::span<const int>) const;
  std::size_t kind_count() const;
  std::optional<unity::kind_id> find_kind(std::string_view) const;
  const unity::op_signature& signature(unity::kind_id) const;
  unity::kind_id kind_of(const gate&) const;
  unity::attribute_list attributes_of(const gate&) const;
  std::optional<gate> make(unity::kind_id, std::span<const unity::attribute>) const;
  std::optional<int> find_measure(std::string_view) const;
  std::optional<unity::attribute> measure(int, int, std::span<const std::int64_t>) const;
};

struct no_objective {
  using cost_type = std::int64_t;
  std::int64_t node_cost(const gate&, std::span<const int>, std::span<const int>) const;
};

void search(const unity::rule_set& rules, const unity::compact_graph<gate, int>& g) {
  unity::rewrite_space space{circuits{}, no_objective{}, rules, g};
}
