// Records what an import sees at one size of each open axis. Values that differ between two records depend on the
// sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/untranslated.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

class size_record {
 public:
  // `other`: the record of the same file at other sizes, which must outlive this one; null for the first.
  explicit size_record(const size_record* other) : other_{other} {}

  // Null if it is not a constant.
  [[nodiscard]] const known_tensor* find(const std::string& name) const {
    const auto found = known_.find(name);
    return found == known_.end() ? nullptr : found->second.get();
  }
  // Whether a constant has other elements at the other sizes. Real tensors that are filled with one and the same number
  // count as equal, whatever their dimensions.
  [[nodiscard]] bool varies(const std::string& name, const known_tensor& known) const;
  void add(const std::string& name, const tensor::shape& dims) { dims_.insert_or_assign(name, dims); }
  void add(const std::string& name, std::shared_ptr<const known_tensor> known) {
    known_.insert_or_assign(name, std::move(known));
  }
  // Effects: records the sizes of the node's results, and the node itself if they are constants.
  void add(const onnx::NodeProto& node, const onnx_values& values, const graph_maker& maker);
  // A value of the taken branch of an If, and its name outside.
  void add_alias(const std::string& inner, const std::string& outer);

  // Finds forms of the numbers of this record's graph from records at three or more sizes, the first of which is this
  // one. `sizes[b][a]`: the size of axis a in record b. is_last: if several quotients fit at all sizes, takes the one
  // without an added number. Returns whether each number has an unambiguous origin.
  bool find_forms(const std::vector<const size_record*>& all, const std::vector<std::vector<std::int64_t>>& sizes,
                  bool is_last, open_sizes& open) const;
  // Sizes at which to read next, because quotients of some axis are ambiguous; empty if none are.
  [[nodiscard]] std::vector<std::int64_t> next_sizes(const std::vector<const size_record*>& all,
                                                     const std::vector<std::vector<std::int64_t>>& sizes) const;
  // Sets the graph that computes `open.computed`.
  void write_computing(const std::vector<const size_record*>& all, const std::vector<std::vector<std::int64_t>>& sizes,
                       open_sizes& open) const;

 private:
  using numbers = std::vector<std::int64_t>;

  // For each value in this record, its values in all records.
  [[nodiscard]] std::map<std::int64_t, std::set<numbers>> numbers_in(const std::vector<const size_record*>& all,
                                                                     bool computed_only) const;
  // The quotient that fits at all sizes, if there is exactly one. is_last: as in find_forms.
  [[nodiscard]] static std::optional<quotient_range> only_quotient(const numbers& at,
                                                                   const std::vector<std::vector<std::int64_t>>& sizes,
                                                                   bool is_last);
  [[nodiscard]] static bool is_changing(const numbers& at) {
    return std::any_of(at.begin(), at.end(), [&](auto n) { return n != at[0]; });
  }
  // Whether the value is a list of sizes with forms, or one such size.
  [[nodiscard]] static bool is_stated(const std::string& name, const std::vector<const size_record*>& all,
                                      const std::vector<std::vector<std::int64_t>>& sizes);

  const size_record* other_;
  std::map<std::string, tensor::shape> dims_;
  std::map<std::string, std::shared_ptr<const known_tensor>> known_;
  std::vector<onnx::NodeProto> nodes_;  // whose results are constants, in order
  std::set<std::int64_t> attributes_;   // numbers of nodes
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_SIZE_RECORD)

#include <cstddef>
#include <cstdlib>
#include <span>

#include <unity/io/onnx/graph_writer.hpp>

