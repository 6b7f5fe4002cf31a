#include <unity/io/hlo_edits.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/io/hlo_text.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "../support/random_hlo_edits.hpp"
#include "hlo_dumps.hpp"

namespace tests_of_hlo_edits {

namespace {

using namespace unity;
using io::hlo_instruction_id;

// A module whose entry has two parameters and then these instructions.
io::hlo_module module_of(const std::string& instructions) {
  return io::parse_hlo(
      "HloModule m, input_output_alias={ {}: (1, {}, may-alias) }\n"
      "%sum {\n %a = f32[] parameter(0)\n %b = f32[] parameter(1)\n ROOT %c = f32[] add(%a, %b)\n}\n"
      "%sum.1 {\n %d = f32[] parameter(0)\n %e = f32[] parameter(1)\n ROOT %f = f32[] add(%d, %e)\n}\n"
      "%most {\n %a.2 = f32[] parameter(0)\n %b.2 = f32[] parameter(1)\n ROOT %c.2 = f32[] maximum(%a.2, %b.2)\n}\n"
      "ENTRY %main {\n %x = f32[4]{0} parameter(0)\n %y = f32[4]{0} parameter(1)\n" +
          instructions + "}\n",
      "m.hlo");
}

std::vector<hlo_instruction_id> named(const io::hlo_module& m, const std::vector<std::string>& names) {
  const auto& all = m[m.entry].instructions;
  std::vector<hlo_instruction_id> found;
  for (const auto& n : names) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& i) { return i.name == n; });
    found.emplace_back(static_cast<std::size_t>(at - all.begin()));
  }
  return found;
}

io::hlo_fusion_group group(const io::hlo_module& m, const std::vector<std::string>& members,
                           const std::vector<std::string>& copies = {}) {
  return {named(m, members), named(m, copies)};
}

// The text of the first computation whose name begins with `name`.
std::string text_of(const io::hlo_module& m, const std::string& name) {
  const auto all = io::to_text(m);
  const auto from = all.find("%" + name);
  return all.substr(from, all.find("\n}", from) - from);
}

TEST_CASE("a fusion group becomes a fusion instruction that its readers use") {
  const auto m = module_of(
      " %s = f32[4]{0} add(%x, %y)\n %t = f32[4]{0} tanh(%s), metadata={op_name=\"t\"}, sharding={replicated}\n"
      " ROOT %n = f32[4]{0} negate(%t)\n");
  const auto fused = io::fuse_instructions(m, m.entry, {group(m, {"s", "t"})});
  io::check(fused, "fused");
  CHECK(text_of(fused, "fused_computation") ==
        "%fused_computation (param_0: f32[4], param_1: f32[4]) -> f32[4] {\n"
        "  %param_0 = f32[4]{0} parameter(0)\n  %param_1 = f32[4]{0} parameter(1)\n"
        "  %s = f32[4]{0} add(%param_0, %param_1)\n"
        "  ROOT %t = f32[4]{0} tanh(%s), metadata={op_name=\"t\"}");
  CHECK(text_of(fused, "main") ==
        "%main (x: f32[4], y: f32[4]) -> f32[4] {\n  %x = f32[4]{0} parameter(0)\n  %y = f32[4]{0} parameter(1)\n"
        "  %fusion = f32[4]{0} fusion(%x, %y), kind=kLoop, calls=%fused_computation, sharding={replicated}, "
        "metadata={op_name=\"t\"}\n"
        "  ROOT %n = f32[4]{0} negate(%fusion)");
  CHECK(fused.attributes == m.attributes);
  CHECK_FALSE(fused.find("sum"));  // nothing calls it
}

TEST_CASE("a fusion with several outputs returns a tuple; the root may be a member") {
  const auto m = module_of(
      " %s = f32[4]{0} add(%x, %y)\n %t = f32[4]{0} tanh(%s)\n %n = f32[4]{0} negate(%s)\n"
      " ROOT %r = (f32[4]{0}, f32[4]{0}) tuple(%t, %n)\n");
  const auto two = io::fuse_instructions(m, m.entry, {group(m, {"s", "t"})});
  io::check(two, "two");
  CHECK_THAT(text_of(two, "main"),
             Catch::Contains("%get-tuple-element = f32[4]{0} get-tuple-element(%fusion), index=0\n") &&
                 Catch::Contains("negate(%get-tuple-element)"));
  const auto all = io::fuse_instructions(m, m.entry, {group(m, {"s", "t", "n", "r"})});
  io::check(all, "all");
  CHECK_THAT(text_of(all, "main"), Catch::Contains("ROOT %tuple") && !Catch::Contains("tanh"));
}

