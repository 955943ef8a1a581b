// What a compiled program is made of: one primitive for an operation, and no reorder between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/support.h"

namespace tsq::runtime::test {
namespace layout_test {

std::vector<std::string> implementations(const CompiledProgram& program) {
  std::vector<std::string> names;
  for (const auto& step : program.steps()) names.push_back(step.implementation);
  return names;
}

bool is_ours(const std::string& name) { return name.starts_with("tsq:"); }

TEST(Layout, ANetworkHasOneStepForEachOperationAndNoReorder) {
  LoadedProgram program(small_network(1));
  Random random(1);
  const auto compiled = compile(program, {random_tensor(random, Dtype::F32, {1, 3, 32, 32})});
  const auto names = implementations(*compiled);
  ASSERT_EQ(names.size(), 8U);  // the reshape is a view
  EXPECT_EQ(names.front(), "tsq:convert:tiles");
  EXPECT_EQ(std::ranges::count_if(names, is_ours), 2);  // quantize, and the global pool
  EXPECT_EQ(names[6], "tsq:global_pool");
  for (const auto& name : names) EXPECT_EQ(name.find("reorder"), std::string::npos) << name;
}

TEST(Layout, AResidualIsSummedIntoItsOwnMemory) {
  LoadedProgram program(small_network(1));
  Random random(1);
  const auto compiled = compile(program, {random_tensor(random, Dtype::F32, {1, 3, 32, 32})});
  const auto writes = [&](std::size_t step) { return compiled->steps()[step].operands[1].buffer; };
  EXPECT_EQ(writes(5), writes(2));  // the projection, and the block's input
}

/// Also where smoothing divides what layers read, but not the residual.
TEST(Layout, ANormalizationWritesFloatsAndTheirRoundingAtOnce) {
  for (const bool divides : {false, true}) {
    Random random(1);
    Writer writer;
    const int floats =
        writer.add({.kind = Kind::LayerNorm, .inputs = {writer.input(float_value())}}, float_value());
    const Tensor factors = random_tensor(random, Dtype::F32, {70});
    const int read = divides ? writer.add({.kind = Kind::Mul,
                                           .inputs = {floats, writer.constant_value(float_value(), factors)}},
                                          float_value())
                             : floats;
    const Value codes{.dtype = Dtype::U8, .scale = 0.03, .zero_point = 120};
    writer.returns({floats, writer.add({.kind = Kind::Convert, .inputs = {read}}, codes)});
    const std::vector<Tensor> inputs{random_tensor(random, Dtype::F32, {3, 5, 70})};
    LoadedProgram program(writer.model);
    EXPECT_EQ(implementations(*compile(program, inputs)), std::vector<std::string>{"tsq:layer_norm"});
    const auto got = run(program, inputs);
    for (std::size_t i = 0; i < got[0].numbers.size(); ++i) {
      const double number = got[0].numbers[i] * (divides ? factors.numbers[i % 70] : 1);
      EXPECT_NEAR(got[1].numbers[i], std::clamp(std::nearbyint(number / 0.03) + 120, 0.0, 255.0), 1) << i;
    }
  }
}

TEST(Layout, ActivationsAreCopiedWhereAConcatenationCannotBeWrittenInPlaceOnly) {
  Random random(1);
  Writer writer;
  const Value value{.dtype = Dtype::U8, .scale = 0.05};
  const int a = writer.input(value);
  const int b = writer.input(value);
  const int first =
      writer.add({.kind = Kind::Activation, .inputs = {a}, .post_ops = {{.kind = PostOpKind::Relu}}}, value);
  const int second =
      writer.add({.kind = Kind::Activation, .inputs = {b}, .post_ops = {{.kind = PostOpKind::Relu}}}, value);
  const int joined = writer.add({.kind = Kind::Concat, .inputs = {first, second}, .axis = 1}, value);
  writer.returns({writer.add({.kind = Kind::MaxPool, .inputs = {joined}, .kernel = {2, 2}}, value)});
  LoadedProgram program(writer.model);
  const auto compiled = compile(program, {random_tensor(random, Dtype::U8, {1, 4, 6, 6}),
                                          random_tensor(random, Dtype::U8, {1, 7, 6, 6})});
  const auto names = implementations(*compiled);
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 2),
            (std::vector<std::string>{"tsq:lookup", "tsq:lookup"}));
  EXPECT_EQ(compiled->steps()[0].operands[0].buffer, compiled->steps()[1].operands[0].buffer);
  EXPECT_EQ(std::ranges::count(names, "tsq:copy"), 0);
}

