"""The settings of Friday: frozen structs whose field docstrings are the documentation (docs/config.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

LONGEST = 86_400
"""The longest duration a setting may hold, in seconds: more looks like milliseconds."""

Seconds = Annotated[float, Meta(gt=0, le=LONGEST, extra={"unit": "seconds"})]
Count = Annotated[int, Meta(ge=1)]
Dollars = Annotated[float, Meta(ge=0, extra={"unit": "US dollars"})]
Mode = Literal["ask", "edits", "plan", "auto"]
EffortSetting = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Prices(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens, for a model whose price Friday does not know. What is left out stays unknown."""

    input: Dollars | None = None
    """Input tokens that no cache gave."""
    output: Dollars | None = None
    """Output tokens, thinking included."""
    cache_read: Dollars | None = None
    """Input tokens read from a cache. Left out: counted at the price of `input`."""
    cache_write: Dollars | None = None
    """Input tokens written to a cache. Left out: counted at the price of `input`."""
    web_search: Dollars | None = None
    """A thousand web searches that the service runs by itself. Left out: what a reply with such a search cost is unknown."""


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A model service, as `[providers.NAME]`; `NAME/model` then names its models. A known name
    (`anthropic`, `openai`, `ollama`, ...) changes only what is written here. Keys never stand in this file."""

    base_url: Annotated[str, Meta(pattern=r"^(https?://[^\s@/]+(/\S*)?)?\Z")] = ""
    """Where the service listens, such as `http://127.0.0.1:8000/v1`. Empty: the known address of NAME."""
    key_env: Annotated[str, Meta(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?\Z")] = ""
    """The environment variable that holds the key. Empty: the known one of NAME, or the key kept by `friday auth`."""
    headers: dict[str, str] = {}
    """Extra HTTP headers sent with each request."""
    api: Literal["", "responses", "chat"] = ""
    """Which OpenAI API to speak. Empty: `responses` at api.openai.com, `chat` everywhere else."""
    transport: Literal["http", "sdk"] = "http"
    """`http` talks to the service directly; `sdk` uses the vendor's package (slower to start)."""
    platform: Literal["", "bedrock", "vertex", "foundry", "azure"] = ""
    """The cloud that serves the models: `bedrock`, `vertex` or `foundry` for `anthropic`, `azure` for `openai`. Uses the SDK."""
    window: Annotated[int, Meta(ge=0)] = 0
    """Context window of the service's models in tokens. 0: as known for the model."""
    max_output: Annotated[int, Meta(ge=0)] = 0
    """Longest reply of the service's models in tokens. 0: as known for the model."""
    prices: Prices = Prices()
    """What the service's models cost, where Friday does not know it or you pay another price."""


