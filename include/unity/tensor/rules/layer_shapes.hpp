// Guesses the operands of operators with many related sizes: sums of products, attention, recurrent layers, transposed
// convolutions.
#pragma once

#include <unity/tensor/rules/guesses.hpp>
#include <unity/tensor/rules/partial_instance.hpp>

namespace unity::tensor::detail {

// Fills in open operands, and the attributes that their shapes depend on. Returns false, without effects, if the
// operator is not one of these. The guesses do not always fit the parts that are known.
bool guess_layer(guesses& draw, proposal& p);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_LAYER_SHAPES)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// Sizes by letter. A digit is a size itself.
class lettered_sizes {
 public:
  using size = guesses::size;

  // dims: a word per operand, with a letter per dimension. Operands that are known set the sizes of their letters.
  lettered_sizes(guesses& draw, proposal& p, std::span<const std::string_view> dims) : draw_{draw}, p_{p}, dims_{dims} {
    for (std::size_t i = 0; i < std::min(dims.size(), p.operands.size()); ++i) {
      for (std::size_t d = 0; p.operands[i] && p.operands[i]->size() == dims[i].size() && d < dims[i].size(); ++d) {
        set(dims[i][d], (*p.operands[i])[d]);
      }
    }
  }

  [[nodiscard]] bool knows(char letter) const { return sizes_.contains(letter); }
  // Sets the size of a letter that has none yet.
  void set(char letter, size value) { sizes_.emplace(letter, value); }
  [[nodiscard]] size of(char letter) {
    if (letter >= '0' && letter <= '9') {
      return letter - '0';
    }
    set(letter, knows(letter) ? 0 : draw_.any_size());
    return sizes_.at(letter);
  }
  void fill_in() {
    for (std::size_t i = 0; i < std::min(dims_.size(), p_.operands.size()); ++i) {
      if (!p_.operands[i]) {
        p_.operands[i] = shape{};
        for (const auto letter : dims_[i]) {
          p_.operands[i]->push_back(of(letter));
        }
      }
    }
  }

 private:
  guesses& draw_;
  proposal& p_;
  std::span<const std::string_view> dims_;
  std::map<char, size> sizes_{};
};

// The attribute, which becomes `otherwise` if it is open.
inline guesses::size known_or(proposal& p, std::string_view name, guesses::size otherwise) {
  auto& value = p.at(name);
  value = value ? *value : attribute{otherwise};
  return value->empty() ? 0 : (*value)[0];
}

// The shapes that the terms of the equation state. An open equation becomes that of a chain of matrices.
inline void guess_einsum(guesses& draw, proposal& p) {
  auto& equation = p.at("equation");
  if (!equation) {
    std::string chain;
    for (std::size_t i = 0; i < p.operands.size(); ++i) {
      const auto letter = static_cast<char>('a' + i % 25);
      chain += {i == 0 ? ' ' : ',', letter, static_cast<char>(letter + 1)};
    }
    equation = word_attribute(chain);
  }
  auto text = to_word(*equation);
  text.resize(std::min(text.size(), text.find("->")));
  std::erase(text, ' ');
  std::vector<std::string_view> dims{{}};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      dims.emplace_back();
    } else {
      dims.back() = std::string_view{text}.substr(i - dims.back().size(), dims.back().size() + 1);
    }
  }
  if (dims.size() == p.operands.size() && text.find('.') == std::string::npos) {
    lettered_sizes{draw, p, dims}.fill_in();
  }
}

// q[b, s, e], k[b, t, f], v[b, t, g], wq[e, x], wk[f, x], wv[g, y], wo[y, o]; x and y are multiples of `heads`.
inline void guess_attention(guesses& draw, proposal& p) {
  static constexpr std::array<std::string_view, 7> dims{"bse", "btf", "btg", "ex", "fx", "gy", "yo"};
  lettered_sizes sizes{draw, p, dims};
  const auto heads = known_or(p, "heads", draw.between(1, 2));
  sizes.set('x', saturating_multiply(heads, draw.between(1, 3)));
  sizes.set('y', saturating_multiply(heads, draw.between(1, 3)));
  sizes.fill_in();
}

