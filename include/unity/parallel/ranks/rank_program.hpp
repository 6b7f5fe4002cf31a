// The program of each rank for an iteration: operators on parts of values, and communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/box.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// load     the node's result comes from outside: a part of an input
// run      runs the node's operator
// fused    runs several operators as one kernel
// send     begins to send the value to a peer
// receive  begins to receive the node's result from a peer
// reduce   begins to sum the value over a group of ranks; the node's result is the sum
// scatter  also begins to sum the value over a group; the node's result is the rank's share of rows
// gather   begins to collect the shares of each rank of a group; the node's result. Shares of a weight's next version
//          are already in place: the value is the result
// wait     waits for the end of what a step began
// update   makes a weight's next version from its gradient; readers still get the previous version
// store    copies the value to the host; its memory may be reused until it is fetched
// fetch    copies the value from the host, where it was stored or, for an input, originated
enum class step_kind : std::uint8_t {
  load,
  run,
  fused,
  send,
  receive,
  reduce,
  scatter,
  gather,
  wait,
  update,
  store,
  fetch
};

// Whether the ranks of a group perform it together.
[[nodiscard]] constexpr bool is_collective(step_kind k) noexcept {
  return k == step_kind::reduce || k == step_kind::scatter || k == step_kind::gather;
}

// Regular.
struct rank_step {
  step_kind kind = step_kind::run;
  node_id node{};          // load, run, receive, reduce, scatter, gather
  value_id value{};        // send, reduce, scatter, gather; store, fetch
  std::uint32_t peer = 0;  // load: an input; send, receive: a rank; reduce, scatter, gather: a group;
                           // wait: the step that began; update: a weight; fused: a kernel
  std::uint32_t tag = 0;   // send, receive, collectives: equal on all ranks that take part, and unique in an iteration;
                           // wait: of what it waits for
  node_id origin{};        // in the plan's graph: the node to which the step belongs
  bool is_backward = false;
  bool is_late = false;  // belongs to the previous batch, with its version of the weights
  std::int64_t microbatch = 0;
  // send, receive: the data is kept aside for this many iterations. Nothing waits for such a send; a wait with the same
  // lag for such a receive yields the data from that many iterations ago. Rank and peer may be equal.
  std::uint32_t lag = 0;
  std::uint32_t since = 0;  // skipped in this many first iterations, and run in as many after the last

  friend bool operator==(const rank_step&, const rank_step&) = default;
};

// Operators that run as one kernel over this many rows of the divided values (rank_program). Regular.
struct rank_kernel {
  std::vector<node_id> nodes{};     // operands before readers
  std::vector<value_id> inputs{};   // read but not made by the operators; without duplicates
  std::vector<value_id> outputs{};  // read by others; not results of any other kernel
  std::int64_t rows = 1;

  friend bool operator==(const rank_kernel&, const rank_kernel&) = default;
};

// A part of a value that the plan's graph gets from outside. Regular.
struct given_part {
  value_id of{};  // in the plan's graph
  box part{};
  value_id value{};             // in the rank's graph
  std::int64_t microbatch = 0;  // for inputs

  friend bool operator==(const given_part&, const given_part&) = default;
};

// A part of a weight on the rank. Regular.
struct weight_part {
  given_part weight{};
  box updated{};        // the rows of the part that the rank updates
  value_id gradient{};  // of these rows, over the whole batch, at the beginning of the value; null: updates nothing
  // The next version, if it is exchanged with other ranks; has as many rows as the ranks share, or more.
  value_id next{};

  friend bool operator==(const weight_part&, const weight_part&) = default;
};

// A part of an output of the plan's graph: the rank's result, or its cotangent. Regular.
struct output_part {
  std::uint32_t output = 0;
  box part{};
  value_id value{};
  std::int64_t microbatch = 0;

  friend bool operator==(const output_part&, const output_part&) = default;
};

// A value that an iteration passes to the next one. Regular.
struct kept_value {
  value_id before{};       // input: the result of the last iteration
  value_id after{};        // made after the last reader of `before`
  std::uint64_t seed = 0;  // initial value: 0: zeros; otherwise random numbers from -1 to 1

