#include "torchscript/modules/quantizable_lstm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backends/kernels/packed.h"
#include "config/observers.h"
#include "observers/observer_module.h"
#include "torchscript/modules/recurrent.h"
#include "torchscript/modules/source_resolver.h"

namespace tsq::torchscript {
namespace {

using torch::jit::Module;

/// What is observed in a cell, by PyTorch's names; the first two are linear layers.
constexpr std::array<const char*, 7> kObserved{
    "igates", "hgates", "gates", "fgate_cx", "igate_cgate", "fgate_cx_igate_cgate", "ogate_cy"};
constexpr std::size_t kLinears = 2;
/// What is rounded in training besides, by scales that are fixed.
constexpr std::array<const char*, 4> kGates{"input_gate", "forget_gate", "cell_gate", "output_gate"};

std::string name_of(const char* part, int64_t cell) { return fmt::format("{}_{}", part, cell); }

/// How many layers and directions there are, as attributes of both modules.
struct Form {
  int64_t layers{};
  int64_t directions{};
  bool batch_first{};

  [[nodiscard]] int64_t cells() const { return layers * directions; }
};

Form form_of(const Module& module) {
  return {.layers = module.attr("num_layers").toInt(),
          .directions = module.attr("num_directions").toInt(),
          .batch_first = module.attr("batch_first").toBool()};
}

void set_form(Module& module, const Form& form, int64_t hidden_size) {
  const auto set = [&](const char* name, const c10::TypePtr& type, const c10::IValue& value) {
    module.register_attribute(name, type, value);
  };
  set("num_layers", c10::IntType::get(), form.layers);
  set("num_directions", c10::IntType::get(), form.directions);
  set("batch_first", c10::BoolType::get(), form.batch_first);
  set("hidden_size", c10::IntType::get(), hidden_size);
}

/// How the operations of a cell are written, as formats: a linear layer of {name} that reads {x}, a function
/// of {a} and {b}, and the gate {name}, a {function} of {x}.
struct CellText {
  std::string_view layer;
  std::string_view function;
  std::string_view gate;
};

constexpr CellText kObservedText{
    "self.{name}_observer.forward(torch.linear({x}, self.{name}_weight, self.{name}_bias))",
    "self.{name}_observer.forward(torch.{function}({a}, {b}))", "torch.{function}({x})"};
constexpr CellText kTrainingText{
    "self.{name}_observer.forward(torch.linear({x}, "
    "self.{name}_weight_fake_quant.forward(self.{name}_weight), "
    "self.{name}_bias))",
    kObservedText.function, "self.{name}_observer.forward(torch.{function}({x}))"};
constexpr CellText kQuantizedText{
    "quantized.linear({x}, self.{name}_packed, self.{name}_scale, self.{name}_zero_point)",
    "quantized.{function}({a}, {b}, self.{name}_scale, self.{name}_zero_point)", kObservedText.gate};

/// LSTMCell.forward.
std::string cell_source(int64_t cell, const CellText& text) {
  const auto layer = [&](const char* part, const char* x) {
    return fmt::format(fmt::runtime(text.layer), fmt::arg("name", name_of(part, cell)), fmt::arg("x", x));
  };
  const auto function = [&](const char* part, const char* name, const char* a, const char* b) {
    return fmt::format(fmt::runtime(text.function), fmt::arg("name", name_of(part, cell)),
                       fmt::arg("function", name), fmt::arg("a", a), fmt::arg("b", b));
  };
  const auto gate = [&](std::size_t part, const char* name) {
    return fmt::format(fmt::runtime(text.gate), fmt::arg("name", name_of(kGates.at(part), cell)),
                       fmt::arg("function", name), fmt::arg("x", fmt::format("chunks[{}]", part)));
  };
  return fmt::format(
      R"(def cell_{0}(self, x: Tensor, hx: Tensor, cx: Tensor) -> Tuple[Tensor, Tensor]:
  igates = {1}
  hgates = {2}
  gates = {3}
  chunks = torch.chunk(gates, 4, 1)
  input_gate = {8}
  forget_gate = {9}
  cell_gate = {10}
  out_gate = {11}
  kept = {4}
  added = {5}
  cy = {6}
  tanh_cy = torch.tanh(cy)
  hy = {7}
  return hy, cy
)",
      cell, layer("igates", "x"), layer("hgates", "hx"), function("gates", "add", "igates", "hgates"),
      function("fgate_cx", "mul", "forget_gate", "cx"),
      function("igate_cgate", "mul", "input_gate", "cell_gate"),
      function("fgate_cx_igate_cgate", "add", "kept", "added"),
      function("ogate_cy", "mul", "out_gate", "tanh_cy"), gate(0, "sigmoid"), gate(1, "sigmoid"),
      gate(2, "tanh"), gate(3, "sigmoid"));
}

/// _LSTMSingleLayer.forward.
std::string direction_source(int64_t cell) {
  return fmt::format(
      R"(def direction_{0}(self, x: Tensor, hx: Tensor, cx: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
  result: List[Tensor] = []
  for i in range(x.size(0)):
    hx, cx = self.cell_{0}(x[i], hx, cx)
    result.append(hx)
  return torch.stack(result, 0), hx, cx
)",
      cell);
}

