"""The tools over standard input and output, for an agent that starts ``twinvec mcp`` itself.

If a server has the store, a call is passed on to the server's tools. Every call checks this, because a server may start
or stop while the agent runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

from twinvec_qdrant import DEFAULT_PATH, ServingProcess, serving_process
from twinvec_serve.agents.library import Library
from twinvec_serve.agents.over_http import PATH
from twinvec_serve.agents.server import build
from twinvec_serve.safety.key_files import READ_VARIABLE, WRITE_VARIABLE

P = ParamSpec("P")
T = TypeVar("T")

_SECONDS = 60.0


def run(library: Library) -> None:
    """Answer the messages of standard input on standard output until the input ends; then close the library.

    Ctrl+C ends the process at once, as SIGTERM does: a thread that waits for input cannot be interrupted. The tools do
    not write, so nothing is lost.
    """

    def asking_the_server(tool: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(tool)
        async def ask(*args: P.args, **options: P.kwargs) -> T:
            process = None if library.url is not None else serving_process(library.path or DEFAULT_PATH)
            if process is None:
                return await tool(*args, **options)
            library.close()
            answer: type[BaseModel] = get_type_hints(tool)["return"]
            return answer.model_validate(await _asked(process, tool.__name__, options))  # type: ignore[return-value]  # it is T

        return ask

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        asyncio.run(build(library, asking_the_server).run_stdio_async())
    except* BrokenPipeError:  # the agent ended before it read the last answers
        pass
    finally:
        library.close()


async def _asked(process: ServingProcess, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool of the server that has the store; raise ToolError if the tool fails or the server does not answer."""
    key = os.environ.get(READ_VARIABLE) or os.environ.get(WRITE_VARIABLE)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    statuses: list[int] = []

    async def note(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        async with (
            httpx2.AsyncClient(
                headers=headers,
                verify=process.tls_context(),
                timeout=_SECONDS,
                trust_env=False,
                event_hooks={"response": [note]},
            ) as web,
            Client(streamable_http_client(process.address + PATH, http_client=web)) as client,
        ):
            result = await client.call_tool(tool, given)
    except Exception as error:  # of any type, because the client raises exception groups
        needs_key = httpx2.codes.UNAUTHORIZED in statuses
        reason = f"the server needs a key; set {READ_VARIABLE}" if needs_key else _reason(error)
        raise ToolError(f"{process} has the store, and the call to it failed: {reason}") from error
    if result.is_error or result.structured_content is None:
        text = " ".join(each.text for each in result.content if each.type == "text")
        # the SDK of this process adds the prefix again
        raise ToolError(text.removeprefix(f"Error executing tool {tool}: "))
    answer: dict[str, Any] = result.structured_content
    return answer


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
