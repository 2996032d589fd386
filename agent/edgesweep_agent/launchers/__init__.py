"""How a managed engine is started and stopped."""
