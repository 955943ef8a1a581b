// Programs that no writer of ours writes: each is refused with a sentence, before anything is built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "runtime/program/error.h"
#include "runtime/program/program_json.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace untrusted_program_test {

using testing::HasSubstr;
constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();

/// What reading, loading or calling says; empty where all is well.
std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const ProgramError& error) {
    return error.what();
  }
  return "";
}

/// A program of one operation on a float tensor, whose other members stand in `operation`.
std::string json_of(const std::string& operation, const std::string& more = "") {
  return R"({"version": 1, "values": [{"dtype": "f32"}, {"dtype": "f32"}, {"dtype": "f32"}], "inputs": [0, 2], "outputs": [1], )" +
         more + R"("operations": [{"inputs": [0], "output": 1, )" + operation + "}]}";
}

Tensor zeros(const Shape& sizes) {
  return {Dtype::F32, sizes, std::vector<double>(static_cast<std::size_t>(elements_of(sizes)))};
}

/// What is said about such a program that is called with a tensor of these sizes.
std::string fault_of(const std::string& json, const Shape& sizes = {2, 3}) {
  return refusal([&] {
    LoadedProgram program({.program = program_from_json(json)});
    (void)run(program, {zeros(sizes), zeros({1})});
  });
}

TEST(UntrustedProgram, PostOpsHaveTheMembersOfTheirRow) {
  const auto post_op = [](const std::string& text) {
    return fault_of(json_of(R"("kind": "activation", "post_ops": [)" + text + "]"));
  };
  EXPECT_EQ(post_op(R"({"kind": "relu"})"), "");
  EXPECT_THAT(post_op(R"({"kind": "relu", "value": 1000000})"),
              HasSubstr("operation 0 (activation), post-op 0: it has no member 'value'"));
  EXPECT_THAT(post_op(R"({"kind": "relu", "alpha": 1})"), HasSubstr("it has no member 'alpha'"));
  EXPECT_THAT(post_op(R"({"kind": "elu", "alpha": 1, "beta": 1})"), HasSubstr("it has no member 'beta'"));
  EXPECT_THAT(post_op(R"({"kind": "add", "alpha": 1, "value": 0})"), HasSubstr("it has no member 'alpha'"));
  EXPECT_THAT(post_op(R"({"kind": "clamp", "alpha": 2, "beta": 1})"),
              HasSubstr("post-op 'clamp' has an alpha above its beta: write the lower bound as alpha"));
  EXPECT_THAT(post_op(R"({"kind": "pow", "alpha": 1e300})"),
              HasSubstr("a number of post-op 'pow' is no float of 32 bits"));
  Writer writer = {};
  const int input = writer.input({});
  writer.returns({writer.add({.kind = Kind::Activation,
                              .inputs = {input},
                              .post_ops = {{.kind = PostOpKind::Relu, .value = 1'000'000}}},
                             {})});
  EXPECT_THAT(
      refusal([&] { const LoadedProgram program(writer.model); }),
      HasSubstr("operation 0 (activation): post-op 'relu' has a value: only 'add' and 'mul' read one"));
}

struct Fault {
  std::string operation;
  std::string sentence;
  Shape sizes{2, 3};
};

