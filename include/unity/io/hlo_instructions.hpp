// Converts the entry computation of an HLO module to instructions to fuse, and applies fusion strategies to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// Regular except for the graph.
struct hlo_instructions {
  fusion::instruction_graph graph{};
  std::vector<hlo_instruction_id> of{};  // per instruction of the graph
};

// Leaves out instructions that only relabel bytes: their readers read their operands. All-reduces stay all-reduces;
// other collectives and control flow run alone, and nothing is fused across them. The time of an unfused instruction is
// the kernel model's prediction from its arithmetic and bytes; for a call or a loop, from everything that it runs.
// Complexity: linear in the module. flops_per_second: for arithmetic alone.
[[nodiscard]] hlo_instructions instructions_of(const hlo_module& m, const fusion::kernel_model& kernels,
                                               double flops_per_second);

// The limits of XLA's fusions: nothing follows a product, a convolution or a reduction, and all results have the same
// dimensions.
[[nodiscard]] fusion::kernel_limits hlo_limits();

struct hlo_with_fusions {
  hlo_module module{};
  std::size_t left_out = 0;            // kernels that XLA could not compute (fuse_what_xla_can)
  fusion::fusion_strategy strategy{};  // without the kernels left out
};

// Applies a strategy: its kernels become fusions, its buckets combined all-reduces; all-reduces that cannot be combined
// stay separate. Complexity: as the edits of hlo_edits.hpp.
[[nodiscard]] hlo_with_fusions with_fusions(const hlo_module& m, const hlo_instructions& all,
                                            const fusion::fusion_strategy& s);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_INSTRUCTIONS)

#include <algorithm>
#include <map>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/io/hlo/work.hpp>
#include <unity/io/hlo_edits.hpp>

namespace unity::io {

namespace detail {

class hlo_reader_of_instructions {
 public:
  hlo_reader_of_instructions(const hlo_module& m, const fusion::kernel_model& kernels, double flops_per_second)
      : computation_{m[m.entry]}, kernels_{kernels}, flops_per_second_{flops_per_second}, work_{m} {}

  [[nodiscard]] hlo_instructions read();

 private:
  [[nodiscard]] static bool is_all_reduce(const hlo_instruction& i) {
    return i.is("all-reduce") || i.is("all-reduce-start");
  }
  [[nodiscard]] std::vector<fusion::instruction_operand> operands_of(const hlo_instruction& i, double reads) const;
  void add(hlo_instruction_id id);

  const hlo_computation& computation_;
  const fusion::kernel_model& kernels_;
  double flops_per_second_;
  hlo_work_table work_;
  hlo_instructions all_{};
  std::vector<std::vector<fusion::instruction_id>> made_of_{};  // per instruction of the computation
  std::vector<bool> leaves_{};
  std::map<std::vector<std::int64_t>, std::uint32_t> sizes_{};
};

UNITY_INLINE hlo_instructions hlo_reader_of_instructions::read() {
  const auto& c = computation_;
  leaves_.assign(c.instructions.size(), false);
  leaves_[c.root.index()] = true;
  for (auto i = c.instructions.size(); i-- > 0;) {
    const auto& x = c.instructions[i];
    const bool is_outside = leaves_[i] && role_of(x) == hlo_role::relabelling;
    for (const auto o : x.operands) {
      leaves_[o.index()] = leaves_[o.index()] || is_outside;
    }
  }
  made_of_.resize(c.instructions.size());
  for (std::size_t i = 0; i < c.instructions.size(); ++i) {
    add(hlo_instruction_id{i});
  }
  all_.graph.finish();
  return std::move(all_);
}

UNITY_INLINE std::vector<fusion::instruction_operand> hlo_reader_of_instructions::operands_of(const hlo_instruction& i,
                                                                                              double reads) const {
  std::vector<fusion::instruction_operand> all;
  double sum = 0;
  for (const auto o : i.operands) {
    const auto& roots = made_of_[o.index()];
    const auto each = byte_count(computation_[o].shape) / static_cast<double>(std::max<std::size_t>(roots.size(), 1));
    for (const auto r : roots) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const auto& x) { return x.from == r; });
      if (same == all.end()) {
        all.push_back({r, each});
        sum += each;
      } else if (same->bytes < each) {
        sum += each - same->bytes;
        same->bytes = each;
      }
    }
  }
  if (reads < sum && !all.empty()) {  // slices and lookups
    auto& largest =
        *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    largest.bytes = std::max(largest.bytes - (sum - reads), 0.0);
  }
  return all;
}

