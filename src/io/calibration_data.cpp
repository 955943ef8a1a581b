#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <unordered_map>
#include <utility>

#include "base/entries.h"
#include "base/figures.h"
#include "base/libtorch_error.h"
#include "base/mapped.h"
#include "io/checked_archive.h"
#include "io/empty_tensors.h"
#include "io/numpy_file.h"
#include "torchscript/float_model.h"
#include "torchscript/renamed_methods.h"

namespace tsq {
namespace {

/// A sample as it stands in the file: `names` is empty when the arguments are positional.
struct RawSample {
  std::vector<std::string> names{};
  Sample values{};
};
using RawSamples = std::vector<RawSample>;

[[noreturn]] void refuse(const std::string& problem, const std::string& remedy = {}) {
  throw Error(ErrorCode::BadData, problem, remedy);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// What the kinds of values are called, by LibTorch's tags.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kKinds{{{"Tensor", "a tensor"},
                                                                               {"None", "None"},
                                                                               {"Int", "an int"},
                                                                               {"Double", "a float"},
                                                                               {"Bool", "a bool"},
                                                                               {"String", "a string"},
                                                                               {"GenericList", "a list"},
                                                                               {"Tuple", "a tuple"},
                                                                               {"GenericDict", "a dict"}}};

std::string kind_of(const at::IValue& value) {
  const std::string tag = value.tagKind();
  const auto* const known = find_entry(kKinds, tag);
  return known == nullptr ? fmt::format("a {}", tag) : std::string(known->second);
}

/// More than a calibration or a comparison can use; each takes some memory and time, however small it is.
constexpr int64_t kMostSamples = 1'000'000;

void check_count(const std::string& path, int64_t samples) {
  if (samples > kMostSamples) {
    refuse(fmt::format("'{}' holds {} samples, and no more than {} are read", path, samples, kMostSamples),
           "give some of them");
  }
}

/// Each element of a tensor that repeats them, in a smaller one: of an expanded tensor what was expanded, of
/// windows that overlap the stretch of memory that they lie in.
at::Tensor without_repetition(at::Tensor tensor) {
  if (tensor.numel() == 0) return tensor;
  int64_t reach = 1;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    if (tensor.stride(axis) == 0 && tensor.size(axis) > 1) tensor = tensor.narrow(axis, 0, 1);
    reach += (tensor.size(axis) - 1) * tensor.stride(axis);
  }
  return tensor.numel() > reach ? tensor.as_strided({reach}, {1}) : tensor;
}

bool is_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() && !tensor.is_complex()) return true;
  return at::isfinite(without_repetition(tensor)).all().item<bool>();
}

/// Puts tensors as forward wants them; refuses what would spoil every observer that sees it.
class Check {
 public:
  at::Tensor tensor(at::Tensor tensor, const std::string& place) {
    if (!tensor.defined()) refuse(fmt::format("{} is an undefined tensor", place));
    if (tensor.layout() != at::kStrided)
      refuse(fmt::format("{} is a sparse tensor", place), "save tensor.to_dense()");
    if (tensor.is_quantized())
      refuse(fmt::format("{} is a quantized tensor", place), "save tensor.dequantize()");
    count_repeated(tensor, place);
    // One that stands in many samples is looked through once.
    const bool is_known = !seen_.try_emplace(tensor.unsafeGetTensorImpl(), tensor).second;
    tensor = tensor.detach();
    seen_.try_emplace(tensor.unsafeGetTensorImpl(), tensor);  // in a list that is met again
    if (is_known || is_finite(tensor)) return tensor;
    const bool nan = at::isnan(without_repetition(tensor)).any().item<bool>();
    refuse(fmt::format("{} holds {}", place, nan ? "NaN" : "an infinite value"), "give finite values only");
  }

  /// Checks every tensor within `value`; returns the value with them in it.
  at::IValue value(const at::IValue& value, const std::string& place) {
    if (value.isTensor()) return tensor(value.toTensor(), place);
    if (value.isList()) {
      c10::List<at::IValue> list = value.toList();
      for (std::size_t i = 0; i < list.size(); ++i)
        list.set(i, this->value(list.get(i), fmt::format("{}[{}]", place, i)));
      return list;
    }
    if (value.isTuple()) {
      std::vector<at::IValue> elements;
      for (const at::IValue& element : value.toTupleRef().elements()) {
        elements.push_back(this->value(element, fmt::format("{}[{}]", place, elements.size())));
      }
      return c10::ivalue::Tuple::create(std::move(elements));
    }
    if (value.isGenericDict()) {
      for (const auto& entry : value.toGenericDict()) this->value(entry.value(), fmt::format("{}[…]", place));
      return value;
    }
    if (value.isNone() || value.isInt() || value.isDouble() || value.isBool() || value.isString())
      return value;
    refuse(fmt::format("{} is {}", place, kind_of(value)),
           "an argument is a tensor, a number, a string, None or a container of these");
  }

