"""The JSON contract: a run, a diff or a sweep as one JSON object (`docs/reference/report.md`)."""
