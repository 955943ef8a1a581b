// Writes what the example programs are tried on: a small float network, data for it, and a model whose answer
// changes from call to call. Made as Python's torch.jit.script would make them, but without Python.
#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/script.h>
#include <torch/serialize.h>

#include <exception>
#include <fstream>
#include <string>

namespace {

using torch::jit::Module;
using Unit = std::shared_ptr<torch::jit::CompilationUnit>;

/// In eval mode.
Module new_module(const std::string& type, const Unit& unit) {
  Module module(c10::QualifiedName("__torch__." + type), unit, /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  return module;
}

void add_constant(const Module& module, const char* name, c10::IValue value) {
  module.type()->addConstant(name, std::move(value));
}

void define_forward(Module& module, const char* result) {
  module.define(fmt::format("def forward(self, input):\n    return {}\n", result));
}

Module conv(const Unit& unit, int64_t inputs, int64_t outputs) {
  Module module = new_module("torch.nn.modules.conv.Conv2d", unit);
  module.register_parameter("weight", torch::randn({outputs, inputs, 3, 3}) / 5, false);
  module.register_parameter("bias", torch::randn({outputs}) / 10, false);
  const c10::IValue ones = c10::ivalue::Tuple::create(1, 1);
  add_constant(module, "in_channels", inputs);
  add_constant(module, "out_channels", outputs);
  add_constant(module, "kernel_size", c10::ivalue::Tuple::create(3, 3));
  for (const char* name : {"stride", "padding", "dilation"}) add_constant(module, name, ones);
  add_constant(module, "groups", 1);
  add_constant(module, "padding_mode", "zeros");
  define_forward(module, "torch.conv2d(input, self.weight, self.bias, [1, 1], [1, 1], [1, 1])");
  return module;
}

Module relu(const Unit& unit) {
  Module module = new_module("torch.nn.modules.activation.ReLU", unit);
  add_constant(module, "inplace", false);
  define_forward(module, "torch.relu(input)");
  return module;
}

Module linear(const Unit& unit, int64_t inputs, int64_t outputs) {
  Module module = new_module("torch.nn.modules.linear.Linear", unit);
  module.register_parameter("weight", torch::randn({outputs, inputs}) / 5, false);
  module.register_parameter("bias", torch::randn({outputs}) / 10, false);
  add_constant(module, "in_features", inputs);
  add_constant(module, "out_features", outputs);
  define_forward(module, "torch.linear(input, self.weight, self.bias)");
  return module;
}

/// Two convolutions with a residual addition, pooled into a classifier of four classes.
Module network() {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module module = new_module("SmallNetwork", unit);
  module.register_module("widen", conv(unit, 3, 16));
  module.register_module("filter", conv(unit, 16, 16));
  module.register_module("relu", relu(unit));
  module.register_module("classify", linear(unit, 16, 4));
  module.define(R"(
def forward(self, image):
    x = self.relu.forward(self.widen.forward(image))
    x = torch.add(x, self.relu.forward(self.filter.forward(x)))
    return self.classify.forward(torch.flatten(torch.adaptive_avg_pool2d(x, [1, 1]), 1))
)");
  return module;
}

/// Linear layers and an addition, all with ReLU: what the accelerator of examples/custom_backend can do.
Module perceptron() {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Module module = new_module("Perceptron", unit);
  module.register_module("hidden", linear(unit, 432, 16));
  module.register_module("middle", linear(unit, 16, 16));
  module.register_module("classify", linear(unit, 16, 4));
  module.register_module("relu", relu(unit));
  module.define(R"(
def forward(self, image):
    x = self.relu.forward(self.hidden.forward(torch.flatten(image, 1)))
    x = torch.relu(torch.add(x, self.relu.forward(self.middle.forward(x))))
    return self.relu.forward(self.classify.forward(x))
)");
  return module;
}

/// Counts its calls, which no model that is run on several threads may do.
Module counter() {
  Module module = new_module("Counter", std::make_shared<torch::jit::CompilationUnit>());
  module.register_buffer("calls", torch::zeros({1}));
  module.define(R"(
def forward(self, image):
    self.calls.add_(1)
    return torch.add(image, self.calls)
)");
  return module;
}

void write_samples(const std::string& path, int samples) {
  c10::List<c10::IValue> list(c10::AnyType::get());
  for (int i = 0; i < samples; ++i) list.push_back(c10::ivalue::Tuple::create(torch::randn({2, 3, 12, 12})));
  const std::vector<char> bytes = torch::pickle_save(list);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    fmt::print(stderr, "usage: write_small_model FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  at::manual_seed(7);
  network().save(folder + "/float.pt");
  perceptron().save(folder + "/perceptron.pt");
  counter().save(folder + "/counter.pt");
  write_samples(folder + "/calibration.pt", 8);
  write_samples(folder + "/evaluation.pt", 8);
} catch (const std::exception& error) {
  fmt::print(stderr, "write_small_model: {}\n", error.what());
  return 1;
}
