"""The contract of edgesweep: what the agent and the collector must agree on, nothing else."""
