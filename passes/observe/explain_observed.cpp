// The report's entries at the time of prepare: what each operator is, what matched it, why it stays float.

#include "passes/observe/explain_observed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/known_names.h"
#include "match/dtype_check.h"
#include "match/remedy.h"
#include "match/root_modules.h"
#include "passes/capture/compute_in_float.h"

namespace tsq::passes {
namespace {

using c10::TypeKind;
using ir::GraphModule;
using ir::Node;
using ir::Value;

/// A call that capture could not look through, by what is called.
enum class OpaqueCall { None, ChosenModule, Method, Fork, HostOperator };

OpaqueCall opaque_call(const Node* node) {
  if (node->kind() == c10::prim::CallMethod) {
    const auto& type = node->input(0)->type();
    const auto object = type->cast<c10::ClassType>();
    const bool is_module = type->kind() == TypeKind::InterfaceType || (object && object->is_module());
    return is_module ? OpaqueCall::ChosenModule : OpaqueCall::Method;
  }
  if (node->kind() == c10::prim::fork) return OpaqueCall::Fork;
  const bool of_torch = node->kind().is_aten() || node->kind().is_prim() ||
                        std::string_view(node->kind().ns().toUnqualString()) == "quantized";
  return of_torch ? OpaqueCall::None : OpaqueCall::HostOperator;
}

std::string readable_name(const GraphModule& gm, const Node* node) {
  if (node->kind() == c10::prim::fork) return "torch.jit.fork";
  if (node->kind() != c10::prim::CallMethod) return ir::display_name(gm, node);
  const auto named = node->input(0)->type()->cast<c10::NamedType>();
  const std::string type = named && named->name() ? named->name()->qualifiedName() : "a class";
  return fmt::format("{}.{}", parse_symbol(type).name, node->s(c10::attr::name));
}

std::string layer_of(const GraphModule& gm, const Node* node) {
  return ir::is_module_call(node) ? ir::call_of(gm, node).path : ir::scope_of(gm, node).path;
}

/// What a value is: "the float result of torch.nn.SiLU ('block.act')".
std::string describe_value(const GraphModule& gm, const Value* value) {
  const Node* maker = value->node();
  const bool is_carried = maker->kind() == c10::prim::Loop || (maker->kind() == c10::prim::Param &&
                                                               maker->owningBlock()->owningNode() != nullptr);
  if (is_carried) return "a value that goes around a loop";
  if (maker->kind() == c10::prim::Param) return "an input of the model";
  if (maker->kind() == c10::prim::If) return "the result of an 'if'";
  if (maker->kind() == c10::aten::__getitem__ || !is_operator(gm, maker))
    return "a value from a list or a dict";
  const std::string layer = layer_of(gm, maker);
  return fmt::format("the float result of {}{}", readable_name(gm, maker),
                     layer.empty() ? "" : fmt::format(" ('{}')", layer));
}

/// The first tensor that a node reads.
std::string describe_input(const GraphModule& gm, const Node* node) {
  for (const Value* operand : ir::operands(node)) {
    if (ir::holds_tensor(operand) && !ir::is_constant(operand)) return describe_value(gm, operand);
  }
  return "a list that is filled when the model runs";
}

std::string source_text(const QConfigDecision& decision) {
  const std::string_view level = to_string(decision.source);
  return decision.key.empty() ? std::string(level) : fmt::format("{} '{}'", level, decision.key);
}

/// The readers of a value, looked for after its observer.
std::vector<Node*> readers_of(const Value* value) {
  std::vector<Node*> readers;
  for (Node* user : ir::users(value)) {
    if (!ir::is_observer(user)) {
      readers.push_back(user);
      continue;
    }
    for (Node* behind : ir::users(user->output())) readers.push_back(behind);
  }
  return readers;
}

void note_missed_fusion(const GraphModule& gm, const Node* node, Decision& decision) {
  if (!ir::is_module_call(node) || ir::weighted_of(ir::call_of(gm, node)) == nullptr) return;
  const auto readers = readers_of(node->output());
  const bool could_fuse = std::any_of(readers.begin(), readers.end(), [&](const Node* reader) {
    const std::string name = ir::display_name(gm, reader);
    return name.ends_with("ReLU") || name.ends_with("relu") || name.find("BatchNorm") != std::string::npos;
  });
  if (!could_fuse || readers.size() < 2) return;
  decision.notes.push_back(fmt::format(
      "{} operators read its result, so that the one after it is not fused into it", readers.size()));
}

void note_back_edge(const Node* node, Decision& decision) {
  if (node->outputs().size() != 1) return;
  for (const Node* reader : readers_of(node->output())) {
    const Node* owner = reader->owningBlock()->owningNode();
    if (reader->kind() != c10::prim::Return || owner == nullptr || owner->kind() != c10::prim::Loop) continue;
    decision.notes.emplace_back(
        "its result goes around the loop in float: each turn dequantizes it and quantizes it again");
    return;
  }
}

void explain_opaque(OpaqueCall call, Decision& decision) {
  switch (call) {
    case OpaqueCall::None:
      return;
    case OpaqueCall::ChosenModule:
      decision.reason =
          "which module is called here is decided when the model runs (an interface, or an index into a "
          "list)";
      decision.remedy = "call the modules by name in the branches of an 'if'";
      return;
    case OpaqueCall::Method:
      decision.reason = "a method of a class that is not a module, which tsq does not look into";
      decision.remedy = "move the computation into a module so that it is quantized";
      return;
    case OpaqueCall::Fork:
      decision.reason = "its future leaves the method or is stored in an attribute or a class";
      decision.remedy = "wait for it (torch.jit.wait) in the method that forks";
      return;
    case OpaqueCall::HostOperator:
      decision.reason = "an operator of the host program, which is not changed";
      decision.remedy = "nothing, unless operators of LibTorch can replace it";
      return;
  }
}

void explain_unmatched(const GraphModule& gm, const Node* node, const BackendConfig& backend,
                       Decision& decision) {
  if (ir::is_module_call(node) && decision.op == kCastType) {
    decision.reason =
        fmt::format("the model is in {}: it computes in float between casts at its inputs and outputs",
                    ir::call_of(gm, node).constants.front().toStringRef());
    decision.remedy = "nothing, or quantize a model in float (model.float()), which needs no casts";
    return;
  }
  if (ir::is_module_call(node) && !decision.op.starts_with("torch.")) {
    decision.reason = "a non-traceable module: tsq does not look into it";
    decision.remedy =
        "remove it from the custom config's non-traceable modules, or make it a standalone module there";
    return;
  }
  decision.reason = fmt::format("no pattern of backend '{}' matches it", backend.name());
  const auto targets = ir::targets(gm, node);
  decision.remedy = targets.empty()
                        ? "leave it float"
                        : match::remedy_without_row(Pattern(targets.front()), decision.op, backend);
}

void explain_refused(const Match& match, const QConfig& qconfig, const Findings& findings,
                     Decision& decision) {
  if (match.row->dtype_configs.empty()) {
    decision.reason = "the matched row of the backend config has no DTypeConfigs";
    decision.remedy = "give the row DTypeConfigs";
    return;
  }
  if (findings.is_mask) {
    decision.reason = "its result is a mask or part of one, and masks are not quantized";
    decision.remedy = "nothing: a mask has no range";
    return;
  }
  const match::Remedy remedy = match::remedy_for(qconfig, *match.row);
  decision.reason = fmt::format("no DTypeConfig of the backend accepts its qconfig: {}",
                                decision.refusals.at(remedy.dtype_config));
  decision.remedy =
      remedy.text.empty() ? "give it a qconfig with the backend's dtypes and ranges" : remedy.text;
}

/// D-11: prepare does not look at the weight's dtype, convert does.
bool has_refused_weight(const GraphModule& gm, const Node* node, const Match& match, const QConfig& qconfig) {
  return ir::is_module_call(node) && ir::weighted_of(ir::call_of(gm, node)) != nullptr &&
         !match::dtypes_supported(qconfig, match.row->dtype_configs);
}

void explain_observed(const GraphModule& gm, const Node* node, const Match& match, const QConfig& qconfig,
                      const BackendConfig& backend, const Findings& findings, Decision& decision) {
  if (findings.is_refused) return explain_refused(match, qconfig, findings, decision);
  if (ir::is_module_call(node) && match::lacks_reference_module(backend, ir::call_of(gm, node))) {
    decision.reason =
        fmt::format("the table has no reference module for {}; its input and output are rounded all the same",
                    decision.op);
    decision.remedy =
        "give a row of the table its root_module and reference_quantized_module_for_root, or give it no "
        "qconfig";
    return;
  }
  if (has_refused_weight(gm, node, match, qconfig)) {
    decision.reason = fmt::format(
        "its weight observer has {}, which no DTypeConfig of the backend accepts; its input and output are "
        "rounded anyway",
        dtype_name(resolve(qconfig.weight).dtype));
    decision.dtype_configs.clear();
    decision.refusals.clear();
    for (const DTypeConfig& config : match.row->dtype_configs) {
      decision.dtype_configs.push_back(match::describe(config));
      decision.refusals.emplace_back(
          match::dtypes_supported(qconfig, {config})
              ? ""
              : "its dtypes are not those of the qconfig, the weight's among them");
    }
    const match::Remedy remedy = match::remedy_for(qconfig, *match.row);
    decision.remedy = remedy.text.empty() ? "give it no qconfig" : remedy.text + ", or give it no qconfig";
    return;
  }
  if (findings.has_nothing_to_share) {
    decision.reason = fmt::format("its result has the range of its input, and that is {}, which has no range",
                                  describe_input(gm, node));
    decision.remedy = "nothing: it only moves or compares values, and costs little in float";
    return;
  }
  if (findings.gives_no_tensor) {
    decision.reason = "it returns several values, and only operators that return one tensor are quantized";
    decision.remedy =
        "use a form of the operator that returns one tensor (return_indices=False, for example)";
    return;
  }
  decision.quantized = true;
}

void explain(const GraphModule& gm, const Node* node, const Match* match, const QConfigDecision& qconfig,
             const BackendConfig& backend, const Findings& findings, Decision& decision) {
  if (ir::is_standalone(gm, node)) {
    decision.on_tensors = false;
    decision.reason = "a standalone module: its operators have entries of their own";
  } else if (!findings.on_tensors) {
    decision.reason = "it computes no float tensor";
  } else if (const OpaqueCall call = opaque_call(node); call != OpaqueCall::None) {
    explain_opaque(call, decision);
  } else if (match == nullptr) {
    explain_unmatched(gm, node, backend, decision);
  } else if (!qconfig.qconfig) {
    decision.reason = qconfig.source == QConfigSource::None
                          ? "no qconfig applies to it"
                          : fmt::format("its qconfig is none ({})", decision.qconfig_source);
    decision.remedy = match::remedy_for_none(qconfig, decision.op);
  } else {
    explain_observed(gm, node, *match, *qconfig.qconfig, backend, findings, decision);
  }
}

/// The configs up to the first that takes the pattern, with the refusals of those before it.
void add_dtype_configs(const Match& match, const Findings& findings, Decision& decision) {
  const std::size_t tried = findings.refusals.size() + (findings.is_refused ? 0 : 1);
  for (const DTypeConfig& config : match.row->dtype_configs) {
    if (decision.dtype_configs.size() < tried) decision.dtype_configs.push_back(match::describe(config));
  }
  decision.refusals = findings.refusals;
}

}  // namespace

bool is_operator(const GraphModule& gm, const Node* node) {
  if (ir::is_observer(node)) return false;
  if (node->kind() == c10::prim::CallMethod) return true;
  return !ir::targets(gm, node).empty() || opaque_call(node) != OpaqueCall::None;
}

void ObservationReport::add(Node* node, const Findings& findings) {
  Decision decision;
  decision.op = readable_name(gm_, node);
  decision.node = node->outputs().empty() ? "" : lasting_name(node->outputs().front(), decision.op);
  decision.layer = layer_of(gm_, node);
  decision.on_tensors = findings.on_tensors;
  if (ir::is_module_call(node)) {
    for (const ir::Scope& part : ir::call_of(gm_, node).parts) decision.parts.emplace_back(part.type.name);
  }
  const auto matched = table_.match_of.find(node);
  const Match* match = matched == table_.match_of.end() ? nullptr : &table_.matches[matched->second];
  const auto found = table_.qconfig_of.find(node);
  const QConfigDecision qconfig = found == table_.qconfig_of.end() ? QConfigDecision{} : found->second;
  decision.qconfig_source = source_text(qconfig);
  if (qconfig.qconfig) decision.qconfig = match::describe(*qconfig.qconfig);
  if (match != nullptr && !ir::is_standalone(gm_, node)) {
    decision.pattern = to_string(match->row->key());
    if (qconfig.qconfig && findings.on_tensors) add_dtype_configs(*match, findings, decision);
  }
  if (const auto left = table_.left_float.find(node); left != table_.left_float.end()) {
    decision.reason = left->second;
    decision.remedy = "nothing, or use --recipe fx";
  } else {
    explain(gm_, node, match, qconfig, backend_, findings, decision);
  }
  note_missed_fusion(gm_, node, decision);
  if (decision.quantized) note_back_edge(node, decision);
  report_.decisions.push_back(std::move(decision));
}

/// Numbers, which TorchScript gives to values without a name, change when a graph is copied: the report needs
/// a name that stays.
std::string ObservationReport::lasting_name(Value* value, std::string_view operator_name) {
  if (value->hasDebugName()) return value->debugName();
  const std::string_view base = operator_name.substr(operator_name.find_last_of(".:") + 1);
  // A name that is taken would be taken away from its owner.
  const auto& taken = value->owningGraph()->debugNames();
  std::string name(base);
  int& number = name_numbers_[name];
  while (taken.contains(name)) name = fmt::format("{}.{}", base, ++number);
  value->setDebugName(name);
  return value->debugName();
}

}  // namespace tsq::passes
