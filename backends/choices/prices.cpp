#include "backends/choices/prices.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "backends/choices/rounding_times.h"
#include "ir/analysis.h"
#include "operators/roundings.h"
#include "operators/traits.h"

namespace tsq::kernels {
namespace {

using ir::Node;
using ir::Placement;
using ir::Value;

/// The operator in front of one that only moves values, or takes a list of such apart; null for others.
const Value* moved_by(const ir::Model& model, const Node* node) {
  if (node->kind() == c10::prim::ListUnpack) return moved_by(model, node->input(0)->node());
  if (!operators::moves_values(operators::traits_of(model, node))) return nullptr;
  const auto operands = ir::operands(node);
  return operands.empty() ? nullptr : operands.front();
}

bool rounds(const ir::Model& model, const Node* node) { return operators::is_static_rounding(model, node); }

/// Whether a value is rounded, and made by an int8 kernel: that returns its bytes.
bool comes_as_bytes(const ir::Model& model, const Value* value) {
  bool is_rounded = false;
  while (true) {
    const Node* node = value->node();
    const Value* before = ir::is_observer(node) ? node->input(0) : moved_by(model, node);
    if (before == nullptr) return is_rounded && ir::placement_of(model, node) == Placement::Int8;
    is_rounded |= rounds(model, node);
    value = before;
  }
}

/// How others read what an operator returns, after observers and operators that move it.
struct Readers {
  bool of_bytes{false};
  bool of_floats{false};
};

void add_readers(const ir::Model& model, const Value* value, bool is_rounded,
                 std::unordered_set<const Node*>& seen, Readers& readers) {
  for (const Node* user : ir::users(value)) {
    if (!seen.insert(user).second) continue;
    if (ir::is_observer(user) || moved_by(model, user) != nullptr) {
      for (const Value* output : user->outputs())
        add_readers(model, output, is_rounded || rounds(model, user), seen, readers);
      continue;
    }
    const bool is_in_int8 = ir::is_in_int8(ir::placement_of(model, user));
    (is_in_int8 && is_rounded ? readers.of_bytes : readers.of_floats) = true;
  }
}

Readers readers_of(const ir::Model& model, const Node* op) {
  Readers readers;
  std::unordered_set<const Node*> seen;
  for (const Value* output : op->outputs()) add_readers(model, output, false, seen, readers);
  return readers;
}

class Pricing {
 public:
  Pricing(const Target& target, const ir::Model& model, const Node* op)
      : model_(model), op_(op), times_(target, model), readers_(readers_of(model, op)) {}

  /// The price of the cheapest of the choices that `is_meant` names; none where no time is known.
  template <typename IsMeant>
  [[nodiscard]] std::optional<double> least(const std::vector<Choice>& choices,
                                            const IsMeant& is_meant) const {
    std::optional<double> least;
    for (const Choice& choice : choices) {
      // Of a kernel that does an activation too the time is not the operator's alone.
      if (!is_meant(choice) || choice.refusal || choice.with != nullptr || !choice.nanoseconds) continue;
      const double price = *choice.nanoseconds + of_roundings(choice);
      if (!least || price < *least) least = price;
    }
    return least;
  }

 private:
  [[nodiscard]] double of_roundings(const Choice& choice) const {
    double sum = times_.codes(choice, op_);
    for (const Value* operand : ir::operands(op_)) {
      if (!ir::holds_tensor(operand) || operand->node()->kind() == c10::prim::GetAttr) continue;
      const bool are_bytes = comes_as_bytes(model_, operand);
      if (are_bytes && choice.reads != Form::Bytes) sum += times_.dequantize(operand);
      if (!are_bytes && choice.reads == Form::Bytes) sum += times_.quantize(operand);
    }
    for (const Value* output : op_->outputs()) {
      if (choice.returns == Form::Bytes && readers_.of_floats) sum += times_.dequantize(output);
      if (choice.returns != Form::Bytes && readers_.of_bytes) sum += times_.quantize(output);
    }
    return sum;
  }

  const ir::Model& model_;
  const Node* op_;
  RoundingTimes times_;
  Readers readers_;
};

}  // namespace

std::optional<OperatorPrice> price_of(const Target& target, const ir::Model& model, const Node* op,
                                      Catalogue& catalogue) {
  // What moves values goes with what it moves.
  if (moved_by(model, op) != nullptr) return std::nullopt;
  const std::vector<Choice> choices = catalogue.timed_choices(op);
  const QConfig* qconfig = ir::observed_qconfig(model, op);
  if (qconfig == nullptr) return std::nullopt;
  const auto is_float = [](const Choice& choice) { return choice.placement == Placement::Float; };
  const auto is_int8 = [&](const Choice& choice) { return suits(choice, *qconfig); };
  const Pricing pricing(target, model, op);
  const auto in_float = pricing.least(choices, is_float);
  const auto in_int8 = pricing.least(choices, is_int8);
  if (!in_float || !in_int8) return std::nullopt;
  return OperatorPrice{.in_float = *in_float, .in_int8 = *in_int8};
}

}  // namespace tsq::kernels
