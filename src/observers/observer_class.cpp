#include "observers/observer_class.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <tuple>

#include "observers/observed_ranks.h"
#include "observers/observer_module.h"

namespace tsq {
namespace {

constexpr const char* kTensorsNotFinite = "tensors_not_finite";

/// Which values are finite: the others have no range, and are left out of what observers find. Observers ask
/// this only of a tensor whose range is not finite.
constexpr const char* kFiniteSource = R"(
def _finite(self, x: Tensor) -> Tensor:
    finite = torch.isfinite(x)
    if not bool(finite.all()):
        self.tensors_not_finite = self.tensors_not_finite + 1
    return finite
)";

/// Only float32, dtype 6, can be quantized. FX's observers do not look, and convert_fx's model raises when it
/// runs.
constexpr const char* kForwardSource = R"(
def forward(self, x_orig: Tensor) -> Tensor:
    if x_orig.dtype != 6:
        self.saw_other_dtype = True
    self.ranks = self.ranks | (1 << x_orig.dim())
    return self.observe(x_orig)
)";

/// A tensor's value would tell its sizes too.
c10::TypePtr type_of(const ObserverAttribute& attribute) {
  if (attribute.type) return attribute.type;
  return attribute.value.isTensor() ? c10::TensorType::get() : attribute.value.type();
}

}  // namespace

ObserverClass::ObserverClass(const std::string& name, const ObserverState& state, const std::string& source)
    : unit_(std::make_shared<torch::jit::CompilationUnit>()) {
  torch::jit::Module prototype(c10::QualifiedName(name), unit_);
  type_ = prototype.type();
  for (const ObserverAttribute& each : state)
    type_->addAttribute(each.name, type_of(each), each.is_parameter,
                        /*is_buffer=*/each.value.isTensor() && !each.is_parameter);
  prototype.define(source);
}

torch::jit::Module ObserverClass::instance(const ObserverState& state) const {
  torch::jit::Module module(unit_, type_);
  for (const ObserverAttribute& each : state) module.setattr(each.name, each.value);
  return module;
}

const ObserverClass& shared_class(const std::string& name, const ObserverState& state,
                                  const std::string& source, const std::string& variant) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string, std::string>, ObserverClass> classes;
  const std::lock_guard lock(mutex);
  return classes.try_emplace({name, variant, source}, name, state, source).first->second;
}

std::string observer_qualified_name(std::string_view name) {
  return fmt::format("__torch__.torch.ao.quantization.observer.{}", name);
}

ObserverState observer_state(ObserverState state, bool is_dynamic) {
  const ObserverState added{{"training", false},
                            {"is_dynamic", is_dynamic},
                            {kSawOtherDtype, false},
                            {kTensorsNotFinite, int64_t{0}},
                            {kRanks, int64_t{0}}};
  state.insert(state.end(), added.begin(), added.end());
  return state;
}

std::string observer_source(std::string_view source) {
  return fmt::format("{}{}{}", kFiniteSource, source, kForwardSource);
}

std::string observer_class_name(const torch::jit::Module& observer) {
  const auto& name = observer.type()->name();
  return name.has_value() ? name->name() : std::string();
}

bool saw_other_dtype(const torch::jit::Module& observer) {
  return observer.hasattr(kSawOtherDtype) && observer.attr(kSawOtherDtype).toBool();
}

int64_t tensors_not_finite(const torch::jit::Module& observer) {
  return observer.hasattr(kTensorsNotFinite) ? observer.attr(kTensorsNotFinite).toInt() : 0;
}

ObservedRanks observed_ranks(const torch::jit::Module& observer) {
  return observer.hasattr(kRanks) ? ObservedRanks(static_cast<uint64_t>(observer.attr(kRanks).toInt()))
                                  : ObservedRanks();
}

void merge_notes(torch::jit::Module& into, const torch::jit::Module& from) {
  if (saw_other_dtype(from)) into.setattr(kSawOtherDtype, true);
  if (into.hasattr(kTensorsNotFinite))
    into.setattr(kTensorsNotFinite, tensors_not_finite(into) + tensors_not_finite(from));
  const ObservedRanks both = observed_ranks(into) | observed_ranks(from);
  if (into.hasattr(kRanks)) into.setattr(kRanks, static_cast<int64_t>(both.to_ulong()));
}

}  // namespace tsq
