// A plan as layouts on one mesh: how each tensor is placed along each axis of an array of all devices. DTensor, GSPMD
// and similar systems describe divisions this way. Plans are more general, so some have no such description; then the
// reason is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::parallel {

// whole: each device along the axis has the whole tensor; split: an equal part of a dimension; sum: a partial sum.
enum class axis_kind : std::uint8_t { whole, split, sum };

struct axis_use {
  axis_kind kind = axis_kind::whole;
  std::size_t dimension = 0;  // the dimension that is split

  friend bool operator==(const axis_use&, const axis_use&) = default;
};

// The placement of a tensor: a use per axis of the mesh. If several axes split one dimension, the first is the
// outermost.
using tensor_placement = small_vector<axis_use, 4>;

// The placements of the tensors of one operator.
struct operator_placement {
  std::vector<tensor_placement> operands{};
  std::vector<tensor_placement> results{};
  std::vector<tensor_placement> cotangents{};  // of operands, as the operator's backward pass produces them
};

struct plan_placements {
  hardware::device_mesh mesh{};
  std::vector<operator_placement> nodes{};  // per node of the graph; empty for those that read no input and no weight
};

// The layouts of all operators on the mesh, with its axes split and reordered if that helps. Without a mesh, or if the
// mesh does not have as many devices as the machine: on all devices in their order. Axes that are always used alike are
// merged, to have as few as possible.
// Complexity: nodes x axes! x (uses of an operator)^axes; with more than four axes only one order is tried.
// Throws: unity::error that names the first operator that does not fit the mesh, and says why.
[[nodiscard]] plan_placements placements_of(const tensor::algebra& a, const plan& p,
                                            const std::optional<hardware::device_mesh>& mesh);
