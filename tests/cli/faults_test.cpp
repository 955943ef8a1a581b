// Issue after issue that a user can run into: each exits with 1 (a bad input) or 2 (bad usage), one line that
// says what is wrong, and leaves the folder as it was.
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <torch/script.h>

#include <algorithm>
#include <cstdlib>

#include "cli/model_folder.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace faults_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class Faults : public ModelFolder {
 protected:
  /// Runs `tsq`, which must refuse in one line with all of `words` and change nothing in the folder.
  void expect_refusal(const std::vector<std::string>& arguments, int exit_code,
                      const std::vector<std::string>& words) {
    const std::vector<std::string> before = entries();
    const Outcome outcome = tsq(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << "signal " << outcome.signal << ", said: " << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("tsq: error: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_LT(outcome.err.size(), 600U) << outcome.err;
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(entries(), before);
  }
  void expect_bad_input(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
    expect_refusal(arguments, 1, words);
  }
  void expect_bad_usage(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
    expect_refusal(arguments, 2, words);
  }

  [[nodiscard]] std::vector<std::string> with_model(const std::string& name) const {
    std::vector<std::string> arguments = quantize_arguments();
    arguments[1] = path(name);
    return arguments;
  }
  [[nodiscard]] std::vector<std::string> with_data(const std::string& name) const {
    std::vector<std::string> arguments = quantize_arguments();
    arguments[3] = path(name);
    return arguments;
  }
  [[nodiscard]] std::vector<std::string> with_output(const std::string& output) const {
    std::vector<std::string> arguments = quantize_arguments();
    arguments[5] = output;
    return arguments;
  }
  [[nodiscard]] std::vector<std::string> with(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = quantize_arguments();
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  void expect_bad_data(const at::IValue& data, const std::vector<std::string>& words) {
    write_data("bad.pt", data);
    expect_bad_input(with_data("bad.pt"), words);
  }
  void expect_bad_json(const std::string& option, const std::string& text,
                       const std::vector<std::string>& words) {
    write_file(path("bad.json"), text);
    expect_bad_input(with({option, path("bad.json")}), words);
  }
};

c10::List<at::Tensor> samples_of(std::vector<at::Tensor> tensors) { return c10::List<at::Tensor>(tensors); }

// Model files.

TEST_F(Faults, MissingModel) { expect_bad_input(with_model("none.pt"), {"none.pt", "does not exist"}); }

TEST_F(Faults, DirectoryAsModel) {
  std::filesystem::create_directory(path("folder"));
  expect_bad_input(with_model("folder"), {"folder", "directory"});
}

TEST_F(Faults, EmptyModelFile) {
  write_file(path("empty.pt"), "");
  expect_bad_input(with_model("empty.pt"), {"empty.pt", "empty"});
}

TEST_F(Faults, AModelWithANameThatLibTorchWritesAndCannotRead) {
  torch::jit::Module model("Greek");
  model.define("def forward(self, x):\n  return x + 1\n");
  torch::jit::Function& forward = model.get_method("forward").function();
  torch::jit::toGraphFunction(forward).graph()->inputs()[1]->setDebugName("x_θ");
  std::vector<c10::Argument> arguments = forward.getSchema().arguments();
  arguments[1] = c10::Argument("x_θ", arguments[1].type());
  forward.setSchema(forward.getSchema().cloneWithArguments(arguments));
  model.save(path("greek.pt"));
  expect_bad_input(with_model("greek.pt"), {"greek.pt", "'x_θ'", "ASCII", "another name"});
  expect_bad_input({"inspect", path("greek.pt")}, {"'x_θ'"});
}

TEST_F(Faults, AModelWithABufferWhoseNameLibTorchWritesAndCannotRead) {
  torch::jit::Module model("German");
  model.register_buffer("plain", torch::ones({1}));
  model.register_buffer("größe", torch::ones({1}));
  model.define("def forward(self, x):\n  return x + self.plain\n");
  for (torch::jit::Node* node :
       torch::jit::toGraphFunction(model.get_method("forward").function()).graph()->nodes()) {
    if (node->kind() != c10::prim::GetAttr) continue;
    node->s_(c10::attr::name, "größe");
    node->output()->setDebugName("gr____e");  // as torch.jit.script names it
  }
  model.save(path("german.pt"));
  expect_bad_input(with_model("german.pt"), {"german.pt", "'gr____e'", "ASCII", "another name"});
}

TEST_F(Faults, ModelCutShortAtAnyPlace) {
  const std::string whole = read_file(path("model.pt"));
  for (const double share : {0.01, 0.3, 0.6, 0.9, 0.999}) {
    write_file(path("cut.pt"),
               whole.substr(0, static_cast<std::size_t>(static_cast<double>(whole.size()) * share)));
    expect_bad_input(with_model("cut.pt"), {"cut.pt"});
  }
}

TEST_F(Faults, RandomBytesAsModel) {
  std::srand(3);
  std::string bytes(4096, '\0');
  for (char& byte : bytes) byte = static_cast<char>(std::rand());
  write_file(path("random.pt"), bytes);
  expect_bad_input(with_model("random.pt"), {"random.pt"});
  write_file(path("random.pt"), "PK\x03\x04" + bytes);
  expect_bad_input(with_model("random.pt"), {"random.pt"});
}

/// An archive as torch.save writes it, around a pickle of which the beginning tells what it is.
std::string torch_save(const std::string& pickle) {
  std::string bytes;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&bytes](const void* data, std::size_t size) {
      bytes.append(static_cast<const char*>(data), size);
      return size;
    });
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeEndOfFile();
  }
  return bytes;
}

