// Fits the model of kernels on GPUs to measured ones, and says how far off it is on a device that it was not fitted to.
//
// run: {source}/test/data --unseen {source}/test/data/kernels_h100.csv.gz --json {out}/result.json --out {out}/kernels.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/cost/duration.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/hardware/device_rates.hpp>
#include <unity/hardware/device_table.hpp>
#include <unity/hardware/kernel_fit.hpp>
#include <unity/hardware/kernel_model.hpp>
#include <unity/hardware/kernel_table.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/measurements_csv.hpp>
#include <unity/io/packed_text.hpp>

#include "support/error_shares.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;
using namespace unity::hardware;

struct arguments {
  std::string folder{};
  std::string unseen{};
  std::size_t count = 250;
  std::string json{};
  std::string out{};
  std::string report{};
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
  app.add_option("--report", a.report, "file for an HTML report: errors beside those of a roofline");
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
  const bool is_narrow = all.at(op).at(name).front().shape.element_bytes < 4;
  return measured_device(*known, find("add"), all.at(op).at(name), find(is_narrow ? "linear_bfloat16" : "bmm"));
}

std::vector<placed_sample> placed(const samples_by_device& all, const std::string& op, const std::string& device) {
  const auto d = device_of(all, op, device);
  const auto& samples = all.at(op).at(device);
  if (operations_of(samples.front().shape) > 0 && d.rates.sustained <= 0) {
    throw error{device, fmt::format("no large products, which tell its rate, for {}", op), "times of bmm or linear"};
  }
  std::vector<placed_sample> to;
  for (const auto& s : samples) {
    to.push_back({s.shape, d, s.call_seconds});
  }
  return to;
}

// Of the kernels alone, where they were measured.
std::vector<placed_sample> placed_kernels(const samples_by_device& all, const std::string& op,
                                          const std::string& device) {
  auto d = device_of(all, op, device);
  d.launch_seconds = 0;
  std::vector<placed_sample> to;
  for (const auto& s : all.at(op).at(device)) {
    if (s.kernel_seconds > 0) {
      to.push_back({s.shape, d, s.kernel_seconds});
    }
  }
  return to;
}

// Means of errors relative to what was measured, and of their sizes.
struct errors {
  double mape = 0;
  double bias = 0;
  std::size_t count = 0;
  std::vector<double> ratios{};  // of what was measured to what was predicted

  void add(double predicted, double measured) {
    mape += std::abs(predicted / measured - 1);
    bias += predicted / measured - 1;
    ++count;
    ratios.push_back(measured / predicted);
  }
  errors& operator+=(const errors& o) {
    mape += o.mape;
    bias += o.bias;
    count += o.count;
    ratios.insert(ratios.end(), o.ratios.begin(), o.ratios.end());
    return *this;
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
  const auto rates = *hardware::find_device(*id_of_board(device));
  for (const auto& s : samples) {
    const auto longest =
        std::max(operations_of(s.shape) / rates.flops_per_second, bytes_of(s.shape) / rates.bytes_per_second);
    e.add(longest + rates.launch_seconds, s.call_seconds);
  }
  return e;
}

// Ratios of kernels that coefficients were not fitted to, by kind. Each operator and device adds at most `count`, so
// that none outweighs the others.
class unseen_ratios {
 public:
  explicit unseen_ratios(std::size_t count) : count_{count} {}

  void add(kernel_kind kind, const errors& e) {
    const auto stride = stride_of(e.ratios.size(), count_);
    for (std::size_t i = 0; i < e.ratios.size(); i += stride) {
      of_[kind].push_back(e.ratios[i]);
    }
  }
  // By the name of the kind, between which four of five of its ratios lie. An interval contains 1, so that what is
  // predicted lies between low and high.
  [[nodiscard]] nlohmann::json intervals() const {
    auto all = nlohmann::json::object();
    for (auto [kind, ratios] : of_) {
      std::sort(ratios.begin(), ratios.end());
      const auto [low, high] = unity::percentiles_10_90(ratios);
      all[std::string{kernel_kind_names[static_cast<std::size_t>(kind)]}] = {std::min(1.0, low), std::max(1.0, high)};
    }
    return all;
  }

