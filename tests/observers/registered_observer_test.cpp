// Observers of a program's own: register_observer.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/error.h>
#include <tsq/observer.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "config/expect_error.h"
#include "observers/observer_module.h"
#include "support/own_observers.h"

namespace tsq {
namespace registered_observer_test {

using c10::ScalarType;
using torch::jit::Module;

void expect_equal(const QParams& a, const QParams& b) {
  EXPECT_TRUE(at::equal(a.scale, b.scale)) << a.scale << b.scale;
  EXPECT_TRUE(at::equal(a.zero_point, b.zero_point)) << a.zero_point << b.zero_point;
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.qscheme, b.qscheme);
  EXPECT_EQ(a.axis, b.axis);
}

/// A module whose calculate_qparams returns what is written there.
Module observer_that_returns(const std::string& qparams) {
  Module module("__torch__.mine.Fixed");
  module.define("def forward(self, x: Tensor) -> Tensor:\n    return x\n");
  module.define("def calculate_qparams(self) -> Tuple[Tensor, Tensor]:\n    return " + qparams + "\n");
  return module;
}

TEST(RegisteredObserver, FindsWhatPyTorchsFindsThatComputesAlike) {
  register_observer("mine.MinMax", testing::kOwnMinMax);
  at::manual_seed(3);
  for (const bool reduce_range : {false, true}) {
    ObserverSpec own{.observer = "mine.MinMax", .dtype = ScalarType::QUInt8, .reduce_range = reduce_range};
    ObserverSpec pytorchs = own;
    pytorchs.observer = "MinMaxObserver";
    Module one = make_observer(own);
    Module other = make_observer(pytorchs);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor x = at::randn({4, 5}) * (i + 1);
      EXPECT_TRUE(one.forward({x}).toTensor().is_same(x));
      other.forward({x});
    }
    expect_equal(calculate_qparams(one), calculate_qparams(other));
    expect_equal(observe_once(own, at::ones({3})), observe_once(pytorchs, at::ones({3})));
  }
}

TEST(RegisteredObserver, FindsAScaleForEachChannelOfTheSchemesAxis) {
  register_observer("mine.Channels", testing::kOwnChannels);
  at::manual_seed(4);
  for (const int64_t axis : {0, 1}) {
    ObserverSpec own{.observer = "mine.Channels",
                     .dtype = ScalarType::QInt8,
                     .qscheme = c10::kPerChannelSymmetric,
                     .ch_axis = axis};
    ObserverSpec pytorchs = own;
    pytorchs.observer = "PerChannelMinMaxObserver";
    const at::Tensor weight = at::randn({3, 4, 2});
    expect_equal(observe_once(own, weight), observe_once(pytorchs, weight));
  }
}

TEST(RegisteredObserver, HasStateOfItsOwnAtEachPlace) {
  register_observer("mine.MinMax", testing::kOwnMinMax);
  Module first = make_observer({.observer = "mine.MinMax"});
  const Module second = make_observer({.observer = "mine.MinMax"});
  first.forward({at::empty({0})});
  EXPECT_FALSE(saw_data(first));
  first.forward({at::full({2}, 3.0)});
  EXPECT_TRUE(saw_data(first));
  EXPECT_FALSE(saw_data(second));
  EXPECT_TRUE(at::equal(calculate_qparams(second).scale, at::ones({1})));
  EXPECT_TRUE(finds_qparams({.observer = "mine.MinMax"}));
}

TEST(RegisteredObserver, IsNotShownWhatNothingQuantizes) {
  register_observer("mine.MinMax", testing::kOwnMinMax);
  Module observer = make_observer({.observer = "mine.MinMax"});
  observer.forward({at::ones({2}, at::kLong)});
  EXPECT_TRUE(saw_other_dtype(observer));
  EXPECT_TRUE(saw_data(observer));
  EXPECT_TRUE(at::equal(calculate_qparams(observer).scale, at::ones({1})));
}

