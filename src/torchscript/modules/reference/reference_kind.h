#pragma once

#include <ATen/core/Tensor.h>
#include <tsq/observer.h>
#include <tsq/qconfig.h>
#include <tsq/symbol.h>

#include <string_view>

#include "ir/graph.h"
#include "ir/module_call.h"

namespace tsq::torchscript {

/// What the library knows of one of PyTorch's reference modules, torch.ao.nn.quantized.reference.NAME, which
/// stands for torch.nn.NAME. A new one is a line in reference_module.cpp's list, and a file of its own or of
/// its family.
struct ReferenceKind {
  std::string_view name{};
  /// Makes a call of the class, the root of `node`, one of the reference module: `weight` observes its
  /// weights. False where it has nothing to round, or is one already.
  bool (*build)(ir::Node* node, ir::ModuleCall& root, const ObserverSpec& weight){};
  /// Makes a call of another class one of `type`, torch.nn.NAME, by the attributes of its module
  /// (from_float). False where it lacks some. Null: the reference module stands for its class alone.
  bool (*read)(Symbol type, ir::ModuleCall& root){};
};

extern const ReferenceKind reference_linear;
extern const ReferenceKind reference_conv1d;
extern const ReferenceKind reference_conv2d;
extern const ReferenceKind reference_conv3d;
extern const ReferenceKind reference_conv_transpose1d;
extern const ReferenceKind reference_conv_transpose2d;
extern const ReferenceKind reference_conv_transpose3d;
extern const ReferenceKind reference_embedding_table;
extern const ReferenceKind reference_embedding_bag;
extern const ReferenceKind reference_lstm;
extern const ReferenceKind reference_gru;
extern const ReferenceKind reference_lstm_cell;
extern const ReferenceKind reference_gru_cell;
extern const ReferenceKind reference_rnn_cell;

/// What a weight is rounded by; float16 needs no scale.
QParams weight_qparams(const ObserverSpec& spec, const at::Tensor& weight);

/// Convolutions and linear layers (K-08, K-09, K-12): the weight's qparams, found unless training has.
bool build_weighted(ir::Node* node, ir::ModuleCall& root, const ObserverSpec& weight);
bool read_weighted(Symbol type, ir::ModuleCall& root);

/// LSTM, GRU and the cells (K-10): an observer for each weight.
bool build_recurrent(ir::Node* node, ir::ModuleCall& root, const ObserverSpec& weight);

}  // namespace tsq::torchscript