// q[b, h, s, d], k[b, g, t, d], v[b, g, t, p]; or, if `heads` is not 0, q[b, s, x], k[b, t, y], v[b, t, z].
inline void guess_dot_product_attention(guesses& draw, proposal& p) {
  const auto groups = draw.between(1, 2);
  const auto times = draw.between(1, 2);
  const bool apart = draw.chance(50);
  const auto heads = known_or(p, "heads", apart ? 0 : groups * times);
  const auto key_heads = known_or(p, "key_heads", heads == 0 ? 0 : groups);
  const std::string_view mask = std::string_view{"bhst"}.substr(draw.below(5));
  const auto dims = heads == 0 ? std::array<std::string_view, 4>{"bhsd", "bgtd", "bgtp", mask}
                               : std::array<std::string_view, 4>{"bsx", "bty", "btz", mask};
  lettered_sizes sizes{draw, p, dims};
  if (heads == 0) {
    sizes.set('h', saturating_multiply(sizes.of('g'), times));
  } else {
    const auto features = draw.between(1, 3);
    sizes.set('x', saturating_multiply(heads, features));
    sizes.set('y', saturating_multiply(key_heads, features));
    sizes.set('z', saturating_multiply(key_heads, draw.between(1, 3)));
    sizes.set('h', heads);
  }
  sizes.fill_in();
}

// x[b, h, s, d] or x[b, s, heads * d]; cos and sin [b, s, r], or [n, r] with positions[b, s]; 2 r is at most d.
inline void guess_rotary_embedding(guesses& draw, proposal& p) {
  const auto heads = known_or(p, "heads", draw.chance(50) ? 0 : draw.between(1, 2));
  const std::string_view x = heads == 0 ? "bhsd" : "bsx";
  const auto dims = p.operands.size() == 4 ? std::array<std::string_view, 4>{x, "nr", "nr", "bs"}
                                           : std::array<std::string_view, 4>{x, "bsr", "bsr", ""};
  lettered_sizes sizes{draw, p, dims};
  const auto features = draw.between(2, 5);
  sizes.set('d', features);
  sizes.set('x', saturating_multiply(heads, features));
  const auto held = heads == 0 ? sizes.of('d') : sizes.of('x') / std::max<guesses::size>(heads, 1);
  sizes.set('r', draw.between(1, std::max<guesses::size>(1, held / 2)));
  sizes.fill_in();
}

inline void guess_lstm_cell(guesses& draw, proposal& p) {
  static constexpr std::array<std::string_view, 6> dims{"bm", "bk", "bn", "4nm", "4nk", "4n"};
  lettered_sizes{draw, p, dims}.fill_in();
}

// x[t, b, m], w[d, gates * n, m], r[d, gates * n, n], and those of bias[d, 2 * gates * n], h[d, b, n] and c[d, b, n]
// whose flags are set.
inline void guess_recurrent_layer(guesses& draw, proposal& p) {
  const guesses::size gates = p.kind == "rnn" ? 1 : p.kind == "gru" ? 3 : 4;
  const auto direction = known_or(p, "direction", draw.between(0, 2));
  auto left = static_cast<guesses::size>(p.operands.size()) - 3;
  std::array<std::string_view, 6> dims{"tbm", "dgm", "dgn"};
  std::size_t next = 3;
  const std::array<std::string_view, 3> flags{"bias", "initial_h", "initial_c"};
  const std::size_t count = gates == 4 ? 3 : 2;
  for (std::size_t i = 0; i < count; ++i) {
    const bool must = left >= static_cast<guesses::size>(count - i);
    const auto is_set = known_or(p, flags[i], left > 0 && (must || draw.chance(50)) ? 1 : 0) != 0;
    if (is_set && next < dims.size()) {
      dims[next++] = i == 0 ? "dw" : "dbn";
      --left;
    }
  }
  lettered_sizes sizes{draw, p, std::span{dims}.first(next)};
  sizes.set('d', direction == 2 ? 2 : 1);
  sizes.set('n', sizes.knows('g') ? sizes.of('g') / gates : draw.any_size());
  sizes.set('g', saturating_multiply(gates, sizes.of('n')));
  sizes.set('w', saturating_multiply(2, sizes.of('g')));
  sizes.fill_in();
}

