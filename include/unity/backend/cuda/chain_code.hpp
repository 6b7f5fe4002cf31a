// Element-wise computations as code for a machine with one accumulator and a few slots, all in registers of a thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

// The source of an instruction's second operand.
enum class chain_source : std::uint8_t { none, leaf, slot };

// a = op(a, b), or op(b, a) if reversed; a is the accumulator. Then a is also kept in slot `keep` and written to result
// `store`, if these are not negative. op operand: a = b. Eight bytes, so that a thread reads it at once.
struct alignas(8) chain_instruction {
  tensor::scalar_op op = tensor::scalar_op::operand;
  chain_source source = chain_source::none;
  bool reversed = false;
  std::uint8_t number = 0;  // of the leaf or slot
  std::int8_t keep = -1;
  std::int8_t store = -1;
};

static_assert(sizeof(chain_instruction) == sizeof(std::uint64_t));

// Whether it is binary and op(a, b) differs from op(b, a).
[[nodiscard]] UNITY_HOST_DEVICE constexpr bool has_order(tensor::scalar_op op) noexcept {
  using tensor::scalar_op;
  return op > scalar_op::add && op != scalar_op::mul && op != scalar_op::equal;
}

// Whether it is so short that a kernel with only such instructions keeps all values in registers.
[[nodiscard]] UNITY_HOST_DEVICE constexpr bool is_light(tensor::scalar_op op) noexcept {
  using tensor::scalar_op;
  return op != scalar_op::pow && op != scalar_op::remainder && op != scalar_op::sin && op != scalar_op::cos &&
         op != scalar_op::log && op != scalar_op::floor && op != scalar_op::round && op != scalar_op::truncate;
}

struct chain_leaf {
  loop_moves moves{};
  double value = 0;  // of a literal
  tile_leaf::origin origin = tile_leaf::origin::literal;
  std::uint8_t operand = 0;
  tensor::dtype element = tensor::dtype::float32;
  bool uniform = false;  // the same value everywhere
  bool aligned = false;  // every group of four elements along the last loop begins at a multiple of four
};

struct chain_store {
  std::uint8_t output = 0;
  tensor::dtype element = tensor::dtype::float32;
};

// The content of a kernel (chain_function), without addresses.
struct chain_code {
  static constexpr std::size_t max_instructions = 64;
  static constexpr std::size_t max_leaves = 16;
  static constexpr std::size_t max_stores = 4;
  static constexpr std::size_t max_slots = 8;

  loop_nest loops{};
  int instruction_count = 0;
  int leaf_count = 0;
  int store_count = 0;
  int slot_count = 0;
  chain_instruction instructions[max_instructions];
  chain_leaf leaves[max_leaves];
  chain_store stores[max_stores];

  [[nodiscard]] bool is_light() const {
    return std::all_of(instructions, instructions + instruction_count,
                       [](const auto& i) { return cuda::is_light(i.op); });
  }
  // Whether 32 bits suffice for every offset in operands and results.
  [[nodiscard]] bool is_narrow() const {
    bool fits = loops.points() <= most_places;
    for (int l = 0; l < leaf_count; ++l) {
      std::int64_t last = 0;
      for (int n = 0; n < loops.count; ++n) {
        last += (loops.sizes[n].size - 1) * leaves[l].moves.steps[n];
      }
      fits = fits && last < most_places;
    }
    return fits;
  }

 private:
  // Idle threads of the last block count beyond the last point.
  static constexpr std::int64_t most_places = (std::int64_t{1} << 31) - (std::int64_t{1} << 16);
};

namespace detail {

// Values stay in the accumulator if the next instruction is their only reader, and otherwise in a slot until their last
// use.
class chain_compiler {
 public:
  explicit chain_compiler(const tile_program& p) : program_{p}, uses_(p.code.size()), slots_(p.code.size(), -1) {
    const auto use = [&](std::size_t v) { ++uses_[v]; };
    for (const auto& i : p.code) {
      if (!is_leaf(i)) {
        use(i.a);
        if (tensor::is_binary(i.op)) {
          use(i.b);
        }
      }
    }
  }

  // Nothing if the program is too large for the machine.
  [[nodiscard]] std::optional<chain_code> run() {
    if (program_.leaves.size() > chain_code::max_leaves || program_.stores.size() > chain_code::max_stores ||
        program_.sizes.size() > static_cast<std::size_t>(max_loops)) {
      return std::nullopt;
    }
    for (std::size_t v = 0; v < program_.code.size(); ++v) {
      if (!is_leaf(program_.code[v])) {
        compute(v);
      } else if (store_of(v) >= 0) {
        begin_with(v);
        finish(v);
      }
    }
    if (emitted_.size() > chain_code::max_instructions || slot_count_ > chain_code::max_slots) {
      return std::nullopt;
    }
    return code();
  }

 private:
  static constexpr std::size_t nothing = static_cast<std::size_t>(-1);

  [[nodiscard]] static bool is_leaf(const tile_instruction& i) { return i.op == tensor::scalar_op::operand; }

