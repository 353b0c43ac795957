"""SQL over a recording's frames and the report's tables, run by DuckDB in a process that can reach no file."""
