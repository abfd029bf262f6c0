"""Friday on this machine: its folders and small files, and which programs of the system it runs."""
