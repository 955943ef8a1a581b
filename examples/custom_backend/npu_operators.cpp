// The operators of an accelerator "npu", a library of its own: whoever runs a lowered model loads it. A real
// one drives the accelerator; this one computes in float.
#include <torch/library.h>
#include <torch/script.h>

namespace {

std::vector<at::Tensor> prepack(const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return {weight, bias ? *bias : at::zeros({weight.size(0)})};
}

at::Tensor linear_relu(const at::Tensor& x, at::TensorList packed, double scale, int64_t zero_point) {
  const at::Tensor y = at::linear(x.dequantize(), packed[0].dequantize(), packed[1]).relu();
  return at::quantize_per_tensor(y, scale, zero_point, at::kQUInt8);
}

at::Tensor add_relu(const at::Tensor& a, const at::Tensor& b, double scale, int64_t zero_point) {
  return at::quantize_per_tensor(at::relu(a.dequantize() + b.dequantize()), scale, zero_point, at::kQUInt8);
}

TORCH_LIBRARY(npu, library) {
  library.def("linear_prepack(Tensor weight, Tensor? bias) -> Tensor[]", prepack);
  library.def("linear_relu(Tensor x, Tensor[] packed, float scale, int zero_point) -> Tensor", linear_relu);
  library.def("add_relu(Tensor a, Tensor b, float scale, int zero_point) -> Tensor", add_relu);
}

}  // namespace
