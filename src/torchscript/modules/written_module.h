#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/pattern.h>

#include <string>
#include <vector>

#include "ir/attributes.h"

namespace tsq::torchscript {

using ir::Attribute;

/// None where the tensor is not defined.
Attribute optional_tensor(const std::string& name, const at::Tensor& tensor);
Attribute parameter(const std::string& name, const at::Tensor& tensor);
Attribute buffer(const std::string& name, const at::Tensor& tensor);

/// A module of a class of its own, `__torch__.` and this name, with the attributes in this order and the
/// methods of `source`, whose names source_resolver knows.
torch::jit::Module written_module(const std::string& class_name, const std::vector<Attribute>& attributes,
                                  const std::string& source);

/// The name of a class without its package: "Conv2d" of torch.nn.Conv2d.
inline std::string class_name(Symbol type) { return std::string(type.name.substr(type.name.rfind('.') + 1)); }

}  // namespace tsq::torchscript
