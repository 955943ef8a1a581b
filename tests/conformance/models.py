"""All conformance cases: importing this module fills the registry."""

import constant_operand_cases  # noqa: F401
import control_flow_cases  # noqa: F401
import dynamic_cases  # noqa: F401
import equalization_cases  # noqa: F401
import graph_cases  # noqa: F401
import kernel_cases  # noqa: F401
import layer_cases  # noqa: F401
import networks  # noqa: F401
import qconfig_cases  # noqa: F401
import random_tables  # noqa: F401
import standalone_cases  # noqa: F401
import suite_backends  # noqa: F401
import suite_binary  # noqa: F401
import suite_configurations  # noqa: F401
import suite_fusions  # noqa: F401
import suite_graphs  # noqa: F401
import suite_residuals  # noqa: F401
import suite_shapes  # noqa: F401
import weight_only_cases  # noqa: F401
import write_cases  # noqa: F401
from case import all_cases

CASES = all_cases()
