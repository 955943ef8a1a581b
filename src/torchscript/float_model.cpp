#include "torchscript/float_model.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include "base/quantized_operator.h"
#include "ir/analysis.h"
#include "operators/inlined_graph.h"
#include "torchscript/known_constants.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

std::string class_of(const Module& module) {
  const auto& name = module.type()->name();
  return name ? name->qualifiedName() : std::string();
}

bool is_observer(const Module& module) {
  const std::string name = class_of(module);
  return name.find("torch.ao.quantization.observer.") != std::string::npos ||
         name.find("torch.ao.quantization.fake_quantize.") != std::string::npos;
}

bool has_observers(const Module& model) {
  for (const Module& module : model.modules()) {
    if (is_observer(module)) return true;
  }
  return false;
}

/// tsq's stages and Python's GraphModules; models of other classes may have quantized parts of their own.
bool is_result_of_a_tool(const Module& model) {
  return class_of(model).find(".GraphModule") != std::string::npos;
}

bool has_quantized_operators(ir::Graph& graph) {
  return std::ranges::any_of(ir::nodes_in_order(graph), [](const ir::Node* node) {
    return is_quantized_operator(node->kind().toQualString());
  });
}

bool is_quantized(const Module& model) {
  return is_result_of_a_tool(model) && has_quantized_operators(*operators::inlined_graph(model, "forward"));
}

/// LibTorch writes a name that is no identifier between quotation marks, as it is: what it has written of
/// these it cannot read again, and every step of tsq's ends in a file.
bool can_be_written(std::string_view name) { return name.find_first_of("\"\\\n") == std::string_view::npos; }

void check_names(const Module& model) {
  for (const auto& named : model.named_modules()) {
    const auto type = named.value.type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const std::string& name = type->getAttributeName(i);
      if (can_be_written(name)) continue;
      std::ostringstream quoted;
      c10::printQuotedString(quoted, name);
      throw Error(ErrorCode::BadModel,
                  fmt::format("its attribute {} has a name that LibTorch cannot write into a file and read "
                              "again: it has a quotation mark, a backslash or a line break",
                              quoted.str()),
                  "rename it and export the model again",
                  Where{.layer = named.name, .op = class_of(named.value)});
    }
  }
}

/// LibTorch has no question for it.
bool is_empty(const Module& model) {
  try {
    return model._ivalue() == nullptr;
  } catch (const c10::Error&) {
    return true;
  }
}

}  // namespace

void check_not_empty(const Module& model) {
  if (!is_empty(model)) return;
  throw Error(ErrorCode::BadModel, "the torch::jit::Module is empty: nothing was loaded into it",
              "load one with tsq::load or torch::jit::load");
}

void check_float_model(const Module& model) {
  check_not_empty(model);
  if (!model.find_method("forward"))
    throw Error(ErrorCode::BadModel, "the model has no forward method",
                "script a module whose class defines forward");
  if (has_observers(model)) {
    throw Error(ErrorCode::BadModel, "the model is already prepared: it has observers",
                "calibrate and convert it, or give the float model");
  }
  if (is_quantized(model)) {
    throw Error(ErrorCode::BadModel, "the model is already quantized: it has quantized operators",
                "give the float model");
  }
  check_known_constants(model);
  check_names(model);
}

}  // namespace tsq::torchscript
