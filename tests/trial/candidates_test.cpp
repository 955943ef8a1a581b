#include "trial/candidates.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include "support/small_models.h"

namespace tsq {
namespace candidates_test {

TEST(Candidates, WorkIsTheShareOfTheProductsAndOfTheBytes) {
  torch::manual_seed(1);
  torch::jit::Module model = testing::user_module("Shares");
  model.register_module("once", testing::linear(256, 256));
  model.register_module("often", testing::linear(256, 8));
  model.define(
      "def forward(self, x):\n"
      "  return self.often.forward(x) + self.once.forward(x.mean(0, keepdim=True)).sum()\n");
  model.eval();
  const Sample sample{torch::randn({512, 256})};
  const BackendConfig backend = backend_config("x86");
  Prepared prepared = prepare(model, best_qconfig_mapping("x86"), backend);
  calibrate(prepared, std::vector<Sample>{sample});
  detail::Candidates candidates(prepared, backend, {}, {});
  candidates.count_work(sample);
  double products = 0;
  for (const QuantizedLayer& layer : candidates.layers())
    products += static_cast<double>(layer.macs.value_or(0));
  EXPECT_EQ(products, 256 * 256 + 512 * 256 * 8);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string& name = candidates.layers()[i].name;
    if (name == "once") {
      EXPECT_NEAR(candidates.work(i), 256 * 256 / products + 256.0 / 264, 1e-6);
    }
    if (name == "often") {
      EXPECT_NEAR(candidates.work(i), 512 * 256 * 8 / products + 8.0 / 264, 1e-6);
    }
  }
}

}  // namespace candidates_test
}  // namespace tsq
