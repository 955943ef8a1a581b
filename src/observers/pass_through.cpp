#include "config/names/observer_classes.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// NoopObserver and ReuseInputObserver mark a place in the graph and look at nothing (M-19), as does the
/// torch.nn.Identity of default_weight_only_qconfig and default_activation_only_qconfig.
constexpr const char* kPassThroughSource = R"(
def observe(self, x: Tensor) -> Tensor:
    return x
)";

ObserverState pass_through_state(const ResolvedObserver& config) {
  return {{"dtype", static_cast<int64_t>(config.dtype)}};
}

}  // namespace

const ObserverKind noop_observer{
    .name = observer_classes::kNoop, .source = kPassThroughSource, .state = pass_through_state};

const ObserverKind reuse_input_observer{
    .name = observer_classes::kReuseInput, .source = kPassThroughSource, .state = pass_through_state};

const ObserverKind identity_observer{
    .name = observer_classes::kIdentity, .source = kPassThroughSource, .state = pass_through_state};

}  // namespace tsq
