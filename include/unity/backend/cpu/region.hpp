// Regions as one kernel: runs their operators on one slice of rows after another, while it is in cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include <unity/backend/cpu/composite.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/detail/region_plan.hpp>
#include <unity/fusion/kernel_region.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

struct region_options {
  int threads = 1;
  std::size_t slice_bytes = 1 << 20;
};

namespace detail {

// Whether a chain of element-wise operators can compute the region: values of one size, no sums over rows.
[[nodiscard]] bool is_chain(const tensor::algebra& a, const tensor::tensor_graph& region);

}  // namespace detail

// Slices are assigned to threads in contiguous ranges; each is computed by one thread, in its own workspace. Sums over
// rows are formed in fixed blocks of slices, which are then added in order: results do not depend on the number of
// threads. Operands without rows are packed once per run, in the form that the routines of slices use.
class region_routine final : public routine {
 public:
  // Returns a function that makes the routine of an operator on `threads` threads. Routines of one such function do not
  // run concurrently with each other; those of different ones may, as each thread has its own for slices.
  using make_maker = std::function<composite_routine::prepare_node(int threads)>;

  // Throws: unity::error like region_plan, and if the maker does.
  region_routine(const tensor::algebra& a, const fusion::kernel_region& region, const region_options& options,
                 const make_maker& maker);

  [[nodiscard]] std::size_t workspace() const override { return workspace_; }
  void run(const call& c) const override;

 private:
  struct address {
    enum class region : std::uint8_t { input, output, work };
    region where = region::work;
    std::size_t at = 0;  // its number, or the offset in the workspace
  };
  struct operand {
    address from{};
    std::size_t row = 0;     // bytes; 0: not sliced
    std::size_t packed = 0;  // bytes of the packed form, at `packed_at` in the workspace; 0: not packed
    std::size_t packed_at = 0;
  };
  struct result {
    address to{};
    std::size_t row = 0;   // bytes; 0: summed over rows
    std::size_t fold = 0;  // index of the fold
  };
  // Routines for slices of one size, one per thread.
  struct slice_size {
    std::int64_t rows = 0;
    std::vector<std::unique_ptr<composite_routine>> routines{};
    std::vector<operand> operands{};
    std::vector<result> results{};
    std::vector<double> shares{};  // per fold
  };
  struct fold {
    tensor::reduction reduction = tensor::reduction::sum;
    tensor::dtype element = tensor::dtype::float32;
    std::int64_t count = 0;  // elements
    address to{};
    std::size_t partial_at = 0;  // of a slice, offset in the workspace of a thread
    std::size_t totals_at = 0;   // of all blocks, offset in the workspace: doubles
  };
  struct thread_state {
    std::vector<const std::byte*> in{};
    std::vector<std::byte*> out{};
    std::exception_ptr failure{};
  };

  [[nodiscard]] std::size_t reserve(std::size_t size);
  void prepare_before(const tensor::algebra& a, const backend::detail::region_plan& plan, const make_maker& maker);
  void prepare_slices(const tensor::algebra& a, const backend::detail::region_plan& plan, const make_maker& maker);
  void add_size(const tensor::algebra& a, const backend::detail::region_plan& plan, std::int64_t rows,
                const std::vector<composite_routine::prepare_node>& makers);
  void find_folds(const backend::detail::region_plan& plan);

  void run_before(const call& c) const;
  void pack_operands(const call& c) const;
  void run_blocks(const call& c, int thread, std::int64_t begin, std::int64_t end) const;
  void run_slice(const call& c, int thread, std::int64_t slice) const;
  void add_up(const call& c, int thread, std::int64_t block, std::int64_t slice, bool is_first) const;
  void join(const call& c) const;

  [[nodiscard]] std::int64_t first_slice(std::int64_t block) const { return slices_ * block / blocks_; }
  [[nodiscard]] const slice_size& size_of_slice(std::int64_t slice) const {
    return sizes_[slice + 1 == slices_ ? sizes_.size() - 1 : 0];
  }
  [[nodiscard]] static std::byte* write_address(const call& c, address at) {
    return at.where == address::region::output ? c.outputs[at.at] : c.work + at.at;
  }
  [[nodiscard]] static const std::byte* read_address(const call& c, address at) {
    return at.where == address::region::input ? c.inputs[at.at] : write_address(c, at);
  }

