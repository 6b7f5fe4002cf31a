#include <unity/io/weights_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/shape.hpp>

#include "sealed_files.hpp"

namespace tests_of_weights_file {

namespace fs = std::filesystem;
namespace io = unity::io;
namespace parallel = unity::parallel;
using sealed_files::content_of;
using sealed_files::file_count;
using sealed_files::fresh_folder;
using sealed_files::overwrite;
using sealed_files::small_files;
using unity::tensor::dtype;
using unity::tensor::shape;
using unity::test::message_of;

namespace {

// Disjoint boxes that cover `all`, cut at random.
std::vector<parallel::box> random_cover(unity::random_engine& random, const parallel::box& all, int cuts) {
  std::vector<parallel::box> parts{all};
  for (int i = 0; i < cuts; ++i) {
    const auto which = static_cast<std::size_t>(random.below(parts.size()));
    auto& whole = parts[which];
    if (whole.begin.empty()) {
      break;
    }
    const auto d = static_cast<std::size_t>(random.below(whole.begin.size()));
    if (whole.end[d] - whole.begin[d] < 2) {
      continue;
    }
    auto rest = whole;
    rest.begin[d] = whole.end[d] = random.between(whole.begin[d] + 1, whole.end[d] - 1);
    parts.push_back(rest);
  }
  for (std::size_t i = parts.size(); i > 1; --i) {
    std::swap(parts[i - 1], parts[random.below(i)]);
  }
  return parts;
}

// The elements of a part of a tensor, one by one: the reference for for_each_run.
std::string cut_out(const std::string& bytes, const shape& dims, std::int64_t size, const parallel::box& part) {
  std::string out;
  const auto strides = unity::tensor::strides_of(dims);
  const auto sizes = part.sizes();
  for (std::int64_t i = 0; i < part.volume(); ++i) {
    std::int64_t place = 0;
    auto rest = i;
    for (std::size_t d = dims.size(); d-- > 0;) {
      place += (part.begin[d] + rest % sizes[d]) * strides[d];
      rest /= sizes[d];
    }
    out.append(bytes, static_cast<std::size_t>(place * size), static_cast<std::size_t>(size));
  }
  return out;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span{text}); }

std::string random_bytes(unity::random_engine& random, std::size_t count) {
  std::string bytes(count, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random.below(256)); });
  return bytes;
}

io::weights_header small_header() {
  return {"0123456789abcdef",
          41,
          std::numeric_limits<std::uint64_t>::max(),
          parallel::optimizer::momentum,
          {{"w", "weight", dtype::float32, {3, 4}},
           {"w", "momentum", dtype::float32, {3, 4}},
           {"s", "weight", dtype::float64, {}}},
          {{"learning_rate", 0.1}, {"momentum", 1.0 / 3}, {"batch", 64}},
          "cross_entropy",
          "synthetic"};
}

// Writes a checkpoint of small_header at a step; every byte of its values is `fill`.
void write_small(const fs::path& path, std::int64_t step, char fill = '\1') {
  auto header = small_header();
  header.step = step;
  io::weights_writer writer{path, header};
  for (std::size_t t = 0; t < header.tensors.size(); ++t) {
    writer.put(t, parallel::whole(header.tensors[t].dims), bytes_of(std::string(header.tensors[t].byte_count(), fill)));
  }
  writer.commit();
}

}  // namespace

TEST_CASE("a checkpoint written in random parts is read back in other random parts") {
  const auto seed = GENERATE(range(0U, 60U));
  CAPTURE(seed);
  unity::random_engine random{seed};
  io::weights_header header{"00ff", random.between(0, 1000), random(), parallel::optimizer::adam, {}, {}, {}, {}};
  std::vector<std::string> values;
  for (std::uint64_t t = random.below(5); t > 0; --t) {
    shape dims;
    for (std::uint64_t d = random.below(5); d > 0; --d) {
      dims.push_back(random.between(1, 9));
    }
    const auto element = static_cast<dtype>(random.below(9));
    header.tensors.push_back({"tensor \"" + std::to_string(t) + "\"\n", t % 2 == 0 ? "weight" : "mean", element, dims});
    values.push_back(random_bytes(random, header.tensors.back().byte_count()));
  }
  const auto path = fresh_folder("weights_round_trip") / "w";
  {
    io::weights_writer writer{path, header};
    for (std::size_t t = values.size(); t-- > 0;) {
      const auto& is = header.tensors[t];
      for (const auto& part : random_cover(random, parallel::whole(is.dims), 12)) {
        writer.put(t, part, bytes_of(cut_out(values[t], is.dims, unity::tensor::size_of(is.element), part)));
      }
    }
    writer.commit();
  }
  CHECK(file_count(path.parent_path()) == 1);
  const io::weights_reader reader{path};
  CHECK(reader.header() == header);
  for (std::size_t t = 0; t < values.size(); ++t) {
    const auto& is = header.tensors[t];
    REQUIRE(reader.find(is) == t);
    for (const auto& part : random_cover(random, parallel::whole(is.dims), 12)) {
      const auto expected = cut_out(values[t], is.dims, unity::tensor::size_of(is.element), part);
      std::string found(expected.size(), '\0');
      reader.get(t, part, std::as_writable_bytes(std::span{found}));
      REQUIRE(found == expected);
    }
  }
}

