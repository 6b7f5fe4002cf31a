#!/usr/bin/env python3
"""The tables that the library compiles: devices, from machines/devices.json, which docs/machines.md shows as well, and
the coefficients of the model of kernels, from machines/kernels.json, which `fit_kernels` writes.

usage: device_table.py [--check]

Writes include/unity/hardware/device_table.hpp, kernel_table.hpp and the lines between the marks in docs/machines.md;
with --check it only says whether they are what it would write, and whether each number has a source.
"""
import json
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "include/unity/hardware/device_table.hpp"
KERNELS = ROOT / "include/unity/hardware/kernel_table.hpp"
PAGE = ROOT / "docs/machines.md"
BEGIN, END = "<!-- machines/devices.json: begin -->\n", "<!-- machines/devices.json: end -->\n"
ELEMENTS = ["float64", "float32", "float16", "bfloat16", "int8"]

HEAD = """// Devices by name, with the numbers of machines/devices.json, which names their sources.
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

"""


def rates(device):
    return {p["element"]: p["flops_per_second"] for p in device["peaks"]}


def caches(device):
    return {c["name"]: c["bytes"] for c in device.get("caches", [])}


def missing_sources(device):
    """Numbers without a source, and sources without a number."""
    have = {f"peaks.{e}" for e in rates(device)} | {f"caches.{c}" for c in caches(device)}
    have |= {k for k in ("bytes_per_second", "memory_bytes", "launch_s", "host_bytes_per_second",
                          "collective_start_s", "collective_round_s", "units", "clock_hz") if k in device}
    return have ^ set(device["sources"])


def header(devices):
    text = HEAD + f"inline constexpr std::array<known_device, {len(devices)}> known_devices{{{{\n"
    for d in devices:
        have, levels = rates(d), caches(d)
        numbers = [f"{have.get(e, 0):.10g}" for e in ELEMENTS]
        numbers += [f"{d['bytes_per_second']:.10g}", f"bytes{{{d['memory_bytes']}}}", f"{d['launch_s']:g}"]
        numbers += [f"{d.get(k, 0):g}" for k in ("host_bytes_per_second", "collective_start_s", "collective_round_s")]
        numbers += [str(d.get("units", 0)), f"{d.get('clock_hz', 0):.10g}"]
        numbers += [f"bytes{{{levels.get(level, 0)}}}" for level in ("L1", "L2")]
        text += f"    {{\"{d['id']}\", \"{d['name']}\", {'true' if d['kind'] == 'gpu' else 'false'},\n"
        text += f"     {', '.join(numbers[:7])},\n     {', '.join(numbers[7:])},\n"
        text += f"     \"{d['sources']['peaks.float32']}\"}},\n"
    return text + "}};\n\n}  // namespace unity::hardware\n"


