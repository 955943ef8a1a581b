#include "pipeline/operator_watch.h"

#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace tsq::detail {
namespace {

const void* identity_of(const at::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? value.toTensor().unsafeGetTensorImpl() : nullptr;
  if (value.isObject()) return &value.toObjectRef();
  return nullptr;
}

/// "conv.weight" and "conv_packed_params" belong to "conv".
std::string owner_of(const std::string& attribute) {
  constexpr std::array<std::string_view, 4> kSuffixes{".weight", ".bias", "._packed_params",
                                                      "_packed_params"};
  for (const std::string_view suffix : kSuffixes) {
    if (attribute.ends_with(suffix)) return attribute.substr(0, attribute.size() - suffix.size());
  }
  return attribute;
}

/// What a watch of this thread calls.
struct Watching {
  OperatorWatch::Callback begins{};
  OperatorWatch::Callback ended{};
  int depth{0};  ///< of operators that operators call
};
thread_local std::unique_ptr<Watching> watching;

/// Tells the end of an operator that was watched from others'.
struct Watched : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (!watching || watching->depth++ > 0) return nullptr;
  watching->begins(function);
  return std::make_unique<Watched>();
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (!watching) return;
  if (context != nullptr) watching->ended(function);
  --watching->depth;
}

}  // namespace

std::string path_in_hierarchy(std::span<const std::string> calls) {
  constexpr std::array<std::string_view, 5> kNoNames{"", "TOP", "SELF", "UNKNOWN_INSTANCE",
                                                     "INSTANCE_NAME_UNKNOWN"};
  std::string path;
  for (const std::string& call : calls) {
    const std::size_t type = call.find('(');
    if (type == std::string::npos) continue;  // a function
    const std::string_view name = std::string_view(call).substr(0, type);
    if (std::ranges::find(kNoNames, name) != kNoNames.end()) continue;
    if (!path.empty()) path += '.';
    path += name;
  }
  return path;
}

LayerNames::LayerNames(const torch::jit::Module& module) {
  for (const auto& attribute : module.named_attributes()) {
    if (const void* identity = identity_of(attribute.value))
      owners_.emplace(identity, owner_of(attribute.name));
  }
}

std::string LayerNames::of(const at::RecordFunction& function) const {
  std::string path = path_in_hierarchy(torch::jit::currentModuleHierarchy());
  for (const c10::IValue& value : function.inputs()) {
    const auto owner = owners_.find(identity_of(value));
    if (owner != owners_.end() && owner->second.starts_with(path)) return owner->second;
  }
  return path;
}

OperatorWatch::OperatorWatch(Callback begins, Callback ended, bool with_outputs)
    : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end)
                                             .needsInputs(true)
                                             .needsOutputs(with_outputs)
                                             .scopes({at::RecordScope::FUNCTION}))) {
  watching = std::make_unique<Watching>(Watching{std::move(begins), std::move(ended)});
}

OperatorWatch::~OperatorWatch() {
  watching = nullptr;
  at::removeCallback(handle_);
}

}  // namespace tsq::detail