TEST(UntrustedProgram, NumbersOfAttributesLieWithinTheirLimits) {
  const std::string pool = R"("kind": "max_pool", "kernel": [2, 2], )";
  const Shape image{1, 1, 4, 4};
  const std::vector<Fault> faults{
      {R"("kind": "softmax", "axis": 7)", "its axis 7 is none of 2 dimensions"},
      {R"("kind": "softmax", "axis": -3)", "its axis -3 is none of 2 dimensions"},
      {R"("kind": "softmax", "axis": -9223372036854775808)",
       "its axis holds -9223372036854775808: numbers from -64 to 63"},
      {R"("kind": "softmax")", "its axis -1 is none of 0 dimensions", {}},
      {R"("kind": "concat", "axis": 2)", "its axis 2 is none of 2 dimensions"},
      {R"("kind": "transpose", "axis": 0, "other_axis": 5)", "its axis 5 is none of 2 dimensions"},
      {R"("kind": "flatten", "axis": 1, "end_axis": 0)", "its end_axis stands before its axis"},
      {R"("kind": "unsqueeze", "axis": 3)", "its axis 3 is none of 3 dimensions"},
      {R"("kind": "pad", "padding_begin": [4611686018427387904], "padding_end": [4611686018427387904])",
       "its padding_begin holds 4611686018427387904: numbers from 0 to 2147483647 fit it"},
      {R"("kind": "pad", "padding_begin": [1], "padding_end": [-1])", "its padding_end is negative"},
      {R"("kind": "pad", "padding_begin": [1, 1], "padding_end": [1])", "[1] is not for 2 dimensions"},
      {R"("kind": "pad", "padding_begin": [1, 1, 1], "padding_end": [1, 1, 1])", "its input is [2, 3]"},
      {R"("kind": "expand", "shape": [1099511627776, 1099511627776, 2, 3])",
       "its output would be [1099511627776, 1099511627776, 2, 3], which no tensor can be"},
      {R"("kind": "expand", "shape": [2305843009213693952, 2, 3])", "its shape holds 2305843009213693952"},
      {R"("kind": "expand", "shape": [-2, 2, 3])", "its shape holds -2: numbers from -1 to"},
      {R"("kind": "reshape", "shape": [4294967296, 4294967296])",
       "[2, 3] does not fill [4294967296, 4294967296]"},
      {R"("kind": "reshape", "shape": [-1, -1])", "its shape leaves more than one size open"},
      {R"("kind": "reshape", "shape": [-1, 4294967296, 4294967296])", "[2, 3] does not fill its shape"},
      {R"("kind": "reshape", "shape": [])", "[2, 3] does not fill []"},
      {R"("kind": "unflatten", "axis": 1, "shape": [-1, 4294967296, 4294967296])",
       "3 is not divided into parts like"},
      {R"("kind": "slice", "axis": 0, "step": 0)", "its step holds 0: numbers from 1 to"},
      {R"("kind": "permute", "order": [0, 0])", "its order [0, 0] is none of [2, 3]"},
      {R"("kind": "mean", "axes": [9])", "its axis 9 is none of 2 dimensions"},
      {R"("kind": "group_norm", "groups": 0)", "its groups holds 0"},
      {R"("kind": "group_norm", "groups": 2)", "2 groups do not divide [2, 3]"},
      {R"("kind": "group_norm", "epsilon": -1)", "its epsilon is -1.000000: write a number that fits it"},
      {R"("kind": "max_pool")", "its kernel is []: a window has one to three dimensions", image},
      {R"("kind": "max_pool", "kernel": [2, 0])", "its kernel holds 0: numbers from 1 to", image},
      {pool + R"("stride": [1])", "[1] is not for 2 dimensions", image},
      {pool + R"("padding_begin": [2, 2], "padding_end": [2, 2])", "its padding is as large as its windows",
       image},
      {pool + R"("dilation": [2147483647, 2147483647])", "in which more than the batch is empty", image},
      {pool + R"("stride": [2147483648, 1])", "its stride holds 2147483648", image},
      {R"("kind": "max_pool", "kernel": [2, 2])", "its input is [2, 3]"},
      {R"("kind": "resize_nearest", "scale_factors": [1e300])", "its scale_factors is 1000000000", image},
      {R"("kind": "resize_nearest", "scale_factors": [-1])", "its scale_factors is -1", image},
      {R"("kind": "resize_nearest", "scale_factors": [2147483647])", "which is too large for an image",
       image},
      {R"("kind": "resize_nearest", "size": [0, 1])", "its size holds 0", image},
      {R"("kind": "resize_nearest", "size": [1, 1, 1])", "its input is [1, 1, 4, 4]", image},
      {R"("kind": "adaptive_avg_pool", "size": [4294967296, 1])", "its size holds 4294967296", image},
      {pool + R"("dilation": [0, 1])", "its dilation holds 0: numbers from 1 to", image},
      {pool + R"("padding_end": [2147483648, 0])", "its padding_end holds 2147483648", image},
      {R"("kind": "transpose", "axis": 0, "other_axis": 64)", "its other_axis holds 64"},
      {R"("kind": "flatten", "axis": 0, "end_axis": 64)", "its end_axis holds 64"},
      {R"("kind": "permute", "order": [0, 64])", "its order holds 64"},
      {R"("kind": "mean", "axes": [64])", "its axes holds 64"},
      {R"("kind": "pad", "padding_begin": [1], "padding_end": [1], "fill": 1e300)", "its fill is 1000000000"},
  };
  for (const auto& [operation, sentence, sizes] : faults)
    EXPECT_THAT(fault_of(json_of(operation), sizes), HasSubstr(sentence)) << operation;
}

