// Random cases of operators that move, gather, scatter or rearrange elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "case_maker.hpp"
#include "testing.hpp"

namespace unity::tensor::test {

inline random_case concat_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  const auto axis = m.below(std::ssize(dims));
  types inputs;
  for (auto parts = m.size(3); parts > 0; --parts) {
    inputs.push_back(type(dims));
    inputs.back().dims[static_cast<std::size_t>(axis)] = m.size();
  }
  return m.make("concat", {{"axis", axis}}, std::move(inputs));
}

inline random_case split_case(case_maker& m) {
  auto dims = m.dims(1, 4);
  const auto axis = m.below(std::ssize(dims));
  shape sizes;
  auto& total = dims[static_cast<std::size_t>(axis)];
  total = 0;
  for (auto parts = m.size(3); parts > 0; --parts) {
    sizes.push_back(m.size());
    total += sizes.back();
  }
  return m.make("split", {{"axis", axis}, {"sizes", sizes}}, {type(dims)});
}

inline random_case slice_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  const auto axes = m.axes(dims.size());
  shape starts;
  shape ends;
  shape steps;
  for (const auto a : axes) {
    const auto size = dims[static_cast<std::size_t>(a)];
    starts.push_back(m.below(size));
    ends.push_back(m.random().between(starts.back() + 1, size));
    steps.push_back(m.size(2));
  }
  return m.make("slice", {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", steps}}, {type(dims)});
}

inline random_case pad_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  shape pads;
  for (std::size_t i = 0; i < 2 * dims.size(); ++i) {
    pads.push_back(m.below(3));
  }
  return m.make("pad", {{"pads", pads}, {"value", m.below(2) == 0 ? 0.0 : 1.5}}, {type(dims)});
}

inline random_case enlarge_case(case_maker& m) {
  const shape w{m.size(), m.size(), m.size(3), m.size(3)};
  return m.make("enlarge", {{"kernel", {w[2] + 2 * m.below(2), w[3] + 2 * m.below(3)}}}, {type(w)});
}

inline random_case transpose_case(case_maker& m) {
  const auto dims = m.dims(1, 4);
  shape permutation;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    permutation.push_back(static_cast<std::int64_t>(d));
  }
  std::shuffle(permutation.begin(), permutation.end(), m.random());
  return m.make("transpose", {{"permutation", permutation}}, {type(dims)});
}

inline random_case reshape_case(case_maker& m) {
  const auto factors = m.dims(1, 5);
  const auto grouped = [&] {
    shape dims{1};
    for (const auto f : factors) {
      if (m.below(2) == 0) {
        dims.push_back(f);
      } else {
        dims.back() *= f;
      }
    }
    return dims;
  };
  const auto from = grouped();
  return m.make("reshape", {{"dims", grouped()}}, {type(from)});
}

inline random_case squeeze_case(case_maker& m) {
  auto dims = m.dims(1, 4);
  const auto axes = m.axes(dims.size());
  for (const auto a : axes) {
    dims[static_cast<std::size_t>(a)] = 1;
  }
  return m.make("squeeze", {{"axes", axes}}, {type(dims)});
}

inline void add_movements(case_table& table) {
  table["concat"] = concat_case;
  table["split"] = split_case;
  table["slice"] = slice_case;
  table["pad"] = pad_case;
  table["enlarge"] = enlarge_case;
  table["transpose"] = transpose_case;
  table["reshape"] = reshape_case;
  table["squeeze"] = squeeze_case;
  table["expand"] = [](case_maker& m) {
    const auto joint = m.dims(1, 4);
    return m.make("expand", {{"dims", joint}}, {type(m.stretched(joint))});
  };
  table["unsqueeze"] = [](case_maker& m) {
    const auto axes = m.axes(static_cast<std::size_t>(m.size()));
    const auto rank = axes.back() + 1 - std::ssize(axes) + m.below(2);
    return m.make("unsqueeze", {{"axes", axes}}, {type(m.dims(rank, rank))});
  };
}

// Graphs of n vertices whose edges come from m.
inline void add_segments(case_table& table) {
  table["incidence"] = [](case_maker& m) {
    const auto offsets = type({m.size()}, dtype::int64);
    return m.make("incidence", {{"edges", m.size(6)}, {"element", "float32"}}, {offsets, offsets});
  };
  const auto list = [](std::int64_t n) { return type({n}, n % 2 == 0 ? dtype::int32 : dtype::int64); };
  for (const std::string name : {"segment_sum", "segment_mean", "segment_max"}) {
    table[name] = [name, list](case_maker& m) {
      const auto x = m.dims(1, 3);
      const auto e = m.size(6);
      types all{type(x), list(m.size() + 1), list(e), list(x[0] + 1), list(e)};
      all.resize(name == "segment_max" ? 3 : 5);
      return m.make(name, {}, all);
    };
  }
  table["segment_softmax"] = [list](case_maker& m) {
    return m.make("segment_softmax", {}, {type(m.dims(1, 3)), list(m.size() + 1)});
  };
  table["segment_weighted_sum"] = [list](case_maker& m) {
    const auto x = m.dims(3, 3);
    const auto e = m.size(6);
    const shape weights{e, x[1]};
    return m.make("segment_weighted_sum", {},
                  {type(x), type(weights), list(m.size() + 1), list(e), list(x[0] + 1), list(e), list(e)});
  };
}

