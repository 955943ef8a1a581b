// Models with observers of a program's own, from prepare to lower.

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/observer.h>
#include <tsq/quantize.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/expect_error.h"
#include "support/own_observers.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace registered_observer_test {

using torch::jit::Module;

QConfigMapping mapping_with(const std::string& activation, const std::string& weight) {
  return QConfigMapping::from_dict(
      {{"",
        {{"activation", {{"observer", activation}, {"reduce_range", true}}},
         {"weight", {{"observer", weight}, {"dtype", "qint8"}, {"qscheme", "per_channel_symmetric"}}}}}});
}

Prepared calibrated(const QConfigMapping& mapping) {
  torch::manual_seed(3);
  const Module model = testing::conv_bn_relu();
  Prepared prepared = prepare(model, mapping, backend_config("x86"));
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}, {torch::randn({2, 3, 8, 8}) * 2}};
  calibrate(prepared, samples);
  return prepared;
}

at::Tensor result_of(const Prepared& prepared) {
  torch::manual_seed(4);
  const at::NoGradGuard no_grad;
  return Module(convert(prepared, backend_config("x86")).module())
      .forward({torch::randn({2, 3, 8, 8})})
      .toTensor();
}

void register_own() {
  register_observer("mine.MinMax", testing::kOwnMinMax);
  register_observer("mine.Channels", testing::kOwnChannels);
}

TEST(RegisteredObserver, QuantizesAModelAsPyTorchsDoesThatComputesAlike) {
  register_own();
  const at::Tensor expected =
      result_of(calibrated(mapping_with("MinMaxObserver", "PerChannelMinMaxObserver")));
  EXPECT_TRUE(at::equal(result_of(calibrated(mapping_with("mine.MinMax", "mine.Channels"))), expected));
}

TEST(RegisteredObserver, IsCalibratedAndConvertedOutOfAFile) {
  register_own();
  const Prepared prepared = calibrated(mapping_with("mine.MinMax", "mine.Channels"));
  const testing::TemporaryFolder folder;
  const std::string prepared_file = folder.file("prepared.pt");
  prepared.save(prepared_file);
  const Prepared loaded = Prepared::load(prepared_file);
  EXPECT_TRUE(at::equal(result_of(loaded), result_of(prepared)));

  const std::string reference_file = folder.file("reference.pt");
  convert_to_reference(loaded, backend_config("x86")).save(reference_file);
  const Lowered lowered = lower(Reference::load(reference_file), backend_config("x86"));
  torch::manual_seed(4);
  const at::NoGradGuard no_grad;
  const at::Tensor result = Module(lowered.module()).forward({torch::randn({2, 3, 8, 8})}).toTensor();
  EXPECT_TRUE(at::equal(result, result_of(prepared)));
}

TEST(RegisteredObserver, OfAFileIsToBeRegisteredWhereItIsLoaded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // another process, which this one shares no names with
  const std::string file = ::testing::TempDir() + "tsq_observer_of_another_program.pt";
  const auto save_in_another_program = [&] {
    register_observer("other.MinMax", testing::kOwnMinMax);
    calibrated(mapping_with("other.MinMax", "PerChannelMinMaxObserver")).save(file);
    std::_Exit(0);
  };
  EXPECT_EXIT(save_in_another_program(), ::testing::ExitedWithCode(0), "");
  expect_error_with("'other.MinMax' is not an observer", [&] { Prepared::load(file); });
  register_observer("other.MinMax", testing::kOwnMinMax);
  EXPECT_NO_THROW(Prepared::load(file));
  std::filesystem::remove(file);
}

}  // namespace registered_observer_test
}  // namespace tsq
