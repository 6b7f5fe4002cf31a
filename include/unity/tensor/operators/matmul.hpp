// Matrix products and Einstein sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

// Einstein sums: products of tensors whose dimensions have letters, summed over letters that the result lacks.

// The letters of operands and result.
struct einsum_form {
  std::vector<std::string> operands;
  std::string result;
};

// Parses "bij,bjk->bik" for operands of these ranks. Without an arrow, the result has the letters that occur once, in
// alphabetical order. An ellipsis stands for the same dimensions everywhere. Returns nothing if the equation is
// malformed or an operand has a letter twice.
[[nodiscard]] std::optional<einsum_form> read_einsum(std::string_view equation, std::span<const std::size_t> ranks);

// Contracts operands from left to right with matrix products. Dimensions with the same letter have the same size.
// Source: ONNX's Einsum.
[[nodiscard]] definition einsum();

[[nodiscard]] inline std::vector<definition> einsums() { return {einsum()}; }

// Shapes: a[..., m, k], b[..., k, n] -> [..., m, n]; the leading dimensions broadcast.
[[nodiscard]] definition matmul();

// Shapes: x[..., k], w[k, n], optional bias[n] -> [..., n].
[[nodiscard]] definition linear();

[[nodiscard]] inline std::vector<definition> matrix_products() { return {matmul(), linear()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_MATMUL)

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>

namespace unity::tensor::operators {

namespace detail {

[[nodiscard]] inline bool has_letter(std::string_view letters, char c) {
  return letters.find(c) != std::string_view::npos;
}

// Only letters, and at most one ellipsis of exactly three dots.
[[nodiscard]] inline bool is_einsum_term(std::string_view term) {
  const auto dots = term.find("...");
  std::string letters{term};
  if (dots != std::string_view::npos) {
    letters.erase(dots, 3);
  }
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::sort(letters.begin(), letters.end());
  return std::all_of(letters.begin(), letters.end(), is_letter) &&
         std::adjacent_find(letters.begin(), letters.end()) == letters.end();
}

// A value and the letters of its dimensions.
struct lettered {
  value_id value;
  std::string letters;
};

class einsum_writer {
 public:
  einsum_writer(body_builder& b, std::map<char, std::int64_t> sizes) : b_{b}, sizes_{std::move(sizes)} {}

  // Summed over letters that `kept` lacks.
  [[nodiscard]] lettered summed(lettered x, std::string_view kept) const;
  [[nodiscard]] value_id in_order(const lettered& x, std::string_view letters) const;
  // The product, summed over letters that `kept` lacks.
  [[nodiscard]] lettered product(const lettered& x, const lettered& y, std::string_view kept) const;

 private:
  [[nodiscard]] std::int64_t count(std::string_view letters) const {
    std::int64_t n = 1;
    for (const auto c : letters) {
      n *= sizes_.at(c);
    }
    return n;
  }

  body_builder& b_;
  std::map<char, std::int64_t> sizes_;
};

UNITY_INLINE lettered einsum_writer::summed(lettered x, std::string_view kept) const {
  shape axes;
  std::string rest;
  for (std::size_t d = 0; d < x.letters.size(); ++d) {
    if (has_letter(kept, x.letters[d])) {
      rest += x.letters[d];
    } else {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  return axes.empty() ? std::move(x)
                      : lettered{b_.add("reduce_sum", {x.value}, {{"axes", axes}, {"keep_dims", 0}}), rest};
}

UNITY_INLINE value_id einsum_writer::in_order(const lettered& x, std::string_view letters) const {
  shape permutation;
  for (const auto c : letters) {
    permutation.push_back(static_cast<std::int64_t>(x.letters.find(c)));
  }
  return x.letters == letters ? x.value : b_.add("transpose", {x.value}, {{"permutation", permutation}});
}

UNITY_INLINE lettered einsum_writer::product(const lettered& x, const lettered& y, std::string_view kept) const {
  const auto a = summed(x, std::string{kept} + y.letters);
  const auto c = summed(y, std::string{kept} + x.letters);
  std::string both;
  std::string contracted;
  std::string rows;
  std::string columns;
  for (const auto l : a.letters) {
    (!has_letter(c.letters, l) ? rows : has_letter(kept, l) ? both : contracted) += l;
  }
  for (const auto l : c.letters) {
    columns += has_letter(a.letters, l) ? "" : std::string{l};
  }
  const auto left = in_order(a, both + rows + contracted);
  const auto right = in_order(c, both + contracted + columns);
  const auto product =
      b_.add("matmul", {tensor::detail::reshaped(b_, left, {count(both), count(rows), count(contracted)}),
                        tensor::detail::reshaped(b_, right, {count(both), count(contracted), count(columns)})});
  const auto letters = both + rows + columns;
  shape dims;
  for (const auto l : letters) {
    dims.push_back(sizes_.at(l));
  }
  return {tensor::detail::reshaped(b_, product, dims), letters};
}

// The size of each letter; nothing if dimensions with the same letter have different sizes.
[[nodiscard]] inline std::optional<std::map<char, std::int64_t>> letter_sizes(const einsum_form& f,
                                                                              std::span<const tensor_type> inputs) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t d = 0; d < inputs[i].rank(); ++d) {
      if (sizes.emplace(f.operands[i][d], inputs[i].dims[d]).first->second != inputs[i].dims[d]) {
        return std::nullopt;
      }
    }
  }
  return sizes;
}

[[nodiscard]] inline std::optional<einsum_form> form_of(const attribute_reader& a,
                                                        std::span<const tensor_type> inputs) {
  std::vector<std::size_t> ranks;
  for (const auto& t : inputs) {
    ranks.push_back(t.rank());
  }
  return read_einsum(a.word("equation"), ranks);
}

}  // namespace detail

UNITY_INLINE std::optional<einsum_form> read_einsum(std::string_view equation, std::span<const std::size_t> ranks) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  const auto arrow = text.find("->");
  const auto left = text.substr(0, arrow);
  std::vector<std::string> terms{""};
  for (const auto c : left) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != ranks.size()) {
    return std::nullopt;
  }
  // Digits stand for the dimensions of an ellipsis.
  std::optional<std::size_t> covered;
  const auto spelled = [&](std::string term) {
    if (const auto dots = term.find("..."); dots != std::string::npos) {
      std::string digits;
      for (std::size_t d = 0; d < covered.value_or(0); ++d) {
        digits += static_cast<char>('0' + d);
      }
      term.replace(dots, 3, digits);
    }
    return term;
  };
  einsum_form f;
  std::map<char, int> times;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const bool dotted = terms[i].find('.') != std::string::npos;
    const auto letters = terms[i].size() - (dotted ? 3 : 0);
    if (!detail::is_einsum_term(terms[i]) || (dotted ? ranks[i] < letters : ranks[i] != letters)) {
      return std::nullopt;
    }
    if (dotted && covered.value_or(ranks[i] - letters) != ranks[i] - letters) {
      return std::nullopt;
    }
    covered = dotted ? ranks[i] - letters : covered;
    f.operands.push_back(spelled(terms[i]));
    for (const auto c : f.operands.back()) {
      ++times[c];
    }
  }
  if (arrow != std::string::npos) {
    const auto result = text.substr(arrow + 2);
    if (!detail::is_einsum_term(result)) {
      return std::nullopt;
    }
    f.result = spelled(result);
  } else {
    for (const auto& [c, n] : times) {
      f.result += n == 1 || c <= '9' ? std::string{c} : "";
    }
  }
  const bool known = std::all_of(f.result.begin(), f.result.end(), [&](char c) { return times.contains(c); });
  return known && covered.value_or(0) < 10 ? std::optional{f} : std::nullopt;
}

