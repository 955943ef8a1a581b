#include "torchscript/renamed_methods.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/ir.h>
#include <tsq/error.h>

#include <vector>

#include "ir/define_method.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Module;
using torch::jit::Node;
using torch::jit::Value;
using Names = std::map<std::string, std::string>;

std::string new_name(const Names& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

/// Makes code of one class code of another.
class Adoption {
 public:
  Adoption(c10::ClassTypePtr from, c10::ClassTypePtr to, const Names& names)
      : from_(std::move(from)), to_(std::move(to)), names_(names) {}

  [[nodiscard]] std::shared_ptr<Graph> adopted(Graph& source) const {
    std::shared_ptr<Graph> graph = source.copy();
    adopt(*graph->block());
    return graph;
  }

 private:
  void adopt(Block& block) const {
    for (Value* input : block.inputs()) adopt(*input);
    for (Node* node : block.nodes()) adopt(*node);
  }

  void adopt(Node& node) const {
    for (Value* output : node.outputs()) adopt(*output);
    for (Block* inner : node.blocks()) adopt(*inner);
    if (node.kind() == c10::prim::fork) node.g_(c10::attr::Subgraph, adopted(*node.g(c10::attr::Subgraph)));
    if (node.kind() == c10::prim::CallMethod && node.input(0)->type() == to_)
      node.s_(c10::attr::name, new_name(names_, node.s(c10::attr::name)));
  }

  void adopt(Value& value) const {
    if (value.type() == from_) value.setType(to_);
  }

  c10::ClassTypePtr from_;
  c10::ClassTypePtr to_;
  const Names& names_;
};

}  // namespace

Module with_methods_renamed(const Module& module, const Names& names) {
  const c10::ClassTypePtr from = module.type();
  Module result(*from->name(), std::make_shared<torch::jit::CompilationUnit>());
  const c10::ClassTypePtr to = result.type();
  for (std::size_t i = 0; i < from->numConstants(); ++i)
    to->addConstant(from->getConstantName(i), from->getConstant(i));
  for (std::size_t i = 0; i < from->numAttributes(); ++i) {
    const std::string& name = from->getAttributeName(i);
    result.register_attribute(name, from->getAttribute(i), module.attr(name), from->is_parameter(i),
                              from->is_buffer(i));
  }
  const Adoption adoption(from, to, names);
  for (torch::jit::Function* method : from->methods()) {
    ir::define_method(result, new_name(names, method->name()),
                      adoption.adopted(*torch::jit::toGraphFunction(*method).graph()), method->getSchema());
  }
  return result;
}

MethodAsForward::MethodAsForward(const Module& module, const std::string& method) {
  if (method == "forward") return;
  if (!module.find_method(method)) {
    std::vector<std::string> known;
    for (const auto& each : module.get_methods()) known.push_back(each.name());
    throw Error(ErrorCode::BadModel, fmt::format("the model has no method '{}'", method),
                fmt::format("choose one of its methods: {}", fmt::join(known, ", ")));
  }
  there_[method] = "forward";
  back_["forward"] = method;
  if (!module.find_method("forward")) return;
  std::string beside = "forward_of_model";
  while (module.find_method(beside) || module.hasattr(beside)) beside += '_';
  there_["forward"] = beside;
  back_[beside] = "forward";
}

Module MethodAsForward::put(const Module& module) const {
  return there_.empty() ? module : with_methods_renamed(module, there_);
}

Module MethodAsForward::take_back(const Module& module) const {
  return back_.empty() ? module : with_methods_renamed(module, back_);
}

}  // namespace tsq::torchscript
