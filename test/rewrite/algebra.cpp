// Static tests: the smallest algebras that the concepts accept, and algebras that each lack one requirement.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>

namespace archetype {

struct op {
  friend bool operator==(op, op) = default;
};
struct value {
  friend bool operator==(value, value) = default;
};

}  // namespace archetype

template <>
struct std::hash<archetype::op> {
  std::size_t operator()(archetype::op) const { return 0; }
};
template <>
struct std::hash<archetype::value> {
  std::size_t operator()(archetype::value) const { return 0; }
};

namespace archetype {

using values = std::span<const value>;

// Neither copyable nor default-constructible: the concepts require only a const reference.
struct algebra {
  algebra() = delete;
  algebra(const algebra&) = delete;
  using op_type = op;
  using value_type = value;
  std::optional<std::vector<value>> infer(op, values) const;
};

struct pattern_algebra : algebra {
  unsigned char kind_count() const;
  std::optional<unity::kind_id> find_kind(std::string_view) const;
  unity::op_signature signature(unity::kind_id) const;
  unity::kind_id kind_of(op) const;
  unity::attribute_list attributes_of(op) const;
  std::optional<op> make(unity::kind_id, std::span<const unity::attribute>) const;
  std::optional<int> find_measure(std::string_view) const;
  std::optional<unity::attribute> measure(int, value, std::span<const std::int64_t>) const;
};

struct costed_algebra : algebra {
  unity::operator_work work(op, values, values) const;
};

struct variant_algebra : algebra {
  std::vector<op> variants(op, values) const;
};

}  // namespace archetype

static_assert(unity::algebra<archetype::algebra>);
static_assert(unity::pattern_algebra<archetype::pattern_algebra> && unity::algebra<archetype::pattern_algebra>);
static_assert(unity::costed_algebra<archetype::costed_algebra>);
static_assert(unity::variant_algebra<archetype::variant_algebra>);
static_assert(!unity::pattern_algebra<archetype::algebra> && !unity::costed_algebra<archetype::algebra>);
static_assert(!unity::variant_algebra<archetype::algebra>);

namespace near_miss {

using namespace archetype;

struct no_hash {
  friend bool operator==(no_hash, no_hash) = default;
};
struct no_equality {};

struct operator_without_hash : algebra {
  using op_type = no_hash;
  std::optional<std::vector<value>> infer(no_hash, values) const;
};
struct value_without_equality : algebra {
  using value_type = no_equality;
  std::optional<std::vector<no_equality>> infer(op, std::span<const no_equality>) const;
};
struct inference_that_always_succeeds : algebra {  // cannot report that operands do not fit
  std::vector<value> infer(op, values) const;
};
struct inference_that_changes_the_algebra : algebra {
  std::optional<std::vector<value>> infer(op, values);
};

struct no_kinds : archetype::pattern_algebra {
  void kind_count() const = delete;
};
struct kinds_that_must_exist : archetype::pattern_algebra {
  unity::kind_id find_kind(std::string_view) const;
};
struct no_attributes : archetype::pattern_algebra {
  void attributes_of(op) const = delete;
};
struct attributes_never_bad : archetype::pattern_algebra {
  op make(unity::kind_id, std::span<const unity::attribute>) const;
};
struct measures_never_missing : archetype::pattern_algebra {
  unity::attribute measure(int, value, std::span<const std::int64_t>) const;
};

struct work_in_seconds : archetype::costed_algebra {
  double work(op, values, values) const;
};
struct work_of_inputs_alone : archetype::costed_algebra {
  unity::operator_work work(op, values) const;
};
struct one_variant : archetype::variant_algebra {
  op variants(op, values) const;
};

}  // namespace near_miss

static_assert(!unity::has_operators<near_miss::operator_without_hash> &&
              unity::has_value_types<near_miss::operator_without_hash> &&
              unity::has_inference<near_miss::operator_without_hash>);
static_assert(!unity::has_value_types<near_miss::value_without_equality> &&
              unity::has_operators<near_miss::value_without_equality> &&
              unity::has_inference<near_miss::value_without_equality>);
static_assert(!unity::has_inference<near_miss::inference_that_always_succeeds>);
static_assert(!unity::has_inference<near_miss::inference_that_changes_the_algebra>);
static_assert(!unity::algebra<near_miss::operator_without_hash> && !unity::algebra<near_miss::value_without_equality> &&
              !unity::algebra<near_miss::inference_that_always_succeeds> && !unity::algebra<int>);

static_assert(!unity::has_signatures<near_miss::no_kinds> && unity::has_attributes<near_miss::no_kinds>);
static_assert(!unity::has_signatures<near_miss::kinds_that_must_exist>);
static_assert(!unity::has_attributes<near_miss::no_attributes> && unity::has_measures<near_miss::no_attributes>);
static_assert(!unity::has_attributes<near_miss::attributes_never_bad>);
static_assert(!unity::has_measures<near_miss::measures_never_missing>);
static_assert(!unity::pattern_algebra<near_miss::no_kinds> && !unity::pattern_algebra<near_miss::no_attributes> &&
              !unity::pattern_algebra<near_miss::measures_never_missing>);

static_assert(unity::algebra<near_miss::work_in_seconds> && !unity::costed_algebra<near_miss::work_in_seconds>);
static_assert(!unity::costed_algebra<near_miss::work_of_inputs_alone>);
static_assert(unity::algebra<near_miss::one_variant> && !unity::variant_algebra<near_miss::one_variant>);

static_assert(unity::hashable<std::string> && unity::hashable<unity::node_id>);
static_assert(!unity::hashable<near_miss::no_hash>);