TEST_CASE("a copied instruction is computed in each of its groups and removed if unused") {
  const auto m = module_of(
      " %s = f32[4]{0} add(%x, %y)\n %t = f32[4]{0} tanh(%s)\n %n = f32[4]{0} negate(%s)\n"
      " ROOT %r = f32[4]{0} multiply(%t, %n)\n");
  const auto both = io::fuse_instructions(m, m.entry, {group(m, {"t"}, {"s"}), group(m, {"n"}, {"s"})});
  io::check(both, "both");
  CHECK_THAT(text_of(both, "main"), !Catch::Contains(" add("));
  CHECK_THAT(text_of(both, "fused_computation "), Catch::Contains(" add("));
  CHECK_THAT(text_of(both, "fused_computation.1 "), Catch::Contains(" add("));
  const auto one = io::fuse_instructions(m, m.entry, {group(m, {"t"}, {"s"})});
  CHECK_THAT(text_of(one, "main"), Catch::Contains("negate(%s)"));
  const auto home = io::fuse_instructions(m, m.entry, {group(m, {"s", "t"}), group(m, {"n"}, {"s"})});
  io::check(home, "home");
  CHECK_THAT(text_of(home, "main"), !Catch::Contains("get-tuple-element"));  // nothing outside the group reads s
}

TEST_CASE("fusions within a group are inlined and scalar constants are copied into it") {
  const auto m = module_of(
      " %k = f32[] constant(2)\n %b = f32[4]{0} broadcast(%k), dimensions={}\n %s = f32[4]{0} add(%x, %y)\n"
      " %t = f32[4]{0} multiply(%s, %b)\n %n = f32[4]{0} negate(%s)\n %u = f32[4]{0} subtract(%n, %t)\n"
      " ROOT %w = f32[4]{0} add(%u, %t)\n");
  const auto once = io::fuse_instructions(m, m.entry, {group(m, {"s", "t", "b"})});
  const auto twice = io::fuse_instructions(once, once.entry, {group(once, {"fusion", "n", "u"})});
  io::check(twice, "twice");
  const auto body = text_of(twice, "fused_computation");
  CHECK_THAT(body, Catch::Contains("constant(2)") && Catch::Contains("broadcast(") && Catch::Contains("subtract(") &&
                       !Catch::Contains("fusion(") && !Catch::Contains("get-tuple-element"));
  CHECK(twice.computations.size() == 2);
  CHECK_THAT(text_of(twice, "main"), !Catch::Contains("constant("));
}

TEST_CASE("instructions that only relabel bytes between members become part of the fusion") {
  const auto m = module_of(
      " %s = f32[4]{0} add(%x, %y)\n %r = f32[2,2]{1,0} reshape(%s)\n %q = f32[4]{0} bitcast(%r)\n"
      " %t = f32[4]{0} tanh(%q)\n %o = f32[2,2]{1,0} reshape(%x)\n %p = f32[4]{0} reshape(%o)\n"
      " %u = f32[4]{0} multiply(%t, %p)\n ROOT %z = (f32[2,2]{1,0}, f32[4]{0}) tuple(%r, %u)\n");
  const auto fused = io::fuse_instructions(m, m.entry, {group(m, {"s", "t", "u"})});
  io::check(fused, "fused");
  CHECK_THAT(text_of(fused, "fused_computation"), Catch::Contains("bitcast(%r.1)") && !Catch::Contains("%p = "));
  CHECK_THAT(text_of(fused, "main"), Catch::Contains("%r = f32[2,2]{1,0} reshape(") && !Catch::Contains("bitcast"));
}

TEST_CASE("elements of a tuple between members are those values") {
  const auto m = module_of(
      " %s = f32[4]{0} add(%x, %y)\n %p = (f32[4]{0}, f32[4]{0}) tuple(%s, %y)\n"
      " %e = f32[4]{0} get-tuple-element(%p), index=0\n %r = f32[2,2]{1,0} reshape(%e)\n"
      " ROOT %t = f32[2,2]{1,0} tanh(%r)\n");
  const auto fused = io::fuse_instructions(m, m.entry, {group(m, {"s", "t"})});
  io::check(fused, "fused");
  CHECK_THAT(text_of(fused, "main"), Catch::Contains("ROOT %fusion") && !Catch::Contains("tuple("));
}

