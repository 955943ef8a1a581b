#include "pipeline/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "backends/kernels/engine.h"
#include "backends/kernels/processor_faults.h"
#include "base/known_engines.h"
#include "base/tensor_memory.h"
#include "pipeline/training.h"
#include "torchscript/shared_classes.h"
#include "torchscript/user_attributes.h"

namespace tsq::detail {
namespace {

using torch::jit::Module;

void append(Report& report, const Report& child, const std::string& path) {
  for (Decision decision : child.decisions) {
    decision.layer = decision.layer.empty() ? path : fmt::format("{}.{}", path, decision.layer);
    decision.standalone =
        decision.standalone.empty() ? path : fmt::format("{}.{}", path, decision.standalone);
    report.decisions.push_back(std::move(decision));
  }
  for (const std::string& layer : child.unobserved_layers)
    report.unobserved_layers.push_back(fmt::format("{}.{}", path, layer));
  for (UnmatchedEntry entry : child.unmatched_entries) {
    entry.level = fmt::format("{} (mapping of standalone module '{}')", entry.level, path);
    report.unmatched_entries.push_back(std::move(entry));
  }
  const auto is_used_inside = [&](const UnmatchedLowering& row) {
    return std::ranges::none_of(child.unmatched_lowering, [&](const UnmatchedLowering& other) {
      return other.row == row.row && other.kernel == row.kernel;
    });
  };
  std::erase_if(report.unmatched_lowering, is_used_inside);
}

/// Of the tensors of the user's file that are the weights of layers.
std::unordered_set<const void*> memory_of_weights(const ir::Model& model) {
  std::unordered_set<const void*> memory;
  for (const ir::ModuleCall& call : model.calls) {
    if (const ir::Weighted* weighted = ir::weighted_of(call); weighted != nullptr)
      memory.insert(memory_of(ir::origin_of(*weighted)));
  }
  return memory;
}

}  // namespace

kernels::ProcessorFaults processor_faults_of(const Stage& stage) {
  if (stage.backend.engine() == kNoEngine) return {};
  return kernels::processor_faults(stage.options.target_cpu, engine_of(stage.backend));
}

passes::PassContext context_of(const Stage& stage) {
  return {.source = stage.float_model,
          .table = stage.backend,
          .mapping = stage.mapping,
          .custom = stage.custom,
          .equalization = stage.equalization,
          .options = stage.options,
          .target = {.engine = std::string(stage.backend.engine()),
                     .cpu = stage.options.target_cpu,
                     .runtime = stage.options.target,
                     .faults = processor_faults_of(stage),
                     .machine = stage.options.machine},
          .trains = stage.trains,
          .mapping_around = stage.mapping_around,
          .convert_custom = stage.convert_custom,
          .convert_mapping = stage.convert_mapping,
          .kept_float = stage.kept_float,
          .plan = stage.plan,
          .float_times = stage.float_times,
          .roundings = stage.found == nullptr ? nullptr : stage.found->roundings,
          .lowering_rows = lowering_rows(stage.backend.name())};
}

Module module_of(const Stage& stage, torchscript::Layout layout) {
  const bool is_training = stage.trains && !stage.is_trained;
  const bool has_keys_of_fx = layout == torchscript::Layout::OfUser && stage.options.recipe == Recipe::Fx;
  Module module = is_training
                      ? trained_module(stage)
                      : torchscript::emit(stage.model, has_keys_of_fx ? torchscript::Layout::OfFx : layout);
  torchscript::keep_user_attributes(module, stage.float_model, stage.preserved_attributes,
                                    memory_of_weights(stage.model));
  return is_training ? module : torchscript::with_shared_classes(module);
}

void set_standalone_modules(ir::Model& model, const std::string& path, const Module& module) {
  for (ir::ModuleCall& call : model.calls) {
    if (call.standalone && call.path == path) call.module = module;
  }
}

ir::Model with_own_observers(const ir::Model& model) {
  ir::Model copy = model.copy();
  for (ir::ObserverEntry& observer : copy.observers) {
    if (observer.module) observer.module = observer.module->deepcopy();
  }
  for (auto& [path, module] : observed_modules(copy)) set_observed_module(copy, path, module.deepcopy());
  return copy;
}

std::map<std::string, Module> observed_modules(const ir::Model& model) {
  std::map<std::string, Module> modules;
  for (const ir::ModuleCall& call : model.calls) {
    if (call.custom == ir::CustomState::Observed) modules.emplace(call.path, *call.module);
  }
  return modules;
}

void set_observed_module(ir::Model& model, const std::string& path, const Module& module) {
  for (ir::ModuleCall& call : model.calls) {
    if (call.custom == ir::CustomState::Observed && call.path == path) call.module = module;
  }
}

std::vector<Module> observing_modules(const Stage& stage) {
  std::vector<Module> modules;
  for (const ir::ObserverEntry& observer : stage.model.observers) {
    if (observer.module) modules.push_back(*observer.module);
  }
  for (const auto& [path, module] : observed_modules(stage.model)) modules.push_back(module);
  for (const auto& [path, module] : stage.model.weight_fake_quants) modules.push_back(module);
  for (const auto& [path, child] : stage.standalone) {
    for (const Module& module : observing_modules(*child)) modules.push_back(module);
  }
  return modules;
}

std::shared_ptr<Stage> independent_copy(const Stage& stage) {
  if (stage.trains && !stage.is_trained) return independent_training_copy(stage);
  auto copy = std::make_shared<Stage>(stage);
  copy->model = with_own_observers(stage.model);
  for (auto& [path, child] : copy->standalone) {
    child = independent_copy(*child);
    set_standalone_modules(copy->model, path, child->module);
  }
  copy->module = module_of(*copy);
  return copy;
}

Report report_of(const Stage& stage) {
  Report report{.unobserved_layers = stage.model.unobserved_layers,
                .unmatched_entries = stage.model.unmatched_entries,
                .unmatched_lowering = stage.model.unmatched_lowering,
                .python_files = {stage.model.python_files.begin(), stage.model.python_files.end()},
                .programs = stage.model.programs,
                .passes = stage.report.passes};
  for (const std::size_t index : stage.model.report_order)
    report.decisions.push_back(stage.model.records.at(index).decision);
  std::set<std::string> appended;
  for (const ir::ModuleCall& call : stage.model.calls) {
    if (!call.standalone || !appended.insert(call.path).second) continue;
    const auto child = stage.standalone.find(call.path);
    if (child != stage.standalone.end()) append(report, child->second->report, call.path);
  }
  return report;
}

}  // namespace tsq::detail
