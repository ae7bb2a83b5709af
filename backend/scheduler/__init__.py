"""Who runs when, and on what: pure decisions (`decide`), the inventory (`devices`), the loop at the edge."""
