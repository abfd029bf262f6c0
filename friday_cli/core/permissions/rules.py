"""Permission decisions by rules and modes. Deny overrides ask, and ask overrides allow. A sub-agent has the stricter of
its parent's rights and its own profile's, evaluated for each call."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from .decision import Mode, PermissionDecision, StepOutcome, decided_by, strictest
from .patterns import names_host
from .rule import UNRESTRICTED, Allowlist, Rule, RuleInput, exceeded_by

if TYPE_CHECKING:
    from .steps import Rights


class Taint(Protocol):
    """A check besides the rules, such as of untrusted text that the session has read."""

    def approval_reason(self, call: RuleInput, arguments: object, rules: Rules) -> str:
        """Why a call that `rules` allow still needs permission, "" when it does not."""


class Rules:
    """The rights of one agent, never more than those of its parent."""

    def __init__(
        self,
        *,
        mode: Mode | None,
        rules: Iterable[Rule] = (),
        allowlist: Allowlist = UNRESTRICTED,
        parent: Rules | None = None,
        profile: str = "",
        folders: Sequence[str] = (),
    ) -> None:
        self.mode = mode
        """What passes without a rule; None: as the rights above say, and without any above nothing is restricted."""
        self.rules = list(rules)
        """Those with a `profile` apply to agents with that profile. Its deny and ask rules apply to such agents below it, too."""
        self.allowlist = allowlist
        self.parent = parent
        self.profile = profile
        """The name of its profile."""
        self.folders: Sequence[str] = folders if parent is None else parent.folders
        """Those of the session and of the project, which patterns of rules may name."""
        self.skill_folders: dict[str, str] = {} if parent is None else parent.skill_folders
        """The folders outside the workspace of the skills that were loaded, and these skills; shared by all agents. An agent reads
        there only if it may load that skill."""
        self.narrowed: dict[str, Rules] = {}
        """What restricts it further while a skill or a command runs, by its name."""

    def child(
        self,
        allowlist: Allowlist = UNRESTRICTED,
        *,
        mode: Mode | None = None,
        rules: Iterable[Rule] = (),
        profile: str = "",
    ) -> Rules:
        """The rights of a sub-agent. Without a `mode` it has its parent's."""
        return Rules(mode=mode, rules=rules, allowlist=allowlist, parent=self, profile=profile)

    def allow_only(self, tools: Iterable[str]) -> None:
        """Let the agent call these tools and no others, as far as its parent may."""
        self.allowlist = msgspec.structs.replace(self.allowlist, tools=frozenset(tools))

    def start_only(self, profiles: Iterable[str]) -> None:
        """Let the agent start sub-agents of these profiles and no others."""
        self.allowlist = msgspec.structs.replace(self.allowlist, sub_agents=frozenset(profiles))

    def in_mode(self, mode: Mode) -> Rules:
        """These rights as they would be if the session had another mode."""
        other = Rules.__new__(Rules)
        vars(other).update(vars(self))
        if self.parent is None:
            other.mode = mode
        else:
            other.parent = self.parent.in_mode(mode)
        return other

    @property
    def effective_mode(self) -> Mode:
        """The strictest mode of this agent and its ancestors, as people see it."""
        above: Mode = "yolo" if self.parent is None else self.parent.effective_mode
        return above if self.mode is None else min(self.mode, above, key=("plan", "ask", "edits", "auto", "yolo").index)

    def decide(self, call: RuleInput, extra: Sequence[Rule] = ()) -> PermissionDecision:
        """The strictest decision of this agent's rights, its ancestors', and those of the skills and commands that narrow
        them. `extra` are rules that count for this call as those of the session do."""
        from .steps import decide_by_own_rights  # the steps wait until a call is decided

        above = [] if self.parent is None else [self.parent.decide(call, extra)]
        own = decide_by_own_rights(self._rights(extra if self.parent is None else ()), call)
        found = [*above, own, *(bound.decide(call) for bound in self.narrowed.values())]
        decision = strictest(found)
        read_only = decision.decision == "allow" and any(permission.read_only for permission in found)
        return msgspec.structs.replace(decision, read_only=read_only)

    def explain(self, call: RuleInput, whose: str = "") -> Iterator[StepOutcome]:
        """Each step of `STEPS` that `decide` takes for a call, in its order: the rights above first. The steps of one agent
        end with the first that decides."""
        from .steps import STEPS

        if self.parent is not None:
            yield from self.parent.explain(call)
        whose = whose or ("the session" if self.parent is None else f"profile {self.profile}")
        rights = self._rights()
        for name, step in STEPS:
            yield StepOutcome(whose, name, found := step(rights, call))
            if found is not None:
                break
        for name, bound in self.narrowed.items():
            yield from bound.explain(call, name)

    def decide_cost(self, dollars: float | None) -> PermissionDecision:
        """The strictest decision by rules of this agent and its ancestors on a delegation that nine times of ten costs at most
        `dollars` (None if that is unknown)."""
        found = [PermissionDecision("allow")] if self.parent is None else [self.parent.decide_cost(dollars)]
        found += [decided_by(rule, "the usual cost exceeds") for rule in self._binding() if exceeded_by(rule, dollars)]
        return strictest(found)

    def may(self, tool: str) -> bool:
        """Whether the allowlists of this agent and its ancestors contain `tool`."""
        return self.allowlist.has(tool) and (self.parent is None or self.parent.may(tool))

    def may_load(self, skill: str) -> bool:
        """Whether this agent and its ancestors may see and load the skill with this name."""
        return self.allowlist.has_skill(skill) and (self.parent is None or self.parent.may_load(skill))

    def ruled(self, call: RuleInput) -> PermissionDecision | None:
        """The strictest decision on a call by deny and ask rules alone, of this agent and its ancestors; None if none meets
        it."""
        found = [] if self.parent is None else [self.parent.ruled(call)]
        found += [self._rights().ruled(call), *(bound.ruled(call) for bound in self.narrowed.values())]
        return strictest(met) if (met := [one for one in found if one is not None]) else None

    def denying_or_asking(self) -> list[Rule]:
        """The deny and ask rules of this agent and its ancestors."""
        found = [rule for rule in self._binding() if rule.decision != "allow"]
        return found if self.parent is None else [*self.parent.denying_or_asking(), *found]

    def withheld(self, call: RuleInput, labels: Sequence[str]) -> set[str]:
        """Those of the files that a search found which a rule of this agent or its ancestors keeps from its result."""
        from .matching import withheld

        found = withheld(self._binding(), call, labels)
        for other in (*((self.parent,) if self.parent else ()), *self.narrowed.values()):
            found |= other.withheld(call, labels)
        return found

    def names_host(self, host: str) -> bool:
        """Whether an allow rule names this host or a parent domain."""
        mine = any(rule.decision == "allow" and names_host(rule.pattern, host) for rule in self.rules)
        return mine or (self.parent is not None and self.parent.names_host(host))

    def _binding(self) -> list[Rule]:
        """The rules that apply to this agent: its own, and its ancestors' deny and ask rules for its profile."""
        mine = [rule for rule in self.rules if not rule.profile or fnmatch.fnmatchcase(self.profile, rule.profile)]
        above = self.parent
        while above is not None:
            mine += [
                rule
                for rule in above.rules
                if rule.profile and rule.decision != "allow" and fnmatch.fnmatchcase(self.profile, rule.profile)
            ]
            above = above.parent
        return mine

    def _rights(self, extra: Sequence[Rule] = ()) -> Rights:
        """Its own rights, without those above. `extra` are rules that apply as well."""
        from .steps import Rights

        return Rights(
            mode=self.mode,
            rules=[*self._binding(), *extra],
            allowlist=self.allowlist,
            may_load=self.may_load,
            skill_folders=self.skill_folders,
        )