class RuleSetting(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule with more to say than its text, as one `[[permissions.rules]]`."""

    rule: Annotated[str, Meta(min_length=1)]
    """What it speaks of, as in the lists: `bash(git push *)`."""
    decision: Literal["allow", "ask", "deny"]
    """`allow`, `ask` or `deny`."""
    profile: str = ""
    """The profile whose agents it is for, `*` and `?` as in file names. Empty: all of them."""
    reason: str = ""
    """Said to the model and to you when it decides."""


class Permissions(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules as `tool(pattern)`: `bash(git status *)`, `edit_file(src/**)`, `web_fetch(domain:example.org)`.
    Deny beats ask, ask beats allow."""

    allow: tuple[str, ...] = ()
    """Calls that run without asking."""
    ask: tuple[str, ...] = ()
    """Calls that always ask a person first."""
    deny: tuple[str, ...] = ()
    """Calls that are always refused, in every mode."""
    rules: tuple[RuleSetting, ...] = ()
    """Rules with a profile or a reason, each a table of its own: `[[permissions.rules]]` with `rule`, `decision` (`allow`,
    `ask`, `deny`), and where wanted `profile` (whose agents it is for) and `reason` (said when it decides)."""


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What the main agent and everything below it may use. Left out: no limit."""

    max_turns: Count | None = None
    """Model replies of the main agent for one prompt."""
    max_tokens: Count | None = None
    """Tokens of the whole tree: input that no cache gave, cache writes and output."""
    max_cost: Dollars | None = None
    """US dollars of the whole tree."""
    timeout: Seconds | None = None
    """Active seconds of one prompt; waiting for a person or a rate limit does not count."""


class TokenBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens of one sub-agent."""

    default: Count = 50_000
    """For a profile that names no budget."""
    max: Count = 200_000
    """The most that any profile or call can get."""


class ProfileFolder(Struct, frozen=True, forbid_unknown_fields=True):
    """Your own profiles."""

    directory: str = ""
    """Folder with your profiles (`~` is understood). Empty: `profiles` in Friday's config folder."""


class ChildContext(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to a sub-agent's own conversation and memories."""

    seal_on_complete: Literal[True] = True
    """Always `true`; `false` is refused. The history of a finished sub-agent stays as it is and its parent gets only the
    result; continuing it appends a run."""
    brain_write_scope: Literal["delegated", "shared"] = "delegated"
    """Who sees a note that a sub-agent saved: `delegated`: only itself until you promote it (`friday memory promote`);
    `shared`: every agent at once. Either way the note carries the sub-agent's id."""


class DelegationSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Sub-agents."""

    enabled: bool = True
    """Whether agents can delegate at all."""
    max_depth: Annotated[int, Meta(ge=0, le=10)] = 3
    """How deep sub-agents may nest; the main agent is 0. At the limit the delegation tools are not offered."""
    default_timeout: Seconds = 300
    """Active seconds of a sub-agent whose profile names no timeout."""
    max_concurrent: Annotated[int, Meta(ge=1, le=64)] = 5
    """Sub-agents that run at the same time; the others wait their turn."""
    max_batch: Annotated[int, Meta(ge=1, le=64)] = 10
    """Tasks in one `delegate_tasks` call; those beyond get an error result, the others still run."""
    max_agents: Count = 200
    """Sub-agents in one session, finished ones included."""
    ask_above: Annotated[int, Meta(ge=0)] = 20
    """More sub-agents than this in one turn of yours ask you first, and again at each
    multiple of it (and are refused where nobody can answer)."""
    ask_above_cost: Dollars | None = None
    """Delegations whose budgets could cost more US dollars than this ask you first, and again at each multiple. Left out: never
    for that reason."""
    context_chars: Annotated[int, Meta(ge=0)] = 4_000
    """Characters of context a parent may hand to a sub-agent; the rest goes to a file that is named."""
    result_chars: Annotated[int, Meta(ge=500)] = 24_000
    """Characters of a sub-agent's result that its parent sees at once; the rest stays with `get_delegation_result`."""
    worktree_include: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()
    """Files that git ignores and that a sub-agent's worktree gets all the same, as globs such as `.env.example`; one
    without a `/` is looked for in every folder. What is changed in them there is not brought back."""
    long_results: Literal["excerpt", "summary"] = "excerpt"
    """What a parent sees of a longer result: its head and tail, or a summary by the `summarizer` profile."""
    supervision: Literal["unsupervised", "supervised", "supervised-human"] = "unsupervised"
    """Who looks at a sub-agent's result before its parent does: nobody; a model, where what was done parts from task or
    stated intent; or a model that puts doubts to you. A profile can only be stricter."""
    supervisor_model: str = ""
    """The model that judges supervised results. Empty: the sub-agent's own."""
    token_budget: TokenBudget = TokenBudget()
    profiles: ProfileFolder = ProfileFolder()
    context: ChildContext = ChildContext()


class AgentSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Sub-agents."""

    delegation: DelegationSettings = DelegationSettings()


class ContextSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The model's context window."""

    compact_at: Annotated[float, Meta(ge=0.3, le=0.97)] = 0.85
    """Used part of the window at which the history is summarised into a new one."""


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Tools."""

    bash_timeout: Seconds = 120
    """Seconds a command may run when the model names no limit."""
    bash_max_timeout: Seconds = 600
    """The most seconds the model can ask for."""
    output_chars: Annotated[int, Meta(ge=1_000)] = 30_000
    """Characters of a tool's output that the model sees (head and tail; the whole text is kept in a file)."""
    web_allow_private: bool = False
    """Whether `web_fetch` may reach private and local addresses."""
    env_allow: tuple[str, ...] = ()
    """Environment variables that commands get although their names look like secrets."""


class CheckpointSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What files held before agents changed them, so that `friday sessions rewind` can bring it back. It lies beside the
    sessions, outside your folders, and goes with its session; see rewind.md."""

    commands: bool = True
    """Whether the files of the folder are looked at before and after each command, so that what it changed can be brought
    back, too. What git ignores is left out, but for small files such as `.env`."""
    file_megabytes: Count = 10
    """Larger files are not kept."""
    folder_megabytes: Count = 200
    """How much of a folder is kept, while a session is open, to compare with after a command."""
    megabytes: Count = 1_000
    """What one session, and once a day what all take together, may not exceed: the oldest contents are removed."""


class SandboxSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How commands of agents are confined (docs/sandbox.md): they write in the folder, in `--add-dir` folders and in a
    temp folder of their own, and read no keys."""

    kind: Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"] = "auto"
    """What confines: the best that works here, one of them (an error where it does not work), or nothing."""
    network: bool = False
    """Whether commands reach the network. Without it a command can ask for it, and you are asked each time."""
    write: tuple[str, ...] = ()
    """More folders and files that commands may write, such as `~/.cache`."""
    read_deny: tuple[str, ...] = ()
    """More folders and files that commands may not read; keys of the usual programs and Friday's own are in any case."""


class Retention(Struct, frozen=True, forbid_unknown_fields=True):
    """How long sessions are kept with the long output of their commands. It is looked at once a day; what is open, and a
    session whose worktree holds work, is never removed."""

    days: Annotated[float, Meta(ge=0)] = 90
    """Sessions untouched for longer are removed, and logs of `--debug` that are older. 0: never."""
    gigabytes: Annotated[float, Meta(ge=0)] = 2
    """When sessions take more, the oldest are removed, but none that was used within the hour. 0: never."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set."""

    model: str = ""
    """The model, as `provider/model[:effort]` or an alias such as `opus`, `sonnet`, `haiku`, `gpt`. Empty: the first
    service that has a key."""
    subagent_model: str = ""
    """The model of sub-agents whose profile names none. Empty: their parent's."""
    fallback_model: str = ""
    """The model to use, and say so, when the first stays overloaded. Empty: none."""
    effort: EffortSetting = ""
    """How hard the model thinks. Empty: the model's own default."""
    mode: Mode = "ask"
    """`ask`: reading in the folder passes, everything else asks. `edits`: file changes in the folder pass too. `plan`:
    nothing that changes anything. `auto`: edits and sandboxed commands pass; without a sandbox commands ask."""
    theme: str = "auto"
    """The colours of the chat: `auto` asks the terminal whether its background is light or dark, `dark` and `light` say so,
    `ansi` takes the terminal's own sixteen colours, as `auto` does where there are no others; `/theme` lists more names, and
    writes this key. With NO_COLOR in the environment there are none."""
    permissions: Permissions = Permissions()
    limits: LimitSettings = LimitSettings()
    agents: AgentSettings = AgentSettings()
    context: ContextSettings = ContextSettings()
    tools: ToolSettings = ToolSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    sandbox: SandboxSettings = SandboxSettings()
    retention: Retention = Retention()
    providers: dict[str, ProviderSettings] = {}
