#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/model.h"

/// Changes of a graph.
namespace tsq::ir {

/// A new `prim::tsq_module` node, not yet inserted.
Node* create_module_call(Model& model, ModuleCall call, c10::ArrayRef<Value*> inputs, std::size_t scope);
/// A new `prim::tsq_observer` node of `input`, inserted right after the value's definition.
Node* insert_observer(Model& model, Value* input, std::size_t observer);

/// Replaces `from` by `to` among the inputs of `node`, also inside a list or tuple made for it.
void replace_operand(Node* node, Value* from, Value* to);
/// A GetAttr of a new attribute of the graph module, inserted at the graph's insertion point. The name is
/// made unique.
Value* insert_attribute(Model& model, const std::string& name, const c10::IValue& value,
                        const c10::TypePtr& type);
/// A number as a constant, or as an attribute where TorchScript would not write it as a float (whole numbers
/// from 1e10 lose their point).
Value* insert_double(Model& model, const std::string& name, double value);
/// A name that neither `attributes` nor the user has: path with dots as underscores, numbered when taken.
std::string unique_attribute_name(Model& model, std::string_view path);

/// A constant in front of `before`.
Value* constant_before(Node* before, const c10::IValue& value);
/// A tensor as a new attribute of the graph module, read in front of `before`.
Value* attribute_before(Model& model, Node* before, const std::string& name, const at::Tensor& value);
/// A node in front of `before`; its outputs are tensors.
Node* insert_node(Node* before, c10::Symbol kind, c10::ArrayRef<Value*> inputs, std::size_t outputs = 1);
/// A node of one output in front of `before`: "aten::add". Without a type, a tensor.
Value* insert_before(Node* before, const char* kind, const std::vector<Value*>& inputs,
                     const c10::TypePtr& type = nullptr);
/// A node that is the same as another, in front of `before`.
Node* insert_copy(Node* before, Node* node);
/// A list of values of a type, in front of `before`.
Value* list_before(Node* before, const c10::TypePtr& element, c10::ArrayRef<Value*> elements);
/// A tuple of values, in front of `before`.
Value* tuple_before(Node* before, c10::ArrayRef<Value*> elements, c10::TupleTypePtr type = nullptr);
/// The parts of a tuple, in front of `before`.
Node* unpack_before(Node* before, Value* tuple);
/// An attribute of an object, read in front of `before`.
Value* read_attribute(Node* before, Value* object, const std::string& name, const c10::TypePtr& type);

/// Writes nodes in front of a node, as if they stood in its place of the user's model: they have its scope,
/// its place and its source range.
class Rewriter {
 public:
  Rewriter(Model& model, Node* at) : Rewriter(model, at, at) {}
  /// In front of `before`, in the place of `from`.
  Rewriter(Model& model, Node* before, const Node* from);

  Value* constant(const c10::IValue& value) const;
  /// A new attribute of the model.
  Value* attribute(const std::string& name, const at::Tensor& value) const;
  /// A node of any number of outputs, which are tensors.
  Node* node(c10::Symbol kind, c10::ArrayRef<Value*> inputs, std::size_t outputs = 1) const;
  /// An operator of one output: "aten::add". Without a type, a tensor.
  Value* op(const char* kind, const std::vector<Value*>& inputs, const c10::TypePtr& type = nullptr) const;
  Value* call(ModuleCall call, const std::vector<Value*>& inputs) const;

  /// Whoever reads the only output of `node` reads `by`, the same value, which has its name, record and
  /// number from here on.
  static void replace(Node* node, Value* by);

 private:
  Node* placed(Node* made) const;

  Model& model_;
  Node* before_;
  const Node* from_;
};

/// Puts the bodies of all functions and methods that are called in the place of the calls, however deep they
/// are. torch::jit::Inline takes a callee as the executor has it: nothing is inlined or folded in it if it
/// first ran while the optimizer was off.
void inline_calls(Graph& graph);

/// Puts the nodes of the branch that a constant chooses in the place of an `if`.
void take_branch(Node* branches, bool condition);

/// Puts a reshape in the place of a view, which refuses the channels-last tensors that convolutions return.
Node* reshape_for_view(Model& model, Node* view);

/// A copy of a prepared model whose nodes read what was observed.
Model without_observers(const Model& observed);

}  // namespace tsq::ir
