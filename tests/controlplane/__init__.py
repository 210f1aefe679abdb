"""A real control plane for tests: etcd and kube-apiserver on free loopback ports, KWOK for nodes and pods.

`binaries` finds or builds what is started, `guard` makes sure that nothing outlives its parent, `plane` starts and
stops it all, `client` is a small API client that shares no code with the product, `dev` is for hand use.
"""
