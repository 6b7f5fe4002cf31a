// Devices by name, with the numbers of machines/devices.json, which names their sources.
// Written by cmake/device_table.py: change the JSON file and run the script.
#pragma once

#include <array>
#include <string_view>

#include <unity/core/units.hpp>

namespace unity::hardware {

// Rates are those of dense products, in operations per second. Unknown numbers are 0, as are rates of types that are
// not faster than float32.
struct known_device {
  std::string_view id{};
  std::string_view name{};
  bool is_gpu = true;
  double float64 = 0;
  double float32 = 0;
  double float16 = 0;
  double bfloat16 = 0;
  double int8 = 0;
  double bytes_per_second = 0;  // of memory
  bytes memory{};               // 0: that of this host
  double launch_seconds = 0;
  double host_bytes_per_second = 0;  // copies to or from its host's memory
  double collective_start_seconds = 0;
  double collective_round_seconds = 0;
  int units = 0;        // multiprocessors or cores
  double clock_hz = 0;  // maximum
  bytes l1{};           // per unit, including shared memory
  bytes l2{};
  std::string_view source{};  // of the rate for float32
};

inline constexpr std::array<known_device, 17> known_devices{{
    {"k80", "NVIDIA Tesla K80 (one GK210)", true,
     1.455e+12, 4.37e+12, 0, 0, 0, 2.4e+11, bytes{12000000000},
     8e-06, 6.3e+09, 5.5e-05, 9.3e-06, 13, 875000000, bytes{131072}, bytes{1572864},
     "NVIDIA Tesla K80 board specification BD-07317, half of the board, at boost clock"},
    {"m60", "NVIDIA Tesla M60 (one GM204)", true,
     1.51e+11, 4.825e+12, 0, 0, 0, 1.6e+11, bytes{8000000000},
     5e-06, 6.3e+09, 5.5e-05, 9.3e-06, 16, 1178000000, bytes{49152}, bytes{2097152},
     "NVIDIA Tesla M60 data sheet, 2015, half of the board, at boost clock"},
    {"p4", "NVIDIA Tesla P4", true,
     0, 5.5e+12, 0, 0, 2.2e+13, 1.92e+11, bytes{8000000000},
     5e-06, 1.26e+10, 5.5e-05, 9.3e-06, 20, 1063000000, bytes{49152}, bytes{2097152},
     "NVIDIA Tesla P4 data sheet, 2016"},
    {"1080ti", "NVIDIA GeForce GTX 1080 Ti", true,
     3.54e+11, 1.134e+13, 0, 0, 0, 4.84e+11, bytes{11000000000},
     5e-06, 1.26e+10, 5.5e-05, 9.3e-06, 28, 1582000000, bytes{49152}, bytes{2883584},
     "NVIDIA GeForce GTX 1080 Ti specifications, 2017, at boost clock"},
    {"p100", "NVIDIA Tesla P100 SXM2", true,
     5.3e+12, 1.06e+13, 2.12e+13, 0, 0, 7.32e+11, bytes{16000000000},
     5e-06, 1.26e+10, 5.5e-05, 9.3e-06, 56, 1480000000, bytes{24576}, bytes{4194304},
     "NVIDIA Tesla P100 data sheet, 2016"},
    {"v100", "NVIDIA Tesla V100 SXM2", true,
     7.8e+12, 1.57e+13, 1.25e+14, 0, 0, 9e+11, bytes{16000000000},
     5e-06, 1.26e+10, 5.5e-05, 9.3e-06, 80, 1530000000, bytes{131072}, bytes{6291456},
     "NVIDIA Tesla V100 data sheet, 2017"},
    {"t4", "NVIDIA T4", true,
     0, 8.1e+12, 6.5e+13, 0, 1.3e+14, 3.2e+11, bytes{16000000000},
     5e-06, 1.26e+10, 5.5e-05, 9.3e-06, 40, 1590000000, bytes{98304}, bytes{4194304},
     "NVIDIA T4 data sheet, 2019"},
    {"a10", "NVIDIA A10", true,
     0, 3.12e+13, 1.25e+14, 1.25e+14, 2.5e+14, 6e+11, bytes{24000000000},
     4e-06, 2.52e+10, 3.97e-05, 2e-06, 72, 1695000000, bytes{131072}, bytes{6291456},
     "NVIDIA A10 data sheet, 2021, dense"},
    {"l4", "NVIDIA L4", true,
     0, 3.03e+13, 1.21e+14, 1.21e+14, 2.425e+14, 3e+11, bytes{24000000000},
     3e-06, 2.52e+10, 3.97e-05, 2e-06, 58, 2040000000, bytes{131072}, bytes{50331648},
     "NVIDIA L4 data sheet, 2023, dense: half of the sparse rates"},
    {"a100", "NVIDIA A100 SXM4 40 GB", true,
     9.7e+12, 1.95e+13, 3.12e+14, 3.12e+14, 6.24e+14, 1.555e+12, bytes{40000000000},
     4e-06, 2.52e+10, 3.97e-05, 2e-06, 108, 1410000000, bytes{196608}, bytes{41943040},
     "NVIDIA A100 40 GB data sheet, 2020; float32 and float64 without tensor cores"},
    {"a100_80", "NVIDIA A100 SXM4 80 GB", true,
     9.7e+12, 1.95e+13, 3.12e+14, 3.12e+14, 6.24e+14, 2.039e+12, bytes{80000000000},
     4e-06, 2.52e+10, 3.97e-05, 2e-06, 108, 1410000000, bytes{196608}, bytes{41943040},
     "NVIDIA A100 80 GB data sheet, 2021; float32 and float64 without tensor cores"},
    {"a100_pcie", "NVIDIA A100 PCIe 40 GB", true,
     9.7e+12, 1.95e+13, 3.12e+14, 3.12e+14, 6.24e+14, 1.555e+12, bytes{40000000000},
     4e-06, 2.52e+10, 3.97e-05, 2e-06, 108, 1410000000, bytes{196608}, bytes{41943040},
     "NVIDIA A100 PCIe product brief PB-10137, 2020; float32 and float64 without tensor cores"},
    {"a100_80_pcie", "NVIDIA A100 PCIe 80 GB", true,
     9.7e+12, 1.95e+13, 3.12e+14, 3.12e+14, 6.24e+14, 1.935e+12, bytes{80000000000},
     4e-06, 2.52e+10, 3.97e-05, 2e-06, 108, 1410000000, bytes{196608}, bytes{41943040},
     "NVIDIA A100 80 GB data sheet, 2021; float32 and float64 without tensor cores"},
    {"h100", "NVIDIA H100 SXM 80 GB", true,
     3.4e+13, 6.7e+13, 9.894e+14, 9.894e+14, 1.9789e+15, 3.35e+12, bytes{80000000000},
     3e-06, 5.04e+10, 3.97e-05, 2e-06, 132, 1980000000, bytes{262144}, bytes{52428800},
     "NVIDIA H100 SXM data sheet, 2023, dense; float32 and float64 without tensor cores"},
    {"h200", "NVIDIA H200 SXM 141 GB", true,
     3.4e+13, 6.7e+13, 9.894e+14, 9.894e+14, 1.9789e+15, 4.8e+12, bytes{141000000000},
     3e-06, 5.04e+10, 3.97e-05, 2e-06, 132, 1980000000, bytes{262144}, bytes{52428800},
     "NVIDIA H200 SXM data sheet, 2024, dense; float32 and float64 without tensor cores"},
    {"b200", "NVIDIA B200 SXM 180 GB", true,
     3.7e+13, 7.5e+13, 2.25e+15, 2.25e+15, 4.5e+15, 8e+12, bytes{180000000000},
     3e-06, 5.04e+10, 3.97e-05, 2e-06, 0, 0, bytes{0}, bytes{0},
     "NVIDIA HGX B200 data sheet, 2025, an eighth of the board, dense"},
    {"host", "a core, its rates assumed", false,
     0, 5e+10, 0, 0, 0, 1e+10, bytes{0},
     1e-06, 5e+09, 0, 0, 1, 0, bytes{0}, bytes{0},
     "assumed: calibrate measures it"},
}};

}  // namespace unity::hardware
