// Synchronizes a weight's gradient over the devices that hold it, and updates the weight. Over 500 lines because
// reductions, servers and shards write one fragment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tensor/operators/selection.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::parallel {

// The rows of a table that a lookup reads in a micro-batch, as it sends their gradient.
struct lookup_rows {
  tensor::tensor_type ids{};  // [n], or [n, k] for sums of k rows
  bytes size{};               // of indices and rows
};

// A task that reads part of a weight, and contributes a gradient of it on its device unless `task` has the null
// fragment.
struct weight_reader {
  tasks::task_ref task{};
  hardware::device_id on{};
  tasks::task_ref reads{};    // the task in the forward pass
  lookup_rows rows{};         // for a lookup
  bool is_read_back = false;  // also by the backward pass
};

using tasks_by_devices = std::map<std::vector<hardware::device_id>, tasks::task_ref>;

// A part of a weight, its readers, and which devices hold which elements of it.
struct weight_part_readers {
  replicas held{};
  std::vector<weight_reader> readers{};
  bool fetches_rows = false;     // readers look up rows on the part's server (row_fetching.hpp)
  tasks_by_devices scattered{};  // for divided gradients: the tasks after which devices have their shares
};

// The task after which devices have the sum of a bucket. Ordered by bucket, then devices.
using bucket_key = std::pair<std::uint32_t, std::vector<hardware::device_id>>;
using bucket_ends = std::map<bucket_key, tasks::task_ref>;

namespace detail {

// The readers that contribute a gradient of a part.
class part_givers {
 public:
  // Complexity: linear in the readers.
  explicit part_givers(const weight_part_readers& part);

  [[nodiscard]] bool any() const noexcept { return any_; }
  // The contributing readers of any of the group's boxes, in order. Complexity: linear in them, besides sorting.
  [[nodiscard]] std::vector<weight_reader> of(const replica_group& g) const;

 private:
  const weight_part_readers& part_;
  std::vector<std::vector<std::uint32_t>> by_box_;
  bool any_ = false;
};

// The dimensions of what the group's devices sum separately. Ranks sum each cell (weight_cells.hpp); that matters only
// if messages depend on the shape. Complexity: linear for others; with power_sgd, cells times readers.
[[nodiscard]] std::vector<tensor::shape> pieces_of(const weight_part_readers& part, const replica_group& g,
                                                   const compressor& c);

// Network: parallel::network, or one that contains only some of the devices.
template <class Network>
class weight_synchronization {
 public:
  // microbatches: how many give their rows of a table before the gradient of indices and rows is sent.
  weight_synchronization(Network& n, const task_times& times, const tensor::tensor_type& type,
                         const bucket_ends* buckets = nullptr, std::int64_t microbatches = 1)
      : network_{n},
        times_{times},
        type_{type},
        buckets_{buckets},
        microbatches_{microbatches},
        on_(n.device_count()) {}

  void add(const weight_part_readers& part, const synchronizer& sync) {
    const part_givers givers{part};
    for (const auto& g : part.held.groups) {
      for (std::size_t i = 0; i < g.devices.size(); ++i) {
        if (!part.fetches_rows || g.devices[i] == sync.destination) {  // other readers keep nothing of such a table
          on_[g.devices[i].index()].held += divides_weight(sync) ? share_of(g, i) : g.elements;
        }
      }
      if (givers.any()) {
        add(part, g, givers.of(g), sync);
      }
      if (sync.kind == sync_kind::parameter_server && !sync.is_proxied && !part.fetches_rows) {
        fetch(part, g, sync);
      }
    }
    if (part.fetches_rows) {
      fetch_rows(part, sync.destination);
    }
  }
  [[nodiscard]] tasks::fragment finish() && {
    for (std::size_t d = 0; d < on_.size(); ++d) {
      if (on_[d].held + on_[d].updated > 0 && network_.has(hardware::device_id{d})) {
        update(hardware::device_id{d});
      }
    }
    for (const auto& g : gathered_) {
      gather(g);
    }
    for (const auto& h : handed_out_) {
      const tasks::task_ref updated{{}, on_[h.from.index()].update};
      hand_out(h, {&updated, 1}, [&](hardware::device_id d, const tasks::task_ref& there) { arrive(d, there); });
    }
    return std::move(fragment_);
  }

