#include "torchscript/modules/synthesized.h"

#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {

using torch::jit::Module;

Module make_batch_norm(Symbol type, const operators::BatchNorm& parameters) {
  return written_module(
      "torch.nn.modules.batchnorm." + class_name(type),
      {optional_tensor("weight", parameters.weight),
       optional_tensor("bias", parameters.bias),
       buffer("running_mean", parameters.running_mean),
       buffer("running_var", parameters.running_var),
       {"eps", c10::FloatType::get(), parameters.eps}},
      "def forward(self, x):\n"
      "  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, False, 0.1, "
      "self.eps, False)\n");
}

Module make_prelu(const at::Tensor& weight) {
  return written_module("torch.nn.modules.activation.PReLU", {parameter("weight", weight)},
                        "def forward(self, x):\n  return torch.prelu(x, self.weight)\n");
}

Module make_softmax(int64_t dim) {
  return written_module("torch.nn.modules.activation.Softmax", {{"dim", c10::IntType::get(), dim}},
                        "def forward(self, x):\n  return torch.softmax(x, self.dim)\n");
}

}  // namespace tsq::torchscript
