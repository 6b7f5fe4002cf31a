// The configuration of an operator as JSON, and back: an entry of a strategy (strategy_json.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/io/json.hpp>
#include <unity/io/json_place.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/index_types.hpp>
#include <unity/tensor/space.hpp>

namespace unity::io {

namespace detail {

[[nodiscard]] inline std::string dimension_name(const parallel::parallel_dimension& p) {
  return fmt::format("{} dimension {}", parallel::parallelism_names[static_cast<std::size_t>(p.kind)], p.dimension);
}

[[nodiscard]] inline nlohmann::json list_to_json(const parallel::degree_list& all) {
  return std::vector<std::int64_t>(all.begin(), all.end());
}

// The part, partials and copy of a task: {"part": [0, 1], ...}.
[[nodiscard]] nlohmann::json task_to_json(const parallel::task_grid& g, std::size_t t);

// Adds the members "reductions", "terms" and "copies" to an entry, each only if the grid has it.
void add_terms_to_json(const parallel::operator_dimensions& o, const parallel::task_grid& g, nlohmann::json& entry);

[[nodiscard]] nlohmann::json configuration_to_json(const tensor::algebra& a, const parallel::operator_dimensions& o,
                                                   node_id n, const parallel::configuration& c,
                                                   const hardware::topology& t);

// Reads configurations for one machine. Results are valid.
class configuration_reader {
 public:
  explicit configuration_reader(const hardware::topology& t);

  // Complexity: linear in the text. Memory: linear in the text and devices, whatever numbers the text contains.
  [[nodiscard]] parallel::configuration read(const json_place& item, const parallel::operator_dimensions& o) const;

 private:
  [[nodiscard]] static std::int64_t positive(const json_place& in);
  static void expect_count(const json_place& in, std::size_t count, const char* what);
  template <class Count>
  [[nodiscard]] static parallel::degree_list reductions(const json_place& in, const parallel::operator_dimensions& o,
                                                        const Count& count) {
    expect_count(in, o.reductions.size(), "sums");
    parallel::degree_list all;
    for (std::size_t r = 0; r < o.reductions.size(); ++r) {
      const auto item = in.items()[r];
      const std::string index = o.structure.indices[o.reductions[r].indices[0]].name;
      if (item.at("index").word() != index) {
        throw error{fmt::format("{}.index", item.where()), fmt::format("is {}", shown(item.at("index").word())),
                    fmt::format("the sum over {}", index)};
      }
      all.push_back(positive(item.at("degree")));
      count(item, all.back());
    }
    return all;
  }
  template <class Count>
  [[nodiscard]] static parallel::degree_list partials(const json_place& in, const parallel::operator_dimensions& o,
                                                      const Count& count) {
    expect_count(in, o.groups.size(), "linear groups");
    parallel::degree_list all;
    for (std::size_t g = 0; g < o.groups.size(); ++g) {
      const auto item = in.items()[g];
      // Converted to numbers first: other JSON may be nested to any depth, and printing it would exhaust the stack.
      const auto operands = list_to_json(integers_from_json(item.at("operands")));
      if (const nlohmann::json expected = o.groups[g]; operands != expected) {
        throw error{fmt::format("{}.operands", item.where()), fmt::format("are {}", operands.dump().substr(0, 60)),
                    expected.dump()};
      }
      all.push_back(positive(item.at("degree")));
      count(item, all.back());
    }
    return all;
  }

  [[nodiscard]] static std::string names_of(const parallel::operator_dimensions& o);

  [[nodiscard]] static std::int64_t degree(const json_place& in, const parallel::parallel_dimension& p);

  // Reads the device of each task. There must be exactly one task for each part, reduction, partial sum and copy.
  void read_tasks(const json_place& in, const parallel::operator_dimensions& o, const parallel::task_grid& grid,
                  parallel::configuration& c) const;
  // The part, such as part [0,1], and the reduction, partial sum and copy, if the grid has them.
  [[nodiscard]] static std::string task_text(const parallel::task_grid& grid, std::size_t t);
  [[nodiscard]] static std::size_t task_number(const json_place& in, const parallel::operator_dimensions& o,
                                               const parallel::task_grid& grid);
  template <class Name>
  [[nodiscard]] static std::int64_t part_number(const json_place& in, const parallel::degree_list& degrees,
                                                const Name& name) {
    const auto list = in.items();
    if (list.size() != degrees.size()) {
      throw error{in.where(), fmt::format("{} numbers", list.size()),
                  fmt::format("one for each of the {} dimensions", degrees.size())};
    }
    std::int64_t number = 0;
    for (std::size_t k = 0; k < degrees.size(); ++k) {
      const auto at = list[k].integer();
      if (at < 0 || at >= degrees[k]) {
        throw error{list[k].where(), fmt::format("is {}", at),
                    fmt::format("a part of {}, 0 to {}", name(k), degrees[k] - 1)};
      }
      number = number * degrees[k] + at;
    }
    return number;
  }
  [[nodiscard]] hardware::device_id device(const json_place& in) const;

