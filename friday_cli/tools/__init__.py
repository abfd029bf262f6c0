"""The tools a model may call: one file per family; siblings do not import each other."""
