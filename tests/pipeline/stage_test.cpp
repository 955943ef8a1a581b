// Stages and their files: standalone modules, attributes to keep, convert's own mapping.

#include "pipeline/stage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/engine_lock.h>
#include <tsq/quantize.h>
#include <tsq/sensitivity.h>
#include <tsq/tried_step.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <new>

#include "config/expect_error.h"
#include "pipeline/stage_file.h"
#include "support/lowered.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace stage_test {

using torch::jit::Module;

/// before → inner (conv → bn → relu) → after
Module model_with_inner() {
  torch::manual_seed(3);
  Module model = testing::user_module("Outer");
  model.register_module("before", testing::conv2d(3, 3, 1));
  model.register_module("inner", testing::conv_bn_relu());
  model.register_module("after", testing::conv2d(4, 2, 1));
  model.register_attribute("labels", c10::ListType::ofStrings(), c10::List<std::string>({"cat", "dog"}));
  model.define(
      "def forward(self, x):\n  return self.after.forward(self.inner.forward(self.before.forward(x)))\n");
  return model;
}

PrepareCustomConfig standalone_inner() {
  StandaloneModuleConfig config;
  config.prepare_custom_config.set_input_quantized_indexes({0}).set_output_quantized_indexes({0});
  return PrepareCustomConfig().set_standalone_module_name("inner", config);
}

Prepared calibrated(const Module& model, const PrepareCustomConfig& custom) {
  Prepared prepared = prepare(model, default_qconfig_mapping("x86"), backend_config("x86"),
                              {.custom = custom, .recipe = Recipe::Fx});
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}, {torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  return prepared;
}

at::Tensor run(Module module, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  return module.forward({input}).toTensor();
}

TEST(Stage, AStandaloneModuleIsQuantizedByItselfAndReadsQuantizedValues) {  // E-01, E-05
  const Prepared prepared = calibrated(model_with_inner(), standalone_inner());
  const BackendConfig backend = backend_config("x86");
  const Reference reference = convert_to_reference(prepared, backend);
  Report report;
  const Module lowered = testing::lowered(reference, backend, &report);
  const at::Tensor input = torch::randn({2, 3, 8, 8});
  EXPECT_LT((run(lowered, input) - run(reference.module(), input)).abs().max().item<float>(), 0.05);
  const auto in_the_module = std::find_if(report.decisions.begin(), report.decisions.end(),
                                          [](const Decision& each) { return each.layer == "inner.conv"; });
  ASSERT_NE(in_the_module, report.decisions.end());
  EXPECT_EQ(in_the_module->kernel, "quantized::conv2d_relu");
}

TEST(Stage, FilesKeepWhatTheObserversOfStandaloneModulesSaw) {
  const Prepared prepared = calibrated(model_with_inner(), standalone_inner());
  const BackendConfig backend = backend_config("x86");
  const testing::TemporaryFolder folder;
  const std::string prepared_file = folder.file("prepared.pt");
  const std::string reference_file = folder.file("reference.pt");
  prepared.save(prepared_file);
  const Reference reference = convert_to_reference(Prepared::load(prepared_file), backend);
  reference.save(reference_file);
  const at::Tensor input = torch::randn({2, 3, 8, 8});
  const at::Tensor expected = run(convert(prepared, backend), input);
  EXPECT_TRUE(at::equal(run(lower(reference, backend), input), expected));
  EXPECT_TRUE(at::equal(run(lower(Reference::load(reference_file), backend), input), expected));
}

TEST(Stage, PreservedAttributesAreOnEveryResult) {  // E-13
  const BackendConfig backend = backend_config("x86");
  const Prepared prepared =
      calibrated(model_with_inner(), PrepareCustomConfig().set_preserved_attributes({"labels", "absent"}));
  const Reference reference = convert_to_reference(prepared, backend);
  for (const Module& module : {prepared.module(), reference.module(), lower(reference, backend).module()}) {
    ASSERT_TRUE(module.hasattr("labels"));
    EXPECT_EQ(module.attr("labels").toListRef().at(1).toStringRef(), "dog");
    EXPECT_FALSE(module.hasattr("absent"));
  }
}

