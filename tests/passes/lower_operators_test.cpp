// Operators that LibTorch computes on quantized tensors, by a kernel of their own or as they are: where an
// engine is wrong, they read another layout or stay float.

#include <gtest/gtest.h>
#include <torch/script.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "passes/between_roundings.h"
#include "passes/lower/passes.h"
#include "passes/tune/passes.h"
#include "support/calibrated_model.h"
#include "support/small_models.h"

namespace tsq {
namespace lower_operators_test {

using testing::between_roundings;
using testing::count;
using testing::kQuantized;

/// An operator as a model writes it and as its graph has it.
struct Written {
  std::string name;
  std::string op;
};

ir::Model lowered(ir::Model model, const std::string& engine) {
  passes::lower_static(model, {.target = {.engine = engine}});
  return model;
}

ir::Model lowered(const Written& written, const std::string& engine,
                  const std::string& quantized = kQuantized) {
  ir::Model model = between_roundings("%y : Tensor = " + written.op, quantized);
  testing::write_as(model, written.name);
  return lowered(std::move(model), engine);
}

/// Whether the operator still computes in float what it reads and returns quantized.
bool is_in_float(const ir::Model& model) { return count(model, "aten::dequantize") == 2; }

const std::string kNumber =
    "  %m : Tensor = aten::mean(%x, %none)\n"
    "  %v : Tensor = aten::quantize_per_tensor(%m, %scale, %zero, %dtype)\n";
const std::string kAddedBatch =
    "  %i : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %dtype)\n"
    "  %v : Tensor = aten::unsqueeze(%i, %zero)\n";

const std::vector<Written>& clamps() {
  static const std::vector<Written> kClamps{
      {"torch.nn.ReLU6", "aten::relu6(%d)"},
      {"torch.nn.functional.relu6", "aten::relu6(%d)"},
      {"torch.nn.Hardtanh", "aten::hardtanh(%d, %zero, %one)"},
      {"torch.nn.functional.hardtanh", "aten::hardtanh(%d, %zero, %one)"},
      {"torch.nn.functional.hardtanh_", "aten::hardtanh_(%d, %zero, %one)"},
      {"torch.clamp", "aten::clamp(%d, %zero, %one)"},
      {"clamp", "aten::clamp(%d, %zero, %one)"},
  };
  return kClamps;
}

TEST(LowerOperators, WithoutDimensionsQnnpackComputesNoElementwiseOperator) {
  std::vector<Written> operators{
      {"torch.nn.functional.hardswish", "aten::hardswish(%d)"},
      {"torch.sigmoid", "aten::sigmoid(%d)"},
      {"sigmoid", "aten::sigmoid(%d)"},
      {"sigmoid_", "aten::sigmoid_(%d)"},
      {"torch.nn.Sigmoid", "aten::sigmoid(%d)"},
      {"torch.tanh", "aten::tanh(%d)"},
      {"tanh", "aten::tanh(%d)"},
      {"tanh_", "aten::tanh_(%d)"},
      {"torch.nn.Tanh", "aten::tanh(%d)"},
      {"torch.nn.functional.relu", "aten::relu(%d)"},
      {"relu", "aten::relu(%d)"},
      {"relu_", "aten::relu_(%d)"},
      {"torch.nn.ReLU", "aten::relu(%d)"},
      {"torch.nn.functional.hardsigmoid", "aten::hardsigmoid(%d)"},
      {"torch.nn.Hardsigmoid", "aten::hardsigmoid(%d)"},
      {"operator.add", "aten::add(%d, %d, %one)"},
  };
  operators.insert(operators.end(), clamps().begin(), clamps().end());
  for (const Written& written : operators) {
    EXPECT_FALSE(is_in_float(lowered(written, "qnnpack"))) << written.name;
    EXPECT_TRUE(is_in_float(lowered(written, "qnnpack", kNumber))) << written.name;
    EXPECT_FALSE(is_in_float(lowered(written, "x86", kNumber))) << written.name;
  }
  const std::string sum = "%s : Tensor = aten::add(%d, %d, %one)\n  %y : Tensor = aten::relu(%s)";
  EXPECT_EQ(count(lowered(between_roundings(sum, kNumber), "qnnpack"), "quantized::add_relu"), 0U);
  EXPECT_EQ(count(lowered(between_roundings(sum, kNumber), "x86"), "quantized::add_relu"), 1U);
}

TEST(LowerOperators, QnnpackClampsInPlainLayout) {
  for (const Written& written : clamps()) {
    EXPECT_EQ(count(lowered(written, "qnnpack"), "aten::contiguous"), 1U) << written.name;
    EXPECT_EQ(count(lowered(written, "x86"), "aten::contiguous"), 0U) << written.name;
  }
}

TEST(LowerOperators, QnnpackClampsBetweenTwoBounds) {
  for (const char* name : {"torch.clamp", "clamp"}) {
    const Written written{name, "aten::clamp(%d, %zero, %none)"};
    EXPECT_TRUE(is_in_float(lowered(written, "qnnpack"))) << name;
    EXPECT_FALSE(is_in_float(lowered(written, "x86"))) << name;
  }
}

/// max_pool2d(d, [2, 2], …), and the like.
std::string pool(const std::string& name, int dims, const std::string& rest) {
  const auto list = [&](const std::string& value) {
    std::string values = value;
    for (int i = 1; i < dims; ++i) values += ", " + value;
    return "prim::ListConstruct(" + values + ")\n";
  };
  return list("%two") + "  %stride : int[] = " + list("%two") + "  %padding : int[] = " + list("%one") +
         "  %dilation : int[] = " + list("%one") + "  %y : Tensor = aten::" + name + std::to_string(dims) +
         "d(%d, %kernel" + rest + ")";
}

/// A function as torch.nn.functional has it.
ir::Model pooled(const std::string& name, int dims, const std::string& rest, const std::string& engine,
                 const std::string& quantized = kQuantized) {
  ir::Model model = between_roundings("%kernel : int[] = " + pool(name, dims, rest), quantized);
  testing::write_as(model, "torch.nn.functional." + name + std::to_string(dims) + "d");
  return lowered(std::move(model), engine);
}

TEST(LowerOperators, PoolsReadAnAddedBatchInPlainLayout) {
  const auto expect_plain = [](const auto& lowered_from) {
    EXPECT_EQ(count(lowered_from(kAddedBatch), "aten::contiguous"), 1U);
    EXPECT_EQ(count(lowered_from(kQuantized), "aten::contiguous"), 0U);
  };
  for (const int dims : {1, 2, 3}) {
    SCOPED_TRACE(dims);
    for (const std::string module : {"MaxPool", "AvgPool", "AdaptiveAvgPool"}) {
      SCOPED_TRACE(module);
      const Written written{"torch.nn." + module + std::to_string(dims) + "d", "aten::neg(%d)"};
      expect_plain([&](const std::string& quantized) { return lowered(written, "x86", quantized); });
    }
    const std::string average =
        dims == 1 ? ", %stride, %padding, %no, %yes" : ", %stride, %padding, %no, %yes, %none";
    for (const auto& [name, rest] :
         {std::pair<std::string, std::string>{"max_pool", ", %stride, %padding, %dilation, %no"},
          {"avg_pool", average},
          {"adaptive_avg_pool", ""}}) {
      SCOPED_TRACE(name);
      expect_plain([&](const std::string& quantized) { return pooled(name, dims, rest, "x86", quantized); });
    }
  }
}

TEST(LowerOperators, NormsReadAnAddedBatchInPlainLayout) {
  for (const Written& written : std::vector<Written>{
           {"torch.nn.functional.instance_norm",
            "aten::instance_norm(%d, %none, %none, %none, %none, %yes, %scale, %scale, %no)"},
           {"torch.nn.functional.group_norm", "aten::group_norm(%d, %two, %none, %none, %scale, %no)"}}) {
    EXPECT_EQ(count(lowered(written, "x86", kAddedBatch), "aten::contiguous"), 1U) << written.name;
    EXPECT_EQ(count(lowered(written, "x86"), "aten::contiguous"), 0U) << written.name;
  }
}

TEST(LowerOperators, QnnpackAveragesOnlyWhatCountsItsPadding) {
  for (const int dims : {1, 2}) {
    for (const std::string counts : {"%yes", "%no"}) {
      const std::string rest = ", %stride, %padding, %no, " + counts + (dims == 1 ? "" : ", %none");
      EXPECT_EQ(is_in_float(pooled("avg_pool", dims, rest, "qnnpack")), counts == "%no") << dims << counts;
      EXPECT_FALSE(is_in_float(pooled("avg_pool", dims, rest, "x86"))) << dims << counts;
    }
  }
}

/// A module of PyTorch with this forward.
torch::jit::Module leaf(const std::string& name, const std::string& result) {
  torch::jit::Module module("__torch__.torch.nn.modules.any." + name,
                            std::make_shared<torch::jit::CompilationUnit>(),
                            /*shouldMangle=*/true);
  module.define("def forward(self, x):\n  return " + result + "\n");
  return module;
}

ir::Model called(const std::string& name, const std::string& result, const std::string& engine) {
  ir::Model model = between_roundings("%y : Tensor = aten::neg(%d)");
  testing::put_call(model, "y",
                    {.type = symbol("torch.nn." + name), .path = "layer", .module = leaf(name, result)});
  return lowered(std::move(model), engine);
}

TEST(LowerOperators, ModulesOfQnnpackAverageOnlyWhatCountsItsPadding) {
  for (const std::string counts : {"True", "False"}) {
    const std::string one = "torch.avg_pool1d(x, [2], [2], [1], False, " + counts + ")";
    const std::string two = "torch.avg_pool2d(x, [2, 2], [2, 2], [1, 1], False, " + counts + ")";
    EXPECT_EQ(is_in_float(called("AvgPool1d", one, "qnnpack")), counts == "False");
    EXPECT_EQ(is_in_float(called("AvgPool2d", two, "qnnpack")), counts == "False");
    EXPECT_FALSE(is_in_float(called("AvgPool2d", two, "x86")));
  }
}

TEST(LowerOperators, QnnpackHasNoMaxPoolOfVolumes) {
  const std::string rest = ", %stride, %padding, %dilation, %no";
  for (const std::string engine : {"qnnpack", "x86"}) {
    EXPECT_EQ(is_in_float(pooled("max_pool", 3, rest, engine)), engine == "qnnpack");
    EXPECT_EQ(is_in_float(called("MaxPool3d", "torch.max_pool3d(x, [2, 2, 2])", engine)),
              engine == "qnnpack");
  }
}

TEST(LowerOperators, SoftmaxOfQnnpackReadsPlainLayout) {
  for (const std::string engine : {"qnnpack", "x86"}) {
    const ir::Model model = called("Softmax", "torch.softmax(x, 1)", engine);
    EXPECT_EQ(count(model, "quantized::softmax"), 1U);
    EXPECT_EQ(count(model, "aten::contiguous"), engine == "qnnpack" ? 1U : 0U);
  }
}

TEST(LowerOperators, ModulesHaveTheirKernels) {
  const std::string instance_norm = "torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)";
  for (const auto& [name, result, kernel] : std::vector<std::array<std::string, 3>>{
           {"ELU", "torch.elu(x, 1.0)", "quantized::elu"},
           {"LeakyReLU", "torch.leaky_relu(x, 0.1)", "quantized::leaky_relu"},
           {"Hardswish", "torch.hardswish(x)", "quantized::hardswish"},
           {"InstanceNorm1d", instance_norm, "quantized::instance_norm"},
           {"InstanceNorm2d", instance_norm, "quantized::instance_norm"},
           {"InstanceNorm3d", instance_norm, "quantized::instance_norm"},
           {"LayerNorm", "torch.layer_norm(x, [4], None, None, 1e-5)", "quantized::layer_norm"},
           {"Softmax", "torch.softmax(x, 1)", "quantized::softmax"}})
    EXPECT_EQ(count(called(name, result, "x86"), kernel), 1U) << name;
}

/// A call of a class of PyTorch's with the parameters of `module`, and what its fused form does besides.
ir::Model with_parameters(const std::string& type, const torch::jit::Module& module, bool has_relu = false) {
  ir::Model model = between_roundings("%y : Tensor = aten::neg(%d)");
  ir::ModuleCall call{.type = symbol(type), .path = "layer", .module = module};
  if (has_relu)
    call = {.type = symbol(type), .path = "layer", .members = {call, {.type = symbol("torch.nn.ReLU")}}};
  testing::put_call(model, "y", call);
  model.records.front().lookup.qconfig = default_qconfig("qnnpack");  // one scale for all slopes
  return lowered(std::move(model), "x86");
}

TEST(LowerOperators, ModulesWithParametersHaveTheirKernels) {
  const torch::jit::Module norm = testing::batch_norm2d(4);
  for (const std::string dims : {"2d", "3d"}) {
    const std::string kernel = "quantized::batch_norm" + dims;
    EXPECT_EQ(count(with_parameters("torch.nn.BatchNorm" + dims, norm), kernel), 1U) << dims;
    const ir::Model fused = with_parameters("torch.ao.nn.intrinsic.BNReLU" + dims, norm, true);
    EXPECT_EQ(count(fused, kernel + "_relu"), 1U) << dims;
  }
  EXPECT_EQ(count(with_parameters("torch.nn.PReLU", testing::prelu(4)), "quantized::prelu"), 1U);
}

TEST(LowerOperators, FunctionsHaveTheirKernels) {
  for (const auto& [name, op, kernel] : std::vector<std::array<std::string, 3>>{
           {"torch.nn.functional.elu", "aten::elu(%d, %one, %one, %one)", "quantized::elu"},
           {"torch.nn.functional.hardswish", "aten::hardswish(%d)", "quantized::hardswish"},
           {"torch.nn.functional.leaky_relu", "aten::leaky_relu(%d, %scale)", "quantized::leaky_relu"},
           {"torch.nn.functional.instance_norm",
            "aten::instance_norm(%d, %none, %none, %none, %none, %yes, %scale, %scale, %no)",
            "quantized::instance_norm"},
           {"torch.nn.functional.group_norm", "aten::group_norm(%d, %two, %none, %none, %scale, %no)",
            "quantized::group_norm"},
           {"operator.add", "aten::add(%d, %d, %one)", "quantized::add"},
           {"torch.add", "aten::add(%d, %d, %one)", "quantized::add"},
           {"operator.mul", "aten::mul(%d, %d)", "quantized::mul"},
           {"torch.mul", "aten::mul(%d, %d)", "quantized::mul"},
           {"torch.matmul", "aten::matmul(%d, %d)", "quantized::matmul"}})
    EXPECT_EQ(count(lowered(Written{name, op}, "x86"), kernel), 1U) << name;
  const ir::Model layer_norm = between_roundings(
      "%sizes : int[] = prim::ListConstruct(%two)\n"
      "  %y : Tensor = aten::layer_norm(%d, %sizes, %none, %none, %scale, %no)");
  EXPECT_EQ(count(lowered(layer_norm, "x86"), "quantized::layer_norm"), 1U);
}

TEST(LowerOperators, DropoutIsNothing) {
  for (const Written& written :
       std::vector<Written>{{"torch.nn.functional.dropout", "aten::dropout(%d, %scale, %no)"},
                            {"torch.nn.Dropout", "aten::neg(%d)"}}) {
    const ir::Model model = lowered(written, "x86");
    EXPECT_EQ(count(model, "aten::quantize_per_tensor"), 1U) << written.name;
    EXPECT_EQ(model.records.front().decision.kernel, "nothing") << written.name;
  }
}

TEST(LowerOperators, SignalsAreInterpolatedInFloat) {
  const std::string head = "%sizes : int[] = prim::ListConstruct(%two";
  EXPECT_TRUE(is_in_float(lowered(
      between_roundings(head + ")\n  %y : Tensor = aten::upsample_nearest1d(%d, %sizes, %none)"), "x86")));
  EXPECT_FALSE(is_in_float(lowered(
      between_roundings(head + ", %two)\n  %y : Tensor = aten::upsample_nearest2d(%d, %sizes, %none, %none)"),
      "x86")));
}

TEST(LowerOperators, OperandsOfKernelsHaveOneDType) {
  const std::string other =
      "  %qint8 : int = prim::Constant[value=12]()\n"
      "  %w : Tensor = aten::quantize_per_tensor(%x, %scale, %zero, %qint8)\n  %e : Tensor = "
      "aten::dequantize(%w)\n";
  for (const std::string op : {"aten::add(%d, {}, %one)", "aten::mul(%d, {})", "aten::matmul(%d, {})"}) {
    for (const bool with_relu : {false, true}) {
      const auto model_of = [&](const std::string& operand) {
        std::string text = op;
        text.replace(text.find("{}"), 2, operand);
        return lowered(
            between_roundings(with_relu ? "%s : Tensor = " + text + "\n  %y : Tensor = aten::relu(%s)"
                                        : "%y : Tensor = " + text,
                              kQuantized + other),
            "x86");
      };
      const bool has_kernel = !with_relu || op.find("matmul") == std::string::npos;
      EXPECT_EQ(count(model_of("%d"), "aten::relu") + count(model_of("%d"), "aten::matmul"),
                has_kernel ? 0U : 2U)
          << op;
      EXPECT_EQ(count(model_of("%e"), "aten::dequantize"), 3U) << op;
    }
  }
}

TEST(LowerOperators, MatricesOf32BitsAreMultipliedInFloat) {
  for (const c10::ScalarType dtype : {c10::ScalarType::QUInt8, c10::ScalarType::QInt32}) {
    const ir::Model model =
        lowered(between_roundings("%y : Tensor = aten::matmul(%d, %d)", kQuantized, dtype), "x86");
    EXPECT_EQ(is_in_float(model), dtype == c10::ScalarType::QInt32);
  }
}

/// A kernel that reads x.
ir::Model of_kernel(const std::string& kernel, const std::string& arguments) {
  ir::Model model = testing::model_of_graph("%x : Tensor, %w : Tensor",
                                            "  %y : Tensor = " + kernel + "(" + arguments +
                                                ")\n  %z : Tensor = aten::neg(%w)\n  return (%y, %z)\n");
  testing::quantized_record(model, "y");
  return model;
}

TEST(LowerOperators, LinearLayersOfOneDnnAreGivenTheirDimensionsWhenEmpty) {
  for (const std::string kernel :
       {"quantized::linear", "quantized::linear_relu", "quantized::linear_leaky_relu",
        "quantized::linear_tanh", "quantized::linear_dynamic", "quantized::linear_relu_dynamic"}) {
    for (const std::string engine : {"onednn", "x86"}) {
      ir::Model model = of_kernel(kernel, "%x, %w, %scale, %zero");
      passes::shape_empty_results(model, {.target = {.engine = engine}});
      EXPECT_EQ(count(model, "prim::If"), engine == "onednn" ? 1U : 0U) << kernel;
    }
  }
}

TEST(LowerOperators, QnnpackDoesNotDivideByTheCountOfAnEmptyTensor) {
  for (const std::string kernel : {"quantized::hardswish", "aten::hardsigmoid", "aten::hardsigmoid_"}) {
    for (const std::string engine : {"qnnpack", "x86"}) {
      ir::Model model = of_kernel(kernel, kernel.starts_with("aten") ? "%x" : "%x, %scale, %zero");
      passes::shape_empty_results(model, {.target = {.engine = engine}});
      EXPECT_EQ(count(model, "prim::If"), engine == "qnnpack" ? 1U : 0U) << kernel;
    }
  }
}

TEST(LowerOperators, KernelsThatWriteIntoTheirAddendGetACopy) {
  for (const std::string kernel : {"quantized::conv2d_add", "quantized::conv2d_add_relu"}) {
    const ir::Model model = lowered(of_kernel(kernel, "%x, %w, %x, %scale, %zero"), "onednn");
    EXPECT_EQ(count(model, "aten::clone"), 1U) << kernel;
  }
}

}  // namespace lower_operators_test
}  // namespace tsq
