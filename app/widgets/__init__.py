"""Widgets that know nothing of traces: tables over frames, filter bar, detail pane."""
