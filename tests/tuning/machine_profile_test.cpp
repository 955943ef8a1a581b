// A profile as data: read, refused, and asked.
#include "backends/kernels/machine_profile.h"

#include <gmock/gmock.h>
#include <tsq/error.h>
#include <tsq/machine_profile.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/kernels/call_work.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace machine_profile_test {

using ::testing::HasSubstr;
using ::testing::Not;

MachineProfile small_profile() {
  MachineProfile profile{.name = "mine", .processor = "a processor"};
  profile.by_threads[1]["x86 quantized::linear"] = {{"call", 1000}, {"products", 0.5}, {"weights", 0.25}};
  profile.by_threads[2]["x86 quantized::linear"] = {{"call", 2000}};
  return profile;
}

std::string refusal(const nlohmann::json& json) {
  try {
    (void)MachineProfile::from_dict(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadConfig);
    return error.what();
  }
  return "read";
}

TEST(MachineProfile, IsReadAsItIsWritten) {
  MachineProfile profile = small_profile();
  profile.is_estimated = true;
  profile.measured.push_back(
      {.kernel = "aten::relu", .threads = 1, .work = {{"values_in", 8}}, .nanoseconds = 900});
  EXPECT_EQ(MachineProfile::from_dict(profile.to_dict()), profile);
}

TEST(MachineProfile, ForeignJsonIsRefusedInOneSentence) {
  EXPECT_THAT(refusal({{"", nullptr}}), HasSubstr("it is no profile of a machine"));
  EXPECT_THAT(refusal(nlohmann::json::array()), HasSubstr("it is no profile of a machine"));
}

TEST(MachineProfile, ALaterFormatIsRefused) {
  nlohmann::json json = small_profile().to_dict();
  json["version"] = 2;
  EXPECT_THAT(refusal(json), HasSubstr("version 2, and this tsq reads version 1"));
}

TEST(MachineProfile, BadNumbersAreRefusedByTheirPlace) {
  nlohmann::json json = small_profile().to_dict();
  json["threads"]["1"]["x86 quantized::linear"]["call"] = -1;
  EXPECT_THAT(refusal(json), HasSubstr("threads.1.x86 quantized::linear.call"));
  json = small_profile().to_dict();
  json["threads"]["none"] = nlohmann::json::object();
  EXPECT_THAT(refusal(json), HasSubstr("'none' is no number of threads"));
  json = small_profile().to_dict();
  json["colour"] = "red";
  EXPECT_THAT(refusal(json), HasSubstr("colour"));
}

TEST(MachineProfile, AFileThatIsNoProfileIsRefusedByItsPath) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("machine.json");
  std::ofstream(path) << "{\"format\": ";
  try {
    (void)load_machine_profile(path);
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
  EXPECT_THROW((void)load_machine_profile(folder.file("none.json")), Error);
}

TEST(MachineProfile, ProfilesOfTheLibraryAreReadByName) {
  for (const std::string& name : machine_profile_names()) EXPECT_EQ(machine_profile(name)->name, name);
  EXPECT_FALSE(machine_profile("avx512-vnni")->is_estimated);
  EXPECT_TRUE(machine_profile("amx")->is_estimated);
  EXPECT_THROW((void)machine_profile("avx-512"), Error);
}

TEST(MachineProfile, ATimeIsTheSumOverFeatures) {
  const kernels::KernelWork work = kernels::linear_work(/*rows=*/2, /*inputs=*/4, /*outputs=*/16);
  const auto time = kernels::nanoseconds(small_profile(), {"quantized::linear", "x86", 1}, work);
  EXPECT_DOUBLE_EQ(time.value(), 1000 + 0.5 * 2 * 4 * 16 + 0.25 * 4 * 16);
}

TEST(MachineProfile, KernelsThatItDoesNotKnowHaveNoTime) {
  const kernels::KernelWork work = kernels::linear_work(2, 4, 16);
  EXPECT_FALSE(kernels::nanoseconds(small_profile(), {"quantized::linear", "qnnpack", 1}, work));
  EXPECT_FALSE(kernels::nanoseconds(small_profile(), {"aten::never", "", 1}, work));
}

TEST(MachineProfile, MoreThreadsAreAsTheMostThatItHas) {
  const kernels::KernelWork work = kernels::linear_work(2, 4, 16);
  EXPECT_DOUBLE_EQ(kernels::nanoseconds(small_profile(), {"quantized::linear", "x86", 8}, work).value(),
                   2000);
}

TEST(MachineProfile, WhatWasMeasuredCountsBeforeWhatIsPredicted) {
  const kernels::KernelWork work = kernels::linear_work(2, 4, 16);
  MachineProfile profile = small_profile();
  profile.measured.push_back(
      {.kernel = "x86 quantized::linear", .threads = 1, .work = kernels::sizes_of(work), .nanoseconds = 7});
  EXPECT_DOUBLE_EQ(kernels::nanoseconds(profile, {"quantized::linear", "x86", 1}, work).value(), 7);
  EXPECT_DOUBLE_EQ(kernels::nanoseconds(profile, {"quantized::linear", "x86", 2}, work).value(), 2000);
}

}  // namespace machine_profile_test
}  // namespace tsq
