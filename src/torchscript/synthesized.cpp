#include "torchscript/synthesized.h"

#include <fmt/format.h>

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

Module module_of_class(const std::string& qualified_name) {
  return Module("__torch__." + qualified_name, std::make_shared<torch::jit::CompilationUnit>());
}

}  // namespace

Module make_batch_norm(Symbol type, const operators::BatchNorm& parameters) {
  const std::string class_name(type.name.substr(type.name.rfind('.') + 1));
  Module module = module_of_class("torch.nn.modules.batchnorm." + class_name);
  const auto optional_tensor = c10::OptionalType::ofTensor();
  const auto value_of = [](const at::Tensor& tensor) {
    return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
  };
  module.register_attribute("weight", optional_tensor, value_of(parameters.weight));
  module.register_attribute("bias", optional_tensor, value_of(parameters.bias));
  module.register_buffer("running_mean", parameters.running_mean);
  module.register_buffer("running_var", parameters.running_var);
  module.register_attribute("eps", c10::FloatType::get(), parameters.eps);
  module.define(
      "def forward(self, x):\n"
      "  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, False, 0.1, "
      "self.eps, False)\n");
  return module;
}

Module make_prelu(const at::Tensor& weight) {
  Module module = module_of_class("torch.nn.modules.activation.PReLU");
  module.register_parameter("weight", weight, /*is_buffer=*/false);
  module.define("def forward(self, x):\n  return torch.prelu(x, self.weight)\n");
  return module;
}

Module make_softmax(int64_t dim) {
  Module module = module_of_class("torch.nn.modules.activation.Softmax");
  module.register_attribute("dim", c10::IntType::get(), dim);
  module.define("def forward(self, x):\n  return torch.softmax(x, self.dim)\n");
  return module;
}

}  // namespace tsq::torchscript
