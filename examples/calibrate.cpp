// Measures this machine for cost models: peak rates, memory bandwidth, launch overhead, and the time of exchanges
// between ranks, which are threads of this process or, under mpirun, the ranks of the job. Rank 0 then writes the
// machine of its host. With --collectives it measures nothing: it fits given times of collectives, writes them as links
// of a machine, and prints as JSON the errors at sizes and groups that the fit did not use.
//
// run: --backend reference --stream-bytes 65536 --ranks 2 --largest-exchange 65536 --out {out}/machine.json

#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/backend/calibration.hpp>
#include <unity/backend/local_communicator.hpp>
#ifdef UNITY_HAS_MPI
#include <unity/backend/mpi_communicator.hpp>  // if found
#endif
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/hardware/collective_fit.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/measurements_csv.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/backends.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string backend{support::backend_names().front()};
  std::string out{};
  std::string report{};
  std::string collectives{};  // a file of measured times
  int backend_threads = 0;
  int ranks = 0;  // 0: not given
  backend::calibration_options device{};
  std::int64_t largest_exchange = backend::exchange_options{}.largest.count();  // bytes
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("--backend", a.backend, support::backend_list());
  app.add_option("--backend-threads", a.backend_threads, "threads of the backend; 0: all of the machine")
      ->check(support::number_in(0, 1024));
  app.add_option("--ranks", a.ranks, "time exchanges between so many threads, 2 to 4 where nothing is said; 1: none")
      ->check(support::number_in(1, 64));
  app.add_option("--stream-bytes", a.device.stream_bytes, "size of a tensor that no cache holds")
      ->check(support::number_in(std::int64_t{4096}, std::int64_t{1} << 36U));
  app.add_option("--largest-exchange", a.largest_exchange, "bytes")
      ->check(support::number_in(std::int64_t{1024}, std::int64_t{1} << 32U));
  app.add_option("--collectives", a.collectives, "fit the times in this file (CSV) instead of measuring")
      ->excludes("--backend", "--backend-threads", "--ranks", "--stream-bytes", "--largest-exchange");
  app.add_option("--out", a.out, "file for the machine as JSON")->required();
  app.add_option("--report", a.report, "file for an HTML report: rates, and bandwidth by size and exchange");
}

// Measuring takes minutes, so an invalid output path is reported before.
void expect_places(const arguments& a) {
  support::expect_writable(a.out);
  support::expect_writable(a.report);
}

std::string name_of_host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "host";
}

// The smallest size gives every rank one element.
template <class Communicator>
hardware::link time_exchanges(Communicator& c, const char* name, std::int64_t largest) {
  backend::exchange_options options;
  options.smallest = std::max(options.smallest, bytes{4} * c.size());
  options.largest = std::max(bytes{largest}, options.smallest);
  return backend::calibrate_link(c, name, options);
}

std::optional<hardware::link> time_threads(const arguments& a) {
  const auto cores = static_cast<int>(std::min(std::thread::hardware_concurrency(), 4U));
  const auto ranks = a.ranks > 0 ? a.ranks : std::max(2, cores);
  std::optional<hardware::link> found;
  if (const auto has = backend::memory_of_host().count(); ranks > 1 && a.largest_exchange > has / (2 * ranks)) {
    throw error{"--largest-exchange", fmt::format("twice {} bytes on each of {} ranks", a.largest_exchange, ranks),
                fmt::format("at most the {} bytes of memory of this host", has)};
  }
  if (ranks > 1) {
    backend::run_local(ranks, [&](backend::local_communicator& c) {
      auto mine = time_exchanges(c, "local", a.largest_exchange);
      if (c.rank() == 0) {
        found = std::move(mine);
      }
    });
  }
  return found;
}

