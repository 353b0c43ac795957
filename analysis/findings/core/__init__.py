"""What every rule builds on: how a rule is declared, the facts of a run, findings, what a change could gain."""
