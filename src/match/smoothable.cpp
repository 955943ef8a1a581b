#include "match/smoothable.h"

#include "ir/analysis.h"
#include "operators/traits.h"

namespace tsq::match {

ir::Node* layer_norm_after(const ir::Model& model, ir::Value* value) {
  ir::Node* node = value->node();
  while (ir::is_observer(node) || operators::has(operators::traits_of(model, node), operators::IsIdentity))
    node = ir::arguments(node).front().value->node();
  return operators::is_one_of(model, node, {"layer_norm"}) ? node : nullptr;
}

}  // namespace tsq::match
