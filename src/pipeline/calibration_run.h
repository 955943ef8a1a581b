#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/sample.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "ir/facts.h"
#include "pipeline/ranges_left.h"

namespace tsq::detail {

/// Runs a method of a prepared module on samples with the compiled form of its observers in place of their
/// TorchScript. The buffers are those of the module. Beside each numbered value of the method stands an
/// operator that takes note of it, and of its range where nothing else looks at that.
class CalibrationRun {
 public:
  /// `unobserved`: the numbers of the values whose range is looked at.
  CalibrationRun(torch::jit::Module prepared, const std::string& method,
                 const std::set<std::size_t>& unobserved = {});

  [[nodiscard]] const c10::FunctionSchema& schema() const noexcept { return schema_; }
  /// Throws what the method throws. `left`, where it is not null, counts what leaves the ranges until now,
  /// and `facts` is told the dtype and the sizes of each numbered value.
  void operator()(const Sample& sample, RangesLeft* left = nullptr, ir::Facts* facts = nullptr) const;

 private:
  torch::jit::Module prepared_;
  c10::FunctionSchema schema_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Function* function_;
};

}  // namespace tsq::detail