namespace unity::io::detail {

UNITY_INLINE bool size_record::varies(const std::string& name, const known_tensor& known) const {
  if (other_ == nullptr) {
    return false;
  }
  const auto* other = other_->find(name);
  if (other == nullptr || known.element != other->element || known.is_real() != other->is_real()) {
    return true;
  }
  const auto is_uniform = [&](const known_tensor& t) {
    return t.size() > 0 && std::all_of(t.reals.begin(), t.reals.end(), [&](double x) { return x == known.reals[0]; });
  };
  return known != *other && !(known.is_real() && is_uniform(known) && is_uniform(*other));
}

UNITY_INLINE void size_record::add(const onnx::NodeProto& node, const onnx_values& values, const graph_maker& maker) {
  for (const auto& a : node.attribute()) {
    attributes_.insert(a.ints().begin(), a.ints().end());
  }
  bool is_constant = true;
  for (const auto& out : node.output()) {
    const auto found = values.find(out);
    if (found == values.end()) {
      continue;
    }
    const auto& v = found->second;
    if (v.known != nullptr) {
      known_.insert_or_assign(out, v.known);
    }
    is_constant = is_constant && v.known != nullptr;
    if (v.value.valid() && node.op_type() == "Slice") {  // the file may count ends from the back
      dims_.insert_or_assign(out + " numbers", maker.slice_numbers(v.value));
    }
    dims_.insert_or_assign(out, v.value.valid()      ? maker.type(v.value).dims
                                : v.known != nullptr ? tensor::shape(std::span<const std::int64_t>{v.known->dims})
                                                     : v.data->dims);
  }
  if (is_constant && node.output_size() > 0 && node.op_type() != "If") {
    nodes_.push_back(node);
  }
}

UNITY_INLINE void size_record::add_alias(const std::string& inner, const std::string& outer) {
  auto& node = nodes_.emplace_back();
  node.set_op_type("Identity");
  node.add_input(inner);
  node.add_output(outer);
}

UNITY_INLINE std::map<std::int64_t, std::set<size_record::numbers>> size_record::numbers_in(
    const std::vector<const size_record*>& all, bool computed_only) const {
  std::map<std::int64_t, std::set<numbers>> seen;
  const auto see = [&](const auto& list_of) {
    const auto* first = list_of(*all[0]);
    for (std::size_t i = 0; first != nullptr && i < first->size(); ++i) {
      numbers at;
      for (const auto* r : all) {
        const auto* list = list_of(*r);
        if (list == nullptr || list->size() != first->size()) {
          return;
        }
        at.push_back((*list)[i]);
      }
      seen[at[0]].insert(at);
    }
  };
  for (const auto& entry : dims_) {
    if (computed_only) {
      break;
    }
    see([&](const size_record& r) -> const tensor::shape* {
      const auto found = r.dims_.find(entry.first);
      return found == r.dims_.end() ? nullptr : &found->second;
    });
  }
  for (const auto& entry : known_) {
    constexpr std::size_t most_sizes = 8;  // longer lists are data, such as positions
    see([&](const size_record& r) -> const std::vector<std::int64_t>* {
      const auto* known = r.find(entry.first);
      return known == nullptr || known->is_real() || known->size() > most_sizes ? nullptr : &known->integers;
    });
  }
  return seen;
}

UNITY_INLINE std::optional<quotient_range> size_record::only_quotient(
    const numbers& at, const std::vector<std::vector<std::int64_t>>& sizes, bool is_last) {
  auto found = fitted_quotients(sizes, at);
  if (found.empty()) {
    return std::nullopt;
  }
  if (found.size() == 1 && found[0].least == found[0].most) {
    return found[0];
  }
  // No further sizes can tell the quotients apart, so the model may accept multiples of the divisor only.
  const auto whole = std::find_if(found.begin(), found.end(), [](const auto& r) { return r.contains(0); });
  if (!is_last || whole == found.end()) {
    return std::nullopt;
  }
  whole->least = whole->most = 0;
  return *whole;
}

UNITY_INLINE bool size_record::find_forms(const std::vector<const size_record*>& all,
                                          const std::vector<std::vector<std::int64_t>>& sizes, bool is_last,
                                          open_sizes& open) const {
  constexpr std::int64_t small = 8;  // numbers up to this are axes or steps
  auto seen = numbers_in(all, false);
  for (const auto number : attributes_) {
    seen[number].insert(numbers(all.size(), number));
  }
  std::vector<size_quotient> quotients;
  for (const auto& [number, variants] : seen) {
    for (const auto& at : variants) {
      if (is_changing(at) && !fitted_form(sizes, at)) {
        const auto q = only_quotient(at, sizes, is_last);
        const size_quotient quotient{q ? q->axis : 0, q ? q->least : 0, q ? q->divisor : 1};
        if (q && std::find(quotients.begin(), quotients.end(), quotient) == quotients.end()) {
          quotients.push_back(quotient);
        }
      }
    }
  }
  bool clear = true;
  for (const auto& [number, variants] : seen) {
    const auto changing = std::find_if(variants.begin(), variants.end(), is_changing);
    if (changing == variants.end() || std::abs(number) <= small) {
      open.constants.insert(number);
      continue;
    }
    std::optional<size_form> form;
    for (auto at = changing; at != variants.end() && !form; ++at) {
      form = fitted_form(sizes, *at);
      form = form ? form : fitted_form(sizes, *at, quotients);
    }
    if (form && variants.size() == 1) {
      open.forms.emplace(number, *form);
    } else {
      open.unstated.insert(number);
    }
    clear = clear && (!form || variants.size() == 1);
  }
  // Numbers that the file computes must have forms, so they must be neither small nor equal to others.
  for (const auto& [number, variants] : numbers_in(all, true)) {
    constexpr std::int64_t least = 4;
    const bool is_taken = number >= least && (number <= small || seen[number].size() > 1);
    for (const auto& at : variants) {
      const bool is_quotient =
          is_taken && is_changing(at) && !fitted_form(sizes, at) && !fitted_quotients(sizes, at).empty();
      clear = clear && !is_quotient;
    }
  }
  return clear;
}

UNITY_INLINE std::vector<std::int64_t> size_record::next_sizes(
    const std::vector<const size_record*>& all, const std::vector<std::vector<std::int64_t>>& sizes) const {
  const auto count = sizes[0].size();
  std::vector<std::optional<quotient_range>> widest(count);
  std::vector<bool> is_ambiguous(count, false);
  for (const auto& [number, variants] : numbers_in(all, false)) {
    for (const auto& at : variants) {
      if (!is_changing(at) || fitted_form(sizes, at)) {
        continue;
      }
      const auto found = fitted_quotients(sizes, at);
      if (found.empty() || (found.size() == 1 && found[0].least == found[0].most)) {
        continue;
      }
      const auto& r = found[0];
      auto& most = widest[r.axis];
      is_ambiguous[r.axis] = true;
      most = !most || r.most - r.least > most->most - most->least ? r : *most;
    }
  }
  if (std::find(is_ambiguous.begin(), is_ambiguous.end(), true) == is_ambiguous.end()) {
    return {};
  }
  std::vector<std::int64_t> next(count);
  for (std::size_t a = 0; a < count; ++a) {
    std::int64_t largest = 0;
    for (const auto& at : sizes) {
      largest = std::max(largest, at[a]);
    }
    constexpr std::int64_t multiple = 32;  // sizes of images are multiples of this
    next[a] = largest + (sizes[0][a] % multiple == 0 ? multiple : 1);
    if (widest[a]) {  // halves the range of the added number; distant sizes tell divisors apart
      const auto middle = (widest[a]->least + widest[a]->most + 1) / 2;
      const auto d = widest[a]->divisor;
      next[a] = sizes.size() < 5 ? largest + largest / 2 : largest + 1;
      next[a] += (d - (((next[a] + middle) % d) + d) % d) % d;
    }
    // Axes that have had equal sizes keep them.
    for (std::size_t b = 0; b < a; ++b) {
      if (std::all_of(sizes.begin(), sizes.end(), [&](const auto& at) { return at[a] == at[b]; })) {
        next[a] = next[b];
      }
    }
  }
  return next;
}

UNITY_INLINE bool size_record::is_stated(const std::string& name, const std::vector<const size_record*>& all,
                                         const std::vector<std::vector<std::int64_t>>& sizes) {
  const auto* first = all[0]->find(name);
  if (first == nullptr || first->element != tensor::dtype::int64 || first->dims.size() > 1 || first->size() > 64) {
    return false;
  }
  for (std::size_t i = 0; i < first->size(); ++i) {
    numbers at;
    for (const auto* r : all) {
      const auto* known = r->find(name);
      if (known == nullptr || known->dims != first->dims || known->element != first->element) {
        return false;
      }
      at.push_back(known->integers[i]);
    }
    const bool is_same = std::all_of(at.begin(), at.end(), [&](auto n) { return n == at[0]; });
    if (!is_same && !fitted_form(sizes, at)) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE void size_record::write_computing(const std::vector<const size_record*>& all,
                                               const std::vector<std::vector<std::int64_t>>& sizes,
                                               open_sizes& open) const {
  std::set<std::string> needed = open.computed;
  std::vector<onnx::NodeProto> reversed;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const auto& name = node->output(0);
    if (!needed.contains(name)) {
      continue;
    }
    // stops here, because the operands may have no form
    const bool is_leaf = node->op_type() == "Shape" || node->op_type() == "Size";
    if (is_leaf || is_stated(name, all, sizes)) {
      auto& list = reversed.emplace_back();
      list.set_op_type("Sizes");
      list.set_domain("unity");
      list.add_output(name);
      fill_attribute(*list.add_attribute(), {"values", find(name)->integers});
      fill_attribute(*list.add_attribute(), {"rank", static_cast<std::int64_t>(find(name)->dims.size())});
    } else {
      reversed.push_back(*node);
      needed.insert(node->input().begin(), node->input().end());
    }
  }
  std::set<std::string> defined;
  onnx::GraphProto graph;
  for (auto node = reversed.rbegin(); node != reversed.rend(); ++node) {
    defined.insert(node->output().begin(), node->output().end());
    *graph.add_node() = *node;
  }
  for (const auto& name : needed) {
    if (const auto* known = find(name); !name.empty() && known != nullptr && !defined.contains(name)) {
      fill_tensor(*graph.add_initializer(), data_from(*known), name);
    }
  }
  open.computing = graph.SerializeAsString();
}

}  // namespace unity::io::detail

#endif
