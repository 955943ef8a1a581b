// What the commands answer when all is well.
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <torch/script.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/model_folder.h"
#include "support/small_models.h"

namespace tsq::testing {
namespace results_test {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

using Results = ModelFolder;

TEST_F(Results, QuantizeWritesAllItsFilesAndSaysSo) {
  std::vector<std::string> arguments = quantize_arguments();
  for (const std::string& more :
       {std::string("--reference"), path("ref.pt"), std::string("--report"), path("report.json")}) {
    arguments.push_back(more);
  }
  const json result = answer(arguments);
  EXPECT_EQ(result["backend"], "x86");
  EXPECT_EQ(result["mode"], "static");
  EXPECT_EQ(result["recipe"], "best");
  EXPECT_EQ(result["samples"], 4);
  EXPECT_GE(result["operators"]["quantized"], 1);
  EXPECT_EQ(result["files"]["output"]["bytes"], std::filesystem::file_size(path("out.pt")));
  EXPECT_TRUE(json::parse(read_file(path("report.json"))).contains("operators"));
  EXPECT_THAT(entries(), ::testing::ElementsAre("data.pt", "model.pt", "out.pt", "ref.pt", "report.json"));
}

TEST_F(Results, ResultsOfAnyKindAreShownOrRefused) {
  const auto said_of = [&](const std::string& returned, const std::string& command) {
    torch::jit::Module model = user_module("Returns");
    model.define("def forward(self, x):\n  return " + returned + "\n");
    model.save(path("odd.pt"));
    std::vector<std::string> words{command, path("odd.pt"), "--data", path("data.pt")};
    if (command == "compare") words.insert(words.begin() + 2, path("odd.pt"));
    if (command == "run") words.insert(words.end(), {"--output", path("results.pt")});
    return tsq(words);
  };
  EXPECT_THAT(said_of("{x: x}", "run").out, HasSubstr("output[entry 0]"));
  EXPECT_THAT(said_of("{0.5: x}", "run").out, HasSubstr("output[entry 0]"));
  EXPECT_EQ(said_of("x.to_sparse()", "compare").exit_code, 0);
  for (const std::string command : {"run", "compare"}) {
    const Outcome outcome = said_of("x.to('meta')", command);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("'output' is a tensor on device meta, which holds no numbers"));
  }
}

TEST_F(Results, DynamicModeNeedsNoCalibrationData) {
  torch::jit::Module model = user_module("Head");
  model.register_module("fc", linear(6, 4));
  model.define("def forward(self, x):\n  return self.fc.forward(x)\n");
  model.save(path("head.pt"));
  const json result = answer({"quantize", path("head.pt"), "--mode", "dynamic", "--output", path("out.pt")});
  EXPECT_EQ(result["mode"], "dynamic");
  EXPECT_EQ(result["samples"], 0);
  EXPECT_EQ(result["operators"]["quantized"], 1);
  EXPECT_TRUE(result["unobserved_layers"].empty());
  EXPECT_EQ(torch::jit::load(path("out.pt")).forward({torch::ones({2, 6})}).toTensor().size(1), 4);
}

TEST_F(Results, ExtraFilesOfTheModelGoThroughEveryStep) {
  torch::jit::load(path("model.pt")).save(path("labels.pt"), {{"labels.txt", "cat\ndog"}});
  succeed({"quantize", path("labels.pt"), "--calib", path("data.pt"), "--output", path("out.pt"),
           "--reference", path("reference.pt")});
  succeed({"prepare", path("labels.pt"), "--output", path("1.pt")});
  succeed({"calibrate", path("1.pt"), "--calib", path("data.pt"), "--output", path("2.pt")});
  succeed({"convert", path("2.pt"), "--output", path("3.pt")});
  succeed({"lower", path("3.pt"), "--output", path("4.pt")});
  for (const char* file : {"out.pt", "reference.pt", "1.pt", "2.pt", "3.pt", "4.pt"}) {
    torch::jit::ExtraFilesMap extra{{"labels.txt", ""}};
    torch::jit::load(path(file), std::nullopt, extra);
    EXPECT_EQ(extra["labels.txt"], "cat\ndog") << file;
  }
}

TEST_F(Results, QuantizedFileLoadsInStockLibTorchAndIsNearTheFloatModel) {
  succeed(quantize_arguments());
  torch::jit::Module quantized = torch::jit::load(path("out.pt"));
  torch::jit::Module model = torch::jit::load(path("model.pt"));
  model.eval();
  const at::Tensor x = torch::randn({2, 3, 8, 8});
  const at::Tensor wanted = model.forward({x}).toTensor();
  const at::Tensor error = quantized.forward({x}).toTensor() - wanted;
  EXPECT_LT(error.norm().item<double>(), 0.1 * wanted.norm().item<double>());
  EXPECT_GT(error.norm().item<double>(), 0) << "the result is no quantized model";
}

TEST_F(Results, StepsGiveWhatQuantizeGives) {
  succeed(quantize_arguments());
  succeed({"prepare", path("model.pt"), "-o", path("1.pt")});
  succeed({"calibrate", path("1.pt"), "--calib", path("data.pt"), "-o", path("2.pt")});
  succeed({"convert", path("2.pt"), "-o", path("3.pt")});
  succeed({"lower", path("3.pt"), "-o", path("4.pt")});
  const json result = answer({"compare", path("out.pt"), path("4.pt"), "--data", path("data.pt")});
  EXPECT_EQ(result["whole"]["equal_bits"], true);
}

/// One linear layer of 256 channels.
void save_layer(const std::string& path) {
  torch::manual_seed(0);
  torch::jit::Module layer = user_module("Layer");
  layer.register_module("layer", linear(256, 256));
  layer.define("def forward(self, x):\n  return self.layer.forward(x)\n");
  layer.save(path);
}

TEST_F(Results, DynamicModeTakesFloat16WeightsToo) {
  save_layer(path("layer.pt"));
  const at::Tensor x = torch::randn({3, 256});
  const at::Tensor wanted = torch::jit::load(path("layer.pt")).forward({x}).toTensor();
  const auto error_of = [&](const std::string& dtype) {
    succeed({"quantize", path("layer.pt"), "--mode", "dynamic", "--dtype", dtype, "--output",
             path(dtype + ".pt")});
    const at::Tensor got = torch::jit::load(path(dtype + ".pt")).forward({x}).toTensor();
    return (got - wanted).norm().item<double>();
  };
  const double of_float16 = error_of("float16");
  EXPECT_GT(of_float16, 0);
  EXPECT_LT(of_float16, 0.1 * error_of("qint8"));
}

TEST_F(Results, DynamicModeOfRecipeBestTakesTablesOfEmbeddingsIn) {
  torch::manual_seed(0);
  torch::jit::Module words = user_module("Words");
  words.register_parameter("table", torch::randn({500, 64}), false);
  words.define("def forward(self, x):\n  return torch.embedding(self.table, x)\n");
  words.save(path("words.pt"));
  succeed({"quantize", path("words.pt"), "--mode", "dynamic", "--output", path("small.pt")});
  EXPECT_LT(static_cast<double>(std::filesystem::file_size(path("small.pt"))),
            0.45 * static_cast<double>(std::filesystem::file_size(path("words.pt"))));
}

TEST_F(Results, WeightOnlyNeedsNoDataAndMakesSmallFiles) {
  save_layer(path("layer.pt"));
  for (const auto& [bits, share] : {std::pair<std::string, double>{"8", 0.32}, {"4", 0.2}}) {
    const json result = answer({"quantize", path("layer.pt"), "--mode", "weight_only", "--bits", bits,
                                "--group-size", "64", "--output", path(bits + ".pt")});
    EXPECT_EQ(result["mode"], "weight_only");
    EXPECT_EQ(result["operators"]["quantized"], 1);
    EXPECT_LT(static_cast<double>(std::filesystem::file_size(path(bits + ".pt"))),
              share * static_cast<double>(std::filesystem::file_size(path("layer.pt"))))
        << bits;
    const at::Tensor x = torch::randn({3, 256});
    const at::Tensor wanted = torch::jit::load(path("layer.pt")).forward({x}).toTensor();
    const at::Tensor error = torch::jit::load(path(bits + ".pt")).forward({x}).toTensor() - wanted;
    EXPECT_LT(error.norm().item<double>(), 0.15 * wanted.norm().item<double>());
    EXPECT_GT(error.norm().item<double>(), 0);
  }
}

TEST_F(Results, WorkOfKernelsThatComputeInFloatIsToldByItsWeights) {
  save_layer(path("layer.pt"));
  write_data("rows.pt", c10::List<at::Tensor>({torch::randn({3, 256})}));
  const auto compute_line = [&](const std::vector<std::string>& mode) {
    std::vector<std::string> arguments{"quantize",      path("layer.pt"), "--data",
                                       path("rows.pt"), "--output",       path("out.pt")};
    arguments.insert(arguments.end(), mode.begin(), mode.end());
    const std::string text = tsq(arguments).out;
    const auto begin = text.find("  compute");
    return begin == std::string::npos ? text : text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string all = "  compute    100.0 % of the multiply-accumulates ";
  EXPECT_EQ(compute_line({"--mode", "weight_only", "--bits", "4"}), all + "with 4-bit weights");
  EXPECT_EQ(compute_line({"--mode", "weight_only"}), all + "with 8-bit weights");
  EXPECT_EQ(compute_line({"--mode", "dynamic", "--dtype", "float16"}), all + "with float16 weights");
  EXPECT_EQ(compute_line({"--mode", "dynamic"}), all + "in int8");
}

TEST_F(Results, ConvertingDoesNotDependOnTheNumberOfThreads) {
  succeed({"prepare", path("model.pt"), "--output", path("1.pt")});
  succeed({"calibrate", path("1.pt"), "--calib", path("data.pt"), "--output", path("2.pt")});
  const auto quantized = [&](const std::string& threads) {
    succeed({"convert", path("2.pt"), "--output", path("3.pt"), "--threads", threads});
    succeed({"lower", path("3.pt"), "--output", path("4.pt"), "--threads", threads});
    return read_file(path("4.pt"));
  };
  EXPECT_TRUE(quantized("1") == quantized("2"));
}

TEST_F(Results, AnExistingOutputIsReplaced) {
  write_file(path("out.pt"), "old");
  succeed(quantize_arguments());
  EXPECT_GT(std::filesystem::file_size(path("out.pt")), 1000U);
}

TEST_F(Results, QuietSaysNothing) {
  std::vector<std::string> arguments = quantize_arguments();
  arguments.emplace_back("--quiet");
  const Outcome outcome = tsq(arguments);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Results, TextSummaryCountsOperatorsAndTellsSizesAndTimes) {
  const Outcome outcome = tsq(quantize_arguments());
  for (const std::string word : {"quantized for x86", "operators", "size", "time", "calibrate", "out.pt"}) {
    EXPECT_THAT(outcome.out, HasSubstr(word));
  }
  EXPECT_EQ(outcome.err, "") << "no progress where nobody watches";
}

TEST_F(Results, TextSummaryTellsWhatMaySaturate) {
  std::vector<std::string> arguments = quantize_arguments();
  arguments.insert(arguments.end(), {"--recipe", "fx", "--target-cpu", "without-vnni", "--no-check"});
  EXPECT_THAT(tsq(arguments).out, ::testing::AllOf(HasSubstr("saturation"), HasSubstr("16-bit sums")));
  arguments[arguments.size() - 2] = "vnni";
  EXPECT_THAT(tsq(arguments).out, Not(HasSubstr("saturation")));
}

TEST_F(Results, TimesThatNobodyMeasuredAreSaidToBeEstimated) {
  std::vector<std::string> arguments = quantize_arguments();
  arguments.insert(arguments.end(), {"--no-check", "--target-cpu", "amx"});
  EXPECT_THAT(tsq(arguments).out, ::testing::AllOf(HasSubstr("'amx' are estimated"), HasSubstr("tsq tune")));
  arguments.back() = "avx512-vnni";
  EXPECT_THAT(tsq(arguments).out, Not(HasSubstr("estimated")));
}

TEST_F(Results, WhereAProcessorIsNamedNothingIsTimed) {
  std::vector<std::string> arguments = quantize_arguments();
  arguments.insert(arguments.end(), {"--force", "--target-cpu", "vnni"});
  const Outcome outcome = Program(arguments).wait();
  EXPECT_THAT(outcome.out, ::testing::AllOf(Not(HasSubstr("latency")), HasSubstr("SQNR"),
                                            HasSubstr("no times were measured")));
}

TEST_F(Results, AProfileThatWasMeasuredIsRead) {
  const json tuned = answer({"tune", "--quiet", "--effort", "0", "--passes", "1", "--engines", "x86",
                             "--measured-threads", "1", "--output", path("machine.json")});
  EXPECT_GT(tuned["kinds"], 100);
  std::vector<std::string> arguments = quantize_arguments();
  arguments.insert(arguments.end(), {"--no-check", "--machine", path("machine.json")});
  EXPECT_EQ(tsq(arguments).exit_code, 0);
}

TEST_F(Results, OwnMappingDecidesWhatIsQuantized) {
  write_file(path("none.json"), R"({"": null})");
  std::vector<std::string> arguments = quantize_arguments();
  arguments.insert(arguments.end(), {"--qconfig", path("none.json")});
  const json result = answer(arguments);
  EXPECT_EQ(result["operators"]["quantized"], 0);
  EXPECT_FALSE(result["operators"]["float_reasons"].empty());
}

TEST_F(Results, TablesThatAreShownAreAcceptedAgain) {
  const Outcome table = tsq({"backend-config", "show", "fbgemm"});
  const Outcome mapping = tsq({"qconfig", "show", "fbgemm"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  ASSERT_EQ(mapping.exit_code, 0) << mapping.err;
  write_file(path("b.json"), table.out);
  write_file(path("q.json"), mapping.out);
  EXPECT_EQ(answer({"backend-config", "check", path("b.json")})["name"], json::parse(table.out)["name"]);
  EXPECT_EQ(answer({"qconfig", "check", path("q.json")})["has_global"], true);
  std::vector<std::string> arguments = quantize_arguments();
  arguments.insert(arguments.end(), {"--backend", "fbgemm", "--recipe", "fx"});
  succeed(arguments);
  arguments[5] = path("own.pt");
  arguments.insert(arguments.end(), {"--backend-config", path("b.json"), "--qconfig", path("q.json")});
  succeed(arguments);
  EXPECT_EQ(
      answer({"compare", path("out.pt"), path("own.pt"), "--data", path("data.pt")})["whole"]["equal_bits"],
      true);
}

TEST_F(Results, ListsNameEveryShippedTableAndMapping) {
  const json tables = answer({"backend-config", "list"});
  EXPECT_EQ(tables.size(), 8U);
  const json mappings = answer({"qconfig", "list"});
  EXPECT_GE(mappings["mappings"].size(), 4U);
  EXPECT_GE(mappings["qconfigs"].size(), 10U);
}

TEST_F(Results, WhatAModelPrintsIsNoPartOfTheJson) {
  torch::jit::Module model = user_module("Talks");
  model.register_module("conv", conv2d(3, 4, 3));
  model.define("def forward(self, x):\n  print('hello')\n  return self.conv.forward(x)\n");
  model.save(path("talks.pt"));
  const std::string talks = path("talks.pt");
  const std::string data = path("data.pt");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"quantize", talks, "--calib", data, "-o", path("q.pt")},
           {"quantize", talks, "--calib", data, "-o", path("q.pt"), "--min-sqnr", "1"},
           {"prepare", talks, "-o", path("1.pt")},
           {"calibrate", path("1.pt"), "--calib", data, "-o", path("2.pt")},
           {"convert", path("2.pt"), "-o", path("3.pt")},
           {"lower", path("3.pt"), "-o", path("4.pt")},
           {"explain", talks, "--calib", data},
           {"sensitivity", talks, "--calib", data},
           {"inspect", talks},
           {"compare", talks, path("q.pt"), "--data", data},
           {"bench", talks, path("q.pt"), "--data", data, "--rounds", "2", "--launches", "1"}}) {
    std::vector<std::string> with_json = arguments;
    with_json.emplace_back("--json");
    const Outcome outcome = tsq(with_json);
    EXPECT_EQ(outcome.exit_code, 0) << arguments.front() << ": " << outcome.err;
    EXPECT_FALSE(json::parse(outcome.out, nullptr, false).is_discarded())
        << arguments.front() << ": " << outcome.out;
    const bool runs = arguments.front() == "quantize" || arguments.front() == "bench";
    EXPECT_TRUE(!runs || outcome.err.find("hello") != std::string::npos) << arguments.front();
  }
}

/// `file` as a GPU machine would have saved it, under another name.
void save_as_of_gpu(const std::string& file, const std::string& as) {
  caffe2::serialize::PyTorchStreamReader reader(file);
  std::string bytes;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&bytes](const void* data, std::size_t size) {
      bytes.append(static_cast<const char*>(data), size);
      return size;
    });
    const std::string cpu("X\x03\0\0\0cpu", 8);
    const std::string cuda("X\x06\0\0\0cuda:0", 11);
    for (const std::string& name : reader.getAllRecords()) {
      if (name == "version" || name.starts_with(".data/")) continue;
      const auto [data, size] = reader.getRecord(name);
      std::string record(static_cast<const char*>(data.get()), size);
      for (auto at = record.find(cpu); name == "data.pkl" && at != std::string::npos;
           at = record.find(cpu, at + 1))
        record.replace(at, cpu.size(), cuda);
      writer.writeRecord(name, record.data(), record.size());
    }
    writer.writeEndOfFile();
  }
  write_file(as, bytes);
}

