// expect: (satisf[a-z ]+[^a-z]+remembering_timer|remembering_timer<[^>]*>. evaluated to false)
// expect: c[.]measured[(][)][^ ]* (is|would be) invalid
// Prices have to stay as they are for as long as a search runs: a timer that measures anew is put into a timing_cache.
#include <span>
#include <string>

#include <unity/tensor/measured_cost.hpp>

struct stopwatch_of_operators {
  unity::measurement time(const unity::tensor::operation&, std::span<const unity::tensor::tensor_type>,
                          std::span<const unity::tensor::tensor_type>);
  std::string description() const;
};

using prices = unity::tensor::measured_cost<stopwatch_of_operators>;
