// Replays the cases of make_cases.py: state, scale and zero point are PyTorch's, bit for bit (M-01 … M-15).

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <tsq/observer.h>

#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observers/observer_module.h"

namespace pytorch_observers_test {

using Dict = c10::Dict<c10::IValue, c10::IValue>;

c10::ScalarType dtype_named(const std::string& name) {
  static const std::map<std::string, c10::ScalarType> kNames{
      {"quint8", c10::kQUInt8},     {"qint8", c10::kQInt8}, {"qint32", c10::kQInt32},
      {"quint4x2", c10::kQUInt4x2}, {"uint8", c10::kByte},  {"int8", c10::kChar},
      {"int16", c10::kShort},       {"int32", c10::kInt},   {"uint16", c10::kUInt16}};
  return kNames.at(name);
}

c10::QScheme qscheme_named(const std::string& name) {
  static const std::map<std::string, c10::QScheme> kNames{
      {"per_tensor_affine", c10::kPerTensorAffine},
      {"per_tensor_symmetric", c10::kPerTensorSymmetric},
      {"per_channel_affine", c10::kPerChannelAffine},
      {"per_channel_symmetric", c10::kPerChannelSymmetric},
      {"per_channel_affine_float_qparams", c10::kPerChannelAffineFloatQParams}};
  return kNames.at(name);
}

tsq::ObserverSpec spec_of(const std::string& observer, const Dict& args) {
  tsq::ObserverSpec spec;
  spec.observer = observer;
  const auto given = [&](const char* name) -> std::optional<c10::IValue> {
    return args.contains(name) ? std::optional(args.at(name)) : std::nullopt;
  };
  const auto integer = [&](const char* name) -> std::optional<int64_t> {
    const auto value = given(name);
    return value ? std::optional(value->toInt()) : std::nullopt;
  };
  const auto real = [&](const char* name) -> std::optional<double> {
    const auto value = given(name);
    return value ? std::optional(value->toDouble()) : std::nullopt;
  };
  spec.dtype = dtype_named(args.at("dtype").toStringRef());
  spec.qscheme = qscheme_named(args.at("qscheme").toStringRef());
  spec.quant_min = integer("quant_min");
  spec.quant_max = integer("quant_max");
  spec.ch_axis = integer("ch_axis");
  spec.bins = integer("bins");
  spec.eps = real("eps");
  spec.averaging_constant = real("averaging_constant");
  if (const auto reduce_range = given("reduce_range")) spec.reduce_range = reduce_range->toBool();
  return spec;
}

/// One file of make_cases.py.
class Cases {
 public:
  explicit Cases(const std::string& observer) {
    const std::string path = fmt::format("{}/{}.pt", OBSERVER_CASES, observer);
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (bytes.empty()) throw std::runtime_error(path + " is missing: run the test observers.make_cases");
    file_ = torch::jit::pickle_load(bytes).toGenericDict();
  }

  std::vector<Dict> all() const {
    std::vector<Dict> cases;
    for (const c10::IValue& example : file_->at("cases").toListRef())
      cases.push_back(example.toGenericDict());
    return cases;
  }

  /// The tensor that a reference (dtype, offset, shape) stands for.
  at::Tensor tensor(const c10::IValue& reference) const {
    const auto& parts = reference.toTupleRef().elements();
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const c10::IValue& size : parts[2].toListRef()) {
      shape.push_back(size.toInt());
      count *= shape.back();
    }
    const at::Tensor values = file_->at("values").toGenericDict().at(parts[0]).toTensor();
    return values.slice(0, parts[1].toInt(), parts[1].toInt() + count).clone().view(shape);
  }

  std::vector<at::Tensor> tensors(const c10::IValue& references) const {
    std::vector<at::Tensor> found;
    for (const c10::IValue& reference : references.toListRef()) found.push_back(tensor(reference));
    return found;
  }

 private:
  std::optional<Dict> file_;
};

