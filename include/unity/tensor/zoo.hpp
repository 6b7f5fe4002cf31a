// The model zoo: graphs by name. docs/models.md describes each model and derives its size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <unity/core/printable.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/convolutional.hpp>
#include <unity/tensor/zoo/dlrm.hpp>
#include <unity/tensor/zoo/model.hpp>
#include <unity/tensor/zoo/recurrent.hpp>
#include <unity/tensor/zoo/resnet.hpp>
#include <unity/tensor/zoo/transformer.hpp>

namespace unity::tensor {

namespace zoo {

inline constexpr std::array<model, 26> models{{
    {"alexnet", alexnet_forms},
    {"bert", bert_forms},
    {"bert_large", bert_large_forms},
    {"candle_uno", candle_uno_forms},
    {"densenet121", densenet121_forms},
    {"dlrm", dlrm_forms},
    {"embedding_bag", embedding_bag_forms},
    {"gpt", gpt_forms},
    {"inception_v3", inception_v3_forms},
    {"lenet", lenet_forms},
    {"mlp", mlp_forms},
    {"nasnet_a", nasnet_a_forms},
    {"nasrnn", nasrnn_forms},
    {"ncf", ncf_forms},
    {"nmt", nmt_forms},
    {"reformer", reformer_forms},
    {"resnet101", resnet101_forms},
    {"resnet50", resnet50_forms},
    {"resnext50", resnext50_forms},
    {"rnnlm", rnnlm_forms},
    {"rnntc", rnntc_forms},
    {"squeezenet1_1", squeezenet1_1_forms},
    {"transformer", transformer_forms},
    {"vgg16", vgg16_forms},
    {"vgg19", vgg19_forms},
    {"xdl", xdl_forms},
}};

inline constexpr std::string_view prefix = "zoo:";

// A model as a user names it, with every size resolved.
struct request {
  std::string_view model;
  const form* chosen = nullptr;
  sizes values{};
};

namespace detail {

// User input, quoted and made printable for one line of an error message.
[[nodiscard]] inline std::string quoted(std::string_view text) { return "\"" + printable(text) + "\""; }

template <class Range>
[[nodiscard]] std::string names_of(const Range& named) {
  std::string list;
  for (const auto& item : named) {
    list += (list.empty() ? "" : ", ") + std::string{item.name};
  }
  return list;
}

// The keys that a form accepts, for messages: "form, batch, layers".
[[nodiscard]] std::string keys_of(const form& f);

struct setting {
  std::string_view key;
  std::string_view value;
};

// Removes the first key=value from `rest` and returns it.
[[nodiscard]] setting take_setting(std::string_view& rest, const std::string& where);

[[nodiscard]] const form& find_form(const model& m, std::string_view query, const std::string& where);

[[nodiscard]] std::string one_of(std::span<const std::string_view> words);

[[nodiscard]] std::int64_t parse_value(const key& k, std::string_view text, const std::string& where);

[[nodiscard]] sizes parse_sizes(const form& f, std::string_view query, const std::string& where);

}  // namespace detail

// Whether the text names a model of the zoo (and not a file).
[[nodiscard]] inline bool is_name(std::string_view text) noexcept { return text.starts_with(prefix); }

// Reads "zoo:NAME[?key=value&key=value...]".
// Throws: unity::error, one line, for text of another form, an unknown model, key or form, or a value out of range.
[[nodiscard]] request parse(std::string_view text);

// The graph that the text names. Complexity: linear in the graph.
// Throws: as parse, and if sizes do not fit together.
[[nodiscard]] inline tensor_graph build(const algebra& operators, std::string_view text) {
  const auto r = parse(text);
  return r.chosen->build(operators, r.values);
}

}  // namespace zoo

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::tensor::zoo::detail {

UNITY_INLINE std::string keys_of(const form& f) {
  std::string list = "form";
  for (const auto& k : keys) {
    if (f.defaults.*k.member != sizes::absent) {
      list += ", " + std::string{k.name};
    }
  }
  return list;
}

UNITY_INLINE setting take_setting(std::string_view& rest, const std::string& where) {
  const auto part = rest.substr(0, rest.find('&'));
  rest = part.size() == rest.size() ? std::string_view{} : rest.substr(part.size() + 1);
  const auto equals = part.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw error{where, quoted(part), "key=value"};
  }
  return {part.substr(0, equals), part.substr(equals + 1)};
}

UNITY_INLINE const form& find_form(const model& m, std::string_view query, const std::string& where) {
  const form* found = nullptr;
  while (!query.empty()) {
    const auto [name, value] = take_setting(query, where);
    if (name != "form") {
      continue;
    }
    if (found != nullptr) {
      throw error{where, "form is given twice", "each key once"};
    }
    const auto at = std::ranges::find(m.forms, value, &form::name);
    if (at == m.forms.end()) {
      throw error{where, "form=" + quoted(value), "one of " + names_of(m.forms)};
    }
    found = &*at;
  }
  return found != nullptr ? *found : m.forms[0];
}

UNITY_INLINE std::string one_of(std::span<const std::string_view> words) {
  std::string list = "one of ";
  for (const auto w : words) {
    list += (w == words.front() ? "" : ", ") + std::string{w};
  }
  return list;
}

UNITY_INLINE std::int64_t parse_value(const key& k, std::string_view text, const std::string& where) {
  if (!k.words.empty()) {
    const auto found = std::ranges::find(k.words, text);
    if (found == k.words.end()) {
      throw error{where, std::string{k.name} + "=" + quoted(text), one_of(k.words)};
    }
    return found - k.words.begin();
  }
  const auto value = to_number<std::int64_t>(text);
  if (!value || *value < k.least || *value > k.most) {
    throw error{where, std::string{k.name} + "=" + quoted(text),
                fmt::format("an integer from {} to {}", k.least, k.most)};
  }
  return *value;
}

UNITY_INLINE sizes parse_sizes(const form& f, std::string_view query, const std::string& where) {
  sizes values = f.defaults;
  sizes given;
  while (!query.empty()) {
    const auto [name, value] = take_setting(query, where);
    if (name == "form") {
      continue;
    }
    const auto k = std::ranges::find(keys, name, &key::name);
    if (k == keys.end() || f.defaults.*(k->member) == sizes::absent) {
      throw error{where, "key " + quoted(name), "a key of form=" + std::string{f.name} + ": " + keys_of(f)};
    }
    if (given.*(k->member) != sizes::absent) {
      throw error{where, std::string{name} + " is given twice", "each key once"};
    }
    values.*(k->member) = given.*(k->member) = parse_value(*k, value, where);
  }
  return values;
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE request parse(std::string_view text) {
  if (!is_name(text)) {
    throw error{"model", detail::quoted(text), "zoo:NAME[?key=value&...]"};
  }
  const auto body = text.substr(prefix.size());
  const auto name = body.substr(0, body.find('?'));
  const auto query = name.size() == body.size() ? std::string_view{} : body.substr(name.size() + 1);
  const auto m = std::ranges::find(models, name, &model::name);
  if (m == models.end()) {
    throw error{"zoo", "model " + detail::quoted(name), "one of " + detail::names_of(models)};
  }
  const auto where = std::string{prefix} + std::string{name};
  const auto& f = detail::find_form(*m, query, where);
  return {m->name, &f, detail::parse_sizes(f, query, where)};
}

}  // namespace unity::tensor::zoo

#endif
