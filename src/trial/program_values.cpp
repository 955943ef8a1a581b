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

#include "base/attribute_name.h"
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

bool is_recurrent(const json& operation) { return operation["kind"] == "lstm" || operation["kind"] == "gru"; }

std::string layer_of(const json& operation) { return operation.value("name", ""); }

/// Operations that stand together: what one row of the comparison tells of.
using Chain = std::vector<std::size_t>;

/// Finds the calls of recurrent layers, which a file has in parts: an operation for each layer in it and each
/// direction, and around them what turns steps and samples, joins directions, and cuts states out.
class RecurrentCalls {
 public:
  explicit RecurrentCalls(const PlainProgram& plain) : plain_(plain) {
    for (std::size_t i = 0; i < count(); ++i) {
      if (is_first(plain_.operation(i))) ends_.emplace(begin_of(i), i);
    }
    for (auto& [begin, end] : ends_) end = end_of(begin);
  }

  /// One after the last operation of the call that begins with one; none where none begins.
  [[nodiscard]] std::optional<std::size_t> end_of_call_at(std::size_t begin) const {
    const auto call = ends_.find(begin);
    return call == ends_.end() ? std::nullopt : std::optional(call->second);
  }

  /// The operations of a call that make what it returns of all steps, in their order. Other results are cut
  /// out of what these write.
  [[nodiscard]] Chain making_steps(std::size_t begin, std::size_t end) const {
    const std::size_t last = last_of_steps(begin, end);
    std::set<int> needed{plain_.operation(last)["output"].get<int>()};
    Chain chain;
    for (std::size_t i = last + 1; i-- > begin;) {
      const json& operation = plain_.operation(i);
      if (!needed.contains(operation["output"].get<int>())) continue;
      for (const int value : read_by(operation)) needed.insert(value);
      chain.push_back(i);
    }
    std::ranges::reverse(chain);
    return chain;
  }

 private:
  [[nodiscard]] std::size_t count() const { return plain_.program["operations"].size(); }

  /// A first layer's forward direction: those after it read states, or go backward.
  static bool is_first(const json& operation) {
    return is_recurrent(operation) && !operation.value("reads_states", false) &&
           !operation.value("backward", false);
  }

  static bool is_part(const json& operation, const std::string& layer) {
    const bool moves = only_moves(operation["kind"]) && operation["kind"] != "convert";
    return layer_of(operation) == layer &&
           (moves || is_recurrent(operation) || operation["kind"] == "concat");
  }

  /// In front of the first layer its input is turned, and the given states are cut.
  [[nodiscard]] std::size_t begin_of(std::size_t first) const {
    const json& layer = plain_.operation(first);
    const std::vector<int> read = read_by(layer);
    const auto is_own = [&](const json& operation) {
      const int written = operation["output"];
      const char* kind = !read.empty() && written == read.front() ? "transpose" : "slice";
      return layer_of(operation) == layer_of(layer) && operation["kind"] == kind &&
             std::ranges::find(read, written) != read.end();
    };
    std::size_t begin = first;
    while (begin > 0 && is_own(plain_.operation(begin - 1))) --begin;
    return begin;
  }

  [[nodiscard]] std::size_t end_of(std::size_t begin) const {
    const std::string layer = layer_of(plain_.operation(begin));
    std::size_t end = begin + 1;
    while (end < count() && !ends_.contains(end) && is_part(plain_.operation(end), layer)) ++end;
    return end;
  }

  /// The operation whose value the layer returns for all steps: the last layer's, or what follows it.
  [[nodiscard]] std::size_t last_of_steps(std::size_t begin, std::size_t end) const {
    std::size_t last = begin;
    for (std::size_t i = begin; i < end; ++i) {
      const std::vector<int> read = read_by(plain_.operation(i));
      const int written = plain_.operation(last)["output"];
      const bool follows = std::ranges::find(read, written) != read.end() && keeps_steps(plain_.operation(i));
      if (is_recurrent(plain_.operation(i)) || follows) last = i;
    }
    return last;
  }

  /// Directions are joined along the last axis, and after an LSTM's steps are its cell states.
  static bool keeps_steps(const json& operation) {
    if (operation["kind"] == "concat") return operation.value("axis", -1) == -1;
    if (operation["kind"] == "slice") return operation.value("end", json()) == json(-1);
    return operation["kind"] == "transpose";
  }

  const PlainProgram& plain_;
  std::map<std::size_t, std::size_t> ends_{};  ///< of the calls, by where they begin
};

/// Which operations stand together: those that follow each other with nobody else reading what is between,
/// and those of a recurrent layer, which is one operator in models.
class Chains {
 public:
  explicit Chains(const PlainProgram& plain) : plain_(plain), recurrent_(plain) {
    for (std::size_t i = 0; i < plain.program["operations"].size(); ++i) {
      for (const int value : read_by(plain.operation(i))) readers_[value].push_back(i);
    }
    for (const int value : plain.program["outputs"]) returned_.insert(value);
  }

