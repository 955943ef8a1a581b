#include "torchscript/modules/recurrent.h"

#include <algorithm>
#include <utility>

#include "backends/kernels/operands.h"
#include "backends/kernels/weight_codes.h"
#include "backends/programs/translations.h"
#include "backends/programs/weight_forms.h"
#include "ir/analysis.h"

namespace tsq::programs {
namespace {

using ir::Node;
using ir::Value;
using runtime::Extent;
using runtime::Kind;
using runtime::Operation;

/// A tensor of the tuple that a call returns, and its place among them.
using Unpacked = std::pair<std::size_t, const Value*>;

std::size_t tensors_in(const c10::TypePtr& type) {
  if (type->kind() != c10::TypeKind::TupleType) return 1;
  std::size_t count = 0;
  for (const auto& element : type->containedTypes()) count += tensors_in(element);
  return count;
}

/// What is taken out of a tuple, and of tuples in it; false where the tuple itself is read.
bool unpack(const Value* tuple, std::size_t place, std::vector<Unpacked>& found) {
  return std::ranges::all_of(ir::users(tuple), [&](const Node* user) {
    if (user->kind() != c10::prim::TupleUnpack || user->owningBlock() != tuple->node()->owningBlock())
      return false;
    std::size_t next = place;
    return std::ranges::all_of(user->outputs(), [&](const Value* element) {
      const std::size_t at = std::exchange(next, next + tensors_in(element->type()));
      if (element->type()->kind() == c10::TypeKind::TupleType) return unpack(element, at, found);
      found.emplace_back(at, element);
      return true;
    });
  });
}

/// The first states that a call is given: of an LSTM the hidden and the cell ones, of a GRU the hidden ones.
/// Empty where they are None, and where they cannot be told there is nothing.
std::optional<std::vector<int>> states_given(ProgramBuilder& program, const Node* node) {
  if (node->inputs().size() < 2) return std::vector<int>{};
  const Value* given = program.resolved(node->input(1));
  if (const auto constant = program.constant(given); constant && constant->isNone())
    return std::vector<int>{};
  const auto kind = given->node()->kind();
  std::vector<const Value*> values{given};
  if (kind == c10::prim::TupleConstruct || kind == c10::prim::ListConstruct)
    values.assign(given->node()->inputs().begin(), given->node()->inputs().end());
  std::vector<int> states;
  for (const Value* value : values) {
    const auto state = program.tensor(value);
    if (!state) return std::nullopt;
    states.push_back(*state);
  }
  return states;
}

/// Whether a weight stays float: those of a first layer may.
bool is_float(const QParams& qparams) { return qparams.dtype == c10::ScalarType::Float; }

/// Writes layer after layer. Steps are the first dimension.
class Layers {
 public:
  Layers(ProgramBuilder& program, const Node* node, const torchscript::RecurrentForm& form)
      : program_(program),
        form_(form),
        weights_(torchscript::recurrent_weights(ir::call_of(program.model(), node))),
        qparams_(recurrent_qparams(program.model(), node)),
        states_(form.is_lstm ? 2 : 1) {}

  /// The results: the sequence, and the last states of each kind.
  std::vector<int> write(int input, const std::vector<int>& given) {
    if (form_.batch_first) input = transposed(input);
    const std::int64_t directions = form_.both_ways ? 2 : 1;
    for (std::int64_t layer = 0; layer < form_.layers; ++layer) {
      std::vector<int> both;
      for (std::int64_t direction = 0; direction < directions; ++direction)
        both.push_back(write_direction(input, layer * directions + direction, direction == 1, given));
      input = joined(both, -1);
    }
    std::vector<int> results{form_.batch_first ? transposed(input) : input};
    for (const auto& of_layers : states_) results.push_back(joined(of_layers, 0));
    return results;
  }

 private:
  /// Of one sample, which has no dimension for samples, nothing moves.
  int transposed(int value) {
    return program_.write({.kind = Kind::Transpose, .inputs = {value}, .axis = 0, .other_axis = -2});
  }

  int joined(const std::vector<int>& values, std::int64_t axis) {
    if (values.size() == 1) return values.front();
    return program_.write({.kind = Kind::Concat, .inputs = values, .axis = axis});
  }

  int rows(int value, std::int64_t begin, std::int64_t end) {
    return program_.write({.kind = Kind::Slice,
                           .inputs = {value},
                           .axis = 0,
                           .begin = begin,
                           .end = end == 0 ? Operation().end : Extent(end)});
  }

