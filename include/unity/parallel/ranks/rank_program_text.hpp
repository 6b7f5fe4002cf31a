// Prints programs of ranks as text with a line per step, for reading and for comparison with diff tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

class rank_program_writer {
 public:
  rank_program_writer(const tensor::algebra& a, const tensor::tensor_graph& plan, const rank_programs& all,
                      const rank_program& p)
      : algebra_{a}, plan_{plan}, all_{all}, program_{p} {}

  [[nodiscard]] std::string run() &&;

 private:
  void line(const std::string& text) { text_ += fmt::format("  {}\n", text); }
  [[nodiscard]] static std::string name(value_id v) { return fmt::format("%{}", v.index()); }
  [[nodiscard]] std::string typed(value_id v) const {
    return fmt::format("{} {}", name(v), to_string(program_.graph.type(v)));
  }
  [[nodiscard]] static std::string region(const box& b);
  [[nodiscard]] static std::string of_batch(std::int64_t microbatch) {
    return microbatch == 0 ? "" : fmt::format(", micro-batch {}", microbatch);
  }
  [[nodiscard]] std::string part_of(value_id v, const box& b) const {
    return fmt::format("{}{}", algebra_.read(plan_.operation(plan_.producer(v))).word("name"), region(b));
  }
  [[nodiscard]] std::string results(node_id n) const;
  [[nodiscard]] std::string origin_of(const rank_step& s) const {
    return fmt::format("{} {}{}{}", algebra_.signature(plan_.operation(s.origin).kind).name, s.origin.index(),
                       s.is_backward ? ", backward" : ", forward", of_batch(s.microbatch));
  }
  [[nodiscard]] std::string operation_text(node_id n) const;
  [[nodiscard]] std::string kernel_text(const rank_kernel& k) const;
  [[nodiscard]] std::string text_of(const rank_step& s) const;
  [[nodiscard]] std::string group(std::uint32_t number) const;

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& plan_;
  const rank_programs& all_;
  const rank_program& program_;
  std::string text_{};
};

}  // namespace detail

// plan: the graph from which the programs are lowered. Equal programs have equal texts. Attributes of operators are not
// shown. Complexity: linear in the programs.
[[nodiscard]] std::string to_text(const tensor::algebra& a, const tensor::tensor_graph& plan, const rank_programs& p);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_PROGRAM_TEXT)

namespace unity::parallel::detail {

UNITY_INLINE std::string rank_program_writer::run() && {
  for (std::size_t w = 0; w < program_.weights.size(); ++w) {
    const auto& x = program_.weights[w];
    line(fmt::format("weight {}: {} = {}{}", w, typed(x.weight.value), part_of(x.weight.of, x.weight.part),
                     x.gradient.valid() ? fmt::format(", gradient {}", name(x.gradient)) : "") +
         (x.updated != x.weight.part ? fmt::format(", updates {}", region(x.updated)) : "") +
         (x.next.valid() ? fmt::format(", next version {}", typed(x.next)) : ""));
  }
  for (const auto& c : program_.cotangents) {
    line(
        fmt::format("cotangent {} of output {}{}{}", typed(c.value), c.output, region(c.part), of_batch(c.microbatch)));
  }
  for (const auto& k : program_.kept) {
    line(fmt::format("kept {} = {} of the iteration before, at first {}", typed(k.before), name(k.after),
                     k.seed == 0 ? "zeros" : "random"));
  }
  for (std::size_t s = 0; s < program_.steps.size(); ++s) {
    const auto& step = program_.steps[s];
    line(fmt::format("{}: {}{}  # {}", s, text_of(step), step.is_late ? ", of the batch before" : "", origin_of(step)));
  }
  for (const auto& o : program_.outputs) {
    line(fmt::format("output {}{} = {}{}", o.output, region(o.part), name(o.value), of_batch(o.microbatch)));
  }
  return std::move(text_);
}

UNITY_INLINE std::string rank_program_writer::region(const box& b) {
  std::string text = "[";
  for (std::size_t d = 0; d < b.begin.size(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", b.begin[d], b.end[d]);
  }
  return fmt::format("{}]", text);
}

UNITY_INLINE std::string rank_program_writer::results(node_id n) const {
  std::string text;
  for (const auto v : program_.graph.results(n)) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", typed(v));
  }
  return text;
}

UNITY_INLINE std::string rank_program_writer::operation_text(node_id n) const {
  const auto& op = program_.graph.operation(n);
  std::string text = fmt::format("{}(", algebra_.signature(op.kind).name);
  for (const auto v : program_.graph.operands(n)) {
    text += fmt::format("{}{}", text.ends_with('(') ? "" : ", ", name(v));
  }
  return fmt::format("{})", text);
}

UNITY_INLINE std::string rank_program_writer::kernel_text(const rank_kernel& k) const {
  std::string text;
  for (const auto v : k.outputs) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", typed(v));
  }
  text += " = one kernel of";
  for (const auto n : k.nodes) {
    text += fmt::format("{} {}", text.ends_with("of") ? "" : ";", operation_text(n));
  }
  return text;
}

UNITY_INLINE std::string rank_program_writer::text_of(const rank_step& s) const {
  switch (s.kind) {
    case step_kind::load:
      return fmt::format("{} = load {}", results(s.node),
                         part_of(program_.inputs[s.peer].of, program_.inputs[s.peer].part));
    case step_kind::run: return fmt::format("{} = {}", results(s.node), operation_text(s.node));
    case step_kind::fused: return kernel_text(program_.kernels[s.peer]);
    case step_kind::send: return fmt::format("send {} to rank {}, message {}", name(s.value), s.peer, s.tag);
    case step_kind::receive:
      return fmt::format("{} = receive from rank {}, message {}", results(s.node), s.peer, s.tag);
    case step_kind::reduce:
      return fmt::format("{} = sum of {} over ranks {}", results(s.node), name(s.value), group(s.peer));
    case step_kind::scatter:
      return fmt::format("{} = share of the sum of {} over ranks {}", results(s.node), name(s.value), group(s.peer));
    case step_kind::gather: return fmt::format("{} = shares of ranks {}", results(s.node), group(s.peer));
    case step_kind::wait:
      return fmt::format("wait for step {}{}", s.peer,
                         s.lag > 0 ? fmt::format(", of {} iterations ago", s.lag) : std::string{});
    case step_kind::update: return fmt::format("update weight {}", s.peer);
    case step_kind::store: return fmt::format("store {} on the host", name(s.value));
    case step_kind::fetch: return fmt::format("fetch {} from the host", typed(s.value));
  }
  return {};
}

UNITY_INLINE std::string rank_program_writer::group(std::uint32_t number) const {
  std::string text;
  for (const auto r : all_.groups[number]) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", r);
  }
  return text;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::string to_text(const tensor::algebra& a, const tensor::tensor_graph& plan, const rank_programs& p) {
  std::string text;
  for (std::size_t r = 0; r < p.ranks.size(); ++r) {
    text += fmt::format("rank {}\n{}", r, detail::rank_program_writer{a, plan, p, p.ranks[r]}.run());
  }
  return text;
}

}  // namespace unity::parallel

#endif