  const hardware::topology& topology_;
  std::unordered_map<std::string, hardware::device_id> devices_{};
};

}  // namespace detail

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_CONFIGURATION_JSON)

#include <unity/core/row_major.hpp>
#include <unity/io/machine_json.hpp>

namespace unity::io::detail {

UNITY_INLINE nlohmann::json task_to_json(const parallel::task_grid& g, std::size_t t) {
  const auto place = place_of(g, t);
  nlohmann::json task{{"part", list_to_json(position_of(place.block, g.degrees))}};
  if (!g.reductions.empty()) {
    task["reduction"] = list_to_json(position_of(place.reduction, g.reductions));
  }
  if (!g.partials.empty()) {
    task["term"] = list_to_json(position_of(place.partial, g.partials));
  }
  if (g.copies > 1) {
    task["copy"] = place.copy;
  }
  return task;
}

UNITY_INLINE void add_terms_to_json(const parallel::operator_dimensions& o, const parallel::task_grid& g,
                                    nlohmann::json& entry) {
  for (const auto& [p, degree] : ranges::views::zip(o.reductions, g.reductions)) {
    entry["reductions"].push_back(
        {{"index", o.structure.indices[p.indices[0]].name}, {"size", p.size}, {"degree", degree}});
  }
  for (const auto& [operands, degree] : ranges::views::zip(o.groups, g.partials)) {
    entry["terms"].push_back({{"operands", operands}, {"degree", degree}});
  }
  if (g.copies > 1) {
    entry["copies"] = g.copies;
  }
}

UNITY_INLINE nlohmann::json configuration_to_json(const tensor::algebra& a, const parallel::operator_dimensions& o,
                                                  node_id n, const parallel::configuration& c,
                                                  const hardware::topology& t) {
  const auto grid = c.grid();
  auto dimensions = nlohmann::json::array();
  for (const auto& [p, degree] : ranges::views::zip(o.divisible, c.degrees)) {
    dimensions.push_back({{"kind", parallel::parallelism_names[static_cast<std::size_t>(p.kind)]},
                          {"dimension", p.dimension},
                          {"size", p.size},
                          {"degree", degree}});
  }
  auto tasks = nlohmann::json::array();
  for (std::size_t i = 0; i < c.devices.size(); ++i) {
    tasks.push_back(task_to_json(grid, i));
    tasks.back()["device"] = utf8_word("name of a device", t[c.devices[i]].name);
  }
  nlohmann::json entry{{"node", n.index()},
                       {"op", a.signature(o.op.kind).name},
                       {"dimensions", std::move(dimensions)},
                       {"tasks", std::move(tasks)}};
  add_terms_to_json(o, grid, entry);
  return entry;
}

UNITY_INLINE configuration_reader::configuration_reader(const hardware::topology& t) : topology_{t} {
  for (std::size_t d = 0; d < t.device_count(); ++d) {
    devices_.emplace(t.devices()[d].name, hardware::device_id{d});
  }
}

UNITY_INLINE parallel::configuration configuration_reader::read(const json_place& item,
                                                                const parallel::operator_dimensions& o) const {
  parallel::configuration c;
  const auto dimensions = item.at("dimensions");
  const auto list = dimensions.items();
  if (list.size() != o.divisible.size()) {
    throw error{dimensions.where(), fmt::format("{} of them", list.size()),
                fmt::format("{}: {}", o.divisible.size(), names_of(o))};
  }
  std::int64_t tasks = 1;
  const auto count = [&](const json_place& at, std::int64_t more) {
    const auto most = static_cast<std::int64_t>(topology_.device_count());
    if (more > most / tasks) {  // checked before anything of that size is allocated
      throw error{at.where(), fmt::format("more parts than the machine's {} devices", most), "one per device at most"};
    }
    tasks *= more;
  };
  for (std::size_t k = 0; k < list.size(); ++k) {
    c.degrees.push_back(degree(list[k], o.divisible[k]));
    count(dimensions, c.degrees.back());
  }
  if (item.has("reductions")) {
    c.reductions = reductions(item.at("reductions"), o, count);
  }
  if (item.has("terms")) {
    c.partials = partials(item.at("terms"), o, count);
  }
  if (item.has("copies")) {
    c.copies = positive(item.at("copies"));
    count(item.at("copies"), c.copies);
  }
  const auto grid = c.grid();
  c.reductions = grid.reductions;
  c.partials = grid.partials;
  c.devices.resize(static_cast<std::size_t>(tasks));
  read_tasks(item.at("tasks"), o, grid, c);
  if (const auto reason = why_not(o, c, topology_.device_count()); !reason.empty()) {
    throw error{item.where(), reason, "a configuration that divides the operator"};
  }
  return c;
}

UNITY_INLINE std::int64_t configuration_reader::positive(const json_place& in) {
  if (in.integer() < 1) {
    throw error{in.where(), fmt::format("is {}", in.integer()), "1 or more"};
  }
  return in.integer();
}

UNITY_INLINE void configuration_reader::expect_count(const json_place& in, std::size_t count, const char* what) {
  if (in.items().size() != count) {
    throw error{in.where(), fmt::format("{} of them", in.items().size()),
                fmt::format("one for each of the operator's {} {}", count, what)};
  }
}

UNITY_INLINE std::string configuration_reader::names_of(const parallel::operator_dimensions& o) {
  std::string all;
  for (const auto& p : o.divisible) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", dimension_name(p));
  }
  return all.empty() ? "the operator cannot be divided" : all;
}