/// An archive with records of these names.
std::string archive_of(const std::vector<std::string>& names) {
  std::string bytes;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&bytes](const void* data, std::size_t size) {
      bytes.append(static_cast<const char*>(data), size);
      return size;
    });
    for (const std::string& name : names) writer.writeRecord(name, "x", 1);
    writer.writeEndOfFile();
  }
  return bytes;
}

TEST_F(Faults, FilesThatAreNoTorchScriptAreCalledWhatTheyAre) {
  using namespace std::string_literals;
  const std::string whole = read_file(path("model.pt"));
  struct Case {
    std::string name, bytes, what, remedy;
  };
  for (const Case& each : std::vector<Case>{
           {"module.pt",
            torch_save("\x80\x02"
                       "c__main__\nNet\nq\x00)\x81q\x01}"s),
            "an nn.Module of torch.save", "torch.jit.script"},
           {"state.pt",
            torch_save("\x80\x02"
                       "ccollections\nOrderedDict\nq\x00)R"s),
            "a state_dict", "torch.jit.script"},
           {"check.pt", torch_save("\x80\x02}q\x00(X\x05\x00\x00\x00modelq"s), "checkpoint",
            "torch.jit.script"},
           {"tensor.pt",
            torch_save("\x80\x02"
                       "ctorch._utils\n_rebuild_tensor_v2\nq\x00"s),
            "a tensor", "torch.jit.save"},
           {"list.pt",
            torch_save("\x80\x02]q\x00"
                       "ctorch._utils\n"s),
            "a list", "torch.jit.save"},
           {"program.pt2", archive_of({"models/model.json", "archive_format"}), "torch.export",
            "torch.jit.trace"},
           {"old.pt", "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."s, "before PyTorch 1.6",
            "torch.jit.script"},
           {"plain.pt", "\x80\x04\x95"s, "a pickle", "torch.jit.script"},
           {"model.onnx", "\x08\x08\x12\x07pytorch\x1a"s, "an ONNX model", "TorchScript"},
           {"weights.safetensors", "\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\"}}"s, "safetensors",
            "torch.jit.script"},
           {"data.npy", "\x93NUMPY\x01\0v\0"s, "numpy", "torch.jit.save"},
           {"keras.h5", "\x89HDF\r\n\x1a\n"s, "HDF5", "TorchScript"},
           {"lite.tflite", "\x1c\0\0\0TFL3\x14\0"s, "TensorFlow Lite", "TorchScript"},
           {"pointer.pt", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS",
            "git lfs pull"},
           {"page.pt", "<!DOCTYPE html><html></html>", "HTML", "download"},
           {"packed.pt.gz", "\x1f\x8b\x08\0\0"s, "gzip", "gunzip"},
           {"cut.pt", whole.substr(0, whole.size() / 2), "cut short", "again"},
       }) {
    write_file(path(each.name), each.bytes);
    expect_bad_input(with_model(each.name), {each.name, each.what, each.remedy});
  }
}

