// The cells of recurrent layers.

#include "torchscript/modules/reference/reference_kind.h"

namespace tsq::torchscript {

const ReferenceKind reference_lstm_cell{.name = "LSTMCell", .build = build_recurrent};

const ReferenceKind reference_gru_cell{.name = "GRUCell", .build = build_recurrent};

const ReferenceKind reference_rnn_cell{.name = "RNNCell", .build = build_recurrent};

}  // namespace tsq::torchscript