void print(const hardware::machine& m) {
  for (const auto& d : m.devices) {
    fmt::print("{}\n", d.name);
    for (const auto& p : d.peaks) {
      fmt::print("  {:<10} {:<10} {:10.1f} GFLOP/s\n", p.operation, std::string{tensor::name_of(p.element)},
                 p.flops_per_second * 1e-9);
    }
    fmt::print("  {:<21} {:10.1f} GB/s\n  {:<21} {:10.1f} GB/s\n  {:<21} {:10.2f} us\n", "memory",
               d.bytes_per_second * 1e-9, "copies to the host", d.host_bytes_per_second * 1e-9, "launch",
               d.launch_seconds * 1e6);
  }
  for (const auto& l : m.links) {
    fmt::print("{}, {} ranks\n", l.name, l.ranks);
    for (const auto& [kind, ranges] : l.costs) {
      const auto interval = l.intervals.contains(kind) ? l.intervals.at(kind) : hardware::cost_interval{};
      fmt::print("  {:<15} {:8.2f} us for 1 KiB, {:8.2f} GB/s at most; four of five took {:.2f} to {:.2f} of that\n",
                 std::string{hardware::exchange_names[static_cast<std::size_t>(kind)]},
                 hardware::exchange_seconds(ranges, bytes{1024}) * 1e6,
                 ranges.back().beta > 0 ? 1e-9 / ranges.back().beta : 0.0, interval.low, interval.high);
    }
  }
}

