#include "trial/captured.h"

#include <ATen/ATen.h>
#include <tsq/bench/profile.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/attribute_name.h"
#include "io/samples.h"
#include "pipeline/operator_watch.h"
#include "trial/program_values.h"

namespace tsq::detail {
namespace {

const at::Tensor* first_tensor(std::span<const c10::IValue> values) {
  const auto found = std::ranges::find_if(
      values, [](const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); });
  return found == values.end() ? nullptr : &found->toTensor();
}

bool shares_memory(const at::Tensor& output, const std::vector<at::IValue>& inputs) {
  return std::ranges::any_of(inputs, [&](const at::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage() &&
           output.has_storage() && output.is_alias_of(value.toTensor());
  });
}

/// A run of forward that is watched: its operators, and which of them made the tensors that others read.
class Recording {
 public:
  Recording(const torch::jit::Module& module, const Sample& arguments) : layers_(module) {
    const std::vector<at::Tensor> tensors = tensors_of(arguments);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      keep(tensors[i], {.source = {.kind = Source::Kind::Argument, .index = i}});
  }

  void begin(const at::RecordFunction& function) {
    Captured op{.kind = function.name(), .path = layers_.of(function), .name = function.operator_name()};
    op.layer = attribute_name(op.path);
    const auto arguments = arguments_of(function);
    op.inputs.assign(arguments.begin(), arguments.end());
    if (const at::Tensor* input = first_tensor(op.inputs)) op.input = input->clone();
    for (const at::IValue& value : op.inputs) note_attributes(value, op);
    std::vector<Made> makers;
    for (const at::Tensor& tensor : tensors_of(op.inputs)) {
      const auto known = makers_.find(tensor.unsafeGetTensorImpl());
      makers.push_back(known == makers_.end() ? Made() : known->second);
    }
    made_.push_back(std::move(makers));
    before_.push_back(as_before(op));
    operators_.push_back(std::move(op));
  }

  void end(const at::RecordFunction& function);

  /// With the operations of programs in place of their calls.
  [[nodiscard]] std::vector<Captured> take();

 private:
  /// Where a tensor comes from, and which of its maker's results it is.
  struct Made {
    Source source{};
    std::size_t result{0};
  };

  /// The inputs as they are before the operator runs: a later one may write into them, as a convolution that
  /// adds into its addend. What the model holds itself is known by where it lies.
  [[nodiscard]] std::vector<at::IValue> as_before(const Captured& op) const {
    std::vector<at::IValue> values = op.inputs;
    bool is_first = true;
    for (at::IValue& value : values) {
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      const bool has_copy = std::exchange(is_first, false);
      if (!makers_.contains(value.toTensor().unsafeGetTensorImpl())) continue;
      value = has_copy ? op.input : value.toTensor().clone();
    }
    return values;
  }

  void keep(const at::Tensor& tensor, Made made) {
    makers_[tensor.unsafeGetTensorImpl()] = std::move(made);
    alive_.push_back(tensor);
  }

  /// A list counts where it holds nothing else, as that of a recurrent layer's weights.
  void note_attributes(const at::IValue& value, Captured& op) const {
    const auto is_held = [&](const at::IValue& one) { return layers_.holds(one); };
    if (value.isList()) {
      if (!std::ranges::all_of(value.toListRef(), is_held)) return;
      for (const at::IValue& element : value.toListRef()) note_attributes(element, op);
    } else if (is_held(value)) {
      op.attributes.push_back(value.isObject() ? static_cast<const void*>(&value.toObjectRef())
                                               : memory_of(value.toTensor()));
    }
  }