 private:
  /// A few bytes of a file may become any number of large tensors, and the model would run on each.
  void count_repeated(const at::Tensor& tensor, const std::string& place) {
    constexpr std::size_t kMostRepeated = std::size_t{16} << 30U;
    repeated_ += tensor.nbytes() - without_repetition(tensor).nbytes();
    if (repeated_ > kMostRepeated) {
      refuse(fmt::format("{} is an expanded tensor, and all of them together have more than {} of repeated "
                         "elements",
                         place, readable_size(kMostRepeated)),
             "give fewer or smaller samples");
    }
  }

  /// Held, so that no other tensor gets the place of one.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> seen_{};
  std::size_t repeated_{0};
};

std::string place_of(const std::string& path, std::size_t sample) {
  return fmt::format("sample {} of '{}'", sample, path);
}

/// There is nothing in such a sample to find ranges from or to compare.
void check_elements(const Sample& sample, const std::string& place) {
  if (io::has_only_empty_tensors(sample))
    refuse(fmt::format("{} holds empty tensors only", place), "leave such samples out");
}

bool is_sequence(const at::IValue& value) { return value.isList() || value.isTuple(); }

at::ArrayRef<at::IValue> elements_of(const at::IValue& sequence) {
  return sequence.isList() ? sequence.toListRef() : sequence.toTupleRef().elements().asArrayRef();
}

RawSample raw_sample(const at::IValue& value, const std::string& place, Check& check) {
  RawSample sample;
  if (value.isTensor()) {
    sample.values.push_back(value);
  } else if (is_sequence(value)) {
    sample.values = elements_of(value).vec();
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      if (!entry.key().isString()) {
        refuse(fmt::format("{} is a dict whose keys are not strings", place),
               "the keys are forward's argument names");
      }
      sample.names.push_back(entry.key().toStringRef());
      sample.values.push_back(entry.value());
    }
  } else {
    refuse(fmt::format("{} is {}", place, kind_of(value)),
           "a sample is a tensor or a tuple of forward's arguments");
  }
  if (sample.values.empty()) refuse(fmt::format("{} has no arguments", place));
  for (std::size_t i = 0; i < sample.values.size(); ++i) {
    const std::string argument =
        sample.names.empty() ? std::to_string(i) : fmt::format("'{}'", sample.names[i]);
    sample.values[i] = check.value(sample.values[i], fmt::format("{}, argument {},", place, argument));
  }
  check_elements(sample.values, place);
  return sample;
}

RawSamples samples_of(const at::IValue& root, const std::string& path) {
  Check check;
  if (root.isTensor() || root.isTuple() || root.isGenericDict())
    return {raw_sample(root, place_of(path, 0), check)};
  if (!root.isList()) refuse(fmt::format("'{}' holds {}", path, kind_of(root)), "data is a list of samples");
  const auto elements = root.toListRef();
  if (elements.empty()) refuse(fmt::format("'{}' holds an empty list", path), "give at least one sample");
  check_count(path, static_cast<int64_t>(elements.size()));
  RawSamples samples;
  for (const at::IValue& element : elements)
    samples.push_back(raw_sample(element, place_of(path, samples.size()), check));
  return samples;
}

/// LibTorch's message about a pickle, as a sentence about the user's file.
[[noreturn]] void refuse_pickle(const std::string& path, const std::string& message) {
  constexpr std::string_view kUnknownType = "unknown type ";
  const std::string line = first_line(message);
  if (const auto at = line.find(kUnknownType); at != std::string::npos) {
    const std::string type = line.substr(at + kUnknownType.size());
    if (type.find("_rebuild") != std::string::npos) {
      refuse(fmt::format("'{}' holds a tensor of a kind that LibTorch does not read ({})", path, type),
             "save dense CPU tensors of float32 or another common dtype");
    }
    refuse(fmt::format("'{}' holds a Python object of type '{}'", path, type),
           "save a list of tensors or of tuples of tensors");
  }
  if (line.find("Expected GenericDict") != std::string::npos) {
    refuse(fmt::format("'{}' holds an OrderedDict, such as a module's state", path),
           "save a list of tensors or of tuples or plain dicts of tensors");
  }
  if (line.find("zip archive") != std::string::npos || line.find("file not found") != std::string::npos) {
    refuse(fmt::format("'{}' is not a complete archive of torch.save or numpy.savez", path),
           "it is damaged; write it again");
  }
  refuse(fmt::format("'{}' cannot be read as saved tensors: {}", path, line),
         "it is damaged; write it again");
}

