// Loads a float model and quantized ones and prints what quantization gained and cost. Needs LibTorch and
// three headers, tsq/runner.h, tsq/engine_lock.h and tsq/runtime_library.h. For a file of fused programs
// libtsq_runtime.so lies beside the program, or its folder is in LD_LIBRARY_PATH.
#include <c10/util/Logging.h>
#include <torch/script.h>
#include <torch/serialize.h>
#include <tsq/runner.h>

#include <algorithm>
#include <array>
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

// A column of the table: a model and what was measured of it.
struct Column {
  std::string name;
  torch::jit::Module model;
  at::QEngine engine;
  double megabytes = 0.0;
  std::vector<double> milliseconds{};
  double signal = 0.0, noise = 0.0;
  long long rows = 0, same_top1 = 0;

  at::Tensor run(const Arguments& sample) {
    const tsq::EngineHold hold(engine);  // the call goes past the Runner
    return model.forward(sample).toTensor();
  }
  double least() const { return *std::min_element(milliseconds.begin(), milliseconds.end()); }
  double median() const {
    std::vector<double> sorted = milliseconds;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    return sorted[sorted.size() / 2];
  }
  // How many times as fast as another column, round by round, sorted.
  std::vector<double> ratios(const Column& other) const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < milliseconds.size(); ++i)
      ratios.push_back(other.milliseconds[i] / milliseconds[i]);
    std::sort(ratios.begin(), ratios.end());
    return ratios;
  }
  double times_as_fast(const Column& other) const { return ratios(other)[milliseconds.size() / 2]; }
  // Ranks 22 and 39 of 60 ratios have their median between them in more than 95 of 100 cases.
  std::string interval(const Column& other) const {
    const std::vector<double> sorted = ratios(other);
    const std::size_t rank = sorted.size() * 22 / 60;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2f-%.2f", sorted[rank - 1], sorted[sorted.size() - rank]);
    return text.data();
  }
  double sqnr() const { return 10.0 * std::log10(signal / noise); }
};

double size_of(const std::string& path) { return std::filesystem::file_size(path) / 1e6; }

// The file as it is, and frozen.
std::vector<Column> float_columns(const std::string& path) {
  torch::jit::Module model = torch::jit::load(path);
  model.eval();
  const at::QEngine engine = tsq::engine_in_use();
  return {{.name = "float", .model = model, .engine = engine, .megabytes = size_of(path)},
          {.name = "frozen", .model = torch::jit::freeze(model), .engine = engine}};
}

Column quantized_column(const std::string& path) {
  // For all of the process: freed memory stays in it.
  tsq::Runner runner(path, {.threads = 1, .keep_memory = true});
  return {.name = tsq::holds_fused_programs(path) ? "fused" : "int8",
          .model = runner.module(),
          .engine = runner.engine(),
          .megabytes = size_of(path)};
}

// The models take turns, so whatever else the machine does falls on each of them alike.
void measure(std::vector<Column>& columns, const Arguments& sample) {
  for (int round = -kWarmUps; round < kRounds; ++round) {
    for (Column& column : columns) {
      const auto start = std::chrono::steady_clock::now();
      column.run(sample);
      const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
      if (round >= 0) column.milliseconds.push_back(time.count());
    }
  }
}

void compare(Column& reference, Column& quantized, const std::vector<Arguments>& samples) {
  for (const Arguments& sample : samples) {
    const at::Tensor expected = reference.run(sample).to(at::kDouble),
                     got = quantized.run(sample).to(at::kDouble);
    quantized.signal += expected.square().sum().item<double>();
    quantized.noise += (expected - got).square().sum().item<double>();
    quantized.rows += expected.size(0);
    quantized.same_top1 += expected.argmax(-1).eq(got.argmax(-1)).sum().item<int64_t>();
  }
}

std::string number_of(double value, const char* unit) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%8.2f %-2s", value, unit);
  return text.data();
}

// A row with a cell for each column.
template <typename Cell>
void print_row(const std::string& name, const std::vector<Column>& columns, Cell cell_of) {
  std::string line = "  " + name + std::string(18 - name.size(), ' ');
  for (const Column& column : columns) {
    const std::string cell = cell_of(column);
    line += std::string(12 - cell.size(), ' ') + cell;
  }
  std::printf("%s\n", line.substr(0, line.find_last_not_of(' ') + 1).c_str());
}

void print_table(const std::vector<Column>& columns) {
  print_row("", columns, [](const Column& column) { return column.name; });
  print_row("file", columns, [](const Column& column) {
    return column.megabytes > 0 ? number_of(column.megabytes, "MB") : "";
  });
  print_row("latency, least", columns, [](const Column& column) { return number_of(column.least(), "ms"); });
  print_row("latency, median", columns,
            [](const Column& column) { return number_of(column.median(), "ms"); });
  print_row("times as fast", columns,
            [&](const Column& column) { return number_of(column.times_as_fast(columns[0]), "x"); });
  print_row("  95 % interval", columns,
            [&](const Column& column) { return &column == &columns[0] ? "" : column.interval(columns[0]); });
  print_row("SQNR", columns,
            [](const Column& column) { return column.rows > 0 ? number_of(column.sqnr(), "dB") : ""; });
  print_row("top-1 as in float", columns, [](const Column& column) {
    return column.rows > 0 ? std::to_string(column.same_top1) + " of " + std::to_string(column.rows) : "";
  });
  std::printf(
      "  one thread, first sample, %d rounds in turns; times as fast: the median of the rounds' ratios; "
      "frozen is torch::jit::freeze of float\n",
      kRounds);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fprintf(stderr, "usage: run_quantized FLOAT.pt QUANTIZED.pt... DATA.pt\n");
    return 2;
  }
  FLAGS_caffe2_log_level = 2;  // LibTorch warns that its quantized dtypes are deprecated
  const c10::InferenceMode no_gradients;
  std::vector<Column> columns = float_columns(argv[1]);
  for (int i = 2; i + 1 < argc; ++i) columns.push_back(quantized_column(argv[i]));
  const std::vector<Arguments> samples = read_samples(argv[argc - 1]);
  for (std::size_t i = 2; i < columns.size(); ++i) compare(columns[0], columns[i], samples);
  measure(columns, samples.front());
  print_table(columns);
} catch (const c10::Error& error) {
  std::fprintf(stderr, "run_quantized: %s\n", error.what_without_backtrace());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "run_quantized: %s\n", error.what());
  return 1;
}
