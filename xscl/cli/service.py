"""``xscl serve`` and ``xscl token``: the service, and who may use it."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.base.terminal import show, tell
from xscl.base.types import format_time, now_micros
from xscl.cli.commands import command
from xscl.cli.options import HomeOptions, Output, Printing, SparkOptions, StrictOption, WorkOptions, say
from xscl.cli.polls import ContactOption
from xscl.cli.printing import print_rows

__all__ = ["serve", "token_app"]

token_app = typer.Typer(no_args_is_help=True, help="Tokens with which programs and people use the service.")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 is any free one.")] = 8080,
    every: Annotated[str, typer.Option(help="How often to look for events that came by other ways.")] = "1s",
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no token; only on addresses of this machine alone.")
    ] = False,
    no_fetch: Annotated[bool, typer.Option("--no-fetch", help="Leave feeds alone.")] = False,
    contact: ContactOption = None,
    strict: StrictOption = False,
    *,
    work: WorkOptions,
    on: SparkOptions,
    at: HomeOptions,
) -> None:
    """Serve the home over HTTP: take in events, process them, ask feeds, and give matches as they come.

    Example: xscl serve --port 8080
    xscl serve --no-auth
    """
    from xscl.base.errors import EngineError
    from xscl.catalog.tokens import list_tokens
    from xscl.engine import Engine

    try:
        from xscl.service.server import serve as run_server
        from xscl.service.settings import BOUNDS, ServiceSettings
    except ModuleNotFoundError as error:
        raise EngineError(
            "XSCL_NO_SERVICE", f"the service needs the package {error.name}", hint="pip install 'xscl[serve]'"
        ) from None
    settings = ServiceSettings(
        host, port, every, auth=not no_auth, strict=strict, fetch=not no_fetch, contact=contact
    )  # fmt: skip
    home = at.open()
    if settings.auth and not home.catalog.ask(list_tokens):
        say("note: there is no token yet, so no call is answered; 'xscl token add NAME' makes one")

    def log(line: str) -> None:
        if not Output.quiet:
            tell(line)

    session_options = on.session()
    if session_options.remote is None:
        session_options = session_options.with_conf(BOUNDS)
    with Engine(home, settings=work.settings(), session_options=session_options) as engine:
        interrupted = run_server(
            engine, settings, log=log, ready=lambda address: say(f"serving {home.root} at {address}")
        )
    say("ended")
    if interrupted:
        raise typer.Exit(130)


@command(token_app, "add")
def token_add(
    name: Annotated[str, typer.Argument(help="Whose it is; queries that are registered with it belong to the name.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, write or admin; may be repeated.", show_default="read and write"),
    ] = None,
    queries: Annotated[int | None, typer.Option(help="Live queries of the name at most.", min=0)] = None,
    cost: Annotated[int | None, typer.Option(help="Cost of these queries together at most.", min=0)] = None,
    *,
    at: HomeOptions,
) -> None:
    """Make a token and print it, once: the home keeps only a digest of it.

    A query costs one for each node that it keeps and one for each join; checking it over HTTP tells how much.

    Example: xscl token add alice
    xscl token add sensor-7 --scope write
    xscl token add guest --queries 20 --cost 200
    """
    from xscl.catalog.tokens import add_token

    with at.open().catalog.begin() as connection:
        text = add_token(connection, name, scope or ["read", "write"], now_micros(), queries=queries, cost=cost)
    show(text)
    say(f"token {name}; it is not shown again")


@command(token_app, "list")
def token_list(at: HomeOptions, printing: Printing) -> None:
    """List tokens: whose they are, and what they are for.

    Example: xscl token list
    """
    from xscl.catalog.tokens import list_tokens

    found = at.open().catalog.ask(list_tokens)
    rows = [
        {
            "token": each.name,
            "scopes": ", ".join(sorted(each.scopes)),
            "created": format_time(each.created),
            "queries": each.queries,
            "cost": each.cost,
        }
        for each in found
    ]
    if not print_rows(rows, ["token", "scopes", "created", "queries", "cost"], printing.chosen()):
        say("no tokens; 'xscl token add NAME' makes one")


@command(token_app, "set")
def token_set(
    name: str,
    queries: Annotated[str | None, typer.Option(help="Live queries of the name at most; 'none': any number.")] = None,
    cost: Annotated[str | None, typer.Option(help="Cost of them together at most; 'none': any.")] = None,
    *,
    at: HomeOptions,
) -> None:
    """Change the limits of a token.  Queries that are registered stay, whatever the limits are now.

    Example: xscl token set guest --queries 50 --cost none
    """
    from xscl.catalog.tokens import set_limits

    changed = {}
    for limit, text in (("queries", queries), ("cost", cost)):
        if text is None:
            continue
        if text != "none" and not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise typer.BadParameter(f"{text!r} is no whole number, and not 'none'", param_hint=f"--{limit}")
        changed[limit] = None if text == "none" else int(text)
    with at.open().catalog.begin() as connection:
        set_limits(connection, name, changed)
    say(f"token {name}: {', '.join(f'{limit} {most}' for limit, most in changed.items()) or 'as it was'}".lower())


@command(token_app, "revoke")
def token_revoke(name: str, at: HomeOptions) -> None:
    """End a token; calls with it are refused from now on.

    Example: xscl token revoke sensor-7
    """
    from xscl.catalog.tokens import revoke_token

    with at.open().catalog.begin() as connection:
        revoke_token(connection, name)
    say(f"revoked {name}")
