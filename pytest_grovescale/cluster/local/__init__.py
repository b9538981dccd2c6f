"""Backend ``local``: a control plane as processes of this machine: etcd, kube-apiserver, kwok and others."""
