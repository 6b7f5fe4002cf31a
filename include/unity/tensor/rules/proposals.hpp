// Guesses of operand shapes and attributes that an operator may take: what random instances of rules are made of.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// An operator in the making. What is known already stays; the rest is to be filled in.
struct proposal {
  std::string_view kind{};
  std::span<const attribute_field> fields{};
  std::vector<std::optional<attribute>> attributes{};  // by field
  std::vector<std::optional<shape>> operands{};
  std::vector<dtype> elements{};  // of the operands that are filled in
  std::size_t results = 1;        // that somebody reads, where the operator has any number

  [[nodiscard]] std::optional<attribute>& at(std::string_view name) {
    std::size_t i = 0;
    while (fields[i].signature.name != name) {
      ++i;
    }
    return attributes[i];
  }
};

// Guesses need not fit, only fit often. Sizes that rules relate are drawn under one name and often repeated, so that
// sums of two products, say, come about; one axis is preferred for all concats and splits of an instance.
class proposer {
 public:
  // reals: numbers that the rule compares attributes with.
  proposer(random_engine& random, std::span<const double> reals)
      : random_{random}, reals_{reals}, axis_{random.between(0, 3)} {}

  void fill_in(proposal& p) {
    if (const auto* family = find(p.kind)) {
      (this->*family->fill)(p);
    }
    for (std::size_t i = 0; i < p.operands.size(); ++i) {
      if (!p.operands[i]) {
        p.operands[i] = any_shape();
      }
    }
    for (std::size_t i = 0; i < p.attributes.size(); ++i) {
      if (!p.attributes[i]) {
        p.attributes[i] = any_value(p.fields[i]);
      }
    }
  }

 private:
  using size = std::int64_t;
  struct family {
    std::string_view kind;
    void (proposer::*fill)(proposal&);
  };
  static const family* find(std::string_view kind);

  [[nodiscard]] bool chance(int percent) { return random_.between(1, 100) <= percent; }
  [[nodiscard]] size any_size() {
    constexpr std::array<size, 7> sizes{1, 2, 2, 3, 3, 4, 5};
    return sizes[random_.below(sizes.size())];
  }
  // A size that other operators know under the same name: mostly the last one.
  size shared(const char* name, int percent = 70) {
    auto& last = last_[name];
    if (last == 0 || !chance(percent)) {
      last = any_size();
    }
    return last;
  }
  size shared_extent(const char* name) {
    auto& last = last_[name];
    if (last == 0 || !chance(80)) {
      last = random_.between(3, 8);
    }
    return last;
  }
  shape any_shape() {
    if (!last_shape_.empty() && chance(60)) {
      auto s = last_shape_;
      if (chance(50) && static_cast<std::size_t>(axis_) < s.size()) {
        s[static_cast<std::size_t>(axis_)] = any_size();
      }
      return s;
    }
    last_shape_.clear();
    for (auto rank = random_.between(1, 4); rank > 0; --rank) {
      last_shape_.push_back(any_size());
    }
    return last_shape_;
  }
  shape shape_of_rank(std::size_t rank) {
    shape s;
    while (s.size() < rank) {
      s.push_back(any_size());
    }
    return s;
  }
  attribute any_value(const attribute_field& f) {
    const auto& a = f.signature;
    if (a.form == attribute_form::choice) {
      return {a.choices.size() > 5 ? 0 : random_.between(0, static_cast<size>(a.choices.size()) - 1)};
    }
    if (a.form == attribute_form::real) {
      constexpr std::array<double, 4> usual{0.0, 0.5, 1.0, 1e-3};
      const auto& among = reals_.empty() ? std::span<const double>{usual} : reals_;
      return real_attribute(among[random_.below(among.size())]);
    }
    if (a.form == attribute_form::word) {
      return word_attribute("w");
    }
    if (!a.default_value.empty() && (f.length != 1 || chance(50))) {
      return a.default_value;
    }
    return f.length == 1 ? attribute{f.is_flag ? random_.between(0, 1) : any_size()} : attribute{};
  }
  size axis_below(std::size_t rank) {
    const bool usual = static_cast<std::size_t>(axis_) < rank && chance(80);
    return usual ? axis_ : static_cast<size>(random_.below(rank));
  }
  attribute some_axes(std::size_t rank) {
    attribute axes;
    const bool suffix = chance(50);
    const auto from = static_cast<size>(random_.below(rank));
    for (size d = 0; d < static_cast<size>(rank); ++d) {
      if (suffix ? d >= from : chance(40)) {
        axes.push_back(d);
      }
    }
    return axes.empty() ? attribute{from} : axes;
  }
  // A shape that `s` broadcasts with.
  shape fitting(const shape& s) {
    if (chance(50)) {
      return s;
    }
    shape other(std::span<const size>{s}.subspan(random_.below(s.size() + 1)));
    for (auto& d : other) {
      d = chance(30) ? 1 : d;
    }
    return other;
  }
  // Another shape of as many elements.
  shape reshaped(const shape& s) {
    auto left = element_count(s);
    shape other;
    for (auto parts = random_.between(0, 3); parts > 0; --parts) {
      const auto d = s.empty() ? 1 : s[random_.below(s.size())];
      other.push_back(left % d == 0 ? d : 1);
      left /= other.back();
    }
    if (left > 1 || other.empty()) {
      other.push_back(left);
    }
    return other;
  }

