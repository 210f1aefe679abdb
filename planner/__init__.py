"""Pure decisions: who pays, where it runs, who yields, and why.

No clock, no I/O, no Kubernetes, no randomness: one immutable `Snapshot` and `now` in, a `Decision` out. Only the
standard library's pure parts are imported here; `kubectl_runs` imports this package, never the reverse.
"""