def page(devices):
    def tera(x):
        return f"{x * 1e-12:g}" if x else ""

    titles = ["name", "float32", "float64", "float16", "bfloat16", "int8", "memory, GB/s", "memory, GB", "launch, us",
              "to the host, GB/s", "collective, us", "round, us", "units", "MHz", "L2, MB"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for d in devices:
        if d["kind"] != "gpu":
            continue
        have, levels = rates(d), caches(d)
        cells = [f"`{d['id']}` {d['name']}"] + [tera(have.get(e, 0)) for e in titles[1:6]]
        cells += [f"{d['bytes_per_second'] * 1e-9:g}", f"{d['memory_bytes'] * 1e-9:g}", f"{d['launch_s'] * 1e6:g}"]
        cells += [f"{d['host_bytes_per_second'] * 1e-9:g}" if "host_bytes_per_second" in d else ""]
        cells += [f"{d[k] * 1e6:g}" if k in d else "" for k in ("collective_start_s", "collective_round_s")]
        cells += [str(d.get("units", "")), f"{d['clock_hz'] * 1e-6:g}" if "clock_hz" in d else ""]
        cells += [f"{levels['L2'] / 2**20:g}" if "L2" in levels else ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def kernels(model):
    text = """\
// Coefficients of the kernel model and the devices to which they were fitted, from machines/kernels.json: NeuSight's
// measurements (P4, P100, V100, T4, A100), and those of an H100 (bench/torch_kernels.py). Written by
// cmake/device_table.py: run `fit_kernels DIR --unseen FILE --out machines/kernels.json` first.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include <unity/hardware/kernel_model.hpp>

namespace unity::hardware {

"""
    for kind, numbers in sorted(model["coefficients"].items()):
        text += f"inline constexpr std::array<double, {len(numbers)}> {kind}_coefficients{{\n"
        text += textwrap.fill(", ".join(f"{x:.6g}" for x in numbers), 116, initial_indent="    ",
                              subsequent_indent="    ") + "};\n"
    text += """
// The coefficients of a kind of kernels, for kernel_seconds.
[[nodiscard]] constexpr std::span<const double> kernel_coefficients(kernel_kind kind) noexcept {
  switch (kind) {
"""
    for kind in sorted(model["coefficients"]):
        if kind != "elementwise":
            text += f"    case kernel_kind::{kind}:\n      return {kind}_coefficients;\n"
    text += """    default:
      return elementwise_coefficients;
  }
}

// Two factors of the predicted time, between which four of five measured times lie. These are of kernels that the
// coefficients were not fitted to: all of a device that was left out, or half of the shapes, for kinds that were
// measured on a single device.
[[nodiscard]] constexpr std::array<double, 2> kernel_interval(kernel_kind kind) noexcept {
  switch (kind) {
"""
    for kind, (low, high) in sorted(model["ratio_intervals"].items()):
        if kind != "elementwise":
            text += f"    case kernel_kind::{kind}:\n      return {{{low:.4g}, {high:.4g}}};\n"
    low, high = model["ratio_intervals"]["elementwise"]
    text += f"    default:\n      return {{{low:.4g}, {high:.4g}}};\n" + """  }
}

// Measurements of a device; rates that were not measured are 0.
struct measured_kernel_device {
  std::string_view id{};  // in machines/devices.json
  double bytes_per_second = 0;
  product_rates float32{};
  product_rates bfloat16{};
};

"""
    devices = sorted(model["devices"], key=lambda d: d["id"])
    text += f"inline constexpr std::array<measured_kernel_device, {len(devices)}> measured_kernel_devices{{{{\n"

    def rate(d, element):
        r = d["rates"].get(element)
        return f"{{{r['brief']:.6g}, {r['sustained']:.6g}, {r['deep_share']:.6g}}}" if r else "{}"

    for d in devices:
        text += f"    {{\"{d['id']}\", {d['bytes_per_second']:.6g},\n"
        text += f"     {rate(d, 'float32')}, {rate(d, 'bfloat16')}}},\n"
    shares = model["shares"]
    return text + f"""}}}};

// The shares of data sheet values that devices reach: the median of the measured ones.
inline constexpr double share_of_bandwidth = {shares['bytes_per_second']:.6g};
inline constexpr double share_of_float32_rate = {shares['float32']:.6g};
inline constexpr double share_of_bfloat16_rate = {shares['bfloat16']:.6g};

}}  // namespace unity::hardware
"""


def main():
    devices = json.loads((ROOT / "machines/devices.json").read_text())["devices"]
    for d in devices:
        for name in sorted(missing_sources(d)):
            sys.exit(f"machines/devices.json: {d['id']}: {name} is a number without a source, or a source without one")
    before, rest = PAGE.read_text().split(BEGIN)
    model = json.loads((ROOT / "machines/kernels.json").read_text())
    wanted = {HEADER: header(devices), KERNELS: kernels(model),
              PAGE: before + BEGIN + page(devices) + END + rest.split(END)[1]}
    for path, text in wanted.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)}: is not what cmake/device_table.py makes of machines/devices.json and "
                     "kernels.json")
    print(f"{len(devices)} devices")


if __name__ == "__main__":
    main()
