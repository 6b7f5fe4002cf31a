// Fits the model of kernels on GPUs to measured ones, and says how far off it is on a device that it was not fitted to.
//
// run: {source}/test/data --unseen {source}/test/data/kernels_h100.csv.gz --json {out}/result.json --out {out}/kernels.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/cost/kernel_fit.hpp>
#include <unity/cost/kernel_model.hpp>
#include <unity/cost/kernel_table.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/io/kernel_csv.hpp>
#include <unity/io/packed_text.hpp>

#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string folder{};
  std::string unseen{};
  std::size_t count = 250;
  std::string json{};
  std::string out{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("DIR", a.folder, "a folder of .csv and .csv.gz files with times of kernels on several devices")
      ->required();
  app.add_option("--unseen", a.unseen, "times on a device that is only predicted (CSV, may be compressed)");
  app.add_option("--count", a.count, "kernels of each operator and device to fit to, at most")
      ->check(support::number_in(std::size_t{10}, std::size_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--json", a.json, "file for the errors as JSON");
  app.add_option("--out", a.out, "file for the coefficients as JSON");
}

// By operator, then by device.
using samples_by_device = std::map<std::string, std::map<std::string, std::vector<kernel_sample>>>;

void read_into(samples_by_device& to, const std::filesystem::path& file) {
  const auto name = file.filename().string();
  for (const auto& text : io::read_packed(file)) {
    for (auto& s : io::parse_kernels(text.text, text.name, name.substr(0, name.find('.')))) {
      to[s.op][s.device].push_back(std::move(s));
    }
  }
}

samples_by_device read_folder(const std::string& folder) {
  if (std::error_code none; !std::filesystem::is_directory(folder, none)) {
    throw error{folder, "no folder", "one of .csv or .csv.gz files"};
  }
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    files.insert(entry.path());
  }
  samples_by_device all;
  for (const auto& file : files) {
    const auto name = file.filename().string();
    if (!name.ends_with(".csv") && !name.ends_with(".csv.gz")) {
      continue;
    }
    read_into(all, file);
  }
  if (all.empty()) {
    throw error{folder, "no times of kernels", "files of the name OPERATOR.csv or OPERATOR.csv.gz"};
  }
  return all;
}

// The device as it runs an operator.
kernel_device device_of(const samples_by_device& all, const std::string& op, const std::string& name) {
  const auto known = known_kernel_device(name);
  if (!known) {
    throw error{name, "a device whose units are not known", "P4, P100, V100, T4, A100, H100 or H200"};
  }
  const auto find = [&](const char* of) -> std::span<const kernel_sample> {
    const auto found = all.find(of);
    if (found == all.end() || !found->second.contains(name)) {
      return {};
    }
    return found->second.at(name);
  };
  if (find("add").empty()) {
    throw error{name, "no sums of two tensors, which tell its bandwidth", "times of add"};
  }
  return measured_device(*known, find("add"), all.at(op).at(name), find("bmm"));
}

std::vector<placed_sample> placed(const samples_by_device& all, const std::string& op, const std::string& device) {
  const auto d = device_of(all, op, device);
  const auto& samples = all.at(op).at(device);
  if (samples.front().shape.kind >= kernel_kind::batched_product && d.rates.sustained <= 0) {
    throw error{device, fmt::format("no large products, which tell its rate, for {}", op), "times of bmm or linear"};
  }
  std::vector<placed_sample> to;
  for (const auto& s : samples) {
    to.push_back({s.shape, d, s.call_seconds});
  }
  return to;
}

// Means of errors relative to what was measured, and of their sizes.
struct errors {
  double mape = 0;
  double bias = 0;
  std::size_t count = 0;

  void add(double predicted, double measured) {
    mape += std::abs(predicted / measured - 1);
    bias += predicted / measured - 1;
    ++count;
  }
  [[nodiscard]] nlohmann::json to_json() const {
    const auto n = static_cast<double>(std::max<std::size_t>(count, 1));
    return {{"mape", mape / n}, {"bias", bias / n}, {"samples", count}};
  }
};

// Each `stride`-th is what coefficients are fitted to; of the others, or of all, how far off they are.
std::size_t stride_of(std::size_t size, std::size_t count) {
  return std::max<std::size_t>(1, (size + count - 1) / count);
}

errors errors_of(const std::vector<placed_sample>& samples, const std::vector<double>& c, std::size_t except = 0) {
  errors e;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (except < 2 || i % except != 0) {
      e.add(call_seconds(samples[i].shape, samples[i].device, c), samples[i].seconds);
    }
  }
  return e;
}

// What a roofline by data sheets says.
errors roofline_errors(const std::string& device, const std::vector<kernel_sample>& samples) {
  errors e;
  const auto rates = *find_device(*id_of_board(device));
  for (const auto& s : samples) {
    const auto longest =
        std::max(operations_of(s.shape) / rates.flops_per_second, bytes_of(s.shape) / rates.bytes_per_second);
    e.add(longest + rates.launch_seconds, s.call_seconds);
  }
  return e;
}

// Operators of one kind share coefficients.
struct kind_data {
  kernel_kind kind = kernel_kind::elementwise;
  std::map<std::string, std::map<std::string, std::vector<placed_sample>>> samples{};  // by operator and device

