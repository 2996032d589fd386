"""What a managed engine is: the command line that serves it, and what its last words mean."""
