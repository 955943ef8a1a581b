#include "config/observer_classes.h"
#include "observers/observer_class.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// NoopObserver and ReuseInputObserver mark a place in the graph and look at nothing (M-19), as does the
/// torch.nn.Identity of default_weight_only_qconfig and default_activation_only_qconfig.
constexpr const char* kPassThroughSource = R"(
def observe(self, x: Tensor) -> Tensor:
    return x
)";

torch::jit::Module marker(const ObserverClass& observer_class, const ResolvedObserver& config) {
  return observer_class.instance({{"dtype", static_cast<int64_t>(config.dtype)}}, config.is_dynamic);
}

torch::jit::Module make_noop(const ResolvedObserver& config) {
  static const ObserverClass observer_class(observer_classes::kNoop, {integer("dtype")}, kPassThroughSource);
  return marker(observer_class, config);
}

torch::jit::Module make_reuse_input(const ResolvedObserver& config) {
  static const ObserverClass observer_class(observer_classes::kReuseInput, {integer("dtype")},
                                            kPassThroughSource);
  return marker(observer_class, config);
}

torch::jit::Module make_identity(const ResolvedObserver& config) {
  static const ObserverClass observer_class(observer_classes::kIdentity, {integer("dtype")},
                                            kPassThroughSource);
  return marker(observer_class, config);
}

bool pass_through_needs_no_data(const torch::jit::Module&) { return true; }

void merge_pass_through(torch::jit::Module&, const torch::jit::Module&) {}

}  // namespace

const ObserverKind noop_observer{observer_classes::kNoop,    make_noop,         nullptr, nullptr,
                                 pass_through_needs_no_data, merge_pass_through};

const ObserverKind reuse_input_observer{observer_classes::kReuseInput, make_reuse_input,  nullptr, nullptr,
                                        pass_through_needs_no_data,    merge_pass_through};

const ObserverKind identity_observer{observer_classes::kIdentity, make_identity,     nullptr, nullptr,
                                     pass_through_needs_no_data,  merge_pass_through};

}  // namespace tsq