TEST(Stage, ConvertAndFuseKeepAttributesOfTheirOwn) {  // E-13, E-16
  const Module model = model_with_inner();
  const Prepared prepared = calibrated(model, {});
  EXPECT_TRUE(convert(prepared, backend_config("x86"),
                      {.custom = ConvertCustomConfig().set_preserved_attributes({"labels"})})
                  .module()
                  .hasattr("labels"));
  EXPECT_TRUE(fuse(model, backend_config("x86"), FuseCustomConfig().set_preserved_attributes({"labels"}))
                  .hasattr("labels"));
}

TEST(Stage, ConvertsMappingMakesOperatorsFloatAgain) {  // K-02
  const Prepared prepared = calibrated(model_with_inner(), {});
  const BackendConfig backend = backend_config("x86");
  QConfigMapping mapping = default_qconfig_mapping("x86");
  mapping.set_module_name("after", std::nullopt);
  const std::string graph =
      convert(prepared, backend, {.mapping = mapping}).module().get_method("forward").graph()->toString();
  EXPECT_NE(graph.find("aten::conv2d"), std::string::npos) << graph;
  EXPECT_NE(graph.find("quantized::conv2d"), std::string::npos) << graph;
}

TEST(Stage, ConvertsMappingMustNotChangeAQConfig) {  // K-02
  const Prepared prepared = calibrated(model_with_inner(), {});
  const std::string remedy = "at convert a QConfig may only stay as it was at prepare or become null";
  const auto convert_with = [&](const QConfigMapping& mapping) {
    convert_to_reference(prepared, backend_config("x86"), {.mapping = mapping});
  };
  expect_error(
      "apply_convert_mapping: the convert mapping has another global QConfig than the prepare mapping; " +
          remedy,
      [&] { convert_with(QConfigMapping()); });
  expect_error(
      "apply_convert_mapping: the convert mapping lacks the object type 'reshape' of the prepare mapping; " +
          remedy,
      [&] { convert_with(QConfigMapping().set_global(default_qconfig("x86"))); });
}

TEST(Stage, BadIndexesAreToldAtPrepare) {
  expect_error(
      "check_quantized_indexes: input_quantized_idxs names input 1, forward has 1; count the arguments of "
      "forward from 0",
      [] { calibrated(model_with_inner(), PrepareCustomConfig().set_input_quantized_indexes({1})); });
  StandaloneModuleConfig second_output;
  second_output.prepare_custom_config.set_output_quantized_indexes({1});
  expect_error(
      "capture: layer 'inner': a standalone module has one output, its output_quantized_idxs must be [0]; "
      "give "
      "[0] for an output that leaves quantized, [] for a float one",
      [&] {
        calibrated(model_with_inner(),
                   PrepareCustomConfig().set_standalone_module_name("inner", second_output));
      });
}

TEST(Stage, BackendsWithoutKernelsEndAtTheReferenceModel) {
  for (const char* name : {"executorch", "tensorrt"}) {
    const BackendConfig backend = backend_config(name);
    Prepared prepared =
        prepare(model_with_inner(), default_qconfig_mapping("x86"), backend, {.recipe = Recipe::Fx});
    const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
    calibrate(prepared, samples);
    const Reference reference = convert_to_reference(prepared, backend);
    EXPECT_EQ(run(reference.module(), torch::randn({2, 3, 8, 8})).size(1), 2);
    try {
      lower(reference, backend);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported);
      EXPECT_EQ(
          error.problem(),
          fmt::format("backend '{}' has no kernels in LibTorch: its result is the reference model", name));
    }
  }
}

/// The error that `action` throws; fails without one.
template <typename Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::Internal, "");
}

Prepared prepared_for_x86(const Module& model) {
  return prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
}

