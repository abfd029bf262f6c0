"""The tools a model can call: one module or package per family. Families do not import each other."""
