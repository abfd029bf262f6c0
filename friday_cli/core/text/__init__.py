"""Making untrusted text safe to show and to hand to a model."""
