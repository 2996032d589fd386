"""What goes to InfluxDB: a follower of the archive with its own cursor, rebuildable."""