at::IValue read_pickle(const std::string& path) {
  io::check_archive(path, ErrorCode::BadData);
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    if (reader.hasRecord("constants.pkl")) {
      refuse(fmt::format("'{}' is a TorchScript model, not data", path),
             "data is a list of samples from torch.save");
    }
    return torch::jit::readArchiveAndTensors("data", "", "", std::nullopt, std::nullopt, at::kCPU, reader);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    refuse_pickle(path, without_stack(error));
  }
}

/// Whether the names are those that numpy.savez chooses by itself.
bool are_positional(const io::NamedArrays& arrays) {
  return std::ranges::all_of(arrays, [](const auto& array) { return array.first.starts_with("arr_"); });
}

/// One sample for each entry of the arrays' common first axis, each entry a batch of one.
RawSamples cut(const io::NamedArrays& arrays, const std::string& path) {
  int64_t count = -1;
  for (const auto& [name, tensor] : arrays) {
    if (tensor.dim() == 0)
      refuse(fmt::format("array '{}' of '{}' is a single number", name, path),
             "its first axis counts samples");
    if (count >= 0 && tensor.size(0) != count) {
      refuse(fmt::format("array '{}' of '{}' has {} samples, '{}' has {}", name, path, tensor.size(0),
                         arrays[0].first, count),
             "the first axis of every array counts the same samples");
    }
    count = tensor.size(0);
  }
  if (count <= 0) refuse(fmt::format("'{}' holds no samples", path), "give at least one");
  check_count(path, count);
  // At once: to ask about each row takes much longer.
  const bool are_finite =
      std::ranges::all_of(arrays, [](const auto& array) { return is_finite(array.second); });
  RawSamples samples;
  for (int64_t i = 0; i < count; ++i) {
    RawSample sample;
    for (const auto& [name, tensor] : arrays) {
      at::Tensor row = tensor.slice(0, i, i + 1);
      if (!are_finite)
        row = Check().tensor(row, fmt::format("{}, argument '{}',", place_of(path, samples.size()), name));
      sample.values.emplace_back(std::move(row));
      if (!are_positional(arrays)) sample.names.push_back(name);
    }
    check_elements(sample.values, place_of(path, samples.size()));
    samples.push_back(std::move(sample));
  }
  return samples;
}

io::NamedArrays in_order(io::NamedArrays arrays) {
  const auto index = [](const auto& array) { return std::strtol(array.first.c_str() + 4, nullptr, 10); };
  if (are_positional(arrays)) std::ranges::sort(arrays, {}, index);
  return arrays;
}

void check_readable_data(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found)
    refuse(fmt::format("data file '{}' does not exist", path), "check the path");
  if (status.type() != std::filesystem::file_type::regular)
    refuse(fmt::format("'{}' is not a regular file", path));
  if (!std::ifstream(path, std::ios::binary))
    refuse(fmt::format("data file '{}' cannot be opened", path), "check its permissions");
  if (std::filesystem::file_size(path, code) == 0) refuse(fmt::format("data file '{}' is empty", path));
}

RawSamples read_samples(const std::string& path) {
  check_readable_data(path);
  if (io::is_npy(path)) return cut({{"arr_0", io::read_npy(path)}}, path);
  if (!io::is_zip(path)) {
    refuse(fmt::format("'{}' is neither a torch.save archive nor .npy nor .npz", path),
           "write it with torch.save of torch 1.6 or later, torch::pickle_save or numpy.save");
  }
  if (io::is_npz(path)) return cut(in_order(io::read_npz(path)), path);
  return samples_of(read_pickle(path), path);
}

