// Reshapes, permutations, expansions and slices, and who reads them as they lie.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cases.h"
#include "runtime/program/error.h"
#include "runtime/program/resolve.h"

namespace tsq::runtime::test {
namespace views_test {

TEST(Operations, MovesViews) {
  for_random_cases(
      [](Random& random) {
        const Value value = random_value(random, any_dtype(random));
        Writer writer;
        int moved = writer.input(value);
        if (random.coin())
          moved = writer.add({.kind = Kind::MaxPool, .inputs = {moved}, .kernel = {1, 1}}, value);
        const bool slices = random.coin();
        if (slices)
          moved =
              writer.add({.kind = Kind::Slice, .inputs = {moved}, .axis = 1, .begin = 1, .end = 5}, value);
        if (random.coin())
          moved = writer.add({.kind = Kind::Reshape, .inputs = {moved}, .shape = {0, 2, -1, 6}}, value);
        else
          moved = writer.add({.kind = Kind::Reshape, .inputs = {moved}, .shape = {0, 1, 4, -1}}, value);
        moved = writer.add({.kind = Kind::Permute, .inputs = {moved}, .order = {0, 2, 1, 3}}, value);
        if (random.coin())
          moved = writer.add({.kind = Kind::Reshape, .inputs = {moved}, .shape = {0, -1}}, value);
        writer.returns({moved});
        expect_right(writer, {random_tensor(random, value.dtype, {2, slices ? 6 : 4, 3, 6})});
      },
      40);
}

/// Any chain of views: reshapes of what is not contiguous copy, the others do not.
TEST(Operations, MovesViewsInAnyOrder) {
  int tried = 0;
  for_random_cases(
      [&tried](Random& random) {
        const Value value = random_value(random, any_dtype(random));
        Writer writer;
        int moved = writer.input(value);
        Shape sizes{2, 6, 4, 5};
        const auto add = [&](Operation operation) {
          operation.inputs = {moved};
          moved = writer.add(operation, value);
        };
        if (random.coin()) add({.kind = Kind::MaxPool, .kernel = {1, 1}});
        for (int i = 0; i < 5; ++i) {
          const auto axis = random.integer(-2, 1);
          switch (random.integer(0, 6)) {
            case 0:
              add({.kind = Kind::Transpose, .axis = axis, .other_axis = random.integer(-2, 1)});
              break;
            case 1:
              add({.kind = Kind::Unsqueeze, .axis = axis});
              break;
            case 2:
              add({.kind = Kind::Squeeze, .axis = axis});
              break;
            case 3:
              add({.kind = Kind::Unsqueeze, .axis = 0});
              add({.kind = Kind::Flatten, .axis = random.integer(0, 1), .end_axis = random.integer(-2, -1)});
              add({.kind = Kind::Unsqueeze, .axis = -1});
              break;
            case 4:
              add({.kind = Kind::Slice, .axis = axis, .end = -1, .step = random.integer(1, 2)});
              add({.kind = Kind::Unsqueeze, .axis = 1});
              break;
            case 5:
              add({.kind = Kind::Unsqueeze, .axis = axis == -1 ? 0 : axis});
              add({.kind = Kind::Expand, .shape = {2, -1, -1, -1, -1, -1, -1}});
              break;
            default:
              add({.kind = Kind::Reshape, .shape = {-1, 1, 2}});
          }
        }
        if (random.coin()) add({.kind = Kind::Activation, .post_ops = {{.kind = PostOpKind::Relu}}});
        writer.returns({moved});
        const std::vector<Tensor> inputs{random_tensor(random, value.dtype, sizes)};
        try {
          (void)resolve(writer.model, std::vector<Shape>{sizes}, {});
        } catch (const ProgramError&) {
          return;  // views that do not fit one another
        }
        ++tried;
        expect_right(writer, inputs);
      },
      400);
  EXPECT_GT(tried, 100);
}

/// q, k and v are parts of one product's columns, in heads; rows that are slices are read as they lie.
TEST(Operations, SlicesOfOneProductAreReadAsTheyLie) {
  for (const auto dtype : {Dtype::F32, Dtype::U8}) {
    Random random(1);
    Writer writer;
    const Value value = dtype == Dtype::F32 ? float_value() : Value{.dtype = dtype, .scale = 0.05};
    const int input = writer.input({.dtype = Dtype::U8, .scale = 0.02, .zero_point = 7});
    Operation product{.kind = Kind::Linear, .inputs = {input}};
    add_weights(random, writer, product, {96, 32}, 96);
    const int joined = writer.add(product, value);
    const auto head = [&](std::int64_t part) {
      const int slice = writer.add(
          {.kind = Kind::Slice, .inputs = {joined}, .begin = part * 32, .end = part * 32 + 32}, value);
      const int split = writer.add({.kind = Kind::Reshape, .inputs = {slice}, .shape = {0, 0, 4, 8}}, value);
      return writer.add({.kind = Kind::Transpose, .inputs = {split}, .axis = 1, .other_axis = 2}, value);
    };
    const int query = head(0);
    const int key = writer.add({.kind = Kind::Transpose, .inputs = {head(1)}}, value);
    const int scores =
        writer.add({.kind = Kind::Matmul, .inputs = {query, key}, .alpha = 0.3}, float_value());
    const int rows = writer.add({.kind = Kind::Slice, .inputs = {joined}, .begin = 64}, value);
    Operation last{.kind = Kind::Linear, .inputs = {rows}};
    if (dtype == Dtype::F32) {
      last.weight = writer.constant(random_tensor(random, Dtype::F32, {9, 32}));
    } else {
      add_weights(random, writer, last, {9, 32}, 9);
    }
    writer.returns({scores, writer.add(last, float_value())});
    const std::vector<Tensor> inputs{random_tensor(random, Dtype::U8, {2, 10, 32})};
    expect_right(writer, inputs);
    const auto names = implementations(writer, inputs);
    if (LoadedProgram(writer.model).float_operations() > 0) continue;
    // Each part is a product of its own; oneDNN reads them as they lie.
    const auto count = [&](const std::string& begin) {
      return std::ranges::count_if(names, [&](const auto& name) { return name.starts_with(begin); });
    };
    EXPECT_EQ(count("tsq:"), 0);
    EXPECT_EQ(count("ref"), 0);
  }
}

/// As vision transformers write it: columns are divided into three times heads, and what is moved to the
/// front is taken apart. Each part is rounded by the product that writes it.
TEST(Operations, PartsOfDividedColumnsAreProductsOfTheirOwn) {
  for (const bool rounds_whole : {false, true}) {
    Random random(1);
    Writer writer;
    const Value codes{.dtype = Dtype::U8, .scale = 0.02, .zero_point = 7};
    Operation product{.kind = Kind::Linear, .inputs = {writer.input(codes)}};
    add_weights(random, writer, product, {96, 32}, 96);
    int whole = writer.add(product, float_value());
    if (rounds_whole) whole = writer.add({.kind = Kind::Convert, .inputs = {whole}}, codes);
    const Value type = rounds_whole ? codes : float_value();
    const int divided =
        writer.add({.kind = Kind::Reshape, .inputs = {whole}, .shape = {0, 0, 3, 4, 8}}, type);
    const int moved =
        writer.add({.kind = Kind::Permute, .inputs = {divided}, .order = {2, 0, 3, 1, 4}}, type);
    std::vector<int> outputs;
    for (std::int64_t part = 0; part < 3; ++part) {
      const int slice = writer.add(
          {.kind = Kind::Slice, .inputs = {moved}, .axis = 0, .begin = part, .end = part + 1}, type);
      const int row = writer.add({.kind = Kind::Squeeze, .inputs = {slice}, .axis = 0}, type);
      const Value own{
          .dtype = Dtype::U8, .scale = 0.03 + 0.01 * static_cast<double>(part), .zero_point = 120};
      const int rounded = writer.add({.kind = Kind::Convert, .inputs = {row}}, own);
      outputs.push_back(writer.add({.kind = Kind::MaxPool, .inputs = {rounded}, .kernel = {1, 1}}, own));
    }
    writer.returns(outputs);
    const std::vector<Tensor> inputs{random_tensor(random, Dtype::U8, {2, 10, 32})};
    expect_right(writer, inputs);
    if (LoadedProgram(writer.model).float_operations() > 0) continue;
    const auto is_conversion = [](const std::string& name) { return name.starts_with("tsq:convert"); };
    EXPECT_EQ(std::ranges::count_if(implementations(writer, inputs), is_conversion), rounds_whole ? 3 : 0);
  }
}

/// Matrices that an expand repeats broadcast.
TEST(Operations, MultipliesExpandedMatrices) {
  for_random_cases([](Random& random) {
    Writer writer;
    const Value value{};
    const auto matrices = [&](const Shape& sizes) {
      const int input = writer.input(value);
      const int expanded =
          writer.add({.kind = Kind::Expand, .inputs = {input}, .shape = {3, 2, -1, -1}}, value);
      return std::pair(random.coin() ? expanded : input, random_tensor(random, Dtype::F32, sizes));
    };
    const auto [a, left] = matrices({random.coin() ? 1 : 3, 1, 4, 5});
    const auto [b, right] = matrices({random.coin() ? 1 : 3, 2, 5, 6});
    writer.returns({writer.add({.kind = Kind::Matmul, .inputs = {a, b}}, value)});
    expect_right(writer, {left, right});
  });
}

}  // namespace views_test
}  // namespace tsq::runtime::test
