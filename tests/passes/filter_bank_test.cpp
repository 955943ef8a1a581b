// Convolutions that slide over one channel and that float operators read: an STFT and its like.

#include <gtest/gtest.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include <algorithm>

#include "passes/tune/passes.h"
#include "support/machine_profiles.h"
#include "support/pass_model.h"
#include "support/small_models.h"

namespace tsq {
namespace filter_bank_test {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

constexpr int64_t kLength = 16;

/// `forward` may use the filters `basis` and a linear layer that reads 8 features.
Module spectrum(const std::string& forward) {
  torch::manual_seed(3);
  Module model = testing::user_module("Spectrum");
  model.register_buffer("basis", torch::randn({8, 1, kLength}));
  model.register_module("head", testing::linear(8, 4));
  model.define("def forward(self, x):\n" + forward);
  return model;
}

const std::string kMagnitude =
    "  y = torch.conv1d(x, self.basis, None, [8])\n"
    "  return self.head.forward(torch.sqrt(y * y).transpose(-1, -2))\n";

const std::string kOverlapping =
    "  y = torch.conv1d(x, self.basis, None, [1])\n"
    "  return self.head.forward(torch.sqrt(y * y).transpose(-1, -2))\n";

std::vector<Sample> signals(const std::vector<int64_t>& shape) {
  torch::manual_seed(4);
  return {{torch::randn(shape)}, {torch::randn(shape)}};
}

Module quantized(const Module& model, const std::vector<Sample>& samples, const QConfigMapping& mapping,
                 Report* report = nullptr) {
  Prepared prepared = prepare(model, mapping, backend_config("x86"), {.machine = testing::slow_in_float()});
  calibrate(prepared, samples);
  if (report != nullptr) *report = prepared.report();
  return convert(prepared, backend_config("x86"));
}

std::string graph_of(const Module& module) { return module.get_method("forward").graph()->toString(); }

TEST(FilterBank, ThatFloatOperatorsReadStaysFloatAsALinearLayerOverWindows) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 1, 64}, std::vector<int64_t>{1, 64}}) {
    Module model = spectrum(kMagnitude);
    const std::vector<Sample> samples = signals(shape);
    Report report;
    Module int8 = quantized(model, samples, best_qconfig_mapping("x86"), &report);
    FileCheck()
        .check_not("conv1d")
        ->check("aten::unfold")
        ->check("aten::linear")
        ->check_not("aten::linear")
        ->run(graph_of(int8));
    const auto entry = std::ranges::find(report.decisions, "aten::conv1d", &Decision::op);
    ASSERT_NE(entry, report.decisions.end());
    EXPECT_NE(entry->reason.find("filter bank"), std::string::npos) << entry->reason;
    const at::Tensor wanted = model.forward(samples.front()).toTensor();
    const at::Tensor given = int8.forward(samples.front()).toTensor();
    ASSERT_EQ(given.sizes(), wanted.sizes());
    EXPECT_LT((given - wanted).norm().item<double>(), 0.03 * wanted.norm().item<double>());
  }
}

TEST(FilterBank, ThatAQuantizedOperatorReadsIsQuantized) {
  const Module model =
      spectrum("  return self.head.forward(torch.conv1d(x, self.basis, None, [8]).transpose(-1, -2))\n");
  FileCheck()
      .check("quantized::conv2d")
      ->check_not("aten::unfold")
      ->run(graph_of(quantized(model, signals({2, 1, 64}), best_qconfig_mapping("x86"))));
}

TEST(FilterBank, WhoseOutputIsSquaredStaysFloatWhateverItReads) {
  torch::manual_seed(5);
  Module model = testing::user_module("Energy");
  model.register_module("frames", testing::linear(kLength, 8));
  model.register_module("head", testing::linear(8, 4));
  model.define(
      "def forward(self, x):\n"
      "  y = self.frames.forward(x).transpose(-1, -2)\n"
      "  return self.head.forward(torch.sqrt(y * y).transpose(-1, -2))\n");
  FileCheck()
      .check("aten::linear")
      ->check("aten::sqrt")
      ->check("quantized::linear")
      ->check_not("quantized::linear")
      ->run(graph_of(quantized(model, signals({6, kLength}), best_qconfig_mapping("x86"))));
}

