"""The load generator: a process of its own, so that nothing else disturbs its clock."""