  // Of all devices but one.
  [[nodiscard]] std::vector<double> fit(std::size_t count, const std::string& except = {}) const {
    std::vector<placed_sample> to;
    for (const auto& [op, devices] : samples) {
      for (const auto& [device, all] : devices) {
        if (device != except) {
          const auto stride = stride_of(all.size(), count);
          for (std::size_t i = 0; i < all.size(); i += stride) {
            to.push_back(all[i]);
          }
        }
      }
    }
    return fit_kernel_coefficients(kind, to);
  }
};

std::map<kernel_kind, kind_data> by_kind(const samples_by_device& all) {
  std::map<kernel_kind, kind_data> kinds;
  for (const auto& [op, devices] : all) {
    for (const auto& [device, samples] : devices) {
      auto& k = kinds[samples.front().shape.kind];
      k.kind = samples.front().shape.kind;
      k.samples[op][device] = placed(all, op, device);
    }
  }
  return kinds;
}

void print_row(const std::string& op, const std::string& device, const nlohmann::json& left, double shapes,
               double roofline) {
  fmt::print("{:<9} {:<18} {:>9.1f} {:>+9.1f} {:>9.1f} {:>9.1f}\n", op, device, 100 * left["mape"].get<double>(),
             100 * left["bias"].get<double>(), 100 * shapes, 100 * roofline);
}

// Of the kernels alone where they were measured.
errors kernel_errors(const samples_by_device& all, const std::string& op, const std::string& device,
                     const std::vector<double>& c) {
  errors e;
  const auto d = device_of(all, op, device);
  for (const auto& s : all.at(op).at(device)) {
    if (s.kernel_seconds > 0) {
      e.add(kernel_seconds(s.shape, d, c), s.kernel_seconds);
    }
  }
  return e;
}

void report_unseen(const std::string& file, const std::map<kernel_kind, std::vector<double>>& coefficients,
                   nlohmann::json& report) {
  samples_by_device all;
  read_into(all, file);
  for (const auto& [kind, k] : by_kind(all)) {
    const auto fitted = coefficients.find(kind);
    const auto shipped = kernel_coefficients(kind);  // of what the folder has no times of
    const auto c = fitted != coefficients.end() ? fitted->second : std::vector(shipped.begin(), shipped.end());
    for (const auto& [op, devices] : k.samples) {
      for (const auto& [device, samples] : devices) {
        auto e = errors_of(samples, c).to_json();
        const auto alone = kernel_errors(all, op, device, c);
        const auto before = roofline_errors(device, all.at(op).at(device)).to_json()["mape"].get<double>();
        print_row(op, device, e, alone.to_json()["mape"].get<double>(), before);
        e["kernels"] = alone.to_json();
        e["roofline_mape"] = before;
        report["unseen"][op][device] = std::move(e);
      }
    }
  }
}

void run(const arguments& a) {
  support::expect_writable(a.json);
  support::expect_writable(a.out);
  const auto all = read_folder(a.folder);
  nlohmann::json report{{"mape", nlohmann::json::object()},        {"bias", nlohmann::json::object()},
                        {"shapes_mape", nlohmann::json::object()}, {"roofline_mape", nlohmann::json::object()},
                        {"samples", nlohmann::json::object()},     {"unseen", nlohmann::json::object()}};
  nlohmann::json shipped{{"format", "unity kernel model"}, {"version", 1}, {"coefficients", nlohmann::json::object()}};
  std::map<kernel_kind, std::vector<double>> coefficients;
  fmt::print("{:<9} {:<18} {:>9} {:>9} {:>9} {:>9}\n", "operator", "device", "left out", "bias", "shapes", "roofline");
  for (const auto& [kind, k] : by_kind(all)) {
    coefficients[kind] = k.fit(a.count);
    shipped["coefficients"][std::string{kernel_kind_names[static_cast<std::size_t>(kind)]}] = coefficients[kind];
    std::map<std::string, std::vector<double>> without;
    for (const auto& [op, devices] : k.samples) {
      for (const auto& [device, samples] : devices) {
        if (!without.contains(device)) {
          without[device] = k.fit(a.count, device);
        }
        const auto left = errors_of(samples, without[device]).to_json();
        const auto shapes =
            errors_of(samples, coefficients[kind], stride_of(samples.size(), a.count)).to_json()["mape"];
        const auto before = roofline_errors(device, all.at(op).at(device)).to_json()["mape"];
        print_row(op, device, left, shapes, before);
        report["mape"][op][device] = left["mape"];
        report["bias"][op][device] = left["bias"];
        report["shapes_mape"][op][device] = shapes;
        report["roofline_mape"][op][device] = before;
        report["samples"][op][device] = samples.size();
      }
    }
  }
  if (!a.unseen.empty()) {
    fmt::print("\n{:<9} {:<18} {:>9} {:>9} {:>9} {:>9}\n", "operator", "unseen", "calls", "bias", "kernels",
               "roofline");
    report_unseen(a.unseen, coefficients, report);
  }
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back({a.json, report.dump(1) + "\n", {}, {}});
  }
  if (!a.out.empty()) {
    files.push_back({a.out, shipped.dump(1) + "\n", {}, {}});
  }
  support::write_all(files);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("fit_kernels", "Fits the model of kernels on GPUs to measured ones", argc,
                                         argv, declare, run);
}
