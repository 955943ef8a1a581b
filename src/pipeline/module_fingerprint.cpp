#include "pipeline/module_fingerprint.h"

#include <ATen/ATen.h>
#include <c10/util/hash.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/passes/canonicalize.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>

#include <bit>
#include <cstdint>
#include <sstream>
#include <vector>

#include "io/devices.h"
#include "ir/analysis.h"

namespace tsq::detail {
namespace {

using torch::jit::Module;

std::string hash_of(const std::string& bytes) { return c10::sha1(bytes).str(); }

/// The tensors in memory that a sparse one is made of.
std::vector<at::Tensor> tensors_in(const at::Tensor& sparse) {
  switch (sparse.layout()) {
    case at::kSparse:
      return {sparse._indices(), sparse._values()};
    case at::kSparseCsr:
    case at::kSparseBsr:
      return {sparse.crow_indices(), sparse.col_indices(), sparse.values()};
    case at::kSparseCsc:
    case at::kSparseBsc:
      return {sparse.ccol_indices(), sparse.row_indices(), sparse.values()};
    default:
      return {sparse.to_dense()};
  }
}

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.layout() != at::kStrided) {
    std::string text = fmt::format("{} {}[{}] ", at::toString(tensor.scalar_type()),
                                   static_cast<int>(tensor.layout()), fmt::join(tensor.sizes(), ","));
    for (const at::Tensor& part : tensors_in(tensor.detach())) text += text_of(part);
    return text;
  }
  const at::Tensor dense = (tensor.is_quantized() ? tensor.int_repr() : tensor).detach().cpu().contiguous();
  std::string text =
      fmt::format("{}[{}] ", at::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","));
  if (dense.numel() > 0) text += hash_of({static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()});
  return text;
}

/// Loading puts "___torch_mangle_3." into the names of classes, and other numbers the next time.
std::string without_unique_numbers(std::string text) {
  constexpr std::string_view kMangle = "___torch_mangle_";
  for (auto at = text.find(kMangle); at != std::string::npos; at = text.find(kMangle, at)) {
    auto end = at + kMangle.size();
    while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0)) ++end;
    if (end < text.size() && text[end] == '.') ++end;
    text.erase(at, end - at);
  }
  return text;
}

/// Names of values change when code is printed and read again; Canonicalize leaves those inside of blocks.
/// Warnings have another number each time that code is read.
void drop_names(torch::jit::Graph& graph) {
  const c10::Symbol warning = c10::Symbol::attr("warn_id");
  for (torch::jit::Node* node : ir::nodes_in_order(graph)) {
    if (node->hasAttribute(warning)) node->removeAttribute(warning);
    for (torch::jit::Value* output : node->outputs()) output->setDebugName("");
    for (torch::jit::Block* block : node->blocks()) {
      for (torch::jit::Value* input : block->inputs()) input->setDebugName("");
    }
  }
}

class Fingerprint {
 public:
  Fingerprint(std::string_view without, bool parameters_only)
      : without_(without), parameters_only_(parameters_only) {}

  std::string of(const Module& module) {
    for (const auto& method : module.get_methods()) {
      text_ += fmt::format("def {}{}\n", method.name(), c10::toString(method.function().getSchema()));
      add_code(method.graph()->copy());
    }
    add_module(module);
    return hash_of(without_unique_numbers(std::move(text_)));
  }

 private:
  void add_code(std::shared_ptr<torch::jit::Graph> graph) {
    torch::jit::Inline(*graph);
    // The text has constants in short form, or not at all.
    for (torch::jit::Node* node : ir::nodes_in_order(*graph)) {
      if (node->kind() != c10::prim::Constant) continue;
      if (const auto value = torch::jit::toIValue(node->output())) add(*value);
      // Objects are printed with their address.
      if (node->hasAttribute(c10::attr::value) &&
          node->kindOf(c10::attr::value) == torch::jit::AttributeKind::ival)
        node->removeAttribute(c10::attr::value);
    }
    drop_names(*graph);
    text_ += torch::jit::Canonicalize(graph, /*keep_unique_names=*/false)->toString(false);
  }

  void add_module(const Module& module) {
    const auto& type = module.type();
    for (std::size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const std::string& name = type->getAttributeName(slot);
      if (name == without_ || name == "training") continue;
      const c10::IValue& value = module._ivalue()->getSlot(slot);
      if (parameters_only_ && !value.isModule() && !is_of_layer(*type, slot)) continue;
      text_ += fmt::format("\n{} = ", name);
      add(value);
    }
    text_ += "\nend ";
  }

  /// Layers have these names for what a user's module holds as a parameter, or, frozen, as something else.
  static bool is_of_layer(const c10::ClassType& type, std::size_t slot) {
    const std::string& name = type.getAttributeName(slot);
    return type.is_parameter(slot) || name == "weight" || name == "bias";
  }

  template <typename Elements>
  void add_all(const Elements& elements) {
    text_ += "(";
    for (const c10::IValue& element : elements) add(element);
    text_ += ")";
  }

  void add(const c10::IValue& value) {
    if (value.isModule()) return add_module(value.toModule());
    text_ += value.tagKind() + " ";
    if (value.isTensor()) {
      text_ += text_of(value.toTensor());
    } else if (value.isDouble()) {
      text_ += std::to_string(std::bit_cast<std::uint64_t>(value.toDouble()));
    } else if (value.isString()) {
      text_ += hash_of(value.toStringRef());
    } else if (value.isList()) {
      add_all(value.toListRef());
    } else if (value.isTuple()) {
      add_all(value.toTupleRef().elements());
    } else if (value.isObject()) {
      add_all(value.toObjectRef().slots());
    } else if (value.isGenericDict()) {
      for (const auto& entry : value.toGenericDict()) add_all(std::vector{entry.key(), entry.value()});
    } else if (value.isInt() || value.isBool() || value.isDevice()) {
      text_ += fmt::format("{} ", value.isInt()    ? std::to_string(value.toInt())
                                  : value.isBool() ? std::to_string(static_cast<int>(value.toBool()))
                                                   : value.toDevice().str());
    }
  }

  std::string_view without_;
  bool parameters_only_;
  std::string text_{};
};

}  // namespace

std::string fingerprint_of_loaded(const Module& module, std::string_view without, bool parameters_only) {
  return Fingerprint(without, parameters_only).of(module);
}

Module as_loaded(const Module& module) {
  std::stringstream archive;
  module.save(archive);
  Module loaded = torch::jit::load(archive, at::kCPU);
  io::move_to_cpu(loaded);  // as load does with the file
  return loaded;
}

}  // namespace tsq::detail
