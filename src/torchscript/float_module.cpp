#include "torchscript/float_module.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include "operators/convolution_padding.h"
#include "operators/weighted.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

Module module_of_class(std::string_view file, Symbol type) {
  return Module(
      fmt::format("__torch__.torch.nn.modules.{}.{}", file, type.name.substr(type.name.rfind('.') + 1)),
      std::make_shared<torch::jit::CompilationUnit>());
}

void register_tensor(Module& module, const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined()) {
    module.register_parameter(name, tensor, /*is_buffer=*/false);
  } else {
    module.register_attribute(name, c10::OptionalType::ofTensor(), c10::IValue());
  }
}

void register_numbers(Module& module, const std::string& name, const std::vector<int64_t>& numbers) {
  module.register_attribute(name, c10::ListType::ofInts(), c10::List<int64_t>(numbers));
}

/// How the convolution is called: with its padding inside, or after it.
std::string convolution_source(const ir::Weighted& weighted, bool is_transposed) {
  const std::size_t dims = weighted.stride.size();
  if (is_transposed) {
    return fmt::format(
        "def forward(self, x):\n"
        "  return torch.conv_transpose{}d(x, self.weight, self.bias, self.stride, self.padding,\n"
        "    self.output_padding, self.groups, self.dilation)\n",
        dims);
  }
  const bool pads_before = weighted.padding_mode != "zeros";
  return fmt::format(
      "def forward(self, x):\n"
      "  {}\n"
      "  return torch.conv{}d(x, self.weight, self.bias, self.stride, {}, self.dilation, self.groups)\n",
      pads_before ? "x = torch.pad(x, self.sides, self.padding_mode)" : "pass", dims,
      pads_before ? fmt::format("[0] * {}", dims) : "self.padding");
}

Module convolution(Symbol type, const ir::Weighted& weighted) {
  Module module = module_of_class("conv", type);
  register_tensor(module, "weight", weighted.weight);
  register_tensor(module, "bias", weighted.bias);
  register_numbers(module, "stride", weighted.stride);
  register_numbers(module, "dilation", weighted.dilation);
  register_numbers(module, "output_padding", weighted.output_padding);
  if (weighted.padding_name.empty()) {
    register_numbers(module, "padding", weighted.padding);
  } else {
    module.register_attribute("padding", c10::StringType::get(), weighted.padding_name);
  }
  module.register_attribute("groups", c10::IntType::get(), weighted.groups);
  module.register_attribute("padding_mode", c10::StringType::get(), weighted.padding_mode);
  if (weighted.padding_mode != "zeros")
    register_numbers(module, "sides", operators::explicit_padding(weighted));
  module.define(convolution_source(weighted, operators::is_transposed(type)));
  return module;
}

Module linear(Symbol type, const ir::Weighted& weighted) {
  Module module = module_of_class("linear", type);
  register_tensor(module, "weight", weighted.weight);
  register_tensor(module, "bias", weighted.bias);
  module.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  return module;
}

/// A function that became a module has its other arguments as constants.
Module activation(const ir::ModuleCall& call) {
  Module module = module_of_class("activation", call.type);
  if (call.type.name == "torch.nn.LeakyReLU") {
    const bool has_slope = !call.constants.empty() && call.constants.front().isDouble();
    module.register_attribute("negative_slope", c10::FloatType::get(),
                              has_slope ? call.constants.front().toDouble() : 0.01);
    module.define("def forward(self, x):\n  return torch.leaky_relu(x, self.negative_slope)\n");
  } else {
    module.define(fmt::format("def forward(self, x):\n  return torch.{}(x)\n",
                              call.type.name == "torch.nn.Tanh" ? "tanh" : "relu"));
  }
  return module;
}

}  // namespace

Module float_module(const ir::ModuleCall& call) {
  if (!call.members.empty()) {
    throw Error(ErrorCode::Unsupported, "a fused module has no module of its own class",
                "fuse all of its operators in one row",
                Where{.layer = call.path, .op = std::string(call.type.name)});
  }
  if (call.weighted)
    return call.weighted->stride.empty() ? linear(call.type, *call.weighted)
                                         : convolution(call.type, *call.weighted);
  return call.module ? *call.module : activation(call);
}

}  // namespace tsq::torchscript