TEST(FilterBank, WhoseWindowsWouldTakeMuchMemoryStaysAConvolution) {
  const Module model = spectrum(kOverlapping);
  FileCheck()
      .check("aten::conv1d")
      ->check_not("aten::unfold")
      ->run(graph_of(quantized(model, signals({2, 1, 64}), best_qconfig_mapping("x86"))));
}

TEST(FilterBank, OfManyCopiesIsReadByAnInt8KernelThatGivesFloatOrStaysFloat) {
  torch::manual_seed(6);
  Module model = testing::user_module("Correlation");
  model.register_buffer("filter", torch::randn({1, 1, 65}));
  model.register_module("head", testing::linear(64, 64));
  model.define(
      "def forward(self, x):\n"
      "  return torch.softmax(torch.conv1d(self.head.forward(x), self.filter, None, [1], [32]), -1)\n");
  const std::vector<Sample> samples = signals({6, 1, 64});
  const auto lowered = [&](const char* engine) {
    Prepared prepared = prepare(model, best_qconfig_mapping(engine), backend_config(engine),
                                {.machine = testing::slow_in_float()});
    calibrate(prepared, samples);
    return graph_of(convert(prepared, backend_config(engine)));
  };
  FileCheck().check("onednn::qconv2d_pointwise")->check_not("aten::quantize")->run(lowered("x86"));
  FileCheck().check_not("quantized::conv")->check("aten::conv1d")->run(lowered("fbgemm"));
}

TEST(FilterBank, IsLeftAloneWhereTheModelChangesIt) {
  const Module model = spectrum(
      "  y = torch.conv1d(x, self.basis, None, [8])\n"
      "  self.basis = self.basis * 0.5\n"
      "  return self.head.forward(torch.sqrt(y * y).transpose(-1, -2))\n");
  FileCheck()
      .check("conv1d")
      ->check_not("aten::unfold")
      ->run(graph_of(quantized(model, signals({2, 1, 64}), best_qconfig_mapping("x86"))));
}

TEST(FilterBank, OfAModelInWhichNothingIsQuantizedIsLeftAlone) {
  QConfigMapping nothing;
  nothing.set_global(std::nullopt);
  FileCheck()
      .check("aten::conv1d")
      ->check_not("aten::unfold")
      ->run(graph_of(quantized(spectrum(kMagnitude), signals({2, 1, 64}), nothing)));
}

TEST(WindowFilterBanks, ThePassPutsALinearLayerOverWindowsInTheirPlace) {
  ir::Model model = testing::normalised(spectrum(kMagnitude));
  model.records.push_back({.is_reported = true, .decision = {.quantized = true}});
  EXPECT_TRUE(passes::window_filter_banks(model, {}));
  FileCheck().check_not("conv1d")->check("aten::unfold")->check("aten::linear")->run(*model.graph);
}

TEST(WindowFilterBanks, ThePassLeavesThoseOfManyCopiesAndModelsWithoutQuantizedOperators) {
  ir::Model overlapping = testing::normalised(spectrum(kOverlapping));
  overlapping.records.push_back({.is_reported = true, .decision = {.quantized = true}});
  EXPECT_FALSE(passes::window_filter_banks(overlapping, {}));
  ir::Model in_float = testing::normalised(spectrum(kMagnitude));
  EXPECT_FALSE(passes::window_filter_banks(in_float, {}));
  FileCheck().check("aten::conv1d")->check_not("aten::unfold")->run(*in_float.graph);
}

}  // namespace filter_bank_test
}  // namespace tsq
