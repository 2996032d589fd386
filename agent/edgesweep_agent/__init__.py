"""The agent: sweeps the local engine within the memory limit and delivers what it measured."""
