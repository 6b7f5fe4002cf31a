// The training data of a graph: a real data set, or synthetic numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/dataset.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/train/data.hpp>

namespace unity::train {

// The inputs of a graph with a loss at every step, as functions of the position in the whole batch, so any part can be
// made on its own. With a data set,
// - the graph's one input of samples has the samples, and the labels of its one output are theirs;
// - for text, a floating-point input with a row and a column per character of a window is a causal mask: 0 if the
//   column is not after the row, else a large negative number, so that no character sees later ones.
// Everything else (constants, dropout masks) is synthetic.
class batches {
 public:
  // Complexity: linear in the graph, which need not outlive this object.
  batches(const tensor::algebra& a, const tensor::tensor_graph& g, std::uint64_t seed)
      : synthetic_{a, g, seed}, with_samples_{inputs_with_samples(a, g)} {}

  // shift: the maximum shift of images in pixels. The data set must outlive this object.
  // Throws: unity::error if the graph has other inputs, or fewer classes than the set.
  batches(const tensor::algebra& a, const tensor::tensor_graph& g, std::uint64_t seed, const io::dataset& set,
          std::int64_t shift = 0);

  // Effects: writes the elements of the box in row-major order, in the element type; type: of the whole batch's tensor.
  // Complexity: linear in the box.
  // Throws: unity::error if the graph has no input or constant of that name.
  void fill(std::string_view name, const tensor::tensor_type& type, const parallel::box& b, std::uint64_t step,
            std::span<std::byte> out, io::dataset_part from = io::dataset_part::train) const;

  // Fills a part of an input of a graph that is stated for one of several micro-batches; type: of the whole input.
  // Micro-batches are the blocks of a batch along the sample dimension, which not all inputs have.
  void fill_part(std::string_view name, tensor::tensor_type type, const parallel::given_part& x,
                 std::int64_t microbatches, std::uint64_t step, std::span<std::byte> out,
                 io::dataset_part from = io::dataset_part::train) const;

  [[nodiscard]] const io::dataset* set() const noexcept { return set_; }
  // The type of the labels of a micro-batch, if they come from a data set.
  [[nodiscard]] const std::optional<tensor::tensor_type>& labels() const noexcept { return labels_; }

 private:
  enum class role : std::uint8_t { samples, labels, mask };
  static constexpr double hidden = -1e4;  // its exponential is 0, also in half precision

  // The inputs whose first dimension is that of the tensor that the loss compares; none without a loss.
  [[nodiscard]] static std::set<std::string, std::less<>> inputs_with_samples(const tensor::algebra& a,
                                                                              const tensor::tensor_graph& g);
  void give_role(const std::string& name, const tensor::tensor_type& type);
  void keep(const std::string& name, role r);
  void check_roles() const;

  synthetic_data synthetic_;
  std::set<std::string, std::less<>> with_samples_;
  const io::dataset* set_ = nullptr;
  io::dataset_reading reading_{};
  std::map<std::string, role, std::less<>> roles_{};
  std::string samples_name_{};
  std::optional<tensor::tensor_type> samples_{};
  std::optional<tensor::tensor_type> labels_{};
  std::int64_t masks_width_ = 0;
};

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_BATCHES)

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/sample_values.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/run_settings.hpp>

namespace unity::train {

UNITY_INLINE batches::batches(const tensor::algebra& a, const tensor::tensor_graph& g, std::uint64_t seed,
                              const io::dataset& set, std::int64_t shift)
    : synthetic_{a, g, seed},
      with_samples_{inputs_with_samples(a, g)},
      set_{&set},
      reading_{io::dataset_part::train, seed, shift} {
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == a.kind("input")) {
      const std::string name{a.read(g.operation(n)).word("name")};
      if (!tensor::rule_of_mask(name)) {
        give_role(name, g.type(g.results(n)[0]));
      }
    }
  }
  check_roles();
}

