#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tsq {

/// What an operator takes as convert has placed what lies around it: its kernel, and the roundings between
/// the two. Nanoseconds, predicted by the profile of the machine, on one thread.
struct OperatorPrice {
  double in_float{};
  double in_int8{};
};

/// "float 3.1 µs; int8 14 µs".
std::string to_text(const OperatorPrice& price);

/// How one operator of the model was quantized, or why it was not.
struct Decision {
  std::string node{};    ///< name of its output in the captured graph
  std::string layer{};   ///< module path in the user's model
  std::string method{};  ///< the method beside forward that runs it; empty: forward does
  std::string op{};      ///< PyTorch's name, "torch.nn.Conv2d"
  bool quantized{false};
  std::string pattern{};                ///< the row that matched, empty when none did
  std::string qconfig_source{};         ///< "global", "object type 'torch.nn.Linear'" …
  std::vector<std::string> refusals{};  ///< for each DTypeConfig tried, the first check that failed
  std::string reason{};                 ///< why it stayed float; empty when quantized
  std::string remedy{};                 ///< what to change
  std::string equalization{};           ///< "equalized", or why not; empty when it was not asked for
  std::string kernel{};                 ///< the engine kernel it became at lowering
  std::string standalone{};             ///< path of the standalone module that contains it; empty: none
  std::vector<std::string> parts{};     ///< of a fused module: "torch.nn.Conv2d", "torch.nn.ReLU"
  std::string qconfig{};                ///< the observers of its QConfig, empty when it has none
  /// The DTypeConfigs tried, as text; `refusals` has the answers of the first ones, one each.
  std::vector<std::string> dtype_configs{};
  /// The weights of a kernel that computes in float: "4-bit", "8-bit", "float16"; empty where it is int8.
  std::string weights{};
  /// Backends that have a row for it, where this one has none.
  std::vector<std::string> other_backends{};
  std::vector<std::string> notes{};  ///< facts worth knowing that are no reason to stay float
  /// Whether the 16-bit sums of its kernel can overflow, where the processor adds pairs of products so; empty
  /// where it does not, and for what stays float.
  std::string saturation{};
  bool may_saturate{false};
  bool on_tensors{true};  ///< false for operators on sizes, numbers and lists, which have nothing to quantize
  /// Multiply-accumulates of one run on a sample; none when they were not measured.
  std::optional<int64_t> macs{};
  /// Of the multiply-accumulates of a quantized operator those that stay float: of an LSTM's first layer.
  double float_share{0};
  std::optional<double> seconds{};  ///< time of the float operator in one run; none when it was not measured
  std::optional<OperatorPrice>
      price{};  ///< none where a kernel's time is not known, or it has no int8 kernel
};

/// The notes, and what is said of saturation.
std::vector<std::string> notes_of(const Decision& decision);

}  // namespace tsq