  int write_direction(int input, std::int64_t index, bool backward, const std::vector<int>& given) {
    Operation operation{
        .kind = form_.is_lstm ? Kind::Lstm : Kind::Gru, .inputs = {input}, .backward = backward};
    operation.reads_states = index >= (form_.both_ways ? 2 : 1);
    for (const int states : given) operation.inputs.push_back(rows(states, index, index + 1));
    const auto first = static_cast<std::size_t>(2 * index);
    std::tie(operation.weight, operation.weight_scales) = codes(first);
    std::tie(operation.recurrent_weight, operation.recurrent_scales) = codes(first + 1);
    operation.bias = bias(first);
    operation.recurrent_bias = bias(first + 1);
    const int all = program_.write(std::move(operation));
    // After the steps of an LSTM stand its cell states.
    const int sequence = form_.is_lstm ? rows(all, 0, -1) : all;
    states_[0].push_back(backward ? rows(sequence, 0, 1) : rows(sequence, -1, 0));
    if (form_.is_lstm) states_[1].push_back(rows(all, -1, 0));
    return sequence;
  }

  std::pair<std::optional<int>, std::optional<int>> codes(std::size_t index) {
    if (is_float(qparams_[index]))
      return {program_.add_constant(weights_.weights[index].detach()), std::nullopt};
    const ir::Weighted weighted{.weight = weights_.weights[index], .weight_qparams = qparams_[index]};
    WeightForms& forms = forms_of(program_.cache(), weighted, false);
    fill_codes(forms, weighted);
    return {program_.add_constant(forms.codes), program_.add_constant(forms.scales)};
  }

  std::optional<int> bias(std::size_t index) {
    const at::Tensor& numbers = weights_.biases[index];
    return numbers.defined() ? std::optional(program_.add_constant(numbers)) : std::nullopt;
  }

  ProgramBuilder& program_;
  const torchscript::RecurrentForm& form_;
  torchscript::RecurrentWeights weights_;
  std::vector<QParams> qparams_;
  std::vector<std::vector<int>> states_;  ///< of each layer and direction
};

}  // namespace

std::vector<QParams> recurrent_qparams(const ir::Model& model, const Node* layer) {
  const ir::ModuleCall& call = ir::call_of(model, layer);
  const QConfig* qconfig = ir::observed_qconfig(model, layer);
  const bool may_be_rounded =
      qconfig != nullptr && call.module && ir::placement_of(model, layer) != ir::Placement::Float;
  if (!call.recurrent_qparams.empty() || !may_be_rounded) return call.recurrent_qparams;
  const ResolvedObserver observer = resolve(qconfig->weight);
  std::vector<QParams> planned;
  for (const at::Tensor& weight : torchscript::recurrent_weights(call).weights) {
    const bool stays_float = planned.size() < call.float_recurrent_weights;
    planned.push_back(stays_float ? QParams{.dtype = c10::ScalarType::Float}
                                  : kernels::form_of_qparams(observer, weight));
  }
  return planned;
}

bool is_recurrent_of_programs(const ir::Model& model, const Node* node) {
  const ir::ModuleCall& call = ir::call_of(model, node);
  if (!call.module || !torchscript::is_recurrent(call.type)) return false;
  const std::vector<QParams> rounded = recurrent_qparams(model, node);
  const bool has_codes = std::ranges::all_of(rounded, [](const QParams& qparams) {
    return is_float(qparams) || kernels::has_symmetric_codes({.weight_qparams = qparams}, 0);
  });
  return !rounded.empty() && has_codes && torchscript::recurrent_form(call);
}

bool translate_recurrent(ProgramBuilder& program, const Node* node) {
  if (!ir::is_module_call(node)) return false;
  if (!is_recurrent_of_programs(program.model(), node)) return false;
  const ir::ModuleCall& call = ir::call_of(program.model(), node);
  const auto form = torchscript::recurrent_form(call);
  std::vector<Unpacked> returned;
  if (tensors_in(node->output()->type()) != (form->is_lstm ? 3 : 2) || !unpack(node->output(), 0, returned))
    return false;
  const auto input = program.tensor(node->input(0));
  const auto given = input ? states_given(program, node) : std::nullopt;
  if (!given || (!given->empty() && given->size() != (form->is_lstm ? 2U : 1U))) return false;
  const std::vector<int> results = Layers(program, node, *form).write(*input, *given);
  for (const auto& [place, value] : returned) {
    if (value->hasUses()) program.define(value, results[place]);
  }
  return true;
}

}  // namespace tsq::programs
