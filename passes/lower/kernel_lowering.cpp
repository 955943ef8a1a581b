#include "passes/lower/kernel_lowering.h"

#include <fmt/format.h>

#include "ir/edit.h"
#include "ir/reasons.h"

namespace tsq::passes {

using ir::Placement;

bool may_have_kernel(const Model& model, const Node* op) {
  return !ir::stays_float(model, op) && ir::placement_of(model, op) != Placement::Int8FloatOut &&
         ir::only_reader(op) != nullptr;
}

Value* insert_kernel(Model& model, const Node* op, std::string_view kernel, const std::vector<Value*>& inputs,
                     Node* before) {
  return ir::Rewriter(model, before, op).op(std::string(kernel).c_str(), inputs);
}

void replace_by_kernel(Model& model, const Node* op, std::string_view kernel,
                       const std::vector<Value*>& inputs, Node* quantize) {
  Value* result = insert_kernel(model, op, kernel, inputs, quantize);
  set_kernel(model, op, kernel, Placement::Int8);
  quantize->output()->replaceAllUsesWith(result);
  quantize->destroy();
}

void set_kernel(Model& model, const Node* op, std::string_view kernel, Placement placement,
                std::string_view weights) {
  ir::NodeRecord* record = ir::record_of(model, op);
  if (record == nullptr) return;
  record->placement = placement;
  record->reason = ir::Reason::None;
  if (!record->is_reported) return;
  record->decision.kernel = kernel;
  record->decision.weights = weights;
}

void set_dynamic_kernel(Model& model, const Node* op, std::string_view kernel, c10::ScalarType weight_dtype) {
  set_kernel(model, op, kernel, Placement::Int8, weight_dtype == c10::ScalarType::Half ? "float16" : "");
}

void set_no_kernel(Model& model, const Node* op, Placement placement, ir::Reason reason, std::string sentence,
                   std::string remedy) {
  ir::NodeRecord* record = ir::record_of(model, op);
  if (record == nullptr) return;
  record->placement = placement;
  record->reason = reason;
  if (!record->is_reported) return;
  record->decision.quantized = false;
  record->decision.saturation.clear();
  record->decision.reason = std::move(sentence);
  record->decision.remedy = std::move(remedy);
}

void keep_between_roundings(Model& model, const Node* op, ir::Reason reason, std::string_view why,
                            std::string remedy) {
  set_no_kernel(model, op, Placement::Reference, reason, ir::between_roundings(why), std::move(remedy));
}

void leave_without_kernel(Model& model, const Node* op, const Refusal& refusal) {
  set_no_kernel(model, op, Placement::Float, refusal.reason,
                fmt::format("the engine has no kernel for it: {}", refusal.why),
                "quantize for another engine, or give it another qconfig or none");
}

std::optional<Refusal> refusal_in_plan(const Model& model, const Node* op) {
  const ir::NodeRecord* record = ir::record_of(model, op);
  if (record == nullptr || record->placement != Placement::Reference) return std::nullopt;
  switch (record->reason) {
    case ir::Reason::NoKernel:
    case ir::Reason::KernelFault:
    case ir::Reason::PackingRefused:
      return Refusal{record->reason, record->detail, record->decision.remedy};
    default:
      return std::nullopt;
  }
}

Node* KernelLowering::only_user(const Node* op) {
  Node* user = ir::only_reader(op);
  return user != nullptr && user->owningBlock() == op->owningBlock() ? user : nullptr;
}

}  // namespace tsq::passes
