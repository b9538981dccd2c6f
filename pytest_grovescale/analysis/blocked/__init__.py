"""Workers that wait inside reconciles: when they did, by the operator's metrics, and where, by its stacks."""
