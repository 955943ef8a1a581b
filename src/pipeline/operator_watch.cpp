#include "pipeline/operator_watch.h"

#include <fmt/format.h>
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

/// "conv.weight", "conv_weight" and "conv_packed_params_1" belong to "conv", "words.rows" to "words".
std::string owner_of(const std::string& attribute) {
  constexpr std::string_view kPacked = "_packed_params";
  if (const std::size_t packed = attribute.find(kPacked); packed != std::string::npos && packed > 0)
    return attribute.substr(0, attribute[packed - 1] == '.' ? packed - 1 : packed);
  constexpr std::array<std::string_view, 7> kSuffixes{".weight", ".bias", ".packed", ".rows",
                                                      "_weight", "_bias", "_rows"};
  for (const std::string_view suffix : kSuffixes) {
    if (attribute.ends_with(suffix)) return attribute.substr(0, attribute.size() - suffix.size());
  }
  return attribute;
}

bool lies_in(const std::string& path, const std::string& module) {
  return module.empty() || path == module || path.starts_with(module + '.');
}

std::string path_of(std::span<const CalledModule> calls) {
  std::string path;
  for (const CalledModule& call : calls) path += (path.empty() ? "" : ".") + call.name;
  return path;
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

/// Of the packed params among arguments, or else the memory of the second tensor: LibTorch copies the graph,
/// with its constants, when it optimizes it.
const void* identity_of_weight(std::span<const c10::IValue> arguments) {
  std::size_t tensors = 0;
  for (const c10::IValue& value : arguments) {
    if (value.isObject()) return identity_of(value);
    if (value.isTensor() && ++tensors == 2) return memory_of(value.toTensor());
  }
  return nullptr;
}

/// Of aten::_convolution, as traced files have it, and aten::convolution.
std::string_view kind_of_convolution(std::span<const c10::IValue> arguments) {
  constexpr std::array<std::string_view, 3> kKinds{"conv1d", "conv2d", "conv3d"};
  constexpr std::array<std::string_view, 3> kTransposed{"conv_transpose1d", "conv_transpose2d",
                                                        "conv_transpose3d"};
  constexpr std::size_t kIsTransposed = 6;
  if (arguments.size() <= kIsTransposed || !arguments[1].isTensor() || !arguments[kIsTransposed].isBool())
    return {};
  const int64_t dimensions = arguments[1].toTensor().dim() - 2;
  if (dimensions < 1 || dimensions > 3) return {};
  const auto index = static_cast<std::size_t>(dimensions - 1);
  return arguments[kIsTransposed].toBool() ? kTransposed.at(index) : kKinds.at(index);
}

}  // namespace

std::string_view weighted_kind(std::string_view name, std::span<const c10::IValue> arguments) {
  if (name == "aten::_convolution" || name == "aten::convolution") return kind_of_convolution(arguments);
  constexpr std::array<std::string_view, 7> kKinds{
      "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear"};
  name.remove_prefix(std::min(name.size(), name.find("::") + 2));
  const std::string_view without_q = name.starts_with('q') ? name.substr(1) : name;
  const auto* const found = std::ranges::find_if(kKinds, [&](std::string_view kind) {
    const std::string_view rest = without_q.substr(std::min(without_q.size(), kind.size()));
    return without_q.starts_with(kind) && (rest.empty() || rest.starts_with('_'));
  });
  return found == kKinds.end() ? std::string_view() : *found;
}

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
    // Where a graph was not inlined, functions are called by their names: "CALL_FUNCTION::relu".
    if (std::ranges::find(kNoNames, name) != kNoNames.end() || name.find("::") != std::string::npos) continue;
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
  is_frozen_ = owners_.empty();
}

std::size_t LayerNames::add(const torch::jit::Module& module, const std::string& path,
                            const std::string& name) {
  const std::size_t place = places_.size();
  const auto type = module.type()->name();
  places_.push_back({.path = path, .name = name, .type = type ? type->name() : std::string()});
  place_of_.emplace(path, place);
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

const std::vector<std::size_t>& LayerNames::places_of(std::span<const CalledModule> calls) {
  std::string key;
  for (const CalledModule& call : calls) key += call.name + '(' + call.type + ").";
  const auto [known, is_new] = known_.try_emplace(key, std::vector<std::size_t>{0});
  if (!is_new) return known->second;
  for (const CalledModule& call : calls) {
    std::vector<std::size_t> next;
    for (const std::size_t place : known->second) add_nearest(place, call, next);
    known->second = std::move(next);
  }
  std::ranges::sort(known->second);
  return known->second;
}

/// Whether the operator before lies in the module at a place, or beside it in the same module.
bool LayerNames::is_beside_last(std::size_t place) const {
  const std::string& path = places_[place].path;
  const std::size_t dot = path.rfind('.');
  const std::string& last = places_[last_].path;
  return lies_in(last, path) || (dot != std::string::npos && lies_in(last, path.substr(0, dot)));
}

std::size_t LayerNames::next_of(const std::vector<std::size_t>& places) const {
  const auto beside = std::ranges::find_if(places, [&](std::size_t place) { return is_beside_last(place); });
  if (beside != places.end()) return *beside;
  const auto after = std::ranges::upper_bound(places, last_);
  return after == places.end() ? places.front() : *after;
}

std::string LayerNames::numbered(const at::RecordFunction& function) {
  const std::string_view kind = weighted_kind(function.name(), arguments_of(function));
  const void* weight = kind.empty() ? nullptr : identity_of_weight(arguments_of(function));
  if (weight == nullptr) return {};
  const auto [owner, is_new] = owners_.try_emplace(weight);
  if (is_new) owner->second = fmt::format("{}_{}", kind, numbers_[std::string(kind)]++);
  return owner->second;
}

std::string LayerNames::of(const at::RecordFunction& function) {
  const std::vector<CalledModule> calls = called_modules(torch::jit::currentModuleHierarchy());
  if (is_frozen_) {
    const std::string caller = path_of(calls);  // of what was frozen in this process
    return caller.empty() ? numbered(function) : caller;
  }
  const std::vector<std::size_t>& places = places_of(calls);
  if (places.empty()) return path_of(calls);  // a frozen file tells who called, and holds no modules
  for (const c10::IValue& value : arguments_of(function)) {
    const auto owner = owners_.find(identity_of(value));
    const auto is_around = [&](std::size_t place) { return lies_in(owner->second, places_[place].path); };
    if (owner == owners_.end() || std::ranges::none_of(places, is_around)) continue;
    if (const auto place = place_of_.find(owner->second); place != place_of_.end()) last_ = place->second;
    return owner->second;
  }
  last_ = next_of(places);
  return places_[last_].path;
}

bool LayerNames::holds(const at::IValue& value) const {
  const void* identity = identity_of(value);
  if (identity == nullptr) return false;
  return owners_.contains(identity) ||
         (is_frozen_ && value.isTensor() && owners_.contains(memory_of(value.toTensor())));
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
