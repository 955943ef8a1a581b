// Operators whose input is quantized when the model runs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include <sstream>

#include "backends/kernels/engine.h"
#include "operators/inlined_graph.h"
#include "support/best_model.h"
#include "support/lowered.h"
#include "support/machine_profiles.h"
#include "support/small_models.h"

namespace tsq {
namespace dynamic_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::jit::Module;
using torch::jit::testing::FileCheck;

/// The code of forward with that of the modules that it calls.
std::string graph_of(const Module& module) { return operators::inlined_graph(module, "forward")->toString(); }

QConfigMapping mapping_of(const char* qconfig) { return QConfigMapping().set_global(tsq::qconfig(qconfig)); }

/// Without calibration: dynamic quantization needs none.
Module lowered(const Module& model, const QConfigMapping& mapping, const char* engine = "x86",
               Report* report = nullptr) {
  const BackendConfig backend = backend_config(engine);
  const Prepared prepared = prepare(model, mapping, backend, {.recipe = Recipe::Fx});
  Report ignored;
  return testing::lowered(convert_to_reference(prepared, backend), backend,
                          report == nullptr ? &ignored : report);
}

const Decision& decision_of(const Report& report, const std::string& op) {
  const auto found = std::find_if(report.decisions.begin(), report.decisions.end(),
                                  [&](const Decision& decision) { return decision.op == op; });
  if (found == report.decisions.end()) throw std::out_of_range(fmt::format("no entry for {}", op));
  return *found;
}

Module linears() {
  torch::manual_seed(3);
  Module model = testing::user_module("Linears");
  model.register_module("first", testing::linear(6, 8));
  model.register_module("relu", testing::relu());
  model.register_module("second", testing::linear(8, 4));
  model.define(
      "def forward(self, x):\n  return self.second.forward(self.relu.forward(self.first.forward(x)))\n");
  return model;
}

/// A recurrent operator with the model's own parameters; `rows` and `width` of each weight.
Module recurrent(const std::string& call, const std::vector<std::vector<int64_t>>& shapes) {
  torch::manual_seed(4);
  Module model = testing::user_module("Recurrent");
  for (std::size_t i = 0; i < shapes.size(); ++i)
    model.register_parameter(fmt::format("p{}", i), torch::randn(shapes[i]) * 0.3, false);
  model.define(fmt::format("def forward(self, x, h):\n{}", call));
  return model;
}

constexpr const char* kLstm =
    "  return torch.lstm(x, [h, h], [self.p0, self.p1, self.p2, self.p3], True, 1, 0.0, False, False, "
    "False)[0]\n";

Module lstm() { return recurrent(kLstm, {{20, 6}, {20, 5}, {20}, {20}}); }

Module gru() {
  return recurrent(
      "  return torch.gru(x, h, [self.p0, self.p1, self.p2, self.p3], True, 1, 0.0, False, False, "
      "False)[0]\n",
      {{15, 6}, {15, 5}, {15}, {15}});
}

Module gru_cell() {
  return recurrent("  return torch.gru_cell(x, h, self.p0, self.p1, self.p2, self.p3)\n",
                   {{15, 6}, {15, 5}, {15}, {15}});
}

at::Tensor run(Module module, const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_grad;
  std::vector<c10::IValue> arguments(inputs.begin(), inputs.end());
  return module.forward(arguments).toTensor();
}

Module reloaded(const Module& module) {
  std::stringstream file;
  module.save(file);
  return torch::jit::load(file);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

/// Two layers over values of many sizes, as a spectrum's powers are.
Module stacked_lstm(int64_t layers) {
  std::vector<std::vector<int64_t>> shapes{{20, 6}, {20, 5}, {20}, {20}};
  std::string names = "self.p0, self.p1, self.p2, self.p3";
  if (layers == 2) {
    shapes.insert(shapes.end(), {{20, 5}, {20, 5}, {20}, {20}});
    names += ", self.p4, self.p5, self.p6, self.p7";
  }
  return recurrent(
      fmt::format("  return torch.lstm(x, [h, h], [{}], True, {}, 0.0, False, False, False)[0]\n", names,
                  layers),
      shapes);
}

TEST(Dynamic, RecipeBestReadsTheInputOfStackedLayersWithoutRounding) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(21);
  const at::Tensor x = (torch::randn({9, 2, 6}) * 3).exp() * 0.01;
  const auto quantized = [](const Module& model, Recipe recipe) {
    const QConfigMapping mapping =
        recipe == Recipe::Best ? best_dynamic_qconfig_mapping() : dynamic_qconfig_mapping();
    const Prepared prepared = prepare(model, mapping, backend_config("x86"), {.recipe = recipe});
    return convert(prepared, backend_config("x86"));
  };
  const at::Tensor states = torch::zeros({2, 2, 5});
  Module stacked = stacked_lstm(2);
  Module result = quantized(stacked, Recipe::Best);
  FileCheck().check("aten::lstm")->check("aten::quantized_lstm")->run(graph_of(result));
  const at::Tensor wanted = stacked.forward({x, states}).toTensor();
  const at::Tensor error = result.forward({x, states}).toTensor() - wanted;
  EXPECT_LT(error.norm().item<double>(), 0.03 * wanted.norm().item<double>());
  FileCheck().check_not("aten::lstm")->run(graph_of(quantized(stacked_lstm(1), Recipe::Best)));
  FileCheck().check_not("aten::lstm")->run(graph_of(quantized(stacked, Recipe::Fx)));
}

TEST(Dynamic, RecipeBestQuantizesRecurrentLayersInStaticModeToo) {
  const at::NoGradGuard no_grad;
  struct Case {
    Module model;
    std::string_view kernel;
  };
  const std::vector<Case> cases{{lstm(), "aten::quantized_lstm"},
                                {gru(), "aten::quantized_gru"},
                                {gru_cell(), "quantized::quantized_gru_cell_dynamic"}};
  for (const auto& [model, kernel] : cases) {
    const bool is_cell = kernel.starts_with("quantized::");
    const at::Tensor x = is_cell ? torch::randn({4, 6}) : torch::randn({7, 4, 6});
    const at::Tensor h = is_cell ? torch::zeros({4, 5}) : torch::zeros({1, 4, 5});
    for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
      const BackendConfig backend = backend_config(engine);
      Prepared prepared =
          prepare(model, best_qconfig_mapping(engine), backend, {.machine = testing::slow_in_float()});
      calibrate(prepared, std::vector<Sample>{{x, h}});
      EXPECT_EQ(quantized_layers(prepared).size(), 1) << "can be left float again";
      const Module result = convert(prepared, backend);
      FileCheck().check(std::string(kernel))->run(graph_of(result));
      const EngineHold hold(engine_of(backend));  // packs what the file holds
      EXPECT_GT(testing::sqnr(run(model, {x, h}), run(reloaded(result), {x, h})), 25) << engine << kernel;
    }
  }
}

