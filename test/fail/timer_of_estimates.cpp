// expect: (satisf[a-z ]+[^a-z]+kernel_timer|kernel_timer<[^>]*>. evaluated to false)
// expect: t[.]time[(]op, types, types[)]([^ ]* does not satisfy return-type| } -> )
// A timer answers with what was measured, and how often; an estimate is a cost model.
#include <span>
#include <string>

#include <unity/tensor/timing_cache.hpp>

struct estimate {
  unity::picoseconds time(const unity::tensor::operation&, std::span<const unity::tensor::tensor_type>,
                          std::span<const unity::tensor::tensor_type>);
  std::string description() const;
};

using times = unity::tensor::timing_cache<estimate>;
