#pragma once

namespace unity::breaches {

template <class T>
[[nodiscard]] int four_times(T t) {
  return twice(twice(t));
}

}  // namespace unity::breaches