TEST(Dynamic, LinearLayersReadFloatAndTakeTheirReLU) {  // L-09
  const Module result = lowered(linears(), dynamic_qconfig_mapping());
  FileCheck()
      .check("quantized::linear_relu_dynamic")
      ->check("quantized::linear_dynamic")
      ->check_not("aten::quantize_per_tensor")
      ->run(graph_of(result));
  const at::Tensor x = torch::randn({3, 6});
  EXPECT_LT(largest_difference(run(result, {x}), run(linears(), {x})), 0.2);
  EXPECT_EQ(largest_difference(run(result, {x}), run(reloaded(result), {x})), 0);
}

TEST(Dynamic, ALayerWithoutAQConfigStaysFloat) {
  QConfigMapping mapping = dynamic_qconfig_mapping();
  mapping.set_module_name("second", std::nullopt);
  FileCheck()
      .check("quantized::linear_relu_dynamic")
      ->check("aten::linear")
      ->run(graph_of(lowered(linears(), mapping)));
}

TEST(Dynamic, FunctionalLinearsHaveTheSameKernels) {  // L-11
  Module model = testing::user_module("Functional");
  model.register_parameter("weight", torch::randn({4, 6}), false);
  model.define("def forward(self, x):\n  return torch.relu(torch.linear(x, self.weight))\n");
  FileCheck()
      .check("quantized::linear_relu_dynamic")
      ->check_not("aten::relu")
      ->run(graph_of(lowered(model, dynamic_qconfig_mapping())));
}

TEST(Dynamic, AReLUThatIsNotTheOnlyReaderStaysOutside) {
  Module model = testing::user_module("TwoReaders");
  model.register_parameter("weight", torch::randn({4, 6}), false);
  model.define("def forward(self, x):\n  y = torch.linear(x, self.weight)\n  return torch.relu(y) + y\n");
  FileCheck()
      .check("quantized::linear_dynamic")
      ->check("aten::relu")
      ->run(graph_of(lowered(model, dynamic_qconfig_mapping())));
}