UNITY_INLINE void hlo_reader_of_instructions::add(hlo_instruction_id id) {
  const auto& x = computation_[id];
  const auto role = role_of(x);
  if (role == hlo_role::relabelling || x.is("all-reduce-done")) {
    auto& roots = made_of_[id.index()];
    for (const auto o : x.operands) {
      const auto& more = made_of_[o.index()];
      roots.insert(roots.end(), more.begin(), more.end());
    }
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    return;
  }
  const auto w = work_.of(computation_, x);
  fusion::instruction i;
  using roles = fusion::instruction_role;
  i.role = role == hlo_role::source ? roles::source
           : is_all_reduce(x)       ? roles::all_reduce
           : work_.is_fusible(x)    ? roles::fusible
                                    : roles::alone;
  i.kind = work_.class_of(x);
  i.leaves = leaves_[id.index()];
  i.flops = w.flops;
  i.arithmetic = w.flops / flops_per_second_ * 1e12;
  i.size = byte_count(x.shape);
  i.name = x.opcode;
  i.sizes = sizes_.try_emplace(x.shape.dimensions, static_cast<std::uint32_t>(sizes_.size())).first->second;
  i.duration = kernels_.time_of({i.arithmetic, w.reads, w.writes, 1});
  const auto operands = operands_of(x, w.reads);
  made_of_[id.index()] = {all_.graph.add(std::move(i), operands)};
  all_.of.push_back(id);
}

}  // namespace detail

UNITY_INLINE hlo_instructions instructions_of(const hlo_module& m, const fusion::kernel_model& kernels,
                                              double flops_per_second) {
  return detail::hlo_reader_of_instructions{m, kernels, flops_per_second}.read();
}

UNITY_INLINE fusion::kernel_limits hlo_limits() {
  fusion::kernel_limits l;
  l.may_follow_heads = false;
  l.may_follow_reductions = false;
  l.results_alike = true;
  return l;
}

UNITY_INLINE hlo_with_fusions with_fusions(const hlo_module& m, const hlo_instructions& all,
                                           const fusion::fusion_strategy& s) {
  hlo_with_fusions r{m, 0, s};
  const auto members = fusion::members_of(s);
  // Fusions come first, because they refer to instructions by position. Buckets follow: they are found by name.
  std::vector<hlo_fusion_group> groups;
  std::vector<std::uint32_t> numbers;
  std::vector<std::vector<hlo_instruction_id>> buckets;
  for (std::uint32_t k = 0; k < members.size(); ++k) {
    if (members[k].size() < 2) {
      continue;
    }
    if (all.graph.reduces(k)) {
      auto& bucket = buckets.emplace_back();
      for (const auto i : members[k]) {
        bucket.push_back(all.of[i]);
      }
    } else {
      auto& group = groups.emplace_back();
      numbers.push_back(k);
      for (const auto i : members[k]) {
        (s.group_of[i] == k ? group.members : group.copies).push_back(all.of[i]);
      }
    }
  }
  auto fused = fuse_what_xla_can(m, m.entry, groups);
  r.left_out = fused.left_out.size();
  for (const auto g : fused.left_out) {
    for (const auto i : members[numbers[g]]) {
      if (r.strategy.group_of[i] == numbers[g]) {
        r.strategy.group_of[i] = i;
      }
    }
    std::erase_if(r.strategy.copies, [&](const auto& c) { return c.group == numbers[g]; });
  }
  r.module = std::move(fused.module);
  // All-reduces keep their names.
  const auto named = [&](hlo_instruction_id i) {
    const auto& name = m[m.entry][i].name;
    const auto& now = r.module[r.module.entry].instructions;
    const auto at = std::find_if(now.begin(), now.end(), [&](const auto& x) { return x.name == name; });
    UNITY_EXPECTS(at != now.end(), "an all-reduce that is not a part of a fusion");
    return hlo_instruction_id{static_cast<std::size_t>(at - now.begin())};
  };
  for (auto& b : buckets) {
    std::vector<hlo_instruction_id> now;
    for (const auto i : b) {
      now.push_back(named(i));
    }
    try {
      r.module = combine_all_reduces(r.module, r.module.entry, {now});
    } catch (const error&) {
      for (const auto i : b) {  // the members disagree, for example in element type: they stay separate
        const auto at = std::find(all.of.begin(), all.of.end(), i) - all.of.begin();
        r.strategy.group_of[static_cast<std::size_t>(at)] = static_cast<std::uint32_t>(at);
      }
    }
  }
  return r;
}

}  // namespace unity::io

#endif
