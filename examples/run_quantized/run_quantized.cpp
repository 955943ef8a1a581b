// Loads a float model and its quantized one and prints what quantization gained and cost. Needs LibTorch and
// two headers, tsq/runner.h and tsq/engine_lock.h.
#include <c10/util/Logging.h>
#include <torch/script.h>
#include <torch/serialize.h>
#include <tsq/runner.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kWarmUps = 5;
constexpr int kRounds = 60;

using Arguments = std::vector<c10::IValue>;

std::vector<Arguments> read_samples(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const c10::IValue data = torch::pickle_load(bytes);
  std::vector<Arguments> samples;
  for (const c10::IValue& sample : data.toListRef()) {
    samples.push_back(sample.toTupleRef().elements().vec());
  }
  if (samples.empty()) throw std::runtime_error("'" + path + "' holds no sample");
  return samples;
}

at::Tensor run(torch::jit::Module& model, const Arguments& sample) {
  return model.forward(sample).toTensor();
}

double milliseconds(torch::jit::Module& model, const Arguments& sample) {
  const auto start = std::chrono::steady_clock::now();
  run(model, sample);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Latency {
  std::vector<double> rounds;
  double least() const { return *std::min_element(rounds.begin(), rounds.end()); }
  double median() const {
    std::vector<double> sorted = rounds;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    return sorted[sorted.size() / 2];
  }
};

// The models take turns, so whatever else the machine does falls on each of them alike.
std::vector<Latency> measure(const std::vector<torch::jit::Module*>& models, const Arguments& sample) {
  std::vector<Latency> latencies(models.size());
  for (int round = -kWarmUps; round < kRounds; ++round) {
    for (std::size_t i = 0; i < models.size(); ++i) {
      const double time = milliseconds(*models[i], sample);
      if (round >= 0) latencies[i].rounds.push_back(time);
    }
  }
  return latencies;
}

struct Agreement {
  double signal = 0.0, noise = 0.0;
  long long rows = 0, same_top1 = 0;
  double sqnr() const { return 10.0 * std::log10(signal / noise); }
};

Agreement compare(torch::jit::Module& reference, torch::jit::Module& quantized,
                  const std::vector<Arguments>& samples) {
  Agreement agreement;
  for (const Arguments& sample : samples) {
    const at::Tensor expected = run(reference, sample).to(at::kDouble),
                     got = run(quantized, sample).to(at::kDouble);
    agreement.signal += expected.square().sum().item<double>();
    agreement.noise += (expected - got).square().sum().item<double>();
    agreement.rows += expected.size(0);
    agreement.same_top1 += expected.argmax(-1).eq(got.argmax(-1)).sum().item<int64_t>();
  }
  return agreement;
}

void print_row(const char* name, const char* unit, double plain, double frozen, double quantized) {
  std::printf("  %-18s %8.2f %s %8.2f %s %8.2f %s %8.2f x\n", name, plain, unit, frozen, unit, quantized,
              unit, plain / quantized);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::fprintf(stderr, "usage: run_quantized FLOAT.pt QUANTIZED.pt DATA.pt\n");
    return 2;
  }
  FLAGS_caffe2_log_level = 2;  // LibTorch warns that its quantized dtypes are deprecated
  const c10::InferenceMode no_gradients;
  // For all of the process: freed memory stays in it.
  tsq::Runner runner(argv[2], {.threads = 1, .keep_memory = true});
  torch::jit::Module plain = torch::jit::load(argv[1]), quantized = runner.module();
  plain.eval();
  torch::jit::Module frozen = torch::jit::freeze(plain);
  const tsq::EngineHold hold(runner.engine());  // for the calls past the Runner
  const std::vector<Arguments> samples = read_samples(argv[3]);

  const Agreement agreement = compare(plain, quantized, samples);
  const std::vector<Latency> latencies = measure({&plain, &frozen, &quantized}, samples.front());
  const double plain_size = std::filesystem::file_size(argv[1]) / 1e6,
               quantized_size = std::filesystem::file_size(argv[2]) / 1e6;

  std::printf("  %-18s %11s %11s %11s %10s\n", "", "float", "frozen", "int8", "float/int8");
  std::printf("  %-18s %8.2f MB %11s %8.2f MB %8.2f x\n", "file", plain_size, "", quantized_size,
              plain_size / quantized_size);
  print_row("latency, least", "ms", latencies[0].least(), latencies[1].least(), latencies[2].least());
  print_row("latency, median", "ms", latencies[0].median(), latencies[1].median(), latencies[2].median());
  std::printf("  %-18s %35.2f dB\n", "SQNR", agreement.sqnr());
  std::printf("  %-18s %27lld of %lld outputs\n", "top-1 as in float", agreement.same_top1, agreement.rows);
  std::printf("  one thread, first sample, %d rounds in turns; frozen is torch::jit::freeze of float\n",
              kRounds);
} catch (const c10::Error& error) {
  std::fprintf(stderr, "run_quantized: %s\n", error.what_without_backtrace());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "run_quantized: %s\n", error.what());
  return 1;
}
