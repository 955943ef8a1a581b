#include "operators/roundings.h"

#include "config/names/observer_classes.h"
#include "config/qscheme.h"

namespace tsq::operators {

bool is_channel_observer(const ir::Model& model, const ir::Node* node) {
  return ir::is_observer(node) &&
         ir::observer_of(model, node).spec.observer == observer_classes::kInputEqualization;
}

ir::Value* before_channel_observers(const ir::Model& model, ir::Value* value) {
  while (is_channel_observer(model, value->node())) value = value->node()->input(0);
  return value;
}

bool is_static_rounding(const ir::Model& model, const ir::Node* node) {
  using c10::ScalarType;
  if (!ir::is_observer(node) || is_channel_observer(model, node)) return false;
  const ResolvedObserver resolved = resolve(ir::observer_of(model, node).spec);
  const bool is_integer = resolved.dtype == ScalarType::QUInt8 || resolved.dtype == ScalarType::QInt8 ||
                          resolved.dtype == ScalarType::QInt32;
  return !resolved.is_dynamic && is_integer && !is_per_channel(resolved.qscheme);
}

bool is_dynamic_rounding(const ir::Model& model, const ir::Node* node) {
  return ir::is_observer(node) && !is_channel_observer(model, node) &&
         resolve(ir::observer_of(model, node).spec).is_dynamic;
}

}  // namespace tsq::operators
