"""Rules about a job of several ranks: who is late, what transfers cost, and how a pipeline is filled."""
