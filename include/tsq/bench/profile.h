#pragma once

#include <c10/core/QEngine.h>
#include <tsq/sample.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq::bench {

/// An operator that LibTorch dispatched in one run of a model, with all that it called.
struct OperatorTime {
  std::string kind{};  ///< "aten::conv2d"
  std::string
      layer{};  ///< the module that calls it or whose weight it takes: "features.0.conv"; may be empty
  std::string kernel{};  ///< of a step of a program: what computes it, "brgconv:avx512_core_vnni"
  std::string shape{};   ///< of a step of a program
  double start{0};       ///< seconds since the run began
  double seconds{0};
  std::vector<OperatorTime> steps{};  ///< of an operator that calls a fused program: what the program does
};

/// One model's operators in the order in which they ran. Rows and traces below show the steps of fused
/// programs in the place of the operators that call them.
struct Profile {
  double seconds{0};  ///< of the whole run, with what passes between operators
  std::vector<OperatorTime> operators{};
};

/// Runs a model with its engine `rounds` times on one sample, after a few runs that do not count: the median
/// time of each operator. The model runs as ever; LibTorch's operator callbacks look on, which takes about a
/// microsecond an operator. What it does not dispatch (operators that torch::jit::optimize_for_inference puts
/// in, other threads) shows as time between operators. What a fused program does is measured in calls of its
/// own afterwards, which have the arguments of the last run. `unfrozen`: of a model that was frozen after it
/// was loaded, what it was; it knows in which lists modules lie.
Profile profile(const torch::jit::Module& module, at::QEngine engine, const Sample& sample,
                std::size_t rounds, const torch::jit::Module* unfrozen = nullptr);

/// The median of each operator's time, and of the time between them, over runs of one sequence of operators;
/// runs that differ from the last one do not count. The whole is the sum. `runs` are not empty.
Profile median_of(const std::vector<Profile>& runs);

/// Time of one kind of operator or of one layer, in each of several models.
struct ProfileRow {
  std::string name{};
  std::vector<std::size_t> counts{};
  std::vector<double> seconds{};
};

/// Whether operators of a kind change the form of numbers and compute nothing: quantize, dequantize, casts.
bool is_conversion(std::string_view kind);

/// Per operator kind, by falling time of the slowest model; conversions, and then the time between operators,
/// are at the end. The rows add up to the whole.
std::vector<ProfileRow> by_kind(const std::vector<Profile>& profiles);

/// Per layer, in the order in which the first model runs them. A row is a layer that all models name, with
/// what runs after it until the next such layer: what one model computes within a layer's kernel (a batch
/// norm, an activation), another computes beside it. Dots in names equal underscores. At the end are all
/// conversions and the time between operators. The rows add up to the whole.
std::vector<ProfileRow> by_layer(const std::vector<Profile>& profiles);

/// The layers, as models name them, that have no row there because not all models name them: their time is in
/// the row before.
std::vector<std::string> layers_without_row(const std::vector<Profile>& profiles);

nlohmann::json to_json(const Profile& profile);
Profile profile_from(const nlohmann::json& json);
/// For chrome://tracing and Perfetto: a process for each model.
nlohmann::json chrome_trace(const std::vector<std::string>& names, const std::vector<Profile>& profiles);

}  // namespace tsq::bench