// The bandwidth that the costs of a link give, by size.
io::line_chart chart_of(const hardware::link& l) {
  io::line_chart chart{"log2 of bytes", "GB/s", {}, false, false};
  for (const auto& [kind, ranges] : l.costs) {
    io::chart_line line{std::string{hardware::exchange_names[static_cast<std::size_t>(kind)]}};
    for (int power = 10; power <= 28; ++power) {
      const bytes size{std::int64_t{1} << power};
      const auto seconds = hardware::exchange_seconds(ranges, size);
      if (seconds > 0) {
        line.points.push_back({static_cast<double>(power), static_cast<double>(size.count()) / seconds * 1e-9});
      }
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

void add_machine(io::html_report& to, const hardware::machine& m) {
  for (const auto& d : m.devices) {
    to.heading(d.name);
    std::vector<io::chart_bar> rates;
    for (const auto& p : d.peaks) {
      rates.push_back({fmt::format("{} {}", p.operation, tensor::name_of(p.element)), p.flops_per_second * 1e-9});
    }
    to.chart(rates, "GFLOP/s");
    to.chart(std::vector<io::chart_bar>{{"memory", d.bytes_per_second * 1e-9},
                                        {"copies to the host", d.host_bytes_per_second * 1e-9}},
             "GB/s");
    to.paragraph(fmt::format("A launch takes {:.2f} us.", d.launch_seconds * 1e6));
  }
  for (const auto& l : m.links) {
    to.heading(fmt::format("{}, {} ranks: bandwidth of the fitted times", l.name, l.ranks));
    to.chart(chart_of(l));
  }
}

// Adds the machine to the page. Effects: writes both files or none.
void write(const arguments& a, const hardware::machine& m, io::html_report page) {
  std::vector<support::output> files{{a.out, {}, [&](const auto& path) { io::write_machine(m, path); }, {}}};
  if (!a.report.empty()) {
    add_machine(page, m);
    files.push_back({a.report, page.text(), {}, {}});
  }
  support::write_all(files);
}

void check(const arguments& a) {
  support::check_backend(a.backend, "--backend");
  support::check_threads(a.backend, a.backend_threads);
  if (a.ranks == 1 && a.largest_exchange != backend::exchange_options{}.largest.count()) {
    throw error{"--largest-exchange", "given with --ranks 1, which exchanges nothing", "--ranks 2 or more"};
  }
  expect_places(a);
}

void measure(const arguments& a, std::optional<hardware::link> link) {
  const auto operators = tensor::standard_algebra();
  hardware::machine m;
  m.name = name_of_host();
  support::with_backend(a.backend, operators, a.backend_threads, [&](auto& backend) {
    m.devices.push_back(backend::calibrate_device(backend, operators, a.device));
  });
  if (link) {
    m.links.push_back(std::move(*link));
  }
  write(a, m, io::html_report{fmt::format("{}, measured", m.name)});
  print(m);
}

#ifdef UNITY_HAS_MPI
// mpirun binds a rank to some of the cores; the device is all of them.
void use_all_cores() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  sched_setaffinity(0, sizeof all, &all);
}

// All ranks exchange data. Then MPI ends, so that no rank keeps a core busy, and rank 0 measures its device alone.
int run_rank(const arguments& a) {
  int rank = 0;
  std::optional<hardware::link> link;
  backend::mpi_options options;
  options.program = hasher{}.add(static_cast<std::uint64_t>(a.largest_exchange)).result();
  const int code = backend::run_mpi(
      [&](backend::mpi_communicator& c) {
        rank = c.rank();
        if (a.ranks > 0) {
          throw error{"--ranks", fmt::format("{}", a.ranks), "none beside mpirun, whose ranks are timed"};
        }
        if (a.largest_exchange > std::numeric_limits<int>::max()) {
          throw error{"--largest-exchange", fmt::format("{}", a.largest_exchange), "at most 2147483647 bytes"};
        }
        if (rank == 0) {
          check(a);
        }
        if (c.size() > 1) {
          link = time_exchanges(c, "mpi", a.largest_exchange);
        }
      },
      options);
  if (code == 0 && rank == 0) {
    use_all_cores();
    measure(a, std::move(link));
  }
  return code;
}
#endif

// {"mape": {"all_gather": {"2": 0.013, ...}, ...}, "mape_all": ..., "mape_group": ..., "samples": ..., "padded": ...}
nlohmann::json errors_to_json(std::span<const hardware::collective_sample> samples) {
  auto all = nlohmann::json::object();
  for (const auto& [kind, groups] : hardware::held_out_errors(samples)) {
    const auto name = std::string{hardware::exchange_names[static_cast<std::size_t>(kind)]};
    for (const auto& [ranks, e] : groups) {
      const auto group = fmt::format("{}", ranks);
      all["mape"][name][group] = e.sizes;
      all["mape_all"][name][group] = e.sizes_all;
      all["mape_group"][name][group] = e.group < 0 ? nlohmann::json{} : nlohmann::json(e.group);
      all["samples"][name][group] = e.samples;
      all["padded"][name][group] = e.padded;
    }
  }
  return all;
}

io::html_report errors_page(const arguments& a, std::span<const hardware::collective_sample> samples) {
  io::html_report page{fmt::format("The collectives of {}", a.collectives)};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [kind, groups] : hardware::held_out_errors(samples)) {
    for (const auto& [ranks, e] : groups) {
      rows.push_back({std::string{hardware::exchange_names[static_cast<std::size_t>(kind)]}, std::to_string(ranks),
                      fmt::format("{:.1f}%", 100 * e.sizes), fmt::format("{:.1f}%", 100 * e.sizes_all),
                      e.group < 0 ? "" : fmt::format("{:.1f}%", 100 * e.group), std::to_string(e.samples)});
    }
  }
  page.heading("Mean errors on what the fit did not use");
  page.table(std::vector<std::string>{"exchange", "ranks", "other sizes", "also sizes that padding makes faster",
                                      "another group", "samples"},
             rows);
  return page;
}

int fit_collectives(const arguments& a) {
  expect_places(a);
  const auto samples = io::read_collectives(a.collectives);
  hardware::machine m;
  m.name = std::filesystem::path{a.collectives}.stem().string();
  m.links = hardware::fit_collectives(samples);
  write(a, m, errors_page(a, samples));
  fmt::print("{}\n", errors_to_json(samples).dump(2));
  return 0;
}

int run(const arguments& a) {
  if (!a.collectives.empty()) {
    return fit_collectives(a);
  }
#ifdef UNITY_HAS_MPI
  if (backend::started_as_rank()) {
    return run_rank(a);
  }
#endif
  check(a);
  measure(a, time_threads(a));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("calibrate", "Measures this machine, for cost models to read", argc, argv,
                                         declare, run);
}
