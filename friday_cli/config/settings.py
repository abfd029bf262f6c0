"""The settings of Friday: frozen structs. The docstrings of the fields are the documentation (docs/config.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

LONGEST = 86_400
"""The longest duration of a setting, in seconds. A larger number was probably meant as milliseconds."""

Seconds = Annotated[float, Meta(gt=0, le=LONGEST, extra={"unit": "seconds"})]
Count = Annotated[int, Meta(ge=1)]
Dollars = Annotated[float, Meta(ge=0, extra={"unit": "US dollars"})]
ConfiguredMode = Literal["ask", "edits", "plan", "auto"]
EffortSetting = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class TokenPrices(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens, for a model whose price Friday does not know. A price that is not set is unknown."""

    input: Dollars | None = None
    """Input tokens that were not read from a cache."""
    output: Dollars | None = None
    """Output tokens, including thinking."""
    cache_read: Dollars | None = None
    """Input tokens read from a cache. Not set: the price of `input`."""
    cache_write: Dollars | None = None
    """Input tokens written to a cache. Not set: the price of `input`."""
    web_search: Dollars | None = None
    """A thousand built-in web searches of the service. Not set: the cost of a reply with such a search is unknown."""

    @property
    def given(self) -> bool:
        """Whether a price of tokens is set."""
        return self.input is not None or self.output is not None


