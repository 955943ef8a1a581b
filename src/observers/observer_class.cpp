#include "observers/observer_class.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include "observers/observed_ranks.h"

namespace tsq {
namespace {

constexpr const char* kSawOtherDtype = "saw_other_dtype";
constexpr const char* kRanks = "ranks";  ///< a bit for each

/// Only float32 can be quantized. FX's observers do not look, and convert_fx's model raises when it runs.
std::string forward_source() {
  return fmt::format(R"(
def forward(self, x_orig: Tensor) -> Tensor:
    if x_orig.dtype != {}:
        self.{} = True
    self.{} = self.{} | (1 << x_orig.dim())
    return self.observe(x_orig)
)",
                     static_cast<int>(c10::ScalarType::Float), kSawOtherDtype, kRanks, kRanks);
}

}  // namespace

ObserverAttribute buffer(std::string name) { return {std::move(name), c10::TensorType::get(), true}; }
ObserverAttribute integer(std::string name) { return {std::move(name), c10::IntType::get()}; }
ObserverAttribute optional_integer(std::string name) {
  return {std::move(name), c10::OptionalType::create(c10::IntType::get())};
}
ObserverAttribute real(std::string name) { return {std::move(name), c10::FloatType::get()}; }
ObserverAttribute boolean(std::string name) { return {std::move(name), c10::BoolType::get()}; }

ObserverClass::ObserverClass(std::string_view name, std::vector<ObserverAttribute> attributes,
                             const std::string& source)
    : unit_(std::make_shared<torch::jit::CompilationUnit>()) {
  torch::jit::Module prototype(
      c10::QualifiedName(fmt::format("__torch__.torch.ao.quantization.observer.{}", name)), unit_);
  type_ = prototype.type();
  attributes.push_back(boolean("training"));
  attributes.push_back(boolean("is_dynamic"));
  attributes.push_back(boolean(kSawOtherDtype));
  attributes.push_back(integer(kRanks));
  for (const ObserverAttribute& attribute : attributes) {
    type_->addAttribute(attribute.name, attribute.type, /*is_parameter=*/false, attribute.is_buffer);
  }
  prototype.define(source + forward_source());
}

torch::jit::Module ObserverClass::instance(const ObserverValues& values, bool is_dynamic) const {
  constexpr std::size_t kOwnAttributes = 4;
  if (values.size() + kOwnAttributes != type_->numAttributes()) {
    throw Error(ErrorCode::Internal, fmt::format("{} has {} attributes, {} were given", type_->name()->name(),
                                                 type_->numAttributes() - kOwnAttributes, values.size()));
  }
  torch::jit::Module module(unit_, type_);
  for (const auto& [name, value] : values) {
    module.setattr(name, value);
  }
  module.setattr("training", false);
  module.setattr("is_dynamic", is_dynamic);
  module.setattr(kSawOtherDtype, false);
  module.setattr(kRanks, int64_t{0});
  return module;
}

std::string observer_class_name(const torch::jit::Module& observer) {
  const auto& name = observer.type()->name();
  return name.has_value() ? name->name() : std::string();
}

bool saw_other_dtype(const torch::jit::Module& observer) {
  return observer.hasattr(kSawOtherDtype) && observer.attr(kSawOtherDtype).toBool();
}

ObservedRanks observed_ranks(const torch::jit::Module& observer) {
  return observer.hasattr(kRanks) ? ObservedRanks(static_cast<uint64_t>(observer.attr(kRanks).toInt()))
                                  : ObservedRanks();
}

void merge_observed_ranks(torch::jit::Module& into, const torch::jit::Module& from) {
  const ObservedRanks both = observed_ranks(into) | observed_ranks(from);
  if (into.hasattr(kRanks)) into.setattr(kRanks, static_cast<int64_t>(both.to_ulong()));
}

void set_saw_other_dtype(torch::jit::Module& observer) { observer.setattr(kSawOtherDtype, true); }

}  // namespace tsq
