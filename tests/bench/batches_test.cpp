#include "bench/batches.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <tsq/error.h>

namespace tsq::bench {
namespace batches_test {

at::Tensor rows(int64_t from, int64_t to) { return torch::arange(from, to, torch::kFloat).reshape({-1, 1}); }

TEST(Batches, RowsOfAllSamplesFollowEachOtherAndBeginAnew) {
  const std::vector<Sample> samples{{rows(0, 2)}, {rows(2, 5)}};
  const std::vector<Sample> batches = batches_of(samples, 4);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_TRUE(batches[0][0].toTensor().equal(rows(0, 4)));
  EXPECT_TRUE(batches[1][0].toTensor().equal(at::cat({rows(4, 5), rows(0, 3)})));
}

TEST(Batches, ABatchOfOneCutsSamples) {
  const std::vector<Sample> batches = batches_of(std::vector<Sample>{{rows(0, 3)}}, 1);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_TRUE(batches[2][0].toTensor().equal(rows(2, 3)));
}

TEST(Batches, WhatHasNoRowForEachRowStaysAsItIs) {
  const at::Tensor table = torch::ones({7, 3});
  const std::vector<Sample> samples{{rows(0, 1), table, 5}, {rows(1, 2), table, 5}};
  const std::vector<Sample> batches = batches_of(samples, 2);
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_TRUE(batches[0][0].toTensor().equal(rows(0, 2)));
  EXPECT_TRUE(batches[0][1].toTensor().equal(table));
  EXPECT_EQ(batches[0][2].toInt(), 5);
}

TEST(Batches, SamplesOfDifferentShapesAreRefused) {
  const std::vector<Sample> samples{{torch::ones({1, 4})}, {torch::ones({1, 5})}};
  EXPECT_THROW(batches_of(samples, 2), Error);
  EXPECT_EQ(batches_of(samples, 1).size(), 2U) << "one by one they need not be joined";
}

TEST(Batches, RowsAreCountedInTheFirstTensor) {
  EXPECT_EQ(rows_of({5, torch::ones({3, 2})}), 3);
  EXPECT_EQ(rows_of({torch::tensor(1.0)}), 1);
  EXPECT_EQ(rows_of({5}), 1);
}

TEST(Batches, ChannelsLastKeepsTheNumbers) {
  const at::Tensor image = torch::randn({2, 3, 4, 4});
  const std::vector<Sample> turned = in_channels_last({{image, torch::ones({2, 2})}});
  EXPECT_TRUE(turned[0][0].toTensor().is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(turned[0][0].toTensor().equal(image));
}

}  // namespace batches_test
}  // namespace tsq::bench
