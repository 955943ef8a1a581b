// Runs a file of fused programs (tsq quantize --target fused) on data. The program links libtsq_runtime,
// which registers the class that the file holds, and knows LibTorch and tsq/runner.h besides. A program that
// does not link the library runs as well: tsq::Runner loads it.
#include <torch/script.h>
#include <torch/serialize.h>
#include <tsq/runner.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::vector<c10::IValue> read_samples(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  return torch::pickle_load(bytes).toListRef().vec();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: run_fused FUSED.pt DATA.pt\n";
    return 2;
  }
  tsq::Runner runner(argv[1], {.threads = 1, .keep_memory = true});
  for (const c10::IValue& sample : read_samples(argv[2])) {
    const at::Tensor scores = runner(sample.toTupleRef().elements().vec()).toTensor();
    std::cout << "classes";
    for (int64_t row = 0; row < scores.size(0); ++row)
      std::cout << ' ' << scores[row].argmax().item<int64_t>();
    std::cout << '\n';
  }
} catch (const std::exception& error) {
  std::cerr << "run_fused: " << error.what() << '\n';
  return 1;
}
