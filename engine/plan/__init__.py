"""The vocabulary that everything uses: plans, job specifications, units, rules. Imports no torch."""
