// Embeddings in every form become calls whose tables are known.
//   F.embedding(x, self.table), aten::embedding(constant, x, …)   →   Embedding(x)

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/origin.h"
#include "operators/arguments.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"
#include "torchscript/modules/embedding.h"

namespace tsq::passes {
namespace {

using ir::EmbeddingTable;
using operators::argument_named;

const c10::Symbol kEmbeddingBag = c10::Symbol::fromQualString("aten::embedding_bag");

/// What a branch returns where all of its other ways raise: torch.nn.functional checks its arguments so, and
/// freezing keeps the checks.
const Value* after_checks(const Value* value) {
  while (value->node()->kind() == c10::prim::If) {
    const Value* given = nullptr;
    for (const torch::jit::Block* block : value->node()->blocks()) {
      const Value* output = block->outputs()[value->offset()];
      if (ir::is_no_value(output)) continue;
      if (given != nullptr) return value;
      given = output;
    }
    if (given == nullptr) return value;
    value = given;
  }
  return value;
}

std::optional<c10::IValue> constant(const Node* node, const char* name) {
  const Value* value = argument_named(node, name);
  return value == nullptr ? std::nullopt : ir::constant_value(after_checks(value));
}

bool is_absent(const Value* value) { return value == nullptr || value->mustBeNone(); }

/// The table, when it is a parameter or constant that the model does not write.
std::optional<at::Tensor> known_table(const Model& model, const Value* value,
                                      const std::unordered_set<std::string>& written) {
  const std::string* name = ir::attribute_read(model, value);
  if (name != nullptr && written.contains(*name)) return std::nullopt;
  const at::Tensor held = ir::held_tensor(model, value);
  return is_plain(held) && held.dim() == 2 ? std::optional(held) : std::nullopt;
}

std::optional<EmbeddingTable::Mode> mode_of(const std::optional<c10::IValue>& value) {
  if (value && value->isInt() && value->toInt() >= 0 && value->toInt() <= 2)
    return static_cast<EmbeddingTable::Mode>(value->toInt());
  if (!value || !value->isString()) return std::nullopt;
  if (value->toStringRef() == "sum") return EmbeddingTable::Mode::Sum;
  if (value->toStringRef() == "mean") return EmbeddingTable::Mode::Mean;
  return EmbeddingTable::Mode::Max;
}

bool take_bag_arguments(const Node* node, EmbeddingTable& table) {
  const auto mode = mode_of(constant(node, "mode"));
  const auto include_last_offset = constant(node, "include_last_offset");
  const Value* padding = argument_named(node, "padding_idx");
  if (!mode || !include_last_offset || !include_last_offset->isBool()) return false;
  table.mode = *mode;
  table.include_last_offset = include_last_offset->toBool();
  if (is_absent(padding)) return true;
  const auto padding_idx = constant(node, "padding_idx");
  if (!padding_idx || !padding_idx->isInt()) return false;
  table.padding_idx = padding_idx->toInt();
  return true;
}

/// The torch.nn.functional function that a node calls or is the operator of; empty for others.
std::string_view function_of(const Model& model, const Node* node) {
  if (node->kind() == c10::aten::embedding) return "embedding";
  if (node->kind() == kEmbeddingBag) return "embedding_bag";
  if (node->kind() != c10::prim::CallFunction) return {};
  for (const Symbol& target : ir::targets(model, node)) {
    if (target.name == "torch.nn.functional.embedding") return "embedding";
    if (target.name == "torch.nn.functional.embedding_bag") return "embedding_bag";
  }
  return {};
}

/// Whether an operator is what is left of a torch.nn module. Sources of scripted files do not tell, because
/// F.embedding is Python too; the module is likelier.
bool is_embedding_of_a_module(const Node* node) {
  if (node->kind() == c10::prim::CallFunction) return false;
  const ir::Origin origin = ir::origin_of(node);
  const bool traced = origin.expression.empty() && origin.writer != ir::Origin::Writer::Unknown;
  return origin.in_module || (!traced && origin.writer != ir::Origin::Writer::User);
}

Symbol type_of(const Node* node, bool is_bag) {
  if (is_embedding_of_a_module(node)) return symbol(is_bag ? "torch.nn.EmbeddingBag" : "torch.nn.Embedding");
  return symbol(is_bag ? "torch.nn.functional.embedding_bag" : "torch.nn.functional.embedding");
}

bool gives_more_than_a_tensor(const Node* node) {
  return std::ranges::any_of(node->outputs().slice(1), [](const Value* value) { return value->hasUses(); });
}

/// The call's inputs: indices, and for bags offsets and weights of samples.
std::vector<Value*> inputs_of(Node* node, bool is_bag) {
  Value* indices = argument_named(node, "indices");
  if (indices == nullptr) indices = argument_named(node, "input");
  if (!is_bag) return {indices};
  const auto given = [&](const char* name) {
    Value* value = argument_named(node, name);
    return value != nullptr ? value : ir::constant_before(node, c10::IValue());
  };
  return {indices, given("offsets"), given("per_sample_weights")};
}

/// Whether the call is one of an embedding whose table can be told.
bool find_table(Model& model, const Node* node) {
  ir::ModuleCall& call = ir::call_of(model, node);
  const bool gives_a_tensor =
      node->outputs().size() == 1 && node->output()->type()->kind() == c10::TypeKind::TensorType;
  if (!torchscript::is_embedding(call.type) || ir::is_opaque(call) || !gives_a_tensor) return false;
  call.embedding = torchscript::embedding_table(call);
  return call.embedding.has_value();
}

class EmbeddingLifting {
 public:
  explicit EmbeddingLifting(Model& model) : model_(model), written_(ir::written_attributes(model)) {}