TEST(Stage, WhatIsPreparedOrQuantizedAlreadyIsRefused) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("twice.pt");
  const BackendConfig backend = backend_config("x86");
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    Prepared prepared =
        prepare(testing::conv_bn_relu(), default_qconfig_mapping("x86"), backend, {.recipe = recipe});
    calibrate(prepared, std::vector<Sample>{{torch::randn({2, 3, 8, 8})}});
    const Reference reference = convert_to_reference(prepared, backend);
    for (const Module& module : {prepared.module(), reference.module(), lower(reference, backend).module()}) {
      for (const bool from_file : {false, true}) {
        if (from_file) save(module, file);
        const Module again = from_file ? load(file) : module;
        const Error error = error_of([&] { prepared_for_x86(again); });
        EXPECT_EQ(error.code(), ErrorCode::BadModel);
        EXPECT_NE(error.problem().find("already"), std::string::npos) << error.what();
        EXPECT_EQ(error_of([&] { fuse(again, backend); }).code(), ErrorCode::BadModel);
      }
    }
  }
  EXPECT_NO_THROW(prepared_for_x86(fuse(testing::conv_bn_relu(), backend)))
      << "a fused model is a float model";
}

TEST(Stage, AModuleWithNothingInItIsRefused) {
  EXPECT_NE(error_of([] { prepared_for_x86(Module()); }).problem().find("is empty"), std::string::npos);
  EXPECT_EQ(error_of([] { fuse(Module(), backend_config("x86")); }).code(), ErrorCode::BadModel);
  const testing::TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { save(Module(), folder.file("empty.pt")); }).code(), ErrorCode::BadModel);
  EXPECT_EQ(error_of([] { load_samples("none.pt", Module()); }).code(), ErrorCode::BadModel);
}

TEST(Stage, ATableOfAnotherBackendThanPreparesIsRefused) {
  const Prepared prepared = prepared_for_x86(testing::conv_bn_relu());
  for (const char* other : {"fbgemm", "qnnpack", "onednn", "executorch"}) {
    const Error error = error_of([&] { convert_to_reference(prepared, backend_config(other)); });
    EXPECT_EQ(error.code(), ErrorCode::BadConfig);
    EXPECT_NE(error.problem().find("prepared for backend"), std::string::npos) << error.what();
    EXPECT_EQ(error_of([&] { convert(prepared, backend_config(other)); }).code(), ErrorCode::BadConfig);
  }
}

TEST(Stage, AnotherTableOfTheSameNameThanPreparesIsRefused) {
  const Prepared prepared = calibrated(model_with_inner(), {});
  BackendConfig fewer("x86");
  for (const BackendPatternConfig& row : backend_config("x86").configs()) {
    if (row.key() != Pattern(symbol("torch.nn.Conv2d"))) fewer.set_backend_pattern_config(row);
  }
  const Reference reference = convert_to_reference(prepared, backend_config("x86"));
  for (const BackendConfig& other :
       {fewer, with_weight_only(backend_config("x86")), backend_config("x86").set_engine("fbgemm")}) {
    const std::string sentence =
        "the model was prepared with another table of backend 'x86' than it is to be ";
    EXPECT_NE(error_of([&] { convert_to_reference(prepared, other); }).problem().find(sentence),
              std::string::npos);
    EXPECT_NE(error_of([&] { lower(reference, other); }).problem().find(sentence), std::string::npos);
  }
  // As a file has it, with each name spelled out.
  EXPECT_NO_THROW(lower(reference, BackendConfig::from_dict(backend_config("x86").to_dict())));
}

