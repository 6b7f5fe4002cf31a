// Symbolic types without symbols: a type, attribute or operator is represented by its value in each of several sampled
// worlds.
//
// A world assigns sizes and attribute values to the symbols of a question. What holds in all of a few worlds, whose
// sizes differ wherever they may differ, holds in general. So two types are "the same" if they are equal in every
// world.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity {

using type_row = id<struct type_row_tag>;            // one type per world
using attribute_row = id<struct attribute_row_tag>;  // one attribute per world
using operator_row = id<struct operator_row_tag>;    // one operator per world, all of one kind

namespace detail {

// Interns rows of `Width` elements each, in one flat array. Complexity: expected linear in the width.
template <class Element, class Id>
class row_table {
 public:
  explicit row_table(std::size_t width) : width_{width} {}

  template <class Hash>
  std::pair<Id, bool> intern(std::span<const Element> row, Hash hash_of) {
    std::uint64_t h = row.size();
    for (const auto& e : row) {
      h = hash_combine(h, hash_of(e));
    }
    const auto found = table_.find(h, [&](auto i) { return std::ranges::equal(at(Id{i}), row); });
    if (found != index_table::none) {
      return {Id{found}, false};
    }
    const Id fresh{elements_.size() / width_};
    elements_.insert(elements_.end(), row.begin(), row.end());
    table_.insert(h, fresh.index());
    return {fresh, true};
  }
  [[nodiscard]] std::span<const Element> at(Id i) const {
    return {elements_.data() + static_cast<std::size_t>(i.index()) * width_, width_};
  }
  [[nodiscard]] std::size_t size() const noexcept { return elements_.size() / width_; }

 private:
  std::size_t width_;
  std::vector<Element> elements_;
  index_table table_;
};

}  // namespace detail

// Interned rows of types, attributes and operators over a fixed number of worlds, and the results of inference in all
// of them. Kept between questions: a second question over the same sizes infers nothing again.
// The algebra must outlive it.
template <pattern_algebra Algebra>
class world_tables {
 public:
  using op_type = typename Algebra::op_type;
  using value_type = typename Algebra::value_type;

  world_tables(const Algebra& algebra, std::size_t worlds)
      : algebra_{&algebra}, worlds_{worlds}, types_{worlds}, attributes_{worlds}, operators_{worlds} {
    UNITY_EXPECTS(worlds > 0, "at least one world");
  }

  [[nodiscard]] const Algebra& algebra() const noexcept { return *algebra_; }
  [[nodiscard]] std::size_t worlds() const noexcept { return worlds_; }

  type_row intern_types(std::span<const value_type> row) {
    return types_.intern(row, [](const auto& t) { return mix64(std::hash<value_type>{}(t)); }).first;
  }
  attribute_row intern_attributes(std::span<const attribute> row) {
    const auto [id, fresh] = attributes_.intern(row, [](const auto& a) { return hash_value(a); });
    if (fresh) {
      uniform_.push_back(std::all_of(row.begin(), row.end(), [&](const auto& a) { return a == row[0]; }));
    }
    return id;
  }
  attribute_row intern_literal(const attribute& a) {
    scratch_.assign(worlds_, a);
    return intern_attributes(scratch_);
  }
  // Nothing if the kinds differ between worlds.
  std::optional<operator_row> intern_operators(std::span<const op_type> row) {
    const auto kind = algebra_->kind_of(row[0]);
    if (!std::all_of(row.begin(), row.end(), [&](const auto& op) { return algebra_->kind_of(op) == kind; })) {
      return std::nullopt;
    }
    const auto [id, fresh] = operators_.intern(row, [](const auto& op) { return mix64(std::hash<op_type>{}(op)); });
    if (fresh) {
      labels_.push_back({kind, algebra_->signature(kind).commutative, attributes_of(row)});
    }
    return id;
  }
  // The operator of `kind` with these attributes in every world; nothing if they are invalid in some world.
  std::optional<operator_row> make(kind_id kind, std::span<const attribute_row> attributes) {
    std::uint64_t h = mix64(kind.index());
    for (const auto a : attributes) {
      h = hash_combine(h, a.index());
    }
    const auto known = made_table_.find(
        h, [&](auto i) { return made_[i].kind == kind && std::ranges::equal(made_[i].attributes, attributes); });
    if (known != index_table::none) {
      return made_[known].row;
    }
    made_.push_back({kind, {attributes.begin(), attributes.end()}, make_anew(kind, attributes)});
    made_table_.insert(h, static_cast<std::uint32_t>(made_.size() - 1));
    return made_.back().row;
  }
  // The rows of result types of `op`; nothing if it does not accept such operands in some world.
  [[nodiscard]] std::optional<std::span<const type_row>> infer(operator_row op, std::span<const type_row> operands) {
    std::uint64_t h = mix64(op.index());
    for (const auto t : operands) {
      h = hash_combine(h, t.index());
    }
    auto known = inferred_table_.find(
        h, [&](auto i) { return inferred_[i].op == op && std::ranges::equal(inferred_[i].operands, operands); });
    if (known == index_table::none) {
      known = static_cast<std::uint32_t>(inferred_.size());
      inferred_.push_back({op, {operands.begin(), operands.end()}, infer_anew(op, operands)});
      inferred_table_.insert(h, known);
    }
    const auto& results = inferred_[known].results;
    return results ? std::optional{std::span<const type_row>{*results}} : std::nullopt;
  }

