"""What users and projects add: profiles, commands, instructions; and whether a project is trusted."""