TEST(Dynamic, Float16IsARowOfItsOwn) {
  const Module result = lowered(linears(), mapping_of("float16_dynamic_qconfig"));
  FileCheck()
      .check("quantized::linear_relu_dynamic_fp16")
      ->check("quantized::linear_dynamic_fp16")
      ->run(graph_of(result));
  const at::Tensor x = torch::randn({3, 6});
  EXPECT_LT(largest_difference(run(result, {x}), run(linears(), {x})), 0.02);
}

TEST(Dynamic, WithoutKernelsOfFloat16TheLayerStaysFloatAndSaysWhy) {
  Report report;
  const Module result = lowered(linears(), mapping_of("float16_dynamic_qconfig"), "qnnpack", &report);
  FileCheck()
      .check("aten::linear")
      ->check_not("dynamic")
      ->check_not("aten::dequantize")
      ->run(graph_of(result));
  const Decision& decision = decision_of(report, "torch.nn.Linear");
  EXPECT_FALSE(decision.quantized);
  EXPECT_THAT(decision.reason, HasSubstr("float16"));
  EXPECT_THAT(decision.remedy, HasSubstr("another engine"));
  const at::Tensor x = torch::randn({3, 6});
  EXPECT_EQ(largest_difference(run(result, {x}), run(linears(), {x})), 0);
}

TEST(Dynamic, ThePlanSaysWhichLayersNoKernelTakes) {
  const auto placements = [](const Module& model, const QConfig& qconfig, const char* engine) {
    const BackendConfig backend = backend_config(engine);
    const QConfigMapping mapping = QConfigMapping().set_global(qconfig);
    const Plan plan = convert_to_reference(prepare(model, mapping, backend), backend).plan();
    std::vector<Placement> found;
    for (const PlannedOperator& each : plan.operators) {
      if (each.op == "torch.nn.Linear" || each.op == "torch.nn.LSTM") found.push_back(each.placement);
    }
    return found;
  };
  const QConfig float16 = qconfig("float16_dynamic_qconfig");
  EXPECT_THAT(placements(linears(), float16, "x86"), Each(Placement::Int8));
  EXPECT_THAT(placements(linears(), float16, "qnnpack"), Each(Placement::Reference));
  QConfig with_zero_points = qconfig("default_dynamic_qconfig");
  with_zero_points.weight.qscheme = c10::QScheme::PER_TENSOR_AFFINE;
  EXPECT_THAT(placements(lstm(), with_zero_points, "x86"), ElementsAre(Placement::Int8));
  EXPECT_THAT(placements(lstm(), with_zero_points, "onednn"), ElementsAre(Placement::Reference));
}

TEST(Dynamic, ARecurrentOperatorBecomesALayerWithPackedCells) {
  for (const char* engine : {"x86", "fbgemm", "qnnpack", "onednn"}) {
    Report report;
    const Module result = lowered(lstm(), dynamic_qconfig_mapping(), engine, &report);
    FileCheck().check("aten::quantized_lstm")->check_not("aten::lstm")->run(graph_of(result));
    EXPECT_EQ(decision_of(report, "torch.nn.LSTM").kernel, "aten::quantized_lstm");
  }
}

TEST(Dynamic, RecurrentLayersSurviveAFile) {
  const std::vector<at::Tensor> inputs{torch::randn({7, 2, 6}), torch::zeros({1, 2, 5})};
  for (const char* qconfig :
       {"default_dynamic_qconfig", "per_channel_dynamic_qconfig", "float16_dynamic_qconfig"}) {
    const Module result = lowered(lstm(), mapping_of(qconfig));
    EXPECT_LT(largest_difference(run(result, inputs), run(lstm(), inputs)), 0.05) << qconfig;
    EXPECT_EQ(largest_difference(run(result, inputs), run(reloaded(result), inputs)), 0) << qconfig;
  }
}

TEST(Dynamic, ALayerWithoutBiasIsOneWithZeros) {
  const char* call =
      "  return torch.lstm(x, [h, h], [self.p0, self.p1], False, 1, 0.0, False, False, False)[0]\n";
  const std::vector<at::Tensor> inputs{torch::randn({7, 2, 6}), torch::zeros({1, 2, 5})};
  const Module model = recurrent(call, {{20, 6}, {20, 5}});
  const Module result = lowered(model, dynamic_qconfig_mapping());
  FileCheck().check("aten::quantized_lstm")->run(graph_of(result));
  EXPECT_LT(largest_difference(run(result, inputs), run(model, inputs)), 0.05);
}