// x[n, c, s...], w[c, o, k...], bias[o * groups].
inline void guess_transposed_convolution(guesses& draw, proposal& p) {
  const auto known = std::find_if(p.operands.begin(), p.operands.end(), [](const auto& o) { return o.has_value(); });
  const auto stated = p.at("stride") ? p.at("stride")->size() : 0;
  const bool is_line = stated != 0                                       ? stated == 1
                       : known != p.operands.end() && !(*known)->empty() ? (*known)->size() == 3
                                                                         : draw.chance(30);
  const std::size_t spatial = is_line ? 1 : 2;
  const auto groups = known_or(p, "groups", draw.chance(60) ? 1 : 2);
  const auto dims = is_line ? std::array<std::string_view, 3>{"ncs", "coj", "a"}
                            : std::array<std::string_view, 3>{"ncst", "cojk", "a"};
  lettered_sizes sizes{draw, p, dims};
  sizes.set('c', saturating_multiply(groups, draw.between(1, 3)));
  sizes.set('j', draw.between(1, 3));
  sizes.set('k', draw.between(1, 3));
  sizes.set('a', saturating_multiply(groups, sizes.of('o')));
  sizes.fill_in();
  const auto list = [&](std::string_view name, std::size_t length, guesses::size least, guesses::size most) {
    if (auto& value = p.at(name); !value) {
      value = attribute{};
      for (std::size_t i = 0; i < length; ++i) {
        value->push_back(draw.between(least, most));
      }
    }
  };
  list("stride", spatial, 1, 3);
  list("dilation", spatial, 1, 2);
  list("pads", 2 * spatial, 0, draw.chance(50) ? 0 : 1);
  list("output_padding", spatial, 0, draw.chance(70) ? 0 : 1);
}

// x[n, o, h, w], weights[o, c, j, k]; `dims` is an image that a convolution turns into x.
inline void guess_conv2d_transpose(guesses& draw, proposal& p) {
  static constexpr std::array<std::string_view, 2> dims{"nohw", "ocjk"};
  lettered_sizes sizes{draw, p, dims};
  const auto groups = known_or(p, "groups", draw.chance(60) ? 1 : 2);
  sizes.set('o', saturating_multiply(groups, draw.between(1, 3)));
  sizes.set('j', draw.between(1, 3));
  sizes.set('k', draw.between(1, 3));
  sizes.fill_in();
  const auto pair_or = [&](std::string_view name, const attribute& otherwise) {
    auto& value = p.at(name);
    value = value ? *value : otherwise;
    return value->size() >= 2 ? *value : otherwise;
  };
  const auto stride = pair_or("stride", {draw.between(1, 3), draw.between(1, 3)});
  const auto dilation = pair_or("dilation", {draw.between(1, 2), draw.between(1, 2)});
  known_or(p, "padding", 0);
  auto& pads = p.at("pads");
  pads = pads ? *pads : draw.chance(50) ? attribute{0, 0, 0, 0} : attribute{1, 0, 0, 1};
  const auto is_small = [](const attribute& all) {
    return std::all_of(all.begin(), all.end(), [](auto n) { return n >= 0 && n <= 100; });
  };
  const bool fits = pads->size() == 4 && is_small(*pads) && is_small(stride) && is_small(dilation);
  if (auto& image = p.at("dims"); !image && fits) {
    const auto extent = [&](std::size_t d, char from, char kernel) {
      const auto covered = saturating_add(saturating_multiply(stride[d], sizes.of(from) - 1),
                                          saturating_multiply(dilation[d], sizes.of(kernel) - 1));
      return std::min(covered, max_elements) + 1 - (*pads)[d] - (*pads)[d + 2] + draw.between(0, stride[d] > 1 ? 1 : 0);
    };
    image =
        attribute{sizes.of('n'), saturating_multiply(groups, sizes.of('c')), extent(0, 'h', 'j'), extent(1, 'w', 'k')};
  }
}

UNITY_INLINE bool guess_layer(guesses& draw, proposal& p) {
  struct layer {
    std::string_view kind;
    void (*guess)(guesses&, proposal&);
  };
  static constexpr auto layers = std::to_array<layer>({{"einsum", guess_einsum},
                                                       {"attention", guess_attention},
                                                       {"dot_product_attention", guess_dot_product_attention},
                                                       {"rotary_embedding", guess_rotary_embedding},
                                                       {"lstm_cell", guess_lstm_cell},
                                                       {"rnn", guess_recurrent_layer},
                                                       {"gru", guess_recurrent_layer},
                                                       {"lstm", guess_recurrent_layer},
                                                       {"conv_transpose", guess_transposed_convolution},
                                                       {"conv2d_transpose", guess_conv2d_transpose}});
  const auto found = std::find_if(layers.begin(), layers.end(), [&](const layer& l) { return l.kind == p.kind; });
  if (found == layers.end()) {
    return false;
  }
  found->guess(draw, p);
  return true;
}

}  // namespace unity::tensor::detail

#endif
