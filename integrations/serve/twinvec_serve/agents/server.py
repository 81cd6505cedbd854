"""The server of tools, which agents reach by standard input or by HTTP."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import ValidationError

from twinvec.support.checks import listed
from twinvec.version import __version__
from twinvec_serve.agents.library import Shelf
from twinvec_serve.agents.lines import readable
from twinvec_serve.agents.tools import Tools, with_readable_errors
from twinvec_serve.errors import faults_of

Tool = Callable[..., Coroutine[Any, Any, Any]]

_INSTRUCTIONS = (
    "Search over the user's own collections of documents. list_collections says what there is; search finds passages "
    "by meaning and by words: give several phrasings of a question in one call; get_document returns a whole document "
    "or lines of it, get_documents all that fit a pattern of ids. Name the source and place of what you quote."
)
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

_NAME_CHARS = 100
_MOST_NAMES = 5


class _Server(MCPServer[object]):
    """Refuses unknown arguments of a tool, because the SDK would ignore a mistyped ``filter`` of a search.

    An invalid value gets the same message as in an HTTP request. An invalid line of standard input gets an error.
    """

    async def run_stdio_async(self) -> None:
        server = self._lowlevel_server
        async with stdio_server() as (lines, answers), readable(lines, answers) as messages:
            await server.run(messages, answers, server.create_initialization_options())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[object, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        for tool in await self.list_tools():
            known = list(tool.input_schema.get("properties", {}))
            if tool.name == name and (unknown := sorted(set(arguments) - set(known))):
                named = listed([each[:_NAME_CHARS] for each in unknown], _MOST_NAMES)
                raise ToolError(f"{name} has no argument {named}; it takes {', '.join(known) or 'none'}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise ToolError(faults_of(error.__cause__.errors())) from None


def build(shelf: Shelf, around: Callable[[Tool], Tool] = lambda tool: tool) -> MCPServer[object]:
    """Return the server with its tools, which read and never write. ``around`` wraps each tool."""
    server = _Server(
        "twinvec",
        title="twinvec: search over your documents",
        instructions=_INSTRUCTIONS,
        version=__version__,
        subscriptions=False,
        log_level="WARNING",
    )
    logging.getLogger("mcp").setLevel(logging.WARNING)  # lower levels log the queries
    tools = Tools(shelf)
    for tool, title in (
        (tools.list_collections, "List collections"),
        (tools.search, "Search documents"),
        (tools.get_document, "Read a document"),
        (tools.get_documents, "Read several documents"),
    ):
        described = inspect.getdoc(tool)  # without the indentation of the source
        server.add_tool(around(with_readable_errors(tool)), title=title, description=described, annotations=_READS)
    return server
