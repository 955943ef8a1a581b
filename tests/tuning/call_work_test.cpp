// The work of a call, out of what it takes and returns.
#include "backends/kernels/call_work.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "backends/kernels/time_rows.h"
#include "tuning/kernel_call.h"
#include "tuning/random_tensors.h"

namespace tsq::kernels {
namespace call_work_test {

using Numbers = std::vector<std::int64_t>;

KernelWork work_of(const std::string& name, const std::vector<c10::IValue>& arguments) {
  return work_of_call(tuning::base_name(name), arguments, tuning::Operator(name).call(arguments));
}

std::string row_of(std::string_view kernel, const KernelWork& work) {
  return name_of(time_rows(kernel, work).front(), "x86");
}

TEST(CallWork, AConvolutionIsTheSameInFloatAndInCodes) {
  const at::Tensor x = at::randn({2, 16, 9, 9});
  const at::Tensor weight = at::randn({32, 8, 3, 3});
  const Numbers two{2, 2};
  const Numbers one{1, 1};
  const KernelWork in_float =
      work_of("aten::conv2d", {x, weight, c10::IValue(), two, one, one, std::int64_t{2}});
  EXPECT_EQ(in_float.rows, 2 * 5 * 5);
  EXPECT_EQ(in_float.groups, 2);
  EXPECT_EQ(in_float.inputs, 8);
  EXPECT_EQ(in_float.outputs, 16);
  EXPECT_EQ(in_float.taps, 9);
  EXPECT_TRUE(in_float.is_same && in_float.is_strided);
  const c10::IValue packed = tuning::Operator("quantized::conv2d_prepack")(
      {tuning::quantize_weight(weight), c10::IValue(), two, one, one, std::int64_t{2}});
  EXPECT_EQ(
      work_of("quantized::conv2d.new", {tuning::quantize(x), packed, tuning::kScale, tuning::kZeroPoint}),
      in_float);
}

TEST(CallWork, EachValueOfATransposedConvolutionMeetsAllTaps) {
  const Numbers two{2, 2};
  const Numbers none{0, 0};
  const Numbers one{1, 1};
  const KernelWork work =
      work_of("aten::conv_transpose2d.input", {at::randn({1, 8, 4, 4}), at::randn({8, 3, 2, 2}),
                                               c10::IValue(), two, none, none, std::int64_t{1}, one});
  EXPECT_EQ(work.rows, 16);
  EXPECT_EQ(work.inputs, 8);
  EXPECT_EQ(work.outputs, 3);
  EXPECT_EQ(work.values_out, 3 * 8 * 8);
}

TEST(CallWork, RowsOfALayerAreAllThatIsNotItsInput) {
  const KernelWork work = work_of("aten::linear", {at::randn({2, 5, 8}), at::randn({3, 8}), c10::IValue()});
  EXPECT_EQ(work.rows, 10);
  EXPECT_EQ(work.inputs, 8);
  EXPECT_EQ(work.outputs, 3);
  EXPECT_EQ(work.weights, 24);
}

TEST(CallWork, ABatchOfProductsIsSoManyGroups) {
  const KernelWork work = work_of("aten::bmm", {at::randn({6, 4, 8}), at::randn({6, 8, 5})});
  EXPECT_EQ(work.groups, 6);
  EXPECT_EQ(work.rows, 4);
  EXPECT_EQ(work.inputs, 8);
  EXPECT_EQ(work.outputs, 5);
}

TEST(TimeRows, AConvolutionHasTheRowOfItsKind) {
  ConvolutionSizes sizes{.input = {1, 128, 8, 8},
                         .output = {1, 128, 8, 8},
                         .weight = {128, 1, 3, 3},
                         .padding = {1, 1},
                         .groups = 128};
  EXPECT_EQ(row_of("quantized::conv2d", convolution_work(sizes)), "x86 quantized::conv2d wide depthwise");
  sizes.padding = {0, 0};
  EXPECT_EQ(row_of("quantized::conv2d", convolution_work(sizes)), "x86 quantized::conv2d wide odd depthwise");
  sizes.weight = {128, 128, 1, 1};
  sizes.groups = 1;
  EXPECT_EQ(row_of("quantized::conv2d_relu", convolution_work(sizes)), "x86 quantized::conv2d pointwise");
}

TEST(TimeRows, OperatorsInPlaceTakeAsLongAsOthers) {
  EXPECT_EQ(time_rows("aten::relu_", {}).front().kernel, "aten::relu");
}

}  // namespace call_work_test
}  // namespace tsq::kernels
