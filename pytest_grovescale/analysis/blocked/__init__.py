"""Workers that wait inside reconciles: when, by the operator's metrics, and where, by its stacks."""
