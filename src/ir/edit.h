#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/model.h"

/// Changes of a graph.
namespace tsq::ir {

/// A new `prim::tsq_module` node, not yet inserted.
Node* create_module_call(Model& gm, ModuleCall call, c10::ArrayRef<Value*> inputs, std::size_t scope);
/// A new `prim::tsq_observer` node of `input`, inserted right after the value's definition.
Node* insert_observer(Model& gm, Value* input, std::size_t observer);

/// Replaces `from` by `to` among the inputs of `node`, also inside a list or tuple made for it.
void replace_operand(Node* node, Value* from, Value* to);
/// A GetAttr of a new attribute of the graph module, inserted at the graph's insertion point. The name is
/// made unique.
Value* insert_attribute(Model& gm, const std::string& name, const c10::IValue& value,
                        const c10::TypePtr& type);
/// A number as a constant, or as an attribute where TorchScript would not write it as a float (whole numbers
/// from 1e10 lose their point).
Value* insert_double(Model& gm, const std::string& name, double value);
/// A name that neither `attributes` nor the user has: path with dots as underscores, numbered when taken.
std::string unique_attribute_name(Model& gm, std::string_view path);

/// A constant in front of `before`.
Value* constant_before(Model& gm, Node* before, const c10::IValue& value);
/// A tensor as a new attribute of the graph module, read in front of `before`.
Value* attribute_before(Model& gm, Node* before, const std::string& name, const at::Tensor& value);
/// A node of one output in front of `before`.
Value* insert_before(Model& gm, Node* before, const char* kind, const std::vector<Value*>& inputs);

/// Writes nodes in front of a node, as if they stood in its place of the user's model: they have its scope,
/// its place and its source range.
class Rewriter {
 public:
  Rewriter(Model& model, Node* at);

  Value* constant(const c10::IValue& value) const;
  /// A new attribute of the model.
  Value* attribute(const std::string& name, const at::Tensor& value) const;
  /// An operator of one output: "aten::add".
  Value* op(const char* kind, const std::vector<Value*>& inputs) const;
  Value* call(ModuleCall call, const std::vector<Value*>& inputs) const;

  /// Whoever reads the only output of `node` reads `by`, which has its name and record from here on.
  static void replace(Node* node, Value* by);

 private:
  Node* insert(Node* node) const;

  Model& model_;
  Node* at_;
};

/// Puts the nodes of the branch that a constant chooses in the place of an `if`.
void take_branch(Node* branches, bool condition);

/// Puts a reshape in the place of a view, which refuses the channels-last tensors that convolutions return.
Node* reshape_for_view(Model& gm, Node* view);

}  // namespace tsq::ir
