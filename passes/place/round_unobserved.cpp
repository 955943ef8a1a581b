#include "passes/place/round_unobserved.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "observers/observer_module.h"
#include "passes/context/names.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"

namespace tsq::passes {
namespace {

/// Whether a value was a tensor of another dtype in all of calibration: no operator rounds it.
bool is_of_other_dtype(const ir::ValueFacts& facts) {
  return !facts.dtypes.empty() && !facts.dtypes.contains(c10::ScalarType::Float);
}

/// Of the same codes as another, over a range that is known.
ObserverSpec spec_of_range(const ObserverSpec& like) {
  return {.observer = std::string(observer_classes::kMinMax),
          .dtype = like.dtype,
          .qscheme = like.qscheme,
          .reduce_range = like.reduce_range,
          .quant_min = like.quant_min,
          .quant_max = like.quant_max};
}

class Rounding {
 public:
  Rounding(Model& model, Node* op, const ObserverSpec& activation, const std::string& name)
      : model_(model), op_(op), activation_(activation), name_(name) {}

  void run() {
    for (Value* operand : ir::operands(op_)) {
      if (!ir::holds_tensor(operand) || ir::is_constant(operand) || ir::is_observer(operand->node()))
        continue;
      if (const ir::ValueFacts* facts = float_facts(operand, "reads"))
        ir::replace_operand(op_, operand, observed(operand, facts->range)->output());
    }
    Value* result = op_->output();
    const bool is_fixed = activation_.observer == observer_classes::kFixedQParams;
    const ir::ValueFacts* facts = is_fixed ? nullptr : float_facts(result, "returns");
    if (!is_fixed && facts == nullptr) return;
    Node* observer = observed(result, is_fixed ? std::nullopt : facts->range);
    result->replaceAllUsesAfterNodeWith(observer, observer->output());
  }

 private:
  /// Null where the value is no float32.
  const ir::ValueFacts* float_facts(const Value* value, std::string_view what) const {
    const ir::ValueFacts* facts = ir::facts_of(model_, value);
    if (facts != nullptr && is_of_other_dtype(*facts)) return nullptr;
    if (facts == nullptr || !facts->range)
      throw Error(
          ErrorCode::BadConfig,
          fmt::format("operator '{}' cannot be planned as int8: calibration has seen no range of what "
                      "it {}",
                      name_, what),
          "leave it 'float', or calibrate with samples that reach it");
    return facts;
  }

  /// Without a range it is the operator's own, which is fixed.
  Node* observed(Value* value, const std::optional<ir::RangeSeen>& range) {
    const ObserverSpec spec = range ? spec_of_range(activation_) : activation_;
    const std::size_t index = new_observer(model_, spec, ir::layer_of(model_, op_));
    torch::jit::Module observer = make_observer(spec);
    if (range) {
      observer.attr("min_val").toTensor().fill_(range->lowest);
      observer.attr("max_val").toTensor().fill_(range->highest);
    }
    model_.observers[index].module = std::move(observer);
    return ir::insert_observer(model_, value, index);
  }

  Model& model_;
  Node* op_;
  const ObserverSpec& activation_;
  const std::string& name_;
};

}  // namespace

void round_unobserved(Model& model, Node* op, const QConfig& qconfig, const std::string& name) {
  Rounding(model, op, qconfig.activation, name).run();
}

}  // namespace tsq::passes
