"""A node image for kind, made from Debian's packages and Go modules, where none can be pulled.

It holds what a control plane needs and no add-ons: no kube-proxy, no DNS, no kindnet, no volume provisioner. Its pods
have a network of the node alone (CNI plugin ptp).
"""