UNITY_INLINE std::int64_t configuration_reader::degree(const json_place& in, const parallel::parallel_dimension& p) {
  const auto kind = static_cast<parallel::parallelism>(name_from_json(in.at("kind"), parallel::parallelism_names));
  const auto number = in.at("dimension").integer();
  if (kind != p.kind || number < 0 || static_cast<std::size_t>(number) != p.dimension) {
    throw error{in.where(), fmt::format("is {} dimension {}", in.at("kind").word(), number), dimension_name(p)};
  }
  if (in.has("size") && in.at("size").integer() != p.size) {
    throw error{fmt::format("{}.size", in.where()), fmt::format("is {}", in.at("size").integer()),
                fmt::format("{} as in the model, for {}", p.size, dimension_name(p))};
  }
  const auto degree = in.at("degree").integer();
  if (degree < 1 || p.size % degree != 0) {
    throw error{fmt::format("{}.degree", in.where()), fmt::format("is {}", degree),
                fmt::format("a divisor of the size {} of {}", p.size, dimension_name(p))};
  }
  return degree;
}

UNITY_INLINE void configuration_reader::read_tasks(const json_place& in, const parallel::operator_dimensions& o,
                                                   const parallel::task_grid& grid, parallel::configuration& c) const {
  const auto list = in.items();
  constexpr auto none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> task_of(c.devices.size(), none);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto t = task_number(list[i], o, grid);
    if (task_of[t] != none) {
      throw error{list[i].at("part").where(),
                  fmt::format("{} is that of tasks[{}] too", task_text(grid, t), task_of[t]),
                  "shards that do not overlap"};
    }
    task_of[t] = i;
    c.devices[t] = device(list[i].at("device"));
  }
  std::size_t missing = 0;
  auto first = none;
  for (std::size_t t = 0; t < task_of.size(); ++t) {
    if (task_of[t] == none) {
      first = first == none ? t : first;
      ++missing;
    }
  }
  if (missing > 0) {
    const auto more = missing > 1 ? fmt::format(" and {} more", missing - 1) : "";
    throw error{in.where(), fmt::format("no task for {}{}", task_text(grid, first), more),
                fmt::format("a shard for each of the {} parts", task_of.size())};
  }
}

UNITY_INLINE std::string configuration_reader::task_text(const parallel::task_grid& grid, std::size_t t) {
  const auto task = task_to_json(grid, t);
  std::string text = fmt::format("part {}", task.at("part").dump());
  for (const auto* more : {"reduction", "term", "copy"}) {
    text += task.contains(more) ? fmt::format(" {} {}", more, task.at(more).dump()) : "";
  }
  return text;
}

UNITY_INLINE std::size_t configuration_reader::task_number(const json_place& in, const parallel::operator_dimensions& o,
                                                           const parallel::task_grid& grid) {
  const auto sum = [&](std::size_t r) {
    return fmt::format("the sum over {}", o.structure.indices[o.reductions[r].indices[0]].name);
  };
  std::int64_t number = 0;
  if (!grid.partials.empty()) {
    number = part_number(in.at("term"), grid.partials, [](std::size_t g) { return fmt::format("linear group {}", g); });
  }
  number *= grid.copies;
  if (grid.copies > 1) {
    const auto copy = in.at("copy").integer();
    if (copy < 0 || copy >= grid.copies) {
      throw error{in.at("copy").where(), fmt::format("is {}", copy), fmt::format("a copy, 0 to {}", grid.copies - 1)};
    }
    number += copy;
  }
  number *= parallel::product(grid.reductions);
  number += grid.reductions.empty() ? 0 : part_number(in.at("reduction"), grid.reductions, sum);
  const auto dimension = [&](std::size_t k) { return dimension_name(o.divisible[k]); };
  return static_cast<std::size_t>(number * grid.blocks() + part_number(in.at("part"), grid.degrees, dimension));
}

UNITY_INLINE hardware::device_id configuration_reader::device(const json_place& in) const {
  const auto found = devices_.find(in.word());
  if (found == devices_.end()) {
    throw error{
        in.where(), fmt::format("no device has the name {}", shown(in.word())),
        fmt::format("one of the machine's {}, such as {}", devices_.size(), shown(topology_.devices().front().name))};
  }
  return found->second;
}

}  // namespace unity::io::detail

#endif
