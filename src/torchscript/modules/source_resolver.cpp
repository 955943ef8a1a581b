#include "torchscript/modules/source_resolver.h"

#include <torch/csrc/jit/frontend/sugared_value.h>

#include <string>

namespace tsq::torchscript {
namespace {

struct SourceResolver : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction& function,
                                                         const torch::jit::SourceRange& where) override {
    if (name == "quantized" || name == "onednn") return std::make_shared<torch::jit::BuiltinModule>(name);
    return torch::jit::nativeResolver()->resolveValue(name, function, where);
  }
};

}  // namespace

std::shared_ptr<torch::jit::Resolver> source_resolver() { return std::make_shared<SourceResolver>(); }

}  // namespace tsq::torchscript
