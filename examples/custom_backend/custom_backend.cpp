// A backend of one's own, made outside of tsq: an accelerator "npu" that has one operator, a linear layer
// with ReLU. Its table, fuser, reference module and lowering row are registered here; nothing in tsq knows
// them.
#include <torch/library.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <iostream>

namespace {

using torch::jit::Module;

// 1. The library of operators, which a program that runs the lowered model loads as well. A real one drives
// the accelerator; this one computes in float.
std::vector<at::Tensor> prepack(const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return {weight, bias ? *bias : at::zeros({weight.size(0)})};
}

at::Tensor linear_relu(const at::Tensor& x, at::TensorList packed, double scale, int64_t zero_point) {
  const at::Tensor y = at::linear(x.dequantize(), packed[0].dequantize(), packed[1]).relu();
  return at::quantize_per_tensor(y, scale, zero_point, at::kQUInt8);
}

TORCH_LIBRARY(npu, library) {
  library.def("linear_prepack(Tensor weight, Tensor? bias) -> Tensor[]", prepack);
  library.def("linear_relu(Tensor x, Tensor[] packed, float scale, int zero_point) -> Tensor", linear_relu);
}

// 2. The fused module, which a fuser makes of the modules that were matched: tsq calls it with the inputs of
// the linear layer.
Module fuse_linear_relu(bool /*is_qat*/, const std::vector<Module>& matched) {
  Module fused("__torch__.npu.LinearReLU", std::make_shared<torch::jit::CompilationUnit>());
  fused.register_parameter("weight", matched.at(0).attr("weight").toTensor(), /*is_buffer=*/false);
  fused.register_parameter("bias", matched.at(0).attr("bias").toTensor(), /*is_buffer=*/false);
  fused.define("def forward(self, x):\n  return torch.relu(torch.linear(x, self.weight, self.bias))\n");
  return fused;
}

// 3. The reference module: what the operator is meant to compute, in float operators. tsq copies the
// attributes that the fused module has too, and sets those of the weight.
Module reference_linear_relu(const Module& /*fused*/, const tsq::QParams& /*weight*/) {
  Module module("__torch__.npu.ReferenceLinearReLU", std::make_shared<torch::jit::CompilationUnit>());
  const auto tensor = [&](const char* name) {
    module.register_attribute(name, c10::TensorType::get(), at::Tensor(at::empty({0})));
  };
  for (const char* name : {"weight", "bias", "weight_scale", "weight_zero_point"}) tensor(name);
  module.register_attribute("weight_axis", c10::IntType::get(), int64_t{0});
  module.register_attribute("weight_dtype", c10::IntType::get(), int64_t{0});
  module.define(R"(
def forward(self, x):
    weight = torch.quantize_per_channel(self.weight, self.weight_scale, self.weight_zero_point, self.weight_axis, self.weight_dtype)
    return torch.relu(torch.linear(x, weight.dequantize(), self.bias))
)");
  return module;
}

// 4. The table: what is fused, what is quantized and how, and what convert swaps.
tsq::BackendConfig npu_backend() {
  const tsq::Symbol fused = tsq::symbol("npu.LinearReLU");
  const tsq::DTypeConfig int8{.input_dtype = {.dtype = c10::kQUInt8},
                              .output_dtype = {.dtype = c10::kQUInt8},
                              .weight_dtype = {.dtype = c10::kQInt8},
                              .bias_dtype = c10::kFloat};
  tsq::BackendConfig backend("npu");
  backend
      .set_backend_pattern_config(tsq::BackendPatternConfig{
          tsq::chain({tsq::symbol("torch.nn.Linear"), tsq::symbol("torch.nn.ReLU")})}
                                      .set_fused_module(fused)
                                      .set_fuser_method("npu.fuse_linear_relu"))
      .set_backend_pattern_config(tsq::BackendPatternConfig{fused}
                                      .set_root_module(fused)
                                      .set_reference_quantized_module(tsq::symbol("npu.ReferenceLinearReLU"))
                                      .add_dtype_config(int8));
  return backend;
}

void register_npu() {
  tsq::register_fuser("npu.fuse_linear_relu", fuse_linear_relu);
  tsq::register_reference_module("npu.ReferenceLinearReLU", reference_linear_relu);
  // 5. Lowering: quantize(fused(dequantize(x))) becomes the accelerator's operator.
  tsq::register_lowering({.backend = "npu",
                          .op = tsq::symbol("npu.LinearReLU"),
                          .kernel = "npu::linear_relu",
                          .prepack = "npu::linear_prepack"});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: custom_backend MODEL.pt CALIBRATION.pt OUTPUT.pt\n";
    return 2;
  }
  register_npu();
  const Module model = tsq::load(argv[1]);
  const std::vector<tsq::Sample> samples = tsq::load_samples(argv[2], model);
  const tsq::BackendConfig backend = npu_backend();

  tsq::Prepared prepared = tsq::prepare(model, tsq::default_qconfig_mapping("x86"), backend,
                                        {.recipe = {.recipe = tsq::Recipe::Fx}});
  tsq::calibrate(prepared, samples);
  const tsq::Lowered quantized = tsq::convert(prepared, backend);
  tsq::save(quantized, argv[3]);
  for (const tsq::Decision& decision : quantized.report().decisions)
    std::cout << decision.layer << ' ' << decision.op << ": "
              << (decision.kernel.empty() ? "float" : decision.kernel) << '\n';
} catch (const std::exception& error) {
  std::cerr << "custom_backend: " << error.what() << '\n';
  return 1;
}
