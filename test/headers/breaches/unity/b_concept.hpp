#pragma once

namespace unity::breaches {

template <weighed T>
void use(T);

}  // namespace unity::breaches
