"""Confining commands: what they may write, read and reach.

`choose` finds out what works on this machine, `confinement` makes the plan of a command, and the launcher (`machine.warden`)
carries it out with `enter`. What the launcher imports stands on the standard library alone.
"""
