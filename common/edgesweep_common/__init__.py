"""What both programs do outside of their contract: how a command begins and ends, files, logs.

Neither program's business is in here, and nothing that travels between them.
"""
