#pragma once

#include <cstdint>

namespace tsq::runtime {

/// For what kernels of ours are compiled, each with all before it.
enum class InstructionSet : std::uint8_t { Baseline, Avx2, Avx512, Avx512Vnni };

/// The best that the processor has and that oneDNN's limit (ONEDNN_MAX_CPU_ISA) allows.
InstructionSet instruction_set();

}  // namespace tsq::runtime
