#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/error.h>
#include <tsq/state_dict.h>

#include <vector>

namespace tsq {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

/// The keys of one that the other lacks.
std::vector<std::string> keys_without(const Tensors& tensors, const Tensors& other) {
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : tensors) {
    if (!other.contains(key)) keys.push_back(key);
  }
  return keys;
}

std::vector<std::string> other_sizes(const Tensors& own, const Tensors& given) {
  std::vector<std::string> texts;
  for (const auto& [key, tensor] : given) {
    const auto found = own.find(key);
    if (found == own.end() || found->second.sizes() == tensor.sizes()) continue;
    texts.push_back(fmt::format("{} is [{}], not [{}]", key, fmt::join(tensor.sizes(), ", "),
                                fmt::join(found->second.sizes(), ", ")));
  }
  return texts;
}

}  // namespace

Tensors state_dict(const torch::jit::Module& module) {
  Tensors tensors;
  for (const auto& each : module.named_parameters()) tensors.emplace(each.name, each.value);
  for (const auto& each : module.named_buffers()) tensors.emplace(each.name, each.value);
  return tensors;
}

void load_state_dict(const torch::jit::Module& module, const Tensors& tensors, bool strict) {
  const Tensors own = state_dict(module);
  std::vector<std::string> faults;
  const auto add = [&faults](const char* what, const std::vector<std::string>& entries) {
    if (!entries.empty()) faults.push_back(fmt::format("{}: {}", what, fmt::join(entries, ", ")));
  };
  if (strict) {
    add("missing keys", keys_without(own, tensors));
    add("unexpected keys", keys_without(tensors, own));
  }
  add("other sizes", other_sizes(own, tensors));
  if (!faults.empty()) {
    throw Error(ErrorCode::BadModel,
                fmt::format("the state dict is not that of the module; {}", fmt::join(faults, "; ")),
                "give the state dict of a model of this form, or leave `strict` out for a part of it");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [key, tensor] : tensors) {
    const auto found = own.find(key);
    if (found != own.end()) found->second.copy_(tensor);
  }
}

}  // namespace tsq