/// A model of one line, which gets the samples of data.pt.
torch::jit::Module line_of(const std::string& body) {
  torch::jit::Module module = user_module("Line");
  module.register_module("conv", conv2d(3, 4, 3));
  module.define("def forward(self, x):\n" + body);
  return module;
}

TEST_F(Faults, TheModelsOwnRaiseShowsItsOwnText) {
  line_of("  assert x.size(0) == 1, 'batch must be 1'\n  return self.conv.forward(x)\n")
      .save(path("raise.pt"));
  expect_bad_input(with_model("raise.pt"), {"sample 0", "AssertionError: batch must be 1"});
  expect_bad_input({"bench", path("raise.pt"), "--data", path("data.pt")},
                   {"AssertionError: batch must be 1"});
  expect_bad_input({"compare", path("model.pt"), path("raise.pt"), "--data", path("data.pt")},
                   {"raise.pt", "AssertionError: batch must be 1"});
}

TEST_F(Faults, OutOfMemoryIsOneSentenceWhereverItHappens) {
  line_of("  big = torch.zeros([1 << 50])\n  return self.conv.forward(x) + big[0]\n").save(path("big.pt"));
  for (const std::vector<std::string>& arguments :
       {with_model("big.pt"), std::vector<std::string>{"bench", path("big.pt"), "--data", path("data.pt")},
        std::vector<std::string>{"compare", path("model.pt"), path("big.pt"), "--data", path("data.pt")},
        std::vector<std::string>{"sensitivity", path("big.pt"), "--calib", path("data.pt")},
        std::vector<std::string>{"explain", path("big.pt"), "--calib", path("data.pt")}})
    expect_bad_input(arguments, {"this machine has too little memory"});
}

TEST_F(Faults, NaNThatArisesInsideTheModelIsNoFault) {
  line_of("  return self.conv.forward(x) * float('nan')\n").save(path("nan.pt"));
  torch::jit::Module hidden = user_module("Hidden");
  hidden.register_module("conv", conv2d(3, 4, 3));
  hidden.register_module("again", conv2d(4, 4, 3));
  hidden.define(
      "def forward(self, x):\n"
      "  return torch.nan_to_num(self.again.forward(torch.log(self.conv.forward(x) - 1000.0)))\n");
  hidden.save(path("hidden.pt"));
  for (const std::string name : {"nan.pt", "hidden.pt"}) {
    const Outcome outcome = tsq(with_model(name));
    EXPECT_EQ(outcome.exit_code, 0) << name << ": " << outcome.err;
  }
}

TEST_F(Faults, OptionsThatNothingWouldRead) {
  expect_bad_usage(with({"--bits", "4"}), {"--bits", "mode static", "--mode weight_only"});
  expect_bad_usage(with({"--mode", "dynamic", "--bits", "4"}),
                   {"--bits", "mode dynamic", "--mode weight_only"});
  expect_bad_usage(with({"--mode", "dynamic", "--group-size", "32"}), {"--group-size", "mode dynamic"});
  expect_bad_usage(with({"--dtype", "float16"}), {"--dtype", "mode static"});
  expect_bad_usage(with({"--recipe", "fx", "--weight-rounding", "nearest"}),
                   {"--weight-rounding", "recipe fx"});
  expect_bad_usage(with({"--mode", "dynamic", "--cross-layer-equalization", "3"}),
                   {"--cross-layer-equalization", "mode dynamic"});
  write_file(path("q.json"), R"({"": null})");
  expect_bad_usage(with({"--mode", "weight_only", "--smooth-quant", "0.5"}),
                   {"--smooth-quant", "weight_only"});
  expect_bad_usage(with({"--mode", "weight_only", "--bits", "4", "--qconfig", path("q.json")}),
                   {"--bits", "--qconfig"});
}

