// Quantizes many models in one process: reads one job a line, as JSON, and answers each with one line,
// {"exit": code, "error": text}, as `tsq quantize` would have ended. Loading LibTorch takes longer than most
// jobs; here it is loaded once, and each job runs in a fork of its own, so that a crash ends that job only.
//
// A job names files: "model", "output", "reference"; "backend", the engine's name; and, each where it is not
// left out, the "calibration" data and JSON files "backend_config", "qconfig", "prepare_custom_config".
// "target" may be "fused"; "library" is then libtsq_runtime.so. "python_source" is
// PrepareOptions::python_source. A job with "prepared" in place of "output" prepares the model for training
// and ends there; one with "trained" in place of "model" converts such a file, which Python may have saved.

#include <ATen/Parallel.h>
#include <caffe2/serialize/inline_container.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/data.h>
#include <tsq/tsq.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <sstream>

#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "pipeline/run.h"

namespace {

using nlohmann::json;

constexpr unsigned kSecondsPerJob = 600;
constexpr int kBadInput = 1;
constexpr int kInternalError = 70;

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

template <typename Config>
std::optional<Config> read_config(const json& job, const char* key) {
  if (!job.contains(key)) return std::nullopt;
  return Config::from_dict(read_json(job.at(key).get<std::string>()));
}

/// A table of the job's own is lowered for the job's engine.
tsq::BackendConfig table_of(const json& job) {
  const auto engine = job.at("backend").get<std::string>();
  auto own = read_config<tsq::BackendConfig>(job, "backend_config");
  return own ? own->set_name(engine).set_engine(engine) : tsq::backend_config(engine);
}

tsq::ConvertOptions convert_options(const json& job) {
  return {.custom = tsq::ConvertCustomConfig().set_allow_uncalibrated(true),
          .mapping = read_config<tsq::QConfigMapping>(job, "convert_qconfig")};
}

/// The code and the tensors of a module's file: all but the places in the user's source, of which a constant
/// of a file that was loaded has one more.
std::string bytes_of(const torch::jit::Module& module) {
  std::stringstream stream;
  module.save(stream);
  caffe2::serialize::PyTorchStreamReader reader(&stream);
  std::string bytes;
  for (const std::string& record : reader.getAllRecords()) {
    if (record.ends_with(".debug_pkl") || record == caffe2::serialize::kSerializationIdRecordName) continue;
    const auto [data, size] = reader.getRecord(record);
    bytes.append(record).append(static_cast<const char*>(data.get()), size);
  }
  return bytes;
}

/// The names under which each tensor of the user's file is stored, one for each form of it: packed weights
/// and float ones, by the layers' records.
using Stored = std::map<const void*, std::map<const void*, std::string>>;

void add_stored(const tsq::ir::Model& model, const tsq::ir::Node* node, Stored& stored) {
  if (const tsq::ir::Weighted* weighted = tsq::passes::weighted_at(model, node))
    stored[tsq::ir::origin_of(*weighted).const_data_ptr()].emplace(weighted->weight.const_data_ptr(),
                                                                   tsq::ir::call_of(model, node).path);
  if (node->kind() != c10::prim::GetAttr || node->input(0) != model.graph->inputs().at(0)) return;
  const std::string& name = node->s(c10::attr::name);
  const c10::IValue& value = model.attributes.attr(name);
  if (const auto packed = model.packed_weights.find(name); packed != model.packed_weights.end()) {
    const at::Tensor& of_several = packed->second.quantized;
    stored[tsq::ir::origin_of(packed->second.weighted).const_data_ptr()].emplace(
        of_several.defined() ? of_several.const_data_ptr() : value.internalToPointer(), name);
  } else if (value.isTensor() && value.toTensor().defined() && value.toTensor().numel() > 0) {
    const void* memory = value.toTensor().const_data_ptr();
    stored[memory].emplace(memory, name);
  }
}

/// A file stores no tensor of the user's, and no form of it, more often than the user's does.
void check_stored_once(const tsq::Reference& reference) {
  const tsq::detail::Stage& stage = tsq::detail::stage_of(reference);
  tsq::ir::Model model = stage.model.copy();
  tsq::detail::run(tsq::passes::Step::Lower, model, tsq::detail::context_of(stage));
  Stored stored;
  for (const tsq::ir::Node* node : tsq::ir::nodes_in_order(*model.graph)) add_stored(model, node, stored);
  for (const auto& [tensor, forms] : stored) {
    if (tensor != nullptr && forms.size() > 1)
      throw std::runtime_error(
          fmt::format("one weight is stored as {}", fmt::join(forms | std::views::values, " and ")));
  }
}

/// What the next command reads of the file that a command has written.
template <typename Stage>
Stage through_file(const Stage& stage, const std::string& path) {
  stage.save(path);
  return Stage::load(path);
}

/// Writes what a job names; returns the bytes of the lowered model. Each step reads the file of the one
/// before.
std::string write_converted(const tsq::Prepared& prepared, const tsq::BackendConfig& backend,
                            const json& job) {
  const auto output = job.at("output").get<std::string>();
  const tsq::Reference reference = through_file(
      tsq::convert_to_reference(through_file(prepared, output + ".prepared"), backend, convert_options(job)),
      job.value("reference", output + ".reference"));
  // FX's equalization has factors for each call, by which the calls' weights differ.
  if (job.value("recipe", "fx") == "best" && !job.contains("equalization")) check_stored_once(reference);
  const tsq::Lowered lowered = tsq::lower(reference, backend);
  tsq::save(lowered, output);
  return bytes_of(lowered.module());
}

void prepare_to_train(const json& job) {
  const tsq::Recipe recipe = tsq::recipe_from_name(job.value("recipe", "fx"));
  const tsq::BackendConfig backend =
      tsq::mode_backend_config(tsq::QuantizeMode::Static, recipe, table_of(job));
  const tsq::QConfigMapping mapping = recipe == tsq::Recipe::Best
                                          ? tsq::best_qat_qconfig_mapping(backend.name())
                                          : tsq::default_qat_qconfig_mapping(backend.name());
  tsq::prepare_qat(tsq::load(job.at("model").get<std::string>()),
                   read_config<tsq::QConfigMapping>(job, "qconfig").value_or(mapping), backend,
                   {.custom = read_config<tsq::PrepareCustomConfig>(job, "prepare_custom_config")
                                  .value_or(tsq::PrepareCustomConfig{}),
                    .recipe = recipe})
      .save(job.at("prepared").get<std::string>());
}

/// The steps of a job, by themselves.
struct Steps {
  torch::jit::Module model;
  std::vector<tsq::Sample> samples{};
  tsq::BackendConfig backend;
  tsq::PrepareOptions options{};