TEST(Dynamic, CellsHaveKernelsOfTheirOwn) {
  const std::vector<at::Tensor> inputs{torch::randn({3, 6}), torch::randn({3, 5})};
  const auto expect_kernel = [&](const std::string& call, int64_t rows, const std::string& kernel) {
    const Module model = recurrent(call, {{rows, 6}, {rows, 5}, {rows}, {rows}});
    const Module result = lowered(model, dynamic_qconfig_mapping());
    FileCheck().check(kernel)->run(graph_of(result));
    EXPECT_LT(largest_difference(run(result, inputs), run(model, inputs)), 0.1) << kernel;
  };
  expect_kernel("  return torch.lstm_cell(x, [h, h], self.p0, self.p1, self.p2, self.p3)[0]\n", 20,
                "quantized::quantized_lstm_cell_dynamic");
  expect_kernel("  return torch.gru_cell(x, h, self.p0, self.p1, self.p2, self.p3)\n", 15,
                "quantized::quantized_gru_cell_dynamic");
  expect_kernel("  return torch.rnn_tanh_cell(x, h, self.p0, self.p1, self.p2, self.p3)\n", 5,
                "quantized::quantized_rnn_tanh_cell_dynamic");
  expect_kernel("  return torch.rnn_relu_cell(x, h, self.p0, self.p1, self.p2, self.p3)\n", 5,
                "quantized::quantized_rnn_relu_cell_dynamic");
}

/// As tracing writes a cell.
constexpr const char* kOpenLstmCell = R"(
    g = torch.add(torch.linear(h, self.p1, self.p3), torch.linear(x, self.p0, self.p2))
    i, f, c, o = torch.unsafe_chunk(g, 4, 1)
    state = torch.add(torch.mul(torch.sigmoid(f), h), torch.mul(torch.sigmoid(i), torch.tanh(c)))
    return torch.mul(torch.sigmoid(o), torch.tanh(state))
)";
constexpr const char* kOpenGruCell = R"(
    ri, zi, ni = torch.unsafe_chunk(torch.linear(x, self.p0, self.p2), 3, 1)
    rh, zh, nh = torch.unsafe_chunk(torch.linear(h, self.p1, self.p3), 3, 1)
    r = torch.sigmoid(torch.add(rh, ri))
    z = torch.sigmoid(torch.add(zh, zi))
    n = torch.tanh(torch.add(ni, torch.mul(nh, r)))
    return torch.add(torch.mul(torch.sub(h, n), z), n)
)";
constexpr const char* kOpenRnnCell = R"(
    return torch.tanh(torch.add(torch.linear(h, self.p1, self.p3), torch.linear(x, self.p0, self.p2)))
)";

TEST(Dynamic, CellsThatTracingOpenedAreCellsAgain) {
  const std::vector<at::Tensor> inputs{torch::randn({3, 6}), torch::randn({3, 5})};
  for (const auto& [source, rows, kernel] :
       {std::tuple(kOpenLstmCell, int64_t{20}, "quantized::quantized_lstm_cell_dynamic"),
        std::tuple(kOpenGruCell, int64_t{15}, "quantized::quantized_gru_cell_dynamic")}) {
    const Module model = recurrent(source, {{rows, 6}, {rows, 5}, {rows}, {rows}});
    const Module result = lowered(model, dynamic_qconfig_mapping());
    FileCheck().check(kernel)->check_not("unsafe_chunk")->check_not("linear")->run(graph_of(result));
    EXPECT_LT(largest_difference(run(result, inputs), run(model, inputs)), 0.1) << kernel;
    EXPECT_EQ(largest_difference(run(lowered(model, QConfigMapping()), inputs), run(model, inputs)), 0)
        << kernel;
  }
}

TEST(Dynamic, ASumOfTwoLinearLayersIsNoCell) {
  const Module model = recurrent(kOpenRnnCell, {{5, 6}, {5, 5}, {5}, {5}});
  FileCheck()
      .check_count("quantized::linear_dynamic", 2)
      ->check_not("cell")
      ->run(graph_of(lowered(model, dynamic_qconfig_mapping())));
}

TEST(Dynamic, AnLstmWithProjectionsStaysFloatAndSaysWhy) {
  const char* call =
      "  return torch.lstm(x, [h, torch.zeros([1, 2, 5])], [self.p0, self.p1, self.p2, self.p3, self.p4], "
      "True, "
      "1, 0.0, False, False, False)[0]\n";
  const Module model = recurrent(call, {{20, 6}, {20, 3}, {20}, {20}, {3, 5}});
  Report report;
  const Module result = lowered(model, dynamic_qconfig_mapping(), "x86", &report);
  FileCheck().check("aten::lstm")->check_not("dequantize")->run(graph_of(result));
  const Decision& decision = decision_of(report, "torch.nn.LSTM");
  EXPECT_FALSE(decision.quantized);
  EXPECT_THAT(decision.reason, HasSubstr("projections"));
  const std::vector<at::Tensor> inputs{torch::randn({7, 2, 6}), torch::zeros({1, 2, 3})};
  EXPECT_EQ(largest_difference(run(result, inputs), run(model, inputs)), 0);
}