TEST(UntrustedProgram, AFactorOfAttentionIsAFloat) {
  Writer writer;
  const int input = writer.input({});
  const Operation operation{.kind = Kind::Attention, .inputs = {input, input, input}, .alpha = 1e300};
  writer.returns({writer.add(operation, {})});
  EXPECT_THAT(refusal([&] { const LoadedProgram program(writer.model); }),
              HasSubstr("its alpha is 1000000000"));
}

TEST(UntrustedProgram, LargestStepsTakeTheFirstPlace) {
  Writer writer;
  const int input = writer.input({});
  writer.returns(
      {writer.add({.kind = Kind::Slice, .inputs = {input}, .axis = 0, .step = kHighest}, {}),
       writer.add({.kind = Kind::Slice, .inputs = {input}, .axis = 0, .begin = kLowest, .end = kHighest},
                  {})});
  LoadedProgram program(writer.model);
  const auto outputs = run(program, {{Dtype::F32, {3}, {5, 6, 7}}});
  EXPECT_EQ(outputs[0].numbers, (std::vector<double>{5}));
  EXPECT_EQ(outputs[1].numbers, (std::vector<double>{5, 6, 7}));
}

TEST(UntrustedProgram, NumbersOfJsonFitTheirType) {
  const std::vector<Fault> faults{
      {R"("kind": "softmax", "axis": 1.5)", "'axis' is 1.5, of another type"},
      {R"("kind": "softmax", "axis": true)", "'axis' is true, of another type"},
      {R"("kind": "softmax", "axis": 9223372036854775808)", "'axis' is 9223372036854775808, of another type"},
      {R"("kind": "softmax", "axis": [])", "'axis' is a list with what it may not hold"},
      {R"("kind": "softmax", "axis": null)", "'axis' is null, of another type"},
      {R"("kind": "mean", "keep_dims": 1)", "'keep_dims' is 1, of another type"},
      {R"("kind": "layer_norm", "weight": 4294967296)", "'weight' is 4294967296, of another type"},
      {R"("kind": "layer_norm", "weight": -1)", "there is no constant -1 among 0"},
      {R"("kind": "reshape", "shape": [{"integer": -1}])", "'shape' is a list with what it may not hold"},
      {R"("kind": "reshape", "shape": [{"integer": 0, "other": 1}])", "'shape' is a list with"},
      {R"("kind": "activation", "post_ops": {"kind": "relu"})", "'post_ops' is an object, of another type"},
      {R"("kind": "activation", "post_ops": [[]])", "post-op 0: it is array: an object is wanted"},
      {R"("kind": "activation", "name": "a", "name": "b")", "\"name\" is written twice in one object"},
      {R"("kind": "group_norm", "epsilon": 1e400)", "a number in it is too large"},
  };
  for (const auto& [operation, sentence, sizes] : faults)
    EXPECT_THAT(fault_of(json_of(operation), sizes), HasSubstr(sentence)) << operation;
  EXPECT_THAT(fault_of(R"({"version": 1, "inputs": [4294967296], "outputs": [0]})"),
              HasSubstr("'inputs' is a list with what it may not hold"));
  EXPECT_THAT(fault_of(R"({"version": 4294967297, "inputs": [0], "outputs": [0]})"),
              HasSubstr("'version' is 4294967297, of another type"));
  EXPECT_THAT(fault_of(R"({"version": 1, "inputs": [0], "outputs": [0], "values": {}})"),
              HasSubstr("'values' is an object, of another type"));
  EXPECT_THAT(fault_of("[]"), HasSubstr("the list of operations: it is array: an object is wanted"));
}

