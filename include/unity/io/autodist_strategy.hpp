// AutoDist's strategy files, which are protocol buffers; autodist_plan.hpp converts them from and to plans.
//
//   message Strategy {
//     string id = 1;
//     string path = 2;
//     message Node {
//       string var_name = 1;
//       oneof synchronizer { PSSynchronizer PSSynchronizer = 2; AllReduceSynchronizer AllReduceSynchronizer = 3; }
//       string partitioner = 4;          // parts along each axis: "1,2,1"
//       repeated Node part_config = 5;
//     }
//     repeated Node node_config = 3;
//     message GraphConfig { repeated string replicas = 1; }
//     GraphConfig graph_config = 4;
//   }
//   message PSSynchronizer { string reduction_destination = 1; bool local_replication = 2; bool sync = 3;
//                            int32 staleness = 4; }
//   message AllReduceSynchronizer { enum Spec { AUTO, NCCL, RING } Spec spec = 1;
//                                   enum Compressor { NoneCompressor, HorovodCompressor, HorovodCompressorEF }
//                                   Compressor compressor = 2; int32 group = 3; }
//
// Source: the files of AutoDist's project (Zhang et al., AutoDist, section 2.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/file.hpp>

namespace unity::io {

// Regular.
struct autodist_server {
  std::string destination{};
  bool local_replication = false;
  bool sync = false;
  std::int32_t staleness = 0;

  friend bool operator==(const autodist_server&, const autodist_server&) = default;
};

// Regular.
struct autodist_reduction {
  std::int32_t spec = 0;
  std::int32_t compressor = 0;
  std::int32_t group = 0;

  friend bool operator==(const autodist_reduction&, const autodist_reduction&) = default;
};

// A weight, or a part of one. At most one synchronizer; a weight with parts has none. Regular.
struct autodist_node {
  std::string name{};
  std::optional<autodist_server> server{};
  std::optional<autodist_reduction> reduction{};
  std::string partitioner{};
  std::vector<autodist_node> parts{};

  friend bool operator==(const autodist_node&, const autodist_node&) = default;
};

// Regular.
struct autodist_strategy {
  std::string id{};
  std::string path{};
  std::vector<autodist_node> nodes{};
  std::vector<std::string> replicas{};

  friend bool operator==(const autodist_strategy&, const autodist_strategy&) = default;
};

// Serializes the message as protobuf's own library does: fields in order of number, without those that equal their
// default. Precondition: texts are UTF-8.
[[nodiscard]] std::string to_bytes(const autodist_strategy& s);

// file: for messages.
// Throws: unity::error that names the byte if it is not such a message, has unknown members or parts of parts, or has
// more than 1e6 nodes and parts.
[[nodiscard]] autodist_strategy parse_autodist_strategy(std::string_view bytes, std::string_view file);
[[nodiscard]] inline autodist_strategy read_autodist_strategy(const std::filesystem::path& path) {
  return parse_autodist_strategy(read_file(path), path.string());
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_AUTODIST_STRATEGY)

#include <limits>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/wire.hpp>

namespace unity::io {

namespace detail {

// Writes the fields of a message, without those that have their defaults.
class present_fields {
 public:
  void text(std::uint32_t number, std::string_view value) {
    if (!value.empty()) {
      fields_.bytes(number, value);
    }
  }
  void integer(std::uint32_t number, std::int32_t value) {
    if (value != 0) {
      fields_.integer(number, value);
    }
  }
  // Writes a message even if it is empty.
  void message(std::uint32_t number, std::string_view bytes) { fields_.bytes(number, bytes); }
  [[nodiscard]] const std::string& bytes() const noexcept { return fields_.text(); }

 private:
  wire_writer fields_{};
};

UNITY_INLINE std::string to_bytes(const autodist_node& n) {
  present_fields all;
  all.text(1, n.name);
  if (n.server) {
    present_fields own;
    own.text(1, n.server->destination);
    own.integer(2, n.server->local_replication ? 1 : 0);
    own.integer(3, n.server->sync ? 1 : 0);
    own.integer(4, n.server->staleness);
    all.message(2, own.bytes());
  }
  if (n.reduction) {
    present_fields own;
    own.integer(1, n.reduction->spec);
    own.integer(2, n.reduction->compressor);
    own.integer(3, n.reduction->group);
    all.message(3, own.bytes());
  }
  all.text(4, n.partitioner);
  for (const auto& part : n.parts) {
    all.message(5, to_bytes(part));
  }
  return all.bytes();
}

// Reads the messages of a file.
class autodist_reader {
 public:
  explicit autodist_reader(std::string_view file) : file_{file} {}

  [[nodiscard]] autodist_strategy strategy(std::string_view bytes);

 private:
  using field = wire_reader::field;

