#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>

#include "observers/observer_kind.h"

namespace tsq {

/// A copy of the module that is registered under the spec's name, in a module that notes what every observer
/// notes and lets the values pass as they are.
torch::jit::Module make_registered_observer(const ObserverSpec& spec, const ResolvedObserver& config);
/// Called without gradients.
QParams observe_with_registered(const ObserverSpec& spec, const ResolvedObserver& config,
                                const at::Tensor& tensor);

/// Of all registered classes. They are made and asked for single tensors by the functions above.
extern const ObserverKind registered_observer;

}  // namespace tsq