TEST(Dynamic, TheReferenceHasRoundedWeightsAndFloatOperators) {  // K-10
  const BackendConfig backend = backend_config("x86");
  const Reference reference = convert_to_reference(
      prepare(lstm(), dynamic_qconfig_mapping(), backend, {.recipe = Recipe::Fx}), backend);
  FileCheck()
      .check("aten::quantize_per_tensor_dynamic")
      ->check("aten::dequantize")
      ->check("aten::lstm")
      ->run(graph_of(reference.module()));
  const std::vector<at::Tensor> inputs{torch::randn({7, 2, 6}), torch::zeros({1, 2, 5})};
  const double difference = largest_difference(run(reference.module(), inputs), run(lstm(), inputs));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.05);
}

/// A product with the parameters `weight` (6 in, 4 out) and `bias`, as traced transformers have them.
Module product(const std::string& expression, std::vector<int64_t> shape = {6, 4}) {
  torch::manual_seed(8);
  Module model = testing::user_module("Product");
  model.register_parameter("weight", torch::randn(shape), false);
  model.register_parameter("bias", torch::randn({4}), false);
  model.define(fmt::format("def forward(self, x):\n  return {}\n", expression));
  return model;
}

TEST(Products, ProductsWithConstantsAreLinearLayers) {
  const std::vector<Module> models{
      product("torch.addmm(self.bias, x, self.weight)"),
      product("torch.addmm(self.bias, x, self.weight.t())", {4, 6}),
      product("torch.matmul(x, self.weight) + self.bias"),
      product("self.bias + torch.matmul(x, self.weight.transpose(0, 1))", {4, 6}),
      product("torch.matmul(x, self.weight.transpose(-1, -2))", {4, 6})};
  const at::Tensor x = torch::randn({3, 6});
  for (const Module& model : models) {
    const Module result = lowered(model, dynamic_qconfig_mapping());
    FileCheck()
        .check("quantized::linear_dynamic")
        ->check_not("aten::addmm")
        ->check_not("aten::matmul")
        ->check_not("aten::add")
        ->run(graph_of(result));
    EXPECT_LT(largest_difference(run(result, {x}), run(model, {x})), 0.2);
  }
}

TEST(Products, OthersStayWhatTheyAre) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> expressions{
      {"torch.addmm(self.bias, x, self.weight, beta=2)", {6, 4}},
      {"torch.matmul(x, x.t())", {6, 4}},
      {"torch.matmul(self.weight, x)", {4, 3}},
      {"torch.matmul(x, self.weight)", {2, 6, 4}}};
  for (const auto& [expression, shape] : expressions) {
    const Module result = lowered(product(expression, shape), dynamic_qconfig_mapping());
    FileCheck().check_not("quantized::")->run(graph_of(result));
  }
}

TEST(Products, StaticQConfigsSeeAProductAsFxDoes) {
  const Module model = product("torch.matmul(x, self.weight)");
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
  EXPECT_EQ(decision_of(prepared.report(), "aten::matmul").pattern, "torch.matmul");
}

TEST(Products, InRecipeBestTheyAreStaticLinearLayersToo) {
  for (const char* expression :
       {"torch.addmm(self.bias, x, self.weight)", "torch.matmul(x, self.weight) + self.bias"}) {
    const Module model = product(expression);
    torch::manual_seed(9);
    const at::Tensor x = torch::randn({64, 6});
    for (const char* engine : {"x86", "fbgemm", "onednn", "qnnpack"}) {
      const Module result = testing::best_model(model, x, engine);
      FileCheck()
          .check("quantized::linear")
          ->check_not("aten::matmul")
          ->check_not("aten::add")
          ->run(graph_of(result));
      EXPECT_GT(testing::sqnr(run(model, {x}), run(result, {x})), 35) << engine;
    }
  }
}

TEST(Products, InRecipeBestAMappingKeepsThemFloat) {
  const Module model = product("torch.matmul(x, self.weight) + self.bias");
  QConfigMapping mapping = best_qconfig_mapping("x86");
  mapping.set_object_type("torch.matmul", std::nullopt);
  const Prepared prepared = prepare(model, mapping, backend_config("x86"), {.recipe = Recipe::Best});
  EXPECT_FALSE(decision_of(prepared.report(), "aten::matmul").quantized);
}

}  // namespace dynamic_test
}  // namespace tsq