 private:
  struct device_state {
    std::int64_t held = 0;                    // elements
    std::int64_t gradient = 0;                // elements whose gradient it has
    std::int64_t updated = 0;                 // elements that it updates
    std::vector<tasks::task_ref> before{};    // tasks that its update waits for
    std::uint32_t update = none;
  };
  struct gathered_group {
    std::vector<hardware::device_id> devices{};
    bytes size{};
  };
  struct gathered_rows {
    tensor::tensor_type ids{};
    tasks::task_ref end{};
  };
  struct handed_out_group {
    hardware::device_id from{};
    std::vector<hardware::device_id> to{};
    std::vector<hardware::device_id> stations{};  // by receiver
    bytes size{};
  };

  [[nodiscard]] bytes size_of(std::int64_t elements) const {
    return bytes{elements * static_cast<std::int64_t>(tensor::size_of(type_.element))};
  }
  [[nodiscard]] tasks::task_ref add(hardware::exchange kind, std::span<const hardware::device_id> devices, bytes size,
                                    std::span<const tasks::task_ref> before) {
    return add_collective(network_, fragment_, kind, devices, size, before);
  }
  void add(const weight_part_readers& part, const replica_group& g, std::span<const weight_reader> givers,
           const synchronizer& sync) {
    const bool is_served = sync.kind == sync_kind::parameter_server;
    for (std::size_t i = 0; i < g.devices.size(); ++i) {
      auto& own = on_[g.devices[i].index()];
      if (!is_served || !sync.is_sparse || g.devices[i] == sync.destination) {  // others send indices and rows
        own.gradient += divides_gradient(sync) ? share_of(g, i) : g.elements;
      }
      own.updated += is_served ? 0 : sync.kind == sync_kind::sharded ? share_of(g, i) : g.elements;
    }
    if (is_served) {
      send_to_server(part, g, givers, sync);
      return;
    }
    if (sync.is_sparse) {
      if (!givers.empty()) {
        gather_rows(part, g, givers);
      }
      return;
    }
    const auto count = static_cast<std::int64_t>(g.devices.size());
    const bool is_shared = count > 1;
    std::vector<tasks::task_ref> contributions;
    for (const auto& r : givers) {
      contributions.push_back(r.task);
    }
    if (is_shared && sync.kind == sync_kind::none) {
      for (const auto& r : givers) {
        on_[r.on.index()].before.push_back(r.task);
      }
      return;
    }
    if (is_shared && divides_gradient(sync)) {
      contributions.assign(1, part.scattered.at(g.devices));
    } else if (is_shared && sync.kind == sync_kind::sharded) {
      contributions.assign(1, add(hardware::exchange::reduce_scatter, g.devices, size_of(g.elements), contributions));
    } else if (is_shared && sync.bucket != synchronizer::no_bucket) {
      contributions.assign(1, buckets_->at({sync.bucket, g.devices}));
    } else if (is_shared && sync.compressor.kind == compression::top_k) {
      const auto number = tensor::size_of(tensor::operators::number_type(g.elements));
      const auto each = sent_elements(sync.compressor, g.elements) * (number + tensor::size_of(type_.element));
      contributions.assign(1, add(hardware::exchange::all_gather, g.devices, bytes{each * count}, contributions));
    } else if (is_shared) {
      std::vector<tasks::task_ref> sums;
      for (const auto& piece : pieces_of(part, g, sync.compressor)) {
        auto before = contributions;
        for (const auto size : message_sizes(sync.compressor, type_.element, piece)) {  // one sum after another
          before.assign(1, add(hardware::exchange::all_reduce, g.devices, size, before));
        }
        sums.insert(sums.end(), before.begin(), before.end());
      }
      contributions = std::move(sums);
    }
    if (is_shared && sync.kind == sync_kind::sharded && !divides_weight(sync)) {
      gathered_.push_back({g.devices, size_of(g.elements)});
    }
    for (const auto d : g.devices) {
      auto& waits = on_[d.index()].before;
      waits.insert(waits.end(), contributions.begin(), contributions.end());
    }
  }
  // The rows that a device contributes in an iteration, over all its lookups and micro-batches.
  [[nodiscard]] lookup_rows rows_on(std::span<const weight_reader> givers, hardware::device_id d) const {
    lookup_rows all;
    for (const auto& r : givers) {
      if (r.on == d) {
        add_rows(r.rows.ids, microbatches_, all.ids);
        all.size += bytes{r.rows.size.count() * microbatches_};
      }
    }
    return all;
  }
  static void add_rows(const tensor::tensor_type& ids, std::int64_t times, tensor::tensor_type& all) {
    const auto before = all.dims.empty() ? 0 : all.dims[0];
    all = ids;
    all.dims[0] = before + ids.dims[0] * times;
  }
  // Gathers rows, once for all parts of the weight. Devices with fewer rows pad to the largest number. Each device
  // makes the gradient of the part from all rows.
  void gather_rows(const weight_part_readers& part, const replica_group& g, std::span<const weight_reader> givers) {
    const auto [at, is_new] = gathered_rows_.try_emplace(g.devices);
    auto& rows = at->second;
    if (is_new) {
      const auto count = static_cast<std::int64_t>(g.devices.size());
      bytes most{};
      std::vector<tasks::task_ref> before;
      for (const auto d : g.devices) {
        const auto own = rows_on(givers, d);
        rows.ids = own.size > most ? own.ids : rows.ids;
        most = std::max(most, own.size);
      }
      for (const auto& r : givers) {
        before.push_back(r.task);
      }
      rows.ids.dims[0] *= count;
      rows.end = count > 1 ? add(hardware::exchange::all_gather, g.devices, bytes{most.count() * count}, before)
                           : add_meeting(fragment_, before, g.devices.front().index());
    }
    const auto table = rows_of(part.held, g);
    for (const auto d : g.devices) {
      if (network_.has(d)) {
        on_[d.index()].before.push_back(add_row_gradient(table, rows.ids, d, {&rows.end, 1}));
      }
    }
  }
  void send_to_server(const weight_part_readers& part, const replica_group& g, std::span<const weight_reader> givers,
                      const synchronizer& sync) {
    const auto server = sync.destination;
    auto& own = on_[server.index()];
    own.updated += g.elements;
    if (!std::binary_search(g.devices.begin(), g.devices.end(), server)) {
      own.held += g.elements;
      own.gradient += g.elements;
    }
    const auto stations = stations_of(g.devices, server, sync.is_per_node && !sync.is_sparse);
    std::map<hardware::device_id, std::vector<tasks::task_ref>> there;  // by station: the tasks whose sum it sends
    for (std::size_t i = 0; i < g.devices.size(); ++i) {
      const auto d = g.devices[i];
      std::vector<tasks::task_ref> given;
      for (const auto& r : givers) {
        if (r.on == d) {
          given.push_back(r.task);
        }
      }
      if (!given.empty() && stations[i] != d && d != server) {
        given.assign(1, send(d, stations[i], size_of(g.elements), given));
      }
      auto& all = there[stations[i]];
      all.insert(all.end(), given.begin(), given.end());
    }
    std::vector<tasks::task_ref> arrived;
    for (const auto& [d, given] : there) {
      if (given.empty() || d == server) {
        arrived.insert(arrived.end(), given.begin(), given.end());
        continue;
      }
      const auto [sent, is_new] = sent_rows_.try_emplace({d, server});
      if (is_new || !sync.is_sparse) {  // rows are sent to a server once for all of its parts
        sent->second = send(d, server, sync.is_sparse ? rows_on(givers, d).size : size_of(g.elements), given);
      }
      arrived.push_back(sent->second);
    }
    if (sync.is_sparse && !givers.empty()) {
      tensor::tensor_type ids;
      for (const auto& r : givers) {
        add_rows(r.rows.ids, microbatches_, ids);
      }
      arrived.assign(1, add_row_gradient(rows_of(part.held, g), ids, server, arrived));
    }
    own.before.insert(own.before.end(), arrived.begin(), arrived.end());
    if (sync.is_proxied) {
      handed_out_.push_back({server, g.devices, stations_of(g.devices, server, sync.is_per_node && sync.staleness == 0),
                             size_of(g.elements)});
    }
  }
  // The station of each device: the device itself, or the one that merges its node's messages.
  [[nodiscard]] std::vector<hardware::device_id> stations_of(const std::vector<hardware::device_id>& devices,
                                                             hardware::device_id server, bool is_per_node) const {
    return is_per_node ? parallel::stations_of(devices, server, network_.topology()) : devices;
  }
  [[nodiscard]] auto send(hardware::device_id from, hardware::device_id to, bytes size,
                          std::span<const tasks::task_ref> before) {
    return add_transfer(fragment_, network_.hops(from, to, size), size, from.index(), before);
  }
  // The elements of a group as rows of a table.
  [[nodiscard]] tensor::tensor_type rows_of(const replicas& held, const replica_group& g) const {
    const auto& read = held.boxes[g.boxes.front()];
    const auto columns = read.volume() / (read.end[0] - read.begin[0]);
    tensor::tensor_type rows;
    rows.element = type_.element;
    rows.dims = {std::max<std::int64_t>(g.elements / columns, 1), columns};
    return rows;
  }
  // A device makes the gradient of rows of a table from the indices and rows that it has.
  [[nodiscard]] tasks::task_ref add_row_gradient(const tensor::tensor_type& table, const tensor::tensor_type& ids,
                                                 hardware::device_id d, std::span<const tasks::task_ref> before) {
    return add_on(d, times_.lookup_gradient(table, ids, network_.model(d)), tasks::task_kind::weight_gradient, before);
  }
  [[nodiscard]] tasks::task_ref add_on(hardware::device_id d, picoseconds takes, tasks::task_kind kind,
                                       std::span<const tasks::task_ref> before) {
    const tasks::task_ref added{{}, fragment_.add({Network::stream(d), takes, {}, {}, kind, d.index()})};
    for (const auto& b : before) {
      fragment_.dependencies.push_back({b, added, false});
    }
    return added;
  }
  // Each reader sends indices to the part's server, which looks up the rows and sends them.
  void fetch_rows(const weight_part_readers& part, hardware::device_id server) {
    const auto table = rows_of(part.held, part.held.groups.front());
    for (const auto& r : part.readers) {
      if (r.on != server) {
        const auto ids = tensor::size_in_bytes(r.rows.ids);
        const auto rows = r.rows.size - ids;
        const auto asked = add_transfer(fragment_, network_.hops(r.on, server, ids), ids, r.on.index(), {});
        const auto found = add_on(server, times_.lookup(table, r.rows.ids, network_.model(server)),
                                  tasks::task_kind::forward, {&asked, 1});
        const auto there = add_transfer(fragment_, network_.hops(server, r.on, rows), rows, r.on.index(), {&found, 1});
        fragment_.dependencies.push_back({there, r.reads, false});
      }
    }
  }
  // Devices fetch a part from its server at the beginning of an iteration, before any of their readers.
  void fetch(const weight_part_readers& part, const replica_group& g, const synchronizer& sync) {
    hand_out(
        {sync.destination, g.devices, stations_of(g.devices, sync.destination, sync.is_per_node), size_of(g.elements)},
        {}, [&](hardware::device_id d, const tasks::task_ref& there) {
          for (std::size_t i = 0; i < part.readers.size(); ++i) {
            const auto& r = part.readers[i];
            if (r.on == d && std::binary_search(g.boxes.begin(), g.boxes.end(), part.held.box_of[i])) {
              fragment_.dependencies.push_back({there, r.reads, false});
            }
          }
        });
  }
  void update(hardware::device_id d) {
    auto& own = on_[d.index()];
    const bytes kept{own.updated * state_bytes(times_.updates(), type_.element)};
    fragment_.buffers.push_back({size_of(own.held) + size_of(own.gradient) + kept, d.index(), {}, true});
    if (own.updated == 0) {
      return;
    }
    const auto takes = times_.update(own.updated, type_.element, network_.model(d));
    own.update = add_on(d, takes, tasks::task_kind::update, own.before).index;
  }
  // Adds a task of kind update without duration, after which a device has the new version.
  void arrive(hardware::device_id d, const tasks::task_ref& with) {
    const auto there = fragment_.add({{}, picoseconds{}, {}, {}, tasks::task_kind::update, d.index()});
    fragment_.dependencies.push_back({with, {{}, there}, false});
  }
  void gather(const gathered_group& g) {
    std::vector<tasks::task_ref> updated;
    for (const auto d : g.devices) {
      if (on_[d.index()].update != none) {
        updated.push_back({{}, on_[d.index()].update});
      }
    }
    const auto there = add(hardware::exchange::all_gather, g.devices, g.size, updated);
    for (const auto d : g.devices) {
      if (network_.has(d)) {
        arrive(d, there);
      }
    }
  }
  // Calls arrived(device, task) for each receiver, with the last task of the message that brings it the data.
  template <class F>
  void hand_out(const handed_out_group& h, std::span<const tasks::task_ref> before, const F& arrived) {
    std::map<hardware::device_id, tasks::task_ref> at;  // stations
    const auto pass_on = [&](hardware::device_id from, hardware::device_id to, std::span<const tasks::task_ref> after) {
      const auto there = add_transfer(fragment_, network_.hops(from, to, h.size), h.size, to.index(), after);
      arrived(to, there);
      return there;
    };
    for (std::size_t i = 0; i < h.to.size(); ++i) {
      const auto d = h.to[i];
      if (d == h.from) {
        continue;
      }
      const auto found = at.find(h.stations[i]);  // a station comes before its other devices
      at[d] = found == at.end() ? pass_on(h.from, d, before) : pass_on(found->first, d, {&found->second, 1});
    }
  }

  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  Network& network_;
  const task_times& times_;
  const tensor::tensor_type& type_;
  const bucket_ends* buckets_;
  std::int64_t microbatches_;
  std::vector<device_state> on_;
  std::vector<gathered_group> gathered_{};
  std::vector<handed_out_group> handed_out_{};
  std::map<std::vector<hardware::device_id>, gathered_rows> gathered_rows_{};
  std::map<std::pair<hardware::device_id, hardware::device_id>, tasks::task_ref> sent_rows_{};  // from, to
  tasks::fragment fragment_{};
};

}  // namespace detail

