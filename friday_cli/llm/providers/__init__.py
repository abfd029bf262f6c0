"""Model providers: each implements `core.protocol.provider.Provider` for one API and imports no other provider."""
