// Data set files with any content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/io/dataset.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/io/tensor_data.hpp>

#include "sealed_files.hpp"

namespace dataset_files {

// The bytes of a file of tensors of bytes.
inline std::string dataset_of(const std::string& content, std::int64_t classes,
                              const std::vector<std::pair<unity::io::stored_tensor, std::string>>& tensors) {
  std::vector<unity::io::stored_tensor> list;
  for (const auto& [t, bytes] : tensors) {
    list.push_back(t);
  }
  const auto offsets = unity::io::offsets_of(list);
  std::string values(offsets.back(), '\0');
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    values.replace(offsets[i], tensors[i].second.size(), tensors[i].second);
  }
  const nlohmann::json header{
      {"content", content}, {"classes", classes}, {"tensors", unity::io::detail::to_json(list)}};
  return sealed_files::sealed(unity::io::dataset_line, header.dump(), values);
}

}  // namespace dataset_files