TEST_CASE("fuse_instructions refuses invalid groups with a one-line reason") {
  const auto m = module_of(
      " %s = f32[4]{0} add(%x, %y)\n %a = f32[4]{0} all-reduce(%s), to_apply=%sum\n %o = f32[4]{0} odd(%a)\n"
      " ROOT %r = f32[4]{0} multiply(%s, %o)\n");
  const auto complaint = [&](const std::vector<io::hlo_fusion_group>& groups) {
    return test::message_of([&] { static_cast<void>(io::fuse_instructions(m, m.entry, groups)); });
  };
  CHECK(complaint({group(m, {"s", "r"})}) ==
        "%main: the group of %s depends on itself; expected groups and instructions without cycles");
  CHECK(complaint({group(m, {"s", "a"})}) ==
        "%main: %a is all-reduce, in a fusion; expected instructions that kernels compute");
  CHECK(complaint({group(m, {"o"})}) == "%main: %o is odd, in a fusion; expected instructions that kernels compute");
  CHECK(complaint({group(m, {"x"})}) ==
        "%main: %x is parameter, in a fusion; expected instructions that kernels compute");
  CHECK(complaint({group(m, {"s"}), group(m, {"s"})}) ==
        "%main: %s in two groups, or twice in one; expected each instruction once, and its copies elsewhere");
}

TEST_CASE("control dependencies of fused instructions move to the fusion") {
  const auto m = module_of(
      " %s = f32[4]{0} add(%x, %y)\n %t = f32[4]{0} tanh(%x), control-predecessors={%s}\n"
      " %n = f32[4]{0} negate(%t)\n ROOT %r = f32[4]{0} multiply(%s, %n)\n");
  const auto fused = io::fuse_instructions(m, m.entry, {group(m, {"t", "n"})});
  io::check(fused, "fused");
  CHECK_THAT(text_of(fused, "main"), Catch::Contains("calls=%fused_computation, control-predecessors={%s}"));
  const auto before = io::fuse_instructions(m, m.entry, {group(m, {"s"})});
  io::check(before, "before");
  CHECK_THAT(text_of(before, "main"), Catch::Contains("tanh(%x), control-predecessors={%fusion}"));
}

TEST_CASE("fuse_what_xla_can leaves out results of several shapes and overwritten values") {
  const auto m = module_of(
      " %k = f32[] constant(0)\n %s = f32[4]{0} add(%x, %x)\n %d = f32[] reduce(%s, %k), dimensions={0}, "
      "to_apply=%sum\n"
      " %z = s32[] constant(0)\n %one = f32[1]{0} reshape(%d)\n %g = f32[4]{0} tanh(%s)\n"
      " %p = f32[4]{0} dynamic-update-slice(%s, %one, %z)\n"
      " %q = f32[4]{0} multiply(%p, %g)\n ROOT %r = f32[4]{0} negate(%q)\n");
  const auto shapes = io::fuse_what_xla_can(m, m.entry, {group(m, {"s", "d"})});
  CHECK(shapes.left_out == std::vector<std::size_t>{0});
  CHECK(shapes.module == io::fuse_instructions(m, m.entry, {}));
  CHECK(io::fuse_what_xla_can(m, m.entry, {group(m, {"g", "p", "q"}), group(m, {"r"})}).left_out ==
        std::vector<std::size_t>{0});
  // After the update, tanh would read the updated value.
  const auto copied = io::fuse_what_xla_can(m, m.entry, {group(m, {"q", "r"}, {"g"})});
  CHECK(copied.left_out.empty());
  CHECK_THAT(text_of(copied.module, "main"), Catch::Contains("%g = f32[4]{0} tanh(%s)"));
}

TEST_CASE("fuse_what_xla_can leaves out groups that overwrite a part of a tuple parameter that they read") {
  const auto left_out = [](const std::string& alias) {
    const auto m = io::parse_hlo("HloModule m, input_output_alias={ " + alias +
                                     " }\n"
                                     "ENTRY %main {\n %p = (f32[4]{0}, f32[4]{0}) parameter(0)\n"
                                     " %a = f32[4]{0} get-tuple-element(%p), index=0\n"
                                     " %b = f32[4]{0} get-tuple-element(%p), index=1\n"
                                     " %s = f32[4]{0} add(%a, %b)\n %q = f32[4]{0} multiply(%a, %b)\n"
                                     " ROOT %r = (f32[4]{0}, f32[4]{0}) tuple(%s, %q)\n}\n",
                                 "m.hlo");
    return io::fuse_what_xla_can(m, m.entry, {group(m, {"s", "q"})}).left_out.size();
  };
  CHECK(left_out("{0}: (0, {0}, may-alias)") == 1);
  CHECK(left_out("{1}: (0, {1}, must-alias)") == 1);
  CHECK(left_out("{0}: (7, {0}, may-alias)") == 0);  // no such parameter
}

