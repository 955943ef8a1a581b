#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "config/observer_constructor.h"
#include "observers/compiled_observer.h"
#include "observers/fake_quantize.h"
#include "observers/observer_class.h"
#include "observers/observer_kind.h"
#include "observers/observer_module.h"
#include "observers/registered_observer.h"

namespace tsq {
namespace {

/// Every observer there is. A new one is a file of its own and a line here.
const std::array kKinds{
    &min_max_observer,
    &moving_average_min_max_observer,
    &per_channel_min_max_observer,
    &moving_average_per_channel_min_max_observer,
    &histogram_observer,
    &fixed_qparams_observer,
    &placeholder_observer,
    &noop_observer,
    &recording_observer,
    &reuse_input_observer,
    &identity_observer,
    &input_equalization_observer,
    &channel_statistics_observer,
    &branch_observer,
    &input_products_observer,
    &mse_observer,
    &percentile_observer,
    &entropy_observer,
};

const ObserverKind* find_kind(std::string_view name) {
  if (name == registered_observer.name || is_registered_observer(name)) return &registered_observer;
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(),
                                         [&](const ObserverKind* kind) { return kind->name == name; });
  return found == kKinds.end() ? nullptr : *found;
}

const ObserverKind& kind_of(const ResolvedObserver& config) {
  if (const ObserverKind* kind = find_kind(config.observer)) {
    return *kind;
  }
  throw Error(ErrorCode::BadConfig, fmt::format("there is not an observer '{}'", config.observer),
              fmt::format("use one of {}", fmt::join(observer_names(), ", ")));
}

const ObserverKind& kind_of(const torch::jit::Module& observer) {
  const std::string name = observer_class_name(observer);
  if (const ObserverKind* kind = find_kind(name)) {
    return *kind;
  }
  throw Error(ErrorCode::BadModel, fmt::format("a module of class '{}' is not an observer", name),
              fmt::format("observers are {}", fmt::join(observer_names(), ", ")));
}

torch::jit::Module make(const ObserverKind& kind, const ResolvedObserver& config) {
  const ObserverState state = observer_state(kind.state(config), config.is_dynamic);
  return shared_class(observer_qualified_name(kind.name), state,
                      observer_source(fmt::format("{}{}", kind.helpers, kind.source)))
      .instance(state);
}

Error no_qparams(std::string_view name) {
  return {ErrorCode::BadConfig, fmt::format("{} finds no scale and zero point", name),
          "use MinMaxObserver, HistogramObserver or another one that looks at ranges"};
}

}  // namespace

torch::jit::Module make_observer(const ObserverSpec& spec, int64_t channels) {
  if (!spec.fake_quantize.empty()) return make_fake_quantize(spec, channels);
  const ResolvedObserver config = resolve(spec);
  return is_registered_observer(spec.observer) ? make_registered_observer(spec, config)
                                               : make(kind_of(config), config);
}

QParams calculate_qparams(const torch::jit::Module& observer) {
  if (is_fake_quantize(observer)) return qparams_of_fake_quantize(observer);
  const ObserverKind& kind = kind_of(observer);
  if (kind.calculate_qparams == nullptr) throw no_qparams(kind.name);
  const c10::NoGradGuard no_grad;
  return kind.calculate_qparams(observer);
}

bool finds_qparams(const ObserverSpec& spec) { return kind_of(resolve(spec)).calculate_qparams != nullptr; }

bool saw_data(const torch::jit::Module& observer) {
  if (is_fake_quantize(observer)) return saw_data(observer_of_fake_quantize(observer));
  const ObserverKind& kind = kind_of(observer);
  return kind.saw_data == nullptr || kind.saw_data(observer);
}

bool needs_data(const ObserverSpec& spec) { return !saw_data(make_observer(spec)); }

std::unique_ptr<CompiledObserver> compiled_observer(const torch::jit::Module& observer) {
  const ObserverKind* kind = find_kind(observer_class_name(observer));
  return kind == nullptr || kind->compiled == nullptr ? nullptr : kind->compiled(observer);
}

void merge_observer(torch::jit::Module& into, const torch::jit::Module& from) {
  const ObserverKind& kind = kind_of(into);
  if (&kind != &kind_of(from)) {
    throw Error(ErrorCode::BadModel,
                fmt::format("a {} cannot be merged into a {}", kind_of(from).name, kind.name),
                "merge observers of the same prepared model");
  }
  merge_notes(into, from);
  const c10::NoGradGuard no_grad;
  if (kind.merge != nullptr) kind.merge(into, from);
}

std::vector<std::string_view> observer_names() {
  return names_of(kKinds, [](const ObserverKind* kind) { return kind->name; });
}

QParams observe_once(const ObserverSpec& spec, const at::Tensor& tensor) {
  const ResolvedObserver config = resolve(spec);
  const c10::NoGradGuard no_grad;
  if (is_registered_observer(spec.observer)) return observe_with_registered(spec, config, tensor);
  const ObserverKind& kind = kind_of(config);
  if (kind.observe_once == nullptr) throw no_qparams(kind.name);
  return kind.observe_once(config, tensor);
}

}  // namespace tsq
