// The names in traces, interned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/index_table.hpp>

namespace unity::trace {

using name_id = id<struct name_tag>;

// Interned texts: names of operators, kernels, tensors, process groups and ranks. Regular.
class name_table {
 public:
  // The id of the text, new or known. Complexity: expected linear in the text.
  name_id intern(std::string_view text);
  // The null id for a text that was never interned.
  [[nodiscard]] name_id find(std::string_view text) const;
  [[nodiscard]] const std::string& text(name_id n) const;  // of the null id: empty
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::vector<std::string> texts_;
  index_table table_;
  std::string none_;
};

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_NAME_TABLE)

#include <unity/core/hash.hpp>

namespace unity::trace {

UNITY_INLINE name_id name_table::find(std::string_view text) const {
  const auto i = table_.find(hash_bytes(text), [&](std::uint32_t k) { return texts_[k] == text; });
  return i == index_table::none ? name_id{} : name_id{i};
}

UNITY_INLINE name_id name_table::intern(std::string_view text) {
  const auto hash = hash_bytes(text);
  if (const auto i = table_.find(hash, [&](std::uint32_t k) { return texts_[k] == text; }); i != index_table::none) {
    return name_id{i};
  }
  texts_.emplace_back(text);
  table_.insert(hash, static_cast<std::uint32_t>(texts_.size() - 1));
  return name_id{texts_.size() - 1};
}

UNITY_INLINE const std::string& name_table::text(name_id n) const { return n.valid() ? texts_[n.index()] : none_; }

}  // namespace unity::trace

#endif