  int threads_;
  std::size_t slice_bytes_;
  std::unique_ptr<composite_routine> before_;
  std::vector<std::size_t> before_inputs_;
  std::vector<address> before_results_;
  std::size_t before_work_at_ = 0;
  mutable std::vector<const std::byte*> before_in_;
  mutable std::vector<std::byte*> before_out_;
  std::vector<address> addresses_;  // by value that steps read or write
  std::vector<slice_size> sizes_;   // for all slices but the last, and for the last one if it differs
  std::vector<fold> folds_;
  std::int64_t slices_ = 0;
  std::int64_t blocks_ = 0;
  std::size_t thread_at_ = 0;  // offset of the workspaces of threads
  std::size_t thread_size_ = 0;
  std::size_t workspace_ = 0;
  mutable std::vector<thread_state> states_;
};

// The routine of a region: tiles if it is a chain. Throws: unity::error if the region has no outputs, and like
// region_routine.
[[nodiscard]] std::unique_ptr<routine> make_region(const tensor::algebra& a, const fusion::kernel_region& region,
                                                   const region_options& options,
                                                   const region_routine::make_maker& maker);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_REGION)

#include <algorithm>
#include <array>
#include <utility>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/elementwise.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/host_values.hpp>
#include <unity/backend/layouts.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>

