// A model of the zoo: its name, its forms, and the sizes that each form accepts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::zoo {

// The sizes of a model. docs/models.md describes their meaning for each model; a form leaves `absent` what it does not
// have.
struct sizes {
  static constexpr std::int64_t absent = -1;

  std::int64_t batch = absent;
  std::int64_t layers = absent;
  std::int64_t hidden = absent;
  std::int64_t heads = absent;
  std::int64_t seq = absent;
  std::int64_t vocab = absent;
  std::int64_t items = absent;
  std::int64_t branches = absent;
  std::int64_t image = absent;
  std::int64_t statistics = absent;  // of batch norms, one of batch_statistics
  std::int64_t attention = absent;   // how it is computed, one of attention_kernels

  friend bool operator==(const sizes&, const sizes&) = default;
};

// Where batch norms take means and variances from: weights (inference), or the current batch (training).
enum batch_statistics : std::int64_t { given_statistics, statistics_of_batch };
inline constexpr std::array<std::string_view, 2> batch_statistics_names{"given", "batch"};

// Products, a softmax and what is between them; or one operator that keeps no scores.
// Source of the latter: Dao et al., FlashAttention, NeurIPS 2022.
enum attention_kernels : std::int64_t { attention_by_products, flash_attention };
inline constexpr std::array<std::string_view, 2> attention_kernel_names{"products", "flash"};

// A key of the text form, and the range of values that make sense.
struct key {
  std::string_view name;
  std::int64_t sizes::* member;
  std::int64_t least;
  std::int64_t most;
  std::span<const std::string_view> words{};  // not empty: names of the values, from 0
};

inline constexpr std::array<key, 11> keys{{{"batch", &sizes::batch, 1, 1 << 20},
                                          {"layers", &sizes::layers, 1, 4096},
                                          {"hidden", &sizes::hidden, 1, 1 << 20},
                                          {"heads", &sizes::heads, 1, 1 << 16},
                                          {"seq", &sizes::seq, 1, 1 << 16},
                                          {"vocab", &sizes::vocab, 1, 1 << 30},
                                           {"items", &sizes::items, 1, 1 << 30},
                                          {"branches", &sizes::branches, 0, 1},
                                          {"image", &sizes::image, 1, 1 << 14},
                                          {"statistics", &sizes::statistics, 0, 1, batch_statistics_names},
                                          {"attention", &sizes::attention, 0, 1, attention_kernel_names}}};

struct form {
  std::string_view name;
  sizes defaults;
  tensor_graph (*build)(const algebra&, const sizes&);
};

struct model {
  std::string_view name;
  std::span<const form> forms;  // the first is the default
};

}  // namespace unity::tensor::zoo
