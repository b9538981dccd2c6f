"""The operator under test as pods of the cluster: a Deployment from its own manifests, its start, state and removal."""
