// expect: (satisf[a-z ]+[^a-z]+duration_model|duration_model<[^>]*>. evaluated to false)
// expect: m[.]duration_of[(][^ ]* .*(is|would be) invalid
// A timer measures anew on every call, but prices must not change during a search. A timing_cache stores its
// measurements, and measured_durations of that cache is a duration model.
#include <span>
#include <string>

#include <unity/cost/duration.hpp>
#include <unity/tensor/cost.hpp>

struct stopwatch_of_operators {
  unity::measurement time(const unity::tensor::operation&, std::span<const unity::tensor::tensor_type>,
                          std::span<const unity::tensor::tensor_type>);
  std::string description() const;
};

using prices = unity::tensor::time_cost<stopwatch_of_operators>;