  void unary(proposal& p) {
    if (!p.operands[0]) {
      p.operands[0] = any_shape();
    }
  }
  void binary(proposal& p) {
    auto& a = p.operands[0];
    auto& b = p.operands[1];
    if (!a && !b) {
      a = any_shape();
    }
    if (!a) {
      a = fitting(*b);
    } else if (!b) {
      b = fitting(*a);
    }
  }
  void scalar_multiply(proposal& p) {
    unary(p);
    if (!p.operands[1]) {
      p.operands[1] = shape{};
    }
  }
  void matmul(proposal& p) {
    auto& a = p.operands[0];
    auto& b = p.operands[1];
    if (!a && !b) {
      if (!chance(70)) {
        batch_ = shape_of_rank(random_.below(3));
      }
      a = batch_;
      a->push_back(shared("m"));
      a->push_back(shared("k", 30));
    }
    if (!b && a->size() >= 2) {
      b = leading(*a);
      b->push_back(a->back());
      b->push_back(shared("n", 50));
    } else if (!a && b->size() >= 2) {
      a = leading(*b);
      a->push_back(shared("m", 50));
      a->push_back((*b)[b->size() - 2]);
    }
  }
  // Batch dimensions that go with those of a matrix operand.
  shape leading(const shape& of) {
    shape batch(std::span<const size>{of}.first(of.size() - 2));
    if (chance(30)) {
      batch.clear();
    }
    return batch;
  }
  void linear(proposal& p) {
    auto& x = p.operands[0];
    auto& w = p.operands[1];
    const auto bias = p.operands.size() > 2 ? p.operands[2] : std::nullopt;
    if (!w) {
      w = shape{x && !x->empty() ? x->back() : shared("k", 30), bias && !bias->empty() ? (*bias)[0] : shared("n", 50)};
    }
    if (!x && !w->empty()) {
      x = shape_of_rank(random_.below(3));
      for (auto& d : *x) {
        d = shared("m");
      }
      x->push_back((*w)[0]);
    }
    if (p.operands.size() > 2 && !bias && !w->empty()) {
      p.operands[2] = shape{w->back()};
    }
  }

