"""Widgets: tables over frames, trees, timeline, filter line, detail pane."""