  tsq::Prepared prepared(const tsq::QConfigMapping& mapping) const {
    tsq::Prepared result = tsq::prepare(model, mapping, backend, options);
    if (!samples.empty()) tsq::calibrate(result, samples);
    return result;
  }
};

/// tsq::quantize makes what the steps make; where its trial leaves layers float, with the plan that it made.
/// Where nothing is quantized and the steps' file would be larger, it is the user's model.
void check_quantize(const Steps& steps, const tsq::QConfigMapping& mapping, const json& job,
                    const std::string& expected) {
  tsq::QuantizeOptions options;
  options.backend_config = steps.backend;
  options.mapping = mapping;
  options.custom = steps.options.custom;
  options.equalization = steps.options.equalization;
  options.recipe = steps.options.recipe;
  options.decibel_price = steps.options.decibel_price;
  options.python_source = steps.options.python_source;
  options.convert_custom = convert_options(job).custom;
  options.convert_mapping = convert_options(job).mapping;
  options.times = false;
  for (const bool force : {true, false}) {
    options.force = force;
    std::optional<tsq::Quantized> made;
    try {
      made = tsq::quantize(steps.model, steps.samples, options);
    } catch (const tsq::Error& error) {
      if (error.code() != tsq::ErrorCode::Unsupported || force) throw;
      return;  // it cannot run, and the caller must choose
    }
    tsq::ConvertOptions with_plan = convert_options(job);
    with_plan.plan = made->reference.plan();
    const std::string wanted =
        made->left_float.empty()
            ? expected
            : bytes_of(tsq::convert(steps.prepared(mapping), steps.backend, with_plan).module());
    const std::string found = bytes_of(made->module());
    const bool is_as_it_was = made->is_float_model && found == bytes_of(steps.model);
    if (found != wanted && !is_as_it_was)
      throw std::runtime_error(
          fmt::format("quantize{} writes other bytes than the steps", force ? " with force" : ""));
  }
}

void load_library(const json& job) {
  if (!job.contains("library")) return;
  if (dlopen(job.at("library").get<std::string>().c_str(), RTLD_NOW) == nullptr)
    throw std::runtime_error(dlerror());
}

void quantize(const json& job) {
  load_library(job);
  if (job.contains("prepared")) return prepare_to_train(job);
  if (job.contains("trained")) {
    const tsq::Prepared prepared = tsq::Prepared::load(job.at("trained").get<std::string>());
    write_converted(prepared, prepared.backend(), job);
    return;
  }
  const tsq::Recipe recipe = tsq::recipe_from_name(job.value("recipe", "fx"));
  Steps steps{
      .model = tsq::load(job.at("model").get<std::string>()),
      .backend = tsq::mode_backend_config(tsq::QuantizeMode::Static, recipe, table_of(job)),
      .options = {
          .custom = read_config<tsq::PrepareCustomConfig>(job, "prepare_custom_config")
                        .value_or(tsq::PrepareCustomConfig{}),
          .equalization =
              read_config<tsq::EqualizationMapping>(job, "equalization").value_or(tsq::EqualizationMapping{}),
          .recipe = recipe,
          .target = tsq::lowering_target_from_name(job.value("target", "stock")),
          .decibel_price = 0,  // noise is found by projections at random, which are others in each form
          .python_source = job.value("python_source", false)}};
  steps.model.eval();
  if (job.contains("calibration"))
    steps.samples = tsq::load_samples(job.at("calibration").get<std::string>(), steps.model);
  const auto mapping = read_config<tsq::QConfigMapping>(job, "qconfig")
                           .value_or(tsq::default_qconfig_mapping(steps.backend.name()));
  const std::string written = write_converted(steps.prepared(mapping), steps.backend, job);
  if (steps.options.target == tsq::LoweringTarget::Stock) check_quantize(steps, mapping, job, written);
}

json answer(int code, const std::string& error) { return {{"exit", code}, {"error", error}}; }

json run(const json& job) {
  try {
    at::set_num_threads(1);
    quantize(job);
    return answer(0, "");
  } catch (const tsq::Error& error) {
    const int code = error.code() == tsq::ErrorCode::Internal ? kInternalError : kBadInput;
    return answer(code, fmt::format("tsq: error: {}", error.what()));
  } catch (const std::exception& error) {
    const std::string text = error.what();  // LibTorch's texts end in a stack of calls
    return answer(kInternalError, text.substr(0, text.find('\n')));
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(descriptor, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  return text;
}

[[noreturn]] void run_in_child(const std::string& line, int descriptor) {
  alarm(kSecondsPerJob);
  const std::string text = run(json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace);
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  _exit(written ? 0 : kInternalError);
}

std::string run_in_fork(const std::string& line) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return answer(kInternalError, "no pipe").dump();
  const pid_t child = fork();
  if (child == 0) run_in_child(line, ends[1]);
  close(ends[1]);
  std::string text = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!text.empty()) return text;
  return answer(kInternalError, WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                                    : fmt::format("ended with status {}", status))
      .dump();
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << run_in_fork(line) << '\n' << std::flush;
  return 0;
}
