#pragma once

#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/model.h"

namespace tsq::operators {

/// What is known about the sizes of images (tensors of four dimensions) in a float graph before anything
/// runs. Sizes are expressions over those of the graph's inputs; equal expressions are equal sizes.
class ImageShapes {
 public:
  explicit ImageShapes(const ir::Model& model);

  /// How an addend goes with the shape of what it is added to, the best first.
  enum class Fit {
    SameShape,   ///< for every input
    Broadcasts,  ///< the sum has the shape of the other one for every input
    Unknown,     ///< the sum has it where the two have the same shape, which nothing tells
    Enlarges     ///< the sum has another shape
  };
  [[nodiscard]] Fit fit(const ir::Value* addend, const ir::Value* other);

 private:
  using Shape = std::array<std::size_t, 4>;  ///< indices into `sizes_`

  /// A constant, or an expression over the size of `source` that shrinks it about `factor` times.
  struct Size {
    std::optional<int64_t> constant{};
    const ir::Value* source{};
    int64_t factor{1};
  };

  void visit(const ir::Node* node);
  void know_channels(const ir::Value* input, Shape& shape, int64_t channels);
  void visit_convolution(const ir::Node* node, const ir::Weighted& weighted);
  void visit_transposed_convolution(const ir::Node* node, const ir::Weighted& weighted);
  void visit_concatenation(const ir::Node* node, const std::vector<ir::Value*>& parts);
  void visit_slice(const ir::Node* node);
  Shape shape_of(const ir::Value* value);
  Shape broadcast(const ir::Value* result, const Shape& a, const Shape& b);
  std::size_t constant(int64_t value);
  std::size_t interned(const std::string& key, const Size& size);
  std::size_t strided(std::size_t size, int64_t offset, int64_t stride);
  std::size_t spread(std::size_t size, int64_t offset, int64_t stride);
  std::size_t own_size(const ir::Value* value, std::size_t axis);
  Fit fit_size(std::size_t addend, std::size_t other) const;

  const ir::Model& model_;
  std::vector<Size> sizes_;
  std::map<std::string, std::size_t> interned_;
  std::unordered_map<const ir::Value*, Shape> shapes_;
  std::unordered_map<const ir::Value*, int64_t> channels_;  ///< of what convolutions read
};

}  // namespace tsq::operators
