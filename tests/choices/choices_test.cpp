// Each row of each table of kernels is listed for an operator that it names, and lowering makes of that
// operator what is listed without a refusal, and nothing that is refused.

#include "backends/choices/choices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/backends.h>
#include <tsq/quantize.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/kernels/dynamic_kernels.h"
#include "base/known_engines.h"
#include "ir/analysis.h"
#include "operators/weighted.h"
#include "passes/between_roundings.h"
#include "passes/lower/passes.h"
#include "support/before_pass.h"
#include "support/calibrated_model.h"
#include "support/recurrent_cells.h"
#include "support/small_models.h"

namespace tsq {
namespace choices_test {

using c10::ScalarType;
using kernels::Choice;
using kernels::PostOp;
using testing::between_roundings;
using testing::count;

/// The same numbers in each run.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }
  bool seldom() { return random_() % 4 == 0; }

 private:
  std::mt19937 random_;
};

/// Calls a module in the place of the operator that returns y.
void put_layer(ir::Model& model, ir::ModuleCall call) {
  testing::put_call(model, "y", std::move(call))->output()->setDebugName("y");
}

std::vector<Choice> choices_of(const ir::Model& model, const std::string& engine, const std::string& value) {
  const kernels::Target target{.engine = engine};
  return kernels::Catalogue(target, model).choices(testing::node_named(model, value));
}

/// The choice of a kernel; null where it is not listed.
const Choice* find(const std::vector<Choice>& choices, std::string_view kernel, bool with_next = false) {
  const auto found = std::ranges::find_if(choices, [&](const Choice& choice) {
    const bool is_float =
        choice.placement == ir::Placement::Float || choice.placement == ir::Placement::Reference;
    return !is_float && choice.kernel == kernel && (choice.with != nullptr) == with_next;
  });
  return found == choices.end() ? nullptr : &*found;
}

using Pass = bool (*)(ir::Model& model, const passes::PassContext& context);

/// Lists a kernel for the operator that returns `value`, and expects that lowering makes it where nothing
/// refuses it, and only there. Returns whether it is refused.
bool expect_as_listed(const ir::Model& model, const std::string& engine, const std::string& value,
                      std::string_view kernel, Pass pass, bool with_next = false) {
  const auto all = choices_of(model, engine, value);
  const Choice* choice = find(all, kernel, with_next);
  EXPECT_NE(choice, nullptr) << kernel << " on " << engine;
  if (choice == nullptr) return false;
  ir::Model lowered = model.copy();
  pass(lowered, {.target = {.engine = engine}});
  const std::string bare(kernel.substr(0, kernel.find('.')));
  EXPECT_EQ(count(lowered, bare), choice->refusal ? 0U : 1U)
      << kernel << " on " << engine << ": " << (choice->refusal ? choice->refusal->why : "not refused");
  return choice->refusal.has_value();
}

// Layers.

constexpr std::array<std::string_view, 8> kFusedClasses{
    "torch.ao.nn.intrinsic.LinearReLU", "torch.ao.nn.intrinsic.LinearLeakyReLU",
    "torch.ao.nn.intrinsic.LinearTanh", "torch.ao.nn.intrinsic.ConvReLU1d",
    "torch.ao.nn.intrinsic.ConvReLU2d", "torch.ao.nn.intrinsic.ConvReLU3d",
    "torch.ao.nn.intrinsic.ConvAdd2d",  "torch.ao.nn.intrinsic.ConvAddReLU2d"};

/// "torch.nn.Conv2d" → "2d", "torch.nn.Linear" → "near".
std::string_view dims_of(std::string_view type) { return type.substr(type.size() - 2); }

/// The fused class that does what a row does.
std::string_view class_of(std::string_view op, PostOp post_op) {
  if (post_op == PostOp::None) return op;
  const auto* const found = std::ranges::find_if(kFusedClasses, [&](std::string_view type) {
    const bool is_linear = op.ends_with("Linear");
    return kernels::post_op_of(type) == post_op && is_linear == (type.find("Linear") != type.npos) &&
           (is_linear || dims_of(type) == dims_of(op));
  });
  return found == kFusedClasses.end() ? std::string_view() : *found;
}

/// A layer with few channels, of forms that engines refuse among others.
ir::Weighted drawn_layer(std::string_view op, ScalarType dtype, Draw& draw) {
  ir::Weighted layer;
  const bool is_linear = op.ends_with("Linear");
  const bool transposed = operators::is_transposed(symbol(op));
  const auto dims = static_cast<std::size_t>(is_linear ? 0 : op[op.size() - 2] - '0');
  layer.groups = is_linear ? 1 : draw.one_of<std::int64_t>({1, 1, 2});
  const auto channels = [&] { return draw.one_of<std::int64_t>({4, 8}); };
  std::vector<std::int64_t> sizes{channels(), channels() / layer.groups};
  sizes.insert(sizes.end(), dims, draw.one_of<std::int64_t>({1, 2, 3}));
  layer.weight = torch::randn(sizes) / 4;
  layer.bias = torch::randn({transposed ? sizes[1] * layer.groups : sizes[0]});
  layer.stride = layer.dilation = std::vector<std::int64_t>(dims, 1);
  layer.padding = layer.output_padding = std::vector<std::int64_t>(dims, 0);
  if (transposed && draw.seldom()) {
    layer.stride.assign(dims, 2);
    layer.output_padding.assign(dims, 1);
  }
  const std::int64_t axis = draw.seldom() ? 1 : 0;
  const bool each_channel = draw.one_of<int>({0, 1}) != 0;
  const at::Tensor scale =
      each_channel ? torch::full({sizes[static_cast<std::size_t>(axis)]}, 0.02) : torch::tensor(0.02);
  layer.weight_qparams =
      QParams{.scale = scale,
              .zero_point = torch::full_like(scale, draw.seldom() ? 3 : 0, at::kLong),
              .dtype = dtype,
              .qscheme = each_channel ? c10::QScheme::PER_CHANNEL_AFFINE : c10::QScheme::PER_TENSOR_AFFINE,
              .axis = each_channel ? axis : 0};
  return layer;
}

ir::ModuleCall layer_call(std::string_view op, PostOp post_op, ScalarType weights, Draw& draw) {
  static const std::map<PostOp, std::string_view> kActivations{{PostOp::ReLU, "torch.nn.ReLU"},
                                                               {PostOp::LeakyReLU, "torch.nn.LeakyReLU"},
                                                               {PostOp::Tanh, "torch.nn.Tanh"},
                                                               {PostOp::Add, "operator.add"},
                                                               {PostOp::AddReLU, "operator.add"}};
  ir::ModuleCall root{.type = symbol(op), .path = "layer", .weighted = drawn_layer(op, weights, draw)};
  if (post_op == PostOp::None) return root;
  return {.type = symbol(class_of(op, post_op)),
          .path = "layer",
          .members = {root, {.type = symbol(kActivations.at(post_op)), .path = "activation"}}};
}

TEST(Choices, StaticKernelsOfLayersAreWhatLoweringMakes) {
  Draw draw(1);
  torch::manual_seed(1);
  int refused = 0;
  int made = 0;
  for (const kernels::WeightedKernel& row : kernels::weighted_kernels()) {
    const bool adds = row.post_op == PostOp::Add || row.post_op == PostOp::AddReLU;
    for (int i = 0; i < 8; ++i) {
      const auto dtype = draw.one_of<ScalarType>({ScalarType::QUInt8, ScalarType::QUInt8, ScalarType::QInt8});
      const auto weights = i == 7 ? ScalarType::QUInt8 : ScalarType::QInt8;
      ir::Model model =
          between_roundings(adds ? "%y : Tensor = aten::maximum(%d, %d)" : "%y : Tensor = aten::neg(%d)",
                            testing::kQuantized, dtype);
      put_layer(model, layer_call(row.op, row.post_op, weights, draw));
      for (const std::string_view engine : known_engines())
        ++(expect_as_listed(model, std::string(engine), "y", row.kernel, passes::lower_static) ? refused
                                                                                               : made);
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(made, 50);
}

TEST(Choices, LayersThatReturnFloatAreWhatLoweringMakes) {
  Draw draw(2);
  torch::manual_seed(2);
  for (const kernels::FloatOutputKernel& row : kernels::float_output_kernels()) {
    for (int i = 0; i < 6; ++i) {
      ir::Model model = testing::model_of_graph(
          "%x : Tensor", fmt::format("  %dtype : int = prim::Constant[value={}]()\n{}"
                                     "  %d : Tensor = aten::dequantize(%v)\n  %y : Tensor = aten::neg(%d)\n"
                                     "  %z : Tensor = aten::gelu(%y, %none)\n  return (%z)\n",
                                     i == 0 ? 12 : 13, testing::kQuantized));
      testing::quantized_record(model, "y");
      put_layer(model, layer_call(row.op, row.post_op, ScalarType::QInt8, draw));
      expect_as_listed(model, std::string(row.engine), "y", row.kernel, passes::lower_float_outputs);
    }
  }
}

TEST(Choices, DynamicKernelsAreWhatLoweringMakes) {
  Draw draw(3);
  torch::manual_seed(3);
  for (const kernels::DynamicKernel& row : kernels::dynamic_kernels()) {
    for (int i = 0; i < 6; ++i) {
      ir::Model model = testing::model_of_graph(
          "%x : Tensor",
          "  %q : Tensor = aten::quantize_per_tensor_dynamic(%x, %quint8, %no)\n"
          "  %d : Tensor = aten::dequantize(%q)\n  %y : Tensor = aten::neg(%d)\n  return (%y)\n");
      testing::quantized_record(model, "y", qconfig("default_dynamic_qconfig"));
      put_layer(model, layer_call(row.op, row.post_op, row.weight_dtype, draw));
      for (const std::string_view engine : known_engines())
        expect_as_listed(model, std::string(engine), "y", row.kernel, passes::lower_dynamic);
    }
  }
}

// Times.

TEST(Choices, KernelsOfACalibratedLayerHaveTimes) {
  torch::jit::Module network = testing::user_module("Network");
  network.register_module("layer", testing::conv2d(8, 16, 3));
  network.define("def forward(self, x):\n  return self.layer.forward(x)\n");
  network.eval();
  Prepared prepared = prepare(network, best_qconfig_mapping("x86"), backend_config("x86"));
  calibrate(prepared, std::vector<Sample>{{torch::randn({1, 8, 12, 12})}});
  const testing::CalibratedModel calibrated = testing::calibrated_model(prepared);
  const ir::Node* layer = testing::call_node(calibrated.model, "layer");
  const kernels::Target target{.engine = "x86", .cpu = TargetCpu::Vnni};
  EXPECT_FALSE(kernels::engine_choices(target, calibrated.model, layer).front().nanoseconds);
  const std::vector<Choice> choices = kernels::Catalogue(target, calibrated.model).timed_choices(layer);
  EXPECT_GT(choices.front().nanoseconds.value_or(0), 0) << "in float";
  const Choice* int8 = find(choices, "quantized::conv2d.new");
  ASSERT_NE(int8, nullptr);
  EXPECT_GT(int8->nanoseconds.value_or(0), 0) << "in int8";
}

// Operators.

TEST(Choices, KernelsOfTwoTensorsAreWhatLoweringMakes) {
  Draw draw(4);
  for (const kernels::BinaryKernel& row : kernels::binary_kernels()) {
    const std::string function(row.op.substr(row.op.rfind('.') + 1));
    for (int i = 0; i < 12; ++i) {
      const bool has_relu = !row.relu_kernel.empty() && draw.one_of<int>({0, 1}) != 0;
      const std::string alpha = function == "add" ? (draw.seldom() ? ", %two" : ", %one") : "";
      const std::string other = fmt::format(
          "  %other : int = prim::Constant[value={}]()\n  %far : float = prim::Constant[value={}]()\n"
          "  %w : Tensor = aten::quantize_per_tensor(%x, %far, %zero, %other)\n"
          "  %e : Tensor = aten::dequantize(%w)\n",
          draw.one_of<int>({13, 13, 12}), draw.one_of<std::string>({"0.05", "1e-7", "900."}));
      const std::string sum =
          fmt::format(" : Tensor = aten::{}(%d, {}{})", function, draw.seldom() ? "%d" : "%e", alpha);
      ir::Model model =
          between_roundings(has_relu ? "%s" + sum + "\n  %y : Tensor = aten::relu(%s)" : "%y" + sum,
                            testing::kQuantized + other);
      for (const std::string_view engine : known_engines()) {
        expect_as_listed(model, std::string(engine), has_relu ? "s" : "y",
                         has_relu ? row.relu_kernel : row.kernel, passes::lower_static, has_relu);
      }
    }
  }
}

/// The arguments that functions of one tensor have after it.
std::string arguments_of(const std::string& function) {
  static const std::map<std::string, std::string> kArguments{
      {"adaptive_avg_pool1d", ", %list"},
      {"adaptive_avg_pool2d", ", %list"},
      {"adaptive_avg_pool3d", ", %list"},
      {"avg_pool1d", ", %list, %list, %list, %no, %yes"},
      {"avg_pool2d", ", %list, %list, %list, %no, %yes, %none"},
      {"avg_pool3d", ", %list, %list, %list, %no, %yes, %none"},
      {"channel_shuffle", ", %two"},
      {"clamp", ", %zero, %one"},
      {"contiguous", ", %zero"},
      {"dropout", ", %scale, %no"},
      {"elu", ", %one, %one, %one"},
      {"flatten", ", %one, %two"},
      {"floordiv", ", %two"},
      {"group_norm", ", %none, %none, %scale, %no"},
      {"hardtanh", ", %zero, %one"},
      {"hardtanh_", ", %zero, %one"},
      {"instance_norm", ", %none, %none, %none, %none, %yes, %scale, %scale, %no"},
      {"layer_norm", ", %list, %none, %none, %scale, %no"},
      {"leaky_relu", ", %scale"},
      {"max_pool1d", ", %list, %list, %list, %list, %no"},
      {"max_pool2d", ", %list, %list, %list, %list, %no"},
      {"max_pool3d", ", %list, %list, %list, %list, %no"},
      {"mean", ", %none"},
      {"narrow", ", %zero, %zero, %one"},
      {"permute", ", %list"},
      {"pixel_shuffle", ", %two"},
      {"pixel_unshuffle", ", %two"},
      {"repeat", ", %list"},
      {"repeat_interleave", ", %two, %none, %none"},
      {"reshape", ", %list"},
      {"resize_", ", %list, %none"},
      {"transpose", ", %zero, %one"},
      {"unsqueeze", ", %zero"},
      {"unsqueeze_", ", %zero"},
      {"view", ", %list"}};
  const auto found = kArguments.find(function);
  return found == kArguments.end() ? std::string() : found->second;
}

/// The call of a function or module of one tensor, which is written as `name`.
ir::Model call_of(const std::string& name, const std::string& quantized) {
  const std::string last = name.substr(name.rfind('.') + 1);
  std::string op = fmt::format("%y : Tensor = aten::{}(%d{})", last, arguments_of(last));
  if (std::isupper(static_cast<unsigned char>(last.front())) != 0) op = "%y : Tensor = aten::neg(%d)";
  if (last == "cat" || last == "stack")
    op = fmt::format("%all : Tensor[] = prim::ListConstruct(%d, %d)\n  %y : Tensor = aten::{}(%all, %zero)",
                     last);
  if (last == "interpolate") op = "%y : Tensor = aten::upsample_nearest2d(%d, %list, %none, %none)";
  ir::Model model = between_roundings("%list : int[] = prim::ListConstruct(%two, %two)\n  " + op, quantized);
  if (last != "interpolate") testing::write_as(model, name);
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_module_call(node)) node->output()->setDebugName("y");
  }
  return model;
}

/// The parameters of modules whose kernels read some.
std::optional<torch::jit::Module> module_of(const std::string& name) {
  const auto leaf = [&](const std::string& result) {
    torch::jit::Module module("__torch__.torch.nn.modules.any." + name,
                              std::make_shared<torch::jit::CompilationUnit>(), /*shouldMangle=*/true);
    module.define("def forward(self, x):\n  return " + result + "\n");
    return module;
  };
  if (name.starts_with("BatchNorm") || name.starts_with("BNReLU")) return testing::batch_norm2d(4);
  if (name.starts_with("InstanceNorm"))
    return leaf("torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)");
  if (name == "PReLU") return testing::prelu(4);
  if (name == "ELU") return leaf("torch.elu(x, 1.0)");
  if (name == "LeakyReLU") return leaf("torch.leaky_relu(x, 0.1)");
  if (name == "LayerNorm") return leaf("torch.layer_norm(x, [4], None, None, 1e-5)");
  if (name == "Softmax") return leaf("torch.softmax(x, 1)");
  return std::nullopt;
}

const std::string kNumber =
    "  %m : Tensor = aten::mean(%x, %none)\n"
    "  %v : Tensor = aten::quantize_per_tensor(%m, %scale, %zero, %dtype)\n";

/// An operator that runs itself, by another of its names: a graph has one for all of them.
const Choice* find_same_operator(const std::vector<Choice>& choices) {
  const auto found = std::ranges::find_if(choices, [&](const Choice& choice) {
    return choice.placement == ir::Placement::Int8 &&
           std::ranges::count(kernels::same_operators(), choice.kernel) > 0;
  });
  return found == choices.end() ? nullptr : &*found;
}

/// Expects that the operator y has a kernel after lowering where it is not refused.
void expect_operator_as_listed(const ir::Model& model, const std::string& engine, const std::string& kernel) {
  const auto all = choices_of(model, engine, "y");
  const Choice* choice = find(all, kernel);
  if (choice == nullptr) choice = find_same_operator(all);
  ASSERT_NE(choice, nullptr) << kernel;
  ir::Model lowered = model.copy();
  passes::lower_static(lowered, {.target = {.engine = engine}});
  const Decision& decision = lowered.records.front().decision;
  EXPECT_EQ(decision.quantized && !decision.kernel.empty(), !choice->refusal) << kernel << " on " << engine;
}

TEST(Choices, OperatorsThatRunThemselvesAreWhatLoweringLeaves) {
  for (const std::string_view name : kernels::same_operators()) {
    // A method that Tensor has not: no operator of a graph has this name.
    if (name == "hardsigmoid_") continue;
    for (const std::string& quantized : {std::string(testing::kQuantized), kNumber}) {
      const ir::Model model = call_of(std::string(name), quantized);
      for (const std::string_view engine : known_engines())
        expect_operator_as_listed(model, std::string(engine), std::string(name));
    }
  }
}

TEST(Choices, AConcatenationIsListedWithTheKernelThatRequantizes) {
  const ir::Model model = call_of("torch.cat", testing::kQuantized);
  EXPECT_FALSE(
      expect_as_listed(model, "x86", "y", kernels::kConcatenation, passes::requantize_concatenations));
}

TEST(Choices, KernelsOfOneTensorAreWhatLoweringMakes) {
  for (const kernels::UnaryKernel& row : kernels::unary_kernels()) {
    const std::string name(row.op.substr(row.op.rfind('.') + 1));
    for (const bool has_parameters : {true, false}) {
      ir::Model model = call_of(std::string(row.op), testing::kQuantized);
      for (ir::ModuleCall& call : model.calls) {
        if (has_parameters) call.module = module_of(name);
        if (name.starts_with("BNReLU")) {
          const ir::ModuleCall root{
              .type = symbol("torch.nn.BatchNorm2d"), .path = "n", .module = call.module};
          call.members = {root, {.type = symbol("torch.nn.ReLU"), .path = "r"}};
        }
      }
      model.records.front().lookup.qconfig = default_qconfig("qnnpack");  // one scale for all slopes
      const std::string kernel(row.how == kernels::Unary::Kernel ? row.kernel : row.op);
      for (const std::string_view engine : known_engines())
        expect_operator_as_listed(model, std::string(engine), kernel);
    }
  }
}

// Modules with weights of other kinds.

TEST(Choices, RecurrentKernelsAreWhatLoweringMakes) {
  using torch::jit::Module;
  const std::string cell = "(x, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)\n";
  const std::string layer =
      ", [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh], True, 1, 0.0, False, False, False)\n";
  const std::map<std::string_view, Module> modules{
      {"aten::lstm", testing::recurrent_cell("LSTM", 4,
                                             "def forward(self, x, hx):\n  y, h, c = torch.lstm(x, [hx, hx]" +
                                                 layer + "  return y\n")},
      {"aten::gru",
       testing::recurrent_cell(
           "GRU", 3, "def forward(self, x, hx):\n  y, h = torch.gru(x, hx" + layer + "  return y\n")},
      {"aten::lstm_cell",
       testing::recurrent_cell(
           "LSTMCell", 4,
           "def forward(self, x, hx):\n  h, c = torch.lstm_cell(x, [hx, hx], self.weight_ih, "
           "self.weight_hh, self.bias_ih, self.bias_hh)\n  return h\n")},
      {"aten::gru_cell", testing::gru_cell()},
      {"aten::rnn_tanh_cell",
       testing::recurrent_cell("RNNCell", 1,
                               "def forward(self, x, hx):\n  return torch.rnn_tanh_cell" + cell)},
      {"aten::rnn_relu_cell",
       testing::recurrent_cell("RNNCell", 1,
                               "def forward(self, x, hx):\n  return torch.rnn_relu_cell" + cell)}};
  for (const kernels::RecurrentKernel& row : kernels::recurrent_kernels()) {
    for (const ScalarType dtype : {ScalarType::QInt8, ScalarType::Half}) {
      for (const std::int64_t zero_point : {0, 3}) {
        ir::Model model =
            testing::model_of_graph("%x : Tensor", "  %y : Tensor = aten::maximum(%x, %x)\n  return (%y)\n");
        testing::quantized_record(model, "y", qconfig("default_dynamic_qconfig"));
        const Module& module = modules.at(row.op);
        const std::string type = row.is_cell              ? module.type()->name()->name()
                                 : row.op == "aten::lstm" ? "LSTM"
                                                          : "GRU";
        const QParams qparams{
            .scale = torch::tensor(0.01), .zero_point = torch::tensor(zero_point), .dtype = dtype};
        put_layer(model, {.type = symbol("torch.nn." + type),
                          .path = "layer",
                          .module = module,
                          .recurrent_qparams = {qparams, qparams}});
        for (const std::string_view engine : known_engines()) {
          const auto all = choices_of(model, std::string(engine), "y");
          const Choice* choice = find(all, row.kernel);
          ASSERT_NE(choice, nullptr) << row.kernel;
          ir::Model lowered = model.copy();
          passes::lower_recurrent(lowered, {.target = {.engine = std::string(engine)}});
          EXPECT_EQ(lowered.records.front().decision.kernel == row.kernel, !choice->refusal)
              << row.kernel << " on " << engine << " " << static_cast<int>(dtype) << " " << zero_point;
        }
      }
    }
  }
}

TEST(Choices, TablesAndSmallWeightsAreWhatLoweringMakes) {
  torch::manual_seed(5);
  for (const std::int64_t zero_point : {0, 3}) {
    ir::Model model =
        testing::model_of_graph("%x : Tensor", "  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
    testing::quantized_record(model, "y", weight_only_qconfig());
    ir::Weighted layer = testing::rounded_linear(32, 16);
    layer.weight_qparams->zero_point.fill_(zero_point);
    put_layer(model, testing::linear_call(layer));
    const auto all = choices_of(model, "x86", "y");
    const Choice* choice = find(all, "aten::_weight_int8pack_mm");
    ASSERT_NE(choice, nullptr);
    EXPECT_EQ(choice->refusal.has_value(), zero_point != 0);
    passes::lower_weight_only_linear(model, {});
    EXPECT_EQ(model.records.front().decision.kernel == choice->kernel, !choice->refusal);
  }
  for (const bool is_finite : {true, false}) {
    ir::Model model =
        testing::model_of_graph("%x : Tensor", "  %y : Tensor = aten::neg(%x)\n  return (%y)\n");
    testing::quantized_record(model, "y", embedding_weight_only_qconfig(8));
    const at::Tensor rows = is_finite ? torch::randn({20, 16}) : torch::full({20, 16}, INFINITY);
    ir::EmbeddingTable table{.weight = rows};
    if (is_finite) table.weight_qparams = observe_once(embedding_weight_only_qconfig(8).weight, rows);
    put_layer(model, {.type = symbol("torch.nn.Embedding"), .path = "words", .embedding = table});
    const auto all = choices_of(model, "x86", "y");
    EXPECT_EQ(std::ranges::any_of(all, [](const Choice& choice) { return choice.refusal.has_value(); }),
              !is_finite);
    passes::lower_embeddings(model, {});
    EXPECT_EQ(model.records.front().decision.kernel.empty(), !is_finite);
  }
}

// Both forms of a graph.

/// Each kernel of each operator, with what refuses it.
std::vector<std::string> all_of(const testing::CalibratedModel& calibrated) {
  kernels::Catalogue catalogue(calibrated.context.target, calibrated.model);
  std::vector<std::string> all;
  for (const ir::Node* node : ir::nodes_in_order(*calibrated.model.graph)) {
    if (ir::is_observer(node)) continue;
    for (const Choice& choice : catalogue.choices(node)) {
      if (choice.placement == ir::Placement::Float || choice.placement == ir::Placement::Reference) continue;
      all.push_back(choice.kernel + (choice.refusal ? ": " + choice.refusal->why : ""));
    }
  }
  return all;
}

TEST(Choices, TheCalibratedGraphTellsWhatTheReferenceDoes) {
  torch::manual_seed(6);
  torch::jit::Module model = testing::user_module("Network");
  model.register_module("conv", testing::conv2d(3, 8, 3));
  model.register_module("norm", testing::batch_norm2d(8));
  model.register_module("up", testing::conv_transpose2d(8, 6, 2));
  model.register_module("prelu", testing::prelu(6));
  model.register_module("pool", testing::max_pool2d());
  model.register_module("linear", testing::linear(6, 6));
  model.define(
      "def forward(self, x):\n"
      "  x = torch.relu(self.norm.forward(self.conv.forward(torch.tanh(x))))\n"
      "  x = self.pool.forward(self.prelu.forward(self.up.forward(x + x)))\n"
      "  y = self.linear.forward(torch.flatten(x.mean([2, 3]), 1))\n"
      "  return torch.sigmoid(y) * y, torch.clamp(x.mean(), 0.0)\n");
  for (const std::string_view engine : known_engines()) {
    testing::CalibratedModel calibrated =
        testing::before_pass(model, torch::randn({2, 3, 8, 8}), std::string(engine), "place_by_table");
    const auto before = all_of(calibrated);
    testing::make_reference(calibrated);
    EXPECT_EQ(before, all_of(calibrated)) << engine;
    EXPECT_GT(before.size(), 8U) << engine;
  }
}

// Beside the engines' tables.

TEST(Choices, AnOperatorMayStayFloatOrBetweenRoundings) {
  const auto all = choices_of(between_roundings("%y : Tensor = aten::cumsum(%d, %zero, %none)"), "x86", "y");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].placement, ir::Placement::Float);
  EXPECT_EQ(all[1].placement, ir::Placement::Reference);
}

