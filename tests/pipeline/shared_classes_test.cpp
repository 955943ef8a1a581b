// Modules of a result that are alike are of one class.

#include "torchscript/shared_classes.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <tsq/quantize.h>

#include <string>

#include "support/small_models.h"

namespace tsq {
namespace shared_classes_test {

using torch::jit::Module;

/// Three blocks with a linear layer each; block 2 has a setting of its own.
Module blocks() {
  torch::manual_seed(5);
  Module model = testing::user_module("Blocks");
  for (const char* name : {"a", "b", "c"}) {
    Module block = testing::user_module("Block");
    block.register_module("fc", testing::linear(8, 8));
    if (*name == 'c') block.register_attribute("scale", c10::IntType::get(), int64_t{2});
    block.define("def forward(self, x):\n  return self.fc.forward(x)\n");
    model.register_module(name, block);
  }
  model.define("def forward(self, x):\n  return self.c.forward(self.b.forward(self.a.forward(x)))\n");
  return model;
}

Reference reference() {
  Prepared prepared =
      prepare(blocks(), default_qconfig_mapping("x86"), backend_config("x86"), {.recipe = Recipe::Fx});
  calibrate(prepared, std::vector<Sample>{{torch::randn({4, 8})}});
  return convert_to_reference(prepared, backend_config("x86"));
}

Module part(const Module& module, const std::string& name) { return module.attr(name).toModule(); }

TEST(SharedClasses, LayersAndContainersThatAreAlikeShareOne) {
  const Module module = reference().module();
  EXPECT_EQ(part(module, "a").type(), part(module, "b").type());
  EXPECT_EQ(part(part(module, "a"), "fc").type(), part(part(module, "c"), "fc").type());
  EXPECT_FALSE(part(part(module, "a"), "fc")
                   .attr("weight")
                   .toTensor()
                   .equal(part(part(module, "b"), "fc").attr("weight").toTensor()));
}

TEST(SharedClasses, AModuleWithAnotherAttributeHasAClassOfItsOwn) {
  const Module module = reference().module();
  EXPECT_NE(part(module, "a").type(), part(module, "c").type());
  EXPECT_EQ(part(module, "c").attr("scale").toInt(), 2);
  EXPECT_FALSE(part(module, "a").hasattr("scale"));
}

TEST(SharedClasses, ResultsStay) {
  Module made("__torch__.tsq.Root", std::make_shared<torch::jit::CompilationUnit>());
  for (const char* name : {"one", "two", "other"}) {
    Module child("__torch__.tsq.Child", std::make_shared<torch::jit::CompilationUnit>());
    child.register_buffer("shift", torch::full({2}, *name == 'o' ? 1.0 : 5.0));
    child.define(std::string("def forward(self, x):\n  return (x + self.shift)") +
                 (std::string(name) == "other" ? " * 2\n" : " * 3\n"));
    made.register_module(name, child);
  }
  made.register_module("again", part(made, "one"));
  made.define(
      "def forward(self, x):\n"
      "  return self.one.forward(x), self.two.forward(x), self.other.forward(x), self.again.forward(x)\n");
  Module shared = torchscript::with_shared_classes(made);
  EXPECT_EQ(part(shared, "one").type(), part(shared, "two").type());
  EXPECT_NE(part(shared, "one").type(), part(shared, "other").type());
  EXPECT_EQ(part(shared, "one")._ivalue(), part(shared, "again")._ivalue());
  const auto expected = made.forward({torch::ones({2})}).toTupleRef().elements();
  const auto got = shared.forward({torch::ones({2})}).toTupleRef().elements();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(expected[i].toTensor().equal(got[i].toTensor())) << i;
}

}  // namespace shared_classes_test
}  // namespace tsq