namespace unity::backend::cpu::detail {

UNITY_INLINE bool is_chain(const tensor::algebra& a, const tensor::tensor_graph& region) {
  const auto input = a.kind("input");
  const auto& joint = region.type(region.outputs()[0]);
  bool fits = true;
  for (const auto n : node_ids(region)) {
    const auto types = backend::types_of(region, region.operands(n));
    fits = fits && (region.operation(n).kind == input ||
                    backend::detail::elementwise_program(a, region.operation(n), types).has_value());
  }
  for (const auto v : region.outputs()) {
    fits = fits && region.type(v).dims == joint.dims && region.type(v).order == joint.order;
  }
  return fits;
}

// The number of rows per slice: at most as many as fit in `bytes`, and if possible at most an eighth of all rows, so
// that several threads have slices, but not much smaller than what fits (at least an eighth of it). Prefers a divisor
// of `rows` if one is close (above half).
[[nodiscard]] inline std::int64_t rows_per_slice(std::int64_t rows, std::size_t bytes_per_row, std::size_t bytes) {
  const auto row = std::max<std::int64_t>(static_cast<std::int64_t>(bytes_per_row), 1);
  const auto fitting = static_cast<std::int64_t>(bytes) / row;
  const auto wanted =
      std::clamp<std::int64_t>(std::max(rows / 8, fitting / 8), 1, std::clamp<std::int64_t>(fitting, 1, rows));
  for (auto n = wanted; 2 * n > wanted; --n) {
    if (rows % n == 0) {
      return n;
    }
  }
  return wanted;
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> make_region(const tensor::algebra& a, const fusion::kernel_region& region,
                                                  const region_options& options,
                                                  const region_routine::make_maker& maker) {
  if (region.graph.outputs().empty()) {
    throw error{"region", "no outputs", "one at least"};
  }
  if (detail::is_chain(a, region.graph)) {
    return chain_routine(a, region.graph, options.threads);
  }
  const fusion::kernel_region turned{with_turned_operands(a, region.graph), region.is_divided, region.rows};
  return std::make_unique<region_routine>(a, turned, options, maker);
}

UNITY_INLINE region_routine::region_routine(const tensor::algebra& a, const fusion::kernel_region& region,
                                            const region_options& options, const make_maker& maker)
    : threads_{options.threads}, slice_bytes_{options.slice_bytes} {
  const backend::detail::region_plan plan{a, region};
  addresses_.resize(plan.graph().value_count());
  for (std::size_t i = 0; i < plan.inputs().size(); ++i) {
    addresses_[plan.inputs()[i].index()] = {address::region::input, i};
  }
  prepare_before(a, plan, maker);
  if (plan.rows() > 1) {
    prepare_slices(a, plan, maker);
  }
}

UNITY_INLINE std::size_t region_routine::reserve(std::size_t size) {
  const auto at = workspace_;
  workspace_ += backend::detail::aligned_size(size);
  return at;
}

UNITY_INLINE void region_routine::prepare_before(const tensor::algebra& a, const backend::detail::region_plan& plan,
                                                 const make_maker& maker) {
  const auto piece = plan.before();
  std::size_t output = 0;
  for (std::size_t r = 0; r < piece.results.size(); ++r) {
    const auto v = piece.results[r];
    const auto outputs = plan.graph().outputs();
    while (output < outputs.size() && plan.is_made_by_rows(outputs[output])) {
      ++output;
    }
    const auto at = output < outputs.size() ? address{address::region::output, output++}
                                            : address{address::region::work, reserve(byte_count(plan.graph().type(v)))};
    before_results_.push_back(at);
    if (auto& known = addresses_[v.index()]; known.where != address::region::input) {
      known = at;
    }
  }
  if (piece.results.empty()) {
    return;
  }
  std::vector<tensor::tensor_type> inputs;
  for (const auto& o : piece.operands) {
    inputs.push_back(plan.graph().type(o.value));
    before_inputs_.push_back(addresses_[o.value.index()].at);
  }
  const auto graph = with_turned_operands(a, with_joined_transposes(a, piece.graph));
  before_ = std::make_unique<composite_routine>(a, graph, inputs, backend::types_of(graph, graph.outputs()), threads_,
                                                maker(threads_));
  before_work_at_ = reserve(before_->workspace());
  before_in_.resize(before_inputs_.size());
  before_out_.resize(before_results_.size());
}

UNITY_INLINE void region_routine::find_folds(const backend::detail::region_plan& plan) {
  const auto outputs = plan.graph().outputs();
  std::size_t of_one = 1;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto reduction = plan.fold(outputs[o]);
    if (reduction != tensor::reduction::none) {
      const auto& t = plan.graph().type(outputs[o]);
      folds_.push_back({reduction, t.element, tensor::element_count(t.dims), {address::region::output, o}, 0, 0});
      of_one += static_cast<std::size_t>(folds_.back().count) * sizeof(double);
    }
  }
  constexpr std::size_t most_bytes = std::size_t{64} << 20U;
  const auto most = static_cast<std::int64_t>(std::clamp<std::size_t>(most_bytes / of_one, 4, 64));
  blocks_ = folds_.empty() ? slices_ : std::min(slices_, most);
  for (auto& f : folds_) {
    f.totals_at = reserve(static_cast<std::size_t>(f.count * blocks_) * sizeof(double));
  }
}

UNITY_INLINE void region_routine::prepare_slices(const tensor::algebra& a, const backend::detail::region_plan& plan,
                                                 const make_maker& maker) {
  const auto rows = plan.rows();
  const auto of_slice = detail::rows_per_slice(rows, plan.bytes_per_row(), slice_bytes_);
  slices_ = (rows + of_slice - 1) / of_slice;
  find_folds(plan);
  const auto threads = static_cast<std::size_t>(std::min<std::int64_t>(threads_, blocks_));
  use_threads(1);
  std::vector<composite_routine::prepare_node> makers;
  while (makers.size() < threads) {
    makers.push_back(maker(1));
  }
  add_size(a, plan, of_slice, makers);
  if (rows % of_slice != 0) {
    add_size(a, plan, rows % of_slice, makers);
  }
  use_threads(threads_);
  states_.resize(threads);
  for (auto& s : states_) {
    s.in.resize(sizes_[0].operands.size());
    s.out.resize(sizes_[0].results.size());
  }
  std::size_t work = 0;
  for (const auto& s : sizes_) {
    work = std::max(work, s.routines[0]->workspace());
  }
  thread_size_ = backend::detail::aligned_size(work);
  for (auto& f : folds_) {
    f.partial_at = thread_size_;
    thread_size_ += backend::detail::aligned_size(static_cast<std::size_t>(f.count * tensor::size_of(f.element)));
  }
  thread_at_ = reserve(thread_size_ * threads);
}

UNITY_INLINE void region_routine::add_size(const tensor::algebra& a, const backend::detail::region_plan& plan,
                                           std::int64_t rows,
                                           const std::vector<composite_routine::prepare_node>& makers) {
  const auto piece = plan.on_rows(rows);
  const auto& g = plan.graph();
  const auto row_of = [&](value_id v) { return byte_count(g.type(v)) / static_cast<std::size_t>(plan.rows()); };
  slice_size s;
  s.rows = rows;
  std::vector<tensor::tensor_type> inputs;
  for (std::size_t i = 0; i < piece.operands.size(); ++i) {
    const auto& [v, by_rows] = piece.operands[i];
    inputs.push_back(piece.graph.type(value_id{i}));
    inputs.back().constant = !by_rows;
    s.operands.push_back({addresses_[v.index()], by_rows ? row_of(v) : 0, 0, 0});
  }
  std::size_t next = 0;
  for (const auto v : piece.results) {
    const bool folds = plan.fold(v) != tensor::reduction::none;
    while (!plan.is_made_by_rows(g.outputs()[next])) {
      ++next;
    }
    s.results.push_back({{address::region::output, next++}, folds ? 0 : row_of(v), s.shares.size()});
    if (folds) {
      s.shares.push_back(plan.fold(v) == tensor::reduction::sum ? plan.share(v, rows) : 1.0);
    }
  }
  const auto graph = with_turned_operands(a, with_joined_transposes(a, piece.graph));
  for (const auto& maker : makers) {
    s.routines.push_back(
        std::make_unique<composite_routine>(a, graph, inputs, backend::types_of(graph, graph.outputs()), 1, maker));
  }
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    auto& o = s.operands[i];
    o.packed = o.row == 0 ? s.routines[0]->packed_size(i) : 0;
    o.packed_at = reserve(o.packed);
  }
  sizes_.push_back(std::move(s));
}