  void compute(std::size_t v) {
    const auto& i = program_.code[v];
    const bool binary = tensor::is_binary(i.op);
    const bool reversed = binary && accumulator_ == i.b && accumulator_ != i.a;
    const auto first = reversed ? i.b : i.a;
    const auto second = reversed ? i.a : i.b;
    if (accumulator_ != first) {
      begin_with(first);
    }
    chain_instruction made{i.op, chain_source::none, reversed && has_order(i.op), 0, -1, -1};
    if (binary) {
      read(made, second);
    }
    release(i.a);
    if (binary) {
      release(i.b);
    }
    emitted_.push_back(made);
    finish(v);
  }
  // a = v
  void begin_with(std::size_t v) {
    chain_instruction made{};
    read(made, v);
    emitted_.push_back(made);
    accumulator_ = v;
  }
  void read(chain_instruction& i, std::size_t v) {
    const bool leaf = is_leaf(program_.code[v]);
    i.source = leaf ? chain_source::leaf : chain_source::slot;
    i.number = static_cast<std::uint8_t>(leaf ? program_.code[v].leaf : static_cast<std::size_t>(slots_[v]));
  }
  // v is in the accumulator: writes its result, and keeps it in a slot unless the next instruction is its only reader.
  void finish(std::size_t v) {
    accumulator_ = v;
    emitted_.back().store = static_cast<std::int8_t>(store_of(v));
    if (!is_leaf(program_.code[v]) && uses_[v] > 0 && !only_next_reads(v)) {
      keep(v);
    }
  }
  [[nodiscard]] bool only_next_reads(std::size_t v) const {
    std::size_t next = v + 1;
    while (next < program_.code.size() && is_leaf(program_.code[next]) && store_of(next) < 0) {
      ++next;
    }
    if (next == program_.code.size() || is_leaf(program_.code[next]) || uses_[v] != 1) {
      return false;
    }
    const auto& i = program_.code[next];
    return i.a == v || (tensor::is_binary(i.op) && i.b == v);
  }
  void keep(std::size_t v) {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto slot = free - taken_.begin();
    if (free == taken_.end()) {
      taken_.push_back(true);
    } else {
      *free = true;
    }
    slot_count_ = std::max(slot_count_, taken_.size());
    slots_[v] = static_cast<int>(slot);
    emitted_.back().keep = static_cast<std::int8_t>(std::min<std::ptrdiff_t>(slot, 127));
  }
  void release(std::size_t v) {
    if (--uses_[v] == 0 && slots_[v] >= 0) {
      taken_[static_cast<std::size_t>(slots_[v])] = false;
    }
  }
  [[nodiscard]] int store_of(std::size_t v) const {
    for (std::size_t s = 0; s < program_.stores.size(); ++s) {
      if (program_.stores[s].value == v) {
        return static_cast<int>(s);
      }
    }
    return -1;
  }

  [[nodiscard]] chain_code code() const {
    chain_code c;
    for (const auto size : program_.sizes) {
      c.loops.add(size);
    }
    c.instruction_count = static_cast<int>(emitted_.size());
    std::copy(emitted_.begin(), emitted_.end(), c.instructions);
    c.slot_count = static_cast<int>(slot_count_);
    for (const auto& l : program_.leaves) {
      c.leaves[c.leaf_count++] = leaf(l);
    }
    for (const auto& s : program_.stores) {
      auto& to = c.stores[c.store_count++];
      to.output = static_cast<std::uint8_t>(s.output);
      to.element = s.element;
    }
    return c;
  }
  [[nodiscard]] chain_leaf leaf(const tile_leaf& l) const {
    chain_leaf made;
    std::copy(l.steps.begin(), l.steps.end(), made.moves.steps);
    made.element = l.element;
    made.operand = static_cast<std::uint8_t>(l.operand);
    made.value = l.value;
    made.origin = l.from;
    made.uniform = l.uniform();
    made.aligned = l.from == tile_leaf::origin::operand && l.steps.back() == 1;
    for (std::size_t i = 0; i + 1 < l.steps.size(); ++i) {
      made.aligned = made.aligned && l.steps[i] % 4 == 0;
    }
    return made;
  }

  const tile_program& program_;
  std::vector<int> uses_;  // remaining uses, by value
  std::vector<int> slots_;
  std::vector<bool> taken_;
  std::vector<chain_instruction> emitted_;
  std::size_t accumulator_ = nothing;
  std::size_t slot_count_ = 0;
};

}  // namespace detail

// Nothing if one value is stored to several results, or the limits of chain_code are exceeded.
[[nodiscard]] inline std::optional<chain_code> compile_chain(tile_program p) {
  p.coalesce();
  for (std::size_t i = 0; i < p.stores.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (p.stores[i].value == p.stores[j].value) {
        return std::nullopt;
      }
    }
  }
  return detail::chain_compiler{p}.run();
}

}  // namespace unity::backend::cuda
