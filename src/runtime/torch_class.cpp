// torch.classes.tsq.Program: the only file that sees TorchScript.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <limits>

#include "runtime/available_memory.h"
#include "runtime/loaded_program.h"
#include "runtime/primitives/exact_sums.h"
#include "runtime/program/checked.h"
#include "runtime/program/error.h"
#include "runtime/program/program_json.h"
#include "runtime/sentences.h"

namespace tsq::runtime {
namespace {

using Tensors = std::vector<at::Tensor>;
using Numbers = std::vector<std::int64_t>;

c10::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32:
      return at::kFloat;
    case Dtype::U8:
      return at::kByte;
    case Dtype::S8:
      return at::kChar;
    case Dtype::I64:
      return at::kLong;
  }
  return at::kFloat;
}

/// Which tensor is spoken of: written out only where something is refused.
struct Named {
  const char* list;
  std::size_t index;

  [[nodiscard]] std::string text() const { return list + std::to_string(index); }
};

[[noreturn]] void refuse(const Named& place, const std::string& problem, const std::string& remedy) {
  throw ProgramError(place.text(), problem, remedy);
}

Dtype dtype_of(const at::Tensor& tensor, const Named& place) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Dtype::F32;
    case at::kByte:
    case at::kBool:  // bytes that are 0 or 1
      return Dtype::U8;
    case at::kChar:
      return Dtype::S8;
    case at::kLong:
    case at::kInt:  // becomes int64
      return Dtype::I64;
    default:
      refuse(place, std::string("it is of dtype ") + c10::toString(tensor.scalar_type()),
             "give float32, uint8, int8, bool, int64 or int32");
  }
}

/// Is it a tensor whose numbers lie in memory, as its strides say? Those of other kinds have none there.
void require_plain(const at::Tensor& tensor, const Named& place) {
  if (!tensor.defined()) refuse(place, "it is undefined", "give a tensor");
  if (!tensor.device().is_cpu()) refuse(place, "it is on " + tensor.device().str(), "move it to the CPU");
  if (tensor.is_nested() || tensor.layout() != at::kStrided)
    refuse(place, "its layout is not strided", "give a dense tensor, as to_dense() returns it");
  (void)dtype_of(tensor, place);
  if (!tensor.has_storage() || (tensor.const_data_ptr() == nullptr && tensor.numel() > 0))
    refuse(place, "it holds no memory", "give a tensor with numbers");
}

/// Throws where a copy of a tensor that repeats what it holds would need too much.
void require_memory_of_copy(const at::Tensor& tensor, const Named& place) {
  const auto held = static_cast<std::int64_t>(tensor.storage().nbytes());
  const auto copied = checked_product(tensor.numel(), static_cast<std::int64_t>(tensor.element_size()));
  if (copied && *copied <= held) return;
  const auto limit = memory_limit();
  const auto needed = copied.value_or(std::numeric_limits<std::int64_t>::max());
  if (needed > limit) throw MemoryError(place.text(), needed, limit);
}

/// Views may say that the numbers in memory stand for their negatives, and int32 is read as int64.
bool is_as_it_says(const at::Tensor& tensor) { return !tensor.is_neg() && tensor.scalar_type() != at::kInt; }

/// The same tensor with its own numbers in memory.
at::Tensor as_it_says(const at::Tensor& tensor, const Named& place) {
  if (is_as_it_says(tensor)) return tensor;
  require_memory_of_copy(tensor, place);
  const at::Tensor resolved = tensor.resolve_neg();
  return resolved.scalar_type() == at::kInt ? resolved.to(at::kLong) : resolved;
}

at::Tensor contiguous(const at::Tensor& tensor, const Named& place) {
  if (tensor.is_contiguous()) return tensor;
  require_memory_of_copy(tensor, place);
  return tensor.contiguous();
}

Constant constant_of(const at::Tensor& tensor, std::size_t index) {
  const Named place{"constant ", index};
  require_plain(tensor, place);
  const auto plain = contiguous(as_it_says(tensor.detach(), place), place);
  return {.dtype = dtype_of(plain, place),
          .shape = plain.sizes().vec(),
          .data = {plain.const_data_ptr(), [plain](const void*) {}}};
}

Model model_of(const std::string& operations, const Tensors& tensors) {
  return in_sentences("the program", [&] {
    Model model{.program = program_from_json(operations)};
    for (std::size_t i = 0; i < tensors.size(); ++i) model.constants.push_back(constant_of(tensors[i], i));
    return model;
  });
}

/// In one of the two layouts that programs read fast; as it is where slices alone read it: a loop takes a
/// slice of the same tensor in each of its steps.
at::Tensor in_fast_layout(const at::Tensor& tensor, const Named& place, bool is_only_sliced) {
  if (is_only_sliced) return tensor;
  const bool channels_last = tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ||
                             tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d);
  return channels_last ? tensor : contiguous(tensor, place);
}

