"""The data that all parts exchange: events, messages, results, errors."""