// The fragment of a weight of that type that is all-reduced alone, or sharded. Each part that several devices hold is
// summed over them by one collective (add_collective, network.hpp), after the contributions of all operators that share
// the weight; the update of each device follows. Simultaneously ready messages of a collective on a link are ordered by
// the sender's index in its node, then by the number of preceding links, so equivalent nodes behave alike. Weights
// without gradient only occupy memory. Network: has the members of parallel::network; only devices for which has()
// holds get tasks and memory. Complexity: linear in the fragment, and in the readers for each group of devices.
// Source: Jia's dissertation (2020), section 3.4, leaves open how gradients are added up; see network.hpp.
template <class Network>
[[nodiscard]] tasks::fragment synchronized(Network& n, const task_times& times, const tensor::tensor_type& type,
                                           const weight_part_readers& all, const synchronizer& sync = {}) {
  detail::weight_synchronization<Network> s{n, times, type};
  s.add(all, sync);
  return std::move(s).finish();
}

// A part of a weight with its synchronizer, for the fragment of a bucket or of the weight.
struct synchronized_part {
  weight_part_readers of{};
  synchronizer sync{};
};

// The fragment of a weight with a synchronizer for each part. buckets: tasks after which bucketed parts are reduced. A
// sharded part is reduce-scattered, updated share by share, and gathered. Gradients are sent to a server
// as messages, and updated weights are sent back to devices or nodes as messages; adding up is not priced. From indices
// and rows of all micro-batches the server, or each device that gathers them, makes the gradient of a part. The server
// looks up rows for readers without a copy; a reader's own lookup then stands for adding up what several servers send.
template <class Network>
[[nodiscard]] tasks::fragment synchronized(Network& n, const task_times& times, const tensor::tensor_type& type,
                                           std::span<const synchronized_part> parts, const bucket_ends& buckets,
                                           std::int64_t microbatches = 1) {
  detail::weight_synchronization<Network> s{n, times, type, &buckets, microbatches};
  for (const auto& p : parts) {
    s.add(p.of, p.sync);
  }
  return std::move(s).finish();
}