  [[nodiscard]] std::span<const value_type> types(type_row t) const { return types_.at(t); }
  [[nodiscard]] std::span<const attribute> attributes(attribute_row a) const { return attributes_.at(a); }
  // Whether the attribute is the same in every world.
  [[nodiscard]] bool uniform(attribute_row a) const { return uniform_[a.index()]; }
  [[nodiscard]] std::span<const op_type> operators(operator_row op) const { return operators_.at(op); }
  [[nodiscard]] kind_id kind(operator_row op) const { return labels_[op.index()].kind; }
  [[nodiscard]] bool commutative(operator_row op) const { return labels_[op.index()].commutative; }
  [[nodiscard]] std::span<const attribute_row> attributes_of(operator_row op) const {
    return labels_[op.index()].attributes;
  }

  // The number of stored items, for bounding memory.
  [[nodiscard]] std::size_t size() const noexcept {
    return types_.size() + attributes_.size() + operators_.size() + inferred_.size() + made_.size();
  }

 private:
  struct label {
    kind_id kind;
    bool commutative;
    std::vector<attribute_row> attributes;
  };
  struct made_operator {
    kind_id kind;
    std::vector<attribute_row> attributes;
    std::optional<operator_row> row;
  };
  struct inference {
    operator_row op;
    std::vector<type_row> operands;
    std::optional<std::vector<type_row>> results;
  };

  std::vector<attribute_row> attributes_of(std::span<const op_type> row) {
    std::vector<attribute_list> lists;
    for (const auto& op : row) {
      lists.push_back(algebra_->attributes_of(op));
    }
    std::vector<attribute_row> all;
    std::vector<attribute> across(worlds_);
    for (std::size_t k = 0; k < lists[0].size(); ++k) {
      for (std::size_t w = 0; w < worlds_; ++w) {
        across[w] = lists[w][k];
      }
      all.push_back(intern_attributes(across));
    }
    return all;
  }
  std::optional<operator_row> make_anew(kind_id kind, std::span<const attribute_row> attributes) {
    std::vector<op_type> row;
    for (std::size_t w = 0; w < worlds_; ++w) {
      attribute_list list;
      for (const auto a : attributes) {
        list.push_back(this->attributes(a)[w]);
      }
      auto op = algebra_->make(kind, list);
      if (!op) {
        return std::nullopt;
      }
      row.push_back(*std::move(op));
    }
    return intern_operators(row);
  }
  std::optional<std::vector<type_row>> infer_anew(operator_row op, std::span<const type_row> operands) {
    std::vector<std::vector<value_type>> results(worlds_);
    std::vector<value_type> in;
    for (std::size_t w = 0; w < worlds_; ++w) {
      in.clear();
      for (const auto t : operands) {
        in.push_back(types(t)[w]);
      }
      auto out = algebra_->infer(operators(op)[w], in);
      if (!out || (w > 0 && out->size() != results[0].size())) {
        return std::nullopt;
      }
      results[w] = *std::move(out);
    }
    std::vector<type_row> rows;
    std::vector<value_type> across(worlds_);
    for (std::size_t r = 0; r < results[0].size(); ++r) {
      for (std::size_t w = 0; w < worlds_; ++w) {
        across[w] = results[w][r];
      }
      rows.push_back(intern_types(across));
    }
    return rows;
  }

  const Algebra* algebra_;
  std::size_t worlds_;
  detail::row_table<value_type, type_row> types_;
  detail::row_table<attribute, attribute_row> attributes_;
  detail::row_table<op_type, operator_row> operators_;
  std::vector<bool> uniform_;
  std::vector<label> labels_;
  std::vector<made_operator> made_;
  std::vector<inference> inferred_;
  index_table made_table_;
  index_table inferred_table_;
  std::vector<attribute> scratch_;
};

}  // namespace unity
