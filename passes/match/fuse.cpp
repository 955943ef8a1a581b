// Fusion rows → fused modules.
//   bn = BatchNorm2d(conv); relu = ReLU(bn)   →   conv = ConvReLU2d(x)
// A row is a fusion exactly when it has a fuser. Rows are tried longest first, nodes in reverse order
// (C-01, C-02); the fused module takes its root's path. What cannot be fused soundly (a batch norm without
// statistics) stays as it is.

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <tsq/error.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/user_call.h"
#include "config/fusers.h"
#include "config/names/known_names.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "match/matcher.h"
#include "operators/images/image_shapes.h"
#include "operators/weighted.h"
#include "passes/context/nodes.h"
#include "passes/match/passes.h"
#include "passes/match/training_form.h"
#include "torchscript/modules/float_module.h"

namespace tsq::passes {
namespace {

using ir::ModuleCall;
using match::MatchedNode;
using operators::ImageShapes;

struct FusionMatch {
  const BackendPatternConfig* row{};
  MatchedNode tree{};
  ImageShapes::Fit fit_of_addend{ImageShapes::Fit::SameShape};  ///< that of the root's output
};

/// The addition of a match; null where there is none.
const Node* addition_of(const MatchedNode& tree) {
  for (const MatchedNode& argument : tree.args) {
    if (argument.pattern->symbol.kind == SymbolKind::MatchAll) return tree.node;
    if (const Node* node = addition_of(argument)) return node;
  }
  return nullptr;
}

/// Whether no further input of the fused module is made inside of the match: it cannot read its own result.
bool reads_others(const FusionMatch& match) {
  const auto matched = match::nodes_of(match.tree);
  return std::ranges::none_of(match::extra_inputs_of(match.tree, *match.row), [&](const Value* input) {
    return std::ranges::find(matched, input->node()) != matched.end();
  });
}

/// How the addend goes with the root of which the addition may become part: one primitive adds into a result
/// of the root's shape, without alpha (FX drops it). Enlarges, too, for what is no such addition.
ImageShapes::Fit fit_of_addend(ImageShapes& shapes, const FusionMatch& match) {
  const Node* addition = addition_of(match.tree);
  const auto addends = match::extra_inputs_of(match.tree, *match.row);
  const Node* root = match::root_of(match.tree, *match.row).node;
  if (addition == nullptr || addends.empty() || !ir::holds_tensor(addends.front()) || root == nullptr)
    return ImageShapes::Fit::Enlarges;
  const auto arguments = ir::arguments(addition);
  const bool has_alpha = addition->kind() == c10::aten::add && arguments.size() > 2;
  return has_alpha && ir::whole_number_constant(arguments[2].value) != 1
             ? ImageShapes::Fit::Enlarges
             : shapes.fit(addends.front(), root->output());
}

/// What becomes of a batch norm and its layer.
enum class Form {
  Folded,      ///< one layer
  FoldedOnce,  ///< the same, unless calls of the layer have several batch norms: its weight would be several
  Trained,     ///< they train beside each other
};

/// What follows the calls of each weight of the file: the batch norms that alone read them, or null.
class BatchNormsAfter {
 public:
  explicit BatchNormsAfter(const Model& model) : model_(model) {
    for (const Node* node : ir::nodes_in_order(*model.graph)) {
      if (const void* weight = weight_of(node)) after_[weight].insert(statistics_after(node));
    }
  }

  /// Whether all calls of a layer have the same one, or none.
  [[nodiscard]] bool are_one(const Node* layer) const {
    const void* weight = weight_of(layer);
    return weight == nullptr || after_.at(weight).size() == 1;
  }

 private:
  [[nodiscard]] const void* weight_of(const Node* node) const {
    const ir::Weighted* weighted = weighted_at(model_, node);
    return weighted == nullptr ? nullptr : ir::origin_of(*weighted).const_data_ptr();
  }

  [[nodiscard]] const void* statistics_after(const Node* layer) const {
    if (layer->output()->uses().size() != 1) return nullptr;
    const Node* reader = layer->output()->uses().front().user;
    if (!ir::is_batch_norm(model_, reader) || !ir::call_of(model_, reader).module) return nullptr;
    const auto parameters = operators::batch_norm_parameters(*ir::call_of(model_, reader).module);
    return parameters ? parameters->running_mean.const_data_ptr() : nullptr;
  }

