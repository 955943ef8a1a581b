#include "backends/choices/choices.h"

#include <fmt/format.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "backends/kernels/call_work.h"
#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/first_row.h"
#include "backends/kernels/kernel_arguments.h"
#include "backends/kernels/machine_profile.h"
#include "backends/kernels/node_work.h"
#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "ir/value_numbers.h"
#include "match/dtype_check.h"
#include "operators/functional_weighted.h"
#include "operators/traits.h"
#include "runtime/program/operation_table.h"
#include "torchscript/modules/recurrent.h"

namespace tsq::kernels {
namespace {

using ir::Model;
using ir::Node;
using ir::Placement;

/// The operator that alone reads what another returns, in the same block; null where there is none.
const Node* operator_after(const Node* op) {
  const Node* reader = ir::only_reader(op);
  const bool is_beside = reader != nullptr && reader->owningBlock() == op->owningBlock();
  return is_beside && reader->outputs().size() == 1 ? reader : nullptr;
}

/// LibTorch's operator that a float operator or layer runs as.
std::string float_kernel(const Model& model, const Node* op) {
  const bool is_call = ir::is_module_call(op);
  if (!is_call && op->kind() != c10::prim::CallFunction) return op->kind().toQualString();
  if (const auto* const traits = operators::traits_of(model, op))
    return fmt::format("aten::{}", traits->name);
  const auto named = [](std::string_view function) {
    return fmt::format("aten::{}", function.substr(function.rfind('.') + 1));
  };
  if (!is_call) {
    const auto targets = ir::targets(model, op);
    return targets.empty() ? std::string(op->kind().toQualString()) : named(targets.front().name);
  }
  const ir::ModuleCall& call = ir::call_of(model, op);
  if (torchscript::is_recurrent(call.type)) {
    const std::string_view kernel = torchscript::recurrent_kernel_of(call);
    const RecurrentKernel* row =
        first_row(recurrent_kernels(), [&](const RecurrentKernel& each) { return each.kernel == kernel; });
    return std::string(row == nullptr ? call.type.name : row->op);
  }
  const std::string_view type = ir::root_of(call).type.name;
  const std::string_view function = operators::functional_of_module(type);
  return function.empty() ? std::string(type) : named(function);
}

/// What a kernel of a form reads, returns and is placed as.
struct FormOfRow {
  LoweringForm form;
  ir::Placement placement;
  Form reads;
  Form returns;
};
constexpr std::array kFormsOfRows{
    FormOfRow{LoweringForm::Static, Placement::Int8, Form::Bytes, Form::Bytes},
    FormOfRow{LoweringForm::FloatOutput, Placement::Int8FloatOut, Form::Bytes, Form::Float},
    FormOfRow{LoweringForm::Dynamic, Placement::Int8, Form::FloatRange, Form::Float},
    FormOfRow{LoweringForm::WeightOnly, Placement::Int8, Form::Float, Form::Float},
};

/// Gathers the choices of one operator.
class Listing {
 public:
  Listing(const Target& target, const Model& model, const Node* op)
      : target_(target), model_(model), op_(op), after_(operator_after(op)) {}

  std::vector<Choice> run() {
    const std::string name = ir::display_name(model_, op_);
    found_.push_back({.kernel = name});
    found_.push_back({.kernel = name, .placement = Placement::Reference});
    add_with(nullptr);
    if (after_ != nullptr && post_op_of(model_, after_) != PostOp::None) add_with(after_);
    add_unary();
    add_float_outputs();
    if (ir::is_module_call(op_)) add_of_modules();
    return std::move(found_);
  }

 private:
  void add(LoweringForm form, std::string kernel, const Node* with, std::optional<Refusal> refusal) {
    const FormOfRow& row = *std::ranges::find(kFormsOfRows, form, &FormOfRow::form);
    found_.push_back({.kernel = std::move(kernel),
                      .placement = row.placement,
                      .reads = row.reads,
                      .returns = row.returns,
                      .form = form,
                      .with = with,
                      .refusal = std::move(refusal)});
  }

  void add_with(const Node* post) {
    if (const auto offer = weighted_offer(target_, model_, op_, post))
      add(LoweringForm::Static, std::string(offer.row->kernel), post, offer.refusal);
    if (const auto offer = binary_offer(target_, model_, op_, post))
      add(LoweringForm::Static, std::string(offer.kernel), post, offer.refusal);
    if (const auto offer = dynamic_offer(target_, model_, op_, post))
      add(LoweringForm::Dynamic, std::string(offer.row->kernel), post, offer.refusal);
  }

