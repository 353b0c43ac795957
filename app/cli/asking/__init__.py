"""The commands for questions of one's own and for programs that ask: query, schema, skill, mcp."""