  friend bool operator==(const kept_value&, const kept_value&) = default;
};

// Nodes without operands and kind are values from outside: inputs, weights, received values, sums over ranks, kept
// values. Regular.
//
// With delayed updates (plan.hpp), an iteration begins with the forward passes of its batch while the last backward
// passes of the previous batch are running: those steps are late, and read what the previous iteration made. Training
// begins with an iteration without late steps and ends with late steps only.
//
// With stale servers (synchronization.hpp), an iteration begins with the servers' work for an earlier batch: gradients
// lag by that many iterations, and so do updates and the versions that they make. Training ends with such work only.
struct rank_program {
  tensor::tensor_graph graph{};
  std::vector<rank_step> steps{};  // in execution order
  std::vector<given_part> inputs{};
  std::vector<given_part> constants{};    // the same in all iterations: written before the first, and never loaded
  std::vector<output_part> cotangents{};  // inputs of the backward passes
  std::vector<weight_part> weights{};
  std::vector<output_part> outputs{};
  std::vector<kept_value> kept{};
  std::vector<rank_kernel> kernels{};  // of fused steps; an operator may be in several
  std::vector<bool> is_divided{};      // by value, if there are kernels: whether it is divided by rows

  friend bool operator==(const rank_program&, const rank_program&) = default;
};

// Regular.
struct rank_programs {
  std::vector<rank_program> ranks{};
  std::vector<std::vector<std::uint32_t>> groups{};  // of ranks, ascending, that perform collectives together

  friend bool operator==(const rank_programs&, const rank_programs&) = default;
};

// A fingerprint of the messages and collectives of a rank, computed from its program alone: sends count positive and
// receives negative; the first rank of a group counts positive for the others, which count negative. The sum over all
// ranks is zero if, in each pass, the k-th message to a rank matches the k-th from it in tag and type, and likewise in
// groups; otherwise it is zero with a probability of about 2^-128. Complexity: linear in the rank's steps.
[[nodiscard]] fingerprint exchanges_of(const rank_programs& all, std::uint32_t rank);

// Prints programs of ranks as text with a line per step, for reading and for comparison with diff tools.

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_PROGRAM)

#include <map>
#include <tuple>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE fingerprint exchanges_of(const rank_programs& all, std::uint32_t rank) {
  const auto& own = all.ranks[rank];
  // By peer or group, and pass.
  std::map<std::tuple<step_kind, std::uint32_t, std::int64_t, bool>, std::uint64_t> count;
  fingerprint sum;
  for (const auto& s : own.steps) {
    const bool is_message = s.kind == step_kind::send || s.kind == step_kind::receive;
    if (!is_message && !is_collective(s.kind)) {
      continue;
    }
    const auto& t = own.graph.type(s.value.valid() ? s.value : own.graph.results(s.node)[0]);
    hasher h{static_cast<std::uint64_t>(is_message ? step_kind::send : s.kind)};
    h.add(s.tag).add(s.since);
    h.add(count[{is_message ? s.kind : step_kind::gather, s.peer, s.microbatch, s.is_backward}]++);
    h.add(static_cast<std::uint64_t>(t.element)).add(t.dims.size());
    for (const auto d : t.dims) {
      h.add(static_cast<std::uint64_t>(d));
    }
    if (is_message) {
      h.add(s.kind == step_kind::send ? rank : s.peer).add(s.kind == step_kind::send ? s.peer : rank);
      s.kind == step_kind::send ? sum += h.result() : sum -= h.result();
      continue;
    }
    const auto& group = all.groups[s.peer];
    for (const auto r : group) {
      h.add(r);
    }
    const bool is_first = rank == group.front();
    for (std::size_t i = 1; i < (is_first ? group.size() : std::size_t{2}); ++i) {
      is_first ? sum += h.result() : sum -= h.result();
    }
  }
  return sum;
}

}  // namespace unity::parallel

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
