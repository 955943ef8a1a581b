#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include "config/names/observer_classes.h"
#include "observers/observer_kind.h"

namespace tsq {
namespace {

/// The sum of [x 1] [x 1]ᵀ over all finite x seen, and their number. ch_axis counts the elements of x,
/// `group_size` of them to a group: a matrix for each group. Of a tensor with many x some are taken, evenly
/// spread: neighbours say the same.
constexpr const char* kInputProductsSource = R"(
def observe(self, x_orig: Tensor) -> Tensor:
    if x_orig.numel() == 0 or not x_orig.is_floating_point() or x_orig.dim() == 0:
        return x_orig
    x = x_orig.detach().transpose(self.ch_axis, -1)
    if x.dim() > 1:
        step = (x.numel() // x.size(-1) + self.most - 1) // self.most
        x = x[..., ::step + 1 - step % 2, :]
    x = x.to(self.products.dtype).reshape([-1, x.size(-1)])
    if not bool(torch.isfinite(x.sum())):
        x = x[torch.isfinite(x).all(1)]
        if x.numel() == 0:
            return x_orig
    groups = x.size(1) // self.group_size
    x = x.reshape([x.size(0), groups, self.group_size]).transpose(0, 1)
    x = torch.cat([x, torch.ones_like(x[:, :, :1])], 2)
    if self.products.numel() == 0:
        self.products = torch.bmm(x.transpose(1, 2), x)
    else:
        self.products.baddbmm_(x.transpose(1, 2), x)
    self.values = self.values + x.size(1)
    return x_orig
)";

/// Rows taken of one tensor.
constexpr int64_t kMost = 512;

ObserverState input_products_state(const ResolvedObserver& config) {
  return {{"ch_axis", config.ch_axis},
          {"group_size", config.group_size},
          {"most", kMost},
          {"values", int64_t{0}},
          {"products", at::empty({0}, at::kFloat)}};
}

bool saw_products(const torch::jit::Module& observer) {
  return observer.attr("products").toTensor().numel() != 0;
}

void merge_input_products(torch::jit::Module& into, const torch::jit::Module& from) {
  if (!saw_products(from)) return;
  const at::Tensor added = from.attr("products").toTensor();
  at::Tensor products = added.clone();
  if (saw_products(into)) {
    const at::Tensor before = into.attr("products").toTensor();
    if (before.sizes() != added.sizes()) {
      throw Error(ErrorCode::BadModel,
                  fmt::format("observers of the products of {} and {} inputs cannot be merged",
                              before.size(-1), added.size(-1)),
                  "merge observers of the same prepared model");
    }
    products += before;
  }
  into.setattr("products", products);
  into.setattr("values", into.attr("values").toInt() + from.attr("values").toInt());
}

}  // namespace

const ObserverKind input_products_observer{.name = observer_classes::kInputProducts,
                                           .source = kInputProductsSource,
                                           .state = input_products_state,
                                           .saw_data = saw_products,
                                           .merge = merge_input_products};

}  // namespace tsq
