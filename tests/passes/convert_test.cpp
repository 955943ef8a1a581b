#include <gtest/gtest.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/testing/file_check.h>
#include <torch/script.h>
#include <tsq/tsq.h>

#include "support/small_models.h"

namespace tsq {
namespace {

using torch::jit::Module;
using torch::jit::testing::FileCheck;

Reference reference_of(const Module& model, std::string_view backend_name) {
  const BackendConfig backend = backend_config(backend_name);
  Prepared prepared = prepare(model, default_qconfig_mapping(backend_name), backend);
  torch::manual_seed(1);
  const std::vector<Sample> samples{{torch::randn({2, 3, 8, 8})}};
  calibrate(prepared, samples);
  return convert_to_reference(prepared, backend);
}

/// The code of forward with that of the modules that it calls.
std::string graph_of(const Module& module) {
  const auto graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  return graph->toString();
}

TEST(Convert, ATransposedConvolutionGetsAPerTensorWeight) {  // B-19, B-23: FX refuses the whole model
  Module model = testing::user_module("Up");
  model.register_module("up", testing::conv_transpose2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.up.forward(x)\n");
  const Reference reference = reference_of(model, "onednn");
  FileCheck().check_not("quantize_per_channel")->check("conv_transpose2d")->run(graph_of(reference.module()));
  FileCheck().check("quantized::conv_transpose2d")->run(graph_of(lower(reference, backend_config("onednn"))));
}

TEST(Convert, AnOrdinaryConvolutionKeepsItsPerChannelWeight) {  // K-09
  Module model = testing::user_module("Plain");
  model.register_module("conv", testing::conv2d(3, 3, 3));
  model.define("def forward(self, x):\n  return self.conv.forward(x)\n");
  FileCheck().check("quantize_per_channel")->run(graph_of(reference_of(model, "onednn").module()));
}

}  // namespace
}  // namespace tsq