inline void add_indexings(case_table& table) {
  const auto numbers = [](shape dims) { return type(std::move(dims), dtype::int64); };
  table["linear_index"] = [](case_maker& m) {
    const auto dims = m.dims(0, 3);
    shape strides;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      strides.push_back(m.random().between(-3, 3));
    }
    return m.make("linear_index", {{"dims", dims}, {"strides", strides}, {"start", m.size()}}, {});
  };
  table["scatter_sum"] = [numbers](case_maker& m) {
    const auto x = m.dims(0, 3);
    const std::span<const std::int64_t> all{x};
    const auto first = static_cast<std::size_t>(m.below(std::ssize(x) + 1));
    return m.make("scatter_sum", {{"rows", m.size()}}, {numbers(shape(all.first(first))), type(x)});
  };
  table["gather"] = [numbers](case_maker& m) {
    const auto x = m.dims(1, 3);
    return m.make("gather", {{"axis", m.below(std::ssize(x))}}, {type(x), numbers(m.dims(0, 2))});
  };
  const auto within = [](case_maker& m, const shape& x) {
    shape dims;
    for (const auto d : x) {
      dims.push_back(m.random().between(1, d));
    }
    return dims;
  };
  table["gather_elements"] = [numbers, within](case_maker& m) {
    const auto x = m.dims(1, 3);
    return m.make("gather_elements", {{"axis", m.below(std::ssize(x))}}, {type(x), numbers(within(m, x))});
  };
  table["scatter_elements"] = [numbers, within](case_maker& m) {
    const auto x = m.dims(1, 3);
    const auto n = within(m, x);
    return m.make("scatter_elements", {{"axis", m.below(std::ssize(x))}, {"reduction", m.below(2)}},
                  {type(x), numbers(n), type(n)});
  };
  table["gather_nd"] = [numbers](case_maker& m) {
    const auto x = m.dims(1, 4);
    const auto batch = m.below(std::ssize(x));
    shape n(std::span<const std::int64_t>{x}.first(static_cast<std::size_t>(batch)));
    n.push_back(m.size());
    n.push_back(m.random().between(1, std::ssize(x) - batch));
    return m.make("gather_nd", {{"batch", batch}}, {type(x), numbers(n)});
  };
  table["scatter_nd"] = [numbers](case_maker& m) {
    const auto x = m.dims(1, 3);
    auto n = m.dims(0, 2);
    auto updates = n;
    n.push_back(m.random().between(1, std::ssize(x)));
    updates.append(x.begin() + n.back(), x.end());
    return m.make("scatter_nd", {{"reduction", m.below(2)}}, {type(x), numbers(n), type(updates)});
  };
  table["one_hot_values"] = [numbers](case_maker& m) {
    const auto n = m.dims(0, 2);
    return m.make("one_hot_values", {{"axis", m.below(std::ssize(n) + 1)}, {"depth", m.size()}},
                  {numbers(n), type({2})});
  };
}

inline void add_rearrangements(case_table& table) {
  table["tile"] = [](case_maker& m) {
    const auto dims = m.dims(0, 3);
    shape repeats;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      repeats.push_back(m.size(3));
    }
    return m.make("tile", {{"repeats", repeats}}, {type(dims)});
  };
  table["strided_slice"] = [](case_maker& m) {
    const auto dims = m.dims(1, 3);
    const auto axes = m.axes(dims.size());
    shape starts;
    shape counts;
    shape steps;
    for (const auto a : axes) {
      const auto size = dims[static_cast<std::size_t>(a)];
      starts.push_back(m.below(size));
      steps.push_back(m.below(2) == 0 ? m.size(2) : -m.size(2));
      const auto room = steps.back() > 0 ? size - 1 - starts.back() : starts.back();
      counts.push_back(m.random().between(1, room / std::abs(steps.back()) + 1));
    }
    return m.make("strided_slice", {{"axes", axes}, {"starts", starts}, {"counts", counts}, {"steps", steps}},
                  {type(dims)});
  };
  table["border_pad"] = [](case_maker& m) {
    const auto dims = m.dims(1, 3);
    shape pads;
    for (std::size_t i = 0; i < 2 * dims.size(); ++i) {
      pads.push_back(m.random().between(-1, 2));
    }
    return m.make("border_pad", {{"mode", m.below(4)}, {"pads", pads}, {"value", m.below(2) == 0 ? 0.0 : 1.5}},
                  {type(dims)});
  };
  table["depth_to_space"] = [](case_maker& m) {
    const auto s = m.size(2);
    return m.make("depth_to_space", {{"block", s}, {"order", m.below(2)}},
                  {type({m.size(2), m.size(2) * s * s, m.size(), m.size()})});
  };
  table["space_to_depth"] = [](case_maker& m) {
    const auto s = m.size(2);
    return m.make("space_to_depth", {{"block", s}}, {type({m.size(2), m.size(), m.size() * s, m.size() * s})});
  };
  table["trilu"] = [](case_maker& m) {
    return m.make("trilu", {{"upper", m.below(2)}, {"k", m.random().between(-2, 2)}}, {type(m.dims(2, 4))});
  };
  table["eye_like"] = [](case_maker& m) {
    return m.make("eye_like", {{"k", m.random().between(-2, 2)}}, {type(m.dims(2, 2))});
  };
}

}  // namespace unity::tensor::test
