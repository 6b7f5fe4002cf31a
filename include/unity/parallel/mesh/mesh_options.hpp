// The options for an operator on a device mesh, and their costs.
// Over 500 lines because an option is found and priced in one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_types.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// The role of an operator's operand in training.
enum class operand_use : std::uint8_t {
  made,    // the result of another operator
  weight,  // trained
  given,   // an input or a constant: available in any layout, without a cotangent
};

// An operator with those properties of its position in a graph that its options depend on.
struct placed_operator {
  const operator_dimensions* dimensions = nullptr;
  // Equal for operators with equal types, uses, cotangents, outputs and siblings, in any graph.
  fingerprint key{};
  std::vector<operand_use> uses{};
  std::vector<bool> wanted{};  // per operand: whether its cotangent is computed
  bool is_output = false;      // a result is an output of the graph, so it must not be a sum of partials
  // The sizes of the parallel parts of the graph, one of which has the operator: in any unit, descending; empty if no
  // part is parallel to the operator's.
  std::vector<std::int64_t> siblings{};
};

// The share of all work at the most loaded position, if the pieces, largest first, each go to the position with the
// least work so far. work: descending. Complexity: the pieces times the positions.
[[nodiscard]] double largest_share(std::span<const std::int64_t> work, std::int64_t places);

// The role of a mesh axis for an operator: it divides an index, repeats tasks, or distributes the partials of a linear
// group; or the operator's tasks are placed at one position along it, and other operators at other positions.
struct axis_role {
  enum class kinds : std::uint8_t { index, copies, partial, placed };

  kinds kind = kinds::copies;
  std::uint8_t number = 0;  // of the index or group

  friend bool operator==(const axis_role&, const axis_role&) = default;
};

struct mesh_option {
  small_vector<axis_role, 4> roles{};       // per axis
  small_vector<mesh_layout, 4> operands{};  // per operand
  small_vector<mesh_layout, 2> results{};   // per result
  picoseconds computing{};                  // of one device: forward, backward and updates
  picoseconds forward{};                    // part of `computing`
  picoseconds updating{};
  picoseconds busy{};           // forward and backward only, averaged over all devices of the mesh
  picoseconds synchronizing{};  // of gradients
  picoseconds starting{};       // part of `synchronizing`, in which no link is busy
  bytes weights{};              // of one device: with gradients and optimizer state
  bytes activations{};          // of one device: results until their use in the backward pass
  bytes state_copies{};         // part of `weights`: optimizer state that ZeRO saves, because other devices have it too
  bytes weight_copies{};        // likewise of the weights themselves; their gradients are of the same size
  picoseconds share_updating{};  // replaces `updating` if devices update shares of the weights that they have in common
  bool can_recompute = false;    // results that are outputs of the graph are kept
};

[[nodiscard]] operator_grid grid_of(const operator_dimensions& o, const hardware::device_mesh& m,
                                    std::span<const axis_role> roles);

// The times of parts of operators on the slowest kind of device of a mesh, each computed once.
class shard_clock {
 public:
  // The algebra must have the gradient operators and outlive this.
  shard_clock(const tensor::algebra& a, tensor::durations durations, std::vector<std::uint32_t> models)
      : algebra_{&a}, durations_{std::move(durations)}, models_{std::move(models)} {}

  // Nothing if the operator cannot run on parts of these sizes.
  [[nodiscard]] std::optional<shard_times> of(const placed_operator& p, const grid_types& types);
  [[nodiscard]] picoseconds update(std::int64_t elements, tensor::dtype element, optimizer updates) const;
  // The dimensions of operators, found once for all graphs that this clock times.
  [[nodiscard]] dimension_cache& dimensions() noexcept { return dimensions_; }

 private:
  struct key {
    fingerprint kind;
    std::vector<std::int64_t> sizes;

    friend auto operator<=>(const key&, const key&) = default;
  };

  [[nodiscard]] picoseconds slowest(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                    std::span<const tensor::tensor_type> outputs) const;
  [[nodiscard]] std::optional<shard_times> timed(const placed_operator& p, const shard& part) const;