// Likewise, on this mesh, which need not have all devices of the machine.
[[nodiscard]] plan_placements placements_on(const tensor::algebra& a, const plan& p, const hardware::device_mesh& mesh);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PLAN_PLACEMENTS)

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity::parallel {

namespace detail {

// The meaning of a digit of a task's number, most significant first, in the order of task_grid.
enum class digit_kind : std::uint8_t { partial, copy, reduction, part };

struct task_digit {
  digit_kind kind = digit_kind::part;
  std::size_t number = 0;  // index of the group, reduction or dimension
  std::int64_t degree = 1;
};

// What an axis means for an operator: a digit, and the index of the iteration space that it divides (parts,
// reductions).
struct axis_meaning {
  task_digit digit{};
  std::size_t index = 0;

  friend bool operator==(const axis_meaning& x, const axis_meaning& y) {
    return x.digit.kind == y.digit.kind && x.digit.number == y.digit.number && x.index == y.index;
  }
};

UNITY_INLINE std::vector<task_digit> digits_of(const configuration& c) {
  std::vector<task_digit> all;
  for (std::size_t t = 0; t < c.partials.size(); ++t) {
    all.push_back({digit_kind::partial, t, c.partials[t]});
  }
  all.push_back({digit_kind::copy, 0, c.copies});
  for (std::size_t r = 0; r < c.reductions.size(); ++r) {
    all.push_back({digit_kind::reduction, r, c.reductions[r]});
  }
  for (std::size_t d = 0; d < c.degrees.size(); ++d) {
    all.push_back({digit_kind::part, d, c.degrees[d]});
  }
  return all;
}

// One operator on a mesh. why() is empty once find() has returned true.
class operator_on_mesh {
 public:
  operator_on_mesh(const operator_dimensions& o, const configuration& c, const hardware::device_mesh& m)
      : o_{o}, c_{c}, mesh_{m}, digits_{digits_of(c)}, digit_of_(m.axis_count()) {}

  [[nodiscard]] bool find();
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  [[nodiscard]] const std::vector<axis_meaning>& meanings() const noexcept { return meanings_; }

 private:
  bool assign(std::size_t axis, std::vector<std::int64_t>& left);
  [[nodiscard]] bool agrees() const;
  bool find_indices();

  const operator_dimensions& o_;
  const configuration& c_;
  const hardware::device_mesh& mesh_;
  std::vector<task_digit> digits_;
  std::vector<std::size_t> digit_of_;  // by axis
  std::vector<axis_meaning> meanings_{};
  std::string why_{};
};

UNITY_INLINE bool operator_on_mesh::agrees() const {
  for (std::size_t place = 0; place < mesh_.devices.size(); ++place) {
    std::size_t task = 0;
    for (std::size_t d = 0; d < digits_.size(); ++d) {
      task *= static_cast<std::size_t>(digits_[d].degree);
      std::size_t digit = 0;
      for (std::size_t axis = 0; axis < digit_of_.size(); ++axis) {
        if (digit_of_[axis] == d) {
          digit = digit * static_cast<std::size_t>(mesh_.sizes[axis]) + mesh_.coordinate(place, axis);
        }
      }
      task += digit;
    }
    if (c_.devices[task] != mesh_.devices[place]) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE bool operator_on_mesh::assign(std::size_t axis, std::vector<std::int64_t>& left) {
  if (axis == digit_of_.size()) {
    return agrees();
  }
  for (std::size_t d = 0; d < digits_.size(); ++d) {
    if (left[d] > 1 && left[d] % mesh_.sizes[axis] == 0) {
      digit_of_[axis] = d;
      left[d] /= mesh_.sizes[axis];
      if (assign(axis + 1, left)) {
        return true;
      }
      left[d] *= mesh_.sizes[axis];
    }
  }
  return false;
}

UNITY_INLINE bool operator_on_mesh::find_indices() {
  const auto degrees = index_degrees(o_, c_.grid());
  if (!degrees) {
    why_ = "its degrees do not fall onto dimensions of its operands";
    return false;
  }
  auto left = *degrees;
  for (std::size_t axis = 0; axis < digit_of_.size(); ++axis) {
    const auto& digit = digits_[digit_of_[axis]];
    axis_meaning m{digit, 0};
    if (digit.kind == digit_kind::part || digit.kind == digit_kind::reduction) {
      const auto& along = digit.kind == digit_kind::part ? o_.divisible[digit.number] : o_.reductions[digit.number];
      const auto at = std::find_if(along.indices.begin(), along.indices.end(), [&](auto i) { return left[i] > 1; });
      if (at == along.indices.end() || left[*at] % mesh_.sizes[axis] != 0) {
        why_ = "its degrees do not fall onto dimensions of its operands";
        return false;
      }
      m.index = *at;
      left[*at] /= mesh_.sizes[axis];
    }
    meanings_.push_back(m);
  }
  return true;
}

UNITY_INLINE bool operator_on_mesh::find() {
  if (c_.devices.size() != mesh_.devices.size()) {
    why_ = fmt::format("it has {} task{}", c_.devices.size(), c_.devices.size() == 1 ? "" : "s");
    return false;
  }
  std::vector<std::int64_t> left;
  for (const auto& d : digits_) {
    left.push_back(d.degree);
  }
  if (!assign(0, left)) {
    why_ = "its parts are on devices in an order of their own";
    return false;
  }
  return find_indices();
}

// Derives layouts of tensors from meanings of axes.
class placement_reader {
 public:
  placement_reader(const operator_dimensions& o, const std::vector<axis_meaning>& axes) : o_{o}, axes_{axes} {}

  [[nodiscard]] operator_placement read() const {
    operator_placement l;
    for (std::size_t t = 0; t < o_.structure.operands.size(); ++t) {
      l.operands.push_back(operand(t, false));
      l.cotangents.push_back(operand(t, true));
    }
    for (const auto& dims : o_.structure.results) {
      l.results.push_back(result(dims));
    }
    return l;
  }

 private:
  [[nodiscard]] std::optional<axis_use> split_of(const tensor::tensor_indices& dims, std::size_t index) const;
  [[nodiscard]] tensor_placement operand(std::size_t t, bool is_cotangent) const;
  [[nodiscard]] tensor_placement result(const tensor::tensor_indices& dims) const;
  // The first axis must be the outermost.
  // Throws: std::string, the reason.
  void check_order(const tensor::tensor_indices& dims, const tensor_placement& l) const;

  const operator_dimensions& o_;
  const std::vector<axis_meaning>& axes_;
};

UNITY_INLINE std::optional<axis_use> placement_reader::split_of(const tensor::tensor_indices& dims,
                                                                std::size_t index) const {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (std::find(dims[d].indices.begin(), dims[d].indices.end(), index) != dims[d].indices.end()) {
      return axis_use{axis_kind::split, d};
    }
    if (dims[d].window) {
      const auto& w = o_.structure.windows[*dims[d].window];
      if (w.outer == static_cast<int>(index) || w.inner == static_cast<int>(index)) {
        throw std::string{"its windows are divided, and parts read over their edges"};
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE void placement_reader::check_order(const tensor::tensor_indices& dims, const tensor_placement& l) const {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    std::size_t last = 0;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      if (l[axis] != axis_use{axis_kind::split, d}) {
        continue;
      }
      const auto& in = dims[d].indices;
      const auto at = static_cast<std::size_t>(std::find(in.begin(), in.end(), axes_[axis].index) - in.begin());
      if (at < last) {
        throw std::string{"an inner axis of the mesh has the outer parts of a dimension"};
      }
      last = at;
    }
  }
}

UNITY_INLINE tensor_placement placement_reader::operand(std::size_t t, bool is_cotangent) const {
  tensor_placement l;
  const auto& dims = o_.structure.operands[t];
  for (const auto& axis : axes_) {
    const auto kind = axis.digit.kind;
    if (kind == digit_kind::copy) {
      l.push_back({});
    } else if (kind == digit_kind::partial) {
      const auto& group = o_.groups[axis.digit.number];
      const bool is_partial = std::find(group.begin(), group.end(), t) != group.end();
      l.push_back({is_partial != is_cotangent ? axis_kind::sum : axis_kind::whole, 0});
    } else if (const auto split = split_of(dims, axis.index)) {
      l.push_back(*split);
    } else {
      const bool is_added = kind == digit_kind::reduction && t < o_.additive.size() && o_.additive[t];
      l.push_back({is_cotangent && !is_added ? axis_kind::sum : axis_kind::whole, 0});
    }
  }
  check_order(dims, l);
  return l;
}

UNITY_INLINE tensor_placement placement_reader::result(const tensor::tensor_indices& dims) const {
  tensor_placement l;
  for (const auto& axis : axes_) {
    const auto kind = axis.digit.kind;
    const bool is_sum = kind == digit_kind::partial || kind == digit_kind::reduction;
    const auto split = is_sum || kind == digit_kind::copy ? std::nullopt : split_of(dims, axis.index);
    l.push_back(split ? *split : axis_use{is_sum ? axis_kind::sum : axis_kind::whole, 0});
  }
  check_order(dims, l);
  return l;
}

// All operators of a plan on one mesh.
class plan_on_mesh {
 public:
  plan_on_mesh(const tensor::algebra& a, const plan& p, const graph_dimensions& all)
      : a_{a}, p_{p}, all_{all}, counts_(p.graph.node_count()) {
    find_work();
  }

  // Returns how many nodes fit the mesh before the first that does not.
  std::size_t lay(hardware::device_mesh m);
  [[nodiscard]] bool is_complete() const noexcept { return meanings_.size() == p_.graph.node_count(); }
  // Merges axes that mean the same to every operator.
  void join_axes();
  [[nodiscard]] plan_placements take();
  [[nodiscard]] error why_not(const std::string& why) const;
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

 private:
  void find_work();
  [[nodiscard]] bool can_join(std::size_t axis) const;

  const tensor::algebra& a_;
  const plan& p_;
  const graph_dimensions& all_;
  std::vector<bool> counts_;  // per node: depends on an input or a weight; others are constants, computed anywhere
  hardware::device_mesh mesh_{};
  std::vector<std::vector<axis_meaning>> meanings_{};
  std::string why_{};
};

UNITY_INLINE void plan_on_mesh::find_work() {
  const auto input = a_.kind("input");
  const auto weight = a_.kind("weight");
  for (const auto n : node_ids(p_.graph)) {
    for (const auto v : p_.graph.operands(n)) {
      const auto from = p_.graph.producer(v);
      const auto kind = p_.graph.operation(from).kind;
      counts_[n.index()] = counts_[n.index()] || kind == input || kind == weight || counts_[from.index()];
    }
  }
}

UNITY_INLINE std::size_t plan_on_mesh::lay(hardware::device_mesh m) {
  mesh_ = std::move(m);
  meanings_.clear();
  while (!is_complete()) {
    const node_id n{meanings_.size()};
    if (!counts_[n.index()]) {
      meanings_.emplace_back();
      continue;
    }
    operator_on_mesh one{all_[n], p_.configurations[n.index()], mesh_};
    if (!one.find()) {
      why_ = one.why();
      break;
    }
    meanings_.push_back(one.meanings());
    try {
      static_cast<void>(placement_reader{all_[n], meanings_.back()}.read());
    } catch (const std::string& why) {
      why_ = why;
      meanings_.pop_back();
      break;
    }
  }
  return meanings_.size();
}

UNITY_INLINE error plan_on_mesh::why_not(const std::string& why) const {
  const node_id n{meanings_.size()};
  return error{
      fmt::format("operator {} ({})", n.index(), tensor::operator_name(a_, p_.graph.operation(n))), why,
      fmt::format("each operator on the whole mesh of {} devices, divided along its axes", mesh_.devices.size())};
}

UNITY_INLINE bool plan_on_mesh::can_join(std::size_t axis) const {
  return std::all_of(meanings_.begin(), meanings_.end(),
                     [axis](const auto& axes) { return axes.empty() || axes[axis] == axes[axis + 1]; });
}

UNITY_INLINE void plan_on_mesh::join_axes() {
  for (std::size_t axis = 0; axis + 1 < mesh_.axis_count();) {
    if (!can_join(axis)) {
      ++axis;
      continue;
    }
    mesh_.sizes[axis] *= mesh_.sizes[axis + 1];
    mesh_.sizes.erase(mesh_.sizes.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
    for (auto& axes : meanings_) {
      if (!axes.empty()) {
        axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
      }
    }
  }
}

UNITY_INLINE plan_placements plan_on_mesh::take() {
  plan_placements l{std::move(mesh_), {}};
  for (const auto n : node_ids(p_.graph)) {
    l.nodes.push_back(counts_[n.index()] ? placement_reader{all_[n], meanings_[n.index()]}.read()
                                         : operator_placement{});
  }
  return l;
}

// Splits each axis into axes of prime sizes, the finest division possible.
UNITY_INLINE hardware::device_mesh refined(const hardware::device_mesh& m) {
  hardware::device_mesh fine{{}, {}, m.devices};
  for (auto size : m.sizes) {
    for (std::int64_t prime = 2; size > 1; ++prime) {
      for (; size % prime == 0; size /= prime) {
        fine.sizes.push_back(prime);
      }
    }
  }
  return fine;
}

// Axis order[k] becomes axis k.
UNITY_INLINE hardware::device_mesh reordered(const hardware::device_mesh& m, const std::vector<std::size_t>& order) {
  hardware::device_mesh r{{}, {}, m.devices};
  for (const auto axis : order) {
    r.sizes.push_back(m.sizes[axis]);
  }
  for (std::size_t place = 0; place < m.devices.size(); ++place) {
    std::size_t from = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      from += r.coordinate(place, k) * m.stride(order[k]);
    }
    r.devices[place] = m.devices[from];
  }
  return r;
}

}  // namespace detail

UNITY_INLINE plan_placements placements_of(const tensor::algebra& a, const plan& p,
                                           const std::optional<hardware::device_mesh>& mesh) {
  const auto count = p.machine.network.device_count();
  hardware::device_mesh all{{}, {static_cast<std::int64_t>(count)}, {}};
  for (std::size_t d = 0; d < count; ++d) {
    all.devices.emplace_back(d);
  }
  return placements_on(a, p, mesh && mesh->devices.size() == count ? *mesh : all);
}

UNITY_INLINE plan_placements placements_on(const tensor::algebra& a, const plan& p, const hardware::device_mesh& mesh) {
  constexpr std::size_t most_reordered = 4;  // axes: 24 orders
  const auto fine = detail::refined(mesh);
  const graph_dimensions dimensions{a, p.graph};
  detail::plan_on_mesh on{a, p, dimensions};
  std::vector<std::size_t> order(fine.axis_count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t most = 0;
  auto best = order;
  do {
    const auto laid = on.lay(detail::reordered(fine, order));
    if (on.is_complete()) {
      on.join_axes();
      return on.take();
    }
    if (laid > most) {
      most = laid;
      best = order;
    }
  } while (order.size() <= most_reordered && std::next_permutation(order.begin(), order.end()));
  on.lay(detail::reordered(fine, best));
  throw on.why_not(on.why());
}

}  // namespace unity::parallel

#endif