TEST(RegisteredObserver, IsShownZeroForWhatIsNotFinite) {
  register_observer("mine.MinMax", testing::kOwnMinMax);
  Module observer = make_observer({.observer = "mine.MinMax"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  observer.forward({at::full({2}, nan)});
  EXPECT_FALSE(saw_data(observer));
  observer.forward({at::tensor({-1.0F, nan, 3.0F})});
  EXPECT_EQ(tensors_not_finite(observer), 2);
  Module expected = make_observer({.observer = "mine.MinMax"});
  expected.forward({at::tensor({-1.0F, 0.0F, 3.0F})});
  expect_equal(calculate_qparams(observer), calculate_qparams(expected));
}

TEST(RegisteredObserver, KeepsWhatItSawInAFile) {
  register_observer("mine.MinMax", testing::kOwnMinMax);
  Module observer = make_observer({.observer = "mine.MinMax"});
  observer.forward({at::full({2}, 3.0)});
  std::stringstream file;
  observer.save(file);
  expect_equal(calculate_qparams(torch::jit::load(file)), calculate_qparams(observer));
}

TEST(RegisteredObserver, IsAnyModuleWithTheTwoMethods) {
  Module module("__torch__.mine.Averages");
  module.register_attribute("averaging_constant", c10::FloatType::get(), 0.5);
  module.define("def forward(self, x: Tensor):\n    pass\n");
  module.define(
      "def calculate_qparams(self) -> Tuple[Tensor, Tensor]:\n"
      "    return torch.full([1], self.averaging_constant), torch.zeros([1], dtype=4)\n");
  register_observer("mine.Averages", module);
  module.setattr("averaging_constant", 4.0);  // of the original, not of the copies
  EXPECT_NO_THROW(make_observer({.observer = "mine.Averages"}).eval());
  const at::Tensor x = at::ones({1});
  EXPECT_EQ(observe_once({.observer = "mine.Averages"}, x).scale.item<float>(), 0.5F);
  EXPECT_EQ(observe_once({.observer = "mine.Averages", .averaging_constant = 0.25}, x).scale.item<float>(),
            0.25F);
  expect_error_with("mine.Averages: takes no argument 'bins'",
                    [] { resolve({.observer = "mine.Averages", .bins = 16}); });
}

TEST(RegisteredObserver, WithoutItsMethodsIsRefused) {
  Module module("__torch__.mine.Half");
  expect_error_with("the observer 'mine.Half' has no method forward(x: Tensor)",
                    [&] { register_observer("mine.Half", module); });
  module.define("def forward(self, x: Tensor, y: Tensor) -> Tensor:\n    return x\n");
  expect_error_with("has no method forward(x: Tensor)", [&] { register_observer("mine.Half", module); });
  Module other("__torch__.mine.OtherHalf");
  other.define("def forward(self, x: Tensor) -> Tensor:\n    return x\n");
  expect_error_with("has no method calculate_qparams() -> Tuple[Tensor, Tensor]",
                    [&] { register_observer("mine.Half", other); });
  other.define("def calculate_qparams(self) -> Tensor:\n    return torch.ones([1])\n");
  expect_error_with("has no method calculate_qparams() -> Tuple[Tensor, Tensor]",
                    [&] { register_observer("mine.Half", other); });
  expect_error_with("the source of a custom observer has no class",
                    [] { register_observer("mine.Half", "def forward(self, x): return x"); });
  expect_error_with("'mine.Half' is not an observer", [] { resolve({.observer = "mine.Half"}); });
}

TEST(RegisteredObserver, HasANameOfTheProgramsOwn) {
  for (const char* name : {"", "MinMaxObserver", "torch.ao.quantization.observer.MinMaxObserver", "mine."}) {
    expect_error_with("cannot be the name of an observer",
                      [&] { register_observer(name, testing::kOwnMinMax); });
  }
}

TEST(RegisteredObserver, ThatNobodyRegisteredIsRefusedWithWhatToDo) {
  register_observer("mine.MinMax", testing::kOwnMinMax);
  expect_error(
      "'mine.MinMaks' is not an observer; did you mean 'mine.MinMax'?, or register one under this name", [] {
        ObserverSpec::from_dict({{"observer", "mine.MinMaks"}});
      });
}

TEST(RegisteredObserver, WhoseResultIsNoQuantizationIsNamed) {
  const auto expect_fault = [](const std::string& qparams, const std::string& fault) {
    register_observer("mine.Fixed", observer_that_returns(qparams));
    try {
      observe_once({.observer = "mine.Fixed"}, at::ones({2}));
      ADD_FAILURE() << "no error, wanted: " << fault;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::BadConfig);
      EXPECT_NE(error.problem().find("the observer 'mine.Fixed' " + fault), std::string::npos)
          << error.what();
    }
  };
  expect_fault("(torch.zeros([1]), torch.zeros([1]))", "returns the scale 0");
  expect_fault("(torch.full([1], float('nan')), torch.zeros([1]))", "returns the scale nan");
  expect_fault("(torch.ones([1]), torch.full([1], 256))", "returns the zero point 256");
  expect_fault("(torch.ones([2]), torch.zeros([2]))", "returns 2 scales and 2 zero points");
  expect_fault("(torch.ones([2, 3]).view([5]), torch.zeros([1]))", "fails: ");
}

TEST(RegisteredObserver, ScalesAreNoSmallerThanEps) {
  register_observer("mine.Small",
                    observer_that_returns("(torch.full([1], 1e-6)[0], torch.zeros([1], dtype=4)[0])"));
  EXPECT_EQ(observe_once({.observer = "mine.Small", .eps = 0.25}, at::ones({2})).scale.item<float>(), 0.25F);
}

TEST(RegisteredObserver, IsRegisteredMadeAndAskedByManyThreads) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&right, thread] {
      for (int i = 0; i < 20; ++i) {
        register_observer("mine.Shared", testing::kOwnMinMax);
        const double largest = 255.0 * (thread + 1);
        const QParams found = observe_once({.observer = "mine.Shared"}, at::full({3}, largest));
        right += found.scale.item<float>() == static_cast<float>(thread + 1) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
}

}  // namespace registered_observer_test
}  // namespace tsq
