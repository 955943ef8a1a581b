#include "cli/process/model_facts.h"

#include <ATen/Context.h>
#include <ATen/native/quantized/PackedParams.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/engines.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/libtorch_error.h"
#include "cli/process/model_file.h"

namespace tsq::cli {
namespace {

std::string signature(const torch::jit::Method& method) {
  const c10::FunctionSchema& schema = method.function().getSchema();
  std::vector<std::string> arguments;
  for (const c10::Argument& argument : at::ArrayRef<c10::Argument>(schema.arguments()).slice(1)) {
    arguments.push_back(fmt::format("{} {}", argument.type()->annotation_str(), argument.name()));
  }
  std::vector<std::string> results;
  for (const c10::Argument& result : schema.returns()) results.push_back(result.type()->annotation_str());
  return fmt::format("{}({}) -> {}", method.name(), fmt::join(arguments, ", "), fmt::join(results, ", "));
}

void add(Amount& amount, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  ++amount.count;
  amount.numbers += static_cast<uint64_t>(tensor.numel());
  amount.bytes += tensor.nbytes();
}

template <typename Packed>
void add_unpacked(Amount& amount, const at::IValue& value) {
  const auto [weight, bias] = value.toCustomClass<Packed>()->unpack();
  add(amount, weight);
  if (bias) add(amount, *bias);
}

void add_packed(Amount& amount, const at::IValue& value);

/// The packed weights inside of a saved state.
void add_packed_of_state(Amount& amount, const at::IValue& state) {
  if (state.isObject()) return add_packed(amount, state);
  if (state.isTensor()) return add(amount, state.toTensor());
  if (state.isTuple()) {
    for (const at::IValue& element : state.toTupleRef().elements()) add_packed_of_state(amount, element);
  } else if (state.isList()) {
    for (const at::IValue& element : state.toListRef()) add_packed_of_state(amount, element);
  }
}

at::IValue call_method(const at::IValue& object, const char* name) {
  return object.type()->expectRef<c10::ClassType>().getMethod(name)({object});
}

void add_program(ProgramFacts& facts, const at::IValue& program) {
  ++facts.count;
  const nlohmann::json operations = nlohmann::json::parse(call_method(program, "operations").toStringRef());
  for (const nlohmann::json& operation : operations.at("operations"))
    ++facts.operations[operation.at("kind").get<std::string>()];
  facts.float_operations += static_cast<std::size_t>(call_method(program, "float_operations").toInt());
  const at::IValue state = call_method(program, "__getstate__");
  for (const at::IValue& constant : state.toTupleRef().elements().at(1).toListRef())
    add(facts.constants, constant.toTensor());
}

/// The class that LibTorch packs weights into, by the end of its name.
void add_packed(Amount& amount, const at::IValue& value) {
  const std::string type = value.type()->annotation_str();
  if (type.ends_with("LinearPackedParamsBase")) return add_unpacked<LinearPackedParamsBase>(amount, value);
  if (type.ends_with("Conv2dPackedParamsBase")) return add_unpacked<ConvPackedParamsBase<2>>(amount, value);
  if (type.ends_with("Conv3dPackedParamsBase")) return add_unpacked<ConvPackedParamsBase<3>>(amount, value);
  if (type.ends_with("rnn.CellParamsBase") || type.ends_with("EmbeddingPackedParamsBase"))
    add_packed_of_state(amount, call_method(value, "__getstate__"));
}

void count_operators(const torch::jit::Block& block, std::map<std::string, std::size_t>& counts) {
  for (const torch::jit::Node* node : block.nodes()) {
    const std::string name = node->kind().toQualString();
    if (!name.starts_with("prim::")) ++counts[name];
    if (name == "prim::If" || name == "prim::Loop") ++counts[name];
    for (const torch::jit::Block* inner : node->blocks()) count_operators(*inner, counts);
  }
}

bool reads_weight(const torch::jit::Node& node) {
  const auto kind = node.inputs().front()->node()->kind();
  return kind == c10::prim::GetAttr || kind == c10::prim::Constant;
}

/// Whether any activation that the graph makes by quantize_per_tensor has dtype qint8: qnnpack alone computes
/// on these.
bool has_signed_activations(const torch::jit::Block& block) {
  for (const torch::jit::Node* node : block.nodes()) {
    if (node->kind().toQualString() == std::string("aten::quantize_per_tensor") && !reads_weight(*node)) {
      const auto dtype = torch::jit::toIValue(node->inputs().back());
      if (dtype && dtype->isInt() && dtype->toInt() == static_cast<int64_t>(at::kQInt8)) return true;
    }
    for (const torch::jit::Block* inner : node->blocks()) {
      if (has_signed_activations(*inner)) return true;
    }
  }
  return false;
}

/// The first operator whose kernel only some engines have, and they do not include `engine`.
std::string operator_refusal(const ModelFacts& facts, at::QEngine engine, bool signed_activations) {
  for (const auto& [name, count] : facts.operators) {
    const auto engines = engines_of(name);
    if (engines.empty() || std::ranges::find(engines, engine_name(engine)) != engines.end()) continue;
    return fmt::format("'{}' runs on {} only", name, fmt::join(engines, " and "));
  }
  if (signed_activations && engine != at::QEngine::QNNPACK)
    return "activations of dtype qint8 run on qnnpack only";
  return {};
}

/// Loading packs the weights, and that is where an engine refuses what it has no kernel for.
std::string packing_refusal(const std::string& path, at::QEngine engine) {
  try {
    const EngineHold hold(engine);
    torch::jit::load(path, at::kCPU);
    return {};
  } catch (const std::exception& e) {
    return reason_of(e);
  }
}

bool depends_on_engine(const ModelFacts& facts) {
  for (const auto& [name, count] : facts.operators) {
    if (name.starts_with("quantized::") || name.starts_with("aten::quantized_")) return true;
  }
  return facts.packed_weights.count > 0;
}

std::vector<EngineFit> engine_fits(const ModelFacts& facts, const std::string& path,
                                   bool signed_activations) {
  std::vector<EngineFit> fits;
  if (!depends_on_engine(facts)) return fits;
  for (const at::QEngine engine : at::globalContext().supportedQEngines()) {
    if (engine == at::QEngine::NoQEngine) continue;
    EngineFit fit{.engine = engine_name(engine),
                  .refusal = operator_refusal(facts, engine, signed_activations)};
    if (fit.refusal.empty() && facts.packed_weights.count > 0) fit.refusal = packing_refusal(path, engine);
    for (const auto& [name, count] : facts.operators) {
      if (fit.doubt.empty()) fit.doubt = wrong_results_of(fit.engine, name);
    }
    fits.push_back(std::move(fit));
  }
  return fits;
}

void count_attributes(const torch::jit::Module& module, ModelFacts& facts) {
  std::set<const c10::TensorImpl*> counted;
  for (const at::Tensor& parameter : module.parameters()) {
    if (counted.insert(parameter.unsafeGetTensorImpl()).second) add(facts.parameters, parameter);
  }
  for (const at::Tensor& buffer : module.buffers()) {
    if (counted.insert(buffer.unsafeGetTensorImpl()).second) add(facts.buffers, buffer);
  }
  for (const auto& attribute : module.named_attributes()) {
    const bool is_other =
        attribute.value.isTensor() && counted.insert(attribute.value.toTensor().unsafeGetTensorImpl()).second;
    if (is_other) add(facts.other_tensors, attribute.value.toTensor());
    if (!attribute.value.isObject() || attribute.value.isModule()) continue;
    if (attribute.value.type()->annotation_str().ends_with(kProgramClass)) {
      add_program(facts.programs, attribute.value);
    } else {
      add_packed(facts.packed_weights, attribute.value);
    }
  }
}

}  // namespace

ModelFacts model_facts(const torch::jit::Module& module, const std::string& path) {
  ModelFacts facts;
  for (const torch::jit::Method& method : module.get_methods()) facts.methods.push_back(signature(method));
  count_attributes(module, facts);
  bool signed_activations = false;
  if (const auto forward = module.find_method("forward")) {
    const std::shared_ptr<torch::jit::Graph> graph = forward->graph()->copy();
    torch::jit::Inline(*graph);
    count_operators(*graph->block(), facts.operators);
    signed_activations = has_signed_activations(*graph->block());
  }
  facts.engines = engine_fits(facts, path, signed_activations);
  return facts;
}

}  // namespace tsq::cli
