// The reasons of operators that prepare leaves float, and what would change that.

#include "passes/observe/why_float.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/cast.h"
#include "ir/reasons.h"
#include "match/dtype_check.h"
#include "match/remedy.h"
#include "match/root_modules.h"
#include "operators/is_operator.h"
#include "operators/traits.h"
#include "passes/observe/operator_names.h"

namespace tsq::passes {
namespace {

using ir::Reason;
using operators::OpaqueCall;

/// Why an operator is not quantized.
struct Why {
  Reason reason{Reason::None};
  std::string sentence{};
  std::string remedy{};
  bool is_of_weight{false};  ///< the dtype checks to be shown are those of the weight
  std::vector<std::string> other_backends{};
};

Why of_opaque(OpaqueCall call) {
  switch (call) {
    case OpaqueCall::None:
      return {};
    case OpaqueCall::ChosenModule:
      return {Reason::Table,
              "which module is called here is decided when the model runs (an interface, or an index into a "
              "list)",
              "call the modules by name in the branches of an 'if'"};
    case OpaqueCall::Method:
      return {Reason::Table, "a method of a class that is not a module, which tsq does not look into",
              "move the computation into a module so that it is quantized"};
    case OpaqueCall::Fork:
      return {Reason::Table, "its future leaves the method or is stored in an attribute or a class",
              "wait for it (torch.jit.wait) in the method that forks"};
    case OpaqueCall::HostOperator:
      return {Reason::Table, "an operator of the host program, which is not changed",
              "nothing, unless operators of LibTorch can replace it"};
  }
  return {};
}

/// Of compute_in_float: it makes one also where the dtype of the input decides whether it changes anything.
Why of_cast(const ir::ModuleCall& call) {
  const std::string& replaced = call.constants.at(0).toStringRef();
  const std::string& computed_in = call.constants.at(1).toStringRef();
  return {
      Reason::OtherDtype,
      computed_in.empty()
          ? fmt::format("parameters in {0} are cast to the dtype of the input: this does nothing unless "
                        "that is {0}",
                        replaced)
          : fmt::format("the model is in {}: it computes in float between casts at its inputs and outputs",
                        computed_in),
      "nothing, or quantize a model in float (model.float()), which needs no casts"};
}

Why of_unmatched(const Model& model, const Node* node, const PassContext& context) {
  const BackendConfig& table = context.table;
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(model, node);
    if (call.type.name == ir::kCastType) return of_cast(call);
    if (match::reference_module_of(table, call)) {
      return {Reason::Table, "the table has a reference module for it, and no row whose pattern is it",
              fmt::format("add a row with the pattern '{}' and its dtype_configs", call.type.name)};
    }
    if (!call.type.name.starts_with("torch.")) {
      return {Reason::Table, "a non-traceable module: tsq does not look into it",
              "remove it from the custom config's non-traceable modules, or make it a standalone module "
              "there"};
    }
  }
  Why why{Reason::Table, fmt::format("no pattern of backend '{}' matches it", table.name()),
          "leave it float"};
  const auto targets = ir::targets(model, node);
  if (targets.empty()) return why;
  if (context.options.recipe == Recipe::Best && operators::is_of_attention(model, node) &&
      match::spelling_with_row(readable_name(model, node), table)) {
    auto [sentence, remedy] = ir::explanation_of(Reason::OfAttention);
    return {Reason::OfAttention, std::move(sentence), std::move(remedy)};
  }
  why.other_backends = match::other_backends_with_row(Pattern(targets.front()), table);
  why.remedy = why.other_backends.empty()
                   ? match::remedy_without_row(readable_name(model, node), table)
                   : fmt::format(
                         "leave it float, or try --backend {}: 'tsq explain' says whether it is "
                         "quantized there",
                         fmt::join(why.other_backends, " or "));
  return why;
}

Why of_refused(const ir::Match& match, const QConfig& qconfig, const Findings& findings) {
  if (match.row->dtype_configs.empty())
    return {Reason::Table, "the matched row of the backend config has no DTypeConfigs",
            "give the row DTypeConfigs"};
  if (findings.is_mask) {
    return {Reason::NoTensors, "its result is a mask or part of one, and masks are not quantized",
            "nothing: a mask has no range"};
  }
  const match::Remedy remedy = match::remedy_for(qconfig, *match.row);
  return {Reason::Table,
          fmt::format("no DTypeConfig of the backend accepts its qconfig: {}",
                      findings.refusals.at(remedy.dtype_config)),
          remedy.text.empty() ? "give it a qconfig with the backend's dtypes and ranges" : remedy.text};
}

/// D-11: prepare does not look at the weight's dtype, convert does.
bool has_refused_weight(const Model& model, const Node* node, const ir::Match& match,
                        const QConfig& qconfig) {
  return ir::is_module_call(node) && ir::weighted_of(ir::call_of(model, node)) != nullptr &&
         !match::dtypes_supported(qconfig, match.row->dtype_configs);
}

Why of_refused_weight(const ir::Match& match, const QConfig& qconfig) {
  const match::Remedy remedy = match::remedy_for(qconfig, *match.row);
  return {Reason::Table,
          fmt::format("its weight observer has {}, which no DTypeConfig of the backend accepts; its input "
                      "and output are rounded anyway",
                      dtype_name(resolve(qconfig.weight).dtype)),
          remedy.text.empty() ? "give it no qconfig" : remedy.text + ", or give it no qconfig",
          /*is_of_weight=*/true};
}

/// Every DTypeConfig of the row, and which of them the weight fails.
void list_weight_checks(const ir::Match& match, const QConfig& qconfig, Decision& decision) {
  decision.dtype_configs.clear();
  decision.refusals.clear();
  for (const DTypeConfig& config : match.row->dtype_configs) {
    decision.dtype_configs.push_back(match::describe(config));
    decision.refusals.emplace_back(match::dtypes_supported(qconfig, {config})
                                       ? ""
                                       : "its dtypes are not those of the qconfig, the weight's among them");
  }
}

/// Nothing: it is quantized.
Why of_observed(const Model& model, const PassContext& context, const Node* node, const ir::Match& match,
                const QConfig& qconfig, const Findings& findings) {
  if (findings.is_refused) return of_refused(match, qconfig, findings);
  if (ir::is_module_call(node) && match::lacks_reference_module(context.table, ir::call_of(model, node))) {
    return {Reason::NoReferenceModule,
            fmt::format("the table has no reference module for {}; its input and output are rounded all the "
                        "same",
                        readable_name(model, node)),
            "give a row of the table its root_module and reference_quantized_module_for_root, or give it no "
            "qconfig"};
  }
  if (has_refused_weight(model, node, match, qconfig)) return of_refused_weight(match, qconfig);
  if (findings.has_nothing_to_share) {
    return {Reason::ReadsFloat,
            fmt::format("its result has the range of its input, and that is {}, which has no range",
                        describe_input(model, node)),
            "nothing: it only moves or compares values, and costs little in float"};
  }
  if (findings.gives_no_tensor) {
    return {Reason::Table,
            "it returns several values, and only operators that return one tensor are quantized",
            "use a form of the operator that returns one tensor (return_indices=False, for example)"};
  }
  return {};
}

Why of_no_qconfig(const QConfigDecision& lookup, const Decision& decision) {
  return {Reason::Mapping,
          lookup.source == QConfigSource::None
              ? "no qconfig applies to it"
              : fmt::format("its qconfig is none ({})", decision.qconfig_source),
          match::remedy_for_none(lookup, decision.op)};
}

/// Nothing: it is quantized.
Why why_float(const Model& model, const PassContext& context, const Node* node, const ir::Match* match,
              const Findings& findings, const ir::NodeRecord& record) {
  if (ir::is_standalone(model, node))
    return {Reason::None, "a standalone module: its operators have entries of their own", {}};
  if (!findings.on_tensors) return {Reason::NoTensors, "it computes no float tensor", {}};
  if (const auto call = operators::opaque_call(node); call != OpaqueCall::None) return of_opaque(call);
  if (match == nullptr) return of_unmatched(model, node, context);
  if (!record.lookup.qconfig) return of_no_qconfig(record.lookup, record.decision);
  return of_observed(model, context, node, *match, *record.lookup.qconfig, findings);
}

}  // namespace

void explain(const Model& model, const PassContext& context, const Node* node, const ir::Match* match,
             const Findings& findings, ir::NodeRecord& record) {
  Why why = why_float(model, context, node, match, findings, record);
  Decision& decision = record.decision;
  if (ir::is_standalone(model, node)) decision.on_tensors = false;
  if (why.is_of_weight) list_weight_checks(*match, *record.lookup.qconfig, decision);
  if (record.placement != ir::Placement::Written) record.reason = why.reason;
  decision.quantized = why.reason == Reason::None && !ir::is_standalone(model, node);
  decision.reason = std::move(why.sentence);
  decision.remedy = std::move(why.remedy);
  decision.other_backends = std::move(why.other_backends);
}

}  // namespace tsq::passes
