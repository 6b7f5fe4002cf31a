// All ways to fill in the open parts of an operator, within bounds: the building blocks of the instances of
// rules within bounds. Over 500 lines because each kind of attribute is listed in its own way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/guesses.hpp>
#include <unity/tensor/rules/partial_instance.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// The range of instances: largest values, except least_rank.
struct instance_bounds {
  std::int64_t size = 4;       // of a dimension of a variable; the least is 1
  std::size_t least_rank = 0;  // of variables of any rank
  std::size_t rank = 4;
  std::int64_t kernel = 3;      // of convolutions and pools, in both dimensions
  std::size_t repetitions = 3;  // of `...`
  std::size_t axes = 2;         // of operators with any number of them
  std::size_t new_rank = 4;     // of results of reshape
  std::vector<attribute> strides{{1, 1}, {2, 1}};
  std::vector<attribute> dilations{{1, 1}, {1, 2}};
  std::vector<attribute> pads{{0, 0, 0, 0}, {1, 0, 0, 1}, {1, 1, 1, 1}, {1, 0, 1, 0}};
  std::vector<double> reals{0.5, 1.0, 2.0, -0.5, -2.0};  // for real attributes that no condition compares
};

namespace detail {

void list_shapes(const instance_bounds& b, shape& s, std::vector<shape>& all);
[[nodiscard]] std::vector<shape> all_shapes(const instance_bounds& b);

// Proposes a superset of what the operator accepts: callers must infer types.
class completions {
 public:
  using size = std::int64_t;
  using visitor = std::function<bool(const proposal&)>;  // returns whether to continue

  // reals: values to try for real attributes, if not empty. random: if not null, choices are tried in a random order.
  completions(const instance_bounds& b, const std::vector<double>& reals, random_engine* random)
      : bounds_{b}, reals_{reals}, random_{random} {}

  // Fills in the operands in order, each from its menu, then the attributes, unless the kind requires another order.
  void each(proposal& p, std::span<const std::vector<shape>* const> menus, const visitor& visit) const;

 private:
  struct place {
    bool is_operand;
    std::size_t number;
    friend bool operator==(const place&, const place&) = default;
  };

  static void push_attributes(const proposal& p, std::string_view name, std::vector<place>& open);

  bool fill(proposal& p, std::span<const place> open, std::span<const std::vector<shape>* const> menus,
            const visitor& visit) const;
  // Calls f(choice) until it returns false; returns whether it never did. A random order has a random start and step.
  template <class Choice, class F>
  bool try_each(const std::vector<Choice>& choices, F f) const {
    const auto count = choices.size();
    std::size_t at = 0;
    std::size_t step = 1;
    if (random_ != nullptr && count > 1) {
      at = static_cast<std::size_t>(random_->below(count));
      do {
        step = 1 + static_cast<std::size_t>(random_->below(count - 1));
      } while (std::gcd(step, count) != 1);
    }
    for (std::size_t i = 0; i < count; ++i, at = (at + step) % count) {
      if (!f(choices[at])) {
        return false;
      }
    }
    return true;
  }

 public:
  // Whether the known operands can possibly be completed; only saves time.
  [[nodiscard]] static bool may_fit(const proposal& p);

 private:
  [[nodiscard]] bool kernel_fits(const proposal& p, std::size_t number) const;

  [[nodiscard]] static bool may_join(const proposal& p);
  [[nodiscard]] static bool may_multiply(const proposal& p);
  // Whether scales and shifts can fit: they have the size of the channels, or of the dimensions from some axis on.
  [[nodiscard]] static bool may_normalize(const proposal& p);
  [[nodiscard]] static bool may_be_linear(const proposal& p);
  [[nodiscard]] static bool may_convolve(const proposal& p);

  [[nodiscard]] std::vector<attribute> values(const proposal& p, const attribute_field& f) const;
  // All choices; of element types, one of floating-point numbers, one of integers, and bool.
  [[nodiscard]] static std::vector<attribute> choices(const attribute_signature& a);
  [[nodiscard]] std::vector<attribute> reals(const attribute_signature& a) const;
  [[nodiscard]] static std::vector<attribute> range(size from, size to);
  [[nodiscard]] std::vector<attribute> integers(const proposal& p, const attribute_field& f) const;