  LayerNames layers_;
  std::vector<Captured> operators_{};
  std::vector<std::vector<Made>> made_{};          ///< of each operator what it reads
  std::vector<std::vector<at::IValue>> before_{};  ///< of each operator its inputs
  std::unordered_map<const void*, Made> makers_{};
  std::vector<at::Tensor> alive_{};  ///< no other tensor gets the place of one that was seen
};

void Recording::end(const at::RecordFunction& function) {
  Captured& op = operators_.back();
  const std::vector<at::Tensor> results = tensors_of(results_of(function));
  for (std::size_t i = 0; i < results.size(); ++i)
    keep(results[i],
         {.source = {.kind = Source::Kind::Operator, .index = operators_.size() - 1}, .result = i});
  const at::Tensor* output = first_tensor(results_of(function));
  if (output == nullptr) return;
  const auto schema = function.operator_schema();
  const auto* alias = schema && !schema->returns().empty() ? schema->returns().front().alias_info() : nullptr;
  op.is_view = alias != nullptr && !alias->isWrite();
  op.overwrites = alias == nullptr && shares_memory(*output, op.inputs);
  op.output = output->clone();
}

std::vector<Captured> Recording::take() {
  std::vector<Captured> all;
  std::vector<std::vector<Source>> results(operators_.size());  // of each call of a program
  std::vector<std::size_t> places(operators_.size());
  std::size_t programs = 0;
  const auto source_of = [&](const Made& made) -> Source {
    if (made.source.kind != Source::Kind::Operator) return made.source;
    const std::vector<Source>& inside = results[made.source.index];
    if (made.result < inside.size()) return inside[made.result];
    return {.kind = Source::Kind::Operator, .index = places[made.source.index]};
  };
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    std::vector<Source> reads;
    for (const Made& made : made_[i]) reads.push_back(source_of(made));
    places[i] = all.size();
    if (!calls_program(operators_[i])) {
      operators_[i].reads = std::move(reads);
      operators_[i].inputs = std::move(before_[i]);
      all.push_back(std::move(operators_[i]));
      continue;
    }
    ProgramOperations inside = operations_within(operators_[i]);
    const auto outside = [&](Source& source) {
      if (source.kind == Source::Kind::Operator) source.index += places[i];
      if (source.kind != Source::Kind::Argument) return;
      at::Tensor rounded = source.rounded;
      source = source.index < reads.size() ? reads[source.index] : Source();
      if (rounded.defined()) source.rounded = std::move(rounded);
    };
    for (Captured& operation : inside.operations) {
      operation.program = programs;
      std::ranges::for_each(operation.reads, outside);
      all.push_back(std::move(operation));
    }
    std::ranges::for_each(inside.results, outside);
    results[i] = std::move(inside.results);
    ++programs;
  }
  return all;
}

/// What an operator reads in float was codes before, where another operator has quantized it and one has
/// dequantized it again: this rounding belongs to who reads it. Bytes were codes of a quantized tensor.
void find_rounded(std::vector<Captured>& operators) {
  for (Captured& op : operators) {
    for (Source& source : op.reads) {
      for (Source at = source; at.kind == Source::Kind::Operator;) {
        const Captured& maker = operators[at.index];
        if (!bench::is_conversion(maker.kind) || maker.reads.empty()) break;
        if (maker.output.defined() && maker.output.is_quantized()) source.rounded = maker.output;
        if (maker.kind == "aten::int_repr") source.rounded = maker.input;
        at = maker.reads.front();
      }
    }
  }
}

}  // namespace

void collect_tensors(const at::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isList()) {
    for (const at::IValue& element : value.toListRef()) collect_tensors(element, tensors);
  } else if (value.isTuple()) {
    for (const at::IValue& element : value.toTupleRef().elements()) collect_tensors(element, tensors);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) collect_tensors(entry.value(), tensors);
  }
}

std::vector<at::Tensor> tensors_of(std::span<const at::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const at::IValue& value : values) collect_tensors(value, tensors);
  return tensors;
}

bool holds_codes(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kByte || tensor.scalar_type() == at::kChar;
}

std::vector<Captured> capture(const torch::jit::Module& module, const Sample& sample,
                              const torch::jit::Module* unfrozen) {
  const c10::InferenceMode no_gradients;
  Sample arguments = copy_of(sample);
  Recording recording(unfrozen != nullptr ? *unfrozen : module, arguments);
  {
    const OperatorWatch watch([&](const at::RecordFunction& function) { recording.begin(function); },
                              [&](const at::RecordFunction& function) { recording.end(function); }, true);
    module.get_method("forward")(std::move(arguments));
  }
  std::vector<Captured> operators = recording.take();
  find_rounded(operators);
  return operators;
}

std::set<std::string> layers_in(const std::vector<Captured>& operators) {
  std::set<std::string> layers;
  for (const Captured& op : operators) {
    if (!op.layer.empty()) layers.insert(op.layer);
  }
  return layers;
}

}  // namespace tsq::detail