TEST_CASE("combined all-reduces return a tuple whose elements their readers use") {
  const auto m = module_of(
      " %a = f32[4]{0} all-reduce(%x), channel_id=1, replica_groups={{0,1}}, to_apply=%sum, metadata={op_name=\"a\"}\n"
      " %n = f32[4]{0} negate(%y)\n"
      " %b = (f32[4]{0}, f32[4]{0}) all-reduce(%n, %y), channel_id=2, replica_groups={{0,1}}, to_apply=%sum.1\n"
      " %b0 = f32[4]{0} get-tuple-element(%b), index=1\n ROOT %r = f32[4]{0} add(%a, %b0)\n");
  const auto combined = io::combine_all_reduces(m, m.entry, {named(m, {"a", "b"})});
  io::check(combined, "combined");
  const auto main = text_of(combined, "main");
  CHECK_THAT(main, Catch::Contains("(f32[4]{0}, f32[4]{0}, f32[4]{0}) all-reduce(%x, %n, %y), channel_id=1, "
                                   "replica_groups={{0,1}}, to_apply=%sum, metadata={op_name=\"a\"}"));
  CHECK_THAT(main, Catch::Contains("add(%get-tuple-element, %get-tuple-element.2)"));
}

TEST_CASE("all-reduces that differ or depend on each other are not combined") {
  const auto m = module_of(
      " %a = f32[4]{0} all-reduce(%x), replica_groups={{0,1}}, to_apply=%sum\n"
      " %b = f32[4]{0} all-reduce(%y), replica_groups={{0},{1}}, to_apply=%sum\n"
      " %c = f32[4]{0} all-reduce(%y), replica_groups={{0,1}}, to_apply=%most\n"
      " %d = f32[4]{0} all-reduce(%a), replica_groups={{0,1}}, to_apply=%sum\n"
      " %n = f32[4]{0} negate(%a)\n"
      " %e = f32[4]{0} all-reduce(%n), replica_groups={{0,1}}, to_apply=%sum\n"
      " %h = bf16[4]{0} convert(%x)\n"
      " %f = bf16[4]{0} all-reduce(%h), replica_groups={{0,1}}, to_apply=%sum\n"
      " ROOT %r = (f32[4]{0}, f32[4]{0}, f32[4]{0}) tuple(%b, %c, %d)\n");
  const auto complaint = [&](const char* other) {
    return test::message_of([&] { static_cast<void>(io::combine_all_reduces(m, m.entry, {named(m, {"a", other})})); });
  };
  for (const auto* const other : {"b", "c", "f", "n"}) {
    INFO(other);
    CHECK_THAT(complaint(other), Catch::Contains("; expected all-reduces of one reduction, element type"));
  }
  CHECK(complaint("d") == "%main: %d needs %a; expected all-reduces that do not need each other");
  CHECK(complaint("e") == "%main: the group of %a depends on itself; expected groups and instructions without cycles");
}

TEST_CASE("dumped HLO modules stay valid under random fusions and all-reduce combinations") {
  std::size_t fusions = 0;
  std::size_t combinations = 0;
  const auto files = test::hlo_dumps();
  for (std::uint64_t seed = 1; seed <= test::cases(80); ++seed) {
    random_engine random{seed};
    const auto& file = files[random.below(files.size())];
    INFO("seed " << seed << ", " << file.string());
    const auto before = io::read_hlo(file);
    const auto edited = test::edited_at_random(before, random, random.below(2) == 0);
    io::check(edited.module, "edited");
    CHECK(io::parse_hlo(io::to_text(edited.module), "again") == edited.module);
    const auto& was = before[before.entry];
    const auto& is = edited.module[edited.module.entry];
    CHECK(is.parameters().size() == was.parameters().size());
    CHECK(is[is.root].shape == was[was.root].shape);
    fusions += edited.fusions;
    combinations += edited.combinations;
  }
  CHECK(fusions > 0);
  CHECK(combinations > 0);
}

}  // namespace

}  // namespace tests_of_hlo_edits