  const tensor::algebra* algebra_;
  tensor::durations durations_;
  std::vector<std::uint32_t> models_;
  std::map<key, std::optional<shard_times>> known_{};
  dimension_cache dimensions_{};
};

// Finds all options of an operator on a mesh, in a fixed order; of options with equal layouts, only the cheapest. An
// operator without sums may work on partials and pass them on if one of its linear groups contains all operands that
// other operators make. Axes divide only indices whose use is allowed; every axis may have copies. Omits options that
// alone exceed a device's memory (0: unknown), unless all do.
// Complexity: the product over axes of an operator's indices, except those whose sizes the axes do not divide.
class option_finder {
 public:
  option_finder(const tensor::algebra& a, const hardware::device_mesh& m, const mesh_costs& costs, shard_clock& clock,
                index_uses allowed, optimizer updates, bytes memory_limit = {})
      : algebra_{a},
        mesh_{m},
        costs_{costs},
        clock_{clock},
        allowed_{allowed},
        optimizer_{updates},
        memory_limit_{memory_limit} {}

  [[nodiscard]] std::vector<mesh_option> run(const placed_operator& p);

 private:
  using layouts_key = std::vector<mesh_layout>;

  [[nodiscard]] std::vector<axis_role> roles_of(const placed_operator& p) const;
  void extend(mesh_option& o, std::size_t axis);

  // False if digits of a dimension would be in another order than the mesh's.
  [[nodiscard]] bool view(const tensor::tensor_indices& dims, const mesh_option& o, mesh_layout& l, bool is_result,
                          std::size_t operand) const;
  [[nodiscard]] unsigned dimension_of(const tensor::tensor_indices& dims, std::size_t index) const;

  [[nodiscard]] bool fits(const mesh_option& o) const;
  [[nodiscard]] bool has_partials(mesh_layout l) const;
  void add(mesh_option o);
  void price(mesh_option& o, const shard_times& times) const;
  // Scales the costs of placed operators: each of several operators side by side has one position, so a device has the
  // share of one operator's costs that the most loaded position has of all work.
  void share(mesh_option& o) const;

  const tensor::algebra& algebra_;
  const hardware::device_mesh& mesh_;
  const mesh_costs& costs_;
  shard_clock& clock_;
  index_uses allowed_;
  optimizer optimizer_;
  bytes memory_limit_;
  const placed_operator* operator_ = nullptr;
  std::vector<axis_role> roles_{};
  std::vector<std::int64_t> left_{};  // per index: the size that is left to divide
  std::map<layouts_key, mesh_option> found_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MESH_OPTIONS)

#include <algorithm>
#include <cmath>
#include <tuple>

#include <unity/core/error.hpp>
#include <unity/parallel/box.hpp>

namespace unity::parallel {

UNITY_INLINE double largest_share(std::span<const std::int64_t> work, std::int64_t places) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(places), 0);
  std::int64_t sum = 0;
  for (const auto w : work) {
    *std::min_element(loads.begin(), loads.end()) += w;
    sum += w;
  }
  return sum == 0 ? 1.0 : static_cast<double>(*std::max_element(loads.begin(), loads.end())) / static_cast<double>(sum);
}

UNITY_INLINE operator_grid grid_of(const operator_dimensions& o, const hardware::device_mesh& m,
                                   std::span<const axis_role> roles) {
  auto g = undivided_grid(o);
  for (std::size_t a = 0; a < roles.size(); ++a) {
    switch (roles[a].kind) {
      case axis_role::kinds::index: g.indices[roles[a].number] *= m.sizes[a]; break;
      case axis_role::kinds::partial: g.partials[roles[a].number] *= m.sizes[a]; break;
      case axis_role::kinds::copies: g.copies *= m.sizes[a]; break;
      case axis_role::kinds::placed: break;
    }
  }
  return g;
}