/// A dense block: each layer reads all features before it, which lie in the last concatenation. What oneDNN
/// writes without gaps is copied there once.
TEST(Layout, EachFeatureOfADenseBlockIsCopiedOnce) {
  for (const bool anew : {true, false}) {
    Random random(1);
    Writer writer;
    const Value value{.dtype = Dtype::U8, .scale = 0.05, .zero_point = 3};
    std::vector<int> features{
        writer.add({.kind = Kind::MaxPool, .inputs = {writer.input(value)}, .kernel = {2, 2}}, value)};
    int joined = features[0];
    for (std::int64_t channels = 16; channels < 64; channels += 16) {
      Operation layer{.kind = Kind::Activation, .inputs = {joined}, .post_ops = {{.kind = PostOpKind::Relu}}};
      Operation convolution{.kind = Kind::Convolution, .inputs = {writer.add(layer, value)}};
      add_weights(random, writer, convolution, {16, channels, 1, 1}, 16);
      features.push_back(writer.add(convolution, value));
      const std::vector<int> inputs = anew ? features : std::vector{joined, features.back()};
      joined = writer.add({.kind = Kind::Concat, .inputs = inputs, .axis = 1}, value);
    }
    writer.returns({writer.add({.kind = Kind::MaxPool, .inputs = {joined}, .kernel = {2, 2}}, value)});
    LoadedProgram program(writer.model);
    const auto compiled = compile(program, {random_tensor(random, Dtype::U8, {1, 16, 12, 12})});
    EXPECT_EQ(std::ranges::count(implementations(*compiled), "tsq:copy"), std::ssize(features)) << anew;
  }
}

/// Where the parts have scales of their own, what scales the channels reads each from where it lies.
TEST(Layout, AConcatenationBeforeABatchNormIsNotWritten) {
  Random random(1);
  Writer writer;
  const Value value{.dtype = Dtype::U8, .scale = 0.05};
  const Value other{.dtype = Dtype::U8, .scale = 0.07};
  const auto pooled = [&](const Value& type) {
    return writer.add({.kind = Kind::MaxPool, .inputs = {writer.input(type)}, .kernel = {2, 2}}, type);
  };
  const int joined =
      writer.add({.kind = Kind::Concat, .inputs = {pooled(value), pooled(other)}, .axis = 1}, value);
  Operation norm{.kind = Kind::ScaleShift, .inputs = {joined}, .axis = 1};
  norm.weight = writer.constant(random_tensor(random, Dtype::F32, {24}));
  writer.returns(
      {writer.add({.kind = Kind::MaxPool, .inputs = {writer.add(norm, other)}, .kernel = {1, 1}}, other)});
  LoadedProgram program(writer.model);
  const auto names = implementations(*compile(program, {random_tensor(random, Dtype::U8, {1, 8, 12, 12}),
                                                        random_tensor(random, Dtype::U8, {1, 16, 12, 12})}));
  EXPECT_EQ(std::ranges::count(names, "tsq:scale_shift"), 2);
  EXPECT_EQ(std::ranges::count(names, "tsq:convert"), 0);
}

/// Attention: heads are views, and what permutes the context finds it in its own order.
TEST(Layout, AttentionCopiesNothing) {
  Random random(1);
  Writer writer;
  const Value value{.dtype = Dtype::S8, .scale = 0.05};
  const int input = writer.input(value);
  const auto heads = [&](std::vector<std::int64_t> order) {
    Operation linear{.kind = Kind::Linear, .inputs = {input}};
    add_weights(random, writer, linear, {32, 32}, 32);
    const int split = writer.add(
        {.kind = Kind::Reshape, .inputs = {writer.add(linear, value)}, .shape = {0, 0, 4, 8}}, value);
    return writer.add({.kind = Kind::Permute, .inputs = {split}, .order = std::move(order)}, value);
  };
  const int query = heads({0, 2, 1, 3});
  const int key = heads({0, 2, 3, 1});
  const int scores = writer.add(
      {.kind = Kind::Matmul, .inputs = {query, key}, .bounded = true, .alpha = 0.35}, float_value());
  const Value probability{.dtype = Dtype::U8, .scale = 1.0 / 255};
  const int weights = writer.add({.kind = Kind::Softmax, .inputs = {scores}}, probability);
  const int context =
      writer.add({.kind = Kind::Matmul, .inputs = {weights, heads({0, 2, 1, 3})}, .bounded = true}, value);
  const int back = writer.add({.kind = Kind::Permute, .inputs = {context}, .order = {0, 2, 1, 3}}, value);
  const int joined = writer.add({.kind = Kind::Reshape, .inputs = {back}, .shape = {0, 0, 32}}, value);
  Operation out{.kind = Kind::Linear, .inputs = {joined}};
  add_weights(random, writer, out, {32, 32}, 32);
  writer.returns({writer.add(out, float_value())});
  LoadedProgram program(writer.model);
  const auto names = implementations(*compile(program, {random_tensor(random, Dtype::S8, {2, 10, 32})}));
  EXPECT_EQ(std::ranges::count(names, "tsq:copy"), 0);
  // The signed input becomes unsigned once; the softmax may need a step to round.
  EXPECT_LE(std::ranges::count_if(names, is_ours), 2);
}

}  // namespace layout_test
}  // namespace tsq::runtime::test
