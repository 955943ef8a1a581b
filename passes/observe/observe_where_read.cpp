// Observers of values that are not there on every way through the model stand where these are read.
//   a = obs(b); if taken: linear(a)   →   if taken: linear(obs(b))

#include <ranges>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/no_value.h"
#include "passes/context/nodes.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

bool hands_on(const ir::Node* user) {
  return user->kind() == c10::prim::Return || user->kind() == c10::prim::Loop;
}

/// Each reader gets an observer of its own in front of it.
void observe_in_front_of_readers(ir::Node* observer) {
  ir::Value* value = observer->input(0);
  const std::vector<torch::jit::Use> uses = observer->output()->uses();
  for (const torch::jit::Use& use : uses) {
    Value* read = hands_on(use.user) ? value : ir::insert_copy(use.user, observer)->output();
    use.user->replaceInput(use.offset, read);
  }
  observer->destroy();
}

}  // namespace

bool observe_where_read(ir::Model& model, const PassContext& /*context*/) {
  // The last of several observers in a row first.
  return change_each(std::views::reverse(ir::nodes_in_order(*model.graph)), [](Node* node) {
    if (!ir::is_observer(node) || !operators::may_be_no_value(node->input(0))) return false;
    observe_in_front_of_readers(node);
    return true;
  });
}

}  // namespace tsq::passes
