"""One module per tab: an analysis function and the widget that shows its frame."""
