// Trained estimators, and runs that train them, on disk.
//
// An estimator is a sealed file (io/sealed_file.hpp) of the line "unity learned 1", with the header
//
// {"features": ["elementwise", ...], "own_times": true, "hidden": 32, "heads": 4, "layers": 3, "offset": -0.7,
//  "tensors": [{"name": "means", ...}, {"name": "scales", ...}, {"name": "weights", ...}]}
//
// A checkpoint of a run is a file of weights (io/weights_file.hpp); its "graph" is the run's version.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <unity/core/hash.hpp>
#include <unity/learn/attention_network.hpp>
#include <unity/learn/estimator_training.hpp>

namespace unity::learn {

inline constexpr std::string_view estimator_line = "unity learned 1\n";

// Effects: as io::replaced_file.
// Throws: unity::error if it cannot be written.
void write_estimator(const std::filesystem::path& path, const attention_estimator& e);

// Throws: unity::error, one line, if the file is missing, of another kind or version, truncated or altered, was trained
// on other features, or has invalid content.
[[nodiscard]] attention_estimator read_estimator(const std::filesystem::path& path);

// Effects: as io::replaced_file.
// Throws: unity::error if it cannot be written.
void write_training(const std::filesystem::path& path, const estimator_training& run);

// Effects: the run continues from the saved state.
// Throws: unity::error if the file cannot be used, or belongs to a run with other settings or samples.
void resume_training(const std::filesystem::path& path, estimator_training& run);

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_ESTIMATOR_FILE)

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/stored_tensor.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/optimizer.hpp>

namespace unity::learn::detail {

[[nodiscard]] inline std::size_t size_from(const io::json_place& in) {
  const auto n = in.integer();
  if (n < 0) {
    throw error{in.where(), fmt::format("is {}", n), "a number that is not negative"};
  }
  return static_cast<std::size_t>(n);
}

// Exactly as many finite numbers as expected.
[[nodiscard]] inline std::vector<float> numbers_from(const io::sealed_tensors_reader& file, std::string_view name,
                                                     std::size_t count) {
  auto all = file.get<float>(name);
  if (all.size() != count || !std::all_of(all.begin(), all.end(), [](float x) { return std::isfinite(x); })) {
    file.refuse(fmt::format("{} {}", all.size(), name), fmt::format("{} finite numbers", count));
  }
  return all;
}

inline void expect_known_features(const io::sealed_tensors_reader& file) {
  const auto features = file.header().at("features").items();
  const bool same = std::equal(features.begin(), features.end(), part_feature_names.begin(), part_feature_names.end(),
                               [](const auto& in, std::string_view name) { return in.word() == name; });
  if (!same) {
    file.refuse("has learned from other features", "those of this version");
  }
}

inline constexpr std::array training_kinds{"weight", "first moment", "second moment", "best"};

template <class State>
[[nodiscard]] auto training_lists(State& s) {
  return std::array{&s.now.weights, &s.now.first_moment, &s.now.second_moment, &s.best};
}

[[nodiscard]] inline io::stored_tensor training_tensor(std::size_t kind, std::size_t count) {
  return {"network", training_kinds.at(kind), tensor::dtype::float32, {static_cast<std::int64_t>(count)}};
}

[[nodiscard]] inline double setting(const io::weights_header& h, const std::string& name, const std::string& file) {
  const auto found = h.settings.find(name);
  if (found == h.settings.end() || !(found->second >= 0)) {
    throw error{file, fmt::format("has no setting {}", name), "a checkpoint of train_estimator"};
  }
  return found->second;
}

}  // namespace unity::learn::detail

namespace unity::learn {

UNITY_INLINE void write_estimator(const std::filesystem::path& path, const attention_estimator& e) {
  io::sealed_tensors_writer file;
  file.add("means", std::span<const float>{e.scaling.means});
  file.add("scales", std::span<const float>{e.scaling.scales});
  file.add("weights", std::span<const float>{e.weights});
  file.write(path, estimator_line,
             {{"features", part_feature_names},
              {"own_times", e.own_times},
              {"hidden", e.shape.hidden},
              {"heads", e.shape.heads},
              {"layers", e.shape.layers},
              {"offset", e.offset}});
}

UNITY_INLINE attention_estimator read_estimator(const std::filesystem::path& path) {
  const io::sealed_tensors_reader file{path, estimator_line};
  detail::expect_known_features(file);
  const auto in = file.header();
  attention_estimator e;
  e.own_times = in.at("own_times").boolean();
  e.shape = {detail::size_from(in.at("hidden")), detail::size_from(in.at("heads")), detail::size_from(in.at("layers"))};
  if (!e.shape.is_valid()) {
    file.refuse(fmt::format("{} heads, {} hidden numbers, {} layers", e.shape.heads, e.shape.hidden, e.shape.layers),
                "an even number of heads that divides the number of hidden features, 1024 at most");
  }
  if (!in.at("offset").value().is_number()) {
    throw error{in.at("offset").where(), fmt::format("is {}", in.at("offset").value().type_name()), "a number"};
  }
  e.offset = in.at("offset").value().get<float>();
  const auto means = detail::numbers_from(file, "means", part_features);
  const auto scales = detail::numbers_from(file, "scales", part_features);
  std::copy(means.begin(), means.end(), e.scaling.means.begin());
  std::copy(scales.begin(), scales.end(), e.scaling.scales.begin());
  e.weights = detail::numbers_from(file, "weights", weight_count(e.shape));
  return e;
}

UNITY_INLINE void write_training(const std::filesystem::path& path, const estimator_training& run) {
  const auto& s = run.state();
  io::weights_header header{.graph = fmt::format("{}", run.version()),
                            .step = static_cast<std::int64_t>(s.epoch),
                            .seed = run.settings().seed,
                            .optimizer = parallel::optimizer::adam,
                            .settings = {{"steps", static_cast<double>(s.now.steps)},
                                         {"best_epoch", static_cast<double>(s.best_epoch)},
                                         {"best_error", s.best_error}},
                            .loss = "log_ratio",
                            .data = "kernels"};
  for (std::size_t i = 0; i < detail::training_kinds.size(); ++i) {
    header.tensors.push_back(detail::training_tensor(i, s.now.weights.size()));
  }
  io::weights_writer file{path, header};
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    file.put(i, parallel::whole(header.tensors[i].dims), std::as_bytes(std::span{*detail::training_lists(s)[i]}));
  }
  file.commit();
}

UNITY_INLINE void resume_training(const std::filesystem::path& path, estimator_training& run) {
  const io::weights_reader file{path};
  const auto& h = file.header();
  if (h.graph != fmt::format("{}", run.version())) {
    throw error{path.string(), "a checkpoint of a run with other settings or samples", "one of this run"};
  }
  training_state s;
  s.epoch = static_cast<std::size_t>(h.step);
  s.now.steps = static_cast<std::uint64_t>(detail::setting(h, "steps", path.string()));
  s.best_epoch = static_cast<std::size_t>(detail::setting(h, "best_epoch", path.string()));
  s.best_error = detail::setting(h, "best_error", path.string());
  const auto lists = detail::training_lists(s);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto wanted = detail::training_tensor(i, run.state().now.weights.size());
    lists[i]->resize(run.state().now.weights.size());
    file.get(file.find(wanted), parallel::whole(wanted.dims), std::as_writable_bytes(std::span{*lists[i]}));
  }
  run.resume(std::move(s));
}

}  // namespace unity::learn

#endif
