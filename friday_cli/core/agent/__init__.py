"""One agent at work: its loop, model calls, tool calls, compaction and supervision."""
