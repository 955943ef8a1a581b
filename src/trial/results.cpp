// A model's result against another's: the same structure, types and shapes, finite where the other is.

#include "trial/results.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "outputs/output_power.h"

namespace tsq::detail {
namespace {

using Fault = std::optional<TrialFault>;

Fault fault(FaultKind kind, std::string text) { return TrialFault{.kind = kind, .text = std::move(text)}; }

std::string shape_text(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? "a scalar" : fmt::format("{}", fmt::join(tensor.sizes(), "x"));
}

class ResultComparison {
 public:
  ResultComparison(bool free_shapes, ResultErrors& errors) : free_shapes_(free_shapes), errors_(errors) {}

  Fault compare(const c10::IValue& wanted, const c10::IValue& got, const std::string& place) {
    if (wanted.isTensor() && got.isTensor()) return compare_tensors(wanted.toTensor(), got.toTensor(), place);
    if (wanted.tagKind() != got.tagKind() || wanted.isTensor() != got.isTensor()) {
      return fault(FaultKind::Structure,
                   fmt::format("{} is a {} where float has a {}", place, got.tagKind(), wanted.tagKind()));
    }
    if (wanted.isTuple())
      return compare_all(wanted.toTupleRef().elements(), got.toTupleRef().elements(), place, false);
    if (wanted.isList()) return compare_all(wanted.toListRef(), got.toListRef(), place, free_shapes_);
    if (wanted.isGenericDict()) return compare_dicts(wanted.toGenericDict(), got.toGenericDict(), place);
    if (wanted.isObject())
      return compare_all(wanted.toObjectRef().slots(), got.toObjectRef().slots(), place, false);
    return std::nullopt;
  }

 private:
  template <typename Values>
  Fault compare_all(const Values& wanted, const Values& got, const std::string& place, bool free_length) {
    if (wanted.size() != got.size()) {
      if (free_length) {
        ++errors_.different_shapes;
        return std::nullopt;
      }
      return fault(FaultKind::Structure,
                   fmt::format("{} holds {} values where float has {}", place, got.size(), wanted.size()));
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (Fault found = compare(wanted[i], got[i], fmt::format("{}[{}]", place, i))) return found;
    }
    return std::nullopt;
  }

  Fault compare_dicts(const c10::Dict<c10::IValue, c10::IValue>& wanted,
                      const c10::Dict<c10::IValue, c10::IValue>& got, const std::string& place) {
    if (wanted.size() != got.size()) {
      return fault(FaultKind::Structure,
                   fmt::format("{} has {} keys where float has {}", place, got.size(), wanted.size()));
    }
    for (const auto& entry : wanted) {
      const std::string name =
          entry.key().isString() ? fmt::format("{}['{}']", place, entry.key().toStringRef()) : place + "[…]";
      const auto found = got.find(entry.key());
      // Keys that are tensors are equal only to themselves.
      if (found == got.end() && entry.key().isTensor()) continue;
      if (found == got.end()) return fault(FaultKind::Structure, name + " is missing");
      if (Fault wrong = compare(entry.value(), found->value(), name)) return wrong;
    }
    return std::nullopt;
  }

  Fault compare_tensors(const at::Tensor& wanted, const at::Tensor& got, const std::string& place) {
    if (wanted.defined() != got.defined())
      return fault(FaultKind::Structure, place + " is undefined in one of the models");
    if (!wanted.defined()) return std::nullopt;
    if (wanted.scalar_type() != got.scalar_type()) {
      return fault(FaultKind::Type,
                   fmt::format("{} is of dtype {} where float has {}", place,
                               c10::toString(got.scalar_type()), c10::toString(wanted.scalar_type())));
    }
    if (wanted.sizes() != got.sizes()) {
      if (free_shapes_ && wanted.dim() == got.dim()) {
        ++errors_.different_shapes;
        return std::nullopt;
      }
      return fault(FaultKind::Shape, fmt::format("{} has shape {} where float has {}", place, shape_text(got),
                                                 shape_text(wanted)));
    }
    if (wanted.layout() != at::kStrided || wanted.is_quantized() || wanted.numel() == 0) return std::nullopt;
    if (wanted.is_complex())
      return compare_numbers(at::view_as_real(wanted.resolve_conj()), at::view_as_real(got.resolve_conj()),
                             place);
    if (!wanted.is_floating_point()) {
      errors_.outputs.push_back({.place = place, .wanted = wanted.detach(), .got = got.detach()});
      return std::nullopt;
    }
    Fault found = compare_numbers(wanted, got, place);
    if (!found) errors_.outputs.back().got = got.detach();
    return found;
  }

