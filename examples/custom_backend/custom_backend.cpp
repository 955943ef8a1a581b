// A backend of one's own, made outside of tsq: an accelerator "npu" that has two operators, a linear layer
// with ReLU and an addition with ReLU. Its table, fuser, reference module and lowering rows are registered
// here; nothing in tsq knows them.
#include <torch/script.h>
#include <tsq/tsq.h>

#include <iostream>

namespace {

using torch::jit::Module;

// 1. The operators are a library of their own, npu_operators.cpp.

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

tsq::Pattern add_relu() { return tsq::chain({tsq::symbol("torch.add"), tsq::symbol("torch.relu")}); }

// 4. The table: what is fused, what is quantized and how, and what convert swaps.
tsq::BackendConfig npu_backend() {
  const tsq::Symbol fused = tsq::symbol("npu.LinearReLU");
  const tsq::DTypeConfig int8{.input_dtype = {.dtype = c10::kQUInt8},
                              .output_dtype = {.dtype = c10::kQUInt8},
                              .weight_dtype = {.dtype = c10::kQInt8},
                              .bias_dtype = c10::kFloat};
  tsq::BackendConfig backend("npu");
  backend
      .set_engine("none")  // LibTorch has no kernels for it
      .set_backend_pattern_config(tsq::BackendPatternConfig{
          tsq::chain({tsq::symbol("torch.nn.Linear"), tsq::symbol("torch.nn.ReLU")})}
                                      .set_fused_module(fused)
                                      .set_fuser_method("npu.fuse_linear_relu"))
      .set_backend_pattern_config(tsq::BackendPatternConfig{fused}
                                      .set_root_module(fused)
                                      .set_reference_quantized_module(tsq::symbol("npu.ReferenceLinearReLU"))
                                      .add_dtype_config(int8))
      // A pattern of several functions needs no fuser: it is observed as one.
      .set_backend_pattern_config(tsq::BackendPatternConfig{add_relu()}.add_dtype_config(
          {.input_dtype = {.dtype = c10::kQUInt8}, .output_dtype = {.dtype = c10::kQUInt8}}))
      // What the accelerator cannot do stays as the reference model computes it.
      .set_falls_back_to_libtorch(false);
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
  tsq::register_lowering({.backend = "npu", .op = add_relu(), .kernel = "npu::add_relu"});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 6) {
    std::cerr << "usage: custom_backend LIBRARY.so MODEL.pt CALIBRATION.pt REFERENCE.pt OUTPUT.pt\n";
    return 2;
  }
  tsq::load_library(argv[1]);
  register_npu();
  const Module model = tsq::load(argv[2]);
  const std::vector<tsq::Sample> samples = tsq::load_samples(argv[3], model);
  const tsq::BackendConfig backend = npu_backend();

  tsq::Prepared prepared =
      tsq::prepare(model, tsq::default_qconfig_mapping("x86"), backend, {.recipe = tsq::Recipe::Fx});
  tsq::calibrate(prepared, samples);
  tsq::convert_to_reference(prepared, backend).save(argv[4]);
  const tsq::Lowered quantized = tsq::convert(prepared, backend);
  tsq::save(quantized, argv[5]);
  for (const tsq::Decision& decision : quantized.report().decisions)
    std::cout << decision.layer << ' ' << decision.op << ": "
              << (decision.kernel.empty() ? "float" : decision.kernel) << '\n';
} catch (const std::exception& error) {
  std::cerr << "custom_backend: " << error.what() << '\n';
  return 1;
}