  bool run() {
    bool changed = false;
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (ir::is_module_call(node)) {
        changed |= find_table(model_, node);
      } else if (const std::string_view function = function_of(model_, node); !function.empty()) {
        changed |= lift(node, std::string(function));
      }
    }
    return ir::eliminate_dead_code(*model_.graph) || changed;
  }

 private:
  bool lift(Node* node, const std::string& function) {
    const bool is_bag = function == "embedding_bag";
    const Value* weight = argument_named(node, "weight");
    if (weight == nullptr || !is_absent(argument_named(node, "max_norm")) || gives_more_than_a_tensor(node))
      return false;
    const auto tensor = known_table(model_, weight, written_);
    EmbeddingTable table{.is_bag = is_bag};
    if (!tensor || (is_bag && !take_bag_arguments(node, table))) return false;
    table.weight = *tensor;
    if (table.padding_idx && *table.padding_idx < 0) *table.padding_idx += tensor->size(0);
    ir::ModuleCall call{.type = type_of(node, is_bag),
                        .path = path_of(node, function),
                        .module = torchscript::float_embedding(table),
                        .embedding = table};
    Value* made = ir::Rewriter(model_, node).call(std::move(call), inputs_of(node, is_bag));
    node->output(0)->replaceAllUsesWith(made->setType(node->output(0)->type()));
    node->destroy();
    return true;
  }

  /// A function is configured by the module that calls it. Where a module's path is lost, "embedding_0",
  /// "embedding_1" … keep the layers of a report apart.
  std::string path_of(const Node* node, const std::string& function) {
    const std::string& caller = ir::scope_of(model_, node).path;
    if (!is_embedding_of_a_module(node) && !caller.empty()) return caller;
    return fmt::format("{}_{}", function, counts_[function]++);
  }

  Model& model_;
  std::unordered_set<std::string> written_;
  std::map<std::string, int> counts_;
};

}  // namespace

bool lift_embeddings(Model& model, const PassContext& /*context*/) { return EmbeddingLifting(model).run(); }

bool find_embedding_tables(Model& model, const PassContext& /*context*/) {
  return change_nodes(model,
                      [&](const Node* node) { return ir::is_module_call(node) && find_table(model, node); });
}

}  // namespace tsq::passes