UNITY_INLINE void region_routine::run(const call& c) const {
  if (before_) {
    run_before(c);
  }
  if (slices_ == 0) {
    return;
  }
  use_threads(1);
  pack_operands(c);
  const auto threads = std::min(c.threads, static_cast<int>(states_.size()));
  parallel_for(threads, blocks_, 1, [&](int thread, std::int64_t begin, std::int64_t end) {
    auto& failure = states_[static_cast<std::size_t>(thread)].failure;
    failure = nullptr;
    try {
      run_blocks(c, thread, begin, end);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  use_threads(c.threads);
  for (const auto& s : states_) {
    if (s.failure) {
      std::rethrow_exception(s.failure);
    }
  }
  join(c);
}

UNITY_INLINE void region_routine::run_before(const call& c) const {
  for (std::size_t i = 0; i < before_inputs_.size(); ++i) {
    before_in_[i] = c.inputs[before_inputs_[i]];
  }
  for (std::size_t i = 0; i < before_results_.size(); ++i) {
    before_out_[i] = write_address(c, before_results_[i]);
  }
  before_->run({before_in_, before_out_, c.work + before_work_at_, c.threads});
}

UNITY_INLINE void region_routine::pack_operands(const call& c) const {
  for (const auto& s : sizes_) {
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      const auto& o = s.operands[i];
      if (o.packed > 0) {
        s.routines[0]->pack(i, read_address(c, o.from), c.work + o.packed_at);
      }
    }
  }
}

UNITY_INLINE void region_routine::run_blocks(const call& c, int thread, std::int64_t begin, std::int64_t end) const {
  for (auto block = begin; block < end; ++block) {
    for (auto slice = first_slice(block); slice < first_slice(block + 1); ++slice) {
      run_slice(c, thread, slice);
      add_up(c, thread, block, slice, slice == first_slice(block));
    }
  }
}

UNITY_INLINE void region_routine::run_slice(const call& c, int thread, std::int64_t slice) const {
  const auto t = static_cast<std::size_t>(thread);
  const auto& size = size_of_slice(slice);
  const auto first = static_cast<std::size_t>(slice * sizes_[0].rows);
  auto* work = c.work + thread_at_ + t * thread_size_;
  auto& [in, out, failure] = states_[t];
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto& o = size.operands[i];
    in[i] = o.packed > 0 ? c.work + o.packed_at : read_address(c, o.from) + first * o.row;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto& r = size.results[i];
    out[i] = r.row > 0 ? write_address(c, r.to) + first * r.row : work + folds_[r.fold].partial_at;
  }
  size.routines[t]->run({in, out, work, 1});
}

UNITY_INLINE void region_routine::add_up(const call& c, int thread, std::int64_t block, std::int64_t slice,
                                         bool is_first) const {
  constexpr std::int64_t chunk = 512;
  std::array<double, static_cast<std::size_t>(chunk)> values;
  const auto* work = c.work + thread_at_ + static_cast<std::size_t>(thread) * thread_size_;
  for (std::size_t k = 0; k < folds_.size(); ++k) {
    const auto& f = folds_[k];
    const auto share = size_of_slice(slice).shares[k];
    auto* totals = reinterpret_cast<double*>(c.work + f.totals_at) + block * f.count;
    for (std::int64_t at = 0; at < f.count; at += chunk) {
      const auto n = std::min(chunk, f.count - at);
      auto* to = totals + at;
      load_elements(f.element, values.data(), work + f.partial_at, at, n, 1);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto value = values[static_cast<std::size_t>(i)] * share;
        to[i] = is_first ? value : f.reduction == tensor::reduction::sum ? to[i] + value : std::max(to[i], value);
      }
    }
  }
}

UNITY_INLINE void region_routine::join(const call& c) const {
  for (const auto& f : folds_) {
    auto* totals = reinterpret_cast<double*>(c.work + f.totals_at);
    constexpr std::int64_t least_elements = 16384;
    parallel_for(c.threads, f.count, least_elements, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = 1; block < blocks_; ++block) {
        const auto* more = totals + block * f.count;
        for (auto i = begin; i < end; ++i) {
          totals[i] = f.reduction == tensor::reduction::sum ? totals[i] + more[i] : std::max(totals[i], more[i]);
        }
      }
      store_elements(f.element, write_address(c, f.to), begin, totals + begin, end - begin);
    });
  }
}

}  // namespace unity::backend::cpu

#endif
