"""The residual sums of a network: found in one live run, each with its place in the source or the reason why not."""
