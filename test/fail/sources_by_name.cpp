// expect: source_provider
// expect: provider[(]op, type[)][^ ]* (is|would be) invalid
// A source provider must take the source's type, not only its name.
#include <optional>
#include <string>

#include <unity/tensor/evaluate.hpp>

struct named_values {
  std::optional<unity::tensor::dense<double>> operator()(const std::string& name) const;
};

auto run(const unity::tensor::algebra& a, const unity::tensor::tensor_graph& g) {
  return unity::tensor::evaluate<double>(a, g, named_values{});
}
