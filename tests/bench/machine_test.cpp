#include <gmock/gmock.h>
#include <tsq/bench/machine.h>

#include "bench/resident.h"

namespace tsq::bench {
namespace machine_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kCpuinfo =
    "processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\ncpu MHz\t\t: 2599.998\n"
    "flags\t\t: fpu sse4_1 avx2 avx512_vnni hypervisor rdtscp\n\n"
    "processor\t: 1\nmodel name\t: Some CPU @ 2.60GHz\ncpu MHz\t\t: 1200.000\nflags\t\t: fpu sse4_1 avx2\n";

TEST(MachineNotes, NameFrequencyAndFeaturesAreRead) {
  const Machine machine = machine_from(kCpuinfo);
  EXPECT_EQ(machine.processor, "Some CPU @ 2.60GHz");
  EXPECT_EQ(machine.processors, 2);
  EXPECT_TRUE(machine.is_virtual);
  EXPECT_DOUBLE_EQ(machine.mhz.value_or(0), 2599.998);
  EXPECT_THAT(machine.features, ElementsAre("sse4_1", "avx2", "avx512_vnni"));
}

TEST(MachineNotes, PinningShows) {
  Machine machine = machine_from(kCpuinfo);
  machine.allowed = 2;
  EXPECT_THAT(text_of(machine), Not(HasSubstr("pinned")));
  machine.allowed = 1;
  EXPECT_THAT(text_of(machine), HasSubstr("pinned to 1"));
}

TEST(MachineNotes, StolenTimeIsTheEighthColumn) {
  const ProcessorTime time = processor_time_from("cpu  100 0 50 800 20 0 10 20 0 0\ncpu0 1 2 3\n");
  EXPECT_DOUBLE_EQ(time.all, 1000);
  EXPECT_DOUBLE_EQ(time.idle, 820);
  EXPECT_DOUBLE_EQ(time.stolen, 20);
}

TEST(MachineNotes, AQuietMachineHasNoWarning) {
  Machine machine = machine_from(kCpuinfo);
  machine.load = 0.1;
  machine.governor = "performance";
  EXPECT_THAT(warnings_about(machine, {}, {.all = 1000, .idle = 500, .stolen = 1}, 1.05), IsEmpty());
}

TEST(MachineNotes, EachKindOfNoiseHasAWarning) {
  Machine machine = machine_from(kCpuinfo);
  machine.load = 3;
  machine.governor = "powersave";
  EXPECT_THAT(warnings_about(machine, {}, {.all = 1000, .idle = 500, .stolen = 100}, 1.5),
              ElementsAre(HasSubstr("3.0 processes"), HasSubstr("10 %"), HasSubstr("1.50 times"),
                          HasSubstr("'powersave'")));
}

TEST(MachineNotes, ResidentMemoryIsReadInBytes) {
  const Resident resident = resident_from("Name:\ttsq\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n");
  EXPECT_EQ(resident.now, 1024U * 1024U);
  EXPECT_EQ(resident.most, 2048U * 1024U);
}

}  // namespace machine_test
}  // namespace tsq::bench