/// _LSTMLayer.forward of layer `index`.
std::string layer_source(int64_t index, int64_t directions) {
  if (directions == 1) {
    return fmt::format(
        R"(def layer_{0}(self, x: Tensor, hx: Tensor, cx: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
  return self.direction_{0}(x, hx.squeeze(0), cx.squeeze(0))
)",
        index);
  }
  return fmt::format(
      R"(def layer_{0}(self, x: Tensor, hx: Tensor, cx: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
  forth, h_fw, c_fw = self.direction_{1}(x, hx[0], cx[0])
  back, h_bw, c_bw = self.direction_{2}(x.flip(0), hx[1], cx[1])
  result = torch.cat([forth, back.flip(0)], forth.dim() - 1)
  return result, torch.stack([h_fw, h_bw], 0), torch.stack([c_fw, c_bw], 0)
)",
      index, 2 * index, 2 * index + 1);
}

/// LSTM.forward.
std::string forward_source(const Form& form) {
  std::string text =
      R"(def forward(self, x: Tensor, hidden: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
  if self.batch_first:
    x = x.transpose(0, 1)
  if hidden is None:
    zeros = torch.zeros([self.num_layers, self.num_directions, x.size(1), self.hidden_size])
    if x.is_quantized:
      zeros = torch.quantize_per_tensor(zeros, 1.0, 0, x.dtype)
    hx = zeros
    cx = zeros
  else:
    hx = hidden[0].reshape(self.num_layers, self.num_directions, x.size(1), self.hidden_size)
    cx = hidden[1].reshape(self.num_layers, self.num_directions, x.size(1), self.hidden_size)
  hx_list: List[Tensor] = []
  cx_list: List[Tensor] = []
)";
  for (int64_t i = 0; i < form.layers; ++i) {
    text += fmt::format(
        "  x, h, c = self.layer_{0}(x, hx[{0}], cx[{0}])\n  hx_list.append(h)\n  cx_list.append(c)\n", i);
  }
  text += R"(  h_all = torch.stack(hx_list)
  c_all = torch.stack(cx_list)
  h_all = h_all.reshape([-1, h_all.size(-2), h_all.size(-1)])
  c_all = c_all.reshape([-1, c_all.size(-2), c_all.size(-1)])
  if self.batch_first:
    x = x.transpose(0, 1)
  return x, (h_all, c_all)
)";
  return text;
}

void define_methods(Module& module, const Form& form, const CellText& text) {
  for (int64_t cell = 0; cell < form.cells(); ++cell) {
    module.define(cell_source(cell, text), source_resolver());
    module.define(direction_source(cell), source_resolver());
  }
  for (int64_t i = 0; i < form.layers; ++i)
    module.define(layer_source(i, form.directions), source_resolver());
  module.define(forward_source(form), source_resolver());
}

void add_bias(Module& module, const std::string& name, const at::Tensor& bias) {
  if (bias.defined()) {
    module.register_parameter(name, bias, /*is_buffer=*/false);
  } else {
    module.register_attribute(name, c10::OptionalType::ofTensor(), c10::IValue());
  }
}

/// default_fixed_qparams_range_0to1_fake_quant, and _neg1to1_ of a tanh.
ObserverSpec gate_fake_quantize(bool is_tanh) {
  ObserverSpec spec = is_tanh ? observers::fixed_neg_1_to_1() : observers::fixed_0_to_1();
  spec.fake_quantize = "FixedQParamsFakeQuantize";
  return spec;
}