  Fault compare_numbers(const at::Tensor& wanted, const at::Tensor& got, const std::string& place) {
    const at::Tensor x = wanted.detach().to(at::kDouble).flatten();
    const at::Tensor y = got.detach().to(at::kDouble).flatten();
    const at::Tensor counts = at::isfinite(x);
    if ((counts & ~at::isfinite(y)).any().item<bool>())
      return fault(FaultKind::NotFinite, place + " is not finite where float is");
    const at::Tensor zero = at::zeros({}, x.options());
    const at::Tensor error = at::where(counts, x - y, zero);
    errors_.outputs.push_back(
        {.place = place, .wanted = wanted.detach(), .error = at::dot(error, error).item<double>()});
    return std::nullopt;
  }

  bool free_shapes_;
  ResultErrors& errors_;
};

/// One output over all samples that have it.
class OutputOfSamples {
 public:
  void add(std::size_t sample, const OutputError& output) {
    if (!output.error) return;
    samples_.push_back(sample);
    errors_.push_back(*output.error);
    wanted_.push_back(output.wanted);
  }
  /// Shows more of what is wanted, not of the error.
  void add_beside(const OutputError& output) { wanted_.push_back(output.wanted); }

  /// Its figures; lowers the SQNR of each sample to that of this output.
  OutputTrial judge(const std::string& name, std::vector<std::optional<double>>& sample_db) const {
    if (samples_.empty()) return {.name = name};
    const std::vector<double> powers = output_powers(wanted_);
    const double mean = std::accumulate(powers.begin(), powers.end(), 0.0) / std::max(1.0, count_of(wanted_));
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const double usual = mean * static_cast<double>(wanted_[i].numel());
      const double db = decibels(std::max(powers[i], usual), errors_[i]);
      std::optional<double>& least = sample_db[samples_[i]];
      least = std::min(least.value_or(db), db);
    }
    const double power = mean * count_of(std::span(wanted_).first(samples_.size()));
    const double error = std::accumulate(errors_.begin(), errors_.end(), 0.0);
    return {.name = name, .sqnr_db = decibels(power, error)};
  }

 private:
  static double count_of(std::span<const at::Tensor> tensors) {
    return std::accumulate(tensors.begin(), tensors.end(), 0.0, [](double sum, const at::Tensor& each) {
      return sum + static_cast<double>(each.numel());
    });
  }

  std::vector<std::size_t> samples_{};
  std::vector<double> errors_{};
  std::vector<at::Tensor> wanted_{};  ///< of these samples first
};

/// In the order in which they first appear.
class Outputs {
 public:
  OutputOfSamples& at(const std::string& place) {
    const auto [found, is_new] = index_.emplace(place, outputs_.size());
    if (is_new) outputs_.emplace_back(place, OutputOfSamples());
    return outputs_[found->second].second;
  }
  OutputOfSamples* find(const std::string& place) {
    const auto found = index_.find(place);
    return found == index_.end() ? nullptr : &outputs_[found->second].second;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, OutputOfSamples>>& all() const { return outputs_; }

 private:
  std::unordered_map<std::string, std::size_t> index_{};
  std::vector<std::pair<std::string, OutputOfSamples>> outputs_{};
};

}  // namespace

std::optional<TrialFault> compare_results(const c10::IValue& wanted, const c10::IValue& got, bool free_shapes,
                                          ResultErrors& errors) {
  return ResultComparison(free_shapes, errors).compare(wanted, got, "output");
}

void sum_up(std::span<const ResultErrors> samples, std::span<const ResultErrors> beside, Trial& trial) {
  Outputs outputs;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    trial.different_shapes += samples[i].different_shapes;
    for (const OutputError& each : samples[i].outputs) outputs.at(each.place).add(i, each);
  }
  for (const ResultErrors& more : beside) {
    for (const OutputError& each : more.outputs) {
      OutputOfSamples* output = each.error ? outputs.find(each.place) : nullptr;
      if (output != nullptr) output->add_beside(each);
    }
  }
  std::vector<std::optional<double>> sample_db(samples.size());
  for (const auto& [place, output] : outputs.all()) trial.outputs.push_back(output.judge(place, sample_db));
  if (const OutputTrial* worst = trial.worst_output()) trial.sqnr_db = worst->sqnr_db;
  for (const auto& db : sample_db) {
    if (db) trial.sample_db.push_back(*db);
  }
}

}  // namespace tsq::detail
