#include "report/operator_graph.h"

#include <ATen/ATen.h>
#include <tsq/bench/profile.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <unordered_map>

#include "backends/kernels/engine_packing.h"
#include "io/samples.h"
#include "pipeline/operator_watch.h"

namespace tsq::report {
namespace {

/// All tensors in a value, those in lists and tuples as well.
void collect_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) collect_tensors(element, tensors);
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) collect_tensors(element, tensors);
  }
}

std::vector<at::Tensor> tensors_of(std::span<const c10::IValue> values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : values) collect_tensors(value, tensors);
  return tensors;
}

bool computes_in_int8(std::string_view kind, const std::vector<at::Tensor>& outputs) {
  return kind.starts_with("quantized::") || kind.starts_with("onednn::q") || kind == kProgramOperator ||
         std::ranges::any_of(outputs, [](const at::Tensor& output) { return output.is_quantized(); });
}

Numbers numbers_of(std::string_view kind, const std::vector<at::Tensor>& outputs) {
  if (bench::is_conversion(kind)) return Numbers::Conversion;
  if (computes_in_int8(kind, outputs)) return Numbers::Int8;
  const bool is_float = std::ranges::any_of(
      outputs, [](const at::Tensor& output) { return at::isFloatingType(output.scalar_type()); });
  return is_float ? Numbers::Float : Numbers::Other;
}

/// Sees operators, and which of them made the tensors that others read.
class Recording {
 public:
  explicit Recording(const torch::jit::Module& module) : layers_(module) {}

  void begin(const at::RecordFunction& function) {
    RunOperator op{.kind = function.name(), .layer = layers_.of(function)};
    for (const at::Tensor& tensor : tensors_of(detail::arguments_of(function))) {
      const auto maker = makers_.find(tensor.unsafeGetTensorImpl());
      if (maker != makers_.end() && std::ranges::find(op.inputs, maker->second) == op.inputs.end())
        op.inputs.push_back(maker->second);
    }
    operators_.push_back(std::move(op));
  }

  void end(const at::RecordFunction& function) {
    const std::vector<at::Tensor> outputs = tensors_of(detail::results_of(function));
    RunOperator& op = operators_.back();
    op.numbers = numbers_of(op.kind, outputs);
    if (!outputs.empty()) op.shape = outputs.front().sizes().vec();
    for (const at::Tensor& output : outputs) {
      makers_[output.unsafeGetTensorImpl()] = operators_.size() - 1;
      alive_.push_back(output);
    }
  }

  std::vector<RunOperator> take() { return std::move(operators_); }

 private:
  detail::LayerNames layers_;
  std::vector<RunOperator> operators_{};
  std::unordered_map<const void*, std::size_t> makers_{};
  std::vector<at::Tensor> alive_{};  ///< no other tensor gets the place of one that was seen
};

}  // namespace

std::string_view to_string(Numbers numbers) {
  switch (numbers) {
    case Numbers::Int8:
      return "int8";
    case Numbers::Float:
      return "float";
    case Numbers::Conversion:
      return "conversion";
    case Numbers::Other:
      return "other";
  }
  return "";
}

std::vector<RunOperator> operators_of_run(const torch::jit::Module& module, at::QEngine engine,
                                          const Sample& sample, const torch::jit::Module* unfrozen) {
  constexpr std::size_t kOptimizing = 3;  // LibTorch changes a model in its first runs
  const c10::InferenceMode no_gradients;
  const kernels::EnginePacking packing(engine);
  for (std::size_t run = 0; run < kOptimizing; ++run) module.get_method("forward")(detail::copy_of(sample));
  Sample arguments = detail::copy_of(sample);
  Recording recording(unfrozen != nullptr ? *unfrozen : module);
  const detail::OperatorWatch watch([&](const at::RecordFunction& function) { recording.begin(function); },
                                    [&](const at::RecordFunction& function) { recording.end(function); },
                                    true);
  module.get_method("forward")(std::move(arguments));
  return recording.take();
}

}  // namespace tsq::report
