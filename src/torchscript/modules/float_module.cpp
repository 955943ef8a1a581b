#include "torchscript/modules/float_module.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include "operators/images/convolution_padding.h"
#include "operators/weighted.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

std::string class_in(std::string_view file, Symbol type) {
  return fmt::format("torch.nn.modules.{}.{}", file, class_name(type));
}

Attribute parameter_or_none(const std::string& name, const at::Tensor& tensor) {
  return tensor.defined() ? parameter(name, tensor) : optional_tensor(name, tensor);
}

Attribute numbers(const std::string& name, const std::vector<int64_t>& values) {
  return {name, c10::ListType::ofInts(), values};
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
  std::vector<Attribute> attributes{parameter_or_none("weight", weighted.weight),
                                    parameter_or_none("bias", weighted.bias),
                                    numbers("stride", weighted.stride),
                                    numbers("dilation", weighted.dilation),
                                    numbers("output_padding", weighted.output_padding),
                                    weighted.padding_name.empty()
                                        ? numbers("padding", weighted.padding)
                                        : Attribute{"padding", c10::StringType::get(), weighted.padding_name},
                                    {"groups", c10::IntType::get(), weighted.groups},
                                    {"padding_mode", c10::StringType::get(), weighted.padding_mode}};
  if (weighted.padding_mode != "zeros")
    attributes.push_back(numbers("sides", operators::explicit_padding(weighted)));
  return written_module(class_in("conv", type), attributes,
                        convolution_source(weighted, operators::is_transposed(type)));
}

Module linear(Symbol type, const ir::Weighted& weighted) {
  return written_module(
      class_in("linear", type),
      {parameter_or_none("weight", weighted.weight), parameter_or_none("bias", weighted.bias)},
      "def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
}

/// A function that became a module has its other arguments as constants.
Module activation(const ir::ModuleCall& call) {
  const std::string name = class_in("activation", call.type);
  if (call.type.name != "torch.nn.LeakyReLU") {
    return written_module(name, {},
                          fmt::format("def forward(self, x):\n  return torch.{}(x)\n",
                                      call.type.name == "torch.nn.Tanh" ? "tanh" : "relu"));
  }
  const bool has_slope = !call.constants.empty() && call.constants.front().isDouble();
  return written_module(
      name, {{"negative_slope", c10::FloatType::get(), has_slope ? call.constants.front().toDouble() : 0.01}},
      "def forward(self, x):\n  return torch.leaky_relu(x, self.negative_slope)\n");
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
