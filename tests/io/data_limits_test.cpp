// What small files of data may become, in memory and time.
#include <gmock/gmock.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "io/archive_file.h"
#include "io/opcodes.h"
#include "support/temporary_folder.h"

namespace tsq::testing {
namespace data_limits_test {

using namespace std::string_literals;
using namespace opcodes;
using ::testing::HasSubstr;

std::string bytes_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

class DataLimits : public ::testing::Test {
 protected:
  /// Reads an archive of torch.save whose list is `parts` and whose storage "0" is `numbers`.
  std::vector<Sample> read(const std::string& parts, const std::vector<float>& numbers) const {
    const std::string path = folder_.file("data.pt");
    write_records(
        path, {{"data.pkl", pickle("](" + parts + "e")}, {"data/0", bytes_of(numbers)}, {"version", "3\n"}});
    return load_samples(path);
  }
  std::string refusal_of_list(const std::string& parts, const std::vector<float>& numbers = {1}) const {
    return refusal([&] { read(parts, numbers); });
  }
  static std::string refusal(const std::function<void()>& reading) {
    try {
      reading();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::BadData);
      return error.what();
    }
    return {};
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_.file(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }

 private:
  TemporaryFolder folder_;
};

constexpr std::int64_t kHalfGigabyte = std::int64_t{1} << 27U;  // of floats

std::string npy_of_bytes(std::size_t rows) {
  std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", 1), }";
  header.resize(117, ' ');
  return "\x93NUMPY\x01\x00"s + "\x76\x00"s + header + "\n" + std::string(rows, '\0');
}

TEST_F(DataLimits, AnExpandedBatchIsReadAndLookedThrough) {
  const std::string batch = tensor_of(storage(3), 0, {64, 3}, {0, 1});
  EXPECT_EQ(read(batch, {1, 2, 3}).at(0).at(0).toTensor().sizes(), (std::vector<std::int64_t>{64, 3}));
  EXPECT_THAT(refusal_of_list(batch, {1, NAN, 3}), HasSubstr("sample 0 of"));
  EXPECT_THAT(refusal_of_list(batch, {1, NAN, 3}), HasSubstr("holds NaN"));
}

TEST_F(DataLimits, WindowsThatOverlapAreReadAndLookedThrough) {
  const std::string windows = tensor_of(storage(4), 0, {3, 2}, {1, 1});
  EXPECT_EQ(read(windows, {1, 2, 3, 4}).size(), 1U);
  EXPECT_THAT(refusal_of_list(windows, {1, 2, 3, INFINITY}), HasSubstr("holds an infinite value"));
}

TEST_F(DataLimits, ATensorThatIsListedTwiceIsRefusedTheFirstTime) {
  const std::string first = tensor_of(storage(2), 0, {2}, {1}) + "q\0"s;
  EXPECT_EQ(read(first + "h\0h\0"s, {1, 2}).size(), 3U);
  EXPECT_THAT(refusal_of_list(first + "h\0"s, {1, NAN}), HasSubstr("sample 0 of"));
}

TEST_F(DataLimits, ExpandedTensorsAreNotMuchLargerThanTheFile) {
  const std::string half = tensor_of(storage(1), 0, {kHalfGigabyte}, {0});
  EXPECT_EQ(read(half + half, {1}).size(), 2U);
  std::string many;
  for (int i = 0; i < 40; ++i) many += half;
  EXPECT_THAT(refusal_of_list(many), HasSubstr("larger than what is stored"));
}

TEST_F(DataLimits, AnExpandedTensorIsNotListedForEver) {
  std::string list = tensor_of(storage(1), 0, {kHalfGigabyte}, {0}) + "q\0"s;
  for (int i = 0; i < 40; ++i) list += "h\0"s;
  EXPECT_THAT(refusal_of_list(list), HasSubstr("of repeated elements"));
}

TEST_F(DataLimits, SamplesAreCountedBeforeTheyAreMade) {
  EXPECT_THAT(refusal([&] { load_samples(write("a.npy", npy_of_bytes(1'000'001))); }),
              HasSubstr("holds 1000001 samples, and no more than 1000000 are read"));
}

TEST_F(DataLimits, ASmallNpzDoesNotBecomeLarge) {
  write_records(file("a.npz"), {{"a.npy", npy_of_bytes(4)}});
  EXPECT_THAT(refusal([&] { load_samples(file("a.npz")); }), HasSubstr("names its arguments"));  // it is read
  std::stringstream whole;
  whole << std::ifstream(file("a.npz"), std::ios::binary).rdbuf();
  std::string bytes = whole.str();
  bytes.replace(bytes.find("PK\x01\x02") + 24, 4, "\x00\x00\x00\x40"s);  // its size in the directory
  EXPECT_THAT(refusal([&] { load_samples(write("b.npz", bytes)); }),
              HasSubstr("becomes more than 134.2 MB when it is unpacked"));
}

}  // namespace data_limits_test
}  // namespace tsq::testing
