// What maxima and minima compare is rounded once (recipe best).

#include <gtest/gtest.h>
#include <torch/script.h>

#include <set>

#include "support/best_model.h"
#include "support/small_models.h"

namespace tsq {
namespace share_ranges_test {

using testing::best_reference;
using torch::jit::Module;

constexpr int64_t kChannels = 4;

/// Two convolutions of an image, put together by `expression` of a and b.
Module two_convolutions(const std::string& expression) {
  torch::manual_seed(3);
  Module model = testing::user_module("Two");
  for (const char* name : {"first", "second", "last"})
    model.register_module(name, testing::conv2d(kChannels, kChannels, 3));
  model.define(
      "def forward(self, x):\n  a = self.first.forward(x)\n  b = self.second.forward(x) * 3\n  return " +
      expression + "\n");
  return model;
}

/// The different scales by which a reference model rounds.
std::size_t scales_of(const Module& model) {
  std::set<double> scales;
  for (const auto* node : model.get_method("forward").graph()->nodes()) {
    if (node->kind() == c10::Symbol::fromQualString("aten::quantize_per_tensor"))
      scales.insert(torch::jit::toIValue(node->input(1))->toDouble());
  }
  return scales.size();
}

std::size_t scales_with(const std::string& expression) {
  torch::manual_seed(4);
  return scales_of(
      best_reference(two_convolutions(expression), torch::randn({2, kChannels, 12, 12}), "fbgemm").module());
}

TEST(ShareRangesOfExtremes, WhatIsComparedIsRoundedAsTheResult) {
  // Those of the input, of the maximum, of the last layer's output.
  EXPECT_EQ(scales_with("self.last.forward(torch.maximum(a, b))"), 3U);
  EXPECT_EQ(scales_with("self.last.forward(torch.minimum(torch.maximum(a, b), torch.relu(b * 2)))"), 4U);
}

TEST(ShareRangesOfExtremes, MovedValuesAreThem) {
  EXPECT_EQ(scales_with("self.last.forward(torch.maximum(a.transpose(2, 3), b.transpose(2, 3)))"), 3U);
  EXPECT_EQ(scales_with("self.last.forward(torch.maximum(a, b).transpose(2, 3))"), 3U);
  EXPECT_EQ(scales_with("self.last.forward(torch.maximum(a[:, :, :8], b[:, :, 4:]))"), 3U);
}

TEST(ShareRangesOfExtremes, WhatOthersReadTooKeepsItsRange) {
  // That of a, and of the sum and its second addend, beside the three.
  EXPECT_EQ(scales_with("self.last.forward(torch.maximum(a, b)) + self.last.forward(a)"), 5U);
  // Two maxima of a: its own range, that of b with the one, and of the other.
  EXPECT_EQ(scales_with("self.last.forward(torch.maximum(a, b)) + torch.maximum(a, self.last.forward(a))"),
            5U);
}

}  // namespace share_ranges_test
}  // namespace tsq
