// Which passes run on which stage, in which order.

#include "pipeline/stage.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>

#include "ir/emit.h"
#include "observers/observer_module.h"
#include "passes/passes.h"

namespace tsq::detail {
namespace {

using torch::jit::Module;

/// Runs one pass; its name goes in front of an error.
template <typename Pass>
auto in_pass(const char* name, const Pass& pass) {
  try {
    return pass();
  } catch (const Error& error) {
    throw error.in_pass(name);
  }
}

/// Observers are independent: their searches for a range run side by side.
std::vector<passes::ObserverResult> find_qparams(const ir::GraphModule& gm,
                                                 std::span<const Module> observers) {
  std::vector<passes::ObserverResult> results(observers.size());
  at::parallel_for(0, static_cast<int64_t>(results.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      results[index] = passes::observer_result(gm.observers[index].spec, observers[index]);
    }
  });
  return results;
}

void append_report(Report& report, const Report& child, const std::string& path) {
  for (Decision decision : child.decisions) {
    decision.layer = decision.layer.empty() ? path : fmt::format("{}.{}", path, decision.layer);
    decision.standalone =
        decision.standalone.empty() ? path : fmt::format("{}.{}", path, decision.standalone);
    report.decisions.push_back(std::move(decision));
  }
  for (const std::string& layer : child.unobserved_layers)
    report.unobserved_layers.push_back(fmt::format("{}.{}", path, layer));
}

/// The QConfig that the mapping gives a standalone module; its own global one where it has no mapping.
QConfigMapping global_mapping(const ir::GraphModule& gm, const ir::ModuleCall& call,
                              const passes::MatchTable& table) {
  for (const auto& [node, decision] : table.qconfig_of) {
    if (ir::is_standalone(gm, node) && ir::call_of(gm, node).path == call.path)
      return QConfigMapping().set_global(decision.qconfig);
  }
  return {};
}

/// E-01: each standalone module is prepared as a model of its own.
void prepare_standalone_modules(Stage& stage, const passes::MatchTable& table) {
  for (ir::ModuleCall& call : stage.gm.calls) {
    if (!call.standalone || stage.standalone.contains(call.path)) continue;
    const StandaloneModuleConfig& config = *stage.custom.standalone_module(call.path, call.type);
    try {
      auto child = prepared_stage(
          *call.module,
          config.qconfig_mapping ? *config.qconfig_mapping : global_mapping(stage.gm, call, table),
          config.backend_config.value_or(stage.backend), config.prepare_custom_config);
      if (child->gm.graph->outputs().size() != 1 ||
          child->gm.graph->outputs().front()->type()->kind() != c10::TypeKind::TensorType) {
        throw Error(ErrorCode::BadModel, "a standalone module must return one tensor",
                    "make it 'non_traceable', or choose a module inside of it");
      }
      append_report(stage.report, child->report, call.path);
      stage.standalone.emplace(call.path, std::move(child));
    } catch (const Error& error) {
      throw Error(error.code(), error.problem(), error.remedy(), Where{.layer = call.path});
    }
  }
  for (const auto& [path, child] : stage.standalone) set_standalone_modules(stage.gm, path, child->module);
}

void check_quantized_indexes(const ir::GraphModule& gm, const PrepareCustomConfig& custom) {
  for (const int index : custom.input_quantized_indexes()) {
    if (index >= 0 && static_cast<std::size_t>(index) + 1 < gm.graph->inputs().size()) continue;
    throw Error(ErrorCode::BadConfig,
                fmt::format("input_quantized_idxs names input {}, forward has {}", index,
                            gm.graph->inputs().size() - 1),
                "count the arguments of forward from 0");
  }
}

/// The layers whose observers are in use and have seen nothing.
std::vector<std::string> unobserved_layers(const Stage& prepared,
                                           std::span<const passes::ObserverResult> results) {
  std::vector<std::string> layers;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].saw_data && passes::uses_observer(prepared.gm, i))
      layers.push_back(prepared.gm.observers[i].layer);
  }
  return layers;
}

bool is_preserved(const Stage& stage, const std::string& name) {
  const auto& names = stage.preserved_attributes;
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What users read beside parameters and modules: names of classes, versions, buffers …
bool is_plain(const c10::IValue& value, const c10::ClassType& type, std::size_t slot) {
  return !value.isModule() && !type.is_parameter(slot);
}

/// Whether the mapping gives a QConfig to some operator.
bool quantizes_anything(const passes::MatchTable& table) {
  return std::any_of(table.qconfig_of.begin(), table.qconfig_of.end(),
                     [](const auto& entry) { return entry.second.qconfig.has_value(); });
}

/// What became of a standalone module's operators at lowering, into the report of the whole.
void take_decisions(Report& report, const Report& child, const std::string& path) {
  Report prefixed;
  append_report(prefixed, child, path);
  std::map<std::pair<std::string, std::string>, Decision> lowered;
  for (Decision& decision : prefixed.decisions) {
    const auto key = std::pair(decision.standalone, decision.node);
    lowered.emplace(key, std::move(decision));
  }
  for (Decision& decision : report.decisions) {
    const auto found = lowered.find({decision.standalone, decision.node});
    if (found != lowered.end()) decision = found->second;
  }
}

}  // namespace

