// Measures this machine for cost models: peak rates, memory bandwidth, launch overhead, and what ranks pay to exchange.
//
// run: --backend reference --stream-bytes 65536 --ranks 2 --largest-exchange 65536 --out {out}/machine.json

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <unity/backend/device_calibration.hpp>
#include <unity/backend/link_calibration.hpp>
#include <unity/backend/local_communicator.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/machine/machine.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/backends.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string backend{support::backend_names().front()};
  std::string out{};
  int backend_threads = 0;
  int ranks = 1;
  backend::calibration_options device{};
  backend::exchange_options exchanges{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("--backend", a.backend, "cpu or reference");
  app.add_option("--backend-threads", a.backend_threads, "of the backend; 0: all that the machine has")->check(CLI::Range(0, 1024));
  app.add_option("--ranks", a.ranks, "time exchanges between so many threads; 1: none")->check(CLI::Range(1, 64));
  app.add_option("--stream-bytes", a.device.stream_bytes, "size of a tensor that no cache holds")
      ->check(CLI::Range(std::int64_t{4096}, std::int64_t{1} << 36U));
  app.add_option("--largest-exchange", a.exchanges.largest, "bytes")->check(CLI::Range(std::int64_t{1024}, std::int64_t{1} << 32U));
  app.add_option("--out", a.out, "file for the machine as JSON")->required();
}

bytes memory_of_host() {
  return bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGESIZE))};
}

std::string name_of_host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "host";
}

machine::link time_exchanges(const arguments& a) {
  machine::link found;
  backend::run_local(a.ranks, [&](backend::local_communicator& c) {
    auto mine = backend::calibrate_link(c, "local", a.exchanges);
    if (c.rank() == 0) {
      found = std::move(mine);
    }
  });
  return found;
}

void print(const machine::machine& m) {
  for (const auto& d : m.devices) {
    std::printf("%s\n", d.name.c_str());
    for (const auto& p : d.peaks) {
      std::printf("  %-10s %-10s %10.1f GFLOP/s\n", p.operation.c_str(), std::string{tensor::name_of(p.element)}.c_str(),
                  p.flops_per_second * 1e-9);
    }
    std::printf("  %-21s %10.1f GB/s\n  %-21s %10.2f us\n", "memory", d.bytes_per_second * 1e-9, "launch", d.launch_seconds * 1e6);
  }
  for (const auto& l : m.links) {
    std::printf("%s, %d ranks\n", l.name.c_str(), l.ranks);
    for (const auto& [kind, ranges] : l.costs) {
      std::printf("  %-15s %8.2f us for 1 KiB, %8.2f GB/s at most\n",
                  std::string{machine::exchange_names[static_cast<std::size_t>(kind)]}.c_str(),
                  machine::exchange_seconds(ranges, 1024) * 1e6, ranges.back().beta > 0 ? 1e-9 / ranges.back().beta : 0.0);
    }
  }
}

void run(const arguments& a) {
  support::check_backend(a.backend, "--backend");
  const auto operators = tensor::standard_algebra();
  machine::machine m;
  m.name = name_of_host();
  support::with_backend(a.backend, operators, a.backend_threads, [&](auto& backend) {
    auto d = backend::calibrate_device(backend, operators, a.device);
    d.memory = memory_of_host();
    m.devices.push_back(std::move(d));
  });
  if (a.ranks > 1) {
    m.links.push_back(time_exchanges(a));
  }
  io::write_machine(m, a.out);
  print(m);
}

}  // namespace

int main(int argc, char** argv) {
  arguments a;
  CLI::App app{"Measures this machine, for cost models to read"};
  declare(app, a);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    run(a);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "calibrate: %s\n", e.what());
    return 1;
  }
  return 0;
}
