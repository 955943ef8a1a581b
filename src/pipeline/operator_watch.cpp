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

/// "conv.weight", "conv_weight" and "conv_packed_params_1" belong to "conv".
std::string owner_of(const std::string& attribute) {
  constexpr std::string_view kPacked = "_packed_params";
  if (const std::size_t packed = attribute.find(kPacked); packed != std::string::npos && packed > 0)
    return attribute.substr(0, attribute[packed - 1] == '.' ? packed - 1 : packed);
  constexpr std::array<std::string_view, 4> kSuffixes{".weight", ".bias", "_weight", "_bias"};
  for (const std::string_view suffix : kSuffixes) {
    if (attribute.ends_with(suffix)) return attribute.substr(0, attribute.size() - suffix.size());
  }
  return attribute;
}

bool lies_in(const std::string& path, const std::string& module) {
  return module.empty() || path == module || path.starts_with(module + '.');
}

std::size_t common_letters(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
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

std::span<const c10::IValue> arguments_of(const at::RecordFunction& function) {
  const std::span stack(function.inputs().data(), function.inputs().size());
  return stack.last(std::min(stack.size(), function.num_inputs()));
}

std::span<const c10::IValue> results_of(const at::RecordFunction& function) {
  const std::span stack(function.outputs());
  return stack.last(std::min(stack.size(), function.num_outputs()));
}

std::vector<CalledModule> called_modules(std::span<const std::string> calls) {
  constexpr std::array<std::string_view, 5> kNoNames{"", "TOP", "SELF", "UNKNOWN_INSTANCE",
                                                     "INSTANCE_NAME_UNKNOWN"};
  std::vector<CalledModule> modules;
  for (const std::string& call : calls) {
    const std::size_t type = call.find('(');
    if (type == std::string::npos) continue;  // a function
    const std::string name = call.substr(0, type);
    if (std::ranges::find(kNoNames, name) != kNoNames.end()) continue;
    modules.push_back({.name = name, .type = call.substr(type + 1, call.find(')', type) - type - 1)});
  }
  return modules;
}

LayerNames::LayerNames(const torch::jit::Module& module) {
  add(module, "", "");
  for (const auto& attribute : module.named_attributes()) {
    if (const void* identity = identity_of(attribute.value))
      owners_.emplace(identity, owner_of(attribute.name));
  }
}

std::size_t LayerNames::add(const torch::jit::Module& module, const std::string& path,
                            const std::string& name) {
  const std::size_t place = places_.size();
  const auto type = module.type()->name();
  places_.push_back({.path = path, .name = name, .type = type ? type->name() : std::string()});
  for (const auto& child : module.named_children()) {
    const std::size_t inside =
        add(child.value, path.empty() ? child.name : path + '.' + child.name, child.name);
    places_[place].inside.push_back(inside);
  }
  return place;
}

/// Lists of modules are not called: what they hold has the names of its places in them.
void LayerNames::add_nearest(std::size_t place, const CalledModule& call,
                             std::vector<std::size_t>& found) const {
  const std::size_t before = found.size();
  for (std::vector<std::size_t> level = places_[place].inside; !level.empty() && found.size() == before;) {
    std::vector<std::size_t> below;
    for (const std::size_t each : level) {
      if (places_[each].name == call.name && places_[each].type == call.type) found.push_back(each);
      below.insert(below.end(), places_[each].inside.begin(), places_[each].inside.end());
    }
    level = std::move(below);
  }
}

const std::vector<std::string>& LayerNames::paths_of(std::span<const CalledModule> calls) {
  std::string key;
  for (const CalledModule& call : calls) key += call.name + '(' + call.type + ").";
  const auto [known, is_new] = known_.try_emplace(key);
  if (!is_new) return known->second;
  std::vector<std::size_t> places{0};
  for (const CalledModule& call : calls) {
    std::vector<std::size_t> next;
    for (const std::size_t place : places) add_nearest(place, call, next);
    places = std::move(next);
  }
  for (const std::size_t place : places) known->second.push_back(places_[place].path);
  if (!places.empty()) return known->second;
  // A frozen file tells who called, and holds no modules.
  std::string names;
  for (const CalledModule& call : calls) names += (names.empty() ? "" : ".") + call.name;
  known->second.push_back(names);
  return known->second;
}

std::string LayerNames::of(const at::RecordFunction& function) {
  const std::vector<CalledModule> calls = called_modules(torch::jit::currentModuleHierarchy());
  const std::vector<std::string>& paths = paths_of(calls);
  for (const c10::IValue& value : arguments_of(function)) {
    const auto owner = owners_.find(identity_of(value));
    const auto is_around = [&](const std::string& path) { return lies_in(owner->second, path); };
    if (owner != owners_.end() && std::ranges::any_of(paths, is_around)) return last_ = owner->second;
  }
  const auto is_nearer = [&](const std::string& a, const std::string& b) {
    return common_letters(a, last_) < common_letters(b, last_);
  };
  return last_ = *std::ranges::max_element(paths, is_nearer);
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
