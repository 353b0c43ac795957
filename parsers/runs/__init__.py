"""From a path to a run: which files are recordings, which tool wrote them, which belong together."""
