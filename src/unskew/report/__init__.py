"""Pages for people: findings, or a benchmark, as one HTML file that loads nothing and runs nothing."""
