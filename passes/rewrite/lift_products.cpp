// Matrix products with a constant become linear layers where that gets them a kernel that they have not by
// themselves: traced transformers are written so.
//   %y = aten::addmm(%b, %x, aten::t(%w))   →   y = Linear(x)
// FX has no row for addmm, and only a static one for matmul, which rounds the constant with one scale:
// products of static QConfigs stay what they are unless any spelling counts; then mm, mv, bmm, inner, einsum,
// tensordot and chains of products are products as well, and matrices that are computed of constants.
// F.linear has static and dynamic kernels of its own and becomes a layer where its weight alone is quantized,
// or any spelling counts: what a recipe does to layers it does to modules.

#include "passes/rewrite/lifted_products.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {

bool lift_products(ir::Model& model, const PassContext& context) {
  return put_layers_for_products(model, context.mapping);
}

}  // namespace tsq::passes
