// expect: (satisf[a-z ]+[^a-z]+kernel_timer|kernel_timer<[^>]*>. evaluated to false)
// expect: t[.]time[(]op, types, types[)]([^ ]* does not satisfy return-type| } -> )
// A timer returns a measurement with its number of runs; estimates belong in a cost model.
#include <span>
#include <string>

#include <unity/tensor/timing_cache.hpp>

struct estimate {
  unity::picoseconds time(const unity::tensor::operation&, std::span<const unity::tensor::tensor_type>,
                          std::span<const unity::tensor::tensor_type>);
  std::string description() const;
};

using times = unity::tensor::timing_cache<estimate>;
