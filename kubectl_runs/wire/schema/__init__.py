"""The wire format's one source: models, rules and defaults of our six kinds. Imports pydantic: import it late.

`validate` and `with_defaults` do what the API server does with our CRDs; `catalog` is what the CRDs are made from.
"""

from kubectl_runs.wire.schema.check import Problem, validate, with_defaults

__all__ = ["Problem", "validate", "with_defaults"]
