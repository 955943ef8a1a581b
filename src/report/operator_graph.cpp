#include "report/operator_graph.h"

#include <ATen/ATen.h>
#include <tsq/bench/profile.h>

#include <algorithm>

#include "backends/kernels/engine_packing.h"
#include "io/samples.h"
#include "torchscript/kept_state.h"
#include "trial/captured.h"

namespace tsq::report {
namespace {

Numbers numbers_of(const detail::Captured& op) {
  if (bench::is_conversion(op.kind)) return Numbers::Conversion;
  if (op.kind.starts_with("quantized::") || op.kind.starts_with("onednn::q") || op.weight.defined())
    return Numbers::Int8;
  if (!op.output.defined()) return Numbers::Other;
  if (op.output.is_quantized()) return Numbers::Int8;
  return at::isFloatingType(op.output.scalar_type()) ? Numbers::Float : Numbers::Other;
}

RunOperator run_operator(const detail::Captured& op) {
  RunOperator result{
      .kind = op.kind, .layer = op.path, .numbers = numbers_of(op), .program = op.program, .steps = op.steps};
  if (op.output.defined()) result.shape = op.output.sizes().vec();
  for (const detail::Source& source : op.reads) {
    if (source.kind == detail::Source::Kind::Operator &&
        std::ranges::find(result.inputs, source.index) == result.inputs.end())
      result.inputs.push_back(source.index);
  }
  return result;
}

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
  const torchscript::KeptState state(module);
  for (std::size_t run = 0; run < kOptimizing; ++run) {
    module.get_method("forward")(detail::copy_of(sample));
    state.begin();
  }
  std::vector<RunOperator> operators;
  for (const detail::Captured& op : detail::capture(module, sample, unfrozen))
    operators.push_back(run_operator(op));
  return operators;
}

}  // namespace tsq::report