// A weight whose parts may be in buckets.
struct bucketed_weight {
  std::span<const synchronized_part> parts{};
  bytes element_size{};
};

// The elements of a bucket that the same devices reduce together.
struct bucket_group {
  bytes size{};
  std::vector<tasks::task_ref> contributions{};
};
// By devices, for all bucketed parts that several devices hold. Complexity: linear in the readers of the weights.
[[nodiscard]] std::map<std::vector<hardware::device_id>, bucket_group> groups_of_bucket(
    std::uint32_t bucket, std::span<const bucketed_weight> weights);

// The fragment of a bucket: an all-reduce for each group of devices, once all contributions are ready and the
// all-reduce of the previous bucket among these devices could begin. self: the fragment. Adds its tasks to `begins` and
// `ends`, which contain those of earlier buckets.
template <class Network>
[[nodiscard]] tasks::fragment reduced_bucket(Network& n, std::uint32_t bucket, tasks::fragment_id self,
                                             std::map<std::vector<hardware::device_id>, bucket_group> groups,
                                             bucket_ends& begins, bucket_ends& ends) {
  tasks::fragment f;
  for (auto& [devices, group] : groups) {
    for (auto b = bucket; b-- > 0;) {  // the previous bucket that the same devices reduce
      if (const auto before = begins.find({b, devices}); before != begins.end()) {
        group.contributions.push_back(before->second);
        break;
      }
    }
    const auto begin = add_meeting(f, group.contributions, devices.front().index());
    auto end = add_collective(n, f, hardware::exchange::all_reduce, devices, group.size, {&begin, 1});
    begins[{bucket, devices}] = {self, begin.index};
    end.fragment = self;
    ends[{bucket, devices}] = end;
  }
  return f;
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_SYNCHRONIZATION)

