// Times are taken: that they are, and of what; no test says how long anything takes.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/tune.h>

#include "tuning/draw.h"
#include "tuning/interpreter.h"
#include "tuning/network_calls.h"

namespace tsq {
namespace tune_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Key;

TEST(Tune, TheSameSeedDrawsTheSameSizes) {
  tuning::Draw first(7);
  tuning::Draw second(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.channels(1, 2048), second.channels(1, 2048));
}

TEST(Tune, DrawnNumbersStayWithinTheirBounds) {
  tuning::Draw draw(3);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t channels = draw.channels(3, 40);
    EXPECT_GE(channels, 3);
    EXPECT_LE(channels, 40);
    EXPECT_LE(draw.between(0, 2), 2);
  }
}

TEST(Tune, AProfileHasTimesOfKernels) {
  const MachineProfile profile =
      tune({.threads = {1}, .engines = {"x86"}, .effort = 0, .passes = 1, .rounds = 1});
  EXPECT_THAT(profile.by_threads.at(1), Contains(Key("aten::softmax")));
  EXPECT_THAT(profile.by_threads.at(1), Contains(Key("x86 quantized::linear")));
  EXPECT_FALSE(profile.is_estimated);
}

TEST(Tune, TheKernelsOfAModelAreMeasuredAtItsSizes) {
  torch::jit::Module model("model");
  model.define("def forward(self, x):\n  return torch.relu(torch.sigmoid(x))\n");
  MachineProfile profile;
  measure_model(model, "x86", {at::randn({2, 3})}, {.threads = {1}, .passes = 1, .rounds = 1}, profile);
  ASSERT_EQ(profile.measured.size(), 2U);
  EXPECT_EQ(profile.measured[0].work.at("values_in"), 6);
  const auto calls = tuning::calls_of_network(model, "x86", {at::randn({2, 3})});
  const auto predicted = tuning::predicted(profile, calls, 1);
  EXPECT_DOUBLE_EQ(predicted.nanoseconds, profile.measured[0].nanoseconds + profile.measured[1].nanoseconds);
  EXPECT_THAT(predicted.unknown, ElementsAre(tuning::kInterpreter));
}

}  // namespace tune_test
}  // namespace tsq