  void add_unary() {
    if (op_->kind() == c10::aten::cat)
      add(LoweringForm::Static, std::string(kConcatenation), nullptr, std::nullopt);
    const auto offer = unary_offer(target_, model_, op_);
    if (!offer) return;
    add(LoweringForm::Static,
        offer.row->how == Unary::Kernel ? kernel_of_call(offer.name, model_, op_) : offer.name, nullptr,
        offer.refusal);
  }

  void add_float_outputs() {
    const auto offer = float_output_offer(target_, model_, op_);
    if (!offer) return;
    const auto add_float_output = [&](const Node* with) {
      add(LoweringForm::FloatOutput, std::string(offer.row->kernel), with, offer.refusal);
      found_.back().reads = offer.row->reads;
    };
    add_float_output(nullptr);
    if (after_ != nullptr && !pointwise_activation(*offer.row, model_, after_).empty())
      add_float_output(after_);
  }

  void add_of_modules() {
    const ir::ModuleCall& call = ir::call_of(model_, op_);
    if (torchscript::is_recurrent(call.type)) {
      const auto offer = recurrent_offer(target_, model_, op_);
      const bool has_row = offer.row != nullptr;
      add(LoweringForm::Dynamic, std::string(has_row ? offer.row->kernel : call.type.name), nullptr,
          offer.refusal);
    }
    for (const NamedOffer& offer : {embedding_offer(model_, op_), weight_only_offer(model_, op_)}) {
      if (!offer.kernel.empty()) add(LoweringForm::WeightOnly, offer.kernel, nullptr, offer.refusal);
    }
  }

  const Target& target_;
  const Model& model_;
  const Node* op_;
  const Node* after_;
  std::vector<Choice> found_{};
};

/// Of a recurrent module; none where the file does not show the weights, and where calibration has not seen
/// one size. What it returns is the states of its last layer, in each step.
std::optional<KernelWork> work_of_recurrent(const Model& model, const Node* op) {
  const ir::ModuleCall& call = ir::call_of(model, op);
  const ir::ValueFacts* facts = ir::facts_of(model, ir::before_observers(op->input(0)));
  if (facts == nullptr || facts->sizes.size() != 1) return std::nullopt;
  const Sizes& input = facts->sizes.begin()->second.largest;
  const std::vector<at::Tensor> weights = torchscript::recurrent_weights(call).weights;
  if (weights.size() < 2 || input.empty()) return std::nullopt;
  const auto hidden = static_cast<double>(weights[1].size(1));
  const auto form = torchscript::recurrent_form(call);
  double rows = 1;
  for (std::size_t d = 0; d + 1 < input.size(); ++d) rows *= static_cast<double>(input[d]);
  return recurrent_work({.input = input,
                         .hidden = hidden,
                         .layers = static_cast<double>(weights.size()) / 2,
                         .values_out = rows * hidden * (form && form->both_ways ? 2 : 1)});
}

std::optional<KernelWork> work_of(const Model& model, const Node* op) {
  const bool is_recurrent = ir::is_module_call(op) && !op->inputs().empty() &&
                            torchscript::is_recurrent(ir::call_of(model, op).type);
  return is_recurrent ? work_of_recurrent(model, op) : work_of_node(model, op);
}

/// Fills in the nanoseconds of an operator's choices.
class Timing {
 public:
  Timing(const Target& target, const Model& model, const Node* op, KernelWork work)
      : target_(target), model_(model), op_(op), work_(std::move(work)), profile_(profile_of(target)) {}

  [[nodiscard]] std::optional<double> time(const Choice& choice) const {
    if (choice.placement == Placement::Reference) return std::nullopt;
    return choice.kernel == kProgramOperator ? in_program(choice) : alone(choice);
  }

 private:
  [[nodiscard]] std::optional<double> alone(const Choice& choice) const {
    const bool is_float = choice.placement == Placement::Float;
    const std::string kernel_name = is_float ? float_kernel(model_, op_) : choice.kernel;
    const std::string_view name = std::string_view(kernel_name).substr(0, kernel_name.find('.'));
    const bool is_of_engine = !is_float && !choice.kernel.starts_with("onednn::");
    const Kernel kernel{.name = name, .engine = is_of_engine ? std::string_view(target_.engine) : ""};
    return nanoseconds(*profile_, kernel, work_);
  }

