// Observers of the program's own (register_observer).

#include "observers/registered_observer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <array>
#include <memory>

#include "base/libtorch_error.h"
#include "base/module_source.h"
#include "base/registry.h"
#include "base/text.h"
#include "config/observer_constructor.h"
#include "config/qscheme.h"
#include "observers/observer_class.h"
#include "observers/observer_module.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

using torch::jit::Module;

constexpr const char* kRegistered = "RegisteredObserver";
constexpr const char* kOwn = "observer";
constexpr const char* kName = "observer_name";
constexpr const char* kSawValues = "saw_values";

/// What is not finite comes to the module as zero, which is part of every range.
constexpr const char* kRegisteredSource = R"(
def observe(self, x: Tensor) -> Tensor:
    if x.dtype == 6 and x.numel() != 0:
        values = x.detach()
        smallest, largest = torch.aminmax(values)
        if not bool(largest - smallest < float("inf")):
            finite = self._finite(values)
            if not bool(finite.any()):
                return x
            values = values.masked_fill(torch.logical_not(finite), 0.0)
        self.observer.forward(values)
        self.saw_values = True
    return x
)";

/// A module that observers are copies of, and the class of what is put around each copy.
struct RegisteredClass {
  Module prototype;
  ObserverClass around;
};
using SharedClass = std::shared_ptr<const RegisteredClass>;

Registry<SharedClass>& registered_classes() {
  static Registry<SharedClass> registry;
  return registry;
}

ObserverState state_around(const Module& own, const std::string& name, const UniformConfig& config,
                           bool is_dynamic) {
  return observer_state(uniform_state(config, {{kOwn, own._ivalue()},
                                               {kName, name},
                                               {kSawValues, false},
                                               {"ch_axis", config.ch_axis},
                                               {"min_val", at::empty({0})},
                                               {"max_val", at::empty({0})}}),
                        is_dynamic);
}

/// Its attributes have the types of whatever state.
ObserverClass class_around(const Module& prototype) {
  return {observer_qualified_name(kRegistered), state_around(prototype, {}, {}, false),
          observer_source(kRegisteredSource)};
}

/// Later changes of the program's module are its own. Module::eval wants every module to have a mode.
Module prototype_of(const Module& observer) {
  if (observer.hasattr("training")) return observer.deepcopy();
  Module with_mode = observer.clone();
  with_mode.register_attribute("training", c10::BoolType::get(), false);
  return with_mode.deepcopy();
}

bool is_tensor(const c10::TypePtr& type) { return type->isSubtypeOf(*c10::TensorType::get()); }

/// Whether a call with so many arguments fits the method; self is none of them.
bool takes(const c10::FunctionSchema& schema, std::size_t count) {
  const auto& arguments = schema.arguments();
  if (arguments.size() < count + 1) return false;
  for (std::size_t i = count + 1; i < arguments.size(); ++i) {
    if (!arguments[i].default_value()) return false;
  }
  return true;
}

bool observes_tensors(const Module& module) {
  const auto forward = module.find_method("forward");
  if (!forward || !takes(forward->function().getSchema(), 1)) return false;
  const c10::TypePtr type = forward->function().getSchema().arguments()[1].type();
  return c10::TensorType::get()->isSubtypeOf(*type);
}

bool calculates_qparams(const Module& module) {
  const auto method = module.find_method("calculate_qparams");
  if (!method || !takes(method->function().getSchema(), 0)) return false;
  const auto& returns = method->function().getSchema().returns();
  const auto pair = returns.size() == 1 ? returns[0].type()->cast<c10::TupleType>() : nullptr;
  return pair && pair->elements().size() == 2 && is_tensor(pair->elements()[0]) &&
         is_tensor(pair->elements()[1]);
}