 private:
  std::size_t count_;
  std::map<kernel_kind, std::vector<double>> of_{};
};

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

// Errors on a device that coefficients were not fitted to.
class error_page {
 public:
  void add(const std::string& op, const std::string& device, const errors& left, const errors& roofline) {
    const auto mean = [](const errors& e) { return 100 * e.to_json()["mape"].get<double>(); };
    rows_.push_back({op, device, fmt::format("{:.1f}%", mean(left)), fmt::format("{:.1f}%", mean(roofline)),
                     std::to_string(left.count)});
    left_ += left;
    roofline_ += roofline;
  }

  [[nodiscard]] std::string text(const std::string& folder) const {
    io::html_report page{fmt::format("The model of kernels, fitted to {}", folder)};
    page.paragraph("Errors on devices that the model was not fitted to, beside those of a roofline by data sheets.");
    page.chart(support::error_chart({support::error_shares("the model", sizes_of(left_)),
                                     support::error_shares("a roofline", sizes_of(roofline_))}));
    page.table(std::vector<std::string>{"operator", "device", "mean error", "of a roofline", "kernels"}, rows_);
    return page.text();
  }

 private:
  static std::vector<double> sizes_of(const errors& e) {
    std::vector<double> sizes;
    for (const auto ratio : e.ratios) {
      sizes.push_back(std::abs(1 / ratio - 1));
    }
    return sizes;
  }

  std::vector<std::vector<std::string>> rows_{};
  errors left_{};
  errors roofline_{};
};

// Kinds that the data of five devices has no times of.
bool is_of_one_device(kernel_kind kind) {
  return kind == kernel_kind::layer_norm_gradient || kind >= kernel_kind::tensor_product;
}

// Those are fitted to the kernels of the one device: how far off that is on shapes that were not fitted to, each half
// of them by the other.
struct own_fit {
  std::vector<double> coefficients{};
  std::map<std::string, errors> shapes{};  // by operator
};

own_fit fit_to_itself(const samples_by_device& all, const kind_data& k) {
  std::array<std::vector<placed_sample>, 2> halves;
  std::map<std::string, std::array<std::vector<placed_sample>, 2>> of;
  for (const auto& [op, devices] : k.samples) {
    for (const auto& [device, samples] : devices) {
      const auto kernels = placed_kernels(all, op, device);
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        halves[i / 2 % 2].push_back(kernels[i]);
        of[op][i / 2 % 2].push_back(kernels[i]);
      }
    }
  }
  own_fit fit;
  for (const std::size_t half : {0U, 1U}) {
    const auto c = fit_kernel_coefficients(k.kind, halves[half]);
    for (const auto& [op, samples] : of) {
      fit.shapes[op] += errors_of(samples[1 - half], c);
    }
  }
  halves[0].insert(halves[0].end(), halves[1].begin(), halves[1].end());
  fit.coefficients = fit_kernel_coefficients(k.kind, halves[0]);
  return fit;
}

std::vector<double> shipped_coefficients(kernel_kind kind) {
  const auto c = kernel_coefficients(kind);
  return {c.begin(), c.end()};
}

void report_unseen(const samples_by_device& all, std::map<kernel_kind, std::vector<double>>& coefficients,
                   unseen_ratios& ratios, nlohmann::json& report, error_page& page) {
  for (const auto& [kind, k] : by_kind(all)) {
    std::map<std::string, errors> shapes;
    auto c = coefficients.contains(kind) ? coefficients[kind] : shipped_coefficients(kind);
    if (!coefficients.contains(kind) && is_of_one_device(kind)) {
      auto own = fit_to_itself(all, k);
      c = coefficients[kind] = std::move(own.coefficients);
      shapes = std::move(own.shapes);
      for (const auto& [op, e] : shapes) {
        ratios.add(kind, e);
      }
    }
    for (const auto& [op, devices] : k.samples) {
      for (const auto& [device, samples] : devices) {
        const auto of_calls = errors_of(samples, c);
        auto e = of_calls.to_json();
        const auto alone = errors_of(placed_kernels(all, op, device), c).to_json();
        const auto by_roofline = roofline_errors(device, all.at(op).at(device));
        const auto before = by_roofline.to_json()["mape"].get<double>();
        print_row(op, device, e, alone["mape"].get<double>(), before);
        e["kernels"] = alone;
        e["roofline_mape"] = before;
        if (shapes.contains(op)) {
          report["fitted_to_itself"][op][device] = shapes[op].to_json();
        } else {
          report["unseen"][op][device] = std::move(e);
          page.add(op, device, of_calls, by_roofline);
        }
      }
    }
  }
}

nlohmann::json to_json(const product_rates& r) {
  return {{"brief", r.brief}, {"sustained", r.sustained}, {"deep_share", r.deep_share}};
}