TEST_F(Faults, WhatIsQuantizedAlready) {
  ASSERT_EQ(tsq({"prepare", path("model.pt"), "-o", path("1.pt")}).exit_code, 0);
  ASSERT_EQ(tsq({"calibrate", path("1.pt"), "--calib", path("data.pt"), "-o", path("2.pt")}).exit_code, 0);
  ASSERT_EQ(tsq({"convert", path("2.pt"), "-o", path("3.pt")}).exit_code, 0);
  ASSERT_EQ(tsq({"lower", path("3.pt"), "-o", path("4.pt")}).exit_code, 0);
  for (const std::string name : {"1.pt", "2.pt", "3.pt", "4.pt"}) {
    expect_bad_input(with_model(name), {name, "not a float model"});
    torch::jit::load(path(name)).save(path("again.pt"));  // LibTorch drops what tsq wrote beside the model
    expect_bad_input(with_model("again.pt"), {"already"});
  }
}

TEST_F(Faults, ATableOfAnotherBackendThanThatOfPrepare) {
  ASSERT_EQ(tsq({"prepare", path("model.pt"), "-o", path("p.pt")}).exit_code, 0);
  expect_bad_input({"convert", path("p.pt"), "--backend", "qnnpack", "-o", path("r.pt")},
                   {"prepared for backend 'x86'", "'qnnpack'"});
}

TEST_F(Faults, DataAsModel) { expect_bad_input(with_model("data.pt"), {"data.pt"}); }

TEST_F(Faults, ModelWithoutForward) {
  torch::jit::Module module = user_module("NoForward");
  module.define("def go(self, x):\n  return x\n");
  module.save(path("go.pt"));
  expect_bad_input(with_model("go.pt"), {"go.pt", "no forward"});
}

TEST_F(Faults, ModelThatIsQuantizedAlready) {
  ASSERT_EQ(tsq(quantize_arguments()).exit_code, 0);
  std::vector<std::string> again = with_model("out.pt");
  again[5] = path("again.pt");
  expect_bad_input(again, {"out.pt", "not a float model", "a finished model", "tsq run"});
}

TEST_F(Faults, AFileOfAnotherStepIsNamedWithWhatToDo) {
  ASSERT_EQ(tsq({"prepare", path("model.pt"), "-o", path("p.pt")}).exit_code, 0);
  ASSERT_EQ(tsq({"calibrate", path("p.pt"), "--calib", path("data.pt"), "-o", path("c.pt")}).exit_code, 0);
  ASSERT_EQ(tsq({"convert", path("c.pt"), "-o", path("r.pt")}).exit_code, 0);
  ASSERT_EQ(tsq({"lower", path("r.pt"), "-o", path("f.pt")}).exit_code, 0);
  const std::string out = path("o.pt");
  const auto calibrate = [&](const std::string& name) {
    return std::vector<std::string>{"calibrate", path(name), "--calib", path("data.pt"), "-o", out};
  };
  const auto step = [&](const std::string& command, const std::string& name) {
    return std::vector<std::string>{command, path(name), "-o", out};
  };
  for (const auto& arguments : {calibrate("f.pt"), step("convert", "f.pt"), step("lower", "f.pt"),
                                step("prepare", "f.pt"), with_model("f.pt")})
    expect_bad_input(arguments, {"f.pt", "it is a finished model", "tsq run, compare and bench"});
  for (const auto& arguments : {calibrate("r.pt"), step("convert", "r.pt"), step("prepare", "r.pt")})
    expect_bad_input(arguments, {"r.pt", "it is a reference model", "tsq lower"});
  for (const auto& arguments : {step("lower", "c.pt"), step("prepare", "c.pt"), with_model("p.pt")})
    expect_bad_input(arguments, {"it is a prepared model", "tsq calibrate, then tsq convert"});
  for (const auto& arguments : {calibrate("model.pt"), step("convert", "model.pt")})
    expect_bad_input(arguments, {"not a prepared model of tsq", "prepare the float model first"});
  expect_bad_input(step("lower", "model.pt"), {"prepare, calibrate and convert the float model first"});
}

TEST_F(Faults, ImagesAsTheyAreInFiles) {
  write_data("bytes.pt", std::vector<at::Tensor>{torch::ones({2, 3, 8, 8}, torch::kByte)});
  expect_bad_input({"quantize", path("model.pt"), "--calib", path("bytes.pt"), "-o", path("o.pt")},
                   {"input 0 is of dtype uint8", "convert it to float"});
}

