// Observers of which convert would make nothing are removed, so that each that is left stands for a rounding.
//   relu(observer(x)), neither of which has a QConfig   →   relu(x)

#include "passes/place/idle_observers.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool drop_idle_observers(Model& model, const PassContext& context) {
  return take_idle_observers_away(model, context);
}

}  // namespace tsq::passes
