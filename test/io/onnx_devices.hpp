// The annotations for several devices of an ONNX file, read from its bytes: the packaged library does not know them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/io/onnx_model.hpp>
#include <unity/io/wire.hpp>

namespace unity::io::test {

struct annotated_node {
  std::string type{};
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  std::string configuration{};
  std::map<std::string, device_sharding> tensors{};
  std::optional<std::int64_t> stage{};
  std::size_t annotations = 0;
};

struct annotated_model {
  std::int64_t version = 0;
  std::size_t configurations = 0;
  std::string name{};
  std::int64_t count = 0;
  std::vector<std::string> devices{};
  std::vector<annotated_node> nodes{};

  [[nodiscard]] std::size_t annotated() const {
    std::size_t sum = 0;
    for (const auto& n : nodes) {
      sum += n.annotations;
    }
    return sum;
  }
};

template <class F>
void for_each_field(std::string_view message, const F& f) {
  wire_reader fields{message, "model"};
  wire_reader::field one;
  while (fields.next(one)) {
    f(one);
  }
}

inline void read_sharding(std::string_view message, annotated_node& node) {
  std::string tensor;
  std::vector<std::int64_t> numbers;
  std::map<std::int64_t, std::vector<std::int64_t>> groups;
  device_sharding s;
  for_each_field(message, [&](const wire_reader::field& f) {
    if (f.number == 1) {
      tensor = f.bytes;
    } else if (f.number == 2) {
      numbers.push_back(static_cast<std::int64_t>(f.integer));
    } else if (f.number == 3) {
      std::int64_t key = 0;
      std::vector<std::int64_t> devices;
      for_each_field(f.bytes, [&](const wire_reader::field& e) {
        if (e.number == 1) {
          key = static_cast<std::int64_t>(e.integer);
        } else {
          devices.push_back(static_cast<std::int64_t>(e.integer));
        }
      });
      groups[key] = devices;
    } else if (f.number == 4) {
      auto& d = s.dimensions.emplace_back();
      for_each_field(f.bytes, [&](const wire_reader::field& e) {
        if (e.number == 1) {
          d.axis = static_cast<std::int64_t>(e.integer);
          return;
        }
        for_each_field(e.bytes, [&](const wire_reader::field& simple) {
          (simple.number == 1 ? d.size : d.shards) = static_cast<std::int64_t>(simple.integer);
        });
      });
    }
  });
  for (const auto n : numbers) {
    s.devices.push_back(n < 0 ? groups.at(n) : std::vector{n});
  }
  node.tensors[tensor] = s;
}

inline annotated_node read_node(std::string_view message) {
  annotated_node node;
  for_each_field(message, [&](const wire_reader::field& f) {
    if (f.number == 1 || f.number == 2) {
      (f.number == 1 ? node.inputs : node.outputs).emplace_back(f.bytes);
    } else if (f.number == 4) {
      node.type = f.bytes;
    } else if (f.number == 10) {
      ++node.annotations;
      for_each_field(f.bytes, [&](const wire_reader::field& of_node) {
        if (of_node.number == 1) {
          node.configuration = of_node.bytes;
        } else if (of_node.number == 2) {
          read_sharding(of_node.bytes, node);
        } else {
          node.stage = static_cast<std::int64_t>(of_node.integer);
        }
      });
    }
  });
  return node;
}

inline annotated_model read_annotations(std::string_view model) {
  annotated_model all;
  for_each_field(model, [&](const wire_reader::field& f) {
    if (f.number == 1) {
      all.version = static_cast<std::int64_t>(f.integer);
    } else if (f.number == 7) {
      for_each_field(f.bytes, [&](const wire_reader::field& of_graph) {
        if (of_graph.number == 1) {
          all.nodes.push_back(read_node(of_graph.bytes));
        }
      });
    } else if (f.number == 26) {
      ++all.configurations;
      for_each_field(f.bytes, [&](const wire_reader::field& c) {
        if (c.number == 1) {
          all.name = c.bytes;
        } else if (c.number == 2) {
          all.count = static_cast<std::int64_t>(c.integer);
        } else {
          all.devices.emplace_back(c.bytes);
        }
      });
    }
  });
  return all;
}

}  // namespace unity::io::test