TEST_F(Faults, EveryCommandRefusesAMissingModel) {
  const std::string none = path("none.pt");
  const std::string out = path("o.pt");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"prepare", none, "-o", out},
                                             {"calibrate", none, "--calib", path("data.pt"), "-o", out},
                                             {"convert", none, "-o", out},
                                             {"lower", none, "-o", out},
                                             {"explain", none},
                                             {"inspect", none},
                                             {"compare", path("model.pt"), none, "--data", path("data.pt")},
                                             {"bench", none, "--data", path("data.pt")}}) {
    expect_bad_input(arguments, {"none.pt", "does not exist"});
  }
}

TEST_F(Faults, StepsOutOfOrder) {
  expect_bad_input({"calibrate", path("model.pt"), "--calib", path("data.pt"), "-o", path("o.pt")},
                   {"model.pt", "prepared"});
  expect_bad_input({"convert", path("model.pt"), "-o", path("o.pt")}, {"model.pt", "prepared"});
  expect_bad_input({"lower", path("model.pt"), "-o", path("o.pt")}, {"model.pt", "reference"});
}

// Data.

TEST_F(Faults, MissingData) { expect_bad_input(with_data("none.pt"), {"none.pt", "does not exist"}); }

TEST_F(Faults, EmptyDataFile) {
  write_file(path("empty.pt"), "");
  expect_bad_input(with_data("empty.pt"), {"empty.pt", "is empty"});
}

TEST_F(Faults, DataCutShort) {
  const std::string whole = read_file(path("data.pt"));
  write_file(path("cut.pt"), whole.substr(0, whole.size() / 2));
  expect_bad_input(with_data("cut.pt"), {"cut.pt", "damaged"});
}

TEST_F(Faults, TextAsData) {
  write_file(path("text.pt"), "1 2 3\n");
  expect_bad_input(with_data("text.pt"), {"text.pt", "torch.save"});
}

TEST_F(Faults, ModelAsData) { expect_bad_input(with_data("model.pt"), {"model.pt", "TorchScript model"}); }

TEST_F(Faults, NoSamples) { expect_bad_data(samples_of({}), {"bad.pt", "empty list"}); }

TEST_F(Faults, NumberAsData) { expect_bad_data(int64_t{3}, {"bad.pt", "an int"}); }

TEST_F(Faults, SampleThatIsNoTensor) { expect_bad_data(c10::List<int64_t>({1, 2}), {"sample 0", "an int"}); }

TEST_F(Faults, NotANumber) {
  at::Tensor bad = torch::randn({2, 3, 8, 8});
  bad[1][2][3][4] = NAN;
  expect_bad_data(samples_of({torch::randn({2, 3, 8, 8}), bad}), {"sample 1", "argument 0", "NaN"});
}

TEST_F(Faults, InfiniteNumber) {
  at::Tensor bad = torch::randn({2, 3, 8, 8});
  bad[0][0][0][0] = -INFINITY;
  expect_bad_data(samples_of({bad}), {"sample 0", "infinite"});
}

TEST_F(Faults, SampleOfEmptyTensorsOnly) {
  expect_bad_data(samples_of({torch::randn({1, 3, 8, 8}), torch::randn({0, 3, 8, 8})}),
                  {"sample 1", "empty"});
}

TEST_F(Faults, TooManyArguments) {
  expect_bad_data(std::make_tuple(torch::randn({2, 3, 8, 8}), torch::zeros({2})),
                  {"sample 0", "2 arguments", "takes 1"});
}

TEST_F(Faults, WrongShape) {
  expect_bad_data(samples_of({torch::randn({2, 5, 8, 8})}), {"sample 0", "channels"});
}

TEST_F(Faults, WrongDtype) {
  expect_bad_data(samples_of({torch::randn({2, 3, 8, 8}).to(at::kDouble)}), {"sample 0", "double"});
}

TEST_F(Faults, NamedArgumentThatForwardDoesNotHave) {
  c10::impl::GenericDict sample(c10::StringType::get(), c10::TensorType::get());
  sample.insert("image", torch::randn({2, 3, 8, 8}));
  expect_bad_data(sample, {"'image'", "forward(Tensor x)"});
}

// JSON.

TEST_F(Faults, JsonThatIsNoJson) {
  expect_bad_json("--qconfig", "{\"\": null,\n \"object_type\": [", {"bad.json", "not JSON", "line 2"});
  expect_bad_json("--backend-config", "", {"bad.json", "not JSON"});
}

