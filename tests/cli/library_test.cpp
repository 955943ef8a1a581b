// --library: files that use a user's own operators.
#include <gmock/gmock.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/library.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/model_folder.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace library_test {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// Knows the operators of the libraries, which Python spells torch.ops.doubling and torch.ops.tripling.
struct LibraryResolver : torch::jit::Resolver {
  std::shared_ptr<torch::jit::SugaredValue> resolveValue(const std::string& name,
                                                         torch::jit::GraphFunction& function,
                                                         const torch::jit::SourceRange& where) override {
    if (name == "doubling" || name == "tripling") return std::make_shared<torch::jit::BuiltinModule>(name);
    return torch::jit::nativeResolver()->resolveValue(name, function, where);
  }
};

class LibraryOption : public ModelFolder {
 protected:
  void SetUp() override {
    ModelFolder::SetUp();
    load_library(TSQ_DOUBLING_LIBRARY);  // it takes the operator to write the file
    torch::jit::Module model = user_module("Doubling");
    model.register_module("conv", conv2d(3, 8, 3));
    model.define("def forward(self, x):\n  return doubling.twice(self.conv.forward(x))\n",
                 std::make_shared<LibraryResolver>());
    model.eval();
    model.save(path("doubling.pt"));
  }

  static Outcome with_library(Words words) {
    words.insert(words.begin() + 1, {"--library", TSQ_DOUBLING_LIBRARY});
    return tsq(words);
  }
};

TEST_F(LibraryOption, AFileOfItsOperatorsLoadsInEveryCommand) {
  EXPECT_EQ(tsq({"inspect", path("doubling.pt")}).exit_code, 1) << "nobody has loaded it";
  EXPECT_THAT(with_library({"inspect", path("doubling.pt")}).out, HasSubstr("doubling::twice"));
  const Words quantize{"quantize", path("doubling.pt"), "--calib",     path("data.pt"),
                       "--output", path("out.pt"),      "--reference", path("ref.pt")};
  ASSERT_EQ(with_library(quantize).exit_code, 0);
  const Words two{path("doubling.pt"), path("out.pt"), "--data", path("data.pt")};
  for (const Words& before : {Words{"compare"}, Words{"verify"},
                              Words{"bench", "--rounds", "1", "--launches", "1", "--warmup", "0"},
                              Words{"bench", "--rounds", "1", "--profile"},
                              Words{"report", "--no-times", "--output", path("report.html")}}) {
    Words words = before;
    words.insert(words.end(), two.begin(), two.end());
    const Outcome outcome = with_library(words);
    EXPECT_EQ(outcome.exit_code, 0) << before.front() << outcome.err;
  }
  EXPECT_EQ(with_library({"run", path("out.pt"), "--data", path("data.pt")}).exit_code, 0);
  EXPECT_EQ(with_library({"lower", path("ref.pt"), "--output", path("again.pt")}).exit_code, 0);
}

TEST_F(LibraryOption, OneThatCannotBeLoadedIsASentence) {
  write_file(path("text.so"), "no library");
  for (const std::string& library : {path("nowhere.so"), path("text.so")}) {
    const Outcome outcome = tsq({"inspect", path("model.pt"), "--library", library, "--json"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("cannot load the library '" + library + "'"));
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["error"]["code"], "bad_config");
  }
}

TEST_F(LibraryOption, SeveralAreLoadedAndTakeNoOtherWord) {
  load_library(TSQ_TRIPLING_LIBRARY);
  torch::jit::Module model = user_module("Both");
  model.define("def forward(self, x):\n  return tripling.thrice(doubling.twice(x))\n",
               std::make_shared<LibraryResolver>());
  model.save(path("both.pt"));
  const Outcome both =
      tsq({"inspect", "--library", TSQ_DOUBLING_LIBRARY, "--library", TSQ_TRIPLING_LIBRARY, path("both.pt")});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  for (const auto& [library, missing] : {std::pair{TSQ_DOUBLING_LIBRARY, "tripling::thrice"},
                                         std::pair{TSQ_TRIPLING_LIBRARY, "doubling::twice"}}) {
    const Outcome one = tsq({"inspect", "--library", library, path("both.pt")});
    EXPECT_EQ(one.exit_code, 1);
    EXPECT_THAT(one.err, HasSubstr(missing));
  }
}

TEST_F(LibraryOption, ANameWithoutAFolderIsAFileHere) {
  const std::filesystem::path before = std::filesystem::current_path();
  write_file(path("here.so"), "no library");
  std::filesystem::current_path(path(""));
  try {
    load_library("here.so");
    ADD_FAILURE() << "it is no library";
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), HasSubstr(path("here.so"))) << "the file was found";
  }
  std::filesystem::current_path(before);
}

}  // namespace library_test
}  // namespace tsq::testing
