#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

namespace tsq::benchmarks {

/// Work to be timed, with all that it needs made before.
using Call = std::function<void()>;

/// An operator of LibTorch, looked up once and called as the interpreter calls it.
class Operator {
 public:
  explicit Operator(const char* name, const char* overload = "");
  /// Returns the first result.
  at::IValue operator()(const std::vector<at::IValue>& arguments) const;
  at::Tensor tensor(const std::vector<at::IValue>& arguments) const { return (*this)(arguments).toTensor(); }

 private:
  c10::OperatorHandle handle_;
};

/// The scale and the zero point of every quantized tensor here: times do not depend on them, as long as
/// neither is that of a special case (a zero point of 0 spares kernels their corrections).
constexpr double kScale = 0.05;
constexpr int64_t kZeroPoint = 64;

/// Values of a standard normal distribution. Of three dimensions and more, channels come second and lie side
/// by side, as int8 convolutions return them; `contiguous`: in the order of their dimensions.
at::Tensor random_float(at::IntArrayRef sizes, bool contiguous = false);
at::Tensor quantize(const at::Tensor& x);
/// As random_float, in quint8.
at::Tensor random_codes(at::IntArrayRef sizes);
/// A weight in qint8 with a scale for each channel of its output.
at::Tensor quantize_weight(const at::Tensor& weight);

}  // namespace tsq::benchmarks
