#include "torchscript/modules/operator_module.h"

#include <fmt/format.h>

#include "ir/define_method.h"
#include "ir/edit.h"
#include "torchscript/modules/written_module.h"

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
        module_("__torch__.torch.nn.modules.rnn." + class_name(type),
                std::make_shared<torch::jit::CompilationUnit>()) {
    graph_->addInput("self");
  }

  Module make(const Node* op, std::span<const std::optional<c10::IValue>> constants) {
    std::vector<Value*> inputs;
    for (std::size_t i = 0; i < op->inputs().size(); ++i)
      inputs.push_back(constants[i] ? known(*constants[i])
                                    : graph_->addInput()->setType(op->input(i)->type()));
    Node* made = graph_->insertNode(graph_->create(op->kind(), inputs, op->outputs().size()));
    for (std::size_t i = 0; i < op->outputs().size(); ++i) made->output(i)->setType(op->output(i)->type());
    graph_->registerOutput(op->outputs().size() == 1
                               ? made->output()
                               : ir::tuple_before(graph_->insertPoint(), made->outputs()));
    ir::add_method(module_, "forward", graph_);
    return module_;
  }

 private:
  Value* known(const c10::IValue& value) {
    if (value.isTensor()) return attribute(value.toTensor());
    if (!value.isTensorList()) return graph_->insertConstant(value);
    std::vector<Value*> elements;
    for (const at::Tensor& tensor : value.toTensorVector()) elements.push_back(attribute(tensor));
    return ir::list_before(graph_->insertPoint(), c10::TensorType::get(), elements);
  }

  Value* attribute(const at::Tensor& tensor) {
    const std::string name = fmt::format("parameter_{}", count_++);
    module_.register_attribute(name, c10::TensorType::get(), tensor);
    return ir::read_attribute(graph_->insertPoint(), graph_->inputs().at(0), name, c10::TensorType::get());
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
