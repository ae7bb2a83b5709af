"""A simulated day: jobs as people submit them (`jobs`), played by rules (`play`), and what came of it (`measures`)."""
