// Measures what each cell of the table of costs stands for (backends/kernels/costs.h) on this machine, and
// compares it with the table that is compiled in.
//   tsq_kernel_costs
//   tsq_kernel_costs --engine x86 --cell copies_of_signal --json costs.json
//   tsq_kernel_costs --check                                   fails where a cell is off
//   tsq_kernel_costs --stored measured_costs.json --check      the same of measurements that are stored
// One thread; freed memory stays in the process.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <tsq/bench/machine.h>
#include <tsq/engine_lock.h>
#include <tsq/engines.h>
#include <tsq/libtorch_warnings.h>
#include <tsq/runner.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/known_engines.h"
#include "benchmarks/kernels/cost_cells.h"

namespace tsq::benchmarks {
namespace {

struct Options {
  std::vector<std::string> engines;
  std::vector<std::string> cells;
  std::string json;
  std::string stored;  ///< a file that --json has written: its numbers are taken, and nothing is measured
  bool check{false};
  Effort effort;
};

struct Finding {
  std::string engine;
  const Cell* cell;
  double table;
  std::optional<double> measured;
};

bool is_off(const Finding& finding) {
  if (!finding.measured || *finding.measured == finding.table) return false;
  const auto [least, most] = std::minmax(finding.table, *finding.measured);
  return least <= 0 || most / least > finding.cell->tolerated;
}

/// Whether the table is right, or why that is not known.
const char* verdict(const Finding& finding) {
  if (!finding.cell->measure) return "not measurable";
  if (!finding.measured) return "not here";
  return is_off(finding) ? "off" : "agrees";
}

std::string text_of(std::optional<double> number) {
  if (!number) return "-";
  return std::isinf(*number) ? "unbounded" : fmt::format("{:.4g}", *number);
}

/// JSON has no infinity.
nlohmann::json json_number(std::optional<double> number) {
  if (!number) return nullptr;
  return std::isinf(*number) ? nlohmann::json("unbounded") : nlohmann::json(*number);
}

nlohmann::json to_json(const std::vector<Finding>& findings) {
  nlohmann::json cells = nlohmann::json::array();
  for (const Finding& finding : findings) {
    cells.push_back({{"engine", finding.engine},
                     {"cell", finding.cell->name},
                     {"unit", finding.cell->unit},
                     {"table", json_number(finding.table)},
                     {"measured", json_number(finding.measured)},
                     {"tolerated_factor", finding.cell->tolerated},
                     {"verdict", verdict(finding)},
                     {"measured_as", finding.cell->measured_as}});
  }
  return {{"machine", bench::to_json(bench::this_machine())}, {"cells", cells}};
}

void print_row(const Finding& finding) {
  fmt::print("{:<8} {:<30} {:>12} {:>12}  {:<16} {}\n", finding.engine, finding.cell->name,
             text_of(finding.table), text_of(finding.measured), finding.cell->unit, verdict(finding));
  std::fflush(stdout);
}

std::optional<double> number_of(const nlohmann::json& number) {
  if (number.is_null()) return std::nullopt;
  return number.is_string() ? std::numeric_limits<double>::infinity() : number.get<double>();
}

void print_head() {
  fmt::print("{:<8} {:<30} {:>12} {:>12}  {:<16} {}\n", "engine", "cell", "table", "measured", "unit",
             "verdict");
}

/// The cells of a file that --json has written, beside the table as it is now.
std::vector<Finding> stored(const Options& options) {
  std::ifstream file(options.stored);
  const nlohmann::json content = nlohmann::json::parse(file);
  std::vector<Finding> findings;
  print_head();
  for (const nlohmann::json& each : content.at("cells")) {
    const auto engine = each.at("engine").get<std::string>();
    const auto name = each.at("cell").get<std::string>();
    const auto cell = std::ranges::find(cost_cells(), name, &Cell::name);
    if (cell == cost_cells().end())
      throw std::runtime_error(
          fmt::format("'{}' has the cell '{}', which the table has not", options.stored, name));
    if (std::ranges::count(options.engines, engine) == 0 || std::ranges::count(options.cells, name) == 0)
      continue;
    findings.push_back({engine, &*cell, number_in_table(*cell, kernels::costs_of({.engine = engine})),
                        cell->measure ? number_of(each.at("measured")) : std::nullopt});
    print_row(findings.back());
  }
  return findings;
}

std::vector<Finding> measure(const Options& options) {
  const c10::InferenceMode no_gradients;
  std::vector<Finding> findings;
  print_head();
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    const std::string name = engine_name(engine);
    if (std::ranges::count(options.engines, name) == 0) continue;
    const EngineHold hold(engine);
    const Place place{name, kernels::costs_of({.engine = name}), options.effort};
    for (const Cell& cell : cost_cells()) {
      if (std::ranges::count(options.cells, cell.name) == 0) continue;
      findings.push_back({name, &cell, number_in_table(cell, place.costs),
                          cell.measure ? cell.measure(place) : std::nullopt});
      print_row(findings.back());
    }
  }
  return findings;
}

/// Whole or not at all.
void write(const std::string& path, const nlohmann::json& content) {
  const std::string unfinished = path + ".unfinished";
  std::ofstream file(unfinished);
  file << content.dump(2) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write '" + path + "': check the folder and its free space");
  std::filesystem::rename(unfinished, path);
}

int run(int argc, char** argv) {
  Options options;
  std::vector<std::string> all_cells;
  for (const Cell& cell : cost_cells()) all_cells.emplace_back(cell.name);
  constexpr auto known = known_engines();
  const std::vector<std::string> all_engines(known.begin(), known.end());
  CLI::App app("Measures what each cell of the table of costs stands for, and compares.");
  app.add_option("--engine", options.engines, "engines to measure (default: all)")
      ->check(CLI::IsMember(all_engines));
  app.add_option("--cell", options.cells, "cells to measure (default: all)")->check(CLI::IsMember(all_cells));
  app.add_option("--json", options.json, "also write the cells to this file");
  app.add_option("--stored", options.stored, "take the numbers of this file, which --json has written")
      ->check(CLI::ExistingFile);
  app.add_flag("--check", options.check, "fail where a cell is off by more than it may");
  app.add_option("--rounds", options.effort.rounds, "turns of each call, of which the fastest counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--turn", options.effort.seconds_of_turn, "seconds of a turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (options.engines.empty()) options.engines = all_engines;
  if (options.cells.empty()) options.cells = all_cells;
  const std::vector<Finding> findings = options.stored.empty() ? measure(options) : stored(options);
  const auto off = std::ranges::count_if(findings, is_off);
  fmt::print("{} of {} cells are off. One thread of {}\n", off, findings.size(),
             options.stored.empty() ? bench::text_of(bench::this_machine()) : options.stored);
  if (!options.json.empty()) write(options.json, to_json(findings));
  return options.check && off > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tsq::benchmarks

int main(int argc, char** argv) try {
  tsq::silence_libtorch();
  tsq::keep_freed_memory();
  at::set_num_threads(1);
  at::manual_seed(0);
  return tsq::benchmarks::run(argc, argv);
} catch (const c10::Error& error) {
  std::cerr << "tsq_kernel_costs: error: " << error.what_without_backtrace() << '\n';
  return 1;
} catch (const std::exception& error) {
  std::cerr << "tsq_kernel_costs: error: " << error.what() << '\n';
  return 1;
}