TEST_CASE("a checkpoint file does not depend on the order in which its parts are written") {
  const auto folder = fresh_folder("weights_order");
  const auto header = small_header();
  unity::random_engine random{5};
  std::vector<std::string> values;
  for (const auto& t : header.tensors) {
    values.push_back(random_bytes(random, t.byte_count()));
  }
  for (const auto* name : {"a", "b"}) {
    io::weights_writer writer{folder / name, header};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto t = name[0] == 'a' ? i : values.size() - 1 - i;
      for (const auto& part : random_cover(random, parallel::whole(header.tensors[t].dims), 5)) {
        const auto size = unity::tensor::size_of(header.tensors[t].element);
        writer.put(t, part, bytes_of(cut_out(values[t], header.tensors[t].dims, size, part)));
      }
    }
    writer.commit();
  }
  CHECK(content_of(folder / "a") == content_of(folder / "b"));
}

TEST_CASE("a truncated checkpoint is refused and the previous one is named") {
  const auto path = fresh_folder("weights_cut") / "w";
  write_small(path, 1);
  write_small(path, 2);
  CHECK(io::weights_reader{path}.header().step == 2);
  CHECK(io::weights_reader{io::previous_of(path)}.header().step == 1);
  const auto whole = content_of(path);
  unity::random_engine random{11};
  for (int i = 0; i < 60; ++i) {
    const auto length = i < 3 ? static_cast<std::size_t>(i) * 16 : static_cast<std::size_t>(random.below(whole.size()));
    CAPTURE(length, whole.size());
    overwrite(path, whole.substr(0, length));
    const auto message = message_of([&] { io::weights_reader{path}; });
    CHECK(message.find(length == 0 ? "another kind of file" : "is cut short at byte " + std::to_string(length)) !=
          std::string::npos);
    CHECK(message.find(path.string() + ": ") == 0);
    CHECK(message.find("; " + path.string() + ".previous is there") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
  overwrite(path, whole + "x");
  CHECK(message_of([&] { io::weights_reader{path}; }).find("goes on to byte") != std::string::npos);
  fs::remove(path);
  const auto message = message_of([&] { io::weights_reader{path}; });
  CHECK(message.find("cannot be read (No such file") != std::string::npos);
  CHECK(message.find(".previous is there") != std::string::npos);
  fs::remove(io::previous_of(path));
  CHECK(message_of([&] { io::weights_reader{path}; }).find("previous") == std::string::npos);
}

TEST_CASE("each flipped bit of a checkpoint is detected") {
  const auto path = fresh_folder("weights_flip") / "w";
  write_small(path, 1);
  const auto whole = content_of(path);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    CAPTURE(bit);
    sealed_files::alter(path, bit / 8, static_cast<char>(whole[bit / 8] ^ (1 << (bit % 8))));
    const auto message = message_of([&] { io::weights_reader{path}; });
    REQUIRE(message.find(path.string() + ": ") == 0);
    REQUIRE(message.find("; expected ") != std::string::npos);
    REQUIRE(message.find("previous") == std::string::npos);
    sealed_files::alter(path, bit / 8, whole[bit / 8]);
  }
  CHECK(io::weights_reader{path}.header().step == 1);
}

TEST_CASE("files of other kinds and versions or with invalid headers are refused as checkpoints") {
  const auto path = fresh_folder("weights_other") / "w";
  const auto refused = [&](const std::string& content) {
    overwrite(path, content);
    return message_of([&] { io::weights_reader{path}; });
  };
  CHECK(refused("") == path.string() + ": another kind of file; expected one that begins with \"unity weights 1\"");
  CHECK(refused("unity dataset 1\n and more, and more, and more").find("another kind of file") != std::string::npos);
  CHECK(refused("unity weights 2\n and more, and more, and more") ==
        path.string() + ": another version; expected \"unity weights 1\"");
  CHECK(message_of([&] { io::weights_reader{path.parent_path()}; }).find("not a regular file") != std::string::npos);
  // A header of another program, with a matching checksum.
  const auto with_header = [&](const std::string& header) {
    return refused(sealed_files::sealed(io::weights_line, header, std::string(64, '\0')));
  };
  const std::string start =
      R"({"graph":"","step":0,"seed":1,"optimizer":"sgd","settings":{},"loss":"","data":"","tensors":[)";
  const std::string good = R"({"name":"w","kind":"weight","element":"float32","dims":[4,4],"offset":0}]})";
  CHECK(with_header(start + good).empty());
  CHECK(with_header(R"({"graph":"","step":0,"seed":1,"optimizer":"sgd","settings":{},"loss":"a\nb"})") ==
        path.string() + ": header.loss: is \"a\\nb\"; expected a name without control characters");
  CHECK(with_header("{") == path.string() + ", byte 2: is not JSON; expected a value, ',' or a closing bracket");
  CHECK(with_header("{}") == path.string() + ": header: has no \"graph\"; expected an object with that member");
  CHECK(with_header(R"({"graph":"","step":-1,"seed":1})").find("header.step: is -1") != std::string::npos);
  CHECK(with_header(R"({"graph":"","step":0,"seed":-1})").find("header.seed: is number") != std::string::npos);
  CHECK(with_header(R"({"graph":"","step":0,"seed":1,"optimizer":"lion"})").find("sgd, momentum or adam") !=
        std::string::npos);
  CHECK(with_header(R"({"graph":"","step":0,"seed":1,"optimizer":"sgd","settings":{"rate":"high"}})")
            .find("header.settings.rate: is string; expected a number") != std::string::npos);
  const auto first = [&](const std::string& element, const std::string& dims, int offset) {
    return with_header(start + R"({"name":"w","kind":"weight","element":")" + element + R"(","dims":)" + dims +
                       R"(,"offset":)" + std::to_string(offset) + "}]}");
  };
  CHECK(first("float32", "[16]", 0).empty());
  CHECK(first("float31", "[16]", 0).find("header.tensors[0].element: unknown element type") != std::string::npos);
  CHECK(first("float32", "[0]", 0).find("header.tensors[0].dims: not the sizes of a tensor") != std::string::npos);
  CHECK(first("float32", "[16]", 64).find("header.tensors[0].offset: is 64; expected 0") != std::string::npos);
  CHECK(first("float32", "[15]", 0).find("tensors of 60 bytes; expected 64 bytes") != std::string::npos);
  const std::string twice = R"({"name":"w","kind":"weight","element":"int8","dims":[],"offset":0},)";
  CHECK(with_header(start + twice + good).find("tensors[1]: a second weight \"w\"") != std::string::npos);
}

TEST_CASE("a checkpoint is committed only if each element was written once") {
  const auto path = fresh_folder("weights_missing") / "w";
  write_small(path, 1);
  const auto before = content_of(path);
  {
    io::weights_writer writer{path, small_header()};
    writer.put(0, {{0, 0}, {3, 3}}, bytes_of(std::string(36, 'a')));
    CHECK(message_of([&] {
            writer.put(0, {{2, 2}, {3, 4}}, bytes_of(std::string(8, 'b')));
          }) == path.string() + ": a part of weight \"w\" float32[3,4] is written twice; expected each element once");
    CHECK(message_of([&] { writer.commit(); }) ==
          path.string() +
              ": weight \"w\" float32[3,4] lacks 3 of 12 elements, such as [0,3]; expected all of them before "
              "commit");
    writer.put(0, {{0, 3}, {3, 4}}, bytes_of(std::string(12, 'c')));
    writer.put(0, {{0, 0}, {0, 4}}, {});
    CHECK(message_of([&] { writer.commit(); }).find("momentum \"w\" float32[3,4] lacks 12 of 12") != std::string::npos);
    writer.put(1, {{0, 0}, {3, 4}}, bytes_of(std::string(48, 'd')));
    CHECK(message_of([&] { writer.commit(); }).find("lacks 1 of 1 elements, such as []") != std::string::npos);
    CHECK(content_of(path) == before);
  }
  CHECK(file_count(path.parent_path()) == 1);
  CHECK(content_of(path) == before);
}

TEST_CASE("a checkpoint refuses tensors of another name or type") {
  const auto path = fresh_folder("weights_names") / "w";
  write_small(path, 1);
  const io::weights_reader reader{path};
  CHECK(reader.find({"w", "momentum", dtype::float32, {3, 4}}) == 1);
  CHECK(message_of([&] {
          (void)reader.find({"w", "weight", dtype::float32, {4, 3}});
        }) == path.string() + ": has weight \"w\" float32[3,4]; expected weight \"w\" float32[4,3]");
  CHECK(message_of([&] {
          (void)reader.find({"w", "weight", dtype::float16, {3, 4}});
        }).find("float16[3,4]") != std::string::npos);
  CHECK(message_of([&] {
          (void)reader.find({"v", "weight", dtype::float32, {3, 4}});
        }) == path.string() + ": has no weight \"v\"; expected weight \"v\" float32[3,4]");
  CHECK(message_of([&] { io::weights_writer{path, {"\xff", 0, 0, {}, {}, {}, {}, {}}}; }).find("not UTF-8") !=
        std::string::npos);
  CHECK(file_count(path.parent_path()) == 1);
}

TEST_CASE("a full disk leaves the previous checkpoint unchanged") {
  const auto path = fresh_folder("weights_full") / "w";
  write_small(path, 1);
  const auto before = content_of(path);
  for (std::size_t room = 0; room < before.size(); room += 7) {
    CAPTURE(room);
    std::string message;
    {
      const small_files limit{room};
      message = message_of([&] { write_small(path, 2); });
    }
    REQUIRE(message.find("cannot be written") != std::string::npos);
    REQUIRE(content_of(path) == before);
    REQUIRE(file_count(path.parent_path()) == 1);
  }
  write_small(path, 2);
  CHECK(io::weights_reader{path}.header().step == 2);
  CHECK(message_of([&] { write_small("/dev/full", 1); }) ==
        "/dev/full: not a regular file; expected a name for a file");
  CHECK(message_of([&] { write_small(path.parent_path() / "none" / "w", 1); }).find("cannot be created") !=
        std::string::npos);
}

TEST_CASE("a checkpoint has one writer at a time and is written through links") {
  const auto folder = fresh_folder("weights_lock");
  {
    const io::weights_writer first{folder / "w", small_header()};
    CHECK(message_of([&] {
            io::weights_writer{folder / "w", small_header()};
          }).find("is being written by another") != std::string::npos);
  }
  CHECK(file_count(folder) == 0);
  overwrite(folder / "w.partial", std::string(100000, 'x'));  // left by a process that was killed
  write_small(folder / "w", 3);
  CHECK(io::weights_reader{folder / "w"}.header().step == 3);
  CHECK(file_count(folder) == 1);
  fs::create_directory(folder / "far");
  fs::create_symlink(fs::path{".."} / "w", folder / "far" / "link");
  write_small(folder / "far" / "link", 4);
  CHECK(fs::is_symlink(folder / "far" / "link"));
  CHECK(io::weights_reader{folder / "w"}.header().step == 4);
  CHECK(io::weights_reader{io::previous_of(folder / "far" / "link")}.header().step == 3);
}

// Kills the process that commits before each of its system calls in turn.
TEST_CASE("killing a checkpoint's writer at any system call leaves a complete checkpoint") {
  const auto path = fresh_folder("weights_killed") / "w";
  write_small(path, 1, 'a');
  write_small(path, 2, 'b');
  bool seen_old = false;
  bool seen_new = false;
  auto ended = sealed_files::outcome::killed;
  int calls = 0;
  for (; ended == sealed_files::outcome::killed; ++calls) {
    CAPTURE(calls);
    ended = sealed_files::killed_at_call(calls, [&] { write_small(path, 3, 'c'); });
    if (ended == sealed_files::outcome::cannot) {
      WARN("left out: processes cannot be traced here");
      return;
    }
    const auto step = io::weights_reader{path}.header().step;
    REQUIRE((step == 2 || step == 3));
    seen_old = seen_old || step == 2;
    seen_new = seen_new || step == 3;
    if (const auto previous = io::previous_of(path); fs::exists(previous)) {
      const auto kept = io::weights_reader{previous}.header().step;
      REQUIRE((kept == 1 || kept == 2));
    }
    REQUIRE(file_count(path.parent_path()) <= 3);
    if (step == 3 && ended == sealed_files::outcome::killed) {
      write_small(path, 2, 'b');
      write_small(path, 2, 'b');
    }
  }
  CHECK(seen_old);
  CHECK(seen_new);
  CHECK(calls > 10);
  CHECK(io::weights_reader{io::previous_of(path)}.header().step == 2);
  CHECK(file_count(path.parent_path()) == 2);
}

}  // namespace tests_of_weights_file
