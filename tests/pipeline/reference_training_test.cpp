// Reference models that train: they begin with what quantization after training has found.

#include <gmock/gmock.h>
#include <torch/optim/adam.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/tsq.h>

#include <limits>

#include "support/processor.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace tsq {
namespace reference_training_test {

using ::testing::HasSubstr;
using torch::jit::Module;

at::Tensor images() {
  torch::manual_seed(5);
  return torch::randn({4, 3, 8, 8});
}

/// Two convolutions, a residual sum, and a linear layer that both recipes may leave float.
Module network() {
  torch::manual_seed(3);
  Module module = testing::user_module("Net");
  module.register_module("first", testing::conv2d(3, 8, 3));
  module.register_module("second", testing::conv2d(8, 8, 1));
  module.register_module("head", testing::linear(8, 5));
  module.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.first.forward(x))\n"
      "  y = torch.relu(self.second.forward(y) + y)\n"
      "  return self.head.forward(y.mean([2, 3]))\n");
  module.eval();
  return module;
}

Reference reference_of(const Module& model, Recipe recipe = Recipe::Best) {
  const QConfigMapping mapping =
      recipe == Recipe::Best ? best_qconfig_mapping("x86") : default_qconfig_mapping("x86");
  // Without VNNI, weights move to codes whose sums do not overflow when they are converted.
  Prepared prepared =
      prepare(model, mapping, backend_config("x86"), {.recipe = recipe, .target_cpu = TargetCpu::Vnni});
  calibrate(prepared, std::vector<Sample>{{images()}});
  return convert_to_reference(prepared, backend_config("x86"));
}

at::Tensor output(Module module) { return module.forward({images()}).toTensor().detach(); }

/// The share of the energy of `wanted` that is wrong.
at::Tensor loss(Module module, const at::Tensor& wanted) {
  const at::Tensor got = module.forward({images()}).toTensor();
  return (got - wanted).square().sum() / wanted.square().sum();
}

void train(const Module& module, const at::Tensor& wanted) {
  torch::optim::Adam optimizer(parameters_to_train(module), torch::optim::AdamOptions(1e-2));
  for (int step = 0; step < 30; ++step) {
    optimizer.zero_grad();
    loss(module, wanted).backward();
    optimizer.step();
  }
}

TEST(ReferenceTraining, BeginsWithWhatTheReferenceComputes) {
  for (const Recipe recipe : {Recipe::Best, Recipe::Fx}) {
    const Reference reference = reference_of(network(), recipe);
    const Module module = reference_to_train(reference);
    EXPECT_EQ(parameters_to_train(module).size(), 6U);
    EXPECT_TRUE(at::allclose(output(module), output(reference.module()), 1e-5, 1e-5));
  }
}

TEST(ReferenceTraining, TheInt8ModelComputesWhatWasTrained) {
  const Reference reference = reference_of(network());
  const Module module = reference_to_train(reference);
  const at::Tensor wanted = output(module) * 1.2;
  const double before = loss(module, wanted).item<double>();
  train(module, wanted);
  EXPECT_LT(loss(module, wanted).item<double>(), before / 10);
  const Reference trained = trained_reference(module);
  const auto near = [&](const Module& other) {
    return (output(other) - output(module)).norm().item<double>() / output(module).norm().item<double>();
  };
  EXPECT_LT(near(trained.module()), 1e-4);
  if (testing::has_vnni()) {
    EXPECT_LT(near(lower(trained, backend_config("x86")).module()), 0.02);
  }
  EXPECT_TRUE(at::equal(output(reference.module()), output(reference_of(network()).module())))
      << "the reference itself has changed";
}

TEST(ReferenceTraining, FilesKeepWhatWasTrained) {
  const testing::TemporaryFolder folder;
  const Module module = reference_to_train(reference_of(network()));
  train(module, output(module) * 1.2);
  module.save(folder.file("trained.pt"));  // as Python's torch.jit.save writes it
  const Reference trained = Reference::load(folder.file("trained.pt"));
  EXPECT_TRUE(at::allclose(output(trained.module()), output(module), 1e-4, 1e-4));
  trained.save(folder.file("reference.pt"));
  EXPECT_TRUE(
      at::equal(output(Reference::load(folder.file("reference.pt")).module()), output(trained.module())));
}

TEST(ReferenceTraining, WhatCannotGoOnIsRefused) {
  const auto message_of = [](const Module& module) -> std::string {
    try {
      trained_reference(module);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(message_of(network()), HasSubstr("no reference model that trains"));
  const Module module = reference_to_train(reference_of(network()));
  parameters_to_train(module).front().detach().fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(message_of(module), HasSubstr("has NaN or infinity"));
}

}  // namespace reference_training_test
}  // namespace tsq