TEST(Stage, AStepNeedsAnEngineThatTheTableNames) {
  const BackendConfig own =
      BackendConfig("mine").set_backend_pattern_configs(backend_config("x86").configs());
  const at::QEngine before = engine_in_use();
  set_engine(at::QEngine::ONEDNN);  // what the process has decides nothing
  const auto prepared = [](const BackendConfig& backend) {
    Prepared result = prepare(testing::conv_bn_relu(), default_qconfig_mapping("fbgemm"), backend);
    calibrate(result, std::vector<Sample>{{torch::randn({2, 3, 8, 8})}});
    return result;
  };
  const Error error = error_of([&] { prepared(own); });
  EXPECT_EQ(error.code(), ErrorCode::BadConfig);
  EXPECT_EQ(error.problem(), "the table 'mine' names no engine");
  const BackendConfig for_fbgemm = BackendConfig(own).set_engine("fbgemm");
  const Prepared of_fbgemm = prepared(for_fbgemm);
  EXPECT_EQ(detail::context_of(detail::stage_of(of_fbgemm)).target.engine, "fbgemm");
  EXPECT_EQ(detail::metadata_of(detail::stage_of(of_fbgemm), "quantized")["engine"], "fbgemm");
  set_engine(before);
}

TEST(Stage, ATableInsideOfAModelIsForTheEngineOfTheModel) {
  StandaloneModuleConfig config;
  config.backend_config = BackendConfig("mine").set_backend_pattern_configs(backend_config("x86").configs());
  const Prepared prepared =
      calibrated(model_with_inner(), PrepareCustomConfig().set_standalone_module_name("inner", config));
  const detail::Stage& inner = *detail::stage_of(prepared).standalone.at("inner");
  EXPECT_EQ(inner.backend.name(), "mine");
  EXPECT_EQ(detail::context_of(inner).target.engine, "x86");
  EXPECT_NO_THROW(convert(prepared, backend_config("x86")));
}

TEST(Stage, ConvertTellsHowFarItIs) {
  torch::manual_seed(0);
  Module model = testing::user_module("Deep");
  std::string body = "def forward(self, x):\n";
  constexpr std::size_t kLayers = 6;
  for (std::size_t i = 0; i < kLayers; ++i) {
    model.register_module(fmt::format("conv{}", i), testing::conv2d(3, 3, 3));
    body += fmt::format("  x = self.conv{}.forward(x)\n", i);
  }
  model.define(body + "  return x\n");
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend, {.recipe = Recipe::Best});
  calibrate(prepared, std::vector<Sample>(5, {torch::randn({2, 3, 8, 8})}));
  std::vector<std::size_t> done;
  std::size_t total = 0;
  const Progress progress = [&](std::size_t so_far, std::size_t of) {
    done.push_back(so_far);
    total = of;
  };
  convert_to_reference(prepared, backend, {.progress = progress});
  EXPECT_GE(total, 2 * kLayers) << "observers, layers, samples";
  std::size_t before = 0;
  for (const std::size_t now : done) {
    EXPECT_GT(now, before);
    EXPECT_LE(now, before + 1 + total / 10) << "it comes in small steps up to its end";
    before = now;
  }
  EXPECT_EQ(done.back(), total);
}

/// What a caller throws to cancel: nothing that the library knows.
struct Cancelled {
  int token{0};
};

TEST(Stage, WhatAProgressThrowsReachesTheCallerAsItIs) {
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model_with_inner(), best_qconfig_mapping("x86"), backend);
  const std::vector<Sample> samples(5, {torch::randn({2, 3, 8, 8})});
  calibrate(prepared, samples);
  const auto expect_passed = [&](const auto& work) {
    const auto at_half = [](const auto& what) {
      return [what](std::size_t done, std::size_t total) {
        if (2 * done >= total) throw what;
      };
    };
    try {
      work(at_half(Cancelled{.token = 7}));
      ADD_FAILURE() << "no exception";
    } catch (const Cancelled& thrown) {
      EXPECT_EQ(thrown.token, 7);
    }
    // Types that the library throws and catches itself.
    const Error own(ErrorCode::Internal, "pressed");
    try {
      work(at_half(own));
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), own.what());
    }
    EXPECT_THROW(work(at_half(std::bad_alloc())), std::bad_alloc);
  };
  expect_passed([&](const Progress& progress) { calibrate(prepared, samples, {.progress = progress}); });
  expect_passed(
      [&](const Progress& progress) { convert_to_reference(prepared, backend, {.progress = progress}); });
  expect_passed([&](const Progress& progress) {
    convert_and_try(prepared, backend, {.progress = progress}, {.samples = samples});
  });
  expect_passed(
      [&](const Progress& progress) { sensitivity(prepared, backend, samples, {.progress = progress}); });
}