TEST(Choices, ProgramsComputeWhatTheyHaveARowFor) {
  const kernels::Target fused{.runtime = LoweringTarget::Fused};
  for (const auto& [op, has_row] :
       std::vector<std::pair<std::string, bool>>{{"aten::relu(%d)", true},
                                                 {"aten::cumsum(%d, %zero, %none)", false},
                                                 {"aten::add(%d, %d, %two)", false}}) {
    const ir::Model model = between_roundings("%y : Tensor = " + op);
    const auto all = kernels::Catalogue(fused, model).choices(testing::node_named(model, "y"));
    EXPECT_EQ(find(all, "tsq::run") != nullptr, has_row) << op;
  }
}

TEST(Choices, RegisteredRowsAreListed) {
  const kernels::Target target{.engine = "x86"};
  const ir::Model model = between_roundings("%y : Tensor = aten::relu(%d)");
  const std::vector<LoweringRow> rows{{.backend = "own", .op = symbol("torch.relu"), .kernel = "my::relu"}};
  const auto all = kernels::Catalogue(target, model, rows).choices(testing::node_named(model, "y"));
  ASSERT_NE(find(all, "my::relu"), nullptr);
  EXPECT_EQ(find(all, "my::relu")->reads, kernels::Form::Bytes);
}

}  // namespace choices_test
}  // namespace tsq
