// Checks tensors that are filled part by part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/backend/host_values.hpp>
#include <unity/core/random.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::train::test {

// Random disjoint boxes that cover the whole, made by cutting.
inline std::vector<parallel::box> random_cover(const tensor::shape& dims, random_engine& random) {
  std::vector<parallel::box> cover{parallel::whole(dims)};
  for (auto cuts = random.below(8); cuts > 0; --cuts) {
    const auto which = random.below(cover.size());
    const auto d = dims.size() == 0 ? 0 : random.below(dims.size());
    auto& b = cover[which];
    if (dims.size() == 0 || b.end[d] - b.begin[d] < 2) {
      continue;
    }
    auto rest = b;
    rest.begin[d] = b.end[d] = random.between(b.begin[d] + 1, b.end[d] - 1);
    cover.push_back(rest);
  }
  return cover;
}

// Copies the elements of a box to their place in the whole, row-major.
inline void place(const std::vector<std::byte>& part, const parallel::box& b, const tensor::tensor_type& t,
                  std::vector<std::byte>& all) {
  const auto size = static_cast<std::size_t>(tensor::size_of(t.element));
  const auto* from = part.data();
  for_each_position(b.begin, b.end, [&](const tensor::shape& at) {
    std::memcpy(all.data() + offset_of(t.dims, at) * size, from, size);
    from += size;
  });
}

// Checks that fill(type, box, bytes) makes the same tensor for every cover by boxes.
template <class Fill>
void check_covers(const tensor::tensor_type& t, std::uint64_t seed, const Fill& fill) {
  CAPTURE(seed);
  random_engine random{seed};
  std::vector<std::byte> whole(backend::byte_count(t));
  fill(t, parallel::whole(t.dims), whole);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    std::vector<std::byte> all(whole.size());
    for (const auto& b : random_cover(t.dims, random)) {
      std::vector<std::byte> part(static_cast<std::size_t>(b.volume() * tensor::size_of(t.element)));
      fill(t, b, part);
      place(part, b, t, all);
    }
    REQUIRE(all == whole);
  }
}

}  // namespace unity::train::test