TEST(UntrustedProgram, NestsAsDeepAsProgramsDo) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(fault_of(json_of(R"("kind": "softmax", "axis": )" + deep)),
              HasSubstr("it nests more than 8 lists and objects"));
  EXPECT_THAT(fault_of(deep), HasSubstr("it nests more than 8 lists and objects"));
}

/// A program that reshapes to the last of a chain of numbers, each the one before it plus `more`.
Model chain(int rows, std::int64_t more) {
  Writer writer;
  const int input = writer.input({});
  Extent last = writer.integer({.kind = IntegerKind::Size, .value = input, .axis = 0});
  for (int row = 1; row < rows; ++row)
    last = writer.integer({.kind = IntegerKind::Add, .left = last, .right = more});
  writer.returns({writer.add({.kind = Kind::Reshape, .inputs = {input}, .shape = {last}}, {})});
  return writer.model;
}

TEST(UntrustedProgram, ChainsOfIntegersMayBeLong) {
  Model model = chain(1'000'000, 0);
  model.program = program_from_json(to_json(model.program));
  LoadedProgram program(std::move(model));
  EXPECT_EQ(run(program, {zeros({3})})[0].sizes, Shape{3});
  LoadedProgram overflowing(chain(5, kHighest / 3));
  EXPECT_THAT(refusal([&] { (void)run(overflowing, {zeros({3})}); }),
              HasSubstr("integer 3: it leaves 64 bits"));
}

/// A chain of such functions.
Model functions(int count) {
  Writer writer;
  int last = writer.input({});
  for (int i = 0; i < count; ++i)
    last =
        writer.add({.kind = Kind::Activation, .inputs = {last}, .post_ops = {{.kind = PostOpKind::Abs}}}, {});
  writer.returns({last});
  return writer.model;
}