UNITY_INLINE std::optional<shard_times> shard_clock::of(const placed_operator& p, const grid_types& types) {
  key k{p.key, {}};
  shard part;
  for (const auto& t : types.operands) {
    part.operands.push_back(whole(shard_type(t).dims));
    k.sizes.insert(k.sizes.end(), part.operands.back().end.begin(), part.operands.back().end.end());
  }
  for (const auto& t : types.results) {
    part.results.push_back(whole(shard_type(t).dims));
    k.sizes.insert(k.sizes.end(), part.results.back().end.begin(), part.results.back().end.end());
  }
  const auto [at, is_new] = known_.try_emplace(std::move(k));
  if (is_new) {
    at->second = timed(p, part);
  }
  return at->second;
}

UNITY_INLINE picoseconds shard_clock::update(std::int64_t elements, tensor::dtype element, optimizer updates) const {
  const auto t = update_operand(elements, element, updates);
  const std::vector<tensor::tensor_type> inputs{t, t};
  return slowest(algebra_->make_operation("sub"), inputs, {&t, 1});
}

UNITY_INLINE picoseconds shard_clock::slowest(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                              std::span<const tensor::tensor_type> outputs) const {
  picoseconds t{1};
  try {
    for (const auto m : models_) {
      t = std::max(t, durations_.duration_of(m, op, inputs, outputs).expected);
    }
  } catch (const error&) {  // no kernel for such parts: worse than all others
    constexpr picoseconds cannot_run{1'000'000'000'000'000};
    return cannot_run;
  }
  return t;
}

UNITY_INLINE std::optional<shard_times> shard_clock::timed(const placed_operator& p, const shard& part) const {
  std::optional<part_of_operation> s;
  try {
    s = operation_on(*algebra_, *p.dimensions, part);
  } catch (const error&) {
    return std::nullopt;
  }
  shard_times t{slowest(s->op, s->inputs, s->outputs), {}};
  if (std::find(p.wanted.begin(), p.wanted.end(), true) != p.wanted.end()) {
    t.backward = adjoint_time(*algebra_, *s, p.wanted,
                              [this](const tensor::operation& op, const auto& inputs, const auto& outputs) {
                                return slowest(op, inputs, outputs);
                              });
  }
  return t;
}

UNITY_INLINE std::vector<mesh_option> option_finder::run(const placed_operator& p) {
  operator_ = &p;
  roles_ = roles_of(p);
  mesh_option o;
  found_.clear();
  left_.clear();
  for (const auto& i : p.dimensions->structure.indices) {
    left_.push_back(i.size);
  }
  extend(o, 0);
  const bool any_fits = std::any_of(found_.begin(), found_.end(), [this](const auto& f) { return fits(f.second); });
  std::vector<mesh_option> all;
  for (auto& [layouts, option] : found_) {
    if (!any_fits || fits(option)) {
      all.push_back(std::move(option));
    }
  }
  return all;
}

UNITY_INLINE std::vector<axis_role> option_finder::roles_of(const placed_operator& p) const {
  const auto& o = *p.dimensions;
  std::vector<axis_role> roles;
  for (std::size_t i = 0; i < o.structure.indices.size(); ++i) {
    auto g = undivided_grid(o);
    g.indices[i] = o.structure.indices[i].size;
    const bool is_tap = std::any_of(o.structure.windows.begin(), o.structure.windows.end(),
                                    [&](const tensor::window& w) { return w.inner == static_cast<int>(i); });
    if (g.indices[i] > 1 && !is_tap && why_not(o, g).empty() &&
        o.structure.indices[i].kind != tensor::index_kind::statistic && has(allowed_, use_of(algebra_, o, i))) {
      roles.push_back({axis_role::kinds::index, static_cast<std::uint8_t>(i)});
    }
  }
  roles.push_back({axis_role::kinds::copies, 0});
  if (p.siblings.size() > 1 && has(allowed_, index_use::placement)) {
    roles.push_back({axis_role::kinds::placed, 0});
  }
  const bool adds = std::any_of(o.structure.indices.begin(), o.structure.indices.end(),
                                [](const tensor::index& i) { return i.kind == tensor::index_kind::reduction; });
  for (std::size_t g = 0; !adds && g < o.groups.size(); ++g) {
    bool holds_all = true;
    for (std::size_t x = 0; x < p.uses.size(); ++x) {
      holds_all = holds_all && (p.uses[x] != operand_use::made || detail::is_in(o.groups[g], x));
    }
    if (holds_all) {
      roles.push_back({axis_role::kinds::partial, static_cast<std::uint8_t>(g)});
    }
  }
  return roles;
}

UNITY_INLINE void option_finder::extend(mesh_option& o, std::size_t axis) {
  if (axis == mesh_.axis_count()) {
    add(o);
    return;
  }
  for (const auto& r : roles_) {
    auto* left = r.kind == axis_role::kinds::index ? &left_[r.number] : nullptr;
    if (mesh_.sizes[axis] > 1 && left != nullptr && *left % mesh_.sizes[axis] != 0) {
      continue;
    }
    if (left != nullptr) {
      *left /= mesh_.sizes[axis];
    }
    o.roles.push_back(r);
    extend(o, axis + 1);
    o.roles.resize(axis);
    if (left != nullptr) {
      *left *= mesh_.sizes[axis];
    }
  }
}

UNITY_INLINE bool option_finder::view(const tensor::tensor_indices& dims, const mesh_option& o, mesh_layout& l,
                                      bool is_result, std::size_t operand) const {
  const auto& d = *operator_->dimensions;
  for (std::size_t a = 0; a < o.roles.size(); ++a) {
    const auto& r = o.roles[a];
    if (r.kind == axis_role::kinds::placed) {
      l.set(a, mesh_layout::placed);
      continue;
    }
    if (r.kind != axis_role::kinds::index) {
      const bool is_partial = r.kind == axis_role::kinds::partial &&
                              (is_result || view_of_group(d, operand, r.number) == axis_view::partial);
      l.set(a, is_partial ? mesh_layout::partial : mesh_layout::copies);
      continue;
    }
    const auto v = is_result
                       ? (detail::has_index(d.structure, dims, r.number) ? axis_view::dimension : axis_view::partial)
                       : view_of_index(d, operand, r.number);
    l.set(a, v == axis_view::dimension ? dimension_of(dims, r.number)
             : v == axis_view::partial ? mesh_layout::partial
                                       : mesh_layout::copies);
  }
  for (const auto& dim : dims) {
    std::size_t last = 0;
    for (const auto i : dim.indices) {
      auto first = o.roles.size();
      auto end = last;
      for (std::size_t a = 0; a < o.roles.size(); ++a) {
        if (o.roles[a].kind == axis_role::kinds::index && o.roles[a].number == i) {
          first = std::min(first, a);
          end = a + 1;
        }
      }
      if (first < last) {
        return false;
      }
      last = end;
    }
  }
  return true;
}

UNITY_INLINE unsigned option_finder::dimension_of(const tensor::tensor_indices& dims, std::size_t index) const {
  const auto& s = operator_->dimensions->structure;
  for (unsigned d = 0; d < dims.size(); ++d) {
    if (std::find(dims[d].indices.begin(), dims[d].indices.end(), index) != dims[d].indices.end() ||
        (dims[d].window && s.windows[*dims[d].window].outer == static_cast<int>(index))) {
      return d;
    }
  }
  return mesh_layout::copies;
}

UNITY_INLINE bool option_finder::fits(const mesh_option& o) const {
  auto held = o.weights + o.activations;
  for (std::size_t x = 0; x < o.operands.size(); ++x) {
    held += operator_->uses[x] == operand_use::weight
                ? bytes{}
                : shard_bytes(operator_->dimensions->inputs[x], mesh_, o.operands[x]);
  }
  return memory_limit_ == bytes{} || held <= memory_limit_;
}

UNITY_INLINE bool option_finder::has_partials(mesh_layout l) const {
  bool any = false;
  for (std::size_t a = 0; a < mesh_.axis_count(); ++a) {
    any = any || l[a] == mesh_layout::partial;
  }
  return any;
}

UNITY_INLINE void option_finder::add(mesh_option o) {
  const auto& d = *operator_->dimensions;
  const auto types = types_on(d, parallel::grid_of(d, mesh_, {o.roles.data(), o.roles.size()}));
  if (!types) {
    return;
  }
  layouts_key key;
  for (std::size_t x = 0; x < d.inputs.size(); ++x) {
    mesh_layout l;
    if (!view(d.structure.operands[x], o, l, false, x)) {
      return;
    }
    o.operands.push_back(l);
    // Given operands are available in any layout, so they do not distinguish options.
    key.push_back(operator_->uses[x] == operand_use::made ? l : mesh_layout{});
  }
  for (std::size_t r = 0; r < d.outputs.size(); ++r) {
    mesh_layout l;
    if (!view(d.structure.results[r], o, l, true, 0)) {
      return;
    }
    if (operator_->is_output && has_partials(l)) {
      return;
    }
    o.results.push_back(l);
    key.push_back(l);
  }
  const auto times = clock_.of(*operator_, *types);
  if (!times) {
    return;
  }
  price(o, *times);
  const auto [at, is_new] = found_.try_emplace(std::move(key), o);
  const auto& best = at->second;
  if (!is_new && std::tuple{o.computing + o.synchronizing, o.weights} <
                     std::tuple{best.computing + best.synchronizing, best.weights}) {
    at->second = std::move(o);
  }
}

UNITY_INLINE void option_finder::price(mesh_option& o, const shard_times& times) const {
  const auto& d = *operator_->dimensions;
  o.forward = times.forward;
  o.computing = times.forward + times.backward;
  o.busy = o.computing;
  for (std::size_t x = 0; x < d.inputs.size(); ++x) {
    if (operator_->uses[x] != operand_use::weight) {
      continue;
    }
    const auto held = shard_bytes(d.inputs[x], mesh_, o.operands[x]);
    axis_set copies = 0;
    for (std::size_t a = 0; a < mesh_.axis_count(); ++a) {
      copies |= o.operands[x][a] == mesh_layout::copies && mesh_.sizes[a] > 1 ? axis_set{1} << a : axis_set{0};
    }
    const auto replicas = costs_.size(copies);
    o.synchronizing += costs_.all_reduce(copies, held);
    o.starting += costs_.all_reduce_start(copies, held);
    const auto element = static_cast<std::int64_t>(tensor::size_of(d.inputs[x].element));
    const auto state = held.count() / element * state_bytes(optimizer_, d.inputs[x].element);
    o.updating += clock_.update(held.count() / element, d.inputs[x].element, optimizer_);
    o.share_updating +=
        clock_.update(std::max<std::int64_t>(1, held.count() / element / replicas), d.inputs[x].element, optimizer_);
    o.weights += bytes{2 * held.count() + state};
    o.state_copies += bytes{state - state / replicas};
    o.weight_copies += bytes{held.count() - held.count() / replicas};
  }
  o.can_recompute = !operator_->is_output;
  for (const auto& [type, layout] : ranges::views::zip(d.outputs, std::as_const(o.results))) {
    o.activations += shard_bytes(type, mesh_, layout);
  }
  o.computing += o.updating;
  share(o);
}

UNITY_INLINE void option_finder::share(mesh_option& o) const {
  std::int64_t places = 1;
  for (std::size_t a = 0; a < o.roles.size(); ++a) {
    places *= o.roles[a].kind == axis_role::kinds::placed ? mesh_.sizes[a] : 1;
  }
  if (places == 1) {
    return;
  }
  o.busy = picoseconds{o.busy.count() / places};
  const auto share = largest_share(operator_->siblings, places);
  const auto part = [share](auto& amount) {
    amount = std::remove_reference_t<decltype(amount)>{
        static_cast<std::int64_t>(std::ceil(static_cast<double>(amount.count()) * share))};
  };
  part(o.computing);
  part(o.forward);
  part(o.updating);
  part(o.synchronizing);
  part(o.starting);
  part(o.weights);
  part(o.activations);
  part(o.state_copies);
  part(o.weight_copies);
  part(o.share_updating);
}

}  // namespace unity::parallel

#endif
