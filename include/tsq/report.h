#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

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
};

/// The notes, and what is said of saturation.
std::vector<std::string> notes_of(const Decision& decision);

/// An entry of the QConfigMapping or of the PrepareCustomConfig that applies to nothing in the model.
struct UnmatchedEntry {
  std::string level{};  ///< "module name", "module name regex", "object type" …, "standalone_module_name" …
  std::string entry{};   ///< the name, regex or type
  std::string reason{};  ///< why, where that is known; a name that the model does not have needs no reason
  std::vector<std::string> nearest{};  ///< similar names that the model has
  bool is_custom{false};               ///< of the PrepareCustomConfig
  /// "module name 'laeyr1' matches nothing; did you mean 'layer1'?"
  [[nodiscard]] std::string to_text() const;
};

/// A part of the model that is one fused program.
struct FusedProgram {
  std::string name{};        ///< the attribute that holds it
  std::size_t operators{0};  ///< with a decision
  std::string first{};       ///< "torch.nn.Conv2d 'features.0'", in graph order
  std::string last{};
  /// The operators that read what it returns and that no program has, in the same form; empty: none does.
  std::vector<std::string> ended_by{};
  /// Its int8 layers whose sums may leave 16 bits: without VNNI they compute in float.
  std::size_t unbounded_layers{0};
};

/// A row of register_lowering, for the model's backend, that has lowered nothing in it.
struct UnmatchedLowering {
  std::string row{};     ///< its operators
  std::string kernel{};  ///< "my::linear"
  std::string reason{};
  /// "the lowering row 'torch.nn.Linear' for my::linear lowers nothing: the model has no such operators".
  [[nodiscard]] std::string to_text() const;
};

/// What a pass of the flow took.
struct PassRun {
  std::string name{};
  std::string room{};      ///< its folder: "capture"
  std::string sentence{};  ///< what it does, for people: before → after
  double seconds{0};
  std::size_t changes{0};  ///< graphs (of forward, of other methods, in each step) that it has changed
};

/// The decision report: one entry per operator, in graph order.
struct Report {
  std::vector<Decision> decisions{};
  /// Layers whose observers saw no data by the time of convert: their qparams are scale 1, zero point 0.
  std::vector<std::string> unobserved_layers{};
  /// Entries of the user's mapping without effect; entries of PyTorch's default mappings are left out.
  std::vector<UnmatchedEntry> unmatched_entries{};
  std::vector<UnmatchedLowering> unmatched_lowering{};
  /// Files of Python source that a trace names, that are here and that were read because PrepareOptions::
  /// python_source asks for it: what they say of how operators are written counts as if the model had been
  /// scripted.
  std::vector<std::string> python_files{};
  std::vector<FusedProgram> programs{};  ///< of a model that was lowered for the fused target
  /// The passes that have run, in order. No part of to_json, which is the same for the same input.
  std::vector<PassRun> passes{};
  [[nodiscard]] nlohmann::json to_json() const;
  /// Text for people: a summary, a table of the operators by module, then the float operators with the change
  /// that would quantize them.
  [[nodiscard]] std::string to_text() const;
};

/// Sums over the operators that compute with tensors.
struct Totals {
  std::size_t operators{0};
  std::size_t quantized{0};
  std::size_t in_kernels{0};
  std::size_t without_tensors{0};  ///< the other ones
  bool has_macs{false};
  int64_t macs{0};
  int64_t int8_macs{0};                                ///< of operators that compute in int8
  std::map<std::string, int64_t> small_weight_macs{};  ///< of other quantized ones, by Decision::weights
  bool has_seconds{false};
  double seconds{0};
  double int8_seconds{0};

  /// Of the operators that compute in int8.
  [[nodiscard]] double macs_share() const;
  /// Of all that are quantized.
  [[nodiscard]] double quantized_macs_share() const;
  /// "60.0 % of the work in int8, 40.0 % with 4-bit weights", where `work` is "the work".
  [[nodiscard]] std::string macs_text(std::string_view work) const;
  [[nodiscard]] double seconds_share() const;
};

Totals totals(const Report& report);

}  // namespace tsq
