#include "support/bad_layer.h"

#include <torch/script.h>
#include <tsq/tsq.h>

#include "support/small_models.h"

namespace tsq::testing {

torch::jit::Module network_with_bad_layer() {
  torch::manual_seed(5);
  const at::NoGradGuard no_gradients;
  torch::jit::Module model = user_module("Network");
  model.register_module("first", conv2d(3, 32, 3));
  model.register_module("bad", conv2d(32, 32, 1));
  model.register_module("third", conv2d(32, 32, 3));
  model.register_module("last", conv2d(32, 8, 1));
  model.define(
      "def forward(self, x):\n"
      "  y = torch.relu(self.bad.forward(torch.relu(self.first.forward(x))))\n"
      "  return self.last.forward(torch.relu(self.third.forward(y)))\n");
  scale_as_trained(model);
  model.attr("first").toModule().attr("weight").toTensor().select(0, 0).zero_();
  model.attr("first").toModule().attr("bias").toTensor().select(0, 0).zero_();
  model.attr("bad").toModule().attr("weight").toTensor().select(1, 0).fill_(50);
  return model;
}

std::vector<Sample> images_for_bad_layer() {
  torch::manual_seed(11);
  std::vector<Sample> result;
  for (int i = 0; i < 6; ++i) result.push_back({torch::randn({2, 3, 24, 24})});
  return result;
}

Prepared calibrated_with_bad_layer(const PrepareOptions& options) {
  const bool is_best = options.recipe == Recipe::Best;
  Prepared prepared = prepare(network_with_bad_layer(),
                              is_best ? best_qconfig_mapping("x86") : default_qconfig_mapping("x86"),
                              backend_config("x86"), options);
  calibrate(prepared, images_for_bad_layer());
  return prepared;
}

}  // namespace tsq::testing