TEST_F(Faults, AProfileOfAMachineThatIsNone) {
  expect_bad_json("--machine", "{", {"bad.json", "not JSON"});
  expect_bad_json("--machine", R"({"": null})", {"bad.json", "no profile of a machine", "tsq tune"});
  expect_bad_json("--machine", R"({"format": "tsq machine profile", "version": 9})",
                  {"bad.json", "version 9", "later"});
  expect_bad_input(with({"--machine", path("none.json")}), {"none.json", "does not exist"});
}

TEST_F(Faults, AModelIsTunedWithData) {
  expect_bad_usage({"tune", "model.pt", "--output", path("machine.json")}, {"--data"});
}

TEST_F(Faults, MissingJson) {
  expect_bad_input(with({"--qconfig", path("none.json")}), {"none.json", "does not exist"});
}

TEST_F(Faults, UnknownKeyInMapping) {
  expect_bad_json("--qconfig", R"({"object_typ": []})", {"bad.json", "object_typ", "object_type"});
}

TEST_F(Faults, ALongNameDoesNotMakeALongSentence) {
  write_file(path("bad.json"), "{\"" + std::string(2000, 'a') + "\": null}");
  std::vector<std::string> arguments = quantize_arguments();
  arguments.insert(arguments.end(), {"--qconfig", path("bad.json")});
  const Outcome outcome = tsq(arguments);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("aaaa … aaaa"));
  EXPECT_LT(outcome.err.size(), 600U);
}

TEST_F(Faults, UnknownObserver) {
  expect_bad_json(
      "--qconfig",
      R"({"": {"activation": {"observer": "HistogrmObserver"}, "weight": {"observer": "MinMaxObserver"}}})",
      {"bad.json", "HistogrmObserver", "HistogramObserver"});
}

TEST_F(Faults, OneKeyTwice) {
  expect_bad_json("--qconfig", R"({"": null, "": null})", {"bad.json", "twice"});
}

TEST_F(Faults, EndlessNesting) {
  expect_bad_json("--backend-config", std::string(100000, '['), {"bad.json", "nests deeper"});
}

TEST_F(Faults, WrongTypeInJson) {
  expect_bad_json("--qconfig", "[1, 2]", {"bad.json"});
  expect_bad_json("--backend-config", R"({"name": 3})", {"bad.json", "name"});
}

TEST_F(Faults, UnknownDtypeInTable) {
  expect_bad_json(
      "--backend-config",
      R"({"name": "x86", "configs": [{"pattern": "torch.nn.Linear", "dtype_configs": [{"input_dtype": "quint9"}]}]})",
      {"bad.json", "quint9", "quint8"});
}

TEST_F(Faults, CheckCommandsRefuseTheSame) {
  write_file(path("bad.json"), R"({"object_typ": []})");
  expect_bad_input({"qconfig", "check", path("bad.json")}, {"bad.json", "object_typ"});
  expect_bad_input({"backend-config", "check", path("bad.json")}, {"bad.json", "object_typ"});
  expect_bad_input({"backend-config", "show", "x68"}, {"x68", "x86"});
  expect_bad_input({"qconfig", "show", "default_qconfg"}, {"default_qconfg", "'default_qconfig'"});
}

// Outputs.

TEST_F(Faults, OutputInAMissingDirectory) {
  expect_bad_input(with_output(path("none/out.pt")), {"none", "does not exist"});
}

TEST_F(Faults, OutputIsADirectory) {
  std::filesystem::create_directory(path("folder"));
  expect_bad_input(with_output(path("folder")), {"folder", "is a directory"});
}

TEST_F(Faults, OutputIsADevice) {
  expect_bad_input(with_output("/dev/null"), {"/dev/null", "not a regular file"});
}

TEST_F(Faults, OutputIsAnInput) {
  const std::string model = read_file(path("model.pt"));
  expect_bad_input(with_output(path("model.pt")), {"model.pt", "is the input"});
  std::filesystem::create_symlink(path("model.pt"), path("link.pt"));
  expect_bad_input(with_output(path("link.pt")), {"is the input"});
  expect_bad_input(with({"--report", path("data.pt")}), {"data.pt", "is the input"});
  EXPECT_EQ(read_file(path("model.pt")), model);
}