  [[nodiscard]] std::vector<Chain> all() const {
    std::vector<Chain> chains;
    std::set<std::size_t> taken;
    for (std::size_t i = 0; i < plain_.program["operations"].size(); ++i) {
      if (taken.contains(i)) continue;
      const std::optional<std::size_t> end = recurrent_.end_of_call_at(i);
      if (!end && only_moves(plain_.operation(i)["kind"])) continue;
      chains.push_back(with_what_follows(end ? recurrent_.making_steps(i, *end) : Chain{i}));
      taken.insert(chains.back().begin(), chains.back().end());
      for (std::size_t part = i; end && part < *end; ++part) taken.insert(part);
    }
    return chains;
  }

 private:
  [[nodiscard]] Chain with_what_follows(Chain chain) const {
    for (auto next = next_of(chain.back()); next; next = next_of(*next)) chain.push_back(*next);
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
        next["kind"] == "activation" && layer_of(next) == layer_of(plain_.operation(index));
    return is_of_layer || next["kind"] == "convert" ? std::optional(readers->second.front()) : std::nullopt;
  }

  const PlainProgram& plain_;
  RecurrentCalls recurrent_;
  std::map<int, std::vector<std::size_t>> readers_{};
  std::set<int> returned_{};
};

/// The operation that a chain is named after: what only moves stands in front of a recurrent layer.
const json& leading_of(const PlainProgram& plain, const Chain& chain) {
  const auto found = std::ranges::find_if(
      chain, [&](std::size_t index) { return !only_moves(plain.operation(index)["kind"]); });
  return plain.operation(found == chain.end() ? chain.front() : *found);
}

/// What a recurrent layer reads, before its steps are turned.
int steps_read_by(const PlainProgram& plain, const Chain& chain) {
  const int read = leading_of(plain, chain)["inputs"].front();
  const auto maker = std::ranges::find_if(
      chain, [&](std::size_t index) { return plain.operation(index)["output"] == read; });
  return maker == chain.end() ? read : plain.operation(*maker)["inputs"].front().get<int>();
}

/// The values that come from outside of a chain, but for constants. The first is the layer's input: given
/// states are cut in front of it.
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
  if (is_recurrent(leading_of(plain, chain))) {
    const auto steps = std::ranges::find(inputs, steps_read_by(plain, chain));
    if (steps != inputs.end()) std::rotate(inputs.begin(), steps, steps + 1);
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
    for (const Chain& chain : chains) all.operations.push_back(captured_of(chain));
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
        source.index = *maker->second.chain;
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

  /// The constants of an operation: what identifies its layer.
  void add_attributes(const json& operation, Captured& op) const {
    const auto add = [&](const json& index) {
      op.attributes.push_back(memory_of(plain_.constants[index.get<std::size_t>()]));
    };
    if (operation.contains("weight")) add(operation["weight"]);
    for (const int value : read_by(operation)) {
      if (plain_.value(value).contains("constant")) add(plain_.value(value)["constant"]);
    }
  }

  void define(int value, const at::Tensor& codes) {
    tensors_[value] = with_meaning(codes, plain_.value(value));
  }

  [[nodiscard]] Captured captured_of(const Chain& chain) const {
    const json& leading = leading_of(plain_, chain);
    const std::string name = layer_of(leading);
    const std::vector<int> inputs = inputs_of(plain_, chain);
    Captured op{.kind = fmt::format("tsq::{}", leading["kind"].get<std::string>()),
                .layer = attribute_name(name),
                .path = name,
                .steps = 0};
    for (const std::size_t index : chain) {
      if (plain_.operation(index)["kind"] != leading["kind"]) continue;
      add_attributes(plain_.operation(index), op);
      ++op.steps;
    }
    op.output = tensors_.at(plain_.operation(chain.back())["output"]);
    for (const int input : inputs) {
      op.inputs.emplace_back(tensors_.at(input));
      op.reads.push_back(source_of(input));
    }
    if (!inputs.empty()) op.input = tensors_.at(inputs.front());
    const auto with_codes = std::ranges::find_if(
        chain, [&](std::size_t index) { return plain_.operation(index).contains("weight_scales"); });
    if (with_codes != chain.end()) add_weight(plain_.operation(*with_codes), op);
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
  std::map<int, Maker> makers_{};  ///< by value
};

}  // namespace

bool calls_program(const Captured& op) { return op.kind == kProgramOperator; }

ProgramOperations operations_within(const Captured& call) { return ProgramRun(call).operations(); }

}  // namespace tsq::detail
