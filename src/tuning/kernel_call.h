#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernels/kernel_work.h"

/// Calls of kernels whose times are taken.
namespace tsq::tuning {

/// An operator of LibTorch, looked up once and called as the interpreter calls it.
class Operator {
 public:
  /// "quantized::conv2d.new": a point divides name and overload.
  explicit Operator(const std::string& name);
  /// What stands on the stack after the call.
  [[nodiscard]] std::vector<c10::IValue> call(const std::vector<c10::IValue>& arguments) const;
  /// The first result.
  c10::IValue operator()(const std::vector<c10::IValue>& arguments) const;

 private:
  c10::OperatorHandle handle_;
};

/// One call of an operator with all that it takes. `engine`: of LibTorch, whose kernel it is; empty: one for
/// all.
struct KernelCall {
  std::string name{};  ///< with its overload
  std::string engine{};
  std::vector<c10::IValue> arguments{};
};

/// What was measured of a call.
struct MeasuredCall {
  std::string name{};  ///< without overload
  std::string engine{};
  int threads{1};
  kernels::KernelWork work{};
  double nanoseconds{0};
};

/// Nanoseconds of a random call that is not measured: smaller ones tell what its kernel takes. Where a
/// processor has a reference kernel alone, large calls take minutes.
inline constexpr double kTooSlow = 2.5e8;
inline constexpr double kNotMeasured = std::numeric_limits<double>::infinity();

/// The time of a call in the state in which a network makes it: it has run before, what it reads has just
/// been written, and its weights and code have left the caches nearby. The lower quartile of the rounds
/// counts. With the threads that LibTorch computes with now. kNotMeasured for a call that takes longer than
/// `too_slow`; none for one that raises.
std::optional<MeasuredCall> measure(const KernelCall& call, int rounds, double too_slow = kNotMeasured);

/// The time of one call. Its results are freed after the clock has stopped.
double nanoseconds_of(const Operator& op, const std::vector<c10::IValue>& arguments);

/// Memory that is freed stays in the process from now on, as where a model is served: the system, which hands
/// out empty pages, takes no part of the times.
void keep_memory();
/// LibTorch's oneDNN keeps few primitives, as where one model is served, unless it has made some.
void keep_few_primitives();

/// Writes what the tensor holds again.
void write(const at::Tensor& tensor);
/// Replaces what the second cache holds, so that weights and code come from the third one.
void leave_second_cache();

/// The value that a quarter of the numbers do not exceed.
double lower_quartile(std::vector<double> times);

/// The operator's name without its overload.
std::string_view base_name(std::string_view name);

}  // namespace tsq::tuning
