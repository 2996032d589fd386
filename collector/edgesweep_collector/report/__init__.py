"""An answer put before people: a page, a chart, a terminal."""
