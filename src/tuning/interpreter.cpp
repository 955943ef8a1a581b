#include "tuning/interpreter.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace tsq::tuning {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// A chain of so many operators on one number.
torch::jit::Module chain_of(int nodes) {
  std::string body = "def forward(self, x):\n";
  for (int i = 0; i < nodes; ++i) body += "  x = torch.neg(x)\n";
  torch::jit::Module module("chain");
  module.define(body + "  return x\n");
  return module;
}

double time_of(const torch::jit::Method& method, const at::Tensor& x) {
  const auto begin = SteadyClock::now();
  (void)method({x});
  return std::chrono::duration<double, std::nano>(SteadyClock::now() - begin).count();
}

double time_of(const Operator& op, const std::vector<c10::IValue>& arguments, int times) {
  const auto begin = SteadyClock::now();
  for (int i = 0; i < times; ++i) (void)op.call(arguments);
  return std::chrono::duration<double, std::nano>(SteadyClock::now() - begin).count();
}

}  // namespace

kernels::KernelWork interpreter_work(std::size_t nodes) { return {.steps = static_cast<double>(nodes)}; }

std::vector<MeasuredCall> measure_interpreter(int rounds) {
  constexpr std::array kNodes{4, 8, 16, 32, 64, 128};
  constexpr int kWarmUp = 5;  // after two calls the interpreter has its plan
  constexpr double kLeast = 50;
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::zeros({1});
  const Operator op("aten::neg");
  std::vector<MeasuredCall> measured;
  for (const int nodes : kNodes) {
    const torch::jit::Module module = chain_of(nodes);
    const torch::jit::Method method = module.get_method("forward");
    std::vector<double> differences;
    for (int round = 0; round < rounds + kWarmUp; ++round) {
      const double whole = time_of(method, x);
      const double kernels = time_of(op, {x}, nodes);
      if (round >= kWarmUp) differences.push_back(std::max(kLeast, whole - kernels));
    }
    measured.push_back({.name = kInterpreter,
                        .threads = at::get_num_threads(),
                        .work = interpreter_work(static_cast<std::size_t>(nodes)),
                        .nanoseconds = lower_quartile(std::move(differences))});
  }
  return measured;
}

}  // namespace tsq::tuning
