// torch.classes.tsq.Program, as a module of a saved file holds it.
#include <gtest/gtest.h>
#include <torch/custom_class.h>
#include <torch/script.h>

#include <sstream>
#include <thread>

#include "runtime/program/error.h"
#include "runtime/program/program_json.h"
#include "runtime/support.h"

namespace tsq::runtime::test {
namespace torch_class_test {

at::Tensor tensor_of(const Constant& constant) {
  const auto type = constant.dtype == Dtype::F32  ? at::kFloat
                    : constant.dtype == Dtype::U8 ? at::kByte
                                                  : at::kChar;
  return at::from_blob(const_cast<void*>(constant.data.get()), constant.shape, type).clone();
}

c10::IValue program_object(const Model& model) {
  c10::List<at::Tensor> constants;
  for (const auto& constant : model.constants) constants.push_back(tensor_of(constant));
  const auto type = torch::getCustomClass("__torch__.torch.classes.tsq.Program");
  const c10::IValue object = c10::ivalue::Object::create(type, 1);
  type->getMethod("__init__")({object, to_json(model.program), constants});
  return object;
}

/// A module as lowering will write it.
torch::jit::Module module_of(const Model& model) {
  torch::jit::Module module("Fused");
  const auto program = program_object(model);
  module.register_attribute("program", program.type(), program);
  module.define("def forward(self, x):\n  return self.program.forward([x], [])[0]\n");
  return module;
}

torch::jit::Module saved_and_loaded(const torch::jit::Module& module) {
  std::stringstream file;
  module.save(file);
  return torch::jit::load(file);
}

TEST(TorchClass, IsSavedAndLoadedWithItsModule) {
  const auto model = small_network(3);
  auto module = module_of(model);
  auto loaded = saved_and_loaded(module);
  for (const std::int64_t size : {16, 23}) {
    const auto image = torch::rand({2, 3, size, 16});
    const auto expected = module.forward({image}).toTensor();
    EXPECT_EQ(expected.sizes(), (std::vector<std::int64_t>{2, 10}));
    EXPECT_TRUE(loaded.forward({image}).toTensor().equal(expected));
    EXPECT_TRUE(
        loaded.forward({image.contiguous(at::MemoryFormat::ChannelsLast)}).toTensor().equal(expected));
    EXPECT_TRUE(
        loaded.forward({image.transpose(2, 3).contiguous().transpose(2, 3)}).toTensor().equal(expected));
  }
}

TEST(TorchClass, IsCalledFromSeveralThreads) {
  auto module = saved_and_loaded(module_of(small_network(3)));
  const auto image = torch::rand({1, 3, 16, 16});
  const auto expected = module.forward({image}).toTensor();
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int call = 0; call < 50; ++call) {
        if (!module.forward({image}).toTensor().equal(expected)) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(TorchClass, ATensorOfWhichSlicesAreReadIsNotCopied) {
  Writer writer;
  const int input = writer.input({});
  const int slice = writer.add({.kind = Kind::Slice, .inputs = {input}, .axis = 1, .begin = 3, .end = 5}, {});
  writer.returns({writer.add(
      {.kind = Kind::Activation, .inputs = {slice}, .post_ops = {{.kind = PostOpKind::Relu}}}, {})});
  auto module = module_of(writer.model);
  const auto transposed = torch::randn({4, 8, 6}).transpose(1, 2);
  const auto expected = transposed.slice(1, 3, 5).relu();
  EXPECT_TRUE(module.forward({transposed}).toTensor().equal(expected));
  // Of this one a copy would take 8 TB.
  const auto repeated = torch::randn({1, 1, 8}).expand({4, std::int64_t{1} << 36, 8});
  EXPECT_TRUE(module.forward({repeated}).toTensor().equal(repeated.slice(1, 3, 5).relu()));
}

TEST(TorchClass, ProfilesEachStep) {
  const auto program = program_object(small_network(3));
  const auto type = program.type()->expect<c10::ClassType>();
  const c10::List<at::Tensor> inputs({torch::rand({1, 3, 16, 16})});
  const auto json = type->getMethod("profile")({program, inputs, c10::List<std::int64_t>(), 3}).toStringRef();
  for (const auto* name : {"\"kind\":\"convolution\"", "\"implementation\":\"", "\"shape\":\"[1, 3, 16, 16]",
                           "\"microseconds\":"}) {
    EXPECT_NE(json.find(name), std::string::npos) << name << " in " << json;
  }
}

TEST(TorchClass, SaysWhichTensorDoesNotFit) {
  auto module = module_of(small_network(3));
  try {
    module.forward({torch::rand({1, 3, 16, 16}, at::kDouble)});
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("the call, tensor 0: it is of dtype Double: give float32"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace torch_class_test
}  // namespace tsq::runtime::test
