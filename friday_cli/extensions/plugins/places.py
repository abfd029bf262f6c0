"""Where plugins are."""

STORE = "plugins.json"
"""The list of the plugins that the person added, in the configuration folder."""
IN_PROJECT = (".friday/plugins/", ".agents/plugins/")
