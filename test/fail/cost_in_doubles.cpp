// expect: (satisf[a-z ]+[^a-z]+additive_cost_model|additive_cost_model<[^>]*>. evaluated to false)
// expect: m[.]objective[(]total[)]([^ ]* does not satisfy return-type| } -> )
// An objective must be an integer: sums of doubles depend on their order.
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

struct seconds_of_gates {
  using cost_type = double;
  double node_cost(const gate&, std::span<const int>, std::span<const int>) const;
  double objective(double) const;
};

using space = unity::rewrite_space<circuits, seconds_of_gates>;
