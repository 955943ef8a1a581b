#include "ir/placement.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/entries.h"

namespace tsq {
namespace {

using PlacementName = std::pair<Placement, std::string_view>;
constexpr std::array kPlacements{
    PlacementName{Placement::Undecided, "undecided"},
    PlacementName{Placement::Float, "float"},
    PlacementName{Placement::Int8, "int8"},
    PlacementName{Placement::Int8FloatOut, "int8_float_out"},
    PlacementName{Placement::Reference, "reference"},
    PlacementName{Placement::Written, "written"},
};

using ReasonName = std::pair<Reason, std::string_view>;
constexpr std::array kReasons{
    ReasonName{Reason::None, ""},
    ReasonName{Reason::Table, "table"},
    ReasonName{Reason::Mapping, "mapping"},
    ReasonName{Reason::NoReferenceModule, "no_reference_module"},
    ReasonName{Reason::NoTensors, "no_tensors"},
    ReasonName{Reason::OtherDtype, "other_dtype"},
    ReasonName{Reason::ShortRows, "short_rows"},
    ReasonName{Reason::OfAttention, "of_attention"},
    ReasonName{Reason::WholeAverage, "whole_average"},
    ReasonName{Reason::Amplified, "amplified"},
    ReasonName{Reason::FloatAfterLayer, "float_after_layer"},
    ReasonName{Reason::FilterBank, "filter_bank"},
    ReasonName{Reason::Island, "island"},
    ReasonName{Reason::NotReached, "not_reached"},
    ReasonName{Reason::MethodNotReached, "method_not_reached"},
    ReasonName{Reason::OfSample, "of_sample"},
    ReasonName{Reason::ConvertMapping, "convert_mapping"},
    ReasonName{Reason::LeftOut, "left_out"},
    ReasonName{Reason::NonFinite, "non_finite"},
    ReasonName{Reason::ReadsFloat, "reads_float"},
    ReasonName{Reason::Costs, "costs"},
    ReasonName{Reason::KeptReference, "kept_reference"},
    ReasonName{Reason::NoKernel, "no_kernel"},
    ReasonName{Reason::KernelFault, "kernel_fault"},
    ReasonName{Reason::PackingRefused, "packing_refused"},
    ReasonName{Reason::Memory, "memory"},
};

template <typename Names, typename Key>
std::string_view name_in(const Names& names, Key key) {
  const auto* found = find_entry(names, key);
  return found == nullptr ? std::string_view() : found->second;
}

template <typename Names>
auto named_in(const Names& names, std::string_view name) {
  const auto found = std::ranges::find(names, name, [](const auto& each) { return each.second; });
  return found == names.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace

std::string_view to_string(Placement placement) { return name_in(kPlacements, placement); }
std::optional<Placement> placement_named(std::string_view name) { return named_in(kPlacements, name); }
std::string_view to_string(Reason reason) { return name_in(kReasons, reason); }
std::optional<Reason> reason_named(std::string_view name) { return named_in(kReasons, name); }

}  // namespace tsq
