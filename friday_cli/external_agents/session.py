"""The session of an external agent's program: a new one, or that of an earlier run, in the mode and with the model of the profile."""

from __future__ import annotations

from typing import Any

from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.extensions.profiles.profile import Profile
from friday_cli.jsonrpc.connection import RpcError
from friday_cli.llm.transport.text import dict_in, dicts_in

from .connection import SESSION_S, AcpConnection, ProgramFailed
from .programs import program_of


async def open_session(
    connection: AcpConnection, profile: Profile, folder: str, earlier: str, *, counted: bool, careful: bool
) -> tuple[str, bool]:
    """The id of a session in `folder`, and whether it is the `earlier` one ("" for none), which the program then knows. `counted`: its
    requests go through the meter. `careful`: the agent may change nothing without a question. Raises ProgramFailed."""
    place: dict[str, Any] = {"cwd": folder, "mcpServers": []}
    offered = dict_in(connection.features.get("agentCapabilities"))
    resumes = dict_in(offered.get("sessionCapabilities")).get("resume") is not None
    ways = [("session/resume", resumes), ("session/load", offered.get("loadSession") is True)]
    for method in [name for name, can in ways if can and earlier]:
        try:
            answer = await connection.request(method, {**place, "sessionId": earlier}, SESSION_S)
        except RpcError:
            continue
        await _choose(connection, profile, earlier, answer, counted=counted, careful=careful)
        return earlier, True
    try:
        answer = await connection.request("session/new", place, SESSION_S)
    except RpcError as error:
        raise ProgramFailed(f"{profile.program} did not open a session: {sanitize_line(error.message, 300)}") from None
    ident = dict_in(answer).get("sessionId")
    if not isinstance(ident, str) or not ident:
        raise ProgramFailed(f"{profile.program} opened a session without an id.")
    await _choose(connection, profile, ident, answer, counted=counted, careful=careful)
    return ident, False


async def _choose(
    connection: AcpConnection, profile: Profile, session: str, answer: Any, *, counted: bool, careful: bool
) -> None:
    """Set the mode in which the program asks before it acts, and the model of the profile. Raises ProgramFailed."""
    assert profile.external is not None, "only for such a profile"
    program = program_of(profile.external)
    mode = (careful and program.careful_mode) or program.mode
    modes = dict_in(dict_in(answer).get("modes"))
    if mode and modes and modes.get("currentModeId") != mode:
        await _set(connection, "session/set_mode", {"sessionId": session, "modeId": mode}, f"the mode {mode}")
    if (wanted := profile.model) and not (counted and program.told_model):
        options = dicts_in(dict_in(answer).get("configOptions"))
        option = next((row for row in options if row.get("category") == "model"), None)
        method, params = "session/set_model", {"sessionId": session, "modelId": wanted}
        if option is not None:
            method = "session/set_config_option"
            params = {"sessionId": session, "configId": str(option.get("id")), "value": wanted}
        await _set(connection, method, params, f"the model {wanted}")


async def _set(connection: AcpConnection, method: str, params: dict[str, Any], what: str) -> None:
    try:
        await connection.request(method, params, SESSION_S)
    except RpcError as error:
        raise ProgramFailed(f"The program did not accept {what}: {sanitize_line(error.message, 200)}") from None
