#include "passes/place/round_unobserved.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <optional>

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

bool is_of_integers(const ir::ValueFacts& facts) {
  return !facts.dtypes.empty() && std::ranges::all_of(facts.dtypes, [](c10::ScalarType dtype) {
    return c10::isIntegralType(dtype, /*includeBool=*/true);
  });
}

/// The weight or bias of a function, or what was computed before the model runs: it is not observed.
bool is_parameter(const Value* value) {
  return ir::is_constant(value) || value->node()->kind() == c10::prim::GetAttr;
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
  Rounding(Model& model, const UnobservedOperator& island)
      : model_(model),
        op_(island.op),
        activation_(island.qconfig.activation),
        name_(island.name),
        returns_bytes_(island.returns_bytes) {}

  void run() {
    bool reads_float = false;
    for (Value* operand : ir::operands(op_)) {
      if (!ir::holds_tensor(operand) || is_parameter(operand)) continue;
      const bool is_rounded = ir::is_observer(operand->node());
      if (!is_rounded && !round_operand(operand)) continue;
      reads_float = true;
    }
    if (!reads_float) refuse("reads no float32");
    if (returns_bytes_ && !is_rounded_alone(op_->output())) round_result();
  }

 private:
  /// False of whole numbers, which stay what they are.
  bool round_operand(Value* operand) {
    const ir::ValueFacts* facts = ir::facts_of(model_, before_observers(operand));
    if (facts != nullptr && is_of_integers(*facts)) return false;
    ir::replace_operand(op_, operand, observed(operand, range_of(facts, "read"))->output());
    return true;
  }

  /// Whether an observer alone reads a value.
  [[nodiscard]] static bool is_rounded_alone(const Value* value) {
    return value->uses().size() == 1 && ir::is_observer(value->uses().front().user);
  }

  void round_result() {
    Value* result = op_->output();
    const auto range = range_of(ir::facts_of(model_, result), "return");
    const bool is_fixed = activation_.observer == observer_classes::kFixedQParams;
    Node* observer = observed(result, is_fixed ? std::nullopt : range);
    result->replaceAllUsesAfterNodeWith(observer, observer->output());
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::BadConfig,
                fmt::format("operator '{}' cannot be planned as int8: in calibration it {}", name_, why),
                "leave it 'float', or calibrate with samples that reach it");
  }

  std::optional<ir::RangeSeen> range_of(const ir::ValueFacts* facts, std::string_view what) const {
    if (facts == nullptr || !facts->range || ir::only_dtype(*facts) != c10::ScalarType::Float)
      refuse(fmt::format("was not seen to {} float32 alone", what));
    return facts->range;
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
  bool returns_bytes_;
};

}  // namespace

void round_unobserved(Model& model, const UnobservedOperator& op) { Rounding(model, op).run(); }

}  // namespace tsq::passes