// What was measured of each device, and the middle of what they reach of their data sheets.
void ship_devices(const samples_by_device& all, nlohmann::json& shipped,
                  std::map<std::string, std::vector<double>>& of) {
  if (!all.contains("add")) {
    return;  // devices without it are refused later, by name
  }
  for (const auto& [device, sums] : all.at("add")) {
    const auto d = device_of(all, "add", device);
    const auto has = [&](const char* op) { return all.contains(op) && all.at(op).contains(device); };
    const auto id = std::string{*id_of_board(device)};
    const auto sheet =
        *std::find_if(known_devices.begin(), known_devices.end(), [&](const auto& x) { return x.id == id; });
    nlohmann::json one{{"id", id}, {"bytes_per_second", d.bytes_per_second}, {"launch_s", d.launch_seconds}};
    of["bytes_per_second"].push_back(d.bytes_per_second / sheet.bytes_per_second);
    for (const auto& [element, op, rate] : {std::tuple{"float32", has("linear") ? "linear" : "bmm", sheet.float32},
                                            std::tuple{"bfloat16", "linear_bfloat16", sheet.bfloat16}}) {
      if (has(op) && rate > 0) {
        const auto rates = device_of(all, op, device).rates;
        one["rates"][element] = to_json(rates);
        of[element].push_back(rates.brief / rate);
      }
    }
    shipped["devices"].push_back(std::move(one));
  }
}

void run(const arguments& a) {
  support::expect_writable(a.json);
  support::expect_writable(a.out);
  support::expect_writable(a.report);
  const auto all = read_folder(a.folder);
  nlohmann::json report{{"mape", nlohmann::json::object()},
                        {"bias", nlohmann::json::object()},
                        {"shapes_mape", nlohmann::json::object()},
                        {"roofline_mape", nlohmann::json::object()},
                        {"samples", nlohmann::json::object()},
                        {"unseen", nlohmann::json::object()},
                        {"fitted_to_itself", nlohmann::json::object()}};
  nlohmann::json shipped{{"format", "unity kernel model"},
                         {"version", 1},
                         {"coefficients", nlohmann::json::object()},
                         {"devices", nlohmann::json::array()},
                         {"shares", nlohmann::json::object()}};
  std::map<kernel_kind, std::vector<double>> coefficients;
  std::map<std::string, std::vector<double>> shares;  // of data sheets, by number
  unseen_ratios ratios{a.count};
  error_page page;
  ship_devices(all, shipped, shares);
  fmt::print("{:<9} {:<18} {:>9} {:>9} {:>9} {:>9}\n", "operator", "device", "left out", "bias", "shapes", "roofline");
  for (const auto& [kind, k] : by_kind(all)) {
    coefficients[kind] = k.fit(a.count);
    std::map<std::string, std::vector<double>> without;
    for (const auto& [op, devices] : k.samples) {
      for (const auto& [device, samples] : devices) {
        if (!without.contains(device)) {
          without[device] = k.fit(a.count, device);
        }
        const auto left_out = errors_of(samples, without[device]);
        ratios.add(kind, left_out);
        const auto left = left_out.to_json();
        const auto shapes =
            errors_of(samples, coefficients[kind], stride_of(samples.size(), a.count)).to_json()["mape"];
        const auto by_roofline = roofline_errors(device, all.at(op).at(device));
        const auto before = by_roofline.to_json()["mape"];
        page.add(op, device, left_out, by_roofline);
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
    samples_by_device unseen;
    read_into(unseen, a.unseen);
    report_unseen(unseen, coefficients, ratios, report, page);
    ship_devices(unseen, shipped, shares);
  }
  for (const auto& [kind, c] : coefficients) {
    shipped["coefficients"][std::string{kernel_kind_names[static_cast<std::size_t>(kind)]}] = c;
  }
  shipped["ratio_intervals"] = ratios.intervals();
  for (auto& [of, each] : shares) {
    std::sort(each.begin(), each.end());
    shipped["shares"][of] = each[each.size() / 2];
  }
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back({a.json, report.dump(1) + "\n", {}, {}});
  }
  if (!a.out.empty()) {
    files.push_back({a.out, shipped.dump(1) + "\n", {}, {}});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, page.text(a.folder), {}, {}});
  }
  support::write_all(files);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("fit_kernels", "Fits the model of kernels on GPUs to measured ones", argc,
                                         argv, declare, run);
}
