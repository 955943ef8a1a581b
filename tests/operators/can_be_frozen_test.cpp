// Freezing is left out where LibTorch does not come to an end with it.

#include "operators/can_be_frozen.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/small_models.h"

namespace tsq::operators {
namespace can_be_frozen_test {

torch::jit::Module model(const std::string& training, const std::string& result) {
  auto module = testing::user_module("Norm");
  module.register_buffer("mean", at::zeros({4}));
  module.register_buffer("variance", at::ones({4}));
  module.define(
      "def forward(self, x):\n"
      "  y = torch.batch_norm(x, None, None, self.mean, self.variance, " +
      training + ", 0.1, 0.00001, False)\n  return " + result + "\n");
  return module;
}

TEST(CanBeFrozen, NotAModelThatReadsStatisticsThatANormUpdates) {
  EXPECT_FALSE(can_be_frozen(model("True", "y + self.mean")));
  EXPECT_FALSE(can_be_frozen(model("True", "y / self.variance.sqrt()")));
  EXPECT_TRUE(can_be_frozen(model("True", "y")));
  EXPECT_TRUE(can_be_frozen(model("False", "y + self.mean")));
}

}  // namespace can_be_frozen_test
}  // namespace tsq::operators
