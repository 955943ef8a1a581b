#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

/// Kernels of LibTorch 2.13 that return wrong results, end the process or cannot be used, by engine. Each row
/// was found by comparing the kernel with dequantize – operator – quantize; a test shows each fault.
namespace tsq::kernels {

/// When a kernel is at fault; evaluated by kernels::fault_of.
enum class FaultCondition {
  Always,
  /// oneDNN's transposed convolution, numbers of channels in and out differ, on a processor that shows the
  /// fault (ProcessorFaults). The engine x86 takes oneDNN on processors with VNNI, for symmetric weights
  /// without output padding.
  TransposedChannelsDiffer,
  /// fbgemm's direct path of transposed convolutions: no groups, dilation or padding, kernel of two rows,
  /// both numbers of channels multiples of eight, on a processor that shows the fault. The engine x86 takes
  /// fbgemm where it does not take oneDNN.
  TransposedDirectPath,
  /// Transposed convolutions with groups and a scale for each of a group's output channels.
  TransposedPerChannelInGroups,
  /// Tensors without dimensions.
  WithoutDimensions,
  /// A scale for each index of another dimension than the output channels.
  ScalesOfOtherDimension,
  /// qint8 activations.
  SignedInput,
  /// qint32 activations.
  Int32Input,
  /// Operands that are quantized to different dtypes.
  OperandsOfOtherDTypes,
  /// qint8 activations: convolutions and linear layers take them by XNNPACK, which a LibTorch may lack.
  SignedInputWithoutXnnpack,
  /// Average pools that leave padding out of the count, or divide by a number of their own.
  AverageOverOtherCount,
  /// clamp with one bound.
  OneBound,
  /// Softmax, other than over the channels of a convolution's output.
  NotOverChannels,
  /// Interpolation in a mode, or of a rank, that has no kernel for quantized tensors.
  InterpolationWithoutKernel,
  /// Tensors whose batch dimension was put in front of channels-last memory: its stride is any.
  BatchWasAdded,
  /// A sum whose scale is 2^14 times, or 2^-8 of, the scale of an addend, or beyond.
  AddendScaleOutOfRange,
  /// Tensors that may have more than two dimensions.
  MoreDimensions,
};

/// What lowering does then.
enum class Precaution {
  KeepReference,    ///< no kernel: dequantize – operator – quantize stays
  ContiguousInput,  ///< the kernel reads a copy of the input in plain layout
  PlainLayout,      ///< the same for an element-wise operator, by a view where that does
  PackWhenLoaded,   ///< the file holds the quantized weight; its packed form cannot be saved
  PackForEachCall,  ///< calls of one layer do not share the packed weight
  FullRange,        ///< the kernel ignores reduce_range and warns of it: it is not asked for
  AddendOfItsOwn,   ///< the kernel writes into the addend: a copy, where somebody reads it afterwards
  ShapedWhenEmpty,  ///< an empty result is given the dimensions that it has lost
  NotWhenEmpty,     ///< the kernel is not called with an empty tensor, which is its result
};

struct KernelFault {
  std::string_view engine;  ///< empty: every engine
  std::string_view kernel;  ///< a kernel, or PyTorch's name of an operator that runs itself
  FaultCondition when;
  Precaution precaution;
  std::string_view reason;
};

std::span<const KernelFault> kernel_faults();

/// What the user may change so that the kernel can be used, or another engine's.
std::string remedy_of(const KernelFault& fault);

}  // namespace tsq::kernels
