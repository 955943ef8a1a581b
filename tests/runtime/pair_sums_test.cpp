// Which products of bytes the kernels of programs add in 16 bits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <span>

#include "runtime/cases.h"
#include "runtime/support.h"
#include "support/one_of_neighbours.h"

namespace tsq::runtime::test {
namespace pair_sums_test {

/// Without VNNI oneDNN adds two products in 16 bits: no two but neighbours (kernels::PairSums).
TEST(Operations, ConvolvesExactlyWhatAddsUpInNeighboursAlone) {
  for_random_cases(
      [](Random& random) {
        const auto dimensions = static_cast<std::size_t>(random.integer(1, 3));
        const auto groups = random.any_of<std::int64_t>({1, 1, 2, 8});
        const auto channels = random.any_of<std::int64_t>({1, 2, 3, 5, 8, 16, 33});
        const auto outputs = groups * random.any_of<std::int64_t>({1, 3, 8, 16, 33});
        const auto side = random.integer(1, dimensions == 3 ? 3 : 5);
        const Value input{
            .dtype = Dtype::U8, .scale = 1, .zero_point = random.any_of<std::int32_t>({0, 110})};
        Writer writer;
        Operation operation{
            .kind = Kind::Convolution, .inputs = {writer.input(input)}, .groups = groups, .bounded = true};
        Shape sizes{random.integer(1, 2), groups * channels};
        std::int64_t taps = 1;
        Shape window;
        for (std::size_t d = 0; d < dimensions; ++d) {
          window.push_back(side);
          taps *= side;
          operation.stride.push_back(random.integer(1, 2));
          operation.dilation.push_back(1);
          operation.padding_begin.push_back(side / 2);
          operation.padding_end.push_back(side / 2);
          sizes.push_back(random.any_of<std::int64_t>({5, 9, 14}));
        }
        at::manual_seed(static_cast<std::uint64_t>(random.integer(0, 1 << 30)));
        const at::Tensor codes = one_of_neighbours(outputs, channels, taps);
        const std::span<const float> numbers(codes.const_data_ptr<float>(),
                                             static_cast<std::size_t>(codes.numel()));
        Tensor weight{Dtype::S8, {outputs, channels}, {numbers.begin(), numbers.end()}};
        weight.sizes.insert(weight.sizes.end(), window.begin(), window.end());
        operation.weight = writer.constant(weight);
        operation.weight_scales = writer.constant({Dtype::F32, {1}, {1}});
        writer.returns({writer.add(operation, float_value())});
        const auto count = static_cast<std::size_t>(elements_of(sizes));
        expect_right(writer, {{Dtype::U8, sizes, std::vector<double>(count, 255)}});
        EXPECT_EQ(LoadedProgram(writer.model).float_operations(), 0);
      },
      80);
}

}  // namespace pair_sums_test
}  // namespace tsq::runtime::test
