#pragma once

#include <c10/core/QScheme.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <string_view>

namespace tsq {

/// What an observer's constructor takes and what it takes when it is not told. Source:
/// torch/ao/quantization/observer.py.
struct ObserverConstructor {
  enum class Range { None, AsGiven, Fixed, Calculated };

  std::string_view name{};
  c10::ScalarType dtype{c10::ScalarType::QUInt8};
  c10::QScheme qscheme{c10::kPerTensorAffine};  ///< its kind is what a calculated range wants
  Range range{};  ///< Calculated: calculate_qmin_qmax (M-07); Fixed: 0 to 255; AsGiven: empty unless given
  bool takes_any_scheme{false};  ///< per tensor or per channel
  bool is_dynamic{false};        ///< is_dynamic may be true
  std::string_view arguments{};  ///< their names, with a space between
};

/// Throws Error(BadConfig) for an unknown class, with the nearest.
ObserverConstructor observer_constructor(std::string_view name);

/// torch/ao/quantization/fake_quantize.py and _learnable_fake_quantize.py.
inline constexpr std::array<std::string_view, 4> kFakeQuantizeClasses{
    "FakeQuantize", "FusedMovingAvgObsFakeQuantize", "FixedQParamsFakeQuantize", "_LearnableFakeQuantize"};
/// The observer that a class of fake quantize modules has where none is given; empty for names of no
/// such class.
std::string_view observer_of_fake_quantize(std::string_view name);

/// That of a class that the program registers, under a name that no other class has. The texts live as long
/// as the process.
void add_observer_constructor(const ObserverConstructor& constructor);
bool is_registered_observer(std::string_view name);

}  // namespace tsq