  /// None of an elementwise operator, which the layer in front of it does.
  [[nodiscard]] std::optional<double> in_program(const Choice& choice) const {
    const auto* const traits = operators::traits_of(model_, op_);
    if (choice.operations.empty() || operators::has(traits, operators::Elementwise) ||
        operators::has(traits, operators::ElementwiseOfTwo))
      return std::nullopt;
    KernelWork work = work_;
    work.is_channels_last = true;  // a program lays them so for its layers
    double sum = 0;
    for (const runtime::Kind kind : choice.operations) {
      if (runtime::is_view(kind) || kind == runtime::Kind::Convert) continue;
      const std::string name =
          std::string(choice.reads == Form::Bytes ? "int8 " : "float ").append(runtime::name_of(kind));
      const auto time = nanoseconds(*profile_, {.name = name, .engine = "fused"}, work);
      if (!time) return std::nullopt;
      sum += *time;
    }
    return sum;
  }

  const Target& target_;
  const Model& model_;
  const Node* op_;
  KernelWork work_;
  std::shared_ptr<const MachineProfile> profile_;
};

}  // namespace

bool suits(const Choice& choice, const QConfig& qconfig) {
  if (!ir::is_in_int8(choice.placement)) return false;
  if (!choice.form) return true;
  switch (*choice.form) {
    case LoweringForm::Static:
    case LoweringForm::FloatOutput:
      return match::is_static(qconfig);
    case LoweringForm::Dynamic:
      return match::is_dynamic(qconfig);
    case LoweringForm::WeightOnly:
      return match::is_weight_only(qconfig);
  }
  return false;
}

std::vector<Choice> engine_choices(const Target& target, const Model& model, const Node* op) {
  return Listing(target, model, op).run();
}

Catalogue::Catalogue(const Target& target, const Model& model, std::span<const LoweringRow> registered)
    : target_(target), model_(model), registered_(registered), matcher_(model) {
  if (target.runtime == LoweringTarget::Fused) translations_.written = ir::written_attributes(model);
}

std::vector<Choice> Catalogue::choices(const Node* op) {
  std::vector<Choice> found = engine_choices(target_, model_, op);
  for (Choice& choice : other_choices(op)) found.push_back(std::move(choice));
  return found;
}

std::vector<Choice> Catalogue::other_choices(const Node* op) {
  std::vector<Choice> found;
  add_registered(op, found);
  if (target_.runtime == LoweringTarget::Fused) add_of_programs(op, found);
  return found;
}

std::vector<Choice> Catalogue::timed_choices(const Node* op) {
  std::vector<Choice> found = choices(op);
  const auto is_of_program = [](const Choice& choice) { return choice.kernel == kProgramOperator; };
  if (std::ranges::any_of(found, is_of_program)) std::erase_if(found, std::not_fn(is_of_program));
  auto work = work_of(model_, op);
  if (!work) return found;
  const Timing timing(target_, model_, op, *std::move(work));
  for (Choice& choice : found) choice.nanoseconds = timing.time(choice);
  return found;
}

void Catalogue::add_of_programs(const Node* op, std::vector<Choice>& found) {
  if (op->inputs().empty() || !op->blocks().empty()) return;
  const auto kinds = programs::operations_for(model_, op, {}, translations_);
  if (!kinds) return;
  found.push_back({.kernel = kProgramOperator, .operations = *kinds});
  found.push_back({.kernel = kProgramOperator,
                   .placement = Placement::Int8,
                   .reads = Form::Bytes,
                   .returns = Form::Bytes,
                   .operations = *kinds});
}

void Catalogue::add_registered(const Node* op, std::vector<Choice>& found) {
  for (const LoweringRow& row : registered_) {
    if (!matcher_.match(const_cast<Node*>(op), row.op)) continue;
    const FormOfRow& form = *std::ranges::find(kFormsOfRows, row.form, &FormOfRow::form);
    found.push_back({.kernel = row.kernel,
                     .placement = form.placement,
                     .reads = form.reads,
                     .returns = form.returns,
                     .form = row.form});
  }
}

}  // namespace tsq::kernels
