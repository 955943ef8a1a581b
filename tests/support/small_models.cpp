#include "support/small_models.h"

#include <torch/script.h>

#include <cmath>

namespace tsq::testing {
namespace {

using torch::jit::Module;

Module leaf(const std::string& file, const std::string& name) {
  Module module("__torch__.torch.nn.modules." + file + "." + name,
                std::make_shared<torch::jit::CompilationUnit>(), /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

}  // namespace

Module conv2d(int64_t in, int64_t out, int64_t kernel, bool bias) {
  Module module = leaf("conv", "Conv2d");
  module.register_parameter("weight", torch::randn({out, in, kernel, kernel}), false);
  if (bias) {
    module.register_parameter("bias", torch::randn({out}), false);
  } else {
    module.register_attribute("bias", c10::NoneType::get(), c10::IValue());
  }
  const std::vector<int64_t> one{1, 1};
  const std::vector<int64_t> padding{kernel / 2, kernel / 2};
  module.register_attribute("stride", c10::ListType::ofInts(), one);
  module.register_attribute("padding", c10::ListType::ofInts(), padding);
  module.register_attribute("dilation", c10::ListType::ofInts(), one);
  module.register_attribute("groups", c10::IntType::get(), int64_t{1});
  module.define(
      "def forward(self, x):\n  return torch.conv2d(x, self.weight, self.bias, self.stride, self.padding, "
      "self.dilation, self.groups)\n");
  return module;
}

Module conv_transpose2d(int64_t in, int64_t out, int64_t kernel) {
  Module module = leaf("conv", "ConvTranspose2d");
  module.register_parameter("weight", torch::randn({in, out, kernel, kernel}), false);
  module.register_parameter("bias", torch::randn({out}), false);
  const std::vector<int64_t> one{1, 1};
  const std::vector<int64_t> zero{0, 0};
  module.register_attribute("stride", c10::ListType::ofInts(), one);
  module.register_attribute("padding", c10::ListType::ofInts(), zero);
  module.register_attribute("output_padding", c10::ListType::ofInts(), zero);
  module.register_attribute("dilation", c10::ListType::ofInts(), one);
  module.register_attribute("groups", c10::IntType::get(), int64_t{1});
  module.define(
      "def forward(self, x):\n  return torch.conv_transpose2d(x, self.weight, self.bias, self.stride, "
      "self.padding, self.output_padding, self.groups, self.dilation)\n");
  return module;
}

Module batch_norm2d(int64_t channels) {
  Module module = leaf("batchnorm", "BatchNorm2d");
  module.register_parameter("weight", torch::rand({channels}) + 0.5, false);
  module.register_parameter("bias", torch::randn({channels}), false);
  module.register_buffer("running_mean", torch::randn({channels}));
  module.register_buffer("running_var", torch::rand({channels}) + 0.5);
  module.register_attribute("eps", c10::FloatType::get(), 1e-5);
  module.define(
      "def forward(self, x):\n  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, "
      "self.running_var, False, 0.1, self.eps, "
      "False)\n");
  return module;
}

Module relu() {
  Module module = leaf("activation", "ReLU");
  module.define("def forward(self, x):\n  return torch.relu(x)\n");
  return module;
}

Module prelu(int64_t slopes) {
  Module module = leaf("activation", "PReLU");
  module.register_parameter("weight", torch::rand({slopes}) - 0.3, false);
  module.define("def forward(self, x):\n  return torch.prelu(x, self.weight)\n");
  return module;
}

Module linear(int64_t in, int64_t out) {
  Module module = leaf("linear", "Linear");
  module.register_parameter("weight", torch::randn({out, in}), false);
  module.register_parameter("bias", torch::randn({out}), false);
  module.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  return module;
}

Module layer_norm(int64_t features) {
  Module module = leaf("normalization", "LayerNorm");
  module.register_parameter("weight", torch::rand({features}) + 0.5, false);
  module.register_parameter("bias", torch::randn({features}), false);
  module.register_attribute("normalized_shape", c10::ListType::ofInts(), std::vector<int64_t>{features});
  module.register_attribute("eps", c10::FloatType::get(), 1e-5);
  module.define(
      "def forward(self, x):\n  return torch.layer_norm(x, self.normalized_shape, self.weight, self.bias, "
      "self.eps)\n");
  return module;
}

Module max_pool2d() {
  Module module = leaf("pooling", "MaxPool2d");
  module.define(
      "def forward(self, x):\n  return torch.max_pool2d(x, [2, 2], [2, 2], [0, 0], [1, 1], False)\n");
  return module;
}

Module user_module(const std::string& name) {
  Module module("__torch__.user." + name, std::make_shared<torch::jit::CompilationUnit>());
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

Module conv_bn_relu() {
  Module module = user_module("ConvBnReLU");
  module.register_module("conv", conv2d(3, 4, 3));
  module.register_module("bn", batch_norm2d(4));
  module.register_module("relu", relu());
  module.define("def forward(self, x):\n  return self.relu.forward(self.bn.forward(self.conv.forward(x)))\n");
  return module;
}

Module conv_relu_with_skip() {
  Module module = user_module("ConvReLUWithSkip");
  module.register_module("conv", conv2d(3, 3, 3));
  module.register_module("relu", relu());
  module.define("def forward(self, x):\n  y = self.conv.forward(x)\n  return self.relu.forward(y) + y\n");
  return module;
}

void scale_as_trained(Module& model) {
  const at::NoGradGuard no_gradients;
  for (at::Tensor weight : model.parameters()) {
    if (weight.dim() > 1) weight.div_(std::sqrt(static_cast<double>(weight[0].numel())));
  }
}

}  // namespace tsq::testing
