// Trains a TorchScript file as if it were quantized, in a loop of one's own, and writes its int8 form:
//   train_quantized FLOAT.pt DATA.pt INT8.pt
// DATA.pt is a list of pairs (inputs, targets) of torch.save; a fifth of it is held back, to say how often
// the models are right. write_text.py writes both files.
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/serialize.h>
#include <torch/torch.h>
#include <tsq/tsq.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

std::vector<Batch> read_batches(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const c10::IValue pairs = torch::pickle_load(bytes);
  std::vector<Batch> batches;
  for (const c10::IValue& pair : pairs.toListRef()) {
    const auto& elements = pair.toTupleRef().elements();
    batches.push_back({elements.at(0).toTensor(), elements.at(1).toTensor()});
  }
  return batches;
}

double share_of_right(torch::jit::Module model, const std::vector<Batch>& batches) {
  const at::NoGradGuard no_grad;
  model.eval();
  int64_t right = 0;
  int64_t all = 0;
  for (const Batch& batch : batches) {
    const at::Tensor answers = model.forward({batch.inputs}).toTensor().argmax(1);
    right += answers.eq(batch.targets).sum().item<int64_t>();
    all += batch.targets.numel();
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

void train(torch::jit::Module model, const std::vector<Batch>& batches) {
  constexpr int kEpochs = 3;
  const torch::jit::GraphOptimizerEnabledGuard plain(false);  // optimizing takes memory
  torch::optim::SGD optimizer(tsq::parameters_to_train(model), torch::optim::SGDOptions(0.02).momentum(0.9));
  model.train();
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    if (epoch == kEpochs - 1) {
      tsq::disable_observer(model);  // from here on ranges stay as they are
      tsq::freeze_bn_stats(model);   // and batch norms use their running statistics
    }
    for (const Batch& batch : batches) {
      optimizer.zero_grad();
      torch::cross_entropy_loss(model.forward({batch.inputs}).toTensor(), batch.targets).backward();
      optimizer.step();
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: train_quantized FLOAT.pt DATA.pt INT8.pt\n";
    return 2;
  }
  const torch::jit::Module model = tsq::load(argv[1]);
  std::vector<Batch> batches = read_batches(argv[2]);
  const auto held_back_begin = batches.end() - static_cast<std::ptrdiff_t>(batches.size() / 5);
  const std::vector<Batch> held_back(held_back_begin, batches.end());
  batches.erase(held_back_begin, batches.end());

  const auto backend = tsq::backend_config("x86");
  const auto prepared = tsq::prepare_qat(model, tsq::best_qat_qconfig_mapping("x86"), backend);
  train(prepared.module(), batches);
  const tsq::Lowered lowered = tsq::convert(prepared, backend);
  tsq::save(lowered, argv[3]);

  std::cout << "right: float " << share_of_right(model, held_back) << ", trained "
            << share_of_right(prepared.module(), held_back) << ", int8 "
            << share_of_right(tsq::load(argv[3]), held_back) << '\n';
} catch (const std::exception& error) {
  std::cerr << "train_quantized: " << error.what() << '\n';
  return 1;
}