void check_registered(const std::string& name, const Module& module) {
  const auto dot = name.rfind('.');
  const bool is_path = dot != std::string::npos && dot > 0 && dot + 1 < name.size();
  if (!is_path || name.starts_with("torch."))
    throw Error(ErrorCode::BadConfig, fmt::format("'{}' cannot be the name of an observer", name),
                "choose the name of a class of your own, as 'my_package.MyObserver'");
  const std::string lacks = !observes_tensors(module)     ? "forward(x: Tensor)"
                            : !calculates_qparams(module) ? "calculate_qparams() -> Tuple[Tensor, Tensor]"
                                                          : "";
  if (!lacks.empty())
    throw Error(ErrorCode::BadConfig, fmt::format("the observer '{}' has no method {}", name, lacks),
                "define forward, which records what it sees, and calculate_qparams, which returns a scale "
                "and a zero point");
}

/// What tsq gives every observer, and what the module keeps of an observer's other arguments.
std::string arguments_of(const Module& module) {
  std::string arguments = "dtype qscheme reduce_range quant_min quant_max eps ch_axis";
  for (const char* name : {"averaging_constant", "bins", "percentile"}) {
    if (module.hasattr(name)) arguments += fmt::format(" {}", name);
  }
  return arguments;
}

void set_arguments(Module& own, const ObserverSpec& spec, const ResolvedObserver& config) {
  const double eps = config.eps.value();
  for (const auto& [name, value] :
       {std::pair<const char*, c10::IValue>{"dtype", static_cast<int64_t>(config.dtype)},
        {"qscheme", static_cast<int64_t>(config.qscheme)},
        {"reduce_range", config.reduce_range},
        {"quant_min", config.quant_min.value()},
        {"quant_max", config.quant_max.value()},
        {"eps", eps},
        {"eps", at::full({1}, eps, at::kFloat)},  // as PyTorch's observers have it
        {"ch_axis", config.ch_axis}})
    set_where_there(own, name, value);
  const auto set_given = [&](const char* name, const auto& value) {
    if (value) set_where_there(own, name, *value);
  };
  set_given("averaging_constant", spec.averaging_constant);
  set_given("bins", spec.bins);
  set_given("percentile", spec.percentile);
}

std::string name_in(const Module& observer) { return observer.attr(kName).toStringRef(); }

[[noreturn]] void fail_method(const Module& observer, const char* method, const std::exception& error) {
  rethrow_out_of_memory(error);
  throw Error(ErrorCode::BadConfig,
              fmt::format("{} of the observer '{}' fails: {}", method, name_in(observer), reason_of(error)),
              "mend the module that is registered under this name, and prepare the model again");
}

[[noreturn]] void fail_result(const Module& observer, const std::string& problem, const std::string& wanted) {
  throw Error(ErrorCode::BadConfig,
              fmt::format("calculate_qparams of the observer '{}' returns {}", name_in(observer), problem),
              "return " + wanted);
}

/// What the module of the program's own says, as it stands there.
std::array<at::Tensor, 2> asked(const Module& observer) {
  try {
    const c10::IValue found = observer.attr(kOwn).toModule().get_method("calculate_qparams")({});
    const auto& pair = found.toTupleRef().elements();
    return {pair[0].toTensor().flatten(), pair[1].toTensor().flatten()};
  } catch (const std::exception& error) {
    fail_method(observer, "calculate_qparams", error);
  }
}

void check_result(const Module& observer, const UniformConfig& config, const at::Tensor& scale,
                  const at::Tensor& zero_point) {
  const bool per_channel = is_per_channel(config.qscheme);
  if (scale.numel() != zero_point.numel() || scale.numel() == 0 || (!per_channel && scale.numel() != 1))
    fail_result(observer, fmt::format("{} scales and {} zero points", scale.numel(), zero_point.numel()),
                per_channel ? "one of each for each channel" : "one of each");
  const at::Tensor is_scale = at::isfinite(scale).logical_and(scale > 0);
  if (!is_scale.all().item<bool>())
    fail_result(observer,
                fmt::format("the scale {}", scale.masked_select(is_scale.logical_not())[0].item<double>()),
                "finite scales above 0");
  if (config.qscheme == c10::kPerChannelAffineFloatQParams) return;
  const at::Tensor is_outside = (zero_point < config.quant_min).logical_or(zero_point > config.quant_max);
  if (is_outside.any().item<bool>())
    fail_result(observer,
                fmt::format("the zero point {}", zero_point.masked_select(is_outside)[0].item<int64_t>()),
                fmt::format("whole numbers from {} to {}", config.quant_min, config.quant_max));
}

