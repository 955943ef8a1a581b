// A model's result against another's: the same structure, types and shapes, finite where the other is.

#include "trial/results.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

namespace tsq::detail {
namespace {

using Fault = std::optional<TrialFault>;

Fault fault(FaultKind kind, std::string text) { return TrialFault{.kind = kind, .text = std::move(text)}; }

std::string shape_text(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? "a scalar" : fmt::format("{}", fmt::join(tensor.sizes(), "x"));
}

class ResultComparison {
 public:
  ResultComparison(bool free_shapes, ErrorSums& sums) : free_shapes_(free_shapes), sums_(sums) {}

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
        ++sums_.different_shapes;
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
        ++sums_.different_shapes;
        return std::nullopt;
      }
      return fault(FaultKind::Shape, fmt::format("{} has shape {} where float has {}", place, shape_text(got),
                                                 shape_text(wanted)));
    }
    if (wanted.layout() != at::kStrided || wanted.is_quantized()) return std::nullopt;
    if (wanted.is_complex())
      return compare_numbers(at::view_as_real(wanted.resolve_conj()), at::view_as_real(got.resolve_conj()),
                             place);
    return wanted.is_floating_point() ? compare_numbers(wanted, got, place) : std::nullopt;
  }

  Fault compare_numbers(const at::Tensor& wanted, const at::Tensor& got, const std::string& place) {
    const at::Tensor x = wanted.detach().to(at::kDouble).flatten();
    const at::Tensor y = got.detach().to(at::kDouble).flatten();
    const at::Tensor counts = at::isfinite(x);
    if ((counts & ~at::isfinite(y)).any().item<bool>())
      return fault(FaultKind::NotFinite, place + " is not finite where float is");
    const at::Tensor zero = at::zeros({}, x.options());
    const at::Tensor signal = at::where(counts, x, zero);
    const at::Tensor error = at::where(counts, x - y, zero);
    sums_.power += at::dot(signal, signal).item<double>();
    sums_.error += at::dot(error, error).item<double>();
    return std::nullopt;
  }

  bool free_shapes_;
  ErrorSums& sums_;
};

}  // namespace

double ErrorSums::sqnr_db() const {
  if (error == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(power / error);
}

std::optional<TrialFault> compare_results(const c10::IValue& wanted, const c10::IValue& got, bool free_shapes,
                                          ErrorSums& sums) {
  return ResultComparison(free_shapes, sums).compare(wanted, got, "output");
}

}  // namespace tsq::detail