TEST(UntrustedProgram, HasSoManyPartsThatTheyCompileInSeconds) {
  // oneDNN takes 32 functions at once.
  LoadedProgram program(functions(100));
  EXPECT_EQ(run(program, {{Dtype::F32, {1}, {-2}}})[0].numbers, (std::vector<double>{2}));
  EXPECT_THAT(refusal([] { const LoadedProgram other(functions(20'000)); }),
              HasSubstr("the program: it has 20000 operations: at most 16384 are possible"));
  EXPECT_THAT(refusal([] { const LoadedProgram other(chain(1'100'000, 0)); }),
              HasSubstr("the program: it has 1100000 integers: at most 1048576 are possible"));
  Model joins = functions(1);
  joins.program.operations[0] = {.kind = Kind::Concat, .inputs = std::vector<int>(70'000, 0), .output = 1};
  EXPECT_THAT(refusal([&] { const LoadedProgram other(joins); }),
              HasSubstr("it has 70000 inputs and post-ops of operations: at most 65536 are possible"));
}

TEST(UntrustedProgram, IntegersAreComputedInCheckedArithmetic) {
  const auto number = [](IntegerKind kind, std::int64_t left, std::int64_t right) {
    Writer writer;
    const int input = writer.input({});
    writer.returns({writer.add({.kind = Kind::Slice,
                                .inputs = {input},
                                .axis = 0,
                                .begin = writer.integer({.kind = kind, .left = left, .right = right})},
                               {})});
    return refusal([&] {
      LoadedProgram program(writer.model);
      (void)run(program, {zeros({3})});
    });
  };
  EXPECT_THAT(number(IntegerKind::FloorDivide, kLowest, -1), HasSubstr("integer 0: it leaves 64 bits"));
  EXPECT_EQ(number(IntegerKind::Remainder, kLowest, -1), "");
  EXPECT_EQ(number(IntegerKind::Remainder, kLowest, 3), "");
  EXPECT_THAT(number(IntegerKind::Index, 0, kLowest), HasSubstr("index 0 is out of range"));
  EXPECT_THAT(number(IntegerKind::Border, kLowest, kLowest), HasSubstr("is out of range"));
  EXPECT_THAT(number(IntegerKind::Subtract, kLowest, 1), HasSubstr("it leaves 64 bits"));
}

/// A convolution of an image of 4 channels after a change of it or of its constants.
std::string fault_of_convolution(const std::function<void(Operation&, Model&)>& change,
                                 Kind kind = Kind::TransposedConvolution) {
  Random random(1);
  Writer writer;
  Operation operation{.kind = kind, .inputs = {writer.input({.dtype = Dtype::U8, .scale = 0.1})}};
  add_weights(random, writer, operation, {4, 4, 2, 2}, 4);
  change(operation, writer.model);
  writer.returns({writer.add(operation, {})});
  return refusal([&] {
    LoadedProgram program(writer.model);
    (void)run(program, {{Dtype::U8, {1, 4, 3, 3}, std::vector<double>(36)}});
  });
}

TEST(UntrustedProgram, LayersHaveWindowsAndWeightsThatFit) {
  using Change = std::function<void(Operation&, Model&)>;
  struct Row {
    Change change;
    std::string sentence;
  };
  const std::vector<Row> rows{
      {[](Operation&, Model&) {}, ""},
      {[](Operation& each, Model&) {
         each.padding_end = {kLowest, 0};
       },
       "its padding_end holds"},
      {[](Operation& each, Model&) {
         each.padding_end = {-1, -1, -1}, each.stride = {2, 2};
       },
       "[-1, -1, -1] is not for 2 dimensions"},
      {[](Operation& each, Model&) {
         each.stride = {2}, each.padding_end = {-1, -1};
       },
       "[2] is not for 2"},
      {[](Operation& each, Model&) {
         each.stride = {2147483647, 1};
       },
       "which is too large for an image"},
      {[](Operation& each, Model&) {
         each.padding_begin = {2147483647, 0};
       },
       "in which more than the batch is empty"},
      {[](Operation& each, Model&) { each.weight = 99; }, "there is no constant 99 among"},
      {[](Operation& each, Model&) { each.weight_scales = each.weight; }, "its weight_scales"},
      {[](Operation& each, Model& model) {
         auto& scales = model.constants[static_cast<std::size_t>(*each.weight_scales)];
         scales = {Dtype::F32, {1}, std::make_shared<const float>(std::numeric_limits<float>::infinity())};
       },
       "its weight_scales holds what is no finite number"},
      {[](Operation&, Model& model) { model.program.values[0].scale = 1e-300; },
       "value 0: its scale is 0.000000"},
      {[](Operation&, Model& model) { model.constants[0].shape = Shape(100, 1); }, "constant 0: it is [1, 1"},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto fault = fault_of_convolution(rows[i].change);
    EXPECT_THAT(fault, HasSubstr(rows[i].sentence)) << "row " << i;
    EXPECT_EQ(fault.empty(), rows[i].sentence.empty()) << "row " << i;
  }
  EXPECT_THAT(fault_of_convolution(
                  [](Operation& each, Model&) {
                    each.padding_end = {-1, 0};
                  },
                  Kind::Convolution),
              HasSubstr("its padding_end is negative: only that of a transposed convolution may be"));
}

TEST(UntrustedProgram, ColumnsOfALayerAreSplitWhateverTheShapeOfItsBias) {
  Random random(1);
  Writer writer;
  const int input = writer.input({});
  Operation linear{.kind = Kind::Linear, .inputs = {input}};
  linear.weight = writer.constant(random_tensor(random, Dtype::F32, {64, 8}));
  Tensor bias{Dtype::F32, {1, 64}, {}};
  for (int column = 0; column < 64; ++column) bias.numbers.push_back(column);
  linear.bias = writer.constant(bias);
  const int whole = writer.add(linear, {});
  for (const std::int64_t begin : {0, 32}) {
    const int part = writer.add(
        {.kind = Kind::Slice, .inputs = {whole}, .axis = 1, .begin = begin, .end = begin + 32}, {});
    writer.model.program.outputs.push_back(part);
  }
  LoadedProgram program(writer.model);
  const auto outputs = run(program, {zeros({1, 8})});
  for (std::size_t column = 0; column < 32; ++column) {
    EXPECT_EQ(outputs[0].numbers[column], static_cast<double>(column));
    EXPECT_EQ(outputs[1].numbers[column], static_cast<double>(column + 32));
  }
}

}  // namespace untrusted_program_test
}  // namespace tsq::runtime::test
