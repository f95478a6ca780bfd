"""unskew serve"""

from __future__ import annotations

import signal
import socket
import warnings
from pathlib import Path
from typing import Annotated

from unskew.cli import options
from unskew.cli.output import Answer
from unskew.errors import ParameterError
from unskew.runtime import say


def serve(
    model: options.Model,
    port: Annotated[int, options.count("--port", "Where to listen.", 0)] = 8000,
    host: Annotated[str, options.file("--host", "Its address; 0.0.0.0 is all of them.", "ADDRESS")] = "127.0.0.1",
    log: Annotated[
        Path | None, options.file("--log", "Write every list that is shown, with its chances.", "FOLDER")
    ] = None,
) -> Answer:
    """Serve a model over HTTP: predictions, lists, new users, health and metrics; /docs shows what can be asked.

    A model that is saved to the folder again is taken up within a second, without a request lost; one that is broken is
    refused, and the old one goes on. Ctrl-C or SIGTERM ends it when the requests under way are answered.

    Example:
        unskew serve model --port 8000 --log shown
    """
    try:
        import uvicorn

        from unskew.serve.app import create_app
        from unskew.serve.limits import CONNECTIONS, SlowClientsAreCutOff
    except ImportError as error:
        raise ParameterError(f"`unskew serve` needs {error.name}: pip install 'unskew[serve]'.") from None
    from unskew.serve.live import Live
    from unskew.serve.shown import ShownLog

    live = Live(model)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except (OSError, UnicodeError):
        raise ParameterError(f"{host}:{port} cannot be listened on: choose another --port or --host.") from None
    shown = None if log is None else ShownLog(log)
    config = uvicorn.Config(
        create_app(live, shown), host=host, port=port, http=SlowClientsAreCutOff, ws="none", log_level="warning",
        limit_concurrency=CONNECTIONS, timeout_keep_alive=15, timeout_graceful_shutdown=10,
    )  # fmt: skip
    where = f"http://{host}:{listening.getsockname()[1]}"
    say(f"serving {model} at {where}; {where}/docs shows what can be asked")
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises what has ended it once more, for these
        signal.signal(number, lambda *_: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lists, once for each: no client reads them
        uvicorn.Server(config).run(sockets=[listening])
    return Answer("stopped", {"address": where, "model": live.current.name, "rows": 0 if shown is None else shown.rows})