TEST_F(Faults, TwoOutputsOfOneName) {
  expect_bad_input(with({"--reference", path("out.pt")}), {"two outputs", "out.pt"});
}

TEST_F(Faults, OutputWithoutPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  std::filesystem::create_directory(path("locked"));
  chmod(path("locked").c_str(), 0500);
  expect_bad_input(with_output(path("locked/out.pt")), {"locked", "Permission denied"});
}

TEST_F(Faults, OutputThatMayNotBeWritten) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  write_file(path("out.pt"), "kept");
  chmod(path("out.pt").c_str(), 0400);
  expect_bad_input(quantize_arguments(), {"out.pt", "it exists: Permission denied"});
  EXPECT_EQ(read_file(path("out.pt")), "kept");
}

TEST_F(Faults, DiskFull) {
  write_file(path("out.pt"), "what was there before");
  const std::vector<std::string> before = entries();
  const Outcome outcome = Program(quantize_arguments(), 2048).wait();
  EXPECT_EQ(outcome.exit_code, 1) << "signal " << outcome.signal << ", said: " << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cannot write '" + path("out.pt") + "'"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_EQ(read_file(path("out.pt")), "what was there before");
  EXPECT_EQ(entries(), before);
}

// Usage.

TEST_F(Faults, NoCommand) { expect_bad_usage({}, {"needs a command", "quantize"}); }

TEST_F(Faults, UnknownCommandNamesTheNearest) {
  expect_bad_usage({"quantise"}, {"'quantise'", "did you mean 'quantize'?"});
  expect_bad_usage({"--quiet", "quantize", path("model.pt")}, {"'--quiet'", "after the command"});
}

TEST_F(Faults, UnknownOptionNamesTheNearest) {
  expect_bad_usage({"quantize", path("model.pt"), "--ouput", path("o.pt")},
                   {"'--ouput'", "did you mean '--output'?"});
}

TEST_F(Faults, UnknownBackendNamesTheNearest) {
  expect_bad_usage(with({"--backend", "x68"}), {"'x68'", "did you mean 'x86'?"});
}

TEST_F(Faults, UnknownMode) {
  expect_bad_usage(with({"--mode", "dynamc"}), {"'dynamc'", "did you mean 'dynamic'?"});
}

TEST_F(Faults, MissingArguments) {
  expect_bad_usage({"quantize"}, {"MODEL.pt is required"});
  expect_bad_usage({"quantize", path("model.pt")}, {"--output"});
  expect_bad_usage({"quantize", path("model.pt"), "--output", path("o.pt")}, {"--calib"});
  expect_bad_usage({"compare", path("model.pt")}, {"required"});
  expect_bad_usage({"bench", path("model.pt")}, {"--data is required"});
}

TEST_F(Faults, ThreadsThatAreNoNumber) {
  expect_bad_usage(with({"--threads", "many"}), {"--threads", "many"});
}

TEST_F(Faults, RecipeThatThereIsNot) { expect_bad_usage(with({"--recipe", "better"}), {"--recipe", "best"}); }

TEST_F(Faults, BitsAndGroupSizesThatNoKernelHas) {
  expect_bad_usage(with({"--mode", "weight_only", "--bits", "3"}), {"--bits", "'3'"});
  expect_bad_usage(with({"--mode", "weight_only", "--dtype", "float16"}), {"--dtype", "weight_only"});
  expect_bad_usage(with({"--mode", "weight_only", "--bits", "4", "--group-size", "48"}),
                   {"--group-size", "'48'"});
}

TEST_F(Faults, JsonOutputNamesTheFault) {
  std::vector<std::string> arguments = with_model("none.pt");
  arguments.emplace_back("--json");
  const Outcome outcome = tsq(arguments);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\"error\""), HasSubstr("\"bad_model\"")));
}

// Two models.

TEST_F(Faults, ModelsThatCannotBeCompared) {
  torch::jit::Module module = user_module("Pair");
  module.define("def forward(self, x):\n  return (x, x)\n");
  module.save(path("pair.pt"));
  expect_bad_input({"compare", path("model.pt"), path("pair.pt"), "--data", path("data.pt")},
                   {"1 and 2 tensors"});
}

}  // namespace faults_test
}  // namespace tsq::testing
