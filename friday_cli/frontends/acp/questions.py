"""Questions of agents as requests to an ACP client, and its answers."""

from __future__ import annotations

from typing import Any

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import PermissionAsked, QuestionAsked
from friday_cli.core.protocol.tool_info import ASK_USER
from friday_cli.core.text.sanitize import mask, sanitize, sanitize_line
from friday_cli.jsonrpc.connection import RpcConnection, RpcError
from friday_cli.view import PendingAsk
from friday_cli.view.items import tool_run

from .content import call_fields, text_block
from .updates import SessionUpdates

SUBJECT_CHARS = 8_000
"""Characters of what a call would do."""
ONCE, SESSION, REJECT = "allow_once", "allow_session", "reject_once"
NOBODY = "The user did not answer this question."


async def ask(connection: RpcConnection, updates: SessionUpdates, pending: PendingAsk) -> ApprovalAnswer | str:
    """Ask the person at the client, under the session of the agent that asks. A client that fails denies, with its reason."""
    try:
        if isinstance(pending.event, PermissionAsked):
            return await _permission(connection, updates, pending, pending.event)
        return await _question(connection, updates, pending, pending.event)
    except RpcError as error:
        why = f"The client could not ask: {sanitize_line(error.message, 200)}"
        return ApprovalAnswer("deny", reason=why) if isinstance(pending.event, PermissionAsked) else f"{NOBODY} {why}"


async def _permission(
    connection: RpcConnection, updates: SessionUpdates, pending: PendingAsk, event: PermissionAsked
) -> ApprovalAnswer:
    agent = updates.view.agents[pending.agent]
    run = agent.calls.get(event.call_id) or tool_run(event.call_id, event.tool, event.arguments or {})
    who = "" if pending.agent == "a" else f"{pending.agent} ({sanitize_line(pending.profile, 40)}) wants to use "
    shown = [text_block(mask(sanitize(event.subject))[:SUBJECT_CHARS])] if event.subject else []
    if event.reason:
        shown.append(text_block(f"Why you are asked: {sanitize_line(event.reason, 300)}"))
    fields = call_fields(run, updates.cwd)
    call = {
        **fields,
        "toolCallId": updates.call_id(pending.agent, fields["toolCallId"]),
        "title": f"{who}{fields['title'] or sanitize_line(event.tool, 64)}",
        "status": "pending",
        "content": [{"type": "content", "content": block} for block in shown],
    }
    options = [{"optionId": ONCE, "name": "Allow once", "kind": "allow_once"}]
    if event.rule:
        name = f"Allow for this session: {sanitize_line(event.rule, 200)}"
        options.append({"optionId": SESSION, "name": name, "kind": "allow_always"})
    options.append({"optionId": REJECT, "name": "Reject", "kind": "reject_once"})
    session = updates.session_of(pending.agent)
    answer = await connection.request(
        "session/request_permission", {"sessionId": session, "toolCall": call, "options": options}
    )
    match answer:
        case {"outcome": {"outcome": "selected", "optionId": str(chosen)}} if chosen == ONCE:
            return ApprovalAnswer("allow")
        case {"outcome": {"outcome": "selected", "optionId": str(chosen)}} if chosen == SESSION and event.rule:
            return ApprovalAnswer("allow", scope="session")
        case {"outcome": {"outcome": "selected"}} if updates.client.forms:
            field = {"type": "string", "title": "Reason", "description": "The agent reads it. It may be empty."}
            form = {"type": "object", "properties": {"reason": field}}
            return ApprovalAnswer(
                "deny",
                reason=(await _form(connection, session, call["toolCallId"], "Why not?", form)).get("reason", ""),
            )
    return ApprovalAnswer("deny")


async def _form(
    connection: RpcConnection, session: str, call_id: str, message: str, form: dict[str, Any]
) -> dict[str, str]:
    """The texts that a person put into the fields of a form, none if it was dismissed."""
    params = {"mode": "form", "sessionId": session, "toolCallId": call_id, "message": message}
    match await connection.request("elicitation/create", {**params, "requestedSchema": form}):
        case {"action": "accept", "content": {**content}}:
            return {str(name): text for name, text in content.items() if isinstance(text, str)}
    return {}


async def _question(
    connection: RpcConnection, updates: SessionUpdates, pending: PendingAsk, event: QuestionAsked
) -> str:
    if not updates.client.forms:
        return f"{NOBODY} Its program cannot ask. Write the question in your answer instead."
    who = f"{pending.agent} ({sanitize_line(pending.profile, 40)}) asks:\n" if pending.agent != "a" else ""
    fields: dict[str, Any] = {"answer": {"type": "string", "title": "Answer"}}
    choices = [sanitize_line(choice, 200) for choice in event.choices if choice]
    if choices and "" not in event.choices:
        fields["answer"]["enum"] = choices
    elif choices:
        fields["answer"]["description"] = f"Or one of: {', '.join(choices)}."
    run = updates.view.agents[pending.agent].calls.get(event.call_id)
    free = "enum" in fields["answer"] and run is not None and run.tool == ASK_USER
    if free:
        fields["other"] = {"type": "string", "title": "Other", "description": "Or an answer in your own words."}
    form = {"type": "object", "properties": fields, **({} if free else {"required": ["answer"]})}
    session, call_id = updates.session_of(pending.agent), updates.call_id(pending.agent, event.call_id)
    given = await _form(connection, session, call_id, mask(f"{who}{sanitize(event.question)}"), form)
    return given.get("other") or given.get("answer") or NOBODY
