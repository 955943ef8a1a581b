#include "tuning/kernel_call.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <malloc.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>

#include "backends/kernels/call_work.h"
#include "backends/kernels/engine_packing.h"

namespace tsq::tuning {
namespace {

void write_tensors(const c10::IValue& value) {
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) write(tensor);
  }
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage())
    write(value.toTensor());
}

std::int64_t second_cache_bytes() {
  constexpr std::int64_t kUsual = 1 << 20;
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : kUsual;
}

constexpr std::int64_t kLine = 64;

/// Float weights come from memory: networks have 5 to 25 million weights, which a third cache holds as bytes
/// and not as floats.
void leave_caches(const c10::IValue& value) {
#if defined(__x86_64__)
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) leave_caches(tensor);
  }
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().scalar_type() != at::kFloat)
    return;
  const at::Tensor& tensor = value.toTensor();
  const auto* first = static_cast<const char*>(tensor.const_data_ptr());
  const std::int64_t bytes = tensor.numel() * tensor.element_size();
  for (std::int64_t byte = 0; byte < bytes; byte += kLine) _mm_clflush(first + byte);
  _mm_mfence();
#endif
}

/// What the operators before the call have just written, which leaves its weights out: its inputs, and what
/// held `results`, for that memory is next to be handed out.
void write_activations(const std::vector<c10::IValue>& arguments, bool has_weights,
                       std::vector<c10::IValue> results) {
  for (const c10::IValue& result : results) write_tensors(result);
  results.clear();
  const std::size_t count = has_weights ? 1 : arguments.size();
  for (std::size_t i = std::min(count, arguments.size()); i > 0; --i) write_tensors(arguments[i - 1]);
}

}  // namespace

void write(const at::Tensor& tensor) {
  auto* bytes = static_cast<volatile char*>(tensor.mutable_data_ptr());
  const std::int64_t lines = tensor.numel() * tensor.element_size() / kLine;
  at::parallel_for(0, lines, 16, [bytes](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) bytes[line * kLine] = bytes[line * kLine];
  });
}

void leave_second_cache() {
  constexpr std::int64_t kTimes = 2;
  thread_local at::Tensor others;
  const std::int64_t bytes = kTimes * second_cache_bytes() * at::get_num_threads();
  if (!others.defined() || others.numel() < bytes) others = at::zeros({bytes}, at::kByte);
  write(others);
}

double lower_quartile(std::vector<double> times) {
  const auto place = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::ranges::nth_element(times, place);
  return *place;
}

std::string_view base_name(std::string_view name) { return name.substr(0, name.find('.')); }

Operator::Operator(const std::string& name)
    : handle_([&] {
        const std::size_t point = name.find('.');
        const std::string overload = point == std::string::npos ? "" : name.substr(point + 1);
        return c10::Dispatcher::singleton().findSchemaOrThrow(std::string(base_name(name)).c_str(),
                                                              overload.c_str());
      }()) {}

std::vector<c10::IValue> Operator::call(const std::vector<c10::IValue>& arguments) const {
  std::vector<c10::IValue> stack = arguments;
  handle_.callBoxed(stack);
  return stack;
}

c10::IValue Operator::operator()(const std::vector<c10::IValue>& arguments) const {
  return call(arguments).front();
}

double nanoseconds_of(const Operator& op, const std::vector<c10::IValue>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<c10::IValue> results = op.call(arguments);
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

std::optional<MeasuredCall> measure(const KernelCall& call, int rounds, double too_slow) {
  const at::NoGradGuard no_grad;
  const kernels::EnginePacking hold(engine_from_name(call.engine.empty() ? "none" : call.engine));
  const std::string name(base_name(call.name));
  try {
    const Operator op(call.name);
    const kernels::KernelWork work = kernels::work_of_call(name, call.arguments, op.call(call.arguments));
    MeasuredCall measured{.name = name,
                          .engine = call.engine,
                          .threads = at::get_num_threads(),
                          .work = work,
                          .nanoseconds = kNotMeasured};
    if (nanoseconds_of(op, call.arguments) > too_slow) return measured;
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) {
      std::vector<c10::IValue> results = op.call(call.arguments);
      leave_second_cache();
      if (work.weights > 0) std::for_each(call.arguments.begin() + 1, call.arguments.end(), leave_caches);
      write_activations(call.arguments, work.weights > 0, std::move(results));
      times.push_back(nanoseconds_of(op, call.arguments));
    }
    measured.nanoseconds = lower_quartile(std::move(times));
    return measured;
  } catch (const std::exception&) {
    return std::nullopt;  // the engine has no kernel for it, or none for these sizes
  }
}

void keep_memory() {
  // The most that glibc takes (malloc.c, DEFAULT_MMAP_THRESHOLD_MAX).
  constexpr int kMostOfHeap = 4 * 1024 * 1024 * sizeof(long);
  mallopt(M_MMAP_THRESHOLD, kMostOfHeap);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

void keep_few_primitives() {
  // A thousand primitives of calls before make each call slower by 3 to 9 microseconds. What the user says
  // counts.
  constexpr int kOverwrite = 0;
  setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16", kOverwrite);
}

}  // namespace tsq::tuning
