// torch.classes.tsq.Program: the only file that sees TorchScript.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include "runtime/loaded_program.h"
#include "runtime/primitives/exact_sums.h"
#include "runtime/program/error.h"
#include "runtime/program/program_json.h"

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

Dtype dtype_of(const at::Tensor& tensor, const std::string& where) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Dtype::F32;
    case at::kByte:
    case at::kBool:  // bytes that are 0 or 1
      return Dtype::U8;
    case at::kChar:
      return Dtype::S8;
    case at::kLong:
      return Dtype::I64;
    default:
      throw ProgramError(where, std::string("it is of dtype ") + c10::toString(tensor.scalar_type()),
                         "give float32, uint8, int8, bool, int64 or int32");
  }
}

Constant constant_of(const at::Tensor& tensor, std::size_t index) {
  const auto where = "constant " + std::to_string(index);
  const auto plain = tensor.detach().contiguous();
  return {.dtype = dtype_of(plain, where),
          .shape = plain.sizes().vec(),
          .data = {plain.const_data_ptr(), [plain](const void*) {}}};
}

Model model_of(const std::string& operations, const Tensors& tensors) {
  Model model{.program = program_from_json(operations)};
  for (std::size_t i = 0; i < tensors.size(); ++i) model.constants.push_back(constant_of(tensors[i], i));
  return model;
}

/// Tensors of a call in one of the two layouts that programs read fast; as it is where slices alone read it:
/// a loop takes a slice of the same tensor in each of its steps.
at::Tensor readable(const at::Tensor& tensor, std::size_t index, bool is_only_sliced) {
  if (!tensor.device().is_cpu()) {
    throw ProgramError("the call", "tensor " + std::to_string(index) + " is on " + tensor.device().str(),
                       "move it to the CPU");
  }
  if (tensor.scalar_type() == at::kInt) return tensor.to(at::kLong).contiguous();
  if (is_only_sliced) return tensor;
  const bool channels_last = tensor.is_contiguous(at::MemoryFormat::ChannelsLast) ||
                             tensor.is_contiguous(at::MemoryFormat::ChannelsLast3d);
  return channels_last ? tensor : tensor.contiguous();
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
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto& tensor = read.emplace_back(readable(tensors[i], i, loaded.is_only_sliced(i)));
        views.push_back({.dtype = dtype_of(tensor, "the call, tensor " + std::to_string(i)),
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
