// load_samples: every form that data comes in, and what is wrong with the others.
#include <gmock/gmock.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include "cli/model_folder.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace data_test {

using ::testing::HasSubstr;

/// A numpy file of version 1 with the given header and content.
std::string npy(const std::string& header, const std::string& content) {
  const std::string padded = header + std::string(118 - header.size() - 1, ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(padded.size()) + '\0' + padded + content;
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  return {static_cast<const char*>(whole.data_ptr()), whole.nbytes()};
}

class Data : public ModelFolder {
 protected:
  /// A forward(x, y, scale: float = 1.0).
  static torch::jit::Module two_arguments() {
    torch::jit::Module module = user_module("Two");
    module.define(
        "def forward(self, x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:\n  return x + y * scale\n");
    return module;
  }
  std::vector<Sample> load_npy(const std::string& file_bytes) {
    write_file(path("a.npy"), file_bytes);
    return load_samples(path("a.npy"));
  }
  void expect_error(const std::string& file, const std::string& words) {
    try {
      load_samples(path(file), two_arguments());
      ADD_FAILURE() << "no error, wanted: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::BadData);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
};

TEST_F(Data, AListOfTensorsIsOneArgumentEach) {
  const std::vector<Sample> samples = load_samples(path("data.pt"));
  ASSERT_EQ(samples.size(), 4U);
  ASSERT_EQ(samples[3].size(), 1U);
  EXPECT_EQ(samples[3][0].toTensor().sizes(), (std::vector<int64_t>{2, 3, 8, 8}));
}

TEST_F(Data, ABareTensorIsOneSample) {
  const at::Tensor x = torch::randn({5, 3});
  write_data("x.pt", x);
  const std::vector<Sample> samples = load_samples(path("x.pt"));
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_TRUE(torch::equal(samples[0][0].toTensor(), x));
}

TEST_F(Data, ATupleHoldsTheArgumentsInOrder) {
  const at::Tensor x = torch::randn({2});
  const at::Tensor y = torch::randn({2});
  write_data("xy.pt", std::make_tuple(x, y));
  const std::vector<Sample> samples = load_samples(path("xy.pt"), two_arguments());
  ASSERT_EQ(samples.size(), 1U);
  ASSERT_EQ(samples[0].size(), 3U);
  EXPECT_TRUE(torch::equal(samples[0][1].toTensor(), y));
  EXPECT_EQ(samples[0][2].toDouble(), 1.0) << "forward's default";
}

TEST_F(Data, NamedArgumentsFindTheirPlace) {
  const at::Tensor x = torch::randn({2});
  const at::Tensor y = torch::randn({2});
  c10::Dict<std::string, at::Tensor> sample;
  sample.insert("y", y);
  sample.insert("x", x);
  write_data("named.pt", sample);
  const std::vector<Sample> samples = load_samples(path("named.pt"), two_arguments());
  EXPECT_TRUE(torch::equal(samples[0][0].toTensor(), x));
  EXPECT_TRUE(torch::equal(samples[0][1].toTensor(), y));
  EXPECT_THROW(load_samples(path("named.pt")), Error) << "without a model nothing says the order";
}

TEST_F(Data, AMissingArgumentIsNamed) {
  write_data("x.pt", torch::randn({2}));
  expect_error("x.pt", "lacks the argument 'y' of forward(Tensor x, Tensor y, float scale)");
}

TEST_F(Data, AnArgumentOfAnotherTypeIsNamed) {
  write_data("xy.pt", std::make_tuple(torch::randn({2}), int64_t{3}));
  expect_error("xy.pt", "argument 'y' is an int");
}

TEST_F(Data, NpyIsCutAlongItsFirstAxisIntoBatchesOfOne) {
  const at::Tensor x = torch::randn({4, 3});
  const std::vector<Sample> samples =
      load_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }", bytes_of(x)));
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_TRUE(torch::equal(samples[2][0].toTensor(), x.slice(0, 2, 3)));
}

TEST_F(Data, NpyInColumnOrderIsTheSameArray) {
  const at::Tensor x = torch::randn({4, 3}).to(at::kDouble);
  const std::vector<Sample> samples =
      load_npy(npy("{'descr': '<f8', 'fortran_order': True, 'shape': (4, 3), }", bytes_of(x.t())));
  EXPECT_TRUE(torch::equal(samples[1][0].toTensor(), x.slice(0, 1, 2)));
}

TEST_F(Data, NpyOfAnotherLengthThanItsHeaderSays) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }";
  write_file(path("short.npy"), npy(header, std::string(47, '\0')));
  expect_error("short.npy", "holds 47 bytes of numbers where its header says 48");
  write_file(path("long.npy"), npy(header, std::string(49, '\0')));
  expect_error("long.npy", "holds 49 bytes of numbers where its header says 48");
}

TEST_F(Data, NpyThatClaimsMoreThanAnyMachineHolds) {
  write_file(path("huge.npy"),
             npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", "1234"));
  expect_error("huge.npy", "claims the shape (99999999999, 99999999999), which no tensor can have");
  write_file(path("empty.npy"), npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 281474976710656, "
                                    "281474976710656), }",
                                    ""));
  expect_error("empty.npy", "which no tensor can have");
  std::string axes;
  for (int i = 0; i < 65; ++i) axes += "1,";
  write_file(path("axes.npy"),
             npy("{'descr':'<f4','fortran_order':False,'shape':(" + axes.substr(0, 60) + ")}", ""));
  expect_error("axes.npy", "holds 0 bytes of numbers where its header says 4");
}

TEST_F(Data, NpyOfPythonObjects) {
  write_file(path("o.npy"), npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "1234"));
  expect_error("o.npy", "Python objects");
}

TEST_F(Data, NpyInBigEndianOrder) {
  write_file(path("b.npy"), npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"));
  expect_error("b.npy", "'>f4'");
}

TEST_F(Data, NpyThatEndsWithinItsHeader) {
  write_file(path("h.npy"),
             npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "").substr(0, 30));
  expect_error("h.npy", "ends within its header");
}

TEST_F(Data, NpyWithoutSamples) {
  write_file(path("z.npy"), npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", ""));
  expect_error("z.npy", "holds no samples");
  write_file(path("s.npy"), npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "1234"));
  expect_error("s.npy", "single number");
}

TEST_F(Data, DamagedFilesAreRefusedOrReadButNeverCrash) {
  const std::string whole = read_file(path("data.pt"));
  std::srand(11);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 3; ++j)
      damaged[static_cast<std::size_t>(std::rand()) % damaged.size()] = static_cast<char>(std::rand());
    write_file(path("damaged.pt"), damaged);
    try {
      load_samples(path("damaged.pt"));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::BadData);
    }
  }
}

}  // namespace data_test
}  // namespace tsq::testing