/// Equal type, shape and bits; one NaN is as good as another.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  if (!a.is_floating_point()) return at::equal(a, b);
  const at::Tensor equal_bits = a.contiguous().view(at::kInt) == b.contiguous().view(at::kInt);
  return (equal_bits | (a.isnan() & b.isnan())).all().item<bool>();
}

std::string shown(const at::Tensor& tensor) {
  std::string text = fmt::format("{} of", c10::toString(tensor.scalar_type()));
  const at::Tensor values = tensor.flatten().to(at::kDouble);
  for (int64_t i = 0; i < std::min<int64_t>(values.numel(), 4); ++i) {
    text += fmt::format(" {:.17g}", values[i].item<double>());
  }
  return text;
}

class EqualToPyTorch : public testing::TestWithParam<std::string> {
 protected:
  void expect_same(const std::string& what, const at::Tensor& ours, const at::Tensor& theirs) {
    if (same_bits(ours, theirs)) return;
    if (++differences_ <= 10)
      ADD_FAILURE() << what << ": " << shown(ours) << ", PyTorch has " << shown(theirs);
  }
  void TearDown() override { EXPECT_EQ(differences_, 0); }

 private:
  int differences_ = 0;
};

std::string title_of(std::size_t index, const Dict& example) {
  std::string text = fmt::format("case {} {}", index, example.at("label").toStringRef());
  for (const auto& entry : example.at("args").toGenericDict()) {
    text += fmt::format(" {}={}", entry.key().toStringRef(), fmt::streamed(entry.value()));
  }
  return text;
}

TEST_P(EqualToPyTorch, StateScaleAndZeroPoint) {
  const Cases cases(GetParam());
  const std::vector<Dict> examples = cases.all();
  ASSERT_GE(examples.size(), 500U);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const std::string title = title_of(i, examples[i]);
    torch::jit::Module observer =
        tsq::make_observer(spec_of(GetParam(), examples[i].at("args").toGenericDict()));
    bool any_value = false;
    for (const at::Tensor& input : cases.tensors(examples[i].at("inputs"))) {
      ASSERT_TRUE(observer.forward({input}).toTensor().is_same(input)) << title;
      any_value |= input.numel() != 0;
    }
    for (const auto& entry : examples[i].at("state").toGenericDict()) {
      const std::string& name = entry.key().toStringRef();
      expect_same(title + " " + name, observer.attr(name).toTensor(), cases.tensor(entry.value()));
    }
    const tsq::QParams qparams = tsq::calculate_qparams(observer);
    expect_same(title + " scale", qparams.scale, cases.tensor(examples[i].at("scale")));
    expect_same(title + " zero_point", qparams.zero_point, cases.tensor(examples[i].at("zero_point")));
    EXPECT_TRUE(any_value || !tsq::saw_data(observer)) << title;
  }
}

TEST_P(EqualToPyTorch, ObserveOnceOnTheCasesOfOneTensor) {
  const Cases cases(GetParam());
  int compared = 0;
  int index = -1;
  for (const Dict& example : cases.all()) {
    ++index;
    const std::vector<at::Tensor> inputs = cases.tensors(example.at("inputs"));
    if (inputs.size() != 1) continue;
    const std::string title = title_of(index, example);
    const tsq::QParams qparams =
        tsq::observe_once(spec_of(GetParam(), example.at("args").toGenericDict()), inputs[0]);
    expect_same(title + " scale", qparams.scale, cases.tensor(example.at("scale")));
    expect_same(title + " zero_point", qparams.zero_point, cases.tensor(example.at("zero_point")));
    ++compared;
  }
  EXPECT_GE(compared, 100);
}

INSTANTIATE_TEST_SUITE_P(Observers, EqualToPyTorch,
                         testing::Values("MinMaxObserver", "MovingAverageMinMaxObserver",
                                         "PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver",
                                         "HistogramObserver"),
                         [](const auto& observer) { return observer.param; });

}  // namespace pytorch_observers_test
