#include "backends/programs/translations.h"

#include <algorithm>

#include "backends/programs/expansion.h"
#include "ir/analysis.h"
#include "ir/quantize_operators.h"

namespace tsq::programs {
namespace {

using ir::Node;

bool translate_quantize(ProgramBuilder& program, const Node* node) {
  const auto type = rounded_to(node);
  const auto input = type ? program.tensor(node->input(0)) : std::nullopt;
  if (!input) return false;
  program.define(node->output(), program.write({.kind = runtime::Kind::Convert, .inputs = {*input}}, *type));
  return true;
}

/// Operations compute in real numbers, so that the codes are the tensor.
bool translate_dequantize(ProgramBuilder& program, const Node* node) {
  const Node* quantize = node->input(0)->node();
  if (quantize->kind() != ir::kQuantize || !rounded_to(quantize)) return false;
  const auto codes = program.tensor(node->input(0));
  if (codes) program.define(node->output(), *codes);
  return codes.has_value();
}

bool is_unpacking(const Node* node) {
  return node->kind() == c10::prim::ListUnpack || node->kind() == c10::prim::TupleUnpack;
}

/// Whether a tuple is only taken apart further.
bool is_unpacked(const ir::Value* value) {
  const auto users = ir::users(value);
  return value->type()->kind() == c10::TypeKind::TupleType &&
         std::ranges::all_of(users, [](const Node* user) { return is_unpacking(user); });
}

/// Node by node what a module or a function calls.
bool translate_expanded(ProgramBuilder& program, const Node* node) {
  auto& expansions = program.cache().expansions;
  const auto [known, is_new] = expansions.try_emplace(node);
  if (is_new) known->second = expanded_call(program.model(), node);
  const std::shared_ptr<ir::Graph> graph = known->second;
  if (graph == nullptr) return false;
  const auto read = read_by_call(node);
  for (std::size_t i = 0; i < read.size(); ++i) program.bind(graph->inputs()[i], read[i]);
  for (const Node* inner : graph->nodes()) {
    const bool is_written = inner->kind() == c10::prim::Constant ||
                            inner->kind() == c10::prim::ListConstruct || translate(program, inner);
    if (!is_written) return false;
  }
  const auto result = program.tensor(graph->outputs().front());
  if (result) program.define(node->output(), *result);
  return result.has_value();
}

}  // namespace

bool translate(ProgramBuilder& program, const Node* node) {
  if (node->kind() == ir::kQuantize) return translate_quantize(program, node);
  if (node->kind() == ir::kDequantize) return translate_dequantize(program, node);
  // What the list or tuple is made by has defined what is unpacked.
  if (is_unpacking(node)) {
    return std::ranges::all_of(node->outputs(), [&](const ir::Value* value) {
      return !value->hasUses() || program.is_defined(value) || is_unpacked(value);
    });
  }
  return translate_embedding(program, node) || translate_recurrent(program, node) ||
         translate_layer(program, node) || translate_operator(program, node) ||
         translate_module(program, node) || translate_interpolation(program, node) ||
         translate_expanded(program, node);
}

std::optional<std::vector<runtime::Kind>> operations_for(const ir::Model& model, const Node* node,
                                                         const ProgramBuilder::Regions& regions,
                                                         TranslationCache& cache) {
  ProgramBuilder program(model, regions, cache);
  if (!translate(program, node)) return std::nullopt;
  std::vector<runtime::Kind> kinds;
  for (const runtime::Operation& operation : program.program().operations) kinds.push_back(operation.kind);
  return kinds;
}

bool computes(const ir::Model& model, const Node* node, const ProgramBuilder::Regions& regions,
              TranslationCache& cache) {
  return operations_for(model, node, regions, cache).has_value();
}

}  // namespace tsq::programs
