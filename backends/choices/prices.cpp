#include "backends/choices/prices.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "backends/kernels/machine_profile.h"
#include "backends/kernels/node_work.h"
#include "ir/analysis.h"
#include "operators/roundings.h"
#include "operators/traits.h"

namespace tsq::kernels {
namespace {

using ir::Node;
using ir::Placement;
using ir::Value;

/// The value that was rounded, and moved: what a kernel returned.
const Value* returned_by_kernel(const Value* value) {
  while (true) {
    const Node* node = value->node();
    if (!ir::is_observer(node) && !operators::moves_values(operators::traits_of(node))) return value;
    value = node->input(0);
  }
}

/// Who reads a value, also after observers and operators that move it.
void add_readers(const Value* value, std::vector<const Node*>& readers) {
  for (const Node* user : ir::users(value)) {
    if (ir::is_observer(user) || operators::moves_values(operators::traits_of(user))) {
      for (const Value* output : user->outputs()) add_readers(output, readers);
    } else {
      readers.push_back(user);
    }
  }
}

/// The kernels that round values and make floats of bytes.
struct Roundings {
  Kernel quantize{};
  Kernel dequantize{};
};
Roundings roundings_of(const Target& target) {
  if (target.runtime == LoweringTarget::Fused)
    return {.quantize = {.name = "quantize", .engine = "fused"},
            .dequantize = {.name = "dequantize", .engine = "fused"}};
  return {.quantize = {.name = "aten::quantize_per_tensor"},
          .dequantize = {.name = "aten::dequantize", .engine = target.engine}};
}

class Pricing {
 public:
  Pricing(const Target& target, const ir::Model& model, const Node* op)
      : model_(model), op_(op), profile_(profile_of(target)), roundings_(roundings_of(target)) {
    std::vector<const Node*> readers;
    for (const Value* output : op->outputs()) add_readers(output, readers);
    for (const Node* reader : readers) (reads_bytes(reader) ? is_read_as_bytes_ : is_read_as_float_) = true;
  }

  /// Of the least choice in float, or else in int8; none where no time is known.
  [[nodiscard]] std::optional<double> least(const std::vector<Choice>& choices, bool in_int8) const {
    std::optional<double> least;
    for (const Choice& choice : choices) {
      const bool is_int8 = choice.placement == Placement::Int8 || choice.placement == Placement::Int8FloatOut;
      const bool is_float = choice.placement == Placement::Float;
      // Of a kernel that does an activation too the time is not the operator's alone.
      if (!(in_int8 ? is_int8 : is_float) || choice.refusal || choice.with != nullptr || !choice.nanoseconds)
        continue;
      const double price = *choice.nanoseconds + of_roundings(choice);
      if (!least || price < *least) least = price;
    }
    return least;
  }

 private:
  [[nodiscard]] bool reads_bytes(const Node* node) const {
    const Placement placement = ir::placement_of(model_, node);
    return placement == Placement::Int8 || placement == Placement::Int8FloatOut;
  }

  [[nodiscard]] double of_roundings(const Choice& choice) const {
    double sum = 0;
    for (const Value* operand : ir::operands(op_)) {
      if (!ir::holds_tensor(operand) || operand->node()->kind() == c10::prim::GetAttr) continue;
      const bool are_bytes = ir::placement_of(model_, returned_by_kernel(operand)->node()) == Placement::Int8;
      if (are_bytes && choice.reads != Form::Bytes) sum += nanoseconds_of(roundings_.dequantize, operand);
      if (!are_bytes && choice.reads == Form::Bytes) sum += nanoseconds_of(roundings_.quantize, operand);
    }
    for (const Value* output : op_->outputs()) {
      if (choice.returns == Form::Bytes && is_read_as_float_)
        sum += nanoseconds_of(roundings_.dequantize, output);
      if (choice.returns != Form::Bytes && is_read_as_bytes_)
        sum += nanoseconds_of(roundings_.quantize, output);
    }
    return sum;
  }

  [[nodiscard]] double nanoseconds_of(const Kernel& rounding, const Value* value) const {
    const auto work = work_of_rounding(model_, value);
    return work ? nanoseconds(*profile_, rounding, *work).value_or(0) : 0;
  }

  const ir::Model& model_;
  const Node* op_;
  std::shared_ptr<const MachineProfile> profile_;
  Roundings roundings_;
  bool is_read_as_bytes_{false};
  bool is_read_as_float_{false};
};

}  // namespace

std::optional<OperatorPrice> price_of(const Target& target, const ir::Model& model, const Node* op,
                                      Catalogue& catalogue) {
  std::vector<Choice> choices = catalogue.choices(op);
  add_times(target, model, op, choices);
  // What a program can compute it does compute.
  const auto is_of_program = [](const Choice& choice) { return choice.kernel == kProgramOperator; };
  if (std::ranges::any_of(choices, is_of_program)) std::erase_if(choices, std::not_fn(is_of_program));
  const Pricing pricing(target, model, op);
  const auto in_float = pricing.least(choices, /*in_int8=*/false);
  const auto in_int8 = pricing.least(choices, /*in_int8=*/true);
  if (!in_float || !in_int8) return std::nullopt;
  return OperatorPrice{.in_float = *in_float, .in_int8 = *in_int8};
}

}  // namespace tsq::kernels
