#include <gtest/gtest.h>
#include <tsq/error.h>
#include <tsq/pattern.h>
#include <tsq/qconfig_mapping.h>

#include "backends/symbols.h"

namespace tsq {
namespace symbol_test {

TEST(Symbol, KindFollowsTheSpelling) {
  EXPECT_EQ(symbol("torch.nn.Conv2d").kind, SymbolKind::Module);
  EXPECT_EQ(symbol("torch.nn.functional.relu").kind, SymbolKind::Function);
  EXPECT_EQ(symbol("torch.add").kind, SymbolKind::Function);
  EXPECT_EQ(symbol("operator.add").kind, SymbolKind::Function);
  EXPECT_EQ(symbol("view").kind, SymbolKind::Method);
  EXPECT_EQ(symbol("MatchAllNode"), match_all);
  EXPECT_EQ(symbol("torch.ao.quantization.utils.MatchAllNode"), match_all);
  EXPECT_EQ(symbol("0").kind, SymbolKind::Literal);
  EXPECT_EQ(symbol("torch.ops.aten.add.Tensor").kind, SymbolKind::Function);
}

TEST(Symbol, EqualsTheConstantOfTheSameName) {
  EXPECT_EQ(symbol("torch.nn.Conv2d"), nn::Conv2d);
  EXPECT_EQ(symbol("torch.nn.functional.relu"), F::relu);
  EXPECT_EQ(symbol("operator.add"), op::add);
  EXPECT_NE(symbol("torch.add"), op::add);
  EXPECT_EQ(symbol("view"), method("view"));
}

TEST(Symbol, OutlivesTheTextItWasMadeOf) {
  Symbol made;
  {
    std::string text = "my.pkg.Block";
    made = symbol(text);
    text.assign(text.size(), 'x');
  }
  EXPECT_EQ(made.name, "my.pkg.Block");
}

TEST(Symbol, PrivateClassPathsAnswerWithThePublicOnes) {
  EXPECT_EQ(symbol("torch.nn.modules.conv.Conv2d"), nn::Conv2d);
  EXPECT_EQ(symbol("torch.nn.modules.batchnorm.BatchNorm1d"), nn::BatchNorm1d);
  EXPECT_EQ(symbol("torch.nn.modules.linear.NonDynamicallyQuantizableLinear").name,
            "torch.nn.NonDynamicallyQuantizableLinear");
  EXPECT_EQ(symbol("torch.ao.nn.intrinsic.modules.fused.ConvReLU2d"), nni::ConvReLU2d);
  EXPECT_EQ(symbol("torch.ao.nn.intrinsic.qat.modules.conv_fused.ConvBnReLU2d"), nniqat::ConvBnReLU2d);
  EXPECT_EQ(symbol("torch.ao.nn.qat.modules.linear.Linear"), nnqat::Linear);
  EXPECT_EQ(symbol("torch.ao.nn.quantized.reference.modules.rnn.LSTM"), nnqr::LSTM);
}

TEST(Symbol, OldNamespacesAnswerWithTheirSuccessors) {
  EXPECT_EQ(symbol("torch.nn.intrinsic.ConvReLU2d"), nni::ConvReLU2d);
  EXPECT_EQ(symbol("torch.nn.intrinsic.qat.ConvBn2d"), nniqat::ConvBn2d);
  EXPECT_EQ(symbol("torch.nn.qat.Linear"), nnqat::Linear);
  EXPECT_EQ(symbol("torch.nn.quantized.Conv2d").name, "torch.ao.nn.quantized.Conv2d");
}

TEST(Symbol, TorchScriptClassNamesLosePrefixAndMangling) {
  EXPECT_EQ(symbol("__torch__.torch.nn.modules.conv.Conv2d"), nn::Conv2d);
  EXPECT_EQ(symbol("__torch__.torch.nn.modules.conv.___torch_mangle_3.Conv2d"), nn::Conv2d);
  EXPECT_EQ(symbol("__torch__.torch.ao.nn.intrinsic.modules.fused.___torch_mangle_12.ConvReLU2d"),
            nni::ConvReLU2d);
}

TEST(Symbol, ClassesOfTheUserKeepTheirPath) {
  EXPECT_EQ(symbol("__torch__.my.pkg.Block"), module("my.pkg.Block"));
  EXPECT_EQ(symbol("__torch__.my.pkg.___torch_mangle_0.Block"), module("my.pkg.Block"));
  EXPECT_EQ(symbol("__torch__.my.modules.lower"), module("my.modules.lower"));
  EXPECT_EQ(symbol("__main__.Net"), symbol("__torch__.Net"));
  EXPECT_EQ(symbol("Net").kind, SymbolKind::Module);
}

TEST(Symbol, FunctionsOfTwoNamesAreOneSymbol) {
  EXPECT_EQ(symbol("torch.conv2d"), F::conv2d);
  EXPECT_EQ(symbol("torch._C._nn.avg_pool2d"), F::avg_pool2d);
  EXPECT_EQ(symbol("torch.adaptive_avg_pool1d"), F::adaptive_avg_pool1d);
  EXPECT_EQ(symbol("torch._C._nn.linear"), F::linear);
  EXPECT_EQ(symbol("_operator.add"), op::add);
  EXPECT_EQ(symbol("operator.__add__"), op::add);
  EXPECT_EQ(symbol("operator.__and__").name, "operator.and_");
}

TEST(Symbol, FunctionsThatAreTwoObjectsInPythonStayTwo) {
  EXPECT_NE(symbol("torch.relu"), F::relu);
  EXPECT_NE(symbol("torch.max_pool2d"), F::max_pool2d);
  EXPECT_NE(symbol("torch.sigmoid"), symbol("torch.nn.functional.sigmoid"));
}

TEST(Symbol, ANameThatPyTorchDoesNotHaveIsAnErrorWithTheNearest) {
  const auto message_of = [](std::string_view name) -> std::string {
    try {
      symbol(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::BadConfig);
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(message_of("torch.nn.Conv9d"),
            "PyTorch has no 'torch.nn.Conv9d'; did you mean 'torch.nn.Conv1d'?");
  EXPECT_NE(message_of("torch.nn.functional.rellu").find("'torch.nn.functional.relu'"), std::string::npos);
  EXPECT_NE(message_of("torch.Conv2d").find("'torch.nn.Conv2d'"), std::string::npos);
  EXPECT_NE(message_of("Conv2d").find("'torch.nn.Conv2d'"), std::string::npos);
  EXPECT_NE(message_of("operator.ad").find("'operator.add'"), std::string::npos);
  EXPECT_NE(message_of("reshap").find("'reshape'"), std::string::npos);
  EXPECT_NE(message_of("torch.ao.nn.intrinsic.ConvRelu9d"), "");
  for (const char* fine : {"torch.nn.modules.conv.Conv2d", "my_package.Conv9d", "__torch__.torch.nn.Conv9d",
                           "torch.ops.aten.add.Tensor", "MatchAllNode", "0", "torch.conv2d", "view"})
    EXPECT_EQ(message_of(fine), "") << fine;
  EXPECT_THROW(QConfigMapping().set_object_type("torch.nn.Conv9d", std::nullopt), Error);
}

TEST(Pattern, ASimpleTupleIsTheReversedNestedOne) {
  EXPECT_EQ(chain({nn::Conv2d, nn::ReLU}), nn::ReLU(nn::Conv2d));
  EXPECT_EQ(chain({nn::Conv2d, nn::BatchNorm2d, nn::ReLU}), nn::ReLU(nn::BatchNorm2d(nn::Conv2d)));
  EXPECT_EQ(chain({nn::Conv2d}), Pattern(nn::Conv2d));
}

TEST(Pattern, SymbolsOfAChainAreInForwardOrder) {
  EXPECT_EQ(symbols_of(chain({nn::Conv2d, nn::BatchNorm2d, nn::ReLU})),
            (std::vector{nn::Conv2d, nn::BatchNorm2d, nn::ReLU}));
}

TEST(Pattern, SymbolsOfATreeBeginWithTheLastOperator) {
  EXPECT_EQ(symbols_of(nn::ReLU(op::add(match_all, nn::Conv2d))),
            (std::vector{nn::ReLU, op::add, match_all, nn::Conv2d}));
}

TEST(Pattern, CountsEverySymbolOfTheTree) {  // C-01
  EXPECT_EQ(leaf_count(nn::Linear), 1u);
  EXPECT_EQ(leaf_count(nn::ReLU(op::add(match_all, nn::BatchNorm2d(nn::Conv2d)))), 5u);
}

TEST(Pattern, PrintsAsACall) {
  EXPECT_EQ(to_string(nn::ReLU(op::add(match_all, nn::Conv2d))),
            "torch.nn.ReLU(operator.add(MatchAllNode, torch.nn.Conv2d))");
}

}  // namespace symbol_test
}  // namespace tsq
