"""Skills: folders with instructions that an agent loads when it needs them, and the files that these refer to."""