  // f(reader, field) returns whether the message has this field.
  template <class F>
  void each(std::string_view bytes, std::size_t position, std::string_view message, const F& f) {
    wire_reader in{bytes, file_, position};
    for (field x; in.next(x);) {
      if (!f(in, x)) {
        throw error{fmt::format("{}, byte {}", file_, x.position),
                    fmt::format("{} {} of {}", x.is_bytes ? "text" : "number", x.number, message),
                    "a member that AutoDist's strategies have"};
      }
    }
  }
  [[nodiscard]] std::string text(const wire_reader& in, const field& x) const;
  [[nodiscard]] std::int32_t integer(const field& x) const;
  [[nodiscard]] autodist_node node(std::string_view bytes, std::size_t position, bool is_part);
  [[nodiscard]] autodist_server server(std::string_view bytes, std::size_t position);
  [[nodiscard]] autodist_reduction reduction(std::string_view bytes, std::size_t position);

  std::string_view file_;
  std::size_t count_ = 0;  // nodes and parts
};

UNITY_INLINE std::string autodist_reader::text(const wire_reader& in, const field& x) const {
  for (std::size_t i = 0; i < x.bytes.size();) {
    const auto size = unity::visible_character_size(x.bytes.substr(i));
    if (size == 0) {
      throw error{fmt::format("{}, byte {}", file_, in.start_of(x) + i), "no visible character of UTF-8",
                  "a name on one line"};
    }
    i += size;
  }
  return std::string{x.bytes};
}

UNITY_INLINE std::int32_t autodist_reader::integer(const field& x) const {
  const auto value = static_cast<std::int64_t>(x.integer);
  if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
    throw error{fmt::format("{}, byte {}", file_, x.position), "a number of more than 32 bits", "one of 32"};
  }
  return static_cast<std::int32_t>(value);
}

UNITY_INLINE autodist_strategy autodist_reader::strategy(std::string_view bytes) {
  autodist_strategy s;
  each(bytes, 0, "Strategy", [&](wire_reader& in, const field& x) {
    if (!x.is_bytes || x.number < 1 || x.number > 4) {
      return false;
    }
    if (x.number == 1) {
      s.id = text(in, x);
    } else if (x.number == 2) {
      s.path = text(in, x);
    } else if (x.number == 3) {
      s.nodes.push_back(node(x.bytes, in.start_of(x), false));
    } else {
      each(x.bytes, in.start_of(x), "GraphConfig", [&](wire_reader& inner, const field& y) {
        if (y.is_bytes && y.number == 1) {
          s.replicas.push_back(text(inner, y));
        }
        return y.is_bytes && y.number == 1;
      });
    }
    return true;
  });
  return s;
}

UNITY_INLINE autodist_node autodist_reader::node(std::string_view bytes, std::size_t position, bool is_part) {
  constexpr std::size_t most = 1'000'000;
  if (++count_ > most) {
    throw error{fmt::format("{}, byte {}", file_, position), "more than 1000000 nodes and parts", "fewer"};
  }
  autodist_node n;
  each(bytes, position, "Node", [&](wire_reader& in, const field& x) {
    if (!x.is_bytes || x.number < 1 || x.number > (is_part ? 4U : 5U)) {
      return false;
    }
    if (x.number == 1) {
      n.name = text(in, x);
    } else if (x.number == 2) {
      n.reduction.reset();
      n.server = server(x.bytes, in.start_of(x));
    } else if (x.number == 3) {
      n.server.reset();
      n.reduction = reduction(x.bytes, in.start_of(x));
    } else if (x.number == 4) {
      n.partitioner = text(in, x);
    } else {
      n.parts.push_back(node(x.bytes, in.start_of(x), true));
    }
    return true;
  });
  return n;
}

UNITY_INLINE autodist_server autodist_reader::server(std::string_view bytes, std::size_t position) {
  autodist_server s;
  each(bytes, position, "PSSynchronizer", [&](wire_reader& in, const field& x) {
    if (x.is_bytes != (x.number == 1) || x.number < 1 || x.number > 4) {
      return false;
    }
    if (x.number == 1) {
      s.destination = text(in, x);
    } else if (x.number == 4) {
      s.staleness = integer(x);
    } else {
      (x.number == 2 ? s.local_replication : s.sync) = x.integer != 0;
    }
    return true;
  });
  return s;
}

UNITY_INLINE autodist_reduction autodist_reader::reduction(std::string_view bytes, std::size_t position) {
  autodist_reduction r;
  each(bytes, position, "AllReduceSynchronizer", [&](wire_reader&, const field& x) {
    if (x.is_bytes || x.number < 1 || x.number > 3) {
      return false;
    }
    (x.number == 1 ? r.spec : x.number == 2 ? r.compressor : r.group) = integer(x);
    return true;
  });
  return r;
}

}  // namespace detail

UNITY_INLINE std::string to_bytes(const autodist_strategy& s) {
  detail::present_fields all;
  all.text(1, s.id);
  all.text(2, s.path);
  for (const auto& n : s.nodes) {
    all.message(3, detail::to_bytes(n));
  }
  if (!s.replicas.empty()) {
    detail::present_fields own;
    for (const auto& r : s.replicas) {
      own.message(1, r);
    }
    all.message(4, own.bytes());
  }
  return all.bytes();
}

UNITY_INLINE autodist_strategy parse_autodist_strategy(std::string_view bytes, std::string_view file) {
  return detail::autodist_reader{file}.strategy(bytes);
}

}  // namespace unity::io

#endif