/// prepare_qat of eager mode: linear layers with rounded weights, rounded gates.
void add_training_parts(Module& module, const QConfig& qconfig, int64_t cell) {
  for (std::size_t i = 0; i < kLinears; ++i) {
    const std::string name = name_of(kObserved.at(i), cell);
    module.register_module(name + "_weight_fake_quant",
                           make_observer(qconfig.weight, module.attr(name + "_weight").toTensor().size(0)));
  }
  for (std::size_t i = 0; i < kGates.size(); ++i)
    module.register_module(name_of(kGates.at(i), cell) + "_observer",
                           make_observer(gate_fake_quantize(/*is_tanh=*/i == 2)));
}

/// The grid of a linear layer's weight; in training the fake quantize module looks at it once more, as
/// FX's does.
QParams weight_qparams(const Module& observed, const std::string& name, const QConfig& qconfig,
                       const at::Tensor& weight) {
  if (!observed.hasattr(name + "_weight_fake_quant")) return observe_once(qconfig.weight, weight);
  Module fake_quantize = observed.attr(name + "_weight_fake_quant").toModule();
  fake_quantize.forward({weight});
  return calculate_qparams(fake_quantize);
}

/// The method of a scripted LSTM that takes tensors, not packed sequences.
std::string method_for_tensors(const Module& lstm) {
  return lstm.find_method("forward") ? "forward" : "forward__0";
}

}  // namespace

Module quantizable_lstm(const Module& lstm, const QConfig& qconfig) {
  const ir::ModuleCall call{
      .type = symbol("torch.nn.LSTM"), .module = lstm, .method = method_for_tensors(lstm)};
  const RecurrentWeights all = recurrent_weights(call);
  const std::optional<RecurrentForm> read = recurrent_form(call);
  if (!read || !all.refusal.empty()) {
    throw Error(ErrorCode::BadModel,
                all.refusal.empty() ? "the file does not show how many layers it has" : all.refusal,
                "script the module, or leave nn.LSTM out of the custom config");
  }
  const Form form{
      .layers = read->layers, .directions = read->both_ways ? 2 : 1, .batch_first = read->batch_first};
  Module module("__torch__.torch.ao.nn.quantizable.modules.rnn.LSTM");
  set_form(module, form, all.weights.at(1).size(1));
  const bool trains = lstm.is_training();
  for (int64_t cell = 0; cell < form.cells(); ++cell) {
    for (std::size_t i = 0; i < kLinears; ++i) {
      const std::size_t index = kLinears * static_cast<std::size_t>(cell) + i;
      const std::string name = name_of(kObserved.at(i), cell);
      module.register_parameter(name + "_weight", all.weights.at(index), /*is_buffer=*/false);
      add_bias(module, name + "_bias", all.biases.at(index));
    }
    for (const char* each : kObserved)
      module.register_module(name_of(each, cell) + "_observer", make_observer(qconfig.activation));
    if (trains) add_training_parts(module, qconfig, cell);
  }
  define_methods(module, form, trains ? kTrainingText : kObservedText);
  return module;
}

Module quantized_lstm(const Module& observed, const QConfig& qconfig) {
  constexpr const char* kPrepack = "quantized::linear_prepack";
  const Form form = form_of(observed);
  Module module("__torch__.torch.ao.nn.quantized.modules.rnn.LSTM");
  set_form(module, form, observed.attr("hidden_size").toInt());
  for (int64_t cell = 0; cell < form.cells(); ++cell) {
    for (std::size_t i = 0; i < kLinears; ++i) {
      const std::string name = name_of(kObserved.at(i), cell);
      const at::Tensor weight = observed.attr(name + "_weight").toTensor().detach();
      const c10::IValue bias = observed.attr(name + "_bias");
      module.register_attribute(
          name + "_packed", kernels::packed_type(kPrepack),
          kernels::pack(kPrepack, {.weight = weight,
                                   .bias = bias.isTensor() ? bias.toTensor().detach() : at::Tensor(),
                                   .weight_qparams = weight_qparams(observed, name, qconfig, weight)}));
    }
    for (const char* each : kObserved) {
      const std::string name = name_of(each, cell);
      const QParams qparams = calculate_qparams(observed.attr(name + "_observer").toModule());
      module.register_attribute(name + "_scale", c10::FloatType::get(),
                                static_cast<double>(qparams.scale.item<float>()));
      module.register_attribute(name + "_zero_point", c10::IntType::get(),
                                qparams.zero_point.item<int64_t>());
    }
  }
  define_methods(module, form, kQuantizedText);
  return module;
}

}  // namespace tsq::torchscript
