"""What an agent may do: rules, taint tracking, dangerous commands, approvals."""