/// A tensor of a call as programs read it.
at::Tensor readable(const at::Tensor& given, const Named& place, bool is_only_sliced) {
  require_plain(given, place);
  if (!is_as_it_says(given)) return in_fast_layout(as_it_says(given, place), place, is_only_sliced);
  return in_fast_layout(given, place, is_only_sliced);
}

class ProgramClass : public torch::CustomClassHolder {
 public:
  ProgramClass(const std::string& operations, Tensors constants)
      : constants_(std::move(constants)),
        program_(model_of(operations, constants_),
                 [](const std::string& sentence) { TORCH_WARN(sentence); }) {}

  Tensors forward(const Tensors& tensors, const Numbers& integers) {
    const Call call(program_, tensors, integers);
    call.program->run(call.inputs, call.outputs, integers);
    return call.returned;
  }

  /// The times of the steps of the last of `calls` calls, as JSON.
  std::string profile(const Tensors& tensors, const Numbers& integers, std::int64_t calls) {
    const Call call(program_, tensors, integers);
    for (std::int64_t i = 1; i < calls; ++i) call.program->run(call.inputs, call.outputs, integers);
    return profile_json(call.program->profile(call.inputs, call.outputs, integers));
  }

  std::string operations() const { return to_json(program_.model().program); }
  std::int64_t float_operations() const { return program_.float_operations(); }
  std::tuple<std::string, Tensors> state() const { return {operations(), constants_}; }

 private:
  /// What a call reads and returns.
  struct Call {
    c10::SmallVector<at::Tensor, 4> read{};
    std::shared_ptr<const CompiledProgram> program{};
    c10::SmallVector<const void*, 4> inputs{};
    Tensors returned{};
    mutable c10::SmallVector<void*, 4> outputs{};

    Call(LoadedProgram& loaded, const Tensors& tensors, const Numbers& integers) {
      c10::SmallVector<InputTensor, 4> views;
      loaded.require_counts(tensors.size(), integers.size());
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Named place{"the call, tensor ", i};
        const auto& tensor = read.emplace_back(readable(tensors[i], place, loaded.is_only_sliced(i)));
        views.push_back({.dtype = dtype_of(tensor, place),
                         .sizes = {tensor.sizes().data(), tensor.sizes().size()},
                         .strides = {tensor.strides().data(), tensor.strides().size()},
                         .data = tensor.const_data_ptr()});
        inputs.push_back(tensor.const_data_ptr());
      }
      program = loaded.compiled(views, integers, at::in_parallel_region() ? 1 : at::get_num_threads());
      returned.reserve(program->output_shapes().size());
      for (std::size_t i = 0; i < program->output_shapes().size(); ++i) {
        returned.push_back(
            at::empty(program->output_shapes()[i], scalar_type_of(program->output_dtypes()[i])));
        outputs.push_back(returned.back().mutable_data_ptr());
      }
    }
  };

  Tensors constants_;
  LoadedProgram program_;
};

}  // namespace
}  // namespace tsq::runtime

TORCH_LIBRARY_FRAGMENT(tsq, library) {
  using tsq::runtime::ProgramClass;
  library.def("has_exact_int8_sums() -> bool", [] { return tsq::runtime::has_exact_int8_sums(); });
  library.def("set_memory_limit(int bytes) -> ()",
              [](std::int64_t bytes) { tsq::runtime::set_memory_limit(bytes); });
  library.def("memory_limit() -> int", [] { return tsq::runtime::memory_limit(); });
  library.class_<ProgramClass>("Program")
      .def(torch::init<std::string, std::vector<at::Tensor>>())
      .def("forward", &ProgramClass::forward)
      .def("profile", &ProgramClass::profile)
      .def("operations", &ProgramClass::operations)
      .def("float_operations", &ProgramClass::float_operations)
      .def_pickle([](const c10::intrusive_ptr<ProgramClass>& self) { return self->state(); },
                  [](const std::tuple<std::string, std::vector<at::Tensor>>& state) {
                    return c10::make_intrusive<ProgramClass>(std::get<0>(state), std::get<1>(state));
                  });
  // An operator, so that what watches operators sees a program run.
  using Program = c10::intrusive_ptr<ProgramClass>;
  library.def("make_program", [](std::string operations, std::vector<at::Tensor> constants) {
    return c10::make_intrusive<ProgramClass>(operations, std::move(constants));
  });
  library.def("run",
              [](const Program& program, const std::vector<at::Tensor>& tensors,
                 const std::vector<std::int64_t>& integers) { return program->forward(tensors, integers); });
}
