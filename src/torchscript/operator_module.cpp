#include "torchscript/operator_module.h"

#include <fmt/format.h>

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;
using torch::jit::Module;

class OperatorModule {
 public:
  explicit OperatorModule(Symbol type)
      : graph_(std::make_shared<Graph>()),
        module_(class_name(type), std::make_shared<torch::jit::CompilationUnit>()) {
    graph_->addInput("self");
  }

  Module make(const Node* op, std::span<const std::optional<c10::IValue>> constants) {
    std::vector<Value*> inputs;
    for (std::size_t i = 0; i < op->inputs().size(); ++i)
      inputs.push_back(constants[i] ? known(*constants[i]) : argument(op->input(i)->type()));
    Node* made = graph_->insertNode(graph_->create(op->kind(), inputs, op->outputs().size()));
    for (std::size_t i = 0; i < op->outputs().size(); ++i) made->output(i)->setType(op->output(i)->type());
    Value* result = op->outputs().size() == 1
                        ? made->output()
                        : graph_->insertNode(graph_->createTuple(made->outputs()))->output();
    graph_->registerOutput(result);
    graph_->inputs().at(0)->setType(module_.type());
    auto* function = module_._ivalue()->compilation_unit()->create_function(
        c10::QualifiedName(*module_.type()->name(), "forward"), graph_);
    module_.type()->addMethod(function);
    return module_;
  }

 private:
  static std::string class_name(Symbol type) {
    return fmt::format("__torch__.torch.nn.modules.rnn.{}", type.name.substr(type.name.rfind('.') + 1));
  }

  Value* argument(const c10::TypePtr& type) {
    Value* input = graph_->addInput();
    input->setType(type);
    return input;
  }

  Value* known(const c10::IValue& value) {
    if (value.isTensor()) return attribute(value.toTensor());
    if (!value.isTensorList()) return graph_->insertConstant(value);
    std::vector<Value*> elements;
    for (const at::Tensor& tensor : value.toTensorVector()) elements.push_back(attribute(tensor));
    return graph_->insertNode(graph_->createList(c10::TensorType::get(), elements))->output();
  }

  Value* attribute(const at::Tensor& tensor) {
    const std::string name = fmt::format("parameter_{}", count_++);
    module_.register_attribute(name, c10::TensorType::get(), tensor);
    Node* node = graph_->insertNode(graph_->create(c10::prim::GetAttr, {graph_->inputs().at(0)}, 1));
    node->s_(c10::attr::name, name);
    node->output()->setType(c10::TensorType::get());
    return node->output();
  }

  std::shared_ptr<Graph> graph_;
  Module module_;
  int count_{0};
};

}  // namespace

Module module_of_operator(Symbol type, const Node* op,
                          std::span<const std::optional<c10::IValue>> constants) {
  return OperatorModule(type).make(op, constants);
}

}  // namespace tsq::torchscript