/// What a program, in Python for example, makes of a file that tsq wrote.
void edit(const std::string& from, const std::string& to, const std::function<void(Module&)>& change,
          bool keeps_record = true) {
  torch::jit::ExtraFilesMap extra;
  if (keeps_record) extra["tsq.json"] = "";
  Module module = torch::jit::load(from, std::nullopt, extra);
  const at::NoGradGuard no_grad;
  change(module);
  module.save(to, extra);
}

/// The first tensor whose name ends so.
at::Tensor tensor_called(const Module& module, std::string_view end) {
  for (const auto& each : module.named_attributes()) {
    if (each.value.isTensor() && each.name.ends_with(end)) return each.value.toTensor();
  }
  ADD_FAILURE() << "no " << end;
  return {};
}

void negate_result(Module& module) {
  torch::jit::Graph& graph = *module.get_method("forward").graph();
  const torch::jit::WithInsertPoint guard(graph.return_node());
  torch::jit::Value* negative = graph.insert(c10::aten::neg, {graph.outputs()[0]});
  graph.return_node()->replaceInput(0, negative);
}

struct Edit {
  const char* what;
  std::function<void(Module&)> change;
};

TEST(Stage, AReferenceFileThatAnotherProgramChangedIsRefused) {
  const testing::TemporaryFolder folder;
  const std::string written = folder.file("reference.pt");
  const std::string edited = folder.file("edited.pt");
  const BackendConfig backend = backend_config("x86");
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    Prepared prepared =
        prepare(model_with_inner(), default_qconfig_mapping("x86"), backend, {.recipe = recipe});
    calibrate(prepared, std::vector<Sample>{{torch::randn({2, 3, 8, 8})}});
    const Reference reference = convert_to_reference(prepared, backend);
    reference.save(written);
    const auto refusal = [&] { return error_of([&] { Reference::load(edited); }); };
    for (const auto& [what, change] :
         {Edit{"weight", [](Module& module) { tensor_called(module, ".weight").mul_(1.3); }},
          Edit{"one bit of a weight",
               [](Module& module) {
                 const at::Tensor first = tensor_called(module, ".weight").flatten()[0];
                 first.copy_(at::nextafter(first, at::ones_like(first) * 9));
               }},
          Edit{"bias", [](Module& module) { tensor_called(module, ".bias").add_(1); }},
          Edit{"scale", [](Module& module) { tensor_called(module, "weight_scale").mul_(2); }},
          Edit{"zero point", [](Module& module) { tensor_called(module, "weight_zero_point").add_(1); }},
          Edit{"code", negate_result}}) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(recipe), what));
      edit(written, edited, change);
      const Error error = refusal();
      EXPECT_EQ(error.code(), ErrorCode::BadModel);
      EXPECT_NE(error.problem().find(
                    "was changed after tsq wrote it: its code or its weights, scales and zero points"),
                std::string::npos)
          << error.what();
    }
    edit(
        written, edited, [](Module&) {}, /*keeps_record=*/false);
    EXPECT_NE(refusal().problem().find("has lost the record that tsq wrote into it"), std::string::npos);
    // Saved again, or in another mode, it is what it was.
    edit(written, edited, [](Module& module) { module.train(); });
    edit(edited, edited, [](Module&) {});
    const at::Tensor input = torch::randn({2, 3, 8, 8});
    EXPECT_TRUE(at::equal(run(lower(Reference::load(edited), backend), input),
                          run(lower(reference, backend), input)));
  }
}