/// `value` as the type that forward declares, where TorchScript's own call would be stricter than Python's.
at::IValue as_type(const at::IValue& value, const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) {
    return value.isNone() ? value : as_type(value, optional->getElementType());
  }
  if (type->kind() == c10::TypeKind::FloatType && value.isInt()) return static_cast<double>(value.toInt());
  if (const auto list = type->cast<c10::ListType>(); list && is_sequence(value)) {
    c10::impl::GenericList typed(list->getElementType());
    for (const at::IValue& element : elements_of(value))
      typed.push_back(as_type(element, list->getElementType()));
    return typed;
  }
  if (const auto tuple = type->cast<c10::TupleType>(); tuple && is_sequence(value)) {
    const auto elements = elements_of(value);
    if (elements.size() != tuple->elements().size()) return value;
    std::vector<at::IValue> typed;
    for (std::size_t i = 0; i < elements.size(); ++i)
      typed.push_back(as_type(elements[i], tuple->elements()[i]));
    return c10::ivalue::Tuple::create(std::move(typed));
  }
  if (const auto dict = type->cast<c10::DictType>(); dict && value.isGenericDict()) {
    c10::impl::GenericDict typed(dict->getKeyType(), dict->getValueType());
    for (const auto& entry : value.toGenericDict()) {
      typed.insert(as_type(entry.key(), dict->getKeyType()), as_type(entry.value(), dict->getValueType()));
    }
    return typed;
  }
  return value;
}

/// Forward's arguments without the module itself, which stands first under whatever name.
at::ArrayRef<c10::Argument> arguments_of(const c10::FunctionSchema& schema) {
  return at::ArrayRef<c10::Argument>(schema.arguments()).slice(1);
}

std::string signature(const c10::FunctionSchema& schema) {
  const auto arguments = mapped(arguments_of(schema), [](const c10::Argument& argument) {
    return fmt::format("{} {}", argument.type()->annotation_str(), argument.name());
  });
  return fmt::format("forward({})", fmt::join(arguments, ", "));
}

/// The value of forward's argument `index` in `sample`, if it is there.
const at::IValue* value_of(const RawSample& sample, std::size_t index, const std::string& name) {
  if (sample.names.empty()) return index < sample.values.size() ? &sample.values[index] : nullptr;
  const auto found = std::find(sample.names.begin(), sample.names.end(), name);
  return found == sample.names.end() ? nullptr
                                     : &sample.values[static_cast<std::size_t>(found - sample.names.begin())];
}

void check_names(const RawSample& sample, const c10::FunctionSchema& schema, const std::string& place) {
  const auto arguments = arguments_of(schema);
  for (const std::string& name : sample.names) {
    if (std::ranges::count(arguments, name, &c10::Argument::name) > 0) continue;
    refuse(fmt::format("{} names an argument '{}' that {} does not have", place, name, signature(schema)));
  }
}

Sample bound_to(const RawSample& sample, const c10::FunctionSchema& schema, const std::string& place) {
  const auto arguments = arguments_of(schema);
  check_names(sample, schema, place);
  if (sample.values.size() > arguments.size()) {
    refuse(fmt::format("{} has {} arguments, {} takes {}", place, sample.values.size(), signature(schema),
                       arguments.size()),
           "a sample holds only forward's arguments, no labels");
  }
  Sample bound;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = arguments[i];
    const at::IValue* value = value_of(sample, i, argument.name());
    if (value == nullptr && !argument.default_value()) {
      refuse(fmt::format("{} lacks the argument '{}' of {}", place, argument.name(), signature(schema)),
             "a sample with several arguments is a tuple or a dict of them");
    }
    bound.push_back(as_type(value == nullptr ? *argument.default_value() : *value, argument.type()));
    if (!bound.back().type()->isSubtypeOf(*argument.type())) {
      refuse(fmt::format("{}: argument '{}' is {}, {} takes {}", place, argument.name(),
                         kind_of(bound.back()), signature(schema), argument.type()->annotation_str()));
    }
  }
  return bound;
}

}  // namespace

std::vector<Sample> load_samples(const std::string& path) {
  std::vector<Sample> samples;
  for (RawSample& sample : read_samples(path)) {
    if (!sample.names.empty()) {
      refuse(fmt::format("{} names its arguments ({})", place_of(path, samples.size()),
                         fmt::join(sample.names, ", ")),
             "give the arguments in forward's order, or the model with them");
    }
    samples.push_back(std::move(sample.values));
  }
  return samples;
}

std::vector<Sample> load_samples(const std::string& path, const torch::jit::Module& model,
                                 const std::string& method) {
  torchscript::check_not_empty(model);
  const torch::jit::Module called = torchscript::MethodAsForward(model, method).put(model);
  const std::optional<torch::jit::Method> forward = called.find_method("forward");
  if (!forward)
    throw Error(ErrorCode::BadModel, "the model has no forward method", "script a module that has one");
  const c10::FunctionSchema& schema = forward->function().getSchema();
  std::vector<Sample> samples;
  for (const RawSample& sample : read_samples(path)) {
    samples.push_back(bound_to(sample, schema, place_of(path, samples.size())));
  }
  return samples;
}

}  // namespace tsq
