"""Model providers: one file each behind `core.provider.Provider`; siblings do not import each other."""
