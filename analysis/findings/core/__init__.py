"""What every rule builds on: declaring a rule, the facts of a run, findings, and what a change could gain."""