  void window(proposal& p, std::span<const size> kernel) {
    auto& padding = p.at("padding");
    if (!padding) {
      padding = attribute{random_.between(0, 3)};
    }
    auto& pads = p.at("pads");
    if (!pads) {
      pads = attribute{0, 0, 0, 0};
      for (std::size_t i = 0; *padding == attribute{0} && i < 4; ++i) {
        (*pads)[i] = chance(50) ? 0 : random_.between(0, kernel[i % 2] - 1);
      }
      if (*padding == attribute{0} && chance(40)) {
        *pads = attribute{kernel[0] / 2, kernel[1] / 2, kernel[0] / 2, kernel[1] / 2};
      }
    }
    if (auto& stride = p.at("stride"); !stride) {
      stride = chance(60) ? attribute{1, 1} : attribute{random_.between(1, 3), random_.between(1, 3)};
    }
  }
  void conv2d(proposal& p) {
    auto& x = p.operands[0];
    auto& w = p.operands[1];
    auto& groups = p.at("groups");
    if (!groups) {
      const auto by_shapes = x && w && w->size() == 4 && x->size() == 4 && (*w)[1] > 0;
      const auto divisor = x && x->size() == 4 && chance(50) ? (*x)[1] : chance(40) ? 1 : shared("groups");
      groups = attribute{std::max<size>(1, by_shapes ? (*x)[1] / (*w)[1] : divisor)};
    }
    const auto g = std::max<size>(1, groups->empty() ? 1 : (*groups)[0]);
    if (!w) {
      const auto in = x && x->size() == 4 ? (*x)[1] / g : shared("ic", 50);
      const auto out = p.operands.size() > 2 && p.operands[2] && !p.operands[2]->empty() ? (*p.operands[2])[0] / g
                                                                                        : shared("oc", 50);
      w = shape{g * out, in, shared_kernel("kh"), shared_kernel("kw")};
    }
    if (!x && w->size() == 4) {
      x = shape{shared("batch"), (*w)[1] * g, shared_extent("h"), shared_extent("w")};
    }
    if (p.operands.size() > 2 && !p.operands[2]) {
      p.operands[2] = shape{w->front()};
    }
    if (auto& dilation = p.at("dilation"); !dilation) {
      dilation = chance(70) ? attribute{1, 1} : attribute{random_.between(1, 2), random_.between(1, 2)};
    }
    window(p, w->size() == 4 ? std::span<const size>{*w}.subspan(2) : std::span<const size>{fallback});
  }
  static constexpr std::array<size, 2> fallback{1, 1};
  size shared_kernel(const char* name) {
    auto& last = last_[name];
    if (last == 0 || !chance(75)) {
      last = random_.between(1, 4);
    }
    return last;
  }
  void image(proposal& p) {
    if (!p.operands[0]) {
      p.operands[0] = shape{shared("batch"), shared("channels", 50), shared_extent("h"), shared_extent("w")};
    }
  }
  void pool(proposal& p) {
    image(p);
    auto& kernel = p.at("kernel");
    if (!kernel) {
      kernel = attribute{shared_kernel("kh"), shared_kernel("kw")};
    }
    window(p, *kernel);
  }
  void batch_norm(proposal& p) {
    if (!p.operands[0]) {
      p.operands[0] = chance(60) ? shape_of_rank(4) : shape_of_rank(2 + random_.below(3));
    }
    const auto channels = p.operands[0]->size() < 2 ? 1 : (*p.operands[0])[1];
    for (std::size_t i = 1; i < p.operands.size(); ++i) {
      p.operands[i] = p.operands[i] ? p.operands[i] : shape{channels};
    }
  }
  void layer_norm(proposal& p) {
    unary(p);
    const auto& x = *p.operands[0];
    auto& axis = p.at("axis");
    if (!axis && !x.empty()) {
      axis = attribute{static_cast<size>(random_.below(x.size()))};
    }
    for (std::size_t i = 1; i < p.operands.size(); ++i) {
      if (!p.operands[i] && axis && static_cast<std::size_t>((*axis)[0]) < x.size()) {
        p.operands[i] = shape(std::span<const size>{x}.subspan(static_cast<std::size_t>((*axis)[0])));
      }
    }
  }
  void along_axis(proposal& p) {
    unary(p);
    auto& axis = p.at("axis");
    if (!axis && !p.operands[0]->empty()) {
      axis = attribute{axis_below(p.operands[0]->size())};
    }
  }
  void along_axes(proposal& p) {
    unary(p);
    auto& axes = p.at("axes");
    if (!axes && !p.operands[0]->empty()) {
      axes = some_axes(p.operands[0]->size());
    }
  }