  const Model& model_;
  std::unordered_map<const void*, std::set<const void*>> after_{};
};

/// What was found, and of rows that would have matched, why they do not train, by the operator that stays
/// apart.
struct Fusions {
  std::vector<FusionMatch> found{};
  std::unordered_map<Node*, std::string> refused{};
};

/// Whether a layer can take a batch norm in.
bool can_fold(const ModuleCall& root, const ModuleCall& bn, Form form) {
  if (!root.weighted || !bn.module) return false;
  const auto parameters = operators::batch_norm_parameters(*bn.module);
  // FX scales the weight of a transposed convolution as if it had no groups.
  const bool has_groups = operators::is_transposed(root.type) && root.weighted->groups > 1;
  if (!parameters || (has_groups && form == Form::Folded)) return false;
  const bool is_linear = root.type.name == "torch.nn.Linear";
  const int64_t channels = parameters->running_mean.numel();
  return channels == operators::output_channels(root.type, *root.weighted) || (is_linear && channels == 1);
}

/// Whether a row makes one layer of a batch norm and the layer before it.
bool joins_layer(const Model& model, const BackendPatternConfig& row, const MatchedNode& tree, Form form) {
  const Node* layer = match::root_of(tree, row).node;
  if (layer == nullptr || layer == tree.node || !ir::is_module_call(layer)) return false;
  if (form == Form::Trained) return can_train_together(model, row, tree, Recipe::Best);
  return row.fuser_method == Fuser::Registered ||
         can_fold(ir::call_of(model, layer), ir::call_of(model, tree.node), form);
}

/// Whether the batch norm that a match begins with becomes part of the layer before it, by another row. FX
/// pairs it with what it meets first, from the end: the activation.
bool begins_with_joined(match::Matcher& matcher, const Model& model,
                        const std::vector<const BackendPatternConfig*>& rows,
                        const BatchNormsAfter& batch_norms, const FusionMatch& match, Form form) {
  Node* bn = match::root_of(match.tree, *match.row).node;
  if (bn == nullptr || !ir::is_batch_norm(model, bn)) return false;
  return std::ranges::any_of(rows, [&](const BackendPatternConfig* row) {
    const auto tree = matcher.match(bn, row->key());
    return tree && joins_layer(model, *row, *tree, form) &&
           (form == Form::Trained || batch_norms.are_one(match::root_of(*tree, *row).node));
  });
}

Fusions find_fusions(const Model& model, const PassContext& context, Form form) {
  std::vector<const BackendPatternConfig*> rows = match::sorted_rows(context.table);
  std::erase_if(rows, [](const BackendPatternConfig* row) { return !row->fuser_method.has_value(); });
  match::Matcher matcher(model);
  ImageShapes shapes(model);
  const BatchNormsAfter batch_norms(model);
  const Recipe recipe = context.options.recipe;
  // FX fuses whatever the shapes are; the kernel throws where the sum turns out to be larger than its own
  // result.
  const ImageShapes::Fit worst =
      recipe == Recipe::Best ? ImageShapes::Fit::Broadcasts : ImageShapes::Fit::Unknown;
  Fusions fusions;
  std::vector<FusionMatch>& found = fusions.found;
  std::unordered_set<const Node*> claimed;
  for (Node* node : std::views::reverse(ir::nodes_in_order(*model.graph))) {
    if (claimed.contains(node)) continue;
    for (const BackendPatternConfig* row : rows) {
      auto tree = matcher.match(node, row->key());
      if (!tree) continue;
      const auto matched = match::nodes_of(*tree);
      if (std::ranges::any_of(matched, [&](const Node* each) { return claimed.contains(each); })) continue;
      FusionMatch match{.row = row, .tree = std::move(*tree)};
      if (form == Form::Trained && !can_train_together(model, *row, match.tree, recipe)) {
        const auto bn = std::ranges::find(matched, batch_norm_of(model, match.tree));
        const bool is_of_row = !has_training_form(*row, recipe) || bn == matched.end();
        fusions.refused.emplace(is_of_row ? node : *bn, why_apart(*row, recipe));
        continue;
      }
      if (form == Form::FoldedOnce && batch_norm_of(model, match.tree) != nullptr &&
          !batch_norms.are_one(match::root_of(match.tree, *row).node))
        continue;
      if (recipe == Recipe::Best && begins_with_joined(matcher, model, rows, batch_norms, match, form))
        continue;
      if (!reads_others(match)) continue;
      if (row->extra_inputs_getter == ExtraInputsGetter::OtherAddend)
        match.fit_of_addend = fit_of_addend(shapes, match);
      if (match.fit_of_addend > worst) continue;
      claimed.insert(matched.begin(), matched.end());
      found.push_back(std::move(match));
      break;
    }
  }
  std::reverse(found.begin(), found.end());
  return fusions;
}

/// FX wraps a functional in a module of its own for each match (C-13).
ModuleCall member_of(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) return ir::call_of(model, node);
  const std::string name = std::string(ir::targets(model, node).front().name);
  const auto is = [&](std::string_view function, std::string_view module) {
    return name.ends_with(function) || name == module;
  };
  ModuleCall call{.type = symbol(is("leaky_relu", "torch.nn.LeakyReLU") ? "torch.nn.LeakyReLU"
                                 : is("tanh", "torch.nn.Tanh")          ? "torch.nn.Tanh"
                                                                        : "torch.nn.ReLU")};
  for (const auto& argument : ir::arguments(node)) {
    if (auto constant = torch::jit::toIValue(argument.value)) call.constants.push_back(*constant);
  }
  return call;
}

/// The root with the batch norm folded in; empty when that is not sound.
std::optional<ModuleCall> folded(const ModuleCall& root, const ModuleCall& bn, Form form) {
  if (!can_fold(root, bn, form)) return std::nullopt;
  ModuleCall result = root;
  result.module.reset();
  result.weighted =
      operators::fold_batch_norm(*root.weighted, *operators::batch_norm_parameters(*bn.module), root.type);
  return result;
}

ModuleCall sequence(const BackendPatternConfig& row, std::vector<ModuleCall> members) {
  return {.type = row.fused_module.value_or(members.front().type),
          .path = members.front().path,
          .members = std::move(members)};
}

/// What the user's fuser makes of them. It is called with `inputs` values.
ModuleCall fused_by_user(const BackendPatternConfig& row, const std::vector<ModuleCall>& members, Form form,
                         std::size_t inputs) {
  const FuserFunction fuser = registered_fuser(row.fuser_method_name);
  std::vector<Module> matched;
  for (const ModuleCall& member : members) matched.push_back(torchscript::float_module(member));
  const std::string function =
      fmt::format("the fuser '{}' of the row '{}'", row.fuser_method_name, to_string(row.key()));
  const Where where{.layer = members.front().path, .op = std::string(members.front().type.name)};
  const Module fused = call_of_user(function, where, [&] { return fuser(form == Form::Trained, matched); });
  const Symbol type = parse_symbol(fused.type()->name()->qualifiedName());
  if (row.fused_module && type != *row.fused_module) {
    throw Error(ErrorCode::BadConfig,
                fmt::format("{} returns a '{}', and the row says fused_module '{}'", function, type.name,
                            row.fused_module->name),
                "name the class that the function returns", where);
  }
  check_call(fused, inputs, function + " returns", where);
  return {.type = type, .path = members.front().path, .module = fused};
}

/// What the row's fuser makes of the matched operators, in data-flow order. Empty: not sound.
std::optional<ModuleCall> fuse_members(const BackendPatternConfig& row, std::vector<ModuleCall> members,
                                       Form form, std::size_t inputs) {
  if (row.fuser_method == Fuser::Registered) return fused_by_user(row, members, form, inputs);
  if (form == Form::Trained) return sequence(row, std::move(members));  // QT-05: nothing is folded
  const auto fold_first_two = [&]() -> bool {
    auto result = folded(members.at(0), members.at(1), form);
    if (!result) return false;
    members.erase(members.begin());
    members.front() = std::move(*result);
    return true;
  };
  switch (*row.fuser_method) {
    case Fuser::ConvBn:
    case Fuser::LinearBn:
    case Fuser::ConvTransposeBn:
      if (!fold_first_two()) return std::nullopt;
      return members.front();
    case Fuser::ConvBnReLU: {
      if (!fold_first_two()) return std::nullopt;
      const std::string& dims =
          std::string(members.front().type.name.substr(members.front().type.name.size() - 2));
      ModuleCall call = sequence(row, std::move(members));
      call.type = symbol("torch.ao.nn.intrinsic.ConvReLU" + dims);  // C-17: the row's fused_module is for QAT
      return call;
    }
    case Fuser::ConvBnAdd:
    case Fuser::ConvBnAddReLU:
    case Fuser::LinearBnLeakyReLU:
      if (!fold_first_two()) return std::nullopt;
      return sequence(row, std::move(members));
    case Fuser::Sequential:
    case Fuser::ConvAdd:
    case Fuser::ConvAddReLU:
      return sequence(row, std::move(members));
    case Fuser::Registered:
      break;
  }
  return std::nullopt;
}

/// conv and batch norm trees have the root below the addition's other operands: data-flow order starts at the
/// root.
std::vector<ModuleCall> members_of(const Model& model, const FusionMatch& match, const Node* root) {
  std::vector<ModuleCall> members;
  for (const MatchedNode* matched : in_forward_order(match.tree)) {
    if (matched->node == root) {
      members.insert(members.begin(), member_of(model, matched->node));
    } else if (ir::is_module_call(matched->node) || matched->node->kind() != c10::aten::add) {
      members.push_back(member_of(model, matched->node));
    }
  }
  return members;
}

/// What the report says of the matched operators, in data-flow order.
std::vector<ir::Scope> parts_of(const Model& model, const FusionMatch& match, const Node* root) {
  std::vector<ir::Scope> parts;
  for (const MatchedNode* matched : in_forward_order(match.tree)) {
    const Node* node = matched->node;
    const auto targets = ir::targets(model, node);
    if (targets.empty()) continue;
    std::vector<ir::Scope> made_of;  // an earlier fusion's
    if (ir::is_module_call(node)) made_of = ir::call_of(model, node).parts;
    if (made_of.empty()) {
      const std::string& path =
          ir::is_module_call(node) ? ir::call_of(model, node).path : ir::scope_of(model, node).path;
      made_of.push_back({.path = path, .type = targets.front()});
    }
    parts.insert(node == root ? parts.begin() : parts.end(), made_of.begin(), made_of.end());
  }
  return parts;
}

/// Returns whether the match could be fused.
bool apply(Model& model, const FusionMatch& match, Form form) {
  Node* root = match::root_of(match.tree, *match.row).node;
  if (root == nullptr || !ir::is_module_call(root)) return false;
  std::vector<Value*> inputs = root->inputs().vec();
  std::ranges::copy(match::extra_inputs_of(match.tree, *match.row), std::back_inserter(inputs));
  auto fused = fuse_members(*match.row, members_of(model, match, root), form, inputs.size());
  if (!fused) return false;
  fused->parts = parts_of(model, match, root);
  fused->addend_may_broadcast = match.fit_of_addend != ImageShapes::Fit::SameShape;
  Node* last = match.tree.node;
  ir::Value* made = ir::Rewriter(model, last, root).call(std::move(*fused), inputs);
  last->output()->replaceAllUsesWith(made->setType(last->output()->type()));
  // Last first: each node's reader is gone before the node.
  for (Node* node : match::nodes_of(match.tree)) node->destroy();
  return true;
}

bool fuse_rows(Model& model, const PassContext& context, Form form) {
  const Fusions fusions = find_fusions(model, context, form);
  for (const auto& [node, why] : fusions.refused) ir::record_for(model, node).decision.notes.push_back(why);
  return change_each(fusions.found, [&](const FusionMatch& match) { return apply(model, match, form); });
}

}  // namespace

bool fuse(Model& model, const PassContext& context) {
  if (context.options.recipe != Recipe::Best) return fuse_rows(model, context, Form::Folded);
  bool changed = false;
  // A layer that has taken its batch norm in may go with the activation after it: linear, batch norm, relu.
  while (fuse_rows(model, context, Form::FoldedOnce)) changed = true;
  return changed;
}

bool fuse_for_training(Model& model, const PassContext& context) {
  return fuse_rows(model, context, Form::Trained);
}

}  // namespace tsq::passes
