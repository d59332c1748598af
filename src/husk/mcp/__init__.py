"""mcp: boxes as tools for agents, over the Model Context Protocol. Needs the package `mcp` (huskbox[mcp]), which only
`server` and `tools` import. docs/agents.md is its manual."""
