"""What waits for what: host threads, API calls, GPU streams and copies as one graph, and its replay without a cost."""
