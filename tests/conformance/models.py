"""All conformance cases: importing this module fills the registry."""

import graph_cases  # noqa: F401
import layer_cases  # noqa: F401
import networks  # noqa: F401
import qconfig_cases  # noqa: F401
from case import all_cases

CASES = all_cases()
