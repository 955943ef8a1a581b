#include "support/best_model.h"

#include <torch/script.h>

#include <cmath>

#include "ir/analysis.h"
#include "pipeline/stage.h"

namespace tsq::testing {

using torch::jit::Module;

Reference best_reference(const Module& model, const at::Tensor& input, const std::string& engine,
                         const std::shared_ptr<const MachineProfile>& machine) {
  const BackendConfig backend = backend_config(engine);
  Prepared prepared =
      prepare(model, best_qconfig_mapping(engine), backend, {.machine = machine, .decibel_price = 0});
  calibrate(prepared, std::vector<Sample>{{input}});
  return convert_to_reference(prepared, backend);
}

Module best_model(const Module& model, const at::Tensor& input, const std::string& engine,
                  const std::shared_ptr<const MachineProfile>& machine) {
  return lower(best_reference(model, input, engine, machine), backend_config(engine));
}

std::size_t count(const Module& model, const std::string& kind) {
  std::size_t found = 0;
  for (const ir::Node* node : ir::nodes_in_order(*model.get_method("forward").graph()))
    found += node->kind().toQualString() == kind;
  return found;
}

at::Tensor run(Module model, const at::Tensor& input) { return model.forward({input}).toTensor(); }

double sqnr(const at::Tensor& wanted, const at::Tensor& got) {
  return 10 * std::log10((wanted.square().sum() / (wanted - got).square().sum()).item<double>());
}

}  // namespace tsq::testing