/// `min_val` and `max_val` are empty until equalization has scaled what is observed: then they count.
QParams calculate_registered(const Module& observer) {
  const UniformConfig config = uniform_config(observer);
  const at::Tensor min_val = observer.attr("min_val").toTensor();
  if (min_val.numel() != 0 || !observer.attr(kSawValues).toBool())
    return qparams_of_range(config, min_val, observer.attr("max_val").toTensor());
  const bool has_float_zero_point = config.qscheme == c10::kPerChannelAffineFloatQParams;
  const auto found = asked(observer);
  const at::Tensor scale = found[0].to(at::kFloat);
  const at::Tensor zero_point = found[1].to(has_float_zero_point ? at::kFloat : at::kLong);
  check_result(observer, config, scale, zero_point);
  return {.scale = at::max(scale, config.eps),
          .zero_point = zero_point,
          .dtype = config.dtype,
          .qscheme = affine_form(config.qscheme),
          .axis = config.ch_axis};
}

bool saw_registered(const Module& observer) {
  return observer.attr(kSawValues).toBool() || saw_other_dtype(observer);
}

void merge_registered(Module& into, const Module& /*from*/) {
  throw Error(ErrorCode::BadModel,
              fmt::format("two observers '{}' cannot be merged: only their class knows how", name_in(into)),
              "calibrate one model with all samples");
}

}  // namespace

Module make_registered_observer(const ObserverSpec& spec, const ResolvedObserver& config) {
  const SharedClass known = registered_classes().find(spec.observer).value();
  Module own = known->prototype.deepcopy();
  set_arguments(own, spec, config);
  return known->around.instance(state_around(own, spec.observer, uniform_config(config), config.is_dynamic));
}

QParams observe_with_registered(const ObserverSpec& spec, const ResolvedObserver& config,
                                const at::Tensor& tensor) {
  Module observer = make_registered_observer(spec, config);
  try {
    observer.forward({tensor.to(at::kFloat)});
  } catch (const std::exception& error) {
    fail_method(observer, "forward", error);
  }
  QParams qparams = calculate_registered(observer);
  const bool per_channel = is_per_channel(config.qscheme) && tensor.numel() != 0;
  if (per_channel && qparams.scale.numel() != tensor.size(config.ch_axis))
    fail_result(observer,
                fmt::format("{} scales for {} channels", qparams.scale.numel(), tensor.size(config.ch_axis)),
                "one for each channel");
  return qparams;
}

void register_observer(std::string name, const Module& observer) {
  check_registered(name, observer);
  const Module prototype = prototype_of(observer);
  registered_classes().set(
      name, std::make_shared<const RegisteredClass>(RegisteredClass{prototype, class_around(prototype)}));
  add_observer_constructor({.name = interned(name),
                            .range = ObserverConstructor::Range::Calculated,
                            .takes_any_scheme = true,
                            .arguments = interned(arguments_of(prototype))});
}

void register_observer(std::string name, const std::string& source) {
  register_observer(std::move(name),
                    module_of_source("__torch__.tsq.registered.", source, "custom observer"));
}

const ObserverKind registered_observer{.name = kRegistered,
                                       .calculate_qparams = calculate_registered,
                                       .saw_data = saw_registered,
                                       .merge = merge_registered};

}  // namespace tsq