Module module_of(const Stage& stage, const ir::GraphModule& gm, std::span<const Module> observers) {
  Module module = ir::emit(gm, observers);
  const auto type = stage.float_model.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    const c10::IValue value = stage.float_model.attr(name);
    if (module.hasattr(name) || !(is_preserved(stage, name) || is_plain(value, *type, i))) continue;
    module.register_attribute(name, type->getAttribute(i), name == "training" ? c10::IValue(false) : value,
                              /*is_param=*/false, type->is_buffer(i));
  }
  for (std::size_t i = 0; i < type->numConstants(); ++i) {
    if (!module.hasattr(type->getConstantName(i)))
      module.type()->addConstant(type->getConstantName(i), type->getConstant(i));
  }
  return module;
}

void set_standalone_modules(ir::GraphModule& gm, const std::string& path, const Module& module) {
  for (ir::ModuleCall& call : gm.calls) {
    if (call.standalone && call.path == path) call.module = module;
  }
}

namespace {

ir::GraphModule plain_graph(const Module& model, const PrepareCustomConfig& custom) {
  ir::GraphModule gm = in_pass("capture", [&] { return passes::capture(model, custom); });
  in_pass("lift_recurrent", [&] { passes::lift_recurrent(gm); });
  in_pass("untrace", [&] { passes::untrace(gm); });
  in_pass("normalise", [&] { passes::normalise(gm); });
  in_pass("lift", [&] { passes::lift(gm); });
  return gm;
}

}  // namespace

ir::GraphModule fused_graph(const Module& model, const BackendConfig& backend,
                            const PrepareCustomConfig& custom, const QConfigMapping& mapping) {
  ir::GraphModule gm = plain_graph(model, custom);
  in_pass("lift_products", [&] { passes::lift_products(gm, mapping); });
  in_pass("drop_library_assertions", [&] { passes::drop_library_assertions(gm); });
  in_pass("fuse", [&] { passes::fuse(gm, backend); });
  return gm;
}

std::shared_ptr<Stage> prepared_stage(const Module& model, const QConfigMapping& mapping,
                                      const BackendConfig& backend, const PrepareCustomConfig& custom,
                                      const EqualizationMapping& equalization) {
  auto stage = std::make_shared<Stage>();
  stage->float_model = model;
  stage->mapping = mapping;
  stage->backend = backend;
  stage->custom = custom;
  stage->equalization = equalization;
  stage->preserved_attributes = custom.preserved_attributes();
  stage->gm = fused_graph(model, backend, custom, mapping);
  check_quantized_indexes(stage->gm, custom);
  passes::MatchTable table = in_pass("match", [&] { return passes::match(stage->gm, mapping, backend); });
  if (!quantizes_anything(table)) {
    // A batch norm that a convolution takes in changes the last bits: not where nothing is quantized.
    stage->gm = plain_graph(model, custom);
    table = in_pass("match", [&] { return passes::match(stage->gm, mapping, backend); });
  }
  in_pass("observe", [&] { passes::observe(stage->gm, table, backend, custom, stage->report); });
  in_pass("equalize", [&] { passes::equalize(stage->gm, table, equalization, stage->report); });
  in_pass("join_branches", [&] { passes::join_branches(stage->gm); });
  prepare_standalone_modules(*stage, table);
  for (const ir::ObserverEntry& entry : stage->gm.observers)
    stage->observers.push_back(make_observer(entry.spec));
  stage->module = module_of(*stage, stage->gm, stage->observers);
  return stage;
}

std::shared_ptr<Stage> reference_stage(const Stage& prepared, const BackendConfig& backend,
                                       const std::optional<QConfigMapping>& mapping) {
  auto stage = std::make_shared<Stage>(prepared);
  stage->gm = prepared.gm.copy();
  stage->backend = backend;
  stage->convert_mapping = mapping;
  in_pass("convert", [&] {
    if (mapping) passes::apply_convert_mapping(stage->gm, prepared.mapping, *mapping);
    std::vector<Module> observers = prepared.observers;
    passes::convert_equalization(stage->gm, observers);
    const auto results = find_qparams(stage->gm, observers);
    passes::convert(stage->gm, results, backend, stage->custom);
    passes::dequantize_behind_branches(stage->gm);
    stage->report.unobserved_layers = unobserved_layers(prepared, results);
  });
  for (auto& [path, child] : stage->standalone) {
    child = reference_stage(*child, backend, std::nullopt);
    child->module = module_of(*child, child->gm);
    set_standalone_modules(stage->gm, path, child->module);
    for (const std::string& layer : child->report.unobserved_layers)
      stage->report.unobserved_layers.push_back(fmt::format("{}.{}", path, layer));
  }
  return stage;
}

Module lowered_module(const Stage& reference, Report& report) {
  ir::GraphModule gm = reference.gm.copy();
  report = reference.report;
  in_pass("lower_dynamic", [&] { passes::lower_dynamic(gm, report); });
  in_pass("lower_recurrent", [&] { passes::lower_recurrent(gm, report); });
  in_pass("lower", [&] { passes::lower(gm, report); });
  in_pass("fold_packed_weights", [&] { passes::fold_packed_weights(gm); });
  for (const auto& [path, child] : reference.standalone) {
    Report of_child;
    set_standalone_modules(gm, path, lowered_module(*child, of_child));
    take_decisions(report, of_child, path);
  }
  return module_of(reference, gm);
}

}  // namespace tsq::detail
