// Saves a search to a file and resumes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/archive.hpp>
#include <unity/search/best_first.hpp>
#include <unity/search/search_space.hpp>

namespace unity::detail {

// A checkpoint records which moves were applied in which order, not states: applying them again gives the same states
// and ids, which depend on nothing else.
template <search_space Space, class Admit>
void best_first<Space, Admit>::save() {
  archive_writer out;
  const auto& start = *records_[0].at;
  out.put(identity(start));
  out.put(space_.cost(start));
  out.put(static_cast<std::uint64_t>(space_.moves(start).size()));
  out.put(static_cast<std::uint64_t>(records_.size()));
  for (const auto& r : records_) {
    out.put(r.parent);
    out.put(r.by);
    out.put(static_cast<std::uint8_t>(r.at.has_value()));
    out.put(r.at ? space_.fingerprint_of(*r.at) : fingerprint{});
  }
  for (const auto& s : sleep_) {
    out.put(s.prices);
    out.put(s.asleep);
  }
  out.put(queue_.entries());
  for (const auto* set : {&seen_, &expanded_}) {
    out.put(static_cast<std::uint64_t>(set->size()));
    set->for_each([&](fingerprint f) { out.put(f); });
  }
  out.put(best_);
  out.put(best_parent_);
  out.put(best_move_);
  out.put(orders_);
  out.put(history_);
  out.put(counts_);
  out.put(elapsed());
  out.save(options_.checkpoint, "unity search 1\n");
  last_checkpoint_ = elapsed();
}

template <search_space Space, class Admit>
void best_first<Space, Admit>::restore(const std::string& path) {
  archive_reader in{path, "unity search 1\n"};
  restore_start(in);
  restore_records(in);
  restore_sleepers(in);
  restore_candidates(in);
  restore_best(in);
  in.get(counts_);
  double seconds = 0;
  in.get(seconds);
  clock_.resume_from(seconds);
  last_checkpoint_ = seconds;
}

template <search_space Space, class Admit>
void best_first<Space, Admit>::restore_start(archive_reader& in) {
  add_record({none, {}, space_.initial()});
  const auto& start = *records_[0].at;
  fingerprint f;
  cost_value cost = 0;
  std::uint64_t moves = 0;
  in.get(f);
  in.get(cost);
  in.get(moves);
  if (f != identity(start) || cost != space_.cost(start) || moves != space_.moves(start).size()) {
    in.fail("a search of another graph, other rules or another cost");
  }
}

template <search_space Space, class Admit>
void best_first<Space, Admit>::restore_records(archive_reader& in) {
  std::uint64_t count = 0;
  in.get(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    record r;
    std::uint8_t holds_state = 0;
    fingerprint f;
    in.get(r.parent);
    in.get(r.by);
    in.get(holds_state);
    in.get(f);
    if (i == 0) {
      continue;  // the start
    }
    r.at = replay(r, in);
    if (holds_state == 0) {
      r.at.reset();
    } else if (f != space_.fingerprint_of(*r.at)) {
      in.fail("a state that its moves do not lead to");
    }
    state_memory_ += r.at ? memory_of(*r.at) : 0;
    add_record(std::move(r));
  }
}

template <search_space Space, class Admit>
typename best_first<Space, Admit>::state best_first<Space, Admit>::replay(const record& r, const archive_reader& in) {
  if (r.parent >= records_.size() || !records_[r.parent].at) {
    in.fail("a state before its parent");
  }
  const auto& parent = *records_[r.parent].at;
  const std::span<const move> moves = space_.moves(parent);
  if (std::find(moves.begin(), moves.end(), r.by) == moves.end()) {
    in.fail("a move that its state does not have");
  }
  space_.prepare(parent, parent_scratch_);
  if (!space_.price(parent, r.by, parent_scratch_)) {
    in.fail("a move that does not apply");
  }
  return materialize(r.parent, r.by);
}

template <search_space Space, class Admit>
void best_first<Space, Admit>::restore_sleepers(archive_reader& in) {
  for (std::size_t i = 0; i < sleep_.size(); ++i) {
    auto& s = sleep_[i];
    in.get(s.prices);
    in.get(s.asleep);
    const auto moved = records_[i].at ? std::span{space_.moves(*records_[i].at)}.size() : 0;
    const bool fits = (s.prices.empty() || s.prices.size() == moved) && (s.asleep.empty() || s.asleep.size() == moved);
    if (!fits) {
      in.fail("prices of another number of moves");
    }
    state_memory_ += s.prices.size() * (sizeof(cost_value) + 1);
  }
}

template <search_space Space, class Admit>
void best_first<Space, Admit>::restore_candidates(archive_reader& in) {
  std::vector<entry> entries;
  in.get(entries);
  for (const auto& e : entries) {
    if (!has_move(e.parent, e.by)) {
      in.fail("a candidate that no state has");
    }
    queue_.push(e);
  }
  for (auto* set : {&seen_, &expanded_}) {
    std::uint64_t size = 0;
    in.get(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      fingerprint f;
      in.get(f);
      set->insert(f);
    }
  }
}

template <search_space Space, class Admit>
void best_first<Space, Admit>::restore_best(archive_reader& in) {
  in.get(best_);
  in.get(best_parent_);
  in.get(best_move_);
  if (best_parent_ != none && !has_move(best_parent_, best_move_)) {
    in.fail("a best state that no move leads to");
  }
  in.get(orders_);
  in.get(history_);
  if (history_.empty()) {
    in.fail("no history");
  }
}

}  // namespace unity::detail
