#include "passes/rewrite/product_layer.h"

#include <numeric>
#include <utility>

#include "ir/edit.h"

namespace tsq::passes {
namespace {

/// Writes what is done to a layer's input and output after the product that the layer stands for.
class AfterProduct {
 public:
  AfterProduct(Model& model, Node* last) : model_(model), last_(last), before_(last->next()) {}

  Value* op(const char* kind, Value* input, const std::vector<c10::IValue>& arguments) {
    std::vector<Value*> inputs{input};
    for (const c10::IValue& argument : arguments) inputs.push_back(ir::constant_before(before_, argument));
    Value* made = ir::insert_before(before_, kind, inputs);
    ir::take_scope(made->node(), last_);
    return made;
  }

  Node* layer(ir::ModuleCall call, Value* input) {
    Value* made = ir::Rewriter(model_, before_, last_).call(std::move(call), {input});
    return made->setType(last_->output()->type())->node();
  }

 private:
  Model& model_;
  Node* last_;
  Node* before_;
};

Value* layer_input(AfterProduct& after, const Product& product) {
  Value* input = product.input;
  if (!product.moved.empty()) {
    std::vector<int64_t> last(product.moved.size());
    std::iota(last.begin(), last.end(), -product.flattened);
    input = after.op("aten::movedim", input, {product.moved, last});
  }
  if (product.flattened > 1) input = after.op("aten::flatten", input, {-product.flattened, int64_t{-1}});
  return input;
}

/// The node whose output is that of the product.
Node* result_of(const LiftedProduct& lifted) {
  return lifted.after.empty() ? lifted.layer : lifted.after.front();
}

void write_output(AfterProduct& after, const Product& product, LiftedProduct& lifted) {
  const auto write = [&](const char* kind, const std::vector<c10::IValue>& arguments) {
    Value* made = after.op(kind, result_of(lifted)->output(), arguments);
    lifted.after.insert(lifted.after.begin(), made->node());
  };
  if (!product.unflattened.empty()) write("aten::unflatten", {int64_t{-1}, product.unflattened});
  if (!product.order.empty()) write("aten::permute", {product.order});
  if (product.is_turned) write("aten::transpose", {int64_t{-2}, int64_t{-1}});
}

}  // namespace

LiftedProduct put_layer(Model& model, Node* node, const Product& product, std::string path) {
  AfterProduct after(model, product.last);
  ir::ModuleCall call{
      .type = symbol("torch.nn.Linear"), .path = std::move(path), .weighted = product.weighted};
  call.weighted->origin = ir::origin_of(product.weighted);
  Value* input = layer_input(after, product);
  LiftedProduct lifted{.product = node, .last = product.last, .layer = after.layer(std::move(call), input)};
  write_output(after, product, lifted);
  Node* result = result_of(lifted);
  product.last->output()->replaceAllUsesAfterNodeWith(result, result->output());
  return lifted;
}

void take_back(const LiftedProduct& lifted) {
  result_of(lifted)->output()->replaceAllUsesWith(lifted.last->output());
  for (Node* node : lifted.after) node->destroy();
  lifted.layer->destroy();
}

}  // namespace tsq::passes
