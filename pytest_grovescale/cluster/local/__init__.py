"""A control plane as processes of this machine: etcd, kube-apiserver, controller-manager, scheduler, kwok."""
