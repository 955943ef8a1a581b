#pragma once

#include <string>
#include <vector>

#include "benchmarks/kernels/layers.h"

/// The layers whose kernels are measured: of each network one for each kind and order of size.
namespace tsq::benchmarks {

struct NetworkConvolution {
  std::string network;
  Convolution convolution;
};
struct NetworkLinear {
  std::string network;
  Linear linear;  ///< `rows` is set by who measures
};
struct NetworkLstm {
  std::string network;
  Recurrent lstm;
};
struct NetworkTensor {
  std::string network;
  std::vector<int64_t> sizes;
};
/// An operator without weights of its own, or hardly any.
struct NetworkOperator {
  std::string name;
  bool is_float;  ///< then it does not depend on the engine
  Call (*call)(const std::vector<int64_t>& sizes);
  std::vector<NetworkTensor> tensors;
};

const std::vector<NetworkConvolution>& network_convolutions();
const std::vector<NetworkLinear>& network_linears();
const std::vector<NetworkLstm>& network_lstms();
const std::vector<NetworkOperator>& network_operators();

}  // namespace tsq::benchmarks
