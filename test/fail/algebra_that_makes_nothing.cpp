// expect: satisf[a-z ]+[^a-z]+pattern_algebra
// expect: satisf[a-z ]+[^a-z]+has_attributes
// expect: a[.]make[(]kind, values[)][^ ]* (is|would be) invalid
// An algebra that can match operators but not construct them.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>

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
  std::optional<int> find_measure(std::string_view) const;
  std::optional<unity::attribute> measure(int, int, std::span<const std::int64_t>) const;
};

auto compile(const circuits& a) { return unity::compile_rules(a, unity::parse_rules("")); }
