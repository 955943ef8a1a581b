// Which operators the table knows: passes leave what it does not know alone, or in float. LibTorch itself
// shows what each operator here does, so that nothing is asked of the table that is not true.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "operators/operator_calls.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace known_operators_test {

using namespace calls;

/// Stands for a row, which the table need not have.
OperatorTraits named(std::string_view name) { return {.name = name}; }
Tensor result_of_name(std::string_view name, const Tensors& tensors) { return result(named(name), tensors); }
Tensor image(std::string_view name) { return operand(named(name)); }

const OperatorTraits* known(std::string_view name) {
  return find(name.find(':') == std::string_view::npos ? "aten::" + std::string(name) : std::string(name));
}

/// The words of a text.
std::vector<std::string> names(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Whether each value of the result is one of the operand, whatever the values are.
bool selects_by_place(std::string_view name, const Tensor& x) {
  const Tensor y = result_of_name(name, {x});
  return are_of(y, x) && at::equal(result_of_name(name, {-x}), -y);
}

TEST_F(TraitsTest, OperatorsThatOnlyReshapeAreKnown) {
  for (const std::string& name :
       names("view view_as reshape reshape_as flatten unflatten ravel unsqueeze squeeze contiguous "
             "clone alias detach")) {
    const Tensor x = image(name);
    ASSERT_TRUE(selects_by_place(name, x)) << name;
    ASSERT_TRUE(at::equal(result_of_name(name, {x}).flatten(), x.flatten())) << name;
    EXPECT_TRUE(only_reshapes(known(name))) << name;
  }
}

TEST_F(TraitsTest, OperatorsThatMoveValuesAreKnown) {
  for (const std::string& name :
       names("transpose permute movedim t flip roll rot90 pixel_shuffle pixel_unshuffle "
             "channel_shuffle slice select narrow diagonal chunk split split_with_sizes "
             "tensor_split unbind index index_select gather expand expand_as broadcast_to repeat "
             "tile repeat_interleave upsample_nearest1d upsample_nearest2d upsample_nearest3d "
             "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
             "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
             "replication_pad2d replication_pad3d")) {
    ASSERT_TRUE(selects_by_place(name, image(name))) << name;
    EXPECT_TRUE(moves_values(known(name))) << name;
    EXPECT_FALSE(only_reshapes(known(name))) << name;
  }
}

TEST_F(TraitsTest, OperatorsThatJoinOrChooseValuesAreKnown) {
  for (const std::string& name :
       names("cat stack max_pool1d max_pool2d max_pool3d amax amin maximum minimum")) {
    const Tensors tensors{image(name), image(name)};
    ASSERT_TRUE(are_of(result_of_name(name, tensors), at::cat(tensors))) << name;
    EXPECT_TRUE(commutes_with_rounding(known(name))) << name;
    EXPECT_FALSE(moves_values(known(name))) << name;
  }
}

TEST_F(TraitsTest, OperatorsThatFillInAConstantAreKnown) {
  for (const std::string& name : names("pad constant_pad_nd masked_fill tril triu")) {
    const Tensor x = image(name);
    const Tensor y = bits(result_of_name(name, {x}));
    const Tensor filled = at::isin(y, bits(x)).logical_not();
    ASSERT_TRUE(filled.any().item<bool>() && filled.logical_not().any().item<bool>()) << name;
    ASSERT_EQ(std::get<0>(at::_unique(y.masked_select(filled))).numel(), 1) << name;
    ASSERT_NE(known(name), nullptr) << name;
    EXPECT_EQ(known(name)->values, Values::Filled) << name;
  }
}

TEST_F(TraitsTest, OperatorsThatConvertValuesAreKnown) {
  for (const std::string& name : names("to type_as")) {
    const Tensor x = image(name);
    const Tensor y = result_of_name(name, {x});
    ASSERT_TRUE(y.scalar_type() != x.scalar_type() && at::equal(y, x.to(y.scalar_type()))) << name;
    ASSERT_NE(known(name), nullptr) << name;
    EXPECT_EQ(known(name)->values, Values::Converted) << name;
  }
}

TEST_F(TraitsTest, OperatorsThatDoNothingInEvaluationAreKnown) {
  for (const std::string& name : names("dropout alpha_dropout feature_dropout feature_alpha_dropout")) {
    const Tensor x = image(name);
    ASSERT_TRUE(at::equal(result_of_name(name, {x}), x)) << name;
    EXPECT_TRUE(has(known(name), IsIdentity)) << name;
  }
  EXPECT_TRUE(has(find("torch.nn.Identity"), IsIdentity));
}

/// Whether an operator does the same in all places, and looks at no others: it computes a number at a time.
bool computes_number_by_number(std::string_view name, bool of_two) {
  const OperatorTraits row = named(name);
  const Tensor places = at::randperm(2 * 4 * 6 * 8);
  Tensors tensors;
  Tensors moved;
  for (int i = 0; i < 2; ++i) {
    const Tensor values = random_values(row, {2, 4, 6, 8});
    tensors.push_back(as_operand(row, values));
    moved.push_back(as_operand(row, values.flatten().index_select(0, places).view(values.sizes())));
  }
  const Tensor y = as_float(result(row, tensors)).flatten().index_select(0, places);
  const bool reads_two =
      !is_near(as_float(result(row, {tensors[0], tensors[0]})), as_float(result(row, tensors)));
  return is_near(as_float(result(row, moved)).flatten(), y) && reads_two == of_two;
}

TEST_F(TraitsTest, FunctionsOfANumberAreKnown) {
  for (const std::string& name :
       names("relu relu6 hardtanh clamp clamp_min clamp_max leaky_relu elu celu selu softplus "
             "log_sigmoid sigmoid tanh hardsigmoid hardswish silu mish gelu hardshrink softshrink "
             "neg abs sign floor ceil round trunc square exp expm1 sin cos sinh atan erf erfc log "
             "log2 log10 log1p sqrt rsqrt reciprocal asin acos asinh acosh atanh erfinv logit "
             "lgamma digamma quantize_per_tensor dequantize int_repr "
             "_make_per_tensor_quantized_tensor quantized::elu quantized::hardswish "
             "quantized::leaky_relu")) {
    ASSERT_TRUE(computes_number_by_number(name, false)) << name;
    EXPECT_TRUE(is_elementwise(known(name))) << name;
  }
}

TEST_F(TraitsTest, FunctionsOfTwoNumbersAreKnown) {
  for (const std::string& name :
       names("add sub rsub mul div xlogy maximum minimum quantized::add quantized::add_relu "
             "quantized::mul quantized::mul_relu")) {
    ASSERT_TRUE(computes_number_by_number(name, true)) << name;
    EXPECT_TRUE(has(known(name), ElementwiseOfTwo)) << name;
  }
}

TEST_F(TraitsTest, SumsOfProductsPassFactors) {
  for (const std::string& name :
       names("matmul bmm mm mean sum cumsum avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
             "adaptive_avg_pool2d adaptive_avg_pool3d mul neg")) {
    const Tensors tensors{image(name), image(name)};
    const Tensor y = result_of_name(name, tensors);
    ASSERT_TRUE(at::allclose(result_of_name(name, {tensors[0] * -3, tensors[1]}), y * -3, 1e-4, 1e-4))
        << name;
    EXPECT_TRUE(has(known(name), PassesFactors)) << name;
  }
}

TEST_F(TraitsTest, WhatNormalisesKeepsTheShape) {
  for (const std::string& name :
       names("softmax log_softmax layer_norm group_norm batch_norm instance_norm prelu cumsum")) {
    const Tensor x = image(name);
    ASSERT_EQ(result_of_name(name, {x}).sizes(), x.sizes()) << name;
    EXPECT_TRUE(has(known(name), KeepsShape)) << name;
  }
}

TEST_F(TraitsTest, QuestionsOfTheShapeAreKnown) {
  for (const std::string& name : names("size dim numel len")) {
    const Tensor x = image(name);
    ASSERT_EQ(result_of(name, {x}), result_of(name, {x + 1})) << name;
    EXPECT_TRUE(has(known(name), ReadsShapeOnly)) << name;
  }
}

}  // namespace known_operators_test
}  // namespace tsq::operators
