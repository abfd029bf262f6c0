"""The screen of the chat: its widgets as attributes, and what their messages lead to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.events import Click, Key, Resize
from textual.screen import Screen
from textual.widgets._toast import ToastRack

from friday_cli.core.protocol.events import QuestionAsked

from .chat_body import ChatBody
from .chat_services import ChatServices
from .first_screen import FirstScreen
from .notifications import keep_rows_for_toasts
from .state import keymap
from .state.file_index import FileIndex
from .state.prompt_history import PromptHistory
from .status_text import Place
from .widgets import WIDE
from .widgets.agent_block import make_block
from .widgets.blocks import RenderContext
from .widgets.chat_request import AskAnswered, ExplanationWanted
from .widgets.completer import Suggest
from .widgets.composer import Composer
from .widgets.status_bar import StatusLine
from .widgets.styles import Styles, TextRenderer
from .widgets.text_input import Prompt, begin_typing
from .widgets.transcript import Transcript
from .widgets.transcript_messages import TextTyped
from .widgets.welcome import Welcome

if TYPE_CHECKING:
    from friday_cli.extensions.commands import CustomCommands

    from .widgets.agent_strip import AgentStrip
    from .widgets.agent_tree import AgentTree
    from .widgets.approval_panel import Approval
    from .widgets.search_bar import FindBar
    from .widgets.working_line import WorkingLine


class ChatScreen(Screen[None]):
    """The widgets that are not needed for the first picture (`strip`, `find_bar`, `approval`, the panel of `body`) are there when
    it is `ready`."""

    body: ChatBody
    first_screen: FirstScreen
    composer: Composer
    status: StatusLine
    strip: AgentStrip
    working: WorkingLine
    find_bar: FindBar
    approval: Approval

    def __init__(self, services: ChatServices, suggest: Suggest, customs: Callable[[], CustomCommands]) -> None:
        """`suggest` completes what is typed, `customs` are the user's own commands."""
        super().__init__()
        self._services, self._suggest, self.customs = services, suggest, customs
        self.furnished = asyncio.Event()
        """Set when all widgets are there."""

    def first_widgets(self) -> ComposeResult:
        """Make the widgets of the first picture."""
        cwd, app = self._services.cwd, self._services.app
        for length, bounds in zip(app.size, (app.HORIZONTAL_BREAKPOINTS, app.VERTICAL_BREAKPOINTS), strict=True):
            # Textual adds these with the first event of the size, and then styles all widgets once more
            self.add_class(max(bound for bound in bounds or () if bound[0] <= length)[1], update=False)
        self.body = ChatBody(self._services, self.new_context())
        self.first_screen = FirstScreen(self._services, self.body)
        self.composer = Composer(PromptHistory(cwd), FileIndex(cwd), self._suggest, id="composer")
        self.status = StatusLine(id="status")
        yield self.body
        yield self.composer
        yield self.status

    def on_mount(self) -> None:
        self.screen_layout_refresh_signal.subscribe(self, lambda _: _laid_out(self))
        self.watch(self.app, "app_focus", self._app_focused, init=False)

    def _app_focused(self, focused: bool) -> None:
        if focused and self.ready:
            self.approval.grace.restart()  # the click or key that gives the window the focus answers nothing

    async def furnish(self) -> None:
        """Mount the widgets that are hidden at first. They are imported here: the first picture comes sooner."""
        from .widgets.agent_strip import AgentStrip
        from .widgets.approval_panel import Approval
        from .widgets.search_bar import FindBar
        from .widgets.working_line import WorkingLine

        await self.body.furnish()
        self.strip = AgentStrip(id="strip")
        self.working = WorkingLine(id="working")
        self.find_bar = FindBar(id="find")
        self.approval = Approval(self.body.context, id="approval")
        await self.mount(self.working, self.strip, self.find_bar, self.approval, before="#composer")
        for rack in self.query(ToastRack):
            self.move_child(rack, after=self.body)  # notes stand above the prompt, and take rows of the transcript
        self.furnished.set()

    @property
    def ready(self) -> bool:
        """Whether all widgets are there: not before `furnish`, and not while the app is taken down."""
        return self.furnished.is_set() and self._services.app.is_running

    def new_context(self) -> RenderContext:
        """What transcripts draw the open session with."""
        renderer = TextRenderer(Styles.of(self._services.app))
        return RenderContext(self._services.controller.state, renderer, time.time, make_block)

    def reset(self) -> None:
        """Show the session that was opened."""
        context = self.new_context()
        self.body.reset(context)
        self.approval.reset(context)

    def restyle(self) -> None:
        """Draw in the colours of the current theme."""
        self.body.restyle(TextRenderer(Styles.of(self._services.app)))
        if self.ready:
            self.body.panel.redraw()
            self._services.refresh()

    @property
    def welcome(self) -> Welcome | None:
        """The panel that asks for a model or a key, while no model is configured."""
        return next(iter(self.query(Welcome)), None)

    async def show_welcome(self, wanted: bool) -> None:
        """Show or remove the welcome panel."""
        if not wanted:
            await self.query(Welcome).remove()
        elif self.welcome is None:
            await self.mount(Welcome(), before="#composer")

    @property
    def place(self) -> Place:
        """Where the keys go."""
        focused, panel = self._services.app.focused, self.body.panel
        if isinstance(focused, Transcript):
            child: Place = "whole" if panel.has_class("full") else "child"
            return "marking" if focused.marker.caret is not None else child if panel.inside else "chat"
        if focused is None or isinstance(focused, Prompt):
            return "prompt"
        if any(isinstance(node, Welcome) for node in focused.ancestors):
            return "welcome"
        if self.approval in focused.ancestors:
            return "words"
        return "tree" if panel.has_focus_within else "panel" if focused is self.approval else ""

    def leave_marking(self) -> bool:
        """End the marking of text with keys; False when there is none."""
        focused = self._services.app.focused
        return isinstance(focused, Transcript) and focused.marker.end()

    def on_descendant_focus(self) -> None:
        if not self.ready:
            return
        approval, brief = self.approval, self.place in ("tree", "child", "whole", "chat", "marking")
        if brief != approval.has_class("brief"):
            approval.set_class(brief, "brief")
            approval.on_resize()
            if not brief:
                approval.grace.restart()  # the panel grows: the mouse may have been pressed on something else
        self._services.schedule_refresh()

    def on_key(self, event: Key) -> None:
        """Insert a printable key without a binding into the prompt, also while no widget has the focus yet."""
        if self.focused is not None or not event.is_printable or not event.character:
            return
        if not any(event.key in keymap.held(node) for node in self.ancestors_with_self):
            event.stop()
            self.composer.area.focus()
            begin_typing(self.composer.area)
            self.composer.area.insert(event.character)

    def on_resize(self, event: Resize) -> None:
        if self.ready and event.size.width < WIDE and self.body.panel_wanted is None:
            self.body.panel.remove_class("shown", "full")  # there is no room beside the transcript
        self._services.schedule_refresh()

    @on(Click, "#strip")
    def _open_from_strip(self, event: Click) -> None:
        """Go to the tree, and to the agent whose row was clicked."""
        path = self.strip.paths[event.y] if 0 <= event.y < len(self.strip.paths) else ""
        self.body.focus_tree()
        if path:
            self.body.panel.open(path)

    def offer(self, text: str) -> None:
        """Put a text into the prompt, unless it has one."""
        if not self.composer.text:
            self.composer.put(text)
        self.composer.area.focus()

    @on(ChatBody.PanelToggled)
    def follow_strip(self) -> None:
        """Show in the strip who works, unless the panel shows it."""
        self.strip.follow(self.body.context, hidden=self.body.panel.has_class("shown"))

    @on(ChatBody.Left)
    def _focus_prompt(self) -> None:
        self.composer.area.focus()

    def on_prompt_scroll_chat(self, message: Prompt.ScrollChat) -> None:
        transcript = self.body.transcript
        (transcript.action_page_up if message.by < 0 else transcript.action_page_down)()

    @on(AskAnswered)
    def _leave_last_ask(self) -> None:
        if len(self._services.controller.state.asks) <= 1:
            self.composer.area.focus()

    @on(TextTyped)
    async def _type_into_prompt(self, message: TextTyped) -> None:
        """Put into the prompt what was typed or pasted elsewhere; a carriage return sends it."""
        if message.searched:
            focused = self.focused
            self.find_bar.add(focused if isinstance(focused, Transcript) else self.body.transcript, message.text)
            return
        if message.text == "?" and _explain_request(self):
            return
        self.composer.area.focus()
        if message.text == "\r":
            self.composer.send()
        elif len(message.text) > 1:
            await self.composer.area.paste(message.text)
        else:
            begin_typing(self.composer.area)
            self.composer.area.insert(message.text)

    def on_agent_tree_answer_requested(self, message: AgentTree.AnswerRequested) -> None:
        self.approval.show_for(message.path)

    async def on_welcome_chosen(self) -> None:
        await self.show_welcome(False)
        self.composer.area.focus()


def _explain_request(chat: ChatScreen) -> bool:
    """Explain the permission request that is open beside what somebody looks at; False if there is none."""
    approval = chat.approval
    ask = chat.body.context.state.asks.get(approval.asked)
    if ask is None or isinstance(ask.event, QuestionAsked) or chat.focused is approval or chat.composer.text:
        return False
    approval.focus()
    approval.post_message(ExplanationWanted(approval.asked))
    return True


def _laid_out(chat: ChatScreen) -> None:
    """Fit what depends on the heights of other widgets."""
    keep_rows_for_toasts(chat, chat.body)
    if chat.ready:
        from .widgets.approval_panel import ROWS_LEFT

        own = chat.query("#own-status")
        rows = 1 + sum(widget.region.height for widget in (chat.working, chat.strip, chat.composer, chat.status, *own))
        if chat.approval.rows_left != (rows := max(rows, ROWS_LEFT)):
            chat.approval.rows_left = rows
            chat.approval.on_resize()
