#include "passes/capture/dtypes/cast_boundary.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/cast.h"
#include "ir/edit.h"
#include "passes/capture/dtypes/cast_source.h"
#include "passes/context/names.h"

namespace tsq::passes {
namespace {

bool holds_one_tensor(const Value* value) { return value->type()->kind() == TypeKind::TensorType; }

/// What unpacks a tuple reads its parts.
void replace_use(const torch::jit::Use& use, Value* cast) {
  Node* tuple = cast->node();
  if (use.user->kind() != c10::prim::TupleUnpack || tuple->kind() != c10::prim::TupleConstruct) {
    use.user->replaceInput(use.offset, cast);
    return;
  }
  for (std::size_t i = 0; i < use.user->outputs().size(); ++i) {
    const std::vector<torch::jit::Use> uses = use.user->output(i)->uses();
    for (const torch::jit::Use& each : uses) replace_use(each, tuple->input(i));
  }
}

class BoundaryCasting {
 public:
  BoundaryCasting(ir::Model& model, ir::Graph& graph, const Dtypes& replaced, const Dtypes& told,
                  const DtypeOrigins& origins)
      : model_(model), graph_(graph), replaced_(replaced), told_(told), origins_(origins) {}

  void cast_inputs() {
    const torch::jit::WithInsertPoint guard(*graph_.nodes().begin());
    const std::string to_float = cast_to_float(replaced_);
    for (Value* input : graph_.inputs().slice(1).vec()) {
      if (!ir::holds_tensor(input) || !input->hasUses()) continue;
      if (holds_one_tensor(input)) input->setType(c10::TensorType::get());
      const std::vector<torch::jit::Use> uses = input->uses();
      Value* cast = cast_parts(input, to_float);
      for (const torch::jit::Use& use : uses) replace_use(use, cast);
      inputs_of_casts_[cast] = input;
    }
  }

  void cast_outputs() {
    const torch::jit::WithInsertPoint guard(graph_.return_node());
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      graph_.return_node()->replaceInput(i, cast_output(graph_.outputs()[i]));
  }

 private:
  Value* cast_output(Value* value) {
    if (!ir::holds_tensor(value)) return value;
    if (ir::is_container_construct(value->node()) && value->uses().size() == 1) return cast_elements(value);
    if (const auto found = inputs_of_casts_.find(value); found != inputs_of_casts_.end())
      return found->second;
    const DtypeOrigin origin = origins_.of(value);
    if (origin.input != nullptr && holds_one_tensor(value) && holds_one_tensor(origin.input))
      return insert_call(
          cast_like_module_source(value->type(), cast_to_dtype_of_like(replaced_, origin.dtype)),
          {value, const_cast<Value*>(origin.input)});
    // The elements of a list in an input have its layers' dtype.
    const ScalarType dtype =
        origin.dtype.value_or(origin.input != nullptr ? *replaced_.begin() : ScalarType::Float);
    return replaced_.contains(dtype) ? cast_parts(value, cast_from_float(dtype)) : value;
  }

  /// Of a list, dict or tuple that is made for this output.
  Value* cast_elements(Value* value) {
    Node* container = value->node();
    for (std::size_t i = 0; i < container->inputs().size(); ++i) {
      const torch::jit::WithInsertPoint guard(container);
      container->replaceInput(i, cast_output(container->input(i)));
    }
    return value;
  }

  /// The parts of a tuple one by one, so that what reads them sees tensors.
  Value* cast_parts(Value* value, const std::string& statements) {
    const auto tuple = value->type()->cast<c10::TupleType>();
    if (!tuple)
      return ir::holds_tensor(value) ? insert_call(cast_module_source(value->type(), statements), {value})
                                     : value;
    Node* unpack = ir::unpack_before(graph_.insertPoint(), value);
    std::vector<Value*> parts;
    for (Value* part : unpack->outputs()) parts.push_back(cast_parts(part, statements));
    return ir::tuple_before(graph_.insertPoint(), parts, tuple->schema() != nullptr ? tuple : nullptr);
  }

  /// Of a module with this source: its result has the type of the first input.
  Value* insert_call(const std::optional<std::string>& source, const std::vector<Value*>& inputs) {
    const c10::TypePtr& type = inputs[0]->type();
    if (!source) {
      throw Error(ErrorCode::Unsupported,
                  fmt::format("the model computes in {}, and a value of type {} at its inputs or outputs "
                              "cannot be cast to float",
                              names_of(replaced_), type->annotation_str()),
                  "convert the model to float before it is scripted (model.float())");
    }
    Module module("__torch__.tsq.Cast", std::make_shared<torch::jit::CompilationUnit>());
    module.define(*source);
    const std::string path =
        inputs[0]->hasDebugName() ? "cast_" + inputs[0]->debugNameBase() : std::string("cast");
    Node* node = &graph_ == model_.graph.get() ? call_in_forward(module, path, inputs)
                                               : call_in_method(module, path, inputs);
    return node->output()->setType(type);
  }

  Node* call_in_forward(const Module& module, const std::string& path, const std::vector<Value*>& inputs) {
    return ir::create_module_call(
               model_,
               {.type = symbol(ir::kCastType),
                .path = path,
                .module = module,
                .constants = {c10::IValue(names_of(replaced_)), c10::IValue(names_of(told_))}},
               inputs, /*scope=*/0)
        ->insertBefore(graph_.insertPoint());
  }

  /// Methods hold calls as TorchScript writes them.
  Node* call_in_method(const Module& module, const std::string& path, std::vector<Value*> inputs) {
    const std::string name = ir::unique_attribute_name(model_, path);
    model_.attributes.add(ir::submodule(name, module));
    Node* before = graph_.insertPoint();
    inputs.insert(inputs.begin(), ir::read_attribute(before, graph_.inputs().at(0), name, module.type()));
    return ir::insert_node(before, c10::prim::CallMethod, inputs)->s_(c10::attr::name, "forward");
  }

  ir::Model& model_;
  ir::Graph& graph_;
  const Dtypes& replaced_;
  const Dtypes& told_;
  const DtypeOrigins& origins_;
  std::unordered_map<const Value*, Value*> inputs_of_casts_{};
};

}  // namespace

void cast_boundary(ir::Model& model, ir::Graph& graph, const Dtypes& replaced, const Dtypes& told,
                   const DtypeOrigins& origins) {
  BoundaryCasting casting(model, graph, replaced, told, origins);
  casting.cast_inputs();
  casting.cast_outputs();
}

}  // namespace tsq::passes
