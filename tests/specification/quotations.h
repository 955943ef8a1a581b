#pragma once

/// The documents that the tests cite.
///
/// README: torch/ao/quantization/backend_config/README.md
/// utils: torch/ao/quantization/backend_config/utils.py
/// BackendConfig, BackendPatternConfig, DTypeConfig, QConfigMapping: the pages of these classes in PyTorch's
/// documentation
/// (docs.pytorch.org/docs/stable/generated/torch.ao.quantization.backend_config.BackendConfig.html and its
/// siblings) re: docs.python.org/3/library/re.html
///
/// A third argument says where tsq differs. scripts/specification_page.py makes docs/specification.md of
/// them.
#define TSQ_SAYS(document, sentence, ...) SCOPED_TRACE(document ": \"" sentence "\"")