  [[nodiscard]] std::vector<attribute> lists(const proposal& p, const attribute_field& f) const;
  // All lists of `length` integers between least and most.
  [[nodiscard]] static std::vector<attribute> boxes(std::size_t length, size least, size most);
  // All sizes within bounds; up to 5 for enlarge, 1 or 3 for identity_kernel.
  [[nodiscard]] std::vector<attribute> kernels(const proposal& p) const;
  [[nodiscard]] std::vector<attribute> window_pads(const proposal& p) const;
  [[nodiscard]] static std::vector<attribute> permutations(std::size_t rank);
  // Shapes with equally many elements (reshape), shapes that the operand broadcasts to (expand), or any.
  [[nodiscard]] std::vector<attribute> dims(const proposal& p) const;
  void factor(size left, attribute& so_far, std::vector<attribute>& all) const;
  // All ways to cut an axis into as many parts as there may be results.
  [[nodiscard]] static std::vector<attribute> parts(const proposal& p);
  static void cut(size left, std::size_t count, attribute& so_far, std::vector<attribute>& all);
  [[nodiscard]] std::vector<attribute> subsets(std::size_t rank) const;
  // Ranges of slices, along each of their axes.
  [[nodiscard]] static std::vector<attribute> ranges(const proposal& p, std::string_view name);

  const instance_bounds& bounds_;
  const std::vector<double>& reals_;
  random_engine* random_;
};

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_COMPLETIONS)

#include <algorithm>
#include <array>

#include <unity/tensor/work.hpp>

