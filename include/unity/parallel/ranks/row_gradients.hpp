// Gradients of lookup tables as row indices and rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

// Row ids[i] of the table has the gradient rows[i]; repeated indices add up. For sums of rows, all rows ids[i, ...]
// have it. Regular.
struct row_gradient {
  value_id ids{};   // integers [count], or [count, bag]
  value_id rows{};  // [count, e...]
  std::int64_t count = 0;
  std::int64_t bag = 0;  // number of rows per sum; 0: no sums

  friend bool operator==(const row_gradient&, const row_gradient&) = default;
};

// The operands of a lookup's gradient, with ids of any number of dimensions; nullopt if the value is not one.
struct lookup_gradient_operands {
  value_id ids{};
  value_id cotangent{};
  bool is_bag = false;
};
[[nodiscard]] std::optional<lookup_gradient_operands> find_lookup(const tensor::algebra& a,
                                                                  const tensor::tensor_graph& g, value_id gradient);

// Writes row gradients into a rank's program.
class row_writer {
 public:
  row_writer(const tensor::algebra& a, region_writer& w) : a_{a}, writer_{w} {}

  [[nodiscard]] row_gradient of(const lookup_gradient_operands& x);
  // Concatenates them. Precondition: at least one.
  [[nodiscard]] row_gradient joined(std::span<const row_gradient> all);
  // Appends rows of zeros, up to this count.
  [[nodiscard]] row_gradient padded(const row_gradient& x, std::int64_t count);
  // This many rows of zeros. rows, ids: types of other gradients.
  [[nodiscard]] row_gradient zeros(std::int64_t count, const tensor::tensor_type& rows, const tensor::tensor_type& ids);
  // The gradient of a part of the table.
  [[nodiscard]] value_id part_of_table(const row_gradient& x, const box& part);

 private:
  const tensor::algebra& a_;
  region_writer& writer_;
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_ROW_GRADIENTS)

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<lookup_gradient_operands> find_lookup(const tensor::algebra& a,
                                                                 const tensor::tensor_graph& g, value_id gradient) {
  const auto n = g.producer(gradient);
  const auto operands = g.operands(n);
  if (operands.empty()) {
    return std::nullopt;
  }
  const std::string_view name = a.signature(g.operation(n).kind).name;
  const bool is_bag = name == "embedding_bag_gradient";
  return is_bag || name == "embedding_gradient"
             ? std::optional{lookup_gradient_operands{operands[0], operands[1], is_bag}}
             : std::nullopt;
}

UNITY_INLINE row_gradient row_writer::of(const lookup_gradient_operands& x) {
  const auto& g = writer_.graph();
  const auto ids = g.type(x.ids).dims;
  const auto dims = g.type(x.cotangent).dims;
  const auto bag = x.is_bag ? ids.back() : 0;
  const auto count = tensor::element_count(ids) / std::max<std::int64_t>(bag, 1);
  const auto shaped = [&](value_id v, std::vector<std::int64_t> to) {
    const std::vector<value_id> operand{v};
    return writer_.run(a_.make_operation("reshape", {{"dims", std::move(to)}}), operand);
  };
  std::vector<std::int64_t> rows{count};
  for (auto d = ids.size() - (x.is_bag ? 1 : 0); d < dims.size(); ++d) {
    rows.push_back(dims[d]);
  }
  const auto numbers = x.is_bag ? std::vector<std::int64_t>{count, bag} : std::vector<std::int64_t>{count};
  return {shaped(x.ids, numbers), shaped(x.cotangent, rows), count, bag};
}

UNITY_INLINE row_gradient row_writer::joined(std::span<const row_gradient> all) {
  auto sum = all.front();
  for (const auto& x : all.subspan(1)) {
    const auto concat = a_.make_operation("concat", {{"axis", 0}});
    const std::vector<value_id> ids{sum.ids, x.ids};
    const std::vector<value_id> rows{sum.rows, x.rows};
    sum = {writer_.run(concat, ids), writer_.run(concat, rows), sum.count + x.count, sum.bag};
  }
  return sum;
}

UNITY_INLINE row_gradient row_writer::padded(const row_gradient& x, std::int64_t count) {
  if (x.count == count) {
    return x;
  }
  const auto& g = writer_.graph();
  const std::vector<row_gradient> both{x, zeros(count - x.count, g.type(x.rows), g.type(x.ids))};
  return joined(both);
}

UNITY_INLINE row_gradient row_writer::zeros(std::int64_t count, const tensor::tensor_type& rows,
                                            const tensor::tensor_type& ids) {
  auto row_dims = rows.dims;
  auto id_dims = ids.dims;
  row_dims[0] = count;
  id_dims[0] = count;
  return {writer_.filled(id_dims, ids.element, 0), writer_.filled(row_dims, rows.element, 0), count,
          id_dims.size() > 1 ? id_dims[1] : 0};
}

// Indices outside of the part are ignored.
UNITY_INLINE value_id row_writer::part_of_table(const row_gradient& x, const box& part) {
  const auto& g = writer_.graph();
  auto ids = x.ids;
  if (part.begin[0] != 0) {
    const std::vector<value_id> operands{ids,
                                         writer_.filled({}, g.type(ids).element, static_cast<double>(part.begin[0]))};
    ids = writer_.run(a_.make_operation("sub"), operands);
  }
  const auto dims = g.type(x.rows).dims;
  auto columns = part;
  columns.begin[0] = 0;
  columns.end[0] = x.count;
  const std::vector<value_id> operands{ids, writer_.cut({whole(dims), x.rows}, columns)};
  return writer_.run(a_.make_operation(x.bag == 0 ? "embedding_gradient" : "embedding_bag_gradient",
                                       {{"rows", part.end[0] - part.begin[0]}}),
                     operands);
}

}  // namespace unity::parallel::detail

#endif