TEST_F(Results, AFileOfAGpuMachineRunsOnTheCpuAndSaysSo) {
  torch::jit::Module model = user_module("OnGpu");
  model.register_module("conv", conv2d(3, 4, 3));
  model.register_attribute("place", c10::DeviceObjType::get(), c10::Device(at::kCUDA, 0));
  model.define(
      "def forward(self, x):\n"
      "  y = x.to(torch.device('cuda:0'))\n"
      "  z = torch.zeros([1], device=torch.device('cuda')).cuda() + torch.ones([1], device=self.place)\n"
      "  return self.conv.forward(y) + z\n");
  model.save(path("cpu.pt"));
  save_as_of_gpu(path("cpu.pt"), path("gpu.pt"));
  ASSERT_ANY_THROW(torch::jit::load(path("gpu.pt")));
  const Outcome outcome = tsq({"quantize", path("gpu.pt"), "--calib", path("data.pt"), "-o", path("q.pt")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cuda:0"));
  EXPECT_THAT(outcome.err, HasSubstr("on the CPU"));
  EXPECT_NO_THROW(torch::jit::load(path("q.pt")).forward({torch::randn({2, 3, 8, 8})}));
  EXPECT_EQ(tsq({"quantize", path("gpu.pt"), "--calib", path("data.pt"), "-o", path("q.pt"), "--quiet"}).err,
            "");
}

TEST_F(Results, NamesOfDevicesThatCodeComparesWithAreNotTheFiles) {
  torch::jit::Module model = user_module("Asks");
  model.register_module("conv", conv2d(3, 4, 3));
  model.define(
      "def forward(self, x):\n"
      "  if x.device.type == 'cuda' or x.device.type == 'privateuseone':\n"
      "    x = x * 2.\n"
      "  return self.conv.forward(x)\n");
  model.save(path("asks.pt"));
  const Outcome outcome = tsq({"quantize", path("asks.pt"), "--calib", path("data.pt"), "-o", path("q.pt")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("saved for")));
}

/// Lines of the summary between "operators" and "compute" or "size".
std::size_t operator_lines(const std::string& summary) {
  const auto begin = summary.find("  operators");
  const std::string section = summary.substr(begin, summary.find("\n  size", begin) - begin);
  return static_cast<std::size_t>(std::count(section.begin(), section.end(), '\n')) + 1;
}

TEST_F(Results, TheSummaryOfManyFloatOperatorsHasAtMostTwentyLines) {
  torch::jit::Module model = user_module("Many");
  model.register_module("conv", conv2d(3, 4, 3));
  std::string body;
  for (const std::string op : {"sin", "cos", "tan", "exp", "erf", "atan", "sinh", "cosh", "asinh", "floor",
                               "ceil", "round", "frac", "trunc", "neg", "sign", "expm1", "abs", "square"}) {
    for (int i = 0; i < 12; ++i) body += "  x = torch." + op + "(x)\n";
  }
  model.define("def forward(self, x):\n" + body + "  return self.conv.forward(x)\n");
  model.save(path("many.pt"));
  const std::vector<std::string> arguments{"quantize", path("many.pt"), "--calib",  path("data.pt"),
                                           "-o",       path("q.pt"),    "--recipe", "fx"};
  const Outcome outcome = tsq(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_LE(operator_lines(outcome.out), 20U) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("228 x no pattern of backend 'x86' matches it (aten::sin 12 x, "));
  std::size_t listed = 0;
  const json operators = answer(arguments)["operators"];
  for (const json& group : operators["float_reasons"]) listed += group["operators"].size();
  EXPECT_EQ(listed, operators["float"]) << "--json lists all";
}

/// How many of the warnings are of entries that match nothing.
std::size_t unmatched_entries(const json& result) {
  std::size_t count = 0;
  for (const std::string warning : result["warnings"])
    count += warning.find("matches no operator") != std::string::npos;
  return count;
}

TEST_F(Results, MappingsThatNobodyWroteWarnOfNothing) {
  const json names = answer({"qconfig", "list"});
  for (const json& entry : names["mappings"]) {
    const std::string name = entry["name"];
    write_file(path("q.json"), tsq({"qconfig", "show", name}).out);
    const json result = answer({"quantize", path("model.pt"), "--calib", path("data.pt"), "-o", path("q.pt"),
                                "--recipe", "fx", "--qconfig", path("q.json")});
    EXPECT_EQ(unmatched_entries(result), 0U) << name << ": " << result["warnings"];
  }
  for (const std::string mode : {"static", "dynamic", "weight_only"}) {
    for (const std::string recipe : {"fx", "best"}) {
      const json result = answer({"quantize", path("model.pt"), "--calib", path("data.pt"), "-o",
                                  path("q.pt"), "--recipe", recipe, "--mode", mode});
      EXPECT_EQ(unmatched_entries(result), 0U) << mode << ": " << result["warnings"];
    }
  }
}

TEST_F(Results, AnEntryThatAPersonAddedOrChangedWarns) {
  json mapping = json::parse(tsq({"qconfig", "show", "x86"}).out);
  mapping["object_type"].push_back({"torch.nn.GRU", nullptr});
  for (json& entry : mapping["object_type"]) {
    if (entry[0] == "torch.nn.ConvTranspose2d") entry[1] = nullptr;
  }
  write_file(path("q.json"), mapping.dump());
  const json result = answer({"quantize", path("model.pt"), "--calib", path("data.pt"), "-o", path("q.pt"),
                              "--recipe", "fx", "--qconfig", path("q.json")});
  EXPECT_EQ(unmatched_entries(result), 2U) << result["warnings"];
}

std::size_t float_weights(const torch::jit::Module& module) {
  std::size_t found = 0;
  for (const auto& attribute : module.named_attributes()) {
    if (!attribute.value.isTensor()) continue;  // packed
    const at::Tensor& tensor = attribute.value.toTensor();
    found += tensor.is_floating_point() && tensor.dim() > 1 ? 1 : 0;
  }
  return found;
}

TEST_F(Results, TheLastQuarterOfTheCalibrationDataDecidesWhetherAResultIsPoor) {
  std::set<bool> told;
  constexpr int size = 16;
  for (int draw = 0; draw < 100 && told.size() < 2; ++draw) {
    torch::manual_seed(static_cast<uint64_t>(draw));
    const double tail = 1 + 0.5 * (draw % 10);
    torch::jit::Module model = user_module("Layers");
    model.register_module("first", linear(size, size));
    model.register_module("last", linear(size, size));
    model.define("def forward(self, x):\n  return self.last.forward(torch.relu(self.first.forward(x)))\n");
    model.eval();
    model.save(path("layers.pt"));
    c10::List<at::Tensor> samples;
    for (int i = 0; i < 8; ++i) samples.push_back(torch::randn({2, size}).abs().pow(tail));
    write_data("layers_data.pt", samples);
    const json result = answer({"quantize", path("layers.pt"), "--calib", path("layers_data.pt"), "--output",
                                path("q.pt"), "--no-check", "--recipe", "fx"});
    const json& trial = result["trial"];
    ASSERT_TRUE(trial["unseen"].is_object()) << trial;
    EXPECT_EQ(trial["unseen"]["samples"], 2);
    EXPECT_GE(trial["unseen"]["outside_of_ranges"], 0);
    EXPECT_EQ(trial["expected_sqnr_db"], trial["unseen"]["expected_sqnr_db"]);
    const bool is_told = std::ranges::any_of(trial["warnings"], [](const json& warning) {
      return warning.get<std::string>().find("SQNR") != std::string::npos;
    });
    const bool is_poor = trial["unseen"]["sqnr_db"].get<double>() < 20 ||
                         trial["unseen"]["expected_sqnr_db"].get<double>() < 20;
    EXPECT_EQ(is_poor, is_told) << trial;
    told.insert(is_told);
  }
  EXPECT_EQ(told.size(), 2U) << "no draw tests anything";
}

TEST_F(Results, AnyMethodCalibrates) {
  torch::jit::Module model = user_module("Coder");
  model.register_module("enc", linear(6, 6));
  model.register_module("dec", linear(6, 6));
  model.define(
      "def forward(self, x):\n  return self.enc.forward(x)\n"
      "def decode(self, z):\n  return self.dec.forward(z)\n"
      "def twice(self, x, n: int):\n"
      "  for i in range(n):\n    x = self.decode(self.forward(x))\n"
      "  return x\n");
  model.save(path("coder.pt"));
  c10::List<at::IValue> calls(c10::AnyType::get());
  c10::List<at::Tensor> inputs;
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(torch::randn({3, 6}));
    calls.push_back(c10::ivalue::Tuple::create({inputs.get(static_cast<std::size_t>(i)), int64_t{1}}));
  }
  write_data("calls.pt", calls);
  write_data("inputs.pt", inputs);
  const json result = answer({"quantize", path("coder.pt"), "--calib", path("calls.pt"), "--method", "twice",
                              "--recipe", "fx", "-o", path("q.pt")});
  EXPECT_GT(result["trial"]["sqnr_db"], 20.0) << result.dump();
  succeed({"prepare", path("coder.pt"), "--recipe", "fx", "-o", path("p.pt")});
  succeed({"calibrate", path("p.pt"), "--calib", path("inputs.pt"), "-o", path("c.pt")});
  succeed({"calibrate", path("c.pt"), "--calib", path("calls.pt"), "--method", "twice", "-o", path("cc.pt")});
  succeed({"convert", path("cc.pt"), "-o", path("r.pt")});
  succeed({"lower", path("r.pt"), "-o", path("l.pt")});
  for (const char* file : {"q.pt", "l.pt"}) {
    torch::jit::Module quantized = torch::jit::load(path(file));
    EXPECT_EQ(float_weights(quantized), 0U);
    EXPECT_EQ(quantized.get_methods().size(), 3U);
    const at::Tensor x = inputs.get(0);
    for (const std::string method : {"forward", "decode"}) {
      const at::Tensor wanted = model.run_method(method, x).toTensor();
      const at::Tensor error = wanted - quantized.run_method(method, x).toTensor();
      EXPECT_LT(error.norm().item<double>(), 0.2 * wanted.norm().item<double>()) << method;
    }
    EXPECT_EQ(quantized.get_method("twice").function().getSchema().arguments()[2].name(), "n");
  }
  const Outcome explained = tsq({"explain", path("coder.pt"), "--recipe", "fx"});
  EXPECT_THAT(explained.out, HasSubstr("dec (method decode)"));
  const Outcome outcome = tsq(
      {"quantize", path("coder.pt"), "--calib", path("inputs.pt"), "--method", "code", "-o", path("no.pt")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no method 'code'"));
  EXPECT_THAT(outcome.err, HasSubstr("decode"));
}

}  // namespace results_test
}  // namespace tsq::testing
