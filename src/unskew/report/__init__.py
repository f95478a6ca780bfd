"""A page for people: what a log is, what a model makes of it, and how far to trust either."""
