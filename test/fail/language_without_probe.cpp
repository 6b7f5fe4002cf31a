// expect: satisf[a-z ]+[^a-z]+term_language
// expect: c[.]probe[(]type[)][^ ]* (is|would be) invalid
// A term language without probes, the few elements at which terms are compared.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <unity/rewrite/generation/enumerate.hpp>

struct blind {
  std::size_t operator_count() const;
  std::size_t arity(std::size_t) const;
  bool commutative(std::size_t) const;
  bool may_ignore(std::size_t) const;
  std::optional<std::size_t> next_result(std::size_t) const;
  std::span<const std::uint16_t> sorts() const;
  std::optional<unity::application> infer(std::size_t, std::span<const std::uint16_t>);
  std::size_t elements(std::uint16_t) const;
  void variable_value(std::size_t, std::size_t, unity::residue*) const;
  const unity::sample_program& program(std::uint16_t) const;
  std::span<const std::size_t> probe_elements(std::uint16_t) const;
  std::uint64_t deep_fingerprint(const unity::written_term&, bool);
};

void enumerate(blind& language) { unity::enumeration<blind> terms{language, {}}; }
