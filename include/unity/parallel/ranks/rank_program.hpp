// What each rank does in an iteration: operators on parts of values, and what it sends and receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// load     the node's result comes from outside: a part of an input
// run      the node's operator
// fused    several operators as one kernel
// send     begins to send the value to a peer
// receive  begins to receive the node's result from a peer
// reduce   begins to add up the value over a group of ranks; the node's result is the sum
// scatter  begins to add up the value over a group, too; the node's result is the rank's share of rows
// gather   begins to collect what each rank of a group has; the node's result. Shares of a weight's next version lie in
// it
//          already: the value is the result
// wait     until what a step began has ended
// update   makes a weight's next version of its gradient; what reads the weight goes on with the version from before
// store    copies the value to the host; its memory may be used for others until it is fetched
// fetch    copies the value from the host, where it was stored or, as an input, came from
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

// Whether ranks of a group do it together.
[[nodiscard]] constexpr bool is_collective(step_kind k) noexcept {
  return k == step_kind::reduce || k == step_kind::scatter || k == step_kind::gather;
}

// Regular.
struct rank_step {
  step_kind kind = step_kind::run;
  node_id node{};          // load, run, receive, reduce
  value_id value{};        // send, reduce, scatter, gather; store, fetch
  std::uint32_t peer = 0;  // load: an input; send, receive: a rank; reduce, scatter, gather: a group;
                           // wait: the step that began; update: a weight; fused: a kernel
  std::uint32_t tag = 0;   // send, receive: the same at both ends, and at no other message of the iteration
  node_id origin{};        // of the plan's graph: what the step belongs to
  bool is_backward = false;
  bool is_late = false;  // it belongs to the batch before, and to that batch's version of the weights
  std::int64_t microbatch = 0;
  // send, receive: what is sent, or came, is kept aside for so many iterations. Such a send is not waited for; a wait
  // for such a receive, of the same number, brings what came so many iterations ago. Rank and peer may be one.
  std::uint32_t lag = 0;
  std::uint32_t since = 0;  // left out in the first so many iterations, and taken so often after the last

  friend bool operator==(const rank_step&, const rank_step&) = default;
};

// Operators that run as one kernel, which goes over so many rows of the values that are divided (rank_program).
// Regular.
struct rank_kernel {
  std::vector<node_id> nodes{};     // operands before readers
  std::vector<value_id> inputs{};   // read, but not made, by them; each once
  std::vector<value_id> outputs{};  // that others read; they are the results of no other kernel
  std::int64_t rows = 1;

  friend bool operator==(const rank_kernel&, const rank_kernel&) = default;
};

// A part of a value that the plan's graph has from outside. Regular.
struct given_part {
  value_id of{};  // of the plan's graph
  box part{};
  value_id value{};             // of the rank's graph
  std::int64_t microbatch = 0;  // of inputs

  friend bool operator==(const given_part&, const given_part&) = default;
};

// A part of a weight that the rank holds. Regular.
struct weight_part {
  given_part weight{};
  box updated{};        // what of it the rank updates: rows of the part
  value_id gradient{};  // of those over the whole batch, at the beginning of the value; the null id: it updates nothing
  // The next version, where it goes to other ranks or comes from them; as many rows as ranks share, or more.
  value_id next{};

  friend bool operator==(const weight_part&, const weight_part&) = default;
};

// A part of an output of the plan's graph: what the rank has made, or its cotangent. Regular.
struct output_part {
  std::uint32_t output = 0;
  box part{};
  value_id value{};
  std::int64_t microbatch = 0;

  friend bool operator==(const output_part&, const output_part&) = default;
};

// What an iteration leaves to the next one. Regular.
struct kept_value {
  value_id before{};       // from outside: what the last iteration left
  value_id after{};        // made when nothing reads the other one any more
  std::uint64_t seed = 0;  // before the first iteration: 0, zeros; others, numbers from -1 to 1

  friend bool operator==(const kept_value&, const kept_value&) = default;
};

// Nodes without operands and of no kind are what comes from outside: inputs, weights,
// what is received, sums over ranks, what was kept. Regular.
//
// Of delayed updates (plan.hpp), an iteration begins with the forward passes of its batch while the last backward
// passes of the batch before are under way: these steps are late. What they read was made in the iteration before.
// Training begins with an iteration without late steps and ends with late steps alone.
//
// Of stale servers (synchronization.hpp), an iteration begins with what servers do for the batch that was so many
// iterations before: gradients lag, and so do updates and the versions that they make. Training ends with that alone.
struct rank_program {
  tensor::tensor_graph graph{};
  std::vector<rank_step> steps{};  // in the order in which the rank does them
  std::vector<given_part> inputs{};
  std::vector<given_part> constants{};    // the same in all iterations: written before the first, and never loaded
  std::vector<output_part> cotangents{};  // that the backward passes begin with
  std::vector<weight_part> weights{};
  std::vector<output_part> outputs{};
  std::vector<kept_value> kept{};
  std::vector<rank_kernel> kernels{};  // of fused steps; an operator may be in several
  std::vector<bool> is_divided{};      // per value, where there are kernels: by their rows

  friend bool operator==(const rank_program&, const rank_program&) = default;
};

// Regular.
struct rank_programs {
  std::vector<rank_program> ranks{};
  std::vector<std::vector<std::uint32_t>> groups{};  // of ranks, ascending, that add up values together

  friend bool operator==(const rank_programs&, const rank_programs&) = default;
};

// Of the messages and collectives of a rank, that it knows alone: what it sends counts as much as what it receives
// takes off, and what the first of a group counts the others take off. The fingerprints of all ranks add up to zero
// where, of each pass, the k-th message to a rank is the k-th from there, likewise in groups, of the same tag and type;
// else they do with a probability of about 2^-128. Complexity: linear in the rank's steps.
[[nodiscard]] fingerprint exchanges_of(const rank_programs& all, std::uint32_t rank);

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

#endif
