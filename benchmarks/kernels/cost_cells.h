#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "backends/kernels/costs.h"
#include "benchmarks/kernels/stopwatch.h"

/// The cells of the table of costs (backends/kernels/costs.h), each with what it stands for.
namespace tsq::benchmarks {

/// Where a cell is measured. The engine is set.
struct Place {
  std::string engine;
  kernels::EngineCosts costs;  ///< the table's row
  Effort effort;
};

struct Cell {
  std::string_view name;
  std::string_view unit;
  std::variant<double kernels::EngineCosts::*, int64_t kernels::EngineCosts::*, bool kernels::EngineCosts::*>
      member;
  bool may_be_unbounded;  ///< kNever: no number is large enough
  std::string_view measured_as;
  /// Empty where nothing is measured: `measured_as` says why. Returns infinity for unbounded cells, nothing
  /// where this engine or this processor cannot show it.
  std::function<std::optional<double>(const Place&)> measure;
  /// How many times as large or small as the table's the measured number may be.
  double tolerated;
};

std::span<const Cell> cost_cells();

/// The table's number; infinity where the cell is unbounded.
double number_in_table(const Cell& cell, const kernels::EngineCosts& costs);

}  // namespace tsq::benchmarks
