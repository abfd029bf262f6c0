"""The embedded default: a script, no AI model, that drives the real loop, tools, permissions, store and sub-agents.

It answers a handful of questions about a folder by rules, and says plainly when it cannot. All it knows is what stands
in the request; every figure it names came from a tool result of the session.
"""

from .provider import DemoProvider

__all__ = ["DemoProvider"]