UNITY_INLINE void batches::fill(std::string_view name, const tensor::tensor_type& type, const parallel::box& b,
                                std::uint64_t step, std::span<std::byte> out, io::dataset_part from) const {
  const auto found = roles_.find(name);
  if (found == roles_.end()) {
    return synthetic_.fill(name, type, b, step, out);
  }
  if (found->second == role::mask) {
    const auto window = static_cast<std::uint64_t>(type.dims.back());
    return fill_box(type, b, out, [&](std::uint64_t i) { return i % window > i / window % window ? hidden : 0; });
  }
  const auto field = found->second == role::samples ? io::dataset_field::samples : io::dataset_field::labels;
  auto reading = reading_;
  reading.part = from;
  set_->fill(field, type, b, static_cast<std::int64_t>(step), reading, out);
}

UNITY_INLINE void batches::fill_part(std::string_view name, tensor::tensor_type type, const parallel::given_part& x,
                                     std::int64_t microbatches, std::uint64_t step, std::span<std::byte> out,
                                     io::dataset_part from) const {
  auto part = x.part;
  if (microbatches > 1 && with_samples_.contains(name)) {
    part.begin[0] += x.microbatch * type.dims[0];
    part.end[0] += x.microbatch * type.dims[0];
    type.dims[0] *= microbatches;
  }
  fill(name, type, part, step, out, from);
}

UNITY_INLINE std::set<std::string, std::less<>> batches::inputs_with_samples(const tensor::algebra& a,
                                                                             const tensor::tensor_graph& g) {
  const auto compared = compared_input(a, g);
  if (!compared) {
    return {};
  }
  const auto found = parallel::sample_values(g, parallel::graph_dimensions{a, g}, {{*compared}});
  std::set<std::string, std::less<>> names;
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind == a.kind("input") && found[g.results(n)[0].index()]) {
      names.emplace(a.read(g.operation(n)).word("name"));
    }
  }
  return names;
}

UNITY_INLINE void batches::give_role(const std::string& name, const tensor::tensor_type& type) {
  const bool is_text = set_->content() == io::dataset_content::text;
  if (name == tensor::labels_name(0)) {
    set_->expect_fits(io::dataset_field::labels, type);
    labels_ = type;
    return keep(name, role::labels);
  }
  if (is_text && tensor::is_floating(type.element) && type.rank() >= 2 &&
      type.dims[type.rank() - 2] == type.dims.back()) {
    masks_width_ = type.dims.back();
    return keep(name, role::mask);
  }
  if (!samples_name_.empty() || name == tensor::target_name(0) || name.starts_with("labels of ")) {
    throw error{set_->name(), fmt::format("nothing for input \"{}\" of the model", name),
                "one of samples, and the labels of its output"};
  }
  set_->expect_fits(io::dataset_field::samples, type);
  samples_ = type;
  samples_name_ = name;
  keep(name, role::samples);
}

UNITY_INLINE void batches::keep(const std::string& name, role r) {
  roles_[name] = r;
  if (r != role::mask && tensor::is_integral(labels_ && r == role::labels ? labels_->element : samples_->element) &&
      synthetic_.limit(name) < set_->classes()) {
    throw error{set_->name(), fmt::format("{} classes", set_->classes()),
                fmt::format("as many as input \"{}\" of the model has, {} at most", name, synthetic_.limit(name))};
  }
}

UNITY_INLINE void batches::check_roles() const {
  if (!samples_ || !labels_) {
    throw error{set_->name(), fmt::format("a model without {}", samples_ ? "labels" : "an input of samples"),
                "one with both; is the loss cross_entropy?"};
  }
  const bool is_text = set_->content() == io::dataset_content::text;
  if (is_text ? samples_->dims != labels_->dims : samples_->dims[0] != labels_->dims[0]) {
    throw error{
        set_->name(),
        fmt::format("samples {} and labels {} of the model", tensor::to_string(*samples_), tensor::to_string(*labels_)),
        is_text ? "the same sizes" : "a label a sample"};
  }
  if (is_text && masks_width_ != 0 && masks_width_ != samples_->dims.back()) {
    throw error{set_->name(), fmt::format("a mask for windows of {}", masks_width_),
                fmt::format("one for those of {} characters", samples_->dims.back())};
  }
}

}  // namespace unity::train

#endif
