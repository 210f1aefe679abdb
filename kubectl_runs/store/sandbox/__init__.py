"""An embedded cluster in one SQLite file: the same objects, versions and refusals as on an API server.

`database` (file, versions, clock) · `objects` (create, replace, patch, delete) · `metadata` (names, UIDs) ·
`rights` · `admission` (schema, policies) · `lifecycle` (pods, nodes, garbage) · `world` (what a new
sandbox holds) · `store` (the door).
"""

from kubectl_runs.store.sandbox.store import SandboxStore

__all__ = ["SandboxStore"]