  void concat(proposal& p) {
    const auto known = std::find_if(p.operands.begin(), p.operands.end(), [](const auto& o) { return o.has_value(); });
    auto base = known != p.operands.end() ? **known : any_shape();
    auto& axis = p.at("axis");
    if (!axis && !base.empty()) {
      axis = attribute{axis_below(base.size())};
    }
    for (auto& o : p.operands) {
      if (!o) {
        if (axis && static_cast<std::size_t>((*axis)[0]) < base.size()) {
          base[static_cast<std::size_t>((*axis)[0])] = any_size();
        }
        o = base;
      }
    }
  }
  void split(proposal& p) {
    auto& x = p.operands[0];
    auto& axis = p.at("axis");
    auto& sizes = p.at("sizes");
    if (!x) {
      x = any_shape();
      if (axis && static_cast<std::size_t>((*axis)[0]) >= x->size()) {
        x = shape_of_rank(static_cast<std::size_t>((*axis)[0]) + 1);
      }
      axis = axis ? axis : attribute{axis_below(x->size())};
      auto& extent = (*x)[static_cast<std::size_t>((*axis)[0])];
      if (!sizes) {
        sizes = attribute{};
        for (std::size_t i = 0; i < p.results; ++i) {
          sizes->push_back(any_size());
        }
      }
      extent = 0;
      for (const auto s : *sizes) {
        extent += s;
      }
    } else if (!x->empty()) {
      axis = axis ? axis : attribute{axis_below(x->size())};
      if (!sizes && static_cast<std::size_t>((*axis)[0]) < x->size()) {
        sizes = parts((*x)[static_cast<std::size_t>((*axis)[0])], p.results);
      }
    }
  }
  attribute parts(size whole, std::size_t count) {
    attribute sizes;
    for (auto left = static_cast<size>(count); left > 0; --left) {
      const auto most = whole - (left - 1);
      sizes.push_back(left == 1 ? whole : most > 0 ? random_.between(1, most) : 1);
      whole -= sizes.back();
    }
    return sizes;
  }
  void slice(proposal& p) {
    unary(p);
    const auto& x = *p.operands[0];
    auto& axes = p.at("axes");
    if (!axes && !x.empty()) {
      axes = chance(60) ? attribute{axis_below(x.size())} : some_axes(x.size());
    }
    attribute starts;
    attribute ends;
    attribute steps;
    for (const auto a : axes.value_or(attribute{})) {
      const auto extent = a >= 0 && static_cast<std::size_t>(a) < x.size() ? x[static_cast<std::size_t>(a)] : 1;
      const bool all = chance(30);
      starts.push_back(all ? 0 : random_.between(0, extent - 1));
      ends.push_back(all ? extent : random_.between(starts.back() + 1, extent));
      steps.push_back(chance(70) ? 1 : random_.between(1, 3));
    }
    p.at("starts") = p.at("starts") ? p.at("starts") : starts;
    p.at("ends") = p.at("ends") ? p.at("ends") : ends;
    p.at("steps") = p.at("steps") ? p.at("steps") : steps;
  }
  void pad(proposal& p) {
    unary(p);
    auto& pads = p.at("pads");
    if (!pads) {
      pads = attribute{};
      for (std::size_t i = 0; i < 2 * p.operands[0]->size(); ++i) {
        pads->push_back(random_.between(0, 2));
      }
    }
    if (auto& value = p.at("value"); !value) {
      value = real_attribute(chance(60) ? 0.0 : 0.5);
    }
  }
  void enlarge(proposal& p) {
    if (!p.operands[0]) {
      p.operands[0] = shape{shared("oc"), shared("ic"), shared_kernel("kh"), shared_kernel("kw")};
    }
    if (auto& kernel = p.at("kernel"); !kernel && p.operands[0]->size() == 4) {
      const auto& w = *p.operands[0];
      kernel = attribute{w[2] + 2 * random_.between(0, 1), w[3] + 2 * random_.between(0, 1)};
    }
  }
  void transpose(proposal& p) {
    auto& permutation = p.at("permutation");
    if (!p.operands[0]) {
      p.operands[0] = permutation ? shape_of_rank(permutation->size()) : any_shape();
    }
    if (!permutation) {
      permutation = attribute{};
      for (std::size_t d = 0; d < p.operands[0]->size(); ++d) {
        permutation->insert(permutation->begin() + random_.between(0, static_cast<size>(d)), static_cast<size>(d));
      }
    }
  }
  void reshape(proposal& p) {
    auto& dims = p.at("dims");
    if (!p.operands[0]) {
      p.operands[0] = dims ? reshaped(shape(std::span<const size>{*dims})) : any_shape();
    }
    if (!dims) {
      dims = attribute(std::span<const size>{chance(30) ? *p.operands[0] : reshaped(*p.operands[0])});
    }
  }
  void expand(proposal& p) {
    unary(p);
    if (auto& dims = p.at("dims"); !dims) {
      auto joint = *p.operands[0];
      for (auto& d : joint) {
        d = d == 1 ? any_size() : d;
      }
      dims = attribute{};
      if (chance(40)) {
        dims->push_back(any_size());
      }
      dims->append(joint.begin(), joint.end());
    }
  }
  void squeeze(proposal& p) {
    auto& axes = p.at("axes");
    if (!p.operands[0]) {
      p.operands[0] = any_shape();
      axes = axes ? axes : some_axes(p.operands[0]->size());
      for (const auto a : *axes) {
        if (static_cast<std::size_t>(a) < p.operands[0]->size()) {
          (*p.operands[0])[static_cast<std::size_t>(a)] = 1;
        }
      }
    } else if (!axes) {
      axes = attribute{};
      for (std::size_t d = 0; d < p.operands[0]->size(); ++d) {
        if ((*p.operands[0])[d] == 1) {
          axes->push_back(static_cast<size>(d));
        }
      }
    }
  }
  void unsqueeze(proposal& p) {
    unary(p);
    if (auto& axes = p.at("axes"); !axes) {
      axes = attribute{static_cast<size>(random_.below(p.operands[0]->size() + 1))};
    }
  }
  void embedding(proposal& p) {
    p.elements[1] = dtype::int64;
    if (!p.operands[0]) {
      p.operands[0] = shape_of_rank(1 + random_.below(3));
    }
    if (!p.operands[1]) {
      p.operands[1] = shape_of_rank(random_.below(3));
    }
  }
  void source(proposal& p) {
    for (std::size_t i = 0; i < p.fields.size(); ++i) {
      const auto& name = p.fields[i].signature.name;
      if (!p.attributes[i] && name == "dims") {
        p.attributes[i] = chance(40) ? attribute{} : attribute(std::span<const size>{any_shape()});
      } else if (!p.attributes[i] && name == "kernel") {
        p.attributes[i] = attribute{shared_kernel("kh"), shared_kernel("kw")};
      } else if (!p.attributes[i] && name == "channels") {
        p.attributes[i] = attribute{shared("channels")};
      }
    }
  }