UNITY_INLINE definition einsum() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (!j.require_floating()) {
      return;
    }
    const auto form = detail::form_of(a, j.inputs());
    if (!j.require(form.has_value(), "an equation of the operands' ranks, no letter twice in one")) {
      return;
    }
    const auto sizes = detail::letter_sizes(*form, j.inputs());
    if (!j.require(sizes.has_value(), "one size per letter")) {
      return;
    }
    std::vector<std::int64_t> all;
    shape dims;
    for (const auto& [letter, size] : *sizes) {
      all.push_back(size);
    }
    for (const auto c : form->result) {
      dims.push_back(sizes->at(c));
    }
    if (j.require(checked_element_count(all).has_value(), "a countable number of products")) {
      j.result(std::move(dims));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    std::vector<tensor_type> inputs;
    for (const auto v : x) {
      inputs.push_back(b.type(v));
    }
    const auto form = detail::form_of(a, inputs).value();
    const detail::einsum_writer w{b, detail::letter_sizes(form, inputs).value()};
    const auto needed_from = [&](std::size_t i) {
      auto letters = form.result;
      for (; i < x.size(); ++i) {
        letters += form.operands[i];
      }
      return letters;
    };
    detail::lettered sum{x[0], form.operands[0]};
    for (std::size_t i = 1; i < x.size(); ++i) {
      sum = w.product(sum, {x[i], form.operands[i]}, needed_from(i + 1));
    }
    sum = w.summed(sum, form.result);
    const auto result = w.in_order(sum, form.result);
    return std::vector{result == x[0] ? b.add("identity", {result}) : result};
  };
  return define("einsum", {1, operand_count::unlimited}, 1, {word_field("equation")}, composite{body, types});
}

