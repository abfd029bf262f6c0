"""Files below the roots of a workspace."""
