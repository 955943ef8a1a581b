#include "bench/worker.h"

#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/bench/profile.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/files.h>
#include <tsq/runner.h>
#include <tsq/runtime_library.h>
#include <tsq/try_load.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/kernels/engine.h"
#include "backends/kernels/engine_packing.h"
#include "backends/kernels/thread_count.h"
#include "base/known_engines.h"
#include "base/libtorch_error.h"
#include "base/quantized_operator.h"
#include "bench/batches.h"
#include "bench/resident.h"
#include "io/devices.h"
#include "io/libraries.h"
#include "io/samples.h"
#include "ir/define_method.h"
#include "operators/can_be_frozen.h"
#include "operators/inlined_graph.h"

namespace tsq::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

at::QEngine engine_for(const Setting& setting, const json& metadata) {
  const std::string of_file = metadata.is_object() ? metadata.value("engine", "") : "";
  const std::string engine = setting.engine.value_or(of_file);
  return engine.empty() || engine == kNoEngine ? engine_in_use() : engine_from_name(engine);
}

bool has_quantized_operators(const torch::jit::Block& block) {
  return std::ranges::any_of(block.nodes(), [](const torch::jit::Node* node) {
    return is_quantized_operator(node->kind().toQualString()) ||
           std::ranges::any_of(node->blocks(), [](const torch::jit::Block* inner) {
             return has_quantized_operators(*inner);
           });
  });
}

/// Of float files another form is measured without being asked for; files that other tools quantized say
/// nowhere that they are none.
void check_float(const torch::jit::Module& module, const std::string& path) {
  const auto forward = operators::inlined_graph(module, "forward");
  if (forward && has_quantized_operators(*forward->block()))
    throw Error(ErrorCode::BadModel, fmt::format("model '{}' is quantized", path),
                "measure it as it was saved");
}

torch::jit::Module in_form(torch::jit::Module module, Form form, const std::string& path) {
  if (form != Form::AsSaved && !operators::can_be_frozen(module)) {
    throw Error(ErrorCode::BadModel,
                fmt::format("model '{}' cannot be frozen: it reads statistics that a norm of it updates, and "
                            "LibTorch does not come to an end then",
                            path),
                fmt::format("measure it as it is: '{}@as_saved'", path));
  }
  if (form == Form::Frozen) {
    module = torch::jit::freeze(module);
    ir::own_call_stacks(module);
  }
  if (form == Form::Optimized) return torch::jit::optimize_for_inference(module);
  return module;
}

torch::jit::Module module_of(const Entry& entry, at::QEngine engine) {
  const Setting& setting = entry.setting;
  try {
    check_model_file(setting.path);
    const kernels::EnginePacking packing(engine);
    io::load_runtime_for(setting.path);
    torch::jit::Module module = torch::jit::load(setting.path, at::kCPU);
    if (entry.is_optional) check_float(module, setting.path);
    io::move_to_cpu(module);
    module.eval();
    return in_form(std::move(module), setting.form.value_or(Form::AsSaved), setting.path);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    load(setting.path);  // says why not, when the file is at fault
    throw Error(ErrorCode::BadModel,
                fmt::format("model '{}' cannot be frozen: {}", setting.path, reason_of(error)),
                fmt::format("measure it as it is: '{}@as_saved'", setting.path));
  }
}

void check_forward(const torch::jit::Module& module, const std::string& path) {
  if (module.find_method("forward")) return;
  throw Error(ErrorCode::BadModel, fmt::format("model '{}' has no forward method", path),
              "script a module whose class defines forward");
}

std::vector<Sample> read_batches(const Entry& entry, const std::string& data,
                                 const torch::jit::Module& module) {
  std::vector<Sample> samples = load_samples(data, module);
  if (entry.batch) samples = batches_of(samples, *entry.batch);
  return entry.setting.channels_last ? in_channels_last(std::move(samples)) : samples;
}

/// The seconds of one call, from the state that the model has now.
double next_call(Loaded& loaded, std::size_t sample) {
  const c10::InferenceMode no_gradients;
  // A model may write into its arguments.
  Sample arguments = detail::copy_of(loaded.batches[sample % loaded.batches.size()]);
  try {
    const kernels::EnginePacking packing(loaded.engine);  // waiting for it is not timed
    const Clock::time_point begin = Clock::now();
    const at::IValue result = loaded.module.forward(std::move(arguments));
    return seconds_since(begin);
  } catch (const std::exception& error) {
    throw run_error(fmt::format("model '{}'", loaded.entry.setting.path), sample, error);
  }
}

/// Of the first call after loading: what a call leaves in the model would make the next one another.
double call(Loaded& loaded, std::size_t sample) {
  loaded.state->begin();
  return next_call(loaded, sample);
}

std::vector<double> calls(Loaded& loaded, std::size_t sample, std::size_t count,
                          double (*each)(Loaded&, std::size_t)) {
  std::vector<double> seconds(count);
  for (double& value : seconds) value = each(loaded, sample);
  return seconds;
}

