// Runs one quantized model on four threads at once. Needs LibTorch and nothing else.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/script.h>
#include <torch/serialize.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 3;

c10::List<c10::IValue> read_samples(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  return torch::pickle_load(bytes).toList();
}

std::vector<at::Tensor> run_all(torch::jit::Module model, const c10::List<c10::IValue>& samples) {
  const c10::InferenceMode no_gradients;
  std::vector<at::Tensor> outputs;
  for (const c10::IValue& sample : samples) {
    outputs.push_back(model.forward(sample.toTupleRef().elements().vec()).toTensor());
  }
  return outputs;
}

// Also true where both are NaN: the same bytes.
bool same_bits(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    const at::Tensor a = left[i].contiguous(), b = right[i].contiguous();
    if (a.sizes() != b.sizes() || a.dtype() != b.dtype() ||
        std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) != 0)
      return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: run_threads QUANTIZED.pt DATA.pt\n");
    return 2;
  }
  at::set_num_threads(1);                            // the parallelism is ours
  at::globalContext().setQEngine(at::QEngine::X86);  // before loading, which packs the weights for it
  const torch::jit::Module model = torch::jit::load(argv[1]);
  const c10::List<c10::IValue> samples = read_samples(argv[2]);
  const std::vector<at::Tensor> expected = run_all(model, samples);

  std::array<int, kThreads> equal_rounds{};
  std::array<std::string, kThreads> failures;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        for (int round = 0; round < kRounds; ++round) {
          equal_rounds[thread] += same_bits(expected, run_all(model, samples)) ? 1 : 0;
        }
      } catch (const std::exception& error) {
        failures[thread] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  int status = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    std::printf("thread %d: %d of %d rounds of %zu samples equal%s%s\n", thread, equal_rounds[thread],
                kRounds, samples.size(), failures[thread].empty() ? "" : ": ", failures[thread].c_str());
    if (equal_rounds[thread] != kRounds) status = 1;
  }
  return status;
} catch (const c10::Error& error) {
  std::fprintf(stderr, "run_threads: %s\n", error.what_without_backtrace());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "run_threads: %s\n", error.what());
  return 1;
}
