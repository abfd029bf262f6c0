"""The part of a session's owner that serves other frontends, and what keeps it running without a terminal."""