/// Several threads call one model at once, each `count` times; all begin together. What state a model keeps
/// is theirs together.
json turn_of_threads(Loaded& loaded, std::size_t sample, std::size_t count) {
  const auto threads = static_cast<std::size_t>(loaded.entry.concurrency);
  std::vector<std::vector<double>> seconds(threads);
  std::vector<std::exception_ptr> failures(threads);
  std::barrier start(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::thread> callers;
  loaded.state->begin();
  for (std::size_t i = 0; i < threads; ++i) {
    callers.emplace_back([&, i] {
      const kernels::ThreadCount computing(loaded.entry.setting.threads);
      try {
        next_call(loaded, sample);
      } catch (...) {
        failures[i] = std::current_exception();
      }
      start.arrive_and_wait();
      try {
        if (!failures[i]) seconds[i] = calls(loaded, sample, count, next_call);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  start.arrive_and_wait();
  const Clock::time_point begin = Clock::now();
  for (std::thread& caller : callers) caller.join();
  const double wall = seconds_since(begin);
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  std::vector<double> all;
  for (const std::vector<double>& of_thread : seconds)
    all.insert(all.end(), of_thread.begin(), of_thread.end());
  return {{"seconds", all}, {"wall", wall}};
}

json turn(Loaded& loaded, std::size_t sample, std::size_t count) {
  const kernels::ThreadCount computing(loaded.entry.setting.threads);
  if (loaded.entry.concurrency > 1) return turn_of_threads(loaded, sample, count);
  call(loaded, sample);
  const Clock::time_point begin = Clock::now();
  const std::vector<double> seconds = calls(loaded, sample, count, call);
  return {{"seconds", seconds}, {"wall", seconds_since(begin)}};
}

double mean_rows(const std::vector<Sample>& batches) {
  int64_t rows = 0;
  for (const Sample& batch : batches) rows += rows_of(batch);
  return static_cast<double>(rows) / static_cast<double>(batches.size());
}

}  // namespace

json Worker::load(const json& request) {
  Entry entry = entry_from(request.at("entry"));
  entry.is_optional = request.value("is_optional", false);
  const std::string& path = entry.setting.path;
  if (entry.setting.memory == Memory::Kept) keep_freed_memory();
  const kernels::ThreadCount computing(entry.setting.threads);
  const at::QEngine engine = engine_for(entry.setting, read_metadata(path));
  forget_most();
  before_ = resident().now;
  const Clock::time_point begin = Clock::now();
  torch::jit::Module module = module_of(entry, engine);
  const double load_seconds = seconds_since(begin);
  check_forward(module, path);
  const Resident with_model = resident();
  while_loading_ = with_model.most;
  Loaded loaded{.entry = entry, .module = module, .engine = engine};
  loaded.state = std::make_unique<torchscript::KeptState>(module);
  loaded.batches = read_batches(entry, request.at("data"), loaded.module);
  of_data_ = resident().now - std::min(resident().now, with_model.now);
  forget_most();
  const double first_seconds = call(loaded, 0);
  loaded_.push_back(std::move(loaded));
  const Loaded& last = loaded_.back();
  return {{"bytes", std::filesystem::file_size(path)},
          {"engine", engine_name(last.engine)},
          {"rows", mean_rows(last.batches)},
          {"load_seconds", load_seconds},
          {"first_seconds", first_seconds}};
}

std::optional<uint64_t> Worker::peak_memory() const {
  if (loaded_.size() != 1) return std::nullopt;  // of several models in one process only the whole is known
  const uint64_t most = resident().most;
  return std::max(while_loading_, most - std::min(most, of_data_)) - before_;
}

json Worker::answer(const json& request) {
  const std::string what = request.at("do");
  if (what == "load") return load(request);
  if (what == "end") {
    const std::optional<uint64_t> peak = peak_memory();
    return {{"peak_memory", peak ? json(*peak) : json(nullptr)}};
  }
  Loaded& loaded = loaded_.at(request.at("entry"));
  if (what == "turn") return turn(loaded, request.at("sample"), request.at("calls"));
  const kernels::ThreadCount computing(loaded.entry.setting.threads);
  Entry as_saved = loaded.entry;
  as_saved.setting.form = Form::AsSaved;
  const bool is_as_saved = loaded.entry.setting.form.value_or(Form::AsSaved) == Form::AsSaved;
  const torch::jit::Module with_modules = is_as_saved ? loaded.module : module_of(as_saved, loaded.engine);
  return to_json(
      profile(loaded.module, loaded.engine, loaded.batches.front(), request.at("rounds"), &with_modules));
}

void serve(std::istream& requests, std::ostream& answers) {
  Worker worker;
  for (std::string line; std::getline(requests, line);) {
    json answer;
    try {
      answer = worker.answer(json::parse(line));
    } catch (const Error& error) {
      answer = {
          {"error", {{"code", error.code()}, {"problem", error.problem()}, {"remedy", error.remedy()}}}};
    } catch (const std::exception& error) {
      answer = {{"error",
                 {{"code", is_out_of_memory(error) ? ErrorCode::OutOfMemory : ErrorCode::Internal},
                  {"problem", reason_of(error)},
                  {"remedy", ""}}}};
    }
    answers << answer.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }
}

void throw_error_in(const json& answer) {
  if (!answer.contains("error")) return;
  const json& error = answer.at("error");
  throw Error(error.at("code").get<ErrorCode>(), error.at("problem"), error.at("remedy"));
}

}  // namespace tsq::bench