#include <set>

#include <unity/core/config.hpp>
#include <unity/parallel/box.hpp>

namespace unity::parallel {

UNITY_INLINE detail::part_givers::part_givers(const weight_part_readers& part)
    : part_{part}, by_box_(part.held.boxes.size()) {
  for (std::uint32_t i = 0; i < part.readers.size(); ++i) {
    if (part.readers[i].task.fragment.valid()) {
      by_box_[part.held.box_of[i]].push_back(i);
      any_ = true;
    }
  }
}

UNITY_INLINE std::vector<weight_reader> detail::part_givers::of(const replica_group& g) const {
  std::vector<std::uint32_t> numbers;
  for (const auto b : g.boxes) {
    numbers.insert(numbers.end(), by_box_[b].begin(), by_box_[b].end());
  }
  if (g.boxes.size() > 1) {
    std::sort(numbers.begin(), numbers.end());
  }
  std::vector<weight_reader> all;
  all.reserve(numbers.size());
  for (const auto i : numbers) {
    all.push_back(part_.readers[i]);
  }
  return all;
}

UNITY_INLINE std::vector<tensor::shape> detail::pieces_of(const weight_part_readers& part, const replica_group& g,
                                                          const compressor& c) {
  if (c.kind != compression::power_sgd) {
    return {tensor::shape{g.elements}};
  }
  std::vector<tensor::shape> all;
  for (const auto& cell : cells_of(part.held.boxes)) {
    std::set<hardware::device_id> holders;
    for (std::size_t i = 0; i < part.readers.size(); ++i) {
      if (!intersection(part.held.boxes[part.held.box_of[i]], cell).empty()) {
        holders.insert(part.readers[i].on);
      }
    }
    if (std::equal(holders.begin(), holders.end(), g.devices.begin(), g.devices.end())) {
      all.push_back(cell.sizes());
    }
  }
  return all;
}

UNITY_INLINE std::map<std::vector<hardware::device_id>, bucket_group> groups_of_bucket(
    std::uint32_t bucket, std::span<const bucketed_weight> weights) {
  std::map<std::vector<hardware::device_id>, bucket_group> groups;
  for (const auto& w : weights) {
    for (const auto& p : w.parts) {
      const detail::part_givers givers{p.of};
      if (p.sync.bucket != bucket || !givers.any()) {
        continue;
      }
      for (const auto& g : p.of.held.groups) {
        if (g.devices.size() > 1) {
          auto& group = groups[g.devices];
          group.size += (is_rounded(p.sync.compressor) ? bytes{2} : w.element_size) * g.elements;
          for (const auto& r : givers.of(g)) {
            group.contributions.push_back(r.task);
          }
        }
      }
    }
  }
  return groups;
}

}  // namespace unity::parallel

#endif