namespace unity::tensor::detail {

UNITY_INLINE void list_shapes(const instance_bounds& b, shape& s, std::vector<shape>& all) {
  if (s.size() >= b.least_rank) {
    all.push_back(s);
  }
  for (std::int64_t d = 1; s.size() < b.rank && d <= b.size; ++d) {
    s.push_back(d);
    list_shapes(b, s, all);
    s.pop_back();
  }
}

UNITY_INLINE std::vector<shape> all_shapes(const instance_bounds& b) {
  std::vector<shape> all;
  shape s;
  list_shapes(b, s, all);
  return all;
}

UNITY_INLINE void completions::each(proposal& p, std::span<const std::vector<shape>* const> menus,
                                    const visitor& visit) const {
  std::vector<place> open;
  const auto push_operands = [&](std::size_t from, std::size_t to) {
    for (auto k = from; k < std::min(to, p.operands.size()); ++k) {
      if (!p.operands[k]) {
        open.push_back({true, k});
      }
    }
  };
  const bool early = p.kind == "concat" || p.kind == "conv2d";  // an attribute constrains the later operands
  push_operands(0, early ? 1 : p.operands.size());
  if (early) {
    push_attributes(p, p.kind == "concat" ? "axis" : "groups", open);
    push_operands(1, p.operands.size());
  }
  for (std::size_t k = 0; k < p.attributes.size(); ++k) {
    const place at{false, k};
    if (!p.attributes[k] && std::find(open.begin(), open.end(), at) == open.end()) {
      open.push_back(at);
    }
  }
  fill(p, open, menus, visit);
}

UNITY_INLINE void completions::push_attributes(const proposal& p, std::string_view name, std::vector<place>& open) {
  for (std::size_t k = 0; k < p.attributes.size(); ++k) {
    if (!p.attributes[k] && p.fields[k].signature.name == name) {
      open.push_back({false, k});
    }
  }
}

UNITY_INLINE bool completions::fill(proposal& p, std::span<const place> open,
                                    std::span<const std::vector<shape>* const> menus, const visitor& visit) const {
  if (open.empty()) {
    return visit(p);
  }
  const auto [is_operand, number] = open.front();
  if (is_operand) {
    const bool goes_on = try_each(*menus[number], [&](const shape& s) {
      p.operands[number] = s;
      return !kernel_fits(p, number) || !may_fit(p) || fill(p, open.subspan(1), menus, visit);
    });
    p.operands[number].reset();
    return goes_on;
  }
  const bool goes_on = try_each(values(p, p.fields[number]), [&](const attribute& value) {
    p.attributes[number] = value;
    return fill(p, open.subspan(1), menus, visit);
  });
  p.attributes[number].reset();
  return goes_on;
}

UNITY_INLINE bool completions::may_fit(const proposal& p) {
  if (p.kind == "matmul") {
    return may_multiply(p);
  }
  if (p.kind == "concat") {
    return may_join(p);
  }
  if (p.kind == "conv2d") {
    return may_convolve(p);
  }
  if (p.kind == "linear") {
    return may_be_linear(p);
  }
  if (p.kind == "batch_norm" || p.kind == "layer_norm") {
    return may_normalize(p);
  }
  if (p.kind == "scalar_multiply") {
    return !p.operands[1] || p.operands[1]->empty();
  }
  if (p.kind == "enlarge" || (p.kind.find("pool") != std::string_view::npos && !p.operands.empty())) {
    return !p.operands[0] || p.operands[0]->size() == 4;
  }
  const bool binary = p.operands.size() == 2 && p.fields.empty();
  return !binary || !p.operands[0] || !p.operands[1] || broadcast(*p.operands[0], *p.operands[1]).has_value();
}

UNITY_INLINE bool completions::kernel_fits(const proposal& p, std::size_t number) const {
  const auto& w = *p.operands[number];
  const bool is_kernel = (p.kind == "conv2d" && number == 1) || (p.kind == "enlarge" && number == 0);
  return !is_kernel || w.size() != 4 || std::max(w[2], w[3]) <= bounds_.kernel;
}

UNITY_INLINE bool completions::may_join(const proposal& p) {
  const auto first = std::find_if(p.operands.begin(), p.operands.end(), [](const auto& o) { return o.has_value(); });
  for (const auto& o : p.operands) {
    if (!o) {
      continue;
    }
    std::size_t differences = o->size() == (*first)->size() ? 0 : 2;
    for (std::size_t d = 0; differences < 2 && d < o->size(); ++d) {
      const bool along = p.attributes[0] && (*p.attributes[0])[0] == static_cast<size>(d);
      differences += (*o)[d] == (**first)[d] || along ? 0 : p.attributes[0] ? 2 : 1;
    }
    if (differences > 1) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool completions::may_multiply(const proposal& p) {
  const auto& a = p.operands[0];
  const auto& b = p.operands[1];
  if ((a && a->size() < 2) || (b && b->size() < 2)) {
    return false;
  }
  return !a || !b || a->back() == (*b)[b->size() - 2];
}

UNITY_INLINE bool completions::may_normalize(const proposal& p) {
  const auto& x = p.operands[0];
  for (std::size_t k = 1; k < p.operands.size(); ++k) {
    const auto& o = p.operands[k];
    if (o && p.kind == "batch_norm" && (o->size() != 1 || (x && (x->size() < 2 || (*x)[1] != o->front())))) {
      return false;
    }
    const bool ends_alike =
        !o || !x || (o->size() <= x->size() && std::equal(o->begin(), o->end(), x->end() - o->size()));
    if (p.kind == "layer_norm" && !ends_alike) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool completions::may_be_linear(const proposal& p) {
  const auto& x = p.operands[0];
  const auto& w = p.operands[1];
  if ((x && x->empty()) || (w && w->size() != 2) || (x && w && x->back() != w->front())) {
    return false;
  }
  const auto bias = p.operands.size() > 2 ? p.operands[2] : std::nullopt;
  return !bias || (bias->size() == 1 && (!w || bias->front() == w->back()));
}

UNITY_INLINE bool completions::may_convolve(const proposal& p) {
  const auto& x = p.operands[0];
  const auto& w = p.operands[1];
  if ((x && x->size() != 4) || (w && w->size() != 4)) {
    return false;
  }
  const auto groups = p.attributes[4] ? (*p.attributes[4])[0] : 0;
  if (x && w && groups > 0 && ((*x)[1] != saturating_multiply((*w)[1], groups) || w->front() % groups != 0)) {
    return false;
  }
  const auto bias = p.operands.size() > 2 ? p.operands[2] : std::nullopt;
  return !bias || (bias->size() == 1 && (!w || bias->front() == w->front()));
}

UNITY_INLINE std::vector<attribute> completions::values(const proposal& p, const attribute_field& f) const {
  const auto& a = f.signature;
  switch (a.form) {
    case attribute_form::choice: return choices(a);
    case attribute_form::real: return reals(a);
    case attribute_form::word: return {word_attribute("w")};
    case attribute_form::integer: return integers(p, f);
    case attribute_form::integers: return lists(p, f);
  }
  return {};
}

UNITY_INLINE std::vector<attribute> completions::choices(const attribute_signature& a) {
  if (!is_element_type(a)) {
    return range(0, static_cast<size>(a.choices.size()) - 1);
  }
  std::vector<attribute> all;
  for (const auto element : {dtype::float32, dtype::int64, dtype::boolean}) {
    all.push_back({static_cast<size>(element)});
  }
  return all;
}

UNITY_INLINE std::vector<attribute> completions::reals(const attribute_signature& a) const {
  std::vector<attribute> all;
  if (!a.default_value.empty()) {
    all.push_back(a.default_value);
  }
  for (const auto r : reals_) {
    all.push_back(real_attribute(r));
  }
  for (const auto r : bounds_.reals) {
    const bool is_wanted = reals_.empty() || all.size() <= reals_.size();  // one besides those that conditions state
    if (is_wanted && is_usual(a, r) && std::find(all.begin(), all.end(), real_attribute(r)) == all.end()) {
      all.push_back(real_attribute(r));
    }
  }
  return all;
}

UNITY_INLINE std::vector<attribute> completions::range(size from, size to) {
  std::vector<attribute> all;
  for (; from <= to; ++from) {
    all.push_back({from});
  }
  return all;
}

UNITY_INLINE std::vector<attribute> completions::integers(const proposal& p, const attribute_field& f) const {
  if (f.is_flag) {
    return range(0, 1);
  }
  const auto rank = p.operands.empty() || !p.operands[0] ? bounds_.rank : p.operands[0]->size();
  if (f.signature.name == "axis") {
    return range(0, static_cast<size>(rank) - 1);
  }
  return range(f.signature.name == "k" ? -bounds_.size : 1, bounds_.size);  // k: a diagonal
}

UNITY_INLINE std::vector<attribute> completions::lists(const proposal& p, const attribute_field& f) const {
  const std::string_view name = f.signature.name;
  if (name == "stride") {
    return bounds_.strides;
  }
  if (name == "dilation") {
    return bounds_.dilations;
  }
  if (name == "kernel") {
    return kernels(p);
  }
  if (name == "pads") {
    return p.kind == "pad" || p.kind == "border_pad" ? boxes(2 * p.operands[0]->size(), 0, 1) : window_pads(p);
  }
  if (name == "permutation") {
    return permutations(p.operands[0]->size());
  }
  if (name == "dims") {
    return dims(p);
  }
  if (name == "sizes") {
    return parts(p);
  }
  if (name == "axes") {
    return subsets(p.operands[0]->size() + (p.kind == "unsqueeze" ? 1 : 0));
  }
  if (name == "starts" || name == "ends" || name == "counts" || name == "steps") {
    return ranges(p, name);
  }
  if (name == "repeats") {
    return boxes(p.operands[0]->size(), 1, 2);
  }
  return boxes(f.length == attribute_field::any ? 1 : f.length, 1, 2);
}

UNITY_INLINE std::vector<attribute> completions::boxes(std::size_t length, size least, size most) {
  std::vector<attribute> all{{}};
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<attribute> longer;
    for (const auto& a : all) {
      for (auto v = least; v <= most; ++v) {
        longer.push_back(a);
        longer.back().push_back(v);
      }
    }
    all = std::move(longer);
  }
  return all;
}

UNITY_INLINE std::vector<attribute> completions::kernels(const proposal& p) const {
  auto all = boxes(2, 1, p.kind == "enlarge" ? 5 : bounds_.kernel);
  if (p.kind == "identity_kernel") {
    all = {{1, 1}, {3, 1}, {1, 3}, {3, 3}};
  }
  return all;
}

UNITY_INLINE std::vector<attribute> completions::window_pads(const proposal& p) const {
  for (const auto& [field, value] : ranges::views::zip(p.fields, p.attributes)) {
    if (field.signature.name == "padding" && value && *value != attribute{0}) {
      return {{0, 0, 0, 0}};
    }
  }
  return bounds_.pads;
}

UNITY_INLINE std::vector<attribute> completions::permutations(std::size_t rank) {
  attribute p;
  for (std::size_t d = 0; d < rank; ++d) {
    p.push_back(static_cast<size>(d));
  }
  std::vector<attribute> all;
  do {
    all.push_back(p);
  } while (std::next_permutation(p.begin(), p.end()));
  return all;
}

UNITY_INLINE std::vector<attribute> completions::dims(const proposal& p) const {
  std::vector<attribute> all;
  if (p.kind == "reshape") {
    attribute so_far;
    factor(element_count(*p.operands[0]), so_far, all);
    return all;
  }
  for (const auto& s : all_shapes(bounds_)) {
    if (p.kind != "expand" || broadcast(*p.operands[0], s) == s) {
      all.emplace_back(std::span<const size>{s});
    }
  }
  return all;
}

UNITY_INLINE void completions::factor(size left, attribute& so_far, std::vector<attribute>& all) const {
  if (left == 1) {
    all.push_back(so_far);
  }
  for (size d = 1; so_far.size() < bounds_.new_rank && d <= left; ++d) {
    if (left % d == 0) {
      so_far.push_back(d);
      factor(left / d, so_far, all);
      so_far.pop_back();
    }
  }
}

UNITY_INLINE std::vector<attribute> completions::parts(const proposal& p) {
  std::vector<attribute> all;
  const auto& axis = p.attributes[0];
  const auto& x = *p.operands[0];
  if (!axis || (*axis)[0] < 0 || static_cast<std::size_t>((*axis)[0]) >= x.size()) {
    return all;
  }
  attribute so_far;
  for (auto count = p.results; count <= p.most_results; ++count) {
    cut(x[static_cast<std::size_t>((*axis)[0])], count, so_far, all);
  }
  return all;
}

UNITY_INLINE void completions::cut(size left, std::size_t count, attribute& so_far, std::vector<attribute>& all) {
  if (count == 0 && left == 0) {
    all.push_back(so_far);
  }
  for (size part = 1; count > 0 && part <= left; ++part) {
    so_far.push_back(part);
    cut(left - part, count - 1, so_far, all);
    so_far.pop_back();
  }
}

UNITY_INLINE std::vector<attribute> completions::subsets(std::size_t rank) const {
  std::vector<attribute> all;
  for (unsigned mask = 1; mask < 1U << rank; ++mask) {
    attribute axes;
    for (std::size_t d = 0; d < rank; ++d) {
      if ((mask >> d & 1U) != 0) {
        axes.push_back(static_cast<size>(d));
      }
    }
    if (axes.size() <= bounds_.axes) {
      all.push_back(std::move(axes));
    }
  }
  return all;
}

UNITY_INLINE std::vector<attribute> completions::ranges(const proposal& p, std::string_view name) {
  std::vector<attribute> all{{}};
  const auto& axes = p.attributes[0];
  const auto& starts = p.attributes[1];
  if (axes && (axes->size() > p.operands[0]->size() || (starts && starts->size() != axes->size()))) {
    return {};
  }
  for (std::size_t i = 0; axes && i < axes->size(); ++i) {
    const auto axis = static_cast<std::size_t>((*axes)[i]);
    if (axis >= p.operands[0]->size()) {
      return {};
    }
    const auto extent = (*p.operands[0])[axis];
    const size start = starts ? std::clamp<size>((*starts)[i], 0, extent) : 0;
    const size from = name == "starts" ? 0 : name == "ends" ? start + 1 : 1;
    const size to = name == "starts" ? extent - 1 : name == "ends" ? extent : name == "counts" ? extent - start : 2;
    std::vector<attribute> longer;
    for (const auto& a : all) {
      for (auto v = from; v <= to; ++v) {
        longer.push_back(a);
        longer.back().push_back(v);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace unity::tensor::detail

#endif
