#include "torchscript/modules/written_module.h"

#include "torchscript/modules/source_resolver.h"

namespace tsq::torchscript {

Attribute optional_tensor(const std::string& name, const at::Tensor& tensor) {
  return {.name = name,
          .type = c10::OptionalType::ofTensor(),
          .value = tensor.defined() ? c10::IValue(tensor) : c10::IValue()};
}

Attribute parameter(const std::string& name, const at::Tensor& tensor) {
  return {.name = name, .type = c10::TensorType::get(), .value = tensor, .is_parameter = true};
}

Attribute buffer(const std::string& name, const at::Tensor& tensor) {
  return {.name = name, .type = c10::TensorType::get(), .value = tensor, .is_buffer = true};
}

torch::jit::Module written_module(const std::string& class_name, const std::vector<Attribute>& attributes,
                                  const std::string& source) {
  torch::jit::Module module("__torch__." + class_name, std::make_shared<torch::jit::CompilationUnit>());
  for (const Attribute& each : attributes) ir::add_attribute(module, each);
  module.define(source, source_resolver());
  return module;
}

}  // namespace tsq::torchscript