TEST(Stage, CodeWithBranchesAndLoopsIsTheSameAfterItWasSavedAgain) {
  torch::manual_seed(3);
  Module model = testing::user_module("Loop");
  model.register_module("conv", testing::conv2d(3, 3, 1));
  model.register_module("last", testing::conv2d(3, 3, 1));
  model.define(
      "def forward(self, x):\n"
      "  if x.size(0) > 1000:\n"
      "    torch.warn('many')\n"
      "  for i in range(x.size(0)):\n"
      "    x = torch.relu(self.conv.forward(x))\n"
      "    if bool(x.sum() > 0):\n"
      "      x = self.last.forward(x)\n"
      "  return x\n");
  const testing::TemporaryFolder folder;
  const std::string written = folder.file("reference.pt");
  for (const Recipe recipe : {Recipe::Fx, Recipe::Best}) {
    Prepared prepared =
        prepare(model, default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = recipe});
    calibrate(prepared, std::vector<Sample>{{torch::randn({2, 3, 8, 8})}});
    prepared.save(written);
    edit(written, written, [](Module&) {});
    EXPECT_NO_THROW(Prepared::load(written)) << to_string(recipe);
    convert_to_reference(prepared, backend_config("x86")).save(written);
    for (int again = 0; again < 2; ++again) edit(written, written, [](Module&) {});
    EXPECT_NO_THROW(Reference::load(written)) << to_string(recipe);
  }
}

TEST(Stage, APreparedFileMayLearnOnlyByItsObservers) {
  const testing::TemporaryFolder folder;
  const std::string written = folder.file("prepared.pt");
  const std::string edited = folder.file("edited.pt");
  const Prepared prepared = calibrated(model_with_inner(), standalone_inner());
  prepared.save(written);
  edit(written, edited, [](Module& module) { module.forward({torch::randn({2, 3, 8, 8})}); });
  EXPECT_NO_THROW(Prepared::load(edited));
  for (const auto& change :
       {std::function<void(Module&)>(negate_result), std::function<void(Module&)>([](Module& module) {
          tensor_called(module, "after.weight").mul_(1.3);
        })}) {
    edit(written, edited, change);
    EXPECT_NE(error_of([&] { Prepared::load(edited); }).problem().find("its code or its weights"),
              std::string::npos);
  }
}

/// The bytes of all tensors that a file holds.
std::size_t bytes_of(const std::string& path) { return std::filesystem::file_size(path); }

TEST(Stage, AReferenceFileHoldsNoProductsOfInputs) {
  torch::manual_seed(0);
  Module model = testing::user_module("Wide");
  model.register_module("a", testing::linear(256, 64));
  model.register_module("b", testing::linear(64, 256));
  model.define("def forward(self, x):\n  return self.b.forward(torch.relu(self.a.forward(x)))\n");
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend, {.target_cpu = TargetCpu::Vnni});
  calibrate(prepared, std::vector<Sample>(4, {torch::randn({32, 256})}));
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("reference.pt");
  const Reference reference = convert_to_reference(prepared, backend);
  reference.save(file);
  const std::size_t weights = 2 * 256 * 64;
  // The float weights, the rounded ones and a byte for each code; the products alone would be 257² + 65²
  // floats.
  EXPECT_LT(bytes_of(file), (4 + 4 + 1) * weights + 150'000);
  prepared.save(folder.file("prepared.pt"));
  EXPECT_GT(bytes_of(folder.file("prepared.pt")), 4 * 257 * 257);
  const Reference loaded = Reference::load(file);
  const at::Tensor input = torch::randn({8, 256});
  EXPECT_TRUE(at::equal(run(loaded.module(), input), run(reference.module(), input)));
  EXPECT_TRUE(at::equal(run(lower(loaded, backend), input), run(lower(reference, backend), input)));
  loaded.save(file);
  EXPECT_TRUE(at::equal(run(Reference::load(file).module(), input), run(reference.module(), input)));
}

TEST(Stage, AFaultOfAModelIsNotTakenForOneOfTheSample) {
  Module model = testing::user_module("Big");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(x) + torch.zeros([1 << 50])[0]\n");
  Prepared prepared = prepared_for_x86(model);
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
  EXPECT_EQ(error_of([&] { calibrate(prepared, samples); }).code(), ErrorCode::OutOfMemory);
}

}  // namespace stage_test
}  // namespace tsq
