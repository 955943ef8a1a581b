#include "trial/program_values.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <tsq/runtime_library.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "pipeline/operator_watch.h"

namespace tsq::detail {
namespace {

using nlohmann::json;

at::IValue call_method(const at::IValue& object, const char* name, std::vector<at::IValue> arguments = {}) {
  arguments.insert(arguments.begin(), object);
  return object.type()->expectRef<c10::ClassType>().getMethod(name)(std::move(arguments));
}

/// A program as its file has it.
struct PlainProgram {
  json program{};
  std::vector<at::Tensor> constants{};

  explicit PlainProgram(const at::IValue& object) {
    const at::IValue state = call_method(object, "__getstate__");
    program = json::parse(state.toTupleRef().elements()[0].toStringRef());
    constants = state.toTupleRef().elements()[1].toTensorVector();
  }

  [[nodiscard]] const json& operation(std::size_t index) const { return program["operations"][index]; }
  [[nodiscard]] const json& value(int number) const {
    return program["values"][static_cast<std::size_t>(number)];
  }
};

std::vector<at::Tensor> outputs_of(const json& program, const std::vector<at::Tensor>& constants,
                                   const std::vector<at::Tensor>& tensors, const at::IValue& integers) {
  const auto make = c10::Dispatcher::singleton().findSchemaOrThrow("tsq::make_program", "");
  torch::jit::Stack stack{program.dump(), constants};
  make.callBoxed(&stack);
  return call_method(stack.front(), "forward", {tensors, integers}).toTensorVector();
}

/// Codes as the numbers that they stand for; truths, which programs read as bytes, are none.
at::Tensor with_meaning(const at::Tensor& tensor, const json& value) {
  if (!holds_codes(tensor) || (value["dtype"] != "u8" && value["dtype"] != "s8")) return tensor;
  return at::_make_per_tensor_quantized_tensor(tensor.contiguous(), value.value("scale", 1.0),
                                               value.value("zero_point", int64_t{0}));
}

at::Tensor codes_of(const at::Tensor& tensor) { return tensor.is_quantized() ? tensor.int_repr() : tensor; }

bool only_moves(const std::string& kind) {
  constexpr std::array<std::string_view, 9> kKinds{"convert", "reshape", "permute", "transpose", "unsqueeze",
                                                   "squeeze", "flatten", "expand",  "slice"};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

/// The values that an operation reads, in their order.
std::vector<int> read_by(const json& operation) {
  std::vector<int> values = operation["inputs"];
  for (const json& post_op : operation.value("post_ops", json::array())) {
    if (post_op.contains("value")) values.push_back(post_op["value"]);
  }
  return values;
}

/// Operations that follow each other with nobody else reading what is between.
using Chain = std::vector<std::size_t>;

class Chains {
 public:
  explicit Chains(const PlainProgram& plain) : plain_(plain) {
    for (std::size_t i = 0; i < plain.program["operations"].size(); ++i) {
      for (const int value : read_by(plain.operation(i))) readers_[value].push_back(i);
    }
    for (const int value : plain.program["outputs"]) returned_.insert(value);
  }

  [[nodiscard]] std::vector<Chain> all() const {
    std::vector<Chain> chains;
    std::set<std::size_t> taken;
    for (std::size_t i = 0; i < plain_.program["operations"].size(); ++i) {
      if (taken.contains(i) || only_moves(plain_.operation(i)["kind"])) continue;
      chains.push_back(from(i));
      taken.insert(chains.back().begin(), chains.back().end());
    }
    return chains;
  }

 private:
  [[nodiscard]] Chain from(std::size_t first) const {
    Chain chain{first};
    for (auto next = next_of(first); next; next = next_of(*next)) chain.push_back(*next);
    return chain;
  }

  /// The rounding, or the activation of the same layer, that alone reads what an operation writes.
  [[nodiscard]] std::optional<std::size_t> next_of(std::size_t index) const {
    const int written = plain_.operation(index)["output"];
    const auto readers = readers_.find(written);
    if (readers == readers_.end() || readers->second.size() != 1 || returned_.contains(written) ||
        plain_.value(written)["dtype"] != "f32")
      return std::nullopt;
    const json& next = plain_.operation(readers->second.front());
    const bool is_of_layer =
        next["kind"] == "activation" && next.value("name", "") == plain_.operation(index).value("name", "");
    return is_of_layer || next["kind"] == "convert" ? std::optional(readers->second.front()) : std::nullopt;
  }

  const PlainProgram& plain_;
  std::map<int, std::vector<std::size_t>> readers_{};
  std::set<int> returned_{};
};

/// The values that come from outside of a chain, but for constants.
std::vector<int> inputs_of(const PlainProgram& plain, const Chain& chain) {
  std::set<int> written;
  std::vector<int> inputs;
  for (const std::size_t index : chain) {
    for (const int value : read_by(plain.operation(index))) {
      if (!plain.value(value).contains("constant") && !written.contains(value) &&
          std::ranges::find(inputs, value) == inputs.end())
        inputs.push_back(value);
    }
    written.insert(plain.operation(index)["output"].get<int>());
  }
  return inputs;
}

/// What is inside of one call.
class ProgramRun {
 public:
  explicit ProgramRun(const Captured& call) : plain_(call.inputs[0]) {
    const std::vector<at::Tensor> tensors = call.inputs[1].toTensorVector();
    for (std::size_t i = 0; i < tensors.size(); ++i) define(plain_.program["inputs"][i], tensors[i]);
    json all = plain_.program;
    std::set<int> outputs;
    for (const json& operation : plain_.program["operations"]) outputs.insert(operation["output"].get<int>());
    all["outputs"] = outputs;
    const std::vector<at::Tensor> values = outputs_of(all, plain_.constants, tensors, call.inputs[2]);
    std::size_t place = 0;
    for (const int output : outputs) define(output, values[place++]);
  }

  [[nodiscard]] ProgramOperations operations() {
    ProgramOperations all;
    const std::vector<Chain> chains = Chains(plain_).all();
    find_makers(chains);
    const std::vector<std::vector<std::size_t>> sequences = sequences_of(chains);
    std::size_t place = 0;
    for (const auto& ends : sequences) {
      places_.push_back(place++);
      for (const std::size_t end : ends) sequences_.emplace(end, place++);
    }
    for (std::size_t i = 0; i < chains.size(); ++i) {
      all.operations.push_back(captured_of(chains[i]));
      for (const std::size_t end : sequences[i])
        all.operations.push_back(sequence_of(all.operations[places_[i]], places_[i], end));
    }
    for (const int output : plain_.program["outputs"]) all.results.push_back(source_of(output));
    return all;
  }

 private:
  /// What writes a value: a chain, or an operation that is left out.
  struct Maker {
    std::optional<std::size_t> chain{};
    std::size_t operation{0};
  };

  void find_makers(const std::vector<Chain>& chains) {
    for (std::size_t i = 0; i < plain_.program["operations"].size(); ++i)
      makers_[plain_.operation(i)["output"]] = {.operation = i};
    for (std::size_t i = 0; i < chains.size(); ++i) {
      for (const std::size_t operation : chains[i]) makers_[plain_.operation(operation)["output"]].chain = i;
    }
  }

  /// Through the operations that are left out.
  [[nodiscard]] Source source_of(int value) const {
    Source source;
    const bool is_float = plain_.value(value)["dtype"] == "f32";
    for (auto maker = makers_.find(value); maker != makers_.end(); maker = makers_.find(value)) {
      if (maker->second.chain) {
        source.kind = Source::Kind::Operator;
        source.index = places_[*maker->second.chain];
        return source;
      }
      if (const auto end = sequences_.find(maker->second.operation); end != sequences_.end()) {
        source.kind = Source::Kind::Operator;
        source.index = end->second;
        return source;
      }
      const json& operation = plain_.operation(maker->second.operation);
      if (is_float && operation["kind"] == "convert" && plain_.value(value)["dtype"] != "f32")
        source.rounded = tensors_.at(value);
      value = operation["inputs"].front();
    }
    const std::vector<int> inputs = plain_.program["inputs"];
    const auto input = std::ranges::find(inputs, value);
    if (input == inputs.end()) return source;
    source.kind = Source::Kind::Argument;
    source.index = static_cast<std::size_t>(input - inputs.begin());
    return source;
  }

  /// For each chain the operations that take the output of a recurrent layer, as models have it, out of what
  /// its operation writes: all steps and the last states in one value.
  [[nodiscard]] std::vector<std::vector<std::size_t>> sequences_of(const std::vector<Chain>& chains) const {
    std::vector<std::vector<std::size_t>> ends(chains.size());
    for (std::size_t i = 0; i < plain_.program["operations"].size(); ++i) {
      const json& moving = plain_.operation(i);
      const std::optional<std::size_t> chain = chain_of(moving["output"]);
      if (!only_moves(moving["kind"]) || !chain || is_moved_on(i)) continue;
      const json& maker = plain_.operation(chains[*chain].front());
      if (maker["kind"] == "lstm" || maker["kind"] == "gru") ends[*chain].push_back(i);
    }
    return ends;
  }

  [[nodiscard]] Captured sequence_of(const Captured& layer, std::size_t place, std::size_t end) const {
    Captured op{.kind = layer.kind, .layer = layer.layer, .path = layer.path, .inputs = {layer.output}};
    op.reads = {{.kind = Source::Kind::Operator, .index = place}};
    op.input = layer.output;
    op.output = tensors_.at(plain_.operation(end)["output"]);
    return op;
  }

  /// The chain that makes a value, through the operations that are left out.
  [[nodiscard]] std::optional<std::size_t> chain_of(int value) const {
    for (auto maker = makers_.find(value); maker != makers_.end(); maker = makers_.find(value)) {
      if (maker->second.chain) return maker->second.chain;
      value = plain_.operation(maker->second.operation)["inputs"].front();
    }
    return std::nullopt;
  }

  /// Whether all that read what an operation writes only move it, or none reads it.
  [[nodiscard]] bool is_moved_on(std::size_t index) const {
    const int written = plain_.operation(index)["output"];
    const std::vector<int> outputs = plain_.program["outputs"];
    if (std::ranges::find(outputs, written) != outputs.end()) return false;
    for (const json& operation : plain_.program["operations"]) {
      const std::vector<int> read = read_by(operation);
      if (std::ranges::find(read, written) != read.end() && !only_moves(operation["kind"])) return false;
    }
    return true;
  }

  /// The constants of an operation: what identifies its layer.
  [[nodiscard]] std::vector<const void*> attributes_of(const json& operation) const {
    std::vector<const void*> found;
    const auto add = [&](const json& index) {
      found.push_back(memory_of(plain_.constants[index.get<std::size_t>()]));
    };
    if (operation.contains("weight")) add(operation["weight"]);
    for (const int value : read_by(operation)) {
      if (plain_.value(value).contains("constant")) add(plain_.value(value)["constant"]);
    }
    return found;
  }

  void define(int value, const at::Tensor& codes) {
    tensors_[value] = with_meaning(codes, plain_.value(value));
  }

  [[nodiscard]] Captured captured_of(const Chain& chain) const {
    const json& first = plain_.operation(chain.front());
    const std::string name = first.value("name", "");
    const std::vector<int> inputs = inputs_of(plain_, chain);
    Captured op{.kind = fmt::format("tsq::{}", first["kind"].get<std::string>()),
                .layer = with_underscores(name),
                .path = name,
                .attributes = attributes_of(first)};
    op.output = tensors_.at(plain_.operation(chain.back())["output"]);
    for (const int input : inputs) {
      op.inputs.emplace_back(tensors_.at(input));
      op.reads.push_back(source_of(input));
    }
    if (!inputs.empty()) op.input = tensors_.at(inputs.front());
    if (first.contains("weight_scales")) add_weight(first, op);
    op.compute = computing(chain, inputs);
    return op;
  }

  void add_weight(const json& operation, Captured& op) const {
    const at::Tensor& codes = plain_.constants[operation["weight"].get<std::size_t>()];
    const at::Tensor& scales = plain_.constants[operation["weight_scales"].get<std::size_t>()];
    std::vector<int64_t> sizes(static_cast<std::size_t>(codes.dim()), 1);
    const bool is_transposed = operation["kind"] == "transposed_convolution";
    sizes[is_transposed ? 1 : 0] = -1;
    op.weight = codes.to(at::kDouble) * scales.reshape(sizes);
    op.inputs.emplace_back(codes);
    op.reads.emplace_back();
  }

  /// A program of the chain alone, for other inputs. Sizes that calls compute are those of values outside of
  /// it.
  [[nodiscard]] std::function<at::Tensor(const std::vector<at::Tensor>&)> computing(
      const Chain& chain, const std::vector<int>& inputs) const {
    json program = plain_.program;
    program["operations"] = json::array();
    for (const std::size_t index : chain) program["operations"].push_back(plain_.operation(index));
    if (inputs.empty() || program["operations"].dump().find("\"integer\"") != std::string::npos) return {};
    const int output = plain_.operation(chain.back())["output"];
    program["inputs"] = inputs;
    program["outputs"] = {output};
    program["integers"] = json::array();
    program["given_integers"] = 0;
    std::vector<at::Tensor> given;
    for (const int input : inputs) given.push_back(codes_of(tensors_.at(input)));
    const json& value = plain_.value(output);
    return [program = std::move(program), constants = plain_.constants, given,
            value](const std::vector<at::Tensor>& others) {
      std::vector<at::Tensor> tensors = given;
      for (std::size_t i = 0; i < std::min(tensors.size(), others.size()); ++i)
        tensors[i] = codes_of(others[i]);
      return with_meaning(outputs_of(program, constants, tensors, c10::List<int64_t>()).front(), value);
    };
  }

  PlainProgram plain_;
  std::map<int, at::Tensor> tensors_{};
  std::map<int, Maker> makers_{};                   ///< by value
  std::vector<std::size_t> places_{};               ///< of each chain, among all operations
  std::map<std::size_t, std::size_t> sequences_{};  ///< their places, by the operation that ends them
};

}  // namespace

bool calls_program(const Captured& op) { return op.kind == kProgramOperator; }

ProgramOperations operations_within(const Captured& call) { return ProgramRun(call).operations(); }

}  // namespace tsq::detail