UNITY_INLINE definition matmul() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (!s.require_floating() || !s.require(s.rank(0) >= 2 && s.rank(1) >= 2, "operands of rank 2 or more")) {
      return;
    }
    const auto batch_of = [&](std::size_t operand) {
      return std::span<const std::int64_t>{s.dims(operand)}.first(s.rank(operand) - 2);
    };
    const auto joint = broadcast(batch_of(0), batch_of(1));
    if (!s.require(joint.has_value(), "leading dimensions that broadcast")) {
      return;
    }
    const auto batch = declare_all(s, *joint);
    const auto m = s.parallel("m");
    const auto n = s.parallel("n");
    const auto k = s.reduced("k");
    const auto with = [](accesses leading, int rows, int columns) {
      leading.push_back(rows);
      leading.push_back(columns);
      return leading;
    };
    s.read(with(seen(batch, *joint, batch_of(0)), m, k));
    s.read(with(seen(batch, *joint, batch_of(1)), k, n));
    s.write(with(batch, m, n));
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type>) {
    return activate(a, kernels::sum(kernels::x(0) * kernels::x(1)));
  };
  return define("matmul", 2, 1, {activation_field()}, primitive{iteration, kernel}).with_layouts();
}

UNITY_INLINE definition linear() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (!s.require_floating() || !s.require(s.rank(0) >= 1, "rank 1 or more", 0)) {
      return;
    }
    accesses rows;
    for (std::size_t d = 0; d + 1 < s.rank(0); ++d) {
      rows.push_back(s.parallel("b"));
    }
    const auto n = s.parallel("n");
    const auto k = s.reduced("k");
    auto dims = rows;
    dims.push_back(k);
    s.read(dims);
    s.read({k, n});
    if (s.inputs().size() == 3) {
      s.read({n});
    }
    dims = rows;
    dims.push_back(n);
    s.write(dims);
  };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type> inputs) {
    const auto product = kernels::sum(kernels::x(0) * kernels::x(1));
    return activate(a, inputs.size() == 3 ? product + kernels::x(2) : product);
  };
  return define("linear", {2, 3}, 1, {activation_field()}, primitive{iteration, kernel}).with_layouts();
}

}  // namespace unity::tensor::operators

#endif
