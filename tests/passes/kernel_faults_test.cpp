// Each fault of backends/kernel_faults.cpp: the kernel by itself, against dequantize – operator – quantize.

#include "backends/kernels/kernel_faults.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/engine_lock.h>
#include <tsq/tsq.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/kernels/engine.h"
#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/processor_faults.h"
#include "support/lowered.h"
#include "support/processor.h"
#include "support/small_models.h"

namespace tsq {
namespace kernel_faults_test {

using torch::jit::Module;

class Engine {
 public:
  explicit Engine(at::QEngine engine) : former_(at::globalContext().qEngine()) {
    at::globalContext().setQEngine(engine);
  }
  ~Engine() { at::globalContext().setQEngine(former_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

 private:
  at::QEngine former_;
};

c10::IValue call(const char* name, const char* overload, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).callBoxed(&stack);
  return stack.back();
}

at::Tensor quantized(const at::Tensor& x, double scale = 0.03, int64_t zero_point = 110) {
  return at::quantize_per_tensor(x, scale, zero_point, c10::ScalarType::QUInt8);
}

/// The largest difference of two quantized tensors, in steps.
int64_t steps_between(const at::Tensor& a, const at::Tensor& b) {
  return (a.int_repr().to(at::kInt) - b.int_repr().to(at::kInt)).abs().max().item<int64_t>();
}

at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

/// How far quantized::conv_transpose{2,3}d is from its reference, in steps.
int64_t transposed_error(at::QEngine id, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                         std::size_t dims = 2) {
  const Engine engine(id);
  torch::manual_seed(3);
  std::vector<int64_t> input{2, in};
  std::vector<int64_t> weight{in, out};
  for (std::size_t i = 0; i < dims; ++i) {
    input.push_back(5);
    weight.push_back(kernel);
  }
  const std::vector<int64_t> strides(dims, stride);
  const std::vector<int64_t> zeros(dims, 0);
  const std::vector<int64_t> ones(dims, 1);
  const at::Tensor x = quantized(at::randn(input));
  const at::Tensor w = at::quantize_per_tensor(at::randn(weight) * 0.3, 0.01, 0, c10::ScalarType::QInt8);
  const at::Tensor plain = dims == 2 ? at::conv_transpose2d(x.dequantize(), w.dequantize(), {}, strides)
                                     : at::conv_transpose3d(x.dequantize(), w.dequantize(), {}, strides);
  const double scale = plain.abs().max().item<double>() / 100;
  const std::string name = dims == 2 ? "quantized::conv_transpose2d" : "quantized::conv_transpose3d";
  const c10::IValue packed =
      call((name + "_prepack").c_str(), "", {w, c10::IValue(), strides, zeros, zeros, ones, int64_t{1}});
  const at::Tensor result = call(name.c_str(), "", {x, packed, scale, int64_t{128}}).toTensor();
  return steps_between(result, quantized(plain, scale, 128));
}

TEST(KernelFaults, TransposedConvolutionsOfOneDnnNeedEqualChannels) {
  EXPECT_EQ(transposed_error(at::QEngine::ONEDNN, 8, 3, 3, 1) > 1,
            kernels::processor_faults(TargetCpu::Native, at::QEngine::ONEDNN).onednn_transposed_channels);
  EXPECT_LE(transposed_error(at::QEngine::ONEDNN, 8, 8, 3, 1), 1);
}

TEST(KernelFaults, TransposedConvolutionsOfFbgemmAreWrongForTwoRowsAndChannelsInEights) {
  EXPECT_EQ(transposed_error(at::QEngine::FBGEMM, 8, 8, 2, 2) > 1,
            kernels::processor_faults(TargetCpu::Native, at::QEngine::FBGEMM).fbgemm_transposed_rows);
  EXPECT_LE(transposed_error(at::QEngine::FBGEMM, 8, 4, 2, 2), 1);
  EXPECT_LE(transposed_error(at::QEngine::FBGEMM, 8, 8, 3, 2), 1);
}

TEST(KernelFaults, TransposedVolumesOfQnnpackAreWrong) {
  EXPECT_GT(transposed_error(at::QEngine::QNNPACK, 4, 4, 3, 1, 3), 1);
}

TEST(KernelFaults, PackedVolumesOfQnnpackCannotBeSaved) {
  const Engine engine(at::QEngine::QNNPACK);
  const at::Tensor w = at::quantize_per_tensor(at::randn({4, 3, 3, 3, 3}), 0.01, 0, c10::ScalarType::QInt8);
  const std::vector<int64_t> ones{1, 1, 1};
  const std::vector<int64_t> zeros{0, 0, 0};
  const c10::IValue packed =
      call("quantized::conv3d_prepack", "", {w, c10::IValue(), ones, zeros, ones, int64_t{1}});
  EXPECT_THROW(call("quantized::conv3d_unpack", "", {packed}), c10::Error);
}

TEST(KernelFaults, PackedWeightsOfQnnpackKeepTheOutputScaleOfTheFirstCall) {
  const Engine engine(at::QEngine::QNNPACK);
  const at::Tensor weight = at::quantize_per_tensor(at::randn({8, 8}), 0.02, 0, c10::ScalarType::QInt8);
  const auto pack = [&] { return call("quantized::linear_prepack", "", {weight, c10::IValue()}); };
  const auto run = [x = quantized(at::randn({4, 8}))](const c10::IValue& packed, double scale) {
    return call("quantized::linear", "", {x, packed, scale, int64_t{128}}).toTensor();
  };
  const c10::IValue shared = pack();
  EXPECT_EQ(steps_between(run(shared, 0.1), run(pack(), 0.1)), 0);
  EXPECT_GT(steps_between(run(shared, 0.03), run(pack(), 0.03)), 1);
}

TEST(KernelFaults, ClampOfQnnpackIsWrongOnChannelsLastTensors) {
  const Engine engine(at::QEngine::QNNPACK);
  const at::Tensor x = quantized(at::randn({2, 8, 5, 6}));
  const at::Tensor expected = quantized(at::clamp(x.dequantize(), -1, 1.5));
  EXPECT_LE(steps_between(at::clamp(x, -1, 1.5), expected), 1);
  EXPECT_GT(steps_between(at::clamp(channels_last(x), -1, 1.5), expected), 1);
  const at::Tensor by_view = at::clamp(channels_last(x).permute({0, 2, 3, 1}), -1, 1.5).permute({0, 3, 1, 2});
  EXPECT_LE(steps_between(by_view, expected), 1);
  EXPECT_THROW(at::clamp(x, -1, std::nullopt), c10::Error);
}

TEST(KernelFaults, AveragePoolsOfQnnpackCountPadding) {
  const Engine engine(at::QEngine::QNNPACK);
  const at::Tensor x = quantized(at::randn({2, 3, 7, 9}) + 1.0);
  const auto pool = [](const at::Tensor& t, bool counts, std::optional<int64_t> divisor) {
    return at::avg_pool2d(t, {3, 3}, {2, 2}, {1, 1}, false, counts, divisor);
  };
  EXPECT_LE(steps_between(pool(x, true, {}), quantized(pool(x.dequantize(), true, {}))), 1);
  EXPECT_GT(steps_between(pool(x, false, {}), quantized(pool(x.dequantize(), false, {}))), 1);
  EXPECT_GT(steps_between(pool(x, true, 5), quantized(pool(x.dequantize(), true, 5))), 1);
  EXPECT_THROW(at::max_pool3d(quantized(at::randn({1, 2, 4, 4, 4})), {2, 2, 2}), c10::Error);
}

TEST(KernelFaults, SoftmaxOfQnnpackNeedsItsDimensionInnermost) {
  const Engine engine(at::QEngine::QNNPACK);
  const at::Tensor x = quantized(at::randn({2, 9, 6}));
  const at::Tensor turned = x.transpose(1, 2);
  const at::Tensor expected = quantized(at::softmax(turned.dequantize(), 1), 1.0 / 256, 0);
  const auto softmax = [](const at::Tensor& t) {
    return call("quantized::softmax", "", {t, int64_t{1}, 1.0 / 256, int64_t{0}}).toTensor();
  };
  EXPECT_GT(steps_between(softmax(turned), expected), 1);
  EXPECT_LE(steps_between(softmax(turned.contiguous()), expected), 1);
}

TEST(KernelFaults, PoolsReadAnAddedBatchWrongly) {
  const Engine engine(at::QEngine::X86);
  torch::manual_seed(3);
  const at::Tensor x = channels_last(quantized(at::randn({1, 8, 10, 10}))).squeeze(0).unsqueeze(0);
  const auto error_of = [](const at::Tensor& image) {
    return steps_between(
        at::max_pool2d(image, {2, 2}, {2, 2}, {0, 0}, {1, 1}),
        quantized(at::max_pool2d(image.dequantize().contiguous(), {2, 2}, {2, 2}, {0, 0}, {1, 1})));
  };
  EXPECT_GT(error_of(x), 1);
  EXPECT_EQ(error_of(x.contiguous()), 0);
}

TEST(KernelFaults, APoolAfterAnAddedBatchIsRight) {
  torch::manual_seed(3);
  Module model = testing::user_module("Pooled");
  model.register_module("conv", testing::conv2d(3, 8, 3));
  model.register_module("pool", testing::max_pool2d());
  model.define(
      "def forward(self, x):\n"
      "  y = self.conv.forward(x)[0].unsqueeze(0)\n"
      "  return self.pool.forward(self.conv.forward(x).squeeze(0).unsqueeze(0)) + self.pool.forward(y)\n");
  model.eval();
  const at::Tensor x = at::randn({1, 3, 12, 12});
  Prepared prepared = prepare(model, testing::default_mapping_here("onednn"), backend_config("onednn"),
                              {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{x}});
  Module lowered = convert(prepared, backend_config("onednn"));
  const at::Tensor wanted = model.forward({x}).toTensor();
  const at::Tensor got = lowered.forward({x}).toTensor();
  EXPECT_GT(10 * std::log10((wanted.square().sum() / (wanted - got).square().sum()).item<double>()), 25);
}

TEST(KernelFaults, QnnpackAddsOnlyWhatHasAScaleLikeTheSums) {
  const Engine engine(at::QEngine::QNNPACK);
  torch::manual_seed(3);
  const at::Tensor x = at::randn({1, 8, 4, 4});
  const auto sum = [&](double ratio) {
    return call("quantized::add", "", {quantized(x), quantized(x * ratio, 0.03 * ratio), 0.06, int64_t{110}});
  };
  EXPECT_NO_THROW(sum(0x1p-12));
  EXPECT_ANY_THROW(sum(0x1p-14));
  EXPECT_ANY_THROW(sum(0x1p10));
}

TEST(KernelFaults, AnAdditionOfVeryDifferentRangesStaysFloatOnQnnpack) {
  for (const auto& [factor, is_float] : {std::pair{1e-6, true}, std::pair{1e-2, false}}) {
    for (const char* sum : {"a + b", "torch.relu(a + b)"}) {
      torch::manual_seed(3);
      Module model = testing::user_module("Sum");
      model.register_module("first", testing::conv2d(3, 8, 3));
      model.register_module("second", testing::conv2d(3, 8, 3));
      model.define(std::string("def forward(self, x):\n  a = self.first.forward(x)\n  b = "
                               "self.second.forward(x)\n  return self.first.forward((") +
                   sum + ")[:, :3])\n");
      model.eval();
      {
        const at::NoGradGuard no_grad;
        for (at::Tensor each : model.attr("second").toModule().parameters()) each.mul_(factor);
      }
      const at::Tensor x = at::randn({1, 3, 12, 12});
      Prepared prepared = prepare(model, default_qconfig_mapping("qnnpack"), backend_config("qnnpack"),
                                  {.recipe = Recipe::Fx});
      calibrate(prepared, std::vector<Sample>{{x}});
      const Reference reference = convert_to_reference(prepared, backend_config("qnnpack"));
      Report report;
      Module lowered = testing::lowered(reference, backend_config("qnnpack"), &report);
      EXPECT_NO_THROW(lowered.forward({x})) << sum;
      const bool says_why =
          std::any_of(report.decisions.begin(), report.decisions.end(), [](const Decision& decision) {
            return decision.reason.find("times the scale of the sum") != std::string::npos;
          });
      EXPECT_EQ(says_why, is_float) << sum;
    }
  }
}

TEST(KernelFaults, LinearLayersTakeEveryAxisForThatOfTheOutputs) {
  const Engine engine(at::QEngine::FBGEMM);
  torch::manual_seed(3);
  const at::Tensor x = quantized(at::randn({6, 8}));
  const at::Tensor weight = at::randn({8, 8}) * at::logspace(-2, 0, 8);
  const auto error_of = [&](int64_t axis) {
    const at::Tensor scale = weight.abs().amax({1 - axis}) / 63;  // sums of 16 bits do not overflow
    const at::Tensor w = at::quantize_per_channel(weight, scale.to(at::kDouble), at::zeros({8}, at::kLong),
                                                  axis, c10::ScalarType::QInt8);
    const at::Tensor plain = at::linear(x.dequantize(), w.dequantize());
    const double step = plain.abs().max().item<double>() / 100;
    const c10::IValue packed = call("quantized::linear_prepack", "", {w, c10::IValue()});
    const at::Tensor result = call("quantized::linear", "", {x, packed, step, int64_t{128}}).toTensor();
    return steps_between(result, quantized(plain, step, 128));
  };
  EXPECT_LE(error_of(0), 1);
  EXPECT_GT(error_of(1), 1);
}

TEST(KernelFaults, NoKernelMultipliesActivationsOf32Bits) {
  for (const at::QEngine id : {at::QEngine::X86, at::QEngine::FBGEMM, at::QEngine::ONEDNN}) {
    const Engine engine(id);
    const at::Tensor x = at::quantize_per_tensor(at::randn({4, 8}), 0.03, 0, c10::ScalarType::QInt32);
    const at::Tensor w = at::quantize_per_tensor(at::randn({4, 8}), 0.03, 0, c10::ScalarType::QInt8);
    const c10::IValue packed = call("quantized::linear_prepack", "", {w, c10::IValue()});
    EXPECT_ANY_THROW(call("quantized::linear", "", {x, packed, 0.1, int64_t{0}}));
    EXPECT_ANY_THROW(call("quantized::matmul", "", {x, x.t(), 0.1, int64_t{0}}));
  }
}

TEST(KernelFaults, KernelsOfTwoOperandsTakeOneDType) {
  const at::Tensor x = quantized(at::randn({4, 4}));
  const at::Tensor y = at::quantize_per_tensor(at::randn({4, 4}), 0.03, 0, c10::ScalarType::QInt8);
  for (const char* kernel : {"quantized::matmul", "quantized::add", "quantized::add_relu", "quantized::mul",
                             "quantized::mul_relu"})
    EXPECT_ANY_THROW(call(kernel, "", {x, y, 0.1, int64_t{0}})) << kernel;
}

TEST(KernelFaults, QuantizedSignalsHaveNoInterpolation) {
  EXPECT_THROW(at::upsample_nearest1d(quantized(at::randn({1, 2, 4})), {8}), c10::Error);
}

TEST(KernelFaults, ConvAddWritesIntoItsAddend) {
  const Engine engine(at::QEngine::ONEDNN);
  const std::vector<int64_t> ones{1, 1};
  const std::vector<int64_t> zeros{0, 0};
  const at::Tensor x = quantized(at::randn({1, 3, 8, 8}));
  const at::Tensor w = at::quantize_per_tensor(at::randn({3, 3, 1, 1}), 0.02, 0, c10::ScalarType::QInt8);
  const c10::IValue packed =
      call("quantized::conv2d_prepack", "", {w, c10::IValue(), ones, zeros, ones, int64_t{1}});
  const at::Tensor addend = call("quantized::conv2d", "new", {x, packed, 0.05, int64_t{120}}).toTensor();
  const at::Tensor before = addend.int_repr().clone();
  call("quantized::conv2d_add", "", {x, addend, packed, 0.07, int64_t{100}});
  EXPECT_FALSE(at::equal(addend.int_repr(), before));
}

TEST(KernelFaults, EveryRowHasAReason) {
  for (const kernels::KernelFault& fault : kernels::kernel_faults()) {
    EXPECT_FALSE(fault.reason.empty()) << fault.engine << " " << fault.kernel;
  }
}

// What lowering makes of them.

std::vector<Sample> images() {
  torch::manual_seed(1);
  std::vector<Sample> result;
  for (int i = 0; i < 3; ++i) result.push_back({torch::randn({2, 3, 8, 8})});
  return result;
}

struct Lowered {
  Module reference;
  Module module;
  Report report;
};

Lowered lowered(const Module& model, std::string_view backend, const QConfigMapping& mapping,
                const PrepareOptions& options = {.recipe = Recipe::Fx}) {
  Prepared prepared = prepare(model, mapping, backend_config(backend), options);
  calibrate(prepared, images());
  const Reference reference = convert_to_reference(prepared, backend_config(backend));
  Lowered result{.reference = reference.module(), .module = {}, .report = {}};
  result.module = testing::lowered(reference, backend_config(backend), &result.report);
  return result;
}

Lowered lowered(const Module& model, std::string_view backend) {
  return lowered(model, backend, default_qconfig_mapping(backend));
}

/// The largest difference of the two models, in parts of the largest value.
double relative_difference(Lowered& models) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = images().front().front().toTensor();
  const at::Tensor expected = models.reference.forward({x}).toTensor();
  const at::Tensor got = models.module.forward({x}).toTensor();
  return (expected - got).abs().max().item<double>() / expected.abs().max().item<double>();
}

const Decision& decision_of(const Report& report, std::string_view op) {
  for (const Decision& decision : report.decisions) {
    if (decision.op == op) return decision;
  }
  ADD_FAILURE() << "no decision about " << op;
  return report.decisions.front();
}

Module transposed_model(int64_t in, int64_t out, int64_t kernel) {
  Module model = testing::user_module("Transposed");
  model.register_module("first", testing::conv2d(3, in, 1));
  model.register_module("up", testing::conv_transpose2d(in, out, kernel));
  model.define("def forward(self, x):\n  return self.up.forward(self.first.forward(x))\n");
  return model;
}

/// Why the transposed convolution of a model stays in reference form; empty where it has its kernel.
std::string transposed_fault(const Module& model, std::string_view backend, TargetCpu cpu) {
  const Lowered models =
      lowered(model, backend, default_qconfig_mapping(backend), {.recipe = Recipe::Fx, .target_cpu = cpu});
  const Decision& decision = decision_of(models.report, "torch.nn.ConvTranspose2d");
  EXPECT_EQ(decision.quantized, decision.reason.empty()) << backend;
  EXPECT_EQ(decision.kernel, decision.quantized ? "quantized::conv_transpose2d" : "") << backend;
  return decision.reason;
}

TEST(KernelFaults, ATransposedConvolutionOfUnequalChannelsKeepsItsReferenceWhereItIsOneDnns) {
  const Module model = transposed_model(3, 5, 3);
  for (const TargetCpu cpu : {TargetCpu::Vnni, TargetCpu::WithoutVnni}) {
    const bool has_onednn = cpu == TargetCpu::Vnni;
    EXPECT_EQ(
        transposed_fault(model, "x86", cpu).find("oneDNN's transposed convolution") != std::string::npos,
        has_onednn);
    for (const char* backend : {"qnnpack", "fbgemm"})
      EXPECT_EQ(transposed_fault(model, backend, cpu), "") << backend;
  }
  for (const char* backend : {"x86", "qnnpack", "fbgemm"}) {
    Lowered models = lowered(model, backend);
    EXPECT_LT(relative_difference(models), 0.02) << backend;
  }
}

TEST(KernelFaults, AKernelOfTwoRowsKeepsItsReferenceWhereItIsFbgemms) {
  const Module model = transposed_model(8, 8, 2);
  const std::string two_rows = "kernel of two rows";
  EXPECT_EQ(transposed_fault(model, "x86", TargetCpu::Vnni), "");
  EXPECT_NE(transposed_fault(model, "x86", TargetCpu::WithoutVnni).find(two_rows), std::string::npos);
  EXPECT_NE(transposed_fault(model, "fbgemm", TargetCpu::Vnni).find(two_rows), std::string::npos);
}

TEST(KernelFaults, OfAProcessorThatIsNamedNothingIsTried) {
  for (const TargetCpu cpu : {TargetCpu::Vnni, TargetCpu::WithoutVnni}) {
    EXPECT_TRUE(kernels::processor_faults(cpu, at::QEngine::X86).onednn_transposed_channels);
    EXPECT_TRUE(kernels::processor_faults(cpu, at::QEngine::X86).fbgemm_transposed_rows);
  }
}

TEST(KernelFaults, OfAnEngineOnlyItsOwnKernelsAreTried) {
  const EngineHold hold(at::QEngine::FBGEMM);
  (void)kernels::processor_faults(TargetCpu::Native, at::QEngine::FBGEMM);
  EXPECT_TRUE(kernels::processor_faults(TargetCpu::Native, at::QEngine::FBGEMM).onednn_transposed_channels);
}

TEST(KernelFaults, AKernelThatIsRightOnTheProcessorIsUsed) {
  const ir::Model model;
  const auto fault = [&model](const char* engine, int64_t in, int64_t out, int64_t kernel,
                              const kernels::ProcessorFaults& faults) {
    ir::Weighted weighted;
    weighted.weight = at::zeros({in, out, kernel, kernel});
    weighted.weight_qparams = QParams{.scale = at::ones({}), .zero_point = at::zeros({}, at::kInt)};
    weighted.stride = {2, 2};
    weighted.padding = weighted.output_padding = {0, 0};
    weighted.dilation = {1, 1};
    const kernels::Target target{.engine = engine, .faults = faults};
    return kernels::fault_of(
        {.target = target, .model = model, .kernel = "quantized::conv_transpose2d", .weighted = &weighted},
        kernels::Precaution::KeepReference);
  };
  EXPECT_NE(fault("onednn", 8, 3, 3, {}), nullptr);
  EXPECT_EQ(fault("onednn", 8, 3, 3, {.onednn_transposed_channels = false}), nullptr);
  EXPECT_NE(fault("fbgemm", 8, 8, 2, {}), nullptr);
  EXPECT_EQ(fault("fbgemm", 8, 8, 2, {.fbgemm_transposed_rows = false}), nullptr);
}

TEST(KernelFaults, AFileSaysWhatWasFoundOfTheProcessor) {
  Module model = lowered(transposed_model(3, 3, 3), "x86").module;
  const auto metadata = nlohmann::json::parse(model.attr("tsq_metadata").toStringRef());
  EXPECT_EQ(metadata["processor_faults"],
            kernels::processor_faults(TargetCpu::Native, at::QEngine::X86).to_json());
}

TEST(KernelFaults, AWeightThatTheEngineRefusesLeavesItsLayerInReferenceForm) {  // onednn: affine weights
  Module model = testing::user_module("Affine");
  model.register_module("conv", testing::conv2d(3, 4, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  const QConfig affine{
      .activation = default_qconfig("onednn").activation,
      .weight = {
          .observer = "MinMaxObserver", .dtype = c10::ScalarType::QInt8, .qscheme = c10::kPerTensorAffine}};
  Lowered models = lowered(model, "onednn", QConfigMapping().set_global(affine));
  EXPECT_LT(relative_difference(models), 0.02);
  const Decision& decision = decision_of(models.report, "torch.nn.Conv2d");
  EXPECT_FALSE(decision.quantized);
  EXPECT_NE(decision.reason.find("refused the weight"), std::string::npos) << decision.reason;
}

TEST(KernelFaults, ScalesOfTheInputsLeaveALayerInReferenceForm) {
  Module model = testing::user_module("AlongInputs");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.register_module("linear", testing::linear(6, 6));
  model.define("def forward(self, x):\n  return self.linear.forward(self.conv.forward(x)[:, :, :, 0:6])\n");
  for (const char* backend : {"x86", "fbgemm", "onednn", "qnnpack"}) {
    for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
      for (const int64_t axis : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} {} {}", backend, to_string(recipe), axis));
        const QConfig along{.activation = testing::default_qconfig_here(backend).activation,
                            .weight = {.observer = "PerChannelMinMaxObserver",
                                       .dtype = c10::ScalarType::QInt8,
                                       .qscheme = c10::kPerChannelSymmetric,
                                       .ch_axis = axis}};
        Lowered models = lowered(model, backend, QConfigMapping().set_global(along), {.recipe = recipe});
        EXPECT_LT(relative_difference(models), 0.03);  // two layers, each off by a step of 1/127
        for (const char* type : {"torch.nn.Conv2d", "torch.nn.Linear"}) {
          const std::string& reason = decision_of(models.report, type).reason;
          EXPECT_EQ(reason.find("another dimension of the weight") != std::string::npos, axis == 1)
              << type << ": " << reason;
        }
      }
    }
  }
}

TEST(KernelFaults, AClampAfterAConvolutionIsRightOnQnnpack) {
  Module model = testing::user_module("Clamp");
  model.register_module("conv", testing::conv2d(3, 8, 3));
  model.define("def forward(self, x):\n  return torch.clamp(self.conv.forward(x), -1.0, 1.0)\n");
  Lowered models = lowered(model, "qnnpack");
  EXPECT_LT(relative_difference(models), 0.02);
  EXPECT_EQ(decision_of(models.report, "aten::clamp").kernel, "the same operator on the quantized tensor");
}

TEST(KernelFaults, AnAddendThatIsReadLaterIsCopied) {
  Module model = testing::user_module("Later");
  for (const char* name : {"first", "conv", "last"}) model.register_module(name, testing::conv2d(3, 3, 3));
  model.define(
      "def forward(self, x):\n  y = self.first.forward(x)\n  z = self.conv.forward(x) + y\n"
      "  return self.last.forward(y) * z\n");
  Lowered models = lowered(model, "onednn", testing::default_mapping_here("onednn"));
  const Engine engine(at::QEngine::ONEDNN);  // this kernel asks for the engine when it runs
  EXPECT_LT(relative_difference(models), 0.03);
  EXPECT_NE(models.module.get_method("forward").graph()->toString().find("aten::clone"), std::string::npos);
}

TEST(KernelFaults, AnAddendThatNobodyReadsLaterIsNotCopied) {
  Module model = testing::user_module("Residual");
  for (const char* name : {"first", "conv"}) model.register_module(name, testing::conv2d(3, 3, 3));
  model.define(
      "def forward(self, x):\n  y = self.first.forward(x)\n  return self.conv.forward(y) + "
      "self.first.forward(x)\n");
  Lowered models = lowered(model, "onednn", testing::default_mapping_here("onednn"));
  EXPECT_EQ(models.module.get_method("forward").graph()->toString().find("aten::clone"), std::string::npos);
  // LibTorch's optimizer would compute first(x) once, and the kernel would write into what it reads.
  const Engine engine(at::QEngine::ONEDNN);
  EXPECT_LT(relative_difference(models), 0.03);
}

TEST(KernelFaults, CopiesOfOneAddendStayTwo) {
  Module model = testing::user_module("Twice");
  for (const char* name : {"first", "a", "b", "last"}) model.register_module(name, testing::conv2d(3, 3, 3));
  model.define(
      "def forward(self, x):\n  y = self.first.forward(x)\n"
      "  z = (self.a.forward(x) + y) * (self.b.forward(x) + y)\n  return z * self.last.forward(y)\n");
  Lowered models = lowered(model, "onednn", testing::default_mapping_here("onednn"));
  const Engine engine(at::QEngine::ONEDNN);
  EXPECT_LT(relative_difference(models), 0.03);
}

at::Tensor linear_of(at::QEngine id, const at::Tensor& x) {
  const Engine engine(id);
  const at::Tensor weight =
      at::quantize_per_tensor(at::randn({3, x.size(-1)}), 0.01, 0, c10::ScalarType::QInt8);
  const c10::IValue packed = call("quantized::linear_prepack", "", {weight, c10::IValue()});
  return call("quantized::linear_dynamic", "", {x, packed, false}).toTensor();
}

TEST(KernelFaults, LinearLayersOfOneDnnLoseTheDimensionsOfEmptyTensors) {
  const at::Tensor empty = at::zeros({2, 0, 8});
  EXPECT_EQ(linear_of(at::QEngine::FBGEMM, empty).sizes(), (std::vector<int64_t>{2, 0, 3}));
  EXPECT_EQ(linear_of(at::QEngine::ONEDNN, empty).sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(linear_of(at::QEngine::ONEDNN, at::zeros({2, 4, 8})).sizes(), (std::vector<int64_t>{2, 4, 3}));
}

/// Of recipe best, for an engine.
Module dynamic(const Module& model, const std::string& engine) {
  const BackendConfig backend =
      mode_backend_config(QuantizeMode::Dynamic, Recipe::Best, backend_config(engine));
  const QConfigMapping mapping = mode_qconfig_mapping(QuantizeMode::Dynamic, Recipe::Best, engine);
  return convert(prepare(model, mapping, backend), backend).module();
}

/// LibTorch's own dynamic layer on a batch without samples.
TEST(KernelFaults, RecurrentLayersOfOneDnnTakeABatchWithoutSamples) {
  const at::NoGradGuard no_grad;
  const std::string gru =
      "torch.gru(x, torch.zeros([1, x.size(1), 5]), [self.w, self.u, self.b, self.b], True, 1, 0.0, "
      "False, False, False)";
  const std::string lstm =
      "torch.lstm(x, [torch.zeros([1, x.size(0), 4]), torch.zeros([1, x.size(0), 4])], "
      "[self.w, self.u, self.b, self.b], True, 1, 0.0, False, False, True)";
  for (const bool is_gru : {true, false}) {
    torch::manual_seed(6);
    const std::int64_t hidden = is_gru ? 5 : 4;
    const std::int64_t rows = is_gru ? 15 : 16;
    Module model = testing::user_module("Recurrent");
    model.register_parameter("w", at::randn({rows, 8}) / 4, false);
    model.register_parameter("u", at::randn({rows, hidden}) / 4, false);
    model.register_parameter("b", at::randn({rows}) / 4, false);
    model.define("def forward(self, x):\n  r = " + (is_gru ? gru : lstm) + "\n  return r[0], r[1]\n");
    for (const std::string engine : {"onednn", "fbgemm"}) {
      Module result = dynamic(model, engine);
      const EngineHold hold(engine_of(backend_config(engine)));
      for (const std::vector<std::int64_t>& sizes :
           {std::vector<std::int64_t>{3, 2, 8},
            is_gru ? std::vector<std::int64_t>{3, 0, 8} : std::vector<std::int64_t>{0, 3, 8}}) {
        const at::Tensor x = at::randn(sizes);
        const auto expected = model.forward({x}).toTuple()->elements().vec();
        const auto got = result.forward({x}).toTuple()->elements().vec();
        for (std::size_t i = 0; i < 2; ++i) {
          ASSERT_EQ(got[i].toTensor().sizes(), expected[i].toTensor().sizes()) << engine << i;
          EXPECT_TRUE(got[i].toTensor().allclose(expected[i].toTensor(), 0.1, 0.1));
        }
      }
    }
  }
}

/// oneDNN's packed params keep the ReLU of their first call.
TEST(KernelFaults, OneLayerWithAndWithoutAReluHasPackedParamsForEach) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(7);
  Module model = testing::user_module("Twice");
  model.register_module("a", testing::linear(8, 16));
  model.define(
      "def forward(self, x):\n"
      "  return self.a.forward(x), torch.relu(self.a.forward(x)), self.a.forward(x * 2.0)\n");
  model.eval();
  const at::Tensor x = torch::randn({4, 8});
  const auto expected = model.forward({x}).toTuple()->elements().vec();
  for (const std::string engine : {"onednn", "x86"}) {
    Module result = dynamic(model, engine);
    const EngineHold hold(engine_of(backend_config(engine)));
    const auto got = result.forward({x}).toTuple()->elements().vec();
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(got[i].toTensor().allclose(expected[i].toTensor(), 0.1, 0.1)) << engine << i;
  }
}

TEST(KernelFaults, AModelKeepsTheDimensionsOfEmptyTensorsOnOneDnn) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(5);
  Module model = testing::user_module("Rows");
  model.register_module("a", testing::linear(8, 16));
  model.register_module("b", testing::linear(16, 4));
  model.define("def forward(self, x):\n  return self.b.forward(torch.relu(self.a.forward(x)))\n");
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    const BackendConfig backend = backend_config("onednn");
    Prepared prepared = prepare(model, default_qconfig_mapping("onednn"), backend, {.recipe = recipe});
    calibrate(prepared, std::vector<Sample>{{torch::randn({4, 8})}});
    Module result = convert(prepared, backend);
    const EngineHold engine(at::QEngine::ONEDNN);
    EXPECT_EQ(result.forward({torch::zeros({2, 0, 8})}).toTensor().sizes(), (std::vector<int64_t>{2, 0, 4}));
    EXPECT_EQ(result.forward({torch::zeros({0, 8})}).toTensor().sizes(), (std::vector<int64_t>{0, 4}));
  }
}

}  // namespace kernel_faults_test
}  // namespace tsq
