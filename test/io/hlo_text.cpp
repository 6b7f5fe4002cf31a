#include <unity/io/hlo_text.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/random.hpp>
#include <unity/io/hlo/attribute_values.hpp>
#include <unity/io/hlo/infer.hpp>
#include <unity/io/hlo/work.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "hlo_dumps.hpp"

namespace tests_of_hlo_text {

namespace {

using namespace unity;

// A module whose entry has two parameters and then these instructions.
std::string module_of(const std::string& instructions) {
  return "HloModule m\n\n%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
         "  ROOT %c = f32[] add(%a, %b)\n}\n\nENTRY %main {\n  %x = f32[2,3]{1,0} parameter(0)\n"
         "  %y = f32[3,4]{1,0} parameter(1)\n" +
         instructions + "}\n";
}

std::string complaint(const std::string& text) {
  return test::message_of([&] { static_cast<void>(io::parse_hlo(text, "m.hlo")); });
}

// The message about a module whose 12th line is the instruction.
std::string complaint_of(const std::string& instruction) { return complaint(module_of("  " + instruction + "\n")); }

TEST_CASE("dumped XLA programs are read and survive a round trip through HLO text") {
  std::set<std::string> programs;
  std::set<std::string> opcodes;
  for (const auto& file : test::hlo_dumps()) {
    INFO(file.string());
    const auto m = io::read_hlo(file);
    CHECK(io::parse_hlo(io::to_text(m), "again") == m);
    programs.insert(file.stem().stem().string());
    for (const auto& c : m.computations) {
      for (const auto& i : c.instructions) {
        opcodes.insert(i.opcode);
      }
    }
  }
  CHECK(programs.size() >= 12);
  for (const auto* const kind : {"all-reduce", "fusion", "call", "tuple", "while", "conditional", "convolution",
                                 "gather", "scatter", "sort", "custom-call", "collective-permute", "reduce-window"}) {
    INFO(kind);
    CHECK(opcodes.contains(kind));
  }
}

TEST_CASE("shape inference agrees with XLA's shapes in dumped programs for all but four opcodes") {
  const std::set<std::string> as_written{"bitcast", "custom-call", "rng-get-and-update-state", "topk"};
  for (const auto& file : test::hlo_dumps()) {
    const auto m = io::read_hlo(file);
    for (const auto& c : m.computations) {
      for (const auto& i : c.instructions) {
        INFO(file.string() << ": " << i.name << ", " << i.opcode);
        const auto inferred = io::infer_shape(m, c, i, "here");
        CHECK(inferred.has_value() != as_written.contains(i.opcode));
        CHECK(io::are_compatible(inferred.value_or(i.shape), i.shape));
      }
    }
  }
}

TEST_CASE("unknown HLO opcodes/attributes/layouts are preserved in a round trip") {
  const std::string text =
      "HloModule m, entry_computation_layout={(f32[2]{0:T(128)S(1)})->(f32[2]{0}, token[])}, is_scheduled=true\n\n"
      "FileNames\n1 \"a.py\"\n\n"
      "%odd (p: f32[2]) -> f32[2] {\n"
      "  ROOT %p = f32[2]{0} parameter(0)\n"
      "}, execution_thread=\"host\"\n\n"
      "ENTRY %main (x: f32[2]) -> (f32[2], token[]) {\n"
      "  %x = f32[2]{0:T(128)S(1)} parameter(0), sharding={devices=[2]<=[2]}\n"
      "  %k = f32[2]{0} constant({1, -2.5e-3}), metadata={op_name=\"a, }\\\"b\"}\n"
      "  %f = (f32[<=7], s32[?]) frobnicate(%x, %k), to_apply=%odd, how={a={1,2},b=\"}\"}, control-predecessors={%k}\n"
      "  %t = token[] after-all()\n"
      "  ROOT %r = (f32[2]{0}, token[]) tuple(%x, %t), frontend_attributes={mark=\"x\"}, "
      "backend_config={\"n\":[\"1\"]}\n"
      "}\n\n";
  const auto m = io::parse_hlo(text, "m.hlo");
  CHECK(io::to_text(m) == text);
  const auto& main = m[m.entry];
  REQUIRE(main.instructions.size() == 5);
  const auto& f = main.instructions[2];
  CHECK(f.line == 13);
  CHECK(f.callee("to_apply") == m.find("odd"));
  CHECK(f.text_of("how") == "{a={1,2},b=\"}\"}");
  CHECK(f.shape.parts[0].is_dynamic == std::vector<bool>{true});
  CHECK(f.shape.parts[1].dimensions == std::vector<std::int64_t>{-1});
  CHECK(main.instructions[1].literal == "{1, -2.5e-3}");
}

TEST_CASE("asynchronous collectives and fusions of a GPU module are read and classified") {
  const auto m = io::read_hlo(std::filesystem::path{UNITY_TEST_SOURCE_DIR} / "test/io/hlo_by_hand.hlo");
  CHECK(io::parse_hlo(io::to_text(m), "again") == m);
  const auto& main = m[m.entry];
  const io::hlo_work_table work{m};
  std::vector<std::string> collectives;
  for (const auto& i : main.instructions) {
    if (io::role_of(i) == io::hlo_role::collective) {
      collectives.push_back(i.opcode);
    }
    if (i.is("fusion")) {
      CHECK(work.of(main, i) == io::hlo_work{16 * 128 + 15 * 128 + 128, 16 * 128 * 2 + 128 * 4, 128 * 4});
    }
  }
  CHECK(collectives == std::vector<std::string>{"all-reduce-start", "all-reduce-done", "all-gather-start",
                                                "all-gather-done", "collective-permute-start",
                                                "collective-permute-done"});
}

TEST_CASE("HLO text without percent signs but with comments and operand shapes is read") {
  const auto m = io::parse_hlo(
      "HloModule m\n// all\nENTRY e {\n a.1 = f32[2]{0} parameter(0)\n b = f32[2] /*index=1*/ add(f32[2] a.1, "
      "a.1)\n}\n",
      "m.hlo");
  CHECK(m[m.entry].name == "e");
  CHECK(m[m.entry].root == io::hlo_instruction_id{1U});
  CHECK(m[m.entry].instructions[1].name == "b");
  CHECK(complaint("HloModule m\nENTRY e {\n a = f32[2] parameter(0)\n b = f32[2] negate(f32[3] a)\n}\n") ==
        "m.hlo:4:27: 'a' as f32[3]; expected f32[2]");
  CHECK(io::parse_hlo("\xef\xbb\xbfHloModule m\nENTRY e {\n a = f32[2] parameter(0)\n}\n", "m.hlo").name == "m");
}

TEST_CASE("HLO parser errors give line and column with the text found and what was expected") {
  CHECK(complaint("") == "m.hlo:1:1: the end of the file; expected 'HloModule' and a name");
  CHECK(complaint("HloModule m\n") == "m.hlo:2:1: the end of the file; expected a computation that is the ENTRY");
  CHECK(complaint_of("%x = f32[] constant(1)") == "m.hlo:12:4: 'x' a second time; expected each instruction once");
  CHECK(complaint_of("%z = f32[2,3] add(%x, %w)") ==
        "m.hlo:12:26: no instruction 'w' above; expected an operand that is defined before");
  CHECK(complaint_of("%z = f32[2,3] negate(%z)") ==
        "m.hlo:12:25: no instruction 'z' above; expected an operand that is defined before");
  CHECK(complaint_of("%z = f32[] call(), to_apply=%main") ==
        "m.hlo:12:32: no 'main' above; expected a computation that is defined before, as calls form no cycle");
  CHECK(complaint_of("%z = f32[2,3] negate(%x") == "m.hlo:13:1: '}'; expected ','");
  CHECK(complaint_of("%z = f32[2,-3] negate(%x)") == "m.hlo:12:14: a dimension of -3; expected 2^50 elements at most");
  CHECK(complaint_of("%z = f32[2000000000,2000000000] iota(), iota_dimension=0") ==
        "m.hlo:12:23: a dimension of 2000000000; expected 2^50 elements at most");
  CHECK(complaint_of("%z = f32[2,3] negate(%x), a=1, a=2") ==
        "m.hlo:12:34: 'a' a second time; expected each attribute once");
  CHECK(complaint_of("%z = f32[2,3] negate(%x), metadata={op_name=\"}") ==
        "m.hlo:14:1: the end of the file; expected a closing quote");
  CHECK(complaint_of("%z = f32[2,3] negate(%x), how={[}]") == "m.hlo:12:35: '}]'; expected ']'");
  CHECK(complaint_of("%z = f32[2,3] negate(%x), how=") == "m.hlo:12:33: the end of the line; expected a value");
  CHECK(complaint_of("%p = f32[] parameter(first)") == "m.hlo:12:24: 'first'; expected the number of a parameter");
  CHECK(complaint_of("ROOT %z = f32[] constant(1)\nROOT %w = f32[] constant(1)") ==
        "m.hlo:13:1: ROOT a second time; expected one root");
  CHECK(complaint("HloModule m\nENTRY %e (a: f32[3]) -> f32[2] {\n  %a = f32[2] parameter(0)\n}\n") ==
        "m.hlo:4:1: 'e' whose signature differs from its parameters and root; expected the shapes of these");
  CHECK(complaint("HloModule m\nENTRY %e {\n}\n") == "m.hlo:3:1: no instruction in 'e'; expected at least one");
  std::string deep(1000, '(');
  CHECK(complaint_of("%z = " + deep) ==
        "m.hlo:12:73: '" + std::string(30, '(') + "...'; expected tuples in tuples, 64 at most");
}

TEST_CASE("HLO shape errors name the instruction with its shape and what was expected") {
  CHECK(complaint_of("%z = f32[3,2] tanh(%x)") == "m.hlo:12: %z: tanh gives f32[3,2]; expected f32[2,3]");
  CHECK(complaint_of("%z = f32[2,3] add(%x, %y)") ==
        "m.hlo:12: %z: add of (f32[2,3], f32[3,4]) gives f32[2,3]; expected operands of one shape");
  CHECK(complaint_of("%p = f32[] parameter(3)") ==
        "m.hlo:12: %p: parameter 3 of 3; expected the numbers from 0 on, each once");
}

TEST_CASE("a wrong shape or attribute of each listed HLO instruction is reported in one line") {
  struct row {
    std::string right{};
    std::string from{};  // text in `right`
    std::string to{};    // its replacement, which is wrong
  };
  const std::vector<row> all{
      {"f32[2,4] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[2,4]", "f32[2,3]"},
      {"f32[2,4] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "lhs_contracting_dims={1}",
       "lhs_contracting_dims={0}"},
      {"pred[2,3] compare(%x, %x), direction=LT", "pred", "f32"},
      {"f32[2,3] clamp(%x, %x, %x)", "%x)", "%y)"},
      {"f32[5,2,3] broadcast(%x), dimensions={1,2}", "{1,2}", "{0,1}"},
      {"f32[5,2,3] broadcast(%x), dimensions={1,2}", "{1,2}", "{1}"},
      {"f32[6] reshape(%x)", "6", "5"},
      {"f32[3,2] transpose(%x), dimensions={1,0}", "{1,0}", "{0,1}"},
      {"f32[3,2] transpose(%x), dimensions={1,0}", "{1,0}", "{1,1}"},
      {"f32[2,3] reverse(%x), dimensions={1}", "{1}", "{2}"},
      {"f32[2,6] concatenate(%x, %x), dimensions={1}", "{1}", "{0}"},
      {"f32[1,2] slice(%x), slice={[0:1], [0:3:2]}", "3:2", "4:2"},
      {"f32[1,2] slice(%x), slice={[0:1], [0:3:2]}", "0:3", "1:3"},
      {"f32[5,6] pad(%x, %k), padding=1_2x1_0_1", "0_1", "0"},
      {"f32[2,3] iota(), iota_dimension=1", "=1", "=2"},
      {"bf16[2,3] convert(%x)", "2,3", "3,2"},
      {"u8[2,3,4] bitcast-convert(%x)", ",4", ""},
      {"f32[2] reduce(%x, %k), dimensions={1}, to_apply=%sum", "{1}", "{0}"},
      {"f32[2] reduce(%x, %k), dimensions={1}, to_apply=%sum", "%k", "%x"},
      {"f32[1,2] reduce-window(%x, %k), window={size=2x2}, to_apply=%sum", "2x2", "2x3"},
      {"f32[1,3] dynamic-slice(%x, %n, %n), dynamic_slice_sizes={1,3}", "{1,3}", "{3,3}"},
      {"f32[1,3] dynamic-slice(%x, %n, %n), dynamic_slice_sizes={1,3}", ", %n)", ")"},
      {"f32[2,3] dynamic-update-slice(%x, %x, %n, %n)", "%x, %n", "%y, %n"},
      {"(f32[2,3], s32[]) tuple(%x, %n)", "s32[]", "s32[1]"},
      {"f32[] call(%k, %k), to_apply=%sum", ", %k", ""},
      {"f32[2,3] map(%x, %x), dimensions={0,1}, to_apply=%sum", ", %x", ""},
      {"f32[] fusion(%k, %k), kind=kLoop, calls=%sum", "%k)", "%x)"},
      {"f32[2,3] all-reduce(%x), replica_groups={}, to_apply=%sum", "2,3", "3,2"},
      {"f32[8,3] all-gather(%x), replica_groups={{0,1,2,3}}, dimensions={0}", ",2,3}}", "}}"},
      {"f32[8,3] all-gather(%x), replica_groups=[1,4]<=[4], dimensions={0}", "8,3", "7,3"},
      {"f32[1,3] reduce-scatter(%x), replica_groups={{0,1}}, dimensions={0}, to_apply=%sum", "{0},", "{1},"},
      {"f32[2,3] all-to-all(%x), replica_groups={{0,1}}, dimensions={0}", "2,3", "3,3"},
      {"(f32[2,3], f32[2,3]) sort(%x, %x), dimensions={0}, to_apply=%four", "%four", "%sum"},
      {"c64[2,2] fft(%x), fft_type=RFFT, fft_length={3}", "{3}", "{4}"},
      {"f32[1,4] gather(%y, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
       "slice_sizes={1,4}",
       "{1,4}", "{1,3}"},
      {"f32[3,4] scatter(%y, %i, %u), update_window_dims={1}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum",
       "dow_dims={1}", "dow_dims={}"},
      {"s32[] while(%n), condition=%less, body=%next", "%next", "%less"},
      {"f32[] conditional(%n, %k, %k), branch_computations={%one, %one}", ", %one", ", %sum"},
      {"f32[1,2,2,5] convolution(%image, %kernel), window={size=2x2 pad=0_0x0_0}, dim_labels=b01f_01io->b01f", "x0_0",
       "x0_1"},
      {"f32[1,2,2,5] convolution(%image, %kernel), window={size=2x2 pad=0_0x0_0}, dim_labels=b01f_01io->b01f", "->b01f",
       "->bf01"},
  };
  const std::string before =
      "HloModule m\n%sum {\n %a = f32[] parameter(0)\n %b = f32[] parameter(1)\n ROOT %c = f32[] add(%a, %b)\n}\n"
      "%one {\n %a = f32[] parameter(0)\n}\n"
      "%four {\n %a = f32[] parameter(0)\n %b = f32[] parameter(1)\n %c = f32[] parameter(2)\n %d = f32[] "
      "parameter(3)\n"
      " ROOT %e = pred[] compare(%a, %b), direction=LT\n}\n"
      "%less {\n %n = s32[] parameter(0)\n %k = s32[] constant(3)\n ROOT %l = pred[] compare(%n, %k), direction=LT\n}\n"
      "%next {\n %n = s32[] parameter(0)\n ROOT %l = s32[] add(%n, %n)\n}\n"
      "ENTRY %main {\n %x = f32[2,3] parameter(0)\n %y = f32[3,4] parameter(1)\n %k = f32[] constant(0)\n"
      " %n = s32[] constant(0)\n %i = s32[1,1] parameter(2)\n %u = f32[1,4] parameter(3)\n"
      " %image = f32[1,3,3,2] parameter(4)\n %kernel = f32[2,2,2,5] parameter(5)\n";
  for (const auto& [right, from, to] : all) {
    const auto text = [&](const std::string& z) { return before + " ROOT %z = " + z + "\n}\n"; };
    auto wrong = right;
    wrong.replace(wrong.find(from), from.size(), to);
    INFO(right << "\n" << wrong);
    CHECK(complaint(text(right)).empty());
    CHECK_THAT(complaint(text(wrong)),
               Catch::Contains("%z: ") && Catch::Contains("; expected ") && !Catch::Contains("\n"));
  }
}

TEST_CASE("truncated or altered HLO text is a one-line error or a module that round-trips") {
  const auto files = test::hlo_dumps();
  for (std::uint64_t seed = 1; seed <= test::cases(400); ++seed) {
    random_engine random{seed};
    const auto& file = files[random.below(files.size())];
    INFO("seed " << seed << ", " << file.string());
    auto text = read_file(file);
    if (random.below(2) == 0) {
      text.resize(random.below(text.size()));
    }
    for (auto changes = random.below(4); changes > 0 && !text.empty(); --changes) {
      const auto at = random.below(text.size());
      const auto other = random.below(text.size());
      switch (random.below(3)) {
        case 0: text[at] = text[other]; break;
        case 1: text.erase(at, random.below(20)); break;
        default: text.insert(at, text.substr(other, random.below(20))); break;
      }
    }
    try {
      const auto m = io::parse_hlo(text, "m.hlo");
      CHECK(io::parse_hlo(io::to_text(m), "again") == m);
    } catch (const error& e) {
      CHECK_THAT(std::string{e.what()}, Catch::StartsWith("m.hlo:") && !Catch::Contains("\n"));
    }
  }
}

TEST_CASE("HLO work and operator classes of a module match values computed by hand") {
  const auto m = io::parse_hlo(
      "HloModule m\n%sum {\n %a = f32[] parameter(0)\n %b = f32[] parameter(1)\n ROOT %c = f32[] add(%a, %b)\n}\n"
      "%body {\n %p = f32[2,3] parameter(0)\n %q = f32[3,4] parameter(1)\n"
      " %d = f32[2,4] dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT %t = f32[2,4] "
      "tanh(%d)\n}\n"
      "ENTRY %main {\n %x = f32[2,3] parameter(0)\n %y = f32[3,4] parameter(1)\n %k = f32[] constant(0)\n"
      " %r = f32[2] reduce(%x, %k), dimensions={1}, to_apply=%sum\n"
      " %i = f32[1,1,3,3] parameter(2)\n %j = f32[1,1,2,2] parameter(3)\n"
      " %v = f32[1,1,4,2] convolution(%i, %j), window={size=2x2 pad=1_1x0_0}, dim_labels=bf01_oi01->bf01\n"
      " %s = f32[1,3] slice(%x), slice={[0:1], [0:3]}\n %g = bf16[2,3] convert(%x)\n"
      " ROOT %f = f32[2,4] fusion(%x, %y), kind=kLoop, calls=%body\n}\n",
      "m.hlo");
  const auto& main = m[m.entry];
  const io::hlo_work_table work{m};
  const auto of = [&](std::string_view name) -> const io::hlo_instruction& {
    for (const auto& i : main.instructions) {
      if (i.name == name) {
        return i;
      }
    }
    throw error{"no such instruction"};
  };
  CHECK(work.of(main, of("f")) == io::hlo_work{2 * 2 * 4 * 3 + 8, (6 + 12) * 4, 8 * 4});
  CHECK(work.of(main, of("r")) == io::hlo_work{4, (6 + 1) * 4, 2 * 4});
  CHECK(work.of(main, of("v")) == io::hlo_work{2.0 * 6 * 4, (9 + 4) * 4, 8 * 4});  // 3 rows met twice, 2 columns twice
  CHECK(work.of(main, of("s")) == io::hlo_work{0, 12, 12});
  CHECK(work.of(main, of("g")) == io::hlo_work{6, 24, 12});
  using fusion::operator_class;
  CHECK(work.class_of(of("f")) == operator_class::product);
  CHECK(work.class_of(of("r")) == operator_class::reduction);
  CHECK(work.class_of(of("v")) == operator_class::convolution);
  CHECK(work.class_of(of("s")) == operator_class::movement);
  CHECK(work.class_of(of("g")) == operator_class::elementwise);
  CHECK(work.is_fusible(of("f")));
  CHECK_FALSE(work.is_fusible(of("v")));
  CHECK(io::role_of(of("x")) == io::hlo_role::source);
  CHECK(io::role_of(of("f")) == io::hlo_role::compute);
}

TEST_CASE("HLO work of a while loop is multiplied by its known trip count") {
  const auto flops = [](const std::string& attributes) {
    const auto m = io::parse_hlo(
        "HloModule m\n%less {\n %n = s32[] parameter(0)\n %k = s32[] constant(3)\n"
        " ROOT %l = pred[] compare(%n, %k), direction=LT\n}\n"
        "%next {\n %n = s32[] parameter(0)\n %d = s32[] add(%n, %n)\n ROOT %l = s32[] add(%d, %n)\n}\n"
        "ENTRY %main {\n %n = s32[] constant(0)\n ROOT %z = s32[] while(%n), condition=%less, body=%next" +
            attributes + "\n}\n",
        "m.hlo");
    const auto& main = m[m.entry];
    return io::hlo_work_table{m}.of(main, main[main.root]).flops;
  };
  CHECK(flops("") == 3);
  CHECK(flops(", backend_config={\"known_trip_count\":{\"n\":\"5\"}}") == 15);
}

TEST_CASE("role_of derives HLO roles from opcodes") {
  const auto role = [](const char* opcode) {
    io::hlo_instruction i;
    i.opcode = opcode;
    return io::role_of(i);
  };
  CHECK(role("all-reduce-start") == io::hlo_role::collective);
  CHECK(role("collective-permute-done") == io::hlo_role::collective);
  CHECK(role("while") == io::hlo_role::control_flow);
  CHECK(role("async-update") == io::hlo_role::control_flow);
  CHECK(role("bitcast") == io::hlo_role::relabelling);
  CHECK(role("custom-call") == io::hlo_role::compute);
}

TEST_CASE("slices of dimensions above 2^31 elements are read") {
  const auto m = io::parse_hlo(
      "HloModule m\nENTRY %main {\n %x = s8[4000000000]{0} parameter(0)\n %k = s32[] parameter(1)\n"
      " %s = s8[3500000000]{0} slice(%x), slice={[0:3500000000]}\n"
      " ROOT %d = s8[3000000000]{0} dynamic-slice(%s, %k), dynamic_slice_sizes={3000000000}\n}\n",
      "m.hlo");
  CHECK_NOTHROW(io::check(m, "m.hlo"));
}

TEST_CASE("HLO windows and replica group sizes are parsed from attributes") {
  const auto w = io::window_of("{size=3x2 stride=2x1 pad=1_0x0_2 lhs_dilate=1x2 rhs_dilate=2x1 rhs_reversal=0x1}");
  REQUIRE(w);
  CHECK(w->at(0) == io::hlo_window_dimension{3, 2, 1, 0, 1, 2});
  CHECK(w->at(1) == io::hlo_window_dimension{2, 1, 0, 2, 2, 1});
  CHECK(io::window_places(w->at(0), 6) == 2);  // a window dilated to 5 in 7 elements
  CHECK(io::window_places(w->at(1), 3) == 6);  // a window of 2 in an input dilated to 5, padded by 2
  CHECK(io::window_hits({2, 1, 1, 1, 1, 1}, 3) == 6);
  CHECK_FALSE(io::window_of("{size=0}"));
  CHECK_FALSE(io::window_of("{size=2x2 stride=1}"));
  CHECK(io::group_size_of("{{0,1},{2,3}}") == 2);
  CHECK(io::group_size_of("[2,4]<=[8]") == 4);
  CHECK_FALSE(io::group_size_of("{}"));
  CHECK_FALSE(io::group_size_of("{{0,1},{2}}"));
}

}  // namespace

}  // namespace tests_of_hlo_text
