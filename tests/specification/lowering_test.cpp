// Rows that a program registers for operators of a library of its own, on models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/script.h>
#include <tsq/lowering.h>
#include <tsq/quantize.h>

#include <nlohmann/json.hpp>

#include "config/expect_error.h"
#include "support/lowered.h"
#include "support/small_models.h"

namespace tsq {
namespace lowering_test {

using c10::ScalarType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using torch::jit::Module;

using Packed = std::vector<at::Tensor>;

Packed prepack(const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return {weight, bias ? *bias : at::zeros({weight.size(0)})};
}
Packed prepack_conv(const at::Tensor& weight, const std::optional<at::Tensor>& bias, at::IntArrayRef stride) {
  return {weight, bias ? *bias : at::zeros({weight.size(0)}), at::tensor(stride[0])};
}
Packed prepack_that_fails(const at::Tensor&, const std::optional<at::Tensor>&) {
  return {std::vector<at::Tensor>{}.at(3)};
}
at::Tensor product(const at::Tensor& x, at::TensorList packed) {
  return at::linear(x, packed[0].dequantize(), packed[1]);
}
at::Tensor rounded(const at::Tensor& x, double scale, int64_t zero_point) {
  return at::quantize_per_tensor(x, scale, zero_point, at::kQUInt8);
}
at::Tensor linear(const at::Tensor& x, at::TensorList packed, double scale, int64_t zero_point) {
  return rounded(product(x.dequantize(), packed), scale, zero_point);
}
at::Tensor linear_relu(const at::Tensor& x, at::TensorList packed, double scale, int64_t zero_point) {
  return rounded(product(x.dequantize(), packed).relu(), scale, zero_point);
}
at::Tensor linear_float(const at::Tensor& x, at::TensorList packed) {
  return product(x.dequantize(), packed);
}
at::Tensor conv(const at::Tensor& x, at::TensorList packed, double scale, int64_t zero_point) {
  const int64_t stride = packed[2].item<int64_t>();
  return rounded(at::conv2d(x.dequantize(), packed[0].dequantize(), packed[1], {stride, stride}), scale,
                 zero_point);
}
at::Tensor cat(at::TensorList parts, int64_t dim, double scale, int64_t zero_point) {
  std::vector<at::Tensor> floats;
  for (const at::Tensor& part : parts) floats.push_back(part.dequantize());
  return rounded(at::cat(floats, dim), scale, zero_point);
}
at::Tensor add(const at::Tensor& a, const at::Tensor& b, double scale, int64_t zero_point) {
  return rounded(a.dequantize() + b.dequantize(), scale, zero_point);
}
at::Tensor flatten(const at::Tensor& x, int64_t begin) { return at::flatten(x, begin); }

TORCH_LIBRARY(chip, library) {
  library.def("prepack(Tensor weight, Tensor? bias) -> Tensor[]", prepack);
  library.def("prepack_conv(Tensor weight, Tensor? bias, int[] stride) -> Tensor[]", prepack_conv);
  library.def("prepack_that_fails(Tensor weight, Tensor? bias) -> Tensor[]", prepack_that_fails);
  library.def("linear(Tensor x, Tensor[] packed, float scale, int zero_point) -> Tensor", linear);
  library.def("linear_relu(Tensor x, Tensor[] packed, float scale, int zero_point) -> Tensor", linear_relu);
  library.def("linear_float(Tensor x, Tensor[] packed) -> Tensor", linear_float);
  library.def("linear_of_float(Tensor x, Tensor[] packed) -> Tensor", product);
  library.def("conv(Tensor x, Tensor[] packed, float scale, int zero_point) -> Tensor", conv);
  library.def("cat(Tensor[] parts, int dim, float scale, int zero_point) -> Tensor", cat);
  library.def("add(Tensor a, Tensor b, float scale, int zero_point) -> Tensor", add);
  library.def("flatten(Tensor x, int begin) -> Tensor", flatten);
  library.def("two(Tensor x) -> (Tensor, Tensor)", [](const at::Tensor& x) { return std::make_tuple(x, x); });
}

const Symbol kLinear = symbol("torch.nn.Linear");
const Symbol kReLU = symbol("torch.nn.ReLU");
const Symbol kFunctionalLinear = symbol("torch.nn.functional.linear");

/// An accelerator with rows of its own alone; each test names another, since rows stay for the process.
BackendConfig chip(const std::string& name, const std::vector<LoweringRow>& rows) {
  if (lowering_rows(name).empty()) {
    for (LoweringRow row : rows) {
      row.backend = name;
      register_lowering(std::move(row));
    }
  }
  return backend_config("x86").set_name(name).set_falls_back_to_libtorch(false);
}

Module model_of(const std::string& forward) {
  torch::manual_seed(1);
  Module model = testing::user_module("Model");
  model.register_module("fc", testing::linear(8, 8));
  model.register_module("relu", testing::relu());
  model.register_parameter("w", torch::randn({8, 8}), /*is_buffer=*/false);
  model.register_parameter("b", torch::randn({8}), /*is_buffer=*/false);
  model.register_parameter("k", torch::randn({4, 2, 2, 2}), /*is_buffer=*/false);
  model.define("def forward(self, x):\n  return " + forward + "\n");
  return model;
}

struct Result {
  at::Tensor reference;
  at::Tensor lowered;
  Report report;
};

Result quantized(const Module& model, const BackendConfig& backend, const at::Tensor& input,
                 const QConfigMapping& mapping = default_qconfig_mapping("x86")) {
  const at::NoGradGuard no_grad;
  Prepared prepared = prepare(model, mapping, backend, {.recipe = Recipe::Fx});
  const std::vector<Sample> samples{{input}};
  calibrate(prepared, samples);
  const Reference reference = convert_to_reference(prepared, backend);
  Result result;
  Module lowered = testing::lowered(reference, backend, &result.report);
  Module exact = reference.module();
  result.reference = exact.forward({input}).toTensor();
  result.lowered = lowered.forward({input}).toTensor();
  return result;
}

/// "linear_relu linear_relu -": the chip's operators that the model's became; float ones are "-".
std::string kernels_of(const Report& report) {
  std::string text;
  for (const Decision& decision : report.decisions) {
    const std::string kernel = decision.kernel.empty() ? "-" : decision.kernel;
    text += (text.empty() ? "" : " ") + kernel.substr(kernel.rfind(':') + 1);
  }
  return text;
}

void expect_lowered(const Result& result, const std::string& kernels) {
  EXPECT_EQ(kernels_of(result.report), kernels);
  EXPECT_TRUE(at::equal(result.lowered, result.reference));
}

at::Tensor rows() { return torch::rand({16, 8}) * 2 - 1; }

TEST(RegisteredRows, FunctionsWithWeightsArePacked) {
  const BackendConfig backend =
      chip("functions", {{.op = kFunctionalLinear, .kernel = "chip::linear", .prepack = "chip::prepack"},
                         {.op = symbol("torch.nn.functional.conv2d"),
                          .kernel = "chip::conv",
                          .prepack = "chip::prepack_conv"}});
  expect_lowered(quantized(model_of("torch.linear(x, self.w, self.b)"), backend, rows()), "linear");
  expect_lowered(quantized(model_of("torch.linear(x, self.w)"), backend, rows()), "linear");
  expect_lowered(
      quantized(model_of("torch.conv2d(x, self.k, None, [2, 2])"), backend, torch::rand({2, 2, 6, 6})),
      "conv");
}

TEST(RegisteredRows, LongerPatternsGoBeforeShorterOnesWhateverTheirOrder) {
  const BackendConfig backend = chip(
      "pairs",
      {{.op = kFunctionalLinear, .kernel = "chip::linear", .prepack = "chip::prepack"},
       {.op = chain({kFunctionalLinear, kReLU}), .kernel = "chip::linear_relu", .prepack = "chip::prepack"},
       {.op = kFunctionalLinear, .kernel = "chip::linear", .prepack = "chip::prepack"}});
  expect_lowered(
      quantized(model_of("torch.linear(self.relu.forward(torch.linear(x, self.w, self.b)), self.w)"), backend,
                rows()),
      "linear_relu linear_relu linear");
}

TEST(RegisteredRows, ListsOfTensorsAndDefaultsOfTheOperator) {
  const BackendConfig backend =
      chip("lists", {{.op = symbol("torch.cat"), .kernel = "chip::cat"},
                     {.op = symbol("torch.add"), .kernel = "chip::add"},
                     {.op = kLinear, .kernel = "chip::linear", .prepack = "chip::prepack"}});
  expect_lowered(quantized(model_of("torch.cat([self.fc.forward(x), x], 1)"), backend, rows()), "linear cat");
  expect_lowered(quantized(model_of("torch.add(self.fc.forward(x), x)"), backend, rows()), "linear add");
}

TEST(RegisteredRows, AKernelWithoutScaleKeepsThatOfItsInput) {
  const BackendConfig backend = chip("keeps", {{.op = symbol("torch.flatten"), .kernel = "chip::flatten"}});
  expect_lowered(quantized(model_of("torch.flatten(x, 1)"), backend, torch::rand({2, 4, 8})), "flatten");
}

TEST(RegisteredRows, DynamicLayersReadFloatTensors) {
  const BackendConfig backend = chip("dynamic", {{.op = kLinear,
                                                  .kernel = "chip::linear_of_float",
                                                  .prepack = "chip::prepack",
                                                  .form = LoweringForm::Dynamic}});
  const QConfigMapping mapping = dynamic_qconfig_mapping();
  const Result result = quantized(model_of("self.fc.forward(x)"), backend, rows(), mapping);
  EXPECT_EQ(kernels_of(result.report), "linear_of_float");
  EXPECT_TRUE(at::allclose(result.lowered, result.reference, /*rtol=*/0, /*atol=*/0.05));
}

TEST(RegisteredRows, WeightsAloneAreRounded) {
  BackendConfig backend = with_weight_only(chip("weights", {{.op = kLinear,
                                                             .kernel = "chip::linear_of_float",
                                                             .prepack = "chip::prepack",
                                                             .form = LoweringForm::WeightOnly}}));
  backend.set_name("weights").set_falls_back_to_libtorch(false);
  const QConfigMapping mapping = weight_only_qconfig_mapping(8);
  expect_lowered(quantized(model_of("self.fc.forward(x)"), backend, rows(), mapping), "linear_of_float");
}

TEST(RegisteredRows, WhatNoRowTakesStaysReferenceWhereTheTableSaysSo) {
  const BackendConfig backend =
      chip("alone", {{.op = kLinear, .kernel = "chip::linear", .prepack = "chip::prepack"}});
  const Module model = model_of("torch.add(self.fc.forward(x), x)");
  const Result result = quantized(model, backend, rows());
  expect_lowered(result, "linear -");
  EXPECT_THAT(result.report.decisions.back().reason, HasSubstr("no lowering row of the backend 'alone'"));
  BackendConfig with_libtorch = backend;
  with_libtorch.set_falls_back_to_libtorch(true);
  EXPECT_EQ(kernels_of(quantized(model, with_libtorch, rows()).report), "linear add");
}

/// "operators: reason" of the rows that have lowered nothing.
std::vector<std::string> unmatched(const Report& report) {
  std::vector<std::string> texts;
  for (const UnmatchedLowering& row : report.unmatched_lowering) texts.push_back(row.row + ": " + row.reason);
  return texts;
}

TEST(RegisteredRows, ThoseThatLowerNothingAreToldAndWhy) {
  const LoweringRow fused{
      .op = chain({kLinear, kReLU}), .kernel = "chip::linear_relu", .prepack = "chip::prepack"};
  const LoweringRow dynamic{.op = kLinear,
                            .kernel = "chip::linear_of_float",
                            .prepack = "chip::prepack",
                            .form = LoweringForm::Dynamic};
  const LoweringRow used{.op = kLinear, .kernel = "chip::linear", .prepack = "chip::prepack"};
  const LoweringRow absent{.op = symbol("torch.cat"), .kernel = "chip::cat"};
  const BackendConfig backend = chip("unmatched", {fused, dynamic, used, absent});
  const Report report = quantized(model_of("self.fc.forward(x)"), backend, rows()).report;
  EXPECT_THAT(unmatched(report),
              UnorderedElementsAre(
                  "torch.nn.ReLU(torch.nn.Linear): the table fuses these operators, write the row "
                  "for 'torch.ao.nn.intrinsic.LinearReLU'",
                  "torch.nn.Linear: of the operators that it matches none is rounded as form Dynamic "
                  "has it",
                  "torch.cat: the model has no such operators"));
  EXPECT_THAT(report.to_text(), HasSubstr("note: the lowering row 'torch.cat' for chip::cat lowers nothing"));
  EXPECT_EQ(report.to_json()["unmatched_lowering"].size(), 3U);
}

TEST(RegisteredRows, ARowWhoseOperatorsAnotherRowLowersIsToldSo) {
  const LoweringRow row{.op = kLinear, .kernel = "chip::linear", .prepack = "chip::prepack"};
  const Report report = quantized(model_of("self.fc.forward(x)"), chip("twice", {row, row}), rows()).report;
  EXPECT_THAT(unmatched(report),
              ElementsAre("torch.nn.Linear: other rows lower all operators that it matches"));
}

TEST(RegisteredRows, AKernelThatReturnsSeveralTensorsIsRefused) {
  expect_error_with("'chip::two' of a lowering row does not return one tensor",
                    [] { register_lowering({.backend = "several", .op = kLinear, .kernel = "chip::two"}); });
}

TEST(RegisteredRows, FaultsNameLayerRowAndOperator) {
  const auto quantize = [](const std::string& name, const LoweringRow& row) {
    quantized(model_of("self.fc.forward(x)"), chip(name, {row}), rows());
  };
  expect_error_with(
      "layer 'fc' (torch.nn.Linear): the packing operator chip::prepack_that_fails of the row "
      "'torch.nn.Linear' "
      "failed: "
      "it asks for an element that is not there",
      [&] {
        quantize("fails", {.op = kLinear, .kernel = "chip::linear", .prepack = "chip::prepack_that_fails"});
      });
  expect_error_with("the kernel chip::add takes 4 arguments, and the row 'torch.nn.Linear' has 3 for it",
                    [&] { quantize("arguments", {.op = kLinear, .kernel = "chip::add"}); });
}

}  // namespace lowering_test
}  // namespace tsq