class Prices(TokenPrices, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens, for models whose price Friday does not know. A price that is not set is unknown."""

    models: dict[str, TokenPrices] = {}
    """Prices of single models by their id, such as `[providers.NAME.prices.models."vendor/model"]`; the others have those above."""


ModelClass = Literal["opus", "sonnet", "haiku"]
"""A strong, a usual and a small model, by the names that agent files use."""


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A model service, as `[providers.NAME]`; its models are named `NAME/model`. For a known name
    (`anthropic`, `openai`, `ollama`, ...) only the keys that are set here change. API keys are not stored in this file."""

    base_url: Annotated[str, Meta(pattern=r"^(https?://[^\s@/]+(/\S*)?)?\Z")] = ""
    """The base URL of the service, such as `http://127.0.0.1:8000/v1`. Empty: the known URL of NAME."""
    key_env: Annotated[str, Meta(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?\Z")] = ""
    """The environment variable with the API key. Empty: the known variable of NAME, or the key stored by `friday auth`."""
    headers: dict[str, str] = {}
    """Additional HTTP headers of each request."""
    extra: dict[str, Any] = {}
    """Additional fields of each request's JSON, such as `{ provider = { order = ["x"] } }` for OpenRouter. They replace Friday's own, except
    the conversation, the tools and the model."""
    api: Literal["", "responses", "chat", "messages"] = ""
    """Which API to use: OpenAI's `responses` or `chat`, or Anthropic's `messages` (`/v1/messages` below the base URL). Empty: `messages` for
    `anthropic`, `responses` at api.openai.com, `chat` everywhere else."""
    transport: Literal["http", "sdk"] = "http"
    """`http` sends requests directly; `sdk` uses the vendor's Python package (slower to start)."""
    platform: Literal["", "bedrock", "vertex", "foundry", "azure"] = ""
    """The cloud that serves the models: `bedrock`, `vertex` or `foundry` for `anthropic`, `azure` for `openai`. Uses the SDK."""
    idle: Seconds | None = None
    """Seconds without any data after which a request counts as failed. Not set: 180; a server on this machine has 1,800 for the first
    data of a reply, because it may read a long prompt slowly."""
    window: Annotated[int, Meta(ge=0)] = 0
    """Context window of the service's models in tokens. 0: the known window of the model."""
    max_output: Annotated[int, Meta(ge=0)] = 0
    """Longest reply of the service's models in tokens. 0: the known limit of the model."""
    classes: dict[ModelClass, str] = {}
    """The service's models for `opus`, `sonnet` and `haiku` in the `model` of a profile, such as
    `{ opus = "qwen3:32b", haiku = "qwen3:4b" }`. Not set: known ones of the service, else the model of the parent."""
    reports_cost: bool = False
    """Whether the service reports the cost of each reply (OpenRouter does, and newer versions of litellm). A cap of cost then needs no
    price: a request holds what the most expensive model of the vendor costs, or of all vendors, until the service has reported."""
    prices: Prices = Prices()
    """Prices of the service's models, if Friday does not know them or you pay another price."""


class RuleSetting(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule with a profile or a reason, as one `[[permissions.rules]]`."""

    rule: Annotated[str, Meta(min_length=1)]
    """The rule, as in the lists: `bash(git push *)`."""
    decision: Literal["allow", "ask", "deny"]
    """`allow`, `ask` or `deny`."""
    profile: str = ""
    """The profile whose agents it applies to; can contain `*` and `?`. Empty: all profiles."""
    reason: str = ""
    """Shown to the model and to you when the rule decides."""


class Permissions(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules as `tool(pattern)`: `bash(git status *)`, `edit_file(src/**)`, `web_fetch(domain:example.org)`.
    Deny overrides ask, and ask overrides allow."""

    allow: tuple[str, ...] = ()
    """Calls that run without asking."""
    ask: tuple[str, ...] = ()
    """Calls that always ask you first."""
    deny: tuple[str, ...] = ()
    """Calls that are always refused, in every mode."""
    rules: tuple[RuleSetting, ...] = ()
    """Rules with a profile or a reason, each as a table `[[permissions.rules]]` with `rule`, `decision` (`allow`, `ask`,
    `deny`), and optionally `profile` (whose agents it applies to) and `reason` (shown when it decides)."""


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the main agent and all its sub-agents together. Not set: no limit."""

    max_turns: Count | None = None
    """Model replies of the main agent for one prompt."""
    max_tokens: Count | None = None
    """Tokens of all agents: input not read from a cache, cache writes and output."""
    max_cost: Dollars | None = None
    """US dollars of all agents."""
    assume_price: bool = False
    """Whether a model of unknown price counts as the most expensive one of its vendor, so that `max_cost` can be kept. What it costs is
    then an upper estimate."""
    on_limit: Literal["fail", "wait"] = "fail"
    """What happens when a service refuses requests for more than a minute (a limit per hour or day): `fail` says how long, `wait` waits as
    long as it asks for, a day at most, which is shown and does not count as active time."""
    timeout: Seconds | None = None
    """Active seconds of one prompt; waiting for you, a rate limit or the network does not count. Without a network `ask`
    waits as long, a chat 300 seconds or more."""


class BudgetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Caps over all your sessions, which `friday budget set` sets (docs/fleet.md)."""

    on_cap: Literal["wait", "wrap_up"] = "wait"
    """What agents do when a cap is reached: `wait` until there is room again, or `wrap_up`: hand back what they have. For that a
    tenth of the cap is kept."""


class TokenBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens of one sub-agent."""

    default: Count = 50_000
    """For a profile without a budget."""
    max: Count = 200_000
    """The maximum for any profile or call."""


class ProfileFolder(Struct, frozen=True, forbid_unknown_fields=True):
    """Your own profiles."""

    directory: str = ""
    """Folder with your profiles (can start with `~`). Empty: `profiles` in Friday's config folder."""


class ChildContext(Struct, frozen=True, forbid_unknown_fields=True):
    """The conversation and the notes of a sub-agent."""

    seal_on_complete: Literal[True] = True
    """Always `true`; `false` is an error. The history of a finished sub-agent is not changed, and its parent gets only
    the result; continuing it appends a run."""
    brain_write_scope: Literal["delegated", "shared"] = "delegated"
    """Who sees a note that a sub-agent saved: `delegated`: only itself until you promote it (`friday memory promote`);
    `shared`: every agent at once. Either way the note carries the sub-agent's id. A note for all projects always waits."""


class DelegationSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Sub-agents."""

    enabled: bool = True
    """Whether agents can delegate at all."""
    max_depth: Annotated[int, Meta(ge=0, le=10)] = 3
    """How deep sub-agents can nest; the main agent is 0. Agents at the limit do not get the delegation tools."""
    default_timeout: Seconds = 300
    """Active seconds of a sub-agent whose profile sets no timeout."""
    max_concurrent: Annotated[int, Meta(ge=1, le=64)] = 5
    """Sub-agents whose tools work on this machine at the same time; the others wait. Waiting for a model does not count."""
    max_batch: Annotated[int, Meta(ge=1, le=64)] = 10
    """Tasks that one reply of an agent may delegate in all its calls; tasks above the limit get an error result, the
    others still run."""
    max_agents: Count = 200
    """Sub-agents in one session, including finished ones."""
    ask_above: Annotated[int, Meta(ge=0)] = 20
    """You are asked before one of your prompts starts more sub-agents than this, and again at each multiple of it (if
    no person can answer, they are refused)."""
    ask_above_cost: Dollars | None = None
    """You are asked before delegations whose budgets could cost more US dollars than this, and again at each multiple
    of it. Not set: no such question."""
    batches: bool = False
    """Whether the main agent has `map_tasks`: one task for each of many items, as `friday map`. It adds about 300 tokens to
    each request."""
    context_chars: Annotated[int, Meta(ge=0)] = 4_000
    """Characters of context that a parent can pass to a sub-agent directly; longer context is passed as a file."""
    result_chars: Annotated[int, Meta(ge=500)] = 24_000
    """Characters of a sub-agent's result that its parent sees at once; it reads the rest with `get_delegation_result`."""
    worktree_include: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()
    """Files ignored by git that are copied into a sub-agent's worktree, as globs such as `.env.example`; a glob without
    `/` matches in every folder. Changes to these copies are not applied to your folder."""
    long_results: Literal["excerpt", "summary"] = "excerpt"
    """What a parent sees of a longer result: its beginning and end, or a summary by the `summarizer` profile."""
    supervision: Literal["unsupervised", "supervised", "supervised-human"] = "unsupervised"
    """How a sub-agent's result is checked before its parent sees it: not at all; by a model if the actions differ from
    the task or the stated intent; or by a model that reports doubts to you. A profile can only be stricter."""
    supervisor_model: str = ""
    """The model that checks supervised results. Empty: the sub-agent's own."""
    token_budget: TokenBudget = TokenBudget()
    profiles: ProfileFolder = ProfileFolder()
    context: ChildContext = ChildContext()


class AgentSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Sub-agents."""

    delegation: DelegationSettings = DelegationSettings()


class ContextSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The model's context window."""

    compact_at: Annotated[float, Meta(ge=0.3, le=0.97)] | None = None
    """Used fraction of the window at which the history is replaced by a summary. Not set: 0.85, or sooner where the service charges more
    per token for larger requests (at 0.95 of that size)."""
    keep_warm: Annotated[float, Meta(ge=0, le=3600)] = 0
    """Seconds for which the service's cache of a conversation is kept while it waits for you: for your next message, or an answer. It costs
    about a twentieth of what the next request would otherwise cost, each 4 minutes with Claude. While an agent waits for sub-agents or a
    command its cache is always kept, up to an hour, as long as that costs less than it saves."""


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Tools."""

    bash_timeout: Seconds = 120
    """Seconds a command can run if the model sets no limit."""
    bash_max_timeout: Seconds = 600
    """The longest limit in seconds that the model can set."""
    output_chars: Annotated[int, Meta(ge=1_000)] = 30_000
    """Characters of a tool's output that the model sees (beginning and end; the whole text is saved in a file)."""
    web_allow_private: bool = False
    """Whether `web_fetch` can access private and local addresses."""
    env_allow: tuple[str, ...] = ()
    """Environment variables that are passed to commands although their names look like secrets. Never one with a key that
    Friday uses itself."""


class NotifySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How you are told that an agent needs you, beside the terminal's title and its notifications."""

    command: tuple[str, ...] = ()
    """A program with its words, such as `["notify-send", "Friday"]`. It is run once for each question, permission and cap that
    needs you for more than five seconds, and at the end of a long turn, with what it is as its last word. Empty: none."""


class ChatSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The screen of the chat. A project cannot set this."""

    vim: bool = False
    """Whether the prompt has the keys of vim: Esc is normal mode, `i` insert mode, `v` visual mode (docs/keys.md)."""
    status_command: tuple[str, ...] = ()
    """A program with its words, such as `["python3", "/home/me/status.py"]`. The first line that it writes is shown above the
    status line. It reads JSON with the model, folder, session, cost, context and agents (docs/commands.md), runs when these
    change, at most once a second, and is stopped after five seconds. Empty: none."""


class CheckpointSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Earlier contents of files that agents changed, for `friday sessions rewind`. They are stored next to the sessions,
    outside your folders, and removed with their session; see rewind.md."""

    commands: bool = True
    """Whether the folder is compared before and after each command, so that its changes can be rewound too. Files that
    git ignores are left out, except small ones such as `.env`."""
    file_megabytes: Count = 10
    """Larger files are not saved."""
    folder_megabytes: Count = 200
    """How much of a folder is saved, while a session is open, for the comparison after a command."""
    megabytes: Count = 1_000
    """Limit for one session, and (checked once a day) for all sessions together: the oldest contents are removed."""


class SandboxSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The sandbox for commands of agents (docs/sandbox.md): they can write in the folder, in `--add-dir` folders and in
    their own temporary folder, and cannot read keys."""

    kind: Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"] = "auto"
    """The sandbox to use: `auto` for the best that works here, one of them (an error if it does not work), or `none`."""
    network: bool = False
    """Whether commands can access the network. If not, a command can request it, and you are asked each time."""
    write: tuple[str, ...] = ()
    """Additional folders and files that commands can write, such as `~/.cache`."""
    read: tuple[str, ...] = ()
    """Hidden folders and files of your home that commands can read, such as `~/.config/mytool`; others than those that tools
    need are denied."""
    read_deny: tuple[str, ...] = ()
    """Additional folders and files that commands cannot read; keys of common programs and of Friday are always denied."""


class HookSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Hooks: programs that run when something happens (docs/hooks.md). They are in `hooks.json`, not here."""

    claude: bool = False
    """Whether the hooks in `.claude/settings.json` and `.claude/settings.local.json` of a trusted project run too."""


class LanguageServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Language servers, which say what a change broke (docs/lsp.md). They are used in trusted folders, where they are installed."""

    enabled: bool = True
    """Whether they are used."""
    report: Literal["error", "warning", "off"] = "error"
    """Which new problems an agent reads after its change: `error`, also `warning`, or none (`off`)."""
    tool: Literal["auto", "on", "off"] = "auto"
    """Whether agents have `code` and `rename_symbol` (250 tokens of each request): `auto` where the folder is a project with a server that
    is installed, always (`on`), or never."""
    wait_s: Annotated[float, Meta(ge=0, le=60, extra={"unit": "seconds"})] = 1
    """Seconds that the result of a change waits for a server at most; a later answer comes with a later result."""
    end_s: Annotated[float, Meta(ge=0, le=60, extra={"unit": "seconds"})] = 5
    """Seconds that the end of an agent's work waits for an answer that is missing."""
    idle_s: Seconds = 300
    """Seconds after which a server that is not used is ended."""
    max_servers: Annotated[int, Meta(ge=1, le=64)] = 6
    """Servers that run at the same time in all your sessions; of one session the longest unused one is ended for another."""
    max_mb: Annotated[int, Meta(ge=50, le=1_000_000)] = 1500
    """Megabytes of memory that the servers of a session may take, on Linux. Above it the longest unused one is ended; one that takes more
    alone is ended too, and is off after the third time."""


class FleetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Sessions without a terminal (docs/fleet.md). A project cannot set this."""

    on_hangup: Literal["stop", "detach"] = "stop"
    """What a chat with agents at work does when its window is closed: `stop` them, or let them go on in the background."""


class ExternalAgentSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Other programs' agents as sub-agents (docs/external_agents.md)."""

    max_external: Annotated[int, Meta(ge=1, le=64)] = 2
    """How many of their programs run at the same time; each takes 200 to 700 MB of memory. The others wait."""


class Retention(Struct, frozen=True, forbid_unknown_fields=True):
    """How long sessions and the long output of their commands are kept, checked once a day. Open sessions, and sessions
    whose worktrees contain work, are never removed."""

    days: Annotated[float, Meta(ge=0)] = 90
    """Sessions not used for longer are removed, and older logs of `--debug`; batches of `friday map` by the next one. 0: never."""
    gigabytes: Annotated[float, Meta(ge=0)] = 2
    """If sessions are larger, the oldest are removed, except those used in the last hour. 0: never."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings."""

    model: str = ""
    """The model, as `provider/model[:effort]` or an alias such as `opus`, `sonnet`, `haiku`, `gpt`. Empty: the default
    model of the first service that has a key."""
    subagent_model: str = ""
    """The model of sub-agents whose profile sets none. Empty: their parent's."""
    fallback_model: str = ""
    """The model to use while the first one is overloaded; the change is reported. Empty: none."""
    effort: EffortSetting = ""
    """How hard the model thinks. Empty: the model's default."""
    service_tier: Literal["", "standard", "flex", "fast"] = ""
    """How OpenAI and Anthropic serve requests: `flex` when there is time, for half the price (OpenAI only); `fast` for twice
    the price. Empty: as your project at the service is set. Costs follow the tier that the service reports. A profile can set
    another."""
    mode: ConfiguredMode = "ask"
    """`ask`: reading in the folder is allowed, everything else asks. `edits`: file changes in the folder are allowed
    too. `plan`: no changes. `auto`: edits and sandboxed commands are allowed; without a sandbox commands ask."""
    theme: str = "auto"
    """The colours of the chat: `auto` asks the terminal whether its background is light or dark; `dark` and `light` set
    it; `ansi` uses the terminal's own sixteen colours, as `auto` does if there are no others. `/theme` lists more names
    and writes this key. NO_COLOR in the environment turns colours off."""
    permissions: Permissions = Permissions()
    limits: LimitSettings = LimitSettings()
    budget: BudgetSettings = BudgetSettings()
    agents: AgentSettings = AgentSettings()
    context: ContextSettings = ContextSettings()
    tools: ToolSettings = ToolSettings()
    tui: ChatSettings = ChatSettings()
    notify: NotifySettings = NotifySettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    sandbox: SandboxSettings = SandboxSettings()
    hooks: HookSettings = HookSettings()
    lsp: LanguageServerSettings = LanguageServerSettings()
    fleet: FleetSettings = FleetSettings()
    external_agents: ExternalAgentSettings = ExternalAgentSettings()
    retention: Retention = Retention()
    providers: dict[str, ProviderSettings] = {}