  random_engine& random_;
  std::span<const double> reals_;
  size axis_;
  std::map<std::string_view, size> last_{};
  shape last_shape_{};
  shape batch_{};  // of matrix products
};

inline const proposer::family* proposer::find(std::string_view kind) {
  static constexpr auto families = std::to_array<family>({
      {"matmul", &proposer::matmul}, {"linear", &proposer::linear}, {"conv2d", &proposer::conv2d},
      {"max_pool", &proposer::pool}, {"average_pool", &proposer::pool}, {"global_average_pool", &proposer::image},
      {"global_max_pool", &proposer::image}, {"add", &proposer::binary}, {"sub", &proposer::binary},
      {"mul", &proposer::binary}, {"div", &proposer::binary}, {"pow", &proposer::binary},
      {"maximum", &proposer::binary}, {"minimum", &proposer::binary}, {"scalar_multiply", &proposer::scalar_multiply},
      {"softmax", &proposer::along_axis}, {"layer_norm", &proposer::layer_norm}, {"batch_norm", &proposer::batch_norm},
      {"reduce_sum", &proposer::along_axes}, {"reduce_mean", &proposer::along_axes},
      {"reduce_max", &proposer::along_axes}, {"concat", &proposer::concat}, {"split", &proposer::split},
      {"slice", &proposer::slice}, {"pad", &proposer::pad}, {"enlarge", &proposer::enlarge},
      {"transpose", &proposer::transpose}, {"reshape", &proposer::reshape}, {"expand", &proposer::expand},
      {"squeeze", &proposer::squeeze}, {"unsqueeze", &proposer::unsqueeze}, {"embedding", &proposer::embedding},
      {"fill", &proposer::source}, {"pool_kernel", &proposer::source}, {"identity_kernel", &proposer::source},
      {"identity_matrix", &proposer::source},
  });
  const auto found = std::find_if(families.begin(), families.end(), [&](const family& f) { return f.kind == kind; });
  return found == families.end() ? nullptr : &*found;
}

}  // namespace unity::tensor::detail
